//! An iteration of data-parallel training as a graph of operations, by overlap policy.

use super::gradient_queue::GradientQueue;
use crate::collective::Kind;
use crate::error::{Code, Error, Result};
use crate::system::Choice;
use crate::units::{Bytes, MAX_BYTES, Picos, parse_bytes};
use crate::workload::{Demand, Exchange, Pass, Passes, Volume, Workload};

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
}

impl Choice for Overlap {
    const WHAT: &'static str = "overlap policy";
    const ALL: &'static [(&'static str, Self)] =
        &[("none", Overlap::None), ("layerwise", Overlap::Layerwise), ("ccube", Overlap::Chained)];
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
    /// What must be exchanged after each pass; an AllReduce after the weight gradient goes in a bucket.
    pub exchanges: Passes<Option<Exchange>>,
    /// Number of the layer's bucket in the workload's table.
    pub bucket: Option<u32>,
    /// The later layer that needs what is exchanged (see [`crate::workload::Layer::consumer`]).
    pub consumer: Option<u32>,
}

impl Cost {
    /// Bytes of gradients that are reduced among all copies of the layer.
    pub fn gradient_bytes(&self) -> Bytes {
        match self.exchanges[Pass::WeightGradient] {
            Some(Exchange { kind: Kind::AllReduce, bytes }) => bytes,
            _ => 0,
        }
    }

    /// Costs of every layer: `times`, and exchanges that are the table's own or, where it has
    /// weights, the AllReduce of their gradients.
    ///
    /// # Errors
    /// [`Code::TooLarge`] if an exchange or all gradients pass 1 PiB.
    pub fn of(workload: &Workload, times: &[Passes<Picos>], sizes: Sizes) -> Result<Vec<Cost>> {
        let too_large =
            |what: &str| Err(Error::new(Code::TooLarge, format!("{}: {what} of more than 1 PiB", workload.name)));
        if u128::from(sizes.gradient_bytes) * u128::from(workload.params()) > u128::from(MAX_BYTES) {
            return too_large("gradients");
        }
        let element = u128::from(sizes.activation_bytes) * u128::from(sizes.divided_batch);
        let mut costs = Vec::with_capacity(workload.layers.len());
        for (layer, &times) in workload.layers.iter().zip(times) {
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
            costs.push(Cost { times, exchanges, bucket: layer.bucket, consumer: layer.consumer });
        }
        Ok(costs)
    }
}

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Every rank computes for a time.
    Compute(Picos),
    /// The ranks exchange; the number of [`Plan::exchanges`].
    Exchange(usize),
    /// A part of an exchange, the next of [`Plan::parts`], is complete at every rank.
    Arrival(usize),
}

/// A node of the graph. Computations run one at a time in the order of the list.
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

/// One iteration. With [`Overlap::Chained`] it is counted from the end of a backward pass to the end of
/// the next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Operations; `after` names earlier ones only.
    pub operations: Vec<Operation>,
    /// What [`Work::Exchange`] exchanges.
    pub exchanges: Vec<Exchange>,
    /// For every exchange, the first bytes of its buffer that are waited for, in ascending order.
    pub parts: Vec<Vec<Bytes>>,
    /// Time of the local aggregation, after everything else (reference section 6).
    pub aggregation: Picos,
}

impl Plan {
    /// The exchanges, each with the pass it follows.
    pub fn exchanges_with_passes(&self) -> Vec<(Exchange, Pass)> {
        let pass = |operation: &Operation| match operation.work {
            Work::Exchange(id) => Some((self.exchanges[id], operation.pass)),
            Work::Compute(_) | Work::Arrival(_) => None,
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
                let what = "overlap ccube needs to know when each chunk of the AllReduce is complete";
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
    /// ready after its own input gradient, or its consumer's, and then waited for. O(layers).
    ///
    /// # Errors
    /// [`Code::BadFile`] if layers of one bucket of the table do not adjoin.
    pub fn iteration(costs: &[Cost], policy: Policy, aggregation: Picos) -> Result<Plan> {
        let mut builder = PlanBuilder { plan: Plan { aggregation, ..Plan::default() }, awaited: Vec::new() };
        let ends = match policy.overlap {
            Overlap::None | Overlap::Chained => None,
            Overlap::Layerwise => Some(bucket_ends(costs, policy.bucket)?),
        };
        let arrivals = match policy.overlap {
            Overlap::Chained => builder.chained(costs),
            _ => vec![None; costs.len()],
        };
        // What each layer waits for, and whose exchanges its input gradient lets start.
        let mut awaits: Vec<Vec<usize>> = vec![Vec::new(); costs.len()];
        let mut producers: Vec<Vec<usize>> = vec![Vec::new(); costs.len()];
        for (index, cost) in costs.iter().enumerate() {
            builder.awaited.append(&mut awaits[index]);
            builder.awaited.extend(arrivals[index]);
            let done = builder.compute(index, cost, Pass::Forward);
            if let Some(exchange) = cost.exchanges[Pass::Forward] {
                let id = builder.exchange((index, index), Pass::Forward, exchange, done);
                match cost.consumer {
                    Some(consumer) => awaits[consumer as usize].push(id),
                    None => builder.awaited.push(id),
                }
            }
            if let Some(consumer) = cost.consumer {
                producers[consumer as usize].push(index);
            }
        }
        // The open bucket: its bytes and its last layer.
        let mut open: Option<(Bytes, usize)> = None;
        for (index, cost) in costs.iter().enumerate().rev() {
            if policy.recompute {
                let done = builder.compute(index, cost, Pass::Forward);
                if let Some(exchange) = cost.exchanges[Pass::Forward] {
                    let id = builder.exchange((index, index), Pass::Forward, exchange, done);
                    builder.awaited.push(id);
                }
            }
            builder.awaited.append(&mut awaits[index]);
            let done = builder.compute(index, cost, Pass::InputGradient);
            for &producer in &producers[index] {
                if let Some(exchange) = costs[producer].exchanges[Pass::InputGradient] {
                    awaits[producer].push(builder.exchange((producer, producer), Pass::InputGradient, exchange, done));
                }
            }
            if let Some(exchange) = cost.exchanges[Pass::InputGradient].filter(|_| cost.consumer.is_none()) {
                let id = builder.exchange((index, index), Pass::InputGradient, exchange, done);
                builder.awaited.push(id);
            }
            let done = builder.compute(index, cost, Pass::WeightGradient);
            match (cost.gradient_bytes(), cost.exchanges[Pass::WeightGradient]) {
                (0, Some(other)) => {
                    builder.exchange((index, index), Pass::WeightGradient, other, done);
                }
                (0, None) => {}
                _ if policy.overlap == Overlap::Chained => {}
                (bytes, _) => open = Some(open.map_or((bytes, index), |(sum, last)| (sum + bytes, last))),
            }
            let full = index == 0 || ends.as_ref().is_some_and(|ends| ends[index]);
            if let Some((bytes, last)) = open.take_if(|_| full) {
                let exchange = Exchange { kind: Kind::AllReduce, bytes };
                builder.exchange((index, last), Pass::WeightGradient, exchange, done);
            }
        }
        Ok(builder.plan)
    }
}

/// A plan under construction.
struct PlanBuilder {
    plan: Plan,
    /// Exchanges that the next computation waits for.
    awaited: Vec<usize>,
}

impl PlanBuilder {
    fn compute(&mut self, index: usize, cost: &Cost, pass: Pass) -> usize {
        let (work, after) = (Work::Compute(cost.times[pass]), std::mem::take(&mut self.awaited));
        self.add(Operation { work, layers: (index, index), pass, after })
    }

    fn exchange(&mut self, layers: (usize, usize), pass: Pass, exchange: Exchange, after: usize) -> usize {
        self.begin(layers, pass, exchange, vec![after])
    }

    fn begin(&mut self, layers: (usize, usize), pass: Pass, exchange: Exchange, after: Vec<usize>) -> usize {
        self.plan.exchanges.push(exchange);
        self.plan.parts.push(Vec::new());
        let work = Work::Exchange(self.plan.exchanges.len() - 1);
        self.add(Operation { work, layers, pass, after })
    }

    /// The AllReduce of the gradients of the iteration before, in the order of the layers, and for every
    /// layer that has some, their arrival.
    fn chained(&mut self, costs: &[Cost]) -> Vec<Option<usize>> {
        let bytes = costs.iter().map(Cost::gradient_bytes).sum();
        if bytes == 0 {
            return vec![None; costs.len()];
        }
        let exchange = Exchange { kind: Kind::AllReduce, bytes };
        self.begin((0, costs.len() - 1), Pass::WeightGradient, exchange, Vec::new());
        let (id, mut part) = (self.plan.exchanges.len() - 1, 0);
        let mut arrival = |(index, cost): (usize, &Cost)| {
            part += cost.gradient_bytes();
            (cost.gradient_bytes() > 0).then(|| {
                self.plan.parts[id].push(part);
                let layers = (index, index);
                self.add(Operation { work: Work::Arrival(id), layers, pass: Pass::WeightGradient, after: Vec::new() })
            })
        };
        costs.iter().enumerate().map(&mut arrival).collect()
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
