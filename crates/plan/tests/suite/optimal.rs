//! The best mixture of trees or paths does every collective on any fabric: proven, executed, timed, bounded.

use crate::builds;
use crate::common::prelude::*;
use crate::common::within_bounds::{FIDELITIES, ends_within_bounds};
use antiphon_model::schedule::{Certificate, Lane};

/// Builds, proves, executes and times it.
fn done(fabric: &Fabric, system: &str, collective: Collective, bytes: u64) {
    let system = System::preset(system).unwrap();
    let name = || format!("{collective:?} of {bytes} B, {}, on {}: {:?}", system.name, fabric.name, fabric.links);
    let schedule = algorithm::build(fabric, &system, collective, bytes, "optimal")
        .unwrap_or_else(|error| panic!("{error}: {}", name()));
    let proof = verify(fabric, &schedule).unwrap_or_else(|error| panic!("{error}: {}", name()));
    assert!(proof.complete, "{}", name());
    for seed in [None, Some(1)] {
        check_by_execution(&schedule, seed).unwrap_or_else(|error| panic!("{error}: {}", name()));
    }
    let bound = of_schedule(fabric, &system, &schedule, None).unwrap();
    let certified =
        certified(fabric, &system, &schedule).unwrap_or_else(|error| panic!("{error}: {}", name())).unwrap();
    let rates = [bound.volume_ps, bound.cut_ps, bound.strength_ps.unwrap_or(0), bound.prices_ps.unwrap_or(0)];
    let rates = rates.into_iter().max().unwrap_or(0);
    let certified = certified.least_ps;
    assert!(certified <= rates + rates / 100_000 + 1, "{certified} {bound:?} {}", name());
    // Where shards are alike, as the mixture takes them to be.
    if bytes.is_multiple_of(4 * fabric.ranks() as u64) {
        assert!(certified + 1 >= rates - rates / 500, "{certified} {bound:?} {}", name());
    }
    // Flits of much data take long.
    let fidelities = if bytes < 1000 { &FIDELITIES[..] } else { &FIDELITIES[..2] };
    ends_within_bounds(fabric, &system, &schedule, fidelities, &name);
}

fn everything(fabric: &Fabric, system: &str, bytes: u64, root: u32) {
    for kind in Kind::ALL {
        done(fabric, system, Collective { kind, root: if kind.rooted() { root } else { 0 } }, bytes);
    }
}

#[test]
fn odd_sizes_on_degraded_and_switched_fabrics() {
    for spec in [
        "ring:2",
        "mesh:1x3",
        "switch:2",
        "mesh:3x3,slow=0-1:0.5,drop=4-5",
        "mesh:3x3,exclude=4",
        "mesh:3x3,drop=4>5",
        "bigraph:2x2",
        "mesh:2x4@50+25",
        "aries:4x4,x0=0-1+2-3,off=1-5+2-6,y3=0-3",
    ] {
        let fabric = Fabric::parse(spec).unwrap();
        for (system, bytes) in [("generic", 1), ("tto", 3), ("aries", 5), ("dgx1", 4097)] {
            everything(&fabric, system, bytes, fabric.ranks() as u32 - 1);
        }
    }
}

/// Ranks of a part of a fabric, over nodes that only forward.
#[test]
fn groups_of_ranks() {
    for spec in ["mesh:2x3", "ring:6", "dgx1v", "switch:5"] {
        let group = Fabric::parse(spec).unwrap().group(&[0, 2, 3]).unwrap().fabric;
        for bytes in [1, 30_000] {
            everything(&group, "generic", bytes, 2);
        }
    }
}

/// Whatever a link's latency and rate may be, slots do not overflow.
#[test]
fn slow_and_long_links() {
    for (latency, rate) in [(3_000_000_000, 50e9), (1_000_000_000_000_000, 50e9), (0, 10.0)] {
        let nodes = (0..5).map(|rank| Node::rank(rank, [])).collect();
        let links = (0..4u32).flat_map(|at| {
            let mut link = Link::new(at, at + 1, "x");
            (link.latency, link.rate) = (Some(latency), Some(Rate(rate as u64)));
            [link.clone(), link.reversed()]
        });
        let fabric = Fabric::new("long", Shape::Graph, nodes, links.collect()).unwrap();
        for bytes in [1, 65_536] {
            everything(&fabric, "ideal", bytes, 3);
        }
    }
}

/// Time of the busiest link, in parts per million of what `optimal` needs for 1 GiB.
fn share_ppm(fabric: &Fabric, collective: Collective) -> u64 {
    let system = System::preset("ideal").unwrap();
    let schedule = algorithm::build(fabric, &system, collective, 1 << 30, "optimal").unwrap();
    certified(fabric, &system, &schedule).unwrap().unwrap().share_ppm.into()
}

/// Equal trees of a root are as many as its least cut; rates that are small multiples of one are, too.
#[test]
fn trees_of_one_root_are_the_optimum() {
    for spec in [
        "torus:4x4x4",
        "mesh:5x5",
        "fbfly:4x4",
        "mesh:3x3@50+25",
        "dgx1v",
        "mesh:5x5,drop=3-4,dead=12",
        "mesh:4x4,slow=5-6:0.5,drop=1>2",
    ] {
        let fabric = Fabric::parse(spec).unwrap();
        for kind in [Kind::Broadcast, Kind::Reduce] {
            let share = share_ppm(&fabric, Collective { kind, root: 5 });
            assert!(share >= 999_500, "{kind:?} on {spec}: {share}");
        }
    }
}

/// Sums go up other trees than those down which copies come, where links differ by direction.
#[test]
fn all_reduce_over_links_that_differ_by_direction() {
    for spec in ["file:../../data/fabrics/dgx2x2.json", "mesh:2x4,slow=0>1:0.5,slow=6>2:0.5", "ring:6,drop=0>1"] {
        let share = share_ppm(&Fabric::parse(spec).unwrap(), Collective::new(Kind::AllReduce));
        println!("{spec} {share}");
        assert!(share >= 995_000, "{spec}: {share}");
    }
}

/// Prices prove more of these than cuts and partitions: that messages that cross twice pay twice.
#[test]
fn bounds_of_all_reduce_over_links_that_differ_by_direction() {
    let nodes = (0..4).map(|rank| Node::rank(rank, [])).collect();
    let both = [(0, 1, 200), (0, 2, 25), (0, 3, 325), (2, 1, 300), (2, 3, 175)];
    let both = both.into_iter().flat_map(|(from, to, rate)| [(from, to, rate), (to, from, rate)]);
    let link =
        |(from, to, rate): (u32, u32, u64)| Link { rate: Some(Rate(rate * 1_000_000_000)), ..Link::new(from, to, "x") };
    let links = both.chain([(3, 2, 75), (3, 0, 175)]).map(link).collect();
    let fabric = Fabric::new("one way", Shape::Graph, nodes, links).unwrap();
    let (system, collective) = (System::preset("ideal").unwrap(), Collective::new(Kind::AllReduce));
    let bound = lower_bound(&fabric, &system, collective, 1 << 30, None).unwrap();
    assert_eq!(bound.binding, "prices");
    assert!(bound.time_ps as f64 > 1.05 * bound.cut_ps.max(bound.strength_ps.unwrap()) as f64, "{bound:?}");
    assert!(share_ppm(&fabric, collective) >= 998_000);
    everything(&fabric, "generic", 4 << 16, 1);
}

/// What goes along one dimension of a product after the other has fewer steps, and is taken where it is sooner through.
#[test]
fn little_data_are_as_soon_through_as_dimension_by_dimension() {
    let system = System::preset("generic").unwrap();
    for (spec, kind) in
        [("torus:8x8", Kind::AllReduce), ("fbfly:4x4", Kind::AllToAll), ("torus:4x4x4", Kind::ReduceScatter)]
    {
        let fabric = Fabric::parse(spec).unwrap();
        let [own, rival] = ["optimal", "hierarchical"].map(|spec| {
            let schedule = algorithm::build(&fabric, &system, Collective::new(kind), 1 << 20, spec).unwrap();
            simulate(&fabric, &schedule, &system, Fidelity::Packet).unwrap().time_ps
        });
        assert!(own <= rival, "{kind:?} on {spec}: {own} {rival}");
        done(&fabric, "generic", Collective::new(kind), 1 << 20);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// With switches, links one way, parallel and slow ones.
    #[test]
    fn random_fabrics(
        fabric in builds::random_fabric(),
        bytes in prop_oneof![1u64..20, 1u64..5000, 1u64..1 << 20],
        system in prop::sample::select(vec!["generic", "tto", "dgx1", "aries"]),
        root in any::<prop::sample::Index>(),
    ) {
        everything(&fabric, system, bytes, root.index(fabric.ranks()) as u32);
    }
}

/// What claims more than it proves is refused: other prices, another schedule, another claim.
#[test]
fn certificates_that_were_tampered_with() {
    let (fabric, system) = (Fabric::parse("dgx1v").unwrap(), System::preset("ideal").unwrap());
    for kind in Kind::ALL {
        let schedule = algorithm::build(&fabric, &system, Collective::new(kind), 1 << 20, "optimal").unwrap();
        let good = schedule.certificate.clone().unwrap();
        let refused = |change: &dyn Fn(&mut Certificate)| {
            let mut other = schedule.clone();
            change(other.certificate.as_mut().unwrap());
            certified(&fabric, &system, &other).err().map(|error| error.message)
        };
        assert_eq!(refused(&|_| ()), None);
        assert!(refused(&|other| other.share_ppm += 2).unwrap().contains("it claims"), "{kind:?}");
        assert!(
            refused(&|other| other.prices.truncate(good.prices.len() / 2)).unwrap().contains("it claims"),
            "{kind:?}"
        );
        let cleared = |other: &mut Certificate| other.prices.clear();
        assert!(refused(&cleared).unwrap().contains("no link has a price"));
        assert!(refused(&|other| other.prices[0].0 = 99).unwrap().contains("link 99 of 48"));
        assert!(refused(&|other| other.prices[0].1 = 1 << 33).unwrap().contains("prices are 1 to"));
        // A schedule that does more than it must on some link.
        let mut worse = schedule.clone();
        worse.transfers.push(worse.transfers[0].clone());
        worse.transfers.push(worse.transfers[0].clone());
        assert_eq!(worse.certificate.as_ref(), Some(&good));
        let least = certified(&fabric, &system, &schedule).unwrap().unwrap();
        match certified(&fabric, &system, &worse) {
            Ok(found) => assert!(found.unwrap().share_ppm <= least.share_ppm),
            Err(error) => assert!(error.message.contains("it claims"), "{error}"),
        }
    }
}

/// Ranks with spare links do not run ahead of what others send over the same switches.
#[test]
fn packets_do_not_pile_up_behind_switches() {
    let slow_links = ["dgx-a100:1:raw,slow=8-4:0.2", "switch:8,slow=0-8:0.2", "switch:8,slow=0>8:0.3"];
    for (spec, least) in slow_links.map(|spec| (spec, 0.97)).into_iter().chain([("dgx-a100:2:raw", 0.98)]) {
        let (fabric, system) = (Fabric::parse(spec).unwrap(), System::preset("ideal").unwrap());
        let schedule = algorithm::build(&fabric, &system, Collective::new(Kind::Reduce), 1 << 30, "optimal").unwrap();
        let bound = of_schedule(&fabric, &system, &schedule, None).unwrap().time_ps as f64;
        let result = simulate(&fabric, &schedule, &system, Fidelity::Packet).unwrap();
        assert!(bound / result.time_ps as f64 > least, "{spec}: {}", bound / result.time_ps as f64);
    }
}

/// Nor do those to which nothing comes: credits give them the pace. A limited number of trees leaves none for that.
#[test]
fn leaves_of_a_reduction_wait_for_credits() {
    let rates = [50e9, 50e9, 100e9, 100e9, 50e9];
    let nodes = (0..5).map(|rank| Node::rank(rank, [])).chain([Node { rank: None, ..Node::rank(5, []) }]).collect();
    let links = (0..).zip(rates).flat_map(|(rank, rate)| {
        let link = Link { rate: Some(Rate(rate as u64)), ..Link::new(rank, 5, "x") };
        [link.clone(), link.reversed()]
    });
    let fabric = Fabric::new("star", Shape::Graph, nodes, links.collect()).unwrap();
    let system = System::preset("ideal").unwrap();
    let share = |spec: &str| {
        let schedule = algorithm::build(&fabric, &system, Collective::new(Kind::Reduce), 1 << 30, spec).unwrap();
        assert!(verify(&fabric, &schedule).unwrap().complete);
        let bound = of_schedule(&fabric, &system, &schedule, None).unwrap().time_ps as f64;
        bound / simulate(&fabric, &schedule, &system, Fidelity::Packet).unwrap().time_ps as f64
    };
    let [with, without] = ["optimal", "optimal:trees=9"].map(share);
    assert!(with > 0.98 && without < 0.9, "{with} {without}");
    everything(&fabric, "generic", 400_000, 2);
}

#[test]
fn bounds_are_the_published_optima() {
    use Kind::{AllGather, AllReduce, AllToAll};
    let (gb, mesh, torus) = (1e9, 8.0 * 16.0 * 1e9 / 64.0 / 25.0, 8.0 * 8.0 * 1e9 / 64.0 / 25.0);
    for (spec, kind, ns) in [
        // ForestColl: GB/s of the whole result, from which follows the time of 1 GB.
        ("file:../../data/fabrics/a100x1.json", AllGather, gb / (2400.0 / 7.0)),
        ("file:../../data/fabrics/a100x2.json", AllGather, gb / (1040.0 / 3.0)),
        ("file:../../data/fabrics/mi250x1.json", AllGather, gb / (2400.0 / 7.0)),
        ("file:../../data/fabrics/h100x2.json", AllGather, gb / (1600.0 / 3.0)),
        ("file:../../data/fabrics/h100x4.json", AllGather, gb / (16000.0 / 31.0)),
        // TE-CCL's DGX-2.
        ("file:../../data/fabrics/dgx2x2.json", AllGather, 7.75e6),
        ("file:../../data/fabrics/dgx2x2.json", AllToAll, 80.0e6),
        // The strength of graphs, with ranks at switches (Tutte; Nash-Williams, 1961).
        ("file:../../data/fabrics/a100x2.json", AllReduce, 75e6 / 13.0),
        ("file:../../data/fabrics/h100x4.json", AllReduce, 3.875e6),
        ("mesh:4x4@25,drop=5-6", AllReduce, 15.0 / 23.0 * gb / 25.0),
        ("dgx1v@25", AllToAll, 8.0 / 3.0 * gb / 8.0 / 25.0),
        ("mesh:4x4@25,drop=5-6", AllToAll, 64.0 / 3.0 * gb / 16.0 / 25.0),
        // Half of a line's ranks send to the other half over its middle.
        ("mesh:8x8@25", AllToAll, mesh),
        ("torus:8x8@25", AllToAll, torus),
    ] {
        let (fabric, system) = (Fabric::parse(spec).unwrap(), System::preset("ideal").unwrap());
        let bound = lower_bound(&fabric, &system, Collective::new(kind), 1_000_000_000, None).unwrap();
        assert!((bound.time_ps as f64 / 1e3 / ns - 1.0).abs() < 1e-6, "{kind:?} on {spec}: {bound:?}");
    }
}

#[test]
fn no_root_has_more_trees_than_it_may() {
    let system = System::preset("ideal").unwrap();
    for (spec, kind, trees) in
        [("dgx1v@25", Kind::AllReduce, 1), ("dgx1v@25", Kind::AllGather, 2), ("mi250:1:raw", Kind::ReduceScatter, 2)]
    {
        let (fabric, options) = (Fabric::parse(spec).unwrap(), format!("optimal:trees={trees}"));
        let schedule = algorithm::build(&fabric, &system, Collective::new(kind), 1 << 30, &options).unwrap();
        assert!(verify(&fabric, &schedule).unwrap().complete);
        for rank in 0..fabric.ranks() as u32 {
            let of = |lane: &&Lane| if kind == Kind::AllGather { lane.source == rank } else { lane.owner == rank };
            assert!(schedule.lanes.iter().filter(of).count() <= trees, "{kind:?} on {spec}");
        }
    }
    let fabric = Fabric::parse("dgx1v").unwrap();
    for (trees, kind) in [("0", Kind::AllGather), ("x", Kind::AllGather), ("2", Kind::AllToAll)] {
        let error =
            algorithm::build(&fabric, &system, Collective::new(kind), 1 << 20, &format!("optimal:trees={trees}"));
        assert!(error.unwrap_err().message.contains("trees"));
    }
}

#[test]
fn no_other_algorithm_is_sooner_through() {
    for (spec, kind, system, bytes, others) in [
        ("mesh:4x4", Kind::AllReduce, "tto", 128 << 10, vec!["combs"]),
        ("mesh:3x7", Kind::AllReduce, "tto", 1 << 20, vec!["combs", "forest"]),
        ("dgx1v", Kind::AllReduce, "tto", 64 << 20, vec!["forest"]),
        ("dgx1v", Kind::Reduce, "tto", 16 << 10, vec!["direct"]),
        ("switch:8", Kind::Broadcast, "tto", 16 << 10, vec!["multitree"]),
        ("dgx-h100:4:raw", Kind::Broadcast, "tto", 16 << 10, vec!["direct", "multitree"]),
        ("dgx-a100:1:raw", Kind::AllReduce, "generic", 1 << 20, vec!["multitree"]),
        ("mi250:1:raw", Kind::AllToAll, "generic", 16 << 10, vec!["direct"]),
    ] {
        let (fabric, system) = (Fabric::parse(spec).unwrap(), System::preset(system).unwrap());
        let time = |name: &str| {
            let schedule = algorithm::build(&fabric, &system, Collective::new(kind), bytes, name).unwrap();
            simulate(&fabric, &schedule, &system, Fidelity::Packet).unwrap().time_ps as f64
        };
        let own = time("optimal");
        others.into_iter().for_each(|other| assert!(own <= 1.005 * time(other), "{kind:?} on {spec}: {other}"));
    }
}

/// Ranks have a message for every other digit of their place; time is lost in the first and the last chunk.
#[test]
fn pods_go_in_stages() {
    for spec in ["dgx-h100:16:raw", "dgx-h100:18:raw"] {
        let (fabric, system) = (Fabric::parse(spec).unwrap(), System::preset("generic").unwrap());
        let schedule =
            algorithm::build(&fabric, &system, Collective::new(Kind::AllReduce), 1 << 30, "optimal").unwrap();
        assert!(schedule.transfers.len() < 50 * fabric.ranks(), "{spec}");
        let bound = of_schedule(&fabric, &system, &schedule, None).unwrap().time_ps as f64;
        let result = simulate(&fabric, &schedule, &system, Fidelity::Packet).unwrap();
        assert!(bound / result.time_ps as f64 > 0.97, "{spec}");
    }
}
