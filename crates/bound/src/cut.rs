//! Cut bounds: bytes that must leave a set of nodes, over the rate of the links that leave it.

use super::all_to_all::all_to_all;
use super::capacity::{Capacities, Load};
use super::maxflow::{FlowNetwork, UNLIMITED, spread};
use super::task::Task;
use antiphon_model::collective::Kind;
use antiphon_model::fabric::{Fabric, NodeId};

/// A cut: what must cross it, and the nodes on one side.
pub(super) struct Cut {
    /// Bytes that must cross, over the capacity of the links that do.
    pub load: Load,
    /// The nodes on one side; all the others are on the other side, but for AllToAll's switches, which may be on either.
    pub inside: Vec<NodeId>,
    /// Whether the links are those that enter the side, not those that leave it.
    pub entering: bool,
}

impl Cut {
    /// None at all.
    pub const NONE: Cut = Cut { load: Load::NONE, inside: vec![], entering: false };
}

/// The worst cut. Exact over all cuts, except for [AllToAll](all_to_all).
///
/// AllReduce must bring every rank's data to every other, so it is bounded by Reduce and Broadcast at any one root.
/// O(sites) maximum flows at worst, most of them local.
pub(super) fn cut(fabric: &Fabric, capacities: &Capacities, task: &Task) -> Cut {
    let shards = || task.sites.iter().map(|site| site.shards).collect::<Vec<_>>();
    let at_root = || {
        let mut wanted = vec![0; task.sites.len()];
        wanted[task.root] = task.bytes as u128;
        wanted
    };
    let worst = |reversed, wanted: Vec<u128>| worst_cut(fabric, capacities, task, reversed, &wanted);
    match task.kind {
        Kind::AllToAll => all_to_all(fabric, capacities, task),
        Kind::ReduceScatter => worst(false, shards()),
        Kind::AllGather => worst(true, shards()),
        Kind::Reduce => worst(false, at_root()),
        Kind::Broadcast => worst(true, at_root()),
        Kind::AllReduce => {
            let leaving = worst(false, at_root());
            if capacities.are_mutual(fabric) {
                return leaving;
            }
            let entering = worst(true, at_root());
            if entering.load.exceeds(leaving.load) { entering } else { leaving }
        }
    }
}

/// The largest, over all node sets with a site inside, of the bytes `wanted` by sites outside, over the capacity of the
/// links that leave the set (that enter it, if `reversed`: bytes that *start* outside and are wanted inside).
///
/// Newton's iteration on the ratio, with maximum flows as the test: as ForestColl's optimality test (Zhao et al.,
/// "ForestColl", 2024), but from each site towards the sites before it in [`spread`] order. Sets
/// whose first site is `v` are tested together; all sites before `v` are then outside, and flows to them are short.
fn worst_cut(fabric: &Fabric, capacities: &Capacities, task: &Task, reversed: bool, wanted: &[u128]) -> Cut {
    if task.sites.len() == 1 {
        return Cut::NONE;
    }
    let nodes = fabric.nodes.len();
    let sink = nodes as NodeId;
    let total: u128 = wanted.iter().sum();
    let sites = || 0..task.sites.len();
    let node = |site: usize| task.sites[site].node;
    let mut edges: Vec<(NodeId, NodeId, u128)> = Vec::with_capacity(fabric.links.len());
    let mut leaving = vec![0; nodes];
    for (link, &capacity) in fabric.links.iter().zip(&capacities.links) {
        let (from, to) = if reversed { (link.to, link.from) } else { (link.from, link.to) };
        leaving[from as usize] += capacity;
        edges.push((from, to, capacity));
    }
    // Arcs to the sink and to early sites first, so that searches that can end do.
    edges.sort_by_key(|edge| edge.1.reverse_bits());
    let sinks = sites().map(|site| (node(site), sink, 0));
    let mut network = FlowNetwork::new(nodes + 1, &sinks.chain(edges.iter().copied()).collect::<Vec<_>>());
    let mut worst = Cut::NONE;
    for site in sites() {
        let load = Load { bytes: total - wanted[site], capacity: leaving[node(site) as usize] };
        if load.exceeds(worst.load) {
            worst = Cut { load, inside: vec![node(site)], entering: reversed };
        }
    }
    // A set A is worse than the ratio bytes/capacity if bytes * leaving(A) + capacity * wanted(A) < capacity * total.
    let scale = |network: &mut FlowNetwork, outside: &[bool], ratio: Load| {
        for (edge, &(_, _, capacity)) in edges.iter().enumerate() {
            network.set_capacity(sites().len() + edge, ratio.bytes * capacity);
        }
        for site in sites() {
            let wants = ratio.capacity * wanted[site];
            network.set_capacity(site, if outside[site] { UNLIMITED } else { wants });
        }
    };
    let mut ratio = worst.load.reduced();
    let mut outside = vec![false; sites().len()];
    scale(&mut network, &outside, ratio);
    for site in spread(sites().len() as u32) {
        let start = node(site as usize);
        while network.augment(start, sink, ratio.capacity * total) < ratio.capacity * total {
            let inside = |node: NodeId| network.on_source_side(node);
            let crossing = edges.iter().filter(|edge| inside(edge.0) && !inside(edge.1));
            let load = Load {
                bytes: sites().filter(|&site| !inside(node(site))).map(|site| wanted[site]).sum(),
                capacity: crossing.map(|edge| edge.2).sum(),
            };
            worst = Cut { load, inside: (0..sink).filter(|&node| inside(node)).collect(), entering: reversed };
            ratio = load.reduced();
            network.reset();
            scale(&mut network, &outside, ratio);
        }
        network.reset();
        network.set_capacity(site as usize, UNLIMITED);
        outside[site as usize] = true;
    }
    worst
}
