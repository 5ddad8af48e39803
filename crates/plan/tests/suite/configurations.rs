//! Fabrics that change between phases.

use crate::common::prelude::*;

const FIDELITIES: [Fidelity; 3] = [Fidelity::AlphaBeta, Fidelity::Packet, Fidelity::Flit];

/// Time of an AllReduce in picoseconds on 4x4 chiplets with these configurations.
fn time(items: &str, algorithm: &str, system: &System, fidelity: Fidelity) -> u64 {
    let fabric = Fabric::parse(&format!("aries:4x4,{items}")).unwrap();
    let schedule = algorithm::build(&fabric, system, Collective::new(Kind::AllReduce), 1 << 16, algorithm).unwrap();
    simulate(&fabric, &schedule, system, fidelity).unwrap().time_ps
}

/// A change takes its time once, at every fidelity and endpoint; what is the same is no change.
#[test]
fn a_change_takes_its_time() {
    for fidelity in FIDELITIES {
        for endpoint in ["system", "ideal", "npu", "ace"] {
            let mut system = System::preset("aries").unwrap();
            system.set("endpoint", endpoint).unwrap();
            let time = |items| time(items, "dbtree", &system, fidelity);
            let (at_once, later) = (time("x0=0-3,then,x0=0-2"), time("x0=0-3,then,x0=0-2,switch=1us"));
            assert_eq!(later - at_once, 1_000_000, "{fidelity:?} {endpoint}");
            assert_eq!(time("x0=0-3,then,x0=0-3,switch=1us"), time("x0=0-3"), "{fidelity:?} {endpoint}");
        }
    }
}

#[test]
fn schedules_that_change_the_fabric_run_alone() {
    let fabric = Fabric::parse("aries:4x4,x0=0-3,then,x0=0-2").unwrap();
    let system = System::preset("aries").unwrap();
    let schedule = algorithm::build(&fabric, &system, Collective::new(Kind::AllReduce), 4096, "dbtree").unwrap();
    let proven = prove(&fabric, schedule).unwrap();
    let flights = [Flight::new(&proven), Flight::new(&proven)];
    let error =
        simulate_flights(&fabric, &flights, Order::Fifo, &system, Fidelity::Packet, RunOptions::default(), &mut |_| {
            true
        })
        .unwrap_err();
    assert!(error.code == Code::NotApplicable && error.message.contains("runs alone"), "{error}");
}
