//! Packet fidelity: packets on FIFO links behind network interfaces.
//!
//! - A link sends one packet at a time. What wants to use it waits in one FIFO: packets in transit
//!   each once, a network interface once for the packet at its head (so interfaces take turns).
//! - A packet is stored and forwarded at every node on its route; transit buffers are unlimited.
//! - An interface is free when its last packet has entered its queue of finite depth; messages for
//!   different links share that queue (head-of-line blocking).
//!
//! A run of packets of a transfer on a link is one event until something comes between: the cost of
//! long messages grows with the changes of traffic on their links, not with the packets.

mod events;
mod interface;
mod link;
mod periodic;
mod runs;
mod service;

use super::budget::Budget;
use super::endpoints::{Carrier, Endpoints};
use super::period::Periods;
use super::plan::{Job, Plan};
use super::recorder::{Recorder, Traffic};
use super::{Engine, Progress};
use crate::error::{Code, Error, Result};
use crate::fabric::LinkId;
use crate::schedule::TransferId;
use crate::simulate::clock::Ticks;
use events::{Event, Events};
use interface::{Interface, Message};
use link::{Link, Request};
use service::{Service, Source};
use std::collections::VecDeque;

/// See the module.
pub struct Packet {
    /// Whether runs of packets that nothing interrupts are one event; never changes a result.
    pub merge_runs: bool,
    /// Whether whole periods are skipped; never changes a result.
    pub skip_periods: bool,
}

/// Most events of one run: minutes.
const MAX_EVENTS: u64 = 8_000_000_000;

impl Default for Packet {
    fn default() -> Self {
        Packet { merge_runs: true, skip_periods: true }
    }
}

impl Engine for Packet {
    fn run(&self, plan: &Plan, recorder: &mut Recorder, progress: &mut Progress) -> Result<u64> {
        let mut endpoints = Endpoints::new(plan, &mut recorder.deliveries, plan.hand_off, plan.schedule.endpoint.issue);
        let mut network = Network::new(plan, &mut recorder.traffic, endpoints.interfaces(), self.merge_runs);
        let mut periods = self.skip_periods.then(Periods::new);
        let (mut events, mut budget) = (0u64, Budget::new(MAX_EVENTS, "events"));
        check(plan)?;
        endpoints.begin(&mut network);
        loop {
            let (network_at, endpoints_at) = (network.events.next_at(), endpoints.next_at());
            if network_at.min(endpoints_at) == Ticks::MAX {
                break;
            }
            if network_at <= endpoints_at {
                network.step(&mut endpoints);
            } else {
                (network.now, network.turn) = (endpoints_at, LAST);
                endpoints.step(&mut network);
                if let Some(periods) = &mut periods {
                    periods.look(endpoints_at, events, &mut endpoints, &mut network);
                }
            }
            events += 1;
            if events.is_multiple_of(1 << 13) {
                budget.judge(events, endpoints.progress(), progress)?;
            }
        }
        endpoints.finish(network.now)?;
        Ok(events)
    }
}

/// Refuses messages whose packets in transit could not be counted.
fn check(plan: &Plan) -> Result<()> {
    match plan.jobs.iter().find(|job| job.hops.len() > 1 && job.packets.count > u32::MAX.into()) {
        Some(job) => {
            let what = format!("a message of {} packets over several links; use smaller chunks", job.packets.count);
            Err(Error::new(Code::TooLarge, what))
        }
        None => Ok(()),
    }
}

/// What links need to know of a transfer, close together.
struct Flow {
    /// Index of its first link in [`Plan::hops`], and number of links.
    first_hop: usize,
    hops: u32,
    /// Flits of a packet.
    flits: u64,
}

/// Turn of what is not the end of a service: after all links.
const LAST: LinkId = LinkId::MAX;

/// The network: links behind interfaces.
struct Network<'a> {
    plan: &'a Plan<'a>,
    traffic: &'a mut Traffic,
    flows: Vec<Flow>,
    now: Ticks,
    /// The link whose service ends in the event being processed.
    turn: LinkId,
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

    fn send(&mut self, transfer: TransferId, interface: u32, now: Ticks) -> Ticks {
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
            self.settle(first);
            let until_free = self.interfaces[interface as usize].backlog.saturating_sub(depth);
            if let Some(Service { source: Source::Interface(id), packets, settled, .. }) =
                self.links[first as usize].service
                && id == interface
                && until_free > 0
            {
                self.cut(first, packets.min(settled + until_free));
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
        now + (packets + 1) * plan.issue
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
            turn: 0,
            events: Events::new(links),
            links: (0..links).map(|_| Link::default()).collect(),
            interfaces: (0..interfaces).map(|_| Interface::default()).collect(),
            merge_runs,
        }
    }

    /// The link that is hop `hop` of a transfer, unless the route ends before.
    fn link_at(&self, transfer: TransferId, hop: u32) -> Option<LinkId> {
        let flow = &self.flows[transfer as usize];
        (hop < flow.hops).then(|| self.plan.hops[flow.first_hop + hop as usize])
    }

    /// Processes the next event.
    fn step(&mut self, endpoints: &mut Endpoints) {
        let Some((now, event)) = self.events.next() else { return };
        (self.now, self.turn) = (now, LAST);
        match event {
            Event::LinkDone { link } => {
                self.turn = link;
                self.link_done(link, endpoints);
            }
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
        self.limit(first, self.moment());
        self.settle(first);
        let on_link = match self.links[first as usize].service {
            Some(Service { source: Source::Interface(other), packets, settled, .. }) if other == id => {
                packets - settled
            }
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

    /// Accounts for the packets of a service of an interface up to packet `until`, which have left.
    fn account(&mut self, id: u32, link: LinkId, service: &Service, until: u64) {
        let &Service { packet_time, settled, .. } = service;
        let packets = until - settled;
        self.traffic.transmitted_run(link, service.start + settled * packet_time, packets, packet_time, packet_time);
        let interface = &mut self.interfaces[id as usize];
        let number = match service.source {
            Source::Channel(_, channel) => interface.take_from(channel as usize),
            _ => interface.gone,
        };
        interface.backlog -= packets;
        interface.message(number).packets_left -= packets;
    }

    /// Asks for the next packet of an interface that has sent one over the link `done`.
    fn ask_again(&mut self, id: u32, done: LinkId) {
        let interface = &mut self.interfaces[id as usize];
        interface.asked.retain(|&asked| asked != done);
        interface.trim();
        let unasked = interface.asked.is_empty();
        if interface.is_mixed() && unasked && (interface.backlog == 0 || interface.single_link().is_some()) {
            interface.unmix();
        }
        if interface.is_mixed() {
            self.ask(id);
        } else if let Some(next) = interface.queue.front().map(|m| m.first) {
            self.request(next, Request::Interface(id));
        }
    }
}
