//! Alpha-beta fidelity: whole messages, each link serving its messages in schedule order.
//!
//! A message takes its links' latencies, one flit a link, and its size over the slowest rate (cut-through). The order
//! on links being given, a message is timed all along its route as soon as those before it on its links are. Ranks do
//! what they do at every fidelity (`endpoints`), with an interface for every outgoing link: network interfaces
//! and step order of ranks are not modelled. O(messages * (hops + dependencies)), and a logarithm of
//! the messages under way.

mod link;
mod periodic;

use super::budget::Budget;
use super::endpoints::{Carrier, Endpoints};
use super::period::Periods;
use super::plan::Plan;
use super::recorder::{Recorder, Traffic};
use super::{Engine, Progress};
use crate::error::Result;
use crate::schedule::{Issue, TransferId};
use crate::simulate::clock::Ticks;
use link::{Link, Message};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Most events of one run: minutes.
const MAX_EVENTS: u64 = 8_000_000_000;

/// See the module.
pub struct AlphaBeta {
    /// Whether whole periods are skipped; never changes a result.
    pub skip_periods: bool,
}

impl Default for AlphaBeta {
    fn default() -> Self {
        AlphaBeta { skip_periods: true }
    }
}

impl Engine for AlphaBeta {
    fn run(&self, plan: &Plan, recorder: &mut Recorder, progress: &mut Progress) -> Result<u64> {
        let mut endpoints = Endpoints::new(plan, &mut recorder.deliveries, plan.hand_off, Issue::Links);
        let mut network = Network::new(plan, &mut recorder.traffic, endpoints.interfaces());
        let mut periods = self.skip_periods.then(Periods::new);
        let (mut now, mut events, mut budget) = (0, 0u64, Budget::new(MAX_EVENTS, "events"));
        endpoints.begin(&mut network);
        network.tell(&mut endpoints);
        loop {
            let departure = network.departures.peek().map_or(Ticks::MAX, |&Reverse((at, _))| at);
            now = match departure.min(endpoints.next_at()) {
                Ticks::MAX => break,
                next => next,
            };
            if departure == now {
                let interface = network.depart();
                endpoints.departed(interface, now, &mut network);
                network.tell(&mut endpoints);
            } else {
                endpoints.step(&mut network);
                network.tell(&mut endpoints);
                if let Some(periods) = &mut periods {
                    periods.look(now, events, &mut endpoints, &mut network);
                }
            }
            events += 1;
            if events.is_multiple_of(1 << 13) {
                budget.judge(events, endpoints.progress(), progress)?;
            }
        }
        endpoints.finish(now)?;
        Ok(events)
    }
}

struct Network<'a> {
    plan: &'a Plan<'a>,
    traffic: &'a mut Traffic,
    links: Vec<Link>,
    /// Chunks taken of every transfer.
    taken: Vec<u64>,
    /// Messages in every interface.
    queued: Vec<u32>,
    /// When messages will have left their interfaces.
    departures: BinaryHeap<Reverse<(Ticks, u32)>>,
    /// Messages on their way, between calls none.
    moving: Vec<Message>,
    /// Messages timed to the end of their first link, and to the end of their routes; the ranks not told yet.
    sent: Vec<(TransferId, Ticks)>,
    arrivals: Vec<(TransferId, Ticks)>,
}

impl Carrier for Network<'_> {
    fn is_free(&self, interface: u32) -> bool {
        self.has_room(interface)
    }

    fn has_room(&self, interface: u32) -> bool {
        self.queued[interface as usize] < 2
    }

    fn send(&mut self, transfer: TransferId, interface: u32, now: Ticks) -> Ticks {
        let job = &self.plan.jobs[transfer as usize];
        let chunk = &mut self.taken[transfer as usize];
        let turn = (job.phase, job.step + *chunk * job.stride, transfer);
        *chunk += 1;
        if !job.hops.is_empty() {
            self.queued[interface as usize] += 1;
        }
        self.carry(Message { turn, hop: 0, interface, head: now, tail: now });
        now
    }
}

impl<'a> Network<'a> {
    fn new(plan: &'a Plan<'a>, traffic: &'a mut Traffic, interfaces: usize) -> Self {
        Network {
            plan,
            traffic,
            links: Link::all(plan),
            taken: vec![0; plan.jobs.len()],
            queued: vec![0; interfaces],
            departures: BinaryHeap::new(),
            moving: vec![],
            sent: vec![],
            arrivals: vec![],
        }
    }

    /// Tells the ranks what was timed.
    fn tell(&mut self, endpoints: &mut Endpoints) {
        self.sent.drain(..).for_each(|(transfer, at)| endpoints.sent(transfer, at));
        self.arrivals.drain(..).for_each(|(transfer, at)| endpoints.arrived(transfer, at));
    }

    /// The interface that a message leaves next.
    fn depart(&mut self) -> u32 {
        let Reverse((_, interface)) = self.departures.pop().expect("there is one");
        self.queued[interface as usize] -= 1;
        interface
    }

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
            if !self.links[link as usize].turn_of(message.turn, plan) {
                self.links[link as usize].wait(message);
                continue;
            }
            let mut served = Some(message);
            while let Some(message) = served {
                let message = self.cross(link, message);
                self.moving.push(message);
                served = self.links[link as usize].take(plan);
            }
        }
    }

    /// A message crosses a link; as it comes to the next.
    fn cross(&mut self, link: u32, message: Message) -> Message {
        let (plan, (.., id)) = (self.plan, message.turn);
        let job = &plan.jobs[id as usize];
        let (flit, latency) = (plan.flit[link as usize], plan.latency[link as usize]);
        let free_at = &mut self.links[link as usize].free_at;
        let start = message.head.max(*free_at);
        let end = start + job.packets.count * plan.packet_time(job, link);
        *free_at = end;
        self.traffic.transmitted(link, start, end);
        // The tail leaves after the head and, but for the first link, one flit after it came in.
        let tail = if message.hop == 0 { end } else { end.max(message.tail + flit) };
        if message.hop == 0 {
            self.departures.push(Reverse((end, message.interface)));
            self.sent.push((id, end));
        }
        // The next link starts when the first flit is there.
        Message { hop: message.hop + 1, head: start + latency + flit, tail: tail + latency, ..message }
    }
}
