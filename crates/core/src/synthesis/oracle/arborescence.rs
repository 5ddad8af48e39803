//! Trees away from every root: all-gather and broadcast, and turned round reduce-scatter and reduce.
//!
//! The cheapest arborescence by contraction of cycles, with heaps of the ways into every part (Y. J. Chu and T. H. Liu
//! 1965; J. Edmonds 1967; R. E. Tarjan, "Finding optimum branchings", Networks 1977).

use super::Oracle;
use super::closure::{Closure, Way};
use super::low::Lowest;
use crate::synthesis::graph::Graph;
use crate::synthesis::parts::Parts;
use crate::synthesis::plan::Plan;

/// Trees that reach all ranks from a root.
pub struct Arborescences(pub Graph);

impl Oracle for Arborescences {
    /// O(ways log ways) for every root.
    fn cheapest(&mut self, prices: &[f64], roots: &[u32]) -> Vec<Plan> {
        let closure = Closure::new(&self.0, prices, false);
        let mut branching = Branching::new(self.0.ranks.len(), &closure.ways);
        roots.iter().map(|&root| plan(&closure, &branching.from(root))).collect()
    }

    fn low(&mut self, prices: &[f64], roots: &[u32]) -> Vec<Plan> {
        let closure = Closure::new(&self.0, prices, false);
        let lowest = Lowest::new(self.0.ranks.len(), &closure);
        let tree = |&root: &u32| plan(&closure, &lowest.from(root, |way| closure.ways[way as usize].cost).0);
        roots.iter().map(tree).collect()
    }
}

/// The plan of a tree, as the way into every rank.
fn plan(closure: &Closure, into: &[Option<u32>]) -> Plan {
    let mut plan = Plan::default();
    for &way in into.iter().flatten() {
        let Way { from, to, .. } = closure.ways[way as usize];
        plan.branch(from, to, [], closure.arcs(way).iter().copied());
    }
    plan
}

const NONE: u32 = u32::MAX;

/// The ways into each rank, as heaps that are merged when ranks become one part.
struct Branching<'a> {
    ranks: usize,
    ways: &'a [Way],
    /// Leftist trees over ways: children, cost less what ways above have taken, and what the ways below have yet to take.
    nodes: Vec<HeapNode>,
    /// Ways into every rank.
    into: Vec<Vec<u32>>,
}

#[derive(Clone, Copy)]
struct HeapNode {
    left: u32,
    right: u32,
    rank: u32,
    cost: f64,
    less: f64,
}

impl<'a> Branching<'a> {
    fn new(ranks: usize, ways: &'a [Way]) -> Self {
        let mut into = vec![Vec::new(); ranks];
        (0..).zip(ways).for_each(|(id, way)| into[way.to as usize].push(id));
        Branching { ranks, ways, nodes: vec![], into }
    }

    /// The way into every rank but the root, of the cheapest tree away from it.
    ///
    /// # Panics
    /// If some rank cannot be reached.
    fn from(&mut self, root: u32) -> Vec<Option<u32>> {
        let node = |way: &Way| HeapNode { left: NONE, right: NONE, rank: 1, cost: way.cost, less: 0.0 };
        self.nodes.clear();
        self.nodes.extend(self.ways.iter().map(node));
        let mut heaps: Vec<u32> = Vec::with_capacity(2 * self.ranks);
        for rank in 0..self.ranks {
            let mut queue: Vec<u32> = self.into[rank].clone();
            // Pairs first, so that the heap is low.
            while queue.len() > 1 {
                let mut next = Vec::with_capacity(queue.len().div_ceil(2));
                for pair in queue.chunks(2) {
                    next.push(if let [a, b] = *pair { self.merge(a, b) } else { pair[0] });
                }
                queue = next;
            }
            heaps.push(queue.first().copied().unwrap_or(NONE));
        }
        // Parts: ranks, then what cycles were contracted to. `above` is the part that a part went into.
        let mut above: Vec<u32> = (0..self.ranks as u32).collect();
        let mut parts = Parts::new(self.ranks);
        let mut entered: Vec<u32> = vec![NONE; self.ranks];
        let mut state: Vec<u8> = vec![0; self.ranks];
        state[root as usize] = 2;
        for start in 0..self.ranks as u32 {
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
                    let HeapNode { left, right, .. } = self.nodes[first as usize];
                    let from = self.ways[first as usize].from;
                    if parts.of(from) == part {
                        heaps[part as usize] = self.merge(left, right);
                    } else {
                        break first;
                    }
                };
                entered[part as usize] = way;
                let from = parts.of(self.ways[way as usize].from);
                if state[from as usize] != 1 {
                    part = from;
                    continue;
                }
                // A cycle: its parts become one.
                let whole = parts.push();
                let mut heap = NONE;
                while let Some(member) = path.pop() {
                    let first = heaps[member as usize];
                    let paid = self.nodes[entered[member as usize] as usize].cost;
                    self.nodes[first as usize].less += paid;
                    heap = self.merge(heap, first);
                    above[member as usize] = whole;
                    parts.join(member, whole);
                    if member == from {
                        break;
                    }
                }
                above.push(whole);
                entered.push(NONE);
                state.push(0);
                heaps.push(heap);
                part = whole;
            }
            path.into_iter().for_each(|part| state[part as usize] = 2);
        }
        self.expand(root, &above, entered)
    }

    /// From the outermost parts inwards: the way into a part is that into the member it enters; others keep theirs.
    fn expand(&self, root: u32, above: &[u32], mut entered: Vec<u32>) -> Vec<Option<u32>> {
        let mut taken = vec![false; above.len()];
        for part in (0..above.len() as u32).rev().filter(|&part| part != root) {
            let way = entered[part as usize];
            if way == NONE || taken[part as usize] {
                continue;
            }
            // All parts around where it ends, up to this one, are entered by it.
            let mut member = self.ways[way as usize].to;
            while member != part {
                taken[member as usize] = true;
                entered[member as usize] = way;
                member = above[member as usize];
            }
        }
        (0..self.ranks as u32).map(|rank| (rank != root).then_some(entered[rank as usize])).collect()
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
