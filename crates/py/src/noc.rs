//! The flit-level network under synthetic traffic.

use crate::convert::{Int, fields, raise, record};
use crate::fabric::Fabric;
use crate::heartbeat::run_with_progress;
use antiphon_core::error::{Code, Error};
use antiphon_core::noc::route::Kind;
use antiphon_core::noc::synthetic::Experiment;
use antiphon_core::noc::traffic;
use antiphon_core::system::{Choice, RouterModel};
use pyo3::prelude::*;

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

#[pyfunction]
#[pyo3(signature = (
    fabric, traffic = "uniform", rate = FlitRate(0.1), *, packet_flits = Int::from(1), vcs = Int::from(4), vc_depth = Int::from(8), routing = None,
    switching = "wormhole", allocator = "islip", iterations = Int::from(1), routing_cycles = Int::from(1),
    vc_allocation_cycles = Int::from(1), switch_allocation_cycles = Int::from(1), traversal_cycles = Int::from(1),
    credit_cycles = Int::from(1), input_speedup = Int::from(1), output_speedup = Int::from(1), internal_speedup = Int::from(1),
    output_queue_flits = None, link_cycles = Int::from(1), latency_cycles = Int::from(0), warm_up_cycles = None, cycles = None,
    seed = Int::from(1), progress = None,
), text_signature = "(fabric, traffic='uniform', rate=0.1, *, packet_flits=1, vcs=4, vc_depth=8, routing=None, switching='wormhole', allocator='islip', iterations=1, routing_cycles=1, vc_allocation_cycles=1, switch_allocation_cycles=1, traversal_cycles=1, credit_cycles=1, input_speedup=1, output_speedup=1, internal_speedup=1, output_queue_flits=None, link_cycles=1, latency_cycles=0, warm_up_cycles=None, cycles=None, seed=1, progress=None)")]
#[allow(clippy::too_many_arguments)]
pub fn noc<'py>(
    py: Python<'py>,
    fabric: &Fabric,
    traffic: &str,
    rate: FlitRate,
    packet_flits: Int,
    vcs: Int,
    vc_depth: Int,
    routing: Option<&str>,
    switching: &str,
    allocator: &str,
    iterations: Int,
    routing_cycles: Int,
    vc_allocation_cycles: Int,
    switch_allocation_cycles: Int,
    traversal_cycles: Int,
    credit_cycles: Int,
    input_speedup: Int,
    output_speedup: Int,
    internal_speedup: Int,
    output_queue_flits: Option<Int>,
    link_cycles: Int,
    latency_cycles: Int,
    warm_up_cycles: Option<Int>,
    cycles: Option<Int>,
    seed: Int,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let fabric = &fabric.0;
    let router = RouterModel {
        virtual_channels: vcs.get("vcs")?,
        depth_flits: vc_depth.get("vc_depth")?,
        switching: Choice::parse(switching).map_err(raise)?,
        allocator: Choice::parse(allocator).map_err(raise)?,
        iterations: iterations.get("iterations")?,
        routing_cycles: routing_cycles.get("routing_cycles")?,
        vc_allocation_cycles: vc_allocation_cycles.get("vc_allocation_cycles")?,
        switch_allocation_cycles: switch_allocation_cycles.get("switch_allocation_cycles")?,
        traversal_cycles: traversal_cycles.get("traversal_cycles")?,
        credit_cycles: credit_cycles.get("credit_cycles")?,
        input_speedup: input_speedup.get("input_speedup")?,
        output_speedup: output_speedup.get("output_speedup")?,
        internal_speedup: internal_speedup.get("internal_speedup")?,
        output_queue_flits: output_queue_flits.map(|flits| flits.get("output_queue_flits")).transpose()?,
        ..RouterModel::textbook()
    };
    let experiment = Experiment {
        traffic: traffic.into(),
        rate: rate.0,
        packet_flits: packet_flits.get("packet_flits")?,
        routing: routing.map(Kind::parse).transpose().map_err(raise)?,
        router,
        link_cycles: link_cycles.get("link_cycles")?,
        latency_cycles: latency_cycles.get("latency_cycles")?,
        warm_up_cycles: warm_up_cycles.map(|cycles| cycles.get("warm_up_cycles")).transpose()?,
        cycles: cycles.map(|cycles| cycles.get("cycles")).transpose()?,
        seed: seed.get("seed")?,
    };
    let measured = run_with_progress(py, progress, |heartbeat| experiment.run(fabric, heartbeat))?;
    let latency = &measured.packet_latency_cycles;
    let latency = record(
        "Latency",
        &fields!(py, { mean: latency.mean, half_width: latency.half_width, p50: latency.p50, p99: latency.p99 }),
    )?;
    let model = &experiment.router;
    let router = record(
        "Router",
        &fields!(py, {
            vcs: model.virtual_channels,
            vc_depth: model.depth_flits,
            switching: model.switching.name(),
            allocator: model.allocator.name(),
            iterations: model.iterations,
            routing_cycles: model.routing_cycles,
            vc_allocation_cycles: model.vc_allocation_cycles,
            switch_allocation_cycles: model.switch_allocation_cycles,
            traversal_cycles: model.traversal_cycles,
            credit_cycles: model.credit_cycles,
            input_speedup: model.input_speedup,
            output_speedup: model.output_speedup,
            internal_speedup: model.internal_speedup,
            output_queue_flits: model.output_queue_flits,
        }),
    )?;
    record(
        "NocResult",
        &fields!(py, {
            fabric: &fabric.name,
            traffic: &experiment.traffic,
            rate: experiment.rate,
            packet_flits: experiment.packet_flits,
            router: router,
            routing: experiment.routing.unwrap_or(Kind::of(fabric)).name(),
            link_cycles: experiment.link_cycles,
            latency_cycles: experiment.latency_cycles,
            seed: experiment.seed,
            packet_latency_cycles: latency,
            network_latency_mean_cycles: measured.network_latency_cycles,
            accepted_flits_per_node_cycle: measured.accepted_flits_per_node_cycle,
            hops_mean: measured.hops_mean,
            stable: measured.stable,
            packets: measured.packets,
            warm_up_cycles: measured.warm_up_cycles,
            cycles: measured.cycles,
            flit_hops: measured.flit_hops,
            events: measured.events,
        }),
    )
}

#[pyfunction]
pub fn traffic_patterns() -> Vec<&'static str> {
    traffic::PATTERNS.to_vec()
}
