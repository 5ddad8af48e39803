//! Many spanning trees at once, each with its part of the data: it reduces them to its root, or broadcasts, or both, in
//! pieces, without a barrier.

use super::timetable::Timed;
use super::{Table, Timetable, TreeWork};
use crate::algorithm::Request;
use crate::algorithm::estimate::Recurrence;
use crate::algorithm::soonest::{EVENTS_OF_MANY, Soonest};
use antiphon_base::error::Result;
use antiphon_base::options::{Default::Derived, Opt};
use antiphon_base::parameter::Value;
use antiphon_base::units::Bytes;
use antiphon_model::collective::Kind;
use antiphon_model::schedule::{Builder, Issue, Pacing, Schedule, TransferId};

/// An option of algorithms that [`stream`].
pub(in crate::algorithm) const PIECE: Opt =
    Opt::bytes("piece", Derived("the best by the slots it takes"), "One piece of one tree.").at_least(4);

/// Most edges of all trees together: some seconds of work.
const MOST_EDGES: u64 = 1 << 20;

/// Most trees worth considering: with more, pieces would be smaller than half the smallest packet.
pub(in crate::algorithm) fn most(request: &Request) -> usize {
    let pieces = request.bytes.div_ceil(smallest(request)) * 2;
    pieces.min(MOST_EDGES / u64::from(request.ranks())).max(1) as usize
}

/// How many of `count` trees to consider: few for little data, all in the long run.
pub(in crate::algorithm) fn prefixes(count: usize) -> impl Iterator<Item = usize> {
    (0..usize::BITS).map(|exponent| 1 << exponent).take_while(move |&few| few < count).chain([count])
}

/// The schedule of the table that is soonest through by the recurrence, in the best number of pieces.
///
/// # Errors
/// As [`antiphon_model::schedule::Builder::finish`].
pub(in crate::algorithm) fn stream<'a>(
    request: &Request,
    tables: impl IntoIterator<Item = Table<'a>>,
) -> Result<Schedule> {
    let given = request.options.given("piece").map(Value::whole);
    let (table, rounds) = best(request, tables, given);
    lower(request, &table, request.bytes, rounds, |_, _| {})
}

/// The numbers of rounds that are tried of a timetable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::algorithm) enum Tried {
    /// From few on, until more are hardly better.
    All,
    /// Of many packets those of a search by sections, as if from the best on times only rose: within 0.2 % of all, sooner.
    Some,
}

/// The schedule of the timetable that is through soonest, in the best number of pieces.
///
/// # Errors
/// As [`antiphon_model::schedule::Builder::finish`].
///
/// # Panics
/// Without timetables.
pub(in crate::algorithm) fn stream_timed<'a>(
    request: &Request,
    timetables: &'a [Timetable<'a>],
    tried: Tried,
) -> Result<Schedule> {
    let given = request.options.given("piece").map(Value::whole);
    let mut looks = Looks { request, all: vec![], best: None };
    for timetable in timetables {
        request.expect(timetable.messages() as u64, 0)?;
        let counts = counts(request, timetable, given);
        let is_long = timetable.messages() > FEW_MESSAGES
            && counts.last().is_some_and(|&most| timetable.packets(most) > MOST_SIMULATED);
        match tried {
            Tried::Some if is_long => looks.by_sections(timetable, &counts)?,
            _ => looks.rising(timetable, &counts)?,
        }
    }
    let (timed, timetable) = looks.best.expect("a timetable");
    if given.is_none()
        && timetable.packets(timed.rounds) <= MOST_SIMULATED
        && let Some(soonest) = simulated(request, &looks.all, timed.time_ps)?
    {
        return Ok(soonest);
    }
    lower_timed(request, timetable, &timed)
}

/// Timetables in so many rounds that have been timed, and the best.
struct Looks<'a> {
    request: &'a Request<'a>,
    all: Vec<Look<'a>>,
    best: Option<(Timed<'a>, &'a Timetable<'a>)>,
}

impl<'a> Looks<'a> {
    /// The time of so many rounds.
    fn at(&mut self, timetable: &'a Timetable<'a>, rounds: u64) -> Result<u128> {
        self.request.watch.step(0, 1)?;
        let timed = timetable.timed(rounds);
        let time_ps = timed.time_ps;
        self.all.push(Look { time_ps, timetable, rounds });
        if self.best.as_ref().is_none_or(|best| better(time_ps, best.0.time_ps)) {
            self.best = Some((timed, timetable));
        }
        Ok(time_ps)
    }

    /// From few rounds on, until more are hardly better.
    fn rising(&mut self, timetable: &'a Timetable<'a>, counts: &[u64]) -> Result<()> {
        let (mut own, mut worse) = (u128::MAX, 0);
        for &rounds in counts {
            let time_ps = self.at(timetable, rounds)?;
            // One round alone, which leaves no room for others, says nothing of more.
            if rounds > 1 {
                worse = if better(time_ps, own) { 0 } else { worse + 1 };
                own = if worse == 0 { time_ps } else { own };
            }
            if worse == PATIENCE {
                break;
            }
        }
        Ok(())
    }

    /// The best of a part of the numbers, which has it if times fall until then and rise afterwards; without one round alone (J. Kiefer,
    /// "Sequential minimax search for a maximum", 1953).
    fn by_sections(&mut self, timetable: &'a Timetable<'a>, counts: &[u64]) -> Result<()> {
        let counts = if counts.len() > 1 { &counts[usize::from(counts[0] == 1)..] } else { counts };
        let mut times: Vec<Option<u128>> = vec![None; counts.len()];
        let mut time = |at: usize| -> Result<u128> {
            let time_ps = times[at].map_or_else(|| self.at(timetable, counts[at]), Ok)?;
            times[at] = Some(time_ps);
            Ok(time_ps)
        };
        let (mut first, mut last) = (0, counts.len() - 1);
        while last - first > 2 {
            let part = ((last - first) * 3 / 8).max(1);
            match time(first + part)? < time(last - part)? {
                true => last -= part,
                false => first += part,
            }
        }
        (first..=last).try_for_each(|at| time(at).map(drop))
    }
}

/// The schedule of a timetable as it was timed.
fn lower_timed(request: &Request, timetable: &Timetable, timed: &Timed) -> Result<Schedule> {
    let Timed { table, moments, rounds, .. } = timed;
    lower(request, table, timetable.bytes(), *rounds, |builder, first| moments.pace(table, *rounds, builder, first))
}

/// A timetable in so many rounds, and its time as it says.
struct Look<'a> {
    time_ps: u128,
    timetable: &'a Timetable<'a>,
    rounds: u64,
}

/// Whether a time is better than another one by enough.
fn better(time_ps: u128, than: u128) -> bool {
    time_ps < than - than / WORTH
}

/// Of those whose times are near the best, as many as are soon simulated, the schedule that is through soonest.
fn simulated(request: &Request, looks: &[Look], best_ps: u128) -> Result<Option<Schedule>> {
    let mut order: Vec<&Look> = looks.iter().filter(|look| look.time_ps <= best_ps + best_ps / 2).collect();
    order.sort_by_key(|look| look.time_ps);
    let mut left = MOST_SIMULATED;
    let mut soonest: Option<Soonest> = None;
    for Look { timetable, rounds, .. } in order {
        let Some(rest) = left.checked_sub(timetable.packets(*rounds)) else { continue };
        left = rest;
        let schedule = lower_timed(request, timetable, &timetable.timed(*rounds))?;
        match &mut soonest {
            Some(soonest) => soonest.offer(schedule)?,
            None => soonest = Some(Soonest::new(request, schedule, EVENTS_OF_MANY)?),
        }
    }
    Ok(soonest.map(Soonest::into_schedule))
}

/// A table is better that saves this part of the time.
const WORTH: u128 = 1000;
/// Most packets on links that are simulated, of all choices together: tenths of a second.
const MOST_SIMULATED: u64 = 1 << 18;
/// Most messages of all rounds, where rounds are more than a few.
const MOST_MESSAGES: usize = 1 << 24;
/// Of up to so many messages of a round all numbers of rounds are soon tried.
const FEW_MESSAGES: usize = 1 << 11;
/// Every so many messages of a round one number of rounds more is left out between two.
const MANY_MESSAGES: usize = 1 << 16;
/// Numbers of rounds that are tried after the best, each half as many again as the one before or a third more.
const PATIENCE: usize = 3;

/// Numbers of rounds worth a look, rising; that of `given` pieces if so.
fn counts(request: &Request, timetable: &Timetable, given: Option<Bytes>) -> Vec<u64> {
    let part = timetable.bytes().div_ceil(timetable.trees().len() as u64);
    if let Some(piece) = given {
        return vec![rounds_of(request, part, piece)].into_iter().filter(|&rounds| timetable.takes(rounds)).collect();
    }
    // So many messages take seconds to simulate where no periods can be skipped.
    let bearable = (MOST_MESSAGES / timetable.messages().max(1)).max(64) as u64;
    let (first, most) = timetable.bounds(part.div_ceil(smallest(request)), bearable);
    let steps = (0..62).flat_map(|exponent| [2u64 << exponent, 3 << exponent]);
    let counts = [1].into_iter().chain(steps.take_while(|&rounds| rounds < most)).chain((most > 1).then_some(most));
    let counts = counts.filter(|&rounds| rounds >= first);
    // Fewer where a look takes long.
    counts.step_by(1 + (timetable.messages() / MANY_MESSAGES).min(5)).collect()
}

/// The schedule of a table whose trees move so many bytes, in so many rounds; `pace` may make its messages, from the transfer
/// with a number on, wait for more than their data.
fn lower(
    request: &Request,
    table: &Table,
    bytes: Bytes,
    rounds: u64,
    pace: impl FnOnce(&mut Builder, TransferId),
) -> Result<Schedule> {
    let mut builder = request.builder();
    (builder.schedule.endpoint.issue, builder.schedule.endpoint.pacing) = (Issue::Links, Pacing::Pipelined);
    let pieces = table.pieces((bytes, request.align), rounds);
    table.lanes(&mut builder, |tree| pieces[tree], rounds);
    if request.collective.kind == Kind::AllToAll && request.matrix.is_none() {
        // What ranks have for themselves.
        for rank in 0..request.ranks() {
            builder.shard_block(rank, request.shard(rank), 1);
        }
    }
    builder.phase(
        match (request.collective.kind, table.work) {
            (Kind::AllToAll, _) => Kind::AllToAll.name(),
            (_, TreeWork::Phases | TreeWork::Overlapped) => "reduce and broadcast",
            (_, TreeWork::Reduce) => "reduce",
            (_, TreeWork::Broadcast) => "broadcast",
        },
        false,
    );
    let first = builder.schedule.transfers.len() as TransferId;
    table.send(&mut builder, table.work.ops())?;
    pace(&mut builder, first);
    builder.finish()
}

/// The table that is through soonest, and the number of its rounds; with pieces of `given` bytes if so.
///
/// # Panics
/// Without tables.
fn best<'a>(request: &Request, tables: impl IntoIterator<Item = Table<'a>>, given: Option<Bytes>) -> (Table<'a>, u64) {
    let mut best: Option<(u128, Table, u64)> = None;
    for table in tables {
        let estimate = Recurrence::new(request, &table);
        let mut found = None;
        for rounds in rounds(request, table.trees.len(), given) {
            let least = found.or(best.as_ref().map(|best| (best.0, best.2)));
            if least.is_some_and(|(time, _)| estimate.least(rounds) >= time) {
                continue;
            }
            let time = estimate.time(rounds);
            if least.is_none_or(|least| time < least.0) {
                found = Some((time, rounds));
            }
        }
        if let Some((time, rounds)) = found {
            best = Some((time, table, rounds));
        }
    }
    let (_, table, rounds) = best.expect("at least one table");
    (table, rounds)
}

/// Numbers of rounds worth a look: few, then whole packets.
fn rounds(request: &Request, trees: usize, given: Option<Bytes>) -> Vec<u64> {
    let most = request.bytes.div_ceil(trees as u64);
    let of = |piece: Bytes| rounds_of(request, most, piece);
    if let Some(piece) = given {
        return vec![of(piece)];
    }
    let steps = (0..32).flat_map(|exponent| [2u64 << exponent, 3 << exponent]);
    let payload = request.system.packet.payload_bytes;
    let packets = [1, 2].into_iter().chain(steps.clone()).map(|half| of(payload.saturating_mul(half) / 2));
    let mut rounds: Vec<u64> = [1].into_iter().chain(steps.take(12)).chain(packets).collect();
    rounds.retain(|&rounds| rounds == 1 || rounds <= of(smallest(request)));
    rounds.sort_unstable();
    rounds.dedup();
    rounds
}

/// Rounds in which a tree's part of the data goes in pieces of about `piece` bytes.
fn rounds_of(request: &Request, part: Bytes, piece: Bytes) -> u64 {
    part.div_ceil(request.align.up(piece.min(part).max(1))).max(1)
}

/// Payload of the smallest packet; more if so much cannot be cut off.
fn smallest(request: &Request) -> Bytes {
    let format = &request.system.packet;
    let payload = if format.fixed_size { format.payload_bytes } else { format.flit_bytes };
    if request.align.is_least() { payload } else { payload.max(request.align.bytes()) }
}
