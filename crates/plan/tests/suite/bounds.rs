//! Bounds against everything that can be built: no schedule is faster than its bound, no bound falls when a link breaks
//! or slows down, on random fabrics; and bounds of schedules that place ranks elsewhere or leave some out.

use crate::builds::{degraded_preset, random_fabric};
use crate::common::prelude::*;
use antiphon_bound::{Bound, busiest_ps, schedule_ps};
use antiphon_model::fabric::Router;
use antiphon_model::schedule::Builder;
use proptest::test_runner::TestRunner;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{RngCore, SeedableRng};

fn systems() -> [System; 3] {
    ["generic", "ideal", "tto"].map(|name| System::preset(name).unwrap())
}

fn time(fabric: &Fabric, schedule: &Schedule, system: &System, fidelity: Fidelity) -> u64 {
    verify(fabric, schedule).unwrap();
    simulate(fabric, schedule, system, fidelity).unwrap().time_ps
}

fn all_reduce(fabric: &Fabric, system: &System, bytes: u64) -> Bound {
    lower_bound(fabric, system, Collective::new(Kind::AllReduce), bytes, None).unwrap()
}

/// Ranks that share a node need no link; ranks elsewhere have other distances.
#[test]
fn bounds_know_the_placement() {
    let system = System::preset("ideal").unwrap();
    // Four ranks on each of the first nodes.
    let build = |fabric: &Fabric| {
        let collective = Collective::new(Kind::AllReduce);
        let mut schedule = algorithm::build(fabric, &system, collective, 33_333, "dbtree").unwrap();
        let mut router = Router::new(fabric);
        schedule.placement = (0..schedule.ranks).map(|rank| rank / 4).collect();
        schedule.transfers.iter_mut().for_each(|t| t.route = router.route(t.from / 4, t.to / 4).into());
        schedule
    };
    let together = Fabric::parse("mesh:2x2").unwrap();
    let bound = of_schedule(&together, &system, &build(&together), None).unwrap();
    assert_eq!((bound.time_ps, bound.cut_ps, bound.volume_ps, bound.strength_ps), (0, 0, 0, Some(0)));
    // The first two of eight routers have four ranks each, and one link.
    let line = Fabric::parse("mesh:8").unwrap();
    let schedule = build(&line);
    let bound = of_schedule(&line, &system, &schedule, None).unwrap();
    assert_eq!(bound.time_ps, all_reduce(&Fabric::parse("mesh:2").unwrap(), &system, 33_333).time_ps);
    assert!(bound.time_ps <= time(&line, &schedule, &system, Fidelity::Packet));
}

#[test]
fn bounds_know_who_takes_part() {
    for (spec, bytes) in [("mesh:2x2", 64 << 20), ("mesh:2x5", 64 << 20), ("mesh:8x8", 1 << 30)] {
        let (fabric, system) = (Fabric::parse(spec).unwrap(), System::preset("tto").unwrap());
        let schedule = algorithm::build(&fabric, &system, Collective::new(Kind::AllReduce), bytes, "tto").unwrap();
        let (bound, all) =
            (of_schedule(&fabric, &system, &schedule, None).unwrap(), all_reduce(&fabric, &system, bytes));
        assert!(bound.time_ps < all.time_ps, "{spec}");
        assert!(bound.time_ps <= time(&fabric, &schedule, &system, Fidelity::Packet), "{spec}");
    }
    let fabric = Fabric::parse("mesh:2x2").unwrap();
    let mut schedule = Builder::new("none", &fabric, Collective { kind: Kind::Reduce, root: 1 }, 64).schedule;
    // Nothing is launched for no transfers.
    assert_eq!(schedule_ps(&fabric, &System::preset("h100-nccl").unwrap(), &schedule, None), 0);
    for excluded in [vec![0, 1, 2, 3], vec![1, 1]] {
        schedule.excluded = excluded;
        assert_eq!(of_schedule(&fabric, &systems()[0], &schedule, None).unwrap_err().code, Code::BadFile);
    }
    (schedule.excluded, schedule.placement) = (vec![], vec![0, 0, 0, 9]);
    assert_eq!(of_schedule(&fabric, &systems()[0], &schedule, None).unwrap_err().code, Code::BadFile);
}

/// A rank that is left out may add: around one, every link carries the data once a direction, 1.75 times less than
/// through a switch.
#[test]
fn ranks_that_are_left_out_may_add() {
    let links = (1..9).flat_map(|rank| [Link::new(0, rank, ""), Link::new(rank, 0, "")]).collect();
    let nodes = (0..9).map(|rank| Node::rank(rank, [])).collect();
    let fabric = Fabric::new("star", Shape::Graph, nodes, links).unwrap();
    let system = System::preset("ideal").unwrap();
    let mut builder = Builder::new("hub", &fabric, Collective::new(Kind::AllReduce), 64 << 20);
    builder.schedule.excluded = vec![0];
    let lane = builder.block((0, 64 << 20), 0);
    let lane = &mut builder.schedule.lanes[lane as usize];
    (lane.chunks, lane.chunk_bytes) = (1024, 64 << 10);
    for rank in 1..9 {
        builder.send(Op::Reduce, rank, 0, 0, 0).unwrap();
        builder.send(Op::Copy, 0, rank, 0, 1).unwrap();
    }
    let schedule = builder.finish().unwrap();
    let bound = of_schedule(&fabric, &system, &schedule, None).unwrap();
    let time = time(&fabric, &schedule, &system, Fidelity::Packet);
    assert!(bound.time_ps <= time && time < bound.time_ps + bound.time_ps / 100, "{time} {bound:?}");
}

/// Boxes of eight ranks on a switch, and a switch for the ranks of each number; rates in GB/s.
fn boxes(count: u32, inner: u64, outer: u64) -> Fabric {
    let mut nodes: Vec<Node> = (0..8 * count).map(|rank| Node::rank(rank, [])).collect();
    nodes.extend((0..count + 8).map(|id| Node::switch(format!("switch-{id}"), [])));
    let links = (0..8 * count).flat_map(|rank| {
        let ends = [(8 * count + rank / 8, inner), (9 * count + rank % 8, outer)];
        ends.into_iter().flat_map(move |(switch, rate)| {
            let mut link = Link::new(rank, switch, "");
            link.rate = Some(Rate::gb_per_s(rate));
            [link.clone(), link.reversed()]
        })
    });
    Fabric::new("boxes", Shape::Graph, nodes, links.collect()).unwrap()
}

/// AllReduce through switches that only forward: what packings of trees reach (ForestColl, 2024).
#[test]
fn boxes_of_gpus() {
    let system = System::preset("ideal").unwrap();
    for (fabric, seconds) in [(boxes(2, 300, 25), 30.0 / 5200.0), (boxes(4, 450, 50), 3.875e-3)] {
        let bound = all_reduce(&fabric, &system, 1_000_000_000);
        assert_eq!(bound.binding, "strength");
        let found = bound.time_ps as f64 * 1e-12;
        assert!((found / seconds - 1.0).abs() < 1e-8, "{found} {seconds}");
    }
}

/// The same fabric with links of any rate, latency and speed.
fn unlike(fabric: &Fabric, random: &mut Pcg64) -> Fabric {
    let mut below = |count: u64| (random.next_u64() % count) as usize;
    let mut links = fabric.links.clone();
    for link in &mut links {
        link.rate = [None, None, Some(10), Some(50), Some(300)][below(5)].map(Rate::gb_per_s);
        link.latency = [None, None, None, Some(700_000)][below(4)];
        link.speed_permille = [1000, 1000, 500, 333][below(4)];
    }
    Fabric::new("random", Shape::Graph, fabric.nodes.clone(), links).unwrap()
}

/// The same fabric with one random link broken, if it stays connected, or slower.
fn worse(fabric: &Fabric, random: &mut Pcg64) -> Option<Fabric> {
    let mut links = fabric.links.clone();
    let at = (random.next_u64() % links.len() as u64) as usize;
    match random.next_u64() % 2 {
        0 => drop(links.remove(at)),
        _ => links[at].speed_permille = links[at].speed_permille.div_ceil(3),
    }
    Fabric::new(format!("{}, link {at} broken or slow", fabric.name), Shape::Graph, fabric.nodes.clone(), links).ok()
}

/// What goes wrong on random fabrics, by cause.
#[derive(Default)]
struct Sweep {
    runs: u32,
    wrong: BTreeMap<&'static str, Vec<String>>,
}

impl Sweep {
    fn note(&mut self, cause: &'static str, what: String) {
        self.wrong.entry(cause).or_default().push(what);
    }

    /// Every algorithm and collective, at every fidelity, against the bounds of what its schedule does and of the schedule.
    fn run(&mut self, fabric: &Fabric, system: &System, bytes: u64, root: u32) {
        for kind in Kind::ALL {
            let collective = Collective { kind, root: if kind.rooted() { root } else { 0 } };
            for algorithm in algorithm::ALL {
                let name = algorithm.info().name;
                let title = format!("{name} {} {bytes} B {} on {}", kind.name(), system.name, fabric.name);
                let schedule = match algorithm::build(fabric, system, collective, bytes, name) {
                    Ok(schedule) => schedule,
                    Err(error) if [Code::NotApplicable, Code::BadSize].contains(&error.code) => continue,
                    Err(error) => {
                        self.note("refused build", format!("{title}: {error}"));
                        continue;
                    }
                };
                let proof = match verify(fabric, &schedule) {
                    Ok(proof) => proof,
                    Err(error) => {
                        self.note("refused proof", format!("{title}: {error}"));
                        continue;
                    }
                };
                for &(cause, fidelity) in Fidelity::ALL.iter().filter(|_| proof.complete) {
                    if fidelity == Fidelity::Flit && bytes > FLIT_BYTES {
                        continue;
                    }
                    self.runs += 1;
                    let bound = of_schedule(fabric, system, &schedule, Some(fidelity)).unwrap();
                    let own_ps = schedule_ps(fabric, system, &schedule, Some(fidelity));
                    if own_ps < busiest_ps(fabric, system, &schedule) {
                        self.note("below the busiest link", format!("{title}: {own_ps} ps"));
                    }
                    match simulate(fabric, &schedule, system, fidelity) {
                        Ok(result) if result.time_ps >= bound.time_ps.max(own_ps) => {}
                        Ok(result) => {
                            self.note(cause, format!("{title}: {} ps, schedule {own_ps}, {bound:?}", result.time_ps));
                        }
                        // Packets that fit into no buffer, or chunks into no engine, and too few channels.
                        Err(error) if [Code::BadSize, Code::Stalled].contains(&error.code) => {}
                        Err(error) => self.note("refused run", format!("{title}: {error}")),
                    }
                }
            }
        }
    }

    /// Bounds of all collectives on a fabric and on a worse one.
    fn degrade(&mut self, fabric: &Fabric, worse: &Fabric, system: &System, bytes: u64, root: u32) {
        for kind in Kind::ALL {
            let collective = Collective { kind, root: if kind.rooted() { root } else { 0 } };
            let [before, after] =
                [fabric, worse].map(|fabric| lower_bound(fabric, system, collective, bytes, None).unwrap());
            // Rates without a common denominator are rounded up, by one part in 2^43 of the fastest link: hardly a
            // picosecond here.
            if after.time_ps + 1 + (before.time_ps >> 34) < before.time_ps {
                self.note(
                    "bound falls",
                    format!("{} {bytes} B {} on {}: {before:?} {after:?}", kind.name(), system.name, worse.name),
                );
            }
        }
    }

    fn finish(&self) {
        let mut text = String::new();
        for (cause, cases) in &self.wrong {
            text += &format!("{cause}: {} of {} runs\n", cases.len(), self.runs);
            cases.iter().take(20).for_each(|case| text += &format!("  {case}\n"));
        }
        assert!(self.wrong.is_empty(), "{text}");
    }
}

/// Most data of runs in flits.
const FLIT_BYTES: u64 = 1 << 14;

/// A system with packets, networks and endpoints of any kind.
fn any_system(random: &mut Pcg64) -> System {
    let mut system = systems()[(random.next_u64() % 3) as usize].clone();
    for (key, values) in [
        ("link_switching", &["store-and-forward", "cut-through"][..]),
        ("endpoint", &["system", "system", "ideal", "npu", "ace"]),
        ("router_switching", &["wormhole", "cut-through"]),
        ("router_ejection", &["switched", "circuit"]),
        ("header_flits", &["0", "1", "3"]),
        ("fixed_size_packets", &["yes", "no"]),
        ("hand_off_ns", &["0", "12", "700"]),
        ("router_hand_off_ns", &["0", "3", "500"]),
        ("link_latency_ns", &["0", "0.3", "20"]),
        ("clock_ns", &["0", "0.7", "1"]),
    ] {
        if random.next_u64().is_multiple_of(2) {
            system.set(key, values[random.next_u64() as usize % values.len()]).unwrap();
        }
    }
    system
}

#[test]
fn random_fabrics_keep_their_bounds() {
    let (mut tried, mut runner) = (Sweep::default(), TestRunner::deterministic());
    for seed in 0..sweep(25, 1000) {
        let mut random = Pcg64::seed_from_u64(seed);
        let make = if seed % 3 == 0 { degraded_preset().boxed() } else { random_fabric().boxed() };
        let made = make.new_tree(&mut runner).unwrap().current();
        let mut fabric = if seed % 3 == 0 { made } else { unlike(&made, &mut random) };
        fabric.name = format!("{} (seed {seed})", fabric.name);
        // Half of them so small that latency is the limit.
        let bytes = 1 << (random.next_u64() % 21 / (1 + seed % 2));
        let bytes = bytes + random.next_u64() % bytes;
        let root = (random.next_u64() % fabric.ranks() as u64) as u32;
        let system = &any_system(&mut random);
        tried.run(&fabric, system, bytes, root);
        for _ in 0..4 {
            if let Some(worse) = worse(&fabric, &mut random) {
                tried.degrade(&fabric, &worse, system, bytes, root);
            }
        }
    }
    assert!(tried.runs > 0);
    tried.finish();
}

/// What steps in turn take is known without a run; of trees that fill links, what is before and after the busiest link too.
#[test]
fn bounds_of_schedules_are_near() {
    let system = System::preset("ideal").unwrap();
    for (spec, name, [least, most]) in NEAR {
        let (fabric, collective) = (Fabric::parse(spec).unwrap(), Collective::new(Kind::AllReduce));
        let schedule = algorithm::build(&fabric, &system, collective, 1 << 20, name).unwrap();
        let time = time(&fabric, &schedule, &system, Fidelity::Packet) as f64;
        let [own, busiest] = [schedule_ps(&fabric, &system, &schedule, None), busiest_ps(&fabric, &system, &schedule)]
            .map(|ps| ps as f64);
        assert!(own <= time && own >= least * time && busiest < most * time, "{spec} {name}: {time} {own} {busiest}");
    }
}

/// Fabric, algorithm, and least shares of the time: of the bound, and of the busiest link alone the most.
const NEAR: [(&str, &str, [f64; 2]); 6] = [
    ("ring:8", "ring", [1.0, 0.997]),
    ("ring:8", "ring-bi", [1.0, 0.993]),
    ("mesh:8x8", "nested-ring", [1.0, 0.49]),
    ("mesh:8x8", "ring-2d", [1.0, 0.54]),
    ("mesh:8x8", "tto", [0.96, 0.44]),
    ("mesh:8x8", "overlapped-tree", [0.92, 0.86]),
];

/// Endpoints and additions that take longer than links, on ranks and in switches.
#[test]
fn bounds_know_endpoints_and_additions() {
    let (mut tried, mut bound_by) = (Sweep::default(), BTreeMap::new());
    let fabrics = ["ring:4", "mesh:2x3", "fc:4", "switch:4", "switch:4,switches=in-tree", "switch:4,switches=on-read"];
    for (spec, changes) in fabrics.iter().flat_map(|spec| {
        let slow = ["reduce_rate_gb_per_s=0.7", "endpoint=npu:memory_gb_per_s=1", "endpoint=ace:memory_gb_per_s=1"];
        let others = [
            "endpoint=npu:memory_gb_per_s=100,bus_gb_per_s=1",
            "endpoint=ace:alu_gb_per_s=0.1",
            "endpoint=ace:bus_gb_per_s=1",
        ];
        slow.into_iter().chain(others).map(move |changes| (spec, changes))
    }) {
        let (fabric, mut system) = (Fabric::parse(spec).unwrap(), System::preset("ideal").unwrap());
        let (key, value) = changes.split_once('=').unwrap();
        system.set(key, value).unwrap();
        // No whole number of elements for each rank.
        for bytes in [36_860, 123_456] {
            tried.run(&fabric, &system, bytes, 1);
        }
        for kind in Kind::ALL {
            let bound = lower_bound(&fabric, &system, Collective::new(kind), 123_456, None).unwrap();
            *bound_by.entry(bound.binding).or_insert(0) += 1;
        }
    }
    assert!(bound_by["endpoint"] > 50 && bound_by["computation"] > 10, "{bound_by:?}");
    assert!(tried.runs > 1000);
    tried.finish();
}

/// Larger fabrics, where the worst cut of an AllToAll is looked for and not known.
#[test]
#[ignore = "a minute"]
fn bounds_of_larger_fabrics_do_not_fall() {
    let mut sweep = Sweep::default();
    for seed in 0..300 {
        let mut random = Pcg64::seed_from_u64(seed);
        let count = 17 + random.next_u64() % 48;
        let links = (0..count * 5 / 2).flat_map(|extra| {
            let (from, to) = if extra < count {
                (extra, random.next_u64() % extra.max(1))
            } else {
                (random.next_u64() % count, random.next_u64() % count)
            };
            let mut link = Link::new(from as u32, to as u32, "");
            link.rate = Some(Rate::gb_per_s([10, 25, 100][(random.next_u64() % 3) as usize]));
            if from == to { vec![] } else { vec![link.clone(), link.reversed()] }
        });
        let links = links.collect();
        let nodes = (0..count as u32).map(|rank| Node::rank(rank, [])).collect();
        let fabric = Fabric::new(format!("seed {seed}"), Shape::Graph, nodes, links).unwrap();
        for _ in 0..4 {
            if let Some(worse) = worse(&fabric, &mut random) {
                sweep.degrade(&fabric, &worse, &systems()[1], 1 << 20, 0);
            }
        }
    }
    sweep.finish();
}
