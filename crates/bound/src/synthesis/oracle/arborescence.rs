//! Trees away from every root: all-gather and broadcast, and turned round reduce-scatter and reduce.
//!
//! The cheapest arborescence by contraction of cycles, with heaps of the ways into every part (Y. J. Chu and T. H. Liu
//! 1965; J. Edmonds 1967; R. E. Tarjan, "Finding optimum branchings", Networks 1977).

use super::Oracle;
use super::closure::{Closure, Entry, HubSource, HubWay, HubWays};
use super::low::Lowest;
use crate::synthesis::graph::Graph;
use crate::synthesis::parts::DisjointSets;
use crate::synthesis::plan::Plan;
use antiphon_base::watch::checkpoint;

/// Trees that reach all ranks from a root.
pub struct Arborescences(pub Graph);

impl Oracle for Arborescences {
    /// O(entries log entries) for every root, where few sources of a hub become one part before others.
    fn plans(&mut self, prices: &[f64], roots: &[u32], low: bool) -> [Vec<Plan>; 2] {
        let closure = Closure::new(&self.0, prices, false);
        let mut branching = Branching::new(&closure.ways);
        let cheapest = roots.iter().map(|&root| plan(&closure, &branching.from(root))).collect();
        let lowest = Lowest::new(&closure.ways);
        let roots = if low { roots } else { &[] };
        [cheapest, roots.iter().map(|&root| plan(&closure, &lowest.from(root).0)).collect()]
    }
}

/// The plan of a tree, as the way into every rank.
fn plan(closure: &Closure, into: &[Option<HubWay>]) -> Plan {
    let mut plan = Plan::default();
    for (source, entry) in into.iter().flatten() {
        plan.branch(source.rank, entry.to, [], closure.arcs(source.id, entry.id));
    }
    plan
}

const NONE: u32 = u32::MAX;

/// The entries of each rank, as heaps that are merged when ranks become one part.
struct Branching<'a> {
    ways: &'a HubWays,
    /// Leftist trees over entries.
    nodes: Vec<HeapNode>,
    /// The nodes and the heaps of all ranks, as they are at first.
    fresh: Vec<HeapNode>,
    heaps: Vec<u32>,
}

#[derive(Clone, Copy)]
struct HeapNode {
    left: u32,
    right: u32,
    rank: u32,
    /// Which of its hub's sources the entry is taken with.
    source: u32,
    /// Cost less what parts have taken, and what the entries below have yet to take.
    cost: f64,
    less: f64,
}

impl<'a> Branching<'a> {
    fn new(ways: &'a HubWays) -> Self {
        let mut queues = vec![Vec::new(); ways.ranks];
        (0..).zip(&ways.entries).for_each(|(id, entry)| queues[entry.to as usize].push(id));
        let node = |entry: &Entry| HeapNode {
            left: NONE,
            right: NONE,
            rank: 1,
            source: 0,
            cost: entry.cost + ways.sources[entry.hub as usize][0].cost,
            less: 0.0,
        };
        let mut branching =
            Branching { ways, nodes: ways.entries.iter().map(node).collect(), fresh: vec![], heaps: vec![] };
        for mut queue in queues {
            // Pairs first, so that the heap is low.
            while queue.len() > 1 {
                queue = queue
                    .chunks(2)
                    .map(|pair| branching.merge(pair[0], pair.get(1).copied().unwrap_or(NONE)))
                    .collect();
            }
            branching.heaps.push(queue.first().copied().unwrap_or(NONE));
        }
        branching.fresh.clone_from(&branching.nodes);
        branching
    }

    /// The source with which an entry is taken.
    fn source(&self, entry: u32) -> HubSource {
        self.ways.sources[self.ways.entries[entry as usize].hub as usize][self.nodes[entry as usize].source as usize]
    }

    /// Takes the first entry of a heap with its next source from outside a part. What is left of the heap, with it if there is one.
    fn next(&mut self, heap: u32, part: u32, parts: &mut DisjointSets) -> u32 {
        let HeapNode { left, right, source, .. } = self.nodes[heap as usize];
        let rest = self.merge(left, right);
        let sources = &self.ways.sources[self.ways.entries[heap as usize].hub as usize];
        let inside = &sources[source as usize];
        let outside = (source + 1..).zip(&sources[source as usize + 1..]).find(|next| parts.of(next.1.rank) != part);
        let Some((source, next)) = outside else { return rest };
        let cost = self.nodes[heap as usize].cost + (next.cost - inside.cost);
        self.nodes[heap as usize] = HeapNode { left: NONE, right: NONE, rank: 1, source, cost, less: 0.0 };
        self.merge(rest, heap)
    }

    /// The way into every rank but the root, of the cheapest tree away from it.
    ///
    /// # Panics
    /// If some rank cannot be reached.
    fn from(&mut self, root: u32) -> Vec<Option<HubWay>> {
        checkpoint();
        let ranks = self.ways.ranks;
        self.nodes.clone_from(&self.fresh);
        let mut heaps = self.heaps.clone();
        // Parts: ranks, then what cycles were contracted to. `above` is the part that a part went into.
        let mut above: Vec<u32> = (0..ranks as u32).collect();
        let mut parts = DisjointSets::new(ranks);
        let mut entered: Vec<Option<HubWay>> = vec![None; ranks];
        let mut state: Vec<u8> = vec![0; ranks];
        state[root as usize] = 2;
        for start in 0..ranks as u32 {
            let mut path: Vec<u32> = vec![];
            let mut part = parts.of(start);
            while state[part as usize] != 2 {
                state[part as usize] = 1;
                path.push(part);
                // The cheapest way from outside.
                let way = loop {
                    let first = heaps[part as usize];
                    assert_ne!(first, NONE, "every rank can be reached");
                    self.settle(first);
                    let source = self.source(first);
                    if parts.of(source.rank) != part {
                        break (source, self.ways.entries[first as usize]);
                    }
                    heaps[part as usize] = self.next(first, part, &mut parts);
                };
                entered[part as usize] = Some(way);
                let from = parts.of(way.0.rank);
                if state[from as usize] != 1 {
                    part = from;
                    continue;
                }
                // A cycle: its parts become one.
                let whole = parts.push();
                let mut heap = NONE;
                while let Some(member) = path.pop() {
                    // What it has been entered by is still the first.
                    let first = heaps[member as usize];
                    self.nodes[first as usize].less += self.nodes[first as usize].cost;
                    heap = self.merge(heap, first);
                    above[member as usize] = whole;
                    parts.join(member, whole);
                    if member == from {
                        break;
                    }
                }
                above.push(whole);
                entered.push(None);
                state.push(0);
                heaps.push(heap);
                part = whole;
            }
            path.into_iter().for_each(|part| state[part as usize] = 2);
        }
        self.expand(root, &above, entered)
    }

    /// From the outermost parts inwards: the way into a part is that into the member it enters; others keep theirs.
    fn expand(&self, root: u32, above: &[u32], mut entered: Vec<Option<HubWay>>) -> Vec<Option<HubWay>> {
        let mut taken = vec![false; above.len()];
        for part in (0..above.len() as u32).rev().filter(|&part| part != root) {
            let Some(way) = entered[part as usize].filter(|_| !taken[part as usize]) else { continue };
            // All parts around where it ends, up to this one, are entered by it.
            let mut member = way.1.to;
            while member != part {
                taken[member as usize] = true;
                entered[member as usize] = Some(way);
                member = above[member as usize];
            }
        }
        entered[root as usize] = None;
        entered.truncate(self.ways.ranks);
        entered
    }

    /// Gives the ways below what they have yet to take.
    fn settle(&mut self, at: u32) {
        let HeapNode { left, right, less, .. } = self.nodes[at as usize];
        if less != 0.0 {
            for child in [left, right].into_iter().filter(|&child| child != NONE) {
                self.nodes[child as usize].less += less;
            }
            let node = &mut self.nodes[at as usize];
            (node.cost, node.less) = (node.cost - less, 0.0);
        }
    }

    fn merge(&mut self, a: u32, b: u32) -> u32 {
        if a == NONE || b == NONE {
            return if a == NONE { b } else { a };
        }
        self.settle(a);
        self.settle(b);
        let (top, other) = if self.nodes[a as usize].cost <= self.nodes[b as usize].cost { (a, b) } else { (b, a) };
        let right = self.merge(self.nodes[top as usize].right, other);
        let height = |at: u32| if at == NONE { 0 } else { self.nodes[at as usize].rank };
        let left = self.nodes[top as usize].left;
        let (left, right) = if height(left) >= height(right) { (left, right) } else { (right, left) };
        let rank = height(right) + 1;
        let node = &mut self.nodes[top as usize];
        (node.left, node.right, node.rank) = (left, right, rank);
        top
    }
}
