//! What computation lacks while something is communicated: memory bandwidth and processors (ACE, ISCA 2021, sections III
//! and VI).

use super::{LayerTimes, layer_times, refused};
use crate::workload::{Passes, Workload};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::parameter::Choice;
use antiphon_base::units::{Picos, Rate};
use antiphon_model::system::{Left, Processor, Roofline, SystolicArray};
use std::fmt::Display;

/// When computation lacks what communication takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Contention {
    /// While an exchange is under way.
    #[default]
    Dynamic,
    /// Always: resources are divided once and for all, as in Table VI of the paper.
    Static,
}

impl Choice for Contention {
    const WHAT: &'static str = "contention";
    const ALL: &'static [(&'static str, Self)] = &[("dynamic", Contention::Dynamic), ("static", Contention::Static)];
}

/// Times of every layer beside communication `by` something that leaves so much, of which `times` are those alone. `memory_bound` is the
/// share of measured times, in thousandths, that memory bandwidth decides; the processors decide the rest.
///
/// # Errors
/// As [`layer_times`]; [`Code::NotApplicable`] for measured times of which that share is not known, and where nothing
/// is left.
pub fn times_beside(
    workload: &Workload,
    processor: &Processor,
    batch: u64,
    times: &[Passes<Picos>],
    (left, by): (Left, &dyn Display),
    memory_bound: Option<u32>,
) -> Result<Vec<Passes<Picos>>> {
    let Left { memory, processors } = left;
    if memory.0 == memory.1 && processors.0 == processors.1 {
        return Ok(times.to_vec());
    }
    if memory.0 == 0 || processors.0 == 0 {
        let what = format!("{by} leaves nothing to compute with; exchange after the backward pass only");
        return Err(Error::new(Code::NotApplicable, what));
    }
    let slower = |time: Picos, (numerator, denominator): (u128, u128)| -> LayerTimes<Picos> {
        refused((u128::from(time) * numerator).div_ceil(denominator))
    };
    let scaled = |factor: (u128, u128)| {
        let of = |passes: &Passes<Picos>| {
            let [forward, input, weight] = passes.0.map(|time| slower(time, factor));
            Ok(Passes([forward?, input?, weight?]))
        };
        let each = times.iter().map(of).enumerate();
        each.map(|(index, passes)| passes.or_else(|why: &str| workload.refuse(index, why))).collect()
    };
    match processor {
        Processor::Roofline(roofline) => {
            layer_times(workload, &Processor::Roofline(roofline_of(roofline, left)), batch)
        }
        // Its memory is ideal.
        Processor::Systolic(SystolicArray { .. }) => scaled((processors.1.into(), processors.0.into())),
        Processor::Measured => {
            // Where as much less is left of both, it does not matter which decides.
            let alike = (memory == processors).then_some(0);
            let Some(share) = memory_bound.or(alike).map(u128::from) else {
                let what = format!(
                    "{}: how much of the table's times memory decides is not known, and {by} takes a part of what computes; give \
                     memory_bound, 0 to 1",
                    workload.name
                );
                return Err(Error::new(Code::NotApplicable, what));
            };
            let [mn, md, pn, pd] = [memory.0, memory.1, processors.0, processors.1].map(u128::from);
            scaled((share * md * pn + (1000 - share) * pd * mn, 1000 * mn * pn))
        }
    }
}

/// What is left of a roofline.
fn roofline_of(roofline: &Roofline, left: Left) -> Roofline {
    let part = |all: u64, (numerator, denominator): (u64, u64)| {
        (u128::from(all) * u128::from(numerator) / u128::from(denominator)).max(1) as u64
    };
    Roofline {
        flops: part(roofline.flops, left.processors),
        memory_rate: Rate(part(roofline.memory_rate.0, left.memory)),
        ..*roofline
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_model::system::Endpoint;

    fn beside(table: &str, processor: &str, endpoint: &str, share: Option<u32>) -> Result<[Picos; 3]> {
        let workload = Workload::from_csv("x.csv", table)?;
        let processor = Processor::parse(processor)?;
        let times = layer_times(&workload, &processor, 1)?;
        let endpoint = Endpoint::parse(endpoint)?;
        Ok(times_beside(&workload, &processor, 1, &times, (endpoint.left(), &"it"), share)?[0].0)
    }

    const MEASURED: &str = "layer,fwd_compute_ns,fwd_comm,fwd_bytes,ig_compute_ns,ig_comm,ig_bytes,wg_compute_ns,wg_comm,wg_bytes\n\
                            a,100,NONE,0,200,NONE,0,0,NONE,0\n";

    /// ACE (ISCA 2021), Table VI: 450 of 900 GB/s and 74 of 80 processors are left.
    #[test]
    fn measured_times_are_divided_between_memory_and_processors() {
        let commopt = "ace-baseline-commopt";
        assert_eq!(beside(MEASURED, "measured", commopt, Some(1000)).unwrap(), [200_000, 400_000, 0]);
        assert_eq!(beside(MEASURED, "measured", commopt, Some(0)).unwrap(), [108_109, 216_217, 0]);
        assert_eq!(beside(MEASURED, "measured", commopt, Some(500)).unwrap(), [154_055, 308_109, 0]);
        assert_eq!(beside(MEASURED, "measured", "ideal", None).unwrap(), [100_000, 200_000, 0]);
        assert_eq!(beside(MEASURED, "measured", "npu:slowdown=1.35", None).unwrap(), [135_000, 270_000, 0]);
        assert!(beside(MEASURED, "measured", commopt, None).unwrap_err().message.contains("give memory_bound"));
        let all = beside(MEASURED, "measured", "ace-baseline-nooverlap", Some(500)).unwrap_err();
        assert!(all.message.contains("leaves nothing to compute with"));
    }

    /// A million operations at 1e12 a second take 1 us, 2000 bytes at 1e9 a second 2 us.
    #[test]
    fn a_roofline_has_what_is_left() {
        let table = "layer,params,macs,input_elements,output_elements\na,0,500000,1000,1000\n";
        let roofline = "roofline:tflops=1,efficiency=1,memory-efficiency=1,element-bytes=1,gb-per-s=";
        let half = "npu:memory_gb_per_s=450,sms=60";
        assert_eq!(beside(table, &format!("{roofline}1"), half, None).unwrap()[0], 4_000_000);
        assert_eq!(beside(table, &format!("{roofline}10"), half, None).unwrap()[0], 4_000_000);
        assert_eq!(
            beside(table, &format!("{roofline}10"), "npu:memory_gb_per_s=450,sms=40", None).unwrap()[0],
            2_000_000
        );
    }
}
