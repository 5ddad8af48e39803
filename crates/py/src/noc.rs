//! The flit-level network under synthetic traffic.

use crate::parameter::{fill_some, unknown};
use crate::prelude::*;
use antiphon_base::parameter::Listed;
use antiphon_model::system::{RouterModel, System};
use antiphon_noc::route::RoutingKind;
use antiphon_noc::synthetic::Experiment;
use antiphon_noc::traffic;
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
/// `traffic` is one of `traffic_patterns()`; `rate` is in flits per rank and cycle, above 0 and at most 1. `progress` is
/// called with the share done, 0 to 1. `energy`: also what the run takes, with the energies, flits and clock of `platform`.
/// A run uses up to `jobs` cores. Other keywords are those of `inputs("noc")` and `inputs("routers")`.
///
/// Raises AntiphonError: `bad-size`, `bad-spec` or `unknown-name` for parameters, `not-applicable` for traffic or
/// routing that the fabric cannot have, `too-large`, `stalled` for a deadlock. Ctrl-C raises KeyboardInterrupt.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (fabric, traffic, rate, progress = None, energy = false, platform = "generic", jobs = 1, **options: "Unpack[NocOptions]") -> "NocResult")]
pub fn noc<'py>(
    py: Python<'py>,
    fabric: &Fabric,
    traffic: Text<'_>,
    rate: FlitRate,
    progress: Option<Progress>,
    energy: bool,
    platform: SystemLike,
    jobs: Fit<usize>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let fabric = &fabric.0;
    let mut system = System { router: RouterModel::textbook(), ..System::default() };
    let mut experiment = Experiment { traffic: traffic.0.into(), ..Experiment::new(rate.0) };
    let of_routers = RouterModel::network_parameters;
    let others = fill_some(&mut experiment, inputs_of(Experiment::INPUTS), options)?;
    let unknown_ones = fill_some(&mut system, of_routers(), options)?;
    if let Some(key) = others.iter().find(|key| unknown_ones.contains(key)) {
        let known = inputs_of(Experiment::INPUTS).map(|(input, _)| input.key);
        return Err(unknown("noc", key, known.chain(of_routers().map(|(parameter, _)| parameter.key))));
    }
    experiment.router = system.router.clone();
    let measured = run_with_progress(py, progress, |heartbeat| experiment.run(fabric, jobs.0, heartbeat))?;
    let platform = platform.get()?;
    let spent =
        energy.then(|| measured.energy(fabric, &platform, experiment.packet_flits)).transpose().map_err(raise)?;
    let spent = spent.map(|spent| energy_record(py, &spent, &platform, None)).transpose()?;
    let latency = &measured.packet_latency_cycles;
    let latency = record!(py, "Latency", {
        ..latency: mean, half_width, p50, p99;
    })?;
    let router = values(py, &system, RouterModel::network_parameters())?;
    let router = instance("Router", &router)?;
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

/// A list of `Parameter`: those of the routers of `noc`, with the defaults they have there.
///
/// >>> {each.key: each.default for each in router_parameters()}["vcs"]
/// '4'
#[pyfunction]
#[pyo3(signature = () -> "list[Parameter]")]
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
