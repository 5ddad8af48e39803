//! Schedulers that are added while a program runs.

use super::Scheduler;
use crate::rails::orders::RailsPlan;
use antiphon_base::registry::Registry;
use antiphon_model::topology::Topology;

/// All of them.
pub static ADDED: Registry<dyn Scheduler + Send + Sync> = Registry::new();

/// The one of a name; the orders stay as they are where it is gone.
pub struct Added(pub &'static str);

impl Scheduler for Added {
    fn schedule(&self, topology: &Topology, plan: &mut RailsPlan) {
        if let Some((_, scheduler)) = ADDED.find(self.0) {
            scheduler.schedule(topology, plan);
        }
    }
}
