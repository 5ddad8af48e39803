//! What is known of a mixture before it is looked for.

use super::plan::Plan;
use antiphon_model::collective::Matrix;

/// A plan of before, or what is left of it.
#[derive(Debug, Clone)]
pub struct Known {
    /// Rank of its root.
    pub root: u32,
    /// Its share of the root's bytes.
    pub share: f64,
    /// Branches whose ends and arcs are all there.
    pub plan: Plan,
}

/// What branches of plans carry.
#[derive(Debug, Clone, Copy)]
pub struct Load<'a> {
    /// Of every byte of the collective, those of a root's plans; with a matrix, one byte of it.
    pub share: f64,
    /// Bytes of branches; each has one if there is none.
    pub matrix: Option<&'a Matrix>,
}

impl Load<'_> {
    /// What a branch between two ranks carries for every share of its plan, for every byte of the collective.
    #[inline]
    pub fn of(&self, (from, to): (u32, u32)) -> f64 {
        self.share * self.matrix.map_or(1, |matrix| matrix.bytes(from as usize, to as usize)) as f64
    }

    /// The most that a branch of a rank's paths to so many ranks carries.
    pub fn most(&self, from: u32, ranks: usize) -> f64 {
        match self.matrix {
            Some(_) => (0..ranks as u32).map(|to| self.of((from, to))).fold(0.0, f64::max),
            None => self.share,
        }
    }
}

/// What is known of a mixture.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// Plans that were good; shares of a root add up to one.
    pub plans: Vec<Known>,
    /// Prices of arcs that were good, in any unit.
    pub prices: Option<Vec<f64>>,
    /// Picoseconds for every byte that no mixture is below.
    pub least: f64,
    /// Whether only rates count: then no low plans are looked for, and a mixture is taken as soon as it is near the optimum.
    pub only_rates: bool,
}
