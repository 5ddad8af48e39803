//! The fixed hierarchical order: nearest dimension to farthest, and back.

use super::Scheduler;
use crate::rails::orders::{ChunkOrder, RailsPlan, StagePath};
use antiphon_model::topology::Topology;

/// ReduceScatter (or AllToAll) from the nearest dimension to the farthest, AllGather back (Themis paper,
/// section 2.3).
pub struct Baseline;

impl Scheduler for Baseline {
    fn schedule(&self, topology: &Topology, plan: &mut RailsPlan) {
        plan.orders.fill(ChunkOrder::mirrored(StagePath::nearest_first(topology)));
    }
}
