//! The network: routers, channels, terminals, and the event loop over them.
//!
//! A *channel* is a link, an injection or an ejection port; it has a sending side (credits, a
//! serialiser) and a receiving side (buffers). Routers only work in cycles in which something can
//! be granted; a flit on a link is one event however long it takes.

use super::allocate::{Matching, Request};
use super::buffer::{Buffer, NONE, Received};
use super::router::Head;
use super::wheel::{Event, Wheel};
use crate::error::{Code, Error, Result};
use crate::fabric::{Fabric, LinkId, NodeId};
use crate::system::{RouterModel, Switching};
use crate::units::Picos;
use std::collections::VecDeque;

/// Most virtual-channel buffers of one network.
const MAX_BUFFERS: usize = 1 << 26;

/// A packet in flight.
#[derive(Debug, Clone, Copy)]
pub struct Packet {
    /// Terminal it goes to.
    pub destination: u32,
    /// Flits, header included.
    pub flits: u32,
    /// What the driver wants to know when it arrives.
    pub tag: u32,
    /// Links crossed.
    pub hops: u32,
    /// For the routing.
    pub route: u32,
    /// Which of [`Network::classes`] it is of.
    pub kind: u32,
    /// Cycle of its creation.
    pub created: u64,
    /// Cycle in which its head left its terminal.
    pub injected: u64,
    pub(super) delivered: bool,
}

impl Packet {
    /// A packet not yet injected.
    pub fn new(destination: u32, flits: u32, tag: u32, route: u32, created: u64) -> Packet {
        Packet { destination, flits, tag, hops: 0, route, kind: 0, created, injected: 0, delivered: false }
    }
}

/// Where a packet goes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// The link; `None` at the node of its destination.
    pub link: Option<LinkId>,
    /// Its class of virtual channels, of `classes` equal ones.
    pub class: u32,
    /// Number of classes.
    pub classes: u32,
}

/// Decides where packets go, router by router.
pub trait Routing {
    /// Next hop of a packet whose head is at `at`; may keep state in [`Packet::route`].
    fn next(&self, packet: &mut Packet, at: NodeId) -> Hop;
}

/// Equal packets that one terminal sends one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// The packet.
    pub packet: Packet,
    /// How many.
    pub count: u64,
}

/// A flit on its way over a channel.
#[derive(Clone, Copy)]
pub(super) struct Flight {
    pub(super) arrives: u64,
    pub(super) packet: u32,
    pub(super) vc: u32,
}

#[derive(Clone, Copy)]
enum End {
    Router { port: u32 },
    Terminal,
}

pub(super) struct Channel {
    to: End,
    pub(super) link: Option<LinkId>,
    pub(super) flit_ps: Picos,
    latency_ps: Picos,
    /// Flits in the buffer of each of its virtual channels.
    pub(super) depth_flits: u32,
    /// From a flit's departure from the buffer at the far end to the use of its credit here.
    pub(super) credit_cycles: u64,
    /// When the last flit given to it is through.
    pub(super) free_ps: Picos,
    pub(super) flights: VecDeque<Flight>,
    /// Uninterrupted transmission that ends at `free_ps`.
    pub(super) run_start_ps: Picos,
}

pub(super) struct Terminal {
    pub(super) queue: VecDeque<Run>,
    /// Packet being injected, flits left, and its virtual channel.
    pub(super) current: Option<(u32, u32, u32)>,
    pub(super) next_vc: u32,
    /// Packets not fully injected.
    pub(super) backlog: u64,
    /// Cycle it was last woken for, and last looked at.
    pub(super) woken: u64,
    pub(super) worked: u64,
}

impl Channel {
    /// Whether flits are on it.
    pub(super) fn is_carrying(&self) -> bool {
        !self.flights.is_empty()
    }
}

/// See the module.
pub struct Network<R> {
    pub(super) model: RouterModel,
    pub(super) routing: R,
    pub(super) vcs: usize,
    pub(super) wheel: Wheel,
    pub(super) now: u64,
    /// Every router's first port, and one past the last router's.
    pub(super) in_base: Vec<u32>,
    pub(super) out_base: Vec<u32>,
    pub(super) router_of_in: Vec<u32>,
    pub(super) router_of_out: Vec<u32>,
    /// Channel that feeds each input port. Channel `c` below the number of output ports leaves from
    /// output port `c`; the others are injection channels, one a terminal.
    pub(super) feeder: Vec<u32>,
    pub(super) channels: Vec<Channel>,
    pub(super) channel_of_link: Vec<u32>,
    pub(super) ejection: Vec<u32>,
    /// Per virtual channel of a channel, at its sending side.
    pub(super) credits: Vec<u32>,
    /// The buffer (or terminal, for injection channels) whose packet has it; [`NONE`] if it is free.
    pub(super) holder: Vec<u32>,
    /// Per virtual channel of an input port.
    pub(super) buffers: Vec<Buffer>,
    /// Bit sets over the buffers of each router, from word `words[router]`: whose first packet wants a
    /// virtual channel, and whose first flit can cross the router as far as credits go.
    pub(super) words: Vec<u32>,
    pub(super) wants_vc: Vec<u64>,
    pub(super) wants_switch: Vec<u64>,
    /// Round-robin pointers: of virtual channels over buffers and back, of crossbar outputs over
    /// inputs and back, and of crossbar inputs over their virtual channels.
    pub(super) vc_next_input: Vec<u32>,
    pub(super) vc_next_output: Vec<u32>,
    pub(super) switch_next_input: Vec<u32>,
    pub(super) switch_next_output: Vec<u32>,
    pub(super) switch_next_vc: Vec<u32>,
    /// Cycle each router was last woken for, and last worked in.
    pub(super) router_woken: Vec<u64>,
    pub(super) router_worked: Vec<u64>,
    /// Whether a head that found no virtual channel at a router when it last looked might find one now.
    pub(super) vc_news: Vec<bool>,
    pub(super) terminals: Vec<Terminal>,
    pub(super) packets: Vec<Packet>,
    pub(super) free: Vec<u32>,
    pub(super) matching: Matching,
    pub(super) requests: Vec<Request>,
    pub(super) heads: Vec<Head>,
    pub(super) heads_of_port: Vec<u32>,
    pub(super) granted: Vec<(u32, u32)>,
    pub(super) events: Vec<Event>,
    pub(super) due_routers: Vec<u32>,
    pub(super) due_terminals: Vec<u32>,
    /// Classes of the kinds of packets: where several want a channel, those of the lowest pass first. All alike if empty.
    pub classes: Vec<u16>,
    /// Packets that arrived in this cycle.
    pub delivered: Vec<Packet>,
    /// Terminals from which a packet's last flit left in this cycle, and its tag.
    pub departed: Vec<(u32, u32)>,
    /// Uninterrupted transmissions on links that ended: link, start and end.
    pub transmissions: Vec<(LinkId, Picos, Picos)>,
    /// Events processed.
    pub event_count: u64,
    /// Flits times links crossed.
    pub flit_hops: u64,
    /// Packets injected at least in part and not delivered.
    pub in_flight: u64,
}

impl<R: Routing> Network<R> {
    /// An empty network on `fabric` with a terminal on each node of `terminals` (several may share
    /// one). `flit_ps` and `latency_ps` are those of every link; injection and ejection take one cycle.
    /// No packet has more than `longest` flits.
    ///
    /// Where a link moves more than a flit a clock, all ports work at the time of its flit
    /// ([`RouterModel::with_ports_of`], [`Self::clock_ps`]), and a buffer holds at least a packet and a
    /// round trip of credits.
    ///
    /// # Errors
    /// As [`RouterModel::check`]; [`Code::TooLarge`] past 2^26 buffers.
    pub fn new(
        fabric: &Fabric,
        model: &RouterModel,
        flit_ps: &[Picos],
        latency_ps: &[Picos],
        terminals: &[NodeId],
        longest: u32,
        routing: R,
    ) -> Result<Self> {
        model.check()?;
        let (links, vcs) = (fabric.links.len(), model.virtual_channels as usize);
        let ports = links + terminals.len();
        if (ports + terminals.len()).saturating_mul(vcs * (2 + model.output_speedup as usize)) > MAX_BUFFERS {
            let what = format!("{ports} ports of {vcs} virtual channels are too many; use a smaller fabric or fewer");
            return Err(Error::new(Code::TooLarge, what));
        }
        let clock = flit_ps.iter().copied().min().unwrap_or(model.clock_ps).clamp(1, model.clock_ps);
        // Ways to and from terminals keep their time too.
        let (is_faster, wire_ps) = (clock < model.clock_ps, model.clock_ps - clock);
        let model = &model.with_ports_of(clock);
        let routers = fabric.nodes.len();
        let (mut ins, mut outs) = (vec![vec![]; routers], vec![vec![]; routers]);
        // Ports in the order of links, then terminals; a number past the links is a terminal's.
        for (id, link) in fabric.links.iter().enumerate() {
            outs[link.from as usize].push(id);
            ins[link.to as usize].push(id);
        }
        for (t, &node) in terminals.iter().enumerate() {
            outs[node as usize].push(links + t);
            ins[node as usize].push(links + t);
        }
        let base = |ports: &[Vec<usize>]| {
            let mut starts = vec![0u32];
            ports.iter().for_each(|list| starts.push(starts[starts.len() - 1] + list.len() as u32));
            starts
        };
        let owner = |ports: &[Vec<usize>]| -> Vec<u32> {
            ports.iter().enumerate().flat_map(|(router, list)| list.iter().map(move |_| router as u32)).collect()
        };
        let (in_base, out_base) = (base(&ins), base(&outs));
        let (mut channel_of_link, mut ejection) = (vec![0; links], vec![0; terminals.len()]);
        for (port, &what) in outs.iter().flatten().enumerate() {
            match what.checked_sub(links) {
                None => channel_of_link[what] = port as u32,
                Some(t) => ejection[t] = port as u32,
            }
        }
        let mut port_of = vec![0u32; ports];
        ins.iter().flatten().enumerate().for_each(|(port, &what)| port_of[what] = port as u32);
        let cycle = |ps: Picos| ps.div_ceil(clock).max(1);
        let credit = model.credit_cycles as u64;
        let in_router = model.routing_cycles + model.vc_allocation_cycles + model.switch_allocation_cycles;
        let channel = |to, link, flit_ps: Picos, latency_ps: Picos, credit_cycles: u64| {
            let there = model.traversal_cycles as u64 + 1 + cycle(flit_ps.saturating_add(latency_ps));
            let round_trip = (there + in_router as u64 + credit_cycles) as u128 * clock as u128;
            let needed = (longest as u128).saturating_add(round_trip.div_ceil(flit_ps.max(1) as u128));
            let needed = if is_faster { needed.min(u32::MAX as u128 / 2) as u32 } else { 0 };
            Channel {
                to,
                link,
                flit_ps,
                latency_ps,
                depth_flits: model.depth_flits.max(needed),
                credit_cycles,
                free_ps: 0,
                flights: VecDeque::new(),
                run_start_ps: 0,
            }
        };
        let mut channels: Vec<Channel> = outs
            .iter()
            .flatten()
            .map(|&what| match what < links {
                true => {
                    let to = End::Router { port: port_of[what] };
                    let back = 1 + cycle(latency_ps[what]) + credit;
                    channel(to, Some(what as LinkId), flit_ps[what], latency_ps[what], back)
                }
                false => channel(End::Terminal, None, clock, wire_ps, 2 + credit),
            })
            .collect();
        // A terminal uses credits at once.
        channels.extend((0..terminals.len()).map(|t| {
            let to = End::Router { port: port_of[links + t] };
            channel(to, None, clock, 2 * wire_ps, 2)
        }));
        let mut feeder = vec![0; ports];
        for (id, channel) in channels.iter().enumerate() {
            if let End::Router { port } = channel.to {
                feeder[port as usize] = id as u32;
            }
        }
        let mut words = Vec::with_capacity(routers);
        let mut word_count = 0u32;
        for list in &ins {
            words.push(word_count);
            word_count += (list.len() * vcs).div_ceil(64) as u32;
        }
        let most = |ports: &[Vec<usize>]| ports.iter().map(Vec::len).max().unwrap_or(0);
        let (is, os) = (model.input_speedup as usize, model.output_speedup as usize);
        Ok(Network {
            model: model.clone(),
            routing,
            vcs,
            wheel: Wheel::new(),
            now: 0,
            router_of_in: owner(&ins),
            router_of_out: owner(&outs),
            in_base,
            out_base,
            feeder,
            credits: channels.iter().flat_map(|channel| vec![channel.depth_flits; vcs]).collect(),
            holder: vec![NONE; channels.len() * vcs],
            channels,
            channel_of_link,
            ejection,
            buffers: (0..ports * vcs).map(|_| Buffer::new()).collect(),
            words,
            wants_vc: vec![0; word_count as usize],
            wants_switch: vec![0; word_count as usize],
            vc_next_input: vec![0; ports * vcs],
            vc_next_output: vec![0; ports * vcs],
            switch_next_input: vec![0; ports * os],
            switch_next_output: vec![0; ports * is],
            switch_next_vc: vec![0; ports * is],
            router_woken: vec![u64::MAX; routers],
            router_worked: vec![u64::MAX; routers],
            vc_news: vec![false; routers],
            terminals: (0..terminals.len())
                .map(|_| Terminal {
                    queue: VecDeque::new(),
                    current: None,
                    next_vc: 0,
                    backlog: 0,
                    woken: u64::MAX,
                    worked: u64::MAX,
                })
                .collect(),
            packets: vec![],
            free: vec![],
            matching: Matching::new(most(&ins) * vcs.max(is), most(&outs) * vcs.max(os)),
            requests: vec![],
            heads: vec![],
            heads_of_port: vec![0; most(&outs)],
            granted: vec![],
            events: vec![],
            due_routers: vec![],
            due_terminals: vec![],
            classes: vec![],
            delivered: vec![],
            departed: vec![],
            transmissions: vec![],
            event_count: 0,
            flit_hops: 0,
            in_flight: 0,
        })
    }

    /// Period of a cycle: the routers' clock, or the time of a flit on a link that is faster.
    pub fn clock_ps(&self) -> Picos {
        self.model.clock_ps
    }

    /// Queues packets at a terminal, to be injected from `cycle` on; `cycle` must not have been
    /// processed yet.
    pub fn offer(&mut self, terminal: u32, run: Run, cycle: u64) {
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
        for event in &events {
            match *event {
                Event::Arrival(channel) => self.arrive(channel),
                Event::Credit(vc) => self.credit(vc),
                Event::Terminal(terminal) => self.due_terminals.push(terminal),
                Event::Router(router) => self.due_routers.push(router),
            }
        }
        self.events = events;
        let mut due = std::mem::take(&mut self.due_terminals);
        due.drain(..).for_each(|terminal| self.inject(terminal));
        self.due_terminals = due;
        let mut due = std::mem::take(&mut self.due_routers);
        for router in due.drain(..) {
            if std::mem::replace(&mut self.router_worked[router as usize], cycle) == cycle {
                continue;
            }
            for _ in 0..self.model.internal_speedup {
                self.allocate(router as usize);
            }
        }
        self.due_routers = due;
    }

    /// Has everything looked at in the next cycle processed, needed or not.
    #[cfg(test)]
    pub(super) fn wake_all(&mut self) {
        self.vc_news.fill(true);
        self.due_routers.extend(0..self.router_woken.len() as u32);
        self.due_terminals.extend(0..self.terminals.len() as u32);
    }

    /// Longest time that a flit granted now would wait for its link.
    #[cfg(test)]
    pub(super) fn longest_wait_ps(&self) -> Picos {
        let ready = (self.now + 1 + self.model.traversal_cycles as u64) * self.model.clock_ps;
        let links = self.channels.iter().filter(|channel| channel.link.is_some());
        links.map(|channel| channel.free_ps.saturating_sub(ready)).max().unwrap_or(0)
    }

    /// Reports what is being transmitted, as far as flits were given to links; what follows counts as a
    /// new transmission.
    pub fn flush(&mut self) {
        for channel in &mut self.channels {
            if let Some(link) = channel.link.filter(|_| channel.free_ps > channel.run_start_ps) {
                self.transmissions.push((link, channel.run_start_ps, channel.free_ps));
                channel.run_start_ps = channel.free_ps;
            }
        }
    }

    /// Whether every credit is back and every buffer empty.
    pub fn is_quiet(&self) -> bool {
        (0..self.credits.len()).all(|vc| self.credits[vc] == self.depth_flits(vc))
            && self.holder.iter().all(|&holder| holder == NONE)
            && self.buffers.iter().all(|buffer| buffer.is_empty())
    }

    /// Flits in the buffer of a virtual channel of a channel.
    pub(super) fn depth_flits(&self, vc: usize) -> u32 {
        self.channels[vc / self.vcs].depth_flits
    }

    /// Creation of the oldest packet in flight or queued. O(packets in flight + terminals).
    pub fn oldest_created(&self) -> Option<u64> {
        let flying = self.packets.iter().filter(|p| !p.delivered).map(|p| p.created);
        let queued = self.terminals.iter().flat_map(|t| t.queue.front()).map(|run| run.packet.created);
        flying.chain(queued).min()
    }

    /// Lets a router be looked at in `cycle`, this one or a later one.
    pub(super) fn wake_router(&mut self, router: u32, cycle: u64) {
        let woken = &mut self.router_woken[router as usize];
        if *woken == cycle {
            return;
        }
        *woken = cycle;
        if cycle == self.now {
            self.due_routers.push(router);
        } else {
            self.wheel.push(cycle, Event::Router(router));
        }
    }

    pub(super) fn wake_terminal(&mut self, terminal: u32, cycle: u64) {
        let woken = &mut self.terminals[terminal as usize].woken;
        if *woken != cycle {
            *woken = cycle;
            self.wheel.push(cycle, Event::Terminal(terminal));
        }
    }

    // --- Channels ---------------------------------------------------------------------------

    /// Puts a flit on a channel, at `ready_ps` or when it is free.
    pub(super) fn transmit(&mut self, id: u32, packet: u32, vc: u32, ready_ps: Picos, last: bool) {
        let channel = &mut self.channels[id as usize];
        if ready_ps > channel.free_ps {
            if let Some(link) = channel.link.filter(|_| channel.free_ps > channel.run_start_ps) {
                self.transmissions.push((link, channel.run_start_ps, channel.free_ps));
            }
            channel.run_start_ps = ready_ps;
            channel.free_ps = ready_ps;
        }
        channel.free_ps += channel.flit_ps;
        let arrives = (channel.free_ps + channel.latency_ps).div_ceil(self.model.clock_ps);
        self.flit_hops += u64::from(channel.link.is_some());
        if matches!(channel.to, End::Terminal) {
            // Terminals take flits at once, so the credit's return is known; only the last one matters.
            self.wheel.push(arrives + channel.credit_cycles, Event::Credit(id * self.vcs as u32 + vc));
            if !last {
                return;
            }
        }
        channel.flights.push_back(Flight { arrives, packet, vc });
        if channel.flights.len() == 1 {
            self.wheel.push(arrives, Event::Arrival(id));
        }
    }

    /// Flits arrive at the end of a channel.
    fn arrive(&mut self, id: u32) {
        loop {
            let channel = &mut self.channels[id as usize];
            let Some(flight) = channel.flights.front().copied() else { return };
            if flight.arrives > self.now {
                return self.wheel.push(flight.arrives, Event::Arrival(id));
            }
            channel.flights.pop_front();
            match channel.to {
                End::Router { port } => self.buffer(port, flight),
                End::Terminal => self.deliver(flight.packet),
            }
        }
    }

    /// A flit enters a buffer.
    fn buffer(&mut self, port: u32, Flight { packet, vc, .. }: Flight) {
        let router = self.router_of_in[port as usize];
        let id = port as usize * self.vcs + vc as usize;
        let received = self.buffers[id].receive(packet);
        if matches!(received, Received::FirstHead | Received::Behind(true))
            && self.channels[self.feeder[port as usize] as usize].link.is_some()
        {
            self.packets[packet as usize].hops += 1;
        }
        match received {
            Received::FirstHead => self.route(router, id, self.now),
            Received::FirstBody if self.buffers[id].has != NONE => {
                let buffer = &mut self.buffers[id];
                if buffer.here == 1 {
                    buffer.ready = buffer.ready.max(self.now + self.model.switch_allocation_cycles as u64 - 1);
                }
                if self.credits[buffer.has as usize] == 0 {
                    return;
                }
                let (word, bit) = self.bit(router, id);
                self.wants_switch[word] |= bit;
            }
            _ => return,
        }
        self.wake_router(router, self.now);
    }

    /// The last flit of a packet has arrived at its terminal.
    fn deliver(&mut self, packet: u32) {
        self.packets[packet as usize].delivered = true;
        self.delivered.push(self.packets[packet as usize]);
        self.free.push(packet);
        self.in_flight -= 1;
    }

    /// A credit is back.
    fn credit(&mut self, vc: u32) {
        self.credits[vc as usize] += 1;
        let channel = vc as usize / self.vcs;
        match channel.checked_sub(self.router_of_out.len()) {
            Some(terminal) => {
                let state = &self.terminals[terminal];
                if state.current.is_some() || !state.queue.is_empty() {
                    self.due_terminals.push(terminal as u32);
                }
            }
            None => {
                let router = self.router_of_out[channel];
                let holder = self.holder[vc as usize];
                if holder == NONE {
                    // Heads may wait for room for a whole packet.
                    if self.model.switching == Switching::CutThrough && self.is_wanting(router as usize) {
                        self.vc_news[router as usize] = true;
                        self.wake_router(router, self.now);
                    }
                } else if self.credits[vc as usize] == 1 && self.buffers[holder as usize].here > 0 {
                    let (word, bit) = self.bit(router, holder as usize);
                    self.wants_switch[word] |= bit;
                    self.wake_router(router, self.now);
                }
            }
        }
    }
}
