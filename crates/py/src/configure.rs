//! Configurations of fabrics.

use crate::convert::{Fit, Int, OwnText, Size, Table, Text, nanos, raise, record};
use crate::heartbeat::run_with_progress;
use crate::operations::{SystemLike, collective, generic};
use crate::schedule::Schedule;
use antiphon_base::parameter::Choice;
use antiphon_base::units::parse_time;
use antiphon_model::fabric::aries::{Attached, Side};
use antiphon_plan::configure::{self as core, ConfiguredWork, Effort, Method, Reconfigurable};
use antiphon_sim::Fidelity;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A `Configured`: the configuration of a fabric that makes a collective by one of `algorithms`, or the messages of
/// `schedule`, fastest, found in at most `steps` simulations; with
/// changes between phases that take `switch` if there is one. `progress` is called with the share of them, 0 to 1.
///
/// Raises AntiphonError: `not-applicable` for a fabric that cannot be configured, or if no algorithm applies; as `build`
/// and `simulate`.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
#[pyo3(signature = (fabric, algorithms, collective = Text("all-reduce"), bytes = Size(64 << 20), system = generic(), root = Int::from(0), schedule = None, fidelity = Text("packet"), method = Text("search"), switch = None, steps = Fit(400), progress = None),
       text_signature = "(fabric, algorithms, collective='all-reduce', bytes='64MiB', system='generic', root=0, schedule=None, fidelity='packet', method='search', switch=None, steps=400, progress=None)")]
pub fn configure<'py>(
    py: Python<'py>,
    fabric: Text<'_>,
    algorithms: Vec<OwnText>,
    collective: Text<'_>,
    bytes: Size,
    system: SystemLike,
    root: Int,
    schedule: Option<&Schedule>,
    fidelity: Text<'_>,
    method: Text<'_>,
    switch: Option<Text<'_>>,
    steps: Fit<u32>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (reconfigurable, system) = (Reconfigurable::parse(fabric.0).map_err(raise)?, system.get()?);
    let level = Fidelity::parse(fidelity.0).map_err(raise)?;
    let method = Method::parse(method.0).map_err(raise)?;
    let switching_ps = switch.map(|time| parse_time(&time)).transpose().map_err(raise)?;
    let effort = Effort { method, switching_ps, steps: steps.0 };
    let collective = self::collective(collective.0, root, &reconfigurable.mesh)?;
    let algorithms: Vec<String> = algorithms.into_iter().map(|name| name.0).collect();
    let work = match schedule {
        Some(schedule) => ConfiguredWork::Schedule(&schedule.0),
        None => ConfiguredWork::Collective { collective, bytes: bytes.0, algorithms: &algorithms },
    };
    let found = run_with_progress(py, progress, |heartbeat| {
        core::configure(&reconfigurable, &system, &work, level, effort, heartbeat)
    })?;
    let configured = found.fabric.name.clone();
    record!(py, "Configured", {
        fabric: configured,
        algorithm: found.schedule.algorithm.clone(),
        collective: found.schedule.collective.kind.name(),
        bytes: found.schedule.bytes,
        system: &system.name,
        fidelity: fidelity.0,
        time_ns: nanos(found.time_ps),
        given_ns: found.given_ps.map(nanos),
        bound_ns: nanos(found.bound.0),
        binding: found.bound.1,
        simulated: found.simulated,
        changes: found.changes,
        ended: found.ended,
        schedule: Schedule::from(found.schedule),
    })
}

/// A dictionary of numpy arrays, one entry a port of every router: what it attaches.
pub fn ports<'py>(py: Python<'py>, fabric: &antiphon_model::fabric::Fabric) -> PyResult<Bound<'py, PyDict>> {
    let mut rows = vec![];
    for (number, configuration) in (0u32..).zip(fabric.configured.iter().flat_map(|all| &all.configurations)) {
        let aries = &fabric.configured.as_ref().expect("it has configurations").aries;
        let [out, into] = configuration.ports(aries).map_err(raise)?;
        for (router, sides) in (0u32..).zip(out.iter().zip(&into)) {
            for (port, side) in Side::ALL.into_iter().enumerate() {
                rows.push((number, router, side.name(), sides.0[port], sides.1[port]));
            }
        }
    }
    let text = |attached: Option<Attached>| match attached {
        None => String::new(),
        Some(Attached::Mesh) => "mesh".into(),
        Some(Attached::Bypass(segment)) => format!("{} {segment}", segment.name()),
    };
    let table = Table::new(py)
        .column("configuration", rows.iter().map(|row| i64::from(row.0)))?
        .column("router", rows.iter().map(|row| i64::from(row.1)))?
        .text("port", rows.iter().map(|row| row.2.clone()))?
        .text("output", rows.iter().map(|row| text(row.3)))?
        .text("input", rows.iter().map(|row| text(row.4)))?;
    Ok(table.0)
}
