//! Schedules are as slow as bounds and certificates say, or slower.

use super::timed::simulate;
use antiphon_bound::{certified, of_schedule};
use antiphon_model::fabric::Fabric;
use antiphon_model::schedule::Schedule;
use antiphon_model::system::System;
use antiphon_sim::Fidelity;

/// All of them, the cheapest first.
pub const FIDELITIES: [Fidelity; 3] = [Fidelity::AlphaBeta, Fidelity::Packet, Fidelity::Flit];

/// It ends at these fidelities, no sooner than its bound and its certificate allow.
pub fn ends_within_bounds(
    fabric: &Fabric,
    system: &System,
    schedule: &Schedule,
    fidelities: &[Fidelity],
    name: &dyn Fn() -> String,
) {
    let certified = certified(fabric, system, schedule).unwrap_or_else(|error| panic!("{error}: {}", name()));
    let any = of_schedule(fabric, system, schedule, None).unwrap();
    for &fidelity in fidelities {
        let bound = of_schedule(fabric, system, schedule, Some(fidelity)).unwrap();
        assert!(any.time_ps <= bound.time_ps, "{any:?} {bound:?}");
        let least = certified.map_or(0, |certified| certified.least_ps).max(bound.time_ps);
        match simulate(fabric, schedule, system, fidelity) {
            Ok(result) => assert!(result.time_ps >= least, "{fidelity:?} {} {bound:?}: {}", result.time_ps, name()),
            // The one documented limit of routes over switches.
            Err(error) => assert!(
                fidelity == Fidelity::Flit && error.message.contains("virtual channels are too few"),
                "{error}: {}",
                name()
            ),
        }
    }
}
