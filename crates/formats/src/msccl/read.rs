//! From text. The text is read element by element, so that counts are checked before there is memory for more; no
//! entities but the five of XML itself are known, and document types are refused.

use super::cells::buffer_size;
use super::model::{Algo, Buffer, COLLECTIVES, ChunkPlace, MscclBlock, MscclGpu, MscclStep, StepAction, Text};
use crate::{MAX_TEXT_BYTES, bad, check_length, fail};
use antiphon_base::error::{Code, Result, nearest};
use antiphon_base::units::{clip, clip_error};
use antiphon_base::watch::Watch;
use antiphon_model::collective::Kind;
use antiphon_model::fabric::MAX_RANKS;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use std::collections::{HashMap, HashSet};

/// Most steps of a file.
pub const MAX_STEPS: usize = 1 << 22;
/// Most thread blocks of a GPU.
pub const MAX_BLOCKS: usize = 1 << 12;
/// Most chunks of a buffer.
pub const MAX_CHUNKS: u32 = 1 << 20;
/// Most attributes of an element.
const MAX_ATTRIBUTES: usize = 16;
/// Longest name of an algorithm.
const MAX_NAME: usize = 200;

/// Reads a file. O(text).
///
/// # Errors
/// [`Code::BadFile`] with the line of what is wrong, [`Code::TooLarge`], [`Code::Interrupted`].
pub fn read(text: &str, watch: Watch) -> Result<Algo> {
    check_length("text", text.len(), MAX_TEXT_BYTES)?;
    let mut reader = Reader::from_str(text.strip_prefix('\u{feff}').unwrap_or(text));
    let mut file = MscclReader::default();
    for events in 0.. {
        watch.at(events, text.len())?;
        let start = reader.buffer_position();
        let event = reader.read_event();
        let outcome = match event {
            Ok(Event::Eof) => break,
            Ok(event) => file.take(&event),
            Err(error) => malformed(&error),
        };
        if let Err(error) = outcome {
            let before = text.as_bytes().iter().take(start as usize + 1);
            let line = 1 + before.filter(|&&byte| byte == b'\n').count();
            return Err(error.at(format!("line {line}")));
        }
    }
    match (file.algo, file.open) {
        (Some(mut algo), 0) => {
            algo.text.markup = file.markup;
            Ok(algo)
        }
        (None, 0) => bad("there is no <algo>"),
        _ => bad("the text ends before </algo>"),
    }
}

/// A refusal of broken XML; the reader's words may quote much of it.
fn malformed<T>(error: &impl ToString) -> Result<T> {
    bad(clip_error(error))
}

/// Elements, each within the one before.
const ELEMENTS: [&str; 4] = ["algo", "gpu", "tb", "step"];

/// Ids in the order of the text, which is any.
#[derive(Default)]
struct Ids {
    order: Vec<u32>,
    seen: HashSet<u32>,
}

impl Ids {
    /// Whether an id is new.
    fn add(&mut self, id: u32) -> bool {
        self.order.push(id);
        self.seen.insert(id)
    }

    /// The first id that is missing, of as many as there are.
    fn missing(&self) -> Option<u32> {
        (0..self.order.len() as u32).find(|id| !self.seen.contains(id))
    }

    /// Puts what was read in the order of its ids, of which none is missing, and forgets them.
    fn sort<T>(&mut self, list: &mut [T]) {
        self.seen.clear();
        let mut order = std::mem::take(&mut self.order);
        for at in 0..order.len() {
            while order[at] as usize != at {
                let to = order[at] as usize;
                list.swap(at, to);
                order.swap(at, to);
            }
        }
    }
}

/// What has been read.
#[derive(Default)]
struct MscclReader {
    algo: Option<Algo>,
    /// See [`Text`].
    markup: Option<&'static str>,
    /// Ranks, and the id of each GPU read so far.
    gpus: u32,
    ids: Ids,
    /// Ids of the thread blocks of the last GPU.
    blocks: Ids,
    steps: usize,
    /// Elements that are open.
    open: usize,
    /// Elements that are open within one that is not for programs.
    skipped: usize,
    /// Thread block of every connection of the last GPU, by (peer, channel, whether it sends).
    connections: HashMap<(u32, u32, bool), usize>,
}

impl MscclReader {
    fn take(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::Start(_) if self.skipped > 0 => {
                self.skipped += 1;
                Ok(())
            }
            Event::Empty(_) if self.skipped > 0 => Ok(()),
            Event::End(_) if self.skipped > 0 => {
                self.skipped -= 1;
                Ok(())
            }
            Event::Start(element) if self.is_copy(element) => {
                self.skipped = 1;
                Ok(())
            }
            Event::Empty(element) if self.is_copy(element) => Ok(()),
            Event::Start(element) => {
                self.element(element)?;
                self.open += 1;
                Ok(())
            }
            Event::Empty(element) => {
                self.element(element)?;
                self.open += 1;
                self.close()
            }
            Event::End(_) => self.close(),
            Event::Text(text) if text.trim().is_empty() => Ok(()),
            Event::Text(text) => bad(format!("text '{}' between elements", clip(text.trim()))),
            Event::Comment(_) => Ok(()),
            Event::Decl(_) => {
                self.markup = Some("starts with an XML declaration");
                Ok(())
            }
            Event::DocType(_) => bad("a document type; entities are not expanded"),
            _ => bad("only elements and comments are expected"),
        }
    }

    /// Whether an element says which of a GPU's own chunks are in its output at first: older tools write it, consumers
    /// read over it.
    fn is_copy(&self, element: &BytesStart) -> bool {
        self.open == 2 && element.name().0 == "copy"
    }

    fn element(&mut self, element: &BytesStart) -> Result<()> {
        let name = element.name().0;
        let expected = ELEMENTS.get(self.open);
        if expected != Some(&name) || (self.open == 0 && self.algo.is_some()) {
            let expected = match expected {
                Some(_) if self.open == 0 && self.algo.is_some() => "nothing after </algo>".into(),
                Some(expected) => format!("<{expected}>"),
                None => "nothing within <step>".into(),
            };
            return bad(format!("<{}>, expected {expected}", clip(name)));
        }
        let attributes = XmlAttributes::of(element)?;
        // The parts outside double quotes.
        if element.attributes_raw().split('"').step_by(2).any(|outside| outside.contains('\'')) {
            self.markup = Some("has values in single quotes");
        }
        match self.open {
            0 => self.begin(&attributes),
            1 => self.gpu(&attributes),
            2 => self.block(&attributes),
            _ => self.step(&attributes),
        }
    }

    fn begin(&mut self, attributes: &XmlAttributes) -> Result<()> {
        let coll = attributes.text("coll")?;
        let Some(kind) = kind_of(&coll) else {
            let near = nearest(&coll, COLLECTIVES.map(|(name, _)| name));
            return bad(format!(
                "coll is '{}'{near}; known: {}",
                clip(&coll),
                COLLECTIVES.map(|(name, _)| name).join(", ")
            ));
        };
        self.gpus = attributes.number("ngpus", 2, MAX_RANKS as u64)? as u32;
        let chunks = attributes.number("nchunksperloop", 1, MAX_CHUNKS as u64)? as u32;
        if matches!(kind, Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll) && !chunks.is_multiple_of(self.gpus) {
            return bad(format!("{chunks} chunks are no whole number for each of {} ranks", self.gpus));
        }
        let in_place = attributes.flag("inplace")?.unwrap_or(false);
        let out_of_place = attributes.flag("outofplace")?.unwrap_or(!in_place);
        if !in_place && !out_of_place {
            return bad("it is for buffers neither in place nor out of place: it would never be used");
        }
        let name: String = attributes.text("name")?.chars().take(MAX_NAME).filter(|c| !c.is_control()).collect();
        let mut missing = vec!["outofplace", "minBytes", "maxBytes"];
        missing.retain(|key| attributes.optional(key).is_none());
        self.algo = Some(Algo {
            name,
            proto: clip(&attributes.optional("proto").unwrap_or("Simple".into())),
            channels: attributes.optional_number("nchannels", 0, 1 << 16)?.unwrap_or(1) as u32,
            chunks,
            kind,
            in_place,
            out_of_place,
            min_bytes: attributes.optional_number("minBytes", 0, i64::MAX as u64)?.unwrap_or(0),
            max_bytes: attributes.optional_number("maxBytes", 0, i64::MAX as u64)?.unwrap_or(i64::MAX as u64),
            text: Text { missing, markup: None },
            gpus: vec![],
        });
        Ok(())
    }

    fn algo(&mut self) -> &mut Algo {
        self.algo.as_mut().expect("elements are within <algo>")
    }

    fn gpu(&mut self, attributes: &XmlAttributes) -> Result<()> {
        let id = attributes.number("id", 0, u64::MAX)?;
        let ranks = self.gpus as u64;
        if id >= ranks || !self.ids.add(id as u32) {
            return bad(format!("gpu {id}; ids are 0 to {}, each once", ranks - 1));
        }
        let chunks = |key: &str| Ok(attributes.optional_number(key, 0, MAX_CHUNKS as u64)?.unwrap_or(0) as u32);
        let gpu = MscclGpu {
            input: chunks("i_chunks")?,
            output: chunks("o_chunks")?,
            scratch: chunks("s_chunks")?,
            blocks: vec![],
        };
        self.connections.clear();
        self.algo().gpus.push(gpu);
        Ok(())
    }

    fn block(&mut self, attributes: &XmlAttributes) -> Result<()> {
        let own = self.ids.order[self.ids.order.len() - 1] as u64;
        let id = attributes.number("id", 0, u64::MAX)?;
        if id >= MAX_BLOCKS as u64 || !self.blocks.add(id as u32) {
            return bad(format!("tb {id}; ids go from 0 to at most {}, each once", MAX_BLOCKS - 1));
        }
        let ranks = self.gpus as u64;
        let peer = |key: &str| match attributes.signed(key)? {
            -1 => Ok(None),
            peer if peer >= 0 && (peer as u64) < ranks && peer as u64 != own => Ok(Some(peer as u32)),
            peer => bad(format!("{key} is {peer}; peers of gpu {own} are other gpus from 0 to {}, or -1", ranks - 1)),
        };
        let (send, recv) = (peer("send")?, peer("recv")?);
        let channel = attributes.optional_number("chan", 0, 1 << 16)?.unwrap_or(0) as u32;
        for (peer, sends) in [(send, true), (recv, false)] {
            if let Some(peer) = peer
                && let Some(other) = self.connections.insert((peer, channel, sends), id as usize)
            {
                let way = if sends { "to" } else { "from" };
                return bad(format!("tb {id} has the connection {way} gpu {peer} on channel {channel}, as tb {other}"));
            }
        }
        self.last_gpu().blocks.push(MscclBlock { send, recv, channel, steps: vec![] });
        Ok(())
    }

    fn last_gpu(&mut self) -> &mut MscclGpu {
        self.algo().gpus.last_mut().expect("a block is within <gpu>")
    }

    fn step(&mut self, attributes: &XmlAttributes) -> Result<()> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return fail(Code::TooLarge, format!("more than {MAX_STEPS} steps"));
        }
        let (kind, chunks, ranks) = (self.algo().kind, self.algo().chunks, self.gpus);
        let gpu = self.last_gpu();
        let scratch = gpu.scratch;
        let block = gpu.blocks.last_mut().expect("a step is within <tb>");
        let next = block.steps.len();
        let id = attributes.number("s", 0, u64::MAX)?;
        if id != next as u64 {
            return bad(format!("step {id}; steps go in order from 0, the next is {next}"));
        }
        let name = attributes.text("type")?;
        let Some(&(_, action)) = StepAction::NAMES.iter().find(|(known, _)| *known == name) else {
            return bad(format!(
                "type is '{}'; known: {}",
                clip(&name),
                StepAction::NAMES.map(|(name, _)| name).join(", ")
            ));
        };
        if action.sends() && block.send.is_none() || action.receives() && block.recv.is_none() {
            let way = if action.sends() && block.send.is_none() { "send to" } else { "receive from" };
            return bad(format!("'{name}' in a thread block that has nobody to {way}"));
        }
        let count = match action {
            StepAction::Nop => 0,
            _ => attributes.number("cnt", 1, chunks.max(scratch) as u64)? as u32,
        };
        let size = |buffer| buffer_size(kind, chunks, ranks, buffer).unwrap_or(scratch);
        let place = |end: &str, used: bool| match used {
            true => attributes.place(end, count, size),
            false => Ok(ChunkPlace { buffer: Buffer::Input, offset: 0 }),
        };
        let (src, dst) = (place("src", action.reads())?, place("dst", action.writes())?);
        let pair =
            (attributes.optional_signed("depid")?.unwrap_or(-1), attributes.optional_signed("deps")?.unwrap_or(-1));
        let after = match pair {
            (-1, _) => None,
            (tb, step) if (0..MAX_BLOCKS as i64).contains(&tb) && (0..MAX_STEPS as i64).contains(&step) => {
                Some((tb as u32, step as u32))
            }
            (tb, step) => {
                return bad(format!("it waits for tb {tb} step {step}; ids are not negative, or depid is -1"));
            }
        };
        let awaited = attributes.flag("hasdep")?.unwrap_or(false);
        block.steps.push(MscclStep { action, src, dst, count, after, awaited });
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.open -= 1;
        let (found, ranks) = (self.algo().gpus.len(), self.gpus);
        match self.open {
            0 if found < ranks as usize => bad(format!("</algo> after {found} gpus, ngpus is {ranks}")),
            0 => {
                let mut ids = std::mem::take(&mut self.ids);
                ids.sort(&mut self.algo().gpus);
                Ok(())
            }
            1 => {
                if let Some(id) = self.blocks.missing() {
                    return bad(format!("tb {id} is missing; ids are dense"));
                }
                let mut ids = std::mem::take(&mut self.blocks);
                ids.sort(&mut self.last_gpu().blocks);
                check_waits(self.last_gpu())
            }
            _ => Ok(()),
        }
    }
}

/// The collective of a name, however it is written: `all_gather`, `AllGather`, `allgather`.
pub fn kind_of(coll: &str) -> Option<Kind> {
    let plain = |text: &str| -> String {
        text.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).map(|c| c.to_ascii_lowercase()).collect()
    };
    COLLECTIVES.iter().find(|(name, _)| plain(name) == plain(coll)).map(|&(_, kind)| kind)
}

/// Checks that steps wait only for steps that exist and say that they are waited for.
fn check_waits(gpu: &MscclGpu) -> Result<()> {
    for (tb, block) in gpu.blocks.iter().enumerate() {
        for (at, step) in block.steps.iter().enumerate() {
            let follows_waiting = at > 0 && {
                let before = block.steps[at - 1];
                before.action == StepAction::Nop && before.after.is_some()
            };
            if follows_waiting && step.after.is_none() {
                return bad(format!(
                    "tb {tb} step {at} waits for nothing, so what the nop before it waits for is lost"
                ));
            }
            let ends = step.action == StepAction::Nop && step.after.is_some() && at + 1 == block.steps.len();
            if ends {
                return bad(format!("tb {tb} ends with nop {at}, whose wait no step takes over"));
            }
            let Some((other, awaited)) = step.after else { continue };
            let found = gpu.blocks.get(other as usize).and_then(|block| block.steps.get(awaited as usize));
            let wrong = match found {
                None => "which does not exist",
                Some(found) if found.action == StepAction::Nop => "a nop, which nobody can wait for",
                Some(found) if !found.awaited => "which does not say so: its hasdep is not 1",
                Some(_) => continue,
            };
            return bad(format!("tb {tb} step {at} waits for tb {other} step {awaited}, {wrong}"));
        }
    }
    Ok(())
}

/// Attributes of an element.
struct XmlAttributes(Vec<(String, String)>);

impl XmlAttributes {
    fn of(element: &BytesStart) -> Result<XmlAttributes> {
        let mut list = vec![];
        for attribute in element.attributes() {
            let attribute = attribute.or_else(|error| malformed(&error))?;
            if list.len() == MAX_ATTRIBUTES {
                return bad(format!("more than {MAX_ATTRIBUTES} attributes"));
            }
            let value = attribute.normalized_value(XmlVersion::Implicit1_0).or_else(|error| malformed(&error))?;
            list.push((attribute.key.0.to_string(), value.into_owned()));
        }
        Ok(XmlAttributes(list))
    }

    fn optional(&self, key: &str) -> Option<String> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
    }

    fn text(&self, key: &str) -> Result<String> {
        self.optional(key).map_or_else(|| bad(format!("{key} is missing")), Ok)
    }

    fn optional_signed(&self, key: &str) -> Result<Option<i64>> {
        let Some(text) = self.optional(key) else { return Ok(None) };
        match text.trim().parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => bad(format!("{key} is '{}', expected a whole number", clip(&text))),
        }
    }

    fn signed(&self, key: &str) -> Result<i64> {
        self.optional_signed(key)?.map_or_else(|| bad(format!("{key} is missing")), Ok)
    }

    fn optional_number(&self, key: &str, least: u64, most: u64) -> Result<Option<u64>> {
        let Some(number) = self.optional_signed(key)? else { return Ok(None) };
        match u64::try_from(number) {
            Ok(number) if (least..=most).contains(&number) => Ok(Some(number)),
            _ => bad(format!("{key} is {number}, expected {least} to {most}")),
        }
    }

    fn number(&self, key: &str, least: u64, most: u64) -> Result<u64> {
        self.optional_number(key, least, most)?.map_or_else(|| bad(format!("{key} is missing")), Ok)
    }

    /// Where `count` chunks lie by the attributes of one end, in a buffer of the size that `size` tells.
    fn place(&self, end: &str, count: u32, size: impl Fn(Buffer) -> u32) -> Result<ChunkPlace> {
        let letter = self.text(&format!("{end}buf"))?;
        let Some(buffer) = Buffer::of_letter(&letter) else {
            return bad(format!("{end}buf is '{}', expected i, o or s", clip(&letter)));
        };
        let (size, offset) = (size(buffer) as u64, self.number(&format!("{end}off"), 0, u32::MAX as u64)?);
        if offset + count as u64 > size {
            let end = offset + count as u64;
            return bad(format!("chunks {offset} to {} of buffer {letter}, which has {size}", end - 1));
        }
        Ok(ChunkPlace { buffer, offset: offset as u32 })
    }

    fn flag(&self, key: &str) -> Result<Option<bool>> {
        Ok(self.optional_number(key, 0, 1)?.map(|number| number == 1))
    }
}
