//! Formats of other tools.

use crate::prelude::*;
use antiphon_formats::msccl::MscclOptions;
use antiphon_formats::{self as formats_of, FileFormat};
use antiphon_model::fabric as core_fabric;
use antiphon_model::schedule as core_schedule;
use std::collections::HashSet;

/// Formats of other tools: name, what it is, how files of it end, and who reads it, the default first.
#[pyfunction]
pub fn formats() -> Vec<(&'static str, &'static str, &'static str, Vec<&'static str>)> {
    formats_of::ALL
        .iter()
        .map(|format| format.info())
        .map(|info| (info.name, info.about, info.extension, info.consumers.to_vec()))
        .collect()
}

/// The name of the format of a text, by its beginning; None for JSON, which is Antiphon's own.
///
/// Raises AntiphonError: `bad-file` for XML of no known format.
#[pyfunction]
pub fn format_of(text: Text<'_>) -> PyResult<Option<&'static str>> {
    Ok(of_text(text.0)?.map(|format| format.name()))
}

fn of_text(text: &str) -> PyResult<Option<&'static dyn FileFormat>> {
    formats_of::of_text(text).map_err(raise)
}

/// A `FileProof` that a text of another tool's format computes its collective, as it stands.
///
/// Raises AntiphonError: `not-proven` with the first deadlock, race or wrong chunk; `bad-file`, `too-large`.
#[pyfunction]
#[pyo3(signature = (text) -> "FileProof")]
pub fn prove_file<'py>(py: Python<'py>, text: Text<'_>) -> PyResult<Bound<'py, PyAny>> {
    let Some(format) = of_text(text.0)? else {
        return Err(raise(Error::new(Code::BadFile, "it is in no format of another tool")));
    };
    let (file, proof) = run_watched(py, None, |watch| {
        let file = format.read(text.0, watch)?;
        let proof = file.prove(watch)?;
        Ok((file, proof))
    })?;
    let collective = file.collective();
    record!(py, "FileProof", {
        ..proof: steps, messages, fifo_depth, places, consumers;
        format: format.name(),
        name: file.name(),
        collective: collective.kind.name(),
        root: collective.kind.rooted().then_some(collective.root),
        ranks: file.ranks(),
        thread_blocks: proof.blocks,
    })
}

/// The `Schedule` of a text: of JSON, or of another tool's format, proven, for `bytes` (the full buffer) with what it calls `i` at
/// rank `i` or `placement[i]`. Without a fabric the ranks of a foreign program are fully joined.
///
/// Raises AntiphonError: `not-proven`, `not-applicable` for a right program that is no schedule, `bad-file`, `bad-spec` for the
/// placement, `too-large`.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (text, fabric = None, bytes = "64MiB", placement = None))]
pub fn load(
    py: Python<'_>,
    text: Text<'_>,
    fabric: Option<&Fabric>,
    bytes: Size,
    placement: Option<Vec<Int>>,
) -> PyResult<Schedule> {
    let ranks =
        placement.map(|ranks| ranks.into_iter().map(|rank| rank.get("placement")).collect::<PyResult<Vec<u32>>>());
    let placement = ranks.transpose()?;
    let given = fabric.map(|fabric| &*fabric.0);
    let Some(format) = of_text(text.0)? else {
        return run_watched(py, None, |watch| core_schedule::Schedule::from_json_watched(text.0, given, watch))
            .map(Schedule::from);
    };
    run_watched(py, None, |watch| {
        let file = format.read(text.0, watch)?;
        let joined = match given {
            Some(_) => None,
            None => Some(core_fabric::Fabric::parse(&format!("fc:{}", file.ranks()))?),
        };
        let fabric = given.or(joined.as_ref()).expect("one of them is there");
        let placement = placement.as_deref().map_or(Ok(vec![]), |ranks| nodes(fabric, ranks))?;
        file.raise(fabric, bytes.0, &placement, watch)
    })
    .map(Schedule::from)
}

/// The nodes of ranks, each of which is named once.
fn nodes(fabric: &core_fabric::Fabric, ranks: &[u32]) -> Result<Vec<core_fabric::NodeId>, Error> {
    let mut seen = HashSet::new();
    let node = |&rank: &u32| {
        if rank as usize >= fabric.ranks() || !seen.insert(rank) {
            let why = if rank as usize >= fabric.ranks() { "does not exist" } else { "is there twice" };
            return Err(Error::new(Code::BadSpec, format!("placement: rank {rank} {why}")));
        }
        Ok(fabric.node_of_rank(rank))
    };
    ranks.iter().map(node).collect()
}

/// A schedule as text of another tool's format, for a consumer of it (by default its first), proven as it is written. Of msccl,
/// `instances` of the program, each on so many `channels` for its part of the data, by a `protocol`, for sizes from `min_bytes` to
/// `max_bytes`, by default any.
///
/// Raises AntiphonError: `unknown-name`; `not-applicable` for what the format cannot say; `too-large` with the limit of the
/// consumer; `bad-size`; `not-proven`.
#[literal_defaults]
#[pyfunction]
#[pyo3(signature = (schedule, format = "msccl", consumer = None, instances = 1, channels = 1, protocol = "Simple", min_bytes = None, max_bytes = None))]
pub fn export(
    py: Python<'_>,
    schedule: &Schedule,
    format: Text<'_>,
    consumer: Option<Text<'_>>,
    instances: Fit<u32>,
    channels: Fit<u32>,
    protocol: Text<'_>,
    min_bytes: Option<Size>,
    max_bytes: Option<Size>,
) -> PyResult<String> {
    let format = formats_of::by_name(format.0).map_err(raise)?;
    let consumer = match consumer {
        Some(consumer) => consumer.0,
        None => format.info().consumers.first().copied().unwrap_or_default(),
    };
    let any = MscclOptions::default();
    let options = MscclOptions {
        instances: instances.0,
        channels: channels.0,
        protocol: protocol.0.into(),
        min_bytes: min_bytes.map_or(any.min_bytes, |size| size.0),
        max_bytes: max_bytes.map_or(any.max_bytes, |size| size.0),
    };
    run_watched(py, None, |watch| format.write_with(&schedule.0, consumer, &options, watch))
}
