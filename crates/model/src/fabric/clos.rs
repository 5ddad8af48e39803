//! Networks of switches in layers and groups: fat trees and dragonflies.

use super::spec::{FabricPreset, PresetRequest, numbers};
use super::{Fabric, Link, MAX_LINKS, MAX_NODES, MAX_RANKS, Node, NodeId, Shape};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::options::{
    Default::{Derived, Fixed},
    Opt,
};

pub(super) const FAT_TREE: FabricPreset = FabricPreset::new(
    "fat-tree",
    "fat-tree:4",
    "three levels of switches with K ports, or LEAVESxHOSTS below spines, :ratio=2",
    |request| {
        Some(if let Some([ports]) = request.sizes() {
            three_levels(request, ports)
        } else {
            leaves(request, request.sizes()?)
        })
    },
)
.with(&[Opt::count("ratio", 1, 4096, Fixed("1"), "Links down of a leaf for one up, of LEAVESxHOSTS.")]);

pub(super) const DRAGONFLY: FabricPreset = FabricPreset::new(
    "dragonfly",
    "dragonfly:1,2,1",
    "P ranks a router, A routers a group, H links of a router to other groups (ISCA 2008)",
    |request| Some(dragonfly(request, numbers(request.size?, ',')?.try_into().ok()?)),
)
.with(&[Opt::count("groups", 2, 1 << 20, Derived("A H + 1"), "Groups, each joined to every other by one link.")]);

/// A graph of ranks and switches.
pub(super) struct SwitchNetwork {
    nodes: Vec<Node>,
    links: Vec<Link>,
    ranks: u32,
}

impl SwitchNetwork {
    /// The ranks of a network, in the lowest row of a drawing.
    ///
    /// # Errors
    /// [`Code::TooLarge`] past the limits of a fabric, before memory is taken.
    pub fn new(request: &PresetRequest, ranks: u64, switches: u64, cables: u64) -> Result<SwitchNetwork> {
        let links = cables.saturating_mul(2);
        if ranks > MAX_RANKS as u64 || ranks + switches > MAX_NODES as u64 || links > MAX_LINKS as u64 {
            let what = format!(
                "fabric '{}' has {ranks} ranks, {switches} switches and {links} links; at most {MAX_RANKS} ranks, \
                 {MAX_NODES} nodes and {MAX_LINKS} links",
                request.name
            );
            return Err(Error::new(Code::TooLarge, what));
        }
        let nodes = (0..ranks as u32).map(|rank| Node::rank(rank, [3.0, f64::from(rank)])).collect();
        Ok(SwitchNetwork { nodes, links: Vec::with_capacity(links as usize), ranks: ranks as u32 })
    }

    /// More switches, in a row of a drawing, and the first of them.
    pub fn switches(&mut self, name: &str, count: u32, row: f64) -> NodeId {
        let first = self.nodes.len() as NodeId;
        let pitch = f64::from(self.ranks) / f64::from(count);
        let place = |n: u32| [row, (f64::from(n) + 0.5) * pitch - 0.5];
        self.nodes.extend((0..count).map(|n| Node::switch(format!("{name}{n}"), place(n))));
        first
    }

    /// Links of two nodes, both ways.
    pub fn join(&mut self, label: &str, one: NodeId, other: NodeId) {
        let link = Link::new(one, other, label);
        self.links.extend([link.reversed(), link].into_iter().rev());
    }

    /// Links of every rank to its switch, of which each has as many.
    pub fn hosts(&mut self, switches: NodeId, each: u32) {
        (0..self.ranks).for_each(|rank| self.join("host", rank, switches + rank / each));
    }

    /// The fabric, with parameters for links by their labels.
    ///
    /// # Errors
    /// Those of [`Fabric::new`] and of [`PresetRequest::with_labelled`].
    pub fn finish(self, request: &PresetRequest, labels: &[&str]) -> Result<Fabric> {
        request.with_labelled(labels, Fabric::new(request.name, Shape::Graph, self.nodes, self.links))
    }
}

/// Pods of edge and aggregation switches with `ports` ports, half of them down, below cores ("A Scalable, Commodity
/// Data Center Network Architecture", Al-Fares et al., SIGCOMM 2008).
fn three_levels(request: &PresetRequest, ports: u32) -> Result<Fabric> {
    if request.options.given("ratio").is_some() {
        return Err(request.refused("ratio= is of leaves below spines, as in fat-tree:8x4:ratio=2"));
    }
    if ports == 0 || !ports.is_multiple_of(2) {
        return Err(request.refused("switches have an even number of ports, half of them down"));
    }
    let (half, k) = (ports / 2, u64::from(ports));
    let ranks = k.saturating_mul(k).saturating_mul(k) / 4;
    let mut network =
        SwitchNetwork::new(request, ranks, k.saturating_mul(k).saturating_mul(5) / 4, ranks.saturating_mul(3))?;
    let edges = network.switches("edge", ports * half, 2.0);
    let middles = network.switches("aggregation", ports * half, 1.0);
    let cores = network.switches("core", half * half, 0.0);
    network.hosts(edges, half);
    for edge in 0..ports * half {
        (0..half).for_each(|n| network.join("aggregation", edges + edge, middles + edge / half * half + n));
    }
    for middle in 0..ports * half {
        (0..half).for_each(|n| network.join("core", middles + middle, cores + middle % half * half + n));
    }
    network.finish(request, &["host", "aggregation", "core"])
}

/// Leaves with `hosts` ranks each, joined to as many spines as the ratio leaves of these.
fn leaves(request: &PresetRequest, [leaves, hosts]: [u32; 2]) -> Result<Fabric> {
    let ratio = request.options.count("ratio") as u32;
    if leaves == 0 || hosts == 0 || !hosts.is_multiple_of(ratio) {
        return Err(request.refused(format!("needs leaves, and ranks a leaf that ratio={ratio} divides")));
    }
    let (spines, [l, h]) = (hosts / ratio, [leaves, hosts].map(u64::from));
    let (ranks, ups) = (l.saturating_mul(h), l.saturating_mul(spines.into()));
    let mut network = SwitchNetwork::new(request, ranks, l + u64::from(spines), ranks.saturating_add(ups))?;
    let first = network.switches("leaf", leaves, 2.0);
    let above = network.switches("spine", spines, 1.0);
    network.hosts(first, hosts);
    for leaf in 0..leaves {
        (0..spines).for_each(|spine| network.join("spine", first + leaf, above + spine));
    }
    network.finish(request, &["host", "spine"])
}

/// Groups of `a` routers, all joined, with `p` ranks and `h` global links each; there is one link between two groups,
/// and its routers take turns ("Technology-Driven, Highly-Scalable Dragonfly Topology", Kim et al., ISCA 2008).
fn dragonfly(request: &PresetRequest, [p, a, h]: [u32; 3]) -> Result<Fabric> {
    let most = u64::from(a).saturating_mul(h.into()).saturating_add(1);
    let groups = request.options.given("groups").map_or(most, |groups| groups.whole());
    if p == 0 || groups < 2 {
        return Err(request.refused("needs at least a rank a router and two groups"));
    }
    if groups > most {
        return Err(request.refused(format!("at most A H + 1 = {most} groups")));
    }
    let routers = groups.saturating_mul(a.into());
    let (ranks, local) = (routers.saturating_mul(p.into()), routers.saturating_mul(u64::from(a - 1)) / 2);
    let cables = ranks.saturating_add(local).saturating_add(groups.saturating_mul(groups - 1) / 2);
    let mut network = SwitchNetwork::new(request, ranks, routers, cables)?;
    let first = network.switches("router", routers as u32, 2.0);
    network.hosts(first, p);
    let groups = groups as u32;
    for group in 0..groups {
        let own = first + group * a;
        for one in 0..a {
            (one + 1..a).for_each(|other| network.join("local", own + one, own + other));
        }
        // A group's links to lower groups come first; router `port % a` has a port.
        for other in group + 1..groups {
            network.join("global", own + (other - 1) % a, first + other * a + group % a);
        }
    }
    network.finish(request, &["host", "local", "global"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_distances() {
        // Ranks, switches, links between switches both ways, most hops between switches.
        for (spec, ranks, switches, links, hops) in [
            ("fat-tree:4", 16, 20, 64, 4),
            ("fat-tree:24", 3456, 720, 4 * 3456, 4),
            ("fat-tree:8x4", 32, 12, 64, 2),
            ("fat-tree:8x4:ratio=2", 32, 10, 32, 2),
            ("dragonfly:1,2,1", 6, 6, 12, 3),
            ("dragonfly:2,4,2", 72, 36, 36 * 3 + 9 * 8, 3),
            ("dragonfly:2,4,2,groups=5@50+50+25", 40, 20, 20 * 3 + 5 * 4, 3),
            ("dragonfly:8,16,8:groups=32", 4096, 512, 512 * 15 + 32 * 31, 3),
        ] {
            let fabric = Fabric::parse(spec).unwrap();
            let found = (fabric.ranks(), fabric.nodes.len() - ranks, fabric.links.len() - 2 * ranks);
            assert_eq!((found, fabric.diameter() - 2), ((ranks, switches, links), hops), "{spec}");
        }
    }
}
