//! Themis: every chunk starts on the dimensions that have least to do (Algorithm 1).

use super::Scheduler;
use crate::rails::orders::{ChunkOrder, RailsPlan, StagePath};
use antiphon_base::units::MAX_BYTES;
use antiphon_model::collective::Kind;
use antiphon_model::fabric::Dimension;
use antiphon_model::topology::Topology;

/// Algorithm 1 of the Themis paper.
#[derive(Debug, Clone, Copy)]
pub struct Themis {
    /// Loads that differ by less than one part of so many of the time of a chunk, on the dimension with the least, count as
    /// equal; none are if 0.
    pub threshold: u32,
    /// Whether a dimension's load starts with its fixed delay, the latency of all its steps, as the
    /// paper says; ASTRA-sim starts from zero.
    pub fixed_delay: bool,
}

impl Themis {
    /// As the paper says (section 5.3), with loads from zero.
    pub const DEFAULT: Themis = Themis { threshold: 16, fixed_delay: false };
}

impl Default for Themis {
    fn default() -> Self {
        Themis::DEFAULT
    }
}

impl Scheduler for Themis {
    /// An AllReduce tracks its ReduceScatter half, and its AllGather order is the reverse: the loads of
    /// both halves are equal. An AllToAll is scheduled as a ReduceScatter is.
    fn schedule(&self, topology: &Topology, plan: &mut RailsPlan) {
        if topology.dimensions.len() < 2 {
            return; // one order
        }
        // Loads are kept in fractions of a picosecond, so that rounding does not decide between equals.
        let fine = plan.bytes.leading_zeros() - MAX_BYTES.leading_zeros();
        let kind = if plan.kind == Kind::AllReduce { Kind::ReduceScatter } else { plan.kind };
        let one_way = RailsPlan { kind, bytes: plan.bytes << fine, ..plan.clone() };
        let near = StagePath::nearest_first(topology);
        let baseline = if plan.kind == Kind::AllGather { near.reversed() } else { near };
        let delay =
            |dimension: &Dimension| (u128::from(dimension.npu_latency()) * u128::from(dimension.steps())) << fine;
        let start = |dimension| if self.fixed_delay { delay(dimension) } else { 0 };
        let mut loads: Vec<u128> = topology.dimensions.iter().map(start).collect();
        let thresholds: Vec<u128> =
            (0..loads.len()).map(|emptiest| self.threshold(&one_way, topology, emptiest)).collect();
        let mut path = baseline;
        for chunk in 0..plan.orders.len() {
            let (least, most) = (loads.iter().min().copied().unwrap_or(0), loads.iter().max().copied().unwrap_or(0));
            let emptiest = loads.iter().position(|&load| load == least).unwrap_or(0);
            if most - least < thresholds[emptiest] {
                path = baseline;
            } else if plan.kind == Kind::AllGather {
                // Most load first. Equal loads stay as they were.
                path.as_mut_slice().sort_by_key(|&number| std::cmp::Reverse(loads[usize::from(number)]));
            } else {
                path.as_mut_slice().sort_by_key(|&number| loads[usize::from(number)]);
            }
            let order = if plan.kind == Kind::AllGather {
                ChunkOrder { first: path, gather: path }
            } else {
                ChunkOrder::mirrored(path)
            };
            for stage in one_way.stages(topology, &order) {
                loads[usize::from(stage.dimension)] += u128::from(stage.busy_ps);
            }
            plan.orders[chunk] = order;
        }
    }
}

impl Themis {
    /// The difference of loads from which they are not about equal, where a dimension has the least.
    fn threshold(&self, plan: &RailsPlan, topology: &Topology, emptiest: usize) -> u128 {
        let mut alone = StagePath::nearest_first(topology);
        alone.as_mut_slice().sort_by_key(|&number| usize::from(number) != emptiest);
        let order = ChunkOrder { first: alone, gather: alone.reversed() };
        let whole = match plan.kind {
            Kind::AllGather => plan.stages(topology, &order).last(),
            _ => plan.stages(topology, &order).next(),
        };
        whole.and_then(|stage| u128::from(stage.busy_ps).checked_div(self.threshold.into())).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each chunk of the baseline leaves the first dimension 0.029 ahead, in microseconds a megabyte; one on the second takes 2.88.
    #[test]
    fn the_threshold_is_what_counts_as_equal() {
        let topology = Topology::parse("sw4@1000/0ns,sw4@260/0ns").unwrap();
        let first_other = |threshold| {
            let mut plan = RailsPlan::uniform(&topology, Kind::AllReduce, 1 << 30, 64, false).unwrap();
            Themis { threshold, ..Themis::default() }.schedule(&topology, &mut plan);
            plan.orders.iter().position(|order| order.first != StagePath::nearest_first(&topology))
        };
        assert_eq!([0, 16, 1].map(first_other), [Some(1), Some(7), None]);
    }
}
