//! From an iteration to an epoch.

use crate::units::Picos;

/// Iterations of one epoch: `ceil(dataset / (batch * ranks))` with `batch` samples on each of the
/// ranks that train (TTO paper, Eq. 1).
pub fn iterations(dataset: u64, batch: u64, ranks: u64) -> u64 {
    u64::try_from(u128::from(dataset).div_ceil((u128::from(batch) * u128::from(ranks)).max(1))).unwrap_or(u64::MAX)
}

/// Samples on each rank when a batch of fixed size is divided among `ranks` (strong scaling).
pub fn samples_per_rank(global_batch: u64, ranks: u64) -> u64 {
    global_batch.div_ceil(ranks.max(1))
}

/// Time that one epoch saves over a baseline, negative where it loses; each given as (iterations,
/// time of one), so that leaving out a rank counts (TTO paper, Eq. 2).
pub fn epoch_gain(baseline: (u64, Picos), ours: (u64, Picos)) -> i128 {
    let epoch = |(iterations, time): (u64, Picos)| i128::from(iterations) * i128::from(time);
    epoch(baseline) - epoch(ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TTO paper, section VIII-B: ResNet-152 on 8x8, RingBiEven against TTO; cycles of a nanosecond.
    #[test]
    fn the_example_of_the_paper() {
        let (ring, tto) = (iterations(1_281_167, 16, 64), iterations(1_281_167, 16, 63));
        assert_eq!((ring, tto), (1252, 1271));
        let compute = 1_832_399;
        let gain = epoch_gain((ring, compute + 10_350_425), (tto, compute + 7_076_228));
        assert_eq!(gain, 3_930_030_731);
        let baseline = i128::from(ring * (compute + 10_350_425));
        assert_eq!(gain * 1000 / baseline, 257, "25.8 % of the baseline's time, not 44 %");
    }

    #[test]
    fn batches_are_divided_up() {
        assert_eq!(samples_per_rank(1024, 64), 16);
        assert_eq!(samples_per_rank(1024, 63), 17);
        assert_eq!(iterations(1, u64::MAX, u64::MAX), 1);
    }
}
