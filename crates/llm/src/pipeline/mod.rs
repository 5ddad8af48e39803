//! In which order the stages of a pipeline work.

mod dual_pipe;
mod gpipe;
mod one_forward_one_backward;
mod zero_bubble;

use antiphon_base::error::{Code, Error, Result};
use antiphon_base::parameter::Choice;
use antiphon_jobs::graph::MAX_OPERATIONS;
use antiphon_jobs::workload::Pass;
use std::collections::VecDeque;

/// A rule for the order of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PipelineKind {
    /// All forward passes, then all backward passes (GPipe, arXiv 1811.06965).
    GPipe,
    /// One forward, one backward; interleaved where a stage holds several parts (arXiv 2104.04473).
    OneForwardOneBackward,
    /// Gradients of weights fill the end, with the memory of 1F1B (arXiv 2401.10241).
    ZeroBubbleH1,
    /// The same with up to twice the memory.
    ZeroBubbleH2,
    /// Micro batches from both ends (DeepSeek-V3, arXiv 2412.19437).
    DualPipe,
}

impl Choice for PipelineKind {
    const WHAT: &'static str = "pipeline schedule";
    const ALL: &'static [(&'static str, Self)] = &[
        ("gpipe", PipelineKind::GPipe),
        ("1f1b", PipelineKind::OneForwardOneBackward),
        ("zb-h1", PipelineKind::ZeroBubbleH1),
        ("zb-h2", PipelineKind::ZeroBubbleH2),
        ("dualpipe", PipelineKind::DualPipe),
    ];
}

/// One pass of a micro batch through a part of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PipelineTask {
    /// Which pass. A backward pass that is not divided is two tasks in a row.
    pub pass: Pass,
    /// Which of the stage's parts.
    pub chunk: u32,
    /// Which micro batch.
    pub micro_batch: u32,
    /// Of a forward pass: whether it and the next backward pass, with its gradient of the weights, are one unit, whose
    /// exchanges run behind each other's computation (DualPipe). A unit starts when both have their input, and both
    /// pass on what they computed at its end.
    pub paired: bool,
    /// Of a backward pass: whether the gradient of the input is passed on before that of the weights is computed;
    /// otherwise after.
    pub divided: bool,
}

/// The order in which each stage of a pipeline does its tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PipelineOrder {
    kind: PipelineKind,
    stages: u32,
    chunks: u32,
    micro_batches: u32,
}

impl PipelineOrder {
    /// The order of `micro_batches` micro batches on `stages` stages with `chunks` parts of the model each; of DualPipe
    /// `chunks` is 1, for the copy of the model that starts at either end.
    ///
    /// # Errors
    /// [`Code::BadSize`] for a count of 0, [`Code::TooLarge`] for more tasks than a job graph holds,
    /// [`Code::NotApplicable`] for what the kind of order cannot do.
    pub fn new(kind: PipelineKind, stages: u32, chunks: u32, micro_batches: u32) -> Result<Self> {
        if stages == 0 || chunks == 0 || micro_batches == 0 {
            let what = "a pipeline has at least one stage, one part a stage and one micro batch";
            return Err(Error::new(Code::BadSize, what));
        }
        let tasks = [stages, chunks, micro_batches].iter().fold(3u64, |product, &n| product.saturating_mul(n.into()));
        if tasks > MAX_OPERATIONS as u64 {
            let what = format!(
                "{stages} stages of {chunks} parts and {micro_batches} micro batches are more than {MAX_OPERATIONS} \
                 tasks; give larger micro batches"
            );
            return Err(Error::new(Code::TooLarge, what));
        }
        let name = kind.name();
        if kind != PipelineKind::OneForwardOneBackward && chunks > 1 {
            let what = format!("{name} has no order for {chunks} parts a stage; give one part or 1f1b");
            return Err(Error::new(Code::NotApplicable, what));
        }
        let fits = stages.is_multiple_of(2) && micro_batches.is_multiple_of(2) && micro_batches / 2 >= stages;
        if kind == PipelineKind::DualPipe && !fits {
            let what = format!(
                "{name} needs an even number of stages, not {stages}, and an even number of micro batches, at least \
                 two a stage, not {micro_batches}; give others or 1f1b"
            );
            return Err(Error::new(Code::NotApplicable, what));
        }
        Ok(PipelineOrder { kind, stages, chunks, micro_batches })
    }

    /// Parts into which the model is divided.
    pub fn parts(&self) -> u32 {
        self.stages * self.chunks
    }

    /// Which part of the model a chunk of a stage is. Stages of DualPipe have two chunks: the second is of the copy
    /// that starts at the last stage.
    pub fn part(&self, stage: u32, chunk: u32) -> u32 {
        match self.kind {
            PipelineKind::DualPipe if chunk == 1 => self.stages - 1 - stage,
            _ => chunk * self.stages + stage,
        }
    }

    /// Stage and chunk that do a part for a micro batch. The second half of DualPipe's micro batches starts at the last
    /// stage.
    pub fn home(&self, part: u32, micro_batch: u32) -> (u32, u32) {
        match self.kind {
            PipelineKind::DualPipe if micro_batch >= self.micro_batches / 2 => (self.stages - 1 - part, 1),
            _ => (part % self.stages, part / self.stages),
        }
    }

    /// The part whose output (forward) or gradient of the input (backward) a pass of a part needs from another task of
    /// the same micro batch; `None` for the ends of the model and for gradients of weights. What the pass needs of its
    /// own part comes before it in [`PipelineOrder::tasks`].
    pub fn source(&self, pass: Pass, part: u32) -> Option<u32> {
        match pass {
            Pass::Forward => part.checked_sub(1),
            Pass::InputGradient => Some(part + 1).filter(|&next| next < self.parts()),
            Pass::WeightGradient => None,
        }
    }

    /// Tasks of a stage in the order in which it does them. O(tasks).
    pub fn tasks(&self, stage: u32) -> Vec<PipelineTask> {
        match self.kind {
            PipelineKind::GPipe => gpipe::tasks(self.micro_batches),
            PipelineKind::OneForwardOneBackward => one_forward_one_backward::tasks(self, stage),
            PipelineKind::ZeroBubbleH1 => zero_bubble::h1(self, stage),
            PipelineKind::ZeroBubbleH2 => zero_bubble::h2(self, stage),
            PipelineKind::DualPipe => dual_pipe::tasks(self, stage),
        }
    }

    /// The most pairs of chunk and micro batch whose activations a stage holds at once, by its order: a forward pass
    /// takes them, the gradient of the weights gives them back. O(tasks).
    pub fn in_flight(&self, stage: u32) -> u32 {
        let held = self.tasks(stage).into_iter().scan(0u32, |held, task| {
            match task.pass {
                Pass::Forward => *held += 1,
                Pass::InputGradient => {}
                Pass::WeightGradient => *held -= 1,
            }
            Some(*held)
        });
        held.max().unwrap_or(0)
    }
}

/// The tasks of a stage while they are put in order.
struct TaskList {
    tasks: Vec<PipelineTask>,
    /// Chunks and micro batches whose gradients of the weights were put off, in this order.
    put_off: VecDeque<(u32, u32)>,
}

impl TaskList {
    /// An empty list with space for so many pairs of chunk and micro batch.
    fn new(pairs: u32) -> Self {
        TaskList { tasks: Vec::with_capacity(3 * pairs as usize), put_off: VecDeque::new() }
    }

    fn push(&mut self, pass: Pass, (chunk, micro_batch): (u32, u32), divided: bool) {
        self.tasks.push(PipelineTask { pass, chunk, micro_batch, paired: false, divided });
    }

    fn forward(&mut self, chunk: u32, micro_batch: u32) {
        self.push(Pass::Forward, (chunk, micro_batch), false);
    }

    /// A forward pass that is one unit with the next backward pass.
    fn paired_forward(&mut self, chunk: u32, micro_batch: u32) {
        self.tasks.push(PipelineTask { pass: Pass::Forward, chunk, micro_batch, paired: true, divided: false });
    }

    /// A whole backward pass.
    fn backward(&mut self, chunk: u32, micro_batch: u32) {
        self.push(Pass::InputGradient, (chunk, micro_batch), false);
        self.push(Pass::WeightGradient, (chunk, micro_batch), false);
    }

    /// A backward pass whose gradient of the weights is put off.
    fn divided_backward(&mut self, chunk: u32, micro_batch: u32) {
        self.push(Pass::InputGradient, (chunk, micro_batch), true);
        self.put_off.push_back((chunk, micro_batch));
    }

    /// The gradient of the weights that was put off first, if any.
    fn weights(&mut self) {
        if let Some(pair) = self.put_off.pop_front() {
            self.push(Pass::WeightGradient, pair, true);
        }
    }
}

#[cfg(test)]
mod tests;
