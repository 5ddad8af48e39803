//! A part of the model as blocks of equal layers: what each computes and exchanges, and its parameters.

use super::pieces::{LayerCosts, LayerPiece, times};
use crate::constants::Constants;
use crate::memory::{RankParameters, end_parameters};
use crate::parallel::Parallelism;
use crate::shape::ModelShape;
use std::ops::Range;

/// Layers of one kind in a row, which are computed and exchanged as one.
#[derive(Default)]
pub(super) struct LayerBlock {
    pub forward: Vec<Paced>,
    pub backward: Vec<Paced>,
    pub input_gradients: Vec<Paced>,
    pub weights: Vec<Paced>,
    /// Dense parameters and expert parameters of a rank.
    pub parameters: [f64; 2],
}

/// A piece, and how many times as long it computes while an exchange of the stage is under way.
pub(super) type Paced = (LayerPiece, f64);

/// Parameters of embedding, output and last norm in the first and in the last block of a part.
pub(super) fn end_blocks(model: &ModelShape, plan: &Parallelism, [first, last]: [bool; 2]) -> [f64; 2] {
    let in_first = end_parameters(model, plan, first, false);
    [in_first, end_parameters(model, plan, first, last) - in_first]
}

/// Layers of a part as blocks of at most `at_once` layers of one kind.
pub(super) fn blocks_of(
    (model, plan, constants, beside): (&ModelShape, &Parallelism, &Constants, &Constants),
    layers: Range<u32>,
    ends: [bool; 2],
    at_once: u32,
) -> Vec<LayerBlock> {
    let kind = |layer: u32| model.experts.is_some_and(|of| layer >= of.dense_layers);
    let mut blocks = Vec::new();
    let mut start = layers.start;
    while start < layers.end {
        let same = (start..layers.end).take_while(|&layer| kind(layer) == kind(start)).count() as u32;
        let end = start + same.min(at_once);
        let [costs, beside] = [constants, beside].map(|constants| LayerCosts::new(constants, model, start, plan));
        let count = f64::from(end - start);
        let paced = |pieces: Vec<LayerPiece>, beside: Vec<LayerPiece>| -> Vec<Paced> {
            let slower = |(piece, other): (LayerPiece, LayerPiece)| (piece, piece.slower(other));
            times(&pieces, count).into_iter().zip(times(&beside, count)).map(slower).collect()
        };
        blocks.push(LayerBlock {
            forward: paced(costs.forward(), beside.forward()),
            backward: paced(costs.backward(true), beside.backward(true)),
            input_gradients: paced(costs.backward(false), beside.backward(false)),
            weights: paced(costs.weights(), beside.weights()),
            parameters: RankParameters::of_layer(model, plan, start).both().map(|each| each * count),
        });
        start = end;
    }
    if blocks.is_empty() {
        // The embedding or the logits alone.
        blocks.push(LayerBlock::default());
    }
    let [in_first, in_last] = end_blocks(model, plan, ends);
    blocks[0].parameters[0] += in_first;
    if let Some(block) = blocks.last_mut() {
        block.parameters[0] += in_last;
    }
    blocks
}
