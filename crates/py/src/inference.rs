//! Inference of large models.

use crate::llm::{ModelShape, WiringLike, exposed};
use crate::prelude::*;
use antiphon_llm::constants::Constants;
use antiphon_llm::inference::{Inference, InferenceMemory, inference_plan};

/// An `Inference`: a prompt and next tokens of `batch` sequences of a model, divided as `plan` says, on a fabric, with the
/// constants of a JSON text, which errors call `constants_file`. Stages of more than `memory_bytes` are refused; 0 refuses
/// none.
///
/// Raises AntiphonError: `bad-spec`, `bad-size`, `unknown-name` or `bad-file` for inputs, `not-applicable` for what does not
/// fit, `too-large`.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (model, fabric, plan, batch, prompt, context, constants, memory_bytes, host_us, constants_file = "given") -> "Inference")]
pub fn infer<'py>(
    py: Python<'py>,
    model: &ModelShape,
    fabric: WiringLike,
    plan: Text<'_>,
    batch: Fit<u64>,
    prompt: Fit<u64>,
    context: Fit<u64>,
    constants: Text<'_>,
    memory_bytes: Fit<u64>,
    host_us: Fit<f64>,
    constants_file: Text<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    let (model, batch, prompt, context, host_us) = (&model.0, batch.0, prompt.0, context.0, host_us.0);
    let (plan, constants, memory, times, ranks) = run(py, || {
        let constants = Constants::from_json(constants_file.0, constants.0)?;
        let wiring = fabric.get()?;
        let plan = inference_plan(plan.0, wiring.ranks(), batch, model)?;
        let of = Inference { model, plan: &plan, constants: &constants, batch, prompt, context, host_us };
        of.check()?;
        let memory = of.memory();
        if memory_bytes.0 > 0 {
            memory.iter().try_for_each(|stage| stage.check(memory_bytes.0))?;
        }
        let times = of.simulate(&*wiring)?;
        Ok((plan.clone(), constants.name.clone(), memory, times, wiring.ranks()))
    })?;
    let most = |part: fn(&InferenceMemory) -> f64| memory.iter().map(part).fold(0.0, f64::max) / f64::from(1 << 30);
    let (first, next) = (&times.first_token, &times.next_token);
    record!(py, "Inference", {
        model: &model.name,
        fabric: fabric.name(),
        constants: constants,
        plan: plan.inference_spec(model),
        ranks: ranks,
        batch: batch,
        prompt: prompt,
        context: context,
        host_us: host_us,
        copies: plan.data,
        micro_batches: plan.micro_batches,
        ttft_s: first.total_s,
        token_s: next.total_s,
        tokens_per_s: batch as f64 / next.total_s,
        request_tokens_per_s: 1.0 / next.total_s,
        compute_s: next.compute_s,
        waiting_s: next.waiting_s,
        exposed_s: exposed(py, &next.exposed_s)?,
        ttft_exposed_s: exposed(py, &first.exposed_s)?,
        memory_gib: most(InferenceMemory::total),
        parameters_gib: most(|stage| stage.parameters),
        cache_gib: most(|stage| stage.cache),
        capacity_gib: (memory_bytes.0 > 0).then(|| memory_bytes.0 as f64 / f64::from(1 << 30)),
        slowest_link_gb_per_s: times.slowest_link.map(|rate| rate / 1e9),
        smallest_link_gb_per_s: times.smallest_link.map(|rate| rate / 1e9),
    })
}
