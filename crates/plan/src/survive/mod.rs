//! What throughput failures leave: for every failure a plan, which reaches it, and prices of links, which nothing can beat.
//!
//! Throughput is that of large data, by rates of links, as `optimal` plans it. What is left of the intact fabric's plan is where each
//! search starts. Switches forward, and add nothing. Failures that a symmetry of the fabric makes of each other are planned once.

mod failures;
mod optimum;

pub use failures::{Component, FailureModel};
pub use optimum::Stopped;

use crate::cores::on_cores;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::parameter::Choice;
use antiphon_base::watch::Watch;
use antiphon_bound::synthesis::Graph;
use antiphon_model::collective::Collective;
use antiphon_model::fabric::Fabric;
use antiphon_model::system::System;
use optimum::{Intact, LostParts, OptimumRange};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most draws or pairs.
pub const MOST_DRAWS: usize = 10_000;
/// Half the width of a 95 % interval of the normal distribution, in standard deviations.
const DEVIATIONS: f64 = 1.959_963_984_540_054;
/// What plans may miss a target by that is met, as they are searched for, where no proof says that they miss it.
const MISSED: f64 = 1e-3;
/// By how much a proof may be off, as figures are rounded.
const ROUNDED: f64 = 1e-9;

/// What a failed node with a rank does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailedNode {
    /// Its links fail too.
    Dead,
    /// It takes no part but still forwards.
    Forwards,
}

impl Choice for FailedNode {
    const WHAT: &'static str = "nodes";
    const ALL: &'static [(&'static str, Self)] = &[("dead", FailedNode::Dead), ("forward", FailedNode::Forwards)];
}

/// Which failures are looked at.
#[derive(Debug, Clone, Copy)]
pub struct SurvivalRequest {
    /// What is computed among the ranks that are left.
    pub collective: Collective,
    /// What fails.
    pub fails: FailureModel,
    /// What a failed node does; a switch is dead.
    pub nodes: FailedNode,
    /// The share of the intact throughput whose chance is wanted.
    pub target: f64,
    /// Most pairs, or draws.
    pub draws: usize,
    /// Of pairs and draws.
    pub seed: u64,
}

/// Throughput that is left, as a share of the intact one; above 1 where what failed was what limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShareLeft {
    /// A plan was found that reaches it.
    pub share: f64,
    /// Prices of links prove that no plan exceeds it.
    pub certified: f64,
    /// Why nothing is left, if so.
    pub stopped: Option<Stopped>,
}

impl ShareLeft {
    const ALL: ShareLeft = ShareLeft { share: 1.0, certified: 1.0, stopped: None };

    fn new(intact: OptimumRange, left: std::result::Result<OptimumRange, Stopped>) -> ShareLeft {
        match left {
            Ok(left) => ShareLeft {
                share: intact.proven / left.reached,
                certified: intact.reached / left.proven,
                stopped: None,
            },
            Err(stopped) => ShareLeft { share: 0.0, certified: 0.0, stopped: Some(stopped) },
        }
    }
}

/// Components that fail at once, and what they leave.
#[derive(Debug, Clone, PartialEq)]
pub struct FailureCase {
    /// Numbers of the components.
    pub failed: Vec<usize>,
    /// What they leave.
    pub left: ShareLeft,
}

/// How often at least the target is left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TargetChance {
    /// The part of the cases whose plan reaches it, within [`MISSED`] where they are not proven to miss it.
    pub chance: f64,
    /// A 95 % interval of the chance of all cases, of which these are a sample (E. B. Wilson, "Probable inference, the law of
    /// succession, and statistical inference", 1927); the same twice where the cases are all there are.
    pub interval: (f64, f64),
}

/// What it does if a component cannot fail, as if it had a spare.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpareGain {
    /// Number of the component.
    pub component: usize,
    /// By how much the mean share rises.
    pub gain: f64,
    /// The mean share then.
    pub mean: f64,
    /// The worst share then.
    pub worst: f64,
}

/// What failures leave.
#[derive(Debug, Clone)]
pub struct Survival {
    /// What may fail.
    pub components: Vec<Component>,
    /// Bytes of the collective that go through the intact fabric in a picosecond: what a plan reaches.
    pub intact_rate: f64,
    /// Each component by itself, by its number: those that the failure model has.
    pub singles: Vec<FailureCase>,
    /// What mean, worst and chance are about: the same, pairs, or draws.
    pub cases: Vec<FailureCase>,
    /// Whether these are a sample.
    pub is_sample: bool,
    /// Components whose failure is made good, the most useful first.
    pub spares: Vec<SpareGain>,
    /// How often the target is met.
    pub chance: TargetChance,
    /// Plans that were searched.
    pub planned: usize,
}

impl Survival {
    /// The mean share of the cases that plans reach, and that nothing exceeds.
    pub fn mean(&self) -> (f64, f64) {
        let of = |part: fn(&ShareLeft) -> f64| mean(self.cases.iter().map(|case| part(&case.left)));
        (of(|left| left.share), of(|left| left.certified))
    }

    /// The case that leaves the least.
    pub fn worst(&self) -> Option<&FailureCase> {
        self.cases.iter().min_by(|a, b| a.left.share.total_cmp(&b.left.share))
    }
}

/// What failures leave of the throughput of a collective on a fabric.
///
/// # Errors
/// [`Code::NotApplicable`] for a fabric that changes between phases; [`Code::BadSize`] for draws or a target out of range; [`Code::TooLarge`] for more links than can be planned; [`Code::Interrupted`].
pub fn survive(fabric: &Fabric, system: &System, request: &SurvivalRequest, watch: Watch) -> Result<Survival> {
    check(fabric, request)?;
    let fabric = &plain(fabric);
    let intact = Intact::new(fabric, system, request.collective).map_err(|error| error.at(&fabric.name))?;
    let components = Component::all(fabric);
    let alone: Vec<Vec<usize>> =
        (0..components.len()).filter(|&at| request.fails.has(&components[at])).map(|at| vec![at]).collect();
    let (count, SurvivalRequest { draws, seed, .. }) = (components.len(), *request);
    let several = match request.fails {
        FailureModel::Pairs => failures::pairs(count, draws, seed),
        FailureModel::Rate(rate) => failures::draws(count, rate, draws, seed),
        _ => vec![],
    };
    let is_sample = match request.fails {
        FailureModel::Pairs => several.len() < count * (count - 1) / 2,
        FailureModel::Rate(_) => true,
        _ => false,
    };
    let plans = FailurePlans::new(&intact, &components, request.nodes);
    let with_spares = several.iter().flat_map(|failed| failed.iter().map(|&spared| without(failed, spared)));
    let wanted: Vec<Vec<usize>> = alone.iter().chain(&several).cloned().chain(with_spares).collect();
    let left = plans.all(&wanted, watch)?;
    let case = |failed: &Vec<usize>| FailureCase { left: left.of(failed), failed: failed.clone() };
    let singles: Vec<FailureCase> = alone.iter().map(case).collect();
    let cases = match request.fails {
        FailureModel::Pairs | FailureModel::Rate(_) => several.iter().map(case).collect(),
        _ => singles.clone(),
    };
    let chance = chance(&cases, request.target, is_sample);
    let spares = spares(&singles, &cases, &left, watch)?;
    let intact_rate = 1.0 / intact.optimum.reached;
    Ok(Survival { components, intact_rate, singles, cases, is_sample, spares, chance, planned: left.planned })
}

/// Refuses what is out of range.
fn check(fabric: &Fabric, request: &SurvivalRequest) -> Result<()> {
    let refuse = |code, what: String| Err(Error::new(code, what));
    if !(1..=MOST_DRAWS).contains(&request.draws) {
        return refuse(Code::BadSize, format!("draws is {}; give 1 to {MOST_DRAWS}", request.draws));
    }
    if !(request.target > 0.0 && request.target <= 1.0) {
        return refuse(Code::BadSize, format!("target is {}; give a share above 0, at most 1", request.target));
    }
    if fabric.configurations() > 1 {
        let what = format!("{} changes between phases; give a fabric of one configuration", fabric.name);
        return refuse(Code::NotApplicable, what);
    }
    Ok(())
}

/// The same, where switches only forward: so do those of `optimal`'s plans.
fn plain(fabric: &Fabric) -> Fabric {
    let mut plain = fabric.clone();
    plain.nodes.iter_mut().for_each(|node| node.compute = None);
    plain
}

/// What of some components fails if one of them cannot.
fn without(failed: &[usize], spared: usize) -> Vec<usize> {
    failed.iter().copied().filter(|&at| at != spared).collect()
}

/// What components take with them.
struct FailurePlans<'a> {
    intact: &'a Intact<'a>,
    lost: Vec<LostParts>,
}

/// What failures leave, by what stands for those alike.
struct SharesLeft<'a> {
    plans: &'a FailurePlans<'a>,
    of: BTreeMap<LostParts, ShareLeft>,
    /// How many were planned.
    planned: usize,
}

impl<'a> FailurePlans<'a> {
    fn new(intact: &'a Intact, components: &[Component], nodes: FailedNode) -> Self {
        let Graph { arcs, rank_at, .. } = &intact.graph;
        let lost = |component: &Component| {
            let rank = if component.ends.is_none() { rank_at[component.node as usize] } else { None };
            let forwards = rank.is_some() && nodes == FailedNode::Forwards;
            let fails = |arc: &antiphon_bound::synthesis::Arc| match component.ends {
                Some((low, high)) => (arc.from.min(arc.to), arc.from.max(arc.to)) == (low, high),
                None => !forwards && (arc.from == component.node || arc.to == component.node),
            };
            let arcs = (0..).zip(arcs).filter(|(_, arc)| fails(arc)).map(|(id, _)| id).collect();
            LostParts { arcs, ranks: rank.into_iter().collect() }
        };
        FailurePlans { intact, lost: components.iter().map(lost).collect() }
    }

    /// What stands for what some components take with them.
    fn key(&self, failed: &[usize]) -> LostParts {
        let mut lost = LostParts::default();
        for &at in failed {
            lost.arcs.extend(&self.lost[at].arcs);
            lost.ranks.extend(&self.lost[at].ranks);
        }
        for parts in [&mut lost.arcs, &mut lost.ranks] {
            parts.sort_unstable();
            parts.dedup();
        }
        lost.first_alike(&self.intact.symmetry)
    }

    /// Plans all, on all cores.
    fn all(&'a self, wanted: &[Vec<usize>], watch: Watch) -> Result<SharesLeft<'a>> {
        let mut of: BTreeMap<LostParts, ShareLeft> = BTreeMap::new();
        for failed in wanted {
            watch.step(0, 1)?;
            of.insert(self.key(failed), ShareLeft::ALL);
        }
        of.remove(&LostParts::default());
        let keys: Vec<LostParts> = of.keys().cloned().collect();
        let done = AtomicUsize::new(0);
        let mut goes_on = || watch.step(done.load(Ordering::Relaxed), keys.len()).is_ok();
        let left = on_cores(&keys, &mut goes_on, |lost| {
            let left = self.intact.without(lost);
            done.fetch_add(1, Ordering::Relaxed);
            left
        });
        let left = left.ok_or_else(|| Error::new(Code::Interrupted, "interrupted"))?;
        for (share, left) in of.values_mut().zip(left) {
            *share = ShareLeft::new(self.intact.optimum, left.map_err(|error| error.at(&self.intact.fabric.name))?);
        }
        Ok(SharesLeft { plans: self, planned: keys.len(), of })
    }
}

impl SharesLeft<'_> {
    /// What some components leave that were planned; without any, all.
    fn of(&self, failed: &[usize]) -> ShareLeft {
        if failed.is_empty() { ShareLeft::ALL } else { self.of[&self.plans.key(failed)] }
    }
}

/// How often at least `target` is left.
fn chance(cases: &[FailureCase], target: f64, is_sample: bool) -> TargetChance {
    let count = cases.len().max(1) as f64;
    let is_met = |case: &&FailureCase| {
        case.left.share >= target * (1.0 - MISSED) && case.left.certified >= target * (1.0 - ROUNDED)
    };
    let met = cases.iter().filter(is_met).count() as f64 / count;
    if !is_sample {
        return TargetChance { chance: met, interval: (met, met) };
    }
    let more = DEVIATIONS * DEVIATIONS / count;
    let middle = met + more / 2.0;
    let wide = (more * (met * (1.0 - met) + more / 4.0)).sqrt();
    let interval = ((middle - wide) / (1.0 + more), (middle + wide) / (1.0 + more));
    TargetChance { chance: met, interval: (interval.0.max(0.0), interval.1.min(1.0)) }
}

/// What it does if each component that fails in some case cannot, the most useful first.
fn spares(singles: &[FailureCase], cases: &[FailureCase], left: &SharesLeft, watch: Watch) -> Result<Vec<SpareGain>> {
    let shares: Vec<f64> = cases.iter().map(|case| case.left.share).collect();
    let before = mean(shares.iter().copied());
    let spare = |single: &FailureCase| {
        watch.step(1, 1)?;
        let component = single.failed[0];
        let share = |(case, &share): (&FailureCase, &f64)| match case.failed.contains(&component) {
            true => left.of(&without(&case.failed, component)).share,
            false => share,
        };
        let shares: Vec<f64> = cases.iter().zip(&shares).map(share).collect();
        let (mean, worst) = (mean(shares.iter().copied()), shares.iter().copied().fold(f64::INFINITY, f64::min));
        Ok(SpareGain { component, gain: mean - before, mean, worst })
    };
    let mut spares = singles.iter().map(spare).collect::<Result<Vec<SpareGain>>>()?;
    spares.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    Ok(spares)
}

fn mean(shares: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = shares.len().max(1) as f64;
    shares.sum::<f64>() / count
}

#[cfg(test)]
mod tests;
