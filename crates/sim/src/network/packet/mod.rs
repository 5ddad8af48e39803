//! Packet fidelity: packets on FIFO links behind network interfaces.
//!
//! - A link sends one packet at a time. What wants to use it waits in one FIFO: packets in transit
//!   each once, a network interface once for the packet at its head (so interfaces take turns). Or inputs take
//!   turns, each with a FIFO of its own ([`Arbitration::RoundRobin`]).
//! - A packet is stored and forwarded at every node on its route, or cut through: its first flit asks for the next link
//!   ([`antiphon_model::system::Forwarding::CutThrough`]). Transit buffers are unlimited.
//! - An interface is free when its last packet has entered its queue of finite depth; messages for
//!   different links share that queue (head-of-line blocking).
//!
//! A run of packets of a transfer on a link is one event until something comes between: the cost of
//! long messages grows with the changes of traffic on their links, not with the packets.

mod border;
mod events;
mod interface;
mod link;
mod periodic;
mod runs;
mod service;
mod turns;

use super::Network;
use super::flow::{Flow, Hops, Tail};
use crate::Fidelity;
use crate::clock::Ticks;
use crate::cost::{CostModel, Transit};
use crate::endpoints::{Carrier, Endpoints};
use crate::flight::{Ranking, Shares};
use crate::plan::{Job, RunPlan};
use crate::recorder::Traffic;
use antiphon_base::error::{Code, Error, Result};
use antiphon_model::fabric::LinkId;
use antiphon_model::schedule::TransferId;
use antiphon_model::system::Arbitration;
pub use border::{Border, Crossing};
use events::{Arrival, Events, PacketEvent};
use interface::{Channel, InterfaceMessage, PacketInterface};
use link::{LinkRequest, PacketLink};
use service::{PacketService, PacketSource, ServiceTurn};
use smallvec::smallvec;
use turns::Inputs;

/// Refuses messages whose packets in transit could not be counted.
fn check(plan: &RunPlan) -> Result<()> {
    let packets = |job: &Job| plan.kind(job).packets.count;
    match plan.jobs.iter().find(|job| job.hops.len() > 1 && packets(job) > u32::MAX.into()) {
        Some(job) => {
            let what = format!("a message of {} packets over several links; use smaller chunks", packets(job));
            Err(Error::new(Code::TooLarge, what))
        }
        None => Ok(()),
    }
}

/// Whether each transfer comes to some link twice.
fn revisiting(plan: &RunPlan) -> Vec<bool> {
    // The transfer that came to each link last.
    let mut visited = vec![TransferId::MAX; plan.fabric.links.len()];
    let mut revisits = |id: TransferId| {
        let mut visit = |&link: &LinkId| std::mem::replace(&mut visited[link as usize], id) == id;
        let route = plan.route(&plan.jobs[id as usize]);
        route.len() > 1 && route.iter().any(&mut visit)
    };
    (0..plan.jobs.len() as TransferId).map(&mut revisits).collect()
}

/// See the module: links behind interfaces.
pub struct Packet<'a> {
    plan: &'a RunPlan<'a>,
    traffic: Traffic,
    ranking: Ranking,
    /// The flight of every interface.
    flights: Vec<u32>,
    revisiting: Vec<bool>,
    hops: Hops,
    now: Ticks,
    /// The turn of the event being processed.
    turn: ServiceTurn,
    events: Events,
    links: Vec<PacketLink>,
    interfaces: Vec<PacketInterface>,
    /// Number of the next run that feeds a link.
    next_feeder: u32,
    merge_runs: bool,
    /// Of every link, where inputs or flights take turns.
    turns: Option<Vec<Inputs>>,
    /// Of every link, where several flights use any.
    shares: Vec<Shares>,
    /// How packets pass nodes on their way.
    transit: Transit,
    /// Where it is a part of a fabric.
    border: Option<Border<'a>>,
}

impl Carrier for Packet<'_> {
    fn is_free(&self, interface: u32) -> bool {
        self.interfaces[interface as usize].backlog <= self.plan.system.interface.depth_packets
    }

    fn has_room(&self, interface: u32) -> bool {
        self.interfaces[interface as usize].queue.len() < 2
    }

    fn send(&mut self, transfer: TransferId, chunk: u64, interface: u32, now: Ticks) -> Ticks {
        let plan = self.plan;
        let job = &plan.jobs[transfer as usize];
        let flow = self.hops.first(transfer, job);
        let Some(first) = self.link_at(flow) else {
            // Both ranks on one node: nothing crosses a link.
            self.events.push(now, Arrival { flow, last: Some(Tail::of(chunk)) });
            return now;
        };
        let packets = plan.kind(job).packets.count;
        let depth = plan.system.interface.depth_packets;
        let state = &mut self.interfaces[interface as usize];
        let idle = state.backlog == 0;
        let joins = idle || (!state.is_mixed() && state.single_link() == Some(first));
        state.queue.push_back(InterfaceMessage::new(flow, Tail::of(chunk), first, packets));
        state.backlog += packets;
        let number = state.gone + state.queue.len() as u64 - 1;
        if idle {
            self.request(first, LinkRequest::Interface(interface));
        } else if joins {
            // A run under way must end where the interface, fuller now, becomes free.
            self.settle(first);
            let until_free = self.interfaces[interface as usize].backlog.saturating_sub(depth);
            if let Some(PacketService { source: PacketSource::Interface(id), packets, settled, .. }) =
                self.links[first as usize].service
                && id == interface
                && until_free > 0
            {
                self.cut(first, packets.min(settled + until_free));
            }
        } else {
            if self.interfaces[interface as usize].is_mixed() {
                self.interfaces[interface as usize].deal(number, packets);
                self.limit_runs(interface, 0);
            } else {
                self.split(interface);
            }
            self.ask(interface);
        }
        now + CostModel::issuing(packets, plan.issue)
    }

    fn launched(&mut self, flight: u32, rank: u64) {
        self.ranking.launched(flight, rank);
    }
}

impl<'a> Network<'a> for Packet<'a> {
    const FIDELITY: Fidelity = Fidelity::Packet;
    const WORK: (&'static str, u64) = ("events", 8_000_000_000);

    fn new(plan: &'a RunPlan<'a>, endpoints: &Endpoints, merge_runs: bool) -> Result<Self> {
        check(plan)?;
        let links = plan.fabric.links.len();
        Ok(Packet {
            plan,
            traffic: Traffic::new(plan),
            ranking: endpoints.ranking().clone(),
            flights: (0..endpoints.interfaces() as u32).map(|id| endpoints.flight_of(id)).collect(),
            revisiting: revisiting(plan),
            hops: Hops::new(plan),
            now: 0,
            turn: ServiceTurn::LAST,
            events: Events::new(links),
            links: plan
                .flit
                .iter()
                .zip(&plan.latency)
                .map(|(&flit, &latency)| PacketLink::new(flit, latency))
                .collect(),
            interfaces: (0..endpoints.interfaces()).map(|_| PacketInterface::default()).collect(),
            next_feeder: 0,
            merge_runs,
            turns: (plan.system.arbitration == Arbitration::RoundRobin || endpoints.ranking().is_any_fair())
                .then(|| vec![Inputs::default(); links]),
            shares: Shares::all(endpoints.ranking()),
            transit: CostModel::in_packets(plan.system).transit().ticked(plan.clock),
            border: None,
        })
    }

    fn next_at(&self) -> Ticks {
        self.events.next_at()
    }

    fn before_ranks(&mut self, now: Ticks) {
        (self.now, self.turn) = (now, ServiceTurn::LAST);
    }

    fn step(&mut self, endpoints: &mut Endpoints) {
        let Some((now, event)) = self.events.next() else { return };
        self.now = now;
        match event {
            PacketEvent::LinkDone { link } => {
                self.turn = ServiceTurn::done(link);
                self.link_done(link, endpoints);
                self.events.happened();
            }
            PacketEvent::Arrive(packet) if self.link_at(packet.flow).is_some() => {
                self.turn = ServiceTurn::packet(packet.flow.transfer);
                self.request_hop(packet);
            }
            PacketEvent::Arrive(Arrival { flow, last }) => {
                if let Some(tail) = last {
                    endpoints.arrived(flow.transfer, tail.arrived(flow.transfer, endpoints), now);
                }
            }
        }
    }

    fn into_traffic(self) -> Traffic {
        self.traffic
    }
}

impl Packet<'_> {
    /// The link that packets are to cross, unless their route ends before.
    fn link_at(&self, flow: Flow) -> Option<LinkId> {
        self.hops.at(flow)
    }

    /// The link that packets on a link are to cross next, unless their route ends there. Routes of one link need not be
    /// looked at, which would wait for memory.
    #[inline]
    fn link_after(&self, flow: Flow) -> Option<LinkId> {
        if self.plan.kinds[flow.kind as usize].goes_on { self.link_at(flow.next()) } else { None }
    }

    /// Turns an interface with messages for several links into a mixed one.
    fn split(&mut self, id: u32) {
        let first = self.interfaces[id as usize].queue[0].first;
        // A run on the link ends with the packet being sent; its packets are not dealt.
        self.limit(first, self.moment());
        self.settle(first);
        let on_link = match self.links[first as usize].service {
            Some(PacketService { source: PacketSource::Interface(other), packets, settled, .. }) if other == id => {
                packets - settled
            }
            _ => 0,
        };
        let state = &mut self.interfaces[id as usize];
        let count = self.plan.system.interface.virtual_channels.max(1) as usize;
        state.channels.resize(count, Channel::default());
        state.asked = smallvec![first];
        for index in 0..state.queue.len() {
            let packets = state.queue[index].packets_left - if index == 0 { on_link } else { 0 };
            state.deal(state.gone + index as u64, packets);
        }
    }

    /// Asks for every link that some channel of a mixed interface wants and that is not asked for.
    fn ask(&mut self, id: u32) {
        for channel in 0..self.interfaces[id as usize].channels.len() {
            let state = &mut self.interfaces[id as usize];
            let Channel { packets, link, .. } = state.channels[channel];
            if packets > 0 && !state.asked.contains(&link) {
                state.asked.push(link);
                self.request(link, LinkRequest::Interface(id));
            }
        }
    }

    /// Accounts for the packets of a service of an interface up to packet `until`, which have left.
    fn account(&mut self, id: u32, link: LinkId, service: &PacketService, until: u64) {
        let &PacketService { flow, packet_time, settled, .. } = service;
        let packets = until - settled;
        let start = service.start + settled * packet_time;
        self.traffic.transmitted_run(link, Some(flow.transfer), start, packets, packet_time, packet_time);
        self.links[link as usize].service.iter_mut().for_each(|service| service.settled = until);
        let interface = &mut self.interfaces[id as usize];
        interface.backlog -= packets;
        let channel = match service.source {
            PacketSource::Channel(_, channel) => Some(channel),
            _ => None,
        };
        let number = channel.map_or(interface.gone, |channel| interface.channels[channel as usize].number);
        interface.message(number).packets_left -= packets;
        let Some(channel) = channel else { return };
        interface.take_from(channel as usize, packets);
        let head = interface.channels[channel as usize];
        if head.number != number && head.packets > 0 {
            self.give_way(id, channel, head);
        }
    }

    /// A run of an interface ends where an older message, or an earlier channel, wants its link.
    fn give_way(&mut self, id: u32, channel: u16, head: Channel) {
        if let Some(PacketService { source: PacketSource::Channel(of, running), .. }) =
            self.links[head.link as usize].service
            && of == id
            && (head.number, channel) < (self.interfaces[id as usize].channels[running as usize].number, running)
        {
            self.limit(head.link, self.moment());
        }
    }

    /// Packets of an interface that are on links, as far as they are not accounted for.
    fn under_way(&self, id: u32) -> u64 {
        let services = self.interfaces[id as usize].asked.iter().map(|&link| &self.links[link as usize].service);
        let own = services.flatten().filter(|service| service.is_of(id));
        own.map(|service| service.packets - service.settled).sum()
    }

    /// Packets that an interface must send before it is free.
    fn until_free(&self, id: u32) -> u64 {
        self.interfaces[id as usize].backlog.saturating_sub(self.plan.system.interface.depth_packets)
    }

    /// Another `packets` of a mixed interface are going to leave: if it may become free before all that is on links has
    /// left, every packet is accounted for when it leaves.
    fn limit_runs(&mut self, id: u32, packets: u64) {
        let until_free = self.until_free(id);
        if until_free == 0 || self.under_way(id) + packets <= until_free {
            return;
        }
        for place in 0..self.interfaces[id as usize].asked.len() {
            let link = self.interfaces[id as usize].asked[place];
            if self.limit_own(id, link) {
                self.settle(link);
            }
        }
    }

    /// If a run of an interface is on a link, it ends with the packet being sent; whether there is one.
    fn limit_own(&mut self, id: u32, link: LinkId) -> bool {
        let own = self.links[link as usize].service.is_some_and(|service| service.is_of(id));
        if own {
            self.limit(link, self.moment());
        }
        own
    }

    /// Asks for the next packet of an interface that has sent one over the link `done`.
    fn ask_again(&mut self, id: u32, done: LinkId) {
        let interface = &mut self.interfaces[id as usize];
        interface.asked.retain(|asked| *asked != done);
        interface.trim();
        let unasked = interface.asked.is_empty();
        if interface.is_mixed() && unasked && (interface.backlog == 0 || interface.single_link().is_some()) {
            interface.unmix();
        }
        if interface.is_mixed() {
            self.ask(id);
            if self.interfaces[id as usize].unmixes() {
                let link = self.interfaces[id as usize].asked[0];
                self.limit_own(id, link);
            }
        } else if let Some(next) = interface.queue.front().map(|m| m.first) {
            self.request(next, LinkRequest::Interface(id));
        }
    }
}
