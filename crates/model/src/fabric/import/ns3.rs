//! Topologies that ns-3 simulates: those of SimAI (github.com/aliyun/SimAI, `gen_Topo_Template.py`), which begin with nodes, GPUs of a
//! server, NVSwitches, other switches, links and the kind of GPU; and those of HPCC and of ASTRA-sim's ns-3, which begin with nodes,
//! switches and links. Then come the switches and, each with rate, latency and the share of packets that it loses, the links.

use super::{FabricDraft, SaidRate, rates};
use crate::fabric::{MAX_LINKS, MAX_NODES, NodeId, link};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::clip;
use std::iter::Peekable;

/// Whether a text begins as one of this format: with whole numbers alone, or with five and a name.
pub fn recognises(text: &str) -> bool {
    let first: Vec<&str> = text.lines().next().unwrap_or_default().split_ascii_whitespace().take(8).collect();
    let whole = first.iter().take_while(|word| word.bytes().all(|b| b.is_ascii_digit())).count();
    matches!((whole, first.len()), (3, 3) | (5, 6..))
}

/// Words of a text with their lines.
struct Words<'t> {
    words: Peekable<Box<dyn Iterator<Item = (usize, &'t str)> + 't>>,
    line: usize,
}

impl<'t> Words<'t> {
    fn next(&mut self, what: &str) -> Result<&'t str> {
        let (line, word) =
            self.words.next().ok_or_else(|| self.wrong(format!("the text ends where {what} is expected")))?;
        self.line = line;
        Ok(word)
    }

    /// A whole number below a limit.
    fn number(&mut self, what: &str, below: usize) -> Result<usize> {
        let word = self.next(what)?;
        let number: usize = word.parse().map_err(|_| self.wrong(format!("'{}' is no {what}", clip(word))))?;
        if number < below { Ok(number) } else { Err(self.wrong(format!("{what} {number} is not below {below}"))) }
    }

    fn wrong(&self, what: impl AsRef<str>) -> Error {
        Error::new(Code::BadFile, what).at(format_args!("line {}", self.line))
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Ns3Node {
    Host,
    NvSwitch,
    Switch,
}

/// Reads a text. O(nodes + links).
pub fn read(text: &str) -> Result<FabricDraft> {
    let lines = text.lines().enumerate();
    let words = lines.flat_map(|(at, line)| line.split_ascii_whitespace().map(move |word| (at + 1, word)));
    let words: Box<dyn Iterator<Item = _>> = Box::new(words);
    let mut words = Words { words: words.peekable(), line: 1 };
    let is_simai = text.trim_start().lines().next().unwrap_or_default().split_ascii_whitespace().count() > 3;
    let nodes = words.number("number of nodes", MAX_NODES + 1)?;
    let nvswitches = if is_simai {
        words.number("number of GPUs of a server", usize::MAX)?;
        words.number("number of NVSwitches", nodes + 1)?
    } else {
        0
    };
    let switches = words.number("number of switches", nodes + 1)?;
    let links = words.number("number of links", MAX_LINKS / 2 + 1)?;
    if is_simai {
        words.next("kind of GPU")?;
    }
    if words.words.peek().is_some_and(|(line, _)| *line == words.line) {
        return Err(
            words.wrong("more words than nodes, GPUs of a server, NVSwitches, switches, links and the kind of GPU")
        );
    }
    let mut kinds = vec![Ns3Node::Host; nodes];
    for at in 0..nvswitches + switches {
        let id = words.number("number of a switch", nodes)?;
        if kinds[id] != Ns3Node::Host {
            return Err(words.wrong(format!("switch {id} is there twice")));
        }
        kinds[id] = if at < nvswitches { Ns3Node::NvSwitch } else { Ns3Node::Switch };
    }
    let mut draft = FabricDraft::default();
    for (id, kind) in kinds.iter().enumerate() {
        let name = match kind {
            Ns3Node::Host if is_simai => "gpu",
            Ns3Node::Host => "host",
            Ns3Node::NvSwitch => "nvswitch",
            Ns3Node::Switch => "switch",
        };
        draft.node(&format!("{name}{id}"), *kind == Ns3Node::Host)?;
    }
    let mut lossy = 0;
    for _ in 0..links {
        lossy += usize::from(read_link(&mut words, &kinds, &mut draft)?);
    }
    if let Some((line, word)) = words.words.next() {
        words.line = line;
        return Err(words.wrong(format!("'{}' after the last of {links} links", clip(word))));
    }
    if lossy > 0 {
        draft.note(format!("{lossy} links lose packets in the file, which is not modelled"));
    }
    Ok(draft)
}

/// Reads a link; whether it loses packets.
fn read_link(words: &mut Words, kinds: &[Ns3Node], draft: &mut FabricDraft) -> Result<bool> {
    let nodes = kinds.len();
    let (from, to) = (words.number("node", nodes)?, words.number("node", nodes)?);
    let rate = words.next("rate")?;
    let rate = rates::gb_per_s(rate)
        .ok_or_else(|| words.wrong(format!("rate '{}'; write for example 400Gbps", clip(rate))))?;
    let latency = words.next("latency")?;
    let latency = rates::nanoseconds(latency)
        .ok_or_else(|| words.wrong(format!("latency '{}'; write for example 0.0005ms", clip(latency))))?;
    let lost = words.next("share of lost packets")?;
    let is_lossy = match lost.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => share > 0.0,
        _ => return Err(words.wrong(format!("share of lost packets '{}' is not 0 to 1", clip(lost)))),
    };
    if from == to {
        return Err(words.wrong(format!("a link joins node {from} to itself")));
    }
    let inside = [from, to].iter().any(|&end| kinds[end] == Ns3Node::NvSwitch);
    let first = draft.links.len();
    let label = if inside { "nvlink" } else { "net" };
    draft
        .both(from as NodeId, to as NodeId, label, SaidRate::Rate(rate))
        .map_err(|error| words.wrong(error.message))?;
    let latency = link::latency(latency).map_err(|error| words.wrong(error.message))?;
    draft.links[first..].iter_mut().for_each(|link| link.latency = Some(latency));
    Ok(is_lossy)
}
