//! Inputs of routers and their virtual channels.

use super::Routed;
use crate::simulate::clock::Ticks;
use crate::simulate::network::flow::{Flow, Tail};
use std::collections::VecDeque;
use std::ops::Range;

/// A packet in a channel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Packet {
    /// The link that it is to cross, or the end of its route.
    pub flow: Flow,
    /// The message that it is of.
    pub tail: Tail,
}

/// A link or an interface, as an input of its node.
pub struct Input {
    /// Packets of the longest kind that a channel holds.
    pub packets: u32,
    /// Flits of the first of them that must have left before one more fits.
    pub flits_before_next: u64,
    /// Crossings under way.
    pub crossing: u32,
    /// The channel after the one that was claimed last.
    pub next: u32,
}

impl Input {
    /// One with channels of `depth` flits, at least `longest`.
    pub fn new(depth: u64, longest: u64) -> Self {
        let packets = (depth / longest.max(1)).min(u32::MAX.into());
        let flits_before_next = ((packets + 1) * longest).saturating_sub(depth).max(1);
        Input { packets: packets as u32, flits_before_next, crossing: 0, next: 0 }
    }
}

/// A virtual channel of an input.
pub struct Channel {
    /// Packets whose first flits are there, the one that crosses included.
    pub waiting: VecDeque<Packet>,
    /// Packets that it has room for.
    pub room: u32,
    /// Whether a packet has claimed it and not crossed yet.
    pub held: bool,
}

impl Channel {
    /// An empty one.
    pub fn new(room: u32) -> Self {
        Channel { waiting: VecDeque::new(), room, held: false }
    }

    fn is_open(&self) -> bool {
        self.room > 0 && !self.held
    }
}

impl Routed<'_> {
    /// The channels of an input that packets may claim, of which the next hop is `flow`'s if it is a link.
    fn share(&self, input: u32, flow: Flow) -> Range<u32> {
        let first = input * self.count;
        if input >= self.links() {
            return first..first + self.count;
        }
        let (class, classes) = (self.routes.class_of(flow.hop_of_plan()), self.routes.classes);
        first + class * self.count / classes..first + (class + 1) * self.count / classes
    }

    /// Whether a channel of an input is open for a packet.
    pub fn is_open(&self, input: u32, flow: Flow) -> bool {
        self.share(input, flow).any(|channel| self.channels[channel as usize].is_open())
    }

    /// Claims an open channel of an input for a packet, the next one round.
    pub fn claim(&mut self, input: u32, flow: Flow) -> Option<u32> {
        let (share, next) = (self.share(input, flow), self.inputs[input as usize].next);
        let round = share.clone().filter(|&channel| channel >= next).chain(share.filter(|&channel| channel < next));
        let channel = round.into_iter().find(|&channel| self.channels[channel as usize].is_open())?;
        self.inputs[input as usize].next = channel + 1;
        let state = &mut self.channels[channel as usize];
        (state.room, state.held) = (state.room - 1, true);
        Some(channel)
    }

    /// A packet comes to a channel, and asks for its output if it is the first there.
    pub fn enter(&mut self, channel: u32, packet: Packet) {
        let waiting = &mut self.channels[channel as usize].waiting;
        waiting.push_back(packet);
        if waiting.len() == 1 {
            self.request(channel);
        }
    }

    /// When so much of a packet has left a channel, from `start` on and each flit in `flit`, that the next one fits, its credit
    /// goes back over the link.
    pub fn give_back(&mut self, channel: u32, flow: Flow, start: Ticks, flit: Ticks) {
        let input = channel / self.count;
        let flits = self.inputs[input as usize].flits_before_next.min(self.flits(flow));
        let latency = if input < self.links() { self.plan.latency[input as usize] } else { 0 };
        self.agenda.push(start + flits * flit + latency + self.credit, super::Event::Credit { channel });
    }
}
