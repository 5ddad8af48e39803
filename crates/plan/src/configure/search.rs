//! From a few setups to better ones: starts, moves that an estimate ranks, and simulation, which decides.
//!
//! Starts are what is given, the mesh, the torus, the paper's segments, and the best on fewer wires. A move gives one part of the phases, most
//! often all of them, another configuration: one that annealing met, or one that is near.

use super::Method;
use super::anneal::{anneal, descend};
use super::estimate::Estimate;
use super::greedy::greedy;
use super::trials::{ALL, BATCH, Phases, SearchEnd, Setup, Trials};
use crate::cores::on_cores;
use antiphon_model::fabric::aries::{Aries, Configuration, MAX_CONFIGURATIONS, Segment};
use std::collections::HashSet;
use std::slice::from_ref;

type SearchResult<T = ()> = std::result::Result<T, SearchEnd>;

/// How many of what the estimate finds are simulated.
const WAYPOINTS: usize = 12;
/// The same for each of two parts of the phases.
const HALVES: usize = 2;
/// Most steps of annealing by the estimate, and about how much work all may be.
const ANNEALED: usize = 8000;
const WORK: usize = 250_000_000;
/// Chains of annealing side by side.
const CHAINS: u64 = 8;
/// It is annealed again where the time fell to this share.
const WORTH: f64 = 0.97;
/// How often it is annealed in vain, and up to how many ranks; once on larger fabrics.
const PATIENCE: u32 = 4;
const FEW: usize = 36;
/// Choices that go on from the starts: those that do best there.
const CHOSEN: usize = 3;

/// A search, with the wires that it may take.
pub struct SetupSearch<'a, 'p> {
    pub trials: Trials<'a, 'p>,
    pub aries: Aries,
}

impl SetupSearch<'_, '_> {
    /// Searches until the bound is reached, nothing better is near, or the steps are used up; why it ended: at `rates` where
    /// near the best only what lowers the bound by rates was planned.
    pub fn run(&mut self) -> &'static str {
        let is_greedy = self.trials.aim.effort.method == Method::Greedy;
        let wires = self.aries.wires;
        let mut outcome = Ok(());
        for wires in if is_greedy { wires..=wires } else { 1..=wires } {
            (self.aries.wires, self.trials.spent) = (wires, 0);
            let on_fewer = std::mem::take(&mut self.trials.best);
            outcome = self.search(is_greedy);
            // What is best on fewer wires is one to start from on more.
            let best = self.trials.best().map(|best| best.0);
            on_fewer.into_values().for_each(|(time, setup)| self.trials.offer(time, &setup));
            if matches!(outcome, Err(SearchEnd::Bound)) {
                break;
            }
            if self.trials.best().map(|best| best.0) != best {
                outcome = self.climb().and(outcome);
            }
        }
        match outcome {
            Ok(()) if is_greedy => "greedy",
            Ok(()) => match self.trials.best() {
                Some((_, best)) if self.trials.planned.contains_key(&best.choice) => "rates",
                _ => "no-better",
            },
            Err(SearchEnd::Bound) => "bound",
            Err(SearchEnd::Steps) => "steps",
        }
    }

    /// Starts, then moves, then changes between phases, if there may be some.
    fn search(&mut self, is_greedy: bool) -> SearchResult {
        self.start(is_greedy)?;
        if !is_greedy {
            self.go_on()?;
            self.prune()?;
        }
        if self.trials.aim.effort.switching_ps.is_some() { self.part() } else { Ok(()) }
    }

    /// Simulates what is given, the mesh and the torus, and the paper's segments for what does best there; then, unless that is all,
    /// what the estimate makes of them.
    fn start(&mut self, is_greedy: bool) -> SearchResult {
        let (given, plain) = (self.trials.aim.fabric.given.clone(), Configuration::default());
        let mut seeds = vec![given.clone()];
        if !is_greedy {
            seeds.extend([plain.clone(), self.torus()]);
        }
        seeds.retain(|seed| seed.check(&self.aries).is_ok());
        let choices = 0..self.trials.aim.work.choices();
        let all = seeds.iter().flat_map(|seed| choices.clone().map(|choice| Setup::one(seed, choice)));
        self.trials.simulate(all.collect())?;
        for best in self.trials.fastest(if is_greedy { usize::MAX } else { CHOSEN }) {
            let base = Setup::one(if is_greedy { &given } else { &plain }, best.choice);
            if self.trials.is_improvable(base.choice) {
                self.shape(&base)?;
                if !is_greedy {
                    let mut starts = vec![base, best];
                    starts.dedup();
                    self.descend(&starts)?;
                }
            }
        }
        Ok(())
    }

    /// The ends of all rows and columns joined.
    fn torus(&self) -> Configuration {
        let ends = |dimension: usize, line| {
            let last = self.aries.sizes[dimension] - 1;
            let there = Segment { dimension, line, from: 0, to: last };
            (last > 1).then_some([there, there.reversed()])
        };
        let lines =
            |dimension: usize| (0..self.aries.sizes[1 - dimension]).filter_map(move |line| ends(dimension, line));
        Configuration::new((0..2).flat_map(lines).flatten().collect(), vec![])
    }

    /// Simulates segments for the shortest messages beside those of a setup.
    fn shape(&mut self, base: &Setup) -> SearchResult {
        let Some(demands) = self.trials.aim.demands(base, &ALL) else { return Ok(()) };
        let shaped = |base: &Setup| base.with(&ALL, &greedy(&self.aries, base.at(&ALL), &demands));
        let shaped = on_cores(from_ref(base), &mut || self.trials.goes_on(), shaped).ok_or(SearchEnd::Steps)?;
        self.trials.simulate(shaped)
    }

    /// Simulates some on the way of the estimate from each of some setups.
    fn descend(&mut self, starts: &[Setup]) -> SearchResult {
        let (aim, aries) = (self.trials.aim, &self.aries);
        let way = |start: &Setup| {
            // Some algorithms send other messages on another fabric. To plan them at every step would take too long.
            let demands = |now: &Configuration| {
                let is_known = aim.work.is_planned(start.choice) && now != start.at(&ALL);
                (!is_known).then(|| aim.demands(&Setup::one(now, start.choice), &ALL)).flatten()
            };
            // Each step adds one, and there are not more than this.
            let way = descend(aries, start.at(&ALL), 4 * aim.fabric.mesh.ranks(), demands);
            let every = way.len().div_ceil(WAYPOINTS).max(1);
            let some = way.iter().rev().step_by(every);
            some.map(|configuration| Setup::one(configuration, start.choice)).collect::<Vec<_>>()
        };
        let ways = on_cores(starts, &mut || self.trials.goes_on(), way).ok_or(SearchEnd::Steps)?;
        self.trials.simulate(ways.concat())
    }

    /// Anneals the best and climbs from there, as long as that makes it faster.
    fn go_on(&mut self) -> SearchResult {
        let mut left = PATIENCE;
        for round in 0.. {
            let Some((before, best)) = self.trials.best() else { break };
            if left == 0 || !self.trials.is_improvable(best.choice) {
                break;
            }
            let found = self.jumps(&best, &[ALL], WAYPOINTS, (round, 1));
            self.trials.simulate(found)?;
            self.climb()?;
            // Where it is soon done it is tried some more times.
            left = match self.trials.best().is_some_and(|(now, _)| now as f64 <= before as f64 * WORTH) {
                true => PATIENCE,
                false if self.trials.aim.fabric.mesh.ranks() > FEW => 0,
                false => left - 1,
            };
        }
        Ok(())
    }

    /// A setup, with what annealing finds for what some parts send, `kept` for each; in `share` times fewer steps.
    fn jumps(&mut self, from: &Setup, parts: &[Phases], kept: usize, (round, share): (u64, usize)) -> Vec<Setup> {
        let mut setups = vec![from.clone()];
        for part in parts {
            let found = self.annealed(from, part, round, share);
            let with = |setup: Setup| {
                let others: Vec<Setup> = found.iter().take(kept).map(|found| setup.with(part, found)).collect();
                std::iter::once(setup).chain(others)
            };
            setups = setups.into_iter().flat_map(with).collect();
        }
        setups
    }

    /// The best by the estimate that annealing meets for what a part sends.
    fn annealed(&mut self, from: &Setup, part: &Phases, round: u64, share: usize) -> Vec<Configuration> {
        let Some(demands) = self.trials.aim.demands(from, part) else { return vec![] };
        // What sends other messages on another fabric is not estimated by these.
        let plain = Setup::one(&Configuration::default(), from.choice);
        if self.trials.aim.demands(&plain, part).as_ref() != Some(&demands) {
            return vec![];
        }
        let steps = ANNEALED.min(WORK / demands.work(self.trials.aim.fabric.mesh.ranks())) / share;
        let seeds: Vec<u64> = (0..CHAINS).map(|chain| round * CHAINS + chain).collect();
        let chain = |&seed: &u64| anneal(&self.aries, from.at(part).clone(), &demands, (steps, seed, WAYPOINTS));
        let Some(chains) = on_cores(&seeds, &mut || self.trials.goes_on(), chain) else { return vec![] };
        let mut all: Vec<(f64, Configuration)> = chains.into_iter().flatten().collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all.dedup_by(|a, b| a.1 == b.1);
        all.into_iter().map(|(_, configuration)| configuration).take(WAYPOINTS).collect()
    }

    /// Exchanges single segments of the best, part by part, until none makes it faster.
    fn climb(&mut self) -> SearchResult {
        let mut before = None;
        while let Some((time, best)) = self.trials.best().filter(|best| before != Some(best.0)) {
            before = Some(time);
            for part in best.parts() {
                self.exchange(&part)?;
            }
        }
        Ok(())
    }

    /// Simulates what is near the best in one part, until something is better.
    fn exchange(&mut self, part: &Phases) -> SearchResult {
        let Some((time, best)) = self.trials.best() else { return Ok(()) };
        let Some(demands) = self.trials.aim.demands(&best, part) else { return Ok(()) };
        let near = Estimate::new(&self.aries, best.at(part).clone(), &demands).near(&self.aries, &demands);
        let mut setups: Vec<Setup> = near.iter().map(|near| best.with(part, &near.configuration)).collect();
        setups.retain(|setup| self.trials.is_worth_a_plan(setup, |new, least| new < least));
        for batch in setups.chunks(BATCH) {
            self.trials.simulate(batch.to_vec())?;
            if self.trials.best().is_some_and(|best| best.0 < time) {
                break;
            }
        }
        Ok(())
    }

    /// Parts the phases of the best in two, and the parts again, as long as a change of configuration between them makes it faster.
    fn part(&mut self) -> SearchResult {
        let Some((_, best)) = self.trials.best() else { return Ok(()) };
        let Ok((_, schedule)) = self.trials.aim.build(&best) else { return Ok(()) };
        // What has more goes on in the last.
        let phases = schedule.phases.len().min(MAX_CONFIGURATIONS);
        let mut open = best.parts();
        while let Some(part) = open.pop() {
            let Some((before, best)) = self.trials.best() else { break };
            let inner = part.start + 1..part.end.min(phases);
            let halves = |boundary: usize| [part.start..boundary, boundary..part.end];
            let at = |boundary| self.jumps(&best, &halves(boundary), HALVES, (0, inner.len() + 1));
            let setups = inner.clone().flat_map(at).collect();
            self.trials.simulate(setups)?;
            let Some((_, best)) = self.trials.best().filter(|best| best.0 < before) else { continue };
            let boundary = best.parts().into_iter().map(|new| new.start).find(|start| inner.contains(start));
            open.extend(boundary.into_iter().flat_map(halves));
        }
        match self.trials.best() {
            Some((_, best)) if best.turns.len() > 1 => self.climb(),
            _ => Ok(()),
        }
    }

    /// Leaves away segments that the best does not use, if it is as fast without them.
    fn prune(&mut self) -> SearchResult {
        let Some((time, best)) = self.trials.best() else { return Ok(()) };
        let ([configuration], Ok((fabric, schedule))) = (&best.turns[..], self.trials.aim.build(&best)) else {
            return Ok(());
        };
        let channels = schedule.channels(&fabric);
        let routes = schedule.transfers.iter().flat_map(|transfer| &transfer.route);
        let used: HashSet<_> = routes
            .flat_map(|&link| channels.links(channels.first_of(link)))
            .map(|&link| (fabric.link(link).from, fabric.link(link).to))
            .collect();
        let mut fewer = configuration.clone();
        fewer.segments.retain(|&segment| used.contains(&self.aries.ends(segment)));
        let fewer = best.with(&ALL, &fewer);
        self.trials.simulate(vec![fewer.clone()])?;
        if self.trials.times.get(&fewer) == Some(&Some(time)) {
            self.trials.best.insert(fewer.choice, (time, fewer));
        }
        Ok(())
    }
}
