//! Roofline: a pass takes as long as its arithmetic or its memory traffic, whichever is longer
//! (Williams, Waterman, Patterson: "Roofline: an insightful visual performance model", CACM 2009).

use super::{Compute, LayerTimes, MAX_TIME, TOO_LONG};
use crate::workload::{Passes, Work};
use antiphon_base::units::Picos;
use antiphon_model::system::Roofline;

impl Compute for Roofline {
    /// Weights are read once, inputs and outputs once for each sample. Each of the two backward passes
    /// takes as long as the forward one, which makes backward twice forward: all three are products of
    /// the same size. That holds for products without weights too (attention scores have two inputs);
    /// only a layer with neither weights nor operations, such as pooling, has no second pass.
    fn passes(&self, work: &Work, params: u64, batch: u64) -> LayerTimes {
        let counts = match work {
            Work::Convolution(shape) => shape.counts(),
            Work::Counts(counts) => *counts,
            Work::Measured(_) => return Err("has measured times only; use --compute measured"),
        };
        let [macs, inputs, outputs, params, batch] =
            [counts.macs, counts.input_elements, counts.output_elements, params, batch].map(u128::from);
        let operations = (2 * macs).checked_mul(batch);
        let bytes = (inputs + outputs)
            .checked_mul(batch)
            .and_then(|elements| elements.checked_add(params)?.checked_mul(u128::from(self.element_bytes)));
        let arithmetic = time(operations, self.flops, self.flops_permille).ok_or(TOO_LONG)?;
        let memory = time(bytes, self.memory_rate.0, self.memory_permille).ok_or(TOO_LONG)?;
        let pass = arithmetic.max(memory);
        Ok(Passes([pass, pass, if macs == 0 && params == 0 { 0 } else { pass }]))
    }
}

/// Time for arithmetic operations and bytes of memory traffic; `None` past [`MAX_TIME`].
pub fn roofline_time(roofline: &Roofline, operations: u64, bytes: u64) -> Option<Picos> {
    let arithmetic = time(Some(operations.into()), roofline.flops, roofline.flops_permille)?;
    let memory = time(Some(bytes.into()), roofline.memory_rate.0, roofline.memory_permille)?;
    Some(arithmetic.max(memory))
}

/// Time for `amount` at `permille` thousandths of `peak` a second, rounded up to a picosecond; `None`
/// past [`MAX_TIME`].
fn time(amount: Option<u128>, peak: u64, permille: u32) -> Option<Picos> {
    let rate = u128::from(peak) * u128::from(permille) / 1000;
    let picos = amount?.checked_mul(1_000_000_000_000)?.div_ceil(rate.max(1));
    (picos <= u128::from(MAX_TIME)).then_some(picos as Picos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Convolution, Counts};
    use antiphon_model::system::Processor;

    const COUNTS: Counts = Counts { macs: 1_000_000, input_elements: 3_000, output_elements: 1_000 };

    fn time_of(spec: &str, counts: Counts, params: u64, batch: u64) -> [Picos; 3] {
        let Ok(Processor::Roofline(roofline)) = Processor::parse(spec) else { panic!("{spec}") };
        roofline.passes(&Work::Counts(counts), params, batch).unwrap().0
    }

    #[test]
    fn the_longer_of_arithmetic_and_memory() {
        // 2e6 operations a sample at 1e12 a second; 2 B * (2000 + 4000 * samples) at 1e9 B/s.
        let spec = "roofline:tflops=2,efficiency=0.5,gb-per-s=2,memory-efficiency=0.5";
        assert_eq!(time_of(spec, COUNTS, 2_000, 1), [12_000_000; 3]);
        assert_eq!(time_of(spec, COUNTS, 2_000, 10), [84_000_000; 3]);
        let fast_memory = "roofline:tflops=2,efficiency=0.5,gb-per-s=2000,memory-efficiency=0.5";
        assert_eq!(time_of(fast_memory, COUNTS, 2_000, 10), [20_000_000; 3]);
    }

    #[test]
    fn layers_without_weights() {
        let spec = "roofline:tflops=1,efficiency=1";
        let [forward, input, weight] = time_of(spec, COUNTS, 0, 1);
        assert!(forward == input && input == weight);
        let pooling = Counts { macs: 0, ..COUNTS };
        let [forward, input, weight] = time_of(spec, pooling, 0, 1);
        assert!(forward > 0 && forward == input && weight == 0);
    }

    #[test]
    fn shapes_are_their_totals() {
        let Ok(Processor::Roofline(roofline)) = Processor::parse("roofline") else { panic!() };
        let shape = Convolution {
            input_height: 13,
            input_width: 13,
            filter_height: 3,
            filter_width: 3,
            channels: 256,
            filters: 384,
            stride: 1,
        };
        let params = shape.filter() * shape.filters;
        let totals = Work::Counts(shape.counts());
        assert_eq!(roofline.passes(&Work::Convolution(shape), params, 8), roofline.passes(&totals, params, 8));
    }
}
