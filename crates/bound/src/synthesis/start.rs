//! What is known of a mixture before it is looked for.

use super::graph::{Arc, Graph};
use super::plan::Plan;
use crate::by_cuts;
use antiphon_base::error::Result;
use antiphon_model::collective::Collective;
use antiphon_model::fabric::{Fabric, LinkId};
use antiphon_model::system::System;
use std::collections::HashMap;

/// Bytes of a shard that take long, so that their time is exact.
pub const MANY: u64 = 1 << 32;

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

impl Start {
    /// With what cuts and partitions prove of a collective among all ranks: they are sooner found than prices that prove as much.
    ///
    /// # Errors
    /// As [`by_cuts`].
    pub fn with_cuts(self, fabric: &Fabric, system: &System, collective: Collective, graph: &Graph) -> Result<Start> {
        let bytes = fabric.ranks() as u64 * MANY;
        let known = by_cuts(fabric, system, collective, bytes)?;
        let least = known.volume_ps.max(known.cut_ps).max(known.strength_ps.unwrap_or(0));
        let prices: HashMap<LinkId, u64> = known.limit.links.iter().copied().zip(known.limit.prices).collect();
        let price = |arc: &Arc| prices.get(&arc.links[0]).map_or(0.0, |&price| price as f64);
        let prices = Some(graph.arcs.iter().map(price).collect());
        Ok(Start { least: least as f64 / bytes as f64, prices, ..self })
    }
}
