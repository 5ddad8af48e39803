//! Steps of large models.

use crate::prelude::*;
use antiphon_base::parameter::Choice;
use antiphon_llm::constants::Constants;
use antiphon_llm::memory::Memory;
use antiphon_llm::network::{Wiring, from_fabric, wiring};
use antiphon_llm::parallel::{GroupKind, OPTIONS, Parallelism};
use antiphon_llm::shape;
use antiphon_llm::step::{CollectiveTimes, StepTimes, StepWork, TimedBy, TrainingStep};
use antiphon_model::collective::Kind;
use antiphon_model::system::Endpoint;
use pyo3::types::{PyDict, PyType};

/// The shape of a transformer: how many layers it has, how wide they are, its experts. A preset by name
/// (`large_models()`).
/// Immutable, hashable, compared by value.
///
/// >>> ModelShape("llama3-405b").parameters
/// 405853388800
///
/// Raises AntiphonError: `unknown-name`, listing the presets.
#[pyclass(module = "antiphon", frozen, eq)]
#[derive(Clone, PartialEq)]
pub struct ModelShape(pub shape::ModelShape);

#[literal_defaults]
#[pymethods]
impl ModelShape {
    #[new]
    fn new(name: Text<'_>) -> PyResult<Self> {
        shape::ModelShape::preset(name.0).map(ModelShape).map_err(raise)
    }

    /// The model of a JSON text: our own form, or a `config.json` of Hugging Face (docs/reference/large-models.md); `name` is
    /// shown in results.
    ///
    /// Raises AntiphonError: `bad-file` with the key, or `too-large`.
    #[classmethod]
    fn from_json(_class: &Bound<'_, PyType>, py: Python<'_>, name: Text<'_>, text: Text<'_>) -> PyResult<Self> {
        run(py, || shape::ModelShape::from_json(name.0, text.0)).map(ModelShape)
    }

    /// A GPT given by its numbers: no gate, biases, tied embeddings, four times the width inside a layer.
    ///
    /// Raises AntiphonError: `bad-size` or `too-large`.
    #[classmethod]
    #[pyo3(signature = (name, hidden, heads, layers, sequence, vocab))]
    fn gpt(
        _class: &Bound<'_, PyType>,
        name: Text<'_>,
        hidden: Fit<u64>,
        heads: Fit<u64>,
        layers: Fit<u32>,
        sequence: Fit<u64>,
        vocab: Fit<u64>,
    ) -> PyResult<Self> {
        shape::ModelShape::gpt(name.0, hidden.0, heads.0, layers.0, sequence.0, vocab.0).map(ModelShape).map_err(raise)
    }

    /// The same on sequences of another length.
    ///
    /// Raises AntiphonError: `bad-size`.
    fn with_sequence(&self, sequence: Fit<u64>) -> PyResult<Self> {
        let model = shape::ModelShape { sequence: sequence.0, ..self.0.clone() };
        model.check().map_err(raise)?;
        Ok(ModelShape(model))
    }

    getters! {
        /// Name of the preset or file.
        name: &str = &self.0.name;
        /// Parameters.
        parameters: u64 = self.0.parameters();
        /// Parameters that a token meets: of routed experts those it goes to.
        active_parameters: u64 = self.0.active_parameters();
        /// Number of layers.
        layers: u32 = self.0.layers;
        /// Width between layers.
        hidden: u64 = self.0.hidden;
        /// Words.
        vocab: u64 = self.0.vocab;
        /// Tokens of a sequence.
        sequence: u64 = self.0.sequence;
        /// Whether some layers have experts.
        has_experts: bool = self.0.experts.is_some();
    }

    /// A table of layers, those of the same kind in one row: `first_layer`, `last_layer`, `parameters` of a layer and of its
    /// parts, and `forward_flops` of one sequence and its parts (a multiply-add is two).
    #[pyo3(signature = () -> "Table")]
    fn layer_table<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let model = &self.0;
        let split = model.dense_layers();
        let ranges = [(0, split), (split, model.layers)].into_iter().filter(|(start, end)| start < end);
        let tokens = model.sequence as f64;
        let rows: Vec<_> = ranges
            .map(|(start, end)| {
                let flops = model.layer_flops(start, tokens, tokens, true);
                (start, end - 1, model.layer_parameters(start), flops)
            })
            .collect();
        let table = table!(py, row in rows.iter(), {
            first_layer: row.0,
            last_layer: row.1,
            parameters: row.2.total(),
            attention: row.2.attention,
            dense: row.2.dense,
            routed: row.2.routed,
            router: row.2.router,
            norms: row.2.norms,
            forward_flops: row.3.total(),
            projection_flops: row.3.projections,
            core_flops: row.3.core,
            dense_flops: row.3.dense,
            routed_flops: row.3.routed,
        })?;
        Ok(table.0.into_any())
    }

    /// Operations of a forward pass of one sequence that turn the outputs of the last layer into logits.
    #[getter]
    fn logits_flops(&self) -> f64 {
        self.0.logits_flops(self.0.sequence as f64)
    }

    fn __repr__(&self) -> String {
        format!("<ModelShape {}: {} layers, {} parameters>", self.0.name, self.0.layers, self.0.parameters())
    }

    fn __hash__(&self) -> u64 {
        hash_of((&self.0.name, self.0.layers, self.0.parameters()))
    }
}

/// The large models that are known by name, as pairs (name, source).
#[pyfunction]
pub fn large_models() -> Vec<(String, String)> {
    shape::ModelShape::sources()
}

/// JSON texts of the constants of accelerators that are known by name.
#[pyfunction]
pub fn constants_presets() -> Vec<String> {
    Constants::presets().iter().map(|each| serde_json::to_string(each).expect("constants are JSON")).collect()
}

/// A list of `Parameter`: what the plan of a step may say.
///
/// >>> import antiphon
/// >>> [option.key for option in antiphon.plan_options()][:4]
/// ['tp', 'cp', 'pp', 'ep']
#[pyfunction]
#[pyo3(signature = () -> "list[Parameter]")]
pub fn plan_options(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    OPTIONS.iter().map(|option| listed(py, &option.listed(""))).collect()
}

/// A fabric, or the specification of one; boxes may have more ranks than a `Fabric`.
#[derive(FromPyObject)]
pub enum WiringLike {
    Spec(OwnText),
    Object(Py<Fabric>),
}

impl WiringLike {
    /// The specification, or the name of the fabric.
    pub fn name(&self) -> &str {
        match self {
            WiringLike::Spec(spec) => &spec.0,
            WiringLike::Object(fabric) => &fabric.get().0.name,
        }
    }

    pub fn get(&self) -> Result<Box<dyn Wiring>, Error> {
        match self {
            WiringLike::Spec(spec) => wiring(&spec.0),
            WiringLike::Object(fabric) => Ok(from_fabric((*fabric.get().0).clone())),
        }
    }
}

/// Memory of stages as a table of bytes by what it is for.
pub fn memory_table<'py>(py: Python<'py>, stages: &[Memory]) -> PyResult<Table<'py>> {
    let names = stages.first().map_or(vec![], |of| of.by_name().iter().map(|(name, _)| *name).collect::<Vec<_>>());
    let mut table = Table::new(py).column("stage", stages.iter().map(|of| of.stage))?;
    for (number, name) in names.iter().enumerate() {
        let column = format!("{}_bytes", name.replace(' ', "_"));
        table = table.column(&column, stages.iter().map(|of| of.by_name()[number].1))?;
    }
    table.column("total_bytes", stages.iter().map(Memory::total))
}

/// Seconds that were exposed, by kind of group.
pub fn exposed<'py>(py: Python<'py>, seconds: &[f64; StepWork::KINDS]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in GroupKind::NAMES.iter().zip(seconds) {
        dict.set_item(name, value)?;
    }
    Ok(dict)
}

/// Kind of group, collective, ranks, boxes, pairs of bytes and seconds, and whether they are of one group by itself.
type GivenTimes = (OwnText, OwnText, Fit<u32>, Fit<u32>, Vec<(f64, f64)>, bool);

/// Kind of group, collective, the first group, boxes, whether they are equal, and least and most bytes.
type NeededTimes = (&'static str, &'static str, Vec<u32>, u32, bool, f64, f64);

/// A `StepRun`: one training step of `batch` sequences of a model, divided as `plan` says, on a fabric, with the constants
/// of a JSON text. Stages of more than `memory_bytes` are refused; 0 refuses none. `layers_at_once` is 0 for what keeps the
/// work small. While a stage exchanges, computation lacks what the `endpoint` takes. With `priorities`, exchanges that
/// computation waits for go before gradients and parameters. `constants_file` names the text of the constants in errors.
/// `tables` are times that `timed_by` takes for collectives of all groups that are alike, in place of rings: kind of group,
/// collective, ranks, boxes, pairs of bytes and seconds, and whether they are of one such group by itself rather than of
/// all at once.
///
/// Raises AntiphonError: `bad-spec`, `unknown-name` or `bad-file` for inputs, `not-applicable` for what does not fit,
/// `too-large`.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (model, fabric, plan, batch, constants, memory_bytes = 0, layers_at_once = 0, endpoint = "system", priorities = false, constants_file = "given", tables = Vec::new(), timed_by = "given") -> "StepRun")]
pub fn time_step<'py>(
    py: Python<'py>,
    model: &ModelShape,
    fabric: WiringLike,
    plan: Text<'_>,
    batch: Fit<u64>,
    constants: Text<'_>,
    memory_bytes: Fit<u64>,
    layers_at_once: Fit<u32>,
    endpoint: Text<'_>,
    priorities: bool,
    constants_file: Text<'_>,
    tables: Vec<GivenTimes>,
    timed_by: Text<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    let layers = model.layer_table(py)?;
    let model = &model.0;
    let (plan, constants, memory, times, ranks, names) = run(py, || {
        let constants = Constants::from_json(constants_file.0, constants.0)?;
        let endpoint = Endpoint::parse(endpoint.0)?;
        let wiring = fabric.get()?;
        let plan = Parallelism::parse(plan.0, wiring.ranks(), batch.0, model)?;
        let tables = tables.into_iter().map(|(kind, collective, ranks, boxes, points, is_alone)| {
            let (kind, collective) = (GroupKind::parse(&kind.0)?, Kind::parse(&collective.0)?);
            Ok(CollectiveTimes { kind, collective, ranks: ranks.0, boxes: boxes.0, points, is_alone })
        });
        let tables = tables.collect::<Result<Vec<_>, Error>>()?;
        let layers_at_once = Some(layers_at_once.0).filter(|&layers| layers > 0);
        let step = TrainingStep {
            model,
            plan: &plan,
            constants: &constants,
            endpoint,
            prioritized: priorities,
            slower: vec![],
            layers_at_once,
            tables: &tables,
        };
        let memory = step.memory();
        if memory_bytes.0 > 0 {
            memory.iter().try_for_each(|stage| stage.check(memory_bytes.0))?;
        }
        let times = step.simulate(&*wiring)?;
        let names: Vec<String> = times.links.iter().map(|class| wiring.name(class.link)).collect();
        let ranks = wiring.ranks();
        Ok((plan, constants, memory, times, ranks, names))
    })?;
    let tokens = batch.0 as f64 * model.sequence as f64;
    let flops = batch.0 as f64 * model.step_flops(model.sequence as f64, model.sequence as f64, true);
    let rate = flops / times.iteration_s / f64::from(ranks);
    let mean = times.mean();
    let most = memory.iter().map(Memory::total).fold(0.0, f64::max);
    record!(py, "StepRun", {
        model: &model.name,
        fabric: fabric.name(),
        constants: &constants.name,
        endpoint: endpoint.0,
        priorities: priorities,
        plan: plan.spec(),
        ranks: ranks,
        batch: batch.0,
        sequence: model.sequence,
        micro_batches: plan.micro_batches,
        iteration_s: times.iteration_s,
        compute_s: mean.compute_s,
        bubble_s: mean.bubble_s,
        exposed_s: exposed(py, &mean.exposed_s)?,
        memory_gib: most / f64::from(1 << 30),
        tokens_per_s: tokens / times.iteration_s,
        tflops_per_gpu: rate / 1e12,
        mfu: rate / constants.peak_flops(plan.fp8),
        parameters: model.parameters(),
        active_parameters: model.active_parameters(),
        logits_flops: model.logits_flops(model.sequence as f64),
        capacity_gib: (memory_bytes.0 > 0).then(|| memory_bytes.0 as f64 / f64::from(1 << 30)),
        energy_mj: times.iteration_s * f64::from(ranks) * constants.power_w / 1e6,
        layers_at_once: times.layers_at_once,
        operations: times.operations,
        stages: stage_table(py, &times)?.0,
        memory: memory_table(py, &memory)?.0,
        spans: span_table(py, &times)?.0,
        links: link_table(py, &times, &names)?.0,
        exchanges: exchange_table(py, &times, timed_by.0)?.0,
        layers: layers,
    })
}

fn stage_table<'py>(py: Python<'py>, times: &StepTimes) -> PyResult<Table<'py>> {
    let mut table = Table::new(py)
        .column("stage", 0..times.stages.len() as u32)?
        .column("compute_s", times.stages.iter().map(|stage| stage.compute_s))?
        .column("bubble_s", times.stages.iter().map(|stage| stage.bubble_s))?;
    for (number, name) in GroupKind::NAMES.iter().enumerate() {
        if times.stages.iter().any(|stage| stage.exposed_s[number] > 0.0) {
            table = table.column(&format!("{name}_s"), times.stages.iter().map(|stage| stage.exposed_s[number]))?;
        }
    }
    Ok(table)
}

/// What a step exchanges; `given` names what the given times are from.
fn exchange_table<'py>(py: Python<'py>, times: &StepTimes, given: &str) -> PyResult<Table<'py>> {
    table!(py, of in times.exchanges.iter(), {
        kind: of.kind.name(),
        collective: of.collective.map_or("message", Kind::name),
        ranks: of.group.len() as u32,
        boxes: of.boxes,
        least_bytes: of.least_bytes,
        most_bytes: of.most_bytes,
        timed_by: if of.timed_by == TimedBy::Given { given } else { of.timed_by.name() },
    })
}

/// The collectives of a step that times may be given for: kind of group, collective, the first group, how many boxes it is
/// in, whether it has as many ranks in each, and bytes of the smallest and of the largest full buffer. Arguments are as of
/// `time_step`.
///
/// Raises AntiphonError: as `time_step`.
#[pyfunction]
pub fn step_exchanges(
    py: Python<'_>,
    model: &ModelShape,
    fabric: WiringLike,
    plan: Text<'_>,
    batch: Fit<u64>,
    constants: Text<'_>,
    constants_file: Text<'_>,
) -> PyResult<Vec<NeededTimes>> {
    let found = run(py, || {
        let constants = Constants::from_json(constants_file.0, constants.0)?;
        let wiring = fabric.get()?;
        let plan = Parallelism::parse(plan.0, wiring.ranks(), batch.0, &model.0)?;
        let step = TrainingStep {
            model: &model.0,
            plan: &plan,
            constants: &constants,
            endpoint: Endpoint::System,
            prioritized: false,
            slower: vec![],
            layers_at_once: None,
            tables: &[],
        };
        step.exchanges(&*wiring)
    })?;
    let collectives = found.into_iter().filter_map(|of| {
        let collective = of.collective.filter(|&collective| collective != Kind::AllToAll)?;
        Some((of.kind.name(), collective.name(), of.group, of.boxes, of.is_even, of.least_bytes, of.most_bytes))
    });
    Ok(collectives.collect())
}

/// What stages did when; numbers of -1 are none.
fn span_table<'py>(py: Python<'py>, times: &StepTimes) -> PyResult<Table<'py>> {
    let number = |number: u32| if number == u32::MAX { -1 } else { i64::from(number) };
    table!(py, span in times.spans.iter(), {
        stage: span.stage,
        work: StepWork::NAMES[span.work as usize],
        micro_batch: number(span.micro_batch),
        part: number(span.part),
        start_s: span.start_s,
        end_s: span.end_s,
    })
}

/// For links that are alike and a kind of group, how much of the step they were busy with it; `exposed_s` is time that
/// stages waited for exchanges that these links limit.
fn link_table<'py>(py: Python<'py>, times: &StepTimes, names: &[String]) -> PyResult<Table<'py>> {
    let mut rows: Vec<(usize, u32, [f64; StepWork::KINDS])> = Vec::new();
    for (number, class) in times.links.iter().enumerate() {
        let mut seconds = [0.0; StepWork::KINDS];
        for &(flow, busy) in &class.seconds {
            seconds[times.flows[flow as usize].0 as usize] += busy;
        }
        if seconds.iter().sum::<f64>() > 0.0 {
            rows.push((number, class.links, seconds));
        }
    }
    let exposed = times.exposed_links_s();
    let total = |row: &(usize, u32, [f64; StepWork::KINDS])| row.2.iter().sum::<f64>();
    rows.sort_by(|one, other| total(other).total_cmp(&total(one)));
    let mut table = Table::new(py)
        .column("link", rows.iter().map(|row| names[row.0].as_str()))?
        .column("links", rows.iter().map(|row| row.1))?
        .column("busy_s", rows.iter().map(total))?
        .column("exposed_s", rows.iter().map(|row| exposed[row.0]))?;
    for (number, name) in GroupKind::NAMES.iter().enumerate() {
        if rows.iter().any(|row| row.2[number] > 0.0) {
            table = table.column(&format!("{name}_s"), rows.iter().map(|row| row.2[number]))?;
        }
    }
    Ok(table)
}
