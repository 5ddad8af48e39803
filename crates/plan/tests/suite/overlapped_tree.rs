//! The overlapped tree of C-Cube (HPCA 2023): steps, link conflicts, order of chunks, gain of the overlap.

use crate::common::prelude::*;
use antiphon_model::fabric::NodeId;
use antiphon_plan::closed_form::{Pipeline, height};

/// Pairs of GPUs with two NVLinks.
const DOUBLED: [(NodeId, NodeId); 8] = [(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)];

fn system(name: &str) -> System {
    System::preset(name).unwrap()
}

/// A schedule with these options, proven free of link conflicts.
fn build(fabric: &Fabric, system: &System, bytes: u64, options: &str) -> Schedule {
    let spec = format!("overlapped-tree:{options}");
    let collective = Collective::new(Kind::AllReduce);
    let schedule = algorithm::build(fabric, system, collective, bytes, spec.trim_end_matches(':')).unwrap();
    let proof = verify(fabric, &schedule).unwrap_or_else(|error| panic!("{spec} on {}: {error}", fabric.name));
    assert!(proof.complete && proof.conflict_free, "{spec} on {}", fabric.name);
    schedule
}

fn time_ps(fabric: &Fabric, system: &System, bytes: u64, options: &str, fidelity: Fidelity) -> u64 {
    let schedule = build(fabric, system, bytes, options);
    simulate(fabric, &schedule, system, fidelity).unwrap().time_ps
}

/// (parent, child) of every edge of a tree.
fn edges(schedule: &Schedule, tree: u32) -> BTreeSet<(u32, u32)> {
    let down = schedule.transfers.iter().filter(|t| t.op == Op::Copy && t.payload.first() == tree);
    down.map(|t| (t.from, t.to)).collect()
}

/// Fig. 5: four ranks, four chunks, 10 steps against 7.
#[test]
fn steps_and_times_of_figure_5() {
    let (fabric, dgx1) = (Fabric::parse("fc:4").unwrap(), system("dgx1"));
    for (overlap, steps) in [("no", 10), ("yes", 7)] {
        let options = format!("mapping=numbered,trees=1,chunk=64,overlap={overlap},pacing=stop-and-wait");
        assert_eq!(build(&fabric, &dgx1, 256, &options).stats(&fabric).steps, steps);
        for fidelity in [Fidelity::AlphaBeta, Fidelity::Packet] {
            // 64 bytes at 25 GB/s and 12.4 us a step.
            assert_eq!(time_ps(&fabric, &dgx1, 256, &options, fidelity), steps * (2_560 + 12_400_000));
        }
        // Links need not wait for what they have sent: latencies of the first chunk, sending times of the others.
        let pipelined = options.replace("stop-and-wait", "pipelined");
        let barriers = if overlap == "no" { 2 } else { 1 };
        let expected = 4 * (2_560 + 12_400_000) + barriers * 3 * 2_560;
        assert_eq!(time_ps(&fabric, &dgx1, 256, &pipelined, Fidelity::Packet), expected);
    }
}

/// Section IV-A: T1 is NCCL's tree, T2 every number XOR 1; detours 2-0-4 and 3-1-5.
#[test]
fn the_papers_pair_on_a_dgx1() {
    let fabric = Fabric::parse("dgx1v").unwrap();
    let schedule = build(&fabric, &system("dgx1"), 64 << 20, "mapping=numbered,trees=2");
    let first = [(0, 4), (4, 2), (4, 6), (2, 1), (2, 3), (6, 5), (6, 7)];
    assert_eq!(edges(&schedule, 0), BTreeSet::from(first));
    assert_eq!(edges(&schedule, 1), BTreeSet::from(first.map(|(parent, child)| (parent ^ 1, child ^ 1))));
    assert!(schedule.lanes.iter().all(|lane| lane.stride == 1));
    assert_eq!(schedule.stats(&fabric).copy_heights, [3, 3]);
    let detours: BTreeSet<Vec<NodeId>> = schedule
        .transfers
        .iter()
        .filter(|t| t.route.len() > 1)
        .map(|t| std::iter::once(t.from).chain(t.route.iter().map(|&link| fabric.link(link).to)).collect())
        .collect();
    assert_eq!(detours, BTreeSet::from([vec![2, 0, 4], vec![4, 0, 2], vec![3, 1, 5], vec![5, 1, 3]]));
}

/// A DGX-1 with two links only between some pairs, and a schedule of the whole one on it.
fn with_doubled(doubled: &[(NodeId, NodeId)], schedule: &Schedule) -> (Fabric, Schedule) {
    let whole = Fabric::parse("dgx1v").unwrap();
    let parallel = |fabric: &Fabric, from, to| -> Vec<u32> {
        fabric.out_links(from).iter().copied().filter(|&link| fabric.link(link).to == to).collect()
    };
    let mut seen = BTreeSet::new();
    let kept = |link: &&antiphon_model::fabric::Link| {
        let pair = (link.from.min(link.to), link.from.max(link.to));
        doubled.contains(&pair) || seen.insert((link.from, link.to))
    };
    let links = whole.links.iter().filter(kept).cloned().collect();
    let fabric = Fabric::new("dgx1v", whole.shape.clone(), whole.nodes.clone(), links).unwrap();
    let mut schedule = schedule.clone();
    for link in schedule.transfers.iter_mut().flat_map(|t| &mut t.route) {
        let (from, to) = (whole.link(*link).from, whole.link(*link).to);
        let index = parallel(&whole, from, to).iter().position(|other| other == link).unwrap();
        let left = parallel(&fabric, from, to);
        *link = left[index.min(left.len() - 1)];
    }
    (fabric, schedule)
}

/// Section IV-A: the trees share the links 2-3 and 6-7. Overlapped, each also shares one with itself: the link of its root
/// (0-4, 1-5) is part of its detour. With a barrier no link needs to be doubled.
#[test]
fn doubled_links_that_are_needed() {
    let whole = Fabric::parse("dgx1v").unwrap();
    let overlapped = build(&whole, &system("dgx1"), 64 << 20, "mapping=numbered,trees=2");
    let mut uses: BTreeMap<(NodeId, NodeId), Vec<u32>> = BTreeMap::new();
    for transfer in &overlapped.transfers {
        for &link in &transfer.route {
            uses.entry((whole.link(link).from, whole.link(link).to)).or_default().push(transfer.payload.first());
        }
    }
    let both = |pairs: &[(NodeId, NodeId)]| -> Vec<(NodeId, NodeId)> {
        let directions: BTreeSet<_> = pairs.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
        directions.into_iter().collect()
    };
    let shared = |wanted: fn(&Vec<u32>) -> bool| -> Vec<(NodeId, NodeId)> {
        uses.iter().filter(|(_, trees)| wanted(trees)).map(|(&pair, _)| pair).collect()
    };
    assert!(uses.values().all(|trees| trees.len() <= 2));
    assert_eq!(shared(|trees| trees.len() == 2 && trees[0] != trees[1]), both(&[(2, 3), (6, 7)]));
    assert_eq!(shared(|trees| trees.len() == 2 && trees[0] == trees[1]), both(&[(0, 4), (1, 5)]));

    let without = |singles: &[(NodeId, NodeId)]| -> Vec<(NodeId, NodeId)> {
        DOUBLED.into_iter().filter(|pair| !singles.contains(pair)).collect()
    };
    let needed = [(0, 4), (1, 5), (2, 3), (6, 7)];
    for singles in needed.map(|pair| vec![pair]).into_iter().chain([vec![(2, 3), (6, 7)], DOUBLED.to_vec()]) {
        let (fabric, moved) = with_doubled(&without(&singles), &overlapped);
        let error = verify(&fabric, &moved).unwrap_err();
        assert_eq!(error.code, Code::NotProven);
        let named = |&(a, b): &(NodeId, NodeId)| {
            [(a, b), (b, a)].iter().any(|(a, b)| error.message.contains(&format!("(node {a} to {b}) carries two")))
        };
        assert!(singles.iter().any(named), "{singles:?}: {error}");
    }
    let (fabric, moved) = with_doubled(&needed, &overlapped);
    verify(&fabric, &moved).unwrap();
    let barrier = build(&whole, &system("dgx1"), 64 << 20, "mapping=numbered,trees=2,overlap=no");
    let (fabric, moved) = with_doubled(&[], &barrier);
    verify(&fabric, &moved).unwrap();
}

/// The mapper finds pairs that share no link; on a DGX-1 of height 2, one less than the paper's.
#[test]
fn pairs_without_a_shared_link() {
    for (spec, expected) in [
        ("dgx1v", 2),
        ("torus:4x4", 4),
        ("torus:4x4x4", 6),
        ("hypercube:4", 4),
        ("hypercube:6", 6),
        ("fbfly:8x8", 2),
        ("fc:8", 2),
        ("fc:64", 2),
    ] {
        let fabric = Fabric::parse(spec).unwrap();
        let schedule = build(&fabric, &system("generic"), 64 << 20, "");
        let heights = [schedule.stats(&fabric).reduce_heights, schedule.stats(&fabric).copy_heights].concat();
        assert_eq!(schedule.lanes.len(), 2, "{spec}");
        assert!(schedule.lanes.iter().all(|lane| lane.stride == 1), "{spec}");
        assert_eq!(heights.iter().max(), Some(&expected), "{spec}: {heights:?}");
    }
    // 128 edges for 126: only the packing finds it.
    let torus = Fabric::parse("torus:8x8").unwrap();
    let schedule = build(&torus, &system("generic"), 64 << 20, "");
    assert_eq!((schedule.lanes.len(), schedule.lanes[0].stride), (2, 1));
    // 112 edges, and two spanning trees have 126.
    let mesh = Fabric::parse("mesh:8x8").unwrap();
    let schedule = build(&mesh, &system("generic"), 64 << 20, "");
    assert_eq!((schedule.lanes.len(), schedule.lanes[0].stride), (1, 1));
    assert_eq!(build(&mesh, &system("generic"), 64 << 20, "trees=2").lanes[0].stride, 2);
}

/// Section V-B: C1 is 75 % faster than B at 64 MB, with one latency fitted to that figure.
#[test]
fn gain_of_the_overlap_in_simulation() {
    let (fabric, dgx1) = (Fabric::parse("dgx1v").unwrap(), system("dgx1"));
    for (mib, expected) in [(64u64, 1.75), (128, 1.81), (256, 1.86)] {
        for fidelity in [Fidelity::AlphaBeta, Fidelity::Packet] {
            let time = |overlap| {
                let options = format!("mapping=numbered,trees=2,pacing=stop-and-wait,overlap={overlap}");
                time_ps(&fabric, &dgx1, mib << 20, &options, fidelity) as f64
            };
            let gain = time("no") / time("yes");
            assert!((gain - expected).abs() < 0.011, "{mib} MiB, {fidelity:?}: {gain}");
        }
    }
}

/// Observation 3: chunks are complete in order.
#[test]
fn chunks_are_complete_in_order() {
    for (spec, options) in
        [("dgx1v", ""), ("dgx1v", "mapping=numbered,overlap=no"), ("switch:6", ""), ("mesh:3x4", "mapping=numbered")]
    {
        let fabric = Fabric::parse(spec).unwrap();
        for (name, fidelity) in
            [("generic", Fidelity::AlphaBeta), ("generic", Fidelity::Packet), ("tto", Fidelity::Packet)]
        {
            let system = system(name);
            let schedule = build(&fabric, &system, 4 << 20, options);
            let result = simulate(&fabric, &schedule, &system, fidelity).unwrap();
            assert!(schedule.lanes[0].chunks > 3);
            for pair in result.chunks.windows(2).filter(|pair| pair[0].lane == pair[1].lane) {
                assert!(pair[0].complete_ps < pair[1].complete_ps, "{spec}:{options} {pair:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// 2 h + K - 1 steps, with a barrier 2 (h + K - 1), where no link is shared.
    #[test]
    fn steps_are_the_models(ranks in 2u32..40, bytes in 8u64..1 << 30, overlap in any::<bool>(), chunks in 1u64..60) {
        let fabric = Fabric::parse(&format!("fc:{ranks}")).unwrap();
        let pipeline = Pipeline::tree(height(ranks), overlap);
        let given = format!(",chunk={}", bytes.div_ceil(chunks));
        for chunk in ["", &given] {
            let options = format!("mapping=numbered,trees=1,overlap={}{chunk}", if overlap { "yes" } else { "no" });
            let schedule = build(&fabric, &system("dgx1"), bytes, &options);
            prop_assert_eq!(schedule.stats(&fabric).steps, pipeline.steps(schedule.lanes[0].chunks));
        }
    }

    /// Every way to place trees is proven, on any fabric.
    #[test]
    fn any_fabric_any_option(
        fabric in prop::sample::select(vec!["ring:5", "mesh:3x4", "switch:7", "bigraph:3x2", "mesh:4x4,exclude=5", "dgx1v,drop=0-4", "mesh:3x3,drop=0>1"]),
        trees in 1u32..3,
        overlap in prop::sample::select(vec!["yes", "no"]),
        mapping in prop::sample::select(vec!["search", "numbered"]),
        bytes in 1u64..1 << 20,
        chunk in 1u64..1 << 16,
    ) {
        let fabric = Fabric::parse(fabric).unwrap();
        let options = format!("trees={trees},overlap={overlap},mapping={mapping},chunk={chunk}");
        let schedule = build(&fabric, &system("generic"), bytes, &options);
        prop_assert_eq!(schedule.lanes.len(), trees as usize);
        antiphon_run::check_by_execution(&schedule, Some(bytes)).unwrap();
    }
}

/// Over a switch the busiest link of NCCL's pair has four messages a chunk, and is never idle.
#[test]
fn no_slot_of_a_switch_is_lost() {
    for ranks in [4, 8, 16, 64] {
        let fabric = Fabric::parse(&format!("switch:{ranks}")).unwrap();
        for (options, stride) in [
            ("trees=1,overlap=yes", 3),
            ("trees=2,overlap=yes", 4),
            ("trees=1,overlap=no", 2),
            ("trees=2,overlap=no", 2),
        ] {
            let schedule = build(&fabric, &system("generic"), 1 << 20, &format!("mapping=numbered,{options}"));
            assert_eq!(schedule.lanes[0].stride, stride, "{ranks} ranks, {options}");
        }
    }
}

/// Two levels of switches: routes of two and of four links.
#[test]
fn two_levels_of_switches() {
    let (leaves, hosts) = (2, 8);
    let ranks = leaves * hosts;
    let mut nodes: Vec<Node> = (0..ranks).map(|rank| Node::rank(rank, [f64::from(rank)])).collect();
    nodes.extend((0..=leaves).map(|number| Node::switch(format!("switch-{number}"), [f64::from(number)])));
    let host_links = (0..ranks).map(|rank| Link::new(rank, ranks + rank / hosts, "leaf"));
    let spine_links =
        (0..leaves).flat_map(|leaf| (0..hosts).map(move |_| Link::new(ranks + leaf, ranks + leaves, "spine")));
    let links = host_links.chain(spine_links).flat_map(|link| [link.clone(), link.reversed()]).collect();
    let fabric = Fabric::new("leaf-spine", Shape::Graph, nodes, links).unwrap();
    for mapping in ["numbered", "search"] {
        for options in ["trees=1", "trees=2", "trees=1,overlap=no", "trees=2,overlap=no"] {
            build(&fabric, &system("dgx1"), 1 << 20, &format!("mapping={mapping},{options}"));
        }
    }
}

/// Times beyond 64-bit picoseconds, in the model that chooses trees, are no reason to find none.
#[test]
fn endless_times_are_compared() {
    let fabric = Fabric::parse("ring:4@0.000000001").unwrap();
    build(&fabric, &system("tto"), 37_000_000, "");
}

/// Where edges share links of a switch, queues may make the overlap slower: the default is never the worse of the two.
#[test]
fn the_default_is_the_better_of_overlap_and_barrier() {
    for (spec, bytes) in [
        ("dgx-h100:1", 64 << 20),
        ("switch:8", 1 << 20),
        ("switch:5", 64 << 10),
        ("dgx1v", 1 << 20),
        ("mesh:3x3", 1 << 20),
    ] {
        let fabric = Fabric::parse(spec).unwrap();
        for name in ["generic", "tto"] {
            let time = |options| time_ps(&fabric, &system(name), bytes, options, Fidelity::Packet);
            let (default, overlapped, phases) = (time(""), time("overlap=yes"), time("overlap=no"));
            assert_eq!(default, overlapped.min(phases), "{spec}, {name}");
        }
    }
}
