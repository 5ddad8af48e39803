//! Switches that add and multicast: proven, executed, timed, and near the bound.

use antiphon_bound::{lower_bound, of_schedule};
use antiphon_model::collective::{Collective, Kind};
use antiphon_model::fabric::Fabric;
use antiphon_model::system::System;
use antiphon_plan::algorithm::build;
use antiphon_proof::prove;
use antiphon_run::check_by_execution;
use antiphon_sim::{Fidelity, simulate};

const KINDS: [Kind; 5] = [Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::Reduce, Kind::Broadcast];

#[test]
fn trees_over_switches_are_proven_and_near_the_bound() {
    let system = System::preset("ideal").unwrap();
    // The least share of the bound, in percent, of each collective at 64 MiB in packets.
    for (spec, shares) in [
        ("switch:8@100/100ns,switches=on-read", [98, 87, 87, 99, 99]),
        ("switch:8@100/100ns,switches=in-tree", [98, 99, 99, 99, 99]),
        ("switch:3@100/100ns,switches=on-read", [99, 99, 99, 49, 49]),
        ("dgx-h100:2:raw", [90, 83, 83, 97, 97]),
        ("dgx-h100:4:raw,switches=rail:in-tree", [88, 86, 86, 97, 97]),
        ("dgx-a100:2:raw,switches=ib:in-tree", [43, 28, 28, 38, 38]),
    ] {
        let fabric = Fabric::parse(spec).unwrap();
        for (kind, least) in KINDS.into_iter().zip(shares) {
            let collective = Collective::new(kind);
            let small = build(&fabric, &system, collective, 4096 * 3 + 4, "in-network").unwrap();
            for seed in [None, Some(1)] {
                check_by_execution(&small, seed).unwrap_or_else(|error| panic!("{spec} {kind:?}: {error}"));
            }
            let schedule = build(&fabric, &system, collective, 64 << 20, "in-network").unwrap();
            let bound = lower_bound(&fabric, &system, collective, 64 << 20, None).unwrap();
            let same = of_schedule(&fabric, &system, &schedule, None).unwrap();
            assert_eq!(bound.time_ps, same.time_ps);
            let proven = prove(&fabric, schedule).unwrap_or_else(|error| panic!("{spec} {kind:?}: {error}"));
            let time = |fidelity| simulate(&fabric, &proven, &system, fidelity, &mut |_| true).unwrap().time_ps;
            let times = [Fidelity::AlphaBeta, Fidelity::Packet].map(time);
            println!("{spec} {kind:?} {:?}", times.map(|t| bound.time_ps as f64 / t as f64));
            let share = 100 * bound.time_ps / times[1];
            assert!(
                times.into_iter().all(|time| time >= bound.time_ps) && share >= least,
                "{spec} {kind:?}: {share} %"
            );
        }
    }
}

/// Endpoints limit ranks, not switches: where ranks send half as much, they read less, too (ACE, Table II: endpoint or switch).
#[test]
fn endpoints_work_less_where_switches_add() {
    let mut system = System::preset("ideal").unwrap();
    let collective = Collective::new(Kind::AllReduce);
    for endpoint in ["ideal", "npu", "ace"] {
        system.set("endpoint", endpoint).unwrap();
        let time = |spec: &str, name: &str| {
            let fabric = Fabric::parse(spec).unwrap();
            let proven = prove(&fabric, build(&fabric, &system, collective, 16 << 20, name).unwrap()).unwrap();
            simulate(&fabric, &proven, &system, Fidelity::Packet, &mut |_| true).unwrap().time_ps
        };
        let plain = time("switch:16@100/500ns", "ring");
        for mode in ["in-tree", "on-read"] {
            let adding = time(&format!("switch:16@100/500ns,switches={mode}"), "in-network");
            assert!(5 * adding < 3 * plain, "{endpoint} {mode}: {adding} {plain}");
        }
    }
}
