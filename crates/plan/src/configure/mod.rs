//! The configuration of a fabric that makes a collective or a schedule fastest.
//!
//! ARIES (DATE 2024) gives configurations for rings, double binary trees and multi-trees by hand, and cuts wires greedily
//! into the shortest segments. Here they are searched for any algorithm. There is one search (`search`): it has starts, of which the paper's
//! (`greedy`) is one, and moves. An estimate of the load (`estimate`) ranks the moves; simulation (`trials`) decides.

mod anneal;
mod bound;
mod demand;
mod estimate;
mod greedy;
mod room;
mod search;
mod trials;

pub use bound::bound;

use crate::algorithm;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::parameter::Choice;
use antiphon_base::units::{Bytes, Picos};
use antiphon_base::watch::Progress;
use antiphon_model::collective::Collective;
use antiphon_model::fabric::aries::{Aries, Configuration};
use antiphon_model::fabric::{Fabric, Router};
use antiphon_model::schedule::Schedule;
use antiphon_model::system::System;
use antiphon_proof::verify;
use antiphon_sim::Fidelity;
use search::SetupSearch;
use trials::{Aim, Trials};

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
        let damaged = "is degraded or a group of ranks; configure the whole fabric";
        if fabric.group.is_some() {
            return refuse(damaged);
        }
        let given = given.clone();
        let mesh = Fabric::parse(spec.split(',').next().unwrap_or(spec))?;
        let reconfigurable = Reconfigurable { aries: configured.aries.clone(), mesh, given };
        match reconfigurable.configured(std::slice::from_ref(&reconfigurable.given), 0) {
            Ok(same) if same.links == fabric.links && same.nodes == fabric.nodes => Ok(reconfigurable),
            _ => refuse(damaged),
        }
    }

    /// The fabric as it is configured in turns, with the time of a change, named by its specification.
    ///
    /// # Errors
    /// [`Code::BadSpec`] for what wires or ports do not allow, and where some rank is out of reach.
    pub fn configured(&self, turns: &[Configuration], switching_ps: Picos) -> Result<Fabric> {
        let mut items = vec![self.mesh.name.clone()];
        for (number, turn) in turns.iter().enumerate() {
            items.extend((number > 0).then(|| "then".into()));
            items.extend(Some(turn.to_string()).filter(|turn| !turn.is_empty()));
        }
        if turns.len() > 1 && switching_ps > 0 {
            items.push(format!("switch={}ns", switching_ps as f64 / 1e3));
        }
        Fabric::parse(&items.join(","))
    }
}

/// How a configuration is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// From several starts, with moves.
    Search,
    /// The paper's start alone, segments for the shortest messages first: two simulations a choice at most.
    Greedy,
}

impl Choice for Method {
    const WHAT: &'static str = "method";
    const ALL: &'static [(&'static str, Self)] = &[("search", Method::Search), ("greedy", Method::Greedy)];
}

/// How a search goes.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// How a configuration is found.
    pub method: Method,
    /// How long a change between phases takes; `None` if there is to be none.
    pub switching_ps: Option<Picos>,
    /// Most simulations: on the fabric, and on each with fewer wires, from which a search takes what is better.
    pub steps: u32,
}

/// What is to be fast.
pub enum ConfiguredWork<'a> {
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

impl ConfiguredWork<'_> {
    /// How many schedules there are to choose from.
    fn choices(&self) -> usize {
        match self {
            ConfiguredWork::Collective { algorithms, .. } => algorithms.len(),
            ConfiguredWork::Schedule(_) => 1,
        }
    }

    /// Whether the messages of a choice are planned by prices.
    fn is_planned(&self, choice: usize) -> bool {
        match self {
            ConfiguredWork::Collective { algorithms, .. } => algorithm::plans(&algorithms[choice]),
            ConfiguredWork::Schedule(_) => false,
        }
    }

    /// One of its schedules on a fabric; `bare` without a certificate, if it had one.
    fn on(&self, fabric: &Fabric, system: &System, choice: usize, bare: bool) -> Result<Schedule> {
        match self {
            ConfiguredWork::Collective { collective, bytes, algorithms } => match bare {
                true => algorithm::build_bare(fabric, system, *collective, *bytes, &algorithms[choice]),
                false => algorithm::build(fabric, system, *collective, *bytes, &algorithms[choice]),
            },
            ConfiguredWork::Schedule(schedule) => rerouted(schedule, fabric),
        }
    }

    /// Its collective and size.
    fn task(&self) -> (Collective, Bytes) {
        match self {
            ConfiguredWork::Collective { collective, bytes, .. } => (*collective, *bytes),
            ConfiguredWork::Schedule(schedule) => (schedule.collective, schedule.bytes),
        }
    }
}

/// A schedule's messages on another fabric of the same ranks, each by the shortest way.
fn rerouted(schedule: &Schedule, fabric: &Fabric) -> Result<Schedule> {
    if schedule.matrix.is_some() {
        return Err(Error::new(Code::NotApplicable, "schedule: it has a matrix, for which fabrics are not configured"));
    }
    if schedule.ranks as usize != fabric.ranks() {
        let ranks = format!("it has {} ranks, the fabric has {}", schedule.ranks, fabric.ranks());
        return Err(schedule.misfit(fabric, &ranks));
    }
    if !schedule.group.is_empty() || schedule.placement.iter().any(|&node| node as usize >= fabric.nodes.len()) {
        return Err(schedule.misfit(fabric, "it is for a group of ranks, or has them on other nodes"));
    }
    let mut other = schedule.clone();
    (other.fabric, other.conflict_free, other.certificate) = (fabric.name.clone(), false, None);
    for (number, phase) in (0..).zip(&mut other.phases) {
        let before = fabric.configuration_of(number.max(1) - 1);
        phase.configuration = fabric.configuration_of(number);
        phase.barrier |= fabric.changes(before, phase.configuration);
    }
    let mut routers: Vec<Router> = (0..fabric.configurations()).map(|turn| Router::within(fabric, turn)).collect();
    let mut parallel = fabric.parallel_links();
    parallel.retain(|_, links| fabric.are_always_together(links));
    let mut bundled = vec![];
    for transfer in &mut other.transfers {
        let [from, to] = [transfer.from, transfer.to].map(|rank| schedule.node_of(fabric, rank));
        let route = routers[other.phases[transfer.phase as usize].configuration as usize].path(from, to)?;
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
pub struct BestSetup {
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
    /// Schedules simulated.
    pub simulated: u32,
    /// Those of them with changes of configuration between phases; `None` if there were to be none.
    pub changes: Option<u32>,
    /// Why the search ended: `bound`, `no-better`, `rates`, `steps` or `greedy`.
    pub ended: &'static str,
}

/// Searches the configuration in which some work takes the least time, and changes between its phases if they may be; `progress` is told
/// the share of them, and may end the search, which then gives the best so far. The same for the same values, however
/// many cores there are.
///
/// # Errors
/// Those of [`bound`]; of building the schedules if none can be built on any configuration tried.
pub fn configure(
    fabric: &Reconfigurable,
    system: &System,
    work: &ConfiguredWork,
    fidelity: Fidelity,
    effort: Effort,
    progress: &mut Progress,
) -> Result<BestSetup> {
    if effort.steps == 0 {
        return Err(Error::new(Code::BadSpec, "steps is 0; give at least 1"));
    }
    let (collective, bytes) = work.task();
    let bound = bound(fabric, system, collective, bytes)?;
    let aim = Aim { fabric, system, work, fidelity, effort };
    let mut search = SetupSearch { trials: Trials::new(aim, bound.0, progress), aries: fabric.aries.clone() };
    let ended = search.run();
    let trials = search.trials;
    let (time_ps, best) = trials.best().ok_or_else(|| trials.refusal())?;
    let given_ps = trials.time_of(&fabric.given);
    let simulated = trials.times.len() as u32;
    let changes = effort.switching_ps.map(|_| trials.times.keys().filter(|tried| tried.turns.len() > 1).count() as u32);
    let fabric = fabric.configured(&best.turns, effort.switching_ps.unwrap_or(0))?;
    let schedule = work.on(&fabric, system, best.choice, false)?;
    verify(&fabric, &schedule)?;
    Ok(BestSetup { fabric, schedule, time_ps, given_ps, bound, simulated, changes, ended })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{ALL, build};
    use antiphon_model::collective::Kind;
    use antiphon_model::fabric::aries::Segment;
    use antiphon_model::schedule::{Builder, Op};
    use antiphon_sim::trial;
    use proptest::prelude::*;
    use proptest::sample::select;

    fn aries() -> System {
        System::preset("aries").unwrap()
    }

    fn effort(method: Method, steps: u32) -> Effort {
        Effort { method, switching_ps: None, steps }
    }

    fn find(spec: &str, system: &System, work: &ConfiguredWork, effort: Effort) -> Result<BestSetup> {
        configure(&Reconfigurable::parse(spec)?, system, work, Fidelity::Packet, effort, &mut |_| true)
    }

    fn reduced(
        algorithms: &[&str],
        bytes: Bytes,
        work: impl FnOnce(&ConfiguredWork) -> Result<BestSetup>,
    ) -> Result<BestSetup> {
        let algorithms: Vec<String> = algorithms.iter().map(ToString::to_string).collect();
        work(&ConfiguredWork::Collective {
            collective: Collective::new(Kind::AllReduce),
            bytes,
            algorithms: &algorithms,
        })
    }

    fn search(spec: &str, algorithms: &[&str], bytes: Bytes, steps: u32) -> Result<BestSetup> {
        reduced(algorithms, bytes, |work| find(spec, &aries(), work, effort(Method::Search, steps)))
    }

    /// Every edge of the ring gets a second link, so that it takes half of the time but for latency: ARIES, section IV-A1.
    #[test]
    fn a_ring_is_doubled() {
        for (spec, speedup) in [("aries:4x4", 1.95), ("aries:4x6", 1.9), ("aries:2x4", 1.95)] {
            let found = search(spec, &["ring"], 1 << 20, 200).unwrap();
            let given = found.given_ps.unwrap() as f64;
            assert!(given / found.time_ps as f64 > speedup, "{spec}: {} of {given}", found.time_ps);
            assert!(found.time_ps >= found.bound.0 && found.ended == "no-better");
        }
        // A port that faces the wrong way takes no bypass, and one of its own dimension is taken by the mesh link.
        let own = search("aries:4x4:ports=own", &["ring"], 1 << 20, 200).unwrap();
        assert_eq!(Some(own.time_ps), own.given_ps);
    }

    /// What fewer wires allow, more allow too.
    #[test]
    fn more_wires_are_no_worse() {
        let [one, two] =
            ["aries:4x4", "aries:4x4:wires=2"].map(|spec| search(spec, &["dbtree"], 2 << 20, 100).unwrap());
        assert!(two.time_ps <= one.time_ps && two.simulated > one.simulated, "{} {}", one.time_ps, two.time_ps);
    }

    #[test]
    fn trees_get_links_of_their_own_and_the_best_algorithm_is_taken() {
        let tree = search("aries:4x4", &["dbtree"], 1 << 20, 400).unwrap();
        assert!(tree.given_ps.unwrap() as f64 / tree.time_ps as f64 > 2.4, "{}", tree.time_ps);
        let best = search("aries:4x4", &["dbtree", "combs", "ring"], 1 << 20, 400).unwrap();
        assert_eq!(best.schedule.algorithm, "combs");
        assert!(best.time_ps < tree.time_ps && best.bound.1 == "ports");
        assert!((best.time_ps as f64) < 1.1 * best.bound.0 as f64, "{} {:?}", best.time_ps, best.bound);
    }

    /// Plans by prices come near the bound by rates, so what does not lower it is not planned; of little data everything is.
    #[test]
    fn plans_are_made_where_their_bound_is_low() {
        let found = search("aries:4x4", &["optimal"], 1 << 20, 400).unwrap();
        assert_eq!((found.simulated, found.bound.1, found.ended), (2, "ports", "rates"));
        assert!(found.fabric.name.ends_with("x3=0-3") && found.bound.0 as f64 > 0.96 * found.time_ps as f64);
        let small = search("aries:4x4", &["optimal"], 1 << 10, 400).unwrap();
        assert!(small.simulated > 20 && small.ended == "no-better", "{} {}", small.simulated, small.ended);
    }

    /// A plan counts for four simulations more among 16 ranks, but for no more than a sixth of all steps.
    #[test]
    fn plans_take_more_steps() {
        for (algorithm, steps, simulated) in
            [("optimal", 1, 1), ("optimal", 12, 4), ("optimal", 50, 10), ("ring", 8, 8)]
        {
            let found = search("aries:4x4", &[algorithm], 1 << 10, steps).unwrap();
            assert_eq!((found.simulated, found.ended), (simulated, "steps"), "{algorithm} {steps}");
        }
    }

    /// Tree edges along rows and columns become segments, the shortest first: ARIES, section IV-B1. Where arbiters take
    /// turns the mesh loses less by shared links than in the order of arrival, so that on 8x8 less is gained.
    #[test]
    fn greedy_segments_serve_short_messages() {
        let mut by_arrival = aries();
        for (key, value) in [
            ("link_arbitration", "arrival"),
            ("interface_assignment", "lowest-free"),
            ("router_traversal_cycles", "1"),
            ("router_ejection", "switched"),
        ] {
            by_arrival.set(key, value).unwrap();
        }
        for (system, spec, least) in [
            (&by_arrival, "aries:4x4", 1.3),
            (&by_arrival, "aries:8x8", 1.15),
            (&aries(), "aries:4x4", 1.4),
            (&aries(), "aries:8x8", 1.08),
        ] {
            let greedy = |work: &ConfiguredWork| find(spec, system, work, effort(Method::Greedy, 400));
            let found = reduced(&["dbtree"], 1 << 20, greedy).unwrap();
            assert_eq!((found.simulated, found.ended), (2, "greedy"));
            let speedup = found.given_ps.unwrap() as f64 / found.time_ps as f64;
            assert!(speedup > least, "{spec}: {speedup} {}", found.fabric.name);
        }
    }

    #[test]
    fn messages_of_a_schedule_are_kept() {
        let of = |mesh: &str| {
            let collective = Collective::new(Kind::AllReduce);
            build(&Fabric::parse(mesh).unwrap(), &aries(), collective, 1 << 18, "dbtree").unwrap()
        };
        let schedule = of("mesh:4x4");
        let search =
            |schedule| find("aries:4x4", &aries(), &ConfiguredWork::Schedule(schedule), effort(Method::Search, 100));
        let found = search(&schedule).unwrap();
        let ends = |schedule: &Schedule| schedule.transfers.iter().map(|t| (t.from, t.to)).collect::<Vec<_>>();
        assert_eq!(ends(&found.schedule), ends(&schedule));
        assert!(found.time_ps < found.given_ps.unwrap());
        let message = search(&of("mesh:3x3")).unwrap_err().message;
        let why = "it is for mesh:3x3, not for aries:4x4 (it has 9 ranks, the fabric has 16)";
        assert!(message.contains(why), "{message}");
    }

    /// Blocks and the trees between them get links of their own in turns, where that is worth the time of the change.
    #[test]
    fn changes_are_kept_where_they_are_worth_their_time() {
        changes_are_kept("aries:2x4");
    }

    #[test]
    #[ignore = "takes ten seconds"]
    fn changes_are_kept_on_more_chiplets() {
        changes_are_kept("aries:4x4");
    }

    fn changes_are_kept(spec: &str) {
        let with = |switching_ps| {
            let effort = Effort { switching_ps, ..effort(Method::Search, 400) };
            let search = |work: &ConfiguredWork| find(spec, &aries(), work, effort);
            reduced(&["multitree:concentration=2x2"], 1 << 20, search).unwrap()
        };
        let (none, soon, late) = (with(None), with(Some(50_000)), with(Some(1_000_000_000)));
        assert!(soon.fabric.configurations() > 1 && soon.fabric.name.ends_with("switch=50ns"), "{}", soon.fabric.name);
        assert!(11 * soon.time_ps < 10 * none.time_ps, "{} {}", soon.time_ps, none.time_ps);
        assert_eq!((late.fabric.name, late.time_ps), (none.fabric.name, none.time_ps));
        assert_eq!(none.changes, None);
        assert!(late.changes.unwrap() > 0 && late.simulated == none.simulated + late.changes.unwrap());
    }

    #[test]
    fn what_cannot_be_configured_is_refused() {
        for (spec, why) in [
            ("mesh:4x4", "has nothing to configure"),
            ("aries:4x4,drop=0-1", "is degraded or a group"),
            ("aries:4x4[0,1,2]", "is degraded or a group"),
            ("aries:4x4,x0=0-3,then,y0=0-3", "changes between phases"),
        ] {
            let error = Reconfigurable::parse(spec).unwrap_err();
            assert!(error.code == Code::NotApplicable && error.message.contains(why), "{error}");
        }
        let error = search("aries:2x3", &["ring-bi-odd"], 4096, 9).unwrap_err();
        assert!(error.message.contains("ring-bi-odd does not apply"), "{error}");
        // Ended before anything was simulated, and after something was.
        let ended = |goes_on: fn(f64) -> bool| {
            let (fabric, effort) = (Reconfigurable::parse("aries:4x4").unwrap(), effort(Method::Search, 100));
            let mut progress = goes_on;
            reduced(&["ring"], 4096, |work| configure(&fabric, &aries(), work, Fidelity::Packet, effort, &mut progress))
        };
        assert_eq!(ended(|_| false).unwrap_err().code, Code::Interrupted);
        assert!(ended(|share| share <= 0.0).is_ok());
    }

    proptest! {
        // A case is a search: 3 of them, or a share of the `PROPTEST_CASES` of longer sweeps.
        #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 80, ..ProptestConfig::default() })]

        /// Whatever is asked for, what comes out is proven, no slower than what was given, and the same again; and nothing
        /// beats the bound.
        #[test]
        fn outcomes_are_legal_and_within_bounds(
            sizes in [2u32..5, 2u32..5],
            wires in 1u32..3,
            ports in select(&["any", "facing", "own"][..]),
            algorithm in select(ALL.map(|algorithm| algorithm.info().name).to_vec()),
            kind in select(&[Kind::AllReduce, Kind::AllGather, Kind::ReduceScatter, Kind::AllToAll, Kind::Broadcast][..]),
            bytes in 64u64..200_000,
            switching_ps in select(&[None, Some(0), Some(20_000)][..]),
        ) {
            let effort = Effort { switching_ps, ..effort(Method::Search, 60) };
            let spec = format!("aries:{}x{}:wires={wires}:ports={ports}", sizes[0], sizes[1]);
            let algorithms = [algorithm.to_string()];
            let work = ConfiguredWork::Collective { collective: Collective::new(kind), bytes, algorithms: &algorithms };
            let search = || find(&spec, &aries(), &work, effort);
            if let Ok(found) = search() {
                verify(&found.fabric, &found.schedule).unwrap();
                prop_assert!(found.bound.0 <= found.time_ps && found.given_ps.is_none_or(|given| found.time_ps <= given));
                let again = search().unwrap();
                prop_assert_eq!((again.fabric.name, again.time_ps), (found.fabric.name.clone(), found.time_ps));
                let parsed = Fabric::parse(&found.fabric.name).unwrap();
                let schedule = work.on(&parsed, &aries(), 0, false).unwrap();
                let time = trial::time(&parsed, &schedule, &aries(), Fidelity::Packet, &mut |_| true).unwrap();
                prop_assert_eq!(time, found.time_ps);
            }
        }

        /// Sums up a random tree and back: whatever messages there are, the configuration for them is legal.
        #[test]
        fn random_schedules_get_legal_configurations(
            parents in prop::collection::vec(any::<prop::sample::Index>(), 11),
            wires in 1u32..3,
            ports in select(&["any", "facing", "own"][..]),
            method in select(&[Method::Search, Method::Greedy][..]),
            switching_ps in select(&[None, Some(5_000)][..]),
        ) {
            let fabric = Reconfigurable::parse(&format!("aries:3x4:wires={wires}:ports={ports}")).unwrap();
            // Rank 5 k of 12 has a parent among those before it.
            let place = |k: usize| (5 * k % 12) as u32;
            let up: Vec<usize> = (1..12).map(|k| parents[k - 1].index(k)).collect();
            let depth = |mut k: usize| {
                let mut depth = 0;
                while k > 0 {
                    (k, depth) = (up[k - 1], depth + 1);
                }
                depth
            };
            let mut builder = Builder::new("tree", &fabric.mesh, Collective::new(Kind::AllReduce), 4096);
            builder.block((0, 4096), 4096);
            builder.phase("reduce", false);
            for k in 1..12 {
                builder.send(Op::Reduce, place(k), place(up[k - 1]), 0, 12 - depth(k)).unwrap();
            }
            builder.phase("broadcast", false);
            for k in 1..12 {
                builder.send(Op::Copy, place(up[k - 1]), place(k), 0, depth(k)).unwrap();
            }
            let schedule = builder.finish().unwrap();
            verify(&fabric.mesh, &schedule).unwrap();
            let work = ConfiguredWork::Schedule(&schedule);
            let effort = Effort { switching_ps, ..effort(method, 50) };
            let found = configure(&fabric, &aries(), &work, Fidelity::Packet, effort, &mut |_| true).unwrap();
            prop_assert!(verify(&found.fabric, &found.schedule).unwrap().complete);
            prop_assert!(found.time_ps <= found.given_ps.unwrap() && found.bound.0 <= found.time_ps);
            prop_assert!(trial::time(&found.fabric, &found.schedule, &aries(), Fidelity::Flit, &mut |_| true).is_ok());
        }

        /// No configuration beats the bound of all: not at random, either.
        #[test]
        fn no_configuration_beats_the_bound(
            wires in 1u32..4,
            ends in prop::collection::vec((0u32..16, 0u32..16), 0..24),
            kind in select(&[Kind::AllReduce, Kind::AllGather, Kind::AllToAll, Kind::Broadcast, Kind::Reduce][..]),
            bytes in 16u64..100_000,
        ) {
            let fabric = Reconfigurable::parse(&format!("aries:4x4:wires={wires}@68/10ns")).unwrap();
            // Each that wires and ports still allow.
            let mut configuration = Configuration::default();
            for (from, to) in ends {
                let Some(segment) = fabric.aries.segment(from, to).filter(|Segment { from, to, .. }| from != to) else {
                    continue;
                };
                let segments = [&configuration.segments[..], &[segment]].concat();
                let more = Configuration::new(segments, configuration.detached.clone());
                configuration = if more.check(&fabric.aries).is_ok() { more } else { configuration };
            }
            let (configured, collective) = (fabric.configured(&[configuration], 0).unwrap(), Collective::new(kind));
            let bound = bound(&fabric, &aries(), collective, bytes).unwrap();
            for algorithm in ["forest", "direct", "ring", "halving-doubling", "multitree"] {
                let Ok(schedule) = build(&configured, &aries(), collective, bytes, algorithm) else { continue };
                for fidelity in [Fidelity::AlphaBeta, Fidelity::Packet, Fidelity::Flit] {
                    let time = trial::time(&configured, &schedule, &aries(), fidelity, &mut |_| true).unwrap();
                    prop_assert!(bound.0 <= time, "{} {algorithm} {fidelity:?}: {time} {bound:?}", configured.name);
                }
            }
        }
    }
}
