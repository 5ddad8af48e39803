//! How long the messages of a table take, in so many pieces: a recurrence over the links, and C-Cube's closed form.
//!
//! Algorithms choose among trees and sizes of pieces by these estimates. What a message costs they ask of
//! [`antiphon_sim::cost`].

use super::Request;
use super::tree::{Message, Table, Tree, Work};
use crate::cost::{Pipeline, Step};
use antiphon_base::units::{Bytes, Picos, Rate};
use antiphon_model::fabric::{Link, LinkId, NodeId};
use antiphon_model::schedule::Op;
use antiphon_sim::cost::{CostModel, LinkCost, MessageCost};
use num_traits::{Bounded, SaturatingAdd};
use std::collections::BTreeSet;

/// Time of a flit on every link.
pub(super) fn flit_times(request: &Request) -> Vec<Picos> {
    request.costs().links(request.fabric).into_iter().map(|link| link.flit_ps).collect()
}

/// The same where links of nodes that only forward are not used, and so count as any other.
pub(super) fn flit_times_of_ranks(request: &Request) -> Vec<Picos> {
    let is_rank = |node: NodeId| request.fabric.nodes[node as usize].rank.is_some();
    let joins_ranks = |link: &Link| is_rank(link.from) && is_rank(link.to);
    let times = || request.fabric.links.iter().zip(flit_times(request));
    let one = times().find(|(link, _)| joins_ranks(link)).map_or(1, |(_, time)| time);
    times().map(|(link, time)| if joins_ranks(link) { time } else { one }).collect()
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
    /// Pieces of a round that a rank sends to be added, and others: each pair once.
    sent: BTreeSet<[u128; 2]>,
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
        let mut sent = vec![[0; 2]; request.fabric.ranks()];
        for Message { tree, op, from, to, route, slot, .. } in table.messages(&[Op::Reduce, Op::Copy]) {
            let first = tree as u32 * request.ranks();
            let adds = (op == Op::Reduce).then_some(to);
            let [link] = *route else { panic!("an edge of {} links", route.len()) };
            let hop = Hop { link, from: first + from, to: first + to, adds, later: slot / table.period };
            hops[(slot % table.period) as usize].push(hop);
            busy[link as usize] += u128::from(flit_times[link as usize]);
            sent[from as usize][usize::from(adds.is_none())] += 1;
        }
        let busiest = busy.into_iter().max().unwrap_or(0);
        let sent = sent.into_iter().collect();
        let mut model = Recurrence { request, table, hops, last: table.last(), busiest, sent, held_up: None };
        if (model.last / table.period + 2) as usize * model.pieces() <= MOST_HOPS {
            model.held_up = Some(model.hold_ups());
        }
        model
    }

    /// Picoseconds the busiest link or rank needs for so many rounds.
    pub fn least(&self, rounds: u64) -> u128 {
        let [added, copied] = self.messages(rounds);
        let link = u128::from(added.flits()) * self.busiest;
        let rank = |sent: &[u128; 2]| {
            sent[0] * u128::from(added.fetch.busy_ps()) + sent[1] * u128::from(copied.fetch.busy_ps())
        };
        u128::from(rounds) * self.sent.iter().map(rank).fold(link, u128::max)
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
            return last.max(self.least(rounds));
        }
        let least = self.least(rounds) / u128::from(rounds);
        let each = least + if shortest == way { held_up * way } else { 0 };
        let latest = latest.min(ends.len() - 1);
        let each = each.max((last - ends[ends.len() - 1 - latest]) / latest as u128);
        last.max(least * u128::from(first)) + u128::from(rounds - first) * each
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

    /// A piece that is to be added, and one that is not, where there are so many rounds.
    fn messages(&self, rounds: u64) -> [MessageCost; 2] {
        [Op::Reduce, Op::Copy].map(|op| self.request.costs().message(self.piece(rounds), op))
    }

    /// Of a piece, where there are so many rounds.
    fn costs(&self, rounds: u64) -> Costs {
        let (costs, fabric, [message, _]) = (self.request.costs(), self.request.fabric, self.messages(rounds));
        let cost = |(id, link): (LinkId, LinkCost)| {
            let busy = u128::from(message.flits()) * u128::from(link.flit_ps);
            (busy, costs.around_ps(fabric, &[id], &message).into())
        };
        let links = (0..).zip(costs.links(fabric)).map(cost).collect();
        Costs { links, adding: message.adding_ps.into() }
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
pub(super) struct Steps {
    step: Step,
    pipeline: Pipeline,
    /// Bytes of a full packet, where links send on while what they have sent is on its way.
    streams: Option<Bytes>,
}

/// Packets of a message by which the rate of a step is told.
const LONG: u64 = 64;

impl Steps {
    /// `streams`: links send on while what they have sent is on its way. O(messages).
    pub fn new(request: &Request, table: &Table, streams: bool) -> Self {
        let (costs, payload) = (request.costs(), request.system.packet.payload_bytes);
        let long = costs.message(LONG * payload, Op::Reduce);
        let (mut latency_ps, mut sending_ps) = (0, long.fetch.busy_ps());
        sending_ps = sending_ps.max(CostModel::issuing(long.packets.count, costs.issue_ps()));
        for route in table.trees.iter().flat_map(Tree::routes) {
            latency_ps = costs.around_ps(request.fabric, route, &long).max(latency_ps);
            for &link in route {
                sending_ps = costs.payload_rate(request.fabric.link(link)).time_for(LONG * payload).max(sending_ps);
            }
        }
        let seconds = sending_ps.saturating_add(long.adding_ps).max(1) as f64 / 1e12;
        let step = Step { latency_ps, rate: Rate(((LONG * payload) as f64 / seconds) as u64) };
        let phases = if table.work == Work::Phases { 2 } else { 1 };
        let pipeline = Pipeline { first: table.last().into(), stride: phases * u64::from(table.period) };
        // Links with messages of several edges wait for them in turn, and so for their latencies.
        Steps { step, pipeline, streams: (streams && table.period == 1).then_some(payload) }
    }

    /// The best bytes of a chunk of a tree's part of the data.
    pub fn best_chunk(&self, bytes: Bytes) -> Bytes {
        bytes.div_ceil(match self.streams {
            Some(payload) => self.pipeline.streamed_chunks(self.step, bytes, payload),
            None => self.pipeline.best_chunks(self.step, bytes),
        })
    }

    /// Picoseconds of a tree's part of the data, in chunks of such a size.
    pub fn time_ps(&self, bytes: Bytes, chunk: Bytes) -> Picos {
        let time = if self.streams.is_some() { Pipeline::streamed_ps } else { Pipeline::time_ps };
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
