//! The network: routers, channels, terminals, and the event loop over them.
//!
//! A *channel* is a link, an injection or an ejection port; it has a sending side (credits, a
//! serialiser) and a receiving side (buffers). Routers only work in cycles in which something can
//! be granted; a flit on a link is one event however long it takes.

use super::allocate::{AllocationRequest, Matching};
use super::border::PartBorder;
use super::buffer::{NONE, VcBuffer};
use super::channel::{FlitChannel, VirtualChannel};
use super::router::FlitRouter;
use super::wheel::{FlitEvent, FlitEvents, Wheel};
use antiphon_base::units::Picos;
use antiphon_model::fabric::{LinkId, NodeId};
use antiphon_model::system::RouterModel;
use std::collections::VecDeque;

/// A packet in flight.
#[derive(Debug, Clone, Copy, Default)]
pub struct FlitPacket {
    /// Terminal it goes to.
    pub destination: u32,
    /// Flits, header included.
    pub flits: u32,
    /// Given back to the driver when it arrives.
    pub tag: u32,
    /// Links crossed.
    pub hops: u32,
    /// For the routing.
    pub route: u32,
    /// Index into [`FlitNetwork::classes`].
    pub kind: u32,
    /// Cycle of its creation.
    pub created: u64,
    /// Cycle in which its head left its terminal.
    pub injected: u64,
    pub(super) delivered: bool,
    /// Flits that went past its last router.
    pub(super) ejected: u32,
}

impl FlitPacket {
    /// A packet not yet injected.
    pub fn new(destination: u32, flits: u32, tag: u32, route: u32, created: u64) -> FlitPacket {
        FlitPacket { destination, flits, tag, route, created, ..FlitPacket::default() }
    }
}

/// Where a packet goes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextHop {
    /// The link; `None` at the node of its destination.
    pub link: Option<LinkId>,
    /// Its class of virtual channels, of `classes` equal ones.
    pub class: u32,
    /// Number of classes.
    pub classes: u32,
}

/// Decides where packets go, router by router.
pub trait PacketRouting {
    /// Next hop of a packet whose head is at `at`; may keep state in [`FlitPacket::route`].
    fn next(&self, packet: &mut FlitPacket, at: NodeId) -> NextHop;

    /// Whether a packet whose flits come to `at` over `link` ends there; its head may have gone on.
    fn is_over(&self, packet: &FlitPacket, at: NodeId, link: LinkId) -> bool;
}

/// Equal packets that one terminal sends one after the other.
#[derive(Debug, Clone, Copy)]
pub struct PacketRun {
    /// The packet.
    pub packet: FlitPacket,
    /// How many.
    pub count: u64,
}

/// What feeds an input port.
#[derive(Clone, Copy, Default)]
pub(super) struct PortFeeder {
    /// The channel, and its [`FlitChannel::credit_cycles`].
    pub(super) channel: u32,
    pub(super) credit_cycles: u64,
    /// Whether the channel's sender is in another part.
    pub(super) crosses: bool,
}

pub(super) struct Terminal {
    pub(super) queue: VecDeque<PacketRun>,
    /// Packet being injected, flits left, and its virtual channel.
    pub(super) current: Option<(u32, u32, u32)>,
    pub(super) next_vc: u32,
    /// Packets not fully injected.
    pub(super) backlog: u64,
    /// Cycle it was last woken for, and last looked at.
    pub(super) woken: u64,
    pub(super) worked: u64,
}

impl Terminal {
    pub(super) fn idle() -> Terminal {
        let queue = VecDeque::new();
        Terminal { queue, current: None, next_vc: 0, backlog: 0, woken: u64::MAX, worked: u64::MAX }
    }
}

/// See the module.
pub struct FlitNetwork<R> {
    pub(super) model: RouterModel,
    pub(super) routing: R,
    /// Virtual channels of a channel. They are numbered from its own number `<< vc_bits` on, so that
    /// finding the channel takes no division; so are the buffers of an input port.
    pub(super) vcs: usize,
    pub(super) vc_bits: u32,
    pub(super) wheel: Wheel,
    pub(super) now: u64,
    pub(super) routers: Vec<FlitRouter>,
    pub(super) router_of_in: Vec<u32>,
    pub(super) router_of_out: Vec<u32>,
    /// What feeds each input port. Channel `c` below the number of
    /// output ports leaves from output port `c`; the others are injection channels, one a terminal.
    pub(super) feeder: Vec<PortFeeder>,
    pub(super) channels: Vec<FlitChannel>,
    pub(super) channel_of_link: Vec<u32>,
    pub(super) ejection: Vec<u32>,
    /// Per virtual channel of a channel, at its sending side.
    pub(super) virtual_channels: Vec<VirtualChannel>,
    /// Per virtual channel of an input port.
    pub(super) buffers: Vec<VcBuffer>,
    /// Bit sets over the buffers of each router: whose first packet wants a virtual channel, and whose
    /// first flit can cross the router as far as credits go.
    pub(super) wants_vc: Vec<u64>,
    pub(super) wants_switch: Vec<u64>,
    /// Number of the bit of each buffer in them.
    pub(super) places: Vec<u32>,
    /// Round-robin pointers: of virtual channels over buffers and back, of crossbar outputs over
    /// inputs and back (the number after the last one that was granted), and of crossbar inputs over their
    /// virtual channels.
    pub(super) vc_next_input: Vec<u32>,
    pub(super) vc_next_output: Vec<u32>,
    pub(super) switch_next_input: Vec<u32>,
    pub(super) switch_next_output: Vec<u32>,
    pub(super) switch_next_vc: Vec<u32>,
    pub(super) terminals: Vec<Terminal>,
    pub(super) packets: Vec<FlitPacket>,
    pub(super) free: Vec<u32>,
    /// Bids for the crossbar, by input and by output ([`Self::slots`]).
    pub(super) asking: Vec<u32>,
    pub(super) asked: Vec<u32>,
    pub(super) matching: Matching,
    pub(super) requests: Vec<AllocationRequest>,
    /// Buffers whose heads look for a virtual channel, and that bid for the crossbar, in the present cycle.
    pub(super) heads: Vec<u32>,
    pub(super) bids: Vec<u32>,
    /// Heads that found a virtual channel, that one, and for every output port how many did.
    pub(super) offers: Vec<(u32, u32)>,
    pub(super) rivals: Vec<u32>,
    pub(super) granted: Vec<(u32, u32)>,
    pub(super) events: FlitEvents,
    pub(super) due_routers: Vec<u32>,
    pub(super) due_terminals: Vec<u32>,
    /// Classes of the kinds of packets: where several want a channel, those of the lowest pass first. All alike if empty.
    pub classes: Vec<u16>,
    /// Packets that arrived in this cycle.
    pub delivered: Vec<FlitPacket>,
    /// Terminals from which a packet's last flit left in this cycle, with its tag and its routing word.
    pub departed: Vec<(u32, u32, u32)>,
    /// Whether to record when links were busy.
    pub records: bool,
    /// Uninterrupted transmissions on links that ended: link, start and end.
    pub transmissions: Vec<(LinkId, Picos, Picos)>,
    /// Events processed.
    pub event_count: u64,
    /// Flits times links crossed.
    pub flit_hops: u64,
    /// Packets injected at least in part and not delivered.
    pub in_flight: u64,
    /// Set where it is one of several parts of a fabric.
    pub(super) border: Option<PartBorder>,
}

impl<R: PacketRouting> FlitNetwork<R> {
    /// Period of a cycle: the routers' clock, or the time of a flit on a link that is faster.
    pub fn clock_ps(&self) -> Picos {
        self.model.clock_ps
    }

    /// Queues packets at a terminal, to be injected from `cycle` on; `cycle` must not have been
    /// processed yet.
    pub fn offer(&mut self, terminal: u32, run: PacketRun, cycle: u64) {
        let state = &mut self.terminals[terminal as usize];
        state.backlog += run.count;
        state.queue.push_back(run);
        self.wake_terminal(terminal, cycle);
    }

    /// Packets a terminal has not fully injected.
    pub fn backlog(&self, terminal: u32) -> u64 {
        self.terminals[terminal as usize].backlog
    }

    /// Runs a terminal has not begun the last packet of.
    pub fn queued_runs(&self, terminal: u32) -> usize {
        self.terminals[terminal as usize].queue.len()
    }

    /// Cycle of the next event, if anything can still move.
    pub fn next_cycle(&self) -> Option<u64> {
        self.wheel.next_cycle()
    }

    /// Processes `cycle`, which must be the next or an earlier one that has not been processed;
    /// [`Self::delivered`] and [`Self::departed`] tell what happened in it.
    pub fn advance(&mut self, cycle: u64) {
        self.now = cycle;
        self.delivered.clear();
        self.departed.clear();
        let mut events = std::mem::take(&mut self.events);
        self.wheel.take(cycle, &mut events);
        self.event_count += events.len() as u64;
        // Events of one cycle happen at once: their order makes no difference.
        events.deliveries.iter().for_each(|&(_, packet)| self.deliver(packet));
        events.arrivals.iter().for_each(|&(buffer, packet)| self.arrive(buffer, packet));
        events.credits.iter().for_each(|&vc| self.credit(vc));
        self.due_terminals.extend_from_slice(&events.terminals);
        self.due_routers.extend_from_slice(&events.routers);
        self.events = events;
        let mut due = std::mem::take(&mut self.due_terminals);
        due.drain(..).for_each(|terminal| self.inject(terminal));
        self.due_terminals = due;
        let mut due = std::mem::take(&mut self.due_routers);
        due.retain(|&router| std::mem::replace(&mut self.routers[router as usize].worked, cycle) != cycle);
        for _ in 0..self.model.internal_speedup {
            self.allocate(&due);
        }
        due.clear();
        self.due_routers = due;
    }

    /// Wakes everything in the next cycle processed, needed or not.
    #[cfg(test)]
    pub(super) fn wake_all(&mut self) {
        self.routers.iter_mut().for_each(|router| router.vc_news = true);
        self.due_routers.extend(0..self.routers.len() as u32);
        self.due_terminals.extend(0..self.terminals.len() as u32);
    }

    /// Longest time that a flit granted now would wait for its link.
    #[cfg(test)]
    pub(super) fn longest_wait_ps(&self) -> Picos {
        let ready = (self.now + 1 + self.model.traversal_cycles as u64) * self.model.clock_ps;
        let links = self.channels.iter().filter(|channel| channel.link.is_some());
        links.map(|channel| channel.free_ps.saturating_sub(ready)).max().unwrap_or(0)
    }

    /// Reports transmissions under way, as far as flits were given to links; later flits count as a new transmission.
    pub fn flush(&mut self) {
        for channel in &mut self.channels {
            if let Some(link) = channel.link.filter(|_| channel.free_ps > channel.run_start_ps) {
                self.transmissions.push((link, channel.run_start_ps, channel.free_ps));
                channel.run_start_ps = channel.free_ps;
            }
        }
    }

    /// Takes in a packet; gives its number.
    pub(super) fn enter(&mut self, packet: FlitPacket) -> u32 {
        self.in_flight += 1;
        let id = self.free.pop().unwrap_or_else(|| {
            self.packets.push(packet);
            self.packets.len() as u32 - 1
        });
        self.packets[id as usize] = packet;
        id
    }

    /// All of a packet has gone.
    pub(super) fn forget(&mut self, packet: u32) {
        self.packets[packet as usize].delivered = true;
        self.free.push(packet);
        self.in_flight -= 1;
    }

    /// Whether every credit is back and every buffer empty.
    pub fn is_quiet(&self) -> bool {
        let mut all = self.virtual_channels.iter().enumerate();
        all.all(|(vc, state)| state.credits == self.depth_flits(vc) && state.holder == NONE)
            && self.buffers.iter().all(|buffer| buffer.is_empty())
    }

    /// Flits in the buffer of a virtual channel of a channel.
    pub(super) fn depth_flits(&self, vc: usize) -> u32 {
        self.channels[vc >> self.vc_bits].depth_flits
    }

    /// Creation of the oldest packet in flight or queued. O(packets in flight + terminals).
    pub fn oldest_created(&self) -> Option<u64> {
        let flying = self.packets.iter().filter(|p| !p.delivered).map(|p| p.created);
        let queued = self.terminals.iter().flat_map(|t| t.queue.front()).map(|run| run.packet.created);
        flying.chain(queued).min()
    }

    /// Lets a router be looked at in `cycle`, this one or a later one.
    pub(super) fn wake_router(&mut self, router: u32, cycle: u64) {
        let woken = &mut self.routers[router as usize].woken;
        if *woken == cycle {
            return;
        }
        *woken = cycle;
        if cycle == self.now {
            self.due_routers.push(router);
        } else {
            self.wheel.push(cycle, FlitEvent::Router(router));
        }
    }

    pub(super) fn wake_terminal(&mut self, terminal: u32, cycle: u64) {
        let woken = &mut self.terminals[terminal as usize].woken;
        if *woken != cycle {
            *woken = cycle;
            self.wheel.push(cycle, FlitEvent::Terminal(terminal));
        }
    }
}
