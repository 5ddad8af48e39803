//! A link that serves the messages of a flight in schedule order, whenever they come; of several flights that one which
//! goes first among those whose turn has come.

use crate::simulate::clock::Ticks;
use crate::simulate::plan::Plan;
use crate::simulate::turns::{Turn, Turns};
use crate::watch::interruptible;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

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
pub struct Share {
    /// Which flight.
    pub flight: u32,
    /// In what order, unless one interface sends all of them: it does so in this order.
    pub turns: Turns,
    from_one: bool,
    /// Messages that have come and wait for their turn.
    pub waiting: BinaryHeap<Reverse<Message>>,
}

/// See the module.
#[derive(Default)]
pub struct Link {
    /// When what it has served is through.
    pub free_at: Ticks,
    /// Of the flights that use it.
    pub flights: Vec<Share>,
    /// Those of them with messages that have come, where several flights use it.
    come: Vec<u32>,
}

impl Link {
    /// The links of a plan, each with its turns to come.
    pub fn all(plan: &Plan) -> Vec<Link> {
        let mut links: Vec<Link> = plan.fabric.links.iter().map(|_| Link::default()).collect();
        for id in plan.flights.iter().flat_map(|flight| interruptible(plan.in_order(flight))) {
            let job = &plan.jobs[id as usize];
            for (hop, &link) in plan.route(job).iter().enumerate() {
                let flights = &mut links[link as usize].flights;
                if flights.last().is_none_or(|share| share.flight != job.flight) {
                    let (turns, waiting) = (Turns::default(), BinaryHeap::new());
                    flights.push(Share { flight: job.flight, turns, from_one: true, waiting });
                }
                let share = flights.last_mut().expect("just seen");
                share.turns.add(id);
                share.from_one &= hop == 0;
            }
        }
        for Link { flights, .. } in &mut links {
            match &mut flights[..] {
                [share] if share.from_one => share.turns = Turns::default(),
                shares => shares.iter_mut().for_each(|share| {
                    share.from_one = false;
                    share.turns.begin(plan);
                }),
            }
        }
        links
    }

    /// A message of a flight has come, and waits.
    pub fn wait(&mut self, flight: u32, message: Message) {
        let waiting = &mut self.of(flight).waiting;
        waiting.push(Reverse(message));
        if waiting.len() == 1 {
            self.come.push(flight);
        }
    }

    /// Takes the message that goes first of those that wait: of the flight of the lowest `rank` whose turn has come, or with
    /// `any_order` of the lowest that has one. O(flights with messages), however many use the link.
    pub fn next(&mut self, plan: &Plan, any_order: bool, rank: impl Fn(u32) -> u64) -> Option<Message> {
        self.come.sort_unstable_by_key(|&flight| (rank(flight), flight));
        for place in 0..self.come.len() {
            let share = self.of(self.come[place]);
            let taken = match any_order {
                true => share.waiting.pop().map(|Reverse(message)| message),
                false => share.take(plan),
            };
            if taken.is_some() {
                if share.waiting.is_empty() {
                    self.come.remove(place);
                }
                return taken;
            }
        }
        None
    }

    /// The turns of a flight that uses the link.
    pub fn of(&mut self, flight: u32) -> &mut Share {
        let place = match self.flights.len() {
            1 => 0,
            _ => self.flights.partition_point(|share| share.flight < flight),
        };
        &mut self.flights[place]
    }
}

impl Share {
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
        self.from_one || self.turns.peek() == Some(turn) && self.turns.pop(plan).is_some()
    }
}
