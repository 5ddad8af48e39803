//! An iteration of data-parallel training as a graph of operations, by overlap policy.

use crate::collective::Kind;
use crate::error::{Code, Error, Result};
use crate::system::Choice;
use crate::units::{Bytes, MAX_BYTES, Picos, parse_bytes};
use crate::workload::{Exchange, Pass, Passes, Workload};

/// How gradients' AllReduce overlaps with the backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// One AllReduce of all gradients after the backward pass.
    None,
    /// One for each bucket of layers, as soon as its gradients are there.
    Layerwise,
}

impl Choice for Overlap {
    const WHAT: &'static str = "overlap policy";
    const ALL: &'static [(&'static str, Self)] = &[("none", Overlap::None), ("layerwise", Overlap::Layerwise)];
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

/// What one layer costs a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Time of each pass.
    pub times: Passes<Picos>,
    /// What must be exchanged after each pass; an AllReduce after the weight gradient goes in a bucket.
    pub exchanges: Passes<Option<Exchange>>,
    /// Number of the layer's bucket in the workload's table.
    pub bucket: Option<u32>,
}

impl Cost {
    /// Costs of every layer: `times`, and exchanges that are the table's own or, where it has
    /// weights, the AllReduce of their gradients of `gradient_bytes` each.
    ///
    /// # Errors
    /// [`Code::TooLarge`] if the gradients pass 1 PiB.
    pub fn of(workload: &Workload, times: &[Passes<Picos>], gradient_bytes: Bytes) -> Result<Vec<Cost>> {
        let total =
            u128::from(gradient_bytes) * workload.layers.iter().map(|layer| u128::from(layer.params)).sum::<u128>();
        if total > u128::from(MAX_BYTES) {
            return Err(Error::new(Code::TooLarge, format!("{}: more than 1 PiB of gradients", workload.name)));
        }
        let cost = |(layer, &times): (&crate::workload::Layer, _)| {
            let mut exchanges = layer.exchanges;
            if layer.params > 0 {
                let bytes = layer.params * gradient_bytes;
                exchanges.0[Pass::WeightGradient as usize] = Some(Exchange { kind: Kind::AllReduce, bytes });
            }
            Cost { times, exchanges, bucket: layer.bucket }
        };
        Ok(workload.layers.iter().zip(times).map(cost).collect())
    }
}

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Every rank computes for a time.
    Compute(Picos),
    /// The ranks exchange; the number of [`Plan::exchanges`].
    Exchange(usize),
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
    /// Earlier operations that must have finished.
    pub after: Vec<usize>,
}

/// One iteration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Operations; `after` names earlier ones only.
    pub operations: Vec<Operation>,
    /// What [`Work::Exchange`] exchanges.
    pub exchanges: Vec<Exchange>,
    /// Time of the local aggregation, after everything else (reference section 6).
    pub aggregation: Picos,
}

impl Plan {
    /// The iteration of data-parallel training: forward pass, backward pass from the last layer
    /// (input gradient, then weight gradient), AllReduce of the gradients by policy, and
    /// `aggregation`, the time a rank takes to add up the gradients of its own PEs, at the end.
    /// Exchanges after forward and input-gradient passes are waited for. O(layers).
    ///
    /// # Errors
    /// [`Code::BadFile`] if layers of one bucket of the table do not adjoin.
    pub fn data_parallel(costs: &[Cost], overlap: Overlap, bucket: Bucket, aggregation: Picos) -> Result<Plan> {
        let mut plan = Plan { aggregation, ..Plan::default() };
        let mut blocked = None;
        for (index, cost) in costs.iter().enumerate() {
            plan.compute(index, cost, Pass::Forward, &mut blocked);
        }
        let ends = match overlap {
            Overlap::None => None,
            Overlap::Layerwise => Some(bucket_ends(costs, bucket)?),
        };
        // The open bucket: its bytes and its last layer.
        let mut open: Option<(Bytes, usize)> = None;
        for (index, cost) in costs.iter().enumerate().rev() {
            plan.compute(index, cost, Pass::InputGradient, &mut blocked);
            let ready = plan.compute(index, cost, Pass::WeightGradient, &mut blocked);
            if let Some(Exchange { kind: Kind::AllReduce, bytes }) = cost.exchanges[Pass::WeightGradient] {
                open = Some(open.map_or((bytes, index), |(sum, last)| (sum + bytes, last)));
            }
            let full = index == 0 || ends.as_ref().is_some_and(|ends| ends[index]);
            if let Some((bytes, last)) = open.take_if(|_| full) {
                let exchange = Exchange { kind: Kind::AllReduce, bytes };
                plan.exchange((index, last), Pass::WeightGradient, exchange, ready);
            }
        }
        Ok(plan)
    }

    /// Adds a pass over a layer, and the exchange that must follow it at once.
    fn compute(&mut self, index: usize, cost: &Cost, pass: Pass, blocked: &mut Option<usize>) -> usize {
        let this = self.operations.len();
        let (work, after) = (Work::Compute(cost.times[pass]), blocked.take().into_iter().collect());
        self.operations.push(Operation { work, layers: (index, index), pass, after });
        let bucketed = |exchange: &Exchange| pass == Pass::WeightGradient && exchange.kind == Kind::AllReduce;
        if let Some(exchange) = cost.exchanges[pass].filter(|exchange| !bucketed(exchange)) {
            let id = self.exchange((index, index), pass, exchange, this);
            // Nothing waits for gradients before the next iteration.
            *blocked = (pass != Pass::WeightGradient).then_some(id);
        }
        this
    }

    fn exchange(&mut self, layers: (usize, usize), pass: Pass, exchange: Exchange, after: usize) -> usize {
        self.exchanges.push(exchange);
        let work = Work::Exchange(self.exchanges.len() - 1);
        self.operations.push(Operation { work, layers, pass, after: vec![after] });
        self.operations.len() - 1
    }
}

/// For every layer, whether it is the first (the last to be computed) of its bucket.
fn bucket_ends(costs: &[Cost], bucket: Bucket) -> Result<Vec<bool>> {
    let bytes = |cost: &Cost| cost.exchanges[Pass::WeightGradient].map_or(0, |exchange| exchange.bytes);
    Ok(match bucket {
        Bucket::Layer => vec![true; costs.len()],
        Bucket::Bytes(size) => {
            let mut sum = 0;
            let mut ends: Vec<bool> = costs
                .iter()
                .rev()
                .map(|cost| {
                    sum += bytes(cost);
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
