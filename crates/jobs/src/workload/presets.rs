//! Known models: tables of `data/workloads`, compiled in.

use super::Workload;
use antiphon_base::error::{Code, Error, Result, nearest};
use antiphon_base::units::clip;

/// A model that is known by name.
#[derive(Debug, Clone, Copy)]
pub struct WorkloadPreset {
    /// Command-line name.
    pub name: &'static str,
    /// What it is, in one line.
    pub description: &'static str,
    /// Where its table is from.
    pub source: &'static str,
    table: &'static str,
}

macro_rules! presets {
    ($($name:literal: $description:literal, $source:expr;)*) => {
        /// All known models in documentation order.
        pub const PRESETS: [WorkloadPreset; [$($name),*].len()] = [$(WorkloadPreset {
            name: $name,
            description: $description,
            source: $source,
            table: include_str!(concat!("../../../../data/workloads/", $name, ".csv")),
        }),*];
    };
}

const TTO: &str = "SCALE-Sim topology files of the TTO artifact (HPCA 2024)";
const SHAPES: &str = "totals of public layer shapes";
const ASTRA: &str = "public workload tables of ASTRA-sim 1.0";
const LIBRA: &str = "public workload tables of LIBRA for ASTRA-sim";

presets! {
    "alexnet": "five convolutions of AlexNet", TTO;
    "alphagozero": "AlphaGo Zero, two residual convolutions", TTO;
    "fasterrcnn": "Faster R-CNN", TTO;
    "googlenet": "GoogLeNet", TTO;
    "ncf": "neural collaborative filtering", TTO;
    "resnet152": "ResNet-152", TTO;
    "transformer": "Transformer, products of every head as layers", TTO;
    "resnet50": "ResNet-50", SHAPES;
    "vgg16": "VGG-16", SHAPES;
    "zfnet": "ZFNet", SHAPES;
    "gnmt": "GNMT, sentences of 50 tokens (an assumption)", SHAPES;
    "dlrm": "DLRM, embeddings exchanged by all-to-all", LIBRA;
    "transformer-1t": "Transformer of 1e12 parameters: 128 layers of 25600, 2048 tokens a sample", "published configuration of Megatron-LM";
    "astrasim1-dlrm-hybridparallel": "measured times; dlrm hybridparallel", ASTRA;
    "astrasim1-microallreduce": "measured times; microallreduce", ASTRA;
    "astrasim1-microalltoall": "measured times; microalltoall", ASTRA;
    "astrasim1-mlp-hybridparallel-data-model": "measured times; mlp hybridparallel data model", ASTRA;
    "astrasim1-mlp-hybridparallel-model-data": "measured times; mlp hybridparallel model data", ASTRA;
    "astrasim1-mlp-modelparallel": "measured times; mlp modelparallel", ASTRA;
    "astrasim1-resnet50-dataparallel": "measured times; resnet50 dataparallel", ASTRA;
    "astrasim1-sample-per-layer-parallel-hybridcustomized": "measured times; sample per layer parallel hybridcustomized", ASTRA;
    "astrasim1-transformer-hybridparallel-fwd-in-bckwd": "measured times; transformer hybridparallel fwd in bckwd", ASTRA;
    "astrasim1-transformer-hybridparallel": "measured times; transformer hybridparallel", ASTRA;
    "libra-gpt-3": "measured times; gpt 3", LIBRA;
    "libra-msft-1t": "measured times; msft 1t", LIBRA;
    "libra-resnet-50": "measured times; resnet 50", LIBRA;
    "libra-turing-nlg": "measured times; turing nlg", LIBRA;
}

pub fn find(name: &str) -> Result<Workload> {
    let Some(preset) = PRESETS.iter().find(|preset| preset.name == name) else {
        let names = PRESETS.iter().map(|preset| preset.name);
        let (hint, list) = (nearest(name, names.clone()), names.collect::<Vec<_>>().join(", "));
        let what = format!("no workload '{}'{hint}; a table of your own ends in .csv; known: {list}", clip(name));
        return Err(Error::new(Code::UnknownName, what));
    };
    Workload::from_csv(preset.name, preset.table)
}
