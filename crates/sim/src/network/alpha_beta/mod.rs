//! Alpha-beta fidelity: whole messages; a link serves, of those that have come, the first in schedule order.
//!
//! A message takes its links' latencies, one flit a link, and its size over the slowest rate (cut-through). Ranks do
//! what they do at every fidelity (`endpoints`), with an interface for every outgoing link: network interfaces
//! and step order of ranks are not modelled. O(messages * (hops + dependencies)), and a logarithm of
//! the messages under way.

mod link;
mod periodic;

use super::Network;
use crate::Fidelity;
use crate::agenda::Agenda;
use crate::clock::Ticks;
use crate::endpoints::{Carrier, Endpoints};
use crate::flight::Ranking;
use crate::plan::RunPlan;
use crate::recorder::Traffic;
use antiphon_base::error::Result;
use antiphon_model::schedule::{Issue, TransferId};
use link::{MessageAtLink, MessageLink, MessageRank};
use std::cmp::Reverse;
use std::collections::VecDeque;

/// See the module.
pub struct AlphaBeta<'a> {
    plan: &'a RunPlan<'a>,
    traffic: Traffic,
    links: Vec<MessageLink>,
    /// Messages in every interface.
    queued: Vec<u32>,
    ranking: Ranking,
    /// When which interfaces are left next; of simultaneous events these come first.
    departures: Agenda<u32>,
    /// When messages leave every interface: their transfers and chunks.
    leaving: Vec<VecDeque<(Ticks, TransferId, u64)>>,
    /// Other events to come.
    agenda: Agenda<LinkEvent>,
    /// Messages timed to the end of their routes, of several links or none; the ranks not told yet.
    arrivals: Vec<(TransferId, u64, Ticks)>,
}

/// What is to happen at a link of several interfaces or flights.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LinkEvent {
    /// It is free.
    Free { link: u32 },
    /// A message has come to it.
    Come { link: u32, message: MessageAtLink },
}

impl Carrier for AlphaBeta<'_> {
    fn is_free(&self, interface: u32) -> bool {
        self.has_room(interface)
    }

    fn has_room(&self, interface: u32) -> bool {
        self.queued[interface as usize] < 2
    }

    fn send(&mut self, transfer: TransferId, chunk: u64, interface: u32, now: Ticks) -> Ticks {
        let job = &self.plan.jobs[transfer as usize];
        let turn = (job.phase, self.plan.slot(job, chunk), transfer);
        if !job.hops.is_empty() {
            self.queued[interface as usize] += 1;
        }
        self.carry(MessageAtLink { turn, hop: 0, interface, head: now, tail: now });
        now
    }

    fn launched(&mut self, flight: u32, rank: u64) {
        self.ranking.launched(flight, rank);
    }
}

impl<'a> Network<'a> for AlphaBeta<'a> {
    const FIDELITY: Fidelity = Fidelity::AlphaBeta;
    const ISSUE: Option<Issue> = Some(Issue::Links);
    const WORK: (&'static str, u64) = ("events", 8_000_000_000);

    fn new(plan: &'a RunPlan<'a>, endpoints: &Endpoints, _merge: bool) -> Result<Self> {
        Ok(AlphaBeta {
            plan,
            traffic: Traffic::new(plan),
            links: MessageLink::all(plan),
            queued: vec![0; endpoints.interfaces()],
            ranking: endpoints.ranking().clone(),
            departures: Agenda::new(),
            leaving: vec![VecDeque::new(); endpoints.interfaces()],
            agenda: Agenda::new(),
            arrivals: vec![],
        })
    }

    fn next_at(&self) -> Ticks {
        self.departures.next_at().min(self.agenda.next_at())
    }

    fn step(&mut self, endpoints: &mut Endpoints) {
        if self.departures.next_at() <= self.agenda.next_at() {
            let Some((now, interface)) = self.departures.pop() else { return };
            self.depart(interface, now, endpoints);
        } else {
            let Some((now, event)) = self.agenda.pop() else { return };
            let (LinkEvent::Free { link } | LinkEvent::Come { link, .. }) = event;
            if let LinkEvent::Come { message, .. } = event {
                let rank = self.rank(link, message, now);
                self.links[link as usize].waiting.push(Reverse((rank, message)));
            }
            self.serve(link, now);
        }
        self.after_ranks(endpoints);
    }

    fn after_ranks(&mut self, endpoints: &mut Endpoints) {
        self.arrivals.drain(..).for_each(|(transfer, chunk, at)| endpoints.arrived(transfer, chunk, at));
    }

    fn into_traffic(self) -> Traffic {
        self.traffic
    }
}

impl AlphaBeta<'_> {
    /// The first of its messages has left an interface.
    fn depart(&mut self, interface: u32, now: Ticks, endpoints: &mut Endpoints) {
        let (plan, leaving) = (self.plan, &mut self.leaving[interface as usize]);
        let Some((_, id, chunk)) = leaving.pop_front() else { return };
        if let Some(&(at, ..)) = leaving.front() {
            self.departures.push(at, interface);
        }
        endpoints.sent(id, chunk, now);
        let job = &plan.jobs[id as usize];
        if let [link] = *plan.route(job) {
            endpoints.arrived(id, chunk, now + plan.latency[link as usize]);
        }
        self.queued[interface as usize] -= 1;
        endpoints.departed(interface, now, self);
    }

    /// A message comes to the next link of its route, or to its end.
    fn carry(&mut self, message: MessageAtLink) {
        let (_, slot, id) = message.turn;
        let job = &self.plan.jobs[id as usize];
        match self.plan.route(job).get(message.hop as usize) {
            None => self.arrivals.push((id, self.plan.chunk(job, slot), message.tail)),
            Some(&link) if self.links[link as usize].is_from_one && !self.ranking.is_shared(link) => {
                self.cross(link, message);
            }
            Some(&link) => self.agenda.push(message.head, LinkEvent::Come { link, message }),
        }
    }

    /// Where a message that has come to a link is among those that wait.
    fn rank(&mut self, link: u32, message: MessageAtLink, now: Ticks) -> MessageRank {
        let job = &self.plan.jobs[message.turn.2 as usize];
        if !self.ranking.is_shared(link) {
            return (self.ranking.of(job.flight), 0);
        }
        let shares = &mut self.links[link as usize].shares;
        let served = shares.come(job.flight, now);
        if !self.ranking.is_fair(link) {
            return (self.ranking.of(job.flight), 0);
        }
        shares.add(job.flight, self.plan.kind(job).packets.count * self.plan.packet_time(job, link));
        (served, job.flight)
    }

    /// Serves the next message on a link, if it is free.
    fn serve(&mut self, link: u32, now: Ticks) {
        let at = &mut self.links[link as usize];
        if at.free_at > now {
            return;
        }
        if let Some(Reverse(((served, _), message))) = at.waiting.pop() {
            if self.ranking.is_shared(link) {
                let job = &self.plan.jobs[message.turn.2 as usize];
                let time = self.plan.kind(job).packets.count * self.plan.packet_time(job, link);
                let level = if self.ranking.is_fair(link) { served } else { 0 };
                self.traffic.waited(link, at.shares.begin(job.flight, level, now, time));
            }
            self.cross(link, message);
            self.agenda.push(self.links[link as usize].free_at, LinkEvent::Free { link });
        }
    }

    /// A message crosses a link, and moves on if its route does.
    fn cross(&mut self, link: u32, message: MessageAtLink) {
        let (plan, (_, slot, id)) = (self.plan, message.turn);
        let job = &plan.jobs[id as usize];
        let (flit, latency) = (plan.flit[link as usize], plan.latency[link as usize]);
        let free_at = &mut self.links[link as usize].free_at;
        let start = message.head.max(*free_at);
        let end = start + plan.kind(job).packets.count * plan.packet_time(job, link);
        *free_at = end;
        self.traffic.transmitted(link, Some(id), start, end);
        if message.hop == 0 {
            let leaving = &mut self.leaving[message.interface as usize];
            leaving.push_back((end, id, plan.chunk(job, slot)));
            if leaving.len() == 1 {
                self.departures.push(end, message.interface);
            }
            // Then it arrives when it has left.
            if job.hops.len() == 1 {
                return;
            }
        }
        // The tail leaves after the head and, but for the first link, one flit after it came in.
        let tail = if message.hop == 0 { end } else { end.max(message.tail + flit) };
        // The next link starts when the first flit is there.
        let (head, tail) = (start + latency + flit, tail + latency);
        self.carry(MessageAtLink { hop: message.hop + 1, head, tail, ..message });
    }
}
