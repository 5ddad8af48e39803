//! Alpha-beta fidelity: whole messages, each link serving its messages in schedule order.
//!
//! A message takes its links' latencies, one flit a link, and its size over the slowest rate (cut-through). The order
//! on links being given, a message is timed all along its route as soon as those before it on its links are. Ranks do
//! what they do at every fidelity (`endpoints`), with an interface for every outgoing link: network interfaces
//! and step order of ranks are not modelled. O(messages * (hops + dependencies)), and a logarithm of
//! the messages under way.

mod link;
mod periodic;

use super::Network;
use crate::error::Result;
use crate::schedule::{Issue, TransferId};
use crate::simulate::Fidelity;
use crate::simulate::agenda::Agenda;
use crate::simulate::clock::Ticks;
use crate::simulate::endpoints::{Carrier, Endpoints};
use crate::simulate::flight::Ranking;
use crate::simulate::plan::Plan;
use crate::simulate::recorder::Traffic;
use link::{Link, Message};
use std::cmp::Reverse;

/// See the module.
pub struct AlphaBeta<'a> {
    plan: &'a Plan<'a>,
    traffic: Traffic,
    links: Vec<Link>,
    /// Chunks taken of every transfer.
    taken: Vec<u64>,
    /// Messages in every interface.
    queued: Vec<u32>,
    ranking: Ranking,
    /// Whether links serve messages as they come, since ranks have an order of their own.
    any_order: bool,
    /// Events to come.
    agenda: Agenda<Event>,
    /// Messages on their way, between calls none.
    moving: Vec<Message>,
    /// Messages timed to the end of their first link, and to the end of their routes; the ranks not told yet.
    sent: Vec<(TransferId, Ticks)>,
    arrivals: Vec<(TransferId, Ticks)>,
}

/// What is to happen. Of simultaneous events departures come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A message has left its interface.
    Departed { interface: u32 },
    /// A link that several flights use is free.
    Free { link: u32 },
    /// A message has come to one.
    Come { link: u32, message: Message },
}

impl Carrier for AlphaBeta<'_> {
    fn is_free(&self, interface: u32) -> bool {
        self.has_room(interface)
    }

    fn has_room(&self, interface: u32) -> bool {
        self.queued[interface as usize] < 2
    }

    fn send(&mut self, transfer: TransferId, interface: u32, now: Ticks) -> Ticks {
        let job = &self.plan.jobs[transfer as usize];
        let chunk = &mut self.taken[transfer as usize];
        let turn = (job.phase, self.plan.slot(job, *chunk), transfer);
        *chunk += 1;
        if !job.hops.is_empty() {
            self.queued[interface as usize] += 1;
        }
        self.carry(Message { turn, hop: 0, interface, head: now, tail: now });
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

    fn new(plan: &'a Plan<'a>, endpoints: &Endpoints, _merge: bool) -> Result<Self> {
        Ok(AlphaBeta {
            plan,
            traffic: Traffic::new(plan),
            links: Link::all(plan),
            taken: vec![0; plan.jobs.len()],
            queued: vec![0; endpoints.interfaces()],
            ranking: endpoints.ranking().clone(),
            any_order: plan.units.is_some(),
            agenda: Agenda::new(),
            moving: vec![],
            sent: vec![],
            arrivals: vec![],
        })
    }

    fn next_at(&self) -> Ticks {
        self.agenda.next_at()
    }

    fn step(&mut self, endpoints: &mut Endpoints) {
        let Some((now, event)) = self.agenda.pop() else { return };
        match event {
            Event::Departed { interface } => {
                self.queued[interface as usize] -= 1;
                endpoints.departed(interface, now, self);
            }
            Event::Free { link } => self.serve(link, now),
            Event::Come { link, message } => {
                let flight = self.plan.jobs[message.turn.2 as usize].flight;
                self.links[link as usize].wait(flight, message);
                self.serve(link, now);
            }
        }
        self.after_ranks(endpoints);
    }

    fn after_ranks(&mut self, endpoints: &mut Endpoints) {
        self.sent.drain(..).for_each(|(transfer, at)| endpoints.sent(transfer, at));
        self.arrivals.drain(..).for_each(|(transfer, at)| endpoints.arrived(transfer, at));
    }

    fn into_traffic(self) -> Traffic {
        self.traffic
    }
}

impl AlphaBeta<'_> {
    /// Times a message, and those that waited for it, as far as the order on their links allows.
    fn carry(&mut self, message: Message) {
        let plan = self.plan;
        self.moving.push(message);
        while let Some(message) = self.moving.pop() {
            let (.., id) = message.turn;
            let Some(&link) = plan.route(&plan.jobs[id as usize]).get(message.hop as usize) else {
                self.arrivals.push((id, message.tail));
                continue;
            };
            if self.any_order || self.ranking.is_shared(link) {
                // Which flight goes first is known when it comes.
                self.agenda.push(message.head, Event::Come { link, message });
                continue;
            }
            let flight = plan.jobs[id as usize].flight;
            let share = self.links[link as usize].of(flight);
            if !share.turn_of(message.turn, plan) {
                share.waiting.push(Reverse(message));
                continue;
            }
            let mut served = Some(message);
            while let Some(message) = served {
                let message = self.cross(link, message);
                self.moving.push(message);
                served = self.links[link as usize].of(flight).take(plan);
            }
        }
    }

    /// Serves the next message on a link that several flights use, if it is free.
    fn serve(&mut self, link: u32, now: Ticks) {
        if self.links[link as usize].free_at > now {
            return;
        }
        let next = self.links[link as usize].next(self.plan, self.any_order, |flight| self.ranking.of(flight));
        if let Some(message) = next {
            let message = self.cross(link, message);
            self.agenda.push(self.links[link as usize].free_at, Event::Free { link });
            self.carry(message);
        }
    }

    /// A message crosses a link; as it comes to the next.
    fn cross(&mut self, link: u32, message: Message) -> Message {
        let (plan, (.., id)) = (self.plan, message.turn);
        let job = &plan.jobs[id as usize];
        let (flit, latency) = (plan.flit[link as usize], plan.latency[link as usize]);
        let free_at = &mut self.links[link as usize].free_at;
        let start = message.head.max(*free_at);
        let end = start + plan.kind(job).packets.count * plan.packet_time(job, link);
        *free_at = end;
        self.traffic.transmitted(link, Some(id), start, end);
        // The tail leaves after the head and, but for the first link, one flit after it came in.
        let tail = if message.hop == 0 { end } else { end.max(message.tail + flit) };
        if message.hop == 0 {
            self.agenda.push(end, Event::Departed { interface: message.interface });
            self.sent.push((id, end));
        }
        // The next link starts when the first flit is there.
        Message { hop: message.hop + 1, head: start + latency + flit, tail: tail + latency, ..message }
    }
}
