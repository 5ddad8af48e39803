//! Compute models: how long a rank works on a layer.

mod contention;
mod measured;
mod roofline;
mod systolic;

use crate::workload::{Passes, Work, Workload};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Picos;
use antiphon_model::system::Processor;
pub use contention::{Contention, times_beside};
use measured::Measured;
pub use roofline::roofline_time;

/// Longest time that all layers of a workload may take together: about 11 days. Larger figures are
/// typing mistakes, and the limit keeps sums of times inside 64-bit arithmetic.
pub const MAX_TIME: Picos = 1_000_000_000_000_000_000;

const TOO_LONG: &str = "takes more than 11 days; check its size, the batch and the processor";

/// Times of the three passes over a layer, or in one phrase why a model cannot time it and what to do
/// instead.
pub type LayerTimes<T = Passes<Picos>> = std::result::Result<T, &'static str>;

/// A time, unless it is past [`MAX_TIME`].
fn refused(picos: u128) -> LayerTimes<Picos> {
    if picos <= u128::from(MAX_TIME) { Ok(picos as Picos) } else { Err(TOO_LONG) }
}

/// A compute model: closed forms, so that one layer takes well under a microsecond to time.
pub trait Compute {
    /// Times of the three passes over a layer with `params` weights, for `batch` samples on one rank.
    /// O(1).
    ///
    /// # Errors
    /// If this model cannot time such work, or the time is past [`MAX_TIME`].
    fn passes(&self, work: &Work, params: u64, batch: u64) -> LayerTimes;

    /// Time a rank takes to add up the gradients of `params` weights that its own processing elements
    /// computed; saturates. O(1).
    fn aggregation(&self, params: u64) -> Picos {
        let _ = params;
        0
    }
}

fn model(processor: &Processor) -> &dyn Compute {
    match processor {
        Processor::Systolic(array) => array,
        Processor::Roofline(roofline) => roofline,
        Processor::Measured => &Measured,
    }
}

/// Times of the passes over every layer of `workload` for `batch` samples on one rank, in picoseconds;
/// they and [`aggregation`] add up to at most [`MAX_TIME`]. Measured times are of the batch they were
/// measured with, whatever `batch` is. O(layers).
///
/// # Errors
/// [`Code::NotApplicable`] with the layer that `processor` cannot time and the compute model that can,
/// [`Code::BadSize`] for an empty batch, [`Code::TooLarge`] past [`MAX_TIME`].
pub fn layer_times(workload: &Workload, processor: &Processor, batch: u64) -> Result<Vec<Passes<Picos>>> {
    if batch == 0 {
        return Err(Error::new(Code::BadSize, "batch 0: a rank needs at least one sample"));
    }
    let model = model(processor);
    let mut total = model.aggregation(workload.params());
    let mut times = Vec::with_capacity(workload.layers.len());
    for (index, layer) in workload.layers.iter().enumerate() {
        let passes = match model.passes(&layer.work, layer.params, batch) {
            Ok(passes) => passes,
            Err(reason) => return workload.refuse(index, reason),
        };
        total = passes.0.iter().fold(total, |total, &time| total.saturating_add(time));
        times.push(passes);
    }
    if total > MAX_TIME {
        return Err(too_long(workload));
    }
    Ok(times)
}

/// The error for times past [`MAX_TIME`].
pub fn too_long(workload: &Workload) -> Error {
    Error::new(Code::TooLarge, format!("{}: an iteration {TOO_LONG}", workload.name))
}

/// Time a rank takes to add up the gradients of `params` weights that its own processing elements
/// computed, before they are exchanged with other ranks; saturates. O(1).
pub fn aggregation(params: u64, processor: &Processor) -> Picos {
    model(processor).aggregation(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPES: &str = "layer,ifmap_h,ifmap_w,filter_h,filter_w,channels,num_filters,stride\n";
    const TOTALS: &str = "layer,params,macs,input_elements,output_elements\n";
    const MEASURED: &str = "layer,fwd_compute_ns,fwd_comm,fwd_bytes,ig_compute_ns,ig_comm,ig_bytes,\
                            wg_compute_ns,wg_comm,wg_bytes\n";

    fn times(table: &str, processor: &str, batch: u64) -> Result<Vec<Passes<Picos>>> {
        let workload = Workload::from_csv("x.csv", table).unwrap();
        layer_times(&workload, &Processor::parse(processor).unwrap(), batch)
    }

    #[test]
    fn refusals_name_the_layer_and_the_model_that_fits() {
        let totals = format!("{TOTALS}a,1,1,1,1\nb,1,1,1,1\n");
        let error = times(&totals, "systolic", 16).unwrap_err();
        assert_eq!(error.code, Code::NotApplicable);
        assert!(error.message.starts_with("x.csv: layer 0 ('a') "), "{error}");
        assert!(error.message.contains("--compute roofline"), "{error}");
        let shapes = format!("{SHAPES}a,8,8,3,3,1,1,1\n");
        assert!(times(&shapes, "measured", 16).unwrap_err().message.contains("--compute systolic"));
        let measured = format!("{MEASURED}a,1,NONE,0,2,NONE,0,3,NONE,0\n");
        for processor in ["systolic", "roofline"] {
            let message = times(&measured, processor, 16).unwrap_err().message;
            assert!(message.contains("--compute measured"), "{message}");
        }
    }

    #[test]
    fn sizes_out_of_range_are_errors() {
        let totals = format!("{TOTALS}a,1,{},1,1\n", 1u64 << 50);
        assert_eq!(times(&totals, "roofline", 0).unwrap_err().code, Code::BadSize);
        assert_eq!(times(&totals, "roofline:tflops=0.001", u64::MAX).unwrap_err().code, Code::NotApplicable);
        // Each pass takes 5.2 days, which is not too long, but three are.
        assert_eq!(times(&totals, "roofline:tflops=0.005,efficiency=1", 1).unwrap_err().code, Code::TooLarge);
        let largest = format!("{SHAPES}a,16777216,16777216,16777216,16777216,1,4,1\n");
        for dataflow in ["os", "ws", "is"] {
            let processor = format!("systolic:rows=1,cols=1,pes=1,clock-ghz=0.001,dataflow={dataflow}");
            assert_eq!(times(&largest, &processor, u64::MAX).unwrap_err().code, Code::NotApplicable);
        }
    }

    #[test]
    fn every_preset_is_timed_by_the_model_that_fits() {
        for preset in &crate::workload::PRESETS {
            let workload = Workload::preset(preset.name).unwrap();
            let fitting = match workload.layers[0].work {
                Work::Convolution(_) => vec!["systolic", "roofline"],
                Work::Counts(_) => vec!["roofline"],
                Work::Measured(_) => vec!["measured"],
            };
            for spec in ["systolic", "roofline", "measured"] {
                let processor = Processor::parse(spec).unwrap();
                let times = layer_times(&workload, &processor, 16);
                assert_eq!(times.is_ok(), fitting.contains(&spec), "{}, {spec}: {times:?}", preset.name);
            }
        }
    }
}
