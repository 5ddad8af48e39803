//! What plans see of a fabric: ranks, nodes that only forward, and arcs, each all links from one node to another.

use crate::fabric::{Fabric, LinkId, NodeId};
use crate::system::System;
use std::collections::BTreeMap;

/// All links from one node to another.
#[derive(Debug, Clone, PartialEq)]
pub struct Arc {
    /// Sending node.
    pub from: NodeId,
    /// Receiving node.
    pub to: NodeId,
    /// Bytes of payload in a picosecond, of all links together.
    pub rate: f64,
    /// The links.
    pub links: Vec<LinkId>,
}

/// A fabric's nodes and arcs.
#[derive(Debug, Clone)]
pub struct Graph {
    /// Arcs, by their ends.
    pub arcs: Vec<Arc>,
    /// The node of every rank.
    pub ranks: Vec<NodeId>,
    /// The rank at every node.
    pub rank_at: Vec<Option<u32>>,
    /// Arcs out of every node.
    pub out: Vec<Vec<u32>>,
}

impl Graph {
    /// Of a fabric whose links have payload rates as on a system.
    pub fn new(fabric: &Fabric, system: &System) -> Graph {
        let mut joined: BTreeMap<(NodeId, NodeId), (f64, Vec<LinkId>)> = BTreeMap::new();
        for (id, link) in (0..).zip(&fabric.links) {
            let (bytes, picos) = system.payload_rate(link);
            let (rate, links) = joined.entry((link.from, link.to)).or_default();
            *rate += bytes as f64 / (picos as f64 * 1e12);
            links.push(id);
        }
        let arcs = joined.into_iter().map(|((from, to), (rate, links))| Arc { from, to, rate, links });
        let ranks = (0..fabric.ranks() as u32).map(|rank| fabric.node_of_rank(rank)).collect();
        Graph::of(arcs.collect(), ranks, fabric.nodes.iter().map(|node| node.rank).collect())
    }

    fn of(arcs: Vec<Arc>, ranks: Vec<NodeId>, rank_at: Vec<Option<u32>>) -> Graph {
        let mut out = vec![Vec::new(); rank_at.len()];
        (0..).zip(&arcs).for_each(|(id, arc)| out[arc.from as usize].push(id));
        Graph { arcs, ranks, rank_at, out }
    }

    /// The same with every arc turned round, under its number.
    pub fn reversed(&self) -> Graph {
        let arcs = self.arcs.iter().map(|arc| Arc { from: arc.to, to: arc.from, ..arc.clone() });
        Graph::of(arcs.collect(), self.ranks.clone(), self.rank_at.clone())
    }
}
