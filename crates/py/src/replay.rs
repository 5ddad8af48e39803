//! Execution traces: what every rank computes and exchanges.

use crate::operations::prove_parts;
use crate::prelude::*;
use antiphon_formats::chakra;
use antiphon_jobs::graph::{ExchangeKind, JobExchange, JobGraph};
use antiphon_jobs::replay;
use antiphon_jobs::transport::OnFabric;
use antiphon_model::system::Processor;
use antiphon_proof::Proven;
use antiphon_sim::{Fidelity, Order};
use pyo3::types::{PyBytes, PyDict};
use std::collections::BTreeMap;
use std::fs::{File, metadata};
use std::io::BufReader;
use std::path::Path;

/// What every rank computes and exchanges, read from Chakra's traces or made from a training plan. Immutable.
#[pyclass(module = "antiphon._core", frozen)]
pub struct ExecutionTrace {
    pub graph: JobGraph,
    /// Nodes that compute for a time that no one says.
    #[pyo3(get)]
    pub untimed: u64,
}

#[literal_defaults]
#[pymethods]
impl ExecutionTrace {
    /// The traces of ranks 0, 1, ... in files. `compute` is a roofline that times nodes that say their operations only,
    /// `groups` JSON of ranks by the name of their group. `progress` is called with the share done, 0 to 1.
    ///
    /// Raises AntiphonError: `bad-file` with file and node; `not-applicable`, `too-large`.
    #[staticmethod]
    #[pyo3(signature = (paths, compute = None, groups = None, progress = None))]
    fn read(
        py: Python<'_>,
        paths: Vec<String>,
        compute: Option<Text<'_>>,
        groups: Option<Text<'_>>,
        progress: Option<Progress>,
    ) -> PyResult<Self> {
        let roofline = match compute.map(|compute| Processor::parse(&compute)).transpose().map_err(raise)? {
            Some(Processor::Roofline(roofline)) => Some(roofline),
            None => None,
            Some(other) => {
                let what = format!("compute {}: only a roofline can time operations of traces", other.name());
                return Err(raise(Error::new(Code::NotApplicable, what)));
            }
        };
        let groups = groups.map_or(Ok(BTreeMap::new()), |groups| chakra::parse_groups(&groups)).map_err(raise)?;
        let count = u32::try_from(paths.len()).unwrap_or(u32::MAX);
        let trace = run_with_progress(py, progress, |heartbeat| {
            let mut reader = chakra::TraceReader::new(count, roofline, groups)?;
            for (number, path) in paths.iter().enumerate() {
                if !heartbeat(number as f64 / paths.len() as f64) {
                    return Err(Error::new(Code::Interrupted, "interrupted"));
                }
                let name = Path::new(path).file_name().map_or(path.into(), |name| name.to_string_lossy());
                open(path).and_then(|file| reader.rank(file)).map_err(|error| error.at(name))?;
            }
            reader.finish()
        })?;
        Ok(ExecutionTrace { graph: trace.graph, untimed: trace.untimed })
    }

    /// Groups of ranks as pairs (name, ranks); the first is of all ranks and has no name.
    #[getter]
    fn groups(&self) -> Vec<(&str, &[u32])> {
        self.graph.groups.iter().map(|group| (group.name.as_str(), group.ranks.as_slice())).collect()
    }

    /// A dictionary of numpy arrays, one entry an exchange: `name`, `kind` (a collective, `barrier` or `message`), `bytes`
    /// of the full buffer, the number of its `group`, `from` and `to` of a message (else -1), and `moves`, whether it
    /// needs the network.
    #[getter]
    fn exchanges<'py>(&self, py: Python<'py>) -> PyResult<Table<'py>> {
        let graph = &self.graph;
        let all = || graph.exchanges.iter();
        let ends = |of: fn(u32, u32) -> u32| {
            let end = move |exchange: &JobExchange| match exchange.kind {
                ExchangeKind::Message { from, to, .. } => i64::from(of(from, to)),
                _ => -1,
            };
            all().map(end)
        };
        Table::new(py)
            .column("name", all().map(|exchange| graph.names[exchange.name as usize].clone()))?
            .column("kind", all().map(|exchange| exchange.kind.name()))?
            .column("bytes", all().map(|exchange| exchange.bytes))?
            .column("group", all().map(|exchange| exchange.group))?
            .column("from", ends(|from, _| from))?
            .column("to", ends(|_, to| to))?
            .column("moves", all().map(|exchange| graph.moves(exchange)))
    }

    /// The Chakra trace of a rank as bytes.
    ///
    /// Raises AntiphonError: `bad-size`; `not-applicable` for what the format cannot say.
    fn write<'py>(&self, py: Python<'py>, rank: Int) -> PyResult<Bound<'py, PyBytes>> {
        let rank: u32 = rank.get("rank")?;
        if rank as usize >= self.graph.ranks.len() {
            let what = format!("rank {rank} does not exist; there are {}", self.graph.ranks.len());
            return Err(raise(Error::new(Code::BadSize, what)));
        }
        Ok(PyBytes::new(py, &run(py, || chakra::write(&self.graph, rank))?))
    }

    /// The groups that Chakra's traces name, as JSON; None if there are none.
    fn groups_json(&self) -> Option<String> {
        chakra::groups(&self.graph)
    }

    /// A dictionary: `time_ns`, and numpy arrays by rank and by exchange. Exchange `i` is done by `schedules[i]`, which is
    /// proven, on its group of ranks, in flight with all others; one without takes no time. `progress` is called with the
    /// share done, 0 to 1.
    ///
    /// Raises AntiphonError: as `simulate_flights`; `stalled` if ranks wait for each other.
    #[pyo3(signature = (fabric, schedules, system, fidelity = "packet", order = "priority", progress = None) -> "dict[str, Any]")]
    fn run<'py>(
        &self,
        py: Python<'py>,
        fabric: &Fabric,
        schedules: Vec<Option<Py<Schedule>>>,
        system: Py<System>,
        fidelity: Named<Fidelity>,
        order: Named<Order>,
        progress: Option<Progress>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let count = self.graph.exchanges.len();
        if schedules.len() != count {
            let what = format!("schedules has {}; the trace has {count} exchanges", schedules.len());
            return Err(raise(Error::new(Code::BadSpec, what)));
        }
        let on = OnFabric { fabric: &fabric.0, system: &system.get().0, fidelity: fidelity.0, order: order.0 };
        let times = run_with_progress(py, progress, |heartbeat| {
            let proven = prove_parts(&fabric.0, schedules.iter().flatten())?;
            let of = |schedule: &Py<Schedule>| &proven[&schedule.as_ptr()];
            let each: Vec<Option<&Proven>> = schedules.iter().map(|one| one.as_ref().map(of)).collect();
            replay::run(&self.graph, &each, &on, heartbeat)
        })?;
        let ranks = table!(py, rank in times.ranks.iter(), {
            compute_ns,
            exposed_communication_ns: nanos(rank.exposed_ps),
            other_ns, idle_ns, finish_ns,
        })?;
        let exchanges = table!(py, one in times.exchanges.iter(), { ready_ns, start_ns, finish_ns })?;
        Ok(fields!(py, { ..times: time_ns; ranks: ranks, exchanges: exchanges }))
    }

    getters! {
        /// Ranks that have a trace.
        ranks: usize = self.graph.ranks.len();
        /// Nodes of all ranks.
        nodes: usize = self.graph.operations().count();
    }
}

/// The Chakra traces of a schedule, by rank: messages and sums, as ASTRA-sim takes them for a custom collective. They are
/// read back as what was to be written.
///
/// Raises AntiphonError: `not-applicable` for what a trace cannot say; `too-large`, `not-proven`.
#[pyfunction]
pub fn chakra_files<'py>(py: Python<'py>, schedule: &Schedule) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let files = run(py, || chakra::write_schedule(&schedule.0))?;
    Ok(files.iter().map(|file| PyBytes::new(py, file)).collect())
}

/// A regular file: others may never end.
fn open(path: &str) -> Result<BufReader<File>, Error> {
    let unreadable = |error: std::io::Error| Error::new(Code::BadFile, format!("cannot be read: {error}"));
    if !metadata(path).map_err(unreadable)?.is_file() {
        return Err(Error::new(Code::BadFile, "is not a regular file"));
    }
    File::open(path).map(BufReader::new).map_err(unreadable)
}
