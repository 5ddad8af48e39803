//! What computes on one rank: the parameters of a compute model.

use super::Choice;
use crate::error::{Code, Error, Result, nearest};
use crate::options::Options;
use crate::units::{Picos, Rate, clip};
use serde::{Deserialize, Serialize};

/// Which operand of a matrix product stays in the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dataflow {
    /// Sums stay, operands stream.
    #[default]
    OutputStationary,
    /// Weights stay, inputs stream.
    WeightStationary,
    /// Inputs stay, weights stream.
    InputStationary,
}

impl Choice for Dataflow {
    const WHAT: &'static str = "dataflow";
    const ALL: &'static [(&'static str, Self)] =
        &[("os", Dataflow::OutputStationary), ("ws", Dataflow::WeightStationary), ("is", Dataflow::InputStationary)];
}

/// Processing elements (PEs) that are systolic arrays; each works on samples of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SystolicArray {
    /// Rows of multipliers in a PE.
    pub rows: u32,
    /// Columns of multipliers in a PE.
    pub columns: u32,
    /// PEs of a rank.
    pub elements: u32,
    /// What stays in the array.
    pub dataflow: Dataflow,
    /// Clock period.
    pub clock_ps: Picos,
}

/// A processor that is limited either by arithmetic or by memory bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Roofline {
    /// Peak arithmetic, in floating-point operations per second; a multiply-add is two.
    pub flops: u64,
    /// Share of the peak that is reached, in thousandths.
    pub flops_permille: u32,
    /// Peak memory bandwidth.
    pub memory_rate: Rate,
    /// Share of it that is reached, in thousandths.
    pub memory_permille: u32,
    /// Bytes of one operand in memory.
    pub element_bytes: u32,
}

/// The compute model of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Processor {
    /// Systolic arrays.
    Systolic(SystolicArray),
    /// Arithmetic and memory limits.
    Roofline(Roofline),
    /// The times in the workload's own table.
    Measured,
}

type Keys = &'static [(&'static str, &'static str)];
const SYSTOLIC: Keys = &[
    ("rows", "rows of multipliers in a PE (256)"),
    ("cols", "columns of multipliers in a PE (256)"),
    ("pes", "PEs of a rank, each with samples of its own (16)"),
    ("dataflow", "os, ws or is: what stays in the array (os)"),
    ("clock-ghz", "clock (1)"),
];
const ROOFLINE: Keys = &[
    ("tflops", "peak arithmetic in 1e12 operations per second (100)"),
    ("efficiency", "share of it that is reached (0.6)"),
    ("gb-per-s", "peak memory bandwidth in 1e9 bytes per second (1000)"),
    ("memory-efficiency", "share of it that is reached (0.75)"),
    ("element-bytes", "bytes of one operand (2)"),
];

impl Processor {
    /// Names of the compute models, what they are, and their options with defaults.
    pub const MODELS: [(&'static str, &'static str, Keys); 3] = [
        ("systolic", "systolic arrays, one sample at a time in each; needs layer shapes", SYSTOLIC),
        ("roofline", "the slower of arithmetic and memory; needs layer shapes or operation counts", ROOFLINE),
        ("measured", "the times in the workload's table", &[]),
    ];

    /// A compute model from `name[:key=value,...]`.
    ///
    /// # Errors
    /// [`Code::UnknownName`] with the nearest known name, [`Code::BadSpec`] for values.
    pub fn parse(spec: &str) -> Result<Processor> {
        let (name, rest) = spec.split_once(':').unwrap_or((spec, ""));
        let Some(&(name, _, keys)) = Processor::MODELS.iter().find(|(known, ..)| *known == name) else {
            let names = Processor::MODELS.map(|(name, ..)| name);
            let what =
                format!("no compute model '{}'{}; known: {}", clip(name), nearest(name, names), names.join(", "));
            return Err(Error::new(Code::UnknownName, what));
        };
        let options = Options::parse(name, rest, keys)?;
        Ok(match name {
            "systolic" => Processor::Systolic(SystolicArray {
                rows: options.count("rows", 256, 1 << 16)?,
                columns: options.count("cols", 256, 1 << 16)?,
                elements: options.count("pes", 16, 1 << 20)?,
                dataflow: options.get("dataflow").map_or(Ok(Dataflow::default()), Dataflow::parse)?,
                clock_ps: (1000.0 / options.number("clock-ghz", 1.0, 1e-3, 1e3)?).round() as Picos,
            }),
            "roofline" => Processor::Roofline(Roofline {
                flops: (options.number("tflops", 100.0, 1e-3, 1e6)? * 1e12).round() as u64,
                flops_permille: (options.number("efficiency", 0.6, 1e-3, 1.0)? * 1e3).round() as u32,
                memory_rate: Rate((options.number("gb-per-s", 1000.0, 1e-3, 1e6)? * 1e9).round() as u64),
                memory_permille: (options.number("memory-efficiency", 0.75, 1e-3, 1.0)? * 1e3).round() as u32,
                element_bytes: options.count("element-bytes", 2, 64)?,
            }),
            _ => Processor::Measured,
        })
    }

    /// The specification that [`Processor::parse`] reads.
    pub fn spec(&self) -> String {
        match self {
            Processor::Systolic(array) => format!(
                "systolic:rows={},cols={},pes={},dataflow={},clock-ghz={}",
                array.rows,
                array.columns,
                array.elements,
                array.dataflow.name(),
                1000.0 / array.clock_ps as f64
            ),
            Processor::Roofline(roofline) => format!(
                "roofline:tflops={},efficiency={},gb-per-s={},memory-efficiency={},element-bytes={}",
                roofline.flops as f64 / 1e12,
                f64::from(roofline.flops_permille) / 1e3,
                roofline.memory_rate.as_gb_per_s(),
                f64::from(roofline.memory_permille) / 1e3,
                roofline.element_bytes
            ),
            Processor::Measured => "measured".into(),
        }
    }

    /// Samples a rank works on in an iteration unless the user says: one for each PE, 32 elsewhere.
    pub fn default_batch(&self) -> u64 {
        match self {
            Processor::Systolic(array) => u64::from(array.elements),
            Processor::Roofline(_) | Processor::Measured => 32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_round_trip() {
        for spec in
            ["systolic", "systolic:rows=16,cols=32,dataflow=ws", "roofline:tflops=15.7,element-bytes=4", "measured"]
        {
            let processor = Processor::parse(spec).unwrap();
            assert_eq!(Processor::parse(&processor.spec()).unwrap(), processor);
        }
    }

    #[test]
    fn mistakes_are_named() {
        let message = |spec| Processor::parse(spec).unwrap_err().message;
        assert!(message("systolc").contains("did you mean 'systolic'"));
        assert!(message("systolic:rows=0").contains("rows=0"));
        assert!(message("systolic:row=3").contains("did you mean 'rows'"));
        assert!(message("roofline:efficiency=1.5").contains("efficiency=1.5"));
        assert!(message("roofline:tflops=nan").contains("tflops=nan"));
        assert!(message("measured:rows=3").contains("it has none"));
    }
}
