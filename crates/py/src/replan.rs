//! Schedules after a failure.

use crate::prelude::*;
use antiphon_plan::replan::replan as core_replan;
use std::time::Duration;

/// A `Replanned`: a schedule for what is left of a fabric when links or nodes have failed, from one for the intact fabric.
/// `progress` is called about ten times a second.
///
/// Raises AntiphonError: `not-applicable` for a schedule of another algorithm than `optimal`, of a group, or whose root has
/// failed; `not-proven` for one that is wrong; `bad-file` for one that is for another fabric; `bad-spec` for
/// failures that cannot be; as `build`.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (schedule, fabric, fail, system = "generic", progress = None) -> "Replanned")]
pub fn replan<'py>(
    py: Python<'py>,
    schedule: &Schedule,
    fabric: &Fabric,
    fail: Vec<OwnText>,
    system: SystemLike,
    progress: Option<Progress>,
) -> PyResult<Bound<'py, PyAny>> {
    let (schedule, fabric, system) = (&schedule.0, &fabric.0, system.get()?);
    let failures: Vec<&str> = fail.iter().map(|failure| failure.0.as_str()).collect();
    let found = run_watched(py, progress, |watch| core_replan(fabric, &system, schedule, &failures, watch))?;
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    record!(py, "Replanned", {
        ..(found.rebuilt): kept, mended;
        fabric: Fabric(found.fabric.into()),
        schedule: Schedule::from(found.rebuilt.schedule),
        share_of_optimum: f64::from(found.certified.share_ppm) / 1e6,
        certified_ns: nanos(found.certified.least_ps),
        certified_before_ns: found.certified_before.map(|before| nanos(before.least_ps)),
        planning_ms: milliseconds(found.rebuilt.planning),
        lowering_ms: milliseconds(found.rebuilt.lowering),
        proof_ms: milliseconds(found.proving),
    })
}
