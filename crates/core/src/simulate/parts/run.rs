//! Threads that run the parts of a fabric.

use super::Parts;
use super::rounds::Rounds;
use crate::error::Result;
use crate::simulate::Progress;
use crate::simulate::budget::Budget;
use crate::simulate::clock::Ticks;
use crate::simulate::flight::Order;
use crate::simulate::machine::{Machine, Shortcuts};
use crate::simulate::network::{Network, Packet, Parcel};
use crate::simulate::period::MIN_CHUNKS;
use crate::simulate::plan::Plan;
use crate::simulate::result::SimulationResult;
use std::cell::OnceCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// Most runs that are going to recur have by that many chunks of their longest transfers: `direct` on 8x8 after 12.
const MANY_CHUNKS: f64 = 32.0;
/// Share of a run after which it is not worth another start: two cores take as long as half of it.
const MOST_ALONE: f64 = 0.3;

/// Time between two looks whether to go on.
const HEARTBEAT: Duration = Duration::from_millis(5);

/// What a part has for others at the end of a window.
struct Outcome {
    /// When the next event is, here or of what has left.
    next: AtomicU64,
    /// What has left, by the part it is for; of even windows and of odd ones.
    left: [Vec<Mutex<Vec<Parcel>>>; 2],
    /// Events and messages until now.
    events: AtomicU64,
    done: AtomicU64,
}

/// What all threads see.
struct Shared<'p, 'a> {
    parts: &'p Parts,
    machines: Vec<Mutex<Machine<'a, Packet<'a>>>>,
    outcomes: Vec<Outcome>,
    /// End of the window.
    end: AtomicU64,
    stops: AtomicBool,
}

/// Nobody else has it, but for a thread that panicked.
fn take<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().expect("no thread goes on after a panic")
}

impl Shared<'_, '_> {
    /// A part goes on to the end of a window.
    fn advance(&self, part: usize, window: u64) {
        let mut machine = take(&self.machines[part]);
        let (now, before) = ((window % 2) as usize, ((window + 1) % 2) as usize);
        for other in &self.outcomes {
            take(&other.left[before][part]).drain(..).for_each(|parcel| machine.accept(parcel));
        }
        machine.run_before(self.end.load(Ordering::Relaxed));
        let outcome = &self.outcomes[part];
        let mut next = machine.next_at();
        for (to, left) in machine.left().iter_mut().enumerate().filter(|(_, left)| !left.is_empty()) {
            next = left.iter().map(|parcel| parcel.at).fold(next, Ticks::min);
            std::mem::swap(&mut *take(&outcome.left[now][to]), left);
        }
        outcome.next.store(next, Ordering::Relaxed);
        outcome.events.store(machine.events(), Ordering::Relaxed);
        outcome.done.store(machine.done(), Ordering::Relaxed);
    }

    /// Sets the end of the next window, if there is one.
    fn next_window(&self) -> bool {
        let next = self.outcomes.iter().map(|of| of.next.load(Ordering::Relaxed)).min().unwrap_or(Ticks::MAX);
        self.end.store(next.saturating_add(self.parts.window), Ordering::Relaxed);
        next < Ticks::MAX && !self.stops.load(Ordering::Relaxed)
    }

    fn total(&self, of: impl Fn(&Outcome) -> &AtomicU64) -> u64 {
        self.outcomes.iter().map(|outcome| of(outcome).load(Ordering::Relaxed)).sum()
    }
}

/// Runs the only flight of a plan: in one machine, which skips periods, and from the start in parts if it turns out to be
/// long and to have none.
///
/// # Errors
/// As [`Machine::run`].
pub fn run<'a>(plan: &'a Plan<'a>, shortcuts: Shortcuts, progress: &mut Progress) -> Result<SimulationResult> {
    let longest = plan.kinds.iter().map(|kind| kind.chunks).max().unwrap_or(0) as f64;
    let (parts, mut share) = (OnceCell::new(), 0.0);
    let leaves = |machine: &Machine<'a, Packet<'a>>| {
        let (events, share) = (machine.events(), machine.share());
        let may_recur = longest >= MIN_CHUNKS as f64 && share * longest < MANY_CHUNKS;
        let is_long = events >= shortcuts.alone && !may_recur && share < MOST_ALONE;
        is_long && parts.get_or_init(|| Parts::new(plan, events as f64 / share)).is_some()
    };
    if let Some(result) = alone(plan, shortcuts, leaves, &mut |done| {
        share = done;
        progress(done)
    })? {
        return Ok(result);
    }
    let parts = parts.into_inner().flatten().expect("it left for them");
    match together(plan, &parts, shortcuts, &mut |done| progress(done.max(share)))? {
        Some(result) => Ok(result),
        // One machine knows which waits for which.
        None => alone(plan, shortcuts, |_| false, progress).map(|result| result.expect("it does not leave")),
    }
}

/// Runs the only flight of a plan in one machine. None if it leaves before the end.
fn alone<'a>(
    plan: &'a Plan<'a>,
    shortcuts: Shortcuts,
    leaves: impl Fn(&Machine<'a, Packet<'a>>) -> bool,
    progress: &mut Progress,
) -> Result<Option<SimulationResult>> {
    let mut machine = Machine::new(plan, Order::default(), shortcuts)?;
    Ok(machine.run(leaves, progress)?.then(|| machine.into_result()))
}

/// Runs the parts of a fabric from the start on as many threads as there may be. None if nothing moves any more before all
/// is done.
///
/// # Errors
/// As [`Machine::new`] and [`Budget::judge`].
pub fn together(
    plan: &Plan,
    parts: &Parts,
    shortcuts: Shortcuts,
    progress: &mut Progress,
) -> Result<Option<SimulationResult>> {
    let outcome = |_| Outcome {
        next: AtomicU64::new(0),
        left: std::array::from_fn(|_| (0..parts.count).map(|_| Mutex::default()).collect()),
        events: AtomicU64::new(0),
        done: AtomicU64::new(0),
    };
    let machine = |part| Machine::of_part(plan, shortcuts, parts, part).map(Mutex::new);
    let shared = Shared {
        parts,
        machines: (0..parts.count).map(machine).collect::<Result<_>>()?,
        outcomes: (0..parts.count).map(outcome).collect(),
        end: AtomicU64::new(0),
        stops: AtomicBool::new(false),
    };
    let rounds = Rounds::new(parts.count as usize);
    let threads = shortcuts.cores.min(parts.count as usize);
    let (unit, most) = Packet::WORK;
    let (mut budget, mut judged, mut last) = (Budget::new(most, unit), Ok(()), Instant::now());
    thread::scope(|scope| {
        let (rounds, shared) = (&rounds, &shared);
        let work = move |thread: usize, between: &mut dyn FnMut()| {
            rounds.work(thread, threads, |part, window| shared.advance(part, window), || shared.next_window(), between);
        };
        for thread in 1..threads {
            scope.spawn(move || work(thread, &mut || ()));
        }
        work(0, &mut || {
            if last.elapsed() > HEARTBEAT && judged.is_ok() {
                last = Instant::now();
                let share = shared.total(|of| &of.done) as f64 / plan.messages().max(1) as f64;
                judged = budget.judge(shared.total(|of| &of.events), share, progress);
                shared.stops.store(judged.is_err(), Ordering::Relaxed);
            }
        });
    });
    judged?;
    let done = shared.total(|of| &of.done);
    let mut machines = shared.machines.into_iter().filter_map(|machine| machine.into_inner().ok());
    let first = machines.next().filter(|_| done == plan.messages());
    Ok(first.map(|first| first.into_joint_result(machines.collect())))
}
