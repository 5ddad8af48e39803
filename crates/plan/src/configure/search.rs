//! From a few configurations to better ones.

use super::cores::on_cores;
use super::demand::Demands;
use super::estimate::Estimate;
use super::greedy::greedy;
use super::{Effort, Method, Reconfigurable, Work};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Picos;
use antiphon_base::watch::{Progress, Watch, checkpoint};
use antiphon_bound as bound;
use antiphon_model::collective::Kind;
use antiphon_model::fabric::Fabric;
use antiphon_model::fabric::aries::{Aries, Configuration, Segment};
use antiphon_model::schedule::Schedule;
use antiphon_model::system::System;
use antiphon_sim::{Fidelity, trial};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore, SeedableRng};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// Segments of which the estimate is asked in one step, and configurations simulated in one.
const ESTIMATED: usize = 24;
pub(super) const BATCH: usize = 8;
/// How many of the configurations on the way of the estimate are simulated.
const WAYPOINTS: usize = 12;
/// Most steps of annealing by the estimate, and about how much work all may be.
const ANNEALED: usize = 8000;
const WORK: usize = 250_000_000;
/// It is annealed again where the time fell to this share.
const WORTH: f64 = 0.97;
/// How often it is annealed in vain, and up to how many ranks; once on larger fabrics.
const PATIENCE: u32 = 4;
const FEW: usize = 36;
/// Chains of annealing side by side.
const CHAINS: u64 = 8;
/// Temperatures of annealing, as shares of the cost: at first and in the end.
const HOT: f64 = 0.03;
const COLD: f64 = 0.000_5;
/// Ranks among which a plan by prices takes as long as a step; it grows with their square.
const PLANNED: usize = 8;
/// Of all steps a plan takes no more than this part.
const PLANS: u32 = 6;
/// Choices that are shaped: those that do best as they are.
const SHAPED: usize = 3;

/// Configurations in turns, one of the choices of work, and how long that takes.
type Timed = (Vec<Configuration>, usize, Picos);
/// What is simulated: configurations in turns, most often one, and a choice.
type Point = (Vec<Configuration>, usize);

/// The state of a search.
pub struct Search<'a, 'p> {
    pub(super) fabric: &'a Reconfigurable,
    system: &'a System,
    work: &'a Work<'a>,
    fidelity: Fidelity,
    effort: Effort,
    bound_ps: Picos,
    progress: &'a mut Progress<'p>,
    /// Times of what was simulated; `None` where nothing applies.
    times: HashMap<Point, Option<Picos>>,
    simulated: u32,
    /// Steps taken: simulations, and plans by prices by what they cost.
    spent: u32,
    best: Option<Timed>,
    /// Of choices that plan by prices, and of much data, the least bound by rates of what was simulated.
    planned: HashMap<usize, Picos>,
    refusal: Option<Error>,
}

/// One configuration for all phases.
fn one(configuration: &Configuration, choice: usize) -> Point {
    (vec![configuration.clone()], choice)
}

/// Why a search goes no further.
pub(super) enum End {
    Bound,
    Steps,
}

impl<'a, 'p> Search<'a, 'p> {
    pub fn new(
        fabric: &'a Reconfigurable,
        system: &'a System,
        work: &'a Work<'a>,
        fidelity: Fidelity,
        effort: Effort,
        bound_ps: Picos,
        progress: &'a mut Progress<'p>,
    ) -> Self {
        Search {
            fabric,
            system,
            work,
            fidelity,
            effort,
            bound_ps,
            progress,
            times: HashMap::new(),
            simulated: 0,
            spent: 0,
            best: None,
            planned: HashMap::new(),
            refusal: None,
        }
    }

    /// The best that was found.
    pub fn best(&self) -> Option<Timed> {
        self.best.clone()
    }

    /// The same where it has one configuration.
    fn best_one(&self) -> Option<(Configuration, usize, Picos)> {
        let (turns, choice, time) = self.best()?;
        Some((turns.into_iter().next()?, choice, time))
    }

    /// How many schedules were simulated.
    pub fn simulated(&self) -> u32 {
        self.simulated
    }

    /// How many of them with changes of configuration between phases.
    pub fn changes(&self) -> u32 {
        self.times.keys().filter(|(turns, _)| turns.len() > 1).count() as u32
    }

    /// The least time on a configuration that was simulated.
    pub fn time_of(&self, configuration: &Configuration) -> Option<Picos> {
        let of = |choice| self.times.get(&one(configuration, choice)).copied().flatten();
        (0..self.work.choices()).filter_map(of).min()
    }

    /// Why there is nothing to simulate.
    pub fn refusal(&self) -> Error {
        self.refusal.clone().unwrap_or_else(|| Error::new(Code::Interrupted, "interrupted"))
    }

    /// Searches until the bound is reached, nothing better is near, or the steps are used up; why it ended: at `rates` where
    /// near the best only what lowers the bound by rates was planned.
    pub fn run(&mut self) -> &'static str {
        let method = self.effort.method;
        let outcome = match method {
            Method::Search => self.search(),
            Method::Greedy => self.greedy(),
        };
        let outcome = match self.effort.switching_ps {
            Some(_) => outcome.and_then(|()| self.change()),
            None => outcome,
        };
        let outcome = match (self.fabric.with_fewer_wires(), method) {
            (Some(part), Method::Search) if !matches!(outcome, Err(End::Bound)) => self.search_part(&part).and(outcome),
            _ => outcome,
        };
        match (outcome, method) {
            (Ok(()), Method::Search) => match &self.best {
                Some((_, choice, _)) if self.planned.contains_key(choice) => "rates",
                _ => "no-better",
            },
            (Ok(()), Method::Greedy) => "greedy",
            (Err(End::Bound), _) => "bound",
            (Err(End::Steps), _) => "steps",
        }
    }

    /// Simulates what is given, and what the shortest messages of each choice ask for.
    fn greedy(&mut self) -> std::result::Result<(), End> {
        let given = self.fabric.given.clone();
        let choices = 0..self.work.choices();
        self.simulate(choices.clone().map(|choice| one(&given, choice)).collect())?;
        for choice in choices {
            let shaped = self.shaped(&given, choice)?;
            self.simulate(shaped.iter().map(|shaped| one(shaped, choice)).collect())?;
        }
        Ok(())
    }

    /// Segments for the shortest messages of a choice beside those of a configuration, if it applies to that.
    fn shaped(&mut self, base: &Configuration, choice: usize) -> std::result::Result<Option<Configuration>, End> {
        let Some(demands) = self.demands(base, choice) else { return Ok(None) };
        let progress = RefCell::new(&mut *self.progress);
        let shaped = greedy(&self.fabric.aries, base, &demands, Watch::new(&|share| (progress.borrow_mut())(share)));
        shaped.map(Some).map_err(|_| End::Steps)
    }

    fn search(&mut self) -> std::result::Result<(), End> {
        let choices = self.work.choices();
        let seeds = self.seeds();
        let all = seeds.iter().flat_map(|seed| (0..choices).map(|choice| one(seed, choice)));
        self.simulate(all.collect())?;
        // What does best so far is shaped first.
        let mut order: Vec<(Picos, usize, &Configuration)> = (0..choices)
            .filter_map(|choice| {
                let time = |seed: &&Configuration| self.times.get(&one(seed, choice)).copied().flatten();
                seeds.iter().filter_map(|seed| Some((time(&seed)?, choice, seed))).min_by_key(|(time, ..)| *time)
            })
            .collect();
        order.sort_by_key(|&(time, choice, _)| (time, choice));
        let order: Vec<(usize, Configuration)> =
            order.into_iter().map(|(_, choice, seed)| (choice, seed.clone())).collect();
        for (choice, seed) in order.into_iter().take(SHAPED) {
            if !self.is_improvable(choice) {
                continue;
            }
            let plain = Configuration::default();
            let shaped = self.shaped(&plain, choice)?;
            self.simulate(shaped.iter().map(|shaped| one(shaped, choice)).collect())?;
            for start in if seed == plain { vec![plain] } else { vec![plain, seed] } {
                let way = self.descend(start, choice);
                let every = way.len().div_ceil(WAYPOINTS).max(1);
                let points = way.iter().rev().step_by(every).map(|point| one(point, choice));
                self.simulate(points.collect())?;
            }
        }
        let mut left = PATIENCE;
        for round in 0.. {
            let Some((start, choice, before)) = self.best_one() else { break };
            if !self.is_improvable(choice) {
                break;
            }
            let found = self.anneal(&start, choice, round);
            self.simulate(found.iter().map(|point| one(point, choice)).collect())?;
            while let Some((configuration, choice, time)) = self.best_one() {
                if !self.improve(&configuration, choice, time)? {
                    break;
                }
            }
            // Where it is soon done it is tried some more times.
            left = match self.best.as_ref().is_some_and(|best| best.2 as f64 <= before as f64 * WORTH) {
                true => PATIENCE,
                false if self.fabric.mesh.ranks() > FEW => 0,
                false => left - 1,
            };
            if left == 0 {
                break;
            }
        }
        self.prune()
    }

    /// Searches a part of the fabric, what is legal on which is so on the whole, in as many steps of its own; takes what is found there
    /// if it is better, and looks near it.
    fn search_part(&mut self, part: &Reconfigurable) -> std::result::Result<(), End> {
        let Search { system, work, fidelity, effort, bound_ps, .. } = *self;
        let mut search = Search::new(part, system, work, fidelity, effort, bound_ps, &mut *self.progress);
        search.run();
        self.simulated += search.simulated;
        let Some(found) = search.best() else { return Ok(()) };
        if self.best.as_ref().is_some_and(|best| best.2 <= found.2) {
            return Ok(());
        }
        self.best = Some(found);
        while let Some((turns, choice, time)) = self.best() {
            let [configuration] = &turns[..] else { break };
            if !self.is_improvable(choice) || !self.improve(configuration, choice, time)? {
                break;
            }
        }
        Ok(())
    }

    /// Leaves away segments that the best does not use, if it is as fast without them.
    fn prune(&mut self) -> std::result::Result<(), End> {
        let Some((configuration, choice, time)) = self.best_one() else { return Ok(()) };
        let Some((fabric, schedule)) = self.schedule(std::slice::from_ref(&configuration), choice) else {
            return Ok(());
        };
        let channels = schedule.channels(&fabric);
        let routes = schedule.transfers.iter().flat_map(|transfer| &transfer.route);
        let used: HashSet<_> = routes
            .flat_map(|&link| channels.links(channels.first_of(link)))
            .map(|&link| (fabric.link(link).from, fabric.link(link).to))
            .collect();
        let aries = &self.fabric.aries;
        let segments = configuration.segments.iter().copied().filter(|&segment| used.contains(&aries.ends(segment)));
        let fewer = Configuration { segments: segments.collect(), ..configuration.clone() };
        self.simulate(vec![one(&fewer, choice)])?;
        if self.times.get(&one(&fewer, choice)).copied().flatten() == Some(time) {
            self.best = Some((vec![fewer], choice, time));
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

    /// What no schedule on a configuration can beat by rates.
    fn by_rates(&self, configuration: &Configuration) -> Option<Picos> {
        let fabric = self.fabric.configured(std::slice::from_ref(configuration), 0).ok()?;
        let (collective, bytes) = self.work.task();
        bound::by_cuts(&fabric, self.system, collective, bytes).ok().map(|bound| bound.time_ps)
    }

    /// Keeps the bound by rates of a configuration where that is most of the time of a choice that plans by prices.
    fn learn(&mut self, configuration: &Configuration, choice: usize, time: Picos) {
        if let Some(rates) = self.by_rates(configuration).filter(|rates| 2 * rates >= time) {
            self.planned.entry(choice).and_modify(|least| *least = rates.min(*least)).or_insert(rates);
        }
    }

    /// Whether a choice may be faster on another configuration: not if its plans are the best by rates, and these no
    /// configuration lowers.
    fn is_improvable(&self, choice: usize) -> bool {
        self.planned.get(&choice).is_none_or(|&least| least > self.bound_ps)
    }

    /// The schedule of a choice on configurations in turns, if there is one.
    pub(super) fn schedule(&self, turns: &[Configuration], choice: usize) -> Option<(Fabric, Schedule)> {
        let fabric = self.fabric.configured(turns, self.effort.switching_ps.unwrap_or(0)).ok()?;
        let schedule = self.work.on(&fabric, self.system, choice, true).ok()?;
        Some((fabric, schedule))
    }

    /// The messages of a choice on a configuration, if it applies there.
    fn demands(&self, configuration: &Configuration, choice: usize) -> Option<Demands> {
        let (fabric, schedule) = self.schedule(std::slice::from_ref(configuration), choice)?;
        Some(Demands::of(&fabric, &schedule))
    }

    /// Adds segments while the estimate falls; the configurations on the way.
    fn descend(&mut self, start: Configuration, choice: usize) -> Vec<Configuration> {
        let aries = &self.fabric.aries;
        let mut way = vec![];
        let Some(mut demands) = self.demands(&start, choice) else { return way };
        let mut at = Estimate::new(aries, start, &demands);
        // Each step adds one, and there are not more than this.
        for _ in 0..4 * self.fabric.mesh.ranks() {
            let near = neighbours(aries, &at, &demands);
            let next = near.into_iter().min_by(|a, b| a.cost.total_cmp(&b.cost));
            let Some(next) = next.filter(|next| next.cost < at.cost * (1.0 - 1e-9) && self.goes_on()) else { break };
            at = next;
            way.push(at.configuration.clone());
            // Some algorithms send other messages on another fabric. To plan them at every step would take too long.
            if !self.work.is_planned(choice)
                && let Some(now) = self.demands(&at.configuration, choice).filter(|now| *now != demands)
            {
                at = Estimate::new(aries, at.configuration, &now);
                demands = now;
            }
        }
        way
    }

    /// Goes from a configuration to others at random, less and less to worse ones by the estimate, several times; the best
    /// met.
    fn anneal(&mut self, start: &Configuration, choice: usize, round: u64) -> Vec<Configuration> {
        let Some(demands) = self.demands(start, choice) else { return vec![] };
        // What sends other messages on another fabric is not estimated by these.
        if self.demands(&Configuration::default(), choice).as_ref() != Some(&demands) {
            return vec![];
        }
        self.annealed(start, &demands, round, 1)
    }

    /// The same for these messages, where there are `share` such walks.
    pub(super) fn annealed(
        &mut self,
        start: &Configuration,
        demands: &Demands,
        round: u64,
        share: usize,
    ) -> Vec<Configuration> {
        let steps = ANNEALED.min(WORK / demands.work(self.fabric.mesh.ranks())) / share;
        let aries = &self.fabric.aries;
        let seeds: Vec<u64> = (0..CHAINS).map(|chain| round * CHAINS + chain).collect();
        let chain = |&seed: &u64| walk(aries, start.clone(), demands, steps, seed);
        let Some(chains) = on_cores(&seeds, &mut || self.goes_on(), chain) else { return vec![] };
        let mut all: Vec<(f64, Configuration)> = chains.into_iter().flatten().collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all.dedup_by(|a, b| a.1 == b.1);
        all.truncate(WAYPOINTS);
        all.into_iter().map(|(_, configuration)| configuration).collect()
    }

    /// Simulates configurations near the best; whether one is better.
    fn improve(&mut self, at: &Configuration, choice: usize, time: Picos) -> std::result::Result<bool, End> {
        let Some(demands) = self.demands(at, choice) else { return Ok(false) };
        let aries = &self.fabric.aries;
        let mut near = neighbours(aries, &Estimate::new(aries, at.clone(), &demands), &demands);
        near.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        if let Some(&least) = self.planned.get(&choice) {
            near.retain(|near| self.by_rates(&near.configuration).is_some_and(|new| new < least));
        }
        for batch in near.chunks(BATCH) {
            self.simulate(batch.iter().map(|near| one(&near.configuration, choice)).collect())?;
            if self.best.as_ref().is_some_and(|best| best.2 < time) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Tells how far the search is; whether it is to go on.
    fn goes_on(&mut self) -> bool {
        (self.progress)((f64::from(self.spent) / f64::from(self.effort.steps.max(1))).min(1.0))
    }

    /// Steps that a simulation of a choice takes.
    fn cost(&self, choice: usize) -> u32 {
        let planned = (self.fabric.mesh.ranks() / PLANNED).pow(2) as u32;
        1 + if self.work.is_planned(choice) { planned.min(self.effort.steps / PLANS) } else { 0 }
    }

    /// Simulates what was not yet, on all cores, and keeps the best.
    pub(super) fn simulate(&mut self, mut points: Vec<Point>) -> std::result::Result<(), End> {
        // The last one is for all phases that are left.
        for (turns, _) in &mut points {
            while let [.., before, last] = &turns[..]
                && before == last
            {
                turns.pop();
            }
        }
        points.retain(|point| !self.times.contains_key(point));
        let mut known = HashSet::new();
        points.retain(|point| known.insert(point.clone()));
        // Plans take long to find: those that are slower by rates are not looked for.
        points.retain(|(turns, choice)| match (&turns[..], self.planned.get(choice)) {
            ([turn], Some(&least)) => self.by_rates(turn).is_some_and(|new| new <= least),
            _ => true,
        });
        while !points.is_empty() {
            let mut left = self.effort.steps.saturating_sub(self.spent);
            let fits = |point: &&Point| {
                let cost = self.cost(point.1);
                left.checked_sub(cost).inspect(|less| left = *less).is_some()
            };
            let batch: Vec<Point> = points.drain(..points.iter().take(BATCH).take_while(fits).count()).collect();
            if batch.is_empty() || !self.goes_on() {
                return Err(End::Steps);
            }
            let (fabric, system, work, fidelity) = (self.fabric, self.system, self.work, self.fidelity);
            let switching_ps = self.effort.switching_ps.unwrap_or(0);
            let time = |(turns, choice): &Point| -> Result<Picos> {
                let fabric = fabric.configured(turns, switching_ps)?;
                let schedule = work.on(&fabric, system, *choice, true)?;
                let mut progress = |_| {
                    checkpoint();
                    true
                };
                trial::time(&fabric, &schedule, system, fidelity, &mut progress)
            };
            let Some(times) = on_cores(&batch, &mut || self.goes_on(), time) else { return Err(End::Steps) };
            for (point, time) in batch.into_iter().zip(times) {
                self.simulated += 1;
                match time {
                    Ok(time) => {
                        // Of paths no bound by cuts is near.
                        let is_of_trees = self.work.task().0.kind != Kind::AllToAll;
                        if let ([turn], true) = (&point.0[..], is_of_trees && self.work.is_planned(point.1)) {
                            self.learn(turn, point.1, time);
                        }
                        self.spent += self.cost(point.1);
                        if self.best.as_ref().is_none_or(|best| time < best.2) {
                            self.best = Some((point.0.clone(), point.1, time));
                        }
                        self.times.insert(point, Some(time));
                    }
                    Err(error) => {
                        self.spent += 1;
                        self.times.insert(point, None);
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

/// One chain of annealing: the best that were met, with their costs.
fn walk(aries: &Aries, start: Configuration, demands: &Demands, steps: usize, seed: u64) -> Vec<(f64, Configuration)> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut at = Estimate::new(aries, start, demands);
    let mut wishes = at.wishes(aries, demands);
    let mut met: Vec<(f64, Configuration)> = vec![];
    for step in 0..steps {
        checkpoint();
        let temperature = HOT * (COLD / HOT).powf(step as f64 / steps as f64);
        // Of those that come first more often.
        let place = (uniform(&mut random).powi(2) * wishes.len() as f64) as usize;
        let Some(&segment) = wishes.get(place) else { break };
        let Some(next) = at.with(aries, segment, random.next_u32() % 2 == 0) else { continue };
        let next = Estimate::new(aries, next, demands);
        let worse = next.cost / at.cost - 1.0;
        if worse <= 0.0 || uniform(&mut random) < (-worse / temperature).exp() {
            at = next;
            wishes = at.wishes(aries, demands);
            if met.len() < WAYPOINTS || met.last().is_some_and(|last| at.cost < last.0) {
                met.retain(|(_, other)| *other != at.configuration);
                met.push((at.cost, at.configuration.clone()));
                met.sort_by(|a, b| a.0.total_cmp(&b.0));
                met.truncate(WAYPOINTS);
            }
        }
    }
    met
}

/// A number from 0 to 1.
fn uniform(random: &mut Pcg64Mcg) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Configurations with one segment more, in one direction and in both, with what it replaces gone.
pub(super) fn neighbours(aries: &Aries, at: &Estimate, demands: &Demands) -> Vec<Estimate> {
    let mut done = HashSet::new();
    let wishes = at.wishes(aries, demands).into_iter().flat_map(|segment| [(segment, true), (segment, false)]);
    let new =
        wishes.filter_map(|(segment, both)| at.with(aries, segment, both)).filter(|next| done.insert(next.clone()));
    new.map(|next| Estimate::new(aries, next, demands)).filter(|next| next.cost.is_finite()).take(ESTIMATED).collect()
}
