//! Cheapest ways from rank to rank over nodes that only forward.
//!
//! A way through a switch costs what the way in and the way out cost. So ways are kept by *hubs*, nodes to which some ranks
//! have an arc and from which others are reached: there are as many of these ways in and out as ranks at a switch, not as many as
//! pairs of them.

use crate::synthesis::graph::Graph;
use antiphon_base::watch::checkpoint;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A cost, and what costs it, in a heap that has the least first.
#[derive(PartialEq)]
pub struct Open(pub f64, pub u32);

impl Eq for Open {}

impl Ord for Open {
    #[inline]
    fn cmp(&self, other: &Open) -> Ordering {
        other.0.total_cmp(&self.0).then(other.1.cmp(&self.1))
    }
}

impl PartialOrd for Open {
    #[inline]
    fn partial_cmp(&self, other: &Open) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The cheapest ways from one node to others at given prices.
pub struct CheapestWays {
    cost: Vec<f64>,
    /// Last arc to every node that was reached.
    last: Vec<u32>,
    reached: Vec<u32>,
}

impl CheapestWays {
    /// For a graph of so many nodes.
    pub fn new(nodes: usize) -> CheapestWays {
        CheapestWays { cost: vec![f64::INFINITY; nodes], last: vec![u32::MAX; nodes], reached: vec![] }
    }

    /// Finds the ways from a node; over ranks, too, if `through`. O(arcs log arcs) of what is reached.
    pub fn run(&mut self, graph: &Graph, prices: &[f64], start: u32, through: bool) {
        checkpoint();
        for node in self.reached.drain(..) {
            (self.cost[node as usize], self.last[node as usize]) = (f64::INFINITY, u32::MAX);
        }
        let mut open = BinaryHeap::from([Open(0.0, start)]);
        self.cost[start as usize] = 0.0;
        self.reached.push(start);
        while let Some(Open(cost, node)) = open.pop() {
            if cost > self.cost[node as usize] {
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
                    if through || graph.rank_at[to as usize].is_none() {
                        open.push(Open(next, to));
                    }
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

/// A way from a rank to a hub.
#[derive(Debug, Clone, Copy)]
pub struct HubSource {
    pub rank: u32,
    pub cost: f64,
    /// What the way is, to whom made it.
    pub id: u32,
}

/// A way from a hub to a rank.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub hub: u32,
    pub to: u32,
    pub cost: f64,
    /// What the way is, to whom made it.
    pub id: u32,
}

/// Ways between ranks: from every source of a hub by every entry of it, but not to the same rank.
pub struct HubWays {
    pub ranks: usize,
    /// By hub, the cheapest first.
    pub sources: Vec<Vec<HubSource>>,
    /// By hub.
    pub entries: Vec<Entry>,
}

impl HubWays {
    /// Whether there is a way back for each. O(ways).
    pub fn are_mutual(&self) -> bool {
        let mut are = vec![false; self.ranks * self.ranks];
        for entry in &self.entries {
            for source in &self.sources[entry.hub as usize] {
                are[source.rank as usize * self.ranks + entry.to as usize] = true;
            }
        }
        (0..self.ranks).all(|a| (0..a).all(|b| are[a * self.ranks + b] == are[b * self.ranks + a]))
    }
}

/// A way from rank to rank: a source and an entry of the same hub.
pub type HubWay = (HubSource, Entry);

/// No arc.
const NONE: u32 = u32::MAX;

/// All ways between ranks, and where the arcs of each are.
pub struct Closure {
    /// The first arc of a way is the source's number; the others are the entry's.
    pub ways: HubWays,
    arcs: Vec<u32>,
    first: Vec<u32>,
}

impl Closure {
    /// At given prices; over other ranks, too, if `through`. O(arcs log arcs) for every hub.
    pub fn new(graph: &Graph, prices: &[f64], through: bool) -> Closure {
        let ranks = graph.ranks.len();
        // Every rank is a hub for the arcs out of it.
        let mut nodes: Vec<u32> = graph.ranks.clone();
        let own = |rank: u32| vec![HubSource { rank, cost: 0.0, id: NONE }];
        let mut sources: Vec<Vec<HubSource>> = (0..ranks as u32).map(own).collect();
        if !through {
            let mut hub_at: Vec<Option<usize>> = vec![None; graph.rank_at.len()];
            for (rank, &node) in (0..).zip(&graph.ranks) {
                for &id in &graph.out[node as usize] {
                    let to = graph.arcs[id as usize].to;
                    if graph.rank_at[to as usize].is_some() {
                        continue;
                    }
                    let hub = *hub_at[to as usize].get_or_insert_with(|| {
                        nodes.push(to);
                        sources.push(vec![]);
                        nodes.len() - 1
                    });
                    sources[hub].push(HubSource { rank, cost: prices[id as usize], id });
                }
            }
            let cheapest = |a: &HubSource, b: &HubSource| a.cost.total_cmp(&b.cost).then(a.id.cmp(&b.id));
            sources[ranks..].iter_mut().for_each(|sources| sources.sort_unstable_by(cheapest));
        }
        let ways = HubWays { ranks, sources, entries: vec![] };
        let mut closure = Closure { ways, arcs: vec![], first: vec![0] };
        let mut search = CheapestWays::new(graph.rank_at.len());
        for (hub, &node) in (0..).zip(&nodes) {
            if !through && (hub as usize) < ranks {
                for &id in &graph.out[node as usize] {
                    if let Some(to) = graph.rank_at[graph.arcs[id as usize].to as usize] {
                        closure.enter(hub, to, prices[id as usize], [id]);
                    }
                }
                continue;
            }
            search.run(graph, prices, node, through);
            for &reached in search.reached() {
                if let Some(to) = graph.rank_at[reached as usize].filter(|_| reached != node) {
                    closure.enter(hub, to, search.cost(reached), search.back(graph, reached));
                }
            }
        }
        closure
    }

    /// Adds a way from a hub, with its arcs from the last to the first.
    fn enter(&mut self, hub: u32, to: u32, cost: f64, back: impl IntoIterator<Item = u32>) {
        self.ways.entries.push(Entry { hub, to, cost, id: self.ways.entries.len() as u32 });
        let start = self.arcs.len();
        self.arcs.extend(back);
        self.arcs[start..].reverse();
        self.first.push(self.arcs.len() as u32);
    }

    /// Arcs of the way from a source to an entry, by their numbers.
    pub fn arcs(&self, source: u32, entry: u32) -> impl Iterator<Item = u32> + '_ {
        let arcs = &self.arcs[self.first[entry as usize] as usize..self.first[entry as usize + 1] as usize];
        Some(source).filter(|&arc| arc != NONE).into_iter().chain(arcs.iter().copied())
    }
}
