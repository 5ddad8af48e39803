//! Workloads, compute models and iterations of training.

use crate::operations::prove_parts;
use crate::prelude::*;
use crate::rails::use_record;
use crate::replay::ExecutionTrace;
use antiphon_jobs::graph::OperationKind;
use antiphon_jobs::timeline::OperationTimes;
use antiphon_jobs::training::{self, Cost, DATA, GradientQueue, IterationRequest, Label, PlannedIteration};
use antiphon_jobs::transport::{Carriage, OnFabric, OnRails, Serial, divided_groups};
use antiphon_jobs::workload::{self, Pass};
use antiphon_model::system::{Endpoint, Processor};
use antiphon_model::topology::Topology;
use antiphon_proof::Proven;
use antiphon_sim::rails::scheduler::{OrderSearch, Themis};
use antiphon_sim::rails::{self, EndpointUse, QueuePolicy};
use antiphon_sim::{Fidelity, Order};
use numpy::PyReadonlyArray1;
use pyo3::types::{PyDict, PyTuple, PyType};
use std::sync::Arc;

/// The layers of a model, in the order of the forward pass; a preset by name (`workloads()`). Its length is the number
/// of layers. Immutable, hashable, picklable, compared by value.
///
/// >>> model = Workload("resnet50")
/// >>> len(model), model.params
/// (54, 25557032)
///
/// Raises AntiphonError: `unknown-name`, listing the presets.
#[pyclass(module = "antiphon", frozen, eq)]
#[derive(Clone)]
pub struct Workload {
    layers: workload::Workload,
    /// The table it was read from; None for presets.
    table: Option<Arc<str>>,
}

impl PartialEq for Workload {
    fn eq(&self, other: &Self) -> bool {
        self.layers == other.layers
    }
}

#[literal_defaults]
#[pymethods]
impl Workload {
    #[new]
    fn new(name: Text<'_>) -> PyResult<Self> {
        workload::Workload::preset(name.0).map(|layers| Workload { layers, table: None }).map_err(raise)
    }

    /// The workload of the text of a CSV table (columns in docs/reference/workloads.md); `name` is shown in results.
    ///
    /// Raises AntiphonError: `bad-file` with row and column, or `too-large`.
    #[classmethod]
    fn from_csv(_class: &Bound<'_, PyType>, py: Python<'_>, name: Text<'_>, text: Text<'_>) -> PyResult<Self> {
        run(py, || workload::Workload::from_csv(name.0, text.0))
            .map(|layers| Workload { layers, table: Some(text.0.into()) })
    }

    getters! {
        /// Name of the preset or table.
        name: &str = &self.layers.name;
        /// Number of weights of all layers.
        params: u64 = self.layers.params();
        /// Whether every layer has measured times, so that the compute model `measured` applies.
        measured: bool = self.layers.layers.iter().all(|layer| matches!(layer.work, workload::Work::Measured(_)));
    }

    fn __len__(&self) -> usize {
        self.layers.layers.len()
    }

    fn __repr__(&self) -> String {
        let layers = &self.layers;
        format!("<Workload {}: {} layers, {} weights>", layers.name, layers.layers.len(), layers.params())
    }

    fn __hash__(&self) -> u64 {
        hash_of((&self.layers.name, self.layers.layers.len()))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (class, workload) = (slf.get_type(), slf.get());
        let name = &workload.layers.name;
        match &workload.table {
            None => Ok((class.into_any(), PyTuple::new(slf.py(), [name])?)),
            Some(table) => Ok((class.getattr("from_csv")?, PyTuple::new(slf.py(), [name.as_str(), table])?)),
        }
    }
}

/// The models known by name as triples (name, meaning, source).
#[pyfunction]
pub fn workloads() -> Vec<(&'static str, &'static str, &'static str)> {
    workload::PRESETS.iter().map(|preset| (preset.name, preset.description, preset.source)).collect()
}

/// Name, meaning and options of a compute model.
type Model<'py> = (&'static str, &'static str, Vec<Bound<'py, PyAny>>);

/// The compute models as triples (name, meaning, list of `Parameter`).
#[pyfunction]
#[pyo3(signature = () -> "list[tuple[str, str, list[Parameter]]]")]
pub fn compute_models(py: Python<'_>) -> PyResult<Vec<Model<'_>>> {
    let model = |(model, summary): &(Processor, &'static str)| {
        let options = model.options().iter().map(|option| listed(py, option)).collect::<PyResult<_>>()?;
        Ok((model.name(), *summary, options))
    };
    Processor::models().iter().map(model).collect()
}

/// Samples on a rank unless said otherwise: one for each PE of a systolic array, else 32.
///
/// Raises AntiphonError: `unknown-name` or `bad-spec` for what is no compute model.
#[pyfunction]
pub fn default_batch(compute: Text<'_>) -> PyResult<u64> {
    Processor::parse(compute.0).map(|processor| processor.default_batch()).map_err(raise)
}

/// The values of all that `inputs("train")` has, given or not; None where there is none.
///
/// Raises AntiphonError: `unknown-name`, `bad-spec` or `bad-size`.
#[pyfunction]
#[pyo3(signature = (**options: "Unpack[TrainOptions]"))]
pub fn settled<'py>(py: Python<'py>, options: Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyDict>> {
    let mut request = IterationRequest::default();
    fill("train", &mut request, IterationRequest::INPUTS, options)?;
    values(py, &request, inputs_of(IterationRequest::INPUTS))
}

/// One iteration of training, before the times of its exchanges are known: `batch` samples on each rank, or on those that
/// share a model. `compute` is a compute model with options. While something is exchanged, computation lacks what the
/// `endpoint` takes, and what a rank passes on: `relays` has millionths of the processors, for every rank (needed where ranks
/// are `slow`). Each layer takes as long as on the slowest rank. Other keywords are those of `inputs("train")`.
///
/// >>> import antiphon
/// >>> plan = TrainingPlan(antiphon.Workload("resnet50"), "roofline", 32)
/// >>> plan.exchanges
/// [('all-reduce', 102228128)]
///
/// Raises AntiphonError: `not-applicable` for a layer that the compute model cannot time and for options that change
/// nothing, `unknown-name`, `bad-spec`, `bad-size`, `bad-file` or `too-large`.
#[pyclass(module = "antiphon", frozen)]
pub struct TrainingPlan {
    request: IterationRequest,
    planned: PlannedIteration,
    /// What stands between memory and links.
    endpoint: Endpoint,
}

#[literal_defaults]
#[pymethods]
impl TrainingPlan {
    #[new]
    #[pyo3(signature = (workload, compute, batch, endpoint = "system", relays = [], **options: "Unpack[TrainOptions]"))]
    fn new(
        py: Python<'_>,
        workload: &Workload,
        compute: Text<'_>,
        batch: Int,
        endpoint: Text<'_>,
        relays: Fit<Vec<u64>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let processor = Processor::parse(compute.0).map_err(raise)?;
        let batch = u64::from(positive("batch", batch)?);
        let endpoint = Endpoint::parse(endpoint.0).map_err(raise)?;
        let mut request = IterationRequest::default();
        fill("train", &mut request, IterationRequest::INPUTS, options)?;
        let planned = run(py, || request.plan(&workload.layers, &processor, batch, &endpoint, &relays.0))?;
        Ok(TrainingPlan { request, planned, endpoint })
    }

    /// For each rank of `relays`, how many times as long it computes beside an exchange as one that passes on nothing and is
    /// not slow.
    #[getter]
    fn slowdowns(&self) -> Vec<f64> {
        self.planned.slowdowns.clone()
    }

    /// For each exchange, whether it is of weights' gradients.
    #[getter]
    fn gradients(&self) -> Vec<bool> {
        self.planned.graph.jobs.exchanges.iter().map(|exchange| exchange.group == DATA).collect()
    }

    /// The exchanges as pairs (collective, bytes), in the order of `run`.
    #[getter]
    fn exchanges(&self) -> Vec<(&'static str, u64)> {
        self.planned.graph.jobs.exchanges.iter().map(|exchange| (exchange.kind.name(), exchange.bytes)).collect()
    }

    /// A dictionary of numpy arrays, one entry a layer: `layer` (its name), `forward_ns`, `input_gradient_ns`,
    /// `weight_gradient_ns` and `gradient_bytes`.
    #[getter]
    fn layers<'py>(&self, py: Python<'py>) -> PyResult<Table<'py>> {
        let column = |pass: Pass| self.planned.costs.iter().map(move |cost| nanos(cost.times[pass]));
        Table::new(py)
            .column("layer", self.planned.workload.layers.iter().map(|layer| layer.name.clone()))?
            .column("forward_ns", column(Pass::Forward))?
            .column("input_gradient_ns", column(Pass::InputGradient))?
            .column("weight_gradient_ns", column(Pass::WeightGradient))?
            .column("gradient_bytes", self.planned.costs.iter().map(Cost::gradient_bytes))
    }

    /// For each exchange, how many of its first bytes the layers of the next forward pass wait for, ascending; empty
    /// where they wait for all of it.
    #[getter]
    fn parts(&self) -> Vec<Vec<u64>> {
        let mut parts = self.planned.graph.jobs.parts();
        (0..self.planned.graph.jobs.exchanges.len() as u32).map(|id| parts.remove(&id).unwrap_or_default()).collect()
    }

    /// An `Iteration` in which exchange `i` takes `times_ns[i]` ns, one after another as they become ready. `chunks[i]`
    /// is the table `chunks` of its simulation, needed where there are `parts`.
    ///
    /// Raises AntiphonError: `bad-size` for times, `not-applicable` for a missing table, `too-large` for one that lacks
    /// chunks.
    #[pyo3(signature = (times_ns, chunks = []) -> "Iteration")]
    fn run<'py>(
        &self,
        py: Python<'py>,
        times_ns: Vec<Number>,
        chunks: Vec<Option<ChunkTable<'py>>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (count, known) =
            (self.planned.graph.jobs.exchanges.len(), |time: &Number| (0.0..=MAX_NANOS).contains(&time.0));
        if times_ns.len() != count || !times_ns.iter().all(known) {
            let text = format!("times_ns needs {count} times from 0 to {MAX_NANOS:e} ns, one for each exchange");
            return Err(raise(Error::new(Code::BadSize, text)));
        }
        let times: Vec<Picos> = times_ns.into_iter().map(|time| picos(time.0)).collect();
        let queue = |table: &Option<ChunkTable>| table.as_ref().map(|table| table.queue().map_err(raise)).transpose();
        let queues = chunks.iter().map(queue).collect::<PyResult<Vec<_>>>()?;
        let parts = self.planned.graph.arrivals(&queues).map_err(raise)?;
        let iteration =
            run(py, || training::run(&self.planned.graph, &mut Serial::new(&self.planned.graph.jobs, &times, &parts)))?;
        self.table(py, &iteration, &[], None)
    }

    /// An `Iteration` in which exchange `i` is done by `schedules[i]`, a list of `Schedule` objects for groups of ranks, which
    /// share the links of `fabric` with all others that are ready. They are proven. `order` says which goes first
    /// where several meet: `priority`, `fifo` or `lifo`. `progress` is called with the share done, 0 to 1.
    ///
    /// Raises AntiphonError: as `simulate`; `too-large` where parts are waited for and chunks are too many.
    #[pyo3(signature = (fabric, schedules, system, fidelity = "packet", progress = None, order = "priority") -> "Iteration")]
    fn run_shared<'py>(
        &self,
        py: Python<'py>,
        fabric: &Fabric,
        schedules: Vec<Vec<Py<Schedule>>>,
        system: Py<System>,
        fidelity: Named<Fidelity>,
        progress: Option<Progress>,
        order: Named<Order>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let count = self.planned.graph.jobs.exchanges.len();
        if schedules.len() != count {
            let text = format!("schedules has {}; the iteration has {count} exchanges", schedules.len());
            return Err(raise(Error::new(Code::BadSpec, text)));
        }
        let on = OnFabric { fabric: &fabric.0, system: &system.get().0, fidelity: fidelity.0, order: order.0 };
        let iteration = run_with_progress(py, progress, |heartbeat| {
            let proven = prove_parts(&fabric.0, schedules.iter().flatten())?;
            let of = |schedule: &Py<Schedule>| &proven[&schedule.as_ptr()];
            let each: Vec<Vec<&Proven>> = schedules.iter().map(|all| all.iter().map(of).collect()).collect();
            training::run_shared(&self.planned.graph, &each, &on, heartbeat)
        })?;
        self.table(py, &iteration, &[], None)
    }

    /// The plan as an `ExecutionTrace`: what each of `ranks` ranks does.
    ///
    /// Raises AntiphonError: `too-large`, `bad-size`.
    fn trace(&self, py: Python<'_>, ranks: Int) -> PyResult<ExecutionTrace> {
        let ranks = positive("ranks", ranks)?;
        let divided = self.request.model_parallel;
        if !ranks.is_multiple_of(divided) {
            let what = format!("{ranks} ranks cannot be divided into groups of {}", self.request.model_parallel);
            return Err(raise(Error::new(Code::BadSize, what)));
        }
        let graph = run(py, || self.planned.unfold(ranks, divided))?;
        Ok(ExecutionTrace { graph, untimed: 0 })
    }

    /// An `Iteration` on a multi-dimensional network, where exchanges under way share the dimensions; arguments as in
    /// `rails`. Gradients are exchanged among ranks with the same part of the model. At an endpoint other than `system`
    /// `order` says which exchange goes first: `priority`, `fifo` or `lifo`. With it an `Energy` for each exchange, without
    /// static power, and watts of that, both by the energies of `platform`, if there is one. Themis' loads begin with the
    /// latency where there is a `fixed_delay`, and with what dimensions still have to do if they are `shared_loads`.
    ///
    /// Raises AntiphonError: as `rails`; `not-applicable` if the model cannot be divided over the first dimensions.
    #[pyo3(signature = (topology, scheduler = "search", intra = None, chunks = None, offload = false, order = "priority", platform = None, fixed_delay = false, shared_loads = false) -> "tuple[Iteration, list[Energy], float]")]
    fn run_on_rails<'py>(
        &self,
        py: Python<'py>,
        topology: Text<'_>,
        scheduler: Named<rails::Policy>,
        intra: Option<Named<QueuePolicy>>,
        chunks: Option<Int>,
        offload: bool,
        order: Named<Order>,
        platform: Option<SystemLike>,
        fixed_delay: bool,
        shared_loads: bool,
    ) -> PyResult<(Bound<'py, PyAny>, Vec<Bound<'py, PyAny>>, f64)> {
        let platform = platform.map(SystemLike::get).transpose()?;
        let topology = Topology::parse(topology.0).map_err(raise)?;
        let (known, given) = (scheduler.0, intra.map(|intra| intra.0));
        let usual = if self.endpoint == Endpoint::System { known.queue() } else { QueuePolicy::Oldest };
        let how = Carriage {
            chunks: chunks.map(|chunks| chunks.get("chunks")).transpose()?,
            queue: given.unwrap_or(usual),
            offload,
            endpoint: self.endpoint,
            order: order.0,
            packets: None,
            shared_loads,
        };
        let (iteration, activity, uses, energies) = run(py, || {
            let groups = divided_groups(&topology, self.request.model_parallel.into())?;
            let search =
                OrderSearch { queue: given.unwrap_or(known.queue()), stages: STAGES, ..OrderSearch::default() };
            let scheduler = known.scheduler(Themis { fixed_delay, ..Themis::default() }, search);
            let mut network = OnRails::new(&topology, &groups, &self.planned.graph.jobs, &*scheduler, how)?;
            let iteration = training::run(&self.planned.graph, &mut network)?;
            let activity = network.activity(iteration.time_ps, WINDOWS);
            let energies = platform.as_ref().map_or(Ok(vec![]), |platform| network.energies(platform))?;
            Ok((iteration, activity, network.endpoint_use(), energies))
        })?;
        let idle = platform.as_ref().map_or(0.0, |system| rails::static_power_nw(&topology, system) as f64 * 1e-9);
        let record = |energy| energy_record(py, energy, platform.as_ref().expect("asked for"), None);
        let energies = energies.iter().map(record).collect::<PyResult<_>>()?;
        Ok((self.table(py, &iteration, &activity, uses.as_ref())?, energies, idle))
    }
}

impl TrainingPlan {
    /// Times of operations of some kind, with what they are for.
    fn times<'a>(
        &'a self,
        iteration: &'a training::Iteration,
        is_one: fn(OperationKind) -> bool,
    ) -> impl Iterator<Item = (Label, OperationTimes)> + Clone + 'a {
        let operations = self.planned.graph.operations().zip(&iteration.operations);
        operations.filter(move |((kind, _), _)| is_one(*kind)).map(|((_, label), times)| (label, *times))
    }

    fn exchange_table<'py>(&self, py: Python<'py>, iteration: &training::Iteration) -> PyResult<Table<'py>> {
        let exchanges = || self.planned.graph.jobs.exchanges.iter();
        let times = self.times(iteration, |kind| matches!(kind, OperationKind::Exchange(_)));
        let table = Table::new(py)
            .column("kind", exchanges().map(|exchange| exchange.kind.name()))?
            .column("bytes", exchanges().map(|exchange| exchange.bytes))?
            .column("pass", times.clone().map(|(label, _)| label.pass.name()))?
            .column("first_layer", times.clone().map(|(label, _)| label.layers.0 as u64))?
            .column("last_layer", times.clone().map(|(label, _)| label.layers.1 as u64))?;
        with_times(table, times)
    }

    fn computation_table<'py>(&self, py: Python<'py>, iteration: &training::Iteration) -> PyResult<Table<'py>> {
        let times = self.times(iteration, |kind| matches!(kind, OperationKind::Compute { .. }));
        let table = table!(py, (label, _) in times.clone(), {
            layer: label.layers.0 as u64,
            pass: label.pass as u8,
            stream: self.planned.costs[label.layers.0].stream,
        })?;
        with_times(table, times)
    }

    /// An `Iteration`: means of all; `activity` is the share of time in which links of each dimension were busy, by window,
    /// `uses` what the parts of the endpoint did.
    fn table<'py>(
        &self,
        py: Python<'py>,
        iteration: &training::Iteration,
        activity: &[Vec<f64>],
        uses: Option<&EndpointUse>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let windows = activity.first().map_or(0, Vec::len);
        let mut network = table!(py, at in (0..windows), {
            start_ns: nanos(iteration.time_ps) * at as f64 / windows as f64,
        })?;
        for (number, shares) in activity.iter().enumerate() {
            network = network.column(&format!("dim{}", number + 1), shares.iter().copied())?;
        }
        let mean = |time: Picos| nanos(time) / f64::from(self.request.unroll);
        record!(py, "Iteration", {
            count: self.request.unroll,
            time_ns: mean(iteration.time_ps),
            forward_ns: mean(iteration.forward_ps),
            backward_ns: mean(iteration.backward_ps),
            aggregation_ns: mean(iteration.aggregation_ps),
            communication_ns: mean(iteration.communication_ps),
            exposed_communication_ns: mean(iteration.exposed_ps()),
            exposed_model_ns: mean(iteration.exposed_model_ps),
            exposed_data_ns: mean(iteration.exposed_data_ps()),
            turnaround_ns: mean(iteration.turnaround_ps),
            bubbles_ns: mean(iteration.bubbles_ps),
            buffer_bytes: iteration.buffer_bytes,
            exchanges: self.exchange_table(py, iteration)?,
            computations: self.computation_table(py, iteration)?,
            network: network,
            endpoint_use: uses.map(|uses| use_record(py, uses, iteration.time_ps)).transpose()?,
        })
    }
}

/// Iterations of an epoch, ceil(dataset / (batch * ranks)), for a dataset in samples and a batch in samples on each
/// rank (TTO, HPCA 2024, Eq. 1).
///
/// >>> iterations(1_281_167, 32, 64)
/// 626
///
/// Raises AntiphonError: `bad-size`; `batch` and `ranks` are at least 1.
#[pyfunction]
pub fn iterations(dataset: Int, batch: Int, ranks: Int) -> PyResult<u64> {
    let (batch, ranks): (u32, u32) = (positive("batch", batch)?, positive("ranks", ranks)?);
    Ok(training::iterations(dataset.get("dataset")?, batch.into(), ranks.into()))
}

fn positive(name: &str, number: Int) -> PyResult<u32> {
    match number.get(name)? {
        0 => Err(raise(Error::new(Code::BadSize, format!("{name} is 0; it must be at least 1")))),
        number => Ok(number),
    }
}

/// A table with times of operations.
fn with_times<'py>(
    table: Table<'py>,
    times: impl Iterator<Item = (Label, OperationTimes)> + Clone,
) -> PyResult<Table<'py>> {
    let of = |field: fn(&OperationTimes) -> Picos| times.clone().map(move |(_, times)| nanos(field(&times)));
    table
        .column("ready_ns", of(|times| times.ready_ps))?
        .column("start_ns", of(|times| times.start_ps))?
        .column("finish_ns", of(|times| times.finish_ps))
}

/// The chunks of a simulated exchange: lane, chunk and completion.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct ChunkTable<'py> {
    lane: PyReadonlyArray1<'py, i64>,
    chunk: PyReadonlyArray1<'py, u64>,
    complete_ns: PyReadonlyArray1<'py, f64>,
}

impl ChunkTable<'_> {
    fn queue(&self) -> Result<GradientQueue, Error> {
        let (lane, chunk, complete) = (self.lane.as_array(), self.chunk.as_array(), self.complete_ns.as_array());
        let rows = lane.iter().zip(chunk).zip(complete);
        GradientQueue::new(rows.map(|((&lane, &chunk), &complete)| (lane as u32, chunk, picos(complete))))
    }
}

/// Windows of time in which activity is counted.
const WINDOWS: usize = 400;

/// Stages that a search times for one exchange: less than by itself, since there are many.
const STAGES: u64 = 200_000;
