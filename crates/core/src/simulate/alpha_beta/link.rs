//! A link that serves messages in schedule order, whenever they come.

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

/// See the module.
#[derive(Default)]
pub struct Link {
    /// When what it has served is through.
    pub free_at: Ticks,
    /// Transfers whose first chunk is to be served, in order.
    pub first: VecDeque<TransferId>,
    /// Next chunks of the others, by stride: what is served in order comes back in order.
    pub next: Vec<(u64, VecDeque<Turn>)>,
    /// Messages that wait for their turn.
    pub waiting: BinaryHeap<Reverse<Message>>,
}

impl Link {
    /// The links of a plan, each with its turns to come.
    pub fn all(plan: &Plan) -> Vec<Link> {
        let mut links: Vec<Link> = plan.fabric.links.iter().map(|_| Link::default()).collect();
        for id in plan.schedule.order() {
            let route = plan.route(&plan.jobs[id as usize]);
            route.iter().for_each(|&link| links[link as usize].first.push_back(id));
        }
        links
    }

    /// A message has come; it waits for its turn.
    pub fn wait(&mut self, message: Message) {
        self.waiting.push(Reverse(message));
    }

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
