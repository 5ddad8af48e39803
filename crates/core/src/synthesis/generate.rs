//! Column generation: a linear program over the plans known so far, and oracles for those that would make it better.

use super::master::Master;
use super::oracle::Oracle;
use super::plan::Plan;
use crate::error::Result;
use crate::watch::Watch;

/// The best mixture of plans that was found, and what proves how good it is.
#[derive(Debug, Clone)]
pub struct Mixture {
    /// Root, share of the root's bytes, and plan; shares of a root add up to one.
    pub plans: Vec<(u32, f64, Plan)>,
    /// Bytes of every root, of each byte of the collective.
    pub shares: Vec<f64>,
    /// Prices of arcs: no mixture is sooner through than its cheapest plans cost at prices that, times rates, add up to
    /// one.
    pub prices: Vec<f64>,
    /// Picoseconds for every byte: of the mixture, and that the prices prove.
    pub time: f64,
    pub least: f64,
    /// Rounds of oracles and plans.
    pub rounds: usize,
    pub known: usize,
}

impl Mixture {
    /// The best mixture of those plans that have more than a small share of their root's bytes, of each root at least the
    /// one with the largest.
    pub fn without_small(&self, rates: &[f64], smallest: f64) -> Mixture {
        let mut largest = vec![0.0f64; self.shares.len()];
        self.plans.iter().for_each(|&(root, share, _)| largest[root as usize] = share.max(largest[root as usize]));
        let stays = |&(root, share, _): &(u32, f64, Plan)| share >= smallest.min(largest[root as usize]);
        // One of every root in front.
        let mut seen = vec![false; self.shares.len()];
        let is_first = |plan: &&(u32, f64, Plan)| !std::mem::replace(&mut seen[plan.0 as usize], true);
        let (mut plans, rest): (Vec<_>, Vec<_>) = self.plans.iter().filter(|plan| stays(plan)).partition(is_first);
        plans.sort_by_key(|plan| plan.0);
        plans.extend(rest);
        let loads = |plan: &&(u32, f64, Plan)| loads(&plan.2, self.shares[plan.0 as usize]);
        let (first, rest) = plans.split_at(self.shares.len());
        let first: Vec<_> = first.iter().map(loads).collect();
        let mut master = Master::new(rates.to_vec(), first.iter().map(|loads| (0.0, loads.as_slice())));
        rest.iter().for_each(|plan| _ = master.add(plan.0, 0.0, &loads(plan)));
        master.solve();
        let amounts = master.amounts();
        let amount = |(plan, share): (u32, f64)| (plans[plan as usize].0, share, plans[plan as usize].2.clone());
        Mixture { plans: amounts.into_iter().map(amount).collect(), time: master.time(), ..self.clone() }
    }
}

/// What a plan loads that moves a share of the bytes.
fn loads(plan: &Plan, share: f64) -> Vec<(u32, f64)> {
    plan.uses().into_iter().map(|(arc, uses)| (arc, f64::from(uses) * share)).collect()
}

/// The share of the old prices in the next ones, at first (P. Wentges, "Weighted Dantzig-Wolfe decomposition", 1997).
const SMOOTH: f64 = 0.7;
/// Rounds without gain after which levels are left as they are.
const PATIENCE: usize = 6;
/// Most rounds.
const ROUNDS: usize = 2000;

/// Finds a mixture within `accuracy`, relative, of the best, where every level of a tree costs as much as `level`
/// picoseconds for every byte.
///
/// # Errors
/// [`crate::error::Code::Interrupted`].
pub fn generate(rates: &[f64], oracle: &mut dyn Oracle, accuracy: f64, level: f64, watch: Watch) -> Result<Mixture> {
    let shares = oracle.shares().to_vec();
    let total: f64 = rates.iter().sum();
    let mut centre: Vec<f64> = vec![1.0 / total; rates.len()];
    let mut prices = centre.clone();
    let mut plans: Vec<Plan> = vec![];
    let mut master: Option<Master> = None;
    let (mut least, mut smooth, mut rounds) = (0.0f64, SMOOTH, 0);
    let (mut objective, mut last) = (f64::INFINITY, 0);
    loop {
        watch.at(rounds, ROUNDS)?;
        rounds += 1;
        let found = oracle.cheapest(&prices);
        let proven: f64 = found.iter().zip(&shares).map(|(plan, share)| plan.cost(&prices) * share).sum();
        if proven > least {
            least = proven;
            centre.clone_from(&prices);
        }
        let mut better = false;
        let cost = |root: u32, plan: &Plan| level * shares[root as usize] * f64::from(plan.height());
        let master = match &mut master {
            None => {
                let first = (0..).zip(&found).map(|(root, plan)| (cost(root, plan), loads(plan, shares[root as usize])));
                let first: Vec<(f64, Vec<(u32, f64)>)> = first.collect();
                plans.extend(found);
                better = true;
                master.insert(Master::new(rates.to_vec(), first.iter().map(|(cost, loads)| (*cost, loads.as_slice()))))
            }
            Some(master) => {
                let low = if level > 0.0 { oracle.low(&prices) } else { vec![] };
                for (root, plan) in (0..).zip(found).chain(low) {
                    let (loads, cost) = (loads(&plan, shares[root as usize]), cost(root, &plan));
                    if master.dearer(root, cost, &loads) < -1e-9 * master.time() {
                        better = true;
                        master.add(root, cost, &loads);
                        plans.push(plan);
                    }
                }
                master
            }
        };
        master.solve();
        let time = master.time();
        if std::env::var_os("TRACE").is_some() {
            eprintln!("{rounds} {} time {time:.9e} least {least:.9e} gap {:.3e} smooth {smooth}", plans.len(), 1.0 - least / time);
        }
        // Near enough; but levels may be worth some more rounds.
        if master.objective() < objective * (1.0 - accuracy / 10.0) {
            (objective, last) = (master.objective(), rounds);
        }
        let near = time - least <= accuracy * time && (level == 0.0 || rounds >= last + PATIENCE);
        let done = near || rounds == ROUNDS || !better && smooth == 0.0;
        if done {
            let amounts = master.amounts();
            let amounts = amounts.into_iter().map(|(plan, share)| (master.root(plan), share, plans[plan as usize].clone()));
            return Ok(Mixture { plans: amounts.collect(), shares, prices: centre, time, least, rounds, known: plans.len() });
        }
        smooth = if better { SMOOTH } else if smooth > 0.05 { smooth / 2.0 } else { 0.0 };
        let next = master.prices();
        prices = centre.iter().zip(&next).map(|(old, new)| smooth * old + (1.0 - smooth) * new).collect();
        let worth: f64 = prices.iter().zip(rates).map(|(price, rate)| price * rate).sum();
        prices.iter_mut().for_each(|price| *price /= worth);
    }
}
