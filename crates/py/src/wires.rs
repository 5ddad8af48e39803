//! Connections between the processes of a job.

use crate::prelude::*;
use antiphon_run::wires::{self, Cable, Remote, WirePort};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The wires of one node, for a `Carrier`, which takes them.
#[pyclass(module = "antiphon._core", frozen)]
pub struct Wires(Mutex<Option<wires::Wires>>);

impl Wires {
    /// The wires, once.
    pub fn take(&self) -> PyResult<wires::Wires> {
        let wires = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        wires.ok_or_else(|| raise(Error::new(Code::BadSpec, "these wires have a carrier already")))
    }
}

/// Cable, neighbour, link out, link in, name.
type PortRow = (u32, u32, Option<u32>, Option<u32>, String);

/// Joins the cables of a node, with the 32 bytes of the secret of its job.
///
/// Raises AntiphonError: `bad-size` for another secret.
#[pyclass(module = "antiphon._core", frozen)]
pub struct Joiner {
    node: u32,
    joiner: Mutex<wires::Joiner>,
}

impl Joiner {
    fn get(&self) -> MutexGuard<'_, wires::Joiner> {
        self.joiner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An address without a port: `10.0.0.1`, or `fe80::1%eth0` or `fe80::1%3` with the interface.
fn address(text: &str) -> Result<(IpAddr, u32), Error> {
    let (address, interface) = text.split_once('%').unwrap_or((text, ""));
    let unknown =
        || Error::new(Code::BadSpec, format!("address '{text}': expected one such as 10.0.0.1 or fe80::1%eth0"));
    let scope = match interface {
        "" => 0,
        name => match name.parse() {
            Ok(number) => number,
            Err(_) => std::fs::read_to_string(format!("/sys/class/net/{name}/ifindex"))
                .ok()
                .and_then(|number| number.trim().parse().ok())
                .ok_or_else(unknown)?,
        },
    };
    Ok((address.parse().map_err(|_| unknown())?, scope))
}

fn with_port(text: &str, port: u16) -> Result<SocketAddr, Error> {
    let (address, scope) = address(text)?;
    let mut full = SocketAddr::from((address, port));
    if let SocketAddr::V6(full) = &mut full {
        full.set_scope_id(scope);
    }
    Ok(full)
}

/// Where the other end listens: `10.0.0.2:4711`, `[fe80::2%eth0]:4711`, or a path.
fn remote(own: &str, text: &str) -> Result<Remote, Error> {
    if text.starts_with('/') {
        return Ok(Remote::Local(Path::new(text).into()));
    }
    let unknown = || Error::new(Code::BadSpec, format!("address '{text}': expected one such as 10.0.0.2:4711"));
    let (to, port) = text.rsplit_once(':').ok_or_else(unknown)?;
    let port = port.parse().map_err(|_| unknown())?;
    let to = with_port(to.trim_start_matches('[').trim_end_matches(']'), port)?;
    let (from, scope) = address(own)?;
    Ok(Remote::Tcp { from, scope, to })
}

#[literal_defaults]
#[pymethods]
impl Joiner {
    #[new]
    #[pyo3(signature = (node, secret: "bytes"))]
    fn new(node: u32, secret: Vec<u8>) -> PyResult<Self> {
        let size = secret.len();
        let secret = secret
            .try_into()
            .map_err(|_| raise(Error::new(Code::BadSize, format!("a secret has 32 bytes, not {size}"))))?;
        Ok(Joiner { node, joiner: Mutex::new(wires::Joiner::new(node, secret)) })
    }

    /// Listens at an address of this host (`10.0.0.1`, `fe80::1%eth0`) and nowhere else; with an interface (`169.254.1.1%3`)
    /// only to what comes over it. Returns the port.
    ///
    /// Raises AntiphonError: `bad-spec`; `stalled` if the system refuses.
    fn listen(&self, address: Text<'_>) -> PyResult<u16> {
        let (at, interface) = self::address(address.0).map_err(raise)?;
        with_port(address.0, 0)
            .and_then(|full| self.get().listen(full, if at.is_ipv4() { interface } else { 0 }))
            .map_err(raise)
    }

    /// Listens within this host, at the path of a Unix-domain socket.
    ///
    /// Raises AntiphonError: `stalled` if the system refuses.
    fn listen_local(&self, path: Text<'_>) -> PyResult<()> {
        self.get().listen_local(Path::new(path.0)).map_err(raise)
    }

    /// Joins cables, all at once and within `timeout_s`: (number, equal at both ends; node of the neighbour; own address, ""
    /// where this end listens; where the other end listens: `10.0.0.2:4711`, `[fe80::2%eth0]:4711` or a path; streams). Returns those
    /// that did not come about, with the reason. From then on nobody listens.
    ///
    /// Raises AntiphonError: `bad-spec`.
    fn join(
        &self,
        py: Python<'_>,
        cables: Vec<(u32, u32, String, String, u32)>,
        timeout_s: f64,
    ) -> PyResult<Vec<(u32, String)>> {
        let cable = |(number, neighbour, own, other, streams): (u32, u32, String, String, u32)| {
            let remote = if other.is_empty() { None } else { Some(remote(&own, &other)?) };
            Ok(Cable { number, neighbour, streams: streams.clamp(1, 64), remote })
        };
        let cables: Vec<Cable> = cables.into_iter().map(cable).collect::<Result<_, Error>>().map_err(raise)?;
        let patience = Duration::try_from_secs_f64(timeout_s).unwrap_or(Duration::from_secs(60));
        Ok(py.detach(|| self.get().join(&cables, patience)))
    }

    /// The least round trip in seconds over each of these cables, (number, node of the neighbour), that is, of those where the
    /// neighbour's node is higher. Both ends call this at about the same time.
    ///
    /// Raises AntiphonError: `stalled` if the other end does not take part.
    fn round_trips(&self, py: Python<'_>, cables: Vec<(u32, u32)>) -> PyResult<Vec<(u32, f64)>> {
        let cables: Vec<(u32, bool)> =
            cables.into_iter().map(|(number, neighbour)| (number, self.node < neighbour)).collect();
        let found = py.detach(|| self.get().round_trips(&cables)).map_err(raise)?;
        Ok(found.into_iter().map(|(cable, time)| (cable, time.as_secs_f64())).collect())
    }

    /// Loads all of these cables in both directions for so long, each over at most `streams` of its connections. Returns the bytes a
    /// second that came over each. Both ends call this at about the same time.
    ///
    /// Raises AntiphonError: `stalled` if the other end does not take part.
    fn rates(&self, py: Python<'_>, cables: Vec<u32>, seconds: f64, streams: usize) -> PyResult<Vec<(u32, f64)>> {
        let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        py.detach(|| self.get().rates(&cables, time, streams)).map_err(raise)
    }

    /// Closes all but the first `streams` connections of a cable; both ends do.
    fn keep(&self, cable: u32, streams: usize) {
        self.get().keep(cable, streams);
    }

    /// Closes a cable.
    fn drop_cable(&self, cable: u32) {
        self.get().close(cable);
    }

    /// The wires of cables: (number, node of the neighbour, link of the fabric that goes there, link that comes from there, name for
    /// people). Other cables are closed.
    ///
    /// Raises AntiphonError: `bad-spec` for a cable that is not joined.
    fn wires(&self, ports: Vec<PortRow>) -> PyResult<Wires> {
        let mut joiner = self.get();
        let mut found = vec![];
        for (cable, neighbour, out_link, in_link, name) in ports {
            let missing = || raise(Error::new(Code::BadSpec, format!("cable {cable} is not joined")));
            let wires = joiner.take(cable).ok_or_else(missing)?;
            found.push(WirePort { neighbour, out_link, in_link, wires, name });
        }
        Ok(Wires(Mutex::new(Some(wires::Wires { ports: found }))))
    }
}
