//! Every algorithm on every kind of fabric: it applies, is proven, moves real numbers correctly
//! and takes no less than the lower bound; or it refuses with its reason.

use crate::common::prelude::*;
use crate::common::random_fabric::random_fabric;

/// Most flits times links of what is timed in flits too: milliseconds.
const FLIT_HOPS: u64 = 40_000;

/// Builds, proves, executes and times one schedule; `None` if the algorithm refuses.
fn prove(fabric: &Fabric, system: &System, collective: Collective, bytes: u64, spec: &str) -> Option<Schedule> {
    let name = format!("{spec} {} {bytes} B on {}", collective.kind.name(), fabric.name);
    let schedule = match algorithm::build(fabric, system, collective, bytes, spec) {
        Ok(schedule) => schedule,
        Err(error) => {
            assert_eq!(error.code, Code::NotApplicable, "{name}: {error}");
            assert!(!error.message.is_empty() && !error.message.contains('\n'));
            return None;
        }
    };
    let proof = verify(fabric, &schedule).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(proof.complete, "{name}: {}", proof.gaps);
    for seed in [None, Some(1), Some(2)] {
        check_by_execution(&schedule, seed).unwrap_or_else(|error| panic!("{name}, seed {seed:?}: {error}"));
    }
    // A thread for every stream: few, since they take turns on a few cores.
    let streams = 2 * schedule.transfers.iter().map(|t| (t.from, t.to)).collect::<BTreeSet<_>>().len();
    if streams <= 64 && schedule.messages() < 2000 {
        check_by_threads(&schedule, Threads::Pausing(bytes)).unwrap_or_else(|error| panic!("{name}, threads: {error}"));
    }
    let time = |fidelity: Fidelity| {
        simulate(fabric, &schedule, system, fidelity)
            .unwrap_or_else(|error| panic!("{name}, {}: {error}", fidelity.name()))
    };
    let mut results = vec![time(Fidelity::AlphaBeta), time(Fidelity::Packet)];
    let flit_hops = results[0].flit_hops;
    if flit_hops <= FLIT_HOPS {
        results.push(time(Fidelity::Flit));
    }
    for result in &results {
        let bound = of_schedule(fabric, system, &schedule, Some(result.fidelity)).unwrap();
        assert!(result.time_ps >= bound.time_ps, "{name}: {:?} {} < {bound:?}", result.fidelity, result.time_ps);
        assert!(result.link_utilization_mean() <= 1.0 + 1e-9, "{name}");
        assert!(result.timeline.utilization.iter().all(|&u| (0.0..=1.0 + 1e-9).contains(&u)), "{name}");
        assert_eq!(result.last_chunk_ps, result.time_ps, "{name}");
        let sent: u64 = result.ranks.iter().map(|row| row.sent_bytes).sum();
        let received: u64 = result.ranks.iter().map(|row| row.received_bytes).sum();
        // What switches send and receive is in no row.
        assert!(sent == received || !schedule.switches.is_empty(), "{name}");
        // Ranks add one message at a time.
        assert!(result.ranks.iter().all(|row| row.reduce_ps <= row.finish_ps), "{name}: {:?}", result.fidelity);
        assert_eq!(result.flit_hops, flit_hops, "{name}");
        for (row, link) in result.links.iter().zip(&fabric.links) {
            // Parallel links may act as one channel of their summed rate.
            let parallel = fabric.links.iter().filter(|other| (other.from, other.to) == (link.from, link.to));
            let least = (row.packets as u128 * system.channel_ticks(parallel, 16) as u128) >> 16;
            let time_ps = result.time_ps;
            assert!(
                row.busy_ps as u128 >= least && row.busy_ps <= time_ps,
                "{name}, {:?}, {time_ps} ps, least {least} ps: {row:?}",
                result.fidelity
            );
        }
    }
    let json = schedule.to_json();
    assert_eq!(Schedule::from_json(&json, Some(fabric)).unwrap(), schedule, "{name}");
    Some(schedule)
}

fn systems() -> [System; 2] {
    ["generic", "tto"].map(|name| System::preset(name).unwrap())
}

fn names() -> impl Iterator<Item = &'static str> {
    algorithm::ALL.iter().map(|a| a.info().name)
}

/// Proves all algorithms on a fabric for all collectives; returns which apply to AllReduce.
fn prove_all(fabric: &Fabric, systems: &[System], bytes: u64) -> Vec<&'static str> {
    let mut applied = Vec::new();
    for system in systems {
        for kind in Kind::ALL {
            let root = if kind.rooted() { fabric.ranks() as u32 - 1 } else { 0 };
            for name in names() {
                let schedule = prove(fabric, system, Collective { kind, root }, bytes, name);
                if schedule.is_some() && kind == Kind::AllReduce && !applied.contains(&name) {
                    applied.push(name);
                }
            }
        }
    }
    applied
}

/// Which algorithms apply to AllReduce on a fabric.
fn built(fabric: &Fabric, systems: &[System], bytes: u64) -> Vec<&'static str> {
    let collective = Collective::new(Kind::AllReduce);
    let applies = |name: &&str| systems.iter().any(|of| algorithm::build(fabric, of, collective, bytes, name).is_ok());
    names().filter(applies).collect()
}

/// Algorithms that apply to AllReduce wherever there are routes.
pub const EVERYWHERE: [&str; 5] = ["dbtree", "multitree", "optimal", "overlapped-tree", "direct"];

/// What applies besides; on each `every`-th fabric all that is built is proven, too.
#[test]
fn which_algorithms_apply_where() {
    let (systems, every) = (&systems()[..sweep(1, 2)], sweep(2, 1));
    let expected = [
        ("mesh:4x4", "ring ring-bi ring-2d nested-ring tto combs forest halving-doubling hierarchical"),
        ("mesh:3x3", "ring ring-bi-odd ring-2d nested-ring tto combs forest hierarchical"),
        ("mesh:3x5", "ring ring-bi-odd ring-2d nested-ring tto combs forest hierarchical"),
        ("mesh:2x3", "ring ring-bi ring-2d nested-ring tto combs forest hierarchical"),
        ("mesh:5", "nested-ring combs forest hierarchical"),
        ("mesh:2x2x3", "ring ring-bi nested-ring combs forest hierarchical"),
        ("torus:3x3", "ring ring-bi ring-2d nested-ring tto combs forest hierarchical"),
        ("torus:2x3x2", "ring ring-bi nested-ring combs forest hierarchical"),
        ("ring:6", "ring ring-bi nested-ring combs forest hierarchical"),
        ("ring:2", "ring nested-ring combs forest halving-doubling hierarchical"),
        ("fc:5", "ring ring-bi nested-ring combs forest hierarchical"),
        ("fbfly:3x3", "ring ring-bi ring-2d nested-ring combs forest hierarchical"),
        ("hypercube:3", "ring ring-bi nested-ring combs forest halving-doubling hierarchical"),
        ("switch:8", "ring ring-bi nested-ring halving-doubling hierarchical"),
        ("switch:4,switches=in-tree", "ring ring-bi nested-ring halving-doubling hierarchical in-network"),
        ("bigraph:2x2", "ring ring-bi halving-doubling"),
        ("bigraph:3x2", "ring ring-bi"),
        ("dgx1v", "ring ring-bi forest halving-doubling"),
        ("dgx-a100:1", "ring ring-bi nested-ring halving-doubling hierarchical"),
        ("dgx-a100:2", "ring ring-bi halving-doubling"),
        ("dgx-h100:2", "ring ring-bi ring-2d nested-ring halving-doubling hierarchical in-network"),
        ("dgx-v100", "ring ring-bi forest halving-doubling"),
        ("h800:1", "ring ring-bi nested-ring halving-doubling hierarchical in-network"),
        ("dgx-h200:2:nics=2", "halving-doubling in-network"),
        ("dgx-b200:2:rails=leaf-spine,ratio=2", "halving-doubling in-network"),
        ("dgx-spark:triangle", "ring ring-bi nested-ring combs forest hierarchical"),
        ("dgx-spark:pair", "ring nested-ring combs forest halving-doubling hierarchical"),
        ("fat-tree:2x3:ratio=3", ""),
        ("fat-tree:4", "halving-doubling"),
        ("dragonfly:1,2,1", ""),
        ("slimfly:3:hosts=1", ""),
        ("jellyfish:6,4,1,1", ""),
        ("tt-galaxy", "ring ring-bi ring-2d nested-ring tto combs forest halving-doubling hierarchical"),
        ("hammingmesh:1x2x2x2", "halving-doubling"),
        (
            "packages:2x2:of=2x2@100/20ns+25/90ns",
            "ring ring-bi ring-2d nested-ring tto combs forest halving-doubling hierarchical",
        ),
        ("packages:1x3:of=2x1:torus", "ring ring-bi ring-2d nested-ring tto combs forest hierarchical"),
        ("packages:2:of=3@100+25", "nested-ring combs forest hierarchical"),
        ("wafer:4x4", "forest"),
        ("mesh:3x4,dead=random:2:1", "forest"),
        ("ub-mesh:2x2x2", "ring ring-bi nested-ring combs forest halving-doubling hierarchical"),
        ("fugaku:2x2x2", "ring ring-bi nested-ring combs forest halving-doubling hierarchical"),
        ("mi250:1", "ring ring-bi forest halving-doubling"),
        ("mi300x:1", "ring ring-bi nested-ring combs forest halving-doubling hierarchical"),
        ("mi300x:2", "ring ring-bi ring-2d nested-ring halving-doubling hierarchical"),
        ("tpu-v4:2x2x4", "ring ring-bi nested-ring combs forest halving-doubling hierarchical"),
        ("mesh:3x3,drop=4-5", "ring forest"),
        ("mesh:4x4,exclude=5", "forest"),
        ("mesh:3x4,exclude=3", "tto forest"),
        ("mesh:2x2,exclude=2", "ring tto forest"),
        ("mesh:4x4,dead=15", "forest"),
        ("mesh:4x4,slow=0-1:0.5", "ring ring-bi ring-2d nested-ring tto combs forest halving-doubling hierarchical"),
    ];
    for (at, (spec, expected)) in expected.into_iter().enumerate() {
        let fabric = Fabric::parse(spec).unwrap();
        // Few enough bytes for all fidelities, flits too.
        let (bytes, is_proven) = (20_000, at.is_multiple_of(every));
        let applied = if is_proven { prove_all(&fabric, systems, bytes) } else { built(&fabric, systems, bytes) };
        // Whether a search finds a cycle on an irregular fabric is not part of the contract.
        let (everywhere, mut others): (Vec<_>, Vec<_>) =
            applied.into_iter().partition(|name| EVERYWHERE.contains(name));
        let (irregular, mut expected) = (fabric.shape == Shape::Graph, expected.split_whitespace().collect::<Vec<_>>());
        for names in [&mut others, &mut expected] {
            names.retain(|name| !(irregular && name.starts_with("ring")));
        }
        assert_eq!((everywhere, others), (EVERYWHERE.to_vec(), expected), "{spec}");
    }
}

const ODD_SIZES: [u64; 9] = [1, 3, 4, 63, 64, 65, 1000, 4097, 100_001];

#[test]
fn odd_sizes_of_data() {
    let few: [(&str, &[u64]); 3] = [("mesh:3x3", &ODD_SIZES), ("mesh:4x4", &[3, 65]), ("bigraph:2x2", &[1, 63, 4097])];
    for (spec, sizes) in few {
        let fabric = Fabric::parse(spec).unwrap();
        for &bytes in sweep(sizes, &ODD_SIZES) {
            for (name, system) in names().flat_map(|n| systems().map(|s| (n, s))) {
                prove(&fabric, &system, Collective::new(Kind::AllReduce), bytes, name);
            }
        }
    }
}

#[test]
fn options_change_the_schedule_and_keep_the_proof() {
    let system = System::preset("tto").unwrap();
    let collective = Collective::new(Kind::AllReduce);
    let fabric = Fabric::parse("mesh:4x4").unwrap();
    for spec in [
        "tto:chunk=10kB,barrier=no",
        "tto:excluded=0",
        "tto:chunk=1B,excluded=15",
        "tto:third=breadth-first,excluded=3",
        "halving-doubling:mapping=linear",
    ] {
        assert!(prove(&fabric, &system, collective, 20_000, spec).is_some(), "{spec}");
    }
    for fabric in [
        "mesh:4x4",
        "mesh:4x6@50+25",
        "mesh:2x2",
        "torus:4x4",
        "aries:4x4,x0=0-1+2-3,off=1-5+2-6,y3=0-3",
        "aries:4x4,x0=0-2,off=2-6,then,x0=0-2,x1=1-3,off=2-6+1-5",
        "aries:4x4,then,x0=0-2,off=2-6,then,x1=1-3,off=1-5",
        "aries:8x8,x0=0-2+2-4+4-6,y7=1-3+5-7,off=2-10+4-12+15-14+31-30+47-46",
    ] {
        let fabric = Fabric::parse(fabric).unwrap();
        for (spec, kinds) in [
            ("multitree:concentration=2x2", &[Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather][..]),
            ("dbtree:routes=spread", &[Kind::AllReduce]),
            ("dbtree:issue=links,routes=spread,chunks=5,pair=xor", &[Kind::AllReduce]),
            ("nested-ring:levels=2", &[Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather]),
        ] {
            for &kind in kinds {
                let schedule = prove(&fabric, &system, Collective::new(kind), 20_000, spec);
                // One configuration for trees up and down.
                let changes = kind == Kind::AllReduce && fabric.name.matches("then").count() == 2;
                assert_eq!(
                    schedule.is_none(),
                    spec.starts_with("multitree") && changes,
                    "{spec} {} on {}",
                    kind.name(),
                    fabric.name
                );
            }
        }
    }
    let bigraph = Fabric::parse("bigraph:4x4").unwrap();
    let mapped = prove(&bigraph, &system, collective, 100_000, "halving-doubling").unwrap();
    assert!(mapped.conflict_free, "HDRM uses every link once a step");
    let linear = prove(&bigraph, &system, collective, 100_000, "halving-doubling:mapping=linear").unwrap();
    assert!(!linear.conflict_free);
    let broadcast = Collective { kind: Kind::Broadcast, root: 5 };
    assert!(prove(&fabric, &system, broadcast, 1 << 20, "multitree:chunk=100kB").is_some());
}

#[test]
fn shards_in_chunks_keep_the_proof() {
    for (spec, algorithm) in [
        ("mesh:4x4", "halving-doubling:chunk=10kB"),
        ("mesh:4x4", "direct:chunk=10kB"),
        ("bigraph:2x2", "halving-doubling:chunk=10kB"),
    ] {
        let fabric = Fabric::parse(spec).unwrap();
        for (system, kind) in systems()
            .into_iter()
            .flat_map(|s| [Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather].map(|kind| (s.clone(), kind)))
        {
            let schedule = prove(&fabric, &system, Collective::new(kind), 1_000_000, algorithm).unwrap();
            assert!(schedule.lanes.iter().all(|lane| lane.chunks > 3));
            assert_eq!(schedule.conflict_free, spec.starts_with("bigraph"));
        }
    }
}

#[test]
fn without_the_barrier_tto_is_faster() {
    let system = System::preset("tto").unwrap();
    let fabric = Fabric::parse("mesh:8x8").unwrap();
    let time = |spec| {
        let schedule = prove(&fabric, &system, Collective::new(Kind::AllReduce), 1 << 20, spec).unwrap();
        simulate(&fabric, &schedule, &system, Fidelity::Packet).unwrap().time_ps
    };
    assert!(time("tto:barrier=no") < time("tto"));
}

/// In one line, and before there is memory for what is too large: 4096 ranks of a ring would have 33 million transfers.
#[test]
fn what_cannot_be_built_is_refused() {
    use Code::{BadSize, BadSpec, NotApplicable, TooLarge, UnknownName};
    let system = System::preset("tto").unwrap();
    for (fabric, spec, code, part) in [
        ("mesh:4x4", "multitre", UnknownName, "did you mean 'multitree'"),
        ("mesh:4x4", "tto:chunks=1", UnknownName, "did you mean 'chunk'"),
        ("mesh:4x4", "ring-bi:x=1", UnknownName, "known: align"),
        ("mesh:4x4", "tto:chunk", BadSpec, "key=value"),
        ("mesh:4x4", "tto:chunk=0", BadSize, "must be positive"),
        ("mesh:4x4", "tto:chunk=1,chunk=2", BadSpec, "given twice"),
        ("mesh:4x4", "tto:excluded=5", BadSpec, "no corner"),
        ("mesh:4x4", "tto:excluded=99", BadSpec, "ranks are 0 to 15"),
        ("mesh:4x4", "tto:barrier=maybe", BadSpec, "yes or no"),
        ("mesh:4x4", "tto:third=bfs", BadSpec, "shells or breadth-first"),
        ("mesh:4x4,exclude=12", "tto:excluded=3", NotApplicable, "node 12, a corner, has no rank already"),
        ("mesh:4x4,dead=12", "tto", NotApplicable, "but for a corner of a mesh that only forwards"),
        ("mesh:4x4", "ring-bi-odd", NotApplicable, "use ring-bi"),
        ("mesh:4x4", "", UnknownName, "known:"),
        ("mesh:4x4", "forest:piece=1B", BadSpec, "a size from 4 B"),
        ("mesh:4x4", "combs:piece=3", BadSpec, "a size from 4 B"),
        ("mesh:4x4", "nested-ring:levels=5", NotApplicable, "it can be cut into 4 levels, not 5"),
        ("mesh:3x3", "dbtree:pair=xor", NotApplicable, "needs an even number of ranks, not 9"),
        ("dgx1v", "overlapped-tree:trees=3", BadSpec, "whole number from 1 to 2"),
        ("dgx1v", "overlapped-tree:overlap=maybe", BadSpec, "yes or no"),
        ("dgx1v", "overlapped-tree:mapping=nccl", BadSpec, "search or numbered"),
        ("dgx1v", "overlapped-tree:chunk=0", BadSize, "must be positive"),
        ("switch:4", "forest", NotApplicable, "without switches"),
        ("mi300x:2", "forest", NotApplicable, "without switches"),
        ("mesh:1x4,exclude=1", "forest", NotApplicable, "without switches"),
        ("fc:256", "forest", NotApplicable, "too many; at most 16384"),
        ("ring:4096", "multitree", TooLarge, "transfers"),
        ("ring:1024", "direct", TooLarge, "dependencies"),
        ("fc:600", "direct", TooLarge, "dependencies"),
        ("switch:4096", "ring", TooLarge, "4096 ranks has 33546240 transfers"),
        ("switch:4096", "direct", TooLarge, "4096 ranks has 33546240 transfers"),
        ("switch:4096", "ring-bi", TooLarge, "4096 ranks has 67092480 transfers"),
        // For a ring it is not too many.
        ("switch:1500", "ring-bi", TooLarge, "1500 ranks has 8994000 transfers"),
    ] {
        let network = Fabric::parse(fabric).unwrap();
        let error = algorithm::build(&network, &system, Collective::new(Kind::AllReduce), 1 << 20, spec).unwrap_err();
        assert_eq!(error.code, code, "{spec} on {fabric}: {error}");
        assert!(error.message.contains(part) && !error.message.contains('\n'), "{spec} on {fabric}: {error}");
    }
    let fabric = Fabric::parse("mesh:4x4").unwrap();
    let build = |collective, bytes| algorithm::build(&fabric, &system, collective, bytes, "direct").unwrap_err().code;
    assert_eq!(build(Collective::new(Kind::AllReduce), 0), BadSize);
    assert_eq!(build(Collective::new(Kind::AllReduce), u64::MAX), BadSize);
    assert_eq!(build(Collective { kind: Kind::Broadcast, root: 16 }, 1), BadSpec);
}

#[test]
fn the_schedule_does_not_grow_with_the_data() {
    let system = System::preset("tto").unwrap();
    let fabric = Fabric::parse("mesh:9x9").unwrap();
    for name in [
        "ring",
        "ring-bi-odd",
        "ring-2d",
        "nested-ring:levels=2",
        "dbtree",
        "multitree",
        "tto",
        "overlapped-tree:trees=2",
        "direct",
    ] {
        let size = |bytes| {
            let schedule = algorithm::build(&fabric, &system, Collective::new(Kind::AllReduce), bytes, name).unwrap();
            (schedule.lanes.len(), schedule.transfers.len())
        };
        assert_eq!(size(1 << 20), size(1 << 50), "{name}");
    }
}

proptest! {
    // A case is many schedules: 4 of them, or a share of the `PROPTEST_CASES` of longer sweeps.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 128, ..ProptestConfig::default() })]

    #[test]
    fn random_fabrics(fabric in random_fabric(), bytes in 1u64..50_000) {
        let applied = prove_all(&fabric, &systems(), bytes);
        prop_assert!(applied.contains(&"dbtree") && applied.contains(&"multitree") && applied.contains(&"direct"));
    }

    #[test]
    fn random_meshes(rows in 1u32..6, columns in 2u32..6, bytes in 1u64..100_000, kind in 0usize..3) {
        let kind = ["mesh", "torus", "fbfly"][kind];
        let fabric = Fabric::parse(&format!("{kind}:{rows}x{columns}")).unwrap();
        prove_all(&fabric, &systems(), bytes);
    }

    #[test]
    fn any_text_as_algorithm(spec in "(ring|tto|direct|dbtree|multitree|halving-doubling)?:?[a-z=,0-9.-]{0,20}") {
        let fabric = Fabric::parse("mesh:3x3").unwrap();
        for system in systems() {
            let _ = algorithm::build(&fabric, &system, Collective::new(Kind::AllReduce), 1000, &spec);
        }
    }
}

#[test]
fn chunks_are_not_empty() {
    let system = System::preset("generic").unwrap();
    let fabric = Fabric::parse("mesh:4x4").unwrap();
    for (spec, kind) in [("tto", Kind::AllReduce), ("overlapped-tree", Kind::AllReduce), ("multitree", Kind::Broadcast)]
    {
        for chunk in [1, 13, 50, 98_304] {
            let spec = format!("{spec}:chunk={chunk}");
            let schedule = algorithm::build(&fabric, &system, Collective::new(kind), 1 << 20, &spec).unwrap();
            for (id, lane) in schedule.lanes.iter().enumerate() {
                // The last one may be, where lanes differ by an element.
                let last = schedule.chunk_range(id as u32, lane.chunks.saturating_sub(2));
                assert!(!last.is_empty(), "{spec}: lane {id}");
            }
        }
    }
}

/// The physical limit (docs/explanation/combs.md): within 3 % of the bound at 128 MiB and 1 GiB, with no
/// chiplet left out, and never slower than TTO or a ring.
#[test]
fn combs_reach_the_bound() {
    let system = System::preset("tto").unwrap();
    let time = |fabric: &Fabric, bytes, name| packet_time(fabric, &system, bytes, name).unwrap();
    for (spec, ring, over_tto) in [
        ("mesh:4x4", "ring-bi", 1.06),
        ("mesh:5x5", "ring-bi-odd", 1.11),
        ("mesh:8x8", "ring-bi", 1.17),
        ("mesh:9x9", "ring-bi-odd", 1.18),
    ] {
        let fabric = Fabric::parse(spec).unwrap();
        for bytes in [64 << 10, 512 << 10, 4 << 20, 128 << 20, 1 << 30] {
            let combs = time(&fabric, bytes, "combs");
            let (tto, ring) = (time(&fabric, bytes, "tto"), time(&fabric, bytes, ring));
            assert!(combs <= tto && combs <= ring, "{spec}, {bytes} bytes: {combs}, tto {tto}, ring {ring}");
            assert!(bytes < 128 << 20 || tto as f64 >= over_tto * combs as f64, "{spec}, {bytes} bytes: {combs} {tto}");
        }
    }
    for spec in BOUND_MESHES.into_iter().chain(["mesh:16x16"]) {
        for bytes in [128 << 20, 1 << 30] {
            combs_reach(spec, bytes, Fidelity::Packet);
        }
    }
}

const BOUND_MESHES: [&str; 6] = ["mesh:4x4", "mesh:8x8", "mesh:9x9", "mesh:3x5", "mesh:4x8", "mesh:8x9"];

/// Combs use every link alike and take at most 3 % longer than the bound; no chiplet is left out.
fn combs_reach(spec: &str, bytes: u64, fidelity: Fidelity) {
    let (fabric, system, collective) =
        (Fabric::parse(spec).unwrap(), System::preset("tto").unwrap(), Collective::new(Kind::AllReduce));
    let schedule = algorithm::build(&fabric, &system, collective, bytes, "combs").unwrap();
    assert!(schedule.excluded.is_empty());
    let result = simulate(&fabric, &schedule, &system, fidelity).unwrap();
    let bound = lower_bound(&fabric, &system, collective, bytes, None).unwrap().time_ps;
    assert!(result.time_ps as f64 <= 1.03 * bound as f64, "{spec}, {bytes} bytes: {} {bound}", result.time_ps);
    // Up and down every tree: N - 1 links each way for its share of the bytes, padded to packets. For less data
    // some of the 127 combs of 8x9 are through sooner than all.
    let loads = || result.links.iter().map(|link| link.bytes);
    let (least, most) = (loads().min().unwrap(), loads().max().unwrap());
    assert!(least == most || spec == "mesh:8x9" && bytes < 1 << 30, "{spec}, {bytes} bytes: {least} to {most}");
    let share = 2 * u128::from(bytes) * (fabric.ranks() as u128 - 1) / fabric.links.len() as u128;
    assert!(u128::from(most) <= share + share / 100, "{spec}, {bytes} bytes: {most}, bound {share}");
}

#[test]
#[ignore = "five minutes"]
fn combs_reach_the_bound_in_flits() {
    for spec in BOUND_MESHES {
        for bytes in [128 << 20, 1 << 30] {
            combs_reach(spec, bytes, Fidelity::Flit);
        }
    }
    combs_reach("mesh:16x16", 128 << 20, Fidelity::Flit);
}

/// Time of a proven schedule in packets.
fn packet_time(fabric: &Fabric, system: &System, bytes: u64, name: &str) -> Option<u64> {
    let schedule = algorithm::build(fabric, system, Collective::new(Kind::AllReduce), bytes, name).ok()?;
    verify(fabric, &schedule).unwrap_or_else(|error| panic!("{name} on {}: {error}", fabric.name));
    Some(simulate(fabric, &schedule, system, Fidelity::Packet).unwrap().time_ps)
}

/// Both dimensions of boxes with rails are busy all the time: a switch or a clique inside, a switch a rail between.
#[test]
fn hierarchical_comes_near_the_bound_of_boxes_with_rails() {
    let (system, bytes) = (System::preset("generic").unwrap(), 64 << 20);
    for spec in ["dgx-h100:2,switches=plain", "mi300x:2"] {
        let fabric = Fabric::parse(spec).unwrap();
        let bound = lower_bound(&fabric, &system, Collective::new(Kind::AllReduce), bytes, None).unwrap();
        let time = packet_time(&fabric, &system, bytes, "hierarchical").unwrap();
        assert!(time as f64 <= 1.05 * bound.time_ps as f64, "{spec}: {time} {bound:?}");
    }
}

/// Chunks and slices are chosen by what they are estimated to take: more data never takes less time, and the baseline's orders
/// are never sooner through, however large packets are.
#[test]
fn hierarchical_suits_the_size_and_the_dimensions() {
    let kib = |system: &str, spec: &str, sizes: &[u64]| {
        let (system, fabric) = (System::preset(system).unwrap(), Fabric::parse(spec).unwrap());
        let mut before = 0;
        for bytes in sizes.iter().map(|size| size << 10) {
            let time = |name| packet_time(&fabric, &system, bytes, name).unwrap();
            let (own, baseline) = (time("hierarchical"), time("hierarchical:scheduler=baseline"));
            assert!(before < own && own <= baseline, "{spec} {bytes}: {before}, {own}, {baseline}");
            before = own;
        }
    };
    kib("generic", "dgx-h100:4@370.8+48", &[16 << 10, 24 << 10, 32 << 10, 48 << 10]);
    kib("ideal", "dgx-h100:4@370.8+48", &[16 << 10, 24 << 10, 32 << 10]);
    kib("ideal", "torus:4x4x4@200+25+25", &[8 << 10, 16 << 10]);
    kib("tto", "torus:4x4x4@25+25+200", &[4 << 10, 16 << 10]);
    kib("generic", "mesh:8x8", &[1, 8, 64, 1 << 10]);
}

/// On products of paths, rings and cliques, too (docs/explanation/combs.md), and forest on graphs without
/// structure or with failures: their limits, and schedules within 5 % of them.
#[test]
fn trees_reach_the_bound_of_any_symmetric_fabric() {
    let system = System::preset("tto").unwrap();
    let bytes = 128 << 20;
    for (spec, share, name) in [
        ("torus:4x4", 0.46875, "combs"),
        ("torus:8x8", 0.4922, "combs"),
        ("fbfly:4x4", 0.3125, "combs"),
        ("fbfly:8x8", 0.1406, "combs"),
        ("mesh:4x4x4", 0.4375, "combs"),
        ("mesh:2x3x4", 0.5, "combs"),
        ("torus:3x4", 11.0 / 24.0, "combs"),
        ("hypercube:4", 15.0 / 32.0, "combs"),
        ("mesh:8x8", 0.5625, "forest"),
        ("torus:4x4", 0.46875, "forest"),
        ("dgx1v", 0.29167, "forest"),
        ("mesh:4x4,drop=0-1", 1.0, "forest"),
        ("mesh:4x4,drop=5-6", 15.0 / 23.0, "forest"),
        ("mesh:4x4,dead=5,drop=9-10", 0.8, "forest"),
        ("mesh:5x5,dead=12", 23.0 / 36.0, "forest"),
        ("mesh:5x5,dead=6,dead=8,dead=16,dead=18", 20.0 / 24.0, "forest"),
        ("mesh:8x8,drop=27-28,drop=3-4", 63.0 / 110.0, "forest"),
        ("mesh:8x8,drop=27-28,drop=35-36,dead=9,dead=50", 0.75, "forest"),
        ("mesh:8x8,slow=0-1:0.5", 0.6613, "forest"),
    ] {
        let fabric = Fabric::parse(spec).unwrap();
        let bound = lower_bound(&fabric, &system, Collective::new(Kind::AllReduce), bytes, None).unwrap();
        // Of the data over the payload rate of a link.
        let found = bound.time_ps as f64 / (bytes as f64 / 8192.0 * 357_000.0);
        assert!((found / share - 1.0).abs() < 1e-3, "{spec}: {found}");
        let time = packet_time(&fabric, &system, bytes, name).unwrap();
        assert!(time as f64 <= 1.05 * bound.time_ps as f64, "{spec} {name}: {time} {bound:?}");
    }
}

/// A ring with tails, one link long and some slow or fast: pieces are chosen so that the long way does not hold up every round.
#[test]
fn forest_minds_long_links() {
    let ends = [(6, 5), (7, 6), (1, 6), (2, 7), (3, 2), (0, 3), (4, 5), (9, 4), (8, 7), (10, 3), (1, 10)];
    let nodes = (0..11).map(|rank| Node::rank(rank, [])).collect();
    let links = ends.into_iter().flat_map(|ends| {
        let mut link = Link::new(ends.0, ends.1, "x");
        match ends {
            (1, 6) => link.latency = Some(100_000_000),
            (2, 7) => (link.rate, link.speed_permille) = (Some(Rate::gb_per_s(50)), 333),
            (3, 2) => link.rate = Some(Rate::gb_per_s(50)),
            (8, 7) => link.rate = Some(Rate::gb_per_s(75)),
            (10, 3) => link.speed_permille = 500,
            _ => {}
        }
        [link.clone(), link.reversed()]
    });
    let fabric = Fabric::new("tails", Shape::Graph, nodes, links.collect()).unwrap();
    let system = System::preset("tto").unwrap();
    let bound = lower_bound(&fabric, &system, Collective::new(Kind::AllReduce), 37_000_000, None).unwrap().time_ps;
    let forest = packet_time(&fabric, &system, 37_000_000, "forest").unwrap();
    assert!(forest < 2 * bound, "{forest} {bound}");
}

/// Few low trees where latency dominates: nothing else is faster on a mesh, whatever the size, but for `optimal`, which may
/// take combs or other trees, and on `generic` for `hierarchical`, whose chunks fill each other's latency.
#[test]
fn small_messages_are_fastest_by_combs() {
    for (spec, system) in ["mesh:4x4", "mesh:5x5", "mesh:8x8", "mesh:9x9", "mesh:3x5", "mesh:4x8"]
        .into_iter()
        .flat_map(|spec| systems().map(|system| (spec, system)))
    {
        let fabric = Fabric::parse(spec).unwrap();
        for bytes in [64, 1 << 10, 8 << 10, 64 << 10] {
            let combs = packet_time(&fabric, &system, bytes, "combs").unwrap();
            for other in names().filter(|name| !["combs", "optimal"].contains(name)) {
                if (system.name.as_str(), other) == ("generic", "hierarchical") {
                    continue;
                }
                let time = packet_time(&fabric, &system, bytes, other);
                assert!(
                    time.is_none_or(|time| combs <= time),
                    "{spec} {} {bytes} {other}: {combs} {time:?}",
                    system.name
                );
            }
        }
    }
}
