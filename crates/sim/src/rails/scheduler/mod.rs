//! Schedulers: which order each chunk takes through the dimensions. One per file, behind one trait.

mod added;
mod baseline;
mod phased;
mod search;
mod split;
mod themis;
pub(super) mod timing;

pub use added::{ADDED, Added};
pub use baseline::Baseline;
pub use phased::Phased;
pub use search::{OrderSearch, STAGES};
pub use themis::Themis;

use super::orders::RailsPlan;
use antiphon_base::units::Picos;
use antiphon_model::topology::Topology;

/// Chooses the orders of a plan.
pub trait Scheduler {
    /// Sets the order of every chunk of `plan`.
    fn schedule(&self, topology: &Topology, plan: &mut RailsPlan);

    /// Sets them again where dimensions are still busy for so long with other collectives; only Themis minds.
    fn reschedule(&self, _topology: &Topology, _plan: &mut RailsPlan, _busy_ps: &[Picos]) {}
}
