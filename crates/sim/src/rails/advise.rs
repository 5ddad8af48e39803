//! What the rates of a topology are good for (Themis paper, section 6.3), and what no scheduler can change.
//!
//! Both follow from the best split of what is sent over the dimensions ([`levels`]).

use super::orders::StagePath;
use antiphon_base::units::Rate;
use antiphon_model::fabric::split::{levels, sent_first};
use antiphon_model::topology::Topology;

/// A dimension's rate beside that of a nearer one (paper, section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provision {
    /// The fixed order keeps both busy.
    JustEnough,
    /// The fixed order cannot use all of the farther one; other orders can.
    Over,
    /// The farther one is too slow for any order to use all of the nearer one, as far as these two go.
    Under,
}

impl Provision {
    /// Name for people and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Provision::JustEnough => "just enough",
            Provision::Over => "over-provisioned",
            Provision::Under => "under-provisioned",
        }
    }
}

/// Two dimensions side by side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// The nearer one.
    pub near: usize,
    /// The farther one, which is provided as `provision` says.
    pub far: usize,
    /// How.
    pub provision: Provision,
    /// Rate of the farther one over what is just enough.
    pub ratio: f64,
}

/// What is known of a topology before anything is scheduled.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// Largest mean utilization that any scheduler can reach in an AllReduce, latency apart.
    pub utilization_bound: f64,
    /// That of the fixed order.
    pub baseline_utilization: f64,
    /// The dimensions that hold the bound down: too slow for what must go over them. All if the
    /// bound is 1.
    pub binding: Vec<usize>,
    /// Every pair of dimensions.
    pub pairs: Vec<Pair>,
    /// The same rates together, divided so that the fixed order keeps all dimensions busy.
    pub balanced: Vec<Rate>,
}

/// Ratios within this of 1 are just enough.
const TOLERANCE: f64 = 0.01;

/// Looks at the rates of `topology`. O(2^dimensions) a level.
pub fn advise(topology: &Topology) -> Advice {
    let dimensions = &topology.dimensions;
    let count = dimensions.len();
    let rate = |number: usize| dimensions[number].npu_rate().0 as f64;
    let sizes: Vec<u64> = dimensions.iter().map(|dimension| dimension.size).collect();
    let total: f64 = (0..count).map(rate).sum();
    let rates: Vec<f64> = (0..count).map(rate).collect();
    let all = (1 << count) - 1;
    let &(binding, time) = levels(&sizes, &rates).first().unwrap_or(&(all, 0.0));
    // What the fixed order sends over each dimension.
    let order: Vec<usize> = StagePath::nearest_first(topology).as_slice().iter().map(|&number| number.into()).collect();
    let (mut parts, mut fixed) = (1.0, vec![0.0; count]);
    for &number in &order {
        let size = dimensions[number].size as f64;
        parts *= size;
        fixed[number] = (size - 1.0) / parts;
    }
    let slowest = (0..count).map(|number| fixed[number] / rate(number)).fold(0.0, f64::max);
    let mut pairs = Vec::new();
    for place in 1..count {
        for before in 0..place {
            let (near, far) = (order[before], order[place]);
            let between: f64 = order[before..place].iter().map(|&number| dimensions[number].size as f64).product();
            let ratio = rate(far) * between / rate(near);
            let provision = match ratio {
                _ if (ratio - 1.0).abs() <= TOLERANCE => Provision::JustEnough,
                _ if ratio > 1.0 => Provision::Over,
                _ => Provision::Under,
            };
            pairs.push(Pair { near, far, provision, ratio });
        }
    }
    let sent: f64 = fixed.iter().sum();
    Advice {
        utilization_bound: sent_first(&sizes, all) / total / time,
        baseline_utilization: sent_first(&sizes, all) / total / slowest,
        binding: (0..count).filter(|number| binding >> number & 1 == 1).collect(),
        pairs,
        balanced: fixed.iter().map(|&share| Rate((share / sent * total).round() as u64)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rails::{QueuePolicy, RailsPlan, Scheduler, run, scheduler::OrderSearch};
    use antiphon_model::collective::Kind;

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
}
