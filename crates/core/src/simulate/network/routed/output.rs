//! Outputs of routers, and what waits for them.

use super::Routed;
use crate::fabric::LinkId;
use crate::simulate::clock::Ticks;
use crate::simulate::network::flow::Flow;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// A packet in the buffers of the link that it has crossed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Packet {
    /// Where it goes next.
    pub flow: Flow,
    /// Whether it is the last of its message.
    pub last: bool,
    /// Until when it has crossed to that link, whose other end nobody else could ask for.
    pub held_until: Ticks,
}

/// What waits for an output.
#[derive(Clone, Copy)]
pub enum Request {
    /// The packet at the head of an interface.
    Interface(u32),
    /// A packet in transit.
    Transit(Packet),
}

/// What asks for an output in order: requests of an input, for buffers of one class and of one flight.
pub struct Queue {
    input: u32,
    class: u32,
    flight: u32,
    /// With their numbers, in which they came.
    pub waiting: VecDeque<(u64, Request)>,
}

/// A packet that crosses.
#[derive(Clone, Copy)]
pub struct Crossing {
    pub input: u32,
    pub flow: Flow,
    pub last: bool,
    /// The interface that sends it, and the channel if that is a mixed one.
    pub interface: Option<(u32, Option<u16>)>,
    /// When it has crossed.
    pub at: Ticks,
    /// When all of it has left over the link.
    pub end: Ticks,
}

/// A link or a way to the local port.
#[derive(Default)]
pub struct Output {
    pub queues: Vec<Queue>,
    pub crossing: SmallVec<[Crossing; 1]>,
    /// The input of which a packet crossed last.
    pub last: u32,
    /// When the link has sent all that has crossed.
    pub free_at: Ticks,
}

impl Routed<'_> {
    /// The input in which a request waits.
    pub fn input_of(&self, request: &Request) -> u32 {
        match *request {
            Request::Interface(id) => self.links() + id,
            Request::Transit(Packet { flow, .. }) => self.hops.before(flow),
        }
    }

    fn flight_of(&self, request: &Request) -> u32 {
        match *request {
            Request::Interface(id) => self.flights[id as usize],
            Request::Transit(Packet { flow, .. }) => self.plan.jobs[flow.transfer as usize].flight,
        }
    }

    /// The class of the buffer in which a request waits.
    fn class_of(&self, request: &Request) -> u32 {
        match *request {
            Request::Interface(_) => 0,
            Request::Transit(Packet { flow, .. }) => self.routes.class_of(flow.before().hop_of_plan()),
        }
    }

    /// Queues a request at an output, and serves it if it can.
    pub fn request(&mut self, output: u32, request: Request) {
        let (input, class, flight) = (self.input_of(&request), self.class_of(&request), self.flight_of(&request));
        let number = self.next_request;
        self.next_request += 1;
        let queues = &mut self.outputs[output as usize].queues;
        let own = |queue: &Queue| (queue.input, queue.class, queue.flight) == (input, class, flight);
        let place = queues.iter().position(own).unwrap_or_else(|| {
            queues.push(Queue { input, class, flight, waiting: VecDeque::new() });
            queues.len() - 1
        });
        queues[place].waiting.push_back((number, request));
        let wants = &mut self.inputs[input as usize].wants;
        match wants.iter_mut().find(|(wanted, _)| *wanted == output) {
            Some((_, count)) => *count += 1,
            None => wants.push((output, 1)),
        }
        self.serve(output);
    }

    /// Lets packets cross to an output, as far as it, inputs and buffers are free.
    pub fn serve(&mut self, output: u32) {
        let speedup = self.plan.system.router.output_speedup as usize;
        while self.outputs[output as usize].crossing.len() < speedup {
            let Some(place) = self.next_queue(output) else { return };
            let queue = &mut self.outputs[output as usize].queues[place];
            let Some((_, request)) = queue.waiting.pop_front() else { return };
            let input = queue.input;
            let wants = &mut self.inputs[input as usize].wants;
            if let Some(at) = wants.iter().position(|&(wanted, _)| wanted == output) {
                wants[at].1 -= 1;
                if wants[at].1 == 0 {
                    wants.swap_remove(at);
                }
            }
            self.cross(output, input, request);
        }
    }

    /// The queue whose first request may cross, of the flight that goes first, and whose turn it is or which came first.
    fn next_queue(&self, output: u32) -> Option<usize> {
        let Output { queues, last, .. } = &self.outputs[output as usize];
        let is_link = output < self.links();
        let shared = is_link && self.ranking.is_shared(output);
        let speedup = self.plan.system.router.input_speedup;
        let key = |queue: &Queue| {
            let &(number, request) = queue.waiting.front()?;
            let blocked =
                self.inputs[queue.input as usize].crossing >= speedup || (is_link && self.is_full(output, &request));
            let rank = if shared { self.ranking.of(queue.flight) } else { 0 };
            let turn = if self.takes_turns() { queue.input.wrapping_sub(last + 1) } else { 0 };
            (!blocked).then_some((rank, turn, number))
        };
        (0..).zip(queues).filter_map(|(place, queue)| Some((key(queue)?, place))).min().map(|(_, place)| place)
    }

    /// Whether the buffers that a request needs are full.
    fn is_full(&self, link: LinkId, request: &Request) -> bool {
        let flow = match *request {
            Request::Interface(id) => self.head_of(id, link).1.flow,
            Request::Transit(Packet { flow, .. }) => flow,
        };
        self.room[self.buffer(link, flow) as usize] == 0
    }
}
