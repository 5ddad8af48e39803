//! What plans see of a fabric: ranks, nodes that only forward, and arcs, each a link or parallel links that act together.

use antiphon_model::fabric::{Fabric, Link, LinkId, NodeId};
use antiphon_model::system::System;
use rustc_hash::{FxHashMap, FxHashSet};

/// A link, or parallel links that act together.
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

/// Rates are alike that differ by less than this part, which sums of rates are exact to.
const ALIKE: f64 = 1e-9;

/// A fabric's nodes and arcs.
#[derive(Debug, Clone)]
pub struct Graph {
    /// Arcs, in the order of their first links.
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
        let rate = |link: LinkId| {
            let (bytes, seconds) = system.payload_rate(fabric.link(link));
            bytes as f64 / (seconds as f64 * 1e12)
        };
        // The first link of those that act together stands for all.
        let together: FxHashMap<LinkId, Vec<LinkId>> = fabric
            .parallel_links()
            .into_values()
            .filter(|links| fabric.are_always_together(links))
            .map(|links| (links[0], links))
            .collect();
        let others: FxHashSet<LinkId> = together.values().flat_map(|links| &links[1..]).copied().collect();
        let arc = |(id, link): (LinkId, &Link)| {
            let links = together.get(&id).cloned().unwrap_or_else(|| vec![id]);
            Arc { from: link.from, to: link.to, rate: links.iter().copied().map(rate).sum(), links }
        };
        let arcs = (0..).zip(&fabric.links).filter(|(id, _)| !others.contains(id)).map(arc);
        let ranks = (0..fabric.ranks() as u32).map(|rank| fabric.node_of_rank(rank)).collect();
        Graph::of(arcs.collect(), ranks, fabric.nodes.iter().map(|node| node.rank).collect())
    }

    fn of(arcs: Vec<Arc>, ranks: Vec<NodeId>, rank_at: Vec<Option<u32>>) -> Graph {
        let mut out = vec![Vec::new(); rank_at.len()];
        (0..).zip(&arcs).for_each(|(id, arc)| out[arc.from as usize].push(id));
        Graph { arcs, ranks, rank_at, out }
    }

    /// Every link of every arc with what the arc has, such as a price.
    pub fn of_links<'a>(&'a self, of_arcs: &'a [f64]) -> impl Iterator<Item = (LinkId, f64)> + 'a {
        self.arcs.iter().zip(of_arcs).flat_map(|(arc, &of)| arc.links.iter().map(move |&link| (link, of)))
    }

    /// Whether nodes are joined equally fast both ways. O(arcs).
    pub fn is_symmetric(&self) -> bool {
        let mut rates: FxHashMap<(NodeId, NodeId), f64> = FxHashMap::default();
        self.arcs.iter().for_each(|arc| *rates.entry((arc.from, arc.to)).or_default() += arc.rate);
        let back = |(from, to): (NodeId, NodeId)| rates.get(&(to, from)).copied().unwrap_or(0.0);
        rates.iter().all(|(&ends, &rate)| (rate - back(ends)).abs() <= ALIKE * rate)
    }

    /// The same with every arc turned round, under its number.
    pub fn reversed(&self) -> Graph {
        let arcs = self.arcs.iter().map(|arc| Arc { from: arc.to, to: arc.from, ..arc.clone() });
        Graph::of(arcs.collect(), self.ranks.clone(), self.rank_at.clone())
    }
}
