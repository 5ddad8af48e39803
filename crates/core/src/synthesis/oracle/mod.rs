//! Oracles: the cheapest plan of a root at given prices of arcs.

mod arborescence;
mod closure;
mod low;
mod pairs;
mod paths;
mod spanning;

pub use arborescence::Arborescences;
pub use closure::{Open, Search};
pub use pairs::TreePairs;
pub use paths::Paths;
pub use spanning::SpanningTrees;

use super::plan::Plan;

/// Finds cheapest plans.
pub trait Oracle {
    /// The cheapest plan of each of some roots, at prices of arcs.
    fn cheapest(&mut self, prices: &[f64], roots: &[u32]) -> Vec<Plan>;

    /// Others of some roots that are cheap: trees with few branches from the root to any rank.
    fn low(&mut self, _prices: &[f64], _roots: &[u32]) -> Vec<Plan> {
        vec![]
    }
}
