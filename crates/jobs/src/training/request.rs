//! What users may say about an iteration, and the iteration that it describes.

use super::slow::{ONE, SlowRanks};
use super::{Bucket, Cost, IterationGraph, IterationPolicy, Overlap, Sizes, unfold};
use crate::compute::{self, Contention};
use crate::graph::{JobGraph, OperationKind};
use crate::workload::{Passes, Workload};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::parameter::{Choice, Domain, request};
use antiphon_base::units::{Millionths, Picos};
use antiphon_model::system::{Endpoint, Processor};
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
        /// Ranks that take more times as long to compute: `0,1:1.04`, `0-3:1.02,7:1.1`.
        #[input(Domain::Unless("no rank does", &SlowRanks::DOMAIN), "The others wait for them.")]
        pub slow: Option<SlowRanks> = None,
    }
}

/// Times of the passes over every layer, alone and beside an exchange.
type PaceTimes = (Vec<Passes<Picos>>, Vec<Passes<Picos>>);

/// How slowly a rank computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pace {
    /// Millionths of its processors that it passes on with.
    relayed: u64,
    /// How many times as long it takes.
    factor: Millionths,
}

/// An iteration before the times of its exchanges are known.
pub struct PlannedIteration {
    /// The layers, as each rank has them.
    pub workload: Workload,
    /// What each costs.
    pub costs: Vec<Cost>,
    /// What is computed and exchanged, by a rank that takes as long for every layer as the slowest.
    pub graph: IterationGraph,
    /// How many times as long the layers take a rank beside an exchange as one that relays nothing and is not slow; for every
    /// rank that was named.
    pub slowdowns: Vec<f64>,
    /// The same ranks.
    paces: Vec<Pace>,
    /// By what a rank relays, times of one that is not slow; and that of its aggregation.
    times: BTreeMap<u64, PaceTimes>,
    aggregation: Picos,
}

impl PlannedIteration {
    /// What each of `ranks` ranks does, each at its own pace, of layers that are divided over `divided` neighbours.
    ///
    /// # Errors
    /// As [`unfold`].
    pub fn unfold(&self, ranks: u32, divided: u32) -> Result<JobGraph> {
        let names: Vec<&str> = self.workload.layers.iter().map(|layer| layer.name.as_str()).collect();
        let mut graph = unfold(&self.graph, &names, ranks, divided)?;
        for (rank, pace) in graph.ranks.iter_mut().zip(&self.paces) {
            let (alone, beside) = &self.times[&pace.relayed];
            for (number, operation) in rank.operations.iter_mut().enumerate() {
                let OperationKind::Compute { time_ps, beside_ps, .. } = &mut operation.kind else { continue };
                (*time_ps, *beside_ps) = match self.graph.labels.get(number) {
                    Some(label) => (alone[label.layers.0][label.pass], beside[label.layers.0][label.pass]),
                    None => (self.aggregation, self.aggregation),
                };
                (*time_ps, *beside_ps) = (longer(*time_ps, pace.factor), longer(*beside_ps, pace.factor));
            }
        }
        Ok(graph)
    }
}

/// A time of a rank that takes so many times as long, saturating.
fn longer(time: Picos, factor: Millionths) -> Picos {
    let picos = (u128::from(time) * u128::from(factor)).div_ceil(u128::from(ONE));
    Picos::try_from(picos).unwrap_or(Picos::MAX)
}

fn total(times: &[Passes<Picos>]) -> u128 {
    times.iter().flat_map(|passes| passes.0).map(u128::from).sum()
}

impl IterationRequest {
    /// The iteration of a workload: `batch` samples on each rank, or on those that share a model. `relays` has the millionths of
    /// its processors that every rank passes on with; without, none does, and `slow` names no rank. Where no rank is the slowest
    /// in every layer, an iteration is no longer than what is planned.
    ///
    /// # Errors
    /// [`Code::NotApplicable`] for what changes nothing, and for a layer that the compute model cannot time;
    /// [`Code::BadSpec`] for slow ranks that do not exist; [`Code::TooLarge`].
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
        let alone = compute::layer_times(&workload, processor, batch)?;
        let times_of = |relayed: u64| -> Result<PaceTimes> {
            let by: &dyn Display = if relayed > 0 {
                &"what a rank passes on (relay_processors)"
            } else {
                &format!("endpoint {}", endpoint.spec())
            };
            let left = endpoint.left().without_processors(relayed);
            // What runs when nothing is computed takes nothing from computation.
            let beside = match self.overlap {
                Overlap::None => alone.clone(),
                _ => compute::times_beside(&workload, processor, batch, &alone, (left, by), self.memory_bound)?,
            };
            Ok((if self.contention == Contention::Static { beside.clone() } else { alone.clone() }, beside))
        };
        let factors = match &self.slow {
            Some(slow) => slow.factors(relays.len())?,
            None => vec![ONE; relays.len()],
        };
        let pace = |(&relayed, factor)| Pace { relayed, factor };
        let paces: Vec<Pace> = relays.iter().zip(factors).map(pace).collect();
        // The slowest of those that relay as much; of all there are, one that relays nothing and is not slow.
        let mut times = BTreeMap::from([(0, times_of(0)?)]);
        let mut slowest: BTreeMap<u64, Millionths> = BTreeMap::new();
        for &Pace { relayed, factor } in &paces {
            let most = slowest.entry(relayed).or_insert(factor);
            *most = factor.max(*most);
            if let Entry::Vacant(new) = times.entry(relayed) {
                new.insert(times_of(relayed)?);
            }
        }
        if slowest.is_empty() {
            slowest.insert(0, ONE);
        }
        let aggregation = compute::aggregation(workload.params(), processor);
        let longest = longer(aggregation, slowest.values().copied().max().unwrap_or(ONE));
        let of_all = |part: fn(&PaceTimes) -> &Vec<Passes<Picos>>| -> Result<Vec<Passes<Picos>>> {
            let mut most = vec![Passes::default(); workload.layers.len()];
            for (relayed, &factor) in &slowest {
                for (most, passes) in most.iter_mut().zip(part(&times[relayed])) {
                    for (most, &time) in most.0.iter_mut().zip(&passes.0) {
                        *most = longer(time, factor).max(*most);
                    }
                }
            }
            let is_short = total(&most) + u128::from(longest) <= u128::from(compute::MAX_TIME);
            if is_short { Ok(most) } else { Err(compute::too_long(&workload)) }
        };
        let (most, beside) = (of_all(|times| &times.0)?, of_all(|times| &times.1)?);
        let takes = |relayed: u64| total(&times[&relayed].1).max(1) as f64;
        let slowdown = |pace: &Pace| takes(pace.relayed) / takes(0) * (f64::from(pace.factor) / f64::from(ONE));
        let slowdowns = paces.iter().map(slowdown).collect();
        let sizes = Sizes {
            gradient_bytes: self.gradient_bytes.into(),
            activation_bytes: self.activation_bytes.into(),
            divided_batch: if ranks > 1 { batch } else { 0 },
        };
        let costs = Cost::of(&workload, &most, &beside, sizes)?;
        let IterationRequest { overlap, bucket, recompute, blocking, .. } = *self;
        let policy = IterationPolicy { overlap, bucket, recompute, blocking };
        let graph = IterationGraph::new(&costs, policy, longest, self.unroll)
            .map_err(|error| error.at(format_args!("workload {}", workload.name)))?;
        let aggregation = aggregation * Picos::from(self.unroll);
        Ok(PlannedIteration { workload, costs, graph, slowdowns, paces, times, aggregation })
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
    use crate::graph::Resource;

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
        // A rank that is slow at all times; and none that is slowest in all: each layer as on the slowest.
        let slow = |ranks: &str, overlap, relays: &[u64]| {
            let slow = Some(SlowRanks::parse(ranks).unwrap());
            let request = IterationRequest { overlap, slow, ..IterationRequest::default() };
            request.plan(&workload, &processor, 1, &Endpoint::System, relays)
        };
        for overlap in [behind, Overlap::None] {
            let planned = slow("1:1.5", overlap, &[0, 0]).unwrap();
            assert_eq!((planned.costs[0].times.0[0], planned.costs[0].beside.0[0]), (1_500_000, 1_500_000));
            assert_eq!(planned.slowdowns, [1.0, 1.5]);
        }
        let planned = slow("1:1.02", behind, &[25_000, 0]).unwrap();
        assert_eq!((planned.costs[0].times.0[0], planned.costs[0].beside.0[0]), (1_020_000, 1_025_642));
        assert_eq!(planned.slowdowns[1], 1.02);
        // Each rank at its own pace.
        let graph = planned.unfold(3, 1).unwrap();
        let first = |rank: usize| graph.ranks[rank].operations[0].kind;
        let times = [(1_000_000, 1_025_642), (1_020_000, 1_020_000)];
        for (rank, (time_ps, beside_ps)) in times.into_iter().enumerate() {
            assert_eq!(first(rank), OperationKind::Compute { time_ps, beside_ps, resource: Resource::Stream(0) });
        }
        let large = Workload::from_csv("x.csv", &table.replace("500000", "1125899906842624")).unwrap();
        let request =
            IterationRequest { slow: Some(SlowRanks::parse("0:1000").unwrap()), ..IterationRequest::default() };
        let too_long = request.plan(&large, &processor, 1, &Endpoint::System, &[0]).err().unwrap();
        assert_eq!(too_long.code, Code::TooLarge);
        assert!(slow("2:1.5", behind, &[0, 0]).err().unwrap().message.contains("rank 2 does not exist"));
        // Nothing is computed beside what is exchanged.
        let apart = plan(Overlap::None, dynamic, &[25_000]).unwrap();
        assert_eq!((apart.costs[0].beside.0[0], apart.slowdowns[0]), (1_000_000, 1.0));
        let error = plan(behind, dynamic, &[0, 1_000_000]).err().unwrap();
        assert_eq!(error.code, Code::NotApplicable);
        let what = "what a rank passes on (relay_processors) leaves nothing to compute with; exchange after the backward pass only";
        assert_eq!(error.message, what);
    }
}
