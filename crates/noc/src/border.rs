//! Where a network is one of several parts of a fabric: flits that cross to the others, and credits that come back.
//!
//! A packet has a number in each part through which it goes: its contents cross with its head.

use super::channel::End;
use super::network::{Network, Packet, Routing};
use super::wheel::Event;
use antiphon_base::cores::Parcel;

/// What crosses to another part: to a buffer, or for a virtual channel.
pub enum Crossing {
    /// The first flit of a packet.
    Head(u32, Packet),
    /// A further one, of the packet whose head came there last.
    Body(u32),
    /// A credit.
    Credit(u32),
}

/// See the module.
pub(super) struct Border {
    /// By channel, the part of its sender, where that is another.
    senders: Vec<Option<u32>>,
    /// Virtual channels over which a packet is crossing, of which flits are to follow.
    crossing: Vec<bool>,
    /// By buffer, the packet whose head came there last from another part.
    come: Vec<u32>,
    /// What has left, by the part that it is for.
    left: Vec<Vec<Parcel<Crossing>>>,
}

impl<R: Routing> Network<R> {
    /// From now on it is part `own` of `count`, of the routers that `part` says; terminals elsewhere are offered nothing. Returns
    /// for how many cycles, at least, what happens in one part does not reach another.
    pub fn enclose(&mut self, own: u32, count: u32, part: impl Fn(u32) -> u32) -> u64 {
        let of_port = |ports: &[u32], port: usize| part(ports[port]);
        let mut border = Border {
            senders: vec![None; self.channels.len()],
            crossing: vec![false; self.virtual_channels.len()],
            come: vec![0; self.buffers.len()],
            left: (0..count).map(|_| vec![]).collect(),
        };
        let mut window = u64::MAX;
        for channel in 0..self.router_of_out.len() {
            let End::Router { port } = self.channels[channel].to else { continue };
            let (from, to) = (of_port(&self.router_of_out, channel), of_port(&self.router_of_in, port as usize));
            if from == to {
                continue;
            }
            let state = &mut self.channels[channel];
            let there = 1 + u64::from(self.model.traversal_cycles) + state.crossing_cycles;
            window = window.min(there).min(state.credit_cycles);
            if from == own {
                state.to = End::Elsewhere { port, part: to };
            } else if to == own {
                border.senders[channel] = Some(from);
                self.feeder[port as usize].crosses = true;
            }
        }
        self.border = Some(border);
        window
    }

    /// What has left for other parts, by the number of the part.
    pub fn left(&mut self) -> &mut [Vec<Parcel<Crossing>>] {
        self.border.as_mut().map_or(&mut [], |border| &mut border.left)
    }

    /// A flit leaves for a buffer of another part.
    #[cold]
    pub(super) fn cross_border(&mut self, part: u32, (buffer, vc): (u32, u32), packet: u32, arrives: u64, last: bool) {
        let Some(border) = &mut self.border else { return };
        let what = match std::mem::replace(&mut border.crossing[vc as usize], !last) {
            false => Crossing::Head(buffer, self.packets[packet as usize]),
            true => Crossing::Body(buffer),
        };
        border.left[part as usize].push(Parcel { at: arrives, what });
        if last {
            self.forget(packet);
        }
    }

    /// A credit leaves for the sender of a channel in another part.
    #[cold]
    pub(super) fn credit_border(&mut self, channel: u32, vc: u32, at: u64) {
        let Some(border) = &mut self.border else { return };
        if let Some(part) = border.senders[channel as usize] {
            border.left[part as usize].push(Parcel { at, what: Crossing::Credit(vc) });
        }
    }

    /// Something comes from another part, in the order in which it left.
    pub fn accept(&mut self, Parcel { at, what }: Parcel<Crossing>) {
        let event = match what {
            Crossing::Head(buffer, packet) => {
                let id = self.enter(packet);
                self.border.iter_mut().for_each(|border| border.come[buffer as usize] = id);
                Event::Arrival(buffer, id)
            }
            Crossing::Body(buffer) => {
                let id = self.border.as_ref().map_or(0, |border| border.come[buffer as usize]);
                Event::Arrival(buffer, id)
            }
            Crossing::Credit(vc) => Event::Credit(vc),
        };
        self.wheel.push(at, event);
    }

    /// Takes over the routers of another part and what is under way there, to look at: it cannot go on. `is_theirs` says which.
    pub fn take_over(&mut self, mut other: Self, is_theirs: impl Fn(u32) -> bool) {
        for id in 0..self.buffers.len() {
            if is_theirs(self.router_of_in[id >> self.vc_bits]) {
                std::mem::swap(&mut self.buffers[id], &mut other.buffers[id]);
            }
        }
        for vc in 0..self.router_of_out.len() << self.vc_bits {
            if is_theirs(self.router_of_out[vc >> self.vc_bits]) {
                self.virtual_channels[vc] = other.virtual_channels[vc];
            }
        }
        self.now = self.now.max(other.now);
        for (at, event) in other.wheel.pending() {
            self.wheel.push(at.max(self.now), event);
        }
    }
}
