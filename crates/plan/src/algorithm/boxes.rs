//! Boxes: ranks that fast links join, with slower ones between them; and channels, rings or trees of which each enters and
//! leaves every box elsewhere, so that all its ways in and out are used.

use super::Request;
use super::cycle::search::{among, neighbours};
use antiphon_base::options::{Default::Derived, Opt};
use antiphon_base::parameter::Value;
use antiphon_base::units::{Bytes, Rate};
use antiphon_model::fabric::LinkId;
use std::collections::VecDeque;

/// The option of algorithms that have channels.
pub const CHANNELS: Opt = Opt::count(
    "channels",
    1,
    64,
    Derived("as many as boxes have ways in and out, fewer for little data; 1 without boxes, as on grids"),
    "Parts of the data with a ring or trees of their own, each of which enters the boxes elsewhere.",
);

/// Boxes of equally many ranks.
pub struct Boxes {
    /// Ranks of every box, by place; those at the same place of two boxes are opposite each other.
    ranks: Vec<Vec<u32>>,
    /// Places from which ways lead to the next box that need not share links.
    ways: Vec<usize>,
    inside: BoxShape,
}

/// How the ranks of a box are joined.
enum BoxShape {
    /// Every two by a link.
    Links,
    /// Every two through switches.
    Switches,
    /// Neighbours of a cycle of places, if there is one.
    Cycle(Vec<usize>),
}

impl Boxes {
    /// What becomes of a fabric with switches without the slowest links whose loss parts it: boxes, if every part has as many
    /// ranks, and two at least. O(links * log links).
    pub fn new(request: &Request) -> Option<Boxes> {
        let fabric = request.fabric;
        if !fabric.has_switches() {
            return None;
        }
        let rate = |id: LinkId| request.system.rate_of(fabric.link(id));
        let mut rates: Vec<Rate> = (0..fabric.links.len() as LinkId).map(rate).collect();
        rates.sort_unstable();
        rates.dedup();
        let parts = |slow: Rate| parts(request, |id| rate(id) > slow);
        let slow = *rates.get(rates.partition_point(|&slow| parts(slow).len() < 2))?;
        let ranks = parts(slow);
        let size = ranks[0].len();
        if size < 2 || ranks.iter().any(|ranks| ranks.len() != size) {
            return None;
        }
        let mut place = vec![0; fabric.ranks()];
        ranks
            .iter()
            .flat_map(|ranks| ranks.iter().enumerate())
            .for_each(|(at, &rank)| place[rank as usize] = at as u32);
        let near = neighbours(fabric, |id| rate(id) > slow);
        let joined = |from, to| fabric.link_between(fabric.node_of_rank(from), fabric.node_of_rank(to)).is_some();
        let all = || ranks.iter().flatten().map(|&rank| &near[rank as usize]);
        let inside = if all().any(|near| near.len() + 1 < size) {
            let first = ranks[0].iter().map(|&rank| near[rank as usize].iter().map(|&to| place[to as usize]).collect());
            let cycle = among(&first.collect(), true, false).unwrap_or_else(|_| (0..size as u32).collect());
            BoxShape::Cycle(cycle.into_iter().map(|place| place as usize).collect())
        } else if ranks[0].iter().all(|&rank| ranks[0].iter().all(|&to| rank == to || joined(rank, to))) {
            BoxShape::Links
        } else {
            BoxShape::Switches
        };
        let ways = ways(request, &ranks[0], &ranks[1]);
        Some(Boxes { ranks, ways, inside })
    }

    /// How many channels there are: as many as are asked for, or as ways, but no more than fill so many packets each of a
    /// buffer's parts of so many bytes, and than `most`. With less in each, latencies take longer than is won.
    pub fn channels(boxes: Option<&Boxes>, request: &Request, part: Bytes, packets: u64, most: u64) -> usize {
        if let Some(given) = request.options.given("channels").map(Value::whole) {
            return given as usize;
        }
        let filled = part / (packets * request.system.packet.payload_bytes).max(1);
        boxes.map_or(1, |boxes| (boxes.ways.len() as u64).min(filled).min(most).max(1) as usize)
    }

    /// The ranks box by box, in each from a channel's way on.
    pub fn turned(&self, channel: usize) -> Vec<u32> {
        let first = self.ways[channel % self.ways.len()];
        let turned = |ranks: &Vec<u32>| [&ranks[first..], &ranks[..first]].concat();
        self.ranks.iter().flat_map(turned).collect()
    }

    /// The ring of a channel, which leaves a box opposite to where it enters the next one. Other channels leave and enter at
    /// other places, and go over other links inside boxes as far as these have some.
    pub fn ring(&self, channel: usize) -> Vec<u32> {
        let (boxes, size) = (self.ranks.len(), self.ranks[0].len());
        let entry = self.ways[channel % self.ways.len()];
        let mut ring = Vec::with_capacity(boxes * size);
        let mut enter = entry;
        for (at, ranks) in self.ranks.iter().enumerate() {
            let places = match &self.inside {
                BoxShape::Links if size.is_multiple_of(if boxes % 2 == 0 { 2 } else { 4 }) => {
                    zigzag(at, boxes, size, enter)
                }
                BoxShape::Cycle(cycle) => along(cycle, at, entry, enter, None),
                _ => along(&(0..size).collect::<Vec<_>>(), at, entry, enter, Some(boxes)),
            };
            enter = places[size - 1];
            ring.extend(places.into_iter().map(|place| ranks[place]));
        }
        ring
    }
}

/// Places of a box around a cycle, to a neighbour of where a ring enters; in the next box back again. Every other ring goes the
/// other way round, if all can. Where the number of `boxes` is odd and every place is next to every other one, the last but one
/// goes the same way again, and the last one further back, so that rings close.
fn along(cycle: &[usize], at: usize, entry: usize, enter: usize, boxes: Option<usize>) -> Vec<usize> {
    let size = cycle.len();
    let find = |place: usize| cycle.iter().position(|&other| other == place).unwrap_or(0);
    let closes = boxes.filter(|boxes| boxes % 2 == 1 && size > 2).unwrap_or(0);
    let backwards = (at + usize::from(at + 2 == closes)) % 2 + usize::from(at + 1 == closes);
    let turned = if size.is_multiple_of(2) { find(entry) % 2 } else { 0 };
    let step = if (backwards + turned).is_multiple_of(2) { 1 } else { size - 1 };
    let mut places: Vec<usize> = (0..size).map(|i| cycle[(find(enter) + i * step) % size]).collect();
    if at + 1 == closes {
        places.swap(size - 2, size - 1);
    }
    places
}

/// Places of a box of an even size in turns from both ends of an order: rings that enter at all of its places use every pair once in each
/// direction (Walecki), and leave at the other one of a pair of places. In boxes of an odd number the last three pair them in three
/// ways that undo each other.
fn zigzag(at: usize, boxes: usize, size: usize, enter: usize) -> Vec<usize> {
    let pair = if boxes % 2 == 1 { (at + 4).saturating_sub(boxes).max(1) } else { 1 };
    let low = pair & pair.wrapping_neg();
    let first = (0..size).filter(|place| place & low == 0);
    let order: Vec<usize> = first.clone().chain(first.map(|place| place ^ pair)).collect();
    let start = order.iter().position(|&place| place == enter).unwrap_or(0);
    let away = |step: usize| if step % 2 == 1 { start + step.div_ceil(2) } else { start + size - step / 2 };
    (0..size).map(|step| order[away(step) % size]).collect()
}

/// The ranks of each part that some links join, by their first ones.
fn parts(request: &Request, joins: impl Fn(LinkId) -> bool) -> Vec<Vec<u32>> {
    let fabric = request.fabric;
    let mut above: Vec<usize> = (0..fabric.nodes.len()).collect();
    let root = |above: &mut [usize], mut node: usize| {
        while above[node] != node {
            above[node] = above[above[node]];
            node = above[node];
        }
        node
    };
    for (_, link) in (0..).zip(&fabric.links).filter(|&(id, _)| joins(id)) {
        let [from, to] = [link.from, link.to].map(|node| root(&mut above, node as usize));
        above[from] = to;
    }
    let mut number = vec![None; above.len()];
    let mut parts: Vec<Vec<u32>> = vec![];
    for rank in 0..fabric.ranks() as u32 {
        let root = root(&mut above, fabric.node_of_rank(rank) as usize);
        let part = *number[root].get_or_insert(parts.len());
        parts.resize_with(parts.len().max(part + 1), Vec::new);
        parts[part].push(rank);
    }
    parts
}

/// Places from which the narrowest part of a shortest way to the same place of the next box is free, all at once.
fn ways(request: &Request, here: &[u32], there: &[u32]) -> Vec<usize> {
    let fabric = request.fabric;
    let mut left: Vec<Rate> = fabric.links.iter().map(|link| request.system.rate_of(link)).collect();
    let shortest = |left: &[Rate], (from, to): (u32, u32), least: Rate| {
        let [from, to] = [from, to].map(|rank| fabric.node_of_rank(rank));
        let mut before = vec![None; fabric.nodes.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front().filter(|_| before[to as usize].is_none()) {
            for &id in fabric.out_links(node).iter().filter(|&&id| left[id as usize] >= least) {
                let next = fabric.link(id).to;
                if next != from && before[next as usize].is_none() {
                    before[next as usize] = Some(id);
                    queue.push_back(next);
                }
            }
        }
        let back = |&id: &LinkId| before[fabric.link(id).from as usize];
        std::iter::successors(before[to as usize], back).collect::<Vec<LinkId>>()
    };
    let mut found = vec![];
    for (place, ends) in here.iter().copied().zip(there.iter().copied()).enumerate() {
        let narrowest = shortest(&left, ends, Rate(0)).iter().map(|&id| request.system.rate_of(fabric.link(id))).min();
        let Some(narrowest) = narrowest else { continue };
        let way = shortest(&left, ends, narrowest);
        if !way.is_empty() {
            way.iter().for_each(|&id| left[id as usize].0 -= narrowest.0);
            found.push(place);
        }
    }
    found
}
