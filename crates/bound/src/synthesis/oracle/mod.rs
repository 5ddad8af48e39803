//! Oracles: the cheapest plan of a root at given prices of arcs.

mod arborescence;
mod closure;
mod low;
mod pairs;
mod paths;
mod spanning;

pub use arborescence::Arborescences;
pub use pairs::TreePairs;
pub use paths::Paths;
pub use spanning::SpanningTrees;

use super::plan::Plan;

/// Finds cheapest plans.
pub trait Oracle {
    /// The cheapest plan of each of some roots, at prices of arcs. If `low`, then also others of these roots that are cheap:
    /// trees with few branches from the root to any rank.
    fn plans(&mut self, prices: &[f64], roots: &[u32], low: bool) -> [Vec<Plan>; 2];
}
