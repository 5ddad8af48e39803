//! Energy of runs, and area of fabrics, as Python sees them.

use crate::convert::{Table, nanos, raise, record};
use crate::fabric::Fabric;
use crate::operations::{SystemLike, generic};
use antiphon_model::energy::{self, Attojoules, Energy, joules};
use antiphon_model::system::System;
use pyo3::prelude::*;

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
    let links = Table::new(py).column("energy_j", energy.per_link.iter().map(|&link| joules(link)))?;
    record!(py, "Energy", {
        links_aj: energy.links,
        routers_aj: energy.routers,
        interfaces_aj: energy.interfaces,
        reductions_aj: energy.reductions,
        memory_aj: energy.memory,
        static_aj: energy.idle,
        time_ns: nanos(energy.time_ps),
        peak_power_w: energy.peak_power_w(),
        lower_bound_aj: least,
        unknown: system.energy.unknown(),
        system: &system.name,
        links: links.0,
        power: power.0,
    })
}

/// An `Area` of a fabric's routers and its ranks' engines.
///
/// Raises AntiphonError: `unknown-name` for a system; `not-applicable` for a group of ranks.
#[pyfunction]
#[pyo3(signature = (fabric, system = generic()), text_signature = "(fabric, system='generic')")]
pub fn area<'py>(py: Python<'py>, fabric: &Fabric, system: SystemLike) -> PyResult<Bound<'py, PyAny>> {
    let area = energy::area(&fabric.0, &system.get()?).map_err(raise)?;
    let parts = &area.parts;
    let table = Table::new(py)
        .text("part", parts.iter().map(|part| part.name.clone()))?
        .column("count", parts.iter().map(|part| part.count as u64))?
        .column("area_um2", parts.iter().map(|part| part.area_um2))?
        .column("power_mw", parts.iter().map(|part| part.power_mw.unwrap_or(f64::NAN)))?
        .text("source", parts.iter().map(|part| part.source.into()))?;
    record!(py, "Area", { ports: area.ports, total_mm2: area.total_mm2(), parts: table.0 })
}
