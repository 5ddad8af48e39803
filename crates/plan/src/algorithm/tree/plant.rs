//! Lays trees on the links of a fabric.

use super::{Tree, edges};
use antiphon_model::fabric::{Fabric, Link, LinkId, NodeId};
use antiphon_model::system::System;
use antiphon_sim::cost::{CostModel, LinkCost};
use std::collections::HashMap;

/// Plants trees on the links between ranks; on parallel links in turn, in proportion to their rates.
pub(in crate::algorithm) struct Planter<'a> {
    fabric: &'a Fabric,
    costs: Vec<LinkCost>,
    /// Receiver and link of the links from rank `r` to others, sorted, are `links[first[r]..first[r + 1]]`.
    links: Vec<(u32, LinkId)>,
    first: Vec<usize>,
    /// Trees on every link.
    trees: Vec<u64>,
}

impl<'a> Planter<'a> {
    /// For the links of a fabric, at their rates on a system.
    pub fn new(fabric: &'a Fabric, system: &'a System) -> Self {
        let costs = CostModel::in_packets(system).links(fabric);
        let (mut links, mut first) = (Vec::with_capacity(fabric.links.len()), vec![0]);
        let end = |&id: &LinkId| Some((fabric.nodes[fabric.link(id).to as usize].rank?, id));
        for rank in 0..fabric.ranks() as u32 {
            let start = links.len();
            links.extend(fabric.out_links(fabric.node_of_rank(rank)).iter().filter_map(end));
            links[start..].sort_unstable();
            first.push(links.len());
        }
        Planter { fabric, costs, links, first, trees: vec![0; fabric.links.len()] }
    }

    /// The tree with these edges, each a child and its parent.
    ///
    /// # Panics
    /// If the edges are no tree, or a rank and its parent are not joined both ways.
    pub fn plant(&mut self, edges: impl IntoIterator<Item = (u32, u32)>) -> Tree {
        let mut link = |from: u32, to: u32| {
            let links = &self.links[self.first[from as usize]..self.first[from as usize + 1]];
            let [first, end] = [to, to + 1].map(|to| links.partition_point(|link| link.0 < to));
            let load = |id: LinkId| (self.trees[id as usize] + 1) * self.costs[id as usize].flit_ps;
            let id = match links[first..end] {
                [(_, id)] => id,
                ref parallel => parallel.iter().map(|link| link.1).min_by_key(|&id| load(id)).expect("neighbours"),
            };
            self.trees[id as usize] += 1;
            [id]
        };
        let edge = |(child, parent)| (child, parent, [link(child, parent), link(parent, child)]);
        Tree::new(self.fabric.ranks(), edges.into_iter().map(edge))
    }

    /// The trees with these parents, as [`Planter::plant`] does.
    pub fn plant_all(&mut self, trees: impl IntoIterator<Item: AsRef<[Option<u32>]>>) -> Vec<Tree> {
        trees.into_iter().map(|parents| self.plant(edges(parents.as_ref()))).collect()
    }
}

/// The link in the opposite direction, for every link that has one; parallel links pair up in order. O(links).
pub(in crate::algorithm) fn twins(fabric: &Fabric) -> Vec<Option<LinkId>> {
    let mut hops: HashMap<(NodeId, NodeId), Vec<LinkId>> = HashMap::new();
    let mut place = |(id, link): (LinkId, &Link)| {
        let parallel = hops.entry((link.from, link.to)).or_default();
        parallel.push(id);
        parallel.len() - 1
    };
    let places: Vec<usize> = (0..).zip(&fabric.links).map(&mut place).collect();
    let twin = |(link, &place): (&Link, &usize)| hops.get(&(link.to, link.from))?.get(place).copied();
    fabric.links.iter().zip(&places).map(twin).collect()
}
