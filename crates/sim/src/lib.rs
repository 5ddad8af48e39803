//! Simulation: flights of schedules, several fidelities, one result.

pub mod ace;
mod agenda;
mod budget;
pub mod clock;
pub mod cost;
mod division;
mod endpoints;
mod energy;
mod flight;
mod footprint;
mod machine;
mod network;
mod on_cores;
mod period;
mod plan;
mod playback;
pub mod rails;
mod recorder;
mod result;
mod running;
#[cfg(test)]
mod tests;
mod trace;
pub mod trial;
mod turns;
mod units;

pub use flight::{Flight, FlightRow, Order, Timed};
pub use playback::{CarriedRow, MessageRow, PhaseRow, Playback};
pub use result::{ChunkRow, ContendedRow, LinkRow, RankRow, SimulationResult, Timeline};
pub use running::{Running, run_beside};
pub use trace::{MOST_EVENTS, Span, Trace, Track};

#[cfg(doc)]
use antiphon_base::error::Code;
use antiphon_base::error::Result;
pub use antiphon_base::watch::Progress;
use antiphon_model::energy::Energy;
use antiphon_model::fabric::Fabric;
use antiphon_model::system::System;
use antiphon_proof::Proven;
use energy::PowerRates;
use machine::{Machine, Shortcuts};
pub use network::Fidelity;
use network::{Client, Network, with_machine};
use plan::RunPlan;
use playback::PlaybackPlan;

/// Times a schedule on the fabric for which it was proven.
///
/// # Errors
/// As [`simulate_flights`].
pub fn simulate(
    fabric: &Fabric,
    schedule: &Proven,
    system: &System,
    fidelity: Fidelity,
    progress: &mut Progress,
) -> Result<SimulationResult> {
    simulate_flights(
        fabric,
        &[Flight::new(schedule)],
        Order::default(),
        system,
        fidelity,
        RunOptions::default(),
        progress,
    )
}

/// What is asked of a run besides times, and how it is done: times are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunOptions {
    /// What it takes, too.
    pub energy: bool,
    /// What links carried and ranks received over time, too.
    pub playback: bool,
    /// Cores that a long run of one schedule in packets may use.
    pub cores: usize,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions { energy: false, playback: false, cores: 1 }
    }
}

/// The soonest of the runs with each of a system's protocols.
fn fastest(system: &System, mut run: impl FnMut(&System) -> Result<SimulationResult>) -> Result<SimulationResult> {
    let mut fastest: Option<SimulationResult> = None;
    for system in system.variants() {
        let result = run(&system)?;
        if fastest.as_ref().is_none_or(|best| result.time_ps < best.time_ps) {
            fastest = Some(SimulationResult { protocol: system.protocol().map(Into::into), ..result });
        }
    }
    Ok(fastest.expect("a system is a variant of itself at least"))
}

/// Times several schedules that share a fabric, for which they were proven, all in the same of the system's protocols: that in
/// which the last is over soonest.
///
/// # Errors
/// As [`Proven::check_fabric`] and [`Schedule::check`](antiphon_model::schedule::Schedule::check); [`Code::BadSpec`] if flights wait for each other, or an engine is to be divided;
/// [`Code::BadSize`] if a chunk does not fit in it; [`Code::Stalled`] with the chain of waits, or the cycle of buffers, if
/// it stops making progress, [`Code::TooLarge`] if the run would need too many events, [`Code::Interrupted`].
pub fn simulate_flights(
    fabric: &Fabric,
    flights: &[Flight],
    order: Order,
    system: &System,
    fidelity: Fidelity,
    options: RunOptions,
    progress: &mut Progress,
) -> Result<SimulationResult> {
    fastest(system, |system| {
        let mut plan = proven_plan(fabric, flights, system)?;
        plan.record(options);
        run(&plan, order, fidelity, Shortcuts { cores: options.cores, ..Shortcuts::default() }, progress)
    })
}

/// As [`simulate_flights`], with the trace of the run in its result; the times are the same. Periods are not skipped.
///
/// # Errors
/// As [`simulate_flights`]; [`Code::TooLarge`] for more than [`MOST_EVENTS`] events.
pub fn trace_flights(
    fabric: &Fabric,
    flights: &[Flight],
    order: Order,
    system: &System,
    fidelity: Fidelity,
    options: RunOptions,
    progress: &mut Progress,
) -> Result<SimulationResult> {
    let result = fastest(system, |system| {
        let mut plan = proven_plan(fabric, flights, system)?;
        plan.record(options);
        trace::expect_few(&plan, fidelity)?;
        plan.trace = true;
        run(&plan, order, fidelity, Shortcuts::default(), progress)
    })?;
    match &result.trace {
        Some(_) => Ok(result),
        None => Err(trace::too_many("more")),
    }
}

/// What the messages of a schedule take, whenever they are sent: without static power. O(hops).
///
/// # Errors
/// As [`simulate_flights`].
pub fn dynamic_energy(fabric: &Fabric, schedule: &Proven, system: &System) -> Result<Energy> {
    let flights = [Flight::new(schedule)];
    Ok(energy::dynamic_energy(&proven_plan(fabric, &flights, system)?))
}

/// Checks that flights were proven for a fabric, unless a planner tries them.
fn check_fabric(fabric: &Fabric, flights: &[Flight]) -> Result<()> {
    let check = |(number, flight): (usize, &Flight)| {
        flight.schedule.check_fabric(fabric).map_err(|error| error.at(format_args!("flight {number}")))
    };
    flights.iter().enumerate().try_for_each(check)
}

/// The plan of flights that were proven for a fabric.
fn proven_plan<'a>(fabric: &'a Fabric, flights: &'a [Flight<'a>], system: &'a System) -> Result<RunPlan<'a>> {
    check_fabric(fabric, flights)?;
    RunPlan::new(fabric, flights, system)
}

impl RunPlan<'_> {
    /// What is asked for besides times is recorded.
    fn record(&mut self, options: RunOptions) {
        self.power = options.energy.then(|| PowerRates::new(self));
        self.playback = options.playback.then(|| PlaybackPlan::new(self).into());
    }
}

/// Runs the flights of a plan.
fn run(
    plan: &RunPlan,
    order: Order,
    fidelity: Fidelity,
    shortcuts: Shortcuts,
    progress: &mut Progress,
) -> Result<SimulationResult> {
    struct ToTheEnd<'p, 'q>(&'p mut Progress<'q>);
    impl<'a> Client<'a> for ToTheEnd<'_, '_> {
        type Done = SimulationResult;
        fn run<N: Network<'a>>(self, mut machine: Machine<'a, N>) -> Result<SimulationResult> {
            machine.run(|_| false, self.0)?;
            Ok(machine.into_result())
        }
    }
    if fidelity == Fidelity::Packet && plan.flights.len() == 1 && shortcuts.cores > 1 {
        return on_cores::run(plan, shortcuts, progress);
    }
    with_machine(plan, order, fidelity, shortcuts, ToTheEnd(progress))
}
