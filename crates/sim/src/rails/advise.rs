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
