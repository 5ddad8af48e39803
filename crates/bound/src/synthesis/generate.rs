//! Column generation: a linear program over the plans known so far, and oracles for those that would make it better.

use super::apart::SeparateRoots;
use super::few::Few;
use super::master::Master;
use super::oracle::Oracle;
use super::plan::Plan;
use super::start::Start;
use super::symmetry::Symmetry;
use antiphon_base::error::Result;
use antiphon_base::watch::Watch;
use antiphon_model::collective::Matrix;
use std::collections::HashMap;

/// The best mixture of plans that was found, and what proves how good it is.
#[derive(Debug, Clone)]
pub struct Mixture {
    /// Root, share of the root's bytes, and plan; shares of a root add up to one. None if no mixture has as few trees as are wanted.
    pub plans: Vec<(u32, f64, Plan)>,
    /// Prices of arcs: no mixture is sooner through than its cheapest plans cost at prices that, times rates, add up to
    /// one.
    pub prices: Vec<f64>,
    /// Picoseconds for every byte: of the mixture.
    pub time: f64,
    /// Picoseconds for every byte that the prices prove no mixture to be below.
    pub least: f64,
    /// Rounds of prices and plans.
    pub rounds: usize,
}

/// What a mixture is wanted for.
pub struct MixtureDemand<'a> {
    /// Rates of arcs.
    pub rates: &'a [f64],
    /// Arcs and roots that are alike.
    pub symmetry: &'a Symmetry,
    /// Roots, if plans have any.
    pub roots: &'a [u32],
    /// Bytes of the branches of plans; each has one if there is none.
    pub matrix: Option<&'a Matrix>,
    /// Of every byte of the collective, those of a root's plans; with a matrix, one byte of it.
    pub share: f64,
    /// What every level of a tree costs, as picoseconds for every byte.
    pub level: f64,
    /// How near to the best, relative.
    pub accuracy: f64,
    /// What is known before.
    pub start: &'a Start,
    /// Most plans of a root.
    pub trees: Option<usize>,
    /// What leaving out plans of small shares may cost, relative.
    pub loss: f64,
    /// A time that is good enough; if there is none so short, what is found does not matter. As picoseconds for every byte.
    pub enough: Option<f64>,
}

/// What a level of a tree costs at least, of the time of all, where levels cost something.
const LEVEL: f64 = 2e-4;
/// The share of the old prices in the next ones, at first (P. Wentges, "Weighted Dantzig-Wolfe decomposition", 1997).
const SMOOTH: f64 = 0.7;
/// Rounds without gain after which levels are left as they are.
const PATIENCE: usize = 6;
/// Most rounds.
const ROUNDS: usize = 2000;
/// Plans with smaller shares of their root's data than this are left out first; then smaller ones, until that costs little.
const LARGEST_CUT: f64 = 1.0 / 16.0;

impl MixtureDemand<'_> {
    /// What a plan of an orbit's first root loads on every arc of a class, when all of the orbit have it turned round.
    pub fn loads(&self, plan: &Plan, orbit: usize) -> Vec<(u32, f64)> {
        let Symmetry { class_of, arcs, .. } = self.symmetry;
        let mut uses = vec![0u64; arcs.len()];
        plan.carried(|ends| self.bytes(ends)).for_each(|(arc, bytes)| uses[class_of[arc as usize] as usize] += bytes);
        let used = (0..).zip(uses.iter().zip(arcs)).filter(|(_, (uses, _))| **uses > 0);
        used.map(|(class, (uses, arcs))| (class, self.share * orbit as f64 * *uses as f64 / arcs.len() as f64))
            .collect()
    }

    /// What a plan costs.
    fn price(&self, plan: &Plan, prices: &[f64]) -> f64 {
        let carried = plan.carried(|ends| self.bytes(ends));
        carried.map(|(arc, bytes)| prices[arc as usize] * bytes as f64).sum()
    }

    /// What a branch carries for every share of its plan.
    fn bytes(&self, (from, to): (u32, u32)) -> u64 {
        self.matrix.map_or(1, |matrix| matrix.bytes(from as usize, to as usize))
    }

    /// Finds the mixture.
    ///
    /// # Errors
    /// [`antiphon_base::error::Code::Interrupted`].
    pub fn mixture(&self, oracle: &mut dyn Oracle, watch: Watch) -> Result<Mixture> {
        let Symmetry { class_of, arcs, .. } = self.symmetry;
        // Without roots one stands for all.
        let orbits = if self.roots.is_empty() { vec![vec![0]] } else { self.symmetry.orbits(self.roots) };
        let first: Vec<u32> = orbits.iter().map(|orbit| orbit[0]).collect();
        let rates: Vec<f64> = arcs.iter().map(|class| self.rates[class[0] as usize]).collect();
        // Of every arc, from those of classes.
        let spread = |classes: &[f64]| -> Vec<f64> {
            class_of.iter().map(|&class| classes[class as usize] / arcs[class as usize].len() as f64).collect()
        };
        let mut level = self.level;
        let even: Vec<f64> = vec![1.0 / rates.iter().sum::<f64>(); rates.len()];
        let mut centre = self.start.prices.as_ref().map_or_else(|| even.clone(), |known| self.classes(known, &rates));
        let mut prices = centre.clone();
        let mut plans: Vec<(usize, Plan)> = vec![];
        // What each loads.
        let mut loaded: Vec<Vec<(u32, f64)>> = vec![];
        let mut master: Option<Master> = None;
        let (mut least, mut smooth, mut rounds) = (self.start.least, SMOOTH, 0);
        // What the prices in the centre prove.
        let mut shown = 0.0;
        let (mut objective, mut last) = (f64::INFINITY, 0);
        loop {
            watch.step(rounds, ROUNDS)?;
            rounds += 1;
            let each = spread(&prices);
            let [found, low] = oracle.plans(&each, &first, level > 0.0 && master.is_some() && !self.start.only_rates);
            let priced = found.iter().zip(&orbits).map(|(plan, orbit)| self.price(plan, &each) * orbit.len() as f64);
            let proven = priced.sum::<f64>() * self.share;
            if proven > shown {
                (shown, least) = (proven, least.max(proven));
                centre.clone_from(&prices);
            }
            let mut better = false;
            let master = match &mut master {
                None => {
                    level = if level > 0.0 { level.max(least * LEVEL) } else { 0.0 };
                    // The first of every orbit, those that are known before what was found.
                    plans = self.known(&rates, &orbits, least, oracle);
                    plans.extend(found.into_iter().enumerate());
                    better = true;
                    let (begun, loads) = self.begun(&rates, &orbits, level, &mut plans);
                    loaded = loads;
                    master.insert(begun)
                }
                Some(master) => {
                    let mut apart = vec![];
                    if self.start.apart {
                        let all: Vec<usize> = (0..first.len()).collect();
                        let of = SeparateRoots { demand: self, rates: &rates, orbits: &orbits, time: master.time() };
                        apart = of.plans(&all, &prices, vec![0.0; rates.len()], oracle);
                    }
                    let all = found.into_iter().enumerate().chain(low.into_iter().enumerate()).chain(apart);
                    for (orbit, plan) in all {
                        let (loads, cost) =
                            (self.loads(&plan, orbits[orbit].len()), level * self.height(&plan, orbits[orbit].len()));
                        if master.dearer(orbit as u32, cost, &loads) < -1e-9 * master.time() {
                            better = true;
                            master.add(orbit as u32, cost, &loads);
                            plans.push((orbit, plan));
                            loaded.push(loads);
                        }
                    }
                    master
                }
            };
            master.solve();
            let time = master.time();
            // Near enough; but levels may be worth some more rounds.
            if master.objective() < objective * (1.0 - self.accuracy / 10.0) {
                (objective, last) = (master.objective(), rounds);
            }
            let is_enough = self.enough.is_some_and(|enough| time <= enough);
            let near = is_enough || time - least <= self.accuracy * time;
            let near = near && (level == 0.0 || self.start.only_rates || rounds >= last + PATIENCE);
            let in_vain = self.enough.is_some_and(|enough| least > enough);
            if near || in_vain || rounds == ROUNDS || !better && smooth == 0.0 {
                let amounts = match self.trees {
                    None if self.loss == 0.0 => master.amounts(),
                    None => self.fewer(&rates, &plans, &loaded, master.amounts(), time),
                    Some(most) => {
                        let few = Few::new(self, &rates, &orbits, &mut plans, most);
                        few.best(&master.amounts(), oracle, spread, watch)?
                    }
                };
                let time = self.busiest(&rates, &plans, &orbits, &amounts);
                let plans = self.expanded(&plans, &orbits, &amounts);
                return Ok(Mixture { plans, prices: spread(&centre), time, least, rounds });
            }
            smooth = match better {
                true => SMOOTH,
                false if smooth > 0.05 => smooth / 2.0,
                false => 0.0,
            };
            let next = master.prices();
            prices = centre.iter().zip(&next).map(|(old, new)| smooth * old + (1.0 - smooth) * new).collect();
            let worth: f64 = prices.iter().zip(&rates).map(|(price, rate)| price * rate).sum();
            prices.iter_mut().for_each(|price| *price /= worth);
        }
    }

    /// The program of some plans, the first of every orbit first, and what each loads.
    fn begun(
        &self,
        rates: &[f64],
        orbits: &[Vec<u32>],
        level: f64,
        plans: &mut [(usize, Plan)],
    ) -> (Master, Vec<Vec<(u32, f64)>>) {
        let mut has = vec![false; orbits.len()];
        plans.sort_by_cached_key(
            |(orbit, _)| {
                if std::mem::replace(&mut has[*orbit], true) { orbits.len() } else { *orbit }
            },
        );
        let loaded: Vec<_> = plans.iter().map(|(orbit, plan)| self.loads(plan, orbits[*orbit].len())).collect();
        let costs = plans.iter().map(|(orbit, plan)| level * self.height(plan, orbits[*orbit].len()));
        let mut known = costs.zip(loaded.iter().map(Vec::as_slice));
        let mut master = Master::new(rates.to_vec(), known.by_ref().take(orbits.len()));
        for ((orbit, _), (cost, loads)) in plans[orbits.len()..].iter().zip(known) {
            master.add(*orbit as u32, cost, loads);
        }
        (master, loaded)
    }

    /// What the levels of a plan cost that an orbit of so many roots has, for a level's cost of one.
    fn height(&self, plan: &Plan, orbit: usize) -> f64 {
        self.share * orbit as f64 * f64::from(plan.height())
    }

    /// The plans of the start, and one of every orbit that has none, apart from each other if so.
    fn known(&self, rates: &[f64], orbits: &[Vec<u32>], least: f64, oracle: &mut dyn Oracle) -> Vec<(usize, Plan)> {
        let first: Vec<u32> = orbits.iter().map(|orbit| orbit[0]).collect();
        let mut plans: Vec<(usize, Plan)> =
            self.start.plans.iter().filter_map(|known| self.turned(known, &first)).collect();
        if !self.start.apart {
            return plans;
        }
        let (mut counts, mut busy) = (vec![0.0; orbits.len()], vec![0.0; rates.len()]);
        plans.iter().for_each(|(orbit, _)| counts[*orbit] += 1.0);
        for (orbit, plan) in &plans {
            let loads = self.loads(plan, orbits[*orbit].len());
            loads.into_iter().for_each(|(class, load)| busy[class as usize] += load / counts[*orbit]);
        }
        let most = busy.iter().zip(rates).map(|(busy, rate)| busy / rate).fold(f64::MIN_POSITIVE, f64::max);
        let time = if least > 0.0 { least } else { most };
        let missing: Vec<usize> = (0..orbits.len()).filter(|&orbit| counts[orbit] == 0.0).collect();
        let of = SeparateRoots { demand: self, rates, orbits, time };
        plans.extend(of.plans(&missing, &vec![0.0; rates.len()], busy, oracle));
        plans
    }

    /// A plan that is known, as one of the first root of its orbit.
    fn turned(&self, (root, plan): &(u32, Plan), first: &[u32]) -> Option<(usize, Plan)> {
        if self.roots.is_empty() {
            return Some((0, plan.clone()));
        }
        self.symmetry.group.iter().find_map(|by| {
            let orbit = first.iter().position(|&one| one == by.ranks[*root as usize])?;
            Some((orbit, plan.moved(by)))
        })
    }

    /// Prices of classes from those of arcs; prices times rates add up to one.
    fn classes(&self, known: &[f64], rates: &[f64]) -> Vec<f64> {
        let of_class = |class: &Vec<u32>| class.iter().map(|&arc| known[arc as usize].max(0.0)).sum::<f64>();
        let prices: Vec<f64> = self.symmetry.arcs.iter().map(of_class).collect();
        let worth: f64 = prices.iter().zip(rates).map(|(price, rate)| price * rate).sum();
        if worth > 0.0 {
            prices.iter().map(|price| price / worth).collect()
        } else {
            vec![1.0 / rates.iter().sum::<f64>(); rates.len()]
        }
    }

    /// The time of the busiest arc, infinite without plans, without the little room that the program gives every arc.
    fn busiest(&self, rates: &[f64], plans: &[(usize, Plan)], orbits: &[Vec<u32>], amounts: &[(u32, f64)]) -> f64 {
        if amounts.is_empty() {
            return f64::INFINITY;
        }
        let mut busy = vec![0.0; rates.len()];
        for &(plan, share) in amounts {
            let (orbit, plan) = &plans[plan as usize];
            let loads = self.loads(plan, orbits[*orbit].len());
            loads.into_iter().for_each(|(class, load)| busy[class as usize] += share * load);
        }
        busy.iter().zip(rates).map(|(busy, rate)| busy / rate).fold(0.0, f64::max)
    }

    /// The best mixture without plans of small shares, as many as can go at little cost.
    fn fewer(
        &self,
        rates: &[f64],
        plans: &[(usize, Plan)],
        loaded: &[Vec<(u32, f64)>],
        amounts: Vec<(u32, f64)>,
        time: f64,
    ) -> Vec<(u32, f64)> {
        let orbit = |plan: u32| plans[plan as usize].0;
        let orbits = plans.iter().map(|plan| plan.0 + 1).max().unwrap_or(0);
        let mut largest = vec![(0.0f64, 0); orbits];
        for &(plan, share) in &amounts {
            let most = &mut largest[orbit(plan)];
            *most = if share > most.0 { (share, plan) } else { *most };
        }
        let loads = |plan: u32| loaded[plan as usize].as_slice();
        let mut cut = LARGEST_CUT;
        loop {
            let mut stays: Vec<u32> = largest.iter().map(|most| most.1).collect();
            let others = amounts.iter().filter(|&&(plan, share)| share >= cut && largest[orbit(plan)].1 != plan);
            stays.extend(others.map(|other| other.0));
            if stays.len() == amounts.len() {
                return amounts;
            }
            let first = stays[..orbits].iter().map(|&plan| (0.0, loads(plan)));
            let mut master = Master::new(rates.to_vec(), first);
            stays[orbits..].iter().for_each(|&plan| _ = master.add(orbit(plan) as u32, 0.0, loads(plan)));
            master.solve();
            if master.time() <= time * (1.0 + self.loss) {
                return master.amounts().into_iter().map(|(at, share)| (stays[at as usize], share)).collect();
            }
            cut /= 2.0;
        }
    }

    /// The plans of all roots.
    fn expanded(&self, plans: &[(usize, Plan)], orbits: &[Vec<u32>], amounts: &[(u32, f64)]) -> Vec<(u32, f64, Plan)> {
        // What a plan of a root becomes, by its root and its mark.
        let mut numbers: HashMap<(u32, u128), usize> = HashMap::new();
        let mut all: Vec<(u32, f64, Plan)> = vec![];
        for &(plan, share) in amounts {
            let (orbit, plan) = &plans[plan as usize];
            // As often as there are ways to turn the first root to each.
            let each = share * orbits[*orbit].len() as f64 / self.symmetry.group.len() as f64;
            let first = orbits[*orbit][0];
            for by in &self.symmetry.group {
                let root = by.ranks[first as usize];
                let number = *numbers.entry((root, plan.mark(by))).or_insert(all.len());
                if number == all.len() {
                    all.push((root, 0.0, plan.moved(by).sorted()));
                }
                all[number].1 += each;
            }
        }
        all
    }
}
