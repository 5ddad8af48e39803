//! Paths from every rank to every other: all-to-all.

use super::Oracle;
use super::closure::Search;
use crate::synthesis::graph::Graph;
use crate::synthesis::plan::Plan;

/// The paths of a rank to all others, over any nodes.
pub struct Paths(pub Graph);

impl Oracle for Paths {
    /// E. W. Dijkstra's, from every root.
    fn plans(&mut self, prices: &[f64], roots: &[u32], _: bool) -> [Vec<Plan>; 2] {
        let Paths(graph) = self;
        let mut search = Search::new(graph.rank_at.len());
        let mut plan = |&from: &u32| {
            search.run(graph, prices, graph.ranks[from as usize], true);
            let mut plan = Plan::default();
            for to in (0..graph.ranks.len() as u32).filter(|&to| to != from) {
                let mut arcs: Vec<u32> = search.back(graph, graph.ranks[to as usize]).collect();
                arcs.reverse();
                plan.branch(from, to, [], arcs);
            }
            plan
        };
        [roots.iter().map(&mut plan).collect(), vec![]]
    }
}
