//! What is known of a mixture before it is looked for.

use super::plan::Plan;

/// What is known of a mixture.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// Roots, and plans of each that were good.
    pub plans: Vec<(u32, Plan)>,
    /// Prices of arcs that were good, in any unit.
    pub prices: Option<Vec<f64>>,
    /// Picoseconds for every byte that no mixture is below.
    pub least: f64,
    /// Whether roots without a plan, and in every round all roots, also find plans apart from each other.
    pub apart: bool,
    /// Whether only rates count: then no low plans are looked for, and a mixture is taken as soon as it is near the optimum.
    pub only_rates: bool,
}
