//! When the links of a dimension send which step of a stage, message by message.
//!
//! All NPUs do the same, so one stands for all. A dimension sends, of the steps that are ready, that of the stage which the
//! stage-level run serves first. For a step of an earlier stage it waits if that loses less time than the earlier stage
//! would lose otherwise: across a short latency a stage goes on, a long one is filled by others.

use super::basic::{self, Sending};
use super::fabric::Expansion;
use super::layout::pieces;
use super::orders::{Basic, Stage};
use super::stage_loop::{RailsTimes, StageSpan};
use crate::cost::CostModel;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Picos;
use antiphon_model::fabric::{Dimension, DimensionShape};
use antiphon_model::schedule::Op;
use antiphon_model::system::System;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::rc::Rc;

/// One step of a stage of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StepMoment {
    /// Number of the stage among all, by start.
    pub turn: u32,
    pub step: u32,
    pub chunk: u32,
    pub stage: u32,
}

/// The messages of stages, and what they take.
pub(super) struct Steps<'a> {
    expansion: &'a Expansion,
    /// Whose packets are sent; without one, what a stage says.
    system: Option<&'a System>,
    slices: u32,
    /// By dimension and what is done there.
    messages: HashMap<(u8, Basic), Rc<Vec<Sending>>>,
}

/// A stage of a chunk in its turn.
struct StageTurn {
    number: u32,
    stage: u32,
    dimension: usize,
    /// For every step, how long its dimension is busy, and from its end until what it brings can be used.
    steps: Vec<(Picos, Picos)>,
    /// Whether a step passes on what the one before has brought.
    passes_on: bool,
}

impl<'a> Steps<'a> {
    pub fn new(expansion: &'a Expansion, system: Option<&'a System>, slices: u32) -> Self {
        Steps { expansion, system, slices, messages: HashMap::new() }
    }

    /// The messages of a stage in one group, by step.
    pub fn messages(&mut self, stage: &Stage) -> Rc<Vec<Sending>> {
        let dimension = self.dimension(stage);
        let pieces = pieces(self.expansion);
        let make = || Rc::new(basic::messages(dimension.shape, dimension.size as u32, stage.basic, pieces));
        self.messages.entry((stage.dimension, stage.basic)).or_insert_with(make).clone()
    }

    fn dimension(&self, stage: &Stage) -> &'a Dimension {
        &self.expansion.topology.dimensions[usize::from(stage.dimension)]
    }

    /// All steps of all stages that `run` serves, in the order in which they are sent, and when the last has come.
    /// O(steps * log chunks).
    ///
    /// # Errors
    /// [`Code::BadSpec`] if the run serves what is no stage.
    pub fn in_order(&mut self, stages: &[Vec<Stage>], run: &RailsTimes) -> Result<(Vec<StepMoment>, Picos)> {
        let mut chains = self.chains(stages, run)?;
        let dimensions = self.expansion.topology.dimensions.len();
        // By dimension: steps that are ready, by turn, and until when it is busy. And steps that are ready later.
        let mut waiting: Vec<BinaryHeap<Reverse<(u32, u32, u32)>>> = vec![BinaryHeap::new(); dimensions];
        let mut free = vec![0; dimensions];
        let mut coming = BTreeSet::new();
        for (chunk, chain) in (0..).zip(&chains) {
            coming.extend(chain.front().map(|turn| (0, turn.number, 0, chunk)));
        }
        let (mut moments, mut now, mut end) = (vec![], 0, 0);
        loop {
            let can_send = (0..dimensions).filter(|&dimension| !waiting[dimension].is_empty());
            let next = can_send.map(|dimension| (now.max(free[dimension]), dimension)).min();
            if let Some(&(at, turn, step, chunk)) = coming.first()
                && next.is_none_or(|(start, _)| at <= start)
            {
                coming.pop_first();
                now = at;
                waiting[chains[chunk as usize][0].dimension].push(Reverse((turn, step, chunk)));
                continue;
            }
            let Some((start, dimension)) = next else { return Ok((moments, end)) };
            let Some(Reverse((number, step, chunk))) = waiting[dimension].pop() else { continue };
            now = start;
            let (busy, until_used) = chains[chunk as usize][0].steps[step as usize];
            // Later than in the middle, it would wait longer than the other.
            let mut soon = coming.range(..(start + busy / 2, 0, 0, 0));
            let is_earlier = |&&(_, turn, _, of): &&(Picos, u32, u32, u32)| {
                turn < number && chains[of as usize][0].dimension == dimension
            };
            if let Some(&(at, ..)) = soon.find(is_earlier) {
                free[dimension] = at;
                waiting[dimension].push(Reverse((number, step, chunk)));
                continue;
            }
            let chain = &mut chains[chunk as usize];
            let turn = &chain[0];
            moments.push(StepMoment { turn: number, step, chunk, stage: turn.stage });
            free[dimension] = start + busy;
            let ready = match turn.steps.get(step as usize + 1) {
                Some(_) if !turn.passes_on => start + busy,
                // Its first slice follows that of this step, and its last one that: it is sent without a gap.
                Some((next, _)) => {
                    let slice = |busy: Picos| busy / Picos::from(self.slices);
                    (start + slice(busy)).max((start + busy + slice(*next)).saturating_sub(*next)) + until_used
                }
                None => {
                    let done = start + busy + until_used;
                    end = end.max(done);
                    chain.pop_front();
                    coming.extend(chain.front().map(|turn| (done, turn.number, 0, chunk)));
                    continue;
                }
            };
            coming.insert((ready, number, step + 1, chunk));
        }
    }

    /// For every chunk its stages, in the order in which `run` serves them.
    fn chains(&mut self, stages: &[Vec<Stage>], run: &RailsTimes) -> Result<Vec<VecDeque<StageTurn>>> {
        let mut served: Vec<_> = run.spans.iter().flatten().collect();
        served.sort_by_key(|span| span.start_ps);
        let mut chains: Vec<VecDeque<StageTurn>> = stages.iter().map(|_| VecDeque::new()).collect();
        for (number, span) in (0..).zip(served) {
            let StageSpan { chunk, stage: index, .. } = *span;
            let Some(stage) = stages.get(chunk as usize).and_then(|stages| stages.get(index as usize)) else {
                let what = format!("the run serves stage {index} of chunk {chunk}, which the plan does not have");
                return Err(Error::new(Code::BadSpec, what));
            };
            let shape = self.dimension(stage).shape;
            chains[chunk as usize].push_back(StageTurn {
                number,
                stage: index,
                dimension: stage.dimension.into(),
                steps: self.times(stage),
                passes_on: (shape, stage.basic) != (DimensionShape::Switch, Basic::Exchange),
            });
        }
        Ok(chains)
    }

    /// What every step of a stage takes.
    fn times(&mut self, stage: &Stage) -> Vec<(Picos, Picos)> {
        let messages = self.messages(stage);
        let dimension = self.dimension(stage);
        let blocks = |message: &Sending| (message.blocks.len() * message.pieces.len()) as u128;
        let all: u128 = messages.iter().map(blocks).sum();
        // Of a block, in parts of a byte and of a slice.
        let whole = u128::from(stage.size) / (u128::from(dimension.size) * u128::from(pieces(self.expansion))).max(1);
        let (whole, byte) = (whole.max(1), 4096 * u128::from(self.slices));
        let of_message = |message: &Sending| -> (u128, u128) {
            let Some(system) = self.system else { return (blocks(message), 0) };
            let bytes = (whole * blocks(message)).div_ceil(byte).max(1);
            let costs = CostModel::in_packets(system);
            let packets = costs.message(bytes as u64, Op::Copy).packets;
            let packet = u128::from(packets.flits * system.packet.flit_bytes);
            // A switch passes on whole packets.
            let is_stored = dimension.shape == DimensionShape::Switch && costs.transit().is_stored();
            let in_blocks = |bytes: u128| bytes * byte / whole;
            (in_blocks(packet * u128::from(packets.count)), if is_stored { in_blocks(packet) } else { 0 })
        };
        let time = |blocks: u128| (u128::from(stage.busy_ps) * blocks / all.max(1)) as Picos;
        let of_step = |step: &[Sending]| {
            let sent = step.iter().map(of_message);
            let (busy, stored) = sent.fold((0, 0), |(busy, stored), (own, packet)| (busy + own, stored.max(packet)));
            // All NPUs of the group send at once.
            let each = dimension.size as u128;
            (time(busy), dimension.npu_latency() + time(stored * each))
        };
        messages.chunk_by(|one, next| one.step == next.step).map(of_step).collect()
    }
}
