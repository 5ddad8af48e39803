//! Minimal routing: fewest links, ties to the neighbour with the lowest id.
//!
//! On a mesh this goes along the row first towards larger rows and along the column first towards
//! smaller ones, as the tables of the TTO artifact (HPCA 2024) do.

use super::{Fabric, LinkId, NodeId};
use std::collections::{HashMap, VecDeque};

/// Minimal routes of one fabric, computed per destination on first use.
pub struct Router<'a> {
    fabric: &'a Fabric,
    reverse: Vec<Vec<NodeId>>,
    /// The first link from one node to another; only looked up.
    neighbours: HashMap<(NodeId, NodeId), LinkId>,
    towards: Vec<Option<Vec<u32>>>,
}

impl<'a> Router<'a> {
    /// A router for `fabric`.
    pub fn new(fabric: &'a Fabric) -> Self {
        let mut reverse = vec![Vec::new(); fabric.nodes.len()];
        let mut neighbours = HashMap::with_capacity(fabric.links.len());
        for (id, link) in (0..).zip(&fabric.links) {
            reverse[link.to as usize].push(link.from);
            neighbours.entry((link.from, link.to)).or_insert(id);
        }
        Router { fabric, reverse, neighbours, towards: vec![None; fabric.nodes.len()] }
    }

    /// Number of links from every node to `to` (`u32::MAX` where there is no path). O(links) once
    /// per destination.
    pub fn distances(&mut self, to: NodeId) -> &[u32] {
        let slot = &mut self.towards[to as usize];
        slot.get_or_insert_with(|| {
            let mut distance = vec![u32::MAX; self.reverse.len()];
            distance[to as usize] = 0;
            let mut queue = VecDeque::from([to]);
            while let Some(node) = queue.pop_front() {
                for &previous in &self.reverse[node as usize] {
                    if distance[previous as usize] == u32::MAX {
                        distance[previous as usize] = distance[node as usize] + 1;
                        queue.push_back(previous);
                    }
                }
            }
            distance
        })
    }

    /// First link of the route from `at` to another node; `None` if there is no path or none is needed.
    pub fn next(&mut self, at: NodeId, to: NodeId) -> Option<LinkId> {
        if let Some(&link) = self.neighbours.get(&(at, to)) {
            return Some(link);
        }
        let fabric = self.fabric;
        let distance = self.distances(to);
        let closer = |id: &LinkId| {
            let after = distance[fabric.link(*id).to as usize];
            after != u32::MAX && after + 1 == distance[at as usize]
        };
        let links = fabric.out_links(at).iter().copied();
        links.filter(closer).min_by_key(|&id| (fabric.link(id).to, id))
    }

    /// Links of the route between two nodes; empty if they are the same.
    ///
    /// # Panics
    /// If there is no path; [`Fabric::new`] guarantees one between ranks.
    pub fn route(&mut self, from: NodeId, to: NodeId) -> Vec<LinkId> {
        let mut links = Vec::new();
        let mut at = from;
        while at != to {
            let next = self.next(at, to).expect("ranks of a fabric are connected");
            links.push(next);
            at = self.fabric.link(next).to;
        }
        links
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{DimensionShape, grid::grid};

    #[test]
    fn larger_rows_x_first_smaller_rows_y_first() {
        let fabric = grid("t", DimensionShape::Line, &[3, 3]).unwrap();
        let mut router = Router::new(&fabric);
        let mut path = |from, to| -> Vec<_> { router.route(from, to).iter().map(|&l| fabric.link(l).to).collect() };
        assert_eq!(path(0, 8), [1, 2, 5, 8]);
        assert_eq!(path(8, 0), [5, 2, 1, 0]);
        assert!(path(4, 4).is_empty());
    }
}
