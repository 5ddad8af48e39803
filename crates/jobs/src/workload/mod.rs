//! Workloads: the layers of a model, what they compute and what they exchange.

mod presets;
mod table;

pub use presets::{PRESETS, WorkloadPreset};

use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Bytes, Picos};
use antiphon_model::collective::Kind;

/// Most layers of a workload.
pub const MAX_LAYERS: usize = 1 << 20;

/// One convolution, or a matrix product written as one (a fully connected layer has a filter as
/// large as its input). No padding: the input is given with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Convolution {
    /// Height of the input.
    pub input_height: u64,
    /// Width of the input.
    pub input_width: u64,
    /// Height of the filters.
    pub filter_height: u64,
    /// Width of the filters.
    pub filter_width: u64,
    /// Channels of the input.
    pub channels: u64,
    /// Filters, the channels of the output.
    pub filters: u64,
    /// Stride in both directions.
    pub stride: u64,
}

impl Convolution {
    /// Height and width of the output: no padding, as in the SCALE-Sim of the TTO artifact (HPCA 2024).
    pub fn output(&self) -> (u64, u64) {
        let size = |input: u64, filter: u64| (input - filter + self.stride) / self.stride;
        (size(self.input_height, self.filter_height), size(self.input_width, self.filter_width))
    }

    /// Weights of one filter.
    pub fn filter(&self) -> u64 {
        self.filter_height * self.filter_width * self.channels
    }

    /// The same layer as totals of one sample.
    pub fn counts(&self) -> Counts {
        let (height, width) = self.output();
        let output_elements = height * width * self.filters;
        Counts {
            macs: output_elements * self.filter(),
            input_elements: self.input_height * self.input_width * self.channels,
            output_elements,
        }
    }
}

/// Totals of a layer's forward pass on one sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Multiply-adds.
    pub macs: u64,
    /// Elements read.
    pub input_elements: u64,
    /// Elements written.
    pub output_elements: u64,
}

/// A pass over a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Output from input.
    Forward,
    /// Gradient of the input from that of the output.
    InputGradient,
    /// Gradient of the weights.
    WeightGradient,
}

impl Pass {
    /// All, in the order they are computed.
    pub const ALL: [Pass; 3] = [Pass::Forward, Pass::InputGradient, Pass::WeightGradient];

    /// Name for messages and tables.
    pub fn name(self) -> &'static str {
        match self {
            Pass::Forward => "forward",
            Pass::InputGradient => "input gradient",
            Pass::WeightGradient => "weight gradient",
        }
    }
}

/// One value for each pass; index it by [`Pass`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Passes<T>(pub [T; 3]);

impl<T> std::ops::Index<Pass> for Passes<T> {
    type Output = T;

    fn index(&self, pass: Pass) -> &T {
        &self.0[pass as usize]
    }
}

/// What a layer computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A shape: any compute model but a measured one can time it.
    Convolution(Convolution),
    /// Totals: a roofline can time it.
    Counts(Counts),
    /// Measured times of the three passes, of a whole batch.
    Measured(Passes<Picos>),
}

/// A collective among the ranks that a layer, or the model, is divided over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Exchange {
    /// What is exchanged.
    pub kind: Kind,
    /// Size of the full buffer.
    pub bytes: Bytes,
}

/// How much a layer exchanges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Volume {
    /// Bytes, of a whole batch: in every run.
    Bytes(Bytes),
    /// Elements of one sample: only where layers are divided over ranks (model parallelism).
    Elements(u64),
}

/// What is exchanged after a pass over a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// The collective.
    pub kind: Kind,
    /// Its full buffer.
    pub volume: Volume,
}

/// One layer of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// Name.
    pub name: String,
    /// What it computes.
    pub work: Work,
    /// Weights, and so gradients. A measured layer has none: its table says what is exchanged.
    pub params: u64,
    /// Number of the group of layers whose gradients are reduced together, if the table has groups.
    pub bucket: Option<u32>,
    /// What the table says is exchanged after each pass.
    pub demands: Passes<Option<Demand>>,
    /// The later layer that first needs its outputs, exchanged or not, and whose input gradient is needed in the
    /// backward pass; without one, the layer beside.
    pub consumer: Option<u32>,
    /// The stream that computes it: layers of one stream run one after the other, streams side by side.
    pub stream: u8,
}

/// A model: its layers in the order of the forward pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Name of the preset or file.
    pub name: String,
    /// Layers, at least one.
    pub layers: Vec<Layer>,
    /// Whether the table says what is exchanged in either direction where layers are divided over ranks.
    pub says_exchanges: bool,
}

impl Workload {
    /// A preset by name.
    ///
    /// # Errors
    /// [`Code::UnknownName`] with the nearest known name.
    pub fn preset(name: &str) -> Result<Workload> {
        presets::find(name)
    }

    /// A workload from the text of a CSV table in one of three forms: shapes (SCALE-Sim's columns),
    /// totals, or measured times; see `docs/reference/workloads.md`. O(text).
    ///
    /// # Errors
    /// [`Code::BadFile`] with row and column, [`Code::TooLarge`] past [`MAX_LAYERS`].
    pub fn from_csv(name: &str, text: &str) -> Result<Workload> {
        table::read(name, text).map_err(|error| error.at(format_args!("workload {name}")))
    }

    /// Weights of all layers.
    pub fn params(&self) -> u64 {
        self.layers.iter().map(|layer| layer.params).sum()
    }

    /// The share of the model that one of `ranks` computes where every layer is divided over them:
    /// weights and operations are divided, inputs and outputs are not (Megatron's layers, whose
    /// activations are whole on every rank).
    ///
    /// # Errors
    /// [`Code::NotApplicable`] for layers other than totals, and where the table does not say what they exchange: that
    /// depends on how each is divided (by rows: AllReduce; by columns: AllGather, or nothing).
    pub fn divided(&self, ranks: u64) -> Result<Workload> {
        let mut part = self.clone();
        for (index, layer) in part.layers.iter_mut().enumerate() {
            let Work::Counts(counts) = &mut layer.work else {
                return self.refuse(index, "has no totals; only tables of totals can be divided over ranks");
            };
            counts.macs = counts.macs.div_ceil(ranks);
            layer.params = layer.params.div_ceil(ranks);
        }
        if !self.says_exchanges {
            let what = format!(
                "{}: the table does not say what layers exchange when they are divided over ranks; add the columns \
                 fwd_comm and ig_comm (all-reduce, all-gather, ..., or none)",
                self.name
            );
            return Err(Error::new(Code::NotApplicable, what));
        }
        Ok(part)
    }

    /// Refuses layer `index` because of `reason`.
    pub fn refuse<T>(&self, index: usize, reason: impl std::fmt::Display) -> Result<T> {
        let layer = &self.layers[index].name;
        Err(Error::new(Code::NotApplicable, format!("{}: layer {index} ('{layer}') {reason}", self.name)))
    }
}
