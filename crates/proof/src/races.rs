//! No race: every execution moves the same data as schedule order.
//!
//! A transfer reads (sender, lane) from its start until it is sent, and writes (receiver, lane) from when it
//! need no longer wait there until it is applied. Two accesses to one location, one of them a write, must
//! be ordered: the first is certain to end before the second begins, through a barrier or through
//! dependencies; only reductions into one location need not be, where ranks do them one at a time. A copy
//! that brings a rank data it already has changes nothing, so it counts as a read of them.
//! Chunks of a lane do not overlap, so a dependency on an earlier chunk orders nothing here.
//!
//! Order is transitive, so it is enough to compare each access with its nearest conflicting
//! predecessors: accesses to a location fall into alternating groups of writes and of reads, and each
//! is compared with the whole group before its own. Most pairs turn out to be joined by a barrier
//! or by a single dependency; only the others need the transitive closure. The closure over the
//! lane's own transfers orders nearly all pairs. The others are checked against the closure over all transfers, since a
//! message of another lane may order two.
//!
//! A transfer is one *point* of that order: predecessors of the point end before the transfer starts, and its
//! successors begin when it has been applied. A transfer is two points, its sending and its applying, where a
//! dependency tells the two apart: another waits for it to be sent, or it waits at its receiver.

use super::text;
use antiphon_base::error::Result;
use antiphon_base::watch::checkpoint;
use antiphon_model::schedule::{Dependency, Event, Held, ListTurn, Op, Schedule, Transfer, TransferId};
use smallvec::SmallVec;

/// 64-bit words of one block of closure columns; bounds the memory of long lanes.
const BLOCK_WORDS: usize = 8;

/// Checks lanes, one at a time. Expects a schedule that `order` accepts.
pub struct Races<'a> {
    schedule: &'a Schedule,
    gates: Vec<[u32; 2]>,
    split: Vec<bool>,
    held: Held,
    points: Points,
    locations: Locations<'a>,
    closure: OrderClosure<'a>,
    /// Pairs that no dependency within a lane orders.
    open: Vec<OpenPair>,
}

impl<'a> Races<'a> {
    /// A check of the lanes of a schedule.
    pub fn new(schedule: &'a Schedule) -> Self {
        let (gates, split, held) = (gates(schedule), split(schedule), Held::of(schedule));
        let (locations, closure) = (Locations::new(schedule), OrderClosure::new(schedule));
        Races { schedule, gates, split, held, points: Points::default(), locations, closure, open: vec![] }
    }

    /// Follows the transfers of a lane in schedule order. `repeats` are the copies that bring a receiver what it has.
    ///
    /// Complexity: O(dependencies + pairs of accesses in neighbouring groups); for lanes with
    /// pairs that no single dependency orders, O(dependencies * transfers / 64) time and O(transfers)
    /// memory more.
    ///
    /// # Errors
    /// As [`Races::finish`], for many pairs that messages of other lanes must order.
    pub fn follow(&mut self, lane: usize, list: &[TransferId], repeats: &[TransferId]) -> Result<()> {
        let Races { schedule, gates, split, held, points, locations, closure, open } = self;
        if list.len() < 2 || schedule.lanes[lane].bytes == 0 {
            return Ok(());
        }
        points.load(list, split, held);
        locations.follow(list, points, repeats, gates);
        closure.unordered(list, points, &mut locations.pairs.open, |&AccessPair { first, second, rank }| {
            let ends = [first, second].map(|point| points.end(list, point));
            open.push(OpenPair { lane, rank, ends });
            true
        });
        if open.len() < MOST_OPEN { Ok(()) } else { self.finish() }
    }

    /// Checks the open pairs against all dependencies. O(dependencies * transfers / 64) if there is anything.
    ///
    /// # Errors
    /// [`antiphon_base::error::Code::NotProven`], naming two conflicting transfers, rank, lane and steps.
    pub fn finish(&mut self) -> Result<()> {
        let Races { schedule, split, held, points, closure, open, .. } = self;
        if open.is_empty() {
            return Ok(());
        }
        let order = schedule.order();
        points.load(&order, split, held);
        let mut position = vec![0; order.len()];
        (0..).zip(&order).for_each(|(at, &id)| position[id as usize] = at);
        let point = |(id, applied): AccessEnd| points.of[position[id as usize] as usize][usize::from(applied)];
        let mut pairs: Vec<AccessPair> = (0..)
            .zip(&*open)
            .map(|(number, pair)| AccessPair { first: point(pair.ends[0]), second: point(pair.ends[1]), rank: number })
            .collect();
        let mut race = None;
        closure.unordered(&order, points, &mut pairs, |pair| {
            race = Some(pair.rank);
            false
        });
        match race {
            Some(number) => text::not_proven(describe(schedule, &open[number as usize])),
            None => {
                open.clear();
                Ok(())
            }
        }
    }
}

/// Most open pairs that are kept until all lanes have been followed; more are checked at once.
const MOST_OPEN: usize = 1 << 20;

/// The end of an access: its transfer, and whether it is the applying (else the sending).
type AccessEnd = (TransferId, bool);

/// Two accesses of which the first must be shown to end before the second begins.
struct OpenPair {
    lane: usize,
    rank: u32,
    ends: [AccessEnd; 2],
}

/// For every transfer, two phases: all transfers of phases before the first are applied before it starts, and all before
/// the second before it is applied. A gate is its own phase if that has a barrier, or inherited from its dependencies.
fn gates(schedule: &Schedule) -> Vec<[u32; 2]> {
    let mut gates = vec![[0; 2]; schedule.transfers.len()];
    // The first phase waits for none.
    if !schedule.phases.iter().skip(1).any(|phase| phase.barrier) {
        return gates;
    }
    for id in schedule.order() {
        let transfer = &schedule.transfers[id as usize];
        let inherited = |own: u32, after: &[Dependency]| {
            let of_chunk = after.iter().filter(|other| other.lag() == 0);
            let gate =
                |other: &Dependency| gates[other.transfer() as usize][usize::from(other.event() == Event::Applied)];
            of_chunk.map(gate).fold(own, u32::max)
        };
        let own = if schedule.phases[transfer.phase as usize].barrier { transfer.phase } else { 0 };
        let start = inherited(own, &transfer.start_after);
        gates[id as usize] = [start, inherited(start, &transfer.apply_after)];
    }
    gates
}

/// Whether each transfer is two points; empty if none is.
fn split(schedule: &Schedule) -> Vec<bool> {
    let mut split = vec![];
    for (id, transfer) in schedule.transfers.iter().enumerate() {
        let mut is_two = |id: usize| {
            split.resize(schedule.transfers.len(), false);
            split[id] = true;
        };
        if !transfer.apply_after.is_empty() {
            is_two(id);
        }
        for after in [&transfer.start_after[..], &transfer.apply_after[..]] {
            let sent = after.iter().filter(|other| other.event() == Event::Sent);
            sent.for_each(|other| is_two(other.transfer() as usize));
        }
    }
    split
}

/// Points of a lane's transfers, in schedule order.
#[derive(Default)]
struct Points {
    /// Position in the lane's list, by point.
    position: Vec<u32>,
    /// Points of the transfer at a position: of its sending, and of its applying.
    of: Vec<[u32; 2]>,
    /// Sendings and applyings, in order.
    turns: Vec<ListTurn>,
}

impl Points {
    fn load(&mut self, list: &[TransferId], split: &[bool], held: &Held) {
        self.position.clear();
        self.of.clear();
        self.turns = held.turns(list);
        for turn in &self.turns {
            if turn.reads {
                self.of.push([self.position.len() as u32; 2]);
                self.position.push(turn.at);
            }
            let id = list[turn.at as usize];
            if turn.applies && split.get(id as usize).is_some_and(|&split| split) {
                self.of[turn.at as usize][1] = self.position.len() as u32;
                self.position.push(turn.at);
            }
        }
    }

    /// The transfer of a point, and whether the point is its applying.
    fn end(&self, list: &[TransferId], point: u32) -> AccessEnd {
        let position = self.position[point as usize] as usize;
        (list[position], self.of[position][1] == point)
    }
}

/// A pair of accesses to one location that must be ordered: the point at which the first ends, and that at which
/// the second begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct AccessPair {
    first: u32,
    second: u32,
    rank: u32,
}

/// The point at which an access ends, or before which it comes, and its transfer.
type Access = (u32, TransferId);
/// Accesses to a location that nothing of the other kind comes between; few are stored inline.
type AccessGroup = SmallVec<[Access; 2]>;

/// Accesses to one rank's copy of a lane.
#[derive(Default)]
struct Location {
    /// The group before `writes`.
    before: AccessGroup,
    /// A copy, or reductions.
    writes: AccessGroup,
    /// Reads since then.
    reads: AccessGroup,
}

/// The pairs found that neither a barrier nor one dependency orders.
struct UnorderedPairs<'a> {
    transfers: &'a [Transfer],
    /// Last transfer that depends directly on each transfer having been applied.
    needed_by: Vec<TransferId>,
    open: Vec<AccessPair>,
}

impl UnorderedPairs<'_> {
    /// Adds the pairs of an access with the group before it. Transfers of phases before the gate are ordered.
    #[inline(always)]
    fn compare(&mut self, group: &[Access], (second, id): Access, gate: u32, rank: u32) {
        // Groups are in schedule order, so those a barrier orders are a prefix.
        let is_behind = |&(_, first): &Access| self.transfers[first as usize].phase < gate;
        let behind = if gate > 0 { group.partition_point(is_behind) } else { 0 };
        let pairs = group[behind..].iter().filter(|(_, first)| self.needed_by[*first as usize] != id);
        self.open.extend(pairs.map(|&(first, _)| AccessPair { first, second, rank }));
    }
}

/// Every rank's location, and the pairs found in them.
struct Locations<'a> {
    schedule: &'a Schedule,
    locations: Vec<Location>,
    pairs: UnorderedPairs<'a>,
}

impl<'a> Locations<'a> {
    fn new(schedule: &'a Schedule) -> Self {
        let transfers = &schedule.transfers;
        Locations {
            schedule,
            locations: (0..schedule.participants()).map(|_| Location::default()).collect(),
            pairs: UnorderedPairs { transfers, needed_by: vec![TransferId::MAX; transfers.len()], open: vec![] },
        }
    }

    /// Follows one lane and collects the pairs that are still to be shown ordered. `repeats`
    /// is a part of `list`, in the same order.
    fn follow(&mut self, list: &[TransferId], points: &Points, repeats: &[TransferId], gates: &[[u32; 2]]) {
        let transfers = &self.schedule.transfers;
        let pairs = &mut self.pairs;
        pairs.open.clear();
        let mut repeats = repeats.iter().peekable();
        for &id in list {
            for rank in [transfers[id as usize].from, transfers[id as usize].to] {
                let location = &mut self.locations[rank as usize];
                location.before.clear();
                location.writes.clear();
                location.reads.clear();
            }
        }
        for turn in &points.turns {
            let (id, [sending, applying]) = (list[turn.at as usize], points.of[turn.at as usize]);
            let transfer = &transfers[id as usize];
            for other in transfer.start_after.iter().filter(|other| other.is_plain()) {
                pairs.needed_by[other.transfer() as usize] = id;
            }
            let [start_gate, apply_gate] = gates[id as usize];
            if turn.reads {
                let location = &mut self.locations[transfer.from as usize];
                pairs.compare(&location.writes, (sending, id), start_gate, transfer.from);
                location.reads.push((sending, id));
            }
            if !turn.applies {
                continue;
            }
            let location = &mut self.locations[transfer.to as usize];
            if repeats.next_if_eq(&&id).is_some() {
                pairs.compare(&location.writes, (applying, id), apply_gate, transfer.to);
                location.reads.push((applying, id));
                continue;
            }
            let commutes = |&(_, first): &Access| transfers[first as usize].op == Op::Reduce;
            let joins = transfer.op == Op::Reduce
                && self.schedule.endpoint.serial_reductions
                && location.reads.is_empty()
                && location.writes.first().is_some_and(commutes);
            if !joins {
                let last = if location.reads.is_empty() { &mut location.writes } else { &mut location.reads };
                std::mem::swap(&mut location.before, last);
                location.writes.clear();
                location.reads.clear();
            }
            pairs.compare(&location.before, (applying, id), apply_gate, transfer.to);
            location.writes.push((applying, id));
        }
    }
}

/// Transitive closure of the dependencies among the transfers of a list, a block of columns at a time.
struct OrderClosure<'a> {
    schedule: &'a Schedule,
    /// Position of each transfer in the list that last had it.
    position: Vec<u32>,
    /// Direct predecessors of each point, as points: `needs[starts[i]..starts[i + 1]]`.
    starts: Vec<usize>,
    needs: Vec<u32>,
    /// Row `i`: which columns of the block come before point `i`.
    rows: Vec<[u64; BLOCK_WORDS]>,
}

impl<'a> OrderClosure<'a> {
    fn new(schedule: &'a Schedule) -> Self {
        OrderClosure {
            schedule,
            position: vec![0; schedule.transfers.len()],
            starts: vec![],
            needs: vec![],
            rows: vec![],
        }
    }

    /// Calls `tell` with each pair whose first does not come before its second, until `tell` says no. Sorts `pairs`.
    fn unordered(
        &mut self,
        list: &[TransferId],
        points: &Points,
        pairs: &mut [AccessPair],
        mut tell: impl FnMut(&AccessPair) -> bool,
    ) {
        if pairs.is_empty() {
            return;
        }
        self.load(list, points);
        pairs.sort_unstable();
        let columns = BLOCK_WORDS * 64;
        for pairs in pairs.chunk_by(|a, b| a.first as usize / columns == b.first as usize / columns) {
            let base = pairs[0].first as usize / columns * columns;
            let end = pairs.iter().map(|pair| pair.second).max().unwrap_or(0) as usize;
            self.fill(base, end);
            let before = |pair: &AccessPair| {
                let column = pair.first as usize - base;
                self.rows[pair.second as usize - base][column / 64] >> (column % 64) & 1 == 1
            };
            if !pairs.iter().filter(|pair| !before(pair)).all(&mut tell) {
                return;
            }
            checkpoint();
        }
    }

    fn load(&mut self, list: &[TransferId], points: &Points) {
        for (at, &id) in list.iter().enumerate() {
            self.position[id as usize] = at as u32;
        }
        self.starts.clear();
        self.needs.clear();
        for turn in &points.turns {
            let [sending, applying] = points.of[turn.at as usize];
            let transfer = &self.schedule.transfers[list[turn.at as usize] as usize];
            if turn.reads {
                self.starts.push(self.needs.len());
                self.need(list, points, &transfer.start_after);
            }
            if turn.applies && applying != sending {
                self.starts.push(self.needs.len());
                self.needs.push(sending);
                self.need(list, points, &transfer.apply_after);
            }
        }
        self.starts.push(self.needs.len());
    }

    /// Appends the points of dependencies in this list.
    fn need(&mut self, list: &[TransferId], points: &Points, after: &[Dependency]) {
        for other in after.iter().filter(|other| other.lag() == 0) {
            let at = self.position[other.transfer() as usize];
            if list.get(at as usize) == Some(&other.transfer()) {
                self.needs.push(points.of[at as usize][usize::from(other.event() == Event::Applied)]);
            }
        }
    }

    /// Fills the rows of points `base..=end` for the columns from `base`.
    fn fill(&mut self, base: usize, end: usize) {
        self.rows.clear();
        for at in base..=end {
            let mut row = [0; BLOCK_WORDS];
            for &needed in &self.needs[self.starts[at]..self.starts[at + 1]] {
                let Some(column) = (needed as usize).checked_sub(base) else {
                    continue;
                };
                for (word, more) in row.iter_mut().zip(self.rows[column]) {
                    *word |= more;
                }
                if column < BLOCK_WORDS * 64 {
                    row[column / 64] |= 1 << (column % 64);
                }
            }
            self.rows.push(row);
        }
    }
}

fn describe(schedule: &Schedule, &OpenPair { lane, rank, ends: [first, second] }: &OpenPair) -> String {
    let does = |(id, _): AccessEnd| match schedule.transfers[id as usize].from == rank {
        true => format!("{} reads it", text::transfer(schedule, id)),
        false => format!("{} writes it", text::transfer(schedule, id)),
    };
    format!(
        "race: rank {} {}: {} and {}, but nothing makes the second wait for the first",
        rank,
        text::lane(schedule, lane),
        does(first),
        does(second)
    )
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::*;
    use super::*;
    use antiphon_model::schedule::Transfer;
    use proptest::prelude::*;

    fn run(schedule: &Schedule) -> Result<()> {
        let mut races = Races::new(schedule);
        (0..).zip(schedule.transfers_by_lane()).try_for_each(|(lane, list)| races.follow(lane, &list, &[]))?;
        races.finish()
    }

    #[test]
    fn a_dropped_dependency_is_a_race() {
        let (_, mut ring) = ring_all_reduce(4, 64, 1);
        assert_eq!(run(&ring), Ok(()));
        let id = ring.transfers.iter().position(|t| !t.start_after.is_empty()).unwrap();
        let (writer, from) = (ring.transfers[id].start_after[0].transfer(), ring.transfers[id].from);
        ring.transfers[id].start_after.clear();
        assert_has(
            &run(&ring).unwrap_err().message,
            &[
                &format!("race: rank {from} lane "),
                &format!("transfer {writer} (rank "),
                "phase 'reduce-scatter' step 0) writes it",
                &format!("transfer {id} (rank {from}"),
                "step 1) reads it",
            ],
        );
    }

    /// 0 writes at rank 1 what 2 sends on; between them a message of another lane goes from 1 to 3 and one back.
    #[test]
    fn messages_of_other_lanes_order() {
        let (_, mut line) = tree_all_reduce(4, 64, 1);
        line.lanes.push(line.lanes[0].clone());
        let template = line.transfers[0].clone();
        let sends = [(0, 1, 0, vec![]), (1, 3, 1, vec![0]), (3, 1, 1, vec![1]), (1, 2, 0, vec![2])];
        line.transfers = (0..)
            .zip(sends)
            .map(|(step, (from, to, lane, after))| Transfer {
                from,
                to,
                payload: lane.into(),
                step,
                start_after: after.into_iter().map(Into::into).collect(),
                ..template.clone()
            })
            .collect();
        assert_eq!(run(&line), Ok(()));
        // A dependency on an earlier chunk orders nothing.
        line.transfers[2].start_after = [Dependency::new(1, Event::Applied).lagging(1)].into_iter().collect();
        assert_has(&run(&line).unwrap_err().message, &["race: rank 1 lane 0", "transfer 0 (", "transfer 3 ("]);
    }

    #[test]
    fn barriers_order_phases_that_follow_them() {
        let (_, mut tree) = tree_all_reduce(4, 64, 1);
        let copies: Vec<usize> = (3..6).collect();
        tree.transfers[copies[0]].start_after.clear();
        assert_eq!(run(&tree), Ok(()), "the barrier is enough");
        tree.phases[1].barrier = false;
        assert_has(&run(&tree).unwrap_err().message, &["race: rank 3 lane 0", "transfer 0 (", "transfer 5 ("]);
    }

    /// A transfer inherits the barrier of any of its dependencies, not only the last.
    #[test]
    fn barriers_are_inherited_whatever_the_order_of_dependencies() {
        let (_, mut tree) = tree_all_reduce(4, 64, 1);
        tree.phases = vec![tree.phases[0].clone(), tree.phases[1].clone(), tree.phases[0].clone()];
        let template = tree.transfers[0].clone();
        let sends = [
            (3, 1, Op::Reduce, 0, vec![]),
            (1, 2, Op::Reduce, 0, vec![0]),
            // Behind the barrier, so after both.
            (0, 1, Op::Copy, 1, vec![]),
            (1, 2, Op::Copy, 2, vec![]),
        ];
        tree.transfers = (0..)
            .zip(sends)
            .map(|(step, (from, to, op, phase, after))| Transfer {
                from,
                to,
                op,
                phase,
                step,
                start_after: after.into_iter().map(Into::into).collect(),
                ..template.clone()
            })
            .collect();
        for needed in [[0, 2], [2, 0]] {
            tree.transfers[3].start_after = after(needed);
            assert_eq!(run(&tree), Ok(()), "{needed:?}");
        }
        tree.transfers[3].start_after = after([0]);
        assert!(run(&tree).is_err());
    }

    #[test]
    fn only_serial_reductions_may_be_unordered() {
        let (_, mut star) = star_reduce(4, 64);
        assert_eq!(run(&star), Ok(()));
        star.endpoint.serial_reductions = false;
        assert_has(&run(&star).unwrap_err().message, &["race: rank 2 lane 0", "transfer 0 (", "transfer 1 ("]);
    }

    #[test]
    fn what_is_being_sent_must_not_be_overwritten() {
        // Recursive doubling in place: both ranks send and receive the same lane at once.
        let (_, mut ring) = ring_all_reduce(2, 64, 1);
        ring.transfers.truncate(2);
        ring.transfers.iter_mut().for_each(|t| t.payload = (0..2).into());
        assert_has(&run(&ring).unwrap_err().message, &["reads it", "writes it"]);
    }

    #[test]
    fn a_copy_that_brings_nothing_new_may_meet_readers() {
        // Rank 1 sends to 2 and to 0; 2 sends it back to 1 meanwhile.
        let (fabric, mut line) = tree_broadcast(4, 64, 1);
        let there = line.transfers.iter().position(|t| (t.from, t.to) == (1, 2)).unwrap();
        let mut back = line.transfers[there].clone();
        (back.from, back.to, back.step, back.start_after) = (2, 1, 1, after([there as u32]));
        back.route = vec![fabric.link_between(2, 1).unwrap()].into();
        line.transfers.push(back);
        assert_has(&run(&line).unwrap_err().message, &["race: rank 1 lane 0"]);
        assert!(super::super::verify(&fabric, &line).is_ok());
        assert_eq!(antiphon_run::check_by_execution(&line, Some(1)), Ok(()));
    }

    #[test]
    fn long_lanes_stay_cheap() {
        // A line of 2000 ranks, reduced and broadcast 25 times over: 100k transfers in one lane.
        let (_, mut line) = tree_all_reduce(2000, 8000, 1);
        line.phases[1].barrier = false;
        let turn = line.transfers.clone();
        let mut last = turn.len() as u32 - 1;
        for round in 1..25u32 {
            for transfer in &turn {
                let mut transfer = transfer.clone();
                transfer.phase += 2 * round;
                let ahead = round * turn.len() as u32;
                transfer.start_after.iter_mut().for_each(|other| *other = other.of(other.transfer() + ahead));
                // The far end starts its turn when the last one has reached it.
                if transfer.from == 1999 {
                    transfer.start_after.push(last.into());
                }
                line.transfers.push(transfer);
            }
            last = line.transfers.len() as u32 - 1;
            line.phases.extend_from_within(0..2);
        }
        assert!(line.transfers.len() > 90_000);
        assert_eq!(run(&line), Ok(()));
    }

    /// The definition: all pairs of accesses, and all that must come before what, event by event.
    fn races_by_definition(schedule: &Schedule, repeats: &[u32]) -> bool {
        let meet = |a: usize, b: usize| {
            let [a, b] = [a, b].map(|id| &schedule.transfers[id]);
            a.lanes().any(|lane| b.lanes().any(|other| other == lane))
        };
        // A transfer starts, is sent, need no longer wait at its receiver, is applied.
        const START: usize = 0;
        const SENT: usize = 1;
        const RELEASED: usize = 2;
        const APPLIED: usize = 3;
        let n = schedule.transfers.len();
        let mut before = vec![vec![false; 4 * n]; 4 * n];
        for (id, transfer) in schedule.transfers.iter().enumerate() {
            (0..3).for_each(|event| before[4 * id + event][4 * id + event + 1] = true);
            let starts = transfer.start_after.iter().map(|other| (other, START));
            for (other, event) in starts.chain(transfer.apply_after.iter().map(|other| (other, RELEASED))) {
                let reached = if other.event() == Event::Sent { SENT } else { APPLIED };
                before[4 * other.transfer() as usize + reached][4 * id + event] |= other.lag() == 0;
            }
            for (earlier, other) in schedule.transfers.iter().enumerate() {
                let barrier = schedule.phases[transfer.phase as usize].barrier && other.phase < transfer.phase;
                before[4 * earlier + APPLIED][4 * id + START] |= barrier;
            }
        }
        for k in 0..4 * n {
            for i in (0..4 * n).filter(|&i| i != k) {
                if before[i][k] {
                    let [from, to] = before.get_disjoint_mut([k, i]).unwrap();
                    to.iter_mut().zip(from).for_each(|(to, from)| *to |= *from);
                }
            }
        }
        // Rank, begin, end, whether it writes, and whether it adds.
        let accesses: Vec<_> = (0..n)
            .flat_map(|id| {
                let transfer = &schedule.transfers[id];
                let writes = !repeats.contains(&(id as u32));
                let read = (id, transfer.from, 4 * id + START, 4 * id + SENT, false, false);
                let adds = writes && transfer.op == Op::Reduce;
                [read, (id, transfer.to, 4 * id + RELEASED, 4 * id + APPLIED, writes, adds)]
            })
            .collect();
        accesses.iter().enumerate().any(|(at, x)| {
            accesses[at + 1..].iter().any(|y| {
                let commute = x.5 && y.5 && schedule.endpoint.serial_reductions;
                let conflict = x.0 != y.0 && meet(x.0, y.0) && x.1 == y.1 && (x.4 || y.4) && !commute;
                conflict && !before[x.3][y.2] && !before[y.3][x.2]
            })
        })
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(
            picks in prop::collection::vec((0u32..4, 1u32..4, any::<bool>(), any::<u16>(), 0u32..6, 0u32..6), 1..14),
            serial in any::<bool>(),
            descending in any::<bool>(),
            barriers in any::<[bool; 3]>(),
            waits in prop::collection::vec((any::<prop::sample::Index>(), 0u32..14, any::<[bool; 3]>()), 0..8),
        ) {
            let (_, mut schedule) = tree_all_reduce(4, 64, 1);
            schedule.endpoint.serial_reductions = serial;
            schedule.phases.extend_from_within(0..1);
            for (phase, barrier) in schedule.phases.iter_mut().zip(barriers) {
                phase.barrier = barrier;
            }
            let template = schedule.transfers[0].clone();
            schedule.transfers.clear();
            let (mut phase, mut repeats) = (0, vec![]);
            schedule.lanes.push(schedule.lanes[0].clone());
            for (id, &(from, hop, reduce, needs, kind, lanes)) in picks.iter().enumerate() {
                phase = (phase + u32::from(kind == 2)).min(2);
                let mut transfer = template.clone();
                (transfer.from, transfer.to) = (from, (from + hop) % 4);
                (transfer.phase, transfer.step) = (phase, id as u32);
                transfer.op = if reduce { Op::Reduce } else { Op::Copy };
                // Mostly one lane, so that others order what it leaves open.
                transfer.payload = [0..1, 0..1, 0..1, 1..2, 1..2, 0..2][lanes as usize].clone().into();
                transfer.start_after = (0..id as u32).filter(|&a| needs >> a & 1 == 1).map(Into::into).collect();
                if descending {
                    transfer.start_after.reverse();
                }
                schedule.transfers.push(transfer);
                if kind > 3 && !reduce {
                    repeats.push(id as u32);
                }
            }
            for (waiting, other, [sent, at_receiver, late]) in waits {
                let id = waiting.index(schedule.transfers.len());
                if (other as usize) < id {
                    let event = if sent { Event::Sent } else { Event::Applied };
                    let dependency = Dependency::new(other, event).lagging(u32::from(late));
                    let transfer = &mut schedule.transfers[id];
                    match at_receiver {
                        true => transfer.apply_after.push(dependency),
                        false => transfer.start_after.push(dependency),
                    }
                }
            }
            let mut races = Races::new(&schedule);
            for (lane, list) in schedule.transfers_by_lane().iter().enumerate() {
                let repeats: Vec<u32> = repeats.iter().copied().filter(|id| list.contains(id)).collect();
                prop_assert_eq!(races.follow(lane, list, &repeats), Ok(()));
            }
            let raced = races.finish().is_err();
            prop_assert_eq!(raced, races_by_definition(&schedule, &repeats));
        }
    }
}
