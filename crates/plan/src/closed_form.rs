//! Closed-form costs of AllReduce on rings and pipelined trees, where every step of a link takes a latency
//! and the bytes of a chunk over its rate.
//!
//! C-Cube (HPCA 2023), sections II-C and III-C; the paper has no Eq. 6. `h` is the height of the logical tree,
//! log2 of the ranks; `N` the bytes of one tree, `K` its chunks, `a` the latency, `b` the time of a byte.

use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Bytes, MAX_BYTES, Picos, Rate};

/// Most chunks that a pipeline is cut into.
const MAX_CHUNKS: u64 = 1 << 20;
/// Most ranks that advice is given for.
pub const MAX_RANKS: u32 = 1 << 20;

/// What one step costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepCost {
    /// Latency of a step, `a`.
    pub latency_ps: Picos,
    /// Rate of the link, `1 / b`.
    pub rate: Rate,
}

impl StepCost {
    /// Time of a step with a chunk of `bytes`, rounded up to a picosecond.
    pub fn time_ps(self, bytes: Bytes) -> Picos {
        self.latency_ps.saturating_add(self.rate.time_for(bytes))
    }

    /// `b N` in picoseconds.
    fn data_ps(self, bytes: Bytes) -> f64 {
        bytes as f64 * 1e12 / self.rate.0.max(1) as f64
    }

    /// Time of one phase of a tree, Eq. 3: `(h + K) (a + b N / K)`, in picoseconds.
    pub fn phase_ps(self, height: u32, bytes: Bytes, chunks: f64) -> f64 {
        (f64::from(height) + chunks) * (self.latency_ps as f64 + self.data_ps(bytes) / chunks)
    }

    /// Number of chunks with the shortest phase, Eq. 4: `sqrt(h b N / a)`; at least 1.
    pub fn tree_chunks(self, height: u32, bytes: Bytes) -> f64 {
        (f64::from(height) * self.data_ps(bytes) / self.latency_ps.max(1) as f64).sqrt().max(1.0)
    }

    /// Number of chunks that is best for the overlapped tree, `sqrt(2 h b N / a)`: Eq. 4 is for two phases.
    pub fn overlapped_chunks(self, height: u32, bytes: Bytes) -> f64 {
        self.tree_chunks(2 * height, bytes)
    }
}

/// A time of the form `latencies * a + data * b N + both * sqrt(a b N)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Formula {
    /// Times the latency.
    pub latencies: f64,
    /// Times the time of all bytes.
    pub data: f64,
    /// Times the geometric mean of both.
    pub both: f64,
}

impl Formula {
    /// AllReduce on a ring, Eq. 2: `2 (P - 1) a + 2 (P - 1) / P b N`.
    pub fn ring(ranks: u32) -> Self {
        let hops = 2.0 * (f64::from(ranks) - 1.0);
        Formula { latencies: hops, data: hops / f64::from(ranks), both: 0.0 }
    }

    /// Both phases of a tree with the chunks of Eq. 4, Eq. 5: `2 h a + 2 b N + 4 sqrt(a b N h)`.
    pub fn tree(height: u32) -> Self {
        let h = f64::from(height);
        Formula { latencies: 2.0 * h, data: 2.0, both: 4.0 * h.sqrt() }
    }

    /// An overlapped tree with the chunks of Eq. 4, Eq. 7: `2 h a + b N + 3 sqrt(a b N h)`.
    pub fn overlapped(height: u32) -> Self {
        let h = f64::from(height);
        Formula { latencies: 2.0 * h, data: 1.0, both: 3.0 * h.sqrt() }
    }

    /// An overlapped tree with its own best chunks: `2 h a + b N + 2 sqrt(2 a b N h)`.
    pub fn overlapped_best(height: u32) -> Self {
        let h = f64::from(height);
        Formula { latencies: 2.0 * h, data: 1.0, both: 2.0 * (2.0 * h).sqrt() }
    }

    /// The same with the data divided among `trees` trees that share no link.
    pub fn on_trees(self, trees: u32) -> Self {
        let share = 1.0 / f64::from(trees.max(1));
        Formula { latencies: self.latencies, data: self.data * share, both: self.both * share.sqrt() }
    }

    /// Time of `bytes` in picoseconds.
    pub fn time_ps(self, step: StepCost, bytes: Bytes) -> f64 {
        let (a, bn) = (step.latency_ps as f64, step.data_ps(bytes));
        self.latencies * a + self.data * bn + self.both * (a * bn).sqrt()
    }

    /// The sizes, first and last, at which this is the faster, if the other's `both` is not the smaller; `None` if
    /// there is none up to [`MAX_BYTES`].
    pub fn faster_between(self, other: Formula, step: StepCost) -> Option<(Bytes, Bytes)> {
        // What the other takes longer, over a, with x the root of b N / a: c x^2 + k x + l. As k is not
        // negative, it is positive in one interval.
        let (c, k, l) = (other.data - self.data, other.both - self.both, other.latencies - self.latencies);
        let bytes = |x: f64| {
            if x.is_infinite() {
                return MAX_BYTES;
            }
            let bytes = x * x * step.latency_ps as f64 * step.rate.0 as f64 / 1e12;
            (bytes as Bytes).min(MAX_BYTES)
        };
        let root = (k * k - 4.0 * c * l).max(0.0).sqrt();
        // Where c is 0, the line's.
        let (low, high) = match c.partial_cmp(&0.0)? {
            std::cmp::Ordering::Greater => ((root - k) / (2.0 * c), f64::INFINITY),
            std::cmp::Ordering::Less => ((root - k) / (2.0 * c), (-root - k) / (2.0 * c)),
            std::cmp::Ordering::Equal if k > 0.0 => (-l / k, f64::INFINITY),
            std::cmp::Ordering::Equal => (if l > 0.0 { 0.0 } else { f64::INFINITY }, f64::INFINITY),
        };
        let low = if low <= 0.0 { 1 } else { bytes(low) + 1 };
        let high = bytes(high.max(0.0));
        (k * k >= 4.0 * c * l && low <= high).then_some((low, high))
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
    pub fn time_ps(self, step: StepCost, bytes: Bytes, chunks: u64) -> Picos {
        let chunks = chunks.max(1);
        self.steps(chunks).saturating_mul(step.time_ps(bytes.div_ceil(chunks)))
    }

    /// Time of `bytes` in `chunks` equal chunks where links send on while what they have sent is on its way, so that
    /// only the first chunk's steps take their latency.
    pub fn streamed_ps(self, step: StepCost, bytes: Bytes, chunks: u64) -> Picos {
        let chunks = chunks.max(1);
        let chunk = bytes.div_ceil(chunks);
        let first = self.first.saturating_mul(step.time_ps(chunk));
        first.saturating_add(((chunks - 1) * self.stride).saturating_mul(step.rate.time_for(chunk)))
    }

    /// The fewest chunks of `unit` bytes times a power of two whose [`Pipeline::streamed_ps`] is within 1/256 of the
    /// shortest.
    pub fn streamed_chunks(self, step: StepCost, bytes: Bytes, unit: Bytes) -> u64 {
        let chunks =
            (0..64).map_while(|exponent| unit.max(1).checked_mul(1 << exponent)).map(|size| bytes.div_ceil(size));
        let timed = chunks.map(|chunks| (self.streamed_ps(step, bytes, chunks), chunks.max(1)));
        let best = timed.clone().map(|(time, _)| time).min().unwrap_or(0);
        timed.filter(|(time, _)| *time <= best + best / 256).map(|(_, chunks)| chunks).min().unwrap_or(1)
    }

    /// The number of chunks with the shortest time, of whole 4-byte elements.
    ///
    /// Next to the minimum of `(first - stride + stride K) (a + b N / K)`, at `sqrt((first / stride - 1) b N / a)`.
    pub fn best_chunks(self, step: StepCost, bytes: Bytes) -> u64 {
        let most = bytes.div_ceil(4).clamp(1, MAX_CHUNKS);
        let later = self.first.saturating_sub(self.stride) as f64 / self.stride.max(1) as f64;
        let about = (later * step.data_ps(bytes) / step.latency_ps.max(1) as f64).sqrt().clamp(1.0, most as f64) as u64;
        let near = [about, (about + 1).min(most)];
        near.into_iter().min_by_key(|&chunks| self.time_ps(step, bytes, chunks)).unwrap_or(1)
    }
}

/// One way to do an AllReduce, and what it costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AllReduceWay {
    /// What it is.
    pub name: &'static str,
    /// Trees among which the data is divided; 0 for the ring.
    pub trees: u32,
    /// Chunks of one tree; of the ring as many as ranks.
    pub chunks: u64,
    /// Steps of all chunks.
    pub steps: u64,
    /// Time of these steps.
    pub time_ps: Picos,
    /// Time by the paper's equation, whose chunks need be no whole number.
    pub formula_ps: f64,
    /// When the first chunk is complete everywhere.
    pub first_chunk_ps: Picos,
    /// Sizes, first and last, at which the ring is faster by the equations.
    pub ring_faster: Option<(Bytes, Bytes)>,
}

/// Height of the binary tree over `ranks`: log2, rounded up.
pub fn height(ranks: u32) -> u32 {
    ranks.max(1).next_power_of_two().ilog2()
}

/// Ring, tree and overlapped tree (with the chunks of Eq. 4 and with its own best) beside each other, on one tree and
/// on two that share no link.
///
/// # Errors
/// [`Code::BadSize`] below two ranks or past [`MAX_RANKS`], [`Code::TooLarge`] where a time is.
pub fn ways(ranks: u32, bytes: Bytes, step: StepCost) -> Result<Vec<AllReduceWay>> {
    if !(2..=MAX_RANKS).contains(&ranks) {
        return Err(Error::new(Code::BadSize, format!("{ranks} ranks: expected 2 to {MAX_RANKS}")));
    }
    let (ring, height) = (Formula::ring(ranks), height(ranks));
    let steps = 2 * (u64::from(ranks) - 1);
    let time_ps = steps.saturating_mul(step.time_ps(bytes.div_ceil(ranks.into())));
    let mut ways = vec![AllReduceWay {
        name: "ring",
        trees: 0,
        chunks: ranks.into(),
        steps,
        time_ps,
        formula_ps: ring.time_ps(step, bytes),
        first_chunk_ps: time_ps,
        ring_faster: None,
    }];
    for trees in [1, 2] {
        let part = bytes.div_ceil(trees.into());
        let (barrier, overlapped) = (Pipeline::tree(height, false), Pipeline::tree(height, true));
        let paper = (step.tree_chunks(height, part).round() as u64).min(part);
        for (name, pipeline, chunks, formula) in [
            ("tree", barrier, barrier.best_chunks(step, part), Formula::tree(height)),
            ("overlapped tree, chunks of Eq. 4", overlapped, paper, Formula::overlapped(height)),
            ("overlapped tree", overlapped, overlapped.best_chunks(step, part), Formula::overlapped_best(height)),
        ] {
            let formula = formula.on_trees(trees);
            // The broadcast of the first chunk waits for the last reduction.
            let first = if pipeline.stride > 1 { pipeline.first + chunks - 1 } else { pipeline.first };
            ways.push(AllReduceWay {
                name,
                trees,
                chunks,
                steps: pipeline.steps(chunks),
                time_ps: pipeline.time_ps(step, part, chunks),
                formula_ps: formula.time_ps(step, bytes),
                first_chunk_ps: first.saturating_mul(step.time_ps(part.div_ceil(chunks))),
                ring_faster: ring.faster_between(formula, step),
            });
        }
    }
    if ways.iter().any(|way| way.time_ps == Picos::MAX || way.first_chunk_ps == Picos::MAX) {
        return Err(Error::new(Code::TooLarge, "a time of more than 213 days; give a higher rate or fewer bytes"));
    }
    Ok(ways)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// C-Cube's system: 25 GB/s a link (HPCA 2023, section V-A), 12.4 us fitted to Fig. 12 at 64 MB.
    const NVLINK: StepCost = StepCost { latency_ps: 12_400_000, rate: Rate::gb_per_s(25) };

    /// Fig. 5: four ranks, four chunks.
    #[test]
    fn steps_of_figure_5() {
        assert_eq!((Pipeline::tree(2, false).steps(4), Pipeline::tree(2, true).steps(4)), (10, 7));
    }

    /// Section V-B: C1 over B 75 % at 64 MB, up to 80 % at more, on two trees.
    #[test]
    fn gain_of_the_overlap() {
        let time = |formula: Formula, mib: u64| formula.on_trees(2).time_ps(NVLINK, mib << 20);
        let gain = |mib| time(Formula::tree(3), mib) / time(Formula::overlapped(3), mib);
        assert_eq!([64, 128, 256].map(|size| (gain(size) * 100.0).round() / 100.0), [1.75, 1.81, 1.86]);
    }

    /// Section II-C: the ring is better by up to 14 % on eight ranks.
    #[test]
    fn a_ring_gains_little() {
        for ranks in [2u32, 4, 8, 64, 1024] {
            let gain = Formula::tree(height(ranks)).data / Formula::ring(ranks).data;
            assert!((gain - f64::from(ranks) / f64::from(ranks - 1)).abs() < 1e-12, "{gain}");
        }
    }

    #[test]
    fn ways_side_by_side() {
        let ways = ways(8, 64_000_000, NVLINK).unwrap();
        assert_eq!(ways.len(), 7);
        for way in &ways {
            // The equations count up to two steps of some thirty too many.
            let share = way.time_ps as f64 / way.formula_ps;
            assert!(0.93 < share && share < 1.001, "{way:?}");
            assert!(way.first_chunk_ps <= way.time_ps);
            if let Some((first, last)) = way.ring_faster {
                let faster = |bytes| {
                    let other = [Formula::tree(3), Formula::overlapped(3), Formula::overlapped_best(3)]
                        .into_iter()
                        .map(|formula| formula.on_trees(way.trees))
                        .find(|formula| formula.time_ps(NVLINK, 64_000_000) == way.formula_ps)
                        .unwrap();
                    Formula::ring(8).time_ps(NVLINK, bytes) < other.time_ps(NVLINK, bytes)
                };
                assert_eq!([first - 1, first, last].map(faster), [false, true, true], "{way:?}");
                assert!(last == MAX_BYTES || !faster(last + 1), "{way:?}");
            }
        }
        // Without latency there are no small sizes.
        let instant = StepCost { latency_ps: 0, ..NVLINK };
        let ring_faster: Vec<_> = super::ways(8, 64, instant).unwrap().iter().map(|way| way.ring_faster).collect();
        assert_eq!(ring_faster, [None, Some((1, MAX_BYTES)), None, None, None, None, None]);
        assert_eq!(super::ways(1, 1, NVLINK).unwrap_err().code, Code::BadSize);
        assert_eq!(super::ways(u32::MAX, 1, NVLINK).unwrap_err().code, Code::BadSize);
    }

    /// Six steps of latency, and every byte once over the link but for 1/256.
    #[test]
    fn streams_pay_latency_once() {
        let pipeline = Pipeline::tree(3, true);
        let time = |chunks| pipeline.streamed_ps(NVLINK, 64 << 20, chunks);
        let chunks = pipeline.streamed_chunks(NVLINK, 64 << 20, 4096);
        let least = 6 * NVLINK.latency_ps + NVLINK.rate.time_for(64 << 20);
        assert!(least < time(chunks) && time(chunks) < least + least / 100, "{chunks}: {} {least}", time(chunks));
        assert!(time(chunks / 2) > time(1 << 14) + time(1 << 14) / 256);
        assert_eq!(pipeline.streamed_chunks(NVLINK, 100, 4096), 1);
        assert!(pipeline.streamed_chunks(NVLINK, MAX_BYTES, 1) < MAX_CHUNKS);
    }

    proptest! {
        /// Eqs 5 and 7 and the overlapped optimum are the sums of Eq. 3 and its like at their chunk counts.
        #[test]
        fn equations_agree(height in 1u32..14, bytes in 1u64 << 20..1 << 40, latency_ps in 1u64..1 << 24) {
            let step = StepCost { latency_ps, rate: Rate::gb_per_s(25) };
            let (paper, best) = (step.tree_chunks(height, bytes), step.overlapped_chunks(height, bytes));
            for (formula, sum) in [
                (Formula::tree(height), 2.0 * step.phase_ps(height, bytes, paper)),
                (Formula::overlapped(height), step.phase_ps(2 * height, bytes, paper)),
                (Formula::overlapped_best(height), step.phase_ps(2 * height, bytes, best)),
            ] {
                let formula = formula.time_ps(step, bytes);
                prop_assert!((formula / sum - 1.0).abs() < 1e-9, "{formula} {sum}");
            }
        }

        /// No other whole number of chunks is faster, but for the rounding of chunks to whole bytes.
        #[test]
        fn best_chunks_are_best(first in 1u64..20, stride in 1u64..5, bytes in 1u64..4000, latency_ps in 0u64..100_000) {
            let (pipeline, step) = (Pipeline { first, stride }, StepCost { latency_ps, rate: Rate::gb_per_s(1) });
            let time = |chunks| pipeline.time_ps(step, bytes, chunks);
            let best = (1..=bytes.div_ceil(4)).map(time).min().unwrap();
            let chosen = pipeline.best_chunks(step, bytes);
            prop_assert!(time(chosen) <= best + pipeline.steps(chosen) * 1000, "{chosen}: {} {best}", time(chosen));
        }
    }
}
