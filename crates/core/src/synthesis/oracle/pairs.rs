//! A tree up which sums go and another down which copies come, with one root: all-reduce where links differ by direction.

use super::{Arborescences, Oracle};
use crate::synthesis::graph::Graph;
use crate::synthesis::plan::Plan;

/// Pairs of trees that join all ranks, of the root whose pair is the cheapest.
pub struct TreePairs {
    up: Arborescences,
    down: Arborescences,
    roots: Vec<u32>,
}

impl TreePairs {
    /// Of a graph's ranks, with one of these roots.
    pub fn new(graph: Graph, roots: Vec<u32>) -> Self {
        TreePairs { up: Arborescences(graph.reversed()), down: Arborescences(graph), roots }
    }

    /// The cheapest of the pairs that `found` has of every root.
    fn best(&mut self, prices: &[f64], found: impl Fn(&mut Arborescences, &[f64], &[u32]) -> Vec<Plan>) -> Vec<Plan> {
        let [up, down] = [&mut self.up, &mut self.down].map(|trees| found(trees, prices, &self.roots));
        let cost = |(up, down): &(Plan, Plan)| up.cost(prices) + down.cost(prices);
        let best = up.into_iter().zip(down).min_by(|a, b| cost(a).total_cmp(&cost(b)));
        best.map(|(up, down)| up.turned().and(&down)).into_iter().collect()
    }
}

impl Oracle for TreePairs {
    /// O(roots * ways log ways).
    fn cheapest(&mut self, prices: &[f64], _: &[u32]) -> Vec<Plan> {
        self.best(prices, Arborescences::cheapest)
    }

    fn low(&mut self, prices: &[f64], _: &[u32]) -> Vec<Plan> {
        self.best(prices, Arborescences::low)
    }
}
