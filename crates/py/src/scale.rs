//! Collectives on more ranks than a schedule lists.

use crate::prelude::*;
use antiphon_model::collective::Kind;
use antiphon_model::energy::joules;
use antiphon_scale::at_scale as core_at_scale;
use antiphon_sim::Fidelity;

/// An `AtScale`: a collective by each of `algorithms`, or by all that apply, on `fabric`, or on that of the specification `name`
/// if it is too large for one. `progress` is called with the share done, 0 to 1, of each algorithm.
///
/// Raises AntiphonError: `not-applicable` or another code if no algorithm applies, with the first reason; `unknown-name` and
/// `bad-size` for wrong arguments.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (name, fabric, bytes, collective, algorithms, system = "generic", fidelity = "packet", progress = None) -> "AtScale")]
pub fn at_scale<'py>(
    py: Python<'py>,
    name: Text<'_>,
    fabric: Option<&Fabric>,
    bytes: Size,
    collective: Text<'_>,
    algorithms: Vec<OwnText>,
    system: SystemLike,
    fidelity: Named<Fidelity>,
    progress: Option<Progress>,
) -> PyResult<Bound<'py, PyAny>> {
    let (kind, system) = (Kind::parse(collective.0).map_err(raise)?, system.get()?);
    let algorithms: Vec<String> = algorithms.into_iter().map(|name| name.0).collect();
    let (name, fabric) = (name.0, fabric.map(|fabric| &*fabric.0));
    let found = run_watched(py, progress, |watch| {
        core_at_scale((name, fabric), &system, (kind, bytes.0), &algorithms, fidelity.0, watch)
    })?;
    let runs = table!(py, run in found.runs.iter(), {
        algorithm: run.algorithm.clone(),
        time_ns: nanos(run.time_ps),
        bound_ns: nanos(run.bound_ps),
        binding: run.binding,
        efficiency: run.bound_ps as f64 / run.time_ps.max(1) as f64,
        algorithm_bandwidth_gb_per_s: bytes.0 as f64 / nanos(run.time_ps),
        messages: u64::try_from(run.messages).unwrap_or(u64::MAX),
        dynamic_j: joules(run.dynamic),
        in_place: run.in_place(),
        proof: run.proof.clone(),
    })?;
    let refused = table!(py, refused in found.refused.iter(), {
        algorithm: refused.0.clone(),
        reason: refused.1.message.clone(),
        code: refused.1.code.as_str(),
    })?;
    record!(py, "AtScale", {
        fabric: name,
        ranks: found.ranks,
        collective: kind.name(),
        bytes: bytes.0,
        system: &system.name,
        fidelity: fidelity.0.name(),
        runs: runs,
        refused: refused,
    })
}
