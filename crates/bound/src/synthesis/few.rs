//! At most so many trees of every root: which ones is a matter of whole numbers, for which there is no exact method that is
//! fast. So plans are left out, those of small shares first; then prices say which others would have been better.

use super::generate::MixtureDemand;
use super::master::Master;
use super::oracle::Oracle;
use super::plan::Plan;
use antiphon_base::error::Result;
use antiphon_base::watch::Watch;
use std::collections::HashSet;

/// Looks for better plans without gain after which the best mixture stays.
const PATIENCE: usize = 8;
/// Searches for one plan among others, at most.
const SEARCHES: usize = 1024;
/// Powers of the times of arcs whose sums are made small, one after the other: the higher, the more the busiest count.
const POWERS: [i32; 8] = [2, 3, 4, 6, 8, 12, 16, 16];
/// A mixture is better that saves this part of the time.
const WORTH: f64 = 1e-4;

/// Plans that are known, each with its orbit of roots, and how many of them a root may have.
pub struct Few<'a> {
    demand: &'a MixtureDemand<'a>,
    rates: &'a [f64],
    orbits: &'a [Vec<u32>],
    most: usize,
    plans: &'a mut Vec<(usize, Plan)>,
    /// Plans of a root that symmetries make of each.
    copies: Vec<usize>,
}

/// Plans and the share of each.
type Amounts = Vec<(u32, f64)>;

impl<'a> Few<'a> {
    /// Of these plans.
    pub fn new(
        demand: &'a MixtureDemand,
        rates: &'a [f64],
        orbits: &'a [Vec<u32>],
        plans: &'a mut Vec<(usize, Plan)>,
        most: usize,
    ) -> Self {
        let mut few = Few { demand, rates, orbits, most, plans, copies: vec![] };
        few.count();
        few
    }

    /// Counts the copies of plans that are new.
    fn count(&mut self) {
        for (orbit, plan) in &self.plans[self.copies.len()..] {
            let first = self.orbits[*orbit][0];
            let turns = self.demand.symmetry.group.iter();
            let turns = turns.filter(|by| self.demand.roots.is_empty() || by.ranks[first as usize] == first);
            self.copies.push(turns.map(|by| plan.mark(by)).collect::<HashSet<u128>>().len());
        }
    }

    /// The best mixture that was found, starting with one of any number of plans; none if symmetries make too many of each
    /// plan. `spread` makes prices of classes those of arcs.
    ///
    /// # Errors
    /// [`antiphon_base::error::Code::Interrupted`].
    pub fn best(
        mut self,
        amounts: &Amounts,
        oracle: &mut dyn Oracle,
        spread: impl Fn(&[f64]) -> Vec<f64>,
        watch: Watch,
    ) -> Result<Amounts> {
        let first: Vec<u32> = self.orbits.iter().map(|orbit| orbit[0]).collect();
        let mut pool: Vec<u32> = amounts.iter().map(|amount| amount.0).collect();
        let mut best: Option<(f64, Amounts)> = None;
        let mut worse = 0;
        let mut even = self.even(&first, oracle, &spread);
        loop {
            watch.step(0, 1)?;
            let Some((mut master, mut chosen)) = self.cut(pool) else { return Ok(vec![]) };
            let other = if even.is_empty() { None } else { self.cut(std::mem::take(&mut even)) };
            if let Some(other) = other.filter(|other| other.0.time() < master.time()) {
                (master, chosen) = other;
            }
            worse += 1;
            if best.as_ref().is_none_or(|best| master.time() < best.0 * (1.0 - WORTH)) {
                let amounts = master.amounts().into_iter().map(|(at, share)| (chosen[at as usize], share)).collect();
                (best, worse) = (Some((master.time(), amounts)), 0);
            }
            if worse == PATIENCE {
                break;
            }
            // What would be better at the prices of now, beside the best.
            let [found, _] = oracle.plans(&spread(&master.prices()), &first, false);
            self.plans.extend(found.into_iter().enumerate());
            self.count();
            pool = best.iter().flat_map(|best| &best.1).map(|amount| amount.0).collect();
            pool.extend(self.cheapest(&master));
        }
        Ok(best.map(|best| best.1).unwrap_or_default())
    }

    /// As many plans of every orbit as a root may have, with equal shares: in turn each is the cheapest where the others are. None
    /// where that would take long.
    fn even(&mut self, first: &[u32], oracle: &mut dyn Oracle, spread: impl Fn(&[f64]) -> Vec<f64>) -> Vec<u32> {
        let slots = first.len().saturating_mul(self.most);
        let sweeps = (SEARCHES / slots).min(POWERS.len());
        let share = 1.0 / self.most as f64;
        let mut chosen: Vec<Option<u32>> = vec![None; slots];
        let mut busy = vec![0.0; self.rates.len()];
        for &power in &POWERS[POWERS.len() - sweeps..] {
            for (slot, chosen) in chosen.iter_mut().enumerate() {
                let orbit = slot % first.len();
                let add = |busy: &mut [f64], loads: Vec<(u32, f64)>, share: f64| {
                    loads.into_iter().for_each(|(arc, load)| busy[arc as usize] += share * load);
                };
                chosen.iter().for_each(|&plan| add(&mut busy, self.loads(plan), -share));
                let ones = self.demand.share * self.orbits[orbit].len() as f64 * share;
                let classes = busy.iter().zip(self.rates).zip(&self.demand.symmetry.arcs);
                let times: Vec<f64> =
                    classes.map(|((busy, rate), arcs)| (busy + ones / arcs.len() as f64) / rate).collect();
                let most = times.iter().copied().fold(0.0, f64::max);
                let prices: Vec<f64> =
                    times.iter().zip(self.rates).map(|(time, rate)| (time / most).powi(power) / rate).collect();
                let [found, _] = oracle.plans(&spread(&prices), &first[orbit..=orbit], false);
                self.plans.extend(found.into_iter().map(|plan| (orbit, plan)));
                self.count();
                let number = self.plans.len() - 1;
                if self.copies[number] <= self.most {
                    *chosen = Some(number as u32);
                }
                chosen.iter().for_each(|&plan| add(&mut busy, self.loads(plan), share));
            }
        }
        chosen.into_iter().flatten().collect()
    }

    /// Plans that may be taken and would make a program's mixture better: for every orbit as many as a root may have.
    fn cheapest(&self, master: &Master) -> Vec<u32> {
        let mut found: Vec<(usize, f64, u32)> = vec![];
        for (number, (orbit, _)) in (0u32..).zip(&*self.plans) {
            let gain = if self.copies[number as usize] > self.most {
                0.0
            } else {
                master.dearer(*orbit as u32, 0.0, &self.loads(number))
            };
            if gain < -1e-9 * master.time() {
                found.push((*orbit, gain, number));
            }
        }
        found.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
        found.chunk_by(|a, b| a.0 == b.0).flat_map(|of| of.iter().take(self.most).map(|one| one.2)).collect()
    }

    fn loads(&self, plan: u32) -> Vec<(u32, f64)> {
        let (orbit, plan) = &self.plans[plan as usize];
        self.demand.loads(plan, self.orbits[*orbit].len())
    }

    /// Leaves out the plan of the smallest share of every orbit that has too many, again and again. The program of those that
    /// stay, and their numbers; `None` if some orbit has none that may stay.
    fn cut(&self, mut pool: Vec<u32>) -> Option<(Master, Vec<u32>)> {
        pool.retain(|&plan| self.copies[plan as usize] <= self.most);
        let missing = |&orbit: &usize| !pool.iter().any(|&plan| self.plans[plan as usize].0 == orbit);
        for orbit in (0..self.orbits.len()).filter(missing).collect::<Vec<_>>() {
            let may = |&number: &usize| self.plans[number].0 == orbit && self.copies[number] <= self.most;
            pool.push((0..self.plans.len()).find(may)? as u32);
        }
        loop {
            let (master, chosen) = self.solved(&mut pool);
            let mut shares = vec![0.0; chosen.len()];
            master.amounts().into_iter().for_each(|(at, share)| shares[at as usize] = share);
            let mut by_share: Vec<(usize, f64, u32)> =
                chosen.iter().zip(&shares).map(|(&plan, &share)| (self.plans[plan as usize].0, share, plan)).collect();
            by_share.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)).then(a.2.cmp(&b.2)));
            let mut too_many = false;
            pool.clear();
            for orbit in by_share.chunk_by(|a, b| a.0 == b.0) {
                // Those without a share go at once.
                let used = orbit.iter().take_while(|one| one.1 > 0.0).count();
                let count: usize = orbit[..used].iter().map(|one| self.copies[one.2 as usize]).sum();
                let stay = if count > self.most { used - 1 } else { used };
                too_many |= count > self.most;
                pool.extend(orbit[..stay].iter().map(|one| one.2));
            }
            if !too_many {
                return Some((master, chosen));
            }
        }
    }

    /// The program of some plans, solved, and their numbers in its order.
    fn solved(&self, pool: &mut Vec<u32>) -> (Master, Vec<u32>) {
        pool.sort_unstable();
        pool.dedup();
        // The first of every orbit, then the others.
        let is_first = |orbit: usize| pool.iter().copied().find(|&plan| self.plans[plan as usize].0 == orbit);
        let mut chosen: Vec<u32> = (0..self.orbits.len()).map(|orbit| is_first(orbit).expect("it has one")).collect();
        let first: Vec<_> = chosen.iter().map(|&plan| self.loads(plan)).collect();
        let mut master = Master::new(self.rates.to_vec(), first.iter().map(|loads| (0.0, loads.as_slice())));
        let others: Vec<u32> = pool.iter().copied().filter(|plan| !chosen.contains(plan)).collect();
        for &plan in &others {
            master.add(self.plans[plan as usize].0 as u32, 0.0, &self.loads(plan));
        }
        chosen.extend(others);
        master.solve();
        (master, chosen)
    }
}
