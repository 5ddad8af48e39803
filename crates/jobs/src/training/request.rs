//! What users may say about an iteration, and the iteration that it describes.

use super::{Bucket, Cost, IterationGraph, IterationPolicy, Overlap, Sizes};
use crate::compute::{self, Contention};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::parameter::{Choice, Domain, request};
use antiphon_model::system::{Endpoint, Processor};
use antiphon_model::workload::Workload;

request! {
    /// How an iteration is computed and exchanged.
    pub struct IterationRequest {
        /// What of the exchange of gradients runs behind computation.
        #[input(Domain::Choice(Overlap::NAMES), "`none`: one AllReduce after the backward pass; `layerwise`: one for \
            each bucket of layers, as soon as its gradients are there; `ccube`: one after the backward pass, behind whose \
            later chunks the next forward pass runs, layer by layer; `both`: that behind buckets, of which those of early \
            layers go before others that wait.")]
        pub overlap: Overlap = Overlap::None,
        /// Layers whose gradients are reduced together: `table` (the table's buckets), `layer`, or a size to reach.
        #[input(Domain::Spec { form: "table, layer or a size", check: |text| Bucket::parse(text).map(drop) })]
        pub bucket: Bucket = Bucket::Table,
        /// Bytes of one gradient.
        #[input(Domain::count(1, 64, ""))]
        pub gradient_bytes: u32 = 4,
        /// Bytes of one element of a layer's input or output.
        #[input(Domain::count(1, 64, ""))]
        pub activation_bytes: u32 = 2,
        /// Ranks that every layer is divided over: ranks 0 to N - 1 hold one copy.
        #[input(Domain::count(1, u32::MAX as u64, ""), "A divisor of the ranks.")]
        pub model_parallel: u32 = 1,
        /// The backward pass computes each layer's forward pass again.
        #[input(Domain::Flag)]
        pub recompute: bool = false,
        /// A layer's weight gradient waits for the exchange of its input's gradient, as in ASTRA-sim.
        #[input(Domain::Flag, "Otherwise only the layer before does.")]
        pub blocking: bool = false,
        /// Iterations that follow each other; times are their means.
        #[input(Domain::count(1, 64, ""))]
        pub unroll: u32 = 1,
        /// When computation lacks what the endpoint takes: during exchanges (`dynamic`), or always (`static`).
        #[input(Domain::Choice(Contention::NAMES), "The same with endpoints that take nothing, `system` and `ideal`."; needs "endpoint")]
        pub contention: Contention = Contention::Dynamic,
        /// Share of measured times that memory bandwidth decides.
        #[input(
            Domain::Unless("not known", &Domain::share(1e3)),
            "It must be known where an endpoint takes some of that bandwidth.";
            needs "endpoint"
        )]
        pub memory_bound: Option<u32> = None,
    }
}

/// An iteration before the times of its exchanges are known.
pub struct PlannedIteration {
    /// The layers, as each rank has them.
    pub workload: Workload,
    /// What each costs.
    pub costs: Vec<Cost>,
    /// What is computed and exchanged.
    pub graph: IterationGraph,
}

impl IterationRequest {
    /// The iteration of a workload: `batch` samples on each rank, or on those that share a model.
    ///
    /// # Errors
    /// [`Code::NotApplicable`] for what changes nothing, and for a layer that the compute model cannot time;
    /// [`Code::TooLarge`].
    pub fn plan(
        &self,
        workload: &Workload,
        processor: &Processor,
        batch: u64,
        endpoint: &Endpoint,
    ) -> Result<PlannedIteration> {
        self.check(processor)?;
        let ranks = u64::from(self.model_parallel);
        let workload = if ranks > 1 { workload.divided(ranks)? } else { workload.clone() };
        let times = compute::layer_times(&workload, processor, batch)?;
        // What runs when nothing is computed takes nothing from computation.
        let beside = if self.overlap == Overlap::None {
            times.clone()
        } else {
            compute::times_beside(&workload, processor, batch, &times, endpoint, self.memory_bound)?
        };
        let times = if self.contention == Contention::Static { beside.clone() } else { times };
        let sizes = Sizes {
            gradient_bytes: self.gradient_bytes.into(),
            activation_bytes: self.activation_bytes.into(),
            divided_batch: if ranks > 1 { batch } else { 0 },
        };
        let costs = Cost::of(&workload, &times, &beside, sizes)?;
        let aggregation = compute::aggregation(workload.params(), processor);
        let IterationRequest { overlap, bucket, recompute, blocking, .. } = *self;
        let policy = IterationPolicy { overlap, bucket, recompute, blocking };
        let graph = IterationGraph::new(&costs, policy, aggregation, self.unroll)
            .map_err(|error| error.at(format_args!("workload {}", workload.name)))?;
        Ok(PlannedIteration { workload, costs, graph })
    }

    /// Refuses what changes nothing.
    fn check(&self, processor: &Processor) -> Result<()> {
        let refuse = |what: String| Err(Error::new(Code::NotApplicable, what));
        if self.bucket != Bucket::Table && !self.overlap.in_buckets() {
            let (bucket, overlap) = (self.bucket.spec(), self.overlap.name());
            let what = "reduces all layers together; use overlap layerwise or both";
            return Err(Error::new(Code::BadSpec, format!("bucket {bucket}: overlap {overlap} {what}")));
        }
        let share = self.memory_bound.map(|share| format!("memory_bound {}", f64::from(share) / 1e3));
        let fixed = (self.contention == Contention::Static).then(|| "contention static".to_string());
        if let (Some(given), Overlap::None) = (fixed.or(share.clone()), self.overlap) {
            let what = "with overlap none nothing is computed beside exchanges; use another overlap";
            return refuse(format!("{given}: {what}"));
        }
        match share {
            Some(share) if *processor != Processor::Measured => refuse(format!(
                "{share}: it is for measured times; what memory decides follows from compute {}",
                processor.name()
            )),
            _ => Ok(()),
        }
    }
}
