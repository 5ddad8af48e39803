//! The functions of the package: build, verify, bound, simulate, and the lists of what is known.

use crate::prelude::*;
use crate::rails::use_record;
use antiphon_base::units;
use antiphon_bound as bound;
use antiphon_formats::chrome;
use antiphon_model::collective::{Align, Collective, Kind};
use antiphon_model::energy::{Attojoules, joules};
use antiphon_model::{fabric, system};
use antiphon_plan::algorithm;
use antiphon_proof::{Proof, Proven, prove_watched};
use antiphon_sim as simulation;
use antiphon_sim::{Fidelity, Flight, Order, Playback, RunOptions, SimulationResult};
use bound::Certified;
use pyo3::ffi;
use pyo3::types::PyTuple;
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// The collective of a name and a root, which must be a rank of the fabric.
pub fn collective(name: &str, root: Int, fabric: &fabric::Fabric) -> PyResult<Collective> {
    let kind = Kind::parse(name).map_err(raise)?;
    let root: u32 = root.get("root")?;
    if root as usize >= fabric.ranks() {
        let text = format!("root {root} does not exist; ranks are 0 to {}", fabric.ranks() - 1);
        return Err(raise(Error::new(Code::BadSpec, text)));
    }
    Ok(Collective { kind, root: if kind.rooted() { root } else { 0 } })
}

/// The alignment of so many bytes.
pub fn aligned(bytes: Int) -> PyResult<Align> {
    Align::new(bytes.get("align")?).map_err(raise)
}

/// A system given by preset name or as an object.
#[derive(FromPyObject)]
pub enum SystemLike {
    Name(String),
    Object(Py<System>),
}

impl SystemLike {
    pub fn get(self) -> PyResult<system::System> {
        match self {
            SystemLike::Name(name) => system::System::preset(&name).map_err(raise),
            SystemLike::Object(system) => Ok(system.get().0.clone()),
        }
    }
}

/// The `Schedule` of an algorithm `name[:key=value,...]` for a collective of `bytes` bytes (the full buffer), or of a
/// `matrix` of uint64, its chunks cut to suit the packets of `system`. `root` matters to broadcast and reduce. `progress`
/// is called about ten times a second with the share done, 0 to 1; what it raises ends the run.
///
/// Raises AntiphonError: `not-applicable` with the reason, `unknown-name`, `bad-spec`, `bad-size` or `too-large`.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (fabric, algorithm, collective = "all-reduce", bytes = "64MiB", system = "generic", root = 0, progress = None, matrix = None))]
pub fn build(
    py: Python<'_>,
    fabric: &Fabric,
    algorithm: Text<'_>,
    collective: Text<'_>,
    bytes: Size,
    system: SystemLike,
    root: Int,
    progress: Option<Progress>,
    matrix: Option<Matrix>,
) -> PyResult<Schedule> {
    let (fabric, system, data) = (&fabric.0, system.get()?, data(bytes, matrix));
    let collective = self::collective(collective.0, root, fabric)?;
    let schedule = run_watched(py, progress, |watch| {
        algorithm::build_watched(fabric, &system, collective, data, algorithm.0, watch)
    })?;
    Ok(schedule.into())
}

/// As `Schedule.busiest_link_ns` of the schedule of an algorithm `name[:key=value,...]`, where that is known sooner than
/// the schedule; else None. Arguments are those of `build`.
///
/// Raises AntiphonError: `not-applicable`, `unknown-name`, `bad-spec`, `bad-size` or `too-large`.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (fabric, algorithm, collective = "all-reduce", bytes = "64MiB", system = "generic", root = 0, matrix = None))]
pub fn busiest_link_ns(
    py: Python<'_>,
    fabric: &Fabric,
    algorithm: Text<'_>,
    collective: Text<'_>,
    bytes: Size,
    system: SystemLike,
    root: Int,
    matrix: Option<Matrix>,
) -> PyResult<Option<f64>> {
    let (fabric, system, data) = (&fabric.0, system.get()?, data(bytes, matrix));
    let collective = self::collective(collective.0, root, fabric)?;
    let time =
        run_watched(py, None, |watch| algorithm::busiest_ps(fabric, &system, collective, data, algorithm.0, watch))?;
    Ok(time.map(nanos))
}

/// A `Proof` that a schedule gives every rank the right bytes and cannot deadlock, and, if it has a certificate, of how near to
/// the optimum it is with the links of `system`. `progress` is called with the share of each property, 0 to 1.
///
/// Raises AntiphonError: `not-proven` with the first counter-example, or for a certificate that claims too much;
/// `bad-file` or `too-large` for a schedule that is not for this fabric; `unknown-name` for the system.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (fabric, schedule, progress = None, system = "generic") -> "Proof")]
pub fn verify<'py>(
    py: Python<'py>,
    fabric: &Fabric,
    schedule: &Schedule,
    progress: Option<Progress>,
    system: SystemLike,
) -> PyResult<Bound<'py, PyAny>> {
    let (fabric, system) = (&fabric.0, system.get()?);
    let (proof, certified) = run_watched(py, progress, |watch| {
        let proof = prove(fabric, schedule, watch)?.proof().clone();
        Ok((proof, bound::certified(fabric, &system, &schedule.0)?))
    })?;
    proof_record(py, &proof, certified)
}

fn proof_record<'py>(py: Python<'py>, proof: &Proof, certified: Option<Certified>) -> PyResult<Bound<'py, PyAny>> {
    record!(py, "Proof", {
        ..proof: complete, conflict_free, lanes, transfers, gaps;
        share_of_optimum: certified.map(|certified| f64::from(certified.share_ppm) / 1e6),
        certified_ns: certified.map(|certified| nanos(certified.least_ps)),
    })
}

/// A `Bound`, in ns: no schedule of the collective for all ranks is faster at `fidelity`, or at any if it is None.
///
/// Raises AntiphonError: `unknown-name`, `bad-size`, or `bad-spec` for a root that does not exist.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (fabric, collective = "all-reduce", bytes = "64MiB", system = "generic", root = 0, matrix = None, fidelity = None) -> "Bound")]
pub fn lower_bound<'py>(
    py: Python<'py>,
    fabric: &Fabric,
    collective: Text<'_>,
    bytes: Size,
    system: SystemLike,
    root: Int,
    matrix: Option<Matrix>,
    fidelity: Option<Named<Fidelity>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (fabric, system, data) = (&fabric.0, system.get()?, data(bytes, matrix));
    let collective = self::collective(collective.0, root, fabric)?;
    let fidelity = fidelity.map(|named| named.0);
    let bound = run(py, || bound::lower_bound(fabric, &system, collective, data, fidelity))?;
    bound_record(py, &bound, fidelity)
}

/// Joules that no schedule of the collective for all ranks takes less than, without static power, and that power of the
/// fabric in watts. Arguments are those of `lower_bound`.
///
/// Raises AntiphonError: as `lower_bound`.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (fabric, collective = "all-reduce", bytes = "64MiB", system = "generic", root = 0))]
pub fn least_energy(
    py: Python<'_>,
    fabric: &Fabric,
    collective: Text<'_>,
    bytes: Size,
    system: SystemLike,
    root: Int,
) -> PyResult<(f64, f64)> {
    let (fabric, system, data) = (&fabric.0, system.get()?, data(bytes, None));
    let collective = self::collective(collective.0, root, fabric)?;
    let energy = run(py, || bound::least_energy_of_collective(fabric, &system, collective, data))?;
    Ok((joules(energy), system.static_power_of(fabric) as f64 * 1e-9))
}

/// The bound of what a schedule does.
pub fn bound_of<'py>(
    py: Python<'py>,
    fabric: &Fabric,
    schedule: &Schedule,
    system: SystemLike,
    fidelity: Option<Named<Fidelity>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (fabric, schedule, system) = (&fabric.0, &schedule.0, system.get()?);
    let fidelity = fidelity.map(|named| named.0);
    let bound = run(py, || bound::of_schedule(fabric, &system, schedule, fidelity))?;
    bound_record(py, &bound, fidelity)
}

fn bound_record<'py>(py: Python<'py>, bound: &bound::Bound, fidelity: Option<Fidelity>) -> PyResult<Bound<'py, PyAny>> {
    record!(py, "Bound", {
        ..bound: time_ns, binding, volume_ns, cut_ns, latency_ns, strength_ns, prices_ns, endpoint_ns, computation_ns;
        limit: limit_record(py, &bound.limit)?,
        fidelity: fidelity.map(|fidelity| fidelity.name()),
    })
}

fn limit_record<'py>(py: Python<'py>, limit: &bound::Limit) -> PyResult<Bound<'py, PyAny>> {
    record!(py, "Limit", {
        ..limit: text;
        links: PyTuple::new(py, &limit.links)?,
        prices: PyTuple::new(py, &limit.prices)?,
        part_of: PyTuple::new(py, &limit.part_of)?,
    })
}

/// Proves a schedule, then times it on `system`, a preset's name or a `System`, at the fidelity `alpha-beta`, `packet`
/// or `flit`: a `SimulationResult`, times in ns, sizes in bytes; with `energy` also what it takes. `progress` is called
/// with the share done, 0 to 1, `trace` with what happened when, in Chrome's trace event format; with `playback`
/// also what links carried over time. A long run in packets uses up to `jobs` cores.
///
/// Raises AntiphonError: as `verify`; `unknown-name`, `stalled` with the chain of waits, `too-large`. Ctrl-C raises
/// KeyboardInterrupt.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (fabric, schedule, system = "generic", fidelity = "packet", progress = None, energy = false, trace: "Callable[[str], object] | None" = None, jobs = 1, playback = false) -> "SimulationResult")]
pub fn simulate<'py>(
    py: Python<'py>,
    fabric: &Fabric,
    schedule: &Schedule,
    system: SystemLike,
    fidelity: Named<Fidelity>,
    progress: Option<Progress>,
    energy: bool,
    trace: Option<Py<PyAny>>,
    jobs: Fit<usize>,
    playback: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let options = RunOptions { energy, playback, cores: jobs.0 };
    let (fabric, given, system) = (&fabric.0, schedule, system.get()?);
    let schedule = &given.0;
    let fly = if trace.is_some() { simulation::trace_flights } else { simulation::simulate_flights };
    let (proven, certified, mut result, least) = run_with_progress(py, progress, |heartbeat| {
        let proven = {
            let heartbeat = RefCell::new(&mut *heartbeat);
            let proving = |_| (heartbeat.borrow_mut())(0.0);
            prove(fabric, given, Watch::new(&proving))?
        };
        let certified = bound::certified(fabric, &system, schedule)?;
        let flights = [Flight::new(&proven)];
        let result = fly(fabric, &flights, Order::default(), &system, fidelity.0, options, heartbeat)?;
        let least = energy.then(|| -> Result<_, Error> {
            let time_ps = bound::of_schedule(fabric, &system, schedule, Some(fidelity.0))?.time_ps;
            bound::least_energy(fabric, &system, schedule, time_ps)
        });
        Ok((proven, certified, result, least.transpose()?))
    })?;
    write_trace(py, trace, fabric, &[Flight::new(&proven)], &mut result)?;
    result_record(py, fabric, &system, (proven.proof(), certified), &result, least)
}

/// Proves a schedule, then times it where each of what can limit it is twice as good: its name and the time in ns, of
/// `rates`, `latency`, `endpoint` and `computation`. All else as of `simulate`.
///
/// Raises AntiphonError: as `simulate`. Ctrl-C raises KeyboardInterrupt.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (fabric, schedule, system = "generic", fidelity = "packet", progress = None, jobs = 1))]
pub fn relieved_times(
    py: Python<'_>,
    fabric: &Fabric,
    schedule: &Schedule,
    system: SystemLike,
    fidelity: Named<Fidelity>,
    progress: Option<Progress>,
    jobs: Fit<usize>,
) -> PyResult<Vec<(&'static str, f64)>> {
    let (fabric, system) = (&fabric.0, system.get()?);
    let runs = run_with_progress(py, progress, |heartbeat| {
        let proven = prove(fabric, schedule, Watch::default())?;
        bound::relieved(fabric, &proven, &system, fidelity.0, jobs.0, heartbeat)
    })?;
    Ok(runs.into_iter().map(|run| (run.limiting.name(), nanos(run.time_ps))).collect())
}

/// Gives the text of the trace of a run to who asked for it.
fn write_trace(
    py: Python<'_>,
    write: Option<Py<PyAny>>,
    fabric: &fabric::Fabric,
    flights: &[Flight],
    result: &mut SimulationResult,
) -> PyResult<()> {
    if let Some((write, trace)) = write.zip(result.trace.take()) {
        let text = run(py, || Ok(chrome::write(&trace, fabric, flights)))?;
        write.call1(py, (text,))?;
    }
    Ok(())
}

/// A flight as `simulate_flights` takes it: schedule, start in ns, numbers of the flights before it, priority.
type FlightTuple = (Py<Schedule>, Number, Fit<Vec<usize>>, Fit<u32>);

/// Proves schedules, then times them in flight together on a fabric: a `SimulationResult` with a table `flights`, and the
/// table of what each `flight` has of every `link` that several use (`bytes`, `wait_ns`, NaN where it is not known).
/// `flights` has tuples (schedule, start_ns, after, priority), where `after` has numbers of flights that are to be over
/// before; schedules may be for groups of the fabric's ranks. `order` says which of them goes first on a link: `fifo`,
/// `lifo`, `priority` (lower numbers first) or `fair` (that which the link has served least). `trace` as in `simulate`.
///
/// Raises AntiphonError: as `simulate`, naming the flight; `bad-spec` if flights wait for each other.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (fabric, flights, system = "generic", fidelity = "packet", order = "fifo", progress = None, energy = false, trace: "Callable[[str], object] | None" = None) -> "tuple[SimulationResult, _Columns]")]
pub fn simulate_flights<'py>(
    py: Python<'py>,
    fabric: &Fabric,
    flights: Vec<FlightTuple>,
    system: SystemLike,
    fidelity: Named<Fidelity>,
    order: Named<Order>,
    progress: Option<Progress>,
    energy: bool,
    trace: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyAny>, Table<'py>)> {
    let (fabric, system, starts) = (&fabric.0, system.get()?, starts_of(&flights)?);
    let schedules: Vec<&Schedule> = flights.iter().map(|flight| flight.0.get()).collect();
    let options = RunOptions { energy, ..RunOptions::default() };
    let fly = if trace.is_some() { simulation::trace_flights } else { simulation::simulate_flights };
    let (proven, proof, mut result) = run_with_progress(py, progress, |heartbeat| {
        let (proven, proof) = {
            let heartbeat = RefCell::new(&mut *heartbeat);
            let proving = |_| (heartbeat.borrow_mut())(0.0);
            prove_flights(fabric, &schedules, Watch::new(&proving))?
        };
        let flying = launches(&flights, &starts, &proven);
        let result = fly(fabric, &flying, order.0, &system, fidelity.0, options, heartbeat)?;
        Ok((proven, proof, result))
    })?;
    let flying = launches(&flights, &starts, &proven);
    write_trace(py, trace, fabric, &flying, &mut result)?;
    let shares: Vec<_> = result.contended.iter().flat_map(|row| row.flights.iter().map(move |of| (row, of))).collect();
    let contended = table!(py, row in shares.iter(), {
        link: i64::from(row.0.link),
        flight: i64::from(row.1.0),
        bytes: row.1.1,
        wait_ns: row.0.wait_ps.map_or(f64::NAN, nanos),
    })?;
    Ok((result_record(py, fabric, &system, (&proof, None), &result, None)?, contended))
}

/// Lower bounds in ns of `flights`, as `simulate_flights` takes them: of each by itself, of all together, and what that
/// rests on.
///
/// Raises AntiphonError: as `simulate_flights`.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (fabric, flights, system = "generic", fidelity = "packet") -> "tuple[list[float], float, str]")]
pub fn flights_bound(
    py: Python<'_>,
    fabric: &Fabric,
    flights: Vec<FlightTuple>,
    system: SystemLike,
    fidelity: Named<Fidelity>,
) -> PyResult<(Vec<f64>, f64, String)> {
    let (fabric, system, starts) = (&fabric.0, system.get()?, starts_of(&flights)?);
    let schedules: Vec<&Schedule> = flights.iter().map(|flight| flight.0.get()).collect();
    let joint = run(py, || {
        let (proven, _) = prove_flights(fabric, &schedules, Watch::default())?;
        bound::joint_bound(fabric, &system, &launches(&flights, &starts, &proven), Some(fidelity.0))
    })?;
    Ok((joint.each_ps.iter().map(|&each| nanos(each)).collect(), nanos(joint.time_ps), joint.limit))
}

/// When flights start.
fn starts_of(flights: &[FlightTuple]) -> PyResult<Vec<units::Picos>> {
    if flights.is_empty() {
        return Err(raise(Error::new(Code::BadSpec, "there is no flight; give at least one")));
    }
    let start = |(index, (_, start_ns, ..)): (usize, &FlightTuple)| {
        let start_ns = start_ns.0;
        if !(0.0..=MAX_NANOS).contains(&start_ns) {
            let text = format!("flight {index}: start_ns is {start_ns}; expected 0 to {MAX_NANOS:e}");
            return Err(raise(Error::new(Code::BadSize, text)));
        }
        Ok(picos(start_ns))
    };
    flights.iter().enumerate().map(start).collect()
}

/// Flights of proven schedules, which start at these times.
fn launches<'a>(flights: &[FlightTuple], starts: &[units::Picos], proven: &'a [Proven]) -> Vec<Flight<'a>> {
    let launch = |((_, _, after, priority), (&start_ps, schedule)): (&FlightTuple, (&units::Picos, &'a Proven))| {
        Flight { start_ps, after: after.0.clone(), priority: priority.0, ..Flight::new(schedule) }
    };
    flights.iter().zip(starts.iter().zip(proven)).map(launch).collect()
}

/// A schedule that is proven for the ranks of a fabric; once, however often it is asked for.
pub fn prove(fabric: &Arc<fabric::Fabric>, schedule: &Schedule, watch: Watch) -> Result<Proven, Error> {
    schedule.proven(fabric, |schedule| prove_watched(fabric, schedule, watch))
}

/// The same for all ranks of a fabric, or for the group of them that it is for.
pub fn prove_part(fabric: &Arc<fabric::Fabric>, schedule: &Schedule, watch: Watch) -> Result<Proven, Error> {
    match fabric.members().is_none() && !schedule.0.group.is_empty() {
        true => prove(&Arc::new(fabric.group(&schedule.0.group)?.fabric), schedule, watch),
        false => prove(fabric, schedule, watch),
    }
}

/// Each of some schedules, by its address, proven once as [`prove_part`] does.
pub fn prove_parts<'a>(
    fabric: &Arc<fabric::Fabric>,
    schedules: impl Iterator<Item = &'a Py<Schedule>>,
) -> Result<HashMap<*mut ffi::PyObject, Proven>, Error> {
    let mut proven = HashMap::new();
    for schedule in schedules {
        if let Entry::Vacant(new) = proven.entry(schedule.as_ptr()) {
            new.insert(prove_part(fabric, schedule.get(), Watch::default())?);
        }
    }
    Ok(proven)
}

/// Schedules of flights, each proven in its group of ranks, and one proof of all.
fn prove_flights(
    fabric: &Arc<fabric::Fabric>,
    schedules: &[&Schedule],
    watch: Watch,
) -> Result<(Vec<Proven>, Proof), Error> {
    let prove = |(index, &schedule): (usize, &&Schedule)| {
        prove_part(fabric, schedule, watch).map_err(|error| error.at(format_args!("flight {index}")))
    };
    let proven: Vec<Proven> = schedules.iter().enumerate().map(prove).collect::<Result<_, Error>>()?;
    let is_new = |&(at, _): &(usize, &Proven)| !schedules[..at].iter().any(|&other| std::ptr::eq(other, schedules[at]));
    let proofs = proven.iter().enumerate().filter(is_new).map(|(_, proven)| proven.proof().clone());
    let proof = proofs.reduce(Proof::and).expect("at least one flight");
    Ok((proven, proof))
}

fn result_record<'py>(
    py: Python<'py>,
    fabric: &fabric::Fabric,
    system: &system::System,
    (proof, certified): (&Proof, Option<Certified>),
    result: &SimulationResult,
    least: Option<Attojoules>,
) -> PyResult<Bound<'py, PyAny>> {
    let energy = result.energy.as_ref().map(|energy| energy_record(py, energy, system, least)).transpose()?;
    let share = |busy: u64| {
        if result.time_ps == 0 { 0.0 } else { busy as f64 / result.time_ps as f64 }
    };
    let (rows, timeline) = (&result.links, &result.timeline);
    let links = Table::new(py)
        .column("from", fabric.links.iter().map(|link| i64::from(link.from)))?
        .column("to", fabric.links.iter().map(|link| i64::from(link.to)))?
        .column("busy_ns", rows.iter().map(|row| nanos(row.busy_ps)))?
        .column("utilization", rows.iter().map(|row| share(row.busy_ps)))?
        .column("bytes", rows.iter().map(|row| row.bytes))?
        .column("packets", rows.iter().map(|row| row.packets))?;
    let ranks = table!(py, row in result.ranks.iter(), {
        finish_ns, sent_bytes, received_bytes, reduce_ns,
        buffer_bytes: row.buffer_bytes.map_or(f64::NAN, |bytes| bytes as f64),
    })?;
    let chunks = table!(py, row in result.chunks.iter(), { lane: i64::from(row.lane), chunk, complete_ns })?;
    let flights = table!(py, row in result.flights.iter(), { start_ns, finish_ns })?;
    let windows = 0..timeline.utilization.len() as u64;
    let utilization = Table::new(py)
        .column("start_ns", windows.map(|window| nanos(window * timeline.window_ps)))?
        .column("utilization", timeline.utilization.iter().copied())?;
    record!(py, "SimulationResult", {
        ..result: time_ns, first_chunk_ns, last_chunk_ns, packet_hops, flit_hops, events;
        fidelity: result.fidelity.name(),
        protocol: result.protocol.as_deref(),
        proof: proof_record(py, proof, certified)?,
        link_utilization_mean: result.link_utilization_mean(),
        links: links,
        ranks: ranks,
        chunks: chunks,
        flights: flights,
        timeline: utilization,
        energy: energy,
        playback: result.playback.as_ref().map(|playback| playback_record(py, playback)).transpose()?,
        endpoint_use: result.endpoint.as_ref().map(|uses| use_record(py, uses, result.time_ps)).transpose()?,
    })
}

fn playback_record<'py>(py: Python<'py>, of: &Playback) -> PyResult<Bound<'py, PyAny>> {
    let links = table!(py, row in of.links.iter(), {
        link: i64::from(row.link),
        window: i64::from(row.window),
        busy_ns,
        lane: row.lane.map_or(-1, i64::from),
    })?;
    let ranks = table!(py, row in of.ranks.iter(), {
        rank: i64::from(row.0),
        window: i64::from(row.1),
        share: row.2,
    })?;
    let messages = table!(py, row in of.messages.iter(), {
        lane: i64::from(row.lane),
        chunk,
        transfer: i64::from(row.transfer),
        phase: i64::from(row.phase),
        from: i64::from(row.from),
        to: i64::from(row.to),
        adds,
        start_ns: row.start_ps.map_or(f64::NAN, nanos),
        finish_ns,
    })?;
    let hops: Vec<_> =
        (0i64..).zip(&of.messages).flat_map(|(at, row)| row.route.iter().map(move |&link| (at, link))).collect();
    record!(py, "Playback", {
        ..of: windows, lanes_a_group;
        window_ns: of.window_ps / units::PICOS_PER_NANO as f64,
        links: links,
        ranks: ranks,
        phases: table!(py, row in of.phases.iter(), { name: row.name.as_str(), start_ns, finish_ns })?,
        messages: messages,
        hops: table!(py, row in hops.iter(), { message: row.0, link: i64::from(row.1) })?,
    })
}

/// A list of `Algorithm`, all of them in the order of the documentation.
#[pyfunction]
#[pyo3(signature = () -> "list[Algorithm]")]
pub fn algorithms(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    let algorithm = |info: &algorithm::Info| {
        let options = info.options.iter().map(|option| listed(py, &option.listed(info.source)));
        record!(py, "Algorithm", {
            ..info: name, summary, source;
            options: options.collect::<PyResult<Vec<_>>>()?,
            collectives: info.collectives.iter().map(|kind| kind.name()).collect::<Vec<_>>(),
        })
    };
    algorithm::all().into_iter().map(|each| algorithm(each.info())).collect()
}

/// How the runs of every algorithm are among those of others: "short", "usual" or "large".
#[pyfunction]
pub fn algorithm_scales() -> HashMap<&'static str, &'static str> {
    algorithm::all().into_iter().map(|algorithm| (algorithm.info().name, algorithm.scale().name())).collect()
}

/// The kinds of fabrics as triples (kind, example of a specification, meaning).
#[pyfunction]
pub fn fabrics() -> Vec<(&'static str, &'static str, &'static str)> {
    let own = fabric::spec::PRESETS.iter().map(|preset| (preset.kind, preset.example, preset.description));
    let added = fabric::spec::ADDED.all().into_iter();
    own.chain(added.map(|(kind, added)| (kind, &*added.example, &*added.description))).collect()
}

/// Names of the system presets.
#[pyfunction]
pub fn systems() -> Vec<&'static str> {
    system::PRESETS.iter().map(|preset| preset.name).collect()
}

/// Names of the collectives.
#[pyfunction]
pub fn collectives() -> Vec<&'static str> {
    Kind::ALL.map(Kind::name).to_vec()
}

/// The name of a collective whose words may be joined by `_` or by nothing.
///
/// Raises AntiphonError: `unknown-name` with the nearest.
#[pyfunction]
pub fn collective_name(name: Text<'_>) -> PyResult<&'static str> {
    Ok(Kind::parse(name.0).map_err(raise)?.name())
}

/// Returns None if `name` is a fidelity.
///
/// Raises AntiphonError: `unknown-name` if not, listing the known ones.
#[pyfunction]
pub fn check_fidelity(name: Named<Fidelity>) {
    let Named(_) = name;
}

/// Names of the fidelities of `simulate`, cheapest first.
#[pyfunction]
pub fn fidelities() -> Vec<&'static str> {
    Fidelity::NAMES.to_vec()
}

/// What to multiply algorithm bandwidth (full buffer over time) by to get bus bandwidth on `ranks` ranks, as the NCCL
/// tests do.
///
/// >>> bus_factor("all-reduce", 4)
/// 1.5
///
/// Raises AntiphonError: `unknown-name` for the collective, `bad-size` for the ranks.
#[pyfunction]
pub fn bus_factor(collective: Text<'_>, ranks: Int) -> PyResult<f64> {
    Ok(Kind::parse(collective.0).map_err(raise)?.bus_factor(ranks.get("ranks")?))
}

/// A size, an int or text such as `64MiB` or `375kB`, as a number of bytes.
///
/// >>> parse_bytes("64KiB")
/// 65536
///
/// Raises AntiphonError: `bad-size` unless it is whole, positive and at most 1 PiB.
#[pyfunction]
pub fn parse_bytes(bytes: Size) -> u64 {
    bytes.0
}

/// A size as text with the largest unit in which it is whole, such as `64MiB`.
///
/// >>> format_bytes(65536), format_bytes(65537)
/// ('64KiB', '65537B')
///
/// Raises AntiphonError: as `parse_bytes`.
#[pyfunction]
pub fn format_bytes(bytes: Size) -> String {
    units::format_bytes(bytes.0)
}

/// First byte and length in bytes of shard `index` (from 0) of a buffer cut into `parts` at multiples of `align` bytes.
///
/// >>> shard("1KiB", 4, 1), shard(100, 3, 1, align=16)
/// ((256, 256), (32, 32))
///
/// Raises AntiphonError: `bad-size`; `bad-spec` if there is no such shard, or for an `align` that is no power of two from 4
/// to 4096.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (bytes, parts, index, align = 4))]
pub fn shard(bytes: Size, parts: Int, index: Int, align: Int) -> PyResult<(u64, u64)> {
    let (parts, index): (usize, usize) = (parts.get("parts")?, index.get("index")?);
    if index >= parts {
        let text = format!("shard {index} of {parts} does not exist");
        return Err(raise(Error::new(Code::BadSpec, text)));
    }
    Ok(aligned(align)?.shard(bytes.0, parts, index))
}
