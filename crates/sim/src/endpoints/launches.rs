//! When flights start and end.

use super::{Carrier, Endpoints};
use crate::clock::Ticks;
use crate::flight::{Flight, FlightSpan, Order};
use crate::plan::RunPlan;
use crate::turns::Turns;
use antiphon_model::schedule::{Issue, Pacing};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// What the ranks know of a flight.
pub struct FlightState {
    /// Its queues.
    pub queues: Range<u32>,
    /// First phase still behind a barrier; the first of all before it is launched.
    pub gate: u32,
    /// When the fabric has changed for that phase, if it does.
    pub changed_at: Option<Ticks>,
    /// Messages not yet applied.
    pub left: u64,
    /// Whether it has a queue for every first link, or for every rank.
    pub by_link: bool,
    /// Whether its ranks take a slot only when all before has been sent.
    pub strict: bool,
    /// Whether a queue waits until what it has sent is received.
    pub stop_and_wait: bool,
    /// Since it was launched.
    pub span: Option<FlightSpan>,
}

impl FlightState {
    /// Whether it was launched and is not over.
    pub fn is_active(&self) -> bool {
        self.span.is_some() && self.left > 0
    }
}

/// Flights to be launched.
pub struct Launches {
    /// Their times, where they are known; of simultaneous ones those that go first are launched first.
    agenda: BinaryHeap<Reverse<(Ticks, u64, u32)>>,
    /// Flights that each flight waits for, and those that wait for it.
    missing: Vec<usize>,
    followers: Vec<Vec<u32>>,
    /// How many there were.
    count: u32,
    /// Flights that have ended, to be asked for.
    ended: Vec<u32>,
}

/// The rank of a flight among those launched at the same time, before their numbers.
fn tie(order: Order, flight: &Flight) -> u64 {
    if order == Order::Priority { flight.priority.into() } else { 0 }
}

impl Launches {
    /// Of a plan, in which no flight was launched.
    pub fn new(plan: &RunPlan, order: Order) -> Self {
        let mut followers = vec![vec![]; plan.flights.len()];
        let mut agenda = BinaryHeap::new();
        for (index, of) in (0..).zip(&plan.flights) {
            of.flight.after.iter().for_each(|&other| followers[other].push(index));
            if of.flight.after.is_empty() && !of.flight.held {
                agenda.push(Reverse((plan.clock.ticks(of.flight.start_ps), tie(order, of.flight), index)));
            }
        }
        let missing = plan.flights.iter().map(|of| of.flight.after.len()).collect();
        Launches { agenda, missing, followers, count: 0, ended: vec![] }
    }
}

impl Endpoints<'_> {
    /// Prepares a flight; `issue` is instead of its schedule's.
    pub fn add_flight(&mut self, flight: u32, issue: Option<Issue>) {
        let plan = &self.plan.flights[flight as usize];
        let endpoint = &plan.flight.schedule.endpoint;
        let used = issue.unwrap_or(endpoint.issue);
        let by_link = used == Issue::Links;
        let (gate, phases) = (plan.phases.start, plan.phases.start as usize..plan.phases.end as usize);
        let state = FlightState {
            queues: self.add_queues(flight, by_link),
            gate,
            changed_at: None,
            left: self.plan.phase_messages[phases].iter().sum(),
            by_link,
            strict: used == Issue::StrictSteps,
            stop_and_wait: endpoint.issue == Issue::Links && endpoint.pacing == Pacing::StopAndWait,
            span: None,
        };
        self.flights.push(state);
    }

    /// When the next flight is to be launched; [`Ticks::MAX`] if none is known to be.
    pub fn next_launch(&self) -> Ticks {
        self.launches.agenda.peek().map_or(Ticks::MAX, |&Reverse((at, ..))| at)
    }

    /// Launches the next flight, or lets one go on that is through with launching or for which the fabric has changed.
    pub fn launch_next(&mut self, carrier: &mut impl Carrier) {
        let Some(Reverse((now, _, flight))) = self.launches.agenda.pop() else { return };
        match self.flights[flight as usize].span {
            None => self.launch(flight, now, carrier),
            Some(_) => self.open_gate(flight, now, carrier),
        }
    }

    /// Lets a flight go on when the fabric has changed.
    pub fn change_fabric(&mut self, flight: u32, now: Ticks) {
        let at = now + self.plan.switching;
        self.flights[flight as usize].changed_at = Some(at);
        self.launches.agenda.push(Reverse((at, 0, flight)));
    }

    /// Launches a flight.
    pub fn launch(&mut self, flight: u32, now: Ticks, carrier: &mut impl Carrier) {
        let rank = self.order.rank(self.plan.flights[flight as usize].flight.priority, self.launches.count);
        self.launches.count += 1;
        self.epoch += 1;
        self.ranking.launched(flight, rank);
        carrier.launched(flight, rank);
        let state = &mut self.flights[flight as usize];
        state.span = Some(FlightSpan { start: now, finish: now });
        match (state.left, self.plan.launching) {
            (0, _) => self.finished(flight, now),
            (_, 0) => self.open_gate(flight, now, carrier),
            (_, launching) => self.launches.agenda.push(Reverse((now + launching, 0, flight))),
        }
    }

    /// The last message of a flight was applied: what is after it is launched, not before its own time.
    pub fn finished(&mut self, flight: u32, now: Ticks) {
        self.epoch += 1;
        if let Some(span) = &mut self.flights[flight as usize].span {
            span.finish = now;
        }
        self.launches.ended.push(flight);
        for index in 0..self.launches.followers[flight as usize].len() {
            let next = self.launches.followers[flight as usize][index];
            self.launches.missing[next as usize] -= 1;
            if self.launches.missing[next as usize] == 0 {
                let of = self.plan.flights[next as usize].flight;
                let start = self.plan.clock.ticks(of.start_ps);
                self.launches.agenda.push(Reverse((now.max(start), tie(self.order, of), next)));
            }
        }
    }

    /// A flight that has ended since this was asked last.
    pub fn ended(&mut self) -> Option<u32> {
        self.launches.ended.pop()
    }

    /// Only ranks that are `own` send; of all transfers none has started.
    pub fn keep(&mut self, own: impl Fn(u32) -> bool) {
        for queue in &mut self.queues {
            if queue.turns.peek().is_some_and(|(.., id)| !own(self.plan.jobs[id as usize].from)) {
                queue.turns = Turns::default();
            }
        }
    }

    /// Adds what other ranks have done in the only flight.
    pub fn join(&mut self, other: Endpoints) {
        self.done += other.done;
        self.deliveries.join(other.deliveries);
        let finish = self.deliveries.finish.iter().copied().max().unwrap_or(0);
        self.flights.iter_mut().filter_map(|flight| flight.span.as_mut()).for_each(|span| span.finish = finish);
    }

    /// Start and end of a flight that is over.
    pub fn span_of(&self, flight: u32) -> FlightSpan {
        self.flights[flight as usize].span.unwrap_or_default()
    }

    /// Flights that are under way.
    pub fn active(&self) -> impl Iterator<Item = usize> {
        (0..self.flights.len()).filter(|&flight| self.flights[flight].is_active())
    }
}
