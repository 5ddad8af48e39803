//! Every contribution arrives, and exactly once: schedule order, followed symbolically.
//!
//! What a rank holds of a lane is the set of ranks whose data are summed up in it. All chunks of a
//! lane go the same way, so one is followed. In collectives that only copy there is one
//! contributor to a lane, so the set is a single bit: holds it or not.

use super::{participation, text};
use antiphon_base::error::Result;
use antiphon_base::watch::Watch;
use antiphon_model::collective::Kind;
use antiphon_model::schedule::{Held, ListTurn, Op, Schedule, TransferId};
use fixedbitset::FixedBitSet;
use std::collections::BTreeMap;

/// Follows every lane with data. `followed` is called with each lane and its copies that bring a rank data it already
/// has, in schedule order.
///
/// Complexity: O(lane transfers * ranks / 64) for reducing collectives, O(lane transfers)
/// otherwise, and O(lanes * ranks that need them).
///
/// # Errors
/// [`antiphon_base::error::Code::NotProven`] with the first contribution missing or counted twice, or the
/// first rank that sends what it does not have.
pub fn check(
    schedule: &Schedule,
    by_lane: &[Vec<TransferId>],
    watch: Watch,
    followed: &mut dyn FnMut(usize, &[TransferId]),
) -> Result<()> {
    let mut holdings = Holdings::new(schedule);
    let held = Held::of(schedule);
    let mut repeats = vec![];
    for (lane, list) in by_lane.iter().enumerate() {
        watch.at(lane, by_lane.len())?;
        if schedule.lanes[lane].bytes == 0 {
            continue;
        }
        holdings.start(lane);
        for turn in held.turns(list) {
            holdings.turn(lane, list, turn, &mut repeats)?;
        }
        followed(lane, &repeats);
        repeats.clear();
        if let Some(rank) = holdings.needing(lane).find(|&rank| !holdings.complete(rank)) {
            let missing = holdings.missing(lane, rank);
            let other = missing.iter().find(|&&other| other != rank).unwrap_or(&missing[0]);
            let why = Trail::new(schedule, *other, list, None).why_not_at(rank);
            return text::not_proven(format!("{}; {why}", holdings.shortfall(lane, rank)));
        }
        holdings.reset();
    }
    Ok(())
}

/// What every rank holds of the lane being followed.
struct Holdings<'a> {
    schedule: &'a Schedule,
    reduces: bool,
    takes_part: Vec<bool>,
    /// Set of every rank, and what it is at the start of a lane.
    sets: Vec<FixedBitSet>,
    initial: Vec<FixedBitSet>,
    /// The complete set.
    full: FixedBitSet,
    /// Transfer that last wrote each rank's set, and the ranks written, so that a lane costs only
    /// what it touches.
    written_by: Vec<Option<TransferId>>,
    touched: Vec<u32>,
    /// The sets that transfers held at their receivers bring.
    under_way: BTreeMap<TransferId, FixedBitSet>,
}

impl<'a> Holdings<'a> {
    fn new(schedule: &'a Schedule) -> Self {
        let ranks = schedule.participants() as usize;
        let reduces = schedule.collective.kind.reduces();
        let takes_part = participation(schedule);
        let bits = if reduces { ranks } else { 1 };
        let mut initial = vec![FixedBitSet::with_capacity(bits); ranks];
        let mut full = FixedBitSet::with_capacity(bits);
        if reduces {
            for rank in (0..ranks).filter(|&rank| takes_part[rank]) {
                initial[rank].insert(rank);
                full.insert(rank);
            }
        } else {
            full.insert(0);
        }
        Holdings {
            schedule,
            reduces,
            takes_part,
            sets: initial.clone(),
            initial,
            full,
            written_by: vec![None; ranks],
            touched: vec![],
            under_way: BTreeMap::new(),
        }
    }

    /// The rank that starts with a lane, in collectives that only copy.
    fn origin(&self, lane: usize) -> u32 {
        match self.schedule.collective.kind {
            Kind::Broadcast => self.schedule.collective.root,
            _ => self.schedule.lanes[lane].source,
        }
    }

    fn start(&mut self, lane: usize) {
        if !self.reduces {
            let origin = self.origin(lane);
            self.sets[origin as usize].insert(0);
            self.touched.push(origin);
        }
    }

    fn reset(&mut self) {
        for rank in self.touched.drain(..) {
            let rank = rank as usize;
            self.sets[rank].clone_from(&self.initial[rank]);
            self.written_by[rank] = None;
        }
    }

    fn complete(&self, rank: u32) -> bool {
        self.sets[rank as usize] == self.full
    }

    /// Ranks that must end with a lane.
    fn needing(&self, lane: usize) -> impl Iterator<Item = u32> + '_ {
        let range = match self.schedule.collective.kind {
            Kind::AllReduce | Kind::AllGather | Kind::Broadcast => 0..self.schedule.ranks,
            Kind::Reduce => self.schedule.collective.root..self.schedule.collective.root + 1,
            Kind::ReduceScatter | Kind::AllToAll => {
                let owner = self.schedule.lanes[lane].owner;
                owner..owner + 1
            }
        };
        range.filter(|&rank| self.takes_part[rank as usize])
    }

    /// Reads or applies a transfer, or both; notes copies that bring nothing new.
    fn turn(&mut self, lane: usize, list: &[TransferId], turn: ListTurn, repeats: &mut Vec<TransferId>) -> Result<()> {
        let id = list[turn.at as usize];
        let from = self.schedule.transfers[id as usize].from as usize;
        match (turn.reads, turn.applies) {
            (true, true) => {
                if self.apply(lane, list, id)? {
                    repeats.push(id);
                }
            }
            (true, false) => drop(self.under_way.insert(id, self.sets[from].clone())),
            // It brings what its sender held when it was sent.
            (false, _) => {
                let sent = self.under_way.remove(&id).expect("it was read before");
                let own = std::mem::replace(&mut self.sets[from], sent);
                let applied = self.apply(lane, list, id);
                self.sets[from] = own;
                applied?;
            }
        }
        Ok(())
    }

    /// Applies a transfer; whether it is a copy that brings nothing new.
    fn apply(&mut self, lane: usize, list: &[TransferId], id: TransferId) -> Result<bool> {
        let schedule = self.schedule;
        let transfer = &schedule.transfers[id as usize];
        let fail = |rank: u32, what: String, other: String| {
            let (lane, moment) = (text::lane(schedule, lane), text::moment(schedule, id));
            text::not_proven(format!("rank {rank} {lane}: {what} in {moment} (transfer {id} {other})"))
        };
        if !self.reduces && transfer.op == Op::Reduce {
            let kind = schedule.collective.kind.name();
            let what = format!("data is added to its own, but {kind} only copies,");
            return fail(transfer.to, what, format!("from rank {}", transfer.from));
        }
        if !self.reduces && self.sets[transfer.from as usize].is_clear() {
            let origin = self.origin(lane);
            let why = Trail::new(schedule, origin, list, Some(id)).why_not_at(transfer.from);
            return fail(
                transfer.from,
                "sends data it does not have".into(),
                format!("to rank {}; {why}", transfer.to),
            );
        }
        if self.written_by[transfer.to as usize].replace(id).is_none() {
            self.touched.push(transfer.to);
        }
        let Ok([from, to]) = self.sets.get_disjoint_mut([transfer.from as usize, transfer.to as usize]) else {
            // To itself, which `Schedule::check` refuses.
            return Ok(true);
        };
        if transfer.op == Op::Copy {
            let repeats = from == to;
            to.clone_from(from);
            return Ok(repeats);
        }
        // Testing for intersection is much faster than finding the common element, so test first.
        if !from.is_disjoint(to)
            && let Some(rank) = from.intersection(to).next()
        {
            let what = format!("contribution of rank {rank} is counted twice");
            let trail = Trail::new(schedule, rank as u32, list, Some(id));
            let first = match trail.came[transfer.to as usize] {
                Some(first) => format!(", as it had come with {}", text::transfer(schedule, first)),
                None => String::new(),
            };
            return fail(transfer.to, what, format!("from rank {}{first}", transfer.from));
        }
        to.union_with(from);
        Ok(false)
    }

    /// The ranks whose data an incomplete rank ends without.
    fn missing(&self, lane: usize, rank: u32) -> Vec<u32> {
        if !self.reduces {
            return vec![self.origin(lane)];
        }
        let holds = |other: u32| self.sets[rank as usize].contains(other as usize);
        (0..self.schedule.ranks).filter(|&other| self.takes_part[other as usize] && !holds(other)).collect()
    }

    /// What an incomplete rank ends without.
    fn shortfall(&self, lane: usize, rank: u32) -> String {
        let what = if self.reduces { "contribution" } else { "data" };
        let missing = text::ranks(&self.missing(lane, rank));
        let lane = text::lane(self.schedule, lane);
        let last = match self.written_by[rank as usize] {
            Some(id) => format!("last written in {} (transfer {id})", text::moment(self.schedule, id)),
            None => "never written".into(),
        };
        format!("rank {rank} ends without the {what} of {missing} in {lane}, {last}")
    }
}

/// The way of a rank's initial data within a lane, followed once more for a counter-example.
struct Trail<'a> {
    schedule: &'a Schedule,
    of: u32,
    holds: Vec<bool>,
    /// The transfer with which it came to each rank last, and the one that overwrote it there since.
    came: Vec<Option<TransferId>>,
    gone: Vec<Option<TransferId>>,
    /// The rank that it came to last.
    last: u32,
}

impl<'a> Trail<'a> {
    /// Up to a transfer, or to the end.
    fn new(schedule: &'a Schedule, of: u32, list: &[TransferId], until: Option<TransferId>) -> Self {
        let ranks = schedule.participants() as usize;
        let (holds, came, gone) = (vec![false; ranks], vec![None; ranks], vec![None; ranks]);
        let mut trail = Trail { schedule, of, holds, came, gone, last: of };
        trail.holds[of as usize] = true;
        for &id in list.iter().take_while(|&&id| Some(id) != until) {
            let transfer = &schedule.transfers[id as usize];
            let (brings, to) = (trail.holds[transfer.from as usize], transfer.to as usize);
            if brings && !trail.holds[to] {
                (trail.holds[to], trail.came[to], trail.gone[to], trail.last) = (true, Some(id), None, transfer.to);
            } else if !brings && trail.holds[to] && transfer.op == Op::Copy {
                (trail.holds[to], trail.gone[to]) = (false, Some(id));
            }
        }
        trail
    }

    /// Why a rank does not hold it: something overwrote it, there or where it came last, or nobody sends it on.
    fn why_not_at(&self, rank: u32) -> String {
        let at = if self.gone[rank as usize].is_some() { rank } else { self.last };
        let what = if self.schedule.collective.kind.reduces() { "contribution" } else { "data" };
        let since = match self.came[at as usize] {
            Some(id) => format!("after {} (transfer {id})", text::moment(self.schedule, id)),
            None => "from the start".into(),
        };
        let held = format!("the {what} of rank {} is last held by rank {at}, {since}", self.of);
        let overwritten =
            self.gone[at as usize].map(|id| format!("{} overwrites it", text::transfer(self.schedule, id)));
        match overwritten {
            Some(what) if at == rank => format!("{held}, and {what}"),
            Some(what) => format!("{held}, and nobody sends it on before {what}"),
            None => format!("{held}, and nobody sends it on to rank {rank}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::*;
    use super::*;

    fn run(schedule: &Schedule) -> Result<()> {
        check(schedule, &schedule.transfers_by_lane(), Watch::default(), &mut |_, _| {})
    }

    fn broken(schedule: &Schedule, change: impl Fn(&mut Schedule)) -> String {
        assert_eq!(run(schedule), Ok(()));
        let mut schedule = schedule.clone();
        change(&mut schedule);
        run(&schedule).unwrap_err().message
    }

    #[test]
    fn counted_twice() {
        let (_, ring) = ring_all_reduce(4, 64, 1);
        // The first transfer of the all-gather brings the sum to a rank that has added before.
        let id = ring.transfers.iter().position(|t| t.op == Op::Copy).unwrap();
        let (from, to, lane) = (ring.transfers[id].from, ring.transfers[id].to, ring.transfers[id].payload.first());
        assert_has(
            &broken(&ring, |s| s.transfers[id].op = Op::Reduce),
            &[
                &format!("rank {to} lane {lane} (bytes {}..{}): contribution of rank", lane * 16, lane * 16 + 16),
                &format!("is counted twice in phase 'all-gather' step 0 (transfer {id} from rank {from})"),
            ],
        );
    }

    #[test]
    fn missing_contribution() {
        let (_, tree) = tree_all_reduce(4, 64, 2);
        let id = tree.transfers.iter().position(|t| t.op == Op::Copy && t.to == 3).unwrap();
        assert_has(
            &broken(&tree, |s| drop(s.transfers.remove(id))),
            &[
                "rank 3 ends without the contribution of ranks 0, 1, 2 in lane 0 (bytes 0..64), never written",
                "; the contribution of rank 0 is last held by rank ",
                ", and nobody sends it on to rank 3",
            ],
        );
        let id = tree.transfers.iter().position(|t| t.from == 3).unwrap();
        assert_has(
            &broken(&tree, |s| drop(s.transfers.remove(id))),
            &[
                "rank 0 ends without the contribution of rank 3 in lane 0",
                "last written in phase 'reduce' step",
                "the contribution of rank 3 is last held by rank 3, from the start, and nobody sends it on before transfer ",
            ],
        );
    }

    #[test]
    fn copying_collectives() {
        let (_, broadcast) = tree_broadcast(4, 64, 1);
        assert_has(
            &broken(&broadcast, |s| s.transfers[0].op = Op::Reduce),
            &["data is added to its own, but broadcast only copies, in phase 'broadcast' step 0 (transfer 0 from rank"],
        );
        let last = broadcast.transfers.len() - 1;
        let (from, to) = (broadcast.transfers[last].from, broadcast.transfers[last].to);
        assert_has(
            &broken(&broadcast, |s| s.transfers[last].from = to),
            &[
                &format!("rank {to} lane 0 (bytes 0..64): sends data it does not have"),
                &format!("(transfer {last} to rank"),
            ],
        );
        assert_has(
            &broken(&broadcast, |s| s.transfers[last].to = from),
            &[&format!("rank {to} ends without the data of rank {}", broadcast.collective.root)],
        );
        let (_, gather) = ring_all_gather(4, 64);
        assert_has(&broken(&gather, |s| s.lanes[2].source = 1), &["rank 2 lane 2", "does not have"]);
        let (_, direct) = direct_all_to_all(3, 60);
        let id = direct.lanes.iter().position(|l| (l.source, l.owner) == (1, 2)).unwrap();
        let id = direct.transfers.iter().position(|t| t.payload.first() == id as u32).unwrap();
        assert_has(
            &broken(&direct, |s| drop(s.transfers.remove(id))),
            &["rank 2 ends without the data of rank 1", "never written"],
        );
    }

    #[test]
    fn excluded_ranks_add_nothing_and_need_nothing() {
        let (_, mut tree) = tree_all_reduce(4, 64, 1);
        tree.excluded = vec![3];
        assert_eq!(run(&tree), Ok(()));
        tree.transfers.retain(|t| t.to != 3);
        assert_eq!(run(&tree), Ok(()));
    }

    #[test]
    fn sets_span_words() {
        let (_, mut ring) = ring_all_reduce(130, 520, 1);
        assert_eq!(run(&ring), Ok(()));
        ring.excluded = vec![0, 64, 129];
        assert_eq!(run(&ring), Ok(()));
    }
}
