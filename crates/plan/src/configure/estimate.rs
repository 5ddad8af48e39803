//! What a configuration does for given messages, estimated without simulating them.

use super::demand::{Demands, PHASES, PhaseBytes};
use super::room::{Obstacle, with_segment};
use antiphon_model::fabric::NodeId;
use antiphon_model::fabric::aries::{Aries, Configuration, Segment};
use std::collections::HashSet;

/// How much more a loaded link counts than a less loaded one: the exponent of a norm.
const NORM: i32 = 8;
/// What the mean number of hops counts beside it.
const HOPS: f64 = 0.05;
/// Most configurations that are near one.
const NEAR: usize = 24;
/// No link.
const NONE: u8 = u8::MAX;

/// Links from a node to another.
#[derive(Clone, Copy)]
struct Out {
    to: NodeId,
    count: u8,
    /// Bytes over all of them.
    load: PhaseBytes,
}

/// A configuration and where the messages go in it, each by a minimal route, ties to the neighbour with the lowest id, as
/// [`antiphon_model::fabric::Router`] does.
pub struct Estimate {
    /// What is estimated.
    pub configuration: Configuration,
    /// How long the messages take, up to a factor: for each phase the norm of the links' loads, each over how many there are,
    /// and a little of the hops of all, so that of two that are as loaded the shorter ways are better. Infinite if some do
    /// not arrive.
    pub cost: f64,
    /// Links out of every node, to each neighbour.
    out: Vec<Vec<Out>>,
    /// By destination of the demands: the place in `out` of the first link from every node.
    next: Vec<Vec<u8>>,
}

impl Out {
    /// Bytes over each of the links.
    fn shares(&self) -> PhaseBytes {
        self.load.map(|load| load / f64::from(self.count))
    }
}

impl Estimate {
    /// Sends all messages. O(destinations * links + hops).
    pub fn new(aries: &Aries, configuration: Configuration, demands: &Demands) -> Estimate {
        let nodes = (aries.sizes[0] * aries.sizes[1]) as usize;
        let mut out: Vec<Vec<Out>> = vec![Vec::with_capacity(4); nodes];
        let mut into: Vec<Vec<NodeId>> = vec![Vec::with_capacity(4); nodes];
        let mesh = aries.mesh_links().filter(|ends| !configuration.is_detached(*ends));
        for (from, to) in mesh.chain(configuration.segments.iter().map(|&segment| aries.ends(segment))) {
            match out[from as usize].iter_mut().find(|link| link.to == to) {
                Some(link) => link.count += 1,
                None => {
                    out[from as usize].push(Out { to, count: 1, load: PhaseBytes::default() });
                    into[to as usize].push(from);
                }
            }
        }
        let next = demands.to.iter().map(|&(to, _)| towards(&out, &into, to)).collect();
        let mut estimate = Estimate { configuration, cost: 0.0, out, next };
        estimate.cost = estimate.send(demands);
        estimate
    }

    /// Loads the links; the cost.
    fn send(&mut self, demands: &Demands) -> f64 {
        let mut hops = 0.0;
        for ((to, sources), next) in demands.to.iter().zip(&self.next) {
            for &(from, bytes) in sources {
                let (mut at, sum) = (from, bytes.iter().sum::<f64>());
                while at != *to {
                    let Some(link) = self.out[at as usize].get_mut(next[at as usize] as usize) else {
                        return f64::INFINITY;
                    };
                    link.load.iter_mut().zip(bytes).for_each(|(load, bytes)| *load += bytes);
                    hops += sum;
                    at = link.to;
                }
            }
        }
        let most = self.most();
        let mut sums = PhaseBytes::default();
        for link in self.out.iter().flatten() {
            for ((sum, load), most) in sums.iter_mut().zip(link.shares()).zip(most) {
                *sum += (load / most).powi(NORM);
            }
        }
        let norms = most.into_iter().zip(sums).map(|(most, sum)| most * sum.powf(1.0 / f64::from(NORM)));
        norms.sum::<f64>() * (1.0 + HOPS * hops / demands.total.max(1.0))
    }

    /// The largest load of a link in each phase.
    fn most(&self) -> PhaseBytes {
        let mut most = [1.0f64; PHASES];
        for link in self.out.iter().flatten() {
            most.iter_mut().zip(link.shares()).for_each(|(most, load)| *most = most.max(load));
        }
        most
    }

    /// Bytes over the links from one node to another, in the phase with most of them.
    fn load(&self, (from, to): (NodeId, NodeId)) -> f64 {
        let link = self.out[from as usize].iter().find(|link| link.to == to);
        link.map_or(0.0, |link| link.load.into_iter().fold(0.0, f64::max))
    }

    /// Segments that messages could take instead of what they do, the most useful first: by how much is on the links that
    /// they would leave, as far as the norm of loads sees it.
    pub fn wishes(&self, aries: &Aries, demands: &Demands) -> Vec<Segment> {
        let most = self.most();
        let weight = |link: &Out| {
            let mut weights = link.shares();
            weights.iter_mut().zip(most).for_each(|(load, most)| *load = (*load / most).powi(NORM - 1) + 0.01);
            weights
        };
        let weights: Vec<[PhaseBytes; 4]> = self
            .out
            .iter()
            .map(|links| std::array::from_fn(|at| links.get(at).map_or(PhaseBytes::default(), weight)))
            .collect();
        // By node and the row or column that it could send to.
        let [rows, columns] = aries.sizes;
        let width = (rows + columns) as usize;
        let mut gains = vec![0.0; self.out.len() * width];
        let mut path: Vec<(NodeId, f64)> = vec![];
        for ((to, sources), next) in demands.to.iter().zip(&self.next) {
            for &(from, bytes) in sources {
                path.clear();
                let mut at = from;
                while at != *to {
                    let Some(link) = self.out[at as usize].get(next[at as usize] as usize) else { break };
                    let weights = weights[at as usize][(next[at as usize] as usize).min(3)];
                    path.push((at, weights.iter().zip(bytes).map(|(weight, bytes)| weight * bytes).sum()));
                    at = link.to;
                }
                path.push((at, 0.0));
                for start in 0..path.len() {
                    let (node, mut left) = (path[start].0, 0.0);
                    let (row, column) = (node / columns, node % columns);
                    for pair in path[start..].windows(2) {
                        left += pair[0].1;
                        let (other_row, other_column) = (pair[1].0 / columns, pair[1].0 % columns);
                        let place = if other_row == row { rows + other_column } else { other_row };
                        if other_row == row || other_column == column {
                            gains[node as usize * width + place as usize] += left;
                        }
                    }
                }
            }
        }
        let segment = |at: usize| {
            let (node, place) = ((at / width) as u32, (at % width) as u32);
            let (row, column) = (node / columns, node % columns);
            match place.checked_sub(rows) {
                Some(to) => Segment { dimension: 1, line: row, from: column, to },
                None => Segment { dimension: 0, line: column, from: row, to: place },
            }
        };
        let mut list: Vec<usize> = (0..gains.len()).filter(|&at| gains[at] > 0.0).collect();
        list.sort_unstable_by(|&a, &b| gains[b].total_cmp(&gains[a]).then(a.cmp(&b)));
        list.into_iter().map(segment).filter(|segment| segment.from != segment.to).collect()
    }

    /// The configuration with a segment added, in both directions if that is asked and possible; `None` if it is there.
    pub fn with(&self, aries: &Aries, segment: Segment, both_ways: bool) -> Option<Configuration> {
        let one = self.added(aries, &self.configuration, segment)?;
        let both = both_ways.then(|| self.added(aries, &one, segment.reversed())).flatten();
        Some(both.unwrap_or(one))
    }

    /// The same from another configuration: of what is in the way of the segment the least loaded links go.
    fn added(&self, aries: &Aries, base: &Configuration, segment: Segment) -> Option<Configuration> {
        let is_there = base.segments.binary_search(&segment).is_ok() && !base.is_detached(aries.ends(segment));
        if is_there && aries.wires == 1 {
            return None;
        }
        let load = |link: &Obstacle| self.load(link.0);
        let least = |_: &Configuration, links: &[Obstacle]| {
            (0..links.len()).min_by(|&a, &b| load(&links[a]).total_cmp(&load(&links[b])))
        };
        with_segment(aries, base, segment, least)
    }

    /// Configurations with one segment more, in one direction and in both, with what it replaces gone; the best first.
    pub fn near(&self, aries: &Aries, demands: &Demands) -> Vec<Estimate> {
        let mut done = HashSet::new();
        let wishes = self.wishes(aries, demands).into_iter().flat_map(|segment| [(segment, true), (segment, false)]);
        let new = wishes.filter_map(|(segment, both)| self.with(aries, segment, both));
        let new = new.filter(|next| done.insert(next.clone())).map(|next| Estimate::new(aries, next, demands));
        let mut near: Vec<Estimate> = new.filter(|next| next.cost.is_finite()).take(NEAR).collect();
        near.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        near
    }
}

/// The place of the first link of minimal routes to a node, from every node.
fn towards(out: &[Vec<Out>], into: &[Vec<NodeId>], to: NodeId) -> Vec<u8> {
    let mut distance = vec![u32::MAX; out.len()];
    distance[to as usize] = 0;
    let mut queue = Vec::with_capacity(out.len());
    queue.push(to);
    let mut head = 0;
    while let Some(&node) = queue.get(head) {
        head += 1;
        for &previous in &into[node as usize] {
            if distance[previous as usize] == u32::MAX {
                distance[previous as usize] = distance[node as usize] + 1;
                queue.push(previous);
            }
        }
    }
    let next = |node: usize| {
        let closer = (0u8..).zip(&out[node]).filter(|(_, link)| distance[link.to as usize] < distance[node]);
        closer.min_by_key(|(_, link)| link.to).map_or(NONE, |(at, _)| at)
    };
    (0..out.len()).map(next).collect()
}
