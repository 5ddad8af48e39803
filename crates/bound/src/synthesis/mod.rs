//! Synthesis: the best plans for any collective on any fabric, by prices of its links.
//!
//! A *plan* moves one root's data: a tree, or paths. Amounts of plans that load no link longer than a time T exist if
//! and only if no prices of links say otherwise: at any prices, T is at least what the cheapest plans cost over what all
//! links are worth (linear programming duality). So amounts and prices are found together, and prices that are kept are a
//! proof which a reader checks by finding the cheapest plans once.

mod apart;
mod few;
mod generate;
mod graph;
mod master;
mod oracle;
mod parts;
mod plan;
mod start;
mod symmetry;

pub use generate::Mixture;
use generate::MixtureDemand;
pub use graph::{Arc, Graph};
pub use plan::Plan;
pub use start::{MANY, Start};
pub use symmetry::{Permutation, Symmetry};

use antiphon_base::error::{Code, Error, Result};
use antiphon_base::watch::Watch;
use antiphon_model::collective::{Collective, Kind, Matrix};
use oracle::{Arborescences, Oracle, Paths, SpanningTrees, TreePairs};

/// Most rows of a linear program: some seconds of work.
const MOST_ROWS: usize = 1 << 10;
/// Most rows where a mixture is known and another one is looked for.
const FEW_ROWS: usize = 256;
/// Arcs are critical that are worth more than this part of the mean. Others may have a price that is left of those at the start.
const CRITICAL: f64 = 1e-2;
/// The parts of their time that other arcs may be busy: the first that is enough.
const SPARE: [f64; 2] = [0.5, 0.75];
/// Most rows where plans are known at the start: then few others are looked for.
const MANY_ROWS: usize = 6 << 10;
/// How near to the optimum trees are good enough that were looked for from known ones, relative.
const GOOD: f64 = 5e-3;
/// Levels of a tree that take no longer than the data.
const MANY_LEVELS: f64 = 512.0;
/// Times that arcs which become the limit are let off.
const TRIES: usize = 3;
/// What time to spare may cost, relative.
const MORE: f64 = 2e-3;
/// What leaving out plans of small shares may cost where plans become schedules, relative.
pub const LOSS: f64 = 2e-3;

/// A collective among all ranks of a graph, as a linear program over plans.
struct Problem<'a> {
    matrix: Option<&'a Matrix>,
    share: f64,
    /// The highest rate.
    unit: f64,
    /// Rates in this unit: near 1, as tolerances of the linear program are.
    rates: Vec<f64>,
    symmetry: Symmetry,
    roots: Vec<u32>,
    /// In this unit, too.
    start: Start,
    oracle: Box<dyn Oracle>,
    /// Whether plans are those of the graph turned round.
    turned: bool,
}

impl<'a> Problem<'a> {
    fn new(graph: &Graph, collective: Collective, matrix: Option<&'a Matrix>) -> Problem<'a> {
        let turned = is_turned(collective);
        let ground = if turned { graph.reversed() } else { graph.clone() };
        let sends = |&rank: &u32| matrix.is_none_or(|matrix| matrix.row(rank as usize) > 0);
        let all = || -> Vec<u32> { (0..graph.ranks.len() as u32).filter(sends).collect() };
        let symmetry = match matrix {
            // Few of a fabric's symmetries leave a matrix as it is.
            Some(_) => Symmetry::none(graph),
            None => Symmetry::new(graph, collective.kind.rooted().then_some(collective.root)),
        };
        let (oracle, roots): (Box<dyn Oracle>, Vec<u32>) = match collective.kind {
            // Of whatever root: all symmetries turn the trees.
            Kind::AllReduce if !graph.is_symmetric() => {
                let first = symmetry.orbits(&all()).iter().map(|orbit| orbit[0]).collect();
                (Box::new(TreePairs::new(ground, first)), vec![])
            }
            Kind::AllReduce => (Box::new(SpanningTrees::new(ground)), vec![]),
            Kind::AllToAll => (Box::new(Paths(ground)), all()),
            Kind::AllGather | Kind::ReduceScatter => (Box::new(Arborescences(ground)), all()),
            Kind::Broadcast | Kind::Reduce => (Box::new(Arborescences(ground)), vec![collective.root]),
        };
        let unit = graph.arcs.iter().map(|arc| arc.rate).fold(f64::MIN_POSITIVE, f64::max);
        let rates = graph.arcs.iter().map(|arc| arc.rate / unit).collect();
        let share = share(collective, graph, matrix);
        Problem { matrix, share, unit, rates, symmetry, roots, start: Start::default(), oracle, turned }
    }

    /// Rows of the linear program: links and roots of which none is like another.
    fn rows(&self) -> usize {
        self.symmetry.arcs.len() + self.symmetry.orbits(&self.roots).len()
    }

    /// The best mixture at these rates.
    fn solve(&mut self, rates: &[f64], wanted: &Wanted, watch: Watch) -> Result<Mixture> {
        self.solve_until(rates, wanted, None, watch)
    }

    /// As [`Problem::solve`], but a time of `enough` will do; if there is none so short, what is found does not matter.
    fn solve_until(&mut self, rates: &[f64], wanted: &Wanted, enough: Option<f64>, watch: Watch) -> Result<Mixture> {
        let Problem { matrix, share, ref symmetry, ref roots, ref start, .. } = *self;
        let Wanted { accuracy, level, trees, loss } = *wanted;
        let level = level * self.unit;
        let demand =
            MixtureDemand { rates, symmetry, roots, matrix, share, level, accuracy, trees, loss, enough, start };
        demand.mixture(&mut *self.oracle, watch)
    }

    /// The best mixture, in the unit of rates; the prices of arcs are those of a `proof` if it proves as much.
    fn mixture(&mut self, graph: &Graph, wanted: &Wanted, proof: Option<&[f64]>, watch: Watch) -> Result<Mixture> {
        let mut found = self.solve(&self.rates.clone(), wanted, watch)?;
        if let Some(proof) = proof.filter(|_| found.least <= self.start.least) {
            let worth: f64 = proof.iter().zip(&self.rates).map(|(price, rate)| price * rate).sum();
            found.prices = proof.iter().map(|price| price / worth).collect();
        }
        if graph.rank_at.contains(&None) && !found.plans.is_empty() && !self.start.only_rates && wanted.loss > 0.0 {
            // In switches messages wait for each other. So what need not be busy should have time to spare.
            if let Some(spared) = self.spared(&found, wanted, watch)? {
                return Ok(spared);
            }
        }
        Ok(found)
    }

    /// A mixture hardly slower than one found that leaves arcs which are not the limit part of their time; `None` if there is none.
    fn spared(&mut self, found: &Mixture, wanted: &Wanted, watch: Watch) -> Result<Option<Mixture>> {
        let hardly = CRITICAL / self.rates.len() as f64;
        let enough = found.time * (1.0 + MORE);
        if wanted.trees.is_none() {
            let first: Vec<u32> = self.symmetry.orbits(&self.roots).iter().map(|orbit| orbit[0]).collect();
            let plans = found.plans.iter().take(MOST_ROWS).filter(|plan| first.is_empty() || first.contains(&plan.0));
            self.start.plans = plans.map(|(root, _, plan)| (*root, plan.clone())).collect();
        }
        for part in SPARE {
            let mut critical = vec![false; self.rates.len()];
            let mut prices = found.prices.clone();
            for _ in 0..TRIES {
                let worth = prices.iter().zip(&self.rates).map(|(price, rate)| price * rate);
                critical.iter_mut().zip(worth).for_each(|(critical, worth)| *critical |= worth > hardly);
                let spare = |(&rate, &critical): (&f64, &bool)| if critical { rate } else { rate * part };
                let rates: Vec<f64> = self.rates.iter().zip(&critical).map(spare).collect();
                let other = self.solve_until(&rates, wanted, Some(enough), watch)?;
                if other.time <= enough {
                    let Mixture { ref prices, least, .. } = *found;
                    return Ok(Some(Mixture { prices: prices.clone(), least, ..other }));
                }
                // What is the limit then keeps all its time.
                prices = other.prices;
            }
        }
        Ok(None)
    }
}

/// Whether plans of a collective lead towards their roots.
fn is_turned(collective: Collective) -> bool {
    matches!(collective.kind, Kind::ReduceScatter | Kind::Reduce)
}

/// Of every byte of a collective, those of a root's plans; with a matrix, one byte of it.
fn share(collective: Collective, graph: &Graph, matrix: Option<&Matrix>) -> f64 {
    match (matrix, collective.kind) {
        (Some(matrix), _) => 1.0 / matrix.most() as f64,
        (None, Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll) => 1.0 / graph.ranks.len() as f64,
        _ => 1.0,
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
    /// What leaving out plans of small shares may cost, relative; with 0 only the time counts, and all plans stay.
    pub loss: f64,
}

/// The best mixture of plans for a collective among all ranks, as it is wanted. With a `matrix` paths carry what it says, and bytes
/// of the collective are those of the rank that sends most. What is known at the `start` makes it sooner found.
///
/// # Errors
/// [`Code::TooLarge`] for more than some hundred links and ranks of which none can become another by a symmetry;
/// [`Code::Interrupted`].
pub fn mixture(
    graph: &Graph,
    collective: Collective,
    matrix: Option<&Matrix>,
    wanted: &Wanted,
    mut start: Start,
    watch: Watch,
) -> Result<Mixture> {
    let mut problem = Problem::new(graph, collective, matrix);
    let is_started = !start.plans.is_empty();
    let most_rows = if is_started { MANY_ROWS } else { MOST_ROWS };
    let too_large = |rows| {
        let what = format!("{rows} links and roots of which none is like another; at most {most_rows} are supported");
        Error::new(Code::TooLarge, what)
    };
    if problem.rows() > most_rows {
        return Err(too_large(problem.rows()));
    }
    // Those of trees are cuts, which say little of what is best beside them.
    let proof = if collective.kind == Kind::AllToAll { None } else { start.prices.take() };
    if problem.turned {
        start.plans.iter_mut().for_each(|(_, plan)| *plan = std::mem::take(plan).turned());
    }
    start.apart = is_started && problem.rows() > FEW_ROWS;
    let mut wanted = *wanted;
    // For little data few low trees count, which are looked for.
    // Small programs are soon solved as without a start.
    let is_large = is_started && problem.rows() > FEW_ROWS;
    if is_large && wanted.level * MANY_LEVELS <= start.least {
        start.only_rates = true;
        // Nothing but the search says how near paths are.
        let is_exact = collective.kind == Kind::AllToAll || wanted.loss == 0.0;
        wanted.accuracy = if is_exact { wanted.accuracy } else { GOOD };
    }
    start.least *= problem.unit;
    problem.start = start;
    let mut found = problem.mixture(graph, &wanted, proof.as_deref(), watch)?;
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
            let other = problem.mixture(graph, &wanted, proof.as_deref(), watch)?;
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
        found.plans.iter_mut().for_each(|(_, _, plan)| *plan = std::mem::take(plan).turned());
    }
    Ok(found)
}

/// The prices of arcs that prove the most, within `accuracy` of the optimum, in any unit; `None` if the linear program would
/// have more than `most_rows` rows.
pub fn prices(graph: &Graph, collective: Collective, accuracy: f64, most_rows: usize) -> Option<Vec<f64>> {
    let mut problem = Problem::new(graph, collective, None);
    let is_small = problem.rows() <= most_rows;
    let wanted = Wanted { accuracy, level: 0.0, trees: None, loss: 0.0 };
    let found = is_small.then(|| problem.solve(&problem.rates.clone(), &wanted, Watch::default()).ok())?;
    found.map(|found| found.prices)
}

#[cfg(test)]
mod tests;
