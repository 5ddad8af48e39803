//! The strength of a symmetric fabric: what AllReduce can reach on it.
//!
//! Strength is the smallest, over all partitions of the nodes into two parts or more, of the capacity between parts
//! over (parts - 1). An element must cross a partition of `k` parts `k - 1` times before any part can hold its sum and
//! `k - 1` times after, and both directions of a link help, so D / strength bounds the time of AllReduce. A fractional
//! packing of spanning trees reaches it (Tutte 1961, Nash-Williams 1961), so for schedules that ship sums or copies it
//! is the optimum.

use super::capacity::{Capacities, Load};
use super::maxflow::{FlowNetwork, UNLIMITED, spread};
use crate::fabric::{Fabric, NodeId};
use crate::system::System;
use std::collections::BTreeMap;

/// The strength of a fabric, with the partition that attains it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strength {
    /// Capacity between parts, one direction of every link; on a uniform fabric the number of links. Otherwise in
    /// the largest unit of which all rates are multiples.
    pub crossing: u128,
    /// Number of parts of the partition, at least 2. The strength is `crossing / (parts - 1)`.
    pub parts: u32,
    /// Part of every rank, numbered by first appearance.
    pub part_of: Vec<u32>,
}

impl Strength {
    /// Load of an AllReduce of `bytes` on the links between parts.
    pub(super) fn load(&self, bytes: u64) -> Load {
        Load { bytes: bytes as u128 * (self.parts - 1) as u128, capacity: self.crossing }
    }
}

/// Neighbouring ranks and the capacity of all links between them, one direction.
pub type Edge = (u32, u32, u128);

/// The strength of a fabric; `None` unless [`symmetric_edges`] has its edges.
pub fn strength(fabric: &Fabric, system: &System) -> Option<Strength> {
    with_capacities(fabric, &Capacities::new(fabric, system))
}

/// [`strength`] with the capacities of the links known.
pub(super) fn with_capacities(fabric: &Fabric, capacities: &Capacities) -> Option<Strength> {
    Some(strength_of(fabric.ranks(), &edges(fabric, capacities)?))
}

/// The strength of a connected graph of `nodes` nodes, at least 2.
///
/// Exact for any graph: Newton's iteration on the value from the partition into single nodes; each round finds the
/// partition most below the value by Dilworth truncation (W. H. Cunningham, "Optimal attack and reinforcement of a
/// network", J. ACM 1985), with one short maximum flow for every node.
pub fn strength_of(nodes: usize, edges: &[Edge]) -> Strength {
    // Below, a node's number is its place in this order.
    let mut place = vec![0; nodes];
    for (at, node) in (0..).zip(spread(nodes as NodeId)) {
        place[node as usize] = at;
    }
    let placed = |&(a, b, capacity): &Edge| {
        let (a, b) = (place[a as usize], place[b as usize]);
        (a.max(b), a.min(b), capacity)
    };
    let mut edges: Vec<Edge> = edges.iter().map(placed).collect();
    edges.sort_unstable();
    let mut best = evaluate(&edges, (0..nodes as u32).collect());
    loop {
        let found = evaluate(&edges, most_violated(nodes, &edges, &best));
        if !found.load(1).exceeds(best.load(1)) {
            let part_of = number(place.into_iter().map(|at| best.part_of[at as usize]).collect()).0;
            return Strength { part_of, ..best };
        }
        best = found;
    }
}

/// The edges of a fabric, parallel links merged, in a unit of their own (1 if all are alike); `None` if a node that is
/// no rank has links, or two ranks are not joined equally fast both ways.
pub fn symmetric_edges(fabric: &Fabric, system: &System) -> Option<Vec<Edge>> {
    edges(fabric, &Capacities::new(fabric, system))
}

/// The capacities of the links that [`symmetric_edges`] merges into each edge: those of one direction, and of the other.
pub fn parallel_links(fabric: &Fabric, system: &System) -> Option<Vec<[Vec<u128>; 2]>> {
    let mut joined: BTreeMap<(u32, u32), [Vec<u128>; 2]> = BTreeMap::new();
    for (link, capacity) in fabric.links.iter().zip(Capacities::new(fabric, system).links) {
        let (from, to) = (fabric.nodes[link.from as usize].rank?, fabric.nodes[link.to as usize].rank?);
        joined.entry((from.min(to), from.max(to))).or_default()[usize::from(from > to)].push(capacity);
    }
    Some(joined.into_values().collect())
}

fn edges(fabric: &Fabric, capacities: &Capacities) -> Option<Vec<Edge>> {
    let mut joined: BTreeMap<(u32, u32), (u128, u128)> = BTreeMap::new();
    for (link, &capacity) in fabric.links.iter().zip(&capacities.links) {
        let (from, to) = (fabric.nodes[link.from as usize].rank?, fabric.nodes[link.to as usize].rank?);
        let both = joined.entry((from.min(to), from.max(to))).or_default();
        *if from < to { &mut both.0 } else { &mut both.1 } += capacity;
    }
    let edge = |((low, high), (there, back))| (there == back).then_some((low, high, there));
    joined.into_iter().map(edge).collect()
}

/// Labels below the number of nodes, numbered by first appearance, and how many differ.
fn number(labels: Vec<u32>) -> (Vec<u32>, u32) {
    let mut number = vec![u32::MAX; labels.len()];
    let mut parts = 0;
    let renumber = |label: u32| {
        let slot = &mut number[label as usize];
        if *slot == u32::MAX {
            *slot = parts;
            parts += 1;
        }
        *slot
    };
    (labels.into_iter().map(renumber).collect(), parts)
}

/// A partition given by any labels below the number of nodes, with its parts counted and numbered.
fn evaluate(edges: &[Edge], labels: Vec<u32>) -> Strength {
    let (part_of, parts) = number(labels);
    let apart = |edge: &&Edge| part_of[edge.0 as usize] != part_of[edge.1 as usize];
    let crossing = edges.iter().filter(apart).map(|edge| edge.2).sum();
    Strength { crossing, parts, part_of }
}

/// A partition that minimises q * crossing - p * (parts - 1), where p / q is the strength of the `current` one.
///
/// Direct every edge to its lower node and let out(A) be what leaves A; the crossing capacity is the sum of out over
/// all parts. So the task is to minimise a sum of f(A) = q * out(A) - p over partitions; f is submodular on sets that
/// intersect, and the minimum equals the largest x(V) with x(A) <= f(A) for all A (Dilworth truncation). Greedily, node
/// by node, x(v) is the smallest f(A) - x(A - v) over sets A of `v` and lower nodes; the sets that attain it are tight,
/// tight sets that intersect have a tight union, and these unions are the partition.
///
/// The flow network carries all positive x at once: nodes with x > 0 supply x, nodes with x < 0 drain -x, and the
/// inequalities say that this flow exists. For a new node, F = what it can ship on top; then x = F - p.
fn most_violated(nodes: usize, edges: &[Edge], current: &Strength) -> Vec<u32> {
    let (p, q) = (current.crossing, (current.parts - 1) as u128);
    let sink = nodes as NodeId;
    let mut arcs: Vec<_> = edges.iter().map(|&(high, low, capacity)| (high, low, q * capacity)).collect();
    let drains = arcs.len();
    arcs.extend((0..sink).map(|node| (node, sink, 0)));
    let mut network = FlowNetwork::new(nodes + 1, &arcs);
    let mut label: Vec<u32> = (0..sink).collect();
    for node in 0..sink {
        let shipped = network.augment(node, sink, UNLIMITED);
        let mut joined = vec![false; node as usize + 1];
        for other in (0..=node).filter(|&other| network.on_source_side(other)) {
            joined[label[other as usize] as usize] = true;
        }
        for other in 0..=node as usize {
            if joined[label[other] as usize] {
                label[other] = node;
            }
        }
        network.augment(sink, node, shipped.min(p));
        if shipped < p {
            network.set_capacity(drains + node as usize, p - shipped);
        }
    }
    label
}
