//! Lower bounds: how fast anything could be.
//!
//! Every bound holds for every schedule that ships partial sums or copies, whatever its order, chunks and routes, and whatever
//! switches add and multicast that can. All are computed in integers and rounded down to a picosecond. Cuts and strength are
//! the exact optimum over all cuts and all partitions, except for AllToAll, whose worst cut is looked for; there prices of
//! links, found by a linear program, are the optimum. So may they say more of an AllReduce where links are not equally fast both ways.

mod all_to_all;
mod capacity;
mod certified;
mod chains;
mod computation;
mod computing;
mod cut;
mod endpoint;
mod energy;
mod gossip;
mod joint;
mod latency;
mod least_cut;
mod limit;
mod maxflow;
mod mesh;
mod paths;
mod prices;
mod relieved;
mod strength;
pub mod synthesis;
mod task;
mod volume;

pub use certified::{Certified, busiest_ps, certificate, certified, proven_ps};
pub use chains::schedule_ps;
pub use joint::{JointBound, joint_bound};
pub use limit::Limit;
pub use mesh::mesh_bound;
pub use relieved::{Limiting, Relieved, relieved};
pub use strength::{RankEdge, Strength, edges_both_ways, strength, strength_of, symmetric_edges};

use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{MAX_BYTES, Picos};
use antiphon_model::collective::{Collective, Data, Kind};
use antiphon_model::energy::{Attojoules, static_energy};
use antiphon_model::fabric::Fabric;
use antiphon_model::schedule::{Certificate, Schedule};
use antiphon_model::system::System;
use antiphon_sim::Fidelity;
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
    /// The smallest packet between the farthest ranks that must communicate, at one fidelity or at any.
    pub latency_ps: Picos,
    /// AllReduce: bytes over rate times strength; on symmetric fabrics without switches no better bound exists for
    /// schedules that ship sums or copies.
    pub strength_ps: Option<Picos>,
    /// By prices of links, on fabrics that are regular or of up to about 64 ranks: AllToAll, of which no better bound by rates
    /// exists, and AllReduce where links are not equally fast both ways.
    pub prices_ps: Option<Picos>,
    /// What some rank must read from memory, bring over a bus or write; zero where its endpoint does not.
    pub endpoint_ps: Picos,
    /// Additions that must be made, at the rates of all that add; zero where these are free.
    pub computation_ps: Picos,
    /// The largest of all.
    pub time_ps: Picos,
    /// Name of the largest bound: `strength`, `cut`, `prices`, `volume`, `latency`, `endpoint` or `computation`; the first of them if
    /// some are equal.
    pub binding: &'static str,
    /// What the largest by rates rests on: of all but `latency`, `endpoint` and `computation`.
    pub limit: Limit,
}

/// Most links and ranks that are not alike, times ranks, for which prices are looked for: a second or two.
const MOST_PRICES: usize = 20_000;
/// How near to the optimum these are, relative.
const ACCURACY: f64 = 1e-6;

/// Computes all lower bounds of the times at a fidelity, or of those at any. Rates are payload rates of full packets, so
/// headers do not count.
///
/// O(ranks) maximum flows and searches: milliseconds for hundreds of ranks, up to a few seconds for thousands; longer
/// only for cliques of many hundreds, which have a million links.
///
/// # Errors
/// [`Code::BadSize`] for sizes out of range, [`Code::BadSpec`] for a root that is no rank or a matrix that does not fit.
pub fn lower_bound(
    fabric: &Fabric,
    system: &System,
    collective: Collective,
    data: impl Into<Data>,
    fidelity: Option<Fidelity>,
) -> Result<Bound> {
    let task = checked(fabric, collective, data.into())?;
    Ok(bound(fabric, system, &task, Some(latency::latency(fabric, system, &task, fidelity))))
}

/// What [`lower_bound`] is by rates alone, all else is zero here, and without prices from a linear program: for those who solve one anyway.
///
/// # Errors
/// As [`lower_bound`].
pub fn by_cuts(fabric: &Fabric, system: &System, collective: Collective, data: impl Into<Data>) -> Result<Bound> {
    Ok(bound(fabric, system, &checked(fabric, collective, data.into())?, None))
}

/// What is bounded, if it is in range.
fn checked(fabric: &Fabric, collective: Collective, data: Data) -> Result<Task> {
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
    Ok(Task::new(fabric, collective, data))
}

/// The lower bounds of what a schedule does, at a fidelity or at any: its collective among the ranks that it does not exclude, on the nodes
/// where it places them. Excluded ranks may forward and add, for any schedule that is bounded. All are zero if these
/// ranks share one node.
///
/// # Errors
/// As [`Schedule::check`]; [`Code::BadFile`] if no rank takes part, or the root does not.
pub fn of_schedule(fabric: &Fabric, system: &System, schedule: &Schedule, fidelity: Option<Fidelity>) -> Result<Bound> {
    let task = Task::of_schedule(fabric, schedule)?;
    Ok(bound(fabric, system, &task, Some(latency::latency(fabric, system, &task, fidelity))))
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

/// The least dynamic energy of a collective that serves all ranks where the fabric has them, whatever does it.
///
/// # Errors
/// As [`lower_bound`].
pub fn least_energy_of_collective(
    fabric: &Fabric,
    system: &System,
    collective: Collective,
    data: impl Into<Data>,
) -> Result<Attojoules> {
    Ok(energy::energy(fabric, system, &checked(fabric, collective, data.into())?))
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

/// All bounds, with that by latency; or, without it, those by cuts, partitions and the volume.
fn bound(fabric: &Fabric, system: &System, task: &Task, latency_ps: Option<Picos>) -> Bound {
    let capacities = Capacities::new(fabric, system);
    let freed = computing::freed(fabric, &capacities, task);
    let of_parts = freed.as_ref().unwrap_or(&capacities);
    let partition = (task.kind == Kind::AllReduce).then(|| strength::weakest(fabric, of_parts, task));
    let strength_ps = partition.as_ref().map(|partition| capacities.time(partition.load));
    let cut = cut::cut(fabric, &capacities, task);
    let cut_ps = capacities.time(cut.load);
    let volume_ps = capacities.time(volume::volume(fabric, &capacities, task));
    let certificate = if latency_ps.is_some() && task.sites.len() > 1 { prices_of(fabric, system, task) } else { None };
    let (endpoint_ps, computation_ps) = match latency_ps {
        Some(_) => (endpoint::endpoint(fabric, system, task), computation::computation(fabric, system, task)),
        None => (0, 0),
    };
    let latency_ps = latency_ps.unwrap_or(0);
    let prices_ps = certificate.as_ref().map(|certificate| {
        prices::load(fabric, &capacities, task, certificate).map_or(0, |load| capacities.time(load))
    });
    let mut largest = (strength_ps.unwrap_or(0), "strength");
    for next in [(cut_ps, "cut"), (prices_ps.unwrap_or(0), "prices"), (volume_ps, "volume")] {
        if next.0 > largest.0 {
            largest = next;
        }
    }
    let limit = match (largest.1, &partition, &certificate) {
        _ if task.sites.len() == 1 => Limit::default(),
        ("strength", Some(partition), _) => Limit::partition(fabric, system, task, &capacities, partition),
        ("prices", _, Some(certificate)) => Limit::prices(fabric, system, certificate),
        ("cut", ..) => Limit::cut(fabric, system, task, &capacities, &cut),
        _ => Limit::volume(fabric),
    };
    for next in [(latency_ps, "latency"), (endpoint_ps, "endpoint"), (computation_ps, "computation")] {
        if next.0 > largest.0 {
            largest = next;
        }
    }
    let (time_ps, binding) = largest;
    Bound {
        volume_ps,
        cut_ps,
        latency_ps,
        strength_ps,
        prices_ps,
        endpoint_ps,
        computation_ps,
        time_ps,
        binding,
        limit,
    }
}

/// Prices for a collective among all ranks of a fabric, if they are found soon and cuts or partitions need not say as much.
fn prices_of(fabric: &Fabric, system: &System, task: &Task) -> Option<Certificate> {
    if !matches!(task.kind, Kind::AllToAll | Kind::AllReduce) {
        return None;
    }
    let graph = synthesis::Graph::new(fabric, system);
    if task.kind == Kind::AllReduce && (graph.is_symmetric() || fabric.computing_switches().next().is_some()) {
        return None;
    }
    let is_of_all = !task.has_matrix()
        && task.ranks() == fabric.ranks() as u128
        && task.sites.iter().all(|site| site.ranks == 1 && fabric.nodes[site.node as usize].rank.is_some());
    let prices = is_of_all
        .then(|| synthesis::prices(&graph, Collective::new(task.kind), ACCURACY, MOST_PRICES / fabric.ranks()))?;
    Some(Certificate::new(graph.of_links(&prices?)))
}

#[cfg(test)]
mod tests;
