//! Times that the workload's table holds.

use super::{Compute, LayerTimes};
use crate::workload::Work;

/// The times of the table, for the batch it was measured with: `batch` changes nothing.
pub struct Measured;

impl Compute for Measured {
    fn passes(&self, work: &Work, _params: u64, _batch: u64) -> LayerTimes {
        match *work {
            Work::Measured(times) => Ok(times),
            Work::Convolution(_) => Err("has a shape and no measured times; use --compute systolic or roofline"),
            Work::Counts(_) => Err("has operation counts and no measured times; use --compute roofline"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Passes;

    #[test]
    fn the_table_is_taken_as_it_is() {
        let times = Passes([1, 2, 3]);
        assert_eq!(Measured.passes(&Work::Measured(times), 0, 1), Ok(times));
        assert_eq!(Measured.passes(&Work::Measured(times), 0, 64), Ok(times));
        assert_eq!(Measured.aggregation(1 << 40), 0);
    }
}
