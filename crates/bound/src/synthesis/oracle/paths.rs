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
        [roots.iter().map(|&from| search.added(graph, prices, from, Plan::default())).collect(), vec![]]
    }
}

impl Search {
    /// A plan of paths from a rank, with the cheapest to every rank that it has none to.
    pub fn added(&mut self, graph: &Graph, prices: &[f64], from: u32, mut plan: Plan) -> Plan {
        let mut has = vec![false; graph.ranks.len()];
        has[from as usize] = true;
        plan.branches.iter().for_each(|branch| has[branch.1 as usize] = true);
        self.run(graph, prices, graph.ranks[from as usize], true);
        for to in (0..).zip(has).filter(|(_, has)| !has).map(|(to, _)| to) {
            let mut arcs: Vec<u32> = self.back(graph, graph.ranks[to as usize]).collect();
            arcs.reverse();
            plan.branch(from, to, [], arcs);
        }
        plan
    }
}
