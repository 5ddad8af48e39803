//! Synthesis: the best plans for any collective on any fabric, by prices of its links.
//!
//! A *plan* moves one root's data: a tree, or paths. Amounts of plans that load no link longer than a time T exist if
//! and only if no prices of links say otherwise: at any prices, T is at least what the cheapest plans cost over what all
//! links are worth (linear programming duality). So amounts and prices are found together, and prices that are kept are a
//! proof which a reader checks by finding the cheapest plans once.

mod few;
mod generate;
mod graph;
mod master;
mod oracle;
mod parts;
mod plan;
mod symmetry;

use generate::Demand;
pub use generate::Mixture;
pub use graph::{Arc, Graph};
pub use plan::Plan;

use crate::collective::{Collective, Kind, Matrix};
use crate::error::{Code, Error, Result};
use crate::watch::Watch;
use oracle::{Arborescences, Oracle, Paths, SpanningTrees};
use symmetry::Symmetry;

/// Most rows of a linear program: some seconds of work.
const MOST_ROWS: usize = 1 << 10;
/// Most rows where a mixture is known and another one is looked for.
const FEW_ROWS: usize = 256;
/// Arcs are critical that make up more than this part of what all are worth.
const CRITICAL: f64 = 1e-9;
/// The parts of their time that other arcs may be busy: the first that is enough.
const SPARE: [f64; 2] = [0.5, 0.75];
/// What time to spare may cost, relative.
const MORE: f64 = 2e-3;

/// A collective among all ranks of a graph, as a linear program over plans.
struct Problem<'a> {
    matrix: Option<&'a Matrix>,
    /// The highest rate.
    unit: f64,
    /// Rates in this unit: near 1, as tolerances of the linear program are.
    rates: Vec<f64>,
    symmetry: Symmetry,
    roots: Vec<u32>,
    oracle: Box<dyn Oracle>,
    /// Whether plans are those of the graph turned round.
    turned: bool,
}

impl<'a> Problem<'a> {
    fn new(graph: &Graph, collective: Collective, matrix: Option<&'a Matrix>) -> Problem<'a> {
        let turned = matches!(collective.kind, Kind::ReduceScatter | Kind::Reduce);
        let ground = if turned { graph.reversed() } else { graph.clone() };
        let sends = |&rank: &u32| matrix.is_none_or(|matrix| matrix.row(rank as usize) > 0);
        let all = || (0..graph.ranks.len() as u32).filter(sends).collect();
        let (oracle, roots): (Box<dyn Oracle>, Vec<u32>) = match collective.kind {
            // Of whatever root: all symmetries turn the trees.
            Kind::AllReduce => (Box::new(SpanningTrees::new(ground)), vec![]),
            Kind::AllToAll => (Box::new(Paths(ground)), all()),
            Kind::AllGather | Kind::ReduceScatter => (Box::new(Arborescences(ground)), all()),
            Kind::Broadcast | Kind::Reduce => (Box::new(Arborescences(ground)), vec![collective.root]),
        };
        let unit = graph.arcs.iter().map(|arc| arc.rate).fold(f64::MIN_POSITIVE, f64::max);
        let rates = graph.arcs.iter().map(|arc| arc.rate / unit).collect();
        let symmetry = match matrix {
            // Few of a fabric's symmetries leave a matrix as it is.
            Some(_) => Symmetry::none(graph),
            None => Symmetry::new(graph, collective.kind.rooted().then_some(collective.root)),
        };
        Problem { matrix, unit, rates, symmetry, roots, oracle, turned }
    }

    /// Rows of the linear program: links and roots of which none is like another.
    fn rows(&self) -> usize {
        self.symmetry.arcs.len() + self.symmetry.orbits(&self.roots).len()
    }

    /// The best mixture at these rates.
    fn solve(&mut self, rates: &[f64], wanted: &Wanted, watch: Watch) -> Result<Mixture> {
        let Problem { matrix, ref symmetry, ref roots, .. } = *self;
        let share = match matrix {
            Some(matrix) => 1.0 / matrix.most() as f64,
            None => 1.0 / roots.len().max(1) as f64,
        };
        let Wanted { accuracy, level, trees } = *wanted;
        let level = level * self.unit;
        Demand { rates, symmetry, roots, matrix, share, level, accuracy, trees }.mixture(&mut *self.oracle, watch)
    }

    /// The best mixture, in the unit of rates.
    fn mixture(&mut self, graph: &Graph, wanted: &Wanted, watch: Watch) -> Result<Mixture> {
        let found = self.solve(&self.rates.clone(), wanted, watch)?;
        if graph.rank_at.contains(&None) && !found.plans.is_empty() {
            // In switches messages wait for each other. So what need not be busy should have time to spare.
            for part in SPARE {
                let spare = |(&rate, &price): (&f64, &f64)| if price * rate > CRITICAL { rate } else { rate * part };
                let rates: Vec<f64> = self.rates.iter().zip(&found.prices).map(spare).collect();
                let other = self.solve(&rates, wanted, watch)?;
                if other.time <= found.time * (1.0 + MORE) {
                    return Ok(Mixture { prices: found.prices, least: found.least, ..other });
                }
            }
        }
        Ok(found)
    }
}

/// What a mixture is to be like.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// How near to the optimum, relative.
    pub accuracy: f64,
    /// What every level of a tree costs, as picoseconds for every byte.
    pub level: f64,
    /// Most trees of every root; of all roots together where plans have none.
    pub trees: Option<usize>,
}

/// The best mixture of plans for a collective among all ranks, as it is wanted. With a `matrix` paths carry what it says, and bytes
/// of the collective are those of the rank that sends most.
///
/// # Errors
/// [`Code::TooLarge`] for more than some hundred links and ranks of which none can become another by a symmetry;
/// [`Code::Interrupted`].
pub fn mixture(
    graph: &Graph,
    collective: Collective,
    matrix: Option<&Matrix>,
    wanted: &Wanted,
    watch: Watch,
) -> Result<Mixture> {
    let mut problem = Problem::new(graph, collective, matrix);
    let too_large = |rows| {
        let what = format!("{rows} links and roots of which none is like another; at most {MOST_ROWS} are supported");
        Error::new(Code::TooLarge, what)
    };
    if problem.rows() > MOST_ROWS {
        return Err(too_large(problem.rows()));
    }
    let mut found = problem.mixture(graph, wanted, watch)?;
    if wanted.trees.is_some() {
        // A symmetry turns one tree of a root into several. So fewer symmetries may leave better ones.
        let fixed = collective.kind.rooted().then_some(collective.root);
        for symmetry in [Symmetry::free(graph, fixed), Symmetry::none(graph)] {
            let near = found.time <= found.least * (1.0 + wanted.accuracy);
            if near || symmetry.group.len() == problem.symmetry.group.len() {
                continue;
            }
            problem.symmetry = symmetry;
            let rows = problem.rows();
            if rows > if found.plans.is_empty() { MOST_ROWS } else { FEW_ROWS } {
                continue;
            }
            let other = problem.mixture(graph, wanted, watch)?;
            if other.time < found.time {
                found = other;
            }
        }
        if found.plans.is_empty() {
            return Err(too_large(problem.rows()));
        }
    }
    found.time /= problem.unit;
    found.least /= problem.unit;
    found.prices.iter_mut().for_each(|price| *price /= problem.unit);
    if problem.turned {
        found.plans.iter_mut().for_each(|(_, _, plan)| *plan = plan.turned());
    }
    Ok(found)
}

/// The prices of arcs that prove the most, within `accuracy` of the optimum, in any unit; `None` if the linear program would
/// have more than `most_rows` rows.
pub fn prices(graph: &Graph, collective: Collective, accuracy: f64, most_rows: usize) -> Option<Vec<f64>> {
    let mut problem = Problem::new(graph, collective, None);
    let is_small = problem.rows() <= most_rows;
    let wanted = Wanted { accuracy, level: 0.0, trees: None };
    let found = is_small.then(|| problem.solve(&problem.rates.clone(), &wanted, Watch::default()).ok())?;
    found.map(|found| found.prices)
}

#[cfg(test)]
mod tests;
