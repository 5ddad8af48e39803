//! Energy of runs, and area of fabrics, as Python sees them.

use crate::prelude::*;
use antiphon_model::energy::{self, Attojoules, Energy, joules};
use antiphon_model::system::System;

/// An `Energy`; `least` is a lower bound of it.
pub fn energy_record<'py>(
    py: Python<'py>,
    energy: &Energy,
    system: &System,
    least: Option<Attojoules>,
) -> PyResult<Bound<'py, PyAny>> {
    let windows = 0..energy.power.microwatts.len() as u64;
    let power = Table::new(py)
        .column("start_ns", windows.map(|window| nanos(window * energy.power.window_ps)))?
        .column("power_w", energy.power.microwatts.iter().map(|&power| power as f64 * 1e-6))?;
    let links = table!(py, link in energy.per_link.iter(), { energy_j: joules(*link) })?;
    record!(py, "Energy", {
        ..energy: time_ns;
        links_aj: energy.links,
        routers_aj: energy.routers,
        interfaces_aj: energy.interfaces,
        reductions_aj: energy.reductions,
        memory_aj: energy.memory,
        static_aj: energy.idle,
        peak_power_w: energy.peak_power_w(),
        lower_bound_aj: least,
        unknown: system.energy.unknown(),
        system: &system.name,
        links: links,
        power: power,
    })
}

/// A `FabricCost`: what a fabric costs to build on a system.
///
/// Raises AntiphonError: `unknown-name` for a system.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (fabric, system = "generic") -> "FabricCost")]
pub fn cost<'py>(py: Python<'py>, fabric: &Fabric, system: SystemLike) -> PyResult<Bound<'py, PyAny>> {
    let cost = energy::cost(&fabric.0, &system.get()?);
    record!(py, "FabricCost", {
        ..cost: ports, links, wire_mm, longest_link_mm, beachfront_mm, router_mm2, area_mm2;
        link_gb_per_s: cost.link_rate.as_gb_per_s(),
        io_gb_per_s: cost.io_rate.as_gb_per_s(),
        bisection_gb_per_s: cost.bisection_rate.map(|rate| rate.as_gb_per_s()),
    })
}

/// An `Area` of a fabric's routers and its ranks' engines.
///
/// Raises AntiphonError: `unknown-name` for a system; `not-applicable` for a group of ranks.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (fabric, system = "generic") -> "Area")]
pub fn area<'py>(py: Python<'py>, fabric: &Fabric, system: SystemLike) -> PyResult<Bound<'py, PyAny>> {
    let area = energy::area(&fabric.0, &system.get()?).map_err(raise)?;
    let parts = &area.parts;
    let table = table!(py, part in parts.iter(), {
        part: &*part.name,
        count: part.count as u64,
        area_um2,
        power_mw: part.power_mw.unwrap_or(f64::NAN),
        source: part.source,
    })?;
    record!(py, "Area", {
        ..area: ports;
        total_mm2: area.total_mm2(),
        parts: table,
    })
}
