//! The border of a network that is one of several parts of a fabric: flits cross it, and credits come back.
//!
//! A packet has a number in each part through which it goes: its contents cross with its head.

use super::channel::ChannelEnd;
use super::network::{FlitNetwork, FlitPacket, PacketRouting};
use super::wheel::FlitEvent;
use antiphon_base::cores::Parcel;

/// A flit that crosses to a buffer of another part, or a credit for a virtual channel there.
pub enum FlitCrossing {
    /// The first flit of a packet.
    Head(u32, FlitPacket),
    /// A further one, of the packet whose head came there last.
    Body(u32),
    /// A credit.
    Credit(u32),
}

/// See the module.
pub(super) struct PartBorder {
    /// By channel, the part of its sender, where that is another.
    senders: Vec<Option<u32>>,
    /// Whether a packet is crossing on each virtual channel, with more flits to follow.
    crossing: Vec<bool>,
    /// By buffer, the packet whose head came there last from another part.
    come: Vec<u32>,
    /// Flits and credits that have left, by the part that they are for.
    left: Vec<Vec<Parcel<FlitCrossing>>>,
}

impl<R: PacketRouting> FlitNetwork<R> {
    /// Makes it part `own` of `count`, with the routers that `part` maps to it; terminals elsewhere are offered
    /// nothing. Returns the least number of cycles until an event in one part reaches another.
    pub fn enclose(&mut self, own: u32, count: u32, part: impl Fn(u32) -> u32) -> u64 {
        let of_port = |ports: &[u32], port: usize| part(ports[port]);
        let mut border = PartBorder {
            senders: vec![None; self.channels.len()],
            crossing: vec![false; self.virtual_channels.len()],
            come: vec![0; self.buffers.len()],
            left: (0..count).map(|_| vec![]).collect(),
        };
        let mut window = u64::MAX;
        for channel in 0..self.router_of_out.len() {
            let ChannelEnd::Router { port } = self.channels[channel].to else { continue };
            let (from, to) = (of_port(&self.router_of_out, channel), of_port(&self.router_of_in, port as usize));
            if from == to {
                continue;
            }
            let state = &mut self.channels[channel];
            let there = 1 + u64::from(self.model.traversal_cycles) + state.crossing_cycles;
            window = window.min(there).min(state.credit_cycles);
            if from == own {
                state.to = ChannelEnd::Elsewhere { port, part: to };
            } else if to == own {
                border.senders[channel] = Some(from);
                self.feeder[port as usize].crosses = true;
            }
        }
        self.border = Some(border);
        window
    }

    /// Flits and credits that have left, by the number of the part that they are for.
    pub fn left(&mut self) -> &mut [Vec<Parcel<FlitCrossing>>] {
        self.border.as_mut().map_or(&mut [], |border| &mut border.left)
    }

    /// A flit leaves for a buffer of another part.
    #[cold]
    pub(super) fn cross_border(&mut self, part: u32, (buffer, vc): (u32, u32), packet: u32, arrives: u64, last: bool) {
        let Some(border) = &mut self.border else { return };
        let what = match std::mem::replace(&mut border.crossing[vc as usize], !last) {
            false => FlitCrossing::Head(buffer, self.packets[packet as usize]),
            true => FlitCrossing::Body(buffer),
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
            border.left[part as usize].push(Parcel { at, what: FlitCrossing::Credit(vc) });
        }
    }

    /// Takes a flit or credit from another part, in the order in which they left.
    pub fn accept(&mut self, Parcel { at, what }: Parcel<FlitCrossing>) {
        let event = match what {
            FlitCrossing::Head(buffer, packet) => {
                let id = self.enter(packet);
                self.border.iter_mut().for_each(|border| border.come[buffer as usize] = id);
                FlitEvent::Arrival(buffer, id)
            }
            FlitCrossing::Body(buffer) => {
                let id = self.border.as_ref().map_or(0, |border| border.come[buffer as usize]);
                FlitEvent::Arrival(buffer, id)
            }
            FlitCrossing::Credit(vc) => FlitEvent::Credit(vc),
        };
        self.wheel.push(at, event);
    }

    /// Takes over the routers of another part and its pending events, for inspection only: it cannot go on. `is_theirs`
    /// tells which routers.
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
