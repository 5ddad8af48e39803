//! Searches for the fastest plans of steps of large models.

use crate::llm::{ModelShape, WiringLike};
use crate::prelude::*;
use antiphon_llm::constants::Constants;
use antiphon_llm::parallel::GroupKind;
use antiphon_llm::search::{BestPlans, PlanSearch, RankedPlan};
use antiphon_llm::step::{StageTimes, StepWork};
use antiphon_model::system::Endpoint;
use pyo3::types::PyDict;
use std::cell::RefCell;

/// The share of a run after which the best plans are known, and what changes would do is not.
const SEARCHED: f64 = 0.7;

/// `BestPlans`: those of the fastest steps of `batch` sequences of a model on a fabric, with the constants of a JSON text,
/// among legal plans that have what `plan` says. Stages of more than `memory_bytes` are refused; 0 refuses none. `endpoint`
/// and `priorities` are as in `time_step`. `constants_file` names the text of the constants in errors. `progress` is called
/// with the share done, 0 to 1.
///
/// Raises AntiphonError: `bad-spec`, `unknown-name` or `bad-file` for inputs, `not-applicable` if no plan is legal or none
/// fits, `too-large`.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (model, fabric, plan, batch, constants, memory_bytes = 0, endpoint = "system", priorities = false, constants_file = "given", progress = None) -> "BestPlans")]
pub fn best_plans<'py>(
    py: Python<'py>,
    model: &ModelShape,
    fabric: WiringLike,
    plan: Text<'_>,
    batch: Fit<u64>,
    constants: Text<'_>,
    memory_bytes: Fit<u64>,
    endpoint: Text<'_>,
    priorities: bool,
    constants_file: Text<'_>,
    progress: Option<Progress>,
) -> PyResult<Bound<'py, PyAny>> {
    let model = &model.0;
    let (constants, found, changes, ranks) = run_with_progress(py, progress, |heartbeat| {
        let heartbeat = RefCell::new(heartbeat);
        let constants = Constants::from_json(constants_file.0, constants.0)?;
        let wiring = fabric.get()?;
        let search = PlanSearch {
            model,
            wiring: &*wiring,
            constants: &constants,
            endpoint: Endpoint::parse(endpoint.0)?,
            prioritized: priorities,
            batch: batch.0,
            given: plan.0,
            memory_bytes: if memory_bytes.0 > 0 { memory_bytes.0 } else { u64::MAX },
        };
        let found = search.run(Watch::new(&|share| (heartbeat.borrow_mut())(SEARCHED * share)))?;
        let rest = |share: f64| (heartbeat.borrow_mut())(SEARCHED + (1.0 - SEARCHED) * share);
        let changes = found.plans.first().map_or(Ok(vec![]), |best| search.changes(best, Watch::new(&rest)))?;
        let ranks = wiring.ranks();
        Ok((constants, found, changes, ranks))
    })?;
    let gib = f64::from(1 << 30);
    let refused = PyDict::new(py);
    for (reason, plans) in &found.refused {
        refused.set_item(reason, plans)?;
    }
    let more = found.second_takes_more().map(|more| takes_more(py, &more)).transpose()?;
    let sequence = model.sequence as f64;
    let flops = batch.0 as f64 * model.step_flops(sequence, sequence, true);
    record!(py, "BestPlans", {
        model: &model.name,
        fabric: fabric.name(),
        constants: &constants.name,
        endpoint: endpoint.0,
        priorities: priorities,
        given: plan.0,
        ranks: ranks,
        batch: batch.0,
        sequence: model.sequence,
        capacity_gib: (memory_bytes.0 > 0).then(|| memory_bytes.0 as f64 / gib),
        legal: found.legal,
        fit: found.fit,
        simulated: found.simulated,
        refused: refused,
        second_takes_more_s: more,
        plans: plan_table(py, &found, |plan: &RankedPlan| {
            let rate = flops / plan.times.iteration_s / f64::from(ranks);
            (
                batch.0 as f64 * sequence / plan.times.iteration_s,
                rate / constants.peak_flops(plan.plan.fp8),
                plan.times.iteration_s * f64::from(ranks) * constants.power_w / 1e6,
            )
        })?.0,
        changes: table!(py, change in changes.iter(), {
            change: change.name,
            iteration_s: change.iteration_s,
            plan: change.plan.as_ref().map(|plan| plan.spec()).unwrap_or_default(),
        })?.0,
    })
}

/// The plans, the fastest first; `rates` are tokens a second, model FLOPs utilization and energy in 1e6 joules.
fn plan_table<'py>(
    py: Python<'py>,
    found: &BestPlans,
    rates: impl Fn(&RankedPlan) -> (f64, f64, f64),
) -> PyResult<Table<'py>> {
    let numbered = (1u32..).zip(&found.plans);
    let rows: Vec<_> = numbered.map(|(rank, plan)| (plan, plan.times.mean(), rates(plan), rank)).collect();
    let mut table = table!(py, row in rows.iter(), {
        rank: row.3,
        plan: row.0.plan.spec(),
        iteration_s: row.0.times.iteration_s,
        bound_s: row.0.bound_s,
        compute_s: row.1.compute_s,
        bubble_s: row.1.bubble_s,
        exposed_s: row.1.exposed_s.iter().sum::<f64>(),
        memory_gib: row.0.memory.total() / f64::from(1 << 30),
        tokens_per_s: row.2.0,
        mfu: row.2.1,
        energy_mj: row.2.2,
        micro_batches: row.0.plan.micro_batches,
        layers_at_once: row.0.times.layers_at_once,
    })?;
    for (number, name) in GroupKind::NAMES.iter().enumerate() {
        if rows.iter().any(|row| row.1.exposed_s[number] > 0.0) {
            table = table.column(&format!("{name}_s"), rows.iter().map(|row| row.1.exposed_s[number]))?;
        }
    }
    Ok(table)
}

/// Differences of two steps by what stages do, in seconds; exchanges that none waits for are left out.
fn takes_more<'py>(py: Python<'py>, more: &StageTimes) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("compute", more.compute_s)?;
    dict.set_item("bubble", more.bubble_s)?;
    let exposed: &[f64; StepWork::KINDS] = &more.exposed_s;
    for (name, seconds) in GroupKind::NAMES.iter().zip(exposed).filter(|(_, seconds)| **seconds != 0.0) {
        dict.set_item(name, seconds)?;
    }
    Ok(dict)
}
