//! The configuration of a fabric that makes a collective or a schedule fastest.
//!
//! ARIES (DATE 2024) gives configurations for rings, double binary trees and multi-trees by hand, and cuts wires greedily
//! into the shortest segments. Here they are searched for any algorithm: links that messages would relieve are added
//! while an estimate of the load falls, the most promising configurations are simulated, and the best is improved step by
//! step.

mod bound;
mod demand;
mod search;

pub use bound::bound;

use crate::collective::Collective;
use crate::error::{Code, Error, Result};
use crate::fabric::aries::{Aries, Configuration};
use crate::fabric::{Fabric, Router};
use crate::schedule::Schedule;
use crate::simulate::Fidelity;
use crate::system::System;
use crate::units::{Bytes, Picos};
use crate::verify::verify;

/// A fabric that can be configured, as a specification says it.
#[derive(Debug, Clone)]
pub struct Reconfigurable {
    /// Wires and ports.
    pub aries: Aries,
    /// As it is without configuration.
    pub mesh: Fabric,
    /// The configuration that the specification gives.
    given: Configuration,
}

impl Reconfigurable {
    /// Of a specification such as `aries:8x8@68/10ns`.
    ///
    /// # Errors
    /// Those of [`Fabric::parse`]; [`Code::NotApplicable`] for a fabric that cannot be configured, is damaged, a group, or
    /// changes between phases.
    pub fn parse(spec: &str) -> Result<Reconfigurable> {
        let fabric = Fabric::parse(spec)?;
        let refuse = |why| Err(Error::new(Code::NotApplicable, format!("fabric '{spec}' {why}")));
        let Some(configured) = fabric.configured.as_deref() else {
            return refuse("has nothing to configure; write for example aries:8x8");
        };
        let [given] = &configured.configurations[..] else {
            return refuse("changes between phases; give one configuration to start from, or none");
        };
        let given = given.clone();
        let mesh = Fabric::parse(spec.split(',').next().unwrap_or(spec))?;
        let reconfigurable = Reconfigurable { aries: configured.aries.clone(), mesh, given };
        match reconfigurable.configured(&reconfigurable.given) {
            Ok(same) if same.links == fabric.links && fabric.group.is_none() => Ok(reconfigurable),
            _ => refuse("is degraded or a group of ranks; configure the whole fabric"),
        }
    }

    /// The fabric as it is configured, named by its specification.
    ///
    /// # Errors
    /// [`Code::BadSpec`] for what wires or ports do not allow, and where some rank is out of reach.
    pub fn configured(&self, configuration: &Configuration) -> Result<Fabric> {
        let items = configuration.to_string();
        Fabric::parse(&if items.is_empty() { self.mesh.name.clone() } else { format!("{},{items}", self.mesh.name) })
    }
}

/// What is to be fast.
pub enum Work<'a> {
    /// A collective, by one of these algorithms.
    Collective {
        /// What is computed.
        collective: Collective,
        /// Full buffer size.
        bytes: Bytes,
        /// Specifications of algorithms.
        algorithms: &'a [String],
    },
    /// A schedule: its messages, by the shortest ways.
    Schedule(&'a Schedule),
}

impl Work<'_> {
    /// How many schedules there are to choose from.
    fn choices(&self) -> usize {
        match self {
            Work::Collective { algorithms, .. } => algorithms.len(),
            Work::Schedule(_) => 1,
        }
    }

    /// One of its schedules on a fabric.
    fn on(&self, fabric: &Fabric, system: &System, choice: usize) -> Result<Schedule> {
        match self {
            Work::Collective { collective, bytes, algorithms } => {
                crate::algorithm::build(fabric, system, *collective, *bytes, &algorithms[choice])
            }
            Work::Schedule(schedule) => rerouted(schedule, fabric),
        }
    }

    /// Its collective and size.
    fn task(&self) -> (Collective, Bytes) {
        match self {
            Work::Collective { collective, bytes, .. } => (*collective, *bytes),
            Work::Schedule(schedule) => (schedule.collective, schedule.bytes),
        }
    }
}

/// A schedule's messages on another fabric of the same ranks, each by the shortest way.
fn rerouted(schedule: &Schedule, fabric: &Fabric) -> Result<Schedule> {
    if schedule.ranks as usize != fabric.ranks() || !schedule.group.is_empty() {
        let (own, ranks) = (schedule.ranks, fabric.ranks());
        let what = format!("schedule: it is for {own} ranks of {}, the fabric has {ranks}", schedule.fabric);
        return Err(Error::new(Code::NotApplicable, what));
    }
    let mut other = Schedule { fabric: fabric.name.clone(), conflict_free: false, ..schedule.clone() };
    let mut router = Router::new(fabric);
    let parallel = fabric.parallel_links();
    let mut bundled = vec![];
    for transfer in &mut other.transfers {
        let [from, to] = [transfer.from, transfer.to].map(|rank| schedule.node_of(fabric, rank));
        let route = router.route(from, to);
        let ends = route.iter().map(|&id| (fabric.link(id).from, fabric.link(id).to));
        bundled.extend(ends.filter_map(|ends| parallel.get(&ends)).map(|links| links[0]));
        transfer.route = route.into();
    }
    bundled.sort_unstable();
    bundled.dedup();
    other.bundled_links = bundled;
    Ok(other)
}

/// What was found.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The fabric as it is configured; its name is its specification.
    pub fabric: Fabric,
    /// The schedule that is timed, proven.
    pub schedule: Schedule,
    /// Its time.
    pub time_ps: Picos,
    /// The time of the best choice on the fabric as it was given; `None` if none applies there.
    pub given_ps: Option<Picos>,
    /// A lower bound for every configuration and algorithm, and what it is by.
    pub bound: (Picos, &'static str),
    /// Configurations simulated.
    pub simulated: u32,
    /// Why the search ended: `bound`, `no-better` or `steps`.
    pub ended: &'static str,
}

/// Searches the configuration in which some work takes the least time, in at most `steps` simulations; `progress` is told
/// the share of them, and may end the search, which then gives the best so far. The same for the same values, however
/// many cores there are.
///
/// # Errors
/// Those of [`bound`]; of building the schedules if none can be built on any configuration tried.
pub fn configure(
    fabric: &Reconfigurable,
    system: &System,
    work: &Work,
    fidelity: Fidelity,
    steps: u32,
    progress: &mut crate::watch::Progress,
) -> Result<Outcome> {
    let (collective, bytes) = work.task();
    let bound = bound(fabric, system, collective, bytes)?;
    let mut search = search::Search::new(fabric, system, work, fidelity, steps, bound.0, progress);
    let ended = search.run()?;
    let (configuration, choice, time_ps) = search.best().ok_or_else(|| search.refusal())?;
    let given_ps = search.time_of(&fabric.given);
    let simulated = search.simulated();
    let fabric = fabric.configured(&configuration)?;
    let schedule = work.on(&fabric, system, choice)?;
    verify(&fabric, &schedule)?;
    Ok(Outcome { fabric, schedule, time_ps, given_ps, bound, simulated, ended })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::Kind;

    #[test]
    #[ignore]
    fn probe() {
        let system = System::preset("aries").unwrap();
        let arg = std::env::var("PROBE").unwrap();
        for item in arg.split(' ') {
            let parts: Vec<&str> = item.split('/').collect();
            let fabric = Reconfigurable::parse(parts[0]).unwrap();
            let algorithms: Vec<String> = parts[1].split('+').map(String::from).collect();
            let bytes = parts[2].parse().unwrap();
            let work =
                Work::Collective { collective: Collective::new(Kind::AllReduce), bytes, algorithms: &algorithms };
            let start = std::time::Instant::now();
            match configure(&fabric, &system, &work, Fidelity::Packet, 600, &mut |_| true) {
                Ok(o) => println!(
                    "{item}: {} given {:?} bound {:?} sims {} {} {:.1}s\n   {} {}",
                    o.time_ps / 1000,
                    o.given_ps.map(|p| p / 1000),
                    (o.bound.0 / 1000, o.bound.1),
                    o.simulated,
                    o.ended,
                    start.elapsed().as_secs_f64(),
                    o.schedule.algorithm,
                    o.fabric.name
                ),
                Err(e) => println!("{item}: {e}"),
            }
        }
    }
}
