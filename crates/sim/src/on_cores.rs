//! Runs in one machine, and in parts.

use crate::Progress;
use crate::budget::Budget;
use crate::clock::Ticks;
use crate::division::Division;
use crate::flight::Order;
use crate::machine::{Machine, Shortcuts};
use crate::network::{Network, Packet};
use crate::period::MIN_CHUNKS;
use crate::plan::RunPlan;
use crate::result::SimulationResult;
use antiphon_base::cores::Parts;
use antiphon_base::error::Result;
use std::cell::OnceCell;

/// Most runs that are going to recur have by that many chunks of their longest transfers: `direct` on 8x8 after 12.
const MANY_CHUNKS: f64 = 32.0;
/// Share of a run after which it is not worth another start: two cores take as long as half of it.
const MOST_ALONE: f64 = 0.3;

/// Runs the only flight of a plan: in one machine, which skips periods, and from the start in parts if it turns out to be
/// long and to have none.
///
/// # Errors
/// As [`Machine::run`].
pub fn run<'a>(plan: &'a RunPlan<'a>, shortcuts: Shortcuts, progress: &mut Progress) -> Result<SimulationResult> {
    let longest = plan.kinds.iter().map(|kind| kind.chunks).max().unwrap_or(0) as f64;
    let (parts, mut share) = (OnceCell::new(), 0.0);
    let leaves = |machine: &Machine<'a, Packet<'a>>| {
        let (events, share) = (machine.events(), machine.share());
        let may_recur = longest >= MIN_CHUNKS as f64 && share * longest < MANY_CHUNKS;
        let is_long = events >= shortcuts.alone && !may_recur && share < MOST_ALONE;
        is_long && parts.get_or_init(|| Division::new(plan, events as f64 / share)).is_some()
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
    plan: &'a RunPlan<'a>,
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
    plan: &RunPlan,
    parts: &Division,
    shortcuts: Shortcuts,
    progress: &mut Progress,
) -> Result<Option<SimulationResult>> {
    let machine = |part| Machine::of_part(plan, shortcuts, parts, part);
    let machines: Result<Vec<_>> = (0..parts.count).map(machine).collect();
    let mut together = Parts::new(machines?, parts.window);
    let (unit, most) = Packet::WORK;
    let (mut budget, mut judged) = (Budget::new(most, unit), Ok(()));
    together.run_before(Ticks::MAX, shortcuts.cores, &mut |[events, done]| {
        judged = budget.judge(events, done as f64 / plan.messages().max(1) as f64, progress);
        judged.is_ok()
    });
    judged?;
    let machines = together.into_parts();
    let done: u64 = machines.iter().map(Machine::done).sum();
    let mut machines = machines.into_iter();
    let first = machines.next().filter(|_| done == plan.messages());
    Ok(first.map(|first| first.into_joint_result(machines.collect())))
}
