//! Paths from every rank to every other: all-to-all.

use super::Oracle;
use super::closure::Search;
use crate::synthesis::graph::Graph;
use crate::synthesis::plan::Plan;

/// The paths of each rank to all others, over any nodes.
pub struct Paths {
    graph: Graph,
    shares: Vec<f64>,
}

impl Paths {
    /// Of a graph's ranks.
    pub fn new(graph: Graph) -> Self {
        let ranks = graph.ranks.len();
        Paths { graph, shares: vec![1.0 / ranks as f64; ranks] }
    }
}

impl Oracle for Paths {
    fn shares(&self) -> &[f64] {
        &self.shares
    }

    /// E. W. Dijkstra's, from every rank.
    fn cheapest(&mut self, prices: &[f64]) -> Vec<Plan> {
        let mut search = Search::new(self.graph.rank_at.len());
        let mut plan = |from: u32| {
            search.run(&self.graph, prices, from, true);
            let mut plan = Plan::default();
            for to in (0..self.graph.ranks.len() as u32).filter(|&to| to != from) {
                let mut arcs: Vec<u32> = search.back(&self.graph, self.graph.ranks[to as usize]).collect();
                arcs.reverse();
                plan.branch(from, to, [], arcs);
            }
            plan
        };
        (0..self.graph.ranks.len() as u32).map(&mut plan).collect()
    }
}
