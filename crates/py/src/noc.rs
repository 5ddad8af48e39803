//! The flit-level network under synthetic traffic.

use crate::convert::{Fit, Int, Text, raise, record, record_of};
use crate::energy::energy_record;
use crate::fabric::Fabric;
use crate::heartbeat::run_with_progress;
use crate::operations::{SystemLike, generic};
use crate::parameter::{extract, listed, to_python};
use antiphon_base::error::{Code, Error, nearest};
use antiphon_base::parameter::{Choice, Field, Listed, Parameter, Value};
use antiphon_base::units::clip;
use antiphon_model::system::{RouterModel, System};
use antiphon_noc::route::RoutingKind;
use antiphon_noc::synthetic::Experiment;
use antiphon_noc::traffic;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A rate; integers too large for a float are just too large.
pub struct FlitRate(f64);

impl<'py> FromPyObject<'_, 'py> for FlitRate {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        value.extract::<f64>().map(FlitRate).map_err(|_| {
            let text = "the rate is a number above 0 and at most 1 flit per node and cycle";
            raise(Error::new(Code::BadSize, text))
        })
    }
}

/// A `NocResult`: latencies in cycles and throughput of the flit-level network of a fabric under synthetic traffic.
/// `traffic` is one of `traffic_patterns()`; `routing` is `xy`, `yx` or `minimal`, or None for what suits the fabric.
/// `rate` is in flits per rank and cycle, above 0 and at most 1; a packet has `packet_flits`; a link takes
/// `link_cycles` for a flit, which arrives `latency_cycles` later; `warm_up_cycles` and `cycles` of None end by
/// themselves. `progress` is called with the share done, 0 to 1. `energy`: also what the run takes, with the energies, flits
/// and clock of `platform`. A run uses up to `jobs` cores. Other keywords are those of `router_parameters()`.
///
/// Raises AntiphonError: `bad-size`, `bad-spec` or `unknown-name` for parameters, `not-applicable` for traffic or
/// routing that the fabric cannot have, `too-large`, `stalled` for a deadlock. Ctrl-C raises KeyboardInterrupt.
#[pyfunction]
#[pyo3(signature = (
    fabric, traffic = Text("uniform"), rate = FlitRate(0.1), *, packet_flits = Int::from(1), routing = None, link_cycles = Int::from(1),
    latency_cycles = Int::from(0), warm_up_cycles = None, cycles = None, seed = Int::from(1), progress = None,
    energy = false, platform = generic(), jobs = Fit(1), **router,
), text_signature = "(fabric, traffic='uniform', rate=0.1, *, packet_flits=1, routing=None, link_cycles=1, latency_cycles=0, warm_up_cycles=None, cycles=None, seed=1, progress=None, energy=False, platform='generic', jobs=1, **router)")]
#[allow(clippy::too_many_arguments)]
pub fn noc<'py>(
    py: Python<'py>,
    fabric: &Fabric,
    traffic: Text<'_>,
    rate: FlitRate,
    packet_flits: Int,
    routing: Option<Text<'_>>,
    link_cycles: Int,
    latency_cycles: Int,
    warm_up_cycles: Option<Int>,
    cycles: Option<Int>,
    seed: Int,
    progress: Option<Py<PyAny>>,
    energy: bool,
    platform: SystemLike,
    jobs: Fit<usize>,
    router: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let fabric = &fabric.0;
    let mut system = System { router: RouterModel::textbook(), ..System::default() };
    for (key, value) in router.into_iter().flatten() {
        let key: String = key.extract()?;
        let (parameter, field) = router_parameter(&key).map_err(raise)?;
        if !value.is_none() {
            let value = extract(&parameter, &value).map_err(raise)?;
            field.set(&mut system, &value).map_err(raise)?;
        }
    }
    let experiment = Experiment {
        traffic: traffic.0.into(),
        rate: rate.0,
        packet_flits: packet_flits.within(Experiment::PACKET_FLITS, "packet_flits")?,
        routing: routing.map(|routing| RoutingKind::parse(&routing)).transpose().map_err(raise)?,
        router: system.router.clone(),
        link_cycles: link_cycles.within(Experiment::LINK_CYCLES, "link_cycles")?,
        latency_cycles: latency_cycles.within(Experiment::LATENCY_CYCLES, "latency_cycles")?,
        warm_up_cycles: warm_up_cycles
            .map(|cycles| cycles.within(Experiment::WARM_UP_CYCLES, "warm_up_cycles"))
            .transpose()?,
        cycles: cycles.map(|cycles| cycles.within(Experiment::CYCLES, "cycles")).transpose()?,
        seed: seed.get("seed")?,
    };
    let measured = run_with_progress(py, progress, |heartbeat| experiment.run(fabric, jobs.0, heartbeat))?;
    let platform = platform.get()?;
    let spent =
        energy.then(|| measured.energy(fabric, &platform, experiment.packet_flits)).transpose().map_err(raise)?;
    let spent = spent.map(|spent| energy_record(py, &spent, &platform, None)).transpose()?;
    let latency = &measured.packet_latency_cycles;
    let latency = record!(py, "Latency", { ..latency: mean, half_width, p50, p99; })?;
    let router = PyDict::new(py);
    for (parameter, field) in RouterModel::network_parameters() {
        let value = Some(field.get(&system)).filter(|value| *value != Value::Number(f64::INFINITY));
        router.set_item(parameter.key, value.map(|value| to_python(py, value)).transpose()?)?;
    }
    let router = record_of("Router", &router)?;
    record!(py, "NocResult", {
        ..experiment: traffic, rate, packet_flits, link_cycles, latency_cycles, seed;
        ..measured: accepted_flits_per_node_cycle, hops_mean, stable, packets, warm_up_cycles, cycles, flit_hops,
            events;
        fabric: &fabric.name,
        router: router,
        routing: experiment.routing.unwrap_or(RoutingKind::of(fabric)).name(),
        packet_latency_cycles: latency,
        network_latency_mean_cycles: measured.network_latency_cycles,
        energy: spent,
    })
}

fn router_parameter(key: &str) -> Result<(Parameter, &'static Field<System>), Error> {
    let known = || RouterModel::network_parameters();
    known().find(|(parameter, _)| parameter.key == key).ok_or_else(|| {
        let hint = nearest(key, known().map(|(parameter, _)| parameter.key));
        Error::new(Code::UnknownName, format!("noc has no parameter '{}'{hint}", clip(key)))
    })
}

/// A list of `Parameter`: those of the routers of `noc`, with the defaults they have there.
///
/// >>> {each.key: each.default for each in router_parameters()}["vcs"]
/// '4'
#[pyfunction]
pub fn router_parameters(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    let textbook = System { router: RouterModel::textbook(), ..System::default() };
    let fields = RouterModel::network_parameters();
    fields.map(|(parameter, field)| listed(py, &Listed { parameter, ..field.listed(&textbook) })).collect()
}

/// Names of the traffic patterns that `noc` knows.
#[pyfunction]
pub fn traffic_patterns() -> Vec<&'static str> {
    traffic::PATTERNS.to_vec()
}
