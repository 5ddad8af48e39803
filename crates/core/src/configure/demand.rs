//! What a configuration does for given messages, estimated without simulating them.

use crate::fabric::aries::{Aries, Configuration, Ports, Segment};
use crate::fabric::{Fabric, NodeId};
use crate::schedule::Schedule;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// How much more a loaded link counts than a less loaded one: the exponent of a norm.
const NORM: i32 = 8;

/// Bytes that a schedule sends from node to node.
#[derive(Debug, Clone, PartialEq)]
pub struct Demands {
    /// By destination, the sources.
    to: BTreeMap<NodeId, Vec<(NodeId, f64)>>,
    /// All bytes together.
    total: f64,
}

impl Demands {
    /// Of a schedule's messages. O(transfers).
    pub fn of(fabric: &Fabric, schedule: &Schedule) -> Demands {
        let mut bytes = HashMap::new();
        for transfer in &schedule.transfers {
            let ends = [transfer.to, transfer.from].map(|rank| schedule.node_of(fabric, rank));
            let lanes = transfer.lanes();
            let sum: u64 = lanes.map(|lane| &schedule.lanes[lane]).map(|l| l.chunk_bytes * l.chunks).sum();
            *bytes.entry(ends).or_insert(0) += sum;
        }
        let mut to = BTreeMap::<_, Vec<_>>::new();
        let mut list: Vec<_> = bytes.into_iter().filter(|([to, from], bytes)| to != from && *bytes > 0).collect();
        list.sort_unstable();
        let total = list.iter().map(|(_, bytes)| *bytes as f64).sum();
        list.into_iter().for_each(|([end, from], bytes)| to.entry(end).or_default().push((from, bytes as f64)));
        Demands { to, total }
    }

    /// Whether as much goes one way as the other between all nodes.
    pub fn are_symmetric(&self) -> bool {
        let of = |from, to| {
            let list = self.to.get(&to).map_or(&[][..], Vec::as_slice);
            list.iter().find(|(other, _)| *other == from).map_or(0.0, |(_, bytes)| *bytes)
        };
        self.to.iter().all(|(&to, list)| list.iter().all(|&(from, bytes)| of(to, from) == bytes))
    }
}

/// Links by their ends: how many there are.
pub struct Links {
    out: Vec<Vec<(NodeId, u32)>>,
    into: Vec<Vec<NodeId>>,
}

/// Where the messages go.
pub struct Flow {
    /// Bytes over the links from one node to another.
    pub load: HashMap<(NodeId, NodeId), f64>,
    /// How long the messages take, up to a factor: the norm of the links' loads, each over how many there are, and a little
    /// of the hops of all, so that of two that are as loaded the shorter ways are better. Infinite if some do not arrive.
    pub cost: f64,
}

impl Links {
    /// Of a configuration. O(links).
    pub fn of(aries: &Aries, configuration: &Configuration) -> Links {
        let nodes = (aries.sizes[0] * aries.sizes[1]) as usize;
        let mut links = Links { out: vec![vec![]; nodes], into: vec![vec![]; nodes] };
        let mesh = aries.mesh_links().filter(|ends| !configuration.is_detached(*ends));
        for (from, to) in mesh.chain(configuration.segments.iter().map(|&segment| aries.ends(segment))) {
            match links.out[from as usize].iter_mut().find(|(other, _)| *other == to) {
                Some((_, count)) => *count += 1,
                None => {
                    links.out[from as usize].push((to, 1));
                    links.into[to as usize].push(from);
                }
            }
        }
        links
    }

    /// The first hop of minimal routes to a node, ties to the neighbour with the lowest id, as [`crate::fabric::Router`].
    fn towards(&self, to: NodeId) -> Vec<NodeId> {
        let mut distance = vec![u32::MAX; self.out.len()];
        distance[to as usize] = 0;
        let mut queue = VecDeque::from([to]);
        while let Some(node) = queue.pop_front() {
            for &previous in &self.into[node as usize] {
                if distance[previous as usize] == u32::MAX {
                    distance[previous as usize] = distance[node as usize] + 1;
                    queue.push_back(previous);
                }
            }
        }
        let next = |node: usize| {
            let closer = self.out[node].iter().map(|&(to, _)| to);
            closer.filter(|&to| distance[to as usize] < distance[node]).min().unwrap_or(NodeId::MAX)
        };
        (0..self.out.len()).map(next).collect()
    }

    fn count(&self, from: NodeId, to: NodeId) -> u32 {
        self.out[from as usize].iter().find(|(other, _)| *other == to).map_or(0, |(_, count)| *count)
    }

    /// Sends all messages. O(destinations * links + hops).
    pub fn flow(&self, demands: &Demands) -> Flow {
        let mut load = HashMap::new();
        let mut hops = 0.0;
        let sent = self.each_hop(demands, |from, to, bytes| {
            *load.entry((from, to)).or_insert(0.0) += bytes;
            hops += bytes;
        });
        if !sent {
            return Flow { load, cost: f64::INFINITY };
        }
        let mut list: Vec<_> =
            load.iter().map(|(&(from, to), bytes)| bytes / f64::from(self.count(from, to))).collect();
        // Sums of numbers of different size depend on their order.
        list.sort_unstable_by(f64::total_cmp);
        let most = list.last().copied().unwrap_or(0.0).max(1.0);
        let norm = most * list.iter().map(|bytes| (bytes / most).powi(NORM)).sum::<f64>().powf(1.0 / f64::from(NORM));
        Flow { load, cost: norm * (1.0 + 0.05 * hops / demands.total.max(1.0)) }
    }

    /// Calls for every hop of every message; whether all arrive.
    fn each_hop(&self, demands: &Demands, mut visit: impl FnMut(NodeId, NodeId, f64)) -> bool {
        for (&to, sources) in &demands.to {
            let next = self.towards(to);
            for &(from, bytes) in sources {
                let mut at = from;
                while at != to {
                    let hop = next[at as usize];
                    if hop == NodeId::MAX {
                        return false;
                    }
                    visit(at, hop, bytes);
                    at = hop;
                }
            }
        }
        true
    }

    /// Segments that messages could take instead of what they do, the most useful first: by how much is on the links that
    /// they would leave, as far as the norm of loads sees it.
    pub fn wishes(&self, aries: &Aries, demands: &Demands, flow: &Flow) -> Vec<Segment> {
        let most = flow.load.values().copied().fold(1.0, f64::max);
        let weight = |from: NodeId, to: NodeId| {
            let load = flow.load.get(&(from, to)).copied().unwrap_or(0.0) / f64::from(self.count(from, to).max(1));
            (load / most).powi(NORM - 1) + 0.01
        };
        let mut gains: HashMap<Segment, f64> = HashMap::new();
        for (&to, sources) in &demands.to {
            let next = self.towards(to);
            for &(from, bytes) in sources {
                let mut path = vec![from];
                while let Some(&at) = path.last().filter(|&&at| at != to) {
                    path.push(next[at as usize]);
                }
                for (start, &a) in path.iter().enumerate() {
                    let mut left = 0.0;
                    for pair in path[start..].windows(2) {
                        left += weight(pair[0], pair[1]);
                        if let Some(segment) = aries.segment(a, pair[1]) {
                            *gains.entry(segment).or_default() += left * bytes;
                        }
                    }
                }
            }
        }
        let mut list: Vec<(Segment, f64)> = gains.into_iter().collect();
        list.sort_unstable_by(|(a, x), (b, y)| y.total_cmp(x).then(a.cmp(b)));
        list.into_iter().map(|(segment, _)| segment).collect()
    }
}

/// The configuration with a segment added: those that share its wire with it, and as many of the least loaded links at its
/// ends as take its ports, go. `None` if the segment is there.
pub fn with_segment(aries: &Aries, base: &Configuration, flow: &Flow, segment: Segment) -> Option<Configuration> {
    if aries.wires == 1 && base.segments.contains(&segment) {
        return None;
    }
    let (mut segments, mut detached) = (base.segments.clone(), base.detached.clone());
    let overlaps = |other: &Segment| {
        let line =
            (other.dimension, other.line, other.ascends()) == (segment.dimension, segment.line, segment.ascends());
        let ends = |s: &Segment| (s.from.min(s.to), s.from.max(s.to));
        let ((a, b), (c, d)) = (ends(other), ends(&segment));
        line && a < d && c < b
    };
    let ends = aries.ends(segment);
    while segments.iter().filter(|other| overlaps(other)).count() >= aries.wires as usize {
        let load = |s: &Segment| flow.load.get(&aries.ends(*s)).copied().unwrap_or(0.0);
        let least = (0..segments.len()).filter(|&at| overlaps(&segments[at]));
        let least = least.min_by(|&a, &b| load(&segments[a]).total_cmp(&load(&segments[b])))?;
        segments.remove(least);
    }
    // Ports: those that could be used by the segment, at its start and at its end.
    for (node, outgoing, plus) in [(ends.0, true, segment.ascends()), (ends.1, false, !segment.ascends())] {
        let (class, room) = class_of(aries.ports, segment.dimension, plus);
        loop {
            let uses = |(from, to): (NodeId, NodeId)| {
                let (own, other) = if outgoing { (from, to) } else { (to, from) };
                let side = aries.segment(own, other).map(|s| class_of(aries.ports, s.dimension, s.ascends()).0);
                own == node && side == Some(class)
            };
            let mesh: Vec<_> = aries.mesh_links_of(node, outgoing).filter(|ends| !detached.contains(ends)).collect();
            let mesh = mesh.into_iter().filter(|&ends| uses(ends)).map(|ends| (ends, None));
            let bypasses =
                segments.iter().enumerate().map(|(at, &s)| (aries.ends(s), Some(at))).filter(|(e, _)| uses(*e));
            let there: Vec<_> = mesh.chain(bypasses).collect();
            if there.len() < room {
                break;
            }
            let load = |ends| flow.load.get(&ends).copied().unwrap_or(0.0);
            let (ends, at) = there.into_iter().min_by(|(a, _), (b, _)| load(*a).total_cmp(&load(*b)))?;
            match at {
                Some(at) => drop(segments.remove(at)),
                None => detached.push(ends),
            }
        }
    }
    segments.push(segment);
    Some(Configuration::new(segments, detached))
}

/// Which ports a link may use that leads to a side, and how many there are.
fn class_of(ports: Ports, dimension: usize, plus: bool) -> (usize, usize) {
    match ports {
        Ports::Any => (0, 4),
        Ports::Facing => (usize::from(plus), 2),
        Ports::Own => (2 * dimension + usize::from(plus), 1),
    }
}
