//! Channels of rings and double trees: each enters the boxes elsewhere, so that all ways into them are used.

use crate::common::prelude::*;
use antiphon_plan::algorithm::build;

fn generic() -> System {
    System::preset("generic").unwrap()
}

/// A proven AllReduce.
fn proven(fabric: &Fabric, bytes: u64, spec: &str) -> Schedule {
    let schedule = build(fabric, &generic(), Collective::new(Kind::AllReduce), bytes, spec).unwrap();
    assert!(verify(fabric, &schedule).unwrap().complete, "{spec} on {}", fabric.name);
    schedule
}

/// Bus bandwidth of an AllReduce in GB/s.
fn bus(spec: &str, bytes: u64, algorithm: &str) -> f64 {
    let fabric = Fabric::parse(spec).unwrap();
    let result = simulate(&fabric, &proven(&fabric, bytes, algorithm), &generic(), Fidelity::Packet).unwrap();
    let ranks = fabric.ranks() as f64;
    2.0 * (ranks - 1.0) / ranks * bytes as f64 / (result.time_ps as f64 / 1e3)
}

/// One ring goes through one NIC of every box. Eight of 48 GB/s are 384 at most, and latencies cost 1.6 %.
#[test]
fn rings_use_all_ways_into_boxes() {
    assert!((bus("dgx-h100:2@370.8+48", 256 << 20, "ring") - 377.0).abs() < 1.5);
    for (spec, one, all) in [
        ("dgx-h100:3:raw", 48.0, 380.0),
        ("dgx-a100:2:raw", 24.0, 190.0),
        ("mi300x:2:raw", 48.0, 380.0),
        ("mi300x:3:raw", 48.0, 380.0),
        // Inside a box all rings share a cycle of links of 50 GB/s.
        ("mi250:2:raw", 15.0, 95.0),
    ] {
        let [single, default] = ["ring:channels=1", "ring"].map(|ring| bus(spec, 64 << 20, ring));
        assert!(single < 1.05 * one + 1.0 && default > 0.93 * all, "{spec}: {single} {default}");
    }
}

#[test]
fn trees_use_all_ways_into_boxes() {
    for spec in ["dgx-h100:2@370.8+48", "dgx-h100:4:raw", "dgx-a100:2:raw", "mi300x:2:raw"] {
        let [single, default] = ["dbtree:channels=1", "dbtree"].map(|trees| bus(spec, 64 << 20, trees));
        assert!(default > 2.4 * single, "{spec}: {single} {default}");
    }
}

/// As many channels as ways in and out, if parts of a shard fill some packets; one where there are no boxes.
#[test]
fn channels_by_default() {
    for (spec, bytes, channels) in [
        ("dgx-h100:2:raw", 64 << 20, 8),
        ("dgx-h100:3:raw", 64 << 20, 8),
        ("dgx-h100:2:raw,slow=0-18:0.5", 64 << 20, 8),
        ("dgx-h100:2:raw", 16 * 4096 * 8, 2),
        ("dgx-h100:2:raw", 1000, 1),
        ("mi250:2:raw", 64 << 20, 16),
        ("dgx-h100:1:raw", 64 << 20, 1),
        ("dgx1v", 64 << 20, 1),
        ("switch:8", 64 << 20, 1),
        ("switch:8,slow=0-8:0.5", 64 << 20, 1),
        ("mesh:4x4@100+25", 64 << 20, 1),
        ("mesh:4x4", 64 << 20, 1),
        ("mesh:3x3", 64 << 20, 1),
        // Boxes of unlike sizes.
        ("dgx-h100:2:raw,dead=3", 64 << 20, 1),
    ] {
        let fabric = Fabric::parse(spec).unwrap();
        let closed = if spec == "mesh:3x3" { 10 } else { fabric.ranks() };
        assert_eq!(proven(&fabric, bytes, "ring").lanes.len(), channels * closed, "{spec}");
        // Trees have a channel for every eight packets, not for four.
        let trees = if bytes < 1 << 20 { 1 } else { channels };
        assert_eq!(proven(&fabric, bytes, "dbtree").lanes.len(), 2 * trees, "{spec}");
    }
}

/// Any number can be asked for, anywhere.
#[test]
fn channels_that_are_asked_for() {
    for spec in [
        "mesh:3x3",
        "mesh:4x4",
        "dgx1v",
        "dgx-h100:2:raw",
        "dgx-a100:3:raw",
        "mi250:1:raw",
        "mi300x:5:raw",
        "mi250:3:raw",
    ] {
        let fabric = Fabric::parse(spec).unwrap();
        for channels in [1, 2, 5, 20] {
            for name in ["ring", "dbtree", "dbtree:routes=spread"] {
                let join = if name.contains(':') { ',' } else { ':' };
                proven(&fabric, 1 << 20, &format!("{name}{join}channels={channels}"));
            }
        }
    }
}

/// A ring goes one way round, unless the artifact's order is asked for.
#[test]
fn a_ring_goes_one_way_round() {
    for spec in ["ring:8", "mesh:4x4", "mesh:3x3", "dgx1v"] {
        let fabric = Fabric::parse(spec).unwrap();
        let hops = |spec: &str| -> BTreeSet<(u32, u32)> {
            proven(&fabric, 1 << 16, spec).transfers.iter().map(|transfer| (transfer.from, transfer.to)).collect()
        };
        let is_both_ways = |hops: &BTreeSet<(u32, u32)>| hops.iter().all(|&(from, to)| hops.contains(&(to, from)));
        let (on, back) = (hops("ring"), hops("ring:gather=back"));
        assert!(is_both_ways(&back) && back.len() > on.len(), "{spec}");
        // On an odd mesh the detour goes to and fro.
        let detours = if spec == "mesh:3x3" { 2 } else { 0 };
        assert_eq!(on.iter().filter(|(from, to)| on.contains(&(*to, *from))).count(), detours, "{spec}");
    }
}
