//! How long the messages of a table take, in so many pieces: a recurrence over the links, and C-Cube's closed form.
//!
//! Algorithms choose among trees and sizes of pieces by these estimates. Nothing else here knows what sending,
//! handing over and adding cost.

use super::Request;
use super::tree::{Message, Table, Tree, Work};
use crate::cost::{Pipeline, Step};
use antiphon_base::units::{Bytes, Picos, Rate};
use antiphon_model::fabric::{Link, LinkId, NodeId};
use antiphon_model::schedule::Op;
use antiphon_model::system::System;
use num_traits::{Bounded, SaturatingAdd};

/// Time of a flit on every link.
pub(super) fn flit_times(request: &Request) -> Vec<Picos> {
    request.fabric.links.iter().map(|link| request.system.flit_time(link)).collect()
}

/// The same where links of nodes that only forward are not used, and so count as any other.
pub(super) fn flit_times_of_ranks(request: &Request) -> Vec<Picos> {
    let is_rank = |node: NodeId| request.fabric.nodes[node as usize].rank.is_some();
    let joins_ranks = |link: &Link| is_rank(link.from) && is_rank(link.to);
    let one =
        request.fabric.links.iter().find(|link| joins_ranks(link)).map_or(1, |link| request.system.flit_time(link));
    let time = |link: &Link| if joins_ranks(link) { request.system.flit_time(link) } else { one };
    request.fabric.links.iter().map(time).collect()
}

/// Time until the end of what has been sent on a route may be used.
pub(super) fn way(request: &Request, route: &[LinkId]) -> Picos {
    let latency = |&link: &LinkId| request.system.latency_of(request.fabric.link(link));
    route.iter().map(latency).sum::<Picos>() + request.system.hand_off()
}

/// Most messages on links that the recurrence goes through.
const MOST_HOPS: usize = 1 << 20;

/// The way of a piece over an edge, in every round.
struct Hop {
    link: LinkId,
    /// Where the sender and the receiver are among all ranks of all trees.
    from: u32,
    to: u32,
    /// The receiver, if it adds.
    adds: Option<u32>,
    /// How many rounds later than its own the piece is sent.
    later: u32,
}

/// What a piece costs.
struct Costs {
    /// Picoseconds on every link, and until the next link may have it.
    links: Vec<(u128, u128)>,
    /// Picoseconds to add it.
    adding: u128,
}

/// Time of a table of equal parts whose reduction and broadcast overlap, in rounds of a piece of every tree: a link sends its
/// pieces in the order of their slots, each when it has arrived and has been added. The first rounds are timed by a
/// recurrence, the others by the busiest link and what holds it up.
pub(super) struct Recurrence<'a> {
    request: &'a Request<'a>,
    table: &'a Table<'a>,
    /// By slot, modulo the period.
    hops: Vec<Vec<Hop>>,
    last: u32,
    /// Flit times of the pieces of a round on the busiest link.
    busiest: u128,
    /// How often a round is held up by the way from one link to the next; in every slot where that would take
    /// too long to find.
    held_up: Option<u128>,
}

impl<'a> Recurrence<'a> {
    /// For any number of rounds. O(messages of the first rounds).
    ///
    /// # Panics
    /// If an edge of a tree is not on a single link.
    pub fn new(request: &'a Request, table: &'a Table) -> Self {
        let flit_times = flit_times(request);
        let mut hops: Vec<Vec<Hop>> = (0..table.period).map(|_| Vec::new()).collect();
        let mut busy = vec![0u128; flit_times.len()];
        for Message { tree, op, from, to, route, slot, .. } in table.messages(&[Op::Reduce, Op::Copy]) {
            let first = tree as u32 * request.ranks();
            let adds = (op == Op::Reduce).then_some(to);
            let [link] = *route else { panic!("an edge of {} links", route.len()) };
            let hop = Hop { link, from: first + from, to: first + to, adds, later: slot / table.period };
            hops[(slot % table.period) as usize].push(hop);
            busy[link as usize] += u128::from(flit_times[link as usize]);
        }
        let busiest = busy.into_iter().max().unwrap_or(0);
        let mut model = Recurrence { request, table, hops, last: table.last(), busiest, held_up: None };
        if (model.last / table.period + 2) as usize * model.pieces() <= MOST_HOPS {
            model.held_up = Some(model.hold_ups());
        }
        model
    }

    /// Picoseconds the busiest link needs for so many rounds.
    pub fn least(&self, rounds: u64) -> u128 {
        let packets = self.request.system.packets(self.piece(rounds));
        u128::from(rounds) * u128::from(packets.count) * u128::from(packets.flits) * self.busiest
    }

    /// Picoseconds of so many rounds. O(messages of the first rounds).
    pub fn time(&self, rounds: u64) -> u128 {
        let costs = self.costs(rounds);
        let ways = || costs.links.iter().map(|(_, way)| way + costs.adding);
        let way = ways().max().unwrap_or(0);
        let Some(held_up) = self.held_up else {
            let busy = costs.links.iter().map(|(busy, _)| busy).min().unwrap_or(&0);
            let width = self.table.widths.iter().min().unwrap_or(&1);
            let slots = u128::from(rounds - 1) * u128::from(self.table.period) + u128::from(self.last);
            return slots * (busy + way) / u128::from(*width);
        };
        // Between unlike links a wait may come back only after some rounds.
        let shortest = ways().min().unwrap_or(0);
        let (more, latest) = if shortest == way { (12, 1) } else { (96, 64) };
        let first = u64::from(self.first_rounds(more)).min(rounds);
        let ends = self.ends(first as u32, &costs);
        let last = ends[ends.len() - 1];
        if first == rounds {
            return last;
        }
        let each = self.least(rounds) / u128::from(rounds) + if shortest == way { held_up * way } else { 0 };
        let latest = latest.min(ends.len() - 1);
        last + u128::from(rounds - first) * each.max((last - ends[ends.len() - 1 - latest]) / latest as u128)
    }

    /// At most so many pieces are received in a round.
    fn pieces(&self) -> usize {
        self.table.trees.len() * self.request.fabric.ranks() * 2
    }

    /// Rounds that fill the pipeline, and `more`.
    fn first_rounds(&self, more: u32) -> u32 {
        let fill = self.last / self.table.period;
        (fill + more).min((MOST_HOPS / self.pieces()) as u32).max(fill + 2)
    }

    /// In the long run links wait for pieces on their way from other links, as often in a round as the
    /// worst cycle of links says: found with ways of half a slot.
    fn hold_ups(&self) -> u128 {
        let times = || flit_times(self.request).into_iter().map(u128::from);
        let way = times().min().unwrap_or(0);
        let costs = Costs { links: times().map(|time| (2 * time, way)).collect(), adding: 0 };
        // The last rounds, with none behind them, are through sooner.
        let mut ends = self.ends(self.first_rounds(self.last / self.table.period + 24), &costs);
        ends.truncate(ends.len() - (self.last / self.table.period) as usize);
        let (last, few) = (ends.len() - 1, (ends.len() / 2).min(8));
        let each = (ends[last] - ends[last - few]) / few as u128;
        each.saturating_sub(2 * self.busiest).div_ceil(way.max(1))
    }

    fn piece(&self, rounds: u64) -> Bytes {
        self.table.piece(0, self.request.bytes, rounds)
    }

    /// Of a piece, where there are so many rounds.
    fn costs(&self, rounds: u64) -> Costs {
        let system = self.request.system;
        let packets = system.packets(self.piece(rounds));
        let flits = u128::from(packets.count) * u128::from(packets.flits);
        let cost = |(link, time)| (flits * u128::from(time), way(self.request, &[link]).into());
        let links = (0..).zip(flit_times(self.request)).map(cost).collect();
        Costs { links, adding: system.reduce_time(self.piece(rounds)).into() }
    }

    /// When each of the first `rounds` ends.
    fn ends(&self, rounds: u32, costs: &Costs) -> Vec<u128> {
        // In as few bytes as hold all of them: most of the time goes into their memory.
        let short = self.ends_in::<u32>(rounds, costs).or_else(|| self.ends_in::<u64>(rounds, costs));
        short.or_else(|| self.ends_in::<u128>(rounds, costs)).expect("all times fit")
    }

    /// [`Recurrence::ends`], if all times are less than the largest number.
    fn ends_in<T>(&self, rounds: u32, costs: &Costs) -> Option<Vec<u128>>
    where
        T: Copy + Default + Ord + Bounded + SaturatingAdd + TryFrom<u128> + Into<u128>,
    {
        let exact = |time| T::try_from(time).ok();
        let links = costs.links.iter().map(|&(busy, way)| Some((exact(busy)?, exact(way)?)));
        let links: Vec<(T, T)> = links.collect::<Option<_>>()?;
        let adding = exact(costs.adding)?;
        let ranks = self.request.fabric.ranks();
        let lanes = ranks * self.table.trees.len();
        let mut ready = vec![T::default(); lanes * rounds as usize];
        let (mut free, mut adder) = (vec![T::default(); links.len()], vec![T::default(); ranks]);
        let mut ends = vec![T::default(); rounds as usize];
        for slot in 0..self.last + rounds * self.table.period {
            for hop in &self.hops[(slot % self.table.period) as usize] {
                let round = (slot / self.table.period).wrapping_sub(hop.later);
                if round >= rounds {
                    continue;
                }
                let ready = &mut ready[round as usize * lanes..][..lanes];
                let ((busy, way), free) = (links[hop.link as usize], &mut free[hop.link as usize]);
                *free = ready[hop.from as usize].max(*free).saturating_add(&busy);
                let mut arrives = free.saturating_add(&way);
                if let Some(rank) = hop.adds {
                    let adder = &mut adder[rank as usize];
                    arrives = arrives.max(*adder).saturating_add(&adding);
                    *adder = arrives;
                }
                let ready = &mut ready[hop.to as usize];
                *ready = arrives.max(*ready);
                ends[round as usize] = arrives.max(ends[round as usize]);
            }
        }
        for round in 1..ends.len() {
            ends[round] = ends[round].max(ends[round - 1]);
        }
        // No time is later than the last of these.
        let fit = ends.last().is_none_or(|last| *last < T::max_value());
        fit.then(|| ends.into_iter().map(T::into).collect())
    }
}

/// Time of a table in steps that are all as long as that of its slowest message (C-Cube, sections II-C and III-C).
pub(super) struct Steps<'a> {
    system: &'a System,
    step: Step,
    pipeline: Pipeline,
    streams: bool,
}

impl<'a> Steps<'a> {
    /// `streams`: links send on while what they have sent is on its way. O(messages).
    pub fn new(request: &Request<'a>, table: &Table, streams: bool) -> Self {
        let Request { fabric, system, .. } = *request;
        let mut step = Step { latency_ps: 0, rate: Rate(u64::MAX) };
        for route in table.trees.iter().flat_map(Tree::routes) {
            step.latency_ps = step.latency_ps.max(way(request, route));
            for &link in route {
                let (bytes, picos) = system.payload_rate(fabric.link(link));
                step.rate = step.rate.min(Rate((bytes / picos).max(1) as u64));
            }
        }
        let phases = if table.work == Work::Phases { 2 } else { 1 };
        let pipeline = Pipeline { first: table.last().into(), stride: phases * u64::from(table.period) };
        // Links with messages of several edges wait for them in turn, and so for their latencies.
        Steps { system, step, pipeline, streams: streams && table.period == 1 }
    }

    /// The best bytes of a chunk of a tree's part of the data.
    pub fn best_chunk(&self, bytes: Bytes) -> Bytes {
        bytes.div_ceil(match self.streams {
            true => self.pipeline.streamed_chunks(self.step, bytes, self.system.packet.payload_bytes),
            false => self.pipeline.best_chunks(self.step, bytes),
        })
    }

    /// Picoseconds of a tree's part of the data, in chunks of such a size.
    pub fn time_ps(&self, bytes: Bytes, chunk: Bytes) -> Picos {
        let time = if self.streams { Pipeline::streamed_ps } else { Pipeline::time_ps };
        time(self.pipeline, self.step, bytes.next_multiple_of(chunk), bytes.div_ceil(chunk))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::packing::Graph;
    use crate::algorithm::tree::{Planter, Priority, widths};
    use crate::algorithm::{Collective, Fabric, Kind, Options};
    use antiphon_base::watch::Watch;
    use antiphon_bound::symmetric_edges;
    use antiphon_sim::{Fidelity, trial};

    /// Where no link is held up, the recurrence says what the simulation of packets does, but for the order in which a
    /// rank adds: few rounds and many, links alike and not.
    #[test]
    fn the_recurrence_is_the_simulation() {
        for (spec, count) in
            [("fc:8", 4), ("mesh:4x4", 1), ("torus:4x4", 2), ("dgx1v", 2), ("mesh:3x3,slow=0-1:0.5", 1)]
        {
            let fabric = Fabric::parse(spec).unwrap();
            for system in ["generic", "tto"].map(|name| System::preset(name).unwrap()) {
                let edges = symmetric_edges(&fabric, &system).unwrap();
                let graph = Graph::new(fabric.ranks(), edges.iter().map(|edge| (edge.0, edge.1)));
                let packing = graph.pack(&vec![1; edges.len()], count, graph.centre()).unwrap();
                let trees = Planter::new(&fabric, &system).plant_all(packing);
                let request = Request {
                    fabric: &fabric,
                    system: &system,
                    collective: Collective::new(Kind::AllReduce),
                    bytes: 4 << 20,
                    matrix: None,
                    spec: "test",
                    options: Options::parse("test", "", &[]).unwrap(),
                    watch: Watch::default(),
                };
                let table = Table::listed(&trees, widths(&flit_times(&request)), Priority::Farthest, Work::Overlapped);
                let estimate = Recurrence::new(&request, &table);
                for rounds in [1, 4, 100] {
                    let mut builder = request.builder();
                    table.lanes(&mut builder, |tree| table.piece(tree, request.bytes, rounds), rounds);
                    table.send(&mut builder, &[Op::Reduce, Op::Copy]).unwrap();
                    let schedule = builder.finish().unwrap();
                    let time = trial::time(&fabric, &schedule, &system, Fidelity::Packet, &mut |_| true).unwrap();
                    let ratio = estimate.time(rounds) as f64 / time as f64;
                    assert!((ratio - 1.0).abs() < 5e-4, "{spec}, {}, {rounds} rounds: {ratio}", system.name);
                }
                // Short numbers hold the same times, or say that they do not.
                for (rounds, factor) in [(3, 1), (5, 1000), (9, 1 << 40)] {
                    let mut costs = estimate.costs(100);
                    costs.links.iter_mut().for_each(|(busy, _)| *busy *= factor);
                    let ends = estimate.ends_in::<u128>(rounds, &costs).unwrap();
                    let fit = |most: u128| ends.iter().all(|&end| end < most).then(|| ends.clone());
                    assert_eq!(estimate.ends_in::<u32>(rounds, &costs), fit(u32::MAX.into()));
                    assert_eq!(estimate.ends_in::<u64>(rounds, &costs), fit(u64::MAX.into()));
                    assert_eq!(estimate.ends(rounds, &costs), ends);
                }
            }
        }
    }
}
