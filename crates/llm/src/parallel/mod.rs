//! How a model is divided over ranks: the parallel plan, and which ranks are in which group.

mod groups;
mod spec;

pub use spec::OPTIONS;

use crate::pipeline::PipelineKind;
use crate::shape::ModelShape;
use antiphon_base::parameter::Choice;
use std::ops::Range;

/// How the sequence is divided in attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextKind {
    /// Keys and values go round while blocks of attention are computed.
    Ring,
    /// All ranks gather keys and values first (Llama 3, arXiv 2407.21783, section 3.3).
    AllGather,
    /// Heads instead of tokens are divided in attention, by AllToAll (DeepSpeed-Ulysses, arXiv 2309.14509).
    Ulysses,
}

impl Choice for ContextKind {
    const WHAT: &'static str = "way to divide attention";
    const ALL: &'static [(&'static str, Self)] =
        &[("ring", ContextKind::Ring), ("all-gather", ContextKind::AllGather), ("ulysses", ContextKind::Ulysses)];
}

/// What of the forward pass the backward pass computes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recompute {
    /// Nothing.
    None,
    /// Core attention (Korthikanti et al., arXiv 2205.05198).
    Selective,
    /// All of it.
    Full,
}

impl Choice for Recompute {
    const WHAT: &'static str = "recomputation";
    const ALL: &'static [(&'static str, Self)] =
        &[("none", Recompute::None), ("selective", Recompute::Selective), ("full", Recompute::Full)];
}

/// What of tensor parallelism's exchange runs beside computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorOverlap {
    /// Nothing.
    None,
    /// In the backward pass, behind gradients of weights.
    Backward,
    /// Tile by tile with the products before and after it: all but one of as many tiles as ranks.
    Tiles,
}

impl Choice for TensorOverlap {
    const WHAT: &'static str = "overlap of tensor parallelism";
    const ALL: &'static [(&'static str, Self)] =
        &[("none", TensorOverlap::None), ("backward", TensorOverlap::Backward), ("tiles", TensorOverlap::Tiles)];
}

/// A kind of group, in which ranks exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupKind {
    /// Divides layers.
    Tensor,
    /// Divides an expert.
    ExpertTensor,
    /// Divides sequences.
    Context,
    /// Divides the experts of a layer.
    Expert,
    /// Divides the model into stages.
    Pipeline,
    /// Divides the batch: all ranks that hold the same dense parameters, those of the context group, too.
    Data,
    /// All ranks that hold the same experts.
    ExpertData,
    /// First and last stage, which share an embedding.
    Embedding,
}

impl Choice for GroupKind {
    const WHAT: &'static str = "kind of group";
    const ALL: &'static [(&'static str, Self)] = &[
        ("tp", GroupKind::Tensor),
        ("etp", GroupKind::ExpertTensor),
        ("cp", GroupKind::Context),
        ("ep", GroupKind::Expert),
        ("pp", GroupKind::Pipeline),
        ("dp", GroupKind::Data),
        ("edp", GroupKind::ExpertData),
        ("embedding", GroupKind::Embedding),
    ];
}

/// A parallel plan: how a training step is divided.
#[derive(Debug, Clone, PartialEq)]
pub struct Parallelism {
    /// `tp`: ranks that divide a layer.
    pub tensor: u32,
    /// `cp`: ranks that divide a sequence.
    pub context: u32,
    /// `pp`: stages.
    pub pipeline: u32,
    /// `ep`: ranks that divide the experts.
    pub expert: u32,
    /// `etp`: ranks that divide an expert.
    pub expert_tensor: u32,
    /// `dp`: copies of the model.
    pub data: u32,
    /// `v`: parts of the model that a stage holds.
    pub chunks: u32,
    /// `mb`: sequences of a micro batch.
    pub micro_batch: u32,
    /// Micro batches of a step on each copy.
    pub micro_batches: u32,
    /// `schedule`: in which order a stage works.
    pub schedule: PipelineKind,
    /// `sp`: whether norms divide the sequence over the tensor group.
    pub sequence_parallel: bool,
    /// `cp-by`.
    pub context_kind: ContextKind,
    /// `zero`: 0 to 3. What data ranks divide: nothing, states of the optimizer, gradients too (which are reduced after every
    /// backward pass), parameters too.
    pub zero: u32,
    /// `recompute`.
    pub recompute: Recompute,
    /// `tp-overlap`.
    pub tensor_overlap: TensorOverlap,
    /// `dp-overlap`: whether gradients are reduced, and parameters gathered, behind computation.
    pub data_overlap: bool,
    /// `ep-overlap`: whether experts' exchange runs behind shared experts and, where the schedule pairs passes, behind
    /// another micro batch.
    pub expert_overlap: bool,
    /// `flash`: whether core attention keeps its scores on the chip.
    pub flash: bool,
    /// `precision`: whether products are in 8 bits. Parameters and activations are kept in 16 bits all the same.
    pub fp8: bool,
    /// `gradients`: bytes of a gradient, 2 or 4, in memory and in its exchange.
    pub gradient_bytes: u32,
    /// `order`: which dimension varies first along ranks, such as tp-cp-ep-dp-pp; all five are there.
    pub rank_order: Vec<GroupKind>,
    /// `ends`: whether first and last part have one layer less, and all others the same. It says what
    /// [`Parallelism::part_layers`] does with the layers of this model.
    pub fewer_at_ends: bool,
}

impl Parallelism {
    /// Ranks of the whole plan.
    pub fn ranks(&self) -> u32 {
        self.tensor * self.context * self.pipeline * self.data
    }

    /// Ranks that hold the same dense parameters.
    pub fn data_ranks(&self) -> u32 {
        self.data * self.context
    }

    /// Ranks that hold the same experts.
    pub fn expert_data_ranks(&self) -> u32 {
        self.tensor * self.data_ranks() / (self.expert_tensor * self.expert)
    }

    /// Parts into which the layers are divided.
    pub fn parts(&self) -> u32 {
        self.pipeline * self.chunks
    }

    /// The parts that a stage holds, in the order of its chunks. Stage r of DualPipe holds part r and, for the micro
    /// batches from the other end, part p-1-r (arXiv 2412.19437, section 3.2.1).
    pub fn stage_parts(&self, stage: u32) -> Vec<u32> {
        match self.schedule {
            PipelineKind::DualPipe => vec![stage, self.pipeline - 1 - stage],
            _ => (0..self.chunks).map(|chunk| chunk * self.pipeline + stage).collect(),
        }
    }

    /// The layers of each part, as equal as they can be: layers that are missing to the same number in all parts are
    /// missing one each in the last part, the first, the last but one, the second, and so on. Embedding and output make
    /// the ends slower (Llama 3, arXiv 2407.21783, section 3.3.2).
    pub fn part_layers(&self, shape: &ModelShape) -> Vec<Range<u32>> {
        let parts = self.parts();
        let most = shape.layers.div_ceil(parts);
        let missing = most * parts - shape.layers;
        let mut start = 0;
        let layers = (0..parts).map(|part| {
            let (from_start, from_end) = (2 * part + 1, 2 * (parts - 1 - part));
            let end = start + most - u32::from(from_start.min(from_end) < missing);
            std::mem::replace(&mut start, end)..end
        });
        layers.collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn gpt(name: &str, hidden: u64, heads: u64, layers: u32, sequence: u64, vocab: u64) -> ModelShape {
        ModelShape::gpt(name, hidden, heads, layers, sequence, vocab).unwrap()
    }

    pub(crate) fn preset(name: &str) -> ModelShape {
        ModelShape::preset(name).unwrap()
    }

    /// Mixtral 8x7B with short sequences.
    pub(crate) fn mixtral() -> ModelShape {
        ModelShape { sequence: 4096, ..preset("mixtral-8x7b") }
    }

    pub(crate) fn plan(text: &str, ranks: u32, batch: u64, shape: &ModelShape) -> Parallelism {
        Parallelism::parse(text, ranks, batch, shape).unwrap()
    }

    fn layers_of_parts(layers: u32, text: &str, ranks: u32) -> Vec<u32> {
        let shape = gpt("gpt", 64, 8, layers, 64, 1000);
        let ranges = plan(text, ranks, 4096, &shape).part_layers(&shape);
        assert_eq!((ranges[0].start, ranges.last().unwrap().end), (0, layers));
        assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
        ranges.iter().map(|range| range.len() as u32).collect()
    }

    #[test]
    fn layers_are_divided_with_the_ends_first_to_have_fewer() {
        assert_eq!(layers_of_parts(12, "pp=2,v=2", 2), [3, 3, 3, 3]);
        assert_eq!(layers_of_parts(14, "pp=2,v=2", 2), [3, 4, 4, 3]);
        assert_eq!(layers_of_parts(14, "pp=2,v=2,ends=fewer", 2), [3, 4, 4, 3]);
        assert_eq!(layers_of_parts(15, "pp=4", 4), [4, 4, 4, 3]);
        assert_eq!(layers_of_parts(13, "pp=4", 4), [3, 4, 3, 3]);
        assert_eq!(layers_of_parts(21, "pp=8", 8), [2, 3, 3, 3, 3, 3, 2, 2]);
        // Only the embedding is in the first part, only the output in the last.
        let parts = layers_of_parts(126, "pp=16,v=8", 16);
        assert_eq!((parts[0], parts[127], parts.iter().sum::<u32>()), (0, 0, 126));
    }

    #[test]
    fn stages_hold_parts() {
        let shape = gpt("gpt", 64, 8, 24, 64, 1000);
        assert_eq!(plan("pp=4,v=3", 4, 8, &shape).stage_parts(1), [1, 5, 9]);
        assert_eq!(plan("pp=4,schedule=dualpipe", 4, 8, &shape).stage_parts(1), [1, 2]);
        assert_eq!(plan("pp=4,schedule=zb-h1", 4, 8, &shape).stage_parts(1), [1]);
    }

    proptest! {
        #[test]
        fn parts_differ_by_one_layer_at_most(pp in 1u32..20, v in 1u32..6, more in 0u32..100) {
            let v = if pp == 1 { 1 } else { v };
            let text = format!("pp={pp},v={v}");
            let parts = layers_of_parts(pp * v + more, &text, pp);
            let (least, most) = (parts.iter().min().unwrap(), parts.iter().max().unwrap());
            prop_assert!(most - least <= 1);
            // The last has the fewest, and from the middle to an end no more are added.
            prop_assert_eq!(parts.last().unwrap(), least);
            prop_assert_eq!(parts.len(), (pp * v) as usize);
        }
    }
}
