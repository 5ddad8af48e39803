//! Themis: every chunk starts on the dimensions that have least to do (Algorithm 1).

use super::Scheduler;
use crate::rails::orders::{ChunkOrder, RailsPlan, Stage, StagePath};
use crate::rails::stage_endpoint;
use antiphon_base::units::{MAX_BYTES, Picos};
use antiphon_model::collective::Kind;
use antiphon_model::fabric::Dimension;
use antiphon_model::system::Endpoint;
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
    /// Where loads are counted: at another endpoint than the system's a chunk counts for as long as it keeps the busiest of
    /// link, memory, bus and adders busy.
    pub endpoint: Endpoint,
}

impl Themis {
    /// As the paper says (section 5.3), with loads from zero.
    pub const DEFAULT: Themis = Themis { threshold: 16, fixed_delay: false, endpoint: Endpoint::System };
}

impl Default for Themis {
    fn default() -> Self {
        Themis::DEFAULT
    }
}

impl Scheduler for Themis {
    fn schedule(&self, topology: &Topology, plan: &mut RailsPlan) {
        self.reschedule(topology, plan, &[]);
    }

    /// An AllReduce tracks its ReduceScatter half, and its AllGather order is the reverse: the loads of
    /// both halves are equal. An AllToAll is scheduled as a ReduceScatter is.
    fn reschedule(&self, topology: &Topology, plan: &mut RailsPlan, busy_ps: &[Picos]) {
        if topology.dimensions.len() < 2 {
            return; // one order
        }
        // Loads are kept in fractions of a picosecond, so that rounding does not decide between equals; packets and endpoints
        // have no such fractions.
        let plain = self.endpoint == Endpoint::System && plan.packets.is_empty();
        let fine = if plain { plan.bytes.leading_zeros() - MAX_BYTES.leading_zeros() } else { 0 };
        let whole = RailsPlan { bytes: plan.bytes << fine, ..plan.clone() };
        let near = StagePath::nearest_first(topology);
        let baseline = if plan.kind == Kind::AllGather { near.reversed() } else { near };
        let start = |(number, dimension): (usize, &Dimension)| {
            let delay = if self.fixed_delay { plan.latency(dimension) } else { 0 };
            let busy = busy_ps.get(number).copied().unwrap_or(0) / if plan.kind == Kind::AllReduce { 2 } else { 1 };
            u128::from(delay + busy) << fine
        };
        let mut loads: Vec<u128> = topology.dimensions.iter().enumerate().map(start).collect();
        let thresholds: Vec<u128> =
            (0..loads.len()).map(|emptiest| self.threshold(&whole, topology, emptiest)).collect();
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
            for stage in whole.stages(topology, &order).take(loads.len()) {
                loads[usize::from(stage.dimension)] += self.load(topology, &whole, stage);
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
        let largest = match plan.kind {
            Kind::AllGather => plan.stages(topology, &order).last(),
            _ => plan.stages(topology, &order).next(),
        };
        largest.and_then(|stage| self.load(topology, plan, stage).checked_div(self.threshold.into())).unwrap_or(0)
    }

    /// What a stage adds to the load of its dimension.
    fn load(&self, topology: &Topology, plan: &RailsPlan, stage: Stage) -> u128 {
        match self.endpoint {
            Endpoint::System => stage.busy_ps.into(),
            endpoint => stage_endpoint::longest(topology, plan, stage, endpoint),
        }
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

    /// Switches that reduce halve what is sent, and a stage pays one latency: with loads of what is sent, all chunks of this
    /// network start on its ring, which sends 3/4 at 3/2 of the rate.
    #[test]
    fn loads_are_what_is_sent_where_switches_reduce() {
        let topology = Topology::parse("ring4@1500/0ns,sw64@1000/0ns").unwrap();
        let mut plan = RailsPlan::uniform(&topology, Kind::AllReduce, 1 << 30, 2, true).unwrap();
        Themis { threshold: 0, ..Themis::default() }.schedule(&topology, &mut plan);
        // Loads after the first chunk, in units of a chunk over the switch's rate: 3/4 / 3/2 = 1/2, and 1/2 / 4.
        let second = plan.orders[1];
        assert_eq!(second.first.as_slice(), [1, 0]);
        let late = Topology::parse("fc2@1000/4000ns,sw64@1000/1000ns").unwrap();
        let mut plan = RailsPlan::uniform(&late, Kind::AllReduce, 1 << 10, 1, true).unwrap();
        Themis { threshold: 0, fixed_delay: true, ..Themis::default() }.schedule(&late, &mut plan);
        // One latency of 1000 ns, not six.
        assert_eq!(plan.orders[0].first.as_slice(), [1, 0]);
    }

    #[test]
    fn what_is_under_way_counts() {
        let topology = Topology::parse("sw4@1000/0ns,sw4@500/0ns").unwrap();
        let mut plan = RailsPlan::uniform(&topology, Kind::AllReduce, 1 << 30, 1, false).unwrap();
        Themis::default().schedule(&topology, &mut plan);
        assert_eq!(plan.orders[0].first.as_slice(), [0, 1]);
        Themis::default().reschedule(&topology, &mut plan, &[1 << 40, 0]);
        assert_eq!(plan.orders[0].first.as_slice(), [1, 0]);
    }
}
