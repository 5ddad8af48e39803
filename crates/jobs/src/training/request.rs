//! What users may say about an iteration, and the iteration that it describes.

use super::{Bucket, Cost, IterationGraph, IterationPolicy, Overlap, Sizes};
use crate::compute::{self, Contention};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::parameter::{Choice, Domain, request};
use antiphon_base::units::Picos;
use antiphon_model::system::{Endpoint, Processor};
use antiphon_model::workload::{Passes, Workload};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Display;

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
    /// What is computed and exchanged, by the rank that computes slowest.
    pub graph: IterationGraph,
    /// How many times as long the layers take a rank beside an exchange, for what it relays; for every rank that was named.
    pub slowdowns: Vec<f64>,
}

impl IterationRequest {
    /// The iteration of a workload: `batch` samples on each rank, or on those that share a model. `relays` has the millionths of
    /// its processors that every rank passes on with; without, none does.
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
        relays: &[u64],
    ) -> Result<PlannedIteration> {
        self.check(processor)?;
        let ranks = u64::from(self.model_parallel);
        let workload = if ranks > 1 { workload.divided(ranks)? } else { workload.clone() };
        let times = compute::layer_times(&workload, processor, batch)?;
        let beside = |relayed: u64| {
            let by: &dyn Display = if relayed > 0 {
                &"what a rank passes on (relay_processors)"
            } else {
                &format!("endpoint {}", endpoint.spec())
            };
            let left = endpoint.left().without_processors(relayed);
            compute::times_beside(&workload, processor, batch, &times, (left, by), self.memory_bound)
        };
        let total = |times: &[Passes<Picos>]| times.iter().flat_map(|passes| passes.0).map(u128::from).sum::<u128>();
        let most = relays.iter().copied().max().unwrap_or(0);
        let mut slowdowns = BTreeMap::new();
        // What runs when nothing is computed takes nothing from computation.
        let beside = if self.overlap == Overlap::None {
            times.clone()
        } else {
            let unslowed = total(&beside(0)?).max(1) as f64;
            for &relayed in relays.iter().filter(|&&relayed| relayed > 0) {
                if let Entry::Vacant(new) = slowdowns.entry(relayed) {
                    new.insert(total(&beside(relayed)?) as f64 / unslowed);
                }
            }
            beside(most)?
        };
        let slowdowns = relays.iter().map(|relayed| slowdowns.get(relayed).copied().unwrap_or(1.0)).collect();
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
        Ok(PlannedIteration { workload, costs, graph, slowdowns })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Operations decide in a layer of 1 us, which a fortieth of the processors less make 1/39 longer.
    #[test]
    fn what_is_passed_on_slows_the_slowest_rank() {
        let table = "layer,params,macs,input_elements,output_elements\na,1000,500000,10,10\n";
        let workload = Workload::from_csv("x.csv", table).unwrap();
        let roofline = "roofline:tflops=1,efficiency=1,memory-efficiency=1,gb-per-s=1000";
        let processor = Processor::parse(roofline).unwrap();
        let plan = |overlap, contention, relays: &[u64]| {
            let request = IterationRequest { overlap, contention, ..IterationRequest::default() };
            request.plan(&workload, &processor, 1, &Endpoint::System, relays)
        };
        let (behind, dynamic) = (Overlap::Layerwise, Contention::Dynamic);
        let planned = plan(behind, dynamic, &[0, 12_500, 25_000, 0]).unwrap();
        let near = |slowdown: f64, left: f64| (slowdown * left - 1.0).abs() < 1e-5;
        assert!(near(planned.slowdowns[1], 0.9875) && near(planned.slowdowns[2], 0.975), "{:?}", planned.slowdowns);
        assert_eq!((planned.slowdowns[0], planned.slowdowns[3]), (1.0, 1.0));
        assert_eq!((planned.costs[0].times.0[0], planned.costs[0].beside.0[0]), (1_000_000, 1_025_642));
        let fixed = plan(behind, Contention::Static, &[25_000]).unwrap();
        assert_eq!(fixed.costs[0].times.0[0], 1_025_642);
        assert_eq!(plan(behind, dynamic, &[]).unwrap().costs, plan(behind, dynamic, &[0; 4]).unwrap().costs);
        // Nothing is computed beside what is exchanged.
        let apart = plan(Overlap::None, dynamic, &[25_000]).unwrap();
        assert_eq!((apart.costs[0].beside.0[0], apart.slowdowns[0]), (1_000_000, 1.0));
        let error = plan(behind, dynamic, &[0, 1_000_000]).err().unwrap();
        assert_eq!(error.code, Code::NotApplicable);
        let what = "what a rank passes on (relay_processors) leaves nothing to compute with; exchange after the backward pass only";
        assert_eq!(error.message, what);
    }
}
