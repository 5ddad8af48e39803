//! What a launch takes, and which protocol a run takes.

use crate::common::prelude::*;
use antiphon_sim::trial;

/// A launch is over before anything is sent, at every fidelity and endpoint, and where the fabric changes later.
#[test]
fn a_launch_takes_its_time_once() {
    for fabric in ["mesh:3x3", "aries:4x4,x0=0-3,then,x0=0-2,switch=1us"] {
        let fabric = Fabric::parse(fabric).unwrap();
        for (fidelity, endpoint) in [
            (Fidelity::AlphaBeta, "system"),
            (Fidelity::Packet, "npu"),
            (Fidelity::Packet, "ace"),
            (Fidelity::Flit, "system"),
        ] {
            let mut system = System { clock_ps: None, ..System::preset("tto").unwrap() };
            system.set("endpoint", endpoint).unwrap();
            let all_reduce = Collective::new(Kind::AllReduce);
            let schedule = algorithm::build(&fabric, &system, all_reduce, 1 << 20, "dbtree").unwrap();
            let time = |system: &System| {
                let result = simulate(&fabric, &schedule, system, fidelity).unwrap();
                assert_eq!(result.flights[0].start_ps, 0);
                result.time_ps
            };
            let at_once = time(&system);
            system.launch_ps = 5_000_000;
            assert_eq!(time(&system) - at_once, 5_000_000, "{} {fidelity:?} {endpoint}", fabric.name);
        }
    }
}

/// Short messages take the protocol of a short step, long ones that of the whole rate: each run is that of its protocol alone.
#[test]
fn a_run_takes_the_fastest_protocol() {
    let fabric = Fabric::parse("ring:4").unwrap();
    let mut system = System::default();
    system.set("protocols", "ll:1000:100:0.25+simple:2000:3000:1").unwrap();
    for (bytes, protocol) in [(1 << 10, "ll"), (1 << 20, "simple")] {
        let all_reduce = Collective::new(Kind::AllReduce);
        let schedule = algorithm::build(&fabric, &system, all_reduce, bytes, "ring").unwrap();
        let run = |system: &System, fidelity| simulate(&fabric, &schedule, system, fidelity).unwrap();
        for &(_, fidelity) in Fidelity::ALL {
            let best = run(&system, fidelity);
            assert_eq!(best.protocol.as_deref(), Some(protocol), "{bytes} {fidelity:?}");
            let alone = system.variants().iter().map(|system| run(system, fidelity)).min_by_key(|run| run.time_ps);
            assert_eq!(alone.as_ref(), Some(&best));
            let tried = trial::time(&fabric, &schedule, &system, fidelity, &mut |_| true).unwrap();
            assert_eq!(tried, best.time_ps);
        }
        let (time_ps, _) = trial::time_within(&fabric, &schedule, &system, u64::MAX, u64::MAX, &mut |_| true).unwrap();
        assert_eq!(time_ps, run(&system, Fidelity::Packet).time_ps);
    }
}
