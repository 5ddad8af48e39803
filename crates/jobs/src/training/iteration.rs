//! An iteration of data-parallel training as a graph of operations, by overlap policy.

use super::gradient_queue::GradientQueue;
use crate::graph::{ExchangeKind, JobExchange, JobGraph, OperationKind, RankGroup, Resource};
use crate::workload::{Demand, Exchange, Pass, Passes, Volume, Workload};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::parameter::{Choice, Domain, Stored, Value};
use antiphon_base::units::{Bytes, MAX_BYTES, Picos, clip, format_bytes, parse_bytes};
use antiphon_model::collective::{Collective, Kind};
use std::collections::BTreeMap;

/// How gradients' AllReduce overlaps with computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// One AllReduce of all gradients after the backward pass.
    None,
    /// One for each bucket of layers, as soon as its gradients are there.
    Layerwise,
    /// One AllReduce after the backward pass, behind which the next forward pass runs: a layer starts as soon
    /// as its gradients, and those of all layers before it, are complete (C-Cube paper, section IV).
    Chained,
    /// As [`Layerwise`](Overlap::Layerwise), buckets of early layers before others that wait, and the next forward
    /// pass runs behind them as in [`Chained`](Overlap::Chained). Priorities: P3 (Jayarajan et al., MLSys 2019) and
    /// ByteScheduler (Peng et al., SOSP 2019).
    Both,
}

impl Overlap {
    /// Whether gradients are reduced in buckets.
    pub fn in_buckets(self) -> bool {
        matches!(self, Overlap::Layerwise | Overlap::Both)
    }

    fn chains(self) -> bool {
        matches!(self, Overlap::Chained | Overlap::Both)
    }
}

impl Choice for Overlap {
    const WHAT: &'static str = "overlap policy";
    const ALL: &'static [(&'static str, Self)] = &[
        ("none", Overlap::None),
        ("layerwise", Overlap::Layerwise),
        ("ccube", Overlap::Chained),
        ("both", Overlap::Both),
    ];
}

/// Which layers' gradients are reduced together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bucket {
    /// Those with the same number in the workload's table; every layer alone where it has none.
    Table,
    /// Every layer alone.
    Layer,
    /// As many, from the last layer on, as it takes to reach a size.
    Bytes(Bytes),
}

impl Bucket {
    /// `table`, `layer` or a size.
    ///
    /// # Errors
    /// [`Code::BadSize`].
    pub fn parse(text: &str) -> Result<Bucket> {
        match text {
            "table" => Ok(Bucket::Table),
            "layer" => Ok(Bucket::Layer),
            _ => parse_bytes(text).map(Bucket::Bytes).map_err(|_| {
                Error::new(Code::BadSize, format!("'{}' is neither table, layer nor a size such as 25MB", clip(text)))
            }),
        }
    }

    /// As [`Bucket::parse`] reads it.
    pub fn spec(self) -> String {
        match self {
            Bucket::Table => "table".into(),
            Bucket::Layer => "layer".into(),
            Bucket::Bytes(bytes) => format_bytes(bytes),
        }
    }
}

impl Stored for Bucket {
    fn show(&self, _: &Domain) -> Value {
        Value::Text(self.spec())
    }

    fn read(value: &Value, _: &Domain) -> Bucket {
        Bucket::parse(value.text()).expect("values are checked")
    }
}

/// How an iteration is arranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IterationPolicy {
    /// How gradients' AllReduce overlaps with computation.
    pub overlap: Overlap,
    /// Which layers' gradients are reduced together.
    pub bucket: Bucket,
    /// Whether the backward pass computes each layer's forward pass again, and exchanges its outputs
    /// again, since they were not kept.
    pub recompute: bool,
    /// Whether a layer's weight gradient waits for the exchange of its input's gradient, as in ASTRA-sim; otherwise
    /// only the layer before does.
    pub blocking: bool,
}

impl IterationPolicy {
    /// A policy without recomputation, in which only the layer before waits for what is exchanged.
    pub fn new(overlap: Overlap, bucket: Bucket) -> Self {
        IterationPolicy { overlap, bucket, recompute: false, blocking: false }
    }
}

/// What is needed to know the sizes of exchanges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of one gradient.
    pub gradient_bytes: Bytes,
    /// Bytes of one element of a layer's input or output.
    pub activation_bytes: Bytes,
    /// Samples that ranks compute together where layers are divided over them; 0 where they are not.
    pub divided_batch: u64,
}

/// What one layer costs a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Time of each pass.
    pub times: Passes<Picos>,
    /// The same while something is exchanged, which takes a part of what computes.
    pub beside: Passes<Picos>,
    /// What must be exchanged after each pass; an AllReduce after the weight gradient goes in a bucket.
    pub exchanges: Passes<Option<Exchange>>,
    /// Number of the layer's bucket in the workload's table.
    pub bucket: Option<u32>,
    /// The later layer that needs its outputs (see [`crate::workload::Layer::consumer`]).
    pub consumer: Option<u32>,
    /// The stream that computes it (see [`crate::workload::Layer::stream`]).
    pub stream: u8,
}

impl Cost {
    /// A layer that takes as long beside exchanges, of which only gradients are exchanged.
    pub fn of_gradients(times: [Picos; 3], bytes: Bytes) -> Self {
        let gradients = (bytes > 0).then_some(Exchange { kind: Kind::AllReduce, bytes });
        let (times, exchanges) = (Passes(times), Passes([None, None, gradients]));
        Cost { times, beside: times, exchanges, bucket: None, consumer: None, stream: 0 }
    }

    /// Bytes of gradients that are reduced among all copies of the layer.
    pub fn gradient_bytes(&self) -> Bytes {
        match self.exchanges[Pass::WeightGradient] {
            Some(Exchange { kind: Kind::AllReduce, bytes }) => bytes,
            _ => 0,
        }
    }

    /// Costs of every layer: `times`, alone and `beside` exchanges, and exchanges that are the table's own or, where it has
    /// weights, the AllReduce of their gradients.
    ///
    /// # Errors
    /// [`Code::TooLarge`] if an exchange or all gradients pass 1 PiB.
    pub fn of(
        workload: &Workload,
        times: &[Passes<Picos>],
        beside: &[Passes<Picos>],
        sizes: Sizes,
    ) -> Result<Vec<Cost>> {
        let too_large =
            |what: &str| Err(Error::new(Code::TooLarge, format!("{}: {what} of more than 1 PiB", workload.name)));
        if u128::from(sizes.gradient_bytes) * u128::from(workload.params()) > u128::from(MAX_BYTES) {
            return too_large("gradients");
        }
        let element = u128::from(sizes.activation_bytes) * u128::from(sizes.divided_batch);
        let mut costs = Vec::with_capacity(workload.layers.len());
        for ((layer, &times), &beside) in workload.layers.iter().zip(times).zip(beside) {
            let mut exchanges = Passes::default();
            for pass in Pass::ALL {
                let Some(Demand { kind, volume }) = layer.demands[pass] else { continue };
                let bytes = match volume {
                    Volume::Bytes(bytes) => bytes,
                    Volume::Elements(elements) => match u64::try_from(u128::from(elements) * element) {
                        Ok(bytes) if bytes <= MAX_BYTES => bytes,
                        _ => return too_large("activations"),
                    },
                };
                exchanges.0[pass as usize] = (bytes > 0).then_some(Exchange { kind, bytes });
            }
            if layer.params > 0 {
                let bytes = layer.params * sizes.gradient_bytes;
                exchanges.0[Pass::WeightGradient as usize] = Some(Exchange { kind: Kind::AllReduce, bytes });
            }
            let (bucket, consumer, stream) = (layer.bucket, layer.consumer, layer.stream);
            costs.push(Cost { times, beside, exchanges, bucket, consumer, stream });
        }
        Ok(costs)
    }
}

/// What an operation of an iteration is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// First and last layer.
    pub layers: (usize, usize),
    /// The pass.
    pub pass: Pass,
}

/// The group of ranks that hold the same part of the model, in [`IterationGraph::jobs`].
pub const DATA: u32 = 0;
/// The group of ranks that a layer is divided over.
pub const MODEL: u32 = 1;

/// One iteration: from the start of a forward pass to the end of the exchanges or, where these go on behind the
/// next forward pass, from the start of a backward pass to the end of that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IterationGraph {
    /// What one rank does for all; its resources are streams, and all exchanges collectives of [`DATA`] or [`MODEL`].
    pub jobs: JobGraph,
    /// What each operation is for.
    pub labels: Vec<Label>,
    /// Time of the local aggregation, after everything else, as in the TTO artifact's overlap (Fig. 11).
    pub aggregation: Picos,
}

impl IterationGraph {
    /// Operations with what they are for.
    pub fn operations(&self) -> impl Iterator<Item = (OperationKind, Label)> + Clone {
        self.jobs.operations().map(|operation| operation.kind).zip(self.labels.iter().copied())
    }

    /// When the parts of every exchange have arrived, as [`Serial`](crate::transport::Serial) needs it.
    ///
    /// # Errors
    /// [`Code::NotApplicable`] where parts are waited for and the queue is not known.
    pub fn arrivals(&self, queues: &[Option<GradientQueue>]) -> Result<Vec<Vec<Picos>>> {
        let mut arrivals = vec![Vec::new(); self.jobs.exchanges.len()];
        for (id, parts) in self.jobs.parts() {
            let Some(queue) = queues.get(id as usize).and_then(Option::as_ref) else {
                let what = "a chained forward pass needs to know when each chunk of the AllReduce is complete";
                return Err(Error::new(Code::NotApplicable, what));
            };
            let bytes = self.jobs.exchanges[id as usize].bytes;
            arrivals[id as usize] = parts.into_iter().map(|part| queue.ready(part, bytes)).collect();
        }
        Ok(arrivals)
    }

    /// Iterations of one rank, one behind the other: forward pass, backward pass from the last layer (input gradient,
    /// then weight gradient), AllReduce of the gradients by policy, and `aggregation`, the time a rank
    /// takes to add up the gradients of its own PEs, at the end. What a layer exchanges after its forward
    /// pass is waited for by the next layer, or by its consumer; what it exchanges in the backward pass is
    /// ready after its own input gradient, and waited for by the layer before, while its own weight gradient goes
    /// on; or after its consumer's, and waited for by itself. Streams wait for each other only where one computes what
    /// the other needs. An iteration waits for all exchanges of the one before or, where layers wait for their own gradients,
    /// for those; a single one of these begins with the backward pass. O(layers).
    ///
    /// # Errors
    /// [`Code::BadFile`] if layers of one bucket of the table do not adjoin.
    pub fn new(costs: &[Cost], policy: IterationPolicy, aggregation: Picos, count: u32) -> Result<IterationGraph> {
        let ends = if policy.overlap.in_buckets() { Some(bucket_ends(costs, policy.bucket)?) } else { None };
        let mut producers = vec![Vec::new(); costs.len()];
        for (index, cost) in costs.iter().enumerate() {
            if let Some(consumer) = cost.consumer {
                producers[consumer as usize].push(index);
            }
        }
        let mut jobs = JobGraph { names: vec!["layer".into()], in_order: true, ..JobGraph::new(1) };
        jobs.groups.push(RankGroup { name: "model".into(), ranks: vec![0] });
        let graph = IterationGraph { jobs, labels: Vec::new(), aggregation: aggregation * Picos::from(count) };
        let awaits = vec![Vec::new(); costs.len()];
        let producers_of = producers.clone();
        let mut builder = IterationBuilder { graph, costs, policy, ends, producers, awaited: Vec::new(), awaits };
        if policy.overlap.chains() && count == 1 {
            builder.backward();
            builder.forward();
            return Ok(builder.graph);
        }
        for _ in 0..count {
            let before = builder.graph.labels.len();
            builder.forward();
            builder.producers.clone_from(&producers_of);
            builder.backward();
            if !policy.overlap.chains() {
                let operations = (0..).zip(builder.graph.operations()).skip(before);
                let exchanges = operations.filter(|(_, (kind, _))| matches!(kind, OperationKind::Exchange(_)));
                builder.awaited = exchanges.map(|(number, _)| number).collect();
            }
        }
        Ok(builder.graph)
    }
}

/// An iteration under construction.
struct IterationBuilder<'a> {
    graph: IterationGraph,
    costs: &'a [Cost],
    policy: IterationPolicy,
    /// Whether each layer is the first of its bucket, if there are several.
    ends: Option<Vec<bool>>,
    /// The layers that name each as their consumer.
    producers: Vec<Vec<usize>>,
    /// Operations that the next computation waits for.
    awaited: Vec<u32>,
    /// Operations that each layer waits for.
    awaits: Vec<Vec<u32>>,
}

impl IterationBuilder<'_> {
    fn forward(&mut self) {
        for (index, cost) in self.costs.iter().enumerate() {
            self.awaited.append(&mut self.awaits[index]);
            let done = self.compute(index, Pass::Forward);
            let consumer = cost.consumer.map(|consumer| consumer as usize);
            if let Some(exchange) = cost.exchanges[Pass::Forward] {
                let id = self.exchange((index, index), Pass::Forward, exchange, vec![done]);
                match consumer {
                    Some(consumer) => self.awaits[consumer].push(id),
                    None => self.awaited.push(id),
                }
            } else {
                self.hand_over(done, index, consumer.unwrap_or(index + 1));
            }
        }
    }

    fn backward(&mut self) {
        let mut open: Option<OpenBucket> = None;
        for (index, cost) in self.costs.iter().enumerate().rev() {
            if self.policy.recompute {
                let done = self.compute(index, Pass::Forward);
                if let Some(exchange) = cost.exchanges[Pass::Forward] {
                    let id = self.exchange((index, index), Pass::Forward, exchange, vec![done]);
                    self.awaited.push(id);
                }
            }
            let own = self.input_gradient(index);
            if self.policy.blocking {
                self.awaited.extend(own);
            }
            let done = self.compute(index, Pass::WeightGradient);
            if !self.policy.blocking {
                self.awaited.extend(own);
            }
            match (cost.gradient_bytes(), cost.exchanges[Pass::WeightGradient]) {
                (0, Some(other)) => {
                    self.exchange((index, index), Pass::WeightGradient, other, vec![done]);
                }
                (0, None) => {}
                (bytes, _) => {
                    let new = || OpenBucket { bytes: 0, last: index, computed: BTreeMap::new() };
                    open.get_or_insert_with(new).bytes += bytes;
                }
            }
            if let Some(bucket) = &mut open {
                bucket.computed.insert(cost.stream, done);
            }
            let full = index == 0 || self.ends.as_ref().is_some_and(|ends| ends[index]);
            if let Some(OpenBucket { bytes, last, computed }) = open.take_if(|_| full) {
                self.gradients((index, last), bytes, computed.into_values().collect());
            }
        }
    }

    /// The gradient of a layer's input, and the exchanges after it; returns that of its own.
    fn input_gradient(&mut self, index: usize) -> Option<u32> {
        let cost = &self.costs[index];
        self.awaited.append(&mut self.awaits[index]);
        let done = self.compute(index, Pass::InputGradient);
        for producer in std::mem::take(&mut self.producers[index]) {
            if let Some(exchange) = self.costs[producer].exchanges[Pass::InputGradient] {
                let id = self.exchange((producer, producer), Pass::InputGradient, exchange, vec![done]);
                self.awaits[producer].push(id);
            } else {
                self.hand_over(done, index, producer);
            }
        }
        let own = cost.exchanges[Pass::InputGradient].filter(|_| cost.consumer.is_none());
        let own = own.map(|exchange| self.exchange((index, index), Pass::InputGradient, exchange, vec![done]));
        if let Some(before) = index.checked_sub(1)
            && self.costs[before].consumer.is_none()
        {
            self.hand_over(own.unwrap_or(done), index, before);
        }
        own
    }

    /// What a layer computed is needed by another: in its own stream the order of the graph says so.
    fn hand_over(&mut self, computed: u32, from: usize, to: usize) {
        if self.costs.get(to).is_some_and(|cost| cost.stream != self.costs[from].stream) {
            self.awaits[to].push(computed);
        }
    }

    /// The AllReduce of a bucket; with chaining, the gradients of its layers lie in their order, and each
    /// layer's next forward pass waits for the arrival of its own.
    fn gradients(&mut self, layers: (usize, usize), bytes: Bytes, after: Vec<u32>) {
        let pass = Pass::WeightGradient;
        self.exchange(layers, pass, Exchange { kind: Kind::AllReduce, bytes }, after);
        if !self.policy.overlap.chains() {
            return;
        }
        let (exchange, mut bytes) = (self.graph.jobs.exchanges.len() as u32 - 1, 0);
        if self.ends.is_some() {
            self.graph.jobs.exchanges[exchange as usize].priority = layers.0 as u32;
        }
        for index in layers.0..=layers.1 {
            let own = self.costs[index].gradient_bytes();
            if own > 0 {
                bytes += own;
                let arrival = self.add(OperationKind::Arrival { exchange, bytes }, (index, index), pass, &[]);
                self.awaits[index].push(arrival);
            }
        }
    }

    fn compute(&mut self, index: usize, pass: Pass) -> u32 {
        let Cost { times, beside, stream, .. } = self.costs[index];
        let resource = Resource::Stream(stream.into());
        let kind = OperationKind::Compute { time_ps: times[pass], beside_ps: beside[pass], resource };
        let after = std::mem::take(&mut self.awaited);
        self.add(kind, (index, index), pass, &after)
    }

    fn exchange(&mut self, layers: (usize, usize), pass: Pass, exchange: Exchange, after: Vec<u32>) -> u32 {
        let exchanges = &mut self.graph.jobs.exchanges;
        let kind = ExchangeKind::Collective(Collective::new(exchange.kind));
        let group = if pass == Pass::WeightGradient { DATA } else { MODEL };
        exchanges.push(JobExchange { name: 0, kind, bytes: exchange.bytes, group, priority: 0 });
        let number = exchanges.len() as u32 - 1;
        self.add(OperationKind::Exchange(number), layers, pass, &after)
    }

    fn add(&mut self, kind: OperationKind, layers: (usize, usize), pass: Pass, after: &[u32]) -> u32 {
        self.graph.labels.push(Label { layers, pass });
        self.graph.jobs.ranks[0].push(0, kind, after)
    }
}

/// A bucket that is not full.
struct OpenBucket {
    bytes: Bytes,
    /// Its last layer.
    last: usize,
    /// The last weight gradient that each stream computed for it.
    computed: BTreeMap<u8, u32>,
}

/// For every layer, whether it is the first (the last to be computed) of its bucket.
fn bucket_ends(costs: &[Cost], bucket: Bucket) -> Result<Vec<bool>> {
    Ok(match bucket {
        Bucket::Layer => vec![true; costs.len()],
        Bucket::Bytes(size) => {
            let mut sum = 0;
            let mut ends: Vec<bool> = costs
                .iter()
                .rev()
                .map(|cost| {
                    sum += cost.gradient_bytes();
                    let full = sum >= size;
                    sum = if full { 0 } else { sum };
                    full
                })
                .collect();
            ends.reverse();
            ends
        }
        Bucket::Table => {
            let mut seen = std::collections::HashSet::new();
            let mut ends = vec![true; costs.len()];
            for index in (0..costs.len()).rev() {
                let Some(number) = costs[index].bucket else { continue };
                let end = index == 0 || costs[index - 1].bucket != Some(number);
                if end && !seen.insert(number) {
                    let what = format!("layer {index}: layers of bucket {number} do not adjoin; number them anew");
                    return Err(Error::new(Code::BadFile, what));
                }
                ends[index] = end;
            }
            ends
        }
    })
}
