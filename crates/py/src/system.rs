//! `antiphon.System`.

use crate::convert::{Int, Size, nanos, raise};
use crate::fabric::Fabric;
use antiphon_core::error::{Code, Error};
use antiphon_core::system::{self, Choice, Processor};
use antiphon_core::units::{Picos, Rate};
use pyo3::prelude::*;
use pyo3::types::PyType;

/// The parameters of a platform.
#[pyclass(module = "antiphon", frozen, eq)]
#[derive(Clone, PartialEq)]
pub struct System(pub system::System);

#[pymethods]
impl System {
    #[new]
    #[pyo3(signature = (name = "generic"))]
    fn new(name: &str) -> PyResult<Self> {
        system::System::preset(name).map(System).map_err(raise)
    }

    #[classmethod]
    fn from_json(_class: &Bound<'_, PyType>, text: &str) -> PyResult<Self> {
        let system =
            serde_json::from_str(text).map_err(|e| raise(Error::new(Code::BadFile, format!("system: {e}"))))?;
        checked(system)
    }

    fn to_json(&self) -> String {
        serde_json::to_string(&self.0).expect("a system has only string keys")
    }

    #[pyo3(signature = (
        *, name = None, link_rate_gb_per_s = None, link_latency_ns = None, packet_payload_bytes = None,
        flit_bytes = None, header_flits = None, fixed_size_packets = None, interfaces = None,
        interface_depth_packets = None, interface_virtual_channels = None, interface_issue_ns = None, interface_assignment = None,
        hand_off_ns = None, reduce_rate_gb_per_s = None, router_virtual_channels = None, router_depth_flits = None,
        router_switching = None, router_allocator = None, processor = None,
    ))]
    #[allow(clippy::too_many_arguments)]
    fn with_(
        &self,
        name: Option<String>,
        link_rate_gb_per_s: Option<f64>,
        link_latency_ns: Option<f64>,
        packet_payload_bytes: Option<Size>,
        flit_bytes: Option<Size>,
        header_flits: Option<Int>,
        fixed_size_packets: Option<bool>,
        interfaces: Option<Int>,
        interface_depth_packets: Option<Int>,
        interface_virtual_channels: Option<Int>,
        interface_issue_ns: Option<f64>,
        interface_assignment: Option<&str>,
        hand_off_ns: Option<f64>,
        reduce_rate_gb_per_s: Option<f64>,
        router_virtual_channels: Option<Int>,
        router_depth_flits: Option<Int>,
        router_switching: Option<&str>,
        router_allocator: Option<&str>,
        processor: Option<&str>,
    ) -> PyResult<Self> {
        let mut system = self.0.clone();
        let (packet, interface) = (&mut system.packet, &mut system.interface);
        replace(&mut system.name, name);
        replace(&mut system.link_rate, link_rate_gb_per_s.map(|x| rate("link_rate_gb_per_s", x)).transpose()?);
        replace(&mut system.link_latency_ps, link_latency_ns.map(|x| picos("link_latency_ns", x)).transpose()?);
        replace(&mut packet.payload_bytes, packet_payload_bytes.map(|size| size.0));
        replace(&mut packet.flit_bytes, flit_bytes.map(|size| size.0));
        replace(&mut packet.header_flits, whole::<u32>("header_flits", header_flits)?.map(u64::from));
        replace(&mut packet.fixed_size, fixed_size_packets);
        replace(&mut interface.count, whole("interfaces", interfaces)?);
        replace(
            &mut interface.depth_packets,
            whole::<u32>("interface_depth_packets", interface_depth_packets)?.map(u64::from),
        );
        replace(&mut interface.virtual_channels, whole("interface_virtual_channels", interface_virtual_channels)?);
        replace(&mut interface.issue_ps, interface_issue_ns.map(|x| picos("interface_issue_ns", x)).transpose()?);
        replace(&mut interface.assignment, choice(interface_assignment)?);
        let router = &mut system.router;
        replace(&mut router.virtual_channels, whole("router_virtual_channels", router_virtual_channels)?);
        replace(&mut router.depth_flits, whole("router_depth_flits", router_depth_flits)?);
        replace(&mut router.switching, choice(router_switching)?);
        replace(&mut router.allocator, choice(router_allocator)?);
        replace(&mut system.processor, processor.map(Processor::parse).transpose().map_err(raise)?);
        replace(&mut system.hand_off_ps, hand_off_ns.map(|x| picos("hand_off_ns", x)).transpose()?);
        if let Some(gb_per_s) = reduce_rate_gb_per_s {
            let free = gb_per_s == f64::INFINITY;
            system.reduce_rate = if free { None } else { Some(rate("reduce_rate_gb_per_s", gb_per_s)?) };
        }
        checked(system)
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn description(&self) -> &str {
        &self.0.description
    }

    #[getter]
    fn link_rate_gb_per_s(&self) -> f64 {
        self.0.link_rate.as_gb_per_s()
    }

    #[getter]
    fn link_latency_ns(&self) -> f64 {
        nanos(self.0.link_latency_ps)
    }

    #[getter]
    fn packet_payload_bytes(&self) -> u64 {
        self.0.packet.payload_bytes
    }

    #[getter]
    fn flit_bytes(&self) -> u64 {
        self.0.packet.flit_bytes
    }

    #[getter]
    fn header_flits(&self) -> u64 {
        self.0.packet.header_flits
    }

    #[getter]
    fn fixed_size_packets(&self) -> bool {
        self.0.packet.fixed_size
    }

    #[getter]
    fn interfaces(&self) -> u32 {
        self.0.interface.count
    }

    #[getter]
    fn interface_depth_packets(&self) -> u64 {
        self.0.interface.depth_packets
    }

    #[getter]
    fn interface_virtual_channels(&self) -> u32 {
        self.0.interface.virtual_channels
    }

    #[getter]
    fn interface_issue_ns(&self) -> f64 {
        nanos(self.0.interface.issue_ps)
    }

    #[getter]
    fn hand_off_ns(&self) -> f64 {
        nanos(self.0.hand_off_ps)
    }

    #[getter]
    fn processor(&self) -> String {
        self.0.processor.spec()
    }

    #[getter]
    fn reduce_rate_gb_per_s(&self) -> f64 {
        self.0.reduce_rate.map_or(f64::INFINITY, |rate| rate.as_gb_per_s())
    }

    fn rounded_rates(&self, fabric: &Fabric) -> Vec<(f64, f64)> {
        let rates = self.0.rounded_rates(&fabric.0.links);
        rates.into_iter().map(|(rate, carried)| (rate.as_gb_per_s(), carried / 1e9)).collect()
    }

    fn __repr__(&self) -> String {
        format!(
            "<System {}: links {} GB/s, {} ns; packets of {} B>",
            self.0.name,
            self.link_rate_gb_per_s(),
            self.link_latency_ns(),
            self.0.packet.payload_bytes
        )
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((slf.get_type().getattr("from_json")?, (slf.get().to_json(),)))
    }
}

fn replace<T>(slot: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *slot = value;
    }
}

/// A rate from 1 byte/s up to 1e9 GB/s.
fn rate(what: &str, gb_per_s: f64) -> PyResult<Rate> {
    within(what, gb_per_s, 1e-9, 1e9).map(|x| Rate((x * 1e9).round() as u64))
}

/// A time from 0 up to 1 s.
fn picos(what: &str, ns: f64) -> PyResult<Picos> {
    within(what, ns, 0.0, 1e9).map(|x| (x * 1e3).round() as Picos)
}

fn within(what: &str, value: f64, low: f64, high: f64) -> PyResult<f64> {
    if (low..=high).contains(&value) {
        return Ok(value);
    }
    Err(raise(Error::new(Code::BadSize, format!("{what} is {value}; expected {low} to {high}"))))
}

/// A whole number, if given.
fn whole<T: TryFrom<i128>>(name: &str, value: Option<Int>) -> PyResult<Option<T>> {
    value.map(|number| number.get(name)).transpose()
}

/// A named value, if given.
fn choice<T: Choice>(name: Option<&str>) -> PyResult<Option<T>> {
    name.map(T::parse).transpose().map_err(raise)
}

/// A system whose parameters are in range, so that nothing divides by zero or runs for ever.
fn checked(system: system::System) -> PyResult<System> {
    let (packet, interface) = (&system.packet, &system.interface);
    for (what, value, low, high) in [
        ("link rate", system.link_rate.0, 1, MAX_RATE),
        ("reduction rate", system.reduce_rate.map_or(1, |rate| rate.0), 1, MAX_RATE),
        ("link latency", system.link_latency_ps, 0, MAX_TIME),
        ("clock", system.clock_ps.unwrap_or(1), 1, MAX_TIME),
        ("interface issue time", interface.issue_ps, 0, MAX_TIME),
        ("hand-off time", system.hand_off_ps, 0, MAX_TIME),
        ("packet payload", packet.payload_bytes, 1, 1 << 30),
        ("flit size", packet.flit_bytes, 1, 1 << 30),
        ("header flits", packet.header_flits, 0, 1 << 16),
        ("interfaces", interface.count.into(), 1, 1 << 16),
        ("interface depth", interface.depth_packets, 1, 1 << 32),
        ("router clock", system.router.clock_ps, 1, MAX_TIME),
        ("router hand-off time", system.router.hand_off_ps, 0, MAX_TIME),
        ("interface virtual channels", interface.virtual_channels.into(), 1, 1 << 16),
    ] {
        if !(low..=high).contains(&value) {
            let text = format!("system: {what} is {value}; expected {low} to {high}");
            return Err(raise(Error::new(Code::BadSize, text)));
        }
    }
    system.router.check().map_err(raise)?;
    // A specification is checked where it is read.
    Processor::parse(&system.processor.spec()).map_err(raise)?;
    Ok(System(system))
}

/// Bytes per second.
const MAX_RATE: u64 = 1_000_000_000_000_000_000;
/// Picoseconds.
const MAX_TIME: u64 = 1_000_000_000_000;
