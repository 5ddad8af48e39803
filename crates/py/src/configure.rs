//! Configurations of fabrics.

use crate::operations::collective;
use crate::prelude::*;
use antiphon_base::units::parse_time;
use antiphon_model::fabric::aries::{Attached, Side};
use antiphon_plan::configure::{self as core, ConfiguredWork, Effort, Method, Reconfigurable};
use antiphon_sim::Fidelity;

/// A `Configured`: the configuration of a fabric that makes a collective by one of `algorithms`, or the messages of
/// `schedule`, fastest, found in at most `steps` simulations; with
/// changes between phases that take `switch` if there is one. `progress` is called with the share of them, 0 to 1.
///
/// Raises AntiphonError: `not-applicable` for a fabric that cannot be configured, or if no algorithm applies; as `build`
/// and `simulate`.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (fabric, algorithms, collective = "all-reduce", bytes = "64MiB", system = "generic", root = 0, schedule = None, fidelity = "packet", method = "search", switch = None, steps = 400, progress = None) -> "Configured")]
pub fn configure<'py>(
    py: Python<'py>,
    fabric: Text<'_>,
    algorithms: Vec<OwnText>,
    collective: Text<'_>,
    bytes: Size,
    system: SystemLike,
    root: Int,
    schedule: Option<&Schedule>,
    fidelity: Named<Fidelity>,
    method: Named<Method>,
    switch: Option<Text<'_>>,
    steps: Fit<u32>,
    progress: Option<Progress>,
) -> PyResult<Bound<'py, PyAny>> {
    let (reconfigurable, system) = (Reconfigurable::parse(fabric.0).map_err(raise)?, system.get()?);
    let switching_ps = switch.map(|time| parse_time(&time)).transpose().map_err(raise)?;
    let effort = Effort { method: method.0, switching_ps, steps: steps.0 };
    let collective = self::collective(collective.0, root, &reconfigurable.mesh)?;
    let algorithms: Vec<String> = algorithms.into_iter().map(|name| name.0).collect();
    let work = match schedule {
        Some(schedule) => ConfiguredWork::Schedule(&schedule.0),
        None => ConfiguredWork::Collective { collective, bytes: bytes.0, algorithms: &algorithms },
    };
    let found = run_with_progress(py, progress, |heartbeat| {
        core::configure(&reconfigurable, &system, &work, fidelity.0, effort, heartbeat)
    })?;
    let configured = found.fabric.name.clone();
    record!(py, "Configured", {
        ..(found.schedule): algorithm, bytes;
        ..found: time_ns, given_ns, simulated, changes, ended;
        fabric: configured,
        collective: found.schedule.collective.kind.name(),
        system: &system.name,
        fidelity: fidelity.0.name(),
        bound_ns: nanos(found.bound.0),
        binding: found.bound.1,
        schedule: Schedule::from(found.schedule),
    })
}

/// A dictionary of numpy arrays, one entry a port of every router: what it attaches.
pub fn ports<'py>(py: Python<'py>, fabric: &antiphon_model::fabric::Fabric) -> PyResult<Table<'py>> {
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
    table!(py, row in rows.iter(), {
        configuration: i64::from(row.0),
        router: i64::from(row.1),
        port: row.2.clone(),
        output: text(row.3),
        input: text(row.4),
    })
}
