//! The fastest parallel plan: all legal ones are bounded from below, and the best simulated.

mod space;
#[cfg(test)]
mod tests;

use crate::constants::Constants;
use crate::memory::{Memory, memory};
use crate::network::{ChangedWiring, LinkPlaces, Wiring};
use crate::parallel::{Parallelism, Recompute};
use crate::shape::ModelShape;
use crate::step::{FlowTimes, StageTimes, StepBound, StepParts, StepTimes, StepWork, TrainingStep};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Bytes, clip};
use antiphon_base::watch::Watch;
use antiphon_model::system::Endpoint;
use space::Space;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Plans that are kept.
const KEPT: usize = 10;
/// Operations up to which plans are simulated layer by layer; above, equal layers in a row are one.
const SEARCH_OPERATIONS: u64 = 30_000;
/// Operations above which a plan is refused, its layers taken together: ten such plans take as long as all the others.
const MOST_SEARCH_OPERATIONS: u64 = 500_000;

/// A search for the fastest plan.
pub struct PlanSearch<'a> {
    /// What is trained.
    pub model: &'a ModelShape,
    /// On what.
    pub wiring: &'a dyn Wiring,
    /// What computes.
    pub constants: &'a Constants,
    /// As [`TrainingStep::endpoint`].
    pub endpoint: Endpoint,
    /// As [`TrainingStep::prioritized`].
    pub prioritized: bool,
    /// Sequences of a step.
    pub batch: u64,
    /// Options of a plan that all plans keep, such as `precision=fp8,tp=8`; the others are free.
    pub given: &'a str,
    /// Memory of a rank.
    pub memory_bytes: Bytes,
}

/// A plan that was simulated.
#[derive(Debug, Clone)]
pub struct RankedPlan {
    /// The plan.
    pub plan: Parallelism,
    /// How long its step takes; with many micro batches equal layers of a part are simulated at once.
    pub times: StepTimes,
    /// What the stage keeps that keeps most.
    pub memory: Memory,
    /// What it could not take less than, in seconds.
    pub bound_s: f64,
}

/// The fastest plans, and how they were found.
#[derive(Debug, Clone)]
pub struct BestPlans {
    /// At most ten, the fastest first.
    pub plans: Vec<RankedPlan>,
    /// Legal plans.
    pub legal: usize,
    /// Those that fit into memory and can be simulated.
    pub fit: usize,
    /// Of them those that were simulated: no other can be faster than the last of `plans`.
    pub simulated: usize,
    /// Why others were refused: what of their memory is largest, or `operations`, and how many they are.
    pub refused: BTreeMap<&'static str, usize>,
}

/// What would change for a plan if something else did.
#[derive(Debug, Clone)]
pub struct PlanChange {
    /// What changes.
    pub name: &'static str,
    /// How long its step would take.
    pub iteration_s: f64,
    /// Another plan that would be the fastest.
    pub plan: Option<Parallelism>,
}

/// A plan that fits.
#[derive(Clone)]
struct PlanCandidate {
    plan: Parallelism,
    memory: Memory,
}

/// What comes next in a search, the least bound first: bits of a time that is not negative, the place of the plan, and
/// whether the bound is the better one.
type Next = Reverse<(u64, usize, bool)>;

impl BestPlans {
    /// What the second plan takes more than the first: parts of the mean stage, which add up to the difference of the
    /// steps.
    pub fn second_takes_more(&self) -> Option<StageTimes> {
        let [first, second] = [self.plans.first()?, self.plans.get(1)?].map(|plan| plan.times.mean());
        let exposed: Vec<f64> = second.exposed_s.iter().zip(first.exposed_s).map(|(more, less)| more - less).collect();
        let mut exposed_s = [0.0; StepWork::KINDS];
        exposed_s.copy_from_slice(&exposed);
        let [compute_s, bubble_s] = [second.compute_s - first.compute_s, second.bubble_s - first.bubble_s];
        Some(StageTimes { compute_s, bubble_s, exposed_s })
    }
}

impl PlanSearch<'_> {
    fn step<'s>(&'s self, plan: &'s Parallelism) -> TrainingStep<'s> {
        TrainingStep {
            model: self.model,
            plan,
            constants: self.constants,
            endpoint: self.endpoint,
            prioritized: self.prioritized,
            slower: vec![],
            layers_at_once: None,
            tables: &[],
        }
        .within(SEARCH_OPERATIONS)
    }

    fn parts<'s>(&'s self, plan: &'s Parallelism) -> StepParts<'s> {
        StepParts { model: self.model, plan, constants: self.constants, wiring: self.wiring, tables: &[] }
    }

    /// The fastest plans. Of plans that differ in recomputation only, the one that computes least and fits is taken; so
    /// it is with ZeRO-2 beside ZeRO-1, which exchange the same. `watch` hears how far it is.
    ///
    /// O(legal plans * layers) for memory and first bounds, then O(tasks) for better bounds of those that may be among
    /// the first ten, and a simulation for those that still may.
    ///
    /// # Errors
    /// As [`Parallelism::parse`] for what is given; [`Code::NotApplicable`] if no plan is legal, or none fits;
    /// [`Code::Interrupted`]; those of [`TrainingStep::simulate`].
    pub fn run(&self, watch: Watch) -> Result<BestPlans> {
        let mut found = BestPlans { plans: vec![], legal: 0, fit: 0, simulated: 0, refused: BTreeMap::new() };
        let candidates = self.candidates(&mut found, watch)?;
        found.plans = self.fastest(&candidates, KEPT, f64::INFINITY, &mut found.simulated, watch)?;
        Ok(found)
    }

    /// Plans that fit, of those that differ in memory only the fastest.
    fn candidates(&self, found: &mut BestPlans, watch: Watch) -> Result<Vec<PlanCandidate>> {
        let space = Space::new(self.model, self.wiring, self.batch, self.given)?;
        let mut candidates: Vec<PlanCandidate> = vec![];
        // The plan that fits least badly.
        let mut least: Option<Memory> = None;
        let mut groups = 0usize;
        space.for_each(|plans| {
            watch.at(groups, usize::MAX)?;
            groups += 1;
            found.legal += plans.len();
            let mut taken: Vec<(u32, Recompute)> = vec![];
            for plan in plans {
                if self.step(plan).operations(self.model.layers) > MOST_SEARCH_OPERATIONS {
                    *found.refused.entry("operations").or_default() += 1;
                    continue;
                }
                match self.memory(plan) {
                    Ok(memory) => {
                        found.fit += 1;
                        // ZeRO-3 exchanges at other times: it may be faster.
                        let is_slower = |&(zero, recompute): &(u32, Recompute)| {
                            (zero == plan.zero || plan.zero < 3) && recompute as u32 <= plan.recompute as u32
                        };
                        if !taken.iter().any(is_slower) {
                            taken.push((plan.zero, plan.recompute));
                            candidates.push(PlanCandidate { plan: plan.clone(), memory });
                        }
                    }
                    Err(memory) => {
                        let (part, _) = memory.largest();
                        *found.refused.entry(part).or_default() += 1;
                        if least.is_none_or(|least| memory.total() < least.total()) {
                            least = Some(memory);
                        }
                    }
                }
            }
            Ok(())
        })?;
        let refused = |what: String| Err(Error::new(Code::NotApplicable, what));
        if found.legal == 0 {
            let what = format!(
                "no legal plan of {} with '{}' for {} sequences a step on {} ranks; take a batch that more \
                 numbers divide, or give fewer options",
                self.model.name,
                clip(self.given),
                self.batch,
                self.wiring.ranks()
            );
            return refused(what);
        }
        match least {
            Some(least) if candidates.is_empty() => {
                let reason = least.check(self.memory_bytes).err().map(|error| error.message).unwrap_or_default();
                refused(format!("none of {} legal plans fits; of the one nearest to it, {reason}", found.legal))
            }
            None if candidates.is_empty() => {
                refused(format!("each of {} legal plans is more than {MOST_SEARCH_OPERATIONS} operations", found.legal))
            }
            _ => Ok(candidates),
        }
    }

    /// What the stage keeps that keeps most; if it does not fit, the first stage that does not.
    fn memory(&self, plan: &Parallelism) -> std::result::Result<Memory, Memory> {
        let mut most: Option<Memory> = None;
        for stage in 0..plan.pipeline {
            let of = memory(self.model, plan, stage);
            if of.total() > self.memory_bytes as f64 {
                return Err(of);
            }
            if most.is_none_or(|most| most.total() < of.total()) {
                most = Some(of);
            }
        }
        Ok(most.expect("a plan has a stage"))
    }

    /// The `kept` fastest candidates, if they take less than `below_s`.
    fn fastest(
        &self,
        candidates: &[PlanCandidate],
        kept: usize,
        below_s: f64,
        simulated: &mut usize,
        watch: Watch,
    ) -> Result<Vec<RankedPlan>> {
        let all = candidates.len();
        let mut known = FlowTimes::default();
        let mut next = BinaryHeap::<Next>::with_capacity(all);
        for (number, candidate) in candidates.iter().enumerate() {
            if number.is_multiple_of(64) {
                watch.step(number, 2 * all)?;
            }
            let bound = StepBound::new(self.parts(&candidate.plan), &mut known)?;
            next.push(Reverse((bound.quick_s().to_bits(), number, false)));
        }
        let mut fastest: Vec<RankedPlan> = vec![];
        while let Some(Reverse((bits, number, is_better))) = next.pop() {
            let bound_s = f64::from_bits(bits);
            let limit_s = if fastest.len() < kept { below_s } else { fastest[kept - 1].times.iteration_s };
            if bound_s >= limit_s {
                break;
            }
            let plan = &candidates[number].plan;
            if !is_better {
                let better_s = StepBound::new(self.parts(plan), &mut known)?.alone_s().max(bound_s);
                next.push(Reverse((better_s.to_bits(), number, true)));
                continue;
            }
            watch.step(all * (*simulated + kept) / (*simulated + 2 * kept), all)?;
            *simulated += 1;
            let times = self.step(plan).simulate(self.wiring)?;
            let PlanCandidate { plan, memory } = candidates[number].clone();
            fastest.push(RankedPlan { plan, times, memory, bound_s });
            fastest.sort_by(|one, other| one.times.iteration_s.total_cmp(&other.times.iteration_s));
            fastest.truncate(kept);
        }
        fastest.retain(|plan| plan.times.iteration_s < below_s);
        Ok(fastest)
    }

    /// How much time the step of a plan would take if links or a GPU were faster or slower, and, with twice the memory,
    /// of the plan that would be the fastest then. What a fabric does not have is left out.
    ///
    /// # Errors
    /// Those of [`TrainingStep::simulate`], and [`Code::Interrupted`].
    pub fn changes(&self, best: &RankedPlan, watch: Watch) -> Result<Vec<PlanChange>> {
        let places = LinkPlaces::new(self.wiring);
        let mut changes = vec![];
        let mut add = |name, iteration_s| changes.push(PlanChange { name, iteration_s, plan: None });
        let on = |wiring: &dyn Wiring, constants: &Constants| {
            watch.step(0, 1)?;
            let step = TrainingStep { constants, ..self.step(&best.plan) };
            Ok(step.simulate(wiring)?.iteration_s)
        };
        if !places.inside.is_empty() {
            let faster = ChangedWiring::new(self.wiring, &places.inside, 2.0);
            // Measured exchanges in a box become twice as fast, too.
            let half = |&(ranks, bytes, seconds): &(u32, f64, f64)| (ranks, bytes, seconds / 2.0);
            let all_reduces = self.constants.all_reduces.iter().map(half).collect();
            add("links inside boxes twice as fast", on(&faster, &Constants { all_reduces, ..self.constants.clone() })?);
        }
        if !places.between.is_empty() {
            let faster = ChangedWiring::new(self.wiring, &places.between, 2.0);
            add("links between boxes twice as fast", on(&faster, self.constants)?);
        }
        let nics = places.nics[0].len();
        if nics > 1 {
            // The others carry its share.
            let share = (nics - 1) as f64 / nics as f64;
            let slower = ChangedWiring::new(self.wiring, &places.nics.concat(), share);
            add("one NIC less in one box", on(&slower, self.constants)?);
        }
        let busiest =
            best.times.stages.iter().enumerate().max_by(|one, other| one.1.compute_s.total_cmp(&other.1.compute_s));
        let slower = (0..best.times.stages.len()).map(|stage| match busiest {
            Some((busy, _)) if busy == stage => 1.1,
            _ => 1.0,
        });
        let slow = TrainingStep { slower: slower.collect(), ..self.step(&best.plan) };
        add("one GPU of the busiest stage takes 10 % longer", slow.simulate(self.wiring)?.iteration_s);
        let twice = PlanSearch { memory_bytes: self.memory_bytes.saturating_mul(2), ..*self };
        let mut found = BestPlans { plans: vec![], legal: 0, fit: 0, simulated: 0, refused: BTreeMap::new() };
        let candidates = twice.candidates(&mut found, watch)?;
        let below_s = best.times.iteration_s;
        let faster = twice.fastest(&candidates, 1, below_s, &mut found.simulated, watch)?;
        let faster = faster.into_iter().next();
        let iteration_s = faster.as_ref().map_or(below_s, |plan| plan.times.iteration_s);
        let plan = faster.map(|plan| plan.plan);
        changes.push(PlanChange { name: "twice the memory", iteration_s, plan });
        Ok(changes)
    }
}
