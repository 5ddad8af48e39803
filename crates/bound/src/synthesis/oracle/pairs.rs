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
}

impl Oracle for TreePairs {
    /// As [`Arborescences`], for every root and both ways.
    fn plans(&mut self, prices: &[f64], _: &[u32], low: bool) -> [Vec<Plan>; 2] {
        let [ups, downs] = [&mut self.up, &mut self.down].map(|trees| trees.plans(prices, &self.roots, low));
        let cost = |(up, down): &(Plan, Plan)| up.cost(prices) + down.cost(prices);
        let both = ups.into_iter().zip(downs).map(|(ups, downs)| {
            let best = ups.into_iter().zip(downs).min_by(|a, b| cost(a).total_cmp(&cost(b)));
            best.map(|(up, down)| up.turned().and(&down)).into_iter().collect()
        });
        let [cheapest, low]: [Vec<Plan>; 2] = both.collect::<Vec<_>>().try_into().expect("cheapest and low ones");
        [cheapest, low]
    }
}
