//! Times of schedules that a planner tries. It proves what it chooses; a time alone is no result.

use crate::flight::{Flight, Order};
use crate::machine::{Machine, Shortcuts};
use crate::network::{Client, Network, with_machine};
use crate::plan::RunPlan;
use crate::{Fidelity, Progress, fastest, run};
use antiphon_base::error::Result;
use antiphon_base::units::Picos;
use antiphon_model::fabric::Fabric;
use antiphon_model::schedule::Schedule;
use antiphon_model::system::System;

/// A plan of which only the time is wanted.
fn tried<'a>(fabric: &'a Fabric, flights: &'a [Flight<'a>], system: &'a System) -> Result<RunPlan<'a>> {
    let mut plan = RunPlan::new(fabric, flights, system)?;
    plan.buffers = false;
    Ok(plan)
}

/// Picoseconds of a schedule at a fidelity, in the fastest of the system's protocols.
///
/// # Errors
/// As [`crate::simulate`].
pub fn time(
    fabric: &Fabric,
    schedule: &Schedule,
    system: &System,
    fidelity: Fidelity,
    progress: &mut Progress,
) -> Result<Picos> {
    let flights = [Flight::unproven(schedule)];
    let result = fastest(system, |system| {
        let plan = tried(fabric, &flights, system)?;
        run(&plan, Order::default(), fidelity, Shortcuts::default(), progress)
    })?;
    Ok(result.time_ps)
}

/// The same in packets, and the events that this took. A run ends early that is over `most_ps`, or takes more than so
/// many events: then its time is what it would be if the rest went on as before.
///
/// # Errors
/// As [`crate::simulate`].
pub fn time_within(
    fabric: &Fabric,
    schedule: &Schedule,
    system: &System,
    most_ps: Picos,
    most_events: u64,
    progress: &mut Progress,
) -> Result<(Picos, u64)> {
    struct Within<'p, 'q>(Picos, u64, &'p mut Progress<'q>);
    impl<'a> Client<'a> for Within<'_, '_> {
        type Done = (Picos, u64);
        fn run<N: Network<'a>>(self, mut machine: Machine<'a, N>) -> Result<(Picos, u64)> {
            let Within(most_ps, most_events, progress) = self;
            let is_over = |machine: &Machine<'a, N>| machine.now_ps() > most_ps || machine.events() > most_events;
            let has_ended = machine.run(is_over, progress)?;
            let (now_ps, share, events) = (machine.now_ps(), machine.share(), machine.events());
            Ok((if has_ended { now_ps } else { (now_ps as f64 / share) as Picos }, events))
        }
    }
    let flights = [Flight::unproven(schedule)];
    let (mut least_ps, mut events) = (Picos::MAX, 0);
    for system in system.variants() {
        let plan = tried(fabric, &flights, &system)?;
        let within = Within(most_ps.min(least_ps), most_events, progress);
        let (time_ps, more) = with_machine(&plan, Order::default(), Fidelity::Packet, Shortcuts::default(), within)?;
        (least_ps, events) = (least_ps.min(time_ps), events + more);
    }
    Ok((least_ps, events))
}
