//! `antiphon.advise_trees`.

use crate::prelude::*;
use antiphon_base::units::{Rate, parse_time};
use antiphon_plan::closed_form::{StepCost, height, ways};

/// A `TreesAdvice`: ring, tree and overlapped tree for an AllReduce of `bytes` bytes over 2 to 2^20 `ranks`, times in
/// ns, by the cost model of C-Cube (HPCA 2023, Eqs. 2, 5 and 7). `latency` is that of a step, with a unit; `gb_per_s`
/// the rate of a link, 1e9 bytes per second each way.
///
/// >>> advise_trees(64, "1MiB").ranks
/// 64
///
/// Raises AntiphonError: `bad-size`; `too-large` where a time is.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (ranks, bytes, latency = "12.4us", gb_per_s = 25.0) -> "TreesAdvice")]
pub fn advise_trees<'py>(
    py: Python<'py>,
    ranks: Int,
    bytes: Size,
    latency: Text<'_>,
    gb_per_s: Number,
) -> PyResult<Bound<'py, PyAny>> {
    let gb_per_s = gb_per_s.0;
    if !(1e-9..=1e6).contains(&gb_per_s) {
        let what = format!("bandwidth is {gb_per_s} GB/s; expected 1e-9 to 1e6");
        return Err(raise(Error::new(Code::BadSize, what)));
    }
    let step =
        StepCost { latency_ps: parse_time(latency.0).map_err(raise)?, rate: Rate((gb_per_s * 1e9).round() as u64) };
    let ranks: u32 = ranks.get("ranks")?;
    let ways = ways(ranks, bytes.0, step).map_err(raise)?;
    let rows = ways.iter();
    let table = table!(py, way in rows.clone(), {
        name: way.name,
        trees, chunks, steps, time_ns,
        formula_ns: way.formula_ps / 1e3,
        first_chunk_ns,
        ring_faster_from_bytes: way.ring_faster.map_or(0, |sizes| sizes.0),
        ring_faster_to_bytes: way.ring_faster.map_or(0, |sizes| sizes.1),
    })?;
    record!(py, "TreesAdvice", {
        ..step: latency_ns;
        ranks: ranks,
        bytes: bytes.0,
        bandwidth_gb_per_s: step.rate.as_gb_per_s(),
        height: height(ranks),
        ways: table,
    })
}
