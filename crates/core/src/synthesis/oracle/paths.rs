//! Paths from every rank to every other: all-to-all.

use super::Oracle;
use super::closure::Search;
use crate::synthesis::graph::Graph;
use crate::synthesis::plan::Plan;

/// The paths of a rank to all others, over any nodes.
pub struct Paths(pub Graph);

impl Oracle for Paths {
    /// E. W. Dijkstra's, from every root.
    fn cheapest(&mut self, prices: &[f64], roots: &[u32]) -> Vec<Plan> {
        let Paths(graph) = self;
        let mut search = Search::new(graph.rank_at.len());
        roots.iter().map(|&from| search.added(graph, prices, from, Plan::default())).collect()
    }

    fn whole(&mut self, prices: &[f64], left: &[(u32, Plan)]) -> Vec<Plan> {
        let Paths(graph) = self;
        let mut search = Search::new(graph.rank_at.len());
        left.iter().map(|(from, left)| search.added(graph, prices, *from, left.clone())).collect()
    }
}

impl Search {
    /// A plan with the cheapest path from a rank to each that it has no path to.
    fn added(&mut self, graph: &Graph, prices: &[f64], from: u32, mut plan: Plan) -> Plan {
        let mut has = vec![false; graph.ranks.len()];
        has[from as usize] = true;
        plan.branches.iter().for_each(|branch| has[branch.1 as usize] = true);
        if has.contains(&false) {
            self.run(graph, prices, from, true);
        }
        for to in (0..graph.ranks.len() as u32).filter(|&to| !has[to as usize]) {
            let mut arcs: Vec<u32> = self.back(graph, graph.ranks[to as usize]).collect();
            arcs.reverse();
            plan.branch(from, to, [], arcs);
        }
        plan
    }
}
