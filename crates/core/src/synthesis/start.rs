//! What is known of a mixture before it is looked for.

use super::plan::Plan;

/// A plan of before, or what is left of it.
#[derive(Debug, Clone)]
pub struct Known {
    /// Rank of its root.
    pub root: u32,
    /// Its share of the root's bytes.
    pub share: f64,
    /// Branches whose ends and arcs are all there.
    pub plan: Plan,
}

/// What is known of a mixture.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// Plans that were good; shares of a root add up to one.
    pub plans: Vec<Known>,
    /// Prices of arcs that were good, in any unit.
    pub prices: Option<Vec<f64>>,
    /// Picoseconds for every byte that no mixture is below.
    pub least: f64,
    /// Whether the plans are as low as can be: then no lower ones are looked for.
    pub is_enough: bool,
}
