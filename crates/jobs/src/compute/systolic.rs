//! Systolic arrays: cycles of matrix products on a grid of multipliers, as SCALE-Sim counts them
//! (Samajdar et al., "A systematic methodology for characterizing scalability of DNN accelerators
//! using SCALE-Sim", ISPASS 2020). Memory is ideal. Everything is a closed form.

use super::{Compute, LayerTimes, MAX_TIME, TOO_LONG};
use crate::workload::{Convolution, Pass, Passes, Work};
use antiphon_base::units::Picos;
use antiphon_model::system::{Dataflow, SystolicArray};

impl Compute for SystolicArray {
    /// A processing element takes one sample after the other, so the largest share of the batch decides.
    fn passes(&self, work: &Work, _params: u64, batch: u64) -> LayerTimes {
        let shape = match work {
            Work::Convolution(shape) => shape,
            Work::Counts(_) => return Err("has operation counts and no shape; use --compute roofline"),
            Work::Measured(_) => return Err("has measured times only; use --compute measured"),
        };
        let samples = u128::from(batch.div_ceil(u64::from(self.elements)));
        let time = |pass| {
            let cycles = MatrixProduct::of(shape, pass).cycles(self, pass).checked_mul(samples);
            let picos = cycles.and_then(|cycles| cycles.checked_mul(u128::from(self.clock_ps)));
            picos.filter(|&picos| picos <= u128::from(MAX_TIME)).map(|picos| picos as Picos).ok_or(TOO_LONG)
        };
        let [forward, input_gradient, weight_gradient] = Pass::ALL.map(time);
        Ok(Passes([forward?, input_gradient?, weight_gradient?]))
    }

    /// Every processing element adds up an equal part of the weights, one in a cycle on each multiplier
    /// of the array's longer side, as in the TTO artifact (HPCA 2024).
    fn aggregation(&self, params: u64) -> Picos {
        if self.elements == 1 {
            return 0;
        }
        let share = params.div_ceil(u64::from(self.elements));
        share.div_ceil(u64::from(self.rows.max(self.columns))).saturating_mul(self.clock_ps)
    }
}

/// A matrix product that an array computes: `rows` x `columns` sums of `depth` products. Every factor
/// is below 2^51 (tables limit weights, elements and operations), so that products of three fit into
/// 128 bits with room.
#[derive(Clone, Copy)]
struct MatrixProduct {
    rows: u64,
    columns: u64,
    depth: u64,
    /// Depth after which output-stationary sums leave the array.
    drain_depth: u64,
}

impl MatrixProduct {
    /// The product of a pass, pixels by channels or filters (TTO, HPCA 2024, section VI-A). The input gradient's sums
    /// leave after one filter window: that is what the SCALE-Sim of the TTO artifact counts.
    fn of(shape: &Convolution, pass: Pass) -> MatrixProduct {
        let (height, width) = shape.output();
        let window = shape.filter_height * shape.filter_width;
        match pass {
            Pass::Forward => MatrixProduct {
                rows: height * width,
                columns: shape.filters,
                depth: window * shape.channels,
                drain_depth: window * shape.channels,
            },
            Pass::InputGradient => MatrixProduct {
                rows: shape.input_height * shape.input_width,
                columns: shape.channels,
                depth: window * shape.filters,
                drain_depth: window,
            },
            Pass::WeightGradient => MatrixProduct {
                rows: window * shape.channels,
                columns: shape.filters,
                depth: height * width,
                drain_depth: height * width,
            },
        }
    }
}

impl MatrixProduct {
    /// Cycles on one processing element.
    fn cycles(self, array: &SystolicArray, pass: Pass) -> u128 {
        let MatrixProduct { rows, columns, depth, .. } = self;
        match array.dataflow {
            Dataflow::OutputStationary => self.operands_in(array).max(self.sums_out(array, pass)),
            Dataflow::WeightStationary => stationary(array, depth, columns, rows),
            Dataflow::InputStationary => stationary(array, depth, rows, columns),
        }
    }

    /// Output stationary: the cycle in which the last operand enters the array. Folds follow each other
    /// without a gap, so only the skew of the last ones adds to `folds * depth`.
    fn operands_in(self, array: &SystolicArray) -> u128 {
        let MatrixProduct { rows, columns, depth, .. } = self;
        let (array_rows, array_columns) = (u64::from(array.rows), u64::from(array.columns));
        let (row_folds, column_folds) = (rows.div_ceil(array_rows), columns.div_ceil(array_columns));
        let stream = u128::from(row_folds) * u128::from(column_folds) * u128::from(depth);
        let skew = ((columns - 1) % array_columns).max((rows - 1) % array_rows);
        let full_fold = if row_folds > 1 { stream - u128::from(depth) + u128::from(array_rows - 1) } else { 0 };
        (stream + u128::from(skew)).max(full_fold)
    }

    /// Output stationary: the cycle in which the last sum leaves the array. Row folds follow each other
    /// after `depth` cycles, or after the array's rows if these take longer to leave; column folds as
    /// soon as the sums of the one before are out.
    fn sums_out(self, array: &SystolicArray, pass: Pass) -> u128 {
        let MatrixProduct { rows, columns, drain_depth: depth, .. } = self;
        let (array_rows, array_columns) = (u64::from(array.rows), u64::from(array.columns));
        let (row_folds, column_folds) = (rows.div_ceil(array_rows), columns.div_ceil(array_columns));
        let last_rows = rows - (row_folds - 1) * array_rows;
        let last_columns = columns - (column_folds - 1) * array_columns;
        // Forward sums leave along the rows, gradients along the columns.
        let skew = |columns| if pass == Pass::Forward { columns } else { rows.min(array_rows) };
        let drain = u128::from(row_folds - 1) * u128::from(depth.max(array_rows));
        // From the last sums of a column fold to those of the next, which has `columns`.
        let turn = |columns| (depth + skew(columns) + 1).saturating_sub(last_rows + array_columns).max(last_rows);
        let turns = match column_folds {
            1 => 0,
            folds => u128::from(folds - 2) * u128::from(turn(array_columns)) + u128::from(turn(last_columns)),
        };
        let first = depth + skew(columns.min(array_columns)) - 1;
        u128::from(first) + turns + u128::from(column_folds) * drain + u128::from(last_rows)
    }
}

/// Weight or input stationary: an operand of `depth` x `columns` stays while `streamed` vectors of the
/// other pass. Every fold is loaded row by row, and ends when the last sum has crossed the array; the
/// next waits for that. The first cycle is number 0, and the last one's number is the time, as SCALE-Sim
/// 3 reports it.
fn stationary(array: &SystolicArray, depth: u64, columns: u64, streamed: u64) -> u128 {
    let (array_rows, array_columns) = (u64::from(array.rows), u64::from(array.columns));
    let folds = u128::from(depth.div_ceil(array_rows)) * u128::from(columns.div_ceil(array_columns));
    folds * u128::from(2 * array_rows + array_columns + streamed - 2) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_base::parameter::Choice;
    use proptest::prelude::*;

    fn array(rows: u32, columns: u32, dataflow: Dataflow) -> SystolicArray {
        SystolicArray { rows, columns, elements: 1, dataflow, clock_ps: 1000 }
    }

    fn shape() -> impl Strategy<Value = Convolution> {
        (1..40u64, 1..40u64, 1..6u64, 1..6u64, 1..40u64, 1..40u64, 1..3u64).prop_map(
            |(height, width, filter_height, filter_width, channels, filters, stride)| Convolution {
                input_height: height + filter_height - 1,
                input_width: width + filter_width - 1,
                filter_height,
                filter_width,
                channels,
                filters,
                stride,
            },
        )
    }

    /// The folds of an output-stationary product one after the other, as the SCALE-Sim of the TTO artifact goes through
    /// them.
    fn sums_out_by_folds(array: &SystolicArray, pass: Pass, product: MatrixProduct) -> u128 {
        let (array_rows, array_columns) = (i128::from(array.rows), i128::from(array.columns));
        let (rows, columns, depth) =
            (i128::from(product.rows), i128::from(product.columns), i128::from(product.drain_depth));
        let (mut start, mut end, mut left) = (0, 0, columns);
        while left > 0 {
            let active_columns = left.min(array_columns);
            let skew = if pass == Pass::Forward { active_columns } else { rows.min(array_rows) };
            start = if left == columns { depth + skew - 1 } else { (start + depth + skew).max(end) };
            let mut active_rows = rows;
            while active_rows > array_rows {
                start += depth.max(array_rows);
                active_rows -= array_rows;
            }
            end = start + active_rows;
            start -= active_rows + active_columns - 1;
            left -= active_columns;
        }
        end as u128
    }

    proptest! {
        #[test]
        fn the_closed_form_is_the_sum_over_folds(shape in shape(), rows in 1..20u32, columns in 1..20u32) {
            let array = array(rows, columns, Dataflow::OutputStationary);
            for pass in Pass::ALL {
                let product = MatrixProduct::of(&shape, pass);
                prop_assert_eq!(product.sums_out(&array, pass), sums_out_by_folds(&array, pass, product));
            }
        }

        /// An array cannot do more than one multiply-add a cycle on each multiplier.
        #[test]
        fn no_dataflow_beats_the_peak(shape in shape(), rows in 1..20u32, columns in 1..20u32) {
            for (_, dataflow) in Dataflow::ALL.iter().copied() {
                let array = array(rows, columns, dataflow);
                for pass in Pass::ALL {
                    let product = MatrixProduct::of(&shape, pass);
                    let macs = u128::from(product.rows * product.columns * product.depth);
                    prop_assert!(product.cycles(&array, pass) * u128::from(rows * columns) >= macs);
                }
            }
        }
    }

    #[test]
    fn the_gradients_of_a_ranks_elements_are_added_up() {
        let array = SystolicArray { elements: 16, ..array(256, 32, Dataflow::OutputStationary) };
        assert_eq!(array.aggregation(16 * 256), 1000);
        assert_eq!(array.aggregation(16 * 256 + 1), 2000);
        assert_eq!(array.aggregation(0), 0);
        assert_eq!(SystolicArray { elements: 1, ..array }.aggregation(1 << 30), 0);
    }
}
