//! Cheapest ways from rank to rank over nodes that only forward.

use crate::synthesis::graph::Graph;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

/// A way from a rank to another one without ranks between.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Way {
    pub from: u32,
    pub to: u32,
    pub cost: f64,
}

/// A cost, and what costs it, in a heap that has the least first.
#[derive(PartialEq)]
pub struct Open(pub f64, pub u32);

impl Eq for Open {}

impl Ord for Open {
    fn cmp(&self, other: &Open) -> Ordering {
        other.0.total_cmp(&self.0).then(other.1.cmp(&self.1))
    }
}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Open) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The cheapest ways from one rank to others at given prices.
pub struct Search {
    cost: Vec<f64>,
    /// Last arc to every node that was reached.
    last: Vec<u32>,
    reached: Vec<u32>,
}

impl Search {
    /// For a graph of so many nodes.
    pub fn new(nodes: usize) -> Search {
        Search { cost: vec![f64::INFINITY; nodes], last: vec![u32::MAX; nodes], reached: vec![] }
    }

    /// Finds the ways from a rank; over other ranks, too, if `through`. O(arcs log arcs) of what is reached.
    pub fn run(&mut self, graph: &Graph, prices: &[f64], from: u32, through: bool) {
        for node in self.reached.drain(..) {
            (self.cost[node as usize], self.last[node as usize]) = (f64::INFINITY, u32::MAX);
        }
        let start = graph.ranks[from as usize];
        let mut open = BinaryHeap::from([Open(0.0, start)]);
        self.cost[start as usize] = 0.0;
        self.reached.push(start);
        while let Some(Open(cost, node)) = open.pop() {
            let ends = !through && node != start && graph.rank_at[node as usize].is_some();
            if ends || cost > self.cost[node as usize] {
                continue;
            }
            for &id in &graph.out[node as usize] {
                let (to, next) = (graph.arcs[id as usize].to, cost + prices[id as usize]);
                let known = &mut self.cost[to as usize];
                if next < *known {
                    if *known == f64::INFINITY {
                        self.reached.push(to);
                    }
                    (*known, self.last[to as usize]) = (next, id);
                    open.push(Open(next, to));
                }
            }
        }
    }

    /// What the way to a node costs.
    pub fn cost(&self, node: u32) -> f64 {
        self.cost[node as usize]
    }

    /// Arcs to a node, from the last to the first.
    pub fn back<'a>(&'a self, graph: &'a Graph, node: u32) -> impl Iterator<Item = u32> + 'a {
        let arc = |node: u32| Some(self.last[node as usize]).filter(|&arc| arc != u32::MAX);
        std::iter::successors(arc(node), move |&id| arc(graph.arcs[id as usize].from))
    }

    /// Nodes in the order in which they were reached first.
    pub fn reached(&self) -> &[u32] {
        &self.reached
    }
}

/// All ways between ranks, and where the arcs of each are.
pub struct Closure {
    /// Ways, by where they start.
    pub ways: Vec<Way>,
    arcs: Vec<u32>,
    first: Vec<u32>,
}

impl Closure {
    /// At given prices; over other ranks, too, if `through`.
    pub fn new(graph: &Graph, prices: &[f64], through: bool) -> Closure {
        let mut closure = Closure { ways: vec![], arcs: vec![], first: vec![0] };
        let mut search = Search::new(graph.rank_at.len());
        for from in 0..graph.ranks.len() as u32 {
            search.run(graph, prices, from, through);
            for &node in search.reached() {
                let Some(to) = graph.rank_at[node as usize].filter(|&to| to != from) else { continue };
                closure.ways.push(Way { from, to, cost: search.cost(node) });
                let start = closure.arcs.len();
                closure.arcs.extend(search.back(graph, node));
                closure.arcs[start..].reverse();
                closure.first.push(closure.arcs.len() as u32);
            }
        }
        closure
    }

    /// The way in the opposite direction of each, if there is one.
    pub fn back(&self) -> Vec<Option<u32>> {
        let numbers: HashMap<(u32, u32), u32> =
            (0..).zip(&self.ways).map(|(id, way)| ((way.from, way.to), id)).collect();
        self.ways.iter().map(|way| numbers.get(&(way.to, way.from)).copied()).collect()
    }

    /// Arcs of a way.
    pub fn arcs(&self, way: u32) -> &[u32] {
        &self.arcs[self.first[way as usize] as usize..self.first[way as usize + 1] as usize]
    }
}
