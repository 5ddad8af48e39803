//! Proofs of plans by symmetry: their size, and what they refuse.

use crate::common::prelude::*;
use antiphon_model::topology::{PRESETS, Topology};
use antiphon_sim::rails::scheduler::{Scheduler, Themis};
use antiphon_sim::rails::{QueuePolicy, RailsPlan, RailsTimes, prove_by_symmetry, run};

#[test]
fn a_thousand_npus() {
    for (name, _) in PRESETS {
        let topology = Topology::parse(name).unwrap();
        for kind in [Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::AllToAll] {
            let mut plan = RailsPlan::uniform(&topology, kind, 1_000_000_000, 64, false).unwrap();
            Themis::default().schedule(&topology, &mut plan);
            let timed = run(&topology, &plan, QueuePolicy::Smallest, 1);
            let proof = prove_by_symmetry(&topology, &plan, &timed).unwrap();
            assert!(proof.dimensions.iter().all(|dimension| dimension.proof.complete));
            let statement = proof.to_string();
            assert!(statement.starts_with("proven by symmetry for 1024 NPUs: 64 chunks"), "{statement}");
        }
    }
}

#[test]
fn a_million_npus_cost_no_more() {
    let topology = Topology::parse(&["fc10@1000/700ns"; 6].join(",")).unwrap();
    let plan = RailsPlan::uniform(&topology, Kind::AllReduce, 1_000_000_000, 64, false).unwrap();
    let timed = run(&topology, &plan, QueuePolicy::Fifo, 1);
    let proof = prove_by_symmetry(&topology, &plan, &timed).unwrap();
    assert_eq!((proof.npus, proof.stages, proof.dimensions.len()), (1_000_000, 64 * 12, 3));
}

#[test]
fn broken_plans_are_named() {
    let topology = Topology::parse("ring4@1000/20ns,sw4@800/700ns").unwrap();
    let plan = RailsPlan::uniform(&topology, Kind::AllReduce, 1 << 20, 2, false).unwrap();
    let timed = run(&topology, &plan, QueuePolicy::Fifo, 1);
    let refusal = |plan: &RailsPlan, run: &RailsTimes| prove_by_symmetry(&topology, plan, run).unwrap_err();
    let mut twice = plan.clone();
    twice.orders[1].gather.as_mut_slice()[0] = 0;
    let error = refusal(&twice, &timed);
    assert_eq!(
        (error.code, error.message.as_str()),
        (Code::NotProven, "chunk 1 is gathered 2 times along dimension 1")
    );
    let mut missing = timed.clone();
    missing.spans[1].remove(0);
    assert!(refusal(&plan, &missing).message.ends_with("is never served"));
    let mut early = timed.clone();
    early.spans[0].iter_mut().find(|span| span.stage == 3).unwrap().start_ps = 0;
    assert!(refusal(&plan, &early).message.contains("stage 3 of chunk 0 is served before the one before it"));
    let mut again = timed.clone();
    let span = again.spans[0][0];
    again.spans[1].push(span);
    assert!(refusal(&plan, &again).message.contains("dimension 2 serves stage 0 of chunk 0, not its own"));
    let mut again = timed.clone();
    again.spans[0].push(span);
    assert!(refusal(&plan, &again).message.ends_with("is served twice"));
    let offload = RailsPlan { offload: true, ..plan };
    assert_eq!(refusal(&offload, &timed).code, Code::NotApplicable);
}
