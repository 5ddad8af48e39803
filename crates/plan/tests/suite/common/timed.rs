//! Times of schedules, which are proven first.

use antiphon_base::error::Result;
use antiphon_model::fabric::Fabric;
use antiphon_model::schedule::Schedule;
use antiphon_model::system::System;
use antiphon_proof::prove;
use antiphon_sim::{Fidelity, SimulationResult};

/// Proves a schedule, then times it.
pub fn simulate(fabric: &Fabric, schedule: &Schedule, system: &System, fidelity: Fidelity) -> Result<SimulationResult> {
    antiphon_sim::simulate(fabric, &prove(fabric, schedule.clone())?, system, fidelity, &mut |_| true)
}
