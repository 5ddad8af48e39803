//! Two levels, one truth: plans timed in stages; and lowered to messages, proven, executed on real numbers and
//! timed packet by packet on the expanded fabric.

use crate::common::prelude::*;
use antiphon_model::fabric::{Dimension, DimensionShape};
use antiphon_model::system::PacketFormat;
use antiphon_model::topology::Topology;
use antiphon_plan::algorithm::build;
use antiphon_sim::rails::scheduler::{Baseline, OrderSearch, Scheduler, Themis};
use antiphon_sim::rails::{Expansion, QueuePolicy, RailsPlan, RailsTimes, lower, prove_by_symmetry, run};

const KINDS: [Kind; 4] = [Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::AllToAll];

/// What the stage level does not have costs nothing here: packets have no header and are small beside the
/// messages, ranks hand over and add in no time.
fn system(payload_bytes: u64) -> System {
    System {
        name: "rails".into(),
        packet: PacketFormat { payload_bytes, flit_bytes: 256, header_flits: 0, fixed_size: false },
        hand_off_ps: 0,
        reduce_rate: None,
        ..System::preset("generic").unwrap()
    }
}

fn scheduled(topology: &Topology, kind: Kind, bytes: u64, chunks: u32, scheduler: &dyn Scheduler) -> RailsPlan {
    let mut plan = RailsPlan::uniform(topology, kind, bytes, chunks, false).unwrap();
    scheduler.schedule(topology, &mut plan);
    plan
}

fn proven(expansion: &Expansion, plan: &RailsPlan, run: &RailsTimes, slices: u32) -> Schedule {
    let schedule = lower(expansion, plan, run, slices).unwrap();
    let proof = verify(&expansion.fabric, &schedule).unwrap();
    assert!(proof.complete);
    schedule
}

/// Share by which the lowered plan takes longer than in stages, in percent.
fn excess(topology: &Topology, plan: &RailsPlan, queue: QueuePolicy, slices: u32) -> f64 {
    let payload = (plan.bytes >> 14).next_power_of_two().max(4096);
    let expansion = Expansion::new(topology).unwrap();
    let timed = run(topology, plan, queue, 1);
    let schedule = proven(&expansion, plan, &timed, slices);
    let result = simulate(&expansion.fabric, &schedule, &system(payload), Fidelity::Packet).unwrap();
    // What every dimension carries, counted where it leaves an NPU.
    let mut carried = vec![0; topology.dimensions.len()];
    for (link, row) in expansion.fabric.links.iter().zip(&result.links) {
        if u64::from(link.from) < topology.npus() {
            carried[link.dimension.parse::<usize>().unwrap() - 1] += row.bytes;
        }
    }
    for (bytes, sent) in carried.into_iter().zip(plan.bytes_sent(topology)) {
        let all = sent * topology.npus() as f64;
        assert!((bytes as f64 - all).abs() < 0.01, "{bytes} {all}");
    }
    100.0 * (result.time_ps as f64 / timed.time_ps as f64 - 1.0)
}

/// A topology and the fabric of the same name go through their dimensions in one order, the nearest first, however they are written.
#[test]
fn one_order_of_dimensions() {
    for (spec, fabric) in [
        ("ace:4x4x4", "ace:4x4x4"),
        ("ace:2x4x3", "ace:2x4x3"),
        ("ring4@400/500ns,ring4@3200/90ns", "torus:4x4@25/500ns+200/90ns"),
        ("ring4@3200/90ns,ring4@400/500ns", "torus:4x4@25/500ns+200/90ns"),
    ] {
        let topology = Topology::parse(spec).unwrap();
        let plan = scheduled(&topology, Kind::AllReduce, 64 << 20, 32, &Baseline);
        let stages = run(&topology, &plan, QueuePolicy::Fifo, 1).time_ps as f64;
        let (fabric, system) = (Fabric::parse(fabric).unwrap(), system(4096));
        let expansion = Expansion::of(&fabric, &system).unwrap();
        let rates: Vec<_> = expansion.topology.dimensions.iter().map(|each| each.npu_rate()).collect();
        assert!(rates.is_sorted_by(|near, far| near >= far), "{spec}: {rates:?}");
        let spec = "hierarchical:scheduler=baseline,chunks=32";
        let schedule = build(&fabric, &system, Collective::new(Kind::AllReduce), 64 << 20, spec).unwrap();
        let time = simulate(&fabric, &schedule, &system, Fidelity::Packet).unwrap().time_ps as f64;
        println!("{}: {time} {stages}", fabric.name);
        assert!((time / stages - 1.0).abs() < 0.03, "{}: {time} {stages}", fabric.name);
    }
}

/// By hand: NPUs of a package share every link of their line, so a part of its rate is theirs; the other hops are inside.
#[test]
fn packages_have_dimensions_inside_and_between() {
    use DimensionShape::{Clique, Line, Ring};
    let system = system(4096);
    for (spec, dimensions) in [
        (
            "packages:1x3:of=2x2@100/20ns+25/90ns",
            &[(Clique, 2, 100_000, 20), (Clique, 2, 100_000, 20), (Line, 3, 12_500, 110)][..],
        ),
        ("packages:2x1:of=3x1:torus@60/1ns+12/5ns", &[(Line, 3, 60_000, 1), (Ring, 2, 8_000, 7)]),
    ] {
        let expansion = Expansion::in_packages(&Fabric::parse(spec).unwrap(), &system).unwrap().unwrap();
        let of =
            |along: &Dimension| (along.shape, along.size, along.npu_rate().0 / 1_000_000, along.npu_latency() / 1000);
        assert_eq!(expansion.topology.dimensions.iter().map(of).collect::<Vec<_>>(), dimensions, "{spec}");
    }
    for spec in ["mesh:4x4", "packages:1x1:of=3x3", "packages:2x2:of=1x1", "wafer:5x5"] {
        assert_eq!(Expansion::in_packages(&Fabric::parse(spec).unwrap(), &system), Ok(None), "{spec}");
    }
}

/// Inside packages first, between them, and back: less on the slow links than along the lines of the whole mesh. Proven and
/// executed for every collective, of a file whose links name their dimensions too.
#[test]
fn packages_are_gone_through_from_inside() {
    let system = System::preset("generic").unwrap();
    let time = |fabric: &Fabric, kind: Kind| {
        let schedule = build(fabric, &system, Collective::new(kind), 1 << 20, "hierarchical").unwrap();
        assert!(verify(fabric, &schedule).unwrap().complete);
        check_by_execution(&schedule, Some(1)).unwrap();
        simulate(fabric, &schedule, &system, Fidelity::Packet).unwrap().time_ps
    };
    for spec in
        ["packages:2x3:of=2x2@100/20ns+25/90ns", "packages:2x2:of=2x1:torus@100/20ns+25/90ns", "packages:4:of=4@100+10"]
    {
        let fabric = Fabric::parse(spec).unwrap();
        let mut alone = fabric.clone();
        alone.nodes.iter_mut().for_each(|node| node.package = None);
        for kind in [Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather] {
            assert!(time(&fabric, kind) < time(&alone, kind), "{spec} {}", kind.name());
        }
        let mut named = fabric.clone();
        for link in &mut named.links {
            let [from, to] = [link.from, link.to].map(|node| fabric.nodes[node as usize].coords[0]);
            link.dimension = if from == to { "x".into() } else { "y".into() };
        }
        let read = Fabric::from_json("named", &named.to_json()).unwrap();
        assert_eq!(
            (&read.shape, time(&read, Kind::AllReduce)),
            (&Shape::Graph, time(&fabric, Kind::AllReduce)),
            "{spec}"
        );
    }
    // Two packages of two each way are cliques, in which an AllToAll goes.
    assert!(time(&Fabric::parse("packages:2x2:of=2x2@100+25").unwrap(), Kind::AllToAll) > 0);
}

const SCHEDULERS: [&str; 5] = ["baseline fifo", "themis fifo", "themis scf", "themis tail", "search tail"];

/// Excess of every scheduler, in that order.
fn excesses(spec: &str, kind: Kind, bytes: u64, chunks: u32, slices: u32) -> Vec<f64> {
    let topology = Topology::parse(spec).unwrap();
    let of = |name: &&str| {
        let (scheduler, queue) = name.split_once(' ').unwrap();
        let search = OrderSearch { stages: 100_000, ..OrderSearch::default() };
        let themis = Themis::default();
        let scheduler: &dyn Scheduler = match scheduler {
            "baseline" => &Baseline,
            "themis" => &themis,
            _ => &search,
        };
        let plan = scheduled(&topology, kind, bytes, chunks, scheduler);
        excess(&topology, &plan, QueuePolicy::parse(queue).unwrap(), slices)
    };
    SCHEDULERS.iter().map(of).collect()
}

/// With large chunks both levels agree, on all kinds of dimension, for every scheduler; also in bytes.
#[test]
fn both_levels_agree() {
    let topologies = [
        ("ring4@2000/20ns,sw4@800/700ns,fc2@400/700ns", 1 << 20),
        ("ring2@2000/20ns,sw4@1600/700ns,fc2@800/700ns,sw2@400/1700ns", 1 << 20),
        ("ring4@3000/20ns,fc4@1400/700ns,sw4@800/1700ns", 1 << 20),
        ("ring4@800/700ns,sw8@800/700ns", 1 << 20),
        ("fc4@800/700ns,ring8@800/700ns", 1 << 20),
        ("sw4@800/700ns,sw8@400/1700ns", 1 << 20),
        ("fc3@800/700ns,ring5@1000/700ns", 15 << 16),
    ];
    for (spec, unit) in topologies.into_iter().step_by(sweep(2, 1)) {
        for (kind, slices) in KINDS.into_iter().map(|kind| (kind, 1)).chain([(Kind::AllReduce, 2)]) {
            let found = excesses(spec, kind, unit << 10, 16, slices);
            println!("{spec} {} {slices}: {found:.2?}", kind.name());
            let most = if slices == 1 { 2.0 } else { 0.1 };
            assert!(found.iter().all(|excess| excess.abs() < most), "{spec} {} {slices}: {found:?}", kind.name());
        }
    }
}

/// With small chunks, links idle for the latency between steps; slices and other chunks fill some of it.
#[test]
fn small_chunks_show_latency_between_steps() {
    let cases = [
        ("ring4@800/700ns,sw8@800/700ns", [13.0, 2.0]),
        ("fc4@800/700ns,ring8@800/700ns", [25.0, 4.0]),
        ("ring4@2000/20ns,sw4@800/700ns,fc2@400/700ns", [10.0, 3.0]),
        ("ring2@2000/20ns,sw4@1600/700ns,fc2@800/700ns,sw2@400/1700ns", [9.0, 2.0]),
    ];
    for (spec, most) in &cases[..sweep(1, 4)] {
        for (slices, most) in [1, 4].into_iter().zip(*most) {
            let found = excesses(spec, Kind::AllReduce, 96 << 20, 64, slices);
            println!("{spec} {slices}: {found:.2?}");
            assert!(found.iter().all(|excess| (-1.0..most).contains(excess)), "{spec} {slices}: {found:?}");
        }
    }
}

/// A lowered plan is a schedule like any other.
#[test]
fn every_fidelity_times_it() {
    let topology = Topology::parse("ring4@200/20ns,sw2@200/20ns,fc2@200/20ns").unwrap();
    let expansion = Expansion::new(&topology).unwrap();
    let plan = scheduled(&topology, Kind::AllReduce, 1 << 20, 4, &Themis::default());
    let timed = run(&topology, &plan, QueuePolicy::Tail, 1);
    let schedule = proven(&expansion, &plan, &timed, 2);
    let system = System::preset("generic").unwrap();
    for &(_, fidelity) in Fidelity::ALL {
        let result = simulate(&expansion.fabric, &schedule, &system, fidelity).unwrap();
        let excess = 100.0 * (result.time_ps as f64 / timed.time_ps as f64 - 1.0);
        println!("{}: {excess:.1} %", fidelity.name());
        assert!((0.0..10.0).contains(&excess), "{}: {excess}", fidelity.name());
    }
    let json = schedule.to_json();
    assert_eq!(Schedule::from_json(&json, Some(&expansion.fabric)).unwrap(), schedule);
}

/// A plan of 1024 NPUs with few chunks is just small enough to be proven message by message too.
#[test]
fn a_thousand_npus_both_ways() {
    let topology = Topology::parse("3D-SW_SW_SW_hetero").unwrap();
    let plan = scheduled(&topology, Kind::AllReduce, 1 << 30, 4, &Themis::default());
    let timed = run(&topology, &plan, QueuePolicy::Smallest, 1);
    assert_eq!(prove_by_symmetry(&topology, &plan, &timed).unwrap().npus, 1024);
    let schedule = proven(&Expansion::new(&topology).unwrap(), &plan, &timed, 1);
    assert_eq!(schedule.transfers.len(), 4 * 2 * 1024 * 10);
}

#[test]
fn what_cannot_be_lowered() {
    let topology = Topology::parse("3D-SW_SW_SW_hetero").unwrap();
    let expansion = Expansion::new(&topology).unwrap();
    let refused = |expansion: &Expansion, plan: &RailsPlan, run: &RailsTimes, slices, code, part: &str| {
        let error = lower(expansion, plan, run, slices).unwrap_err();
        assert_eq!(error.code, code, "{error}");
        assert!(error.message.contains(part), "{error}");
    };
    let plan = scheduled(&topology, Kind::AllReduce, 1 << 30, 128, &Baseline);
    let timed = run(&topology, &plan, QueuePolicy::Fifo, 1);
    refused(&expansion, &plan, &timed, 1, Code::TooLarge, "prove by symmetry");
    refused(&expansion, &plan, &timed, 0, Code::BadSize, "0 slices");
    refused(&expansion, &plan, &timed, u32::MAX, Code::BadSize, "expected 1 to 64");
    let offload = RailsPlan { offload: true, ..plan.clone() };
    refused(&expansion, &offload, &timed, 1, Code::NotApplicable, "without offload");
    let small = Expansion::new(&Topology::parse("ring4@1000/20ns").unwrap()).unwrap();
    refused(&small, &plan, &timed, 1, Code::BadSpec, "chunk 0 uses dimension 2 of 1");
    let mut one = plan.clone();
    one.orders.truncate(1);
    refused(&expansion, &one, &timed, 1, Code::BadSpec, "which the plan does not have");
}

/// Small topologies with any orders, AllGather's apart from ReduceScatter's, and any queue.
fn cases() -> impl Strategy<Value = (Topology, RailsPlan, QueuePolicy)> {
    let dimension = prop::sample::select(vec!["ring2", "ring3", "ring4", "fc2", "fc3", "fc4", "sw2", "sw4"]);
    let dimensions = prop::collection::vec((dimension, 100u32..2000, 0u32..2000), 1..4);
    let queue = prop::sample::select(QueuePolicy::ALL.iter().map(|(_, queue)| *queue).collect::<Vec<_>>());
    let kind = prop::sample::select(KINDS.to_vec());
    (dimensions, kind, 1u32..5, queue, 20_000u64..200_000, prop::collection::vec(any::<u8>(), 64)).prop_map(
        |(dimensions, kind, chunks, queue, bytes, swaps)| {
            let spec: Vec<_> =
                dimensions.iter().map(|(kind, rate, latency)| format!("{kind}@{rate}/{latency}ns")).collect();
            let topology = Topology::parse(&spec.join(",")).unwrap();
            let mut plan = RailsPlan::uniform(&topology, kind, bytes, chunks, false).unwrap();
            let mut swaps = swaps.into_iter().map(|swap| usize::from(swap) % dimensions.len());
            for order in &mut plan.orders {
                for path in [&mut order.first, &mut order.gather] {
                    for _ in 0..3 {
                        path.as_mut_slice().swap(swaps.next().unwrap(), swaps.next().unwrap());
                    }
                }
            }
            (topology, plan, queue)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]

    /// Any order lowers to a schedule that is proven, both ways, and right on real numbers.
    #[test]
    fn any_orders_are_proven((topology, plan, queue) in cases(), slices in 1u32..4, seed: u64) {
        let expansion = Expansion::new(&topology).unwrap();
        let timed = run(&topology, &plan, queue, 1);
        prove_by_symmetry(&topology, &plan, &timed).unwrap();
        let schedule = proven(&expansion, &plan, &timed, slices);
        for seed in [None, Some(seed)] {
            check_by_execution(&schedule, seed).unwrap();
        }
        simulate(&expansion.fabric, &schedule, &system(4096), Fidelity::Packet).unwrap();
    }

    /// What one proof refuses, the other does too.
    #[test]
    fn broken_plans_are_refused_both_ways((topology, plan, queue) in cases(), how in 0..3, which: prop::sample::Index) {
        let (mut plan, dimensions) = (plan, topology.dimensions.len());
        let mut timed = run(&topology, &plan, queue, 1);
        match how {
            // A dimension twice, another never.
            0 if dimensions > 1 => {
                let order = which.index(plan.orders.len());
                let order = &mut plan.orders[order];
                let path = if plan.kind == Kind::AllGather { &mut order.gather } else { &mut order.first };
                path.as_mut_slice()[0] = path.as_slice()[1];
                timed = run(&topology, &plan, queue, 1);
            }
            // A stage never served.
            0 | 1 => {
                let number = which.index(dimensions);
                let span = which.index(timed.spans[number].len());
                timed.spans[number].remove(span);
            }
            // A stage before the one before it.
            _ => {
                let later = timed.spans.iter_mut().flatten().filter(|span| span.stage > 0);
                let mut later: Vec<_> = later.collect();
                prop_assume!(!later.is_empty());
                let span = which.index(later.len());
                let chunk = later[span].chunk;
                later[span].start_ps = 0;
                for other in timed.spans.iter_mut().flatten() {
                    other.start_ps += u64::from(other.start_ps > 0 || other.chunk == chunk && other.stage == 0);
                }
            }
        }
        prop_assert_eq!(prove_by_symmetry(&topology, &plan, &timed).unwrap_err().code, Code::NotProven);
        let expansion = Expansion::new(&topology).unwrap();
        let schedule = lower(&expansion, &plan, &timed, 1).unwrap();
        prop_assert_eq!(verify(&expansion.fabric, &schedule).unwrap_err().code, Code::NotProven);
    }
}
