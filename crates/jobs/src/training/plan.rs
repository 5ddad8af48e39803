//! An iteration of data-parallel training as a graph of operations, by overlap policy.

use super::gradient_queue::GradientQueue;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::parameter::Choice;
use antiphon_base::units::{Bytes, MAX_BYTES, Picos, parse_bytes};
use antiphon_model::collective::Kind;
use antiphon_model::workload::{Demand, Exchange, Pass, Passes, Volume, Workload};
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
    fn in_buckets(self) -> bool {
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
            _ => parse_bytes(text).map(Bucket::Bytes).map_err(|error| error.at("bucket (table, layer or a size)")),
        }
    }
}

/// How an iteration is arranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
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
    /// The later layer that needs its outputs (see [`antiphon_model::workload::Layer::consumer`]).
    pub consumer: Option<u32>,
    /// The stream that computes it (see [`antiphon_model::workload::Layer::stream`]).
    pub stream: u8,
}

impl Cost {
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

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Every rank computes for a time.
    Compute {
        /// How long.
        time_ps: Picos,
        /// How long while something is exchanged.
        beside_ps: Picos,
        /// The stream it is in.
        stream: u8,
    },
    /// The ranks exchange; the number of [`Plan::exchanges`].
    Exchange(usize),
    /// A part of an exchange, the next of [`Plan::parts`], is complete at every rank.
    Arrival(usize),
}

/// A node of the graph. Computations of one stream run one at a time in the order of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// What it does.
    pub work: Work,
    /// First and last layer it is for.
    pub layers: (usize, usize),
    /// Pass it belongs to.
    pub pass: Pass,
    /// Earlier operations that must have finished; none for arrivals, which come from the network.
    pub after: Vec<usize>,
}

/// One iteration: from the start of a forward pass to the end of the exchanges or, where these go on behind the
/// next forward pass, from the start of a backward pass to the end of that.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Operations; `after` names earlier ones only.
    pub operations: Vec<Operation>,
    /// What [`Work::Exchange`] exchanges.
    pub exchanges: Vec<Exchange>,
    /// For every exchange, the first bytes of its buffer that are waited for, in ascending order.
    pub parts: Vec<Vec<Bytes>>,
    /// For every exchange its priority: of those that wait, the lowest goes first.
    pub priorities: Vec<u32>,
    /// Time of the local aggregation, after everything else, as in the TTO artifact's overlap (Fig. 11).
    pub aggregation: Picos,
}

impl Plan {
    /// The exchanges, each with the pass it follows.
    pub fn exchanges_with_passes(&self) -> Vec<(Exchange, Pass)> {
        let pass = |operation: &Operation| match operation.work {
            Work::Exchange(id) => Some((self.exchanges[id], operation.pass)),
            Work::Compute { .. } | Work::Arrival(_) => None,
        };
        self.operations.iter().filter_map(pass).collect()
    }

    /// When the parts of every exchange have arrived, as [`Serial`](super::Serial) needs it.
    ///
    /// # Errors
    /// [`Code::NotApplicable`] where parts are waited for and the queue is not known.
    pub fn arrivals(&self, queues: &[Option<GradientQueue>]) -> Result<Vec<Vec<Picos>>> {
        let exchanges = self.exchanges.iter().zip(&self.parts).enumerate();
        let of = |(id, (exchange, parts)): (usize, (&Exchange, &Vec<Bytes>))| {
            let Some(queue) = queues.get(id).and_then(Option::as_ref) else {
                if parts.is_empty() {
                    return Ok(Vec::new());
                }
                let what = "a chained forward pass needs to know when each chunk of the AllReduce is complete";
                return Err(Error::new(Code::NotApplicable, what));
            };
            Ok(parts.iter().map(|&part| queue.ready(part, exchange.bytes)).collect())
        };
        exchanges.map(of).collect()
    }

    /// The iteration of one rank: forward pass, backward pass from the last layer (input gradient,
    /// then weight gradient), AllReduce of the gradients by policy, and `aggregation`, the time a rank
    /// takes to add up the gradients of its own PEs, at the end. What a layer exchanges after its forward
    /// pass is waited for by the next layer, or by its consumer; what it exchanges in the backward pass is
    /// ready after its own input gradient, and waited for by the layer before, while its own weight gradient goes
    /// on; or after its consumer's, and waited for by itself. Streams wait for each other only where one computes what
    /// the other needs. Where the forward pass waits for gradients, the iteration begins with the backward pass.
    /// O(layers).
    ///
    /// # Errors
    /// [`Code::BadFile`] if layers of one bucket of the table do not adjoin.
    pub fn iteration(costs: &[Cost], policy: Policy, aggregation: Picos) -> Result<Plan> {
        Plan::iterations(costs, policy, aggregation, 1)
    }

    /// Several iterations, one behind the other, each from the start of its forward pass. It waits for all exchanges of
    /// the one before or, where layers wait for their own gradients, for those.
    ///
    /// # Errors
    /// As [`Plan::iteration`].
    pub fn iterations(costs: &[Cost], policy: Policy, aggregation: Picos, count: u32) -> Result<Plan> {
        let ends = if policy.overlap.in_buckets() { Some(bucket_ends(costs, policy.bucket)?) } else { None };
        let mut producers = vec![Vec::new(); costs.len()];
        for (index, cost) in costs.iter().enumerate() {
            if let Some(consumer) = cost.consumer {
                producers[consumer as usize].push(index);
            }
        }
        let plan = Plan { aggregation: aggregation * Picos::from(count), ..Plan::default() };
        let awaits = vec![Vec::new(); costs.len()];
        let mut builder =
            PlanBuilder { plan, costs, policy, ends, producers: producers.clone(), awaited: Vec::new(), awaits };
        if policy.overlap.chains() && count == 1 {
            builder.backward();
            builder.forward();
            return Ok(builder.plan);
        }
        for _ in 0..count {
            let exchanged = builder.plan.operations.len();
            builder.forward();
            builder.producers.clone_from(&producers);
            builder.backward();
            if !policy.overlap.chains() {
                let is_exchange = |&index: &usize| matches!(builder.plan.operations[index].work, Work::Exchange(_));
                let all = (exchanged..builder.plan.operations.len()).filter(is_exchange);
                builder.awaited = all.collect();
            }
        }
        Ok(builder.plan)
    }
}

/// A plan under construction.
struct PlanBuilder<'a> {
    plan: Plan,
    costs: &'a [Cost],
    policy: Policy,
    /// Whether each layer is the first of its bucket, if there are several.
    ends: Option<Vec<bool>>,
    /// The layers that name each as their consumer.
    producers: Vec<Vec<usize>>,
    /// Operations that the next computation waits for.
    awaited: Vec<usize>,
    /// Operations that each layer waits for.
    awaits: Vec<Vec<usize>>,
}

impl PlanBuilder<'_> {
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
        // The open bucket: its bytes, its last layer, and the last weight gradient that each stream computed for it.
        let mut open: Option<(Bytes, usize, BTreeMap<u8, usize>)> = None;
        for (index, cost) in self.costs.iter().enumerate().rev() {
            if self.policy.recompute {
                let done = self.compute(index, Pass::Forward);
                if let Some(exchange) = cost.exchanges[Pass::Forward] {
                    let id = self.exchange((index, index), Pass::Forward, exchange, vec![done]);
                    self.awaited.push(id);
                }
            }
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
                (bytes, _) => open.get_or_insert_with(|| (0, index, BTreeMap::new())).0 += bytes,
            }
            if let Some((_, _, computed)) = &mut open {
                computed.insert(cost.stream, done);
            }
            let full = index == 0 || self.ends.as_ref().is_some_and(|ends| ends[index]);
            if let Some((bytes, last, computed)) = open.take_if(|_| full) {
                self.gradients((index, last), bytes, computed.into_values().collect());
            }
        }
    }

    /// What a layer computed is needed by another: in its own stream the order of the list says so.
    fn hand_over(&mut self, computed: usize, from: usize, to: usize) {
        if self.costs.get(to).is_some_and(|cost| cost.stream != self.costs[from].stream) {
            self.awaits[to].push(computed);
        }
    }

    /// The AllReduce of a bucket; with chaining, the gradients of its layers lie in their order, and each
    /// layer's next forward pass waits for the arrival of its own.
    fn gradients(&mut self, layers: (usize, usize), bytes: Bytes, after: Vec<usize>) {
        let exchange = Exchange { kind: Kind::AllReduce, bytes };
        self.exchange(layers, Pass::WeightGradient, exchange, after);
        if !self.policy.overlap.chains() {
            return;
        }
        let (id, mut part) = (self.plan.exchanges.len() - 1, 0);
        if self.ends.is_some() {
            self.plan.priorities[id] = layers.0 as u32;
        }
        for index in layers.0..=layers.1 {
            let bytes = self.costs[index].gradient_bytes();
            if bytes > 0 {
                part += bytes;
                self.plan.parts[id].push(part);
                let (work, after) = (Work::Arrival(id), Vec::new());
                let arrival = Operation { work, layers: (index, index), pass: Pass::WeightGradient, after };
                let arrival = self.add(arrival);
                self.awaits[index].push(arrival);
            }
        }
    }

    fn compute(&mut self, index: usize, pass: Pass) -> usize {
        let Cost { times, beside, stream, .. } = self.costs[index];
        let work = Work::Compute { time_ps: times[pass], beside_ps: beside[pass], stream };
        let after = std::mem::take(&mut self.awaited);
        self.add(Operation { work, layers: (index, index), pass, after })
    }

    fn exchange(&mut self, layers: (usize, usize), pass: Pass, exchange: Exchange, after: Vec<usize>) -> usize {
        self.plan.exchanges.push(exchange);
        self.plan.parts.push(Vec::new());
        self.plan.priorities.push(0);
        let work = Work::Exchange(self.plan.exchanges.len() - 1);
        self.add(Operation { work, layers, pass, after })
    }

    fn add(&mut self, operation: Operation) -> usize {
        self.plan.operations.push(operation);
        self.plan.operations.len() - 1
    }
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
