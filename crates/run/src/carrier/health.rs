//! Links and nodes that have failed: how a node notices, and how it tells all others.

use super::node::Node;
use super::packet::{PacketHeader, PacketKind};
use antiphon_base::error::{Code, Error};
use antiphon_model::fabric::{LinkId, NodeId};
use std::io;
use std::time::{Duration, Instant};

/// How often a node says on every link that it is there.
pub(super) const BEAT: Duration = Duration::from_millis(250);
/// A link from which nothing has come for so long is dead.
const SILENCE: Duration = Duration::from_millis(1500);
/// A node that looks so seldom was itself kept from running, and learns nothing from silence.
const STOPPED: Duration = Duration::from_millis(500);
/// Time for failures that belong together to become known, from the first one on.
const GATHERING: Duration = Duration::from_millis(150);
/// Most bytes of the text of a failure.
const MAX_TEXT: usize = 400;

/// What has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// A link, in one direction; all wires between its ends are meant.
    pub link: Option<LinkId>,
    /// A node.
    pub node: Option<NodeId>,
    /// In words.
    pub what: String,
}

/// What a node knows of failures.
pub(super) struct Health {
    pub failures: Vec<Failure>,
    since: Option<Instant>,
    has_told: bool,
    last_beat: Instant,
}

impl Health {
    pub fn new(now: Instant) -> Health {
        Health { failures: vec![], since: None, has_told: false, last_beat: now }
    }

    /// Why runs end, if they do: what failed first, a node before links.
    pub fn error(&self) -> Option<Error> {
        let first = self.failures.iter().find(|failure| failure.node.is_some()).or(self.failures.first())?;
        Some(Error::new(Code::Stalled, &first.what))
    }
}

impl Node {
    /// Beats, and looks for links that are silent.
    pub fn tick(&mut self, now: Instant) {
        let since = now.duration_since(self.health.last_beat);
        if since >= BEAT {
            self.health.last_beat = now;
            let was_stopped = since > STOPPED;
            for at in 0..self.ports.len() {
                let port = &mut self.ports[at];
                if port.is_dead {
                    continue;
                }
                if now.duration_since(port.last_sent) >= BEAT && !port.has_more() {
                    let mut packet = vec![];
                    PacketHeader::new(PacketKind::Alive, 0, 0).write(&[], &mut packet);
                    port.control.push_back(packet);
                }
                if was_stopped {
                    port.last_heard = now;
                } else if now.duration_since(port.last_heard) > SILENCE {
                    let what = format!("nothing came over {} for {:.1} s", port.name, SILENCE.as_secs_f64());
                    self.link_failed(at, what);
                }
            }
        }
        if self.health.since.is_some_and(|since| now.duration_since(since) >= GATHERING)
            && !std::mem::replace(&mut self.health.has_told, true)
            && let Some(error) = self.health.error()
        {
            self.fail_all(&error);
        }
    }

    /// Whether nothing more can be begun here.
    pub fn has_failed(&self) -> Option<Error> {
        self.health.error().filter(|_| self.health.has_told)
    }

    fn link_failed(&mut self, at: usize, what: String) {
        let port = &mut self.ports[at];
        port.is_dead = true;
        let (link, neighbour) = (port.out_links.first().copied(), port.neighbour);
        self.failed(Failure { link, node: None, what: format!("rank {neighbour}: {what}; the link is dead") }, None);
    }

    /// A wire to a neighbour has ended.
    pub(super) fn wire_broke(&mut self, at: usize, error: &io::Error) {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        let port = &mut self.ports[at];
        port.is_dead = true;
        if port.has_left {
            return;
        }
        if matches!(error.kind(), UnexpectedEof | ConnectionReset | BrokenPipe) {
            let what = format!("rank {} has ended ({} was closed)", port.neighbour, port.name);
            let node = Some(port.neighbour);
            self.failed(Failure { link: None, node, what }, None);
        } else {
            let what = format!("{}: {error}", port.name);
            self.link_failed(at, what);
        }
    }

    /// The neighbour has closed its end in good order.
    pub(super) fn left(&mut self, at: usize) {
        self.ports[at].has_left = true;
    }

    /// A neighbour says that something failed.
    pub(super) fn heard_of_failure(&mut self, from: usize, header: &PacketHeader, text: &[u8]) {
        let what: String = String::from_utf8_lossy(&text[..text.len().min(MAX_TEXT)]).into_owned();
        let is_node = header.kind == PacketKind::NodeFailed;
        let failure = Failure { link: (!is_node).then_some(header.item), node: is_node.then_some(header.item), what };
        if failure.node != Some(self.node) {
            self.failed(failure, Some(from));
        }
    }

    /// Notes a failure and tells all neighbours but the one that said it.
    fn failed(&mut self, failure: Failure, told_by: Option<usize>) {
        let ends = |link: Option<LinkId>| {
            let link = self.fabric.links.get(link? as usize)?;
            Some((link.from.min(link.to), link.from.max(link.to)))
        };
        let is_known = self.health.failures.iter().any(|known| match failure.node {
            Some(node) => known.node == Some(node),
            None => known.node.is_none() && ends(known.link) == ends(failure.link),
        });
        if is_known {
            return;
        }
        let kind = if failure.node.is_some() { PacketKind::NodeFailed } else { PacketKind::LinkFailed };
        let text = &failure.what.as_bytes()[..failure.what.len().min(MAX_TEXT)];
        let item = failure.node.or(failure.link).unwrap_or(u32::MAX);
        let mut packet = vec![];
        PacketHeader { item, bytes: text.len() as u32, ..PacketHeader::new(kind, 0, 0) }.write(&[], &mut packet);
        packet.extend_from_slice(text);
        for (at, port) in self.ports.iter_mut().enumerate() {
            if !port.is_dead && Some(at) != told_by {
                port.control.push_back(packet.clone());
            }
        }
        // A node that has ended needs no gathering: its neighbours all see it at once.
        let now = Instant::now();
        let since = if failure.node.is_some() { now.checked_sub(GATHERING).unwrap_or(now) } else { now };
        self.health.since = Some(self.health.since.map_or(since, |before| before.min(since)));
        self.health.failures.push(failure);
    }

    /// Says on all links that this node leaves.
    pub fn leave(&mut self) {
        for port in &mut self.ports {
            let mut packet = vec![];
            PacketHeader::new(PacketKind::Leaving, 0, 0).write(&[], &mut packet);
            port.control.push_back(packet);
        }
    }
}
