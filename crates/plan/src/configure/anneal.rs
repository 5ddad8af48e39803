//! From a configuration to better ones by the estimate alone.

use super::demand::Demands;
use super::estimate::Estimate;
use antiphon_base::watch::checkpoint;
use antiphon_model::fabric::aries::{Aries, Configuration};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore, SeedableRng};

/// Temperatures, as shares of the cost: at first and in the end.
const HOT: f64 = 0.03;
const COLD: f64 = 0.000_5;

/// Exchanges segments at random, and accepts less and less of what gets worse; the best `kept` that were met, with their costs.
pub fn anneal(
    aries: &Aries,
    start: Configuration,
    demands: &Demands,
    (steps, seed, kept): (usize, u64, usize),
) -> Vec<(f64, Configuration)> {
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
            if met.len() < kept || met.last().is_some_and(|last| at.cost < last.0) {
                met.retain(|(_, other)| *other != at.configuration);
                met.push((at.cost, at.configuration.clone()));
                met.sort_by(|a, b| a.0.total_cmp(&b.0));
                met.truncate(kept);
            }
        }
    }
    met
}

/// A number from 0 to 1.
fn uniform(random: &mut Pcg64Mcg) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Adds segments while the estimate falls; the configurations on the way, `most` at most. `demands` are those of a configuration, where
/// they may be others than before.
pub fn descend(
    aries: &Aries,
    start: &Configuration,
    most: usize,
    demands: impl Fn(&Configuration) -> Option<Demands>,
) -> Vec<Configuration> {
    let mut way = vec![];
    let Some(mut now) = demands(start) else { return way };
    let mut at = Estimate::new(aries, start.clone(), &now);
    while way.len() < most {
        checkpoint();
        let next = at.near(aries, &now).into_iter().next().filter(|next| next.cost < at.cost * (1.0 - 1e-9));
        let Some(next) = next else { break };
        at = next;
        way.push(at.configuration.clone());
        if let Some(new) = demands(&at.configuration).filter(|new| *new != now) {
            at = Estimate::new(aries, at.configuration, &new);
            now = new;
        }
    }
    way
}
