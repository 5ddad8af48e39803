//! Many spanning trees at once, each with its part of the data: it reduces them to its root, or broadcasts, or both, in
//! pieces, without a barrier.

use super::timetable::Timed;
use super::{Table, Timetable, Work};
use crate::algorithm::Request;
use crate::algorithm::estimate::Recurrence;
use crate::error::Result;
use crate::options::{Default::Derived, Opt};
use crate::parameter::Value;
use crate::schedule::{Issue, Pacing, Schedule};
use crate::units::Bytes;

/// Options of algorithms that [`stream`].
pub(in crate::algorithm) const OPTIONS: &[Opt] =
    &[Opt::bytes("piece", Derived("the best by the slots it takes"), "One piece of one tree.").at_least(4)];

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
/// As [`crate::schedule::Builder::finish`].
pub(in crate::algorithm) fn stream<'a>(
    request: &Request,
    tables: impl IntoIterator<Item = Table<'a>>,
) -> Result<Schedule> {
    let given = request.options.given("piece").map(Value::whole);
    let (table, rounds) = best(request, tables, given);
    lower(request, &table, rounds)
}

/// The schedule of the timetable that is through soonest, in the best number of pieces.
///
/// # Errors
/// As [`crate::schedule::Builder::finish`].
///
/// # Panics
/// Without timetables.
pub(in crate::algorithm) fn stream_timed(request: &Request, timetables: &[Timetable]) -> Result<Schedule> {
    let given = request.options.given("piece").map(Value::whole);
    let mut best: Option<Timed> = None;
    for timetable in timetables {
        let trees = timetable.trees().len();
        let counts = match given {
            Some(_) => rounds(request, trees, given),
            None => {
                let most = request.bytes.div_ceil(trees as u64).div_ceil(smallest(request)).max(1);
                let steps = (0..64u32).flat_map(|exponent| [1u64 << (exponent / 2) << (exponent % 2), 3 << exponent / 2]);
                let mut steps: Vec<u64> = steps.take_while(|&rounds| rounds < most).chain([most]).collect();
                steps.sort_unstable();
                steps.dedup();
                steps
            }
        };
        // From few rounds on, until more are worse.
        let mut worse = 0;
        let mut own = u128::MAX;
        for rounds in counts {
            let timed = timetable.timed(rounds);
            worse = if timed.time_ps < own { 0 } else { worse + 1 };
            own = own.min(timed.time_ps);
            if best.as_ref().is_none_or(|best| timed.time_ps < best.time_ps) {
                best = Some(timed);
            }
            if worse == 3 {
                break;
            }
        }
    }
    let Timed { table, rounds, time_ps } = best.expect("a timetable");
    if std::env::var_os("TRACE").is_some() {
        eprintln!("trees {} rounds {rounds} predicted {:.4} ms height {:?}", table.trees.len(), time_ps as f64 / 1e9, table.trees.iter().map(|t| t.height()).max());
    }
    lower(request, &table, rounds)
}

/// The schedule of a table in so many rounds.
fn lower(request: &Request, table: &Table, rounds: u64) -> Result<Schedule> {
    let mut builder = request.builder();
    (builder.schedule.endpoint.issue, builder.schedule.endpoint.pacing) = (Issue::Links, Pacing::Pipelined);
    table.lanes(&mut builder, |tree| table.piece(tree, request.bytes, rounds), rounds);
    builder.phase(
        match table.work {
            Work::Phases | Work::Overlapped => "reduce and broadcast",
            Work::Reduce => "reduce",
            Work::Broadcast => "broadcast",
        },
        false,
    );
    table.send(&mut builder, table.work.ops())?;
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
    let of = |piece: Bytes| most.div_ceil(piece.clamp(4, most.max(4)).next_multiple_of(4)).max(1);
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

/// Payload of the smallest packet.
fn smallest(request: &Request) -> Bytes {
    let format = &request.system.packet;
    if format.fixed_size { format.payload_bytes } else { format.flit_bytes }
}
