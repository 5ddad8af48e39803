//! Links: one queue each, of packets in transit and of interfaces, served in order.

use super::events::Arrival;
use super::runs::Feeder;
use super::service::{PacketService, PacketSource, ServiceMoment, ServiceTurn};
use super::{Endpoints, Flow, Packet, Tail};
use crate::clock::Ticks;
use antiphon_model::fabric::LinkId;
use std::collections::VecDeque;
use thin_vec::ThinVec;

/// What waits for a link.
#[derive(Clone, Copy)]
pub enum LinkRequest {
    /// The packet at the head of an interface.
    Interface(u32),
    /// Packets in transit: the next `count` of a flow. Only the last of them may be the `last` of its message. There can be millions of these; a run has
    /// fewer than 2^32 packets on routes of several links.
    Transit { flow: Flow, count: u32, last: Option<Tail> },
}

/// See the module. Two lines of a cache: large runs wait for memory.
#[repr(align(64))]
pub struct PacketLink {
    pub waiting: VecDeque<LinkRequest>,
    pub service: Option<PacketService>,
    /// Runs that feed it. If any brings more packets, there is a service.
    pub feeders: ThinVec<Feeder>,
    /// What a flit takes, and what it takes to the other end.
    pub flit: Ticks,
    pub latency: Ticks,
}

impl PacketLink {
    /// An idle one.
    pub fn new(flit: Ticks, latency: Ticks) -> Self {
        PacketLink { waiting: VecDeque::new(), service: None, feeders: ThinVec::new(), flit, latency }
    }

    /// A run that feeds it.
    pub fn feeder(&mut self, number: u32) -> &mut Feeder {
        self.feeders.iter_mut().find(|feeder| feeder.number == number).expect("it is fed by this run")
    }
}

/// Appends a request to those that wait.
pub fn append(waiting: &mut VecDeque<LinkRequest>, request: LinkRequest) {
    if let LinkRequest::Transit { flow, count, last } = request
        && let Some(LinkRequest::Transit { flow: f, count: c, last: l @ None }) = waiting.back_mut()
        && *f == flow
    {
        *c += count;
        *l = last;
    } else {
        waiting.push_back(request);
    }
}

impl Packet<'_> {
    /// Queues a request at a link, cutting a run of packets short to let it in.
    pub fn request(&mut self, link: LinkId, request: LinkRequest) {
        let moment = self.moment();
        if self.ranking.is_shared(link) {
            let flight = self.flight(&request);
            self.shares[link as usize].come(flight, self.now);
        }
        if self.links[link as usize].service.is_none() {
            // Nothing waits for an idle link.
            let service = self.serve_request(link, request);
            self.start(link, Some(service));
            return;
        }
        self.limit(link, moment);
        self.catch_up(link, moment);
        self.queue(link, request);
        // Only a run that was cut is retired here. Any other end is an event, which tells of what has come; it is still to
        // happen where a flight is launched at its moment.
        if let Some(service) = &self.links[link as usize].service
            && service.is_cut
            && matches!(service.source, PacketSource::Run(_) | PacketSource::Queue)
            && service.is_over(ServiceTurn::done(link), moment)
        {
            self.retire(link, moment);
            self.serve(link);
        }
    }

    /// Queues a request where it belongs.
    pub fn queue(&mut self, link: LinkId, request: LinkRequest) {
        match self.ranking.is_shared(link) {
            _ if self.turns_of(link).is_some() => self.queue_by_input(link, request),
            true => self.queue_by_rank(link, request),
            false => append(&mut self.links[link as usize].waiting, request),
        }
    }

    /// The rank of the flight of a request.
    pub fn rank(&self, request: &LinkRequest) -> u64 {
        self.ranking.of(self.flight(request))
    }

    /// The flight of a request.
    pub fn flight(&self, request: &LinkRequest) -> u32 {
        match *request {
            LinkRequest::Interface(id) => self.flights[id as usize],
            LinkRequest::Transit { flow, .. } => self.plan.jobs[flow.transfer as usize].flight,
        }
    }

    /// Queues a request behind those of flights that go first, and of its own.
    fn queue_by_rank(&mut self, link: LinkId, request: LinkRequest) {
        let own = self.rank(&request);
        let waiting = &self.links[link as usize].waiting;
        let behind = waiting.iter().rev().take_while(|other| self.rank(other) > own).count();
        let place = waiting.len() - behind;
        match behind {
            0 => append(&mut self.links[link as usize].waiting, request),
            _ => self.links[link as usize].waiting.insert(place, request),
        }
    }

    /// Ends a run that was cut and is over.
    fn retire(&mut self, link: LinkId, moment: ServiceMoment) {
        self.events.end_run(link, Ticks::MAX);
        let Some(service) = self.links[link as usize].service else { return };
        let PacketService { flow, start, packets, packet_time, spacing, .. } = service;
        self.traffic.transmitted_run(link, Some(flow.transfer), start, packets, packet_time, spacing);
        self.took_turn(link, &service);
        if let Some((next, feeder)) = self.fed(&service) {
            self.end_feeding(next, feeder, moment);
        }
        self.links[link as usize].service = None;
    }

    /// A packet in transit asks for the next link.
    pub fn request_hop(&mut self, Arrival { flow, last }: Arrival) {
        let link = self.link_at(flow).expect("the route goes on");
        self.request(link, LinkRequest::Transit { flow, count: 1, last });
    }

    /// Starts the next service of an idle link, and of those that wait for it.
    pub fn serve(&mut self, link: LinkId) {
        let service = self.next_service(link);
        self.start(link, service);
    }

    fn start(&mut self, mut link: LinkId, mut next: Option<PacketService>) {
        while let Some(service) = next {
            match self.begin(link, service) {
                Some(fed) => link = fed,
                None => return,
            }
            next = self.next_service(link);
        }
    }

    fn next_service(&mut self, link: LinkId) -> Option<PacketService> {
        match self.next_request(link) {
            Some(request) => Some(self.serve_request(link, request)),
            None if !self.links[link as usize].feeders.is_empty() => self.follow(link),
            None => None,
        }
    }

    /// The service that a request gets which is the first.
    fn serve_request(&mut self, link: LinkId, request: LinkRequest) -> PacketService {
        match request {
            LinkRequest::Interface(id) => self.serve_interface(link, id),
            LinkRequest::Transit { flow, count, last } => {
                let is_fed = !self.links[link as usize].feeders.is_empty();
                let extends = last.is_none() && is_fed && !self.is_wanted(link);
                let merges = (count > 1 || extends) && self.merges(flow, link) && !self.has_rivals(link, request);
                if count > 1 && !merges {
                    // The rest keeps its place at the front.
                    let rest = LinkRequest::Transit { flow, count: count - 1, last };
                    self.put_back(link, rest);
                }
                let (packets, last) = if merges { (count, last) } else { (1, last.filter(|_| count == 1)) };
                let mut service = self.service(link, PacketSource::Queue, flow, packets as u64, last);
                self.set_waited(link, service.packets);
                if extends && merges {
                    self.extend(link, &mut service);
                }
                service
            }
        }
    }

    /// A service that starts now, of packets back to back.
    pub fn service(
        &self,
        link: LinkId,
        source: PacketSource,
        flow: Flow,
        packets: u64,
        last: Option<Tail>,
    ) -> PacketService {
        let packet_time = self.plan.kinds[flow.kind as usize].packets.flits * self.links[link as usize].flit;
        let (start, spacing) = (self.now, packet_time);
        PacketService {
            source,
            flow,
            last,
            start,
            spacing,
            packet_time,
            packets,
            is_cut: false,
            settled: 0,
            feeds: None,
        }
    }

    /// The next service of an interface that has the turn.
    fn serve_interface(&mut self, link: LinkId, id: u32) -> PacketService {
        let interface = &self.interfaces[id as usize];
        let (source, message, run) = if interface.is_mixed() {
            let channel = interface.channel_for(link).expect("a mixed interface asks only for links its channels want");
            let head = interface.channels[channel];
            let message = interface.queue[(head.number - interface.gone) as usize];
            (PacketSource::Channel(id, channel as u16), message, if interface.unmixes() { 1 } else { head.packets })
        } else {
            let message = *interface.queue.front().expect("an interface that asks has a message");
            (PacketSource::Interface(id), message, message.packets_left)
        };
        let alone = run > 1 && !self.is_wanted(link) && self.merges(message.flow, link);
        // A run ends where the interface becomes free, so that its rank can go on.
        let packets = match self.until_free(id) {
            _ if !alone => 1,
            0 => run,
            until_free => run.min(until_free.saturating_sub(self.under_way(id))).max(1),
        };
        if let PacketSource::Channel(..) = source {
            self.limit_runs(id, packets);
        }
        let last = (packets == message.packets_left).then_some(message.tail);
        let mut service = self.service(link, source, message.flow, packets, last);
        if packets > 1
            && !self.links[link as usize].feeders.is_empty()
            && let Some(coming) = self.coming(link)
        {
            service.packets = packets.min(service.left_before(ServiceTurn::done(link), coming.at) + 1);
            service.last.take_if(|_| service.packets < packets);
        }
        service
    }

    /// Starts a service on an idle link. Returns the next link of its route if this waits for it.
    fn begin(&mut self, link: LinkId, mut service: PacketService) -> Option<LinkId> {
        let PacketService { source, flow, packets, start, .. } = service;
        if packets > 1 {
            service.feeds = self.link_after(flow).map(|_| self.next_feeder);
            self.next_feeder = self.next_feeder.wrapping_add(1);
        }
        let end = service.end_of(packets - 1);
        if self.ranking.is_shared(link) {
            let flight = self.plan.jobs[flow.transfer as usize].flight;
            let shares = &mut self.shares[link as usize];
            let wait = shares.begin(flight, shares.served(flight), start, service.packet_time);
            if self.ranking.is_fair(link) {
                shares.add(flight, service.packet_time);
            }
            self.traffic.waited(link, wait);
        }
        self.links[link as usize].service = Some(service);
        let follows = matches!(source, PacketSource::Run(_));
        if packets == 1 && start == self.now && !follows {
            self.events.end_single(link, end);
            if self.is_told_early() {
                self.go_on(link);
            }
        } else if packets == 1 && follows && self.goes_on(flow, link) {
            // Until it has begun it may be cut.
            self.events.end_run(link, start + 1);
        } else {
            self.events.end_run(link, end);
        }
        let next = self.feed(link);
        // Where inputs take turns, what waited does not all go before what comes.
        if self.turns_of(link).is_some()
            && packets > 1
            && let Some(coming) = self.coming(link)
        {
            self.limit(link, coming.at);
        }
        next.filter(|&next| self.links[next as usize].service.is_none())
    }

    /// By how much a packet asks for its next link before all of it has come there: its first flit has, and passed the router; and
    /// its last one leaves no sooner than it has come. None where packets are stored and forwarded.
    #[inline]
    pub fn ahead(&self, flow: Flow, link: LinkId) -> Ticks {
        if self.transit.is_stored() { 0 } else { self.first_flit_ahead(flow, link) }
    }

    fn first_flit_ahead(&self, flow: Flow, link: LinkId) -> Ticks {
        let Some(next) = self.link_after(flow) else { return 0 };
        let flit = self.links[link as usize].flit.min(self.links[next as usize].flit);
        self.transit.ahead(self.plan.kinds[flow.kind as usize].packets.flits, flit)
    }

    /// Whether anything is told of packets before their ends.
    #[inline]
    fn is_told_early(&self) -> bool {
        !self.transit.is_stored() || self.border.is_some()
    }

    /// Whether the only packet of a service is told of when it begins: it asks for its next link before its end, or comes to
    /// another part.
    #[inline]
    fn goes_on(&self, flow: Flow, link: LinkId) -> bool {
        self.ahead(flow, link) > 0 || self.leaves(link)
    }

    /// Tells of the only packet of a service, which has begun, if no run does.
    fn go_on(&mut self, link: LinkId) {
        let PacketLink { service, latency, .. } = self.links[link as usize];
        let Some(service @ PacketService { flow, last, feeds: None, .. }) = service else { return };
        let ahead = self.ahead(flow, link);
        let at = service.end_of(0) + latency - ahead;
        if self.leaves(link) {
            self.cross(at, Arrival { flow, last });
        } else if ahead > 0 {
            self.events.push(at, Arrival { flow: flow.next(), last });
        }
    }

    /// The service of a link is over.
    pub fn link_done(&mut self, link: LinkId, endpoints: &mut Endpoints) {
        let service = self.links[link as usize].service.expect("an end belongs to a service");
        let PacketService { flow, last, packets, .. } = service;
        let transfer = flow.transfer;
        if self.is_told_early() && packets > 0 && self.now < service.end_of(packets - 1) {
            self.go_on(link);
            self.events.end_run(link, service.end_of(packets - 1));
            return;
        }
        self.catch_up(link, self.moment());
        self.took_turn(link, &service);
        let mut sender = None;
        if let PacketSource::Interface(id) | PacketSource::Channel(id, _) = service.source {
            let depth = self.plan.system.interface.depth_packets;
            let was_free = self.interfaces[id as usize].backlog <= depth;
            self.account(id, link, &service, packets);
            self.ask_again(id, link);
            // Most packets change nothing for their sender.
            let freed = !was_free && self.interfaces[id as usize].backlog <= depth;
            sender = (last.is_some() || freed).then_some(id);
            if let Some(tail) = last.filter(|_| packets > 0) {
                endpoints.sent(transfer, tail.sent(transfer, endpoints), self.now);
            }
        } else {
            let PacketService { start, packet_time, spacing, .. } = service;
            self.traffic.transmitted_run(link, Some(transfer), start, packets, packet_time, spacing);
        }
        let at = self.now + self.links[link as usize].latency;
        if let Some((next, feeder)) = self.fed(&service) {
            self.end_feeding(next, feeder, (self.now, self.turn.after()));
        } else if packets == 0 {
            // It was cut before it began.
        } else if self.goes_on(flow, link) {
            // It has.
        } else if self.link_after(flow).is_none() {
            if let Some(tail) = last {
                endpoints.arrived(transfer, tail.arrived(transfer, endpoints), at);
            }
        } else if at == self.now {
            self.request_hop(Arrival { flow: flow.next(), last });
        } else {
            self.events.push(at, Arrival { flow: flow.next(), last });
        }
        self.links[link as usize].service = None;
        self.serve(link);
        if let Some(interface) = sender {
            endpoints.departed(interface, self.now, self);
        }
    }
}
