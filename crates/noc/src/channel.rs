//! Channels: flits on their way, what they do where they arrive, and the credits that come back.

use super::buffer::{NONE, Received};
use super::network::{FlitNetwork, PacketRouting, PortFeeder};
use super::wheel::FlitEvent;
use antiphon_base::units::Picos;
use antiphon_model::fabric::LinkId;
use antiphon_model::system::{Ejection, Switching};

/// A flit on its way over a channel.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FlitInFlight {
    pub(super) channel: u32,
    pub(super) arrives: u64,
    pub(super) vc: u32,
    pub(super) packet: u32,
}

#[derive(Clone, Copy)]
pub(super) enum ChannelEnd {
    Router {
        port: u32,
    },
    /// A router of another part.
    Elsewhere {
        port: u32,
        part: u32,
    },
    Terminal,
}

pub(super) struct FlitChannel {
    pub(super) to: ChannelEnd,
    pub(super) link: Option<LinkId>,
    pub(super) flit_ps: Picos,
    pub(super) latency_ps: Picos,
    /// Cycles from one in which it is free to the arrival of the flit given to it.
    pub(super) crossing_cycles: u64,
    /// Flits in the buffer of each of its virtual channels.
    pub(super) depth_flits: u32,
    /// From a flit's departure from the buffer at the far end to the use of its credit here.
    pub(super) credit_cycles: u64,
    /// When the last flit given to it is through.
    pub(super) free_ps: Picos,
    /// Uninterrupted transmission that ends at `free_ps`.
    pub(super) run_start_ps: Picos,
}

impl FlitChannel {
    pub(super) fn virtual_channels(&self, vc_bits: u32) -> Vec<VirtualChannel> {
        vec![VirtualChannel { credits: self.depth_flits, holder: NONE }; 1 << vc_bits]
    }

    /// Notes that a flit is ready at `ready_ps`; gives the transmission that ended before, if there was one.
    #[inline(never)]
    fn resume(&mut self, ready_ps: Picos) -> Option<(LinkId, Picos, Picos)> {
        if ready_ps <= self.free_ps {
            return None;
        }
        let start_ps = std::mem::replace(&mut self.run_start_ps, ready_ps);
        self.link.filter(|_| self.free_ps > start_ps).map(|link| (link, start_ps, self.free_ps))
    }
}

/// A virtual channel of a channel, at its sending side.
#[derive(Clone, Copy)]
pub(super) struct VirtualChannel {
    pub(super) credits: u32,
    /// The buffer (or terminal, for injection channels) whose packet has it; [`NONE`] if it is free.
    pub(super) holder: u32,
}

impl VirtualChannel {
    /// Whether a packet that needs so many credits can take it.
    pub(super) fn is_open(self, needed: u32) -> bool {
        self.holder == NONE && self.credits >= needed
    }
}

impl<R: PacketRouting> FlitNetwork<R> {
    /// Puts a flit on a channel, from cycle `ready` on or when it is free.
    #[inline(always)]
    pub(super) fn transmit(&mut self, id: u32, packet: u32, vc: u32, ready: u64, last: bool) {
        let channel = &mut self.channels[id as usize];
        let ready_ps = ready * self.model.clock_ps;
        let waits = ready_ps < channel.free_ps;
        if self.records {
            self.transmissions.extend(channel.resume(ready_ps));
        }
        channel.free_ps = channel.free_ps.max(ready_ps) + channel.flit_ps;
        let arrives = match waits {
            true => (channel.free_ps + channel.latency_ps).div_ceil(self.model.clock_ps),
            false => ready + channel.crossing_cycles,
        };
        self.flit_hops += u64::from(channel.link.is_some());
        match channel.to {
            ChannelEnd::Router { port } => {
                self.wheel.push(arrives, FlitEvent::Arrival((port << self.vc_bits) + vc, packet))
            }
            ChannelEnd::Elsewhere { port, part } => {
                let to = ((port << self.vc_bits) + vc, (id << self.vc_bits) + vc);
                self.cross_border(part, to, packet, arrives, last);
            }
            // Terminals take flits at once, so the credit's return is known; only the last one matters.
            ChannelEnd::Terminal => {
                let vc = (id << self.vc_bits) + vc;
                self.wheel.push(arrives + channel.credit_cycles, FlitEvent::Credit(vc));
                if last {
                    self.wheel.push(arrives, FlitEvent::Delivery(vc, packet));
                }
            }
        }
    }

    /// A flit enters a buffer.
    pub(super) fn arrive(&mut self, id: u32, packet: u32) {
        let id = id as usize;
        let router = self.router_of_in[id >> self.vc_bits];
        if self.model.ejection == Ejection::Circuit && self.goes_past(id, router, packet) {
            return self.eject(id, packet);
        }
        let received = self.buffers[id].receive(packet);
        match received {
            Received::FirstHead => self.route(router, id, self.now),
            Received::FirstBody if self.buffers[id].has != NONE => {
                let (word, bit) = self.bit(id);
                let buffer = &mut self.buffers[id];
                if buffer.here == 1 {
                    buffer.ready = buffer.ready.max(self.now + self.model.switch_allocation_cycles as u64 - 1);
                }
                if self.virtual_channels[buffer.has as usize].credits == 0 {
                    return;
                }
                self.wants_switch[word] |= bit;
            }
            _ => return,
        }
        self.wake_router(router, self.now);
    }

    /// Whether a flit that enters a buffer is to leave the network here and comes over a link.
    fn goes_past(&self, id: usize, router: u32, packet: u32) -> bool {
        let feeder = self.feeder[id >> self.vc_bits];
        let link = self.channels[feeder.channel as usize].link;
        link.is_some_and(|link| self.routing.is_over(&self.packets[packet as usize], router, link))
    }

    /// A flit goes from its input port straight to the local one: nothing is buffered, so its credit goes back at once.
    fn eject(&mut self, id: usize, packet: u32) {
        let (port, vc) = self.port_and_vc(id);
        self.give_back(port, vc);
        let state = &mut self.packets[packet as usize];
        state.ejected += 1;
        if state.ejected == state.flits {
            let channel = self.ejection[state.destination as usize];
            let arrives = self.now + self.channels[channel as usize].crossing_cycles;
            self.wheel.push(arrives, FlitEvent::Delivery(channel << self.vc_bits, packet));
        }
    }

    /// A flit has left a buffer: its credit goes back.
    #[inline(always)]
    pub(super) fn give_back(&mut self, port: usize, vc: u32) {
        let PortFeeder { channel, credit_cycles, crosses } = self.feeder[port];
        let (at, credit) = (self.now + credit_cycles, (channel << self.vc_bits) + vc);
        match crosses {
            false => self.wheel.push(at, FlitEvent::Credit(credit)),
            true => self.credit_border(channel, credit, at),
        }
    }

    /// The last flit of a packet has arrived at its terminal.
    pub(super) fn deliver(&mut self, packet: u32) {
        self.delivered.push(self.packets[packet as usize]);
        self.forget(packet);
    }

    /// A credit is back.
    pub(super) fn credit(&mut self, vc: u32) {
        let state = &mut self.virtual_channels[vc as usize];
        state.credits += 1;
        let VirtualChannel { credits, holder } = *state;
        let channel = (vc >> self.vc_bits) as usize;
        if let Some(terminal) = channel.checked_sub(self.router_of_out.len()) {
            let state = &self.terminals[terminal];
            if state.current.is_some() || !state.queue.is_empty() {
                self.due_terminals.push(terminal as u32);
            }
        } else if self.model.switching == Switching::CutThrough && holder == NONE {
            // Heads may wait for room for a whole packet.
            let router = self.router_of_out[channel];
            if self.is_wanting(router as usize) {
                self.routers[router as usize].vc_news = true;
                self.wake_router(router, self.now);
            }
        } else if credits == 1 && holder != NONE && self.buffers[holder as usize].here > 0 {
            let router = self.router_of_out[channel];
            let (word, bit) = self.bit(holder as usize);
            self.wants_switch[word] |= bit;
            self.wake_router(router, self.now);
        }
    }

    /// Flits on their way, by channel and time; to terminals only the last of each packet.
    pub(super) fn flights(&self) -> Vec<FlitInFlight> {
        let flight = |(arrives, event)| {
            let (channel, vc, packet) = match event {
                FlitEvent::Arrival(id, packet) => {
                    let (port, vc) = self.port_and_vc(id as usize);
                    (self.feeder[port].channel, vc, packet)
                }
                FlitEvent::Delivery(id, packet) => {
                    let (channel, vc) = self.port_and_vc(id as usize);
                    (channel as u32, vc, packet)
                }
                FlitEvent::Credit(_) | FlitEvent::Terminal(_) | FlitEvent::Router(_) => return None,
            };
            Some(FlitInFlight { channel, arrives, vc, packet })
        };
        let mut flights: Vec<FlitInFlight> = self.wheel.pending().filter_map(flight).collect();
        flights.sort_unstable();
        flights
    }
}
