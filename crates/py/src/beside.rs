//! Other traffic beside a collective; fabrics whose links vary.

use crate::operations::prove;
use crate::prelude::*;
use antiphon_jobs::beside::{
    Background, BackgroundMessage, MessageTimes, Offered, PatternTraffic, Precedence, beside as core_beside,
};
use antiphon_jobs::vary::Variation;
use antiphon_noc::traffic::Pattern;
use antiphon_sim::{Fidelity, simulate};
use std::cell::RefCell;

/// Traffic of a pattern: its name, load, bytes a message, whether it is regular, seed.
type PatternTuple = (OwnText, OwnText, Size, bool, Fit<u64>);
/// A message of a list: time in ns, from, to, bytes.
type MessageTuple = (Number, Fit<u32>, Fit<u32>, Size);

/// A `BesideRun`: the time of a proven schedule alone and beside other traffic, and how long its messages take. The traffic
/// is of a `pattern` (its name, load, bytes of a message, whether it is regular, seed), or a list of `messages` (time in ns, from, to, bytes).
///
/// Raises AntiphonError: as `simulate`; `bad-size` for a load that a link cannot carry, `bad-file` for messages of ranks
/// that do not exist, `too-large` for too many messages, `unknown-name` or `not-applicable` for patterns. Ctrl-C raises
/// KeyboardInterrupt.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (fabric, schedule, pattern, messages, precedence = "fair", system = "generic", fidelity = "packet", progress = None) -> "BesideRun")]
pub fn beside<'py>(
    py: Python<'py>,
    fabric: &Fabric,
    schedule: &Schedule,
    pattern: Option<PatternTuple>,
    messages: Vec<MessageTuple>,
    precedence: Named<Precedence>,
    system: SystemLike,
    fidelity: Named<Fidelity>,
    progress: Option<Progress>,
) -> PyResult<Bound<'py, PyAny>> {
    let (fabric, system) = (&fabric.0, system.get()?);
    let background = match pattern {
        Some((name, load, size, regular, seed)) => Background::Pattern(PatternTraffic {
            pattern: Pattern::parse(&name.0, fabric).map_err(raise)?,
            offered: Offered::parse(&load.0).map_err(raise)?,
            message_bytes: size.0,
            regular,
            seed: seed.0,
        }),
        None => {
            let message = |(number, (at_ns, from, to, bytes)): (usize, &MessageTuple)| {
                if !(0.0..=MAX_NANOS).contains(&at_ns.0) {
                    let what =
                        format!("message {}: its time is {} ns; expected 0 to {MAX_NANOS:e}", number + 1, at_ns.0);
                    return Err(raise(Error::new(Code::BadFile, what)));
                }
                Ok(BackgroundMessage { at_ps: picos(at_ns.0), from: from.0, to: to.0, bytes: bytes.0 })
            };
            Background::Listed(messages.iter().enumerate().map(message).collect::<PyResult<_>>()?)
        }
    };
    let found = run_with_progress(py, progress, |heartbeat| {
        let proven = {
            let heartbeat = RefCell::new(&mut *heartbeat);
            let proving = |_| (heartbeat.borrow_mut())(0.0);
            prove(fabric, schedule, Watch::new(&proving))?
        };
        core_beside(fabric, &proven, &background, precedence.0, &system, fidelity.0, heartbeat)
    })?;
    let times = |times: &MessageTimes| {
        record!(py, "MessageTimes", {
            mean_ns: nanos(times.mean_ps), p99_ns: nanos(times.p99_ps), most_ns: nanos(times.most_ps)
        })
    };
    let rows = &found.result.links;
    let links = Table::new(py)
        .column("from", fabric.links.iter().map(|link| fabric.nodes[link.from as usize].name.as_str()))?
        .column("to", fabric.links.iter().map(|link| fabric.nodes[link.to as usize].name.as_str()))?
        .column("busy_ns", rows.iter().map(|row| nanos(row.busy_ps)))?
        .column("collective_bytes", found.link_bytes.iter().copied())?
        .column("traffic_bytes", rows.iter().zip(&found.link_bytes).map(|(row, bytes)| row.bytes - bytes))?;
    record!(py, "BesideRun", {
        fabric: &fabric.name,
        algorithm: &schedule.0.algorithm,
        collective: schedule.0.collective.kind.name(),
        bytes: schedule.0.bytes,
        fidelity: fidelity.0.name(),
        precedence: precedence.0.name(),
        alone_ns: nanos(found.alone_ps),
        time_ns: nanos(found.beside_ps),
        messages: found.messages.len(),
        message_bytes: found.messages.iter().map(|message| message.bytes).sum::<u64>(),
        traffic_load: found.load,
        traffic_alone: times(&found.alone)?,
        traffic: times(&found.beside)?,
        delivered_alone_bytes: found.delivered[0],
        delivered_bytes: found.delivered[1],
        links: links,
    })
}

/// The time in ns of a schedule, proven for a fabric, on `varied`, which differs from it in rates and latencies alone.
///
/// Raises AntiphonError: as `simulate`. Ctrl-C raises KeyboardInterrupt.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (fabric, schedule, varied, system = "generic", fidelity = "packet"))]
pub fn time_on(
    py: Python<'_>,
    fabric: &Fabric,
    schedule: &Schedule,
    varied: &Fabric,
    system: SystemLike,
    fidelity: Named<Fidelity>,
) -> PyResult<f64> {
    let system = system.get()?;
    let result = run_with_progress(py, None, |heartbeat| {
        let proven = prove(&fabric.0, schedule, Watch::default())?;
        simulate(&varied.0, &proven, &system, fidelity.0, heartbeat)
    })?;
    Ok(nanos(result.time_ps))
}

/// The fabric of a draw, whose links are slower or farther as distributions say, and by link what its rate was multiplied by
/// (`speed`) and what was added to its latency (`added_ns`).
///
/// Raises AntiphonError: `bad-spec` for what is no distribution, `bad-size` for the share.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (fabric, slow = None, latency = None, share = 1.0, seed = 1, draw = 0, system = "generic") -> "tuple[Fabric, _Columns]")]
pub fn varied<'py>(
    py: Python<'py>,
    fabric: &Fabric,
    slow: Option<Text<'_>>,
    latency: Option<Text<'_>>,
    share: Number,
    seed: Fit<u64>,
    draw: Fit<u64>,
    system: SystemLike,
) -> PyResult<(Fabric, Table<'py>)> {
    let system = system.get()?;
    let variation =
        Variation::new(slow.map(|text| text.0), latency.map(|text| text.0), share.0, seed.0).map_err(raise)?;
    let drawn = run(py, || Ok(variation.draw(&fabric.0, &system, draw.0)))?;
    let columns = Table::new(py)
        .column("speed", drawn.speeds.iter().copied())?
        .column("added_ns", drawn.added_ns.iter().copied())?;
    Ok((drawn.fabric.into(), columns))
}
