//! Simulation: flights of schedules, several fidelities, one result.

mod agenda;
mod budget;
mod clock;
mod endpoints;
mod flight;
mod machine;
mod network;
mod period;
mod plan;
mod recorder;
mod result;
#[cfg(test)]
mod tests;
mod turns;

pub use flight::{Flight, FlightRow, Order};
pub use result::{ChunkRow, LinkRow, RankRow, SimulationResult, Timeline};

use crate::error::{Code, Error, Result, nearest};
use crate::fabric::Fabric;
use crate::schedule::Schedule;
use crate::system::System;
use crate::units::clip;
pub use crate::watch::Progress;
pub(crate) use clock::Ticks;
pub(crate) use machine::{Machine, Shortcuts};
pub(crate) use network::{AlphaBeta, Flit, Network, Packet};
pub(crate) use plan::Plan;
use serde::{Deserialize, Serialize};

/// How closely the network is modelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fidelity {
    /// Whole messages: latency plus size over rate, in schedule order.
    AlphaBeta,
    /// Packets with headers, FIFO links, network interfaces of finite depth.
    Packet,
    /// Flits through virtual-channel routers with finite buffers and credits.
    Flit,
}

impl Fidelity {
    /// All fidelities, cheapest first.
    pub const ALL: [Fidelity; 3] = [Fidelity::AlphaBeta, Fidelity::Packet, Fidelity::Flit];

    /// The command-line name.
    pub fn name(self) -> &'static str {
        match self {
            Fidelity::AlphaBeta => "alpha-beta",
            Fidelity::Packet => "packet",
            Fidelity::Flit => "flit",
        }
    }

    /// The fidelity with a command-line name.
    ///
    /// # Errors
    /// [`Code::UnknownName`] with the nearest known name.
    pub fn parse(text: &str) -> Result<Fidelity> {
        Fidelity::ALL.into_iter().find(|f| f.name() == text).ok_or_else(|| {
            let names = Fidelity::ALL.map(Fidelity::name);
            Error::new(
                Code::UnknownName,
                format!("no fidelity '{}'{}; known: {}", clip(text), nearest(text, names), names.join(", ")),
            )
        })
    }
}

/// Times a schedule on a fabric. The schedule should have been verified.
///
/// # Errors
/// As [`simulate_flights`].
pub fn simulate(
    fabric: &Fabric,
    schedule: &Schedule,
    system: &System,
    fidelity: Fidelity,
    progress: &mut Progress,
) -> Result<SimulationResult> {
    simulate_flights(fabric, &[Flight::new(schedule)], Order::default(), system, fidelity, progress)
}

/// Times several schedules that share a fabric. They should have been verified.
///
/// # Errors
/// As [`Schedule::check`]; [`Code::BadSpec`] if flights wait for each other; [`Code::Stalled`] with the chain of waits,
/// or the cycle of buffers, if it stops making progress, [`Code::TooLarge`] if the run would need too many events,
/// [`Code::Interrupted`].
pub fn simulate_flights(
    fabric: &Fabric,
    flights: &[Flight],
    order: Order,
    system: &System,
    fidelity: Fidelity,
    progress: &mut Progress,
) -> Result<SimulationResult> {
    let plan = Plan::new(fabric, flights, system)?;
    run(&plan, order, fidelity, Shortcuts::default(), progress)
}

/// Runs the flights of a plan.
fn run(
    plan: &Plan,
    order: Order,
    fidelity: Fidelity,
    shortcuts: Shortcuts,
    progress: &mut Progress,
) -> Result<SimulationResult> {
    fn on<'a, N: Network<'a>>(mut machine: Machine<'a, N>, progress: &mut Progress) -> Result<SimulationResult> {
        machine.run(progress)?;
        Ok(machine.into_result())
    }
    match fidelity {
        Fidelity::AlphaBeta => on(Machine::<AlphaBeta>::new(plan, order, shortcuts)?, progress),
        Fidelity::Packet => on(Machine::<Packet>::new(plan, order, shortcuts)?, progress),
        Fidelity::Flit => on(Machine::<Flit>::new(plan, order, shortcuts)?, progress),
    }
}
