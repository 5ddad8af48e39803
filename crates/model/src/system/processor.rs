//! What computes on one rank: the parameters of a compute model.

use antiphon_base::error::{Code, Error, Result, nearest};
use antiphon_base::options::parse_options;
use antiphon_base::parameter::{Choice, Domain, Field, Listed, Stored, StoredScale, Value, parameters};
use antiphon_base::units::{Picos, Rate, clip};
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

parameters! {
    /// Processing elements (PEs) that are systolic arrays; each works on samples of its own.
    #[derive(Copy)]
    pub struct SystolicArray of SystolicArray[] {
        /// Rows of multipliers in a PE.
        #[parameter("rows", Domain::count(1, 1 << 16, ""), "SCALE-Sim: ArrayHeight")]
        pub rows: u32 = 256,
        /// Columns of multipliers in a PE.
        #[parameter("cols", Domain::count(1, 1 << 16, ""), "SCALE-Sim: ArrayWidth")]
        pub columns: u32 = 256,
        /// PEs of a rank, each with samples of its own.
        #[parameter("pes", Domain::count(1, 1 << 20, ""), "TTO (HPCA 2024), Table II")]
        pub elements: u32 = 16,
        /// What stays in the array: outputs (os), weights (ws) or inputs (is).
        #[parameter("dataflow", Domain::Choice(Dataflow::NAMES), "SCALE-Sim: Dataflow")]
        pub dataflow: Dataflow = Dataflow::OutputStationary,
        /// Clock of the array.
        #[parameter("clock-ghz", CLOCK, "TTO (HPCA 2024), Table II")]
        pub clock_ps: Picos = 1_000,
    }
}

parameters! {
    /// A processor that is limited either by arithmetic or by memory bandwidth.
    #[derive(Copy)]
    pub struct Roofline of Roofline[] {
        /// Peak arithmetic, in 1e12 floating-point operations per second; a multiply-add is two.
        #[parameter("tflops", PEAK, "Roofline: Williams et al., CACM 2009")]
        pub flops: u64 = 100_000_000_000_000,
        /// Share of the peak that is reached.
        #[parameter("efficiency", SHARE, "Roofline: Williams et al., CACM 2009")]
        pub flops_permille: u32 = 600,
        /// Peak memory bandwidth.
        #[parameter("gb-per-s", MEMORY, "Roofline: Williams et al., CACM 2009")]
        pub memory_rate: Rate = Rate::gb_per_s(1000),
        /// Share of the memory bandwidth that is reached.
        #[parameter("memory-efficiency", SHARE, "Roofline: Williams et al., CACM 2009")]
        pub memory_permille: u32 = 750,
        /// Bytes of one operand in memory.
        #[parameter("element-bytes", Domain::count(1, 64, "bytes"), "Roofline: Williams et al., CACM 2009")]
        pub element_bytes: u32 = 2,
    }
}

const fn number(least: f64, most: f64, unit: &'static str, scale: StoredScale) -> Domain {
    Domain::Number { least, most, unit, scale }
}

const CLOCK: Domain = number(1e-3, 1e3, "GHz", StoredScale::Per(1e3));
const PEAK: Domain = number(1e-3, 1e6, "TFLOP/s", StoredScale::Times(1e12));
const MEMORY: Domain = number(1e-3, 1e6, "GB/s", StoredScale::Times(1e9));
const SHARE: Domain = number(1e-3, 1.0, "", StoredScale::Times(1e3));

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

impl Default for Processor {
    fn default() -> Self {
        Processor::Roofline(Roofline::default())
    }
}

impl Stored for Processor {
    fn show(&self, _: &Domain) -> Value {
        Value::Text(self.spec())
    }

    fn read(value: &Value, _: &Domain) -> Self {
        Processor::parse(value.text()).expect("a specification is checked first")
    }
}

impl Processor {
    /// Values of the parameter `processor`.
    pub const SPEC: Domain =
        Domain::Spec { form: "MODEL[:KEY=VALUE,...]", check: |text| Processor::parse(text).map(|_| ()) };

    /// Every compute model with its default options, and what it is.
    pub fn models() -> [(Processor, &'static str); 3] {
        [
            (
                Processor::Systolic(SystolicArray::default()),
                "systolic arrays, one sample at a time in each; needs layer shapes",
            ),
            (
                Processor::Roofline(Roofline::default()),
                "the slower of arithmetic and memory; needs layer shapes or operation counts",
            ),
            (Processor::Measured, "the times in the workload's table"),
        ]
    }

    /// A compute model from `name[:key=value,...]`.
    ///
    /// # Errors
    /// [`Code::UnknownName`] with the nearest known name, [`Code::BadSpec`] for values.
    pub fn parse(spec: &str) -> Result<Processor> {
        let (name, rest) = spec.split_once(':').unwrap_or((spec, ""));
        let models = Processor::models().map(|(model, _)| model);
        let Some(model) = models.into_iter().find(|model| model.name() == name) else {
            let names = models.map(|model| model.name());
            let what =
                format!("no compute model '{}'{}; known: {}", clip(name), nearest(name, names), names.join(", "));
            return Err(Error::new(Code::UnknownName, what));
        };
        Ok(match model {
            Processor::Systolic(array) => {
                Processor::Systolic(configured(name, rest, array, SystolicArray::PARAMETERS)?)
            }
            Processor::Roofline(roofline) => {
                Processor::Roofline(configured(name, rest, roofline, Roofline::PARAMETERS)?)
            }
            Processor::Measured => configured(name, rest, model, &[])?,
        })
    }

    /// Name of the model.
    pub fn name(&self) -> &'static str {
        match self {
            Processor::Systolic(_) => "systolic",
            Processor::Roofline(_) => "roofline",
            Processor::Measured => "measured",
        }
    }

    /// Its options, with their values here for defaults.
    pub fn options(&self) -> Vec<Listed> {
        match self {
            Processor::Systolic(array) => SystolicArray::PARAMETERS.iter().map(|field| field.listed(array)).collect(),
            Processor::Roofline(roofline) => Roofline::PARAMETERS.iter().map(|field| field.listed(roofline)).collect(),
            Processor::Measured => vec![],
        }
    }

    /// The specification that [`Processor::parse`] reads.
    pub fn spec(&self) -> String {
        let given = |option: &Listed| format!("{}={}", option.parameter.key, option.default);
        let options: Vec<_> = self.options().iter().map(given).collect();
        if options.is_empty() { self.name().into() } else { format!("{}:{}", self.name(), options.join(",")) }
    }

    /// Samples a rank works on in an iteration unless the user says: one for each PE, 32 elsewhere.
    pub fn default_batch(&self) -> u64 {
        match self {
            Processor::Systolic(array) => u64::from(array.elements),
            Processor::Roofline(_) | Processor::Measured => 32,
        }
    }
}

/// `model` with the options in `text`.
pub(super) fn configured<T>(name: &str, text: &str, mut model: T, fields: &'static [Field<T>]) -> Result<T> {
    for (option, value) in parse_options(name, text, fields.iter().map(|field| &field.parameter))? {
        let field = fields.iter().find(|field| field.parameter.key == option.key).expect("only these are known");
        field.set(&mut model, &value)?;
    }
    Ok(model)
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
