//! Endpoints under every algorithm, and stage by stage beside message by message.

use crate::common::prelude::*;
use antiphon_base::error::Error;
use antiphon_model::system::Endpoint;
use antiphon_model::topology::Topology;
use antiphon_plan::algorithm::{ALL, build};
use antiphon_sim::rails::scheduler::Themis;
use antiphon_sim::rails::{Chunks, Policy, RailsTask};

/// What is proven finishes at every endpoint and fidelity, and none is much faster than the ideal one: an engine serves every
/// link by itself, where other ranks go through their steps.
#[test]
fn every_algorithm_ends_at_every_endpoint() {
    let fabrics = [
        ("torus:2x3@50/100ns", 60_000),
        ("ace:2x2x2", 60_000),
        ("mesh:3x3", 90_000),
        ("torus:2x4@50/100ns", 60_000),
        ("switch:6", 40_000),
        ("ace:2x3x2", 60_000),
    ];
    for &(fabric, bytes) in &fabrics[..sweep(2, 6)] {
        let fabric = Fabric::parse(fabric).unwrap();
        for algorithm in ALL {
            for &kind in algorithm.info().collectives {
                let outcomes = |endpoint: &str| {
                    let mut system = System::preset("generic").unwrap();
                    system.set("endpoint", endpoint).unwrap();
                    let schedule = build(&fabric, &system, Collective::new(kind), bytes, algorithm.info().name)?;
                    let time = |&(_, fidelity): &(&str, Fidelity)| {
                        let result = simulate(&fabric, &schedule, &system, fidelity);
                        result.map(|result| result.time_ps).map_err(|error| error.at(format_args!("{fidelity:?}")))
                    };
                    Fidelity::ALL.iter().map(time).collect::<Result<Vec<_>, _>>()
                };
                let ideal = match outcomes("ideal") {
                    Err(error) if error.code == Code::NotApplicable => continue,
                    ideal => ideal.unwrap(),
                };
                for endpoint in ["npu", "ace", "ace:sram=128KiB,fsms=1"] {
                    let what = format!("{} {} {} {endpoint}", fabric.name, algorithm.info().name, kind.name());
                    let times = outcomes(endpoint).unwrap_or_else(|error| panic!("{what}: {error}"));
                    let least = times.iter().zip(&ideal).all(|(time, ideal)| time * 100 >= ideal * 70);
                    assert!(least, "{what}: {times:?} ps, ideal {ideal:?}");
                }
            }
        }
    }
}

/// Of one plan chunks are the same at every endpoint, and the oldest goes first: so the ideal one is not beaten, and more of an
/// engine is not slower. Where messages go over several links these serve what comes first, and that there is less of it,
/// or that ranks on the way choose, can be faster.
#[test]
fn an_ideal_endpoint_is_not_beaten() {
    let fabrics =
        ["mesh:2x3,slow=0-1:0.3", "switch:6", "mesh:4x4,slow=0-1:0.3", "fc:8", "ring:6", "mesh:4x4", "torus:4x4"];
    for fabric in &fabrics[..sweep(2, 7)] {
        let fabric = Fabric::parse(fabric).unwrap();
        for algorithm in ALL {
            for &kind in algorithm.info().collectives {
                let planned = System::preset("ideal").unwrap();
                let outcomes = |endpoint: &str| {
                    let mut system = planned.clone();
                    system.set("endpoint", endpoint).unwrap();
                    let schedule = build(&fabric, &planned, Collective::new(kind), 2 << 20, algorithm.info().name)?;
                    let is_near = schedule.transfers.iter().all(|transfer| transfer.route.len() <= 1);
                    let time = |fidelity| simulate(&fabric, &schedule, &system, fidelity);
                    let times = [time(Fidelity::AlphaBeta)?, time(Fidelity::Packet)?];
                    Ok::<_, Error>((times.map(|result| result.time_ps as f64), is_near))
                };
                let (ideal, is_near) = match outcomes("ideal") {
                    Err(error) if error.code == Code::NotApplicable => continue,
                    ideal => ideal.unwrap(),
                };
                let least = if is_near { 0.97 } else { 0.75 };
                let others = ["npu", "ace", "ace:fsms=64,sram=64MiB"].map(|of| outcomes(of).unwrap().0);
                for (at, fidelity) in [Fidelity::AlphaBeta, Fidelity::Packet].into_iter().enumerate() {
                    let check = |faster: &str, slower: &str, time: f64, than: f64| {
                        let name = algorithm.info().name;
                        let what = format!("{} {name} {} {fidelity:?}: {slower}", fabric.name, kind.name());
                        assert!(time >= least * than, "{what} {than} ps, {faster} {time}");
                    };
                    let [npu, ace, more] = others.map(|times| times[at]);
                    check("npu", "ideal", npu, ideal[at]);
                    check("ace", "ideal", ace, ideal[at]);
                    check("a small engine", "a large one", ace, more);
                }
            }
        }
    }
}

/// Message by message an engine has no phases to be divided among.
#[test]
fn an_engine_is_divided_stage_by_stage_only() {
    let fabric = Fabric::parse("ring:4").unwrap();
    let outcome = |endpoint: &str| {
        let mut system = System::preset("ideal").unwrap();
        system.set("endpoint", endpoint).unwrap();
        let schedule = build(&fabric, &system, Collective::new(Kind::AllReduce), 1 << 16, "ring").unwrap();
        simulate(&fabric, &schedule, &system, Fidelity::Packet)
    };
    for option in ["fsm_split=equal", "sram_split=paper"] {
        let error = outcome(&format!("ace:{option}")).unwrap_err();
        let (name, _) = option.split_once('=').unwrap();
        assert_eq!(error.code, Code::BadSpec);
        let what = format!("endpoint ace: {name} divides an engine on rails only, stage by stage; leave it out here");
        assert_eq!(error.message, what);
    }
    assert_eq!(outcome("ace").unwrap().time_ps, outcome("ace:fsm_split=need,sram_split=need").unwrap().time_ps);
}

const STAGED: [&str; 6] = ["ace:4x2x2", "ace:2x2x2", "ace:3x2x2", "ace:4x3x1", "ace:4x5x1", "ace:4x3x3"];
const ENDPOINTS: [&str; 5] = [
    "ideal:packet=1MB",
    "npu:message=1MB",
    "npu:memory_gb_per_s=128,sms=2,message=1MB",
    "ace:packet=1MB",
    "ace:packet=1MB,memory_gb_per_s=32",
];

/// An AllReduce in four phases (ACE, ISCA 2021, section V): one NPU that stands for all, and every message of all, with
/// what a message forwards as a whole. A link's last flit is no longer than what is sent: whole ones of 256 bytes take up to
/// 12 % longer where a chunk is divided by three or five.
fn stages_and_messages(specs: &[&str], endpoints: &[&str]) {
    let bytes = 16 << 20;
    for &spec in specs {
        let fabric = Fabric::parse(spec).unwrap();
        for &endpoint in endpoints {
            let task = RailsTask {
                topology: Topology::parse(spec).unwrap(),
                kind: Kind::AllReduce,
                bytes,
                policy: Policy::Phased,
                queue: None,
                chunks: Chunks::Endpoint,
                sharing: 1,
                offload: false,
                themis: Themis::default(),
                packets: None,
                seed: 0,
                endpoint: Endpoint::parse(endpoint).unwrap(),
            };
            let stages = task.run().unwrap().2.time_ps as f64;
            let mut system = System::preset("ideal").unwrap();
            system.set("endpoint", endpoint).unwrap();
            system.set("flit_bytes", "1").unwrap();
            let hierarchical = format!("hierarchical:chunks={},slices=1,scheduler=phased", bytes >> 16);
            let schedule = build(&fabric, &system, Collective::new(Kind::AllReduce), bytes, &hierarchical).unwrap();
            let messages = simulate(&fabric, &schedule, &system, Fidelity::Packet).unwrap().time_ps as f64;
            let apart = (messages / stages - 1.0).abs();
            assert!(apart < 0.015, "{spec}, {endpoint}: {messages} and {stages}");
        }
    }
}

#[test]
fn stages_and_messages_agree() {
    stages_and_messages(sweep(&STAGED[1..4], &STAGED), &ENDPOINTS);
    stages_and_messages(&STAGED[4..5], &ENDPOINTS[3..4]);
}

/// Flights on disjoint ranks end as if alone, whatever order they are launched in: a unit waits for none with which it
/// shares no rank.
#[test]
fn engines_of_other_ranks_do_not_wait() {
    let fabric = Fabric::parse("mesh:4x4").unwrap();
    let groups: [Vec<u32>; 3] = [(0..4).collect(), (4..8).collect(), (12..16).collect()];
    for endpoint in ["ideal", "npu", "ace", "ace:fsms=1", "ace:sram=256KiB"] {
        let mut system = System::preset("ideal").unwrap();
        system.set("endpoint", endpoint).unwrap();
        let schedules: Vec<Proven> = (0..6)
            .map(|number| {
                let view = fabric.group(&groups[number % 3]).unwrap().fabric;
                let all_reduce = Collective::new(Kind::AllReduce);
                prove(&view, build(&view, &system, all_reduce, 1 << (18 + number), "combs").unwrap()).unwrap()
            })
            .collect();
        let spans = |numbers: &[usize]| -> Vec<u64> {
            let flights: Vec<Flight> = numbers.iter().map(|&number| Flight::new(&schedules[number])).collect();
            let run = |fidelity| {
                simulate_flights(&fabric, &flights, Order::Fifo, &system, fidelity, RunOptions::default(), &mut |_| {
                    true
                })
                .unwrap()
            };
            [Fidelity::AlphaBeta, Fidelity::Packet]
                .into_iter()
                .flat_map(|fidelity| run(fidelity).flights.iter().map(|row| row.finish_ps).collect::<Vec<_>>())
                .collect()
        };
        let all = spans(&[0, 1, 2, 3, 4, 5]);
        for group in 0..3 {
            let alone = spans(&[group, group + 3]);
            assert_eq!(
                alone,
                [all[group], all[group + 3], all[group + 6], all[group + 9]],
                "{endpoint}, group {group}"
            );
        }
    }
}
