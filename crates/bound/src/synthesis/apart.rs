//! Plans of many roots that keep apart: at the same prices all take the same arcs, and the linear program would need a round for each
//! other one. So each root finds its plan at prices which rise exponentially with what those before it load (S. Plotkin,
//! D. Shmoys and E. Tardos, "Fast approximation algorithms for fractional packing and covering problems", 1995).

use super::generate::MixtureDemand;
use super::oracle::Oracle;
use super::plan::Plan;

/// A price rises by so many powers of e until its arc is as busy as it may be.
const STEEP: f64 = 30.0;
/// More powers are no price.
const HIGHEST: f64 = 500.0;
/// What arcs cost that are worth nothing, of what all cost on average.
const LEAST: f64 = 1e-2;

/// Times of classes of arcs, and what is found for them.
pub struct SeparateRoots<'a> {
    pub demand: &'a MixtureDemand<'a>,
    /// Rates of classes, and orbits of roots.
    pub rates: &'a [f64],
    pub orbits: &'a [Vec<u32>],
    /// Picoseconds for every byte for which an arc may be busy.
    pub time: f64,
}

impl SeparateRoots<'_> {
    /// Plans of some orbits at prices of classes, where arcs are `busy` with other plans: bytes for every byte.
    pub fn plans(
        &self,
        which: &[usize],
        prices: &[f64],
        mut busy: Vec<f64>,
        oracle: &mut dyn Oracle,
    ) -> Vec<(usize, Plan)> {
        let arcs = &self.demand.symmetry.arcs;
        let even = LEAST / self.rates.iter().zip(arcs).map(|(rate, arcs)| rate * arcs.len() as f64).sum::<f64>();
        let mut found = vec![];
        for &orbit in which {
            let price = |class: usize| {
                let powers = STEEP * busy[class] / (self.rates[class] * self.time);
                let own = prices[class] / arcs[class].len() as f64 + even;
                own * powers.min(HIGHEST).exp()
            };
            let of_classes: Vec<f64> = (0..busy.len()).map(price).collect();
            let each: Vec<f64> =
                self.demand.symmetry.class_of.iter().map(|&class| of_classes[class as usize]).collect();
            let [plans, _] = oracle.plans(&each, &self.orbits[orbit][..1], false);
            for plan in plans {
                let loads = self.demand.loads(&plan, self.orbits[orbit].len());
                loads.into_iter().for_each(|(class, load)| busy[class as usize] += load);
                found.push((orbit, plan));
            }
        }
        found
    }
}
