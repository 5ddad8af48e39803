//! Networks of BookSim's `anynet`: a line for a router with the nodes and routers that it is joined to, each with the cycles of the
//! channel behind it where these are not 1 (`src/networks/anynet.cpp` of github.com/booksim/booksim2).

use super::{FabricDraft, SaidRate};
use crate::fabric::{MAX_NODES, NodeId};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::clip;
use std::collections::{BTreeMap, BTreeSet};

/// Most cycles of a channel.
const MAX_CYCLES: u32 = 1_000_000;
/// Of channels, whose rate is a flit a cycle.
const UNSAID: SaidRate = SaidRate::Nothing(None, "channels of a flit a cycle");

/// Whether a text begins as one of this format.
pub fn recognises(text: &str) -> bool {
    let mut words = text.split_ascii_whitespace();
    matches!(words.next(), Some("router" | "node")) && words.next().is_some_and(|word| word.parse::<u64>().is_ok())
}

/// What a line names.
#[derive(Clone, Copy, PartialEq)]
enum Joined {
    Node(u32),
    Router(u32),
}

/// What a text says.
#[derive(Default)]
struct AnyNet {
    /// The router of each node, and the cycles both ways.
    nodes: BTreeMap<u32, (u32, u32)>,
    routers: BTreeSet<u32>,
    /// Cycles from router to router.
    channels: BTreeMap<(u32, u32), u32>,
}

impl AnyNet {
    /// Reads a line; else what is wrong with it.
    fn read(&mut self, line: &str) -> std::result::Result<(), String> {
        let number = |word: Option<&str>, most: u32| match (word, word.map(str::parse)) {
            (_, Some(Ok(number))) if number <= most => Ok(number),
            (Some(word), _) => Err(format!("'{}' is not 0 to {most}", clip(word))),
            (None, _) => Err("it ends where a number is expected".to_string()),
        };
        let mut words = line.split_ascii_whitespace().peekable();
        let mut head = None;
        while let Some(word) = words.next() {
            let id = number(words.next(), MAX_NODES as u32 - 1)?;
            let end = match word {
                "router" => Joined::Router(id),
                "node" => Joined::Node(id),
                other => return Err(format!("'{}', expected router or node", clip(other))),
            };
            if let Joined::Router(router) = end {
                self.routers.insert(router);
            }
            let Some(head) = head else {
                head = Some(end);
                continue;
            };
            let given = words.next_if(|word| !matches!(*word, "router" | "node"));
            let cycles = if given.is_some() { number(given, MAX_CYCLES)? } else { 1 };
            self.join(head, end, cycles)?;
        }
        Ok(())
    }

    fn join(&mut self, head: Joined, end: Joined, cycles: u32) -> std::result::Result<(), String> {
        match (head, end) {
            (Joined::Node(_), Joined::Node(_)) => {
                return Err("it joins a node to a node; nodes are joined to routers".into());
            }
            (Joined::Node(node), Joined::Router(router)) | (Joined::Router(router), Joined::Node(node)) => {
                let before = self.nodes.insert(node, (router, cycles));
                if let Some((other, _)) = before.filter(|(other, _)| *other != router) {
                    return Err(format!("node {node} is on router {other} too; it can be on one"));
                }
            }
            (Joined::Router(one), Joined::Router(other)) if one == other => {
                return Err(format!("it joins router {one} to itself"));
            }
            (Joined::Router(from), Joined::Router(to)) => {
                self.channels.insert((from, to), cycles);
                // The way back is a channel of its own, of one cycle unless it is said.
                self.channels.entry((to, from)).or_insert(1);
            }
        }
        Ok(())
    }
}

/// Reads a text. O(channels log channels).
pub fn read(text: &str) -> Result<FabricDraft> {
    let mut net = AnyNet::default();
    for (at, line) in text.lines().enumerate() {
        let place = |what| Error::new(Code::BadFile, what).at(format_args!("line {}", at + 1));
        net.read(line).map_err(place)?;
    }
    let AnyNet { nodes, routers, channels } = net;
    for (what, ids) in [("node", nodes.keys().collect::<Vec<_>>()), ("router", routers.iter().collect())] {
        if let Some((missing, _)) = (0..).zip(ids).find(|(at, id)| at != *id) {
            let what = format!("there is no {what} {missing}; {what}s are numbered from 0 without gaps");
            return Err(Error::new(Code::BadFile, what));
        }
    }
    let mut draft = FabricDraft::default();
    for node in nodes.keys() {
        draft.node(&format!("node{node}"), true)?;
    }
    for router in &routers {
        draft.node(&format!("router{router}"), false)?;
    }
    let first = nodes.len() as NodeId;
    for (&node, &(router, cycles)) in &nodes {
        draft.both(node, first + router, "node", UNSAID)?;
        draft.cycles.extend([cycles; 2]);
    }
    for (&(from, to), &cycles) in &channels {
        draft.link(first + from, first + to, "router", UNSAID)?;
        draft.cycles.push(cycles);
    }
    // Where all are alike, the system says how long a link takes.
    if draft.cycles.iter().all(|&cycles| cycles == 1) {
        draft.cycles.clear();
    }
    Ok(draft)
}
