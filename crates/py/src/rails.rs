//! Multi-dimensional networks: chunk scheduling and advice.

use crate::prelude::*;
use antiphon_base::units::Picos;
use antiphon_jobs::rails_flights::{RailsFlight, TimedRailsFlight, fly};
use antiphon_jobs::transport::Carriage;
use antiphon_model::collective::Kind;
use antiphon_model::fabric::Dimension;
use antiphon_model::system::{Endpoint, System};
use antiphon_model::topology::{PRESETS, Topology};
use antiphon_sim::Order;
use antiphon_sim::rails as core_rails;
use antiphon_sim::rails::consistency::{self, Jitter};
use antiphon_sim::rails::scheduler::{OrderSearch, Themis};
use antiphon_sim::rails::stage_loop::QueuePolicy;
use antiphon_sim::rails::{
    Chunks, EndpointUse, Expansion, Policy, RailsRequest, RailsTask, advise as core_advise, lower, prove_by_symmetry,
    run as time,
};
use pyo3::types::PyDict;

/// Windows of time in which activity is counted.
const WINDOWS: usize = 200;

/// Themis as it is asked for.
fn themis(request: &RailsRequest, endpoint: Endpoint) -> Themis {
    Themis {
        threshold: request.threshold,
        fixed_delay: request.fixed_delay,
        endpoint: if request.endpoint_loads { endpoint } else { Endpoint::System },
    }
}

/// A task at the system's endpoint.
fn task(topology: &str, bytes: Size, collective: &str, scheduler: &str, request: &RailsRequest) -> PyResult<RailsTask> {
    Ok(RailsTask {
        topology: Topology::parse(topology).map_err(raise)?,
        kind: Kind::parse(collective).map_err(raise)?,
        bytes: bytes.0,
        policy: Policy::parse(scheduler).map_err(raise)?,
        queue: request.intra,
        chunks: request.chunks.unwrap_or(Chunks::Endpoint),
        sharing: request.sharing,
        offload: request.offload,
        themis: themis(request, Endpoint::System),
        packets: request.packets.clone(),
        seed: request.seed,
        endpoint: Endpoint::System,
    })
}

/// A `RailsRun`: a collective of `bytes` bytes over the dimensions of a network such as `ring4@1000/20ns,sw8@800/700ns`,
/// rates in Gb/s of one NPU. `scheduler` is one of `rails_schedulers()`. With `jitter_ns`, NPUs keep to the planned order if
/// `enforced`. At an `endpoint` other than `system` (see `endpoints()`) chunks are timed step by step. `energy`: also what
/// the run takes, with the energies of `platform`. Other keywords are those of `inputs("rails")`.
///
/// Raises AntiphonError: `bad-spec`, `unknown-name`, `bad-size`, `not-applicable`, `too-large`, or `stalled` with the
/// NPUs that wait for each other.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (topology, bytes, collective, scheduler, enforced = true, endpoint = "system", energy = false, platform = "ideal", **options: "Unpack[RailsOptions]") -> "RailsRun")]
pub fn rails<'py>(
    py: Python<'py>,
    topology: Text<'_>,
    bytes: Size,
    collective: Text<'_>,
    scheduler: Text<'_>,
    enforced: bool,
    endpoint: Text<'_>,
    energy: bool,
    platform: SystemLike,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut request = RailsRequest::default();
    fill("rails", &mut request, RailsRequest::INPUTS, options)?;
    let jitter = request.jitter_ns.map(|most_ps| Jitter { most_ps, seed: request.seed, enforced });
    let endpoint = Endpoint::parse(endpoint.0).map_err(raise)?;
    if jitter.is_some() && endpoint != Endpoint::System {
        let text = "jitter is of NPUs whose endpoint is the system's; leave one of them out";
        return Err(raise(Error::new(Code::NotApplicable, text)));
    }
    let task = RailsTask {
        themis: themis(&request, endpoint),
        endpoint,
        ..task(topology.0, bytes, collective.0, scheduler.0, &request)?
    };
    let (plan, queue, timed, proof, jittered) = run(py, || {
        let (plan, queue, timed) = task.run()?;
        // At an endpoint stages overlap, which is no order of service; dimensions have the same one without.
        let plain = (endpoint != Endpoint::System).then(|| time(&task.topology, &plan, queue, 1));
        let proof = match prove_by_symmetry(&task.topology, &plan, plain.as_ref().unwrap_or(&timed)) {
            Ok(proof) => Some(proof.to_string()),
            // Too large to be followed, or not made of messages.
            Err(error) if matches!(error.code, Code::TooLarge | Code::NotApplicable) => None,
            Err(error) => return Err(error),
        };
        let jittered = jitter.map(|jitter| consistency::run(&task.topology, &plan, queue, &jitter)).transpose()?;
        Ok((plan, queue, timed, proof, jittered))
    })?;
    let RailsTask { ref topology, kind, policy, .. } = task;
    let platform = System { endpoint: task.endpoint, ..platform.get()? };
    let spent = energy.then(|| core_rails::energy(topology, &plan, &timed, &platform)).transpose().map_err(raise)?;
    let least = energy.then(|| core_rails::least_energy(topology, &plan, &platform, 0));
    let spent = spent.map(|spent| energy_record(py, &spent, &platform, least)).transpose()?;
    // The bound is that of an AllReduce by messages.
    let bounded = kind == Kind::AllReduce && !plan.offload;
    let bound = bounded.then(|| core_advise::advise(topology).utilization_bound);
    let dimensions = topology.dimensions.iter().enumerate();
    let names = dimensions.clone().map(|(number, dimension)| name(number, dimension));
    let table = Table::new(py)
        .column("name", names)?
        .column("spec", topology.dimensions.iter().map(Dimension::spec))?
        .column("utilization", dimensions.clone().map(|(number, _)| timed.utilization(number)))?
        .column("bytes", plan.bytes_sent(topology).into_iter())?
        .column("busy_ns", timed.busy_ps.iter().map(|&busy| nanos(busy)))?;
    let activity = timed.activity(WINDOWS);
    let mut timeline = table!(py, window in (0..WINDOWS), {
        start_ns: nanos(timed.time_ps) * window as f64 / WINDOWS as f64,
    })?;
    for (number, shares) in activity.into_iter().enumerate() {
        timeline = timeline.column(&format!("dim{}", number + 1), shares.into_iter())?;
    }
    let spans = || timed.spans.iter().zip(1u64..).flat_map(|(spans, at)| spans.iter().map(move |span| (at, span)));
    let stages = table!(py, row in spans(), {
        dimension: row.0,
        chunk: u64::from(row.1.chunk),
        stage: u64::from(row.1.stage),
        ready_ns: nanos(row.1.ready_ps),
        start_ns: nanos(row.1.start_ps),
        finish_ns: nanos(row.1.finish_ps),
    })?;
    let orders: Vec<(Vec<u64>, Vec<u64>)> = plan.orders.iter().map(|order| paths(kind, order)).collect();
    record!(py, "RailsRun", {
        ..plan: bytes;
        ..timed: time_ns;
        topology: &topology.name,
        npus: topology.npus(),
        collective: kind.name(),
        scheduler: policy.name(),
        intra: queue.name(),
        chunks: plan.orders.len(),
        endpoint: task.endpoint.spec(),
        jittered_time_ns: jittered.map(nanos),
        utilization: timed.mean_utilization(topology),
        utilization_bound: bound,
        header_share: plan.header_share(topology),
        dimensions: table,
        orders: orders,
        proof: proof,
        timeline: timeline,
        stages: stages,
        energy: spent,
        endpoint_use: timed.endpoint.as_ref().map(|uses| use_record(py, uses, timed.time_ps)).transpose()?,
    })
}

/// An `EndpointUse` of a run that ended at `end`.
pub fn use_record<'py>(py: Python<'py>, uses: &EndpointUse, end: Picos) -> PyResult<Bound<'py, PyAny>> {
    let parts = table!(py, part in uses.parts.iter(), {
        part: part.name,
        option: part.option,
        busy: part.busy,
        waiting: part.waiting.unwrap_or(f64::NAN),
        limits: part.limits,
    })?;
    // Message by message only totals are known.
    let windows = if uses.under_way.is_empty() { 0 } else { WINDOWS };
    let mut timeline = table!(py, window in (0..windows), {
        start_ns: nanos(end) * window as f64 / windows as f64,
    })?;
    for (name, shares) in uses.activity(end, windows) {
        timeline = timeline.column(name, shares.into_iter())?;
    }
    record!(py, "EndpointUse", { limit: uses.limit(), parts: parts, timeline: timeline })
}

/// The plan of `rails` as messages: the `Fabric` with every NPU and switch, and a `Schedule` on it. A chunk goes
/// through the steps of a stage in `slices`.
///
/// Raises AntiphonError: as `rails`; `too-large` past the limits of fabrics and schedules.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (topology, bytes, collective, scheduler, slices = 1, **options: "Unpack[RailsOptions]"))]
pub fn rails_messages(
    py: Python<'_>,
    topology: Text<'_>,
    bytes: Size,
    collective: Text<'_>,
    scheduler: Text<'_>,
    slices: Int,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<(Fabric, Schedule)> {
    let mut request = RailsRequest::default();
    fill("rails_messages", &mut request, RailsRequest::INPUTS, options)?;
    if request.packets.is_some() {
        let what = "packets of messages are the system's that times them; leave packets out";
        return Err(raise(Error::new(Code::NotApplicable, what)));
    }
    let task = task(topology.0, bytes, collective.0, scheduler.0, &request)?;
    let slices = slices.get("slices")?;
    run(py, || {
        let expansion = Expansion::new(&task.topology)?;
        let (plan, _, timed) = task.run()?;
        let schedule = lower(&expansion, &plan, &timed, slices)?;
        Ok((Fabric(expansion.fabric.into()), schedule.into()))
    })
}

/// A flight as `rails_flights` takes it: collective, bytes, dimensions from 1 (none: all), start in ns, numbers of the
/// flights before it that are to be over, priority.
type RailsFlightTuple = (String, Size, Fit<Vec<u8>>, Number, Fit<Vec<usize>>, Fit<u32>);

/// A `RailsFlights`: collectives in flight together on a network, ordered by one scheduler. At an `endpoint` other than
/// `system` those of lower priority numbers go first, of equal ones those that start first. `shared_loads`: Themis counts as load what
/// dimensions still have to do of others when one starts. Other arguments are those of `rails`.
///
/// Raises AntiphonError: as `rails`; `bad-spec` for flights after others that are not before them, and for dimensions.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (topology, flights, scheduler, shared_loads = false, endpoint = "system", **options: "Unpack[RailsOptions]") -> "RailsFlights")]
pub fn rails_flights<'py>(
    py: Python<'py>,
    topology: Text<'_>,
    flights: Vec<RailsFlightTuple>,
    scheduler: Text<'_>,
    shared_loads: bool,
    endpoint: Text<'_>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut request = RailsRequest::default();
    fill("rails", &mut request, RailsRequest::INPUTS, options)?;
    let endpoint = Endpoint::parse(endpoint.0).map_err(raise)?;
    let policy = Policy::parse(scheduler.0).map_err(raise)?;
    let chunks = match request.chunks {
        None => None,
        Some(Chunks::Count(chunks)) => Some(chunks),
        Some(_) => return Err(refuse_in_flight("chunks best is of one collective; give a number")),
    };
    if request.jitter_ns.is_some() || request.sharing > 1 {
        return Err(refuse_in_flight("jitter and sharing are of one collective; leave them out"));
    }
    let usual = if endpoint == Endpoint::System { policy.queue() } else { QueuePolicy::Oldest };
    let how = Carriage {
        chunks,
        queue: request.intra.unwrap_or(usual),
        offload: request.offload,
        endpoint,
        order: Order::Priority,
        packets: request.packets.clone(),
        shared_loads,
    };
    let read = |(number, flight): (usize, &RailsFlightTuple)| {
        let (kind, bytes, dimensions, start_ns, after, priority) = flight;
        let refused = |code, what: String| raise(Error::new(code, what).at(format_args!("flight {number}")));
        let from_0 = |&number: &u8| number.checked_sub(1).ok_or("dimensions count from 1");
        let dimensions = dimensions.0.iter().map(from_0).collect::<Result<_, _>>();
        if !(0.0..=MAX_NANOS).contains(&start_ns.0) {
            let what = format!("start_ns is {}; expected 0 to {MAX_NANOS:e}", start_ns.0);
            return Err(refused(Code::BadSize, what));
        }
        Ok(RailsFlight {
            kind: Kind::parse(kind).map_err(|error| raise(error.at(format_args!("flight {number}"))))?,
            bytes: bytes.0,
            dimensions: dimensions.map_err(|what| refused(Code::BadSpec, what.into()))?,
            start_ps: picos(start_ns.0),
            after: after.0.clone(),
            priority: priority.0,
        })
    };
    let flights = flights.iter().enumerate().map(read).collect::<PyResult<Vec<_>>>()?;
    let topology = Topology::parse(topology.0).map_err(raise)?;
    let timed = run(py, || {
        let search = OrderSearch { queue: how.queue, seed: request.seed, ..OrderSearch::default() };
        let scheduler = policy.scheduler(themis(&request, endpoint), search);
        fly(&topology, &flights, &*scheduler, how.clone())
    })?;
    let time_ps = timed.iter().map(|flight| flight.finish_ps).max().unwrap_or(0);
    let mut busy = vec![0.0; topology.dimensions.len()];
    for flight in &timed {
        for stage in flight.plan.orders.iter().flat_map(|order| flight.plan.stages(&flight.group.topology, order)) {
            busy[usize::from(flight.group.numbers[usize::from(stage.dimension)])] += stage.busy_ps as f64;
        }
    }
    let share = |number: usize| busy[number] / time_ps.max(1) as f64;
    let dimensions = topology.dimensions.iter().enumerate();
    let rated = dimensions.clone().map(|(number, dimension)| share(number) * dimension.npu_rate().0 as f64);
    let utilization = rated.sum::<f64>() / topology.total_rate() as f64;
    let table = Table::new(py)
        .column("name", dimensions.clone().map(|(number, dimension)| name(number, dimension)))?
        .column("spec", topology.dimensions.iter().map(Dimension::spec))?
        .column("utilization", dimensions.map(|(number, _)| share(number)))?;
    let rows = table!(py, row in timed.iter().zip(&flights), {
        collective: row.1.kind.name(),
        bytes: row.1.bytes,
        chunks: row.0.plan.orders.len() as u64,
        start_ns: nanos(row.0.start_ps),
        finish_ns: nanos(row.0.finish_ps),
    })?;
    let orders: Vec<Vec<(Vec<u64>, Vec<u64>)>> = timed.iter().map(in_whole).collect();
    record!(py, "RailsFlights", {
        topology: &topology.name,
        npus: topology.npus(),
        scheduler: policy.name(),
        intra: how.queue.name(),
        endpoint: endpoint.spec(),
        shared_loads: shared_loads,
        time_ns: nanos(time_ps),
        utilization: utilization,
        dimensions: table,
        flights: rows,
        orders: orders,
    })
}

fn refuse_in_flight(what: &str) -> PyErr {
    raise(Error::new(Code::NotApplicable, what))
}

/// Orders of a flight's chunks in numbers of the whole network.
fn in_whole(flight: &TimedRailsFlight) -> Vec<(Vec<u64>, Vec<u64>)> {
    let number = |of: u64| u64::from(flight.group.numbers[of as usize - 1]) + 1;
    let whole = |path: Vec<u64>| path.into_iter().map(number).collect();
    let orders = flight.plan.orders.iter().map(|order| paths(flight.plan.kind, order));
    orders.map(|(first, gather)| (whole(first), whole(gather))).collect()
}

/// Dimension numbers, from 1, of the stages before the AllGather and of the AllGather.
fn paths(kind: Kind, order: &antiphon_sim::rails::ChunkOrder) -> (Vec<u64>, Vec<u64>) {
    let numbers = |path: &antiphon_sim::rails::orders::StagePath| {
        path.as_slice().iter().map(|&number| u64::from(number) + 1).collect()
    };
    match kind {
        Kind::AllReduce => (numbers(&order.first), numbers(&order.gather)),
        Kind::AllGather => (Vec::new(), numbers(&order.gather)),
        _ => (numbers(&order.first), Vec::new()),
    }
}

fn name(number: usize, dimension: &Dimension) -> String {
    format!("dim{} ({})", number + 1, dimension.label())
}

/// The known multi-dimensional networks as pairs (name, dimensions).
#[pyfunction]
pub fn rails_topologies() -> Vec<(&'static str, &'static str)> {
    PRESETS.to_vec()
}

/// Names of the schedulers that `rails` knows.
#[pyfunction]
pub fn rails_schedulers() -> Vec<&'static str> {
    Policy::ALL.iter().copied().chain(Policy::added()).map(|(name, _)| name).collect()
}

/// Names of the queue policies that `rails` knows.
#[pyfunction]
pub fn rails_queues() -> Vec<&'static str> {
    QueuePolicy::ALL.iter().map(|(name, _)| *name).collect()
}

/// A `RailsAdvice`: the largest share of a network's rates that an AllReduce can use, and the rates in Gb/s, the same
/// in total, that the fixed order would use up.
///
/// Raises AntiphonError: `bad-spec`, `bad-size` or `unknown-name`.
#[pyfunction]
#[pyo3(signature = (topology) -> "RailsAdvice")]
pub fn advise_rails<'py>(py: Python<'py>, topology: Text<'_>) -> PyResult<Bound<'py, PyAny>> {
    let topology = Topology::parse(topology.0).map_err(raise)?;
    let advice = core_advise::advise(&topology);
    let dimensions = topology.dimensions.iter().enumerate();
    let gbit = |rate: antiphon_base::units::Rate| rate.0 as f64 * 8.0 / 1e9;
    let table = Table::new(py)
        .column("name", dimensions.clone().map(|(number, dimension)| name(number, dimension)))?
        .column("gbit_per_s", dimensions.clone().map(|(_, dimension)| gbit(dimension.npu_rate())))?
        .column("balanced_gbit_per_s", advice.balanced.iter().map(|&rate| gbit(rate)))?
        .column("binding", dimensions.map(|(number, _)| advice.binding.contains(&number)))?;
    let pairs = table!(py, pair in advice.pairs.iter(), {
        near: pair.near as u64 + 1,
        far: pair.far as u64 + 1,
        ratio,
        provision: pair.provision.name(),
    })?;
    record!(py, "RailsAdvice", {
        ..advice: utilization_bound, baseline_utilization;
        topology: &topology.name,
        npus: topology.npus(),
        dimensions: table,
        pairs: pairs,
    })
}
