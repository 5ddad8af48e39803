//! Senders: which message starts when.

use super::{Carrier, Endpoints, Event, Interface};
use crate::schedule::TransferId;
use crate::simulate::clock::Ticks;
use crate::system::Assignment;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;

/// Transfers of one sender (a node's link or a rank) still to be started, in schedule order.
pub struct Queue {
    pub heap: BinaryHeap<Reverse<(u32, u64, TransferId)>>,
    /// Transfers of the current slot that have not started (step order only).
    pub slot: Vec<TransferId>,
    /// Messages sent but not received (stop-and-wait only).
    pub outstanding: u32,
    /// First interface and number of interfaces.
    pub interfaces: Range<u32>,
    /// The interface that took the last message.
    pub last: u32,
}

impl Endpoints<'_> {
    /// Makes a queue for every sender and gives it its transfers.
    pub fn add_queues(&mut self) {
        let plan = self.plan;
        let count = plan.system.interface.count.min(plan.schedule.endpoint.interfaces.unwrap_or(u32::MAX)).max(1);
        if !self.by_link {
            (0..plan.fabric.ranks() as u32).for_each(|rank| self.add_queue(rank, count));
        }
        // With an interface for every link, a sender is a first link, which ranks on one node share.
        let mut of_link = vec![u32::MAX; plan.fabric.links.len()];
        for (id, job) in plan.jobs.iter().enumerate() {
            let queue = match plan.route(job).first() {
                _ if !self.by_link => job.from,
                Some(&link) if of_link[link as usize] != u32::MAX => of_link[link as usize],
                first => {
                    self.add_queue(job.from, 1);
                    let queue = self.queues.len() as u32 - 1;
                    if let Some(&link) = first {
                        of_link[link as usize] = queue;
                    }
                    queue
                }
            };
            self.transfer_queue[id] = queue;
            self.queues[queue as usize].heap.push(Reverse((job.phase, job.step, id as TransferId)));
        }
    }

    fn add_queue(&mut self, rank: u32, interfaces: u32) {
        let queue = self.queues.len() as u32;
        let first = self.interfaces.len() as u32;
        self.interfaces.extend((0..interfaces).map(|_| Interface { queue, busy_until: 0 }));
        self.rank_queues[rank as usize].push(queue);
        self.queues.push(Queue {
            heap: BinaryHeap::new(),
            slot: vec![],
            outstanding: 0,
            interfaces: first..first + interfaces,
            // So that the first has the first turn.
            last: first + interfaces - 1,
        });
    }

    /// Moves the gate past every phase whose predecessors are complete, and wakes all senders.
    pub fn open_gate(&mut self, now: Ticks, carrier: &mut impl Carrier) {
        let phases = &self.plan.schedule.phases;
        let mut gate = self.gate as usize;
        let complete = |gate: usize, left: &[u64]| left[..gate].iter().all(|&l| l == 0);
        while gate < phases.len() && (!phases[gate].barrier || complete(gate, &self.phase_left)) {
            gate += 1;
        }
        if gate as u32 != self.gate {
            self.gate = gate as u32;
            for queue in 0..self.queues.len() as u32 {
                self.advance(queue, now, carrier);
            }
        }
    }

    /// Starts everything a sender may start now.
    pub fn advance(&mut self, queue: u32, now: Ticks, carrier: &mut impl Carrier) {
        if self.by_link { self.advance_link(queue, now, carrier) } else { self.advance_steps(queue, now, carrier) }
    }

    fn advance_link(&mut self, queue: u32, now: Ticks, carrier: &mut impl Carrier) {
        loop {
            let state = &self.queues[queue as usize];
            let interface = state.interfaces.start;
            if (self.stop_and_wait && state.outstanding > 0) || !carrier.has_room(interface) {
                return;
            }
            let Some(&Reverse((phase, _, id))) = state.heap.peek() else {
                return;
            };
            if phase >= self.gate || !self.data_ready(id) {
                return;
            }
            self.pop(queue);
            self.queues[queue as usize].outstanding += u32::from(self.stop_and_wait);
            self.start(id, interface, now, carrier);
        }
    }

    fn advance_steps(&mut self, queue: u32, now: Ticks, carrier: &mut impl Carrier) {
        loop {
            let state = &self.queues[queue as usize];
            let interfaces = state.interfaces.clone();
            if state.slot.is_empty() {
                if self.strict && !interfaces.clone().all(|i| self.is_free(i, now, carrier)) {
                    return;
                }
                let Some(&Reverse((phase, slot, _))) = state.heap.peek() else {
                    return;
                };
                if phase >= self.gate {
                    return;
                }
                while let Some(&Reverse((p, s, _))) = self.queues[queue as usize].heap.peek() {
                    if (p, s) != (phase, slot) {
                        break;
                    }
                    let id = self.pop(queue).expect("just seen");
                    self.queues[queue as usize].slot.push(id);
                }
            }
            let mut i = 0;
            while i < self.queues[queue as usize].slot.len() {
                let id = self.queues[queue as usize].slot[i];
                if !self.data_ready(id) {
                    i += 1;
                    continue;
                }
                let Some(free) = self.assign(id, interfaces.clone(), now, carrier) else {
                    // Another message may be for another interface.
                    if self.plan.system.interface.assignment == Assignment::Receiver {
                        i += 1;
                        continue;
                    }
                    return;
                };
                self.queues[queue as usize].slot.remove(i);
                self.queues[queue as usize].last = free;
                let until = self.start(id, free, now, carrier);
                if until > now {
                    self.interfaces[free as usize].busy_until = until;
                    self.push(until, Event::Wake { queue });
                }
            }
            if !self.queues[queue as usize].slot.is_empty() {
                return;
            }
        }
    }

    /// The interface that takes a message, if it can now.
    fn assign(&self, id: TransferId, interfaces: Range<u32>, now: Ticks, carrier: &impl Carrier) -> Option<u32> {
        let job = &self.plan.jobs[id as usize];
        let (first, count) = (interfaces.start, interfaces.len() as u32);
        let mut turn = match self.plan.system.interface.assignment {
            Assignment::LowestFree => 0..count,
            Assignment::RoundRobin => {
                let next = self.queues[job.from as usize].last + 1 - first;
                next..next + count
            }
            Assignment::Receiver => job.to % count..job.to % count + 1,
        };
        turn.find_map(|i| Some(first + i % count).filter(|&i| self.is_free(i, now, carrier)))
    }

    /// Whether an interface can take another message: the last one has been handed to it.
    fn is_free(&self, interface: u32, now: Ticks, carrier: &impl Carrier) -> bool {
        self.interfaces[interface as usize].busy_until <= now && carrier.is_free(interface)
    }

    /// Takes the first transfer off a queue and queues its next chunk.
    fn pop(&mut self, queue: u32) -> Option<TransferId> {
        let mut top = self.queues[queue as usize].heap.peek_mut()?;
        let Reverse((phase, slot, id)) = *top;
        let job = &self.plan.jobs[id as usize];
        // All chunks taken so far were started: a slot is loaded when none is left of the one before.
        if self.started[id as usize] + 1 < job.chunks {
            *top = Reverse((phase, slot + job.stride, id));
        } else {
            PeekMut::pop(top);
        }
        Some(id)
    }

    /// Whether the next chunk of a transfer may start, as far as data is concerned; if not, its queue will be woken.
    fn data_ready(&mut self, id: TransferId) -> bool {
        let job = &self.plan.jobs[id as usize];
        let chunk = self.started[id as usize];
        let after = self.plan.start_after(job);
        // The last is the likeliest to come last: then this looks once.
        while let Some(&dependency) = after.iter().nth_back(self.met[id as usize] as usize) {
            if self.reached(dependency) <= chunk {
                self.waits.add(id, dependency.transfer());
                return false;
            }
            self.met[id as usize] += 1;
        }
        true
    }

    /// Hands the next message of a transfer to an interface; returns until when.
    fn start(&mut self, id: TransferId, interface: u32, now: Ticks, carrier: &mut impl Carrier) -> Ticks {
        self.started[id as usize] += 1;
        self.met[id as usize] = 0;
        if self.plan.jobs[id as usize].hops.is_empty() {
            self.sent(id, now);
        }
        carrier.send(id, interface, now)
    }
}
