//! The strength of a fabric: what AllReduce can reach on it.
//!
//! Strength is the smallest, over all partitions of the sites into two parts or more, of the capacity between parts
//! over (parts - 1). An element must leave parts of a partition into `k` parts `k - 1` times, in messages of their own,
//! before any part can hold its sum, and must enter parts `k - 1` times after. What leaves a part crosses every node
//! set that holds the part and no other site. So 2 (k - 1) D over the sum of the parts' least cuts bounds the time of
//! AllReduce; the same holds for the least cuts of what enters. Without switches both sums are what all links between
//! parts carry, in both directions; a fractional packing of spanning trees reaches the bound if the directions are
//! alike (Tutte 1961, Nash-Williams 1961).
//!
//! A helper may add, so it is no switch but belongs to a part: here, to that of the nearest site.

use super::capacity::{Capacities, Load};
use super::maxflow::{FlowNetwork, UNLIMITED, spread};
use super::task::Task;
use antiphon_base::watch::interruptible;
use antiphon_model::fabric::{Fabric, NodeId};
use antiphon_model::system::System;
use std::collections::{BTreeMap, VecDeque};

/// The strength of a symmetric fabric without switches, with the partition that attains it.
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

/// Neighbouring ranks and the capacity of all links between them, one direction.
pub type RankEdge = (u32, u32, u128);

/// The strength of a fabric; `None` unless [`symmetric_edges`] has its edges.
pub fn strength(fabric: &Fabric, system: &System) -> Option<Strength> {
    Some(strength_of(fabric.ranks(), &symmetric_edges(fabric, system)?))
}

/// The strength of a connected graph of `nodes` nodes, at least 2.
pub fn strength_of(nodes: usize, edges: &[RankEdge]) -> Strength {
    // Below, a node's number is its place in this order.
    let place = places(nodes);
    let placed = |&(a, b, capacity): &RankEdge| {
        let (a, b) = (place[a as usize], place[b as usize]);
        (a.max(b), a.min(b), capacity)
    };
    let mut arcs: Vec<RankEdge> = edges.iter().map(placed).collect();
    arcs.sort_unstable();
    let best = Cuts { sites: nodes, arcs, drains: vec![], excess: 0 }.weakest();
    let part_of = number(place.into_iter().map(|at| best.part_of[at as usize]).collect()).0;
    Strength { part_of, ..best }
}

/// A partition of an AllReduce's sites.
pub(super) struct SitePartition {
    /// What all must send or receive, over what leaves or enters the parts.
    pub load: Load,
    /// Part of every site.
    pub part_of: Vec<u32>,
    /// Whether it is about what enters them.
    pub entering: bool,
}

/// The weakest partition of an AllReduce's sites.
pub(super) fn weakest(fabric: &Fabric, capacities: &Capacities, task: &Task) -> SitePartition {
    if task.sites.len() == 1 {
        return SitePartition { load: Load::NONE, part_of: vec![0], entering: false };
    }
    let weakest = |entering: bool| {
        let found = Cuts::new(fabric, capacities, task, entering).weakest();
        let load = Load { bytes: 2 * (found.parts - 1) as u128, capacity: found.crossing }.reduced();
        let load = Load { bytes: load.bytes * task.bytes as u128, ..load };
        let part_of = places(task.sites.len()).into_iter().map(|place| found.part_of[place as usize]).collect();
        SitePartition { load, part_of, entering }
    };
    // Without switches all that enters a part leaves another, and where nodes are joined equally fast both ways as much
    // enters as leaves.
    let has_switches = task.sites.len() + task.helpers.len() < fabric.nodes.len();
    let leaving = weakest(false);
    match (has_switches && !capacities.are_mutual(fabric)).then(|| weakest(true)) {
        Some(entering) if entering.load.exceeds(leaving.load) => entering,
        _ => leaving,
    }
}

/// The place of every node in [`spread`] order.
fn places(nodes: usize) -> Vec<NodeId> {
    let mut place = vec![0; nodes];
    for (at, node) in (0..).zip(spread(nodes as NodeId)) {
        place[node as usize] = at;
    }
    place
}

/// The edges of a fabric, parallel links merged, in a unit of their own (1 if all are alike); `None` if a node that is
/// no rank has links, or two ranks are not joined equally fast both ways.
pub fn symmetric_edges(fabric: &Fabric, system: &System) -> Option<Vec<RankEdge>> {
    let joined = joined(fabric, system);
    let links: usize = joined.values().flatten().map(Vec::len).sum();
    let edge = |(&(low, high), [there, back]): (&(u32, u32), &[Vec<u128>; 2])| {
        let [there, back] = [there, back].map(|links| links.iter().sum());
        (there == back).then_some((low, high, there))
    };
    joined.iter().map(edge).collect::<Option<_>>().filter(|_| links == fabric.links.len())
}

/// The ranks that links join both ways, as edges of the lower of the two rates in a unit of their own, and the capacities of the
/// links that each merges: those of one direction, and of the other. Other links and nodes are left out.
pub fn edges_both_ways(fabric: &Fabric, system: &System) -> (Vec<RankEdge>, Vec<[Vec<u128>; 2]>) {
    let joined = joined(fabric, system).into_iter().filter(|(_, [there, back])| !there.is_empty() && !back.is_empty());
    let edge = |((low, high), links): ((u32, u32), [Vec<u128>; 2])| {
        let least = links.each_ref().map(|links| links.iter().sum::<u128>());
        ((low, high, least[0].min(least[1])), links)
    };
    joined.map(edge).unzip()
}

/// The capacities of the links between ranks, by lower and higher rank: those upwards, and those downwards.
fn joined(fabric: &Fabric, system: &System) -> BTreeMap<(u32, u32), [Vec<u128>; 2]> {
    let mut joined: BTreeMap<(u32, u32), [Vec<u128>; 2]> = BTreeMap::new();
    for (link, capacity) in interruptible(&fabric.links).zip(Capacities::new(fabric, system).links) {
        if let [Some(from), Some(to)] = [link.from, link.to].map(|node| fabric.nodes[node as usize].rank) {
            joined.entry((from.min(to), from.max(to))).or_default()[usize::from(from > to)].push(capacity);
        }
    }
    joined
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

/// The least capacity that leaves a set of sites, for every set, up to a term for each of its sites.
///
/// Moving such terms changes all partitions alike, so that links can be turned round: here no arc leads from a switch,
/// or from a lower site, to a site. A set's capacity then does not depend on higher sites.
#[derive(Debug)]
struct Cuts {
    sites: usize,
    /// Arcs from sites to lower ones and to switches, and between switches. Switches are numbered after the sites.
    arcs: Vec<RankEdge>,
    /// What putting each switch into the set costs.
    drains: Vec<u128>,
    /// By how much this is too much, summed over all parts of any partition.
    excess: u128,
}

impl Cuts {
    /// Of what leaves sets of a task's sites, or enters them if `reversed`. O(links log links).
    fn new(fabric: &Fabric, capacities: &Capacities, task: &Task, reversed: bool) -> Cuts {
        let sites = task.sites.len();
        let (vertex_of, vertices) = vertices(fabric, task);
        let mut joined: BTreeMap<(u32, u32), u128> = BTreeMap::new();
        let (mut drains, mut excess) = (vec![0; vertices - sites], 0);
        let is_site = |vertex: u32| (vertex as usize) < sites;
        for (link, &capacity) in interruptible(&fabric.links).zip(&capacities.links) {
            let (from, to) = if reversed { (link.to, link.from) } else { (link.from, link.to) };
            let (from, to) = (vertex_of[from as usize], vertex_of[to as usize]);
            if from == to {
                continue;
            }
            let turned = is_site(to) && (from < to || !is_site(from));
            if turned && !is_site(from) {
                drains[from as usize - sites] += capacity;
                excess += capacity;
            }
            *joined.entry(if turned { (to, from) } else { (from, to) }).or_default() += capacity;
        }
        let arcs = joined.into_iter().map(|((from, to), capacity)| (from, to, capacity)).collect();
        Cuts { sites, arcs, drains, excess }
    }

    /// The partition of the sites with the least capacity over (parts - 1); `crossing` is the sum over all parts, and
    /// `part_of` goes by the sites' numbers here.
    ///
    /// Exact: Newton's iteration on the value from the partition into single sites; each round finds the partition
    /// most below the value by Dilworth truncation (W. H. Cunningham, "Optimal attack and reinforcement of a network",
    /// J. ACM 1985), with one short maximum flow for every site.
    fn weakest(&self) -> Strength {
        let singles = self.arcs.iter().filter(|arc| (arc.0 as usize) < self.sites).map(|arc| arc.2).sum::<u128>();
        let parts = self.sites as u32;
        let mut best = Strength { crossing: singles - self.excess, parts, part_of: (0..parts).collect() };
        let load = |found: &Strength| Load { bytes: found.parts as u128 - 1, capacity: found.crossing };
        loop {
            let found = self.most_violated(&best);
            if !load(&found).exceeds(load(&best)) {
                return best;
            }
            best = found;
        }
    }

    /// A partition that minimises q * crossing - p * (parts - 1), where p / q is the value of the `current` one.
    ///
    /// With c(A) the capacity of a set of sites A, the task is to minimise a sum of f(A) = q * c(A) - p over partitions;
    /// f is submodular on sets that intersect, and the minimum equals the largest x(V) with x(A) <= f(A) for all A
    /// (Dilworth truncation). Greedily, site by site, x(v) is the smallest f(A) - x(A - v) over sets A of `v` and lower
    /// sites; the sets that attain it are tight, tight sets that intersect have a tight union, and these unions are the
    /// partition.
    ///
    /// The flow network carries all positive x at once: sites with x > 0 supply x, sites with x < 0 drain -x, and the
    /// inequalities say that this flow exists. For a new site, F = what it can ship on top; then x = F - p.
    fn most_violated(&self, current: &Strength) -> Strength {
        let (p, q) = (current.crossing, (current.parts - 1) as u128);
        let sites = self.sites as NodeId;
        let sink = sites + self.drains.len() as NodeId;
        let mut arcs: Vec<_> =
            (sites..sink).zip(&self.drains).map(|(switch, &drain)| (switch, sink, q * drain)).collect();
        arcs.extend(self.arcs.iter().map(|&(from, to, capacity)| (from, to, q * capacity)));
        let drains = arcs.len();
        arcs.extend((0..sites).map(|site| (site, sink, 0)));
        let mut network = FlowNetwork::new(sink as usize + 1, &arcs);
        let mut label: Vec<u32> = (0..sites).collect();
        let mut total = 0;
        for site in 0..sites {
            let shipped = network.augment(site, sink, UNLIMITED);
            total += shipped;
            let mut joined = vec![false; site as usize + 1];
            for other in (0..=site).filter(|&other| network.on_source_side(other)) {
                joined[label[other as usize] as usize] = true;
            }
            for other in 0..=site as usize {
                if joined[label[other] as usize] {
                    label[other] = site;
                }
            }
            network.augment(sink, site, shipped.min(p));
            if shipped < p {
                network.set_capacity(drains + site as usize, p - shipped);
            }
        }
        // All parts are tight: x(V), which is the shipped flow less p a site, is q * crossing less p a part.
        let (part_of, parts) = number(label);
        Strength { crossing: (total - p * (sites - parts) as u128) / q - self.excess, parts, part_of }
    }
}

/// A number for every node, sites first in the order of [`places`], and how many there are. Helpers have that of the
/// site from which the fewest links lead to or from them.
fn vertices(fabric: &Fabric, task: &Task) -> (Vec<u32>, usize) {
    const NONE: u32 = u32::MAX;
    let mut vertex_of = vec![NONE; fabric.nodes.len()];
    for (site, place) in task.sites.iter().zip(places(task.sites.len())) {
        vertex_of[site.node as usize] = place;
    }
    let mut nearest = vertex_of.clone();
    if !task.helpers.is_empty() {
        let mut neighbours = vec![Vec::new(); fabric.nodes.len()];
        for link in &fabric.links {
            neighbours[link.from as usize].push(link.to);
            neighbours[link.to as usize].push(link.from);
        }
        let mut queue: VecDeque<NodeId> = task.sites.iter().map(|site| site.node).collect();
        while let Some(node) = queue.pop_front() {
            for &next in &neighbours[node as usize] {
                if nearest[next as usize] == NONE {
                    nearest[next as usize] = nearest[node as usize];
                    queue.push_back(next);
                }
            }
        }
    }
    for &helper in &task.helpers {
        vertex_of[helper as usize] = nearest[helper as usize];
    }
    let mut vertices = task.sites.len() as u32;
    for vertex in vertex_of.iter_mut().filter(|vertex| **vertex == NONE) {
        *vertex = vertices;
        vertices += 1;
    }
    (vertex_of, vertices as usize)
}
