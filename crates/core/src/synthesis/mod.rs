//! Synthesis: the best plans for any collective on any fabric, by prices of its links.
//!
//! A *plan* moves one root's data: a tree, or paths. Amounts of plans that load no link longer than a time T exist if
//! and only if no prices of links say otherwise: at any prices, T is at least what the cheapest plans cost over what all
//! links are worth (linear programming duality). So amounts and prices are found together, and prices that are kept are a
//! proof which a reader checks by finding the cheapest plans once.

mod generate;
mod graph;
mod master;
mod oracle;
mod plan;

pub use generate::Mixture;
pub use graph::{Arc, Graph};
pub use plan::Plan;

use crate::collective::{Collective, Kind};
use crate::error::Result;
use crate::fabric::Fabric;
use crate::system::System;
use crate::watch::Watch;
use oracle::{Arborescences, Oracle, Paths, SpanningTrees};

/// The best mixture of plans for a collective among all ranks, within `accuracy` of the optimum, where every level of a tree
/// costs as much as `level` picoseconds for every byte.
///
/// # Errors
/// [`crate::error::Code::Interrupted`].
pub fn mixture(fabric: &Fabric, system: &System, collective: Collective, accuracy: f64, level: f64, watch: Watch) -> Result<Mixture> {
    let graph = Graph::new(fabric, system);
    let rates: Vec<f64> = graph.arcs.iter().map(|arc| arc.rate).collect();
    let ranks = graph.ranks.len();
    let turned = matches!(collective.kind, Kind::ReduceScatter | Kind::Reduce);
    let ground = if turned { graph.reversed() } else { graph };
    let mut oracle: Box<dyn Oracle> = match collective.kind {
        Kind::AllReduce => Box::new(SpanningTrees::new(ground)),
        Kind::AllToAll => Box::new(Paths::new(ground)),
        Kind::AllGather | Kind::ReduceScatter => {
            Box::new(Arborescences::new(ground, (0..ranks as u32).collect(), vec![1.0 / ranks as f64; ranks]))
        }
        Kind::Broadcast | Kind::Reduce => Box::new(Arborescences::new(ground, vec![collective.root], vec![1.0])),
    };
    let mut found = generate::generate(&rates, &mut *oracle, accuracy, level, watch)?;
    if turned {
        found.plans.iter_mut().for_each(|(_, _, plan)| *plan = plan.turned());
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
