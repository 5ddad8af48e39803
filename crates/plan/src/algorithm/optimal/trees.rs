//! Mixtures of trees, laid on links and streamed.

use super::{FEW_RANKS, credits, equal, most_trees};
use crate::algorithm::combs;
use crate::algorithm::tree::{self, Timetable, Tree, TreeWork, Tried};
use crate::algorithm::{Request, forest, multitree};
use antiphon_base::error::Result;
use antiphon_bound::synthesis::{Graph, Mixture, Plan};
use antiphon_model::collective::Kind;
use antiphon_model::fabric::LinkId;
use antiphon_model::schedule::Schedule;
use std::ops::RangeInclusive;

/// Parts of a root's data that shares are rounded to.
const WHOLE: f64 = 65536.0;
/// Up to so many rounds queues are short without credits.
const FEW_ROUNDS: u64 = 32;

/// The schedule of a mixture of trees, or of a packing of equal ones that is sooner through.
///
/// # Errors
/// As [`crate::algorithm::Algorithm::build`].
pub fn lowered(request: &Request, graph: &Graph, mixture: &Mixture, tried: Tried) -> Result<Schedule> {
    let collective = request.collective;
    let work = match collective.kind {
        Kind::AllReduce => TreeWork::Overlapped,
        Kind::ReduceScatter | Kind::Reduce => TreeWork::Reduce,
        _ => TreeWork::Broadcast,
    };
    let mut choices: Vec<TreeChoice> = vec![];
    let many = request.ranks() > FEW_RANKS;
    let most = most_trees(request);
    if collective.kind == Kind::AllReduce {
        let combs = combs::trees(request).unwrap_or_default();
        let few = tree::prefixes(combs.len()).filter(|&few| few > 0);
        choices.extend(few.map(|few| TreeChoice::alike(combs[..few].to_vec())));
        if !many {
            choices.extend(forest::trees(request).into_iter().flatten().map(TreeChoice::alike));
        }
    }
    if !many && !collective.kind.rooted() {
        // One low tree of every rank: soonest through where there is little data.
        choices.extend(multitree::trees(request).map(TreeChoice::alike));
    }
    choices.extend(equal::trees(request).map(TreeChoice::alike));
    if let Some(most) = most {
        // All of these have the same number for every root, and all AllReduce's are of none.
        let roots =
            if matches!(collective.kind, Kind::AllGather | Kind::ReduceScatter) { request.fabric.ranks() } else { 1 };
        choices.retain(|choice| choice.trees.len() <= most.saturating_mul(roots));
    }
    let sizes = mixture.plans.iter().map(|plan| ((plan.1 * WHOLE).round() as u32).max(1)).collect();
    let trees = mixture.plans.iter().map(|plan| lay(graph, &plan.2)).collect();
    let mut own = TreeChoice { together: true, ..TreeChoice::sized(trees, sizes) };
    let credits = if most.is_none() { credits::tree(request, &own.timetable(request, work)) } else { None };
    if let Some((credits, credited)) = credits {
        let trees = own.trees.iter().cloned().chain([credits]).collect();
        let sizes = own.sizes.iter().copied().chain([1]).collect();
        own.rounds = 1..=FEW_ROUNDS;
        // From fewer on, as the size of pieces may be given, which are of one tree more here.
        let rounds = FEW_ROUNDS / 2..=u64::MAX;
        choices.push(TreeChoice { together: true, rounds, credited, ..TreeChoice::sized(trees, sizes) });
    }
    choices.push(own);
    let timetables = choices.iter().map(|choice| choice.timetable(request, work)).collect::<Vec<_>>();
    tree::stream_timed(request, &timetables, tried)
}

/// Trees, their parts of the data, whether parallel links carry messages together, in how many rounds, and who waits for the last tree.
struct TreeChoice {
    trees: Vec<Tree>,
    sizes: Vec<u32>,
    together: bool,
    rounds: RangeInclusive<u64>,
    credited: Vec<u32>,
}

impl TreeChoice {
    /// With equal parts.
    fn alike(trees: Vec<Tree>) -> Self {
        let sizes = vec![1; trees.len()];
        TreeChoice::sized(trees, sizes)
    }

    fn sized(trees: Vec<Tree>, sizes: Vec<u32>) -> Self {
        TreeChoice { trees, sizes, together: false, rounds: 1..=u64::MAX, credited: vec![] }
    }

    fn timetable<'a>(&'a self, request: &'a Request<'a>, work: TreeWork) -> Timetable<'a> {
        let timetable = Timetable::new(request, &self.trees, self.sizes.clone(), work, self.together);
        timetable.within(self.rounds.clone()).credited(self.credited.clone())
    }
}

/// Lays a plan on the links of its arcs.
fn lay(graph: &Graph, plan: &Plan) -> Tree {
    let links = |way: &[u32]| way.iter().map(|&arc| graph.arcs[arc as usize].links[0]).collect::<Vec<LinkId>>();
    let branch = |&at: &usize| (plan.branches[at].1, plan.branches[at].0, plan.ways(at).map(links));
    let tree = |branches: &[usize]| Tree::new(graph.ranks.len(), branches.iter().map(branch));
    match plan.trees() {
        [up, down] if up.is_empty() || up == down => tree(&down),
        [up, down] if down.is_empty() => tree(&up),
        [up, down] => Tree::pair(tree(&up), tree(&down)),
    }
}
