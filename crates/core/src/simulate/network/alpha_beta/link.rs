//! A link that serves the messages of a flight in schedule order, whenever they come; of several flights that one which
//! goes first among those whose turn has come.

use crate::schedule::TransferId;
use crate::simulate::clock::Ticks;
use crate::simulate::period::Turn;
use crate::simulate::plan::Plan;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A message in front of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message {
    /// When it is served, on every link alike.
    pub turn: Turn,
    /// Links it has crossed.
    pub hop: u32,
    /// Where it came from.
    pub interface: u32,
    /// When its first flit comes here.
    pub head: Ticks,
    /// When its last flit comes here.
    pub tail: Ticks,
}

/// The messages of a flight that a link is to serve.
pub struct Turns {
    /// Which flight.
    pub flight: u32,
    /// Transfers whose first chunk is to be served, in order.
    pub first: VecDeque<TransferId>,
    /// Next chunks of the others, by stride: what is served in order comes back in order.
    pub next: Vec<(u64, VecDeque<Turn>)>,
    /// Messages that have come and wait for their turn.
    pub waiting: BinaryHeap<Reverse<Message>>,
}

/// See the module.
#[derive(Default)]
pub struct Link {
    /// When what it has served is through.
    pub free_at: Ticks,
    /// Of the flights that use it.
    pub flights: Vec<Turns>,
}

impl Link {
    /// The links of a plan, each with its turns to come.
    pub fn all(plan: &Plan) -> Vec<Link> {
        let mut links: Vec<Link> = plan.fabric.links.iter().map(|_| Link::default()).collect();
        for flight in &plan.flights {
            for id in flight.flight.schedule.order().into_iter().map(|id| flight.jobs.start + id) {
                let route = plan.route(&plan.jobs[id as usize]);
                for &link in route {
                    let link = &mut links[link as usize];
                    let flight = plan.jobs[id as usize].flight;
                    if link.flights.last().is_none_or(|turns| turns.flight != flight) {
                        let (first, next, waiting) = Default::default();
                        link.flights.push(Turns { flight, first, next, waiting });
                    }
                    link.of(flight).first.push_back(id);
                }
            }
        }
        links
    }

    /// The turns of a flight that uses the link.
    pub fn of(&mut self, flight: u32) -> &mut Turns {
        let place = match self.flights.len() {
            1 => 0,
            _ => self.flights.partition_point(|turns| turns.flight < flight),
        };
        &mut self.flights[place]
    }
}

impl Turns {
    /// Takes a message that waits, if it is its turn.
    pub fn take(&mut self, plan: &Plan) -> Option<Message> {
        let &Reverse(message) = self.waiting.peek()?;
        if !self.turn_of(message.turn, plan) {
            return None;
        }
        self.waiting.pop();
        Some(message)
    }

    /// Whether the message of a turn is the next to be served; if so, its turn is over.
    pub fn turn_of(&mut self, turn: Turn, plan: &Plan) -> bool {
        let (phase, slot, id) = turn;
        let job = &plan.jobs[id as usize];
        let first = self.first.front().map(|&id| (plan.jobs[id as usize].phase, plan.jobs[id as usize].step, id));
        let next = self.next.iter().filter_map(|(_, turns)| turns.front().copied());
        if next.chain(first).min() != Some(turn) {
            return false;
        }
        let queue = self.next.iter().position(|(stride, _)| *stride == job.stride);
        if first == Some(turn) {
            self.first.pop_front();
        } else if let Some(queue) = queue {
            self.next[queue].1.pop_front();
        }
        if (slot - job.step) / job.stride.max(1) + 1 < job.chunks {
            let queue = queue.unwrap_or_else(|| {
                self.next.push((job.stride, VecDeque::new()));
                self.next.len() - 1
            });
            self.next[queue].1.push_back((phase, slot + job.stride, id));
        }
        true
    }
}
