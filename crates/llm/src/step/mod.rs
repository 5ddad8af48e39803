//! A training step: its job graph, how long it takes, and where the time goes.

mod blocks;
mod bound;
pub(crate) mod exchanges;
pub(crate) mod graph;
pub(crate) mod pieces;
pub(crate) mod times;

pub(crate) use bound::{FlowTimes, StepBound, StepParts};
pub use exchanges::{CollectiveTimes, StepExchange, TimedBy};
pub use graph::{StepJob, StepWork};
pub use times::{StageTimes, StepTimes, TimelineSpan};

use crate::constants::Constants;
use crate::memory::{Memory, memory};
use crate::network::{SharedLinks, Wiring};
use crate::parallel::Parallelism;
use crate::pipeline::PipelineOrder;
use crate::shape::ModelShape;
use antiphon_base::error::{Code, Error, Result};
use antiphon_jobs::graph::{MAX_COMPUTE, OperationKind};
use antiphon_jobs::timeline;
use antiphon_model::system::Endpoint;
use graph::StepBuilder;

/// Operations up to which every layer is simulated by itself; above, equal layers in a row are computed and exchanged at once.
pub const OPERATIONS: u64 = 300_000;
/// Operations above which a step is refused.
pub const MOST_OPERATIONS: u64 = 6_000_000;

/// A step that is to be timed.
pub struct TrainingStep<'a> {
    /// What is trained, on sequences of its length.
    pub model: &'a ModelShape,
    /// How it is divided.
    pub plan: &'a Parallelism,
    /// What computes.
    pub constants: &'a Constants,
    /// What stands between a rank's memory and its links: what it takes, computation lacks during exchanges.
    pub endpoint: Endpoint,
    /// Whether exchanges that computation waits for go before those of gradients and parameters; otherwise they share links
    /// fairly.
    pub prioritized: bool,
    /// How many times as long each stage computes as it should; empty if none is slow.
    pub slower: Vec<f64>,
    /// Equal layers that are simulated at once; derived from [`OPERATIONS`] if not given.
    pub layers_at_once: Option<u32>,
    /// Times of collectives that replace those of rings.
    pub tables: &'a [CollectiveTimes],
}

impl TrainingStep<'_> {
    /// Times the step on a network. O(operations log operations): micro batches x layers x about six for each stage.
    ///
    /// # Errors
    /// [`Code::TooLarge`] for too many operations; those of the plan's order, routes and time line.
    pub fn simulate(&self, wiring: &dyn Wiring) -> Result<StepTimes> {
        let layers_at_once = self.layers_at_once.unwrap_or_else(|| self.layers_within(OPERATIONS));
        let built = self.build(wiring, layers_at_once)?;
        let mut links = SharedLinks::new(&built.flows, &built.graph, &built.carried, self.prioritized);
        let line = timeline::run(&built.graph, &mut links)?;
        let mut times = StepTimes::new(&built, &line, links.used(), layers_at_once);
        times.exchanges = exchanges::step_exchanges(self.parts(wiring), &built);
        Ok(times)
    }

    /// What the step exchanges, without timing it. O(operations).
    ///
    /// # Errors
    /// As [`TrainingStep::simulate`].
    pub fn exchanges(&self, wiring: &dyn Wiring) -> Result<Vec<StepExchange>> {
        let layers_at_once = self.layers_at_once.unwrap_or_else(|| self.layers_within(OPERATIONS));
        let built = self.build(wiring, layers_at_once)?;
        Ok(exchanges::step_exchanges(self.parts(wiring), &built))
    }

    fn parts<'s>(&'s self, wiring: &'s dyn Wiring) -> StepParts<'s> {
        StepParts { model: self.model, plan: self.plan, constants: self.constants, wiring, tables: self.tables }
    }

    fn build(&self, wiring: &dyn Wiring, layers_at_once: u32) -> Result<StepJob> {
        let plan = self.plan;
        let order = PipelineOrder::new(plan.schedule, plan.pipeline, plan.chunks, plan.micro_batches)?;
        if self.operations(layers_at_once) > MOST_OPERATIONS {
            let what = format!(
                "a step of {} micro batches through {} parts is more than {MOST_OPERATIONS} operations; use larger micro \
                 batches (mb=) or fewer parts (pp=, v=)",
                plan.micro_batches,
                order.parts()
            );
            return Err(Error::new(Code::TooLarge, what));
        }
        let left = self.endpoint.left();
        if left.memory.0 == 0 || left.processors.0 == 0 {
            let what = format!("endpoint {} leaves nothing to compute with", self.endpoint.spec());
            return Err(Error::new(Code::NotApplicable, what));
        }
        let stages = plan.pipeline as usize;
        let slower = if self.slower.is_empty() { vec![1.0; stages] } else { self.slower.clone() };
        let built = StepBuilder::new(self.parts(wiring), &order, (&slower, &self.endpoint), layers_at_once).build()?;
        let computed = built.graph.operations().fold(0u64, |sum, operation| match operation.kind {
            OperationKind::Compute { time_ps, beside_ps, .. } => sum.saturating_add(time_ps.max(beside_ps)),
            _ => sum,
        });
        if computed > MAX_COMPUTE {
            let what =
                "all stages compute for more than 26 days together; check the sequence, the batch and the constants";
            return Err(Error::new(Code::TooLarge, what));
        }
        Ok(built)
    }

    /// The same with as many equal layers at once as keep the job graph at about so many operations.
    pub(crate) fn within(self, operations: u64) -> Self {
        TrainingStep { layers_at_once: Some(self.layers_within(operations)), ..self }
    }

    /// About how many operations the job graph has.
    pub(crate) fn operations(&self, layers_at_once: u32) -> u64 {
        let micro_batches = u64::from(self.plan.micro_batches);
        let layers = u64::from(self.model.layers) / u64::from(layers_at_once);
        (6 * micro_batches).saturating_mul(u64::from(self.plan.parts()) + 2 * layers)
    }

    /// How many equal layers are simulated at once for about so many operations.
    fn layers_within(&self, operations: u64) -> u32 {
        let of_layers = 12 * u64::from(self.plan.micro_batches) * u64::from(self.model.layers);
        let of_parts = 6 * u64::from(self.plan.micro_batches) * u64::from(self.plan.parts());
        let at_once = of_layers / operations.saturating_sub(of_parts).max(1) + 1;
        at_once.min(self.model.layers.into()) as u32
    }

    /// Bytes of every stage.
    pub fn memory(&self) -> Vec<Memory> {
        (0..self.plan.pipeline).map(|stage| memory(self.model, self.plan, stage)).collect()
    }
}

#[cfg(test)]
mod tests;
