//! A schedule cannot deadlock.
//!
//! Every link (or rank) serves its messages in the order (phase, slot, index). If every message
//! depends only on messages earlier in that order, the earliest message that is not yet delivered
//! can always move: what it waits for, at its sender or at its receiver, is delivered, and it is next on
//! every link it needs. A message held at its receiver keeps no link and no reduction from others.
//!
//! So it may be held until a later one of the same phase and stride is sent. That one still only needs messages before
//! itself, if all that wait for the held one to be applied are later than both.

use super::text;
use antiphon_base::error::Result;
use antiphon_base::watch::{Watch, interruptible};
use antiphon_model::schedule::{Event, Held, Schedule, Transfer, TransferId};

/// Checks that every dependency is on something that happens at the rank that waits, repeats for as many
/// chunks, and is served strictly earlier. O(dependencies).
///
/// # Errors
/// [`antiphon_base::error::Code::NotProven`]: a cycle of dependencies, or the first dependency that is
/// served later.
pub fn check(schedule: &Schedule, watch: Watch) -> Result<()> {
    let (mut late, held) = (None, Held::of(schedule));
    // A dependency reads only these, which lie close together.
    let slots: Vec<ServiceSlot> =
        schedule.transfers.iter().map(|transfer| ServiceSlot::of(schedule, transfer)).collect();
    for (id, transfer) in interruptible(&schedule.transfers).enumerate() {
        watch.at(id, schedule.transfers.len())?;
        let own = slots[id];
        let id = id as TransferId;
        let starts = transfer.start_after.iter().map(|&other| (other, transfer.from, "waits"));
        let applies = transfer.apply_after.iter().map(|&other| (other, transfer.to, "waits at its receiver"));
        for (at, (dependency, rank, waits)) in starts.chain(applies).enumerate() {
            let other = dependency.transfer();
            let needed = slots[other as usize];
            let fail = |why: String| {
                let (waiting, other) = (text::transfer(schedule, id), text::transfer(schedule, other));
                text::not_proven(format!("{waiting} {waits} for {other}, {why}"))
            };
            match dependency.event() {
                Event::Applied if needed.to != rank => return fail(format!("which does not end at rank {rank}")),
                Event::Sent if needed.from != rank => return fail(format!("which is not sent by rank {rank}")),
                _ => {}
            }
            if needed.chunks != own.chunks {
                return fail("which has another number of chunks".into());
            }
            let applied = dependency.event() == Event::Applied;
            // A held message is applied after the one it is held for.
            let until = held.until(other).filter(|_| applied).unwrap_or(other);
            let may_be_later = !applied
                && at >= transfer.start_after.len()
                && dependency.lag() == 0
                && (needed.phase, needed.stride) == (own.phase, own.stride);
            let before = |other: TransferId| served_before((slots[other as usize], other), (own, id), dependency.lag());
            if late.is_none() && !may_be_later && !(before(other) && before(until)) {
                late = Some(fail("which the order of service puts later".into()));
            }
        }
    }
    let Some(late) = late else { return Ok(()) };
    match cycle(schedule) {
        Some(cycle) => {
            const SHOWN: usize = 12;
            let steps: Vec<String> = cycle.iter().take(SHOWN).map(TransferId::to_string).collect();
            let more = match cycle.len().saturating_sub(SHOWN) {
                0 => String::new(),
                more => format!(" ... ({more} more)"),
            };
            let first = text::transfer(schedule, cycle[0]);
            text::not_proven(format!(
                "deadlock: transfer {}{more}; each waits for the next, from {first}",
                steps.join(" -> ")
            ))
        }
        None => late,
    }
}

/// The ranks of a transfer, and when its chunks are served.
#[derive(Clone, Copy)]
struct ServiceSlot {
    from: u32,
    to: u32,
    phase: u32,
    step: u32,
    stride: u32,
    chunks: u64,
}

impl ServiceSlot {
    fn of(schedule: &Schedule, &Transfer { from, to, phase, step, ref payload, .. }: &Transfer) -> ServiceSlot {
        let lane = &schedule.lanes[payload.first() as usize];
        ServiceSlot { from, to, phase, step, stride: lane.stride, chunks: lane.chunks }
    }
}

/// Whether chunk `k - lag` of `a` is always served before chunk `k` of `b`. Slots grow linearly with the
/// chunk, so the first and the last one decide.
fn served_before(a: (ServiceSlot, TransferId), b: (ServiceSlot, TransferId), lag: u32) -> bool {
    let moment = |(slot, id): (ServiceSlot, TransferId), chunk: u64| {
        (u128::from(slot.step) + u128::from(chunk) * u128::from(slot.stride), id)
    };
    let (lag, last) = (lag as u64, b.0.chunks - 1);
    let in_phase = || moment(a, 0) < moment(b, lag) && (last == lag || moment(a, last - lag) < moment(b, last));
    lag > last || a.0.phase < b.0.phase || a.0.phase == b.0.phase && in_phase()
}

/// A cycle of dependencies within a chunk, first transfer repeated at the end.
fn cycle(schedule: &Schedule) -> Option<Vec<TransferId>> {
    const NEW: u8 = 0;
    const OPEN: u8 = 1;
    const DONE: u8 = 2;
    let mut state = vec![NEW; schedule.transfers.len()];
    // Path of open transfers, each with the number of its dependencies already followed.
    let mut path: Vec<(TransferId, usize)> = Vec::new();
    for start in interruptible(0..schedule.transfers.len() as TransferId) {
        if state[start as usize] == NEW {
            state[start as usize] = OPEN;
            path.push((start, 0));
        }
        while let Some((id, followed)) = path.last_mut() {
            let mut dependencies = schedule.transfers[*id as usize].dependencies();
            let Some(next) = dependencies.nth(*followed) else {
                state[*id as usize] = DONE;
                path.pop();
                continue;
            };
            *followed += 1;
            if next.lag() > 0 {
                continue;
            }
            let next = next.transfer();
            match state[next as usize] {
                NEW => {
                    state[next as usize] = OPEN;
                    path.push((next, 0));
                }
                OPEN => {
                    let open = path.iter().map(|&(id, _)| id);
                    return Some(open.skip_while(|&id| id != next).chain([next]).collect());
                }
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::*;
    use super::*;

    #[test]
    fn cycles_are_shown() {
        let (_, mut schedule) = ring_all_reduce(2, 64, 1);
        assert_eq!(schedule.transfers[2].start_after, after([0]));
        schedule.transfers[0].start_after = after([2]);
        let error = check(&schedule, Watch::default()).unwrap_err().message;
        assert_has(&error, &["deadlock: transfer 0 -> 2 -> 0;", "from transfer 0 (rank 1 to 0"]);
    }

    #[test]
    fn late_dependencies_are_named() {
        let (_, mut schedule) = ring_all_reduce(4, 64, 1);
        let id = schedule.transfers.iter().position(|t| t.start_after == after([0])).unwrap();
        schedule.transfers[0].step = 9;
        let error = check(&schedule, Watch::default()).unwrap_err().message;
        assert_has(
            &error,
            &[&format!("transfer {id} ("), "waits for transfer 0 (", "step 9", "order of service puts later"],
        );
    }

    #[test]
    fn dependencies_must_end_at_the_sender() {
        let (_, mut schedule) = ring_all_reduce(4, 64, 1);
        let from = schedule.transfers[9].from;
        let elsewhere = schedule.transfers.iter().position(|t| t.to != from).unwrap() as u32;
        schedule.transfers[9].start_after.push(elsewhere.into());
        let error = check(&schedule, Watch::default()).unwrap_err().message;
        assert_has(&error, &["transfer 9 (", &format!("does not end at rank {from}")]);
    }

    #[test]
    fn chunks_must_match_and_later_chunks_must_be_in_order_too() {
        let (_, mut schedule) = tree_all_reduce(4, 640, 4);
        assert_eq!(check(&schedule, Watch::default()), Ok(()));
        let other = schedule.lanes[0].clone();
        schedule.lanes.push(other);
        let id = schedule.transfers.iter().rposition(|t| !t.start_after.is_empty()).unwrap();
        schedule.transfers[id].payload = 1.into();
        schedule.lanes[1].chunks = 3;
        assert_has(&check(&schedule, Watch::default()).unwrap_err().message, &["another number of chunks"]);
        schedule.lanes[1].chunks = 4;
        assert_eq!(check(&schedule, Watch::default()), Ok(()));
        schedule.lanes[0].stride = 1000;
        assert_has(&check(&schedule, Watch::default()).unwrap_err().message, &["puts later"]);
    }

    /// Chunk `k` is served at slot `step + k * stride`: with unlike strides the last chunks decide too.
    #[test]
    fn strides_may_differ_while_the_last_chunks_are_in_order() {
        let (_, mut tree) = tree_all_reduce(4, 640, 4);
        tree.lanes.push(tree.lanes[0].clone());
        (tree.lanes[0].stride, tree.lanes[1].stride) = (3, 2);
        // One at slots 0, 3, 6 and 9; the other, which needs it, at `step`, `step + 2`, and so on.
        let in_order = |needed_id: u32, step: u32| {
            let (needed, mut waiting) = (tree.transfers[0].clone(), tree.transfers[1].clone());
            (waiting.payload, waiting.step, waiting.start_after) = (1.into(), step, after([needed_id]));
            let transfers = if needed_id == 0 { vec![needed, waiting] } else { vec![waiting, needed] };
            check(&Schedule { transfers, ..tree.clone() }, Watch::default()).is_ok()
        };
        for (needed_id, step, expected) in [(0, 2, false), (0, 3, true), (1, 3, false), (1, 4, true)] {
            assert_eq!(in_order(needed_id, step), expected, "transfer {needed_id} is needed from slot {step} on");
        }
    }

    #[test]
    fn dependencies_may_be_in_any_order() {
        let (_, mut star) = star_reduce(5, 64);
        let mut last = star.transfers[0].clone();
        (last.from, last.to, last.step) = (2, 0, 1);
        for needed in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 3, 0, 1]] {
            last.start_after = after(needed);
            star.transfers.truncate(4);
            star.transfers.push(last.clone());
            assert_eq!(check(&star, Watch::default()), Ok(()));
            // A cycle through any of them is found, whatever comes before it.
            for first in 0..4 {
                let mut cyclic = star.clone();
                cyclic.transfers[first].start_after = after([4]);
                cyclic.transfers[first].from = 0;
                let error = check(&cyclic, Watch::default()).unwrap_err().message;
                assert_has(&error, &["deadlock: transfer", &format!("4 -> {first}")]);
            }
        }
        // Also one that the first transfer only leads to.
        star.transfers[4].start_after = after([3, 2, 1]);
        for (id, from) in [(0, 0), (1, 0)] {
            (star.transfers[id].from, star.transfers[id].start_after) = (from, after([4]));
        }
        assert_has(&check(&star, Watch::default()).unwrap_err().message, &["deadlock: transfer 4 -> 1 -> 4;"]);
    }
}
