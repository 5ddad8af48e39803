//! How long the messages of a table take, in so many pieces: a recurrence over the links, and C-Cube's closed form.
//!
//! Algorithms choose among trees and sizes of pieces by these estimates. What a message costs they ask of
//! [`antiphon_sim::cost`].

use super::Request;
use super::tree::{Message, Table, Tree, TreeWork};
use crate::closed_form::{Pipeline, StepCost};
use antiphon_base::units::{Bytes, Picos, Rate};
use antiphon_model::fabric::{Link, LinkId, NodeId};
use antiphon_model::schedule::{Op, Pacing};
use antiphon_sim::cost::{CostModel, LinkCost, MessageCost};
use num_traits::{Bounded, SaturatingAdd};
use std::collections::{BTreeSet, HashMap};

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
struct EdgeHop {
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
    hops: Vec<Vec<EdgeHop>>,
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
        let mut hops: Vec<Vec<EdgeHop>> = (0..table.period).map(|_| Vec::new()).collect();
        let mut busy = vec![0u128; flit_times.len()];
        let mut sent = vec![[0; 2]; request.fabric.ranks()];
        for Message { tree, op, from, to, route, slot, .. } in table.messages(&[Op::Reduce, Op::Copy]) {
            let first = tree as u32 * request.ranks();
            let adds = (op == Op::Reduce).then_some(to);
            let [link] = *route else { panic!("an edge of {} links", route.len()) };
            let hop = EdgeHop { link, from: first + from, to: first + to, adds, later: slot / table.period };
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
        let link = u128::from(self.messages(rounds)[0].flits()) * self.busiest;
        u128::from(rounds) * link.max(self.reading(rounds))
    }

    /// For how long the busiest rank reads what it sends, in each of so many rounds.
    fn reading(&self, rounds: u64) -> u128 {
        let [added, copied] = self.messages(rounds).map(|message| u128::from(message.fetch.busy_ps()));
        self.sent.iter().map(|sent| sent[0] * added + sent[1] * copied).max().unwrap_or(0)
    }

    /// When the `first` of so many rounds end for ranks that read all the time, if the first one ends so.
    fn read(&self, rounds: u64, first: u64, end: u128) -> u128 {
        end + u128::from(first - 1) * self.reading(rounds)
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
            return last.max(self.read(rounds, first, ends[0]));
        }
        let least = self.least(rounds) / u128::from(rounds);
        let each = least + if shortest == way { held_up * way } else { 0 };
        let latest = latest.min(ends.len() - 1);
        let each = each.max((last - ends[ends.len() - 1 - latest]) / latest as u128);
        last.max(self.read(rounds, first, ends[0])) + u128::from(rounds - first) * each
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
        self.table.piece(0, (self.request.bytes, self.request.align), rounds)
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
pub(super) struct StepEstimate<'a> {
    request: &'a Request<'a>,
    /// Each of another cost, and how many are like it.
    routes: Vec<(&'a [LinkId], u64)>,
    /// Most messages that a rank sends, one of which is to be added, and that it adds.
    most: u64,
    pipeline: Pipeline,
    pacing: Pacing,
    period: u32,
}

/// What a step with a chunk takes.
struct ChunkCost {
    /// The chunk on a link.
    sending_ps: Picos,
    /// It is sent, read, handed to an interface or added with others, whatever takes longest.
    each_ps: Picos,
    /// While its first packet comes to the last link, on average.
    passing_ps: Picos,
    /// From the last link until it has been added.
    way_ps: Picos,
}

impl<'a> StepEstimate<'a> {
    /// O(messages).
    pub fn new(request: &'a Request<'a>, table: &Table<'a>, pacing: Pacing) -> Self {
        let (costs, fabric) = (request.costs(), request.fabric);
        let links = costs.links(fabric);
        let cost =
            |&link: &LinkId| (links[link as usize], fabric.nodes[fabric.link(link).from as usize].rank.is_some());
        let mut routes: HashMap<Vec<_>, (&[LinkId], u64)> = HashMap::new();
        for route in table.trees.iter().flat_map(Tree::routes) {
            routes.entry(route.iter().map(cost).collect()).or_insert((route, 0)).1 += 1;
        }
        let children = |tree: &Tree| (0..request.ranks()).map(|rank| tree.children(rank).len()).max().unwrap_or(0);
        let most = table.trees.iter().map(children).max().unwrap_or(0) as u64;
        let phases = if table.work == TreeWork::Phases { 2 } else { 1 };
        let pipeline = Pipeline { first: table.last().into(), stride: phases * u64::from(table.period) };
        let routes = routes.into_values().collect();
        StepEstimate { request, routes, most, pipeline, pacing, period: table.period }
    }

    /// Whether links send on while what they have sent is on its way. Links with messages of several edges wait for them in
    /// turn, and so for their latencies.
    fn streams(&self) -> bool {
        self.pacing == Pacing::Pipelined && self.period == 1
    }

    fn cost(&self, chunk: Bytes) -> ChunkCost {
        let (costs, fabric) = (self.request.costs(), self.request.fabric);
        let [added, copied] = [Op::Reduce, Op::Copy].map(|op| costs.message(chunk, op));
        let (mut sending_ps, mut passing, mut way_ps) = (0, 0, 0);
        for (route, count) in &self.routes {
            let way = costs.way_ps(fabric, route);
            way_ps = way.saturating_add(added.adding_ps).max(way_ps);
            passing += u128::from(costs.around_ps(fabric, route, &added) - way) * u128::from(*count);
            let on_link = |&link: &LinkId| added.on_link(costs.link(fabric.link(link)).flit_ps);
            sending_ps = route.iter().map(on_link).fold(sending_ps, Picos::max);
        }
        let routes: u64 = self.routes.iter().map(|(_, count)| count).sum();
        let passing_ps = (passing / u128::from(routes.max(1))) as Picos;
        let reading = added.fetch.busy_ps().saturating_add(self.most.saturating_mul(copied.fetch.busy_ps()));
        // A rank does all this once in a period.
        let at_rank = reading.max(self.most.saturating_mul(added.adding_ps)).div_ceil(self.period.into());
        let issuing = CostModel::issuing(added.packets.count, costs.issue_ps());
        let each_ps = sending_ps.max(at_rank).max(issuing);
        ChunkCost { sending_ps, each_ps, passing_ps, way_ps }
    }

    /// The best bytes of a chunk of a tree's part of the data: by what long ones take, and again by what those that come out
    /// take, as that depends on their packets.
    pub fn best_chunks(&self, bytes: Bytes) -> Vec<Bytes> {
        let payload = self.request.system.packet.payload_bytes;
        let mut chunk = payload.saturating_mul(64);
        let next = |_| {
            let ChunkCost { each_ps, way_ps, .. } = self.cost(chunk);
            let rate = u128::from(chunk) * 1_000_000_000_000 / u128::from(each_ps.max(1));
            let step = StepCost { latency_ps: way_ps, rate: Rate(rate.clamp(1, u64::MAX.into()) as u64) };
            chunk = bytes.div_ceil(match self.streams() {
                true => self.pipeline.streamed_chunks(step, bytes, payload),
                false => self.pipeline.best_chunks(step, bytes),
            });
            chunk
        };
        let mut chunks: Vec<Bytes> = (0..2).map(next).collect();
        chunks.dedup();
        chunks
    }

    /// Picoseconds of a tree's part of the data, in chunks of such a size: steps of the first one, and those that others add.
    pub fn time_ps(&self, bytes: Bytes, chunk: Bytes) -> Picos {
        let ChunkCost { sending_ps, each_ps, passing_ps, way_ps } = self.cost(chunk);
        let Pipeline { first, stride } = self.pipeline;
        // Others are sent while packets pass a switch: from none of the time to all of it.
        let waiting = match self.pacing {
            Pacing::StopAndWait => passing_ps.saturating_add(way_ps),
            Pacing::Pipelined if self.streams() => 0,
            Pacing::Pipelined => passing_ps / 2 + way_ps,
        };
        let of_first = sending_ps.saturating_add(passing_ps).saturating_add(way_ps);
        let later = (bytes.div_ceil(chunk).max(1) - 1).saturating_mul(stride);
        let of_others = later.saturating_mul(each_ps.saturating_add(waiting));
        first.saturating_mul(of_first).saturating_add(of_others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::packing::PackingGraph;
    use crate::algorithm::tree::{Planter, Priority, widths};
    use crate::algorithm::{Collective, Fabric, Kind, Options};
    use antiphon_base::watch::Watch;
    use antiphon_bound::symmetric_edges;
    use antiphon_model::system::System;
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
                let graph = PackingGraph::new(fabric.ranks(), edges.iter().map(|edge| (edge.0, edge.1)));
                let packing = graph.pack(&vec![1; edges.len()], count, graph.centre()).unwrap();
                let trees = Planter::new(&fabric, &system).plant_all(packing);
                let request = Request {
                    fabric: &fabric,
                    system: &system,
                    collective: Collective::new(Kind::AllReduce),
                    bytes: 4 << 20,
                    matrix: None,
                    align: antiphon_model::collective::Align::default(),
                    spec: "test",
                    options: Options::parse("test", "", &[]).unwrap(),
                    watch: Watch::default(),
                };
                let table =
                    Table::listed(&trees, widths(&flit_times(&request)), Priority::Farthest, TreeWork::Overlapped);
                let estimate = Recurrence::new(&request, &table);
                for rounds in [1, 4, 100] {
                    let mut builder = request.builder();
                    table.lanes(&mut builder, |tree| table.piece(tree, (request.bytes, request.align), rounds), rounds);
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
