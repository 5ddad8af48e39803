//! The network: routers, channels, terminals, and the event loop over them.
//!
//! A *channel* is a link, an injection or an ejection port; it has a sending side (credits, a
//! serialiser) and a receiving side (buffers). Routers only work in cycles in which something can
//! be granted; a flit on a link is one event however long it takes.

use super::allocate::{Matching, Request};
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
    /// Cycle of its creation.
    pub created: u64,
    /// Cycle in which its head left its terminal.
    pub injected: u64,
    received: u32,
}

impl Packet {
    /// A packet not yet injected.
    pub fn new(destination: u32, flits: u32, tag: u32, route: u32, created: u64) -> Packet {
        Packet { destination, flits, tag, hops: 0, route, created, injected: 0, received: 0 }
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
struct Flight {
    arrives: u64,
    packet: u32,
    vc: u32,
}

#[derive(Clone, Copy)]
enum End {
    Router { port: u32 },
    Terminal,
}

pub(super) struct Channel {
    to: End,
    pub(super) link: Option<LinkId>,
    flit_ps: Picos,
    latency_ps: Picos,
    /// From a flit's departure from the buffer at the far end to the use of its credit here.
    credit_cycles: u64,
    /// When the last flit given to it is through.
    free_ps: Picos,
    flights: VecDeque<Flight>,
    /// Uninterrupted transmission that ends at `free_ps`.
    run_start_ps: Picos,
}

/// Receiving side of one virtual channel at a router.
#[derive(Default)]
pub(super) struct Buffer {
    /// Packets in order, with the flits of each that have arrived.
    pub(super) packets: VecDeque<(u32, u32)>,
    /// Flits of the first packet that have left.
    pub(super) sent: u32,
    /// Virtual channels the first packet may take (from, up to), and the one it has.
    pub(super) wants: (u32, u32),
    pub(super) has: Option<u32>,
    /// No bid before this cycle.
    ready: u64,
}

pub(super) struct Terminal {
    queue: VecDeque<Run>,
    /// Packet being injected, flits left, and its virtual channel.
    current: Option<(u32, u32, u32)>,
    next_vc: u32,
    /// Packets not fully injected.
    backlog: u64,
    /// Cycle it was last woken for, and last looked at.
    woken: u64,
    worked: u64,
}

/// See the module.
pub struct Network<R> {
    pub(super) model: RouterModel,
    routing: R,
    pub(super) vcs: usize,
    wheel: Wheel,
    now: u64,
    /// Every router's first port, and one past the last router's.
    pub(super) in_base: Vec<u32>,
    pub(super) out_base: Vec<u32>,
    router_of_in: Vec<u32>,
    pub(super) router_of_out: Vec<u32>,
    /// Channel that feeds each input port. Channel `c` below the number of output ports leaves from
    /// output port `c`; the others are injection channels, one a terminal.
    pub(super) feeder: Vec<u32>,
    pub(super) channels: Vec<Channel>,
    channel_of_link: Vec<u32>,
    ejection: Vec<u32>,
    /// Per virtual channel of a channel, at its sending side.
    pub(super) credits: Vec<u32>,
    pub(super) busy: Vec<bool>,
    /// Per virtual channel of an input port.
    pub(super) buffers: Vec<Buffer>,
    /// Bit sets over the buffers of each router, from word `words[router]`.
    words: Vec<u32>,
    wants_vc: Vec<u64>,
    wants_switch: Vec<u64>,
    /// Round-robin pointers: of virtual channels over buffers and back, of crossbar outputs over
    /// inputs and back, and of crossbar inputs over their virtual channels.
    vc_next_input: Vec<u32>,
    vc_next_output: Vec<u32>,
    switch_next_input: Vec<u32>,
    switch_next_output: Vec<u32>,
    switch_next_vc: Vec<u32>,
    /// Cycle each router was last woken for, and last worked in.
    router_woken: Vec<u64>,
    router_worked: Vec<u64>,
    terminals: Vec<Terminal>,
    pub(super) packets: Vec<Packet>,
    free: Vec<u32>,
    matching: Matching,
    requests: Vec<Request>,
    granted: Vec<(u32, u32)>,
    events: Vec<Event>,
    due_routers: Vec<u32>,
    due_terminals: Vec<u32>,
    /// Packets that arrived in this cycle.
    pub delivered: Vec<Packet>,
    /// Terminals from which a packet's last flit left in this cycle.
    pub departed: Vec<u32>,
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
    ///
    /// # Errors
    /// As [`RouterModel::check`]; [`Code::TooLarge`] past 2^26 buffers.
    pub fn new(
        fabric: &Fabric,
        model: &RouterModel,
        flit_ps: &[Picos],
        latency_ps: &[Picos],
        terminals: &[NodeId],
        routing: R,
    ) -> Result<Self> {
        model.check()?;
        let (links, vcs) = (fabric.links.len(), model.virtual_channels as usize);
        let ports = links + terminals.len();
        if (ports + terminals.len()).saturating_mul(vcs * (2 + model.output_speedup as usize)) > MAX_BUFFERS {
            let what = format!("{ports} ports of {vcs} virtual channels are too many; use a smaller fabric or fewer");
            return Err(Error::new(Code::TooLarge, what));
        }
        let clock = model.clock_ps;
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
        let channel = |to, link, flit_ps, latency_ps, credit_cycles| Channel {
            to,
            link,
            flit_ps,
            latency_ps,
            credit_cycles,
            free_ps: 0,
            flights: VecDeque::new(),
            run_start_ps: 0,
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
                false => channel(End::Terminal, None, clock, 0, 2 + credit),
            })
            .collect();
        // A terminal uses credits at once.
        channels.extend((0..terminals.len()).map(|t| {
            let to = End::Router { port: port_of[links + t] };
            channel(to, None, clock, 0, 2)
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
            credits: vec![model.depth_flits; channels.len() * vcs],
            busy: vec![false; channels.len() * vcs],
            channels,
            channel_of_link,
            ejection,
            buffers: (0..ports * vcs).map(|_| Buffer::default()).collect(),
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
            granted: vec![],
            events: vec![],
            due_routers: vec![],
            due_terminals: vec![],
            delivered: vec![],
            departed: vec![],
            transmissions: vec![],
            event_count: 0,
            flit_hops: 0,
            in_flight: 0,
        })
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

    /// Reports transmissions that still run; to be called once, when all is delivered.
    pub fn finish(&mut self) {
        for channel in &mut self.channels {
            if let Some(link) = channel.link.filter(|_| channel.free_ps > channel.run_start_ps) {
                self.transmissions.push((link, channel.run_start_ps, channel.free_ps));
                channel.run_start_ps = channel.free_ps;
            }
        }
    }

    /// Whether every credit is back and every buffer empty.
    pub fn is_quiet(&self) -> bool {
        self.credits.iter().all(|&credits| credits == self.model.depth_flits)
            && self.busy.iter().all(|&busy| !busy)
            && self.buffers.iter().all(|buffer| buffer.packets.is_empty())
    }

    /// Creation of the oldest packet in flight or queued. O(packets in flight + terminals).
    pub fn oldest_created(&self) -> Option<u64> {
        let flying = self.packets.iter().filter(|p| p.received < p.flits).map(|p| p.created);
        let queued = self.terminals.iter().flat_map(|t| t.queue.front()).map(|run| run.packet.created);
        flying.chain(queued).min()
    }

    /// Lets a router be looked at in `cycle`, this one or a later one.
    fn wake_router(&mut self, router: u32, cycle: u64) {
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

    fn wake_terminal(&mut self, terminal: u32, cycle: u64) {
        let woken = &mut self.terminals[terminal as usize].woken;
        if *woken != cycle {
            *woken = cycle;
            self.wheel.push(cycle, Event::Terminal(terminal));
        }
    }

    // --- Channels ---------------------------------------------------------------------------

    /// Puts a flit on a channel, at `ready_ps` or when it is free.
    fn transmit(&mut self, id: u32, packet: u32, vc: u32, ready_ps: Picos) {
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
        channel.flights.push_back(Flight { arrives, packet, vc });
        if channel.flights.len() == 1 {
            self.wheel.push(arrives, Event::Arrival(id));
        }
        self.flit_hops += u64::from(channel.link.is_some());
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
                End::Terminal => self.eject(id, flight),
            }
        }
    }

    /// A flit enters a buffer.
    fn buffer(&mut self, port: u32, Flight { packet, vc, .. }: Flight) {
        let router = self.router_of_in[port as usize];
        let id = port as usize * self.vcs + vc as usize;
        let buffer = &mut self.buffers[id];
        match buffer.packets.back_mut() {
            Some((last, arrived)) if *last == packet => *arrived += 1,
            _ => {
                buffer.packets.push_back((packet, 1));
                if self.channels[self.feeder[port as usize] as usize].link.is_some() {
                    self.packets[packet as usize].hops += 1;
                }
                if buffer.packets.len() == 1 {
                    self.route(router, id, self.now);
                }
                return self.wake_router(router, self.now);
            }
        }
        if buffer.packets.len() == 1 && buffer.has.is_some() {
            let (word, bit) = self.bit(router, id);
            if self.wants_switch[word] & bit == 0 {
                self.wants_switch[word] |= bit;
                self.buffers[id].ready = self.now + self.model.switch_allocation_cycles as u64 - 1;
            }
            self.wake_router(router, self.now);
        }
    }

    /// Takes a flit out of the network.
    fn eject(&mut self, channel: u32, Flight { packet, vc, .. }: Flight) {
        let back = self.now + self.channels[channel as usize].credit_cycles;
        self.wheel.push(back, Event::Credit(channel * self.vcs as u32 + vc));
        let state = &mut self.packets[packet as usize];
        state.received += 1;
        if state.received == state.flits {
            self.delivered.push(*state);
            self.free.push(packet);
            self.in_flight -= 1;
        }
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
                if self.is_wanting(router as usize) {
                    self.wake_router(router, self.now);
                }
            }
        }
    }

    // --- Terminals --------------------------------------------------------------------------

    /// Sends one flit of a terminal, if it has one and there is room for it.
    fn inject(&mut self, terminal: u32) {
        let channel = (self.router_of_out.len() + terminal as usize) as u32;
        let first = channel as usize * self.vcs;
        let state = &mut self.terminals[terminal as usize];
        if std::mem::replace(&mut state.worked, self.now) == self.now {
            return;
        }
        let (id, left, vc) = match state.current {
            Some(current) => current,
            None => {
                let Some(run) = state.queue.front_mut() else { return };
                let needed = match self.model.switching {
                    Switching::Wormhole => 1,
                    Switching::CutThrough => run.packet.flits,
                };
                let turn = (0..self.vcs).map(|i| (state.next_vc as usize + i) % self.vcs);
                let mut open = turn.filter(|v| !self.busy[first + v] && self.credits[first + v] >= needed);
                let Some(vc) = open.next() else { return };
                state.next_vc = ((vc + 1) % self.vcs) as u32;
                self.busy[first + vc] = true;
                run.count -= 1;
                let packet = Packet { injected: self.now, ..run.packet };
                if run.count == 0 {
                    state.queue.pop_front();
                }
                self.in_flight += 1;
                let id = self.free.pop().unwrap_or_else(|| {
                    self.packets.push(packet);
                    self.packets.len() as u32 - 1
                });
                self.packets[id as usize] = packet;
                (id, packet.flits, vc as u32)
            }
        };
        let at = first + vc as usize;
        if self.credits[at] == 0 {
            state.current = Some((id, left, vc));
            return;
        }
        self.credits[at] -= 1;
        state.current = (left > 1).then_some((id, left - 1, vc));
        if left == 1 {
            self.busy[at] = false;
            state.backlog -= 1;
            self.departed.push(terminal);
        }
        if state.current.is_some() || !state.queue.is_empty() {
            self.wake_terminal(terminal, self.now + 1);
        }
        self.transmit(channel, id, vc, (self.now + 1) * self.model.clock_ps);
    }

    // --- Routers ----------------------------------------------------------------------------

    /// Word and bit of a buffer in the sets of its router.
    fn bit(&self, router: u32, buffer: usize) -> (usize, u64) {
        let local = buffer - self.in_base[router as usize] as usize * self.vcs;
        (self.words[router as usize] as usize + local / 64, 1 << (local % 64))
    }

    fn word_range(&self, router: usize) -> std::ops::Range<usize> {
        let count = ((self.in_base[router + 1] - self.in_base[router]) as usize * self.vcs).div_ceil(64);
        let first = self.words[router] as usize;
        first..first + count
    }

    fn is_wanting(&self, router: usize) -> bool {
        self.word_range(router).any(|word| (self.wants_vc[word] | self.wants_switch[word]) != 0)
    }

    /// The packet that is now first in a buffer is routed, from cycle `from` on.
    fn route(&mut self, router: u32, id: usize, from: u64) {
        let (packet, _) = self.buffers[id].packets[0];
        let state = &mut self.packets[packet as usize];
        let hop = self.routing.next(state, router);
        let channel = match hop.link {
            Some(link) => self.channel_of_link[link as usize],
            None => self.ejection[state.destination as usize],
        };
        let first = channel * self.vcs as u32;
        let share = |class: u32| first + class * self.vcs as u32 / hop.classes;
        let (word, bit) = self.bit(router, id);
        self.wants_vc[word] |= bit;
        let buffer = &mut self.buffers[id];
        buffer.wants = match hop.link {
            Some(_) => (share(hop.class), share(hop.class + 1)),
            None => (first, first + self.vcs as u32),
        };
        buffer.ready = from + self.model.routing_cycles as u64;
    }

    /// One allocation of virtual channels and of the crossbar of a router.
    fn allocate(&mut self, router: usize) {
        let mut later = u64::MAX;
        let ports = self.in_base[router] as usize..self.in_base[router + 1] as usize;
        let outs = self.out_base[router] as usize..self.out_base[router + 1] as usize;
        let first = ports.start * self.vcs;
        let cut_through = self.model.switching == Switching::CutThrough;
        let mut granted = std::mem::take(&mut self.granted);
        granted.clear();

        self.requests.clear();
        for word in self.word_range(router) {
            let mut bits = self.wants_vc[word];
            while bits != 0 {
                let local = (word - self.words[router] as usize) * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let buffer = &self.buffers[first + local];
                if buffer.ready > self.now {
                    later = later.min(buffer.ready);
                    continue;
                }
                let packet = &self.packets[buffer.packets[0].0 as usize];
                let needed = if cut_through { packet.flits } else { 0 };
                for vc in buffer.wants.0..buffer.wants.1 {
                    if !self.busy[vc as usize] && self.credits[vc as usize] >= needed {
                        self.requests.push(Request {
                            input: local as u32,
                            output: vc - (outs.start * self.vcs) as u32,
                            tie: 0,
                            age: packet.created,
                            tag: vc,
                        });
                    }
                }
            }
        }
        if !self.requests.is_empty() {
            self.matching.allocate(
                self.model.allocator,
                self.model.iterations,
                &self.requests,
                &mut self.vc_next_input[outs.start * self.vcs..outs.end * self.vcs],
                &mut self.vc_next_output[ports.start * self.vcs..ports.end * self.vcs],
                |r| granted.push((r.input, r.tag)),
            );
        }
        let wait = (self.model.vc_allocation_cycles + self.model.switch_allocation_cycles - 1) as u64;
        for &(local, vc) in &granted {
            let id = first + local as usize;
            let (word, bit) = self.bit(router as u32, id);
            self.wants_vc[word] &= !bit;
            self.wants_switch[word] |= bit;
            self.busy[vc as usize] = true;
            let buffer = &mut self.buffers[id];
            buffer.has = Some(vc);
            buffer.ready = self.now + wait;
        }
        let mut any = !granted.is_empty();

        self.requests.clear();
        let (is, os) = (self.model.input_speedup, self.model.output_speedup);
        for word in self.word_range(router) {
            let mut bits = self.wants_switch[word];
            while bits != 0 {
                let local = (word - self.words[router] as usize) * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let buffer = &self.buffers[first + local];
                if buffer.ready > self.now {
                    later = later.min(buffer.ready);
                    continue;
                }
                let has = buffer.has.expect("it has a virtual channel") as usize;
                if self.credits[has] == 0 {
                    continue;
                }
                let channel = has / self.vcs;
                if let Some(open) = self.output_opens(channel)
                    && open > self.now
                {
                    later = later.min(open);
                    continue;
                }
                let (port, vc) = ((local / self.vcs) as u32, (local % self.vcs) as u32);
                let input = port * is + vc % is;
                let pointer = self.switch_next_vc[ports.start * is as usize + input as usize];
                self.requests.push(Request {
                    input,
                    output: (channel - outs.start) as u32 * os + port % os,
                    tie: if vc >= pointer { vc - pointer } else { vc + self.vcs as u32 - pointer },
                    age: self.packets[buffer.packets[0].0 as usize].created,
                    tag: local as u32,
                });
            }
        }
        granted.clear();
        if !self.requests.is_empty() {
            self.matching.allocate(
                self.model.allocator,
                self.model.iterations,
                &self.requests,
                &mut self.switch_next_input[outs.start * os as usize..outs.end * os as usize],
                &mut self.switch_next_output[ports.start * is as usize..ports.end * is as usize],
                |r| granted.push((r.input, r.tag)),
            );
        }
        for &(input, local) in &granted {
            let (vc, id) = (local % self.vcs as u32, first + local as usize);
            let channel = self.buffers[id].has.expect("it has a virtual channel") as usize / self.vcs;
            // Output speed-up may have granted more flits than there are places.
            if self.output_opens(channel).is_some_and(|open| open > self.now) {
                continue;
            }
            self.switch_next_vc[ports.start * is as usize + input as usize] = (vc + is) % self.vcs as u32;
            self.forward(router as u32, id);
        }
        any |= !granted.is_empty();
        self.granted = granted;
        // Without a grant nothing changes until a credit or a flit comes.
        if any && self.is_wanting(router) {
            later = self.now + 1;
        }
        if later < u64::MAX {
            self.wake_router(router as u32, later);
        }
    }

    /// With output queues of finite length: the first cycle in which one takes another flit.
    fn output_opens(&self, channel: usize) -> Option<u64> {
        let room = self.model.output_queue_flits?;
        let channel = &self.channels[channel];
        // A flit granted at `t` waits from `t + 1 + traversal` on, behind those before it.
        let free = channel.free_ps.saturating_sub((room as u64).saturating_mul(channel.flit_ps).saturating_sub(1));
        Some(free.div_ceil(self.model.clock_ps).saturating_sub(1 + self.model.traversal_cycles as u64))
    }

    /// The first flit of a buffer crosses the router.
    fn forward(&mut self, router: u32, id: usize) {
        let port = id / self.vcs;
        let (word, bit) = self.bit(router, id);
        let buffer = &mut self.buffers[id];
        let (packet, arrived) = buffer.packets[0];
        let has = buffer.has.expect("it has a virtual channel");
        buffer.sent += 1;
        let done = buffer.sent == self.packets[packet as usize].flits;
        self.credits[has as usize] -= 1;
        if done {
            self.busy[has as usize] = false;
            buffer.packets.pop_front();
            buffer.sent = 0;
            buffer.has = None;
            self.wants_switch[word] &= !bit;
        } else if buffer.sent == arrived {
            self.wants_switch[word] &= !bit;
        } else {
            buffer.ready = self.now + self.model.switch_allocation_cycles as u64;
        }
        if done && !buffer.packets.is_empty() {
            self.route(router, id, self.now + 1);
        }
        let feeder = self.feeder[port];
        let back = self.now + self.channels[feeder as usize].credit_cycles;
        self.wheel.push(back, Event::Credit(feeder * self.vcs as u32 + (id % self.vcs) as u32));
        let ready = (self.now + 1 + self.model.traversal_cycles as u64) * self.model.clock_ps;
        self.transmit(has / self.vcs as u32, packet, has % self.vcs as u32, ready);
    }
}
