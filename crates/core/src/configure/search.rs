//! From a few configurations to better ones.

use super::demand::{Demands, Flow, Links, with_segment};
use super::{Reconfigurable, Work};
use crate::error::{Code, Error, Result};
use crate::fabric::aries::{Configuration, Segment};
use crate::schedule::Schedule;
use crate::simulate::{Fidelity, simulate};
use crate::system::System;
use crate::units::Picos;
use crate::watch::Progress;
use std::collections::HashMap;
use std::num::NonZero;
use std::thread;

/// Segments of which the estimate is asked in one step, and configurations simulated in one.
const ESTIMATED: usize = 24;
const BATCH: usize = 8;
/// How many of the configurations on the way of the estimate are simulated.
const WAYPOINTS: usize = 12;

/// A configuration, one of the choices of work, and how long that takes.
type Timed = (Configuration, usize, Picos);

/// The state of a search.
pub struct Search<'a, 'p> {
    fabric: &'a Reconfigurable,
    system: &'a System,
    work: &'a Work<'a>,
    fidelity: Fidelity,
    steps: u32,
    bound_ps: Picos,
    progress: &'a mut Progress<'p>,
    /// Times of what was simulated; `None` where nothing applies.
    times: HashMap<(Configuration, usize), Option<Picos>>,
    simulated: u32,
    best: Option<Timed>,
    refusal: Option<Error>,
}

/// Why a search goes no further.
enum End {
    Bound,
    Steps,
}

impl<'a, 'p> Search<'a, 'p> {
    pub fn new(
        fabric: &'a Reconfigurable,
        system: &'a System,
        work: &'a Work<'a>,
        fidelity: Fidelity,
        steps: u32,
        bound_ps: Picos,
        progress: &'a mut Progress<'p>,
    ) -> Self {
        Search {
            fabric,
            system,
            work,
            fidelity,
            steps,
            bound_ps,
            progress,
            times: HashMap::new(),
            simulated: 0,
            best: None,
            refusal: None,
        }
    }

    /// The best that was found.
    pub fn best(&self) -> Option<Timed> {
        self.best.clone()
    }

    /// How many schedules were simulated.
    pub fn simulated(&self) -> u32 {
        self.simulated
    }

    /// The least time on a configuration that was simulated.
    pub fn time_of(&self, configuration: &Configuration) -> Option<Picos> {
        let of = |choice| self.times.get(&(configuration.clone(), choice)).copied().flatten();
        (0..self.work.choices()).filter_map(of).min()
    }

    /// Why there is nothing to simulate.
    pub fn refusal(&self) -> Error {
        self.refusal.clone().unwrap_or_else(|| Error::new(Code::Interrupted, "interrupted"))
    }

    /// Searches until the bound is reached, nothing better is near, or the steps are used up.
    ///
    /// # Errors
    /// [`Code::Interrupted`] before anything was found.
    pub fn run(&mut self) -> Result<&'static str> {
        let outcome = self.search();
        Ok(match outcome {
            Ok(()) => "no-better",
            Err(End::Bound) => "bound",
            Err(End::Steps) => "steps",
        })
    }

    fn search(&mut self) -> std::result::Result<(), End> {
        let choices = self.work.choices();
        let seeds = self.seeds();
        let all = seeds.iter().flat_map(|seed| (0..choices).map(|choice| (seed.clone(), choice)));
        self.simulate(all.collect())?;
        // What does best so far is shaped first.
        let mut order: Vec<(Picos, usize, &Configuration)> = (0..choices)
            .filter_map(|choice| {
                let time = |seed: &&Configuration| self.times.get(&((*seed).clone(), choice)).copied().flatten();
                seeds.iter().filter_map(|seed| Some((time(&seed)?, choice, seed))).min_by_key(|(time, ..)| *time)
            })
            .collect();
        order.sort_by_key(|&(time, choice, _)| (time, choice));
        let order: Vec<(usize, Configuration)> =
            order.into_iter().map(|(_, choice, seed)| (choice, seed.clone())).collect();
        for (choice, seed) in order {
            let plain = Configuration::default();
            for start in if seed == plain { vec![plain] } else { vec![plain, seed] } {
                let way = self.descend(start, choice);
                let every = way.len().div_ceil(WAYPOINTS).max(1);
                let points = way.into_iter().rev().step_by(every).map(|point| (point, choice));
                self.simulate(points.collect())?;
            }
        }
        while let Some((configuration, choice, time)) = self.best() {
            if !self.improve(&configuration, choice, time)? {
                break;
            }
        }
        Ok(())
    }

    /// What is given, the mesh, and the torus.
    fn seeds(&self) -> Vec<Configuration> {
        let aries = &self.fabric.aries;
        let ends = |dimension: usize, line| {
            let last = aries.sizes[dimension] - 1;
            let there = Segment { dimension, line, from: 0, to: last };
            (last > 1).then_some([there, there.reversed()])
        };
        let lines =
            [0, 1].map(|dimension| (0..aries.sizes[1 - dimension]).filter_map(move |line| ends(dimension, line)));
        let torus = Configuration::new(lines.into_iter().flatten().flatten().collect(), vec![]);
        let mut seeds = vec![self.fabric.given.clone(), Configuration::default(), torus];
        seeds.retain(|seed| seed.check(aries).is_ok());
        seeds.dedup();
        seeds
    }

    /// The schedule of a choice on a configuration, if there is one.
    fn schedule(&self, configuration: &Configuration, choice: usize) -> Option<(crate::fabric::Fabric, Schedule)> {
        let fabric = self.fabric.configured(configuration).ok()?;
        let schedule = self.work.on(&fabric, self.system, choice).ok()?;
        Some((fabric, schedule))
    }

    /// Adds segments while the estimate falls; the configurations on the way.
    fn descend(&mut self, start: Configuration, choice: usize) -> Vec<Configuration> {
        let aries = &self.fabric.aries;
        let (mut at, mut way) = (start, vec![]);
        let Some((fabric, schedule)) = self.schedule(&at, choice) else { return way };
        let mut demands = Demands::of(&fabric, &schedule);
        let mut flow = Links::of(aries, &at).flow(&demands);
        // Each step adds one, and there are not more than this.
        for _ in 0..4 * self.fabric.mesh.ranks() {
            if !(self.progress)(f64::from(self.simulated) / f64::from(self.steps.max(1))) {
                break;
            }
            let next = neighbours(self.fabric, &at, &demands, &flow)
                .into_iter()
                .min_by(|(_, a), (_, b)| a.cost.total_cmp(&b.cost))
                .filter(|(_, next)| next.cost < flow.cost * (1.0 - 1e-9));
            let Some((configuration, next)) = next else { break };
            (at, flow) = (configuration, next);
            way.push(at.clone());
            // Some algorithms send other messages on another fabric.
            if let Some((fabric, schedule)) = self.schedule(&at, choice) {
                let now = Demands::of(&fabric, &schedule);
                if now != demands {
                    flow = Links::of(aries, &at).flow(&now);
                    demands = now;
                }
            }
        }
        way
    }

    /// Simulates configurations near the best; whether one is better.
    fn improve(&mut self, at: &Configuration, choice: usize, time: Picos) -> std::result::Result<bool, End> {
        let Some((fabric, schedule)) = self.schedule(at, choice) else { return Ok(false) };
        let demands = Demands::of(&fabric, &schedule);
        let flow = Links::of(&self.fabric.aries, at).flow(&demands);
        let mut near = neighbours(self.fabric, at, &demands, &flow);
        near.sort_by(|(_, a), (_, b)| a.cost.total_cmp(&b.cost));
        for batch in near.chunks(BATCH) {
            self.simulate(batch.iter().map(|(configuration, _)| (configuration.clone(), choice)).collect())?;
            if self.best.as_ref().is_some_and(|best| best.2 < time) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Simulates what was not yet, on all cores, and keeps the best.
    fn simulate(&mut self, mut points: Vec<(Configuration, usize)>) -> std::result::Result<(), End> {
        points.retain(|point| !self.times.contains_key(point));
        let mut known = std::collections::HashSet::new();
        points.retain(|point| known.insert(point.clone()));
        for batch in points.chunks(BATCH) {
            let share = f64::from(self.simulated) / f64::from(self.steps.max(1));
            if self.simulated >= self.steps || !(self.progress)(share.min(1.0)) {
                return Err(End::Steps);
            }
            let (this, workers) = (&*self, thread::available_parallelism().map_or(1, NonZero::get));
            let (fabric, system, work, fidelity) = (this.fabric, this.system, this.work, this.fidelity);
            let time = |(configuration, choice): &(Configuration, usize)| -> Result<Picos> {
                let fabric = fabric.configured(configuration)?;
                let schedule = work.on(&fabric, system, *choice)?;
                Ok(simulate(&fabric, &schedule, system, fidelity, &mut |_| true)?.time_ps)
            };
            let times: Vec<Result<Picos>> = thread::scope(|scope| {
                let shares: Vec<_> = batch
                    .chunks(batch.len().div_ceil(workers))
                    .map(|share| scope.spawn(|| share.iter().map(time).collect::<Vec<_>>()))
                    .collect();
                shares.into_iter().flat_map(|share| share.join().expect("simulations do not panic")).collect()
            });
            for (point, time) in batch.iter().zip(times) {
                self.simulated += 1;
                match time {
                    Ok(time) => {
                        if self.best.as_ref().is_none_or(|best| time < best.2) {
                            self.best = Some((point.0.clone(), point.1, time));
                        }
                        self.times.insert(point.clone(), Some(time));
                    }
                    Err(error) => {
                        self.times.insert(point.clone(), None);
                        self.refusal.get_or_insert(error);
                    }
                }
            }
            if self.best.as_ref().is_some_and(|best| best.2 <= self.bound_ps) {
                return Err(End::Bound);
            }
        }
        Ok(())
    }
}

/// Configurations with one segment more, with what it replaces gone, and what the estimate says of them.
fn neighbours(
    fabric: &Reconfigurable,
    at: &Configuration,
    demands: &Demands,
    flow: &Flow,
) -> Vec<(Configuration, Flow)> {
    let aries = &fabric.aries;
    let both_ways = demands.are_symmetric();
    let links = Links::of(aries, at);
    let mut near = vec![];
    let mut done = std::collections::HashSet::new();
    for segment in links.wishes(aries, demands, flow) {
        if near.len() >= ESTIMATED {
            break;
        }
        let with = with_segment(aries, at, flow, segment);
        let next = match with.as_ref().filter(|_| both_ways) {
            Some(one) => with_segment(aries, one, flow, segment.reversed()).or(with),
            None => with,
        };
        let Some(next) = next.filter(|next| done.insert(next.clone())) else { continue };
        let flow = Links::of(aries, &next).flow(demands);
        if flow.cost.is_finite() {
            near.push((next, flow));
        }
    }
    near
}
