//! What is tried: a simulation says how fast it is.

use super::demand::Demands;
use super::{ConfiguredWork, Effort, Reconfigurable};
use crate::cores::on_cores;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Picos;
use antiphon_base::watch::{Progress, checkpoint};
use antiphon_bound as bound;
use antiphon_model::collective::Kind;
use antiphon_model::fabric::Fabric;
use antiphon_model::fabric::aries::Configuration;
use antiphon_model::schedule::Schedule;
use antiphon_model::system::System;
use antiphon_sim::{Fidelity, trial};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

/// Most that is simulated at once.
pub const BATCH: usize = 8;
/// Ranks among which a plan by prices takes as long as a step; it grows with their square.
const PLANNED: usize = 8;
/// Of all steps a plan takes no more than this part.
const PLANS: u32 = 6;

/// Phases that have one configuration; without an end those that are left.
pub type Phases = Range<usize>;
/// All phases.
pub const ALL: Phases = 0..usize::MAX;

/// One of the choices of work, and configurations that it goes through in turns, the last one for all phases that are left.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Setup {
    pub turns: Vec<Configuration>,
    pub choice: usize,
}

/// Why a search goes no further.
pub enum SearchEnd {
    Bound,
    Steps,
}

/// What is to be fast, and where.
#[derive(Clone, Copy)]
pub struct Aim<'a> {
    pub fabric: &'a Reconfigurable,
    pub system: &'a System,
    pub work: &'a ConfiguredWork<'a>,
    pub fidelity: Fidelity,
    pub effort: Effort,
}

/// What was tried.
pub struct Trials<'a, 'p> {
    pub aim: Aim<'a>,
    pub bound_ps: Picos,
    progress: &'a mut Progress<'p>,
    /// Times of what was simulated; `None` where nothing applies.
    pub times: HashMap<Setup, Option<Picos>>,
    /// Steps taken: simulations, and plans by prices by what they cost.
    pub spent: u32,
    /// The fastest of each choice.
    pub best: BTreeMap<usize, (Picos, Setup)>,
    /// Of choices that plan by prices, and of much data, the least bound by rates of what was simulated.
    pub planned: HashMap<usize, Picos>,
    /// Why something does not apply.
    pub refusal: Option<Error>,
}

impl Setup {
    /// One configuration for all phases.
    pub fn one(configuration: &Configuration, choice: usize) -> Setup {
        Setup { turns: vec![configuration.clone()], choice }
    }

    /// The same with another configuration for some phases.
    pub fn with(&self, phases: &Phases, configuration: &Configuration) -> Setup {
        let mut turns = self.turns.clone();
        let end = if phases.end == ALL.end { phases.start } else { phases.end };
        turns.resize(turns.len().max(end + 1), turns[turns.len() - 1].clone());
        let end = phases.end.min(turns.len());
        turns[phases.start..end].fill(configuration.clone());
        while turns.len() > 1 && turns[turns.len() - 2] == turns[turns.len() - 1] {
            turns.pop();
        }
        Setup { turns, ..*self }
    }

    /// Phases between which the configuration changes.
    pub fn parts(&self) -> Vec<Phases> {
        let mut starts = vec![0];
        starts.extend((1..self.turns.len()).filter(|&at| self.turns[at - 1] != self.turns[at]));
        let ends = starts.iter().skip(1).copied().chain([ALL.end]);
        starts.iter().zip(ends).map(|(&start, end)| start..end).collect()
    }

    /// The configuration at the start of some phases.
    pub fn at(&self, phases: &Phases) -> &Configuration {
        &self.turns[phases.start.min(self.turns.len() - 1)]
    }
}

impl Aim<'_> {
    /// The schedule of a setup, and the fabric as it is configured for it.
    pub fn build(&self, setup: &Setup) -> Result<(Fabric, Schedule)> {
        let fabric = self.fabric.configured(&setup.turns, self.effort.switching_ps.unwrap_or(0))?;
        let schedule = self.work.on(&fabric, self.system, setup.choice, true)?;
        Ok((fabric, schedule))
    }

    /// What its schedule sends in some phases, if there is one and it sends something.
    pub fn demands(&self, setup: &Setup, phases: &Phases) -> Option<Demands> {
        let (fabric, schedule) = self.build(setup).ok()?;
        Some(Demands::of(&fabric, &schedule, phases)).filter(|demands| demands.total > 0.0)
    }

    /// How long its schedule takes.
    fn time(&self, setup: &Setup) -> Result<Picos> {
        let (fabric, schedule) = self.build(setup)?;
        let mut progress = |_| {
            checkpoint();
            true
        };
        trial::time(&fabric, &schedule, self.system, self.fidelity, &mut progress)
    }

    /// What no schedule on a configuration can beat by rates.
    fn by_rates(&self, configuration: &Configuration) -> Option<Picos> {
        let fabric = self.fabric.configured(std::slice::from_ref(configuration), 0).ok()?;
        let (collective, bytes) = self.work.task();
        bound::by_cuts(&fabric, self.system, collective, bytes).ok().map(|bound| bound.time_ps)
    }

    /// Steps that a simulation of a choice takes.
    fn cost(&self, choice: usize) -> u32 {
        let planned = (self.fabric.mesh.ranks() / PLANNED).pow(2) as u32;
        1 + if self.work.is_planned(choice) { planned.min(self.effort.steps / PLANS) } else { 0 }
    }
}

impl<'a, 'p> Trials<'a, 'p> {
    /// Nothing yet.
    pub fn new(aim: Aim<'a>, bound_ps: Picos, progress: &'a mut Progress<'p>) -> Self {
        Trials {
            aim,
            bound_ps,
            progress,
            times: HashMap::new(),
            spent: 0,
            best: BTreeMap::new(),
            planned: HashMap::new(),
            refusal: None,
        }
    }

    /// The least time on a configuration that was simulated.
    pub fn time_of(&self, configuration: &Configuration) -> Option<Picos> {
        let of = |choice| self.times.get(&Setup::one(configuration, choice)).copied().flatten();
        (0..self.aim.work.choices()).filter_map(of).min()
    }

    /// Why there is nothing to simulate.
    pub fn refusal(&self) -> Error {
        self.refusal.clone().unwrap_or_else(|| Error::new(Code::Interrupted, "interrupted"))
    }

    /// The fastest of all.
    pub fn best(&self) -> Option<(Picos, Setup)> {
        self.best.values().min_by_key(|(time, _)| *time).cloned()
    }

    /// The fastest of each choice, the best first.
    pub fn fastest(&self, most: usize) -> Vec<Setup> {
        let mut all: Vec<_> = self.best.values().collect();
        all.sort_by_key(|(time, _)| *time);
        all.into_iter().map(|(_, setup)| setup.clone()).take(most).collect()
    }

    /// Tells how far the search is; whether it is to go on.
    pub fn goes_on(&mut self) -> bool {
        (self.progress)((f64::from(self.spent) / f64::from(self.aim.effort.steps.max(1))).min(1.0))
    }

    /// Whether a choice may be faster on another configuration: not if its plans are the best by rates, and these no
    /// configuration lowers.
    pub fn is_improvable(&self, choice: usize) -> bool {
        self.planned.get(&choice).is_none_or(|&least| least > self.bound_ps)
    }

    /// Whether the bound by rates, where it is most of the time of a choice, passes a test with the least so far. Plans take long to find:
    /// those that are slower by rates are not looked for.
    pub fn is_worth_a_plan(&self, setup: &Setup, test: impl Fn(Picos, Picos) -> bool) -> bool {
        match (&setup.turns[..], self.planned.get(&setup.choice)) {
            ([turn], Some(&least)) => self.aim.by_rates(turn).is_some_and(|rates| test(rates, least)),
            _ => true,
        }
    }

    /// Simulates what was not yet, on all cores, and keeps the best.
    pub fn simulate(&mut self, setups: Vec<Setup>) -> std::result::Result<(), SearchEnd> {
        let mut known = HashSet::new();
        let mut setups: Vec<Setup> = setups.into_iter().filter(|setup| known.insert(setup.clone())).collect();
        setups.retain(|setup| {
            let time = self.times.get(setup).copied();
            time.flatten().into_iter().for_each(|time| self.offer(time, setup));
            time.is_none() && self.is_worth_a_plan(setup, |new, least| new <= least)
        });
        while !setups.is_empty() {
            let mut left = self.aim.effort.steps.saturating_sub(self.spent);
            let fits = |setup: &&Setup| {
                let cost = self.aim.cost(setup.choice);
                left.checked_sub(cost).inspect(|less| left = *less).is_some()
            };
            let batch: Vec<Setup> = setups.drain(..setups.iter().take(BATCH).take_while(fits).count()).collect();
            if batch.is_empty() || !self.goes_on() {
                return Err(SearchEnd::Steps);
            }
            let aim = self.aim;
            let times = on_cores(&batch, &mut || self.goes_on(), |setup| aim.time(setup)).ok_or(SearchEnd::Steps)?;
            batch.into_iter().zip(times).for_each(|(setup, time)| self.keep(setup, time));
            if self.best.values().any(|(time, _)| *time <= self.bound_ps) {
                return Err(SearchEnd::Bound);
            }
        }
        Ok(())
    }

    /// Keeps a time, or why there is none.
    fn keep(&mut self, setup: Setup, time: Result<Picos>) {
        match &time {
            Ok(time) => {
                self.learn(&setup, *time);
                self.spent += self.aim.cost(setup.choice);
                self.offer(*time, &setup);
            }
            Err(error) => {
                self.spent += 1;
                self.refusal.get_or_insert_with(|| error.clone());
            }
        }
        self.times.insert(setup, time.ok());
    }

    /// Keeps a setup if it is the fastest of its choice.
    pub fn offer(&mut self, time: Picos, setup: &Setup) {
        if self.best.get(&setup.choice).is_none_or(|best| time < best.0) {
            self.best.insert(setup.choice, (time, setup.clone()));
        }
    }

    /// Keeps the bound by rates of a configuration where that is most of the time of a choice that plans by prices.
    fn learn(&mut self, setup: &Setup, time: Picos) {
        // Of paths no bound by cuts is near.
        if self.aim.work.task().0.kind == Kind::AllToAll || !self.aim.work.is_planned(setup.choice) {
            return;
        }
        let [turn] = &setup.turns[..] else { return };
        if let Some(rates) = self.aim.by_rates(turn).filter(|rates| 2 * rates >= time) {
            self.planned.entry(setup.choice).and_modify(|least| *least = rates.min(*least)).or_insert(rates);
        }
    }
}
