//! Minimal routing: fewest links, ties to the neighbour with the lowest id.
//!
//! On a mesh this goes along the row first towards larger rows and along the column first towards
//! smaller ones, as the tables of the TTO artifact (HPCA 2024) do.

use super::{Fabric, Link, LinkId, NodeId};
use crate::error::{Code, Error, Result};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::collections::VecDeque;
use std::iter;

/// Minimal routes of one fabric, searched from each destination as far as somebody asked.
pub struct Router<'a> {
    fabric: &'a Fabric,
    configuration: u32,
    /// Nodes before every node, and the first link from each.
    reverse: Vec<Vec<(NodeId, LinkId)>>,
    /// The first link from one node to another; only looked up.
    neighbours: FxHashMap<(NodeId, NodeId), LinkId>,
    /// By destination.
    searches: Vec<Option<Search>>,
}

const NO_LINK: LinkId = LinkId::MAX;

/// Routes to one destination, searched from there as far as somebody asked.
#[derive(Clone)]
struct Search {
    /// Links from every node, `u32::MAX` where that is not known yet; empty when all is.
    distances: Vec<u32>,
    /// The first link from every node; [`NO_LINK`] where none is known.
    first: Vec<LinkId>,
    /// Nodes that are known but not those before them, nearest first.
    queue: VecDeque<NodeId>,
}

impl Search {
    /// Nothing known but the destination.
    fn new(nodes: usize, to: NodeId) -> Search {
        let (mut distances, first) = (vec![u32::MAX; nodes], vec![NO_LINK; nodes]);
        distances[to as usize] = 0;
        Search { distances, first, queue: VecDeque::from([to]) }
    }

    /// Goes on until all nodes nearer than `from` have been looked at, or all there are.
    fn run(&mut self, reverse: &[Vec<(NodeId, LinkId)>], links: &[Link], from: Option<NodeId>) {
        while let Some(&node) = self.queue.front() {
            let distance = self.distances[node as usize];
            if from.is_some_and(|from| self.distances[from as usize] <= distance) {
                return;
            }
            self.queue.pop_front();
            for &(previous, link) in &reverse[node as usize] {
                let (known, best) = (&mut self.distances[previous as usize], &mut self.first[previous as usize]);
                if *known == u32::MAX {
                    (*known, *best) = (distance + 1, link);
                    self.queue.push_back(previous);
                } else if *known == distance + 1 && node < links[*best as usize].to {
                    *best = link;
                }
            }
        }
    }
}

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
        Router { fabric, configuration, reverse, neighbours, searches: vec![None; fabric.nodes.len()] }
    }

    /// Number of links from every node to `to` (`u32::MAX` where there is no path). O(links).
    pub fn distances(&self, to: NodeId) -> Vec<u32> {
        let mut search = Search::new(self.reverse.len(), to);
        search.run(&self.reverse, &self.fabric.links, None);
        search.distances
    }

    /// The first link towards `to` from every node that is on the way from `from`. O(links) for all of a destination.
    fn towards(&mut self, from: NodeId, to: NodeId) -> &[LinkId] {
        let search = self.searches[to as usize].get_or_insert_with(|| Search::new(self.reverse.len(), to));
        search.run(&self.reverse, &self.fabric.links, Some(from));
        if search.queue.is_empty() {
            // Nobody asks for them any more.
            search.distances = vec![];
        }
        &search.first
    }

    /// First link of the route from `at` to another node; `None` if there is no path or none is needed.
    pub fn next(&mut self, at: NodeId, to: NodeId) -> Option<LinkId> {
        let link = self.towards(at, to)[at as usize];
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
        let first = self.towards(from, to);
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
    use proptest::prelude::*;

    #[test]
    fn larger_rows_x_first_smaller_rows_y_first() {
        let fabric = grid("t", DimensionShape::Line, &[3, 3]).unwrap();
        let mut router = Router::new(&fabric);
        let mut path = |from, to| -> Vec<_> { router.route(from, to).iter().map(|&l| fabric.link(l).to).collect() };
        assert_eq!(path(0, 8), [1, 2, 5, 8]);
        assert_eq!(path(8, 0), [5, 2, 1, 0]);
        assert!(path(4, 4).is_empty());
    }

    proptest! {
        /// Whoever asks first, a route goes to the lowest of the nearest neighbours, as the distances of all say.
        #[test]
        fn routes_are_those_of_the_distances(
            cut in prop::collection::vec((0u32..12, 0u32..12), 0..12),
            asked in prop::collection::vec((0u32..12, 0u32..12), 1..40),
        ) {
            let mut fabric = grid("t", DimensionShape::Ring, &[4, 3]).unwrap();
            fabric.links.retain(|link| !cut.contains(&(link.from, link.to)));
            let mut router = Router::new(&fabric);
            for (from, to) in asked {
                let distances = Router::new(&fabric).distances(to);
                let Ok(route) = router.path(from, to) else {
                    prop_assert_eq!(distances[from as usize], u32::MAX);
                    continue;
                };
                prop_assert_eq!(route.len() as u32, distances[from as usize]);
                let mut at = from;
                for id in route {
                    let nearer = fabric.links.iter().filter(|link| {
                        link.from == at && distances[link.to as usize] < distances[at as usize]
                    });
                    prop_assert_eq!(Some(fabric.link(id).to), nearer.map(|link| link.to).min());
                    at = fabric.link(id).to;
                }
                prop_assert_eq!(at, to);
            }
        }
    }
}
