//! What a schedule says beyond adjacent lanes that wait for arrivals: lists of lanes, waits for what was sent, sums that
//! are held. Proven, executed and timed; and a small change of each that the verifier refuses.

use crate::common::prelude::*;
use antiphon_model::schedule::{Dependency, Event, Payload};

fn built(spec: &str, kind: Kind, bytes: u64, algorithm: &str) -> (Fabric, Schedule) {
    let fabric = Fabric::parse(spec).unwrap();
    let system = System::preset("generic").unwrap();
    let schedule = algorithm::build(&fabric, &system, Collective::new(kind), bytes, algorithm).unwrap();
    (fabric, schedule)
}

/// Proves, executes and times a schedule; returns its time in packets.
fn holds(fabric: &Fabric, schedule: &Schedule) -> u64 {
    let system = System::preset("generic").unwrap();
    assert!(verify(fabric, schedule).unwrap().complete);
    for seed in [None, Some(1), Some(2), Some(3)] {
        check_by_execution(schedule, seed).unwrap();
    }
    check_by_threads(schedule, Threads::Pausing(5)).unwrap();
    let bound = of_schedule(fabric, &system, schedule, None).unwrap().time_ps;
    let times = [Fidelity::AlphaBeta, Fidelity::Packet, Fidelity::Flit].map(|fidelity| {
        let time_ps = simulate(fabric, schedule, &system, fidelity).unwrap().time_ps;
        assert!(time_ps >= bound);
        time_ps
    });
    times[1]
}

/// The verifier's reason against a schedule after a change, which other tests of its form do not see.
fn refused(fabric: &Fabric, schedule: &Schedule, change: impl FnOnce(&mut Schedule)) -> String {
    let mut mutant = schedule.clone();
    change(&mut mutant);
    assert_ne!(&mutant, schedule, "a change");
    mutant.check(fabric).unwrap();
    let error = verify(fabric, &mutant).expect_err("a mutant is refused");
    assert_eq!(error.code, Code::NotProven, "{error}");
    error.message
}

/// A fabric of another name may be the same, or have other rates; the routes tell whether it is another one.
#[test]
fn a_schedule_for_another_fabric_names_both() {
    let (mesh, schedule) = built("mesh:4x4", Kind::AllReduce, 12_000, "ring");
    for other in ["torus:4x4", "mesh:5x5", "mesh:4x4,drop=0-1"] {
        let fabric = Fabric::parse(other).unwrap();
        let error = verify(&fabric, &schedule).unwrap_err();
        assert_eq!(error.code, Code::BadFile);
        assert!(error.message.starts_with(&format!("schedule: it is for mesh:4x4, not for {other} (")), "{error}");
        assert_eq!(Schedule::from_json(&schedule.to_json(), Some(&fabric)), Err(error));
    }
    assert!(verify(&Fabric::parse("mesh:4x4@100").unwrap(), &schedule).unwrap().complete);
    // On its own fabric a wrong route is a finding.
    let message = refused(&mesh, &schedule, |mutant| mutant.transfers[0].route = vec![].into());
    assert!(message.contains("its route ends at node"), "{message}");
}

/// As few messages as steps, for numbers of ranks that are a power of two and that are not.
#[test]
fn bruck_sends_whole_messages() {
    for (ranks, steps) in [(8, 3), (12, 4)] {
        for kind in [Kind::AllGather, Kind::AllToAll] {
            let (fabric, schedule) = built(&format!("switch:{ranks}"), kind, 12_000, "bruck");
            assert_eq!(schedule.transfers.len(), ranks * steps, "a message a rank and step");
            holds(&fabric, &schedule);
            // Most are lists of lanes that do not adjoin.
            let widest = schedule.transfers.iter().max_by_key(|transfer| transfer.lanes().count()).unwrap();
            let message = schedule.transfers.iter().position(|transfer| transfer == widest).unwrap();
            let lanes: Vec<u32> = widest.lanes().map(|lane| lane as u32).collect();
            assert!(kind == Kind::AllGather || lanes.windows(2).any(|pair| pair[1] != pair[0] + 1));
            let reason = refused(&fabric, &schedule, |mutant| {
                let rest = lanes[1..].iter().map(|&lane| lane..lane + 1);
                mutant.transfers[message].payload = Payload::of(rest);
            });
            assert!(reason.contains("lane"), "{reason}");
            // A message that does not wait for all blocks it passes on.
            let relayed = schedule.transfers.iter().position(|transfer| !transfer.start_after.is_empty()).unwrap();
            refused(&fabric, &schedule, |mutant| mutant.transfers[relayed].start_after.clear());
        }
    }
}

/// A message waits until the one two before has left its buffer.
#[test]
fn a_double_buffered_ring_waits_for_its_own_sends() {
    let (fabric, schedule) = built("ring:6", Kind::AllReduce, 24_000, "ring:buffers=2");
    let sent = |other: &&Dependency| other.event() == Event::Sent;
    assert_eq!(schedule.transfers.iter().flat_map(|t| t.start_after.iter().filter(sent)).count(), 6 * (10 - 2));
    let time = holds(&fabric, &schedule);
    let (_, free) = built("ring:6", Kind::AllReduce, 24_000, "ring");
    assert!(time >= holds(&fabric, &free), "waits take no time away");
    // The first message of a buffer waits for its last: for ever.
    let (last, first) = (0..)
        .zip(&schedule.transfers)
        .find_map(|(id, transfer)| Some((id, transfer.start_after.iter().find(sent)?.transfer())))
        .unwrap();
    let reason = refused(&fabric, &schedule, |mutant| {
        mutant.transfers[first as usize].start_after.push(Dependency::new(last, Event::Sent));
    });
    assert!(reason.contains("wait"), "{reason}");
    // A relay that waits until its block has left the rank before, not until it is here.
    let relay = schedule.transfers.iter().position(|t| t.op == Op::Copy && t.start_after.iter().any(|d| d.is_plain()));
    refused(&fabric, &schedule, |mutant| {
        let waits = &mut mutant.transfers[relay.unwrap()].start_after;
        waits.iter_mut().for_each(|other| *other = Dependency::new(other.transfer(), Event::Sent));
    });
}

/// Where a barrier kept sums of the second dimension from parts that the first still relays, messages are held.
#[test]
fn ring_2d_holds_sums_instead_of_a_barrier() {
    for spec in ["mesh:3x4", "mesh:4x4", "mesh:5x3"] {
        let (fabric, schedule) = built(spec, Kind::AllReduce, 48_000, "ring-2d:dependencies=held");
        assert!(schedule.phases.iter().all(|phase| !phase.barrier));
        let (_, barred) = built(spec, Kind::AllReduce, 48_000, "ring-2d");
        assert!(barred.phases.iter().any(|phase| phase.barrier));
        assert!(holds(&fabric, &schedule) <= holds(&fabric, &barred), "{spec}");
        let held = schedule.transfers.iter().position(|transfer| !transfer.apply_after.is_empty()).unwrap();
        let reason = refused(&fabric, &schedule, |mutant| mutant.transfers[held].apply_after.clear());
        assert!(reason.contains("not ordered") || reason.contains("race"), "{reason}");
    }
}
