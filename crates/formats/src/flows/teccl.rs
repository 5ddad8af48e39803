//! What TE-CCL writes as JSON: in which epoch each chunk goes over which link (Liu et al., Rethinking Machine Learning Collective
//! Communication as a Multi-Commodity Flow Problem, SIGCOMM 2024; github.com/microsoft/TE-CCL).

use super::{FlowHop, Flows, MAX_HOPS, Piece};
use crate::{FileFormat, Foreign, FormatInfo, bad, check_length, fail, json};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{ByKey, clip_error};
use antiphon_base::watch::Watch;
use antiphon_model::collective::Kind;
use antiphon_model::fabric::MAX_RANKS;
use antiphon_model::schedule::Schedule;
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Longest text that is read.
const MAX_TEXT_BYTES: usize = 1 << 26;
/// Largest number of a chunk, a node or an epoch.
const MAX_NUMBER: u64 = 1 << 31;
/// By how much the parts of a chunk may miss the whole, since they are written as rounded numbers.
const ROUNDING: f64 = 1e-3;

const INFO: FormatInfo =
    FormatInfo { name: "teccl", about: "TE-CCL result (JSON)", extension: ".json", consumers: &[] };

/// The format.
pub struct Teccl;

impl FileFormat for Teccl {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn recognises(&self, text: &str) -> bool {
        json::first_key(text, &["1-Epoch_Duration", "6-Flows", "7-Flows"])
    }

    fn read(&self, text: &str, watch: Watch) -> Result<Box<dyn Foreign>> {
        Ok(Box::new(read(text, watch)?))
    }

    fn write(&self, _: &Schedule, _: &str, _: Watch) -> Result<String> {
        fail(Code::NotApplicable, "teccl: results of TE-CCL are only read")
    }
}

/// The used part of a file: keys begin with a number that differs among versions.
#[derive(Default)]
struct TecclFile {
    flows: Option<Vec<String>>,
    paths: Option<ByKey<Value>>,
}

impl<'de> Deserialize<'de> for TecclFile {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<TecclFile, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = TecclFile;

            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("an object with flows")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<TecclFile, A::Error> {
                let mut file = TecclFile::default();
                while let Some(key) = map.next_key::<String>()? {
                    match key.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-') {
                        "Flows" => file.flows = Some(map.next_value()?),
                        "Chunk paths" => file.paths = Some(map.next_value()?),
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(file)
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

/// A hop as it is written.
#[derive(Debug, Clone, Copy, PartialEq)]
struct WrittenHop {
    from: u64,
    to: u64,
    volume: Option<f64>,
    epoch: u64,
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|&number| number <= MAX_NUMBER)
}

/// `4->9 with volume 1.0 in epoch 2 via switches 0`.
fn hop(text: &str) -> Option<WrittenHop> {
    let mut words = text.split_whitespace();
    let (from, to) = words.next()?.split_once("->")?;
    let (from, to) = (number(from)?, number(to)?);
    let mut next = words.next()?;
    let mut volume = None;
    if next == "with" {
        (words.next()? == "volume").then_some(())?;
        volume = Some(words.next()?.parse::<f64>().ok().filter(|volume| volume.is_finite() && *volume > 0.0)?);
        next = words.next()?;
    }
    (next == "in" && words.next()? == "epoch").then_some(())?;
    let epoch = number(words.next()?)?;
    let end = words.next();
    (end.is_none() || end == Some("via") && words.next() == Some("switches")).then_some(())?;
    Some(WrittenHop { from, to, volume, epoch })
}

/// `Chunk 8 from 4 traveled over ..`: chunk and source.
fn flow(text: &str) -> Option<(u64, u64, WrittenHop)> {
    let (chunk, rest) = text.strip_prefix("Chunk ")?.split_once(" from ")?;
    let (source, rest) = rest.split_once(" traveled over ")?;
    Some((number(chunk)?, number(source)?, hop(rest)?))
}

/// Reads a result. A node that a chunk comes from is a GPU, one that flows only go `via` is a switch; ranks are the
/// GPUs in order of their numbers.
///
/// Complexity: O(flows log flows).
///
/// # Errors
/// [`Code::BadFile`] with the flow that cannot be read, [`Code::NotApplicable`] for parts of chunks without ways,
/// [`Code::TooLarge`], [`Code::Interrupted`] but not while the JSON itself is read, which [`MAX_TEXT_BYTES`] bounds.
fn read(text: &str, watch: Watch) -> Result<Flows> {
    check_length("text", text.len(), MAX_TEXT_BYTES)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let file: TecclFile = serde_json::from_str(text).map_err(|error| Error::new(Code::BadFile, clip_error(&error)))?;
    let Some(list) = file.flows.filter(|list| !list.is_empty()) else { return bad("there are no flows") };
    if list.len() > MAX_HOPS {
        return fail(Code::TooLarge, format!("{} flows, at most {MAX_HOPS}", list.len()));
    }
    let mut flows = vec![];
    for (at, text) in list.iter().enumerate() {
        watch.at(at, list.len())?;
        let Some(flow) = flow(text) else {
            return bad(format!(
                "flow {at} is '{}', expected 'Chunk 0 from 1 traveled over 1->2 in epoch 3'",
                text.chars().take(80).collect::<String>()
            ));
        };
        flows.push(flow);
    }
    let nodes: BTreeSet<u64> = flows.iter().map(|&(_, source, _)| source).collect();
    if !(2..=MAX_RANKS).contains(&nodes.len()) {
        return bad(format!("chunks come from {} GPUs, expected 2 to {MAX_RANKS}", nodes.len()));
    }
    let nodes: Vec<u64> = nodes.into_iter().collect();
    let rank = |node: u64| match nodes.binary_search(&node) {
        Ok(rank) => Ok(rank as u32),
        Err(_) => {
            bad(format!("node {node} is on the way of a chunk, but none comes from it: switches are named after 'via'"))
        }
    };
    let with_volume = flows.iter().filter(|(.., hop)| hop.volume.is_some()).count();
    let ranks = nodes.len() as u64;
    let pieces = match with_volume {
        0 => gathered(&flows, &rank)?,
        _ if with_volume < flows.len() => return bad("some flows have a volume, others have none"),
        _ => match file.paths {
            Some(ByKey(paths)) => exchanged(&paths, ranks, &rank)?,
            None => whole(&flows, ranks, &rank)?,
        },
    };
    let (kind, parts) = match with_volume {
        0 => (Kind::AllGather, pieces.len() as u64),
        _ => (Kind::AllToAll, pieces.iter().map(|piece| piece.part as u64 / ranks + 1).max().unwrap_or(1) * ranks),
    };
    let mut flows = Flows {
        name: "teccl",
        kind,
        nodes: nodes.iter().map(|&node| node as u32).collect(),
        parts: parts as u32,
        pieces,
    };
    if kind == Kind::AllToAll {
        place(&mut flows)?;
    }
    Ok(flows)
}

/// Chunks of each source by number, each with its flows.
type FlowsByChunk = BTreeMap<(u32, u64), Vec<WrittenHop>>;

fn by_chunk(flows: &[(u64, u64, WrittenHop)], rank: &impl Fn(u64) -> Result<u32>) -> Result<FlowsByChunk> {
    let mut chunks = FlowsByChunk::new();
    for &(chunk, source, hop) in flows {
        chunks.entry((rank(source)?, chunk)).or_default().push(hop);
    }
    Ok(chunks)
}

fn hops(list: &[WrittenHop], rank: &impl Fn(u64) -> Result<u32>) -> Result<Vec<FlowHop>> {
    let hop = |hop: &WrittenHop| match (rank(hop.from)?, rank(hop.to)?) {
        (from, to) if from == to => bad(format!("a flow from {} to itself", hop.from)),
        (from, to) => Ok(FlowHop { time: hop.epoch, from, to }),
    };
    let mut list = list.iter().map(hop).collect::<Result<Vec<FlowHop>>>()?;
    list.sort_unstable();
    Ok(list)
}

/// An all-gather: every chunk goes to all.
fn gathered(flows: &[(u64, u64, WrittenHop)], rank: &impl Fn(u64) -> Result<u32>) -> Result<Vec<Piece>> {
    let chunks = by_chunk(flows, rank)?;
    let last = chunks.keys().map(|&(_, chunk)| chunk).max().unwrap_or(0);
    let sources: BTreeSet<u32> = chunks.keys().map(|&(source, _)| source).collect();
    if chunks.len() as u64 != sources.len() as u64 * (last + 1) {
        return fail(Code::NotProven, format!("not all GPUs send their chunks 0 to {last}"));
    }
    let piece = |(part, (&(source, chunk), list)): (u32, (&(u32, u64), &Vec<WrittenHop>))| {
        let name = format!("chunk {chunk} from {}", list[0].from);
        Ok(Piece { name, source, owner: source, part, cut: (0.0, 1.0), hops: hops(list, rank)? })
    };
    let mut pieces: Vec<Piece> = (0..).zip(&chunks).map(piece).collect::<Result<_>>()?;
    let names: Vec<u64> = flows.iter().map(|&(_, source, _)| source).collect::<BTreeSet<_>>().into_iter().collect();
    for (piece, (_, chunk)) in pieces.iter_mut().zip(chunks.keys()) {
        piece.name = format!("chunk {chunk} from {}", names[piece.source as usize]);
    }
    Ok(pieces)
}

/// An all-to-all of whole chunks: chunk `c` of a source is for GPU `c` of those in order, and goes on by ranks.
fn whole(flows: &[(u64, u64, WrittenHop)], ranks: u64, rank: &impl Fn(u64) -> Result<u32>) -> Result<Vec<Piece>> {
    let mut pieces = vec![];
    for ((source, chunk), list) in by_chunk(flows, rank)? {
        if list.iter().any(|hop| hop.volume.is_some_and(|volume| (volume - 1.0).abs() > ROUNDING)) {
            return fail(
                Code::NotApplicable,
                format!(
                    "chunk {chunk} of rank {source} goes in parts, and which goes where is not said: 'Chunk paths' are missing"
                ),
            );
        }
        let name = format!("chunk {chunk} of rank {source}");
        pieces.push(exchange(name, source, chunk, ranks, (0.0, 1.0), hops(&list, rank)?)?);
    }
    Ok(pieces)
}

fn exchange(name: String, source: u32, chunk: u64, ranks: u64, cut: (f64, f64), hops: Vec<FlowHop>) -> Result<Piece> {
    let (owner, part) = ((chunk % ranks) as u32, chunk as u32);
    if owner == source {
        return bad(format!("{name} is for that rank itself"));
    }
    Ok(Piece { name, source, owner, part, cut, hops })
}

/// An all-to-all by its paths: each a list of hops from source to destination, with the part of the chunk that takes it.
fn exchanged(paths: &BTreeMap<String, Value>, ranks: u64, rank: &impl Fn(u64) -> Result<u32>) -> Result<Vec<Piece>> {
    let mut pieces = vec![];
    let mut count = 0;
    for (key, list) in paths {
        let clipped: String = key.chars().take(80).collect();
        let demand = || -> Option<(u64, u64, u64)> {
            let (to, rest) = key.strip_prefix("Demand at ")?.split_once(" for chunk ")?;
            let (chunk, rest) = rest.split_once(" from ")?;
            Some((number(to)?, number(chunk)?, number(rest.split(' ').next()?)?))
        };
        let Some((to, chunk, source)) = demand() else {
            return bad(format!("'{clipped}', expected 'Demand at 1 for chunk 0 from 2 met by epoch 3'"));
        };
        let (to, source) = (rank(to)?, rank(source)?);
        let name = format!("chunk {chunk} of rank {source}");
        let mut parts: Vec<(f64, Vec<FlowHop>)> = vec![];
        for path in list.as_array().map(Vec::as_slice).unwrap_or_default() {
            let written = |step: &Value| step.as_array()?.get(1)?.as_str().and_then(hop);
            let Some(written) = path.as_array().and_then(|path| path.iter().map(written).collect::<Option<Vec<_>>>())
            else {
                return bad(format!("'{clipped}': a path is no list of epochs and hops"));
            };
            count += written.len();
            if count > MAX_HOPS {
                return fail(Code::TooLarge, format!("more than {MAX_HOPS} hops"));
            }
            let volume = written.iter().filter_map(|hop| hop.volume).fold(f64::INFINITY, f64::min);
            let hops = hops(&written, rank)?;
            let joined = hops.windows(2).all(|pair| pair[0].to == pair[1].from);
            let ends = hops.first().map(|hop| hop.from) == Some(source) && hops.last().map(|hop| hop.to) == Some(to);
            if !joined || !ends || !volume.is_finite() {
                return fail(
                    Code::NotApplicable,
                    format!("{name}: its paths do not lead from it to rank {to} hop by hop"),
                );
            }
            parts.push((volume, hops));
        }
        let whole = parts.iter().fold(0.0, |sum, (volume, _)| sum + volume);
        if (whole - 1.0).abs() > ROUNDING {
            return fail(Code::NotProven, format!("{name}: its paths carry {whole} of it"));
        }
        let mut start = 0.0;
        let last = parts.len() - 1;
        for (at, (volume, hops)) in parts.into_iter().enumerate() {
            let end = if at == last { 1.0 } else { start + volume / whole };
            let piece = exchange(name.clone(), source, chunk, ranks, (start, end), hops)?;
            if piece.owner != to {
                return bad(format!("{name} is for rank {}, not {to}", piece.owner));
            }
            pieces.push(piece);
            start = end;
        }
    }
    Ok(pieces)
}

/// Puts chunks, numbered round by round, where they lie in the buffer of their source: by destination.
fn place(flows: &mut Flows) -> Result<()> {
    let ranks = flows.nodes.len() as u32;
    let per = flows.parts / ranks;
    let mut found: BTreeSet<(u32, u32)> = BTreeSet::new();
    for piece in &mut flows.pieces {
        piece.part = piece.part % ranks * per + piece.part / ranks;
        found.insert((piece.source, piece.part));
    }
    let wanted = ranks as usize * (ranks as usize - 1) * per as usize;
    match found.len() == wanted {
        true => Ok(()),
        false => {
            fail(Code::NotProven, format!("{} chunks are on their way, {ranks} ranks exchange {wanted}", found.len()))
        }
    }
}
