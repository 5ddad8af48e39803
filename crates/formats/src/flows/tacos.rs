//! What TACOS writes as CSV: an all-gather as the chunks of every link in order (Won et al., TACOS, MICRO 2024;
//! github.com/astra-sim/tacos).

use super::{FlowHop, Flows, MAX_HOPS, Piece};
use crate::{FileFormat, Foreign, FormatInfo, bad, fail};
use antiphon_base::error::{Code, Result};
use antiphon_base::units::clip;
use antiphon_base::watch::Watch;
use antiphon_model::collective::Kind;
use antiphon_model::fabric::MAX_RANKS;
use antiphon_model::schedule::Schedule;
use std::collections::HashMap;

const INFO: FormatInfo = FormatInfo { name: "tacos", about: "TACOS result (CSV)", extension: ".csv", consumers: &[] };

/// The format.
pub struct Tacos;

impl FileFormat for Tacos {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn recognises(&self, text: &str) -> bool {
        text.trim_start_matches('\u{feff}').trim_start().starts_with("NPUs Count,")
    }

    fn read(&self, text: &str, watch: Watch) -> Result<Box<dyn Foreign>> {
        Ok(Box::new(read(text, watch)?))
    }

    fn write(&self, _: &Schedule, _: &str, _: Watch) -> Result<String> {
        fail(Code::NotApplicable, "tacos: results of TACOS are only read")
    }
}

/// Reads a result. A chunk comes from the rank that sends it and never gets it; its times follow from the order of each
/// link and from its ways.
///
/// Complexity: O(chunks on links).
///
/// # Errors
/// [`Code::BadFile`] with the line; [`Code::NotProven`] if chunks wait for each other; [`Code::NotApplicable`] where a rank gets a chunk
/// twice; [`Code::TooLarge`]; [`Code::Interrupted`].
fn read(text: &str, watch: Watch) -> Result<Flows> {
    let (npus, count, hops) = parse(text, watch)?;
    let bringer = bringers(&hops, watch)?;
    let sources = sources(count, &hops, &bringer)?;
    let times = times(&hops, &bringer, watch)?;
    let mut own = vec![0u32; npus];
    let per = (count / npus) as u32;
    let mut pieces: Vec<Piece> = vec![];
    for (chunk, source) in sources.into_iter().enumerate() {
        let Some(source) = source else {
            return fail(Code::NotProven, format!("chunk {chunk} never leaves an NPU that has it at first"));
        };
        let place = own[source as usize];
        if place == per {
            return fail(Code::NotProven, format!("NPU {source} has more than {per} chunks at first"));
        }
        own[source as usize] += 1;
        let (name, part) = (format!("chunk {chunk} of NPU {source}"), source * per + place);
        pieces.push(Piece { name, source, owner: source, part, cut: (0.0, 1.0), hops: vec![] });
    }
    for (&(from, to, chunk, _), time) in hops.iter().zip(times) {
        pieces[chunk as usize].hops.push(FlowHop { time, from, to });
    }
    pieces.iter_mut().for_each(|piece| piece.hops.sort_unstable());
    Ok(Flows { name: "tacos", kind: Kind::AllGather, nodes: (0..npus as u32).collect(), parts: count as u32, pieces })
}

/// Sender, receiver and chunk, and whether it is the first chunk on its link.
type LinkChunk = (u32, u32, u32, bool);
/// By chunk and rank: the hop that brings the chunk to the rank.
type Bringers = HashMap<(u32, u32), usize>;

/// The numbers of NPUs and of chunks, and the chunks of all links in order.
fn parse(text: &str, watch: Watch) -> Result<(usize, usize, Vec<LinkChunk>)> {
    let text = text.trim_start_matches('\u{feff}');
    let (mut npus, mut count) = (None, None);
    let mut hops: Vec<LinkChunk> = vec![];
    let mut header = false;
    for (at, line) in (1..).zip(text.lines()) {
        watch.at(at, text.len())?;
        let wrong = |what: String| bad(format!("line {at}: {what}"));
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let number = |text: &str, most: usize| match text.parse::<usize>() {
            Ok(number) if number <= most => Ok(number),
            _ => bad(format!("line {at}: '{}', expected a whole number up to {most}", clip(text))),
        };
        match (fields[0], fields.get(1)) {
            _ if line.trim().is_empty() => {}
            ("NPUs Count", Some(text)) => npus = Some(number(text, MAX_RANKS)?),
            ("Chunks Count", Some(text)) => count = Some(number(text, MAX_HOPS)?),
            ("Links Count" | "Chunk Size", Some(_)) => {}
            ("SrcID", _) if fields.len() == 5 => header = true,
            _ if !header || fields.len() < 5 => {
                return wrong(format!("'{}', expected SrcID,DestID,Latency,Bandwidth and chunks", clip(line)));
            }
            _ => {
                let (Some(npus), Some(count)) = (npus, count) else {
                    return wrong("links before NPUs Count and Chunks Count".into());
                };
                let end = |text: &str| number(text, npus.saturating_sub(1)).map(|number| number as u32);
                let (from, to) = (end(fields[0])?, end(fields[1])?);
                if from == to {
                    return wrong(format!("a link from {from} to itself"));
                }
                let chunks = fields[4..].iter().filter(|text| !text.is_empty() && **text != "None");
                for (place, text) in chunks.enumerate() {
                    let chunk = number(text, count.saturating_sub(1))? as u32;
                    if hops.len() == MAX_HOPS {
                        return fail(Code::TooLarge, format!("more than {MAX_HOPS} chunks on links"));
                    }
                    hops.push((from, to, chunk, place == 0));
                }
            }
        }
    }
    let (Some(npus), Some(count)) = (npus, count) else {
        return bad("NPUs Count or Chunks Count is missing");
    };
    if npus < 2 || count == 0 || !count.is_multiple_of(npus) {
        return bad(format!("{count} chunks are no whole number for each of {npus} NPUs"));
    }
    Ok((npus, count, hops))
}

fn bringers(hops: &[LinkChunk], watch: Watch) -> Result<Bringers> {
    let mut bringer = Bringers::new();
    for (at, &(_, to, chunk, _)) in hops.iter().enumerate() {
        watch.at(at, hops.len())?;
        if bringer.insert((chunk, to), at).is_some() {
            let what = format!("NPU {to} gets chunk {chunk} twice, and which goes on is not said");
            return fail(Code::NotApplicable, what);
        }
    }
    Ok(bringer)
}

/// The rank that has each chunk at first; `None` for chunks that never leave such a rank.
fn sources(count: usize, hops: &[LinkChunk], bringer: &Bringers) -> Result<Vec<Option<u32>>> {
    let mut sources: Vec<Option<u32>> = vec![None; count];
    for &(from, _, chunk, _) in hops.iter().filter(|&&(from, _, chunk, _)| !bringer.contains_key(&(chunk, from))) {
        if let Some(other) = sources[chunk as usize].replace(from).filter(|&other| other != from) {
            let what = format!("chunk {chunk} comes from NPU {other} and NPU {from}, which never get it");
            return fail(Code::NotProven, what);
        }
    }
    Ok(sources)
}

/// The earliest time of every hop: after the one before it on its link, and after the chunk has come.
fn times(hops: &[LinkChunk], bringer: &Bringers, watch: Watch) -> Result<Vec<u64>> {
    let before = |at: usize| {
        let (from, _, chunk, first) = hops[at];
        [bringer.get(&(chunk, from)).copied(), at.checked_sub(1).filter(|_| !first)]
    };
    let mut left = vec![0u8; hops.len()];
    let mut after: Vec<Vec<u32>> = vec![vec![]; hops.len()];
    for (at, left) in left.iter_mut().enumerate() {
        for earlier in before(at).into_iter().flatten() {
            *left += 1;
            after[earlier].push(at as u32);
        }
    }
    let mut times = vec![0u64; hops.len()];
    let mut ready: Vec<usize> = (0..hops.len()).filter(|&at| left[at] == 0).collect();
    let mut done = 0;
    while let Some(at) = ready.pop() {
        watch.at(done, hops.len())?;
        done += 1;
        for &next in &after[at] {
            let next = next as usize;
            times[next] = times[next].max(times[at] + 1);
            left[next] -= 1;
            if left[next] == 0 {
                ready.push(next);
            }
        }
    }
    match (0..hops.len()).find(|&at| left[at] > 0) {
        Some(at) if done < hops.len() => {
            let (from, to, chunk, _) = hops[at];
            let what = format!("deadlock: chunk {chunk} from {from} to {to} waits for chunks that wait for it");
            fail(Code::NotProven, what)
        }
        _ => Ok(times),
    }
}
