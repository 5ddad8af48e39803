//! What is said of a topology before anything is scheduled.

use crate::common::prelude::*;
use antiphon_model::topology::Topology;
use antiphon_sim::rails::advise::{Advice, Provision, advise};
use antiphon_sim::rails::scheduler::{OrderSearch, Scheduler};
use antiphon_sim::rails::{QueuePolicy, RailsPlan, run};

fn advice(spec: &str) -> Advice {
    advise(&Topology::parse(spec).unwrap())
}

#[test]
fn the_three_scenarios_of_the_paper() {
    let enough = advice("sw16@1600/0ns,sw8@100/0ns");
    assert_eq!(enough.pairs[0].provision, Provision::JustEnough);
    assert!(enough.baseline_utilization > 0.98);
    let over = advice("sw16@1600/0ns,sw8@400/0ns");
    assert_eq!(over.pairs[0].provision, Provision::Over);
    assert!((over.utilization_bound, over.binding.len()) == (1.0, 2) && over.baseline_utilization < 0.9);
    let under = advice("sw16@1600/0ns,sw8@25/0ns");
    assert_eq!(under.pairs[0].provision, Provision::Under);
    assert_eq!(under.binding, [1]);
    // With two dimensions the fixed order is the best, and the bound says so.
    assert!((under.utilization_bound - under.baseline_utilization).abs() < 1e-9);
    assert!(under.utilization_bound < 0.5);
}

#[test]
fn balanced_rates_suit_the_fixed_order() {
    let topology = Topology::parse("4D-Ring_FC_Ring_SW").unwrap();
    let mut balanced = topology.clone();
    for (dimension, rate) in balanced.dimensions.iter_mut().zip(advise(&topology).balanced) {
        dimension.rate = Some(rate);
    }
    assert!(advise(&balanced).baseline_utilization > 0.9999);
    assert!((balanced.total_rate() as f64 / topology.total_rate() as f64 - 1.0).abs() < 1e-6);
}

/// A search with many chunks comes within 5 % of the bound and does not pass it, also where it is far below 1.
#[test]
fn schedules_reach_the_bound() {
    for spec in
        ["sw4@1000/0ns,sw8@600/0ns,sw4@10/0ns", "ring4@1600/0ns,sw4@30/0ns,fc8@300/0ns", "sw16@1600/0ns,sw8@50/0ns"]
    {
        let topology = Topology::parse(spec).unwrap();
        let mut plan = RailsPlan::uniform(&topology, Kind::AllReduce, 1_000_000_000, 128, false).unwrap();
        OrderSearch::default().schedule(&topology, &mut plan);
        let reached = run(&topology, &plan, QueuePolicy::Tail, 1).mean_utilization(&topology);
        let bound = advise(&topology).utilization_bound;
        assert!(reached <= bound + 1e-9 && reached > 0.95 * bound, "{spec}: {reached} of {bound}");
    }
}
