//! Cut bounds: bytes that must leave a set of nodes, over the rate of the links that leave it.

use super::capacity::{Capacities, Load, shards};
use super::maxflow::{FlowNetwork, UNLIMITED, spread};
use crate::collective::{Collective, Kind};
use crate::fabric::{Fabric, NodeId};
use crate::units::Bytes;

/// Load of the worst cut. Exact over all cuts, except for AllToAll: single ranks, and for grids every position along
/// every dimension.
///
/// AllReduce must bring every rank's data to every other, so it is bounded by Reduce and Broadcast at any one root.
/// O(ranks) maximum flows at worst, most of them local.
pub(super) fn cut(fabric: &Fabric, capacities: &Capacities, collective: Collective, bytes: Bytes) -> Load {
    let shards = || shards(fabric.ranks(), bytes);
    let at_root = || {
        let mut wanted = vec![0; fabric.ranks()];
        wanted[collective.root as usize] = bytes as u128;
        wanted
    };
    match collective.kind {
        Kind::AllToAll => all_to_all(fabric, capacities, &shards()),
        Kind::ReduceScatter => worst_cut(fabric, capacities, false, &shards()),
        Kind::AllGather => worst_cut(fabric, capacities, true, &shards()),
        Kind::Reduce => worst_cut(fabric, capacities, false, &at_root()),
        Kind::Broadcast => worst_cut(fabric, capacities, true, &at_root()),
        Kind::AllReduce => {
            worst_cut(fabric, capacities, false, &at_root()).max(worst_cut(fabric, capacities, true, &at_root()))
        }
    }
}

/// The largest, over all node sets with a rank inside, of the bytes `wanted` by ranks outside, over the capacity of the
/// links that leave the set (that enter it, if `reversed`: bytes that *start* outside and are wanted inside).
///
/// Newton's iteration on the ratio, with maximum flows as the test: as ForestColl's optimality test (Zhao et al.,
/// "ForestColl", 2024), but from each rank towards the ranks before it in [`spread`] order. Sets
/// whose first rank is `v` are tested together; all ranks before `v` are then outside, and flows to them are short.
fn worst_cut(fabric: &Fabric, capacities: &Capacities, reversed: bool, wanted: &[u128]) -> Load {
    let nodes = fabric.nodes.len();
    let sink = nodes as NodeId;
    let total: u128 = wanted.iter().sum();
    let ranks = || 0..fabric.ranks() as u32;
    let mut edges: Vec<(NodeId, NodeId, u128)> = Vec::with_capacity(fabric.links.len());
    let mut leaving = vec![0; nodes];
    for (link, &capacity) in fabric.links.iter().zip(&capacities.links) {
        let (from, to) = if reversed { (link.to, link.from) } else { (link.from, link.to) };
        leaving[from as usize] += capacity;
        edges.push((from, to, capacity));
    }
    // Arcs to the sink and to early ranks first, so that searches that can end do.
    edges.sort_by_key(|edge| edge.1.reverse_bits());
    let sinks = ranks().map(|rank| (fabric.node_of_rank(rank), sink, 0));
    let mut network = FlowNetwork::new(nodes + 1, &sinks.chain(edges.iter().copied()).collect::<Vec<_>>());

    let alone = |rank: u32| Load {
        bytes: total - wanted[rank as usize],
        capacity: leaving[fabric.node_of_rank(rank) as usize],
    };
    let mut worst = ranks().map(alone).fold(Load::NONE, Load::max);
    // A set A is worse than the ratio bytes/capacity if bytes * leaving(A) + capacity * wanted(A) < capacity * total.
    let scale = |network: &mut FlowNetwork, outside: &[bool], ratio: Load| {
        for (edge, &(_, _, capacity)) in edges.iter().enumerate() {
            network.set_capacity(fabric.ranks() + edge, ratio.bytes * capacity);
        }
        for rank in ranks() {
            let wants = ratio.capacity * wanted[rank as usize];
            network.set_capacity(rank as usize, if outside[rank as usize] { UNLIMITED } else { wants });
        }
    };
    let mut ratio = worst.reduced();
    let mut outside = vec![false; fabric.ranks()];
    scale(&mut network, &outside, ratio);
    for rank in spread(fabric.ranks() as u32) {
        let start = fabric.node_of_rank(rank);
        while network.augment(start, sink, ratio.capacity * total) < ratio.capacity * total {
            let inside = |node: NodeId| network.on_source_side(node);
            let crossing = edges.iter().filter(|edge| inside(edge.0) && !inside(edge.1));
            worst = Load {
                bytes: ranks().filter(|&r| !inside(fabric.node_of_rank(r))).map(|r| wanted[r as usize]).sum(),
                capacity: crossing.map(|edge| edge.2).sum(),
            };
            ratio = worst.reduced();
            network.reset();
            scale(&mut network, &outside, ratio);
        }
        network.reset();
        network.set_capacity(rank as usize, UNLIMITED);
        outside[rank as usize] = true;
    }
    worst
}

/// Ranks, shard bytes and link capacity on one side of a cut.
#[derive(Debug, Clone, Copy, Default)]
struct Side {
    ranks: u128,
    shards: u128,
    leaving: u128,
    entering: u128,
}

impl Side {
    /// Load of AllToAll on the links between this side and the rest, in the worse direction.
    fn all_to_all(self, ranks: u128, bytes: u128) -> Load {
        let out = Load { bytes: self.ranks * (bytes - self.shards), capacity: self.leaving.max(1) };
        out.max(Load { bytes: (ranks - self.ranks) * self.shards, capacity: self.entering.max(1) })
    }
}

/// The worst of the cuts around single ranks and, for grids, across every dimension at every position.
fn all_to_all(fabric: &Fabric, capacities: &Capacities, shards: &[u128]) -> Load {
    let load = |side: Side| side.all_to_all(fabric.ranks() as u128, shards.iter().sum());
    let mut sides = vec![Side::default(); fabric.nodes.len()];
    for (link, &capacity) in fabric.links.iter().zip(&capacities.links) {
        sides[link.from as usize].leaving += capacity;
        sides[link.to as usize].entering += capacity;
    }
    for (node, side) in fabric.nodes.iter().zip(&mut sides) {
        side.ranks = u128::from(node.rank.is_some());
        side.shards = node.rank.map_or(0, |rank| shards[rank as usize]);
    }
    let singles = sides.iter().filter(|side| side.ranks > 0).map(|&side| load(side));
    let mut worst = singles.fold(Load::NONE, Load::max);
    if let Some(grid) = fabric.grid() {
        let coords: Vec<_> = (0..fabric.nodes.len()).map(|node| grid.coords(node as NodeId)).collect();
        for (dimension, &extent) in grid.dims.iter().enumerate() {
            let position = |node: NodeId| coords[node as usize][dimension] as usize;
            let slabs = below(fabric, capacities, &sides, extent as usize, position);
            worst = slabs.into_iter().map(load).fold(worst, Load::max);
        }
    }
    worst
}

/// For every position of a dimension but the last, the side of all nodes up to it. O(nodes + links).
fn below(
    fabric: &Fabric,
    capacities: &Capacities,
    nodes: &[Side],
    extent: usize,
    position: impl Fn(NodeId) -> usize,
) -> Vec<Side> {
    let mut sides = vec![Side::default(); extent];
    for (node, side) in nodes.iter().enumerate() {
        let at = &mut sides[position(node as NodeId)];
        at.ranks += side.ranks;
        at.shards += side.shards;
    }
    // A link is open from its lower to its upper end; the ends are counted apart, as capacities are unsigned.
    let mut closed = vec![Side::default(); extent];
    for (link, &capacity) in fabric.links.iter().zip(&capacities.links) {
        let (from, to) = (position(link.from), position(link.to));
        if from < to {
            sides[from].leaving += capacity;
            closed[to].leaving += capacity;
        } else if to < from {
            sides[to].entering += capacity;
            closed[from].entering += capacity;
        }
    }
    for at in 1..extent {
        let previous = sides[at - 1];
        let side = &mut sides[at];
        side.ranks += previous.ranks;
        side.shards += previous.shards;
        side.leaving = previous.leaving + side.leaving - closed[at].leaving;
        side.entering = previous.entering + side.entering - closed[at].entering;
    }
    sides.pop();
    sides
}
