//! One dimension inside of the others: the order of ACE and ASTRA-sim.

use super::Scheduler;
use crate::rails::orders::{ChunkOrder, RailsPlan, StagePath};
use antiphon_model::topology::Topology;

/// A ReduceScatter along the fastest dimension, an AllReduce along each other, an AllGather along the fastest (ACE, ISCA
/// 2021, section V: four phases on a torus of three dimensions). Other collectives start with the fastest dimension.
pub struct Phased;

impl Scheduler for Phased {
    fn schedule(&self, topology: &Topology, plan: &mut RailsPlan) {
        plan.orders.fill(ChunkOrder::mirrored(StagePath::nearest_first(topology)));
        plan.phased = true;
    }
}
