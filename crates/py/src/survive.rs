//! What throughput failures leave.

use crate::operations::collective;
use crate::prelude::*;
use antiphon_plan::survive::{
    Component, FailedNode, FailureCase, FailureModel, ShareLeft, SurvivalRequest, survive as core_survive,
};

/// What a component, or several, leave: their names, nodes, and shares.
fn shares<'py, 'a>(
    py: Python<'py>,
    components: &'a [Component],
    cases: impl Iterator<Item = &'a FailureCase> + Clone,
) -> PyResult<Table<'py>> {
    let name = |case: &FailureCase| {
        let names: Vec<&str> = case.failed.iter().map(|&at| components[at].name.as_str()).collect();
        names.join(",")
    };
    let stopped = |left: &ShareLeft| left.stopped.map_or("", |stopped| stopped.as_str()).to_string();
    table!(py, case in cases.clone(), {
        name: name(case),
        share: case.left.share,
        certified: case.left.certified,
        stopped: stopped(&case.left),
    })
}

/// A `Survival`: what throughput of a collective failures leave on a fabric, each between a plan that reaches it and prices that
/// nothing beats. `progress` is called about ten times a second with the share of the failures that are planned.
///
/// Raises AntiphonError: `bad-spec` or `bad-size` for mistakes in the arguments; `not-applicable` for a fabric that changes between
/// phases; `too-large`.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (fabric, fail = "1", collective = "all-reduce", root = 0, system = "generic", nodes = "dead", target = 0.9, draws = 200, seed = 0, progress = None) -> "Survival")]
pub fn survive<'py>(
    py: Python<'py>,
    fabric: &Fabric,
    fail: Text<'_>,
    collective: Text<'_>,
    root: Int,
    system: SystemLike,
    nodes: Named<FailedNode>,
    target: Number,
    draws: Fit<usize>,
    seed: Fit<u64>,
    progress: Option<Progress>,
) -> PyResult<Bound<'py, PyAny>> {
    let (fabric, system) = (&fabric.0, system.get()?);
    let request = SurvivalRequest {
        collective: self::collective(collective.0, root, fabric)?,
        fails: FailureModel::parse(fail.0).map_err(raise)?,
        nodes: nodes.0,
        target: target.0,
        draws: draws.0,
        seed: seed.0,
    };
    let found = run_watched(py, progress, |watch| core_survive(fabric, &system, &request, watch))?;
    let components = &found.components;
    let ends = |case: &FailureCase| components[case.failed[0]].ends;
    let links = || found.singles.iter().filter(|case| ends(case).is_some());
    let failed_nodes = || found.singles.iter().filter(|case| ends(case).is_none());
    let is_several = matches!(request.fails, FailureModel::Pairs | FailureModel::Rate(_));
    let cases = if is_several { found.cases.as_slice() } else { &[] };
    let (mean, mean_certified) = found.mean();
    let worst = found.worst().map_or((0.0, 0.0), |worst| (worst.left.share, worst.left.certified));
    let from: Vec<u32> = links().filter_map(|case| ends(case).map(|ends| ends.0)).collect();
    let to: Vec<u32> = links().filter_map(|case| ends(case).map(|ends| ends.1)).collect();
    record!(py, "Survival", {
        ..found: planned;
        fabric: fabric.name.as_str(),
        system: &system.name,
        collective: request.collective.kind.name(),
        fail: fail.0,
        failed_nodes: nodes.0.name(),
        adders_left_out: fabric.computing_switches().next().is_some(),
        intact_gb_per_s: found.intact_rate * 1e3,
        counted: found.cases.len(),
        is_sample: found.is_sample,
        mean: mean,
        mean_certified: mean_certified,
        worst: worst.0,
        worst_certified: worst.1,
        target: request.target,
        chance: found.chance.chance,
        chance_low: found.chance.interval.0,
        chance_high: found.chance.interval.1,
        links: shares(py, components, links())?.column("from", from.into_iter())?.column("to", to.into_iter())?.0,
        nodes: shares(py, components, failed_nodes())?
            .column("node", failed_nodes().map(|case| components[case.failed[0]].node))?.0,
        cases: shares(py, components, cases.iter())?.0,
        spares: table!(py, spare in found.spares.iter(), {
            name: components[spare.component].name.clone(),
            gain: spare.gain,
            mean: spare.mean,
            worst: spare.worst,
        })?.0,
    })
}
