//! Mixtures of trees, laid on links and streamed.

use super::{mixture, most_trees};
use crate::algorithm::combs::{self, Combs};
use crate::algorithm::tree::{self, Timetable, Tree, Work};
use crate::algorithm::{Algorithm, Request, forest, multitree};
use crate::collective::Kind;
use crate::error::Result;
use crate::fabric::LinkId;
use crate::schedule::Schedule;
use crate::synthesis::{Graph, Plan};

/// Up to so many ranks packings of equal trees are tried beside plans.
const FEW_RANKS: usize = 64;
/// Parts of a root's data that shares are rounded to.
const WHOLE: f64 = 65536.0;

/// The schedule of the best mixture of trees.
///
/// # Errors
/// As [`crate::algorithm::Algorithm::build`].
pub fn trees(request: &Request) -> Result<Schedule> {
    let Request { fabric, system, collective, .. } = *request;
    let work = match collective.kind {
        Kind::AllReduce => Work::Overlapped,
        Kind::ReduceScatter | Kind::Reduce => Work::Reduce,
        _ => Work::Broadcast,
    };
    let graph = Graph::new(fabric, system);
    // A level of a tree costs the time of a way.
    let way = fabric.links.iter().map(|link| system.latency_of(link)).max().unwrap_or(0) + system.hand_off_ps;
    let level = way.max(1) as f64 / request.bytes as f64;
    let mut choices: Vec<Choice> = vec![];
    let many = fabric.ranks() > FEW_RANKS;
    let alike = |trees: Vec<Tree>| {
        let sizes = vec![1; trees.len()];
        (trees, sizes, false)
    };
    let most = most_trees(request);
    if collective.kind == Kind::AllReduce {
        let combs = combs::trees(request).unwrap_or_default();
        if many && !combs.is_empty() && most.is_none_or(|most| combs.len() <= most) {
            // These are the optimum, and plans would only take time to find.
            return Combs.build(request);
        }
        choices.extend(tree::prefixes(combs.len()).filter(|&few| few > 0).map(|few| alike(combs[..few].to_vec())));
        if !many {
            choices.extend(forest::trees(request).into_iter().flatten().map(alike));
        }
    }
    if !many && !collective.kind.rooted() {
        // One low tree of every rank: soonest through where there is little data.
        choices.extend(multitree::trees(request).map(alike));
    }
    if let Some(most) = most {
        // All of these have the same number for every root, and all AllReduce's are of none.
        let roots = if collective.kind == Kind::AllReduce { 1 } else { fabric.ranks() };
        choices.retain(|(trees, ..)| trees.len() <= most.saturating_mul(roots));
    }
    let mixture = mixture(request, &graph, level)?;
    let sizes = mixture.plans.iter().map(|plan| ((plan.1 * WHOLE).round() as u32).max(1)).collect();
    choices.push((mixture.plans.iter().map(|plan| lay(&graph, &plan.2)).collect(), sizes, true));
    let timetables = choices
        .iter()
        .map(|(trees, sizes, together)| Timetable::new(request, trees, sizes.clone(), work, *together))
        .collect::<Vec<_>>();
    tree::stream_timed(request, &timetables)
}

/// Trees, their parts of the data, and whether parallel links carry messages together.
type Choice = (Vec<Tree>, Vec<u32>, bool);

/// Lays a plan on the links of its arcs.
fn lay(graph: &Graph, plan: &Plan) -> Tree {
    let links = |way: &[u32]| way.iter().map(|&arc| graph.arcs[arc as usize].links[0]).collect::<Vec<LinkId>>();
    let ends = plan.branches.iter().enumerate();
    Tree::new(graph.ranks.len(), ends.map(|(at, &(above, below))| (below, above, plan.ways(at).map(links))))
}
