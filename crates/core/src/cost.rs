//! Closed-form costs of AllReduce on rings and pipelined trees, where every step of a link takes a latency
//! and the bytes of a chunk over its rate.
//!
//! C-Cube (HPCA 2023), sections II-C and III-C; the paper has no Eq. 6. `h` is the height of the logical tree,
//! log2 of the ranks; `N` the bytes of one tree, `K` its chunks, `a` the latency, `b` the time of a byte.

use crate::units::{Bytes, Picos, Rate};

/// Most chunks that a pipeline is cut into.
const MAX_CHUNKS: u64 = 1 << 20;

/// What one step costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Latency of a step, `a`.
    pub latency_ps: Picos,
    /// Rate of the link, `1 / b`.
    pub rate: Rate,
}

impl Step {
    /// Time of a step with a chunk of `bytes`, rounded up to a picosecond.
    pub fn time_ps(self, bytes: Bytes) -> Picos {
        self.latency_ps.saturating_add(self.rate.time_for(bytes))
    }

    /// `a` and `b N` in picoseconds.
    fn parts(self, bytes: Bytes) -> (f64, f64) {
        (self.latency_ps as f64, bytes as f64 * 1e12 / self.rate.0.max(1) as f64)
    }

    /// Time of AllReduce on a ring, Eq. 2: `2 (P - 1) a + 2 (P - 1) / P b N`, in picoseconds.
    pub fn ring_ps(self, ranks: u32, bytes: Bytes) -> f64 {
        let ((a, bn), ranks) = (self.parts(bytes), f64::from(ranks.max(1)));
        2.0 * (ranks - 1.0) * (a + bn / ranks)
    }

    /// Time of one phase of a tree, Eq. 3: `(h + K) (a + b N / K)`, in picoseconds.
    pub fn phase_ps(self, height: u32, bytes: Bytes, chunks: f64) -> f64 {
        let (a, bn) = self.parts(bytes);
        (f64::from(height) + chunks) * (a + bn / chunks)
    }

    /// Number of chunks with the shortest phase, Eq. 4: `sqrt(h b N / a)`.
    pub fn tree_chunks(self, height: u32, bytes: Bytes) -> f64 {
        let (a, bn) = self.parts(bytes);
        (f64::from(height) * bn / a).sqrt()
    }

    /// Time of both phases with as many chunks, Eq. 5: `2 h a + 2 b N + 4 sqrt(a b N h)`, in picoseconds.
    pub fn tree_ps(self, height: u32, bytes: Bytes) -> f64 {
        let ((a, bn), h) = (self.parts(bytes), f64::from(height));
        2.0 * h * a + 2.0 * bn + 4.0 * (a * bn * h).sqrt()
    }

    /// Time of the overlapped tree with the chunks of Eq. 4, Eq. 7: `2 h a + b N + 3 sqrt(a b N h)`, in picoseconds.
    pub fn overlapped_ps(self, height: u32, bytes: Bytes) -> f64 {
        let ((a, bn), h) = (self.parts(bytes), f64::from(height));
        2.0 * h * a + bn + 3.0 * (a * bn * h).sqrt()
    }

    /// Number of chunks that is best for the overlapped tree, `sqrt(2 h b N / a)`: Eq. 4 minimises two phases.
    pub fn overlapped_chunks(self, height: u32, bytes: Bytes) -> f64 {
        self.tree_chunks(2 * height, bytes)
    }

    /// Time of the overlapped tree with its best chunks: `2 h a + b N + 2 sqrt(2 a b N h)`, in picoseconds.
    pub fn overlapped_best_ps(self, height: u32, bytes: Bytes) -> f64 {
        let ((a, bn), h) = (self.parts(bytes), f64::from(height));
        2.0 * h * a + bn + 2.0 * (2.0 * a * bn * h).sqrt()
    }
}

/// How a stream of equal chunks passes through a tree, in steps. The equations above count up to two more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pipeline {
    /// Steps of a single chunk.
    pub first: u64,
    /// Steps that every further chunk adds.
    pub stride: u64,
}

impl Pipeline {
    /// A tree of `height` edges: `2 h + K - 1` steps overlapped, `2 (h + K - 1)` with a barrier between reduction
    /// and broadcast (C-Cube Fig. 5).
    pub fn tree(height: u32, overlap: bool) -> Self {
        Pipeline { first: 2 * u64::from(height), stride: if overlap { 1 } else { 2 } }
    }

    /// Steps of `chunks` chunks.
    pub fn steps(self, chunks: u64) -> u64 {
        self.first + (chunks.max(1) - 1) * self.stride
    }

    /// Time of `bytes` in `chunks` equal chunks.
    pub fn time_ps(self, step: Step, bytes: Bytes, chunks: u64) -> Picos {
        let chunks = chunks.max(1);
        self.steps(chunks).saturating_mul(step.time_ps(bytes.div_ceil(chunks)))
    }

    /// The number of chunks with the shortest time, of whole 4-byte elements.
    ///
    /// Next to the minimum of `(first - stride + stride K) (a + b N / K)`, at `sqrt((first / stride - 1) b N / a)`.
    pub fn best_chunks(self, step: Step, bytes: Bytes) -> u64 {
        let most = bytes.div_ceil(4).clamp(1, MAX_CHUNKS);
        let (a, bn) = step.parts(bytes);
        let later = self.first.saturating_sub(self.stride) as f64 / self.stride.max(1) as f64;
        let about = (later * bn / a.max(1e-3)).sqrt().clamp(1.0, most as f64) as u64;
        let near = [about, (about + 1).min(most)];
        near.into_iter().min_by_key(|&chunks| self.time_ps(step, bytes, chunks)).unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// C-Cube's system: 25 GB/s a link, 12.4 us fitted (reference: C-Cube section 4).
    const NVLINK: Step = Step { latency_ps: 12_400_000, rate: Rate::gb_per_s(25) };

    /// Fig. 5: four ranks, four chunks.
    #[test]
    fn steps_of_figure_5() {
        assert_eq!((Pipeline::tree(2, false).steps(4), Pipeline::tree(2, true).steps(4)), (10, 7));
    }

    /// Section V-B: C1 over B 75 % at 64 MB, up to 80 % at more. Two trees, so half of the data each.
    #[test]
    fn gain_of_the_overlap() {
        let gain =
            |megabytes: u64| NVLINK.tree_ps(3, megabytes * 500_000) / NVLINK.overlapped_ps(3, megabytes * 500_000);
        let rounded = |x: f64| (x * 100.0).round() / 100.0;
        assert_eq!([64, 128, 256].map(|size| rounded(gain(size))), [1.75, 1.81, 1.86]);
    }

    /// Section II-C: the ring is better by up to 14 % on eight ranks.
    #[test]
    fn a_ring_gains_little() {
        let gain = NVLINK.tree_ps(3, 1 << 50) / NVLINK.ring_ps(8, 1 << 50);
        assert!((gain - 8.0 / 7.0).abs() < 1e-4, "{gain}");
    }

    proptest! {
        /// Eqs 5 and 7 and the overlapped optimum are the sums of Eq. 3 and its like at their chunk counts.
        #[test]
        fn equations_agree(height in 1u32..14, bytes in 1u64..1 << 40, latency_ps in 1u64..1 << 30) {
            let step = Step { latency_ps, rate: Rate::gb_per_s(25) };
            let overlapped = |chunks: f64| {
                let (a, bn) = step.parts(bytes);
                (2.0 * f64::from(height) + chunks) * (a + bn / chunks)
            };
            let (paper, best) = (step.tree_chunks(height, bytes), step.overlapped_chunks(height, bytes));
            for (formula, sum) in [
                (step.tree_ps(height, bytes), 2.0 * step.phase_ps(height, bytes, paper)),
                (step.overlapped_ps(height, bytes), overlapped(paper)),
                (step.overlapped_best_ps(height, bytes), overlapped(best)),
            ] {
                prop_assert!((formula / sum - 1.0).abs() < 1e-9, "{formula} {sum}");
            }
            prop_assert!(step.overlapped_best_ps(height, bytes) <= step.overlapped_ps(height, bytes));
        }

        /// The integer chosen is as good as any; one more or less would round up by a picosecond a step at most.
        #[test]
        fn best_chunks_are_best(first in 1u64..20, stride in 1u64..5, bytes in 1u64..4000, latency_ps in 0u64..100_000) {
            let (pipeline, step) = (Pipeline { first, stride }, Step { latency_ps, rate: Rate::gb_per_s(1) });
            let time = |chunks| pipeline.time_ps(step, bytes, chunks) as f64;
            let best = (1..=bytes.div_ceil(4)).map(time).fold(f64::INFINITY, f64::min);
            let chosen = pipeline.best_chunks(step, bytes);
            // Chunks are whole bytes here, which moves the minimum a little.
            let rounding = pipeline.steps(chosen) as f64 * 1000.0;
            prop_assert!(time(chosen) <= best + rounding, "{chosen}: {} {best}", time(chosen));
        }
    }
}
