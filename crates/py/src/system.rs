//! `antiphon.System`.

use crate::parameter::{extract, to_python};
use crate::prelude::*;
use antiphon_model::system;
use pyo3::types::{PyCFunction, PyDict, PyTuple, PyType};

/// The parameters of a platform: links, packets, network interfaces, routers, reductions, processor. Made from a preset
/// (`systems()` lists them) and changed with `with_`; every parameter is a property. Immutable, hashable, picklable,
/// compared by value.
///
/// >>> System("tto").with_(link_rate_gb_per_s=50).link_rate_gb_per_s
/// 50.0
///
/// Raises AntiphonError: `unknown-name`, listing the presets.
#[pyclass(module = "antiphon", frozen, eq)]
#[derive(Clone, PartialEq)]
pub struct System(pub system::System);

#[literal_defaults]
#[pymethods]
impl System {
    #[new]
    #[pyo3(signature = (name = "generic"))]
    fn new(name: Text<'_>) -> PyResult<Self> {
        system::System::preset(name.0).map(System).map_err(raise)
    }

    /// The system of JSON text as `to_json` writes it; what is left out is as in the preset `generic`.
    ///
    /// Raises AntiphonError: `bad-file`, or as `with_` for a value out of range.
    #[classmethod]
    fn from_json(_class: &Bound<'_, PyType>, text: Text<'_>) -> PyResult<Self> {
        system::System::from_json(text.0).map(System).map_err(raise)
    }

    /// JSON text from which `from_json` makes an equal system.
    fn to_json(&self) -> String {
        serde_json::to_string(&self.0).expect("a system has only string keys")
    }

    /// A copy with the given parameters replaced; None leaves one as it is. Units are those of the keys
    /// (`antiphon systems NAME` lists them); text is read as on the command line.
    ///
    /// Raises AntiphonError: `unknown-name` for a key or a choice, `bad-size` or `bad-spec` for a value, with the
    /// range.
    #[pyo3(signature = (*, name = None, **parameters))]
    fn with_(&self, name: Option<Text<'_>>, parameters: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut system = self.0.clone();
        system.name = name.map_or(system.name, |name| name.0.into());
        for (key, value) in parameters.into_iter().flatten() {
            let key: String = key.extract()?;
            let parameter = &system::System::parameter(&key).map_err(raise)?.parameter;
            if !value.is_none() {
                let value = extract(parameter, &value).map_err(|error| raise(error.at("system")))?;
                system.assign(&key, &value).map_err(raise)?;
            }
        }
        Ok(System(system))
    }

    /// A list of `Parameter`, one for every parameter; its default is the value that this system has.
    #[pyo3(signature = () -> "list[Parameter]")]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        system::System::parameters().map(|field| listed(py, &field.listed(&self.0))).collect()
    }

    /// Watts that everything on a fabric takes together when nothing is done; 0 for what is unknown.
    fn static_power_w(&self, fabric: &Fabric) -> f64 {
        self.0.static_power_of(&fabric.0) as f64 * 1e-9
    }

    /// Rates of the fabric's links that this system's clock rounds down, slowest first, as pairs (rate as written, rate
    /// at which flits go), both in 1e9 bytes per second. Empty for a system without a clock.
    fn rounded_rates(&self, fabric: &Fabric) -> Vec<(f64, f64)> {
        let rates = self.0.rounded_rates(&fabric.0.links);
        rates.into_iter().map(|(rate, carried)| (rate.as_gb_per_s(), carried / 1e9)).collect()
    }

    /// Rate at which the fabric's slowest link carries flits, in 1e9 bytes per second; None without links.
    fn slowest_rate(&self, fabric: &Fabric) -> Option<f64> {
        fabric.0.links.iter().map(|link| self.0.effective_rate(link) / 1e9).min_by(f64::total_cmp)
    }

    getters! {
        /// Name of the preset, or as set by `with_`.
        name: &str = &self.0.name;
        /// What the system models and where its numbers come from.
        description: &str = &self.0.description;
    }

    fn __repr__(&self) -> String {
        format!(
            "<System {}: links {} GB/s, {} ns; packets of {} B>",
            self.0.name,
            self.0.link_rate.as_gb_per_s(),
            nanos(self.0.link_latency_ps),
            self.0.packet.payload_bytes
        )
    }

    fn __hash__(&self) -> u64 {
        hash_of(&self.0.name)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((slf.get_type().getattr("from_json")?, (slf.get().to_json(),)))
    }
}

/// Makes every parameter a property of the class.
pub fn add_properties(py: Python<'_>) -> PyResult<()> {
    let (class, property) = (py.get_type::<System>(), py.import("builtins")?.getattr("property")?);
    for field in system::System::parameters() {
        let get = PyCFunction::new_closure(
            py,
            None,
            None,
            |arguments: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
                let system = arguments.get_item(0)?.cast_into::<System>()?;
                to_python(arguments.py(), field.get(&system.get().0))
            },
        )?;
        let none = py.None();
        class.setattr(field.parameter.key, property.call1((get, &none, &none, field.parameter.meaning))?)?;
    }
    Ok(())
}

/// What can stand between a rank's memory and its links, as triples (name, meaning, list of `Parameter`); those that are
/// another with a paper's parameters have a fourth item, what they stand for, and no list of their own.
#[pyfunction]
#[allow(clippy::type_complexity)]
#[pyo3(signature = () -> "list[tuple[str, str, list[Parameter], str]]")]
pub fn endpoints(py: Python<'_>) -> PyResult<Vec<(&'static str, &'static str, Vec<Bound<'_, PyAny>>, &'static str)>> {
    let model = |(model, summary): &(system::Endpoint, &'static str)| {
        let options = model.options().iter().map(|option| listed(py, option)).collect::<PyResult<_>>()?;
        Ok((model.name(), *summary, options, ""))
    };
    let models = system::Endpoint::models();
    let presets = system::ENDPOINT_PRESETS.iter().map(|&(name, spec, summary)| Ok((name, summary, vec![], spec)));
    models.iter().map(model).chain(presets).collect()
}

/// Area and power of an engine: for each part (name, um2, mW), as in ACE (ISCA 2021), Table IV, scaled with the counts.
///
/// >>> round(sum(area for _name, area, _power in engine_parts("ace")))
/// 5339031
///
/// Raises AntiphonError: as `System.with_` for the endpoint; `not-applicable` for one without an engine.
#[pyfunction]
pub fn engine_parts(endpoint: Text<'_>) -> PyResult<Vec<(&'static str, f64, f64)>> {
    let system::Endpoint::Ace(ace) = system::Endpoint::parse(endpoint.0).map_err(raise)? else {
        let text = format!("endpoint {} has no engine, whose area is known; use ace:...", endpoint.0);
        return Err(raise(Error::new(Code::NotApplicable, text)));
    };
    Ok(ace.parts().into_iter().map(|part| (part.name, part.area_um2, part.power_mw)).collect())
}
