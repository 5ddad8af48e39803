//! Lower bounds: how fast anything could be.
//!
//! Every bound holds for every schedule that ships partial sums or copies, whatever its order, chunks and routes, on
//! switches that only forward. All are computed in integers and rounded down to a picosecond. Cuts and strength are
//! the exact optimum over all cuts and all partitions, except for AllToAll, whose worst cut is looked for.

mod all_to_all;
mod capacity;
mod cut;
mod energy;
mod latency;
mod maxflow;
mod paths;
mod strength;
mod task;
mod volume;

pub use strength::{Edge, Strength, parallel_links, strength, strength_of, symmetric_edges};

use crate::collective::{Collective, Data, Kind};
use crate::energy::{Attojoules, static_energy};
use crate::error::{Code, Error, Result};
use crate::fabric::Fabric;
use crate::schedule::Schedule;
use crate::system::System;
use crate::units::{MAX_BYTES, Picos};
use capacity::Capacities;
use serde::Serialize;
use task::Task;

/// Lower bounds on the time of a collective; each holds for every schedule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bound {
    /// Total traffic every schedule must carry over the total link rate.
    pub volume_ps: Picos,
    /// The most loaded cut between two groups of ranks.
    pub cut_ps: Picos,
    /// The smallest packet between the farthest ranks that must communicate.
    pub latency_ps: Picos,
    /// AllReduce: bytes over rate times strength; on symmetric fabrics without switches no better bound exists for
    /// schedules that ship sums or copies.
    pub strength_ps: Option<Picos>,
    /// The largest of all.
    pub time_ps: Picos,
    /// Name of the largest bound: `strength`, `cut`, `volume` or `latency`; the first of them if some are equal.
    pub binding: &'static str,
}

/// Computes all lower bounds. Rates are payload rates of full packets, so headers do not count.
///
/// O(ranks) maximum flows and searches: milliseconds for hundreds of ranks, up to a few seconds for thousands; longer
/// only for cliques of many hundreds, which have a million links.
///
/// # Errors
/// [`Code::BadSize`] for sizes out of range, [`Code::BadSpec`] for a root that is no rank or a matrix that does not fit.
pub fn lower_bound(fabric: &Fabric, system: &System, collective: Collective, data: impl Into<Data>) -> Result<Bound> {
    let data = data.into();
    data.check(collective.kind, fabric.ranks())?;
    let bytes = data.bytes;
    if bytes == 0 || bytes > MAX_BYTES {
        let message = format!("size {bytes} is out of range; give 1 byte to 1 PiB");
        return Err(Error::new(Code::BadSize, message));
    }
    if collective.root as usize >= fabric.ranks() {
        let message = format!("root {} is no rank; ranks are 0 to {}", collective.root, fabric.ranks() - 1);
        return Err(Error::new(Code::BadSpec, message));
    }
    Ok(bound(fabric, system, &Task::new(fabric, collective, data)))
}

/// The lower bounds of what a schedule does: its collective among the ranks that it does not exclude, on the nodes
/// where it places them. Excluded ranks may forward and add, for any schedule that is bounded. All are zero if these
/// ranks share one node.
///
/// # Errors
/// As [`Schedule::check`]; [`Code::BadFile`] if no rank takes part, or the root does not.
pub fn of_schedule(fabric: &Fabric, system: &System, schedule: &Schedule) -> Result<Bound> {
    Ok(bound(fabric, system, &Task::of_schedule(fabric, schedule)?))
}

/// The least energy of what a schedule does, whatever does it: bytes that must move, the cheapest ways, and static power over
/// `time_ps`, a lower bound of the time.
///
/// # Errors
/// As [`of_schedule`].
pub fn least_energy(fabric: &Fabric, system: &System, schedule: &Schedule, time_ps: Picos) -> Result<Attojoules> {
    let task = Task::of_schedule(fabric, schedule)?;
    Ok(energy::energy(fabric, system, &task) + static_energy(system.static_power_of(fabric), time_ps))
}

/// What [`of_schedule`] bounds: `all-ranks` on the fabric's own nodes, as [`lower_bound`] does; `placement`, all ranks on
/// other nodes; or `participants`, the ranks that the schedule does not exclude, wherever it has them.
pub fn subject(schedule: &Schedule) -> &'static str {
    match (schedule.excluded.is_empty(), schedule.placement.is_empty()) {
        (true, true) => "all-ranks",
        (true, false) => "placement",
        (false, _) => "participants",
    }
}

fn bound(fabric: &Fabric, system: &System, task: &Task) -> Bound {
    let capacities = Capacities::new(fabric, system);
    let strength_ps = match task.kind {
        Kind::AllReduce => Some(capacities.time(strength::load(fabric, &capacities, task))),
        _ => None,
    };
    let cut_ps = capacities.time(cut::cut(fabric, &capacities, task));
    let volume_ps = capacities.time(volume::volume(fabric, &capacities, task));
    let latency_ps = latency::latency(fabric, system, task);
    let mut largest = (strength_ps.unwrap_or(0), "strength");
    for next in [(cut_ps, "cut"), (volume_ps, "volume"), (latency_ps, "latency")] {
        if next.0 > largest.0 {
            largest = next;
        }
    }
    Bound { volume_ps, cut_ps, latency_ps, strength_ps, time_ps: largest.0, binding: largest.1 }
}

#[cfg(test)]
mod tests;
