//! Oracles: the cheapest plan of every root at given prices of arcs.

mod arborescence;
mod closure;
mod low;
mod paths;
mod spanning;

pub use arborescence::Arborescences;
pub use paths::Paths;
pub use spanning::SpanningTrees;

use super::plan::Plan;

/// Finds cheapest plans.
pub trait Oracle {
    /// The bytes of every root's plans, of each byte of the collective.
    fn shares(&self) -> &[f64];

    /// The cheapest plan of every root.
    fn cheapest(&mut self, prices: &[f64]) -> Vec<Plan>;

    /// Others that are cheap, by their roots: trees with few branches from the root to any rank.
    fn low(&mut self, _prices: &[f64]) -> Vec<(u32, Plan)> {
        vec![]
    }
}
