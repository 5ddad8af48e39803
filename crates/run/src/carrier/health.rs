//! Links and nodes that have failed: how a node notices, and how it tells all others.

use super::node::CarrierNode;
use super::packet::{PacketHeader, PacketKind};
use antiphon_base::error::{Code, Error};
use antiphon_model::fabric::{LinkId, NodeId};
use std::collections::HashSet;
use std::io::{self, IoSlice};
use std::time::{Duration, Instant};

/// How often a node says on every link that it is there.
pub(super) const BEAT: Duration = Duration::from_millis(250);
/// A link from which nothing has come for so long is dead.
const SILENCE: Duration = Duration::from_millis(1500);
/// A node that looks so seldom was itself kept from running, and learns nothing from silence.
const STOPPED: Duration = Duration::from_millis(500);
/// Time for failures that belong together to become known, from the first one on.
const GATHERING: Duration = Duration::from_millis(150);
/// In packets, where a cable has no link in a direction.
const NO_LINK: LinkId = LinkId::MAX;
/// Most bytes of the text of a failure.
const MAX_TEXT: usize = 400;

/// What has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Of a cable its links in the first fabric, there and back, in order; both ends say the same.
    pub links: Vec<LinkId>,
    /// A node.
    pub node: Option<NodeId>,
    /// In words.
    pub what: String,
}

/// What a node knows of failures.
pub(super) struct Health {
    /// Those that are not yet left out.
    pub failures: Vec<Failure>,
    /// Links that are left out. Some may hear late of their failure.
    settled: HashSet<LinkId>,
    since: Option<Instant>,
    has_told: bool,
    last_beat: Instant,
}

impl Health {
    pub fn new(now: Instant) -> Health {
        Health { failures: vec![], settled: HashSet::new(), since: None, has_told: false, last_beat: now }
    }

    /// Why runs end, if they do: what failed first. Ranks that end for it are known to have ended only after it is.
    pub fn error(&self) -> Option<Error> {
        self.failures.first().map(|first| Error::new(Code::Stalled, &first.what))
    }

    /// All nodes leave these links out, and nothing is under way. What failed besides still has to be dealt with.
    pub fn settle(&mut self, gone: &[LinkId]) {
        self.settled.extend(gone);
        let Health { failures, settled, .. } = self;
        failures.retain(|failure| failure.node.is_some() || failure.links.iter().any(|link| !settled.contains(link)));
        self.has_told = !self.failures.is_empty();
        self.since = self.has_told.then(Instant::now);
    }

    /// Whether a cable of these links is left out.
    pub fn is_settled(&self, links: &[LinkId]) -> bool {
        !links.is_empty() && links.iter().all(|link| self.settled.contains(link))
    }
}

impl CarrierNode {
    /// Beats, and looks for links that are silent.
    pub fn tick(&mut self, now: Instant) {
        let since = now.duration_since(self.health.last_beat);
        if since >= BEAT {
            self.health.last_beat = now;
            let was_stopped = since > STOPPED;
            let mut alive = vec![];
            PacketHeader::new(PacketKind::Alive, 0, 0).write(&[], &mut alive);
            let mut broken = vec![];
            for (at, port) in self.ports.iter_mut().enumerate().filter(|(_, port)| !port.has_left) {
                for (number, wire) in port.wires.iter_mut().enumerate().filter(|(_, wire)| !wire.is_dead) {
                    if was_stopped {
                        wire.last_heard = now;
                    }
                    if now.duration_since(wire.last_heard) > SILENCE && !wire.wire.is_local() {
                        let what = format!("nothing came for {:.1} s", SILENCE.as_secs_f64());
                        broken.push((at, number, io::Error::new(io::ErrorKind::TimedOut, what)));
                    } else if now.duration_since(wire.last_sent) >= BEAT && wire.is_free() {
                        wire.last_sent = now;
                        if let Err(what) = wire.send(&[IoSlice::new(&alive)]) {
                            broken.push((at, number, what));
                        }
                    }
                }
            }
            broken.into_iter().for_each(|(at, number, what)| self.wire_broke(at, number, &what));
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

    /// A wire to a neighbour has ended, or says nothing.
    pub(super) fn wire_broke(&mut self, at: usize, number: usize, error: &io::Error) {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        let port = &mut self.ports[at];
        let neighbour = port.neighbour;
        let wire = &mut port.wires[number];
        if std::mem::replace(&mut wire.is_dead, true) || port.has_left {
            return;
        }
        let failure = if matches!(error.kind(), UnexpectedEof | ConnectionReset | BrokenPipe) {
            let what = format!("rank {neighbour} has ended: it closed {}", wire.name);
            Failure { links: vec![], node: Some(neighbour), what }
        } else {
            let what = format!("the link over {} is dead: {error}", wire.name);
            Failure { links: wire.links.clone(), node: None, what }
        };
        self.failed(failure, None);
    }

    /// The neighbour has closed its end in good order.
    pub(super) fn left(&mut self, at: usize) {
        self.ports[at].has_left = true;
    }

    /// A neighbour says that something failed.
    pub(super) fn heard_of_failure(&mut self, from: usize, header: &PacketHeader, text: &[u8]) {
        let what: String = String::from_utf8_lossy(&text[..text.len().min(MAX_TEXT)]).into_owned();
        let (node, links) = match header.kind {
            PacketKind::NodeFailed => (Some(header.item), vec![]),
            _ => (None, [header.item, header.chunk].into_iter().filter(|&link| link != NO_LINK).collect()),
        };
        let failure = Failure { links, node, what };
        if failure.node != Some(self.node) {
            self.failed(failure, Some(from));
        }
    }

    /// Notes a failure and tells all neighbours but the one that said it.
    fn failed(&mut self, failure: Failure, told_by: Option<usize>) {
        // Both ends of a cable notice; of parallel ones each is told.
        let is_same = |known: &Failure| (known.node, &known.links) == (failure.node, &failure.links);
        if self.health.failures.iter().any(is_same) || self.health.is_settled(&failure.links) {
            return;
        }
        self.tell(&failure, told_by);
        // A node that has ended needs no gathering: its neighbours all see it at once.
        let now = Instant::now();
        let since = if failure.node.is_some() { now.checked_sub(GATHERING).unwrap_or(now) } else { now };
        self.health.since = Some(self.health.since.map_or(since, |before| before.min(since)));
        self.health.failures.push(failure);
    }

    /// Tells all neighbours of a failure but the one that said it.
    fn tell(&mut self, failure: &Failure, told_by: Option<usize>) {
        let kind = if failure.node.is_some() { PacketKind::NodeFailed } else { PacketKind::LinkFailed };
        let text = &failure.what.as_bytes()[..failure.what.len().min(MAX_TEXT)];
        let mut links = failure.links.iter().copied().chain([NO_LINK; 2]);
        let item = failure.node.or(links.next()).unwrap_or(NO_LINK);
        let chunk = links.next().unwrap_or(NO_LINK);
        let mut packet = vec![];
        PacketHeader { item, chunk, bytes: text.len() as u32, ..PacketHeader::new(kind, 0, 0) }.write(&[], &mut packet);
        packet.extend_from_slice(text);
        for (at, port) in self.ports.iter_mut().enumerate() {
            if Some(at) != told_by {
                port.control.push_back(packet.clone());
            }
        }
    }

    /// Tells all neighbours what is not yet left out: what was told before may be forgotten.
    pub(super) fn tell_again(&mut self) {
        let failures = std::mem::take(&mut self.health.failures);
        failures.iter().for_each(|failure| self.tell(failure, None));
        self.health.failures = failures;
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
