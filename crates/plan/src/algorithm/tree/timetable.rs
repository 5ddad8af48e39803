//! A timetable of trees whose parts of the data differ, on links that differ: when each message of a round is on each
//! link, such that the next round can follow as soon as the busiest link allows.
//!
//! A period that every link and every wait keeps is one that all rounds can keep; so latencies are in it, and a schedule in
//! many small pieces is through hardly later than its busiest link.

use super::pace::Moments;
use super::shares;
use super::table::{Message, Priority, Table, ends, unfilled};
use super::{Tree, TreeWork};
use crate::algorithm::Request;
use antiphon_base::units::{Bytes, Picos};
use antiphon_model::fabric::LinkId;
use antiphon_model::schedule::Op;
use antiphon_sim::cost::{LinkCost, MessageCost};
use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;

/// Trees with their parts of the data, to be timed.
pub(in crate::algorithm) struct Timetable<'a> {
    request: &'a Request<'a>,
    trees: &'a [Tree],
    sizes: Vec<u32>,
    work: TreeWork,
    together: bool,
    bytes: Bytes,
    loose: bool,
    rounds: RangeInclusive<u64>,
    credited: Vec<u32>,
    /// Of every tree, among whose trees its group's data are shared.
    groups: Vec<usize>,
    links: Vec<LinkCost>,
}

/// The slots of a table, and the time of so many rounds.
pub(in crate::algorithm) struct Timed<'a> {
    pub table: Table<'a>,
    pub(super) moments: Moments,
    pub rounds: u64,
    pub time_ps: u128,
}

/// Slots of a period, about.
const SLOTS: u64 = 1 << 16;
/// Most slots of a way: all of a schedule must fit into 32 bits.
const LONGEST: u64 = 1 << 19;
/// Rounds of a loose timetable: with more, what packets wait for each other adds up; of fewer, the first and the last take long.
const LOOSE_ROUNDS: u64 = 24;
/// Up to so many messages shares are rounded to whole flits.
const MANY_MESSAGES: usize = 1 << 18;
/// Links that are at least so busy have their messages one after another from the start.
const CROWDED: f64 = 0.9;

impl<'a> Timetable<'a> {
    /// Of trees and their parts of the data, beside each other; parallel links carry messages `together`, on the first.
    pub fn new(request: &'a Request<'a>, trees: &'a [Tree], sizes: Vec<u32>, work: TreeWork, together: bool) -> Self {
        let costs = request.costs();
        let mut all = costs.links(request.fabric);
        for links in request.fabric.parallel_links().into_values().filter(|_| together) {
            all[links[0] as usize] = costs.channel(links.iter().map(|&link| request.fabric.link(link)));
        }
        let mut numbers = HashMap::new();
        let mut group = |tree: &Tree| {
            let next = numbers.len();
            *numbers.entry(ends(request.collective.kind, tree)).or_insert(next)
        };
        let groups = trees.iter().map(&mut group).collect();
        let bytes = request.bytes;
        let (rounds, credited) = (1..=u64::MAX, vec![]);
        Timetable { request, trees, sizes, work, together, bytes, loose: false, rounds, credited, groups, links: all }
    }

    /// With ranks that pass on what comes over switches a round later, and few rounds, if there are such ranks. Where loads are
    /// uneven packets of many ranks meet in switches; who waited for them would hold up others, and these them in turn.
    pub fn loose(self) -> Self {
        let over_switches = |tree: &Tree| tree.height() > 1 && tree.routes().any(|route| route.len() > 1);
        Timetable { loose: self.trees.iter().any(over_switches), ..self }
    }

    /// Only in so many rounds.
    pub fn within(self, rounds: RangeInclusive<u64>) -> Self {
        Timetable { rounds, ..self }
    }

    /// With ranks that keep to the pace of what comes to them by the last tree.
    pub fn credited(self, credited: Vec<u32>) -> Self {
        Timetable { credited, ..self }
    }

    /// Whether it is for so many rounds.
    pub fn takes(&self, rounds: u64) -> bool {
        self.rounds.contains(&rounds)
    }

    /// The fewest and the most rounds worth a look, where there are pieces for so many; without bounds of its own no more
    /// than are bearable.
    pub fn bounds(&self, pieces: u64, bearable: u64) -> (u64, u64) {
        let (first, last) = (*self.rounds.start(), *self.rounds.end());
        let most = pieces.min(if last == u64::MAX { bearable } else { last }).max(1);
        if self.loose && most >= LOOSE_ROUNDS { (2, LOOSE_ROUNDS) } else { (first.min(most), most) }
    }

    /// With so many bytes that all trees move, other than the buffer.
    pub fn moving(self, bytes: Bytes) -> Self {
        Timetable { bytes, ..self }
    }

    /// Messages of a round.
    pub fn messages(&self) -> usize {
        self.trees.iter().map(|tree| tree.edges().len()).sum::<usize>() * self.work.ops().len()
    }

    /// Bytes that all trees move.
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// The trees.
    pub fn trees(&self) -> &'a [Tree] {
        self.trees
    }

    /// The tree with the largest part of the data.
    ///
    /// # Panics
    /// Without trees.
    pub fn widest(&self) -> &'a Tree {
        let sized = self.sizes.iter().zip(self.trees);
        sized.max_by_key(|each| each.0).expect("a tree").1
    }

    /// For how much of the time for which the busiest link is busy each link is. O(messages).
    pub fn utilization(&self) -> Vec<f64> {
        let mut busy = vec![0.0; self.links.len()];
        for (tree, &size) in self.trees.iter().zip(&self.sizes) {
            for (edge, &op) in
                (0..tree.edges().len() as u32).flat_map(|edge| self.work.ops().iter().map(move |op| (edge, op)))
            {
                for &link in tree.route(edge, op) {
                    busy[link as usize] += f64::from(size) * self.links[link as usize].flit_ps as f64;
                }
            }
        }
        let most = busy.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        busy.into_iter().map(|busy| busy / most).collect()
    }

    /// Packets of so many rounds on all links, about; messages on single links count as one.
    pub fn packets(&self, rounds: u64) -> u64 {
        let piece = self.bytes.div_ceil(self.trees.len() as u64).div_ceil(rounds);
        let packets = self.request.costs().message(piece, Op::Copy).packets.count;
        let of_route = |route: &[LinkId]| if route.len() > 1 { packets * route.len() as u64 } else { 1 };
        let of_tree = |tree: &Tree| tree.routes().map(of_route).sum::<u64>();
        self.trees.iter().map(of_tree).sum::<u64>().saturating_mul(rounds)
    }

    /// The table for so many rounds, and how long they take.
    /// O(messages * log messages), a few times, some more where links are crowded.
    pub fn timed(&self, rounds: u64) -> Timed<'a> {
        let mut table = Table::new(self.request.fabric, self.trees, unfilled(self.trees), 1, self.work);
        table.together = self.together;
        let most = self.share(&mut table, rounds).max(1);
        let pieces = Pieces { of: self, slot_ps: most.div_ceil(SLOTS).max(1), costs: self.costs(&table, rounds) };
        // Rounded up message by message.
        let taken = pieces.taken(&table);
        let period = match rounds {
            // There is no next round to leave room for.
            1 => 1 << 30,
            _ => taken.iter().copied().max().unwrap_or(1).max(pieces.busiest_rank(&table)).max(1),
        };
        let mut lines: Vec<bool> = taken.iter().map(|&taken| f64::from(taken) > CROWDED * f64::from(period)).collect();
        loop {
            let mut lines_of = Lines::new(period, &lines);
            let (mut full, mut last, mut hops) = (None, 0, vec![]);
            let mut moments = Moments::new(self.trees, &self.credited);
            let take = |message: &Message| {
                pieces.hops(message, &mut hops);
                let (slot, arrives) = lines_of.take(message.slot, &hops).map_err(|link| full = Some(link)).ok()?;
                let applied = arrives + pieces.slots(pieces.cost(message).adding_ps);
                last = applied.max(last);
                let sent = slot + hops.first().map_or(0, |hop| hop.length);
                moments.note(message, message.slot, sent, applied);
                let later = if self.loose && hops.len() > 1 && rounds > 1 { period } else { 0 };
                Some((slot, applied + later))
            };
            if let Some(found) = table.list(Priority::Farthest, take) {
                let slots = u128::from(rounds - 1) * u128::from(period) + u128::from(last);
                (table.slots, table.period) = (found, period);
                return Timed { table, moments, rounds, time_ps: u128::from(pieces.slot_ps) * slots };
            }
            // No gap is long enough: this link and busier ones.
            let full = full.expect("a link without a gap") as usize;
            for (line, &other) in lines.iter_mut().zip(&taken) {
                *line |= other >= taken[full];
            }
        }
    }

    /// Gives trees their parts of the data, in whole flits or packets where that keeps the busiest link for less time than to pad
    /// pieces; returns the picoseconds for which a link or a rank is busy in one of so many rounds, at most. O(messages).
    fn share(&self, table: &mut Table, rounds: u64) -> Picos {
        let format = &self.request.system.packet;
        let groups = self.groups.iter().max().map_or(1, |most| *most as u64 + 1);
        let units = |bytes: Bytes| {
            let units = self.bytes.div_ceil(groups).div_ceil(rounds.saturating_mul(bytes));
            shares::whole(&self.sizes, &self.groups, units)
        };
        let mut sizes = vec![self.sizes.clone()];
        if self.request.matrix.is_none() && self.messages() <= MANY_MESSAGES {
            sizes.extend([format.flit_bytes, format.payload_bytes].into_iter().filter_map(units));
        }
        let mut busiest = |sizes: Vec<u32>| {
            table.sizes = sizes;
            let pieces = Pieces { of: self, slot_ps: 1, costs: self.costs(table, rounds) };
            let busy = pieces.busiest_link(table).max(pieces.busiest_rank_ps(table));
            (busy, std::mem::take(&mut table.sizes))
        };
        let (picos, sizes) = sizes.into_iter().map(&mut busiest).min_by_key(|each| each.0).expect("some sizes");
        table.sizes = sizes;
        picos
    }

    /// What a piece of every tree costs, by what its receiver does.
    fn costs(&self, table: &Table, rounds: u64) -> Vec<[MessageCost; 2]> {
        let costs = self.request.costs();
        let of = |piece| [Op::Reduce, Op::Copy].map(|op| costs.message(piece, op));
        table.pieces((self.bytes, self.request.align), rounds).into_iter().map(of).collect()
    }
}

/// What the messages of a round cost, in slots.
struct Pieces<'t, 'a> {
    of: &'t Timetable<'a>,
    slot_ps: Picos,
    costs: Vec<[MessageCost; 2]>,
}

impl Pieces<'_, '_> {
    /// Of a way that is longer than many periods only the order matters.
    fn slots(&self, picos: Picos) -> u32 {
        picos.div_ceil(self.slot_ps).min(LONGEST) as u32
    }

    fn cost(&self, message: &Message) -> &MessageCost {
        &self.costs[message.tree][message.op as usize]
    }

    fn link(&self, link: LinkId) -> LinkCost {
        self.of.links[link as usize]
    }

    /// The hops of a message. From link to link a packet has as long as a hand-over takes, since others may come to a switch
    /// before it.
    fn hops(&self, message: &Message, hops: &mut Vec<TimetableHop>) {
        let (costs, cost) = (self.of.request.costs(), self.cost(message));
        let room = costs.hand_off_ps().saturating_add(cost.fetch.first_ps());
        hops.clear();
        hops.extend(message.route.iter().enumerate().map(|(at, &link)| {
            let LinkCost { flit_ps, latency_ps } = self.link(link);
            let next = message.route.get(at + 1).map_or(flit_ps, |&next| self.link(next).flit_ps);
            let first = cost.until_next(flit_ps, next, costs.transit());
            let times = [cost.on_link(flit_ps), first, latency_ps.saturating_add(room)];
            let [length, first, way] = times.map(|picos| self.slots(picos));
            TimetableHop { link, length, first, way }
        }));
    }

    /// Slots for which messages of a round occupy every link.
    fn taken(&self, table: &Table) -> Vec<u32> {
        let mut taken = vec![0; self.of.links.len()];
        for message in table.messages(self.of.work.ops()) {
            let length = |link: LinkId| self.slots(self.cost(&message).on_link(self.link(link).flit_ps));
            message.route.iter().for_each(|&link| taken[link as usize] += length(link));
        }
        taken
    }

    /// Picoseconds for which the busiest link is busy in a round.
    fn busiest_link(&self, table: &Table) -> Picos {
        let mut busy: Vec<Picos> = vec![0; self.of.links.len()];
        for message in table.messages(self.of.work.ops()) {
            for &link in message.route {
                let busy = &mut busy[link as usize];
                *busy = busy.saturating_add(self.cost(&message).on_link(self.link(link).flit_ps));
            }
        }
        busy.into_iter().max().unwrap_or(0)
    }

    /// Picoseconds for which the busiest rank adds in a round, or reads what it sends.
    fn busiest_rank_ps(&self, table: &Table) -> Picos {
        let is_free = |cost: &MessageCost| cost.adding_ps == 0 && cost.fetch.busy_ps() == 0;
        if self.costs.iter().flatten().all(is_free) {
            return 0;
        }
        let mut busy: Vec<[Picos; 2]> = vec![[0; 2]; self.of.request.fabric.ranks()];
        for message in table.messages(self.of.work.ops()) {
            let cost = self.cost(&message);
            let [_, adding] = &mut busy[message.to as usize];
            *adding = adding.saturating_add(cost.adding_ps);
            let [reading, _] = &mut busy[message.from as usize];
            *reading = reading.saturating_add(cost.fetch.busy_ps());
        }
        busy.into_iter().flatten().max().unwrap_or(0)
    }

    fn busiest_rank(&self, table: &Table) -> u32 {
        self.busiest_rank_ps(table).div_ceil(self.slot_ps) as u32
    }
}

/// A link of a message's route, and slots: of the message, until its first packet asks for the next link, and from there to that.
struct TimetableHop {
    link: LinkId,
    length: u32,
    first: u32,
    way: u32,
}

/// The places of messages on all links, in a period that has no start.
struct Lines {
    period: u32,
    lines: Vec<Line>,
}

/// What is taken of a link's period.
enum Line {
    /// Starts and ends, apart from each other.
    Gaps(BTreeMap<u32, u32>),
    /// Everything up to here: where gaps would be too short for what is to come.
    Packed(u32),
}

impl Lines {
    /// With some links packed.
    fn new(period: u32, packed: &[bool]) -> Self {
        let line = |&packed: &bool| if packed { Line::Packed(0) } else { Line::Gaps(BTreeMap::new()) };
        Lines { period, lines: packed.iter().map(line).collect() }
    }

    /// When a message is sent that is ready in some slot, and when it has arrived: it takes the first gaps in any period such
    /// that no packet waits on its way, or if there are none the first on each link after its first packet has come.
    ///
    /// # Errors
    /// The link that has no such gap.
    fn take(&mut self, ready: u32, hops: &[TimetableHop]) -> std::result::Result<(u32, u32), LinkId> {
        let packed = |hop: &TimetableHop| matches!(self.lines[hop.link as usize], Line::Packed(_));
        let sent = if hops.len() > 1 && !hops.iter().any(packed) { self.smooth(ready, hops) } else { None };
        let (mut start, mut first, mut arrives) = (sent.unwrap_or(ready), None, ready);
        for hop in hops {
            start += self.wait(start, hop).ok_or(hop.link)?;
            self.mark(start, hop);
            first.get_or_insert(start);
            arrives = (start + hop.length + hop.way).max(arrives);
            start += hop.first + hop.way;
        }
        Ok((first.unwrap_or(ready), arrives))
    }

    /// The first slot from which all links are free when the first packet comes.
    fn smooth(&self, ready: u32, hops: &[TimetableHop]) -> Option<u32> {
        let mut sent = ready;
        while sent < ready + self.period {
            let (mut later, mut start) = (0, sent);
            for hop in hops {
                later = later.max(self.wait(start, hop)?);
                start += hop.first + hop.way;
            }
            if later == 0 {
                return Some(sent);
            }
            sent += later;
        }
        None
    }

    /// How long after a slot a link has room; `None` if it never has.
    fn wait(&self, start: u32, hop: &TimetableHop) -> Option<u32> {
        let period = self.period;
        match &self.lines[hop.link as usize] {
            Line::Packed(end) => Some((*end % period + period - start % period) % period),
            Line::Gaps(taken) => Some(gap(taken, start % period, hop.length, period)).filter(|&later| later < period),
        }
    }

    /// Takes a link from a slot on.
    fn mark(&mut self, start: u32, hop: &TimetableHop) {
        match &mut self.lines[hop.link as usize] {
            Line::Packed(end) => *end += hop.length,
            Line::Gaps(taken) => {
                let (from, to) = (start % self.period, start % self.period + hop.length);
                join(taken, from, to.min(self.period));
                if to > self.period {
                    join(taken, 0, to - self.period);
                }
            }
        }
    }
}

/// Takes what is free from a slot to another one. What touches is one, so that looks for gaps are short.
fn join(taken: &mut BTreeMap<u32, u32>, from: u32, to: u32) {
    let to = taken.remove(&to).unwrap_or(to);
    let before = taken.range_mut(..from).next_back().filter(|before| *before.1 == from);
    match before {
        Some(before) => *before.1 = to,
        None => _ = taken.insert(from, to),
    }
}

/// How long after `from` there is a gap of some length; at least a period if there is none.
fn gap(taken: &BTreeMap<u32, u32>, from: u32, length: u32, period: u32) -> u32 {
    if length > period {
        return period;
    }
    let before = taken.range(..=from).next_back().map(|(_, &end)| end).filter(|&end| end > from);
    let mut start = before.unwrap_or(from);
    // What is taken from there on, then again one period later.
    let later = |(&begin, &end): (&u32, &u32)| (begin + period, end + period);
    let rest = taken.range(from + 1..).map(|(&begin, &end)| (begin, end)).chain(taken.iter().map(later));
    for (begin, end) in rest {
        if begin >= start + length || start >= from + period {
            break;
        }
        start = start.max(end);
    }
    // It may end in what is taken first, two periods later.
    let first = taken.first_key_value().map_or(u32::MAX, |(&begin, _)| begin + 2 * period);
    if start + length > first { period } else { start - from }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Slot by slot.
        #[test]
        fn a_gap_is_the_first_that_is_free(period in 1u32..40, wanted in prop::collection::vec((0u32..40, 1u32..9), 0..12)) {
            let (mut taken, mut slots) = (BTreeMap::new(), vec![false; period as usize]);
            for (from, length) in wanted {
                let from = from % period;
                let free = |wait: &u32| (0..length).all(|slot| !slots[((from + wait + slot) % period) as usize]);
                let first = (0..period).find(free).filter(|_| length <= period);
                let found = gap(&taken, from, length, period);
                prop_assert_eq!((found < period).then_some(found), first, "{:?} {} {} {}", taken, from, length, period);
                if let Some(wait) = first {
                    let start = (from + wait) % period;
                    (start..start + length).for_each(|slot| slots[(slot % period) as usize] = true);
                    taken.insert(start, (start + length).min(period));
                    if start + length > period {
                        taken.insert(0, start + length - period);
                    }
                }
            }
        }

        /// Whatever is taken of a link is apart, modulo the period, and no message is anywhere before it can be.
        #[test]
        fn links_have_one_message_at_a_time(
            period in 10u32..100,
            messages in prop::collection::vec(
                (0u32..400, prop::collection::vec((0u32..6, 1u32..10, 1u32..4, 0u32..30), 1..4)), 1..40),
            packed in prop::collection::vec(any::<bool>(), 6),
        ) {
            let mut lines = Lines::new(period, &packed);
            let mut sums = [0; 6];
            let mut alone: Vec<(u32, u32, u32)> = vec![];
            for (ready, mut route) in messages {
                route.sort_unstable();
                route.dedup_by_key(|hop| hop.0);
                // Packed links are those whose messages are known to fit.
                if route.iter().any(|&(link, length, ..)| packed[link as usize] && sums[link as usize] + length > period) {
                    continue;
                }
                let hop = |&(link, length, first, way): &(u32, u32, u32, u32)| TimetableHop { link, length, first: first.min(length), way };
                let hops: Vec<TimetableHop> = route.iter().map(hop).collect();
                let Ok((sent, arrives)) = lines.take(ready, &hops) else { return Ok(()) };
                let least: u32 = route.iter().map(|&(_, length, first, way)| first.min(length) + way).sum();
                let &(link, length, first, way) = route.last().unwrap();
                prop_assert!(sent >= ready && arrives >= sent + least + length - first.min(length));
                route.iter().for_each(|hop| sums[hop.0 as usize] += hop.1);
                if route.len() == 1 {
                    prop_assert_eq!(arrives, sent + length + way);
                    for slot in sent..sent + length {
                        let other = alone.iter().find(|&&(on, from, to)| on == link && (from..to).any(|at| at % period == slot % period));
                        prop_assert!(other.is_none(), "{other:?}");
                    }
                    alone.push((link, sent, sent + length));
                }
            }
            for (line, sum) in lines.lines.iter().zip(sums) {
                match line {
                    Line::Packed(end) => prop_assert_eq!(*end, sum),
                    Line::Gaps(taken) => {
                        let all: Vec<_> = taken.iter().collect();
                        prop_assert!(all.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{taken:?}");
                        prop_assert!(all.iter().all(|(start, end)| start < end && **end <= period), "{taken:?}");
                        prop_assert_eq!(all.iter().map(|(start, end)| *end - *start).sum::<u32>(), sum, "{:?}", taken);
                    }
                }
            }
        }
    }
}
