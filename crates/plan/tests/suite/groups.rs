//! Collectives on parts of fabrics, and on products of unlike dimensions: proven, executed, bounded, timed.

use crate::common::prelude::*;
use crate::common::random_fabric::random_fabric;
use antiphon_model::fabric::{Groups, NodeId, parse_group};
use antiphon_sim::rails::Expansion;
use antiphon_sim::rails::advise::advise;

fn system(name: &str) -> System {
    System::preset(name).unwrap()
}

/// Builds, proves, executes and times a schedule, and returns it with its times; `None` if the algorithm refuses.
fn done(fabric: &Fabric, kind: Kind, bytes: u64, spec: &str) -> Option<(Schedule, Vec<u64>)> {
    let system = system("generic");
    let schedule = match algorithm::build(fabric, &system, Collective::new(kind), bytes, spec) {
        Err(error) if error.code == Code::NotApplicable => return None,
        schedule => schedule.unwrap(),
    };
    assert_eq!(schedule.group, fabric.members().unwrap_or_default());
    assert!(verify(fabric, &schedule).unwrap().complete, "{spec} on {}", fabric.name);
    (0..2).for_each(|seed| check_by_execution(&schedule, Some(seed)).unwrap());
    let bound = of_schedule(fabric, &system, &schedule, None).unwrap();
    let time = |fidelity| simulate(fabric, &schedule, &system, fidelity).unwrap().time_ps;
    let times: Vec<u64> = Fidelity::ALL.iter().map(|&(_, fidelity)| time(fidelity)).collect();
    assert!(times.iter().all(|&time| time >= bound.time_ps && bound.time_ps > 0), "{spec} on {}", fabric.name);
    Some((schedule, times))
}

#[test]
fn every_row_of_a_mesh() {
    let mesh = Fabric::parse("mesh:8x8").unwrap();
    for (text, along) in [("rows", 1), ("columns", 8), ("dimension=1", 1)] {
        let groups = Groups::parse(&mesh, text).unwrap().groups;
        assert_eq!(groups.len(), 8);
        for group in groups {
            let row = mesh.group(&group).unwrap().fabric;
            assert!(group.windows(2).all(|pair| pair[1] == pair[0] + along));
            let line = Fabric::parse("mesh:8").unwrap();
            for spec in ["combs", "direct", "hierarchical"] {
                let (schedule, times) = done(&row, Kind::AllReduce, 50_000, spec).unwrap();
                let (alone, as_line) = done(&line, Kind::AllReduce, 50_000, spec).unwrap();
                assert_eq!((times, schedule.transfers.len()), (as_line, alone.transfers.len()), "{spec}");
            }
        }
    }
}

/// Algorithms that lay trees or routes on any graph, through the ranks outside too.
const OF_GRAPHS: [&str; 4] = ["multitree", "forest", "optimal", "overlapped-tree"];

/// The corner of a mesh is a mesh: algorithms for grids do there what they do on a mesh of its size, on the corner's links.
#[test]
fn a_corner_is_a_mesh() {
    let mesh = Fabric::parse("mesh:8x8").unwrap();
    let corner = mesh.group(&parse_group(&mesh, "0-3,8-11,16-19,24-27").unwrap()).unwrap().fabric;
    let small = Fabric::parse("mesh:4x4").unwrap();
    let mut applied = 0;
    for spec in algorithm::ALL.map(|algorithm| algorithm.info().name) {
        for kind in Kind::ALL {
            if OF_GRAPHS.contains(&spec) {
                done(&corner, kind, 40_000, spec);
                continue;
            }
            let (there, alone) = (done(&corner, kind, 40_000, spec), done(&small, kind, 40_000, spec));
            assert_eq!(there.is_some(), alone.is_some(), "{spec} {kind:?}");
            let (Some((schedule, times)), Some((_, expected))) = (there, alone) else { continue };
            assert_eq!(times, expected, "{spec} {kind:?}");
            let inside = |node: NodeId| node % 8 < 4 && node / 8 < 4;
            let links = schedule.transfers.iter().flat_map(|transfer| &transfer.route);
            assert!(links.map(|&link| mesh.link(link)).all(|link| inside(link.from) && inside(link.to)), "{spec}");
            applied += 1;
        }
    }
    assert!(applied > 15, "{applied}");
    assert!(done(&corner, Kind::AllReduce, 40_000, "combs").is_some());
}

#[test]
fn a_group_keeps_its_order_and_its_schedules_are_its_own() {
    let mesh = Fabric::parse("mesh:3x3").unwrap();
    let group = mesh.group(&[8, 0, 4]).unwrap().fabric;
    let (schedule, _) = done(&group, Kind::AllGather, 1200, "direct").unwrap();
    assert_eq!((schedule.group.as_slice(), schedule.ranks), (&[8, 0, 4][..], 3));
    assert_eq!(mesh.link(schedule.transfers[0].route[0]).from, [8, 0, 4][schedule.transfers[0].from as usize]);
    let error = verify(&mesh, &schedule).unwrap_err();
    assert!(error.message.contains("it is for ranks 8,0,4, not for all ranks of the fabric"), "{error}");
    let spec = Fabric::parse("mesh:3x3[8,0,4]").unwrap();
    assert_eq!(spec, group);
    assert_eq!(Schedule::from_json(&schedule.to_json(), Some(&spec)).unwrap(), schedule);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Ranks 0, 3 and 5 of random graphs, with and without switches.
    #[test]
    fn three_ranks_of_a_random_graph(fabric in random_fabric()) {
        prop_assume!(fabric.ranks() > 5);
        let group = fabric.group(&[0, 3, 5]).unwrap().fabric;
        let mut applied = 0;
        for spec in algorithm::ALL.map(|algorithm| algorithm.info().name) {
            applied += usize::from(done(&group, Kind::AllReduce, 3000, spec).is_some());
        }
        prop_assert!(applied >= 1, "direct does it anywhere");
    }
}

/// A torus with one fast dimension: the stages' bound, the links' bound, and what messages reach.
#[test]
fn hierarchical_comes_near_the_bound_of_any_order() {
    let (system, bytes) = (system("generic"), 1 << 30);
    for (spec, least) in [
        ("torus:4x4x4@200/90ns+25/500ns+25/500ns", 0.95),
        ("torus:4x4x4@25/90ns+25/500ns+200/500ns", 0.95),
        ("mesh:4x4@100+50", 0.93),
        ("fbfly:4x4@50+25", 0.95),
    ] {
        let fabric = Fabric::parse(spec).unwrap();
        let schedule =
            algorithm::build(&fabric, &system, Collective::new(Kind::AllReduce), bytes, "hierarchical").unwrap();
        assert!(verify(&fabric, &schedule).unwrap().complete);
        let time = simulate(&fabric, &schedule, &system, Fidelity::Packet).unwrap().time_ps;
        // Of payload: packets have a header.
        let expansion = Expansion::of(&fabric, &system).unwrap();
        let topology = &expansion.topology;
        let moved = 2.0 * bytes as f64 * (1.0 - 1.0 / topology.npus() as f64) * 65.0 / 64.0;
        let bound = moved / (topology.total_rate() as f64 * advise(topology).utilization_bound) * 1e12;
        let share = bound / time as f64;
        let links = of_schedule(&fabric, &system, &schedule, None).unwrap().time_ps as f64 / time as f64;
        println!(
            "{spec}: {share:.4} of the bound of orders, {links:.4} of that of links, {} transfers",
            schedule.transfers.len()
        );
        assert!((least..=1.0 + 1e-6).contains(&share), "{spec}: {share}");
    }
}

#[test]
fn hierarchical_on_every_kind_of_product() {
    for spec in [
        "mesh:3x4",
        "mesh:2x3x2",
        "torus:3x5",
        "torus:2x4",
        "ring:5",
        "fc:5",
        "fbfly:3x4",
        "hypercube:4",
        "switch:8",
        "mesh:1x4",
        "mesh:2x2,slow=0-1:0.5",
        "mesh:4x4[1,2,5,6]",
        "torus:4x4[0-3]",
    ] {
        let fabric = Fabric::parse(spec).unwrap();
        for kind in [Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::AllToAll] {
            let lines = spec.starts_with("mesh");
            let applied = done(&fabric, kind, 30_000, "hierarchical:chunks=3,slices=2").is_some();
            assert!(applied || (kind == Kind::AllToAll && lines), "{spec} {kind:?}");
        }
    }
    for spec in ["switch:6", "mesh:3x3,drop=0-1", "dgx1v"] {
        assert!(done(&Fabric::parse(spec).unwrap(), Kind::AllReduce, 3000, "hierarchical").is_none(), "{spec}");
    }
}
