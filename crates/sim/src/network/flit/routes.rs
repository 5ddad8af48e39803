//! The routes of a schedule, and classes of virtual channels that keep them from deadlock.
//!
//! Packets that hold a buffer while they wait for the next make a graph over (link, class). Where it
//! has no cycle, nothing can deadlock (Dally and Seitz, IEEE ToC 1987). The first of these divisions
//! without a cycle is taken: all channels alike; two classes on either side of a torus's datelines;
//! layers, each for some of the routes (LASH; Skeie, Lysne and Theiss, IPDPS 2002). If all have one,
//! channels are alike, and a deadlock is reported when it happens.

use crate::plan::{Job, RunPlan};
use antiphon_model::fabric::{DimensionShape, LinkId, NodeId};
use antiphon_noc::{FlitPacket, NextHop, PacketRouting};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// See the module.
pub struct SourceRoutes<'a> {
    plan: &'a RunPlan<'a>,
    /// Parts of the virtual channels.
    pub classes: u32,
    /// Class of every hop of the plan; empty where all channels are alike.
    class: Vec<u8>,
}

/// Where the links of a route are in [`RunPlan::hops`].
fn hops(job: &Job) -> Range<usize> {
    job.hops.start as usize..job.hops.end as usize
}

impl<'a> SourceRoutes<'a> {
    /// Routes of the schedule. O(hops).
    pub fn new(plan: &'a RunPlan<'a>) -> Self {
        let channels = plan.system.router.virtual_channels as usize;
        let longest = plan.jobs.iter().map(|job| job.hops.len()).max().unwrap_or(0);
        let alike = SourceRoutes { plan, classes: 1, class: vec![] };
        if longest < 2 || alike.is_acyclic() {
            return alike;
        }
        let datelines = alike.datelines().filter(|_| channels >= 2);
        datelines.filter(Self::is_acyclic).or_else(|| alike.layers(channels)).unwrap_or(alike)
    }

    /// Whether no cycle of channels can wait for each other.
    fn is_acyclic(&self) -> bool {
        let channel = |hop: usize| self.plan.hops[hop] * self.classes + self.class_of(hop);
        let pairs_of = |range: Range<usize>| range.clone().zip(range.skip(1));
        let pairs: HashSet<(u32, u32)> =
            self.plan.jobs.iter().flat_map(|job| pairs_of(hops(job)).map(|(a, b)| (channel(a), channel(b)))).collect();
        let count = self.plan.fabric.links.len() * self.classes as usize;
        let mut after: Vec<Vec<u32>> = vec![vec![]; count];
        let mut before = vec![0u32; count];
        for &(a, b) in &pairs {
            after[a as usize].push(b);
            before[b as usize] += 1;
        }
        // What nothing waits for is taken away, again and again; only cycles stay.
        let mut free: Vec<u32> = (0..count as u32).filter(|&c| before[c as usize] == 0).collect();
        let mut taken = 0;
        while let Some(channel) = free.pop() {
            taken += 1;
            for &next in &after[channel as usize] {
                before[next as usize] -= 1;
                if before[next as usize] == 0 {
                    free.push(next);
                }
            }
        }
        taken == count
    }

    /// On a product with rings, a second class from the dateline between the last and the first node of a
    /// ring on, until the packet leaves that dimension.
    fn datelines(&self) -> Option<Self> {
        let fabric = self.plan.fabric;
        let product = fabric.product()?;
        let is_ring = |dimension: usize| product.dimensions[dimension].shape == DimensionShape::Ring;
        if !(0..product.dimensions.len()).any(is_ring) {
            return None;
        }
        let (positions, coordinates) = (product.positions(fabric.nodes.len()), &product.coordinates);
        let across = |link: LinkId| -> (Option<usize>, bool) {
            let link = fabric.link(link);
            let ends = positions[link.from as usize].zip(positions[link.to as usize]);
            let Some((from, to)) = ends else { return (None, false) };
            let dimension = coordinates.differ(from, to);
            let apart = |d| coordinates.of(from, d).abs_diff(coordinates.of(to, d));
            (dimension, dimension.is_some_and(|d| is_ring(d) && apart(d) > 1))
        };
        let links: Vec<(Option<usize>, bool)> = (0..fabric.links.len() as LinkId).map(across).collect();
        let mut class = vec![0; self.plan.hops.len()];
        for job in &self.plan.jobs {
            let (mut along, mut crossed) = (None, false);
            for hop in hops(job) {
                let (dimension, wraps) = links[self.plan.hops[hop] as usize];
                crossed = wraps || (crossed && dimension == along);
                along = dimension;
                class[hop] = u8::from(crossed);
            }
        }
        Some(SourceRoutes { plan: self.plan, classes: 2, class })
    }

    /// Every route in the first of at most `most` layers in which it closes no cycle; `None` if
    /// there are too few.
    fn layers(&self, most: usize) -> Option<Self> {
        let mut layers: Vec<LayerLinks> = vec![];
        let mut class = vec![0; self.plan.hops.len()];
        let mut known: HashMap<&[LinkId], u8> = HashMap::new();
        for job in &self.plan.jobs {
            let route = self.plan.route(job);
            let layer = match known.get(route) {
                Some(&layer) => layer,
                None => {
                    let layer = (0..most).find(|&index| {
                        if index == layers.len() {
                            layers.push(LayerLinks { after: vec![vec![]; self.plan.fabric.links.len()] });
                        }
                        layers[index].add(route)
                    })?;
                    known.insert(route, layer as u8);
                    layer as u8
                }
            };
            class[hops(job)].fill(layer);
        }
        Some(SourceRoutes { plan: self.plan, classes: layers.len() as u32, class })
    }

    /// The class of a hop of the plan.
    pub fn class_of(&self, hop: usize) -> u32 {
        self.class.get(hop).copied().unwrap_or(0) as u32
    }
}

/// Links that packets of one layer may wait for, by the link they hold.
struct LayerLinks {
    after: Vec<Vec<LinkId>>,
}

impl LayerLinks {
    /// Adds a route, unless it would close a cycle.
    fn add(&mut self, route: &[LinkId]) -> bool {
        let mut added = vec![];
        for pair in route.windows(2) {
            if self.after[pair[0] as usize].contains(&pair[1]) {
                continue;
            }
            if self.reaches(pair[1], pair[0]) {
                for &link in added.iter().rev() {
                    let list: &mut Vec<LinkId> = &mut self.after[link as usize];
                    list.pop();
                }
                return false;
            }
            self.after[pair[0] as usize].push(pair[1]);
            added.push(pair[0]);
        }
        true
    }

    fn reaches(&self, from: LinkId, to: LinkId) -> bool {
        let mut seen = vec![false; self.after.len()];
        let mut open = vec![from];
        seen[from as usize] = true;
        while let Some(link) = open.pop() {
            if link == to {
                return true;
            }
            for &next in &self.after[link as usize] {
                if !std::mem::replace(&mut seen[next as usize], true) {
                    open.push(next);
                }
            }
        }
        false
    }
}

impl PacketRouting for SourceRoutes<'_> {
    fn next(&self, packet: &mut FlitPacket, _at: NodeId) -> NextHop {
        let route = hops(&self.plan.jobs[packet.tag as usize]);
        let hop = route.start + packet.hops as usize;
        if hop == route.end {
            return NextHop { link: None, class: 0, classes: 1 };
        }
        NextHop { link: Some(self.plan.hops[hop]), class: self.class_of(hop), classes: self.classes }
    }

    fn is_over(&self, packet: &FlitPacket, _at: NodeId, link: LinkId) -> bool {
        let route = self.plan.route(&self.plan.jobs[packet.tag as usize]);
        packet.hops as usize == route.len() && route.last() == Some(&link)
    }
}
