//! Simulation: one schedule, several fidelities, one result.

mod alpha_beta;
mod budget;
mod clock;
mod endpoints;
mod flit;
mod packet;
mod period;
mod plan;
mod recorder;
mod result;
#[cfg(test)]
mod tests;

pub use result::{ChunkRow, LinkRow, RankRow, SimulationResult, Timeline};

use crate::error::{Code, Error, Result, nearest};
use crate::fabric::Fabric;
use crate::schedule::Schedule;
use crate::system::System;
use crate::units::clip;
pub use crate::watch::Progress;
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
/// [`Code::Stalled`] with the chain of waits, or the cycle of buffers, if it stops making progress, [`Code::TooLarge`] if
/// the run would need too many events, [`Code::Interrupted`].
pub fn simulate(
    fabric: &Fabric,
    schedule: &Schedule,
    system: &System,
    fidelity: Fidelity,
    progress: &mut Progress,
) -> Result<SimulationResult> {
    let plan = plan::Plan::new(fabric, schedule, system)?;
    let engine: &dyn Engine = match fidelity {
        Fidelity::AlphaBeta => &alpha_beta::AlphaBeta::default(),
        Fidelity::Packet => &packet::Packet::default(),
        Fidelity::Flit => &flit::Flit::default(),
    };
    let mut recorder = recorder::Recorder::new(&plan);
    let events = engine.run(&plan, &mut recorder, progress)?;
    Ok(recorder.finish(&plan, fidelity, events))
}

/// Moves every message of a plan through the network and records when.
trait Engine {
    /// Runs to the end; returns the number of events processed.
    fn run(&self, plan: &plan::Plan, recorder: &mut recorder::Recorder, progress: &mut Progress) -> Result<u64>;
}
