//! What is known of an accelerator and of the software on it: files of constants, and what was fitted in them.

use antiphon_base::error::{Code, Error, Result, nearest};
use antiphon_base::units::clip;
use serde::{Deserialize, Serialize};

/// What is known of an accelerator and of the software on it. Fitted values are named in the file, with what they were
/// fitted on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constants {
    /// Its name.
    pub name: String,
    /// Operations a second of products in 16 bits, in 10^12.
    pub tflops: f64,
    /// The same in 8 bits; as in 16 where it has none.
    pub fp8_tflops: Option<f64>,
    /// Bytes a second of its memory that programs reach, in 10^9.
    pub memory_gb_per_s: f64,
    /// Its memory.
    pub memory_gib: f64,
    /// Power of one accelerator with its share of a box, at work.
    pub power_w: f64,
    /// Share of the peak that a product without end reaches.
    pub product_efficiency: f64,
    /// Operations of a product that reaches half of that share, in 10^9: a product of f operations takes as long as f and
    /// these at the full share.
    pub product_half_gflop: f64,
    /// Efficiency of core attention, in shares of `product_efficiency`.
    pub attention_share: f64,
    /// Least time of a layer and micro batch, forward and backward together, in ms: the host starts its kernels.
    pub host_ms: f64,
    /// Bytes that the optimizer reads and writes for each parameter it updates.
    pub optimizer_bytes: f64,
    /// Measured AllReduces inside a box: ranks, bytes and seconds of each, sizes ascending.
    #[serde(default)]
    pub all_reduces: Vec<(u32, f64, f64)>,
    /// What steps of a table take that its columns do not say.
    #[serde(default)]
    pub rows: Option<RowDefaults>,
    /// What was fitted, on what.
    #[serde(default)]
    pub fitted: Vec<String>,
    /// Where the other values come from.
    #[serde(default)]
    pub sources: Vec<String>,
}

/// What steps of a table take that its columns do not say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowDefaults {
    /// The fabric, `{boxes}` standing for how many boxes the row's GPUs fill.
    pub fabric: String,
    /// GPUs of a box.
    pub gpus_per_box: u32,
    /// Options of the plan.
    pub plan: String,
    /// Words of a model that is given by numbers.
    #[serde(default)]
    pub vocab: Option<u64>,
}

macro_rules! presets {
    ($($name:literal),*) => {
        /// Names and files of known constants, in documentation order.
        const PRESETS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../data/llm/constants/", $name, ".json")))),*];
    };
}

presets!("a100", "h100", "h200", "b200", "gb200", "gb10", "megatron-a100", "llama3-h100");

impl Constants {
    /// All constants that are known by name.
    pub fn presets() -> Vec<Constants> {
        PRESETS.iter().map(|(name, text)| Constants::from_json(name, text).expect("presets are valid")).collect()
    }

    /// Constants by name.
    ///
    /// # Errors
    /// [`Code::UnknownName`], listing those there are.
    pub fn preset(name: &str) -> Result<Constants> {
        let known = || PRESETS.iter().map(|(name, _)| *name);
        match PRESETS.iter().find(|(preset, _)| *preset == name) {
            Some((name, text)) => Constants::from_json(name, text),
            None => {
                let (hint, list) = (nearest(name, known()), known().collect::<Vec<_>>().join(", "));
                let what = format!("no constants '{}'{hint}; known: {list}, or a file", clip(name));
                Err(Error::new(Code::UnknownName, what))
            }
        }
    }

    /// Constants of a file's text; `file` names it in errors.
    ///
    /// # Errors
    /// [`Code::BadFile`] for what is no JSON of this form, and for values outside their ranges.
    pub fn from_json(file: &str, text: &str) -> Result<Constants> {
        let bad = |what: String| Error::new(Code::BadFile, format!("constants {}: {what}", clip(file)));
        let read: Constants = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
        let fp8 = read.fp8_tflops.unwrap_or(read.tflops);
        let above = |value: f64, most: f64| value > 0.0 && value <= most;
        let within = |value: f64, most: f64| (1e-3..=most).contains(&value);
        let checks = [
            ("tflops", within(read.tflops, 1e9), "from 0.001 to 10^9"),
            ("fp8_tflops", within(fp8, 1e9), "from 0.001 to 10^9"),
            ("memory_gb_per_s", within(read.memory_gb_per_s, 1e9), "from 0.001 to 10^9"),
            ("memory_gib", within(read.memory_gib, 1e9), "from 0.001 to 10^9"),
            ("power_w", within(read.power_w, 1e9), "from 0.001 to 10^9"),
            ("product_efficiency", within(read.product_efficiency, 1.5), "from 0.001 to 1.5"),
            ("product_half_gflop", (0.0..=1e9).contains(&read.product_half_gflop), "from 0 to 10^9"),
            ("attention_share", within(read.attention_share, 10.0), "from 0.001 to 10"),
            ("host_ms", (0.0..=1e6).contains(&read.host_ms), "from 0 to 10^6"),
            ("optimizer_bytes", (0.0..=1e4).contains(&read.optimizer_bytes), "from 0 to 10^4"),
        ];
        if let Some((key, _, range)) = checks.iter().find(|(_, is_good, _)| !is_good) {
            return Err(bad(format!("{key} must be {range}")));
        }
        let ascending = |pair: &[(u32, f64, f64)]| pair[0].0 != pair[1].0 || pair[0].1 < pair[1].1;
        let positive = |each: &(u32, f64, f64)| each.0 > 1 && above(each.1, 1e18) && above(each.2, 1e9);
        if !read.all_reduces.windows(2).all(ascending) || !read.all_reduces.iter().all(positive) {
            return Err(bad("all_reduces has ranks (from 2), bytes and seconds above 0, sizes ascending".into()));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_read_and_errors_name_the_key() {
        assert_eq!(Constants::presets().len(), PRESETS.len());
        let text = PRESETS[0].1;
        let wrong = serde_json::to_string(&Constants { tflops: -1.0, ..Constants::preset("a100").unwrap() }).unwrap();
        let error = Constants::from_json("x.json", &wrong).unwrap_err().to_string();
        assert_eq!(error, "constants x.json: tflops must be from 0.001 to 10^9 [bad-file]");
        let error = Constants::from_json("x.json", &text.replace("host_ms", "host")).unwrap_err().to_string();
        assert!(error.contains("unknown field `host`"), "{error}");
        assert!(Constants::preset("h1000").unwrap_err().to_string().contains("h100"));
    }
}
