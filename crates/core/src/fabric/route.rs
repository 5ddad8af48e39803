//! Minimal routing: fewest links, ties to the neighbour with the lowest id.
//!
//! On a mesh this goes along the row first towards larger rows and along the column first towards
//! smaller ones, as the tables of the TTO artifact (HPCA 2024) do.

use super::{Fabric, LinkId, NodeId};
use crate::error::{Code, Error, Result};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::collections::VecDeque;
use std::iter;

/// Minimal routes of one fabric, computed per destination on first use.
pub struct Router<'a> {
    fabric: &'a Fabric,
    configuration: u32,
    /// Nodes before every node, and the first link from each.
    reverse: Vec<Vec<(NodeId, LinkId)>>,
    /// The first link from one node to another; only looked up.
    neighbours: FxHashMap<(NodeId, NodeId), LinkId>,
    /// By destination, the first link from every node; [`NO_LINK`] where there is none.
    towards: Vec<Option<Vec<LinkId>>>,
}

const NO_LINK: LinkId = LinkId::MAX;

impl<'a> Router<'a> {
    /// A router for `fabric`.
    pub fn new(fabric: &'a Fabric) -> Self {
        Router::within(fabric, 0)
    }

    /// A router for `fabric` in one of its configurations.
    pub fn within(fabric: &'a Fabric, configuration: u32) -> Self {
        let mut reverse = vec![Vec::new(); fabric.nodes.len()];
        let mut neighbours = FxHashMap::with_capacity_and_hasher(fabric.links.len(), FxBuildHasher);
        for (id, link) in (0..).zip(&fabric.links).filter(|(id, _)| fabric.has(*id, configuration)) {
            neighbours.entry((link.from, link.to)).or_insert_with(|| {
                reverse[link.to as usize].push((link.from, id));
                id
            });
        }
        Router { fabric, configuration, reverse, neighbours, towards: vec![None; fabric.nodes.len()] }
    }

    /// Number of links from every node to `to` (`u32::MAX` where there is no path). O(links).
    pub fn distances(&self, to: NodeId) -> Vec<u32> {
        self.search(to).0
    }

    /// [`Router::distances`], and the first link towards `to` from every node. O(links).
    fn search(&self, to: NodeId) -> (Vec<u32>, Vec<LinkId>) {
        let (mut distances, mut first) = (vec![u32::MAX; self.reverse.len()], vec![NO_LINK; self.reverse.len()]);
        distances[to as usize] = 0;
        let mut queue = VecDeque::from([to]);
        while let Some(node) = queue.pop_front() {
            let distance = distances[node as usize] + 1;
            for &(previous, link) in &self.reverse[node as usize] {
                let (known, best) = (&mut distances[previous as usize], &mut first[previous as usize]);
                if *known == u32::MAX {
                    (*known, *best) = (distance, link);
                    queue.push_back(previous);
                } else if *known == distance && node < self.fabric.link(*best).to {
                    *best = link;
                }
            }
        }
        (distances, first)
    }

    /// The first link towards `to` from every node. O(links) once per destination.
    fn towards(&mut self, to: NodeId) -> &[LinkId] {
        if self.towards[to as usize].is_none() {
            self.towards[to as usize] = Some(self.search(to).1);
        }
        self.towards[to as usize].as_deref().unwrap_or_default()
    }

    /// First link of the route from `at` to another node; `None` if there is no path or none is needed.
    pub fn next(&mut self, at: NodeId, to: NodeId) -> Option<LinkId> {
        let link = self.towards(to)[at as usize];
        (link != NO_LINK).then_some(link)
    }

    /// As [`Router::route`], where a configuration need not join all ranks.
    ///
    /// # Errors
    /// [`Code::NotApplicable`] if there is no path.
    pub fn path(&mut self, from: NodeId, to: NodeId) -> Result<Vec<LinkId>> {
        self.find(from, to).ok_or_else(|| {
            let (fabric, configuration) = (&self.fabric.name, self.configuration);
            let what =
                format!("fabric '{fabric}': no path from node {from} to node {to} in configuration {configuration}");
            Error::new(Code::NotApplicable, what)
        })
    }

    /// Links of the route between two nodes; empty if they are the same.
    ///
    /// # Panics
    /// If there is no path; [`Fabric::new`] guarantees one between ranks where there is one configuration.
    pub fn route(&mut self, from: NodeId, to: NodeId) -> Vec<LinkId> {
        self.find(from, to).expect("ranks are joined")
    }

    fn find(&mut self, from: NodeId, to: NodeId) -> Option<Vec<LinkId>> {
        // Most algorithms send to neighbours only, and need no tables.
        if let Some(&link) = self.neighbours.get(&(from, to)) {
            return Some(vec![link]);
        }
        let links = &self.fabric.links;
        let first = self.towards(to);
        if from != to && first[from as usize] == NO_LINK {
            return None;
        }
        let hop = |at: NodeId| (at != to).then(|| first[at as usize]);
        let hops = || iter::successors(hop(from), |&link| hop(links[link as usize].to));
        let mut route = Vec::with_capacity(hops().count());
        route.extend(hops());
        Some(route)
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
