//! One dimension inside of the others: the order of ACE and ASTRA-sim.

use super::Scheduler;
use crate::rails::plan::{Order, Path, Plan};
use crate::rails::topology::Topology;
use std::cmp::Reverse;

/// A ReduceScatter along the fastest dimension, an AllReduce along each other, an AllGather along the fastest (ACE, ISCA
/// 2021, section V: four phases on a torus of three dimensions). Other collectives start with the fastest dimension.
pub struct Phased;

impl Scheduler for Phased {
    fn schedule(&self, topology: &Topology, plan: &mut Plan) {
        let mut path = Path::ascending(topology.dimensions.len());
        let fastest = |&number: &usize| (topology.dimensions[number].npu_rate(), Reverse(number));
        if let Some(fastest) = (0..topology.dimensions.len()).max_by_key(fastest) {
            path.as_mut_slice()[..=fastest].rotate_right(1);
        }
        plan.orders.fill(Order::mirrored(path));
        plan.phased = true;
    }
}
