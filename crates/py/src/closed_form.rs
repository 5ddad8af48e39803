//! `antiphon.advise_trees`.

use crate::convert::{Int, Number, Size, Table, Text, nanos, raise, record};
use antiphon_base::error::{Code, Error};
use antiphon_base::units::{Rate, parse_time};
use antiphon_plan::closed_form::{StepCost, height, ways};
use pyo3::prelude::*;

/// A `TreesAdvice`: ring, tree and overlapped tree for an AllReduce of `bytes` bytes over 2 to 2^20 `ranks`, times in
/// ns, by the cost model of C-Cube (HPCA 2023, Eqs. 2, 5 and 7). `latency` is that of a step, with a unit; `gb_per_s`
/// the rate of a link, 1e9 bytes per second each way.
///
/// >>> advise_trees(64, "1MiB").ranks
/// 64
///
/// Raises AntiphonError: `bad-size`; `too-large` where a time is.
#[pyfunction]
#[pyo3(signature = (ranks, bytes, latency = Text("12.4us"), gb_per_s = Number(25.0)),
       text_signature = "(ranks, bytes, latency='12.4us', gb_per_s=25.0)")]
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
    let table = Table::new(py)
        .text("name", rows.clone().map(|way| way.name.into()))?
        .column("trees", rows.clone().map(|way| way.trees))?
        .column("chunks", rows.clone().map(|way| way.chunks))?
        .column("steps", rows.clone().map(|way| way.steps))?
        .column("time_ns", rows.clone().map(|way| nanos(way.time_ps)))?
        .column("formula_ns", rows.clone().map(|way| way.formula_ps / 1e3))?
        .column("first_chunk_ns", rows.clone().map(|way| nanos(way.first_chunk_ps)))?
        .column("ring_faster_from_bytes", rows.clone().map(|way| way.ring_faster.map_or(0, |sizes| sizes.0)))?
        .column("ring_faster_to_bytes", rows.map(|way| way.ring_faster.map_or(0, |sizes| sizes.1)))?;
    record!(py, "TreesAdvice", {
        ranks: ranks,
        bytes: bytes.0,
        latency_ns: nanos(step.latency_ps),
        bandwidth_gb_per_s: step.rate.as_gb_per_s(),
        height: height(ranks),
        ways: table.0,
    })
}
