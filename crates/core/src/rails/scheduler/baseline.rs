//! The fixed hierarchical order: first dimension to last, and back.

use super::Scheduler;
use crate::rails::plan::{Order, Path, Plan};
use crate::rails::topology::Topology;

/// ReduceScatter (or AllToAll) from the first dimension to the last, AllGather back (Themis paper,
/// section 2.3).
pub struct Baseline;

impl Scheduler for Baseline {
    fn schedule(&self, topology: &Topology, plan: &mut Plan) {
        plan.orders.fill(Order::mirrored(Path::ascending(topology.dimensions.len())));
    }
}
