//! Packet fidelity: packets on FIFO links behind network interfaces.
//!
//! - A link sends one packet at a time. What wants to use it waits in one FIFO: packets in transit
//!   each once, a network interface once for the packet at its head (so interfaces take turns).
//! - A packet is stored and forwarded at every node on its route; transit buffers are unlimited.
//! - An interface is free when its last packet has entered its queue of finite depth; messages for
//!   different links share that queue (head-of-line blocking).
//!
//! A run of packets that no other can interrupt is one event: on routes of a single link the cost
//! of a run grows with the messages, not with the packets.

mod events;
mod interface;
mod periodic;

use super::endpoints::{Carrier, Endpoints};
use super::period::Periods;
use super::plan::{Job, Plan};
use super::recorder::{Recorder, Traffic};
use super::{Engine, Progress};
use crate::error::{Code, Error, Result};
use crate::fabric::LinkId;
use crate::schedule::TransferId;
use crate::units::Picos;
use events::{Event, Events};
use interface::{Interface, Message};
use std::collections::VecDeque;

/// See the module.
pub struct Packet {
    /// Whether runs of packets that nothing interrupts are one event; never changes a result.
    pub merge_runs: bool,
    /// Whether whole periods are skipped; never changes a result.
    pub skip_periods: bool,
}

impl Default for Packet {
    fn default() -> Self {
        Packet { merge_runs: true, skip_periods: true }
    }
}

impl Engine for Packet {
    fn run(&self, plan: &Plan, recorder: &mut Recorder, progress: &mut Progress) -> Result<u64> {
        let mut endpoints = Endpoints::new(plan, &mut recorder.deliveries, plan.system.hand_off_ps);
        let mut network = Network::new(plan, &mut recorder.traffic, endpoints.interfaces(), self.merge_runs);
        let mut periods = self.skip_periods.then(Periods::new);
        let mut events = 0u64;
        endpoints.begin(&mut network);
        loop {
            let (network_at, endpoints_at) = (network.events.next_at(), endpoints.next_at());
            if network_at.min(endpoints_at) == Picos::MAX {
                break;
            }
            if network_at <= endpoints_at {
                network.step(&mut endpoints);
            } else {
                (network.now, network.turn) = (endpoints_at, ENDPOINT);
                endpoints.step(&mut network);
                if let Some(periods) = &mut periods {
                    periods.look(endpoints_at, events, &mut endpoints, &mut network);
                }
            }
            events += 1;
            if events.is_multiple_of(1 << 16) && !progress(endpoints.progress()) {
                return Err(Error::new(Code::Interrupted, "interrupted"));
            }
        }
        endpoints.finish(network.now)?;
        Ok(events)
    }
}

/// What waits for a link.
#[derive(Clone, Copy)]
enum Request {
    /// The packet at the head of an interface.
    Interface(u32),
    /// Packets in transit: the next `count` packets of a transfer at hop `hop` of its route. Only the
    /// last of them may be the `last` of its message. There can be millions of these; a run has
    /// fewer than 2^32 packets on routes of several links.
    Transit { transfer: TransferId, hop: u32, count: u32, last: bool },
}

/// What a link is transmitting.
#[derive(Clone, Copy)]
struct Service {
    request: Request,
    transfer: TransferId,
    start: Picos,
    packet_ps: Picos,
    packets: u64,
    /// Channel it comes from, if from a mixed interface.
    channel: Option<usize>,
}

#[derive(Default)]
struct Link {
    waiting: VecDeque<Request>,
    service: Option<Service>,
}

/// What links need to know of a transfer, close together.
struct Flow {
    /// Index of its first link in [`Plan::hops`], and number of links.
    first_hop: usize,
    hops: u32,
    /// Flits of a packet.
    flits: u64,
}

/// Rank of an event of the endpoints: after all of the network at that time.
const ENDPOINT: (u64, u32) = (u64::MAX, 0);

/// The network: links behind interfaces.
struct Network<'a> {
    plan: &'a Plan<'a>,
    traffic: &'a mut Traffic,
    flows: Vec<Flow>,
    now: Picos,
    /// Rank of the event being processed.
    turn: (u64, u32),
    events: Events,
    links: Vec<Link>,
    interfaces: Vec<Interface>,
    merge_runs: bool,
}

impl Carrier for Network<'_> {
    fn is_free(&self, interface: u32) -> bool {
        self.interfaces[interface as usize].backlog <= self.plan.system.interface.depth_packets
    }

    fn has_room(&self, interface: u32) -> bool {
        self.interfaces[interface as usize].queue.len() < 2
    }

    fn send(&mut self, transfer: TransferId, interface: u32, now: Picos) -> Picos {
        let plan = self.plan;
        let job = &plan.jobs[transfer as usize];
        let Some(&first) = plan.route(job).first() else {
            // Both ranks on one node: nothing crosses a link.
            self.events.push(now, Event::Arrive { transfer, hop: 0, last: true });
            return now;
        };
        let packets = job.packets.count;
        let depth = plan.system.interface.depth_packets;
        let state = &mut self.interfaces[interface as usize];
        let idle = state.backlog == 0;
        let joins = idle || (!state.is_mixed() && state.single_link() == Some(first));
        state.queue.push_back(Message { transfer, packets_left: packets, first });
        state.backlog += packets;
        let number = state.gone + state.queue.len() as u64 - 1;
        if idle {
            self.request(first, Request::Interface(interface));
        } else if joins {
            // A run under way must end where the interface, fuller now, becomes free.
            let service = self.links[first as usize].service;
            if service.is_some_and(|s| matches!(s.request, Request::Interface(i) if i == interface)) {
                self.settle(first);
                let until_free = self.interfaces[interface as usize].backlog.saturating_sub(depth);
                if until_free > 0 {
                    self.shorten(first, until_free);
                }
            }
        } else {
            if self.interfaces[interface as usize].is_mixed() {
                self.interfaces[interface as usize].deal(number, packets);
            } else {
                self.split(interface);
            }
            self.ask(interface);
        }
        // One packet an issue slot; the last is visible one slot later.
        now + (packets + 1) * plan.system.interface.issue_ps
    }
}

impl<'a> Network<'a> {
    fn new(plan: &'a Plan<'a>, traffic: &'a mut Traffic, interfaces: usize, merge_runs: bool) -> Self {
        let links = plan.fabric.links.len();
        let flow =
            |job: &Job| Flow { first_hop: job.hops.start, hops: job.hops.len() as u32, flits: job.packets.flits };
        Network {
            plan,
            traffic,
            flows: plan.jobs.iter().map(flow).collect(),
            now: 0,
            turn: (0, 0),
            events: Events::new(links),
            links: (0..links).map(|_| Link::default()).collect(),
            interfaces: (0..interfaces).map(|_| Interface::default()).collect(),
            merge_runs,
        }
    }

    /// Processes the next event.
    fn step(&mut self, endpoints: &mut Endpoints) {
        let Some((now, event)) = self.events.next() else { return };
        (self.now, self.turn) = (now, event.rank());
        match event {
            Event::LinkDone { link } => self.link_done(link, endpoints),
            Event::Arrive { transfer, hop, .. } if hop == self.flows[transfer as usize].hops => {
                endpoints.arrived(transfer, now);
            }
            Event::Arrive { transfer, hop, last } => self.request_hop(transfer, hop, last),
        }
    }

    /// Turns an interface with messages for several links into a mixed one.
    fn split(&mut self, id: u32) {
        let first = self.interfaces[id as usize].queue[0].first;
        // A run on the link ends with the packet being sent; its packets are not dealt.
        self.interrupt(first);
        let on_link = match self.links[first as usize].service {
            Some(Service { request: Request::Interface(other), packets, .. }) if other == id => packets,
            _ => 0,
        };
        let state = &mut self.interfaces[id as usize];
        state.channels = vec![VecDeque::new(); self.plan.system.interface.virtual_channels.max(1) as usize];
        state.asked = vec![first];
        for index in 0..state.queue.len() {
            let packets = state.queue[index].packets_left - if index == 0 { on_link } else { 0 };
            state.deal(state.gone + index as u64, packets);
        }
    }

    /// Asks for every link that some channel of a mixed interface wants and that is not asked for.
    fn ask(&mut self, id: u32) {
        for channel in 0..self.interfaces[id as usize].channels.len() {
            let state = &mut self.interfaces[id as usize];
            let Some(&(number, _)) = state.channels[channel].front() else { continue };
            let link = state.message(number).first;
            if !state.asked.contains(&link) {
                state.asked.push(link);
                self.request(link, Request::Interface(id));
            }
        }
    }

    // --- Links ------------------------------------------------------------------------------

    /// Queues a request at a link, cutting a run of packets short to let it in.
    fn request(&mut self, link: LinkId, request: Request) {
        self.links[link as usize].waiting.push_back(request);
        if self.links[link as usize].service.is_none() {
            self.serve(link);
        } else {
            self.interrupt(link);
        }
    }

    /// Ends an interface's run of packets on a link with the packet that is being sent.
    fn interrupt(&mut self, link: LinkId) {
        self.settle(link);
        self.shorten(link, 1);
    }

    /// Accounts for the packets of a run that have left already, so that the run starts with the
    /// packet being sent.
    fn settle(&mut self, link: LinkId) {
        let Some(service) = &mut self.links[link as usize].service else { return };
        let Request::Interface(id) = service.request else { return };
        let elapsed = self.now - service.start;
        // At the very end of a packet the next one has started only if the link has had its turn.
        let pending = elapsed.is_multiple_of(service.packet_ps) && self.turn <= (0, link);
        let sent = (elapsed / service.packet_ps).saturating_sub(u64::from(pending)).min(service.packets - 1);
        if sent > 0 {
            let start = service.start;
            service.start += sent * service.packet_ps;
            service.packets -= sent;
            self.traffic.transmitted(link, start, service.start);
            let interface = &mut self.interfaces[id as usize];
            interface.backlog -= sent;
            interface.queue[0].packets_left -= sent;
        }
    }

    /// Ends a settled run after at most `packets` packets.
    fn shorten(&mut self, link: LinkId, packets: u64) {
        let Some(service) = &mut self.links[link as usize].service else { return };
        if matches!(service.request, Request::Interface(_)) && service.packets > packets {
            service.packets = packets;
            self.events.end_run(link, service.start + packets * service.packet_ps);
        }
    }

    /// A packet in transit asks for the link of hop `hop`.
    fn request_hop(&mut self, transfer: TransferId, hop: u32, last: bool) {
        let link = self.plan.hops[self.flows[transfer as usize].first_hop + hop as usize];
        if let Some(Request::Transit { transfer: t, hop: h, count, last: l @ false }) =
            self.links[link as usize].waiting.back_mut()
            && (*t, *h) == (transfer, hop)
        {
            *count += 1;
            *l = last;
            return;
        }
        self.request(link, Request::Transit { transfer, hop, count: 1, last });
    }

    /// Starts the next service of an idle link.
    fn serve(&mut self, link: LinkId) {
        let plan = self.plan;
        let state = &mut self.links[link as usize];
        let Some(request) = state.waiting.pop_front() else {
            return;
        };
        let (transfer, packets, channel) = match request {
            Request::Interface(id) => {
                let interface = &self.interfaces[id as usize];
                match interface.is_mixed().then(|| interface.channel_for(link)) {
                    None => {
                        let message = interface.queue.front().expect("an interface that asks has a message");
                        let single = self.flows[message.transfer as usize].hops == 1;
                        // A run ends where the interface becomes free, so that its rank can go on.
                        let until_free = interface.backlog.saturating_sub(plan.system.interface.depth_packets);
                        let left = message.packets_left;
                        let run = if until_free > 0 { left.min(until_free) } else { left };
                        let alone = self.merge_runs && single && state.waiting.is_empty();
                        (message.transfer, if alone { run } else { 1 }, None)
                    }
                    Some(channel) => {
                        let channel = channel.expect("a mixed interface asks only for links its channels want");
                        let (number, _) = interface.channels[channel][0];
                        (interface.queue[(number - interface.gone) as usize].transfer, 1, Some(channel))
                    }
                }
            }
            Request::Transit { transfer, hop, count, last } => {
                let at_end = hop + 1 == self.flows[transfer as usize].hops;
                if count > 1 && !at_end {
                    // Forwarded packet by packet; the rest keeps its place at the front.
                    state.waiting.push_front(Request::Transit { transfer, hop, count: count - 1, last });
                }
                (transfer, if at_end { count as u64 } else { 1 }, None)
            }
        };
        let packet_ps = self.flows[transfer as usize].flits * plan.flit_ps[link as usize];
        state.service = Some(Service { request, transfer, start: self.now, packet_ps, packets, channel });
        let end = self.now + packets * packet_ps;
        if packets == 1 { self.events.end_single(link, end) } else { self.events.end_run(link, end) }
    }

    fn link_done(&mut self, link: LinkId, endpoints: &mut Endpoints) {
        let plan = self.plan;
        let service = self.links[link as usize].service.take().expect("an end belongs to a service");
        let hops = self.flows[service.transfer as usize].hops;
        self.traffic.transmitted(link, service.start, self.now);
        let (hop, last, sender) = match service.request {
            Request::Interface(id) => {
                let depth = plan.system.interface.depth_packets;
                let was_free = self.interfaces[id as usize].backlog <= depth;
                let last = self.sent_from_interface(id, link, &service);
                // Most packets change nothing for their sender.
                let freed = !was_free && self.interfaces[id as usize].backlog <= depth;
                (0, last, (last || freed).then_some(id))
            }
            Request::Transit { hop, count, last, .. } => (hop, last && service.packets == count as u64, None),
        };
        let at = self.now + plan.latency_ps[link as usize];
        if hop + 1 < hops {
            if at == self.now {
                self.request_hop(service.transfer, hop + 1, last);
            } else {
                self.events.push(at, Event::Arrive { transfer: service.transfer, hop: hop + 1, last });
            }
        } else if last {
            endpoints.arrived(service.transfer, at);
        }
        if self.links[link as usize].service.is_none() {
            self.serve(link);
        }
        if let Some(interface) = sender {
            endpoints.departed(interface, self.now, self);
        }
    }

    /// Accounts for packets an interface has sent over `link` and asks for its next one. Returns
    /// whether the last packet of a message was among them.
    fn sent_from_interface(&mut self, id: u32, link: LinkId, service: &Service) -> bool {
        let interface = &mut self.interfaces[id as usize];
        let number = match service.channel {
            Some(channel) => {
                let run = interface.channels[channel].front_mut().expect("served from this channel");
                run.1 -= 1;
                let (number, left) = *run;
                if left == 0 {
                    interface.channels[channel].pop_front();
                }
                number
            }
            None => interface.gone,
        };
        interface.backlog -= service.packets;
        let message = interface.message(number);
        message.packets_left -= service.packets;
        let last = message.packets_left == 0;
        interface.asked.retain(|&asked| asked != link);
        interface.trim();
        let unasked = interface.asked.is_empty();
        if interface.is_mixed() && unasked && (interface.backlog == 0 || interface.single_link().is_some()) {
            interface.unmix();
        }
        if interface.is_mixed() {
            self.ask(id);
        } else if let Some(next) = interface.queue.front().map(|m| m.first) {
            self.request_after(link, next, service.request);
        }
        last
    }

    /// Queues a request at `link`, which may be `done`, the one that has just become free.
    fn request_after(&mut self, done: LinkId, link: LinkId, request: Request) {
        if link == done {
            self.links[link as usize].waiting.push_back(request);
        } else {
            self.request(link, request);
        }
    }
}
