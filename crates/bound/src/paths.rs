//! Shortest paths from one node to all others.

use antiphon_base::watch::checkpoint;
use antiphon_model::fabric::{Fabric, Link, NodeId};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The cost of a node that cannot be reached.
pub(super) const UNREACHABLE: u64 = u64::MAX;

/// A fabric's links with a cost each, in one direction or the other.
pub(super) struct CheapestPaths {
    /// Arcs of node `v` are `first[v]..first[v + 1]`.
    first: Vec<usize>,
    arcs: Vec<(NodeId, u64)>,
    /// The cost of all links, if it is the same.
    uniform: Option<u64>,
}

impl CheapestPaths {
    /// Paths along the links, or against them if `reversed`. O(nodes + links).
    pub fn new(fabric: &Fabric, reversed: bool, cost: impl Fn(&Link) -> u64) -> CheapestPaths {
        CheapestPaths::of_costs(fabric, reversed, &fabric.links.iter().map(cost).collect::<Vec<_>>())
    }

    /// [`Self::new`] from the cost of every link.
    pub fn of_costs(fabric: &Fabric, reversed: bool, costs: &[u64]) -> CheapestPaths {
        let ends = |link: &Link| {
            if reversed { (link.to, link.from) } else { (link.from, link.to) }
        };
        let mut first = vec![0; fabric.nodes.len() + 1];
        for link in &fabric.links {
            first[ends(link).0 as usize + 1] += 1;
        }
        for node in 0..fabric.nodes.len() {
            first[node + 1] += first[node];
        }
        let mut free = first.clone();
        let mut arcs = vec![(0, 0); fabric.links.len()];
        for (link, &cost) in fabric.links.iter().zip(costs) {
            let (from, to) = ends(link);
            arcs[free[from as usize]] = (to, cost);
            free[from as usize] += 1;
        }
        let uniform = arcs.first().map(|arc| arc.1).filter(|&cost| arcs.iter().all(|arc| arc.1 == cost));
        CheapestPaths { first, arcs, uniform }
    }

    /// Cost of the cheapest path from `source` to every node. O(links) if all costs are equal, otherwise
    /// O(links log nodes).
    pub fn from(&self, source: NodeId) -> Vec<u64> {
        checkpoint();
        match self.uniform {
            Some(cost) => self.breadth_first(source, cost),
            None => self.dijkstra(source),
        }
    }

    fn out(&self, node: NodeId) -> &[(NodeId, u64)] {
        &self.arcs[self.first[node as usize]..self.first[node as usize + 1]]
    }

    fn breadth_first(&self, source: NodeId, cost: u64) -> Vec<u64> {
        let mut distance = vec![UNREACHABLE; self.first.len() - 1];
        distance[source as usize] = 0;
        let mut unseen = distance.len() - 1;
        let mut queue = VecDeque::from([source]);
        while let Some(node) = queue.pop_front() {
            if unseen == 0 {
                break;
            }
            for &(to, _) in self.out(node) {
                if distance[to as usize] == UNREACHABLE {
                    distance[to as usize] = distance[node as usize].saturating_add(cost);
                    unseen -= 1;
                    queue.push_back(to);
                }
            }
        }
        distance
    }

    fn dijkstra(&self, source: NodeId) -> Vec<u64> {
        let mut distance = vec![UNREACHABLE; self.first.len() - 1];
        distance[source as usize] = 0;
        let mut heap = BinaryHeap::from([Reverse((0u64, source))]);
        while let Some(Reverse((reached, node))) = heap.pop() {
            if reached > distance[node as usize] {
                continue;
            }
            for &(to, cost) in self.out(node) {
                let through = reached.saturating_add(cost);
                if through < distance[to as usize] {
                    distance[to as usize] = through;
                    heap.push(Reverse((through, to)));
                }
            }
        }
        distance
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_model::fabric::{DimensionShape, grid::grid};

    #[test]
    fn hops_and_costs() {
        let fabric = grid("t", DimensionShape::Line, &[2, 3]).unwrap();
        assert_eq!(CheapestPaths::new(&fabric, false, |_| 2).from(0), [0, 2, 4, 2, 4, 6]);
        // Links into node 1 are dear: forwards around it, backwards from it.
        let cost = |link: &Link| if link.to == 1 { 10 } else { 1 };
        assert_eq!(CheapestPaths::new(&fabric, false, cost).from(0), [0, 10, 4, 1, 2, 3]);
        assert_eq!(CheapestPaths::new(&fabric, true, cost).from(1), [10, 0, 10, 11, 10, 11]);
    }
}
