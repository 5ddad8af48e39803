//! Fabrics: directed multigraphs of ranks and switches.

pub mod ace;
pub mod aries;
pub mod bigraph;
mod clos;
mod degrade;
mod dgx;
pub mod dgx1v;
mod expander;
pub mod file;
mod floor;
pub mod grid;
mod hamming;
mod import;
mod in_network;
pub mod link;
mod machine;
mod mi;
mod named;
mod packages;
pub mod product;
pub mod rails;
pub mod route;
mod spark;
pub mod spec;
pub mod split;
mod summary;
pub mod switch;
mod tpu;
mod view;
mod wafer;
mod ways;

use antiphon_base::error::{Code, Error, Result, nearest};
use antiphon_base::units::{Rate, clip};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

pub use in_network::{Reduces, SwitchCompute};
pub use link::Link;
pub use product::{Coordinates, Dimension, DimensionPart, DimensionShape, Product};
pub use route::Router;
pub use spec::{FabricPreset, PRESETS};
pub use view::{Group, Groups, View, listed, parse_group};
pub use ways::{Routing, Ways};

/// Index of a node in [`Fabric::nodes`].
pub type NodeId = u32;
/// Index of a link in [`Fabric::links`].
pub type LinkId = u32;

/// Most ranks a fabric may have; larger ones are refused before memory is taken.
pub const MAX_RANKS: usize = 4096;
/// Most nodes (ranks and switches) a fabric may have.
pub const MAX_NODES: usize = 4 * MAX_RANKS;
/// Most directed links a fabric may have.
pub const MAX_LINKS: usize = 1 << 21;

/// A rank (endpoint) or a switch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Name for people, e.g. `3` or `switch-0`.
    pub name: String,
    /// The rank that lives here; `None` for switches and excluded ranks, which only forward.
    pub rank: Option<u32>,
    /// Position, one number a dimension; for drawing.
    pub coords: Vec<f64>,
    /// What it adds and multicasts, if it is a switch that does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute: Option<SwitchCompute>,
    /// Number of the package that it is in, if it is a chiplet of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<u32>,
}

impl Node {
    /// The node of `rank`, named after it.
    pub fn rank(rank: u32, coords: impl Into<Vec<f64>>) -> Node {
        Node { name: rank.to_string(), rank: Some(rank), coords: coords.into(), compute: None, package: None }
    }

    /// A switch.
    pub fn switch(name: impl Into<String>, coords: impl Into<Vec<f64>>) -> Node {
        Node { name: name.into(), rank: None, coords: coords.into(), compute: None, package: None }
    }
}

/// What a fabric is, beyond its graph. Algorithms that need structure look here; a degraded or
/// user-given fabric is a plain [`Shape::Graph`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// A product of dimensions, with a rank at every position.
    Product(Product),
    /// Two layers of `switches` switches, all-to-all between the layers, `hosts` ranks on each.
    BiGraph {
        /// Switches in each layer.
        switches: u32,
        /// Ranks on each switch.
        hosts: u32,
    },
    /// The hybrid cube mesh of a DGX-1.
    HybridCubeMesh,
    /// Anything else.
    Graph,
}

/// Lines for people; no part of what a fabric is.
#[derive(Debug, Clone, Default)]
pub struct Notes(pub Vec<String>);

impl PartialEq for Notes {
    fn eq(&self, _other: &Notes) -> bool {
        true
    }
}

/// A directed multigraph of ranks and switches.
///
/// Ranks are numbered `0..ranks()`, in node order but in a [`View`] of a group. Neighbours are visited in the order in
/// which links were added; presets add them by dimension, lower neighbour first.
#[derive(Debug, Clone, PartialEq)]
pub struct Fabric {
    /// The specification it was made from, e.g. `mesh:8x8`.
    pub name: String,
    /// Structure beyond the graph.
    pub shape: Shape,
    /// Nodes.
    pub nodes: Vec<Node>,
    /// Directed links.
    pub links: Vec<Link>,
    /// What it is a group of, if it is one.
    pub group: Option<Arc<Group>>,
    /// How it is configured, if it can be.
    pub configured: Option<Arc<aries::Configured>>,
    /// What was taken where the file that it was read from says nothing, and what was drawn at random.
    pub notes: Notes,
    out: Vec<Vec<LinkId>>,
    rank_nodes: Vec<NodeId>,
}

/// The node of every rank; else why ranks are wrong.
fn ranks_of(nodes: &[Node]) -> std::result::Result<Vec<NodeId>, (Code, String)> {
    let count = nodes.iter().filter(|node| node.rank.is_some()).count();
    let mut rank_nodes = vec![NodeId::MAX; count];
    for (id, node) in (0..).zip(nodes) {
        if node.coords.iter().any(|x| !x.is_finite()) {
            return Err((Code::BadFile, format!("node {id} has a coordinate that is not finite")));
        }
        let Some(rank) = node.rank else { continue };
        match rank_nodes.get_mut(rank as usize) {
            Some(slot) if *slot == NodeId::MAX => *slot = id,
            Some(other) => return Err((Code::BadFile, format!("nodes {other} and {id} both have rank {rank}"))),
            None => return Err((Code::BadFile, format!("node {id} has rank {rank}, but there are only {count}"))),
        }
    }
    if count > MAX_RANKS {
        return Err((Code::TooLarge, format!("{count} ranks; at most {MAX_RANKS} are supported")));
    }
    if count < 2 {
        return Err((Code::BadSpec, format!("{count} rank(s); a collective needs at least 2")));
    }
    Ok(rank_nodes)
}

impl Fabric {
    /// A fabric from its parts; ranks must be numbered 0, 1, 2, ... over the nodes that have one, in any order.
    ///
    /// # Errors
    /// [`Code::BadFile`] if an end of a link does not exist, a link is a loop or has rate zero, a
    /// coordinate is not finite, a rank is missing or there twice, or the nodes of a product are not those that
    /// have ranks; [`Code::TooLarge`] past [`MAX_RANKS`],
    /// [`MAX_NODES`] or [`MAX_LINKS`]; [`Code::BadSpec`] below two ranks or if some rank cannot
    /// reach another.
    pub fn new(name: impl Into<String>, shape: Shape, nodes: Vec<Node>, links: Vec<Link>) -> Result<Fabric> {
        let name = name.into();
        let wrong = |code, why: String| Err(Error::new(code, format!("fabric '{name}': {why}")));
        if links.len() > MAX_LINKS || nodes.len() > MAX_NODES {
            let (n, l) = (nodes.len(), links.len());
            let why = format!("{n} nodes and {l} links; at most {MAX_NODES} and {MAX_LINKS}");
            return wrong(Code::TooLarge, why);
        }
        let rank_nodes = match ranks_of(&nodes) {
            Ok(rank_nodes) => rank_nodes,
            Err((code, why)) => return wrong(code, why),
        };
        let mut out = vec![Vec::new(); nodes.len()];
        for (id, link) in links.iter().enumerate() {
            let why = if let Some(end) = [link.from, link.to].into_iter().find(|&end| end as usize >= nodes.len()) {
                format!("names node {end}, but there are only {} nodes", nodes.len())
            } else if link.from == link.to {
                format!("joins node {} to itself", link.from)
            } else if link.speed_permille == 0 || link.rate == Some(Rate(0)) {
                "has rate zero; drop it instead".to_string()
            } else {
                out[link.from as usize].push(id as LinkId);
                continue;
            };
            return wrong(Code::BadFile, format!("link {id} {why}"));
        }
        if let Shape::Product(product) = &shape {
            let (mut own, mut all) = (product.nodes.clone(), rank_nodes.clone());
            own.sort_unstable();
            all.sort_unstable();
            if own != all || product.coordinates.count() as usize != own.len() {
                return wrong(Code::BadFile, "the product's positions are not the nodes that have ranks".into());
            }
        }
        let fabric = Fabric {
            name,
            shape,
            nodes,
            links,
            group: None,
            configured: None,
            notes: Notes::default(),
            out,
            rank_nodes,
        };
        fabric.check_connected()?;
        Ok(fabric)
    }

    fn check_connected(&self) -> Result<()> {
        let mut reverse = vec![Vec::new(); self.nodes.len()];
        for link in &self.links {
            reverse[link.to as usize].push(link.from);
        }
        let start = self.rank_nodes[0];
        for forward in [true, false] {
            let mut seen = vec![false; self.nodes.len()];
            let mut stack = vec![start];
            seen[start as usize] = true;
            while let Some(node) = stack.pop() {
                let visit = |next: NodeId, seen: &mut Vec<bool>, stack: &mut Vec<NodeId>| {
                    if !std::mem::replace(&mut seen[next as usize], true) {
                        stack.push(next);
                    }
                };
                if forward {
                    for &link in &self.out[node as usize] {
                        visit(self.links[link as usize].to, &mut seen, &mut stack);
                    }
                } else {
                    for &next in &reverse[node as usize] {
                        visit(next, &mut seen, &mut stack);
                    }
                }
            }
            if let Some(&lost) = self.rank_nodes.iter().find(|&&node| !seen[node as usize]) {
                let (a, b) = if forward { (0, self.rank_of(lost)) } else { (self.rank_of(lost), 0) };
                return Err(Error::new(
                    Code::BadSpec,
                    format!("fabric '{}': disconnected: no path from rank {a} to rank {b}", self.name),
                ));
            }
        }
        Ok(())
    }

    fn rank_of(&self, node: NodeId) -> u32 {
        self.nodes[node as usize].rank.unwrap_or(0)
    }

    /// Ranks of the whole fabric that this group of it consists of, in order; `None` if it is no group.
    pub fn members(&self) -> Option<&[u32]> {
        self.group.as_ref().map(|group| &group.ranks[..])
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.rank_nodes.len()
    }

    /// The node `rank` lives on.
    pub fn node_of_rank(&self, rank: u32) -> NodeId {
        self.rank_nodes[rank as usize]
    }

    /// The node with a number, or with a name.
    ///
    /// # Errors
    /// [`Code::BadSpec`] with the nearest name for what is none, or the name of several.
    pub fn node(&self, text: &str) -> Result<NodeId> {
        let bad = |why: String| Err(Error::new(Code::BadSpec, why));
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let number = text.parse::<NodeId>().ok().filter(|&id| (id as usize) < self.nodes.len());
            return number.map_or_else(
                || bad(format!("there is no node {}; nodes are 0 to {}", clip(text), self.nodes.len() - 1)),
                Ok,
            );
        }
        if text.is_empty() {
            return bad(format!("names no node; nodes are 0 to {}", self.nodes.len() - 1));
        }
        let mut named = (0..).zip(&self.nodes).filter(|(_, node)| node.name == text);
        match (named.next(), named.next()) {
            (Some((id, _)), None) => Ok(id),
            (Some(_), Some(_)) => bad(format!("several nodes are named {}; give the number of one", clip(text))),
            (None, _) => {
                let hint = nearest(text, self.nodes.iter().map(|node| &*node.name));
                bad(format!("there is no node '{}'{hint}; nodes are 0 to {}", clip(text), self.nodes.len() - 1))
            }
        }
    }

    /// Links that leave `node`, in insertion order.
    pub fn out_links(&self, node: NodeId) -> &[LinkId] {
        &self.out[node as usize]
    }

    /// The link with an id.
    pub fn link(&self, id: LinkId) -> &Link {
        &self.links[id as usize]
    }

    /// The first link from `from` to `to`, if they are neighbours.
    pub fn link_between(&self, from: NodeId, to: NodeId) -> Option<LinkId> {
        self.out_links(from).iter().copied().find(|&id| self.link(id).to == to)
    }

    /// That no link joins two nodes.
    pub fn no_link(&self, from: NodeId, to: NodeId) -> Error {
        let near: Vec<String> = self.neighbours(from).iter().take(8).map(NodeId::to_string).collect();
        let near = if near.is_empty() { "none".to_string() } else { near.join(", ") };
        Error::new(Code::BadSpec, format!("no link from {from} to {to}; node {from} has links to {near}"))
    }

    /// Links of all pairs of nodes that several join in one direction, by their ends. O(links).
    pub fn parallel_links(&self) -> HashMap<(NodeId, NodeId), Vec<LinkId>> {
        let mut parallel: HashMap<_, Vec<LinkId>> = HashMap::new();
        let mut first = vec![None; self.nodes.len()];
        for (from, out) in (0..).zip(&self.out) {
            for &id in out {
                let to = self.link(id).to;
                match first[to as usize] {
                    None => first[to as usize] = Some(id),
                    Some(first) => parallel.entry((from, to)).or_insert_with(|| vec![first]).push(id),
                }
            }
            out.iter().for_each(|&id| first[self.link(id).to as usize] = None);
        }
        parallel
    }

    /// Whether some nodes are no ranks (switches, excluded ranks).
    pub fn has_switches(&self) -> bool {
        self.rank_nodes.len() < self.nodes.len()
    }

    /// The product this fabric is, if it is an intact one or a box of one.
    pub fn product(&self) -> Option<&Product> {
        match &self.shape {
            Shape::Product(product) => Some(product),
            _ => None,
        }
    }

    /// Neighbours of `node`, each once, in link order.
    pub fn neighbours(&self, node: NodeId) -> Vec<NodeId> {
        let mut list = Vec::new();
        for &id in self.out_links(node) {
            let to = self.link(id).to;
            if !list.contains(&to) {
                list.push(to);
            }
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_is_not_a_fabric() {
        let node = |rank| Node::rank(rank, []);
        let build = |nodes: Vec<Node>, links| Fabric::new("t", Shape::Graph, nodes, links);
        assert_eq!(build(vec![node(0)], vec![]).unwrap_err().code, Code::BadSpec);
        assert_eq!(build(vec![node(0), node(0)], vec![]).unwrap_err().code, Code::BadFile);
        assert_eq!(build(vec![node(0), node(1)], vec![Link::new(0, 2, "x")]).unwrap_err().code, Code::BadFile);
        assert_eq!(build(vec![node(1), node(2)], vec![]).unwrap_err().code, Code::BadFile);
        assert_eq!(build(vec![node(0), Node::rank(1, [f64::NAN])], vec![]).unwrap_err().code, Code::BadFile);
        let one_way = build(vec![node(0), node(1)], vec![Link::new(0, 1, "x")]).unwrap_err();
        assert!(one_way.message.contains("no path from rank 1 to rank 0"), "{one_way}");
    }
}
