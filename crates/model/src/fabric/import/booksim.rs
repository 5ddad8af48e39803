//! Networks of BookSim's `anynet`: a line for a router with the nodes and routers that it is joined to, each with the cycles of the
//! channel behind it where these are not 1 (`src/networks/anynet.cpp` of github.com/booksim/booksim2).

use super::{Draft, Said};
use crate::fabric::{MAX_NODES, NodeId};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::clip;
use std::collections::BTreeMap;

/// Most cycles of a channel.
const MAX_CYCLES: u32 = 1_000_000;
/// Of channels, whose rate is a flit a cycle.
const UNSAID: Said = Said::Nothing(None, "channels of a flit a cycle");

/// Whether a text begins as one of this format.
pub fn recognises(text: &str) -> bool {
    let mut words = text.split_ascii_whitespace();
    matches!(words.next(), Some("router" | "node")) && words.next().is_some_and(|word| word.parse::<u64>().is_ok())
}

/// What a line names.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Node(u32),
    Router(u32),
}

/// Reads a text. O(channels log channels).
pub fn read(text: &str) -> Result<Draft> {
    // The router of each node with the cycles both ways, and cycles from router to router.
    let (mut nodes, mut routers) = (BTreeMap::new(), BTreeMap::new());
    let mut channels: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        let wrong = |what: String| Error::new(Code::BadFile, what).at(format_args!("line {}", at + 1));
        let number = |word: Option<&str>, most: u32| match word.map(str::parse) {
            Some(Ok(number)) if number <= most => Ok(number),
            _ => Err(wrong(match word {
                Some(word) => format!("'{}' is not 0 to {most}", clip(word)),
                None => "it ends where a number is expected".into(),
            })),
        };
        let mut words = line.split_ascii_whitespace().peekable();
        let mut head = None;
        while let Some(word) = words.next() {
            let id = number(words.next(), MAX_NODES as u32 - 1)?;
            let end = match word {
                "router" => End::Router(id),
                "node" => End::Node(id),
                other => return Err(wrong(format!("'{}', expected router or node", clip(other)))),
            };
            if let End::Router(router) = end {
                routers.insert(router, ());
            }
            let Some(head) = head else {
                head = Some(end);
                continue;
            };
            let given = words.next_if(|word| !matches!(*word, "router" | "node"));
            let cycles = if given.is_some() { number(given, MAX_CYCLES)? } else { 1 };
            match (head, end) {
                (End::Node(_), End::Node(_)) => {
                    return Err(wrong("it joins a node to a node; nodes are joined to routers".into()));
                }
                (End::Node(node), End::Router(router)) | (End::Router(router), End::Node(node)) => {
                    if let Some((other, _)) = nodes.insert(node, (router, cycles)).filter(|(other, _)| *other != router)
                    {
                        return Err(wrong(format!("node {node} is on router {other} too; it can be on one")));
                    }
                }
                (End::Router(one), End::Router(other)) if one == other => {
                    return Err(wrong(format!("it joins router {one} to itself")));
                }
                (End::Router(from), End::Router(to)) => {
                    channels.insert((from, to), cycles);
                    // The way back is a channel of its own, of one cycle unless it is said.
                    channels.entry((to, from)).or_insert(1);
                }
            }
        }
    }
    for (what, ids) in [("node", nodes.keys().collect::<Vec<_>>()), ("router", routers.keys().collect())] {
        if let Some((missing, _)) = (0..).zip(ids).find(|(at, id)| at != *id) {
            let what = format!("there is no {what} {missing}; {what}s are numbered from 0 without gaps");
            return Err(Error::new(Code::BadFile, what));
        }
    }
    let mut draft = Draft::default();
    for node in nodes.keys() {
        draft.node(&format!("node{node}"), true)?;
    }
    for router in routers.keys() {
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
