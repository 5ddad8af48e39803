//! Paths from every rank to every other: all-to-all.

use super::Oracle;
use super::closure::CheapestWays;
use crate::synthesis::graph::Graph;
use crate::synthesis::plan::Plan;

/// The paths of a rank to all others, over any nodes.
pub struct Paths(pub Graph);

impl Oracle for Paths {
    /// E. W. Dijkstra's, from every root.
    fn plans(&mut self, prices: &[f64], roots: &[u32], _: bool) -> [Vec<Plan>; 2] {
        let Paths(graph) = self;
        let mut search = CheapestWays::new(graph.rank_at.len());
        [roots.iter().map(|&from| plan(&mut search, graph, prices, from)).collect(), vec![]]
    }
}

/// The cheapest paths of a rank to all others.
fn plan(search: &mut CheapestWays, graph: &Graph, prices: &[f64], from: u32) -> Plan {
    let mut plan = Plan::default();
    search.run(graph, prices, graph.ranks[from as usize], true);
    for (to, &node) in (0..).zip(&graph.ranks).filter(|other| other.0 != from) {
        let mut arcs: Vec<u32> = search.back(graph, node).collect();
        arcs.reverse();
        plan.branch(from, to, [], arcs);
    }
    plan
}
