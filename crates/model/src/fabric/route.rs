//! Minimal routing: fewest links, ties to the neighbour with the lowest id.
//!
//! On a mesh this goes along the row first towards larger rows and along the column first towards
//! smaller ones, as the tables of the TTO artifact (HPCA 2024) do.

use super::{Fabric, LinkId, NodeId};
use antiphon_base::error::{Code, Error, Result};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::cmp::Reverse;
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
    searches: Vec<Option<RouteSearch>>,
}

const NO_LINK: LinkId = LinkId::MAX;

/// Routes to one destination, searched from there as far as somebody asked.
#[derive(Clone)]
struct RouteSearch {
    to: NodeId,
    /// The first link from every node; [`NO_LINK`] where none is known.
    first: Vec<LinkId>,
    /// Nodes as near as each other of which those before them are not known, the lowest last.
    level: Vec<NodeId>,
    /// Those found before them.
    next: Vec<NodeId>,
}

impl RouteSearch {
    /// Nothing known but the destination.
    fn new(nodes: usize, to: NodeId) -> RouteSearch {
        RouteSearch { to, first: vec![NO_LINK; nodes], level: vec![to], next: vec![] }
    }

    fn knows(&self, from: NodeId) -> bool {
        from == self.to || self.first[from as usize] != NO_LINK
    }

    /// Goes on until `from` is found, or all nodes are; says which node was found before which. The lowest of a level finds
    /// first, so that no link is replaced.
    fn run(&mut self, reverse: &[Vec<(NodeId, LinkId)>], from: Option<NodeId>, mut found: impl FnMut(NodeId, NodeId)) {
        while !from.is_some_and(|from| self.knows(from)) {
            let Some(node) = self.level.pop() else {
                if self.next.is_empty() {
                    return;
                }
                std::mem::swap(&mut self.level, &mut self.next);
                self.level.sort_unstable_by_key(|&node| Reverse(node));
                continue;
            };
            for &(previous, link) in &reverse[node as usize] {
                if !self.knows(previous) {
                    self.first[previous as usize] = link;
                    self.next.push(previous);
                    found(previous, node);
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
        let mut distances = vec![u32::MAX; self.reverse.len()];
        distances[to as usize] = 0;
        let found = |previous: NodeId, node: NodeId| distances[previous as usize] = distances[node as usize] + 1;
        RouteSearch::new(self.reverse.len(), to).run(&self.reverse, None, found);
        distances
    }

    /// The first link towards `to` from every node that is on the way from `from`. O(links) for all of a destination.
    fn towards(&mut self, from: NodeId, to: NodeId) -> &[LinkId] {
        let search = self.searches[to as usize].get_or_insert_with(|| RouteSearch::new(self.reverse.len(), to));
        search.run(&self.reverse, Some(from), |_, _| {});
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
