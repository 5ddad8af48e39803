//! The part of a rank that feeds its interfaces: it reads what is sent from memory and brings it over a bus. The oldest
//! unit is read first (`simulate/units.rs`).

use super::{Carrier, Endpoints, Event};
use crate::schedule::TransferId;
use crate::simulate::clock::Ticks;
use crate::simulate::plan::{Fetch, Plan};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A message that is to be read: its place among all, and its interface.
type Request = ((u64, u32, u64), TransferId, u32);

/// Memory and bus of a rank.
#[derive(Default, Clone)]
struct Node {
    waiting: BinaryHeap<Reverse<Request>>,
    /// When they are free.
    read_free: Ticks,
    bus_free: Ticks,
    /// Whether the end of what is read is an event to come.
    is_reading: bool,
}

/// Ranks whose messages are read before they are sent.
pub struct Nodes {
    nodes: Vec<Node>,
    /// For each interface the message that is read for it, or waits for that.
    fetching: Vec<Option<TransferId>>,
}

impl Nodes {
    /// Idle ranks, if those of the plan read at all.
    pub fn new(plan: &Plan) -> Option<Nodes> {
        plan.reads().then(|| Nodes { nodes: vec![Node::default(); plan.fabric.ranks()], fetching: vec![] })
    }

    /// Whether a message is read for an interface.
    pub fn is_fetching(&self, interface: u32) -> bool {
        self.fetching.get(interface as usize).is_some_and(Option::is_some)
    }
}

impl Node {
    /// Reads a message of which a link takes `link` and its first part `first`; returns when it can be given to the
    /// interface: so that no part is sent before it is there.
    fn read(&mut self, fetch: &Fetch, (link, first): (Ticks, Ticks), now: Ticks) -> Ticks {
        self.read_free = now + fetch.read;
        let bus = (now + fetch.read_first).max(self.bus_free);
        self.bus_free = bus + fetch.bus;
        let spare = link.saturating_sub(first);
        let whole = (self.read_free + fetch.bus_first).max(self.bus_free);
        (bus + fetch.bus_first).max(whole.saturating_sub(spare))
    }
}

impl Endpoints<'_> {
    /// Lets a message be read for an interface, if its rank reads; whether it does.
    pub fn fetch(&mut self, transfer: TransferId, interface: u32, now: Ticks) -> bool {
        let chunk = self.started[transfer as usize] - 1;
        let Some(nodes) = &mut self.nodes else { return false };
        let job = &self.plan.jobs[transfer as usize];
        let age = self.plan.units.as_ref().map_or((0, 0), |units| units.age(transfer, chunk));
        let place = (self.ranking.of(job.flight), age.0, age.1);
        nodes.fetching.resize(self.interfaces.len(), None);
        nodes.fetching[interface as usize] = Some(transfer);
        nodes.nodes[job.from as usize].waiting.push(Reverse((place, transfer, interface)));
        if !nodes.nodes[job.from as usize].is_reading {
            nodes.nodes[job.from as usize].is_reading = true;
            // All that happens at one moment comes before the choice.
            self.push(now, Event::Read { rank: job.from });
        }
        true
    }

    /// The memory of a rank is free.
    pub fn read_next(&mut self, rank: u32, now: Ticks) {
        let Some(nodes) = &mut self.nodes else { return };
        let node = &mut nodes.nodes[rank as usize];
        let Some(Reverse((_, transfer, interface))) = node.waiting.pop() else {
            node.is_reading = false;
            return;
        };
        let (job, kind) = (&self.plan.jobs[transfer as usize], self.plan.kind_of(transfer));
        let link = self.plan.route(job).first().map_or(0, |&link| self.plan.packet_time(job, link));
        let first = kind.packets.count.min(kind.fetch.packets_first);
        let at = node.read(&kind.fetch, (link * kind.packets.count, link * first), now);
        let free = node.read_free;
        self.push(at, Event::Fetched { interface });
        self.push(free, Event::Read { rank });
    }

    /// A message was read: it goes to its interface.
    pub fn fetched(&mut self, interface: u32, now: Ticks, carrier: &mut impl Carrier) {
        let fetching = self.nodes.as_mut().and_then(|nodes| nodes.fetching[interface as usize].take());
        let Some(transfer) = fetching else { return };
        self.hand_over(transfer, interface, now, carrier);
        self.advance(self.interfaces[interface as usize].queue, now, carrier);
    }
}
