//! The throughput of what failures leave: a plan, which reaches it, and prices, which nothing can beat.

use antiphon_base::error::Result;
use antiphon_base::watch::Watch;
use antiphon_bound::proven_ps;
use antiphon_bound::synthesis::{self, Graph, MANY, Mixture, Plan, Start, Symmetry, Wanted};
use antiphon_model::collective::{Collective, Kind};
use antiphon_model::fabric::{Fabric, LinkId, Shape, View};
use antiphon_model::schedule::Certificate;
use antiphon_model::system::System;

/// How near to the optimum a plan is, relative.
const ACCURACY: f64 = 2e-4;

/// Arcs and ranks of the intact graph that are lost, each in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LostParts {
    pub arcs: Vec<u32>,
    pub ranks: Vec<u32>,
}

impl LostParts {
    /// The first, in order, of those that symmetries make of it: what all of them leave is alike. O(symmetries).
    pub fn first_alike(&self, symmetry: &Symmetry) -> LostParts {
        let moved = |of: &[u32], by: &[u32]| {
            let mut moved: Vec<u32> = of.iter().map(|&at| by[at as usize]).collect();
            moved.sort_unstable();
            moved
        };
        let images = symmetry.group.iter();
        let images =
            images.map(|by| LostParts { arcs: moved(&self.arcs, &by.arcs), ranks: moved(&self.ranks, &by.ranks) });
        images.min().expect("the identity is a symmetry")
    }
}

/// Why nothing is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Some ranks no longer reach each other.
    Disconnected,
    /// The root of a broadcast or reduction has failed.
    RootFailed,
    /// Fewer than two ranks are left.
    TooFewRanks,
}

impl Stopped {
    /// As people read it.
    pub fn as_str(self) -> &'static str {
        match self {
            Stopped::Disconnected => "disconnected",
            Stopped::RootFailed => "root failed",
            Stopped::TooFewRanks => "fewer than 2 ranks",
        }
    }
}

/// The optimum by rates, between a plan and prices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OptimumRange {
    /// Picoseconds for every byte of the collective: of a plan, counted from what it puts on links.
    pub reached: f64,
    /// Picoseconds for every byte that the prices of links prove no plan to be below.
    pub proven: f64,
}

/// The intact fabric, with what each failure's search starts from.
pub struct Intact<'a> {
    pub fabric: &'a Fabric,
    pub system: &'a System,
    pub collective: Collective,
    pub graph: Graph,
    /// Of what fails, the collective's root stays where it is.
    pub symmetry: Symmetry,
    pub optimum: OptimumRange,
    plans: Vec<(u32, Plan)>,
}

impl<'a> Intact<'a> {
    /// Plans the intact fabric.
    ///
    /// # Errors
    /// As [`synthesis::mixture`].
    pub fn new(fabric: &'a Fabric, system: &'a System, collective: Collective) -> Result<Self> {
        let graph = Graph::new(fabric, system);
        let symmetry = Symmetry::new(&graph, collective.kind.rooted().then_some(collective.root));
        let (optimum, mixture) = optimum(fabric, system, collective, &graph, vec![])?;
        let plans = mixture.plans.into_iter().map(|(root, _, plan)| (root, plan)).collect();
        Ok(Intact { fabric, system, collective, graph, symmetry, optimum, plans })
    }

    /// The optimum of what is left, or why there is none.
    ///
    /// # Errors
    /// As [`synthesis::mixture`].
    pub fn without(&self, lost: &LostParts) -> Result<std::result::Result<OptimumRange, Stopped>> {
        let Collective { kind, root } = self.collective;
        let ranks: Vec<u32> =
            (0..self.fabric.ranks() as u32).filter(|rank| lost.ranks.binary_search(rank).is_err()).collect();
        let root = if kind.rooted() { ranks.iter().position(|&rank| rank == root) } else { Some(0) };
        let Some(root) = root else { return Ok(Err(Stopped::RootFailed)) };
        if ranks.len() < 2 {
            return Ok(Err(Stopped::TooFewRanks));
        }
        let mut keeps = vec![true; self.fabric.links.len()];
        let links = lost.arcs.iter().flat_map(|&arc| &self.graph.arcs[arc as usize].links);
        links.for_each(|&link| keeps[link as usize] = false);
        // Of ranks and links of a fabric nothing else can be wrong.
        let view = View::new(self.fabric.clone(), Shape::Graph, ranks, |link| keeps[link as usize]);
        let Ok(View { fabric, ranks, links }) = view else { return Ok(Err(Stopped::Disconnected)) };
        let graph = Graph::new(&fabric, self.system);
        let plans = self.left(&graph, &ranks, &links);
        let collective = Collective { kind, root: root as u32 };
        Ok(Ok(optimum(&fabric, self.system, collective, &graph, plans)?.0))
    }

    /// Plans that use nothing of what is lost, and still reach all `ranks`.
    fn left(&self, graph: &Graph, ranks: &[u32], links: &[LinkId]) -> Vec<(u32, Plan)> {
        let mut rank_of = vec![None; self.fabric.ranks()];
        (0..).zip(ranks).for_each(|(new, &old)| rank_of[old as usize] = Some(new));
        let mut arc_of_link = vec![None; self.fabric.links.len()];
        for (id, arc) in (0..).zip(&graph.arcs) {
            arc.links.iter().for_each(|&link| arc_of_link[links[link as usize] as usize] = Some(id));
        }
        let arc_of: Vec<Option<u32>> = self.graph.arcs.iter().map(|arc| arc_of_link[arc.links[0] as usize]).collect();
        let way = |arcs: &[u32]| arcs.iter().map(|&arc| arc_of[arc as usize]).collect::<Option<Vec<u32>>>();
        let moved = |(root, plan): &(u32, Plan)| {
            let mut moved = Plan::default();
            for (at, &(above, below)) in plan.branches.iter().enumerate() {
                if let (Some(above), Some(below)) = (rank_of[above as usize], rank_of[below as usize]) {
                    let [up, down] = plan.ways(at);
                    moved.branch(above, below, way(up)?, way(down)?);
                }
            }
            // A tree without a leaf is a tree.
            let is_whole = moved.branches.len() + 1 == ranks.len();
            rank_of[*root as usize].filter(|_| is_whole).map(|root| (root, moved))
        };
        self.plans.iter().filter_map(moved).collect()
    }
}

/// The optimum of a collective among all ranks of a fabric, searched from some plans, and the mixture that was found.
fn optimum(
    fabric: &Fabric,
    system: &System,
    collective: Collective,
    graph: &Graph,
    plans: Vec<(u32, Plan)>,
) -> Result<(OptimumRange, Mixture)> {
    let wanted = Wanted { accuracy: ACCURACY, level: 0.0, trees: None, loss: 0.0 };
    let start = Start { plans, ..Start::default() };
    // Cuts say little of paths.
    let start =
        if collective.kind == Kind::AllToAll { start } else { start.with_cuts(fabric, system, collective, graph)? };
    let mixture = synthesis::mixture(graph, collective, None, &wanted, start, Watch::default())?;
    let bytes = fabric.ranks() as u64 * MANY;
    let certificate = Certificate::new(graph.of_links(&mixture.prices));
    let proven = proven_ps(fabric, system, collective, bytes, &certificate)? as f64 / bytes as f64;
    Ok((OptimumRange { reached: reached(graph, collective, &mixture), proven }, mixture))
}

/// Picoseconds for every byte for which the busiest arc is busy.
fn reached(graph: &Graph, collective: Collective, mixture: &Mixture) -> f64 {
    let share = match collective.kind {
        Kind::AllReduce | Kind::Broadcast | Kind::Reduce => 1.0,
        // Every rank has as much of the data.
        Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll => 1.0 / graph.ranks.len() as f64,
    };
    // Shares of a root add up to one but for what the linear program tolerates. Trees of an all-reduce are of none.
    let root = |root: u32| if collective.kind == Kind::AllReduce { 0 } else { root as usize };
    let mut sums = vec![0.0; graph.ranks.len()];
    mixture.plans.iter().for_each(|&(of, amount, _)| sums[root(of)] += amount);
    let mut busy = vec![0.0; graph.arcs.len()];
    for (of, amount, plan) in &mixture.plans {
        let amount = share * amount / sums[root(*of)];
        plan.arcs().iter().for_each(|&arc| busy[arc as usize] += amount);
    }
    busy.iter().zip(&graph.arcs).map(|(busy, arc)| busy / arc.rate).fold(0.0, f64::max)
}
