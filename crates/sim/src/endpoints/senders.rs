//! Senders: which message starts when.

use super::aside::AsideFor;
use super::{Carrier, Endpoints, FlightState, Interface, RankEvent};
use crate::clock::Ticks;
use crate::turns::Turns;
use antiphon_base::watch::interruptible;
use antiphon_model::schedule::TransferId;
use antiphon_model::system::Assignment;
use std::ops::Range;

/// Transfers of one sender (a node's link or a rank) still to be started, in schedule order.
pub struct SendQueue {
    pub turns: Turns,
    /// Transfers of the current slot that have not started (step order only).
    pub slot: Vec<TransferId>,
    /// Messages sent but not received (stop-and-wait only).
    pub outstanding: u32,
    /// First interface and number of interfaces.
    pub interfaces: Range<u32>,
    /// The interface that took the last message.
    pub last: u32,
    /// Whose transfers they are.
    pub flight: u32,
}

impl Endpoints<'_> {
    /// Makes a queue for every sender of a flight and gives it its transfers. Returns the queues.
    pub fn add_queues(&mut self, flight: u32, by_link: bool) -> Range<u32> {
        let plan = self.plan;
        let of = &plan.flights[flight as usize];
        let start = self.queues.len() as u32;
        let count = plan.system.interface.count.min(of.flight.schedule.endpoint.interfaces.unwrap_or(u32::MAX)).max(1);
        if !by_link {
            for rank in 0..plan.fabric.ranks() as u32 {
                let count = match plan.system.interface.assignment {
                    Assignment::Port => self.ports.count(plan.node_of(flight, rank)),
                    _ => count,
                };
                self.add_queue(flight, rank, count);
            }
        }
        // With an interface for every link, a sender is a first link, which ranks on one node share.
        let mut of_link = vec![u32::MAX; if by_link { plan.fabric.links.len() } else { 0 }];
        for id in interruptible(of.jobs.clone()) {
            let job = &plan.jobs[id as usize];
            let queue = match plan.route(job).first() {
                _ if !by_link => start + job.from,
                Some(&link) if of_link[link as usize] < u32::MAX => of_link[link as usize],
                first => {
                    self.add_queue(flight, job.from, 1);
                    let queue = self.queues.len() as u32 - 1;
                    first.into_iter().for_each(|&link| of_link[link as usize] = queue);
                    queue
                }
            };
            self.transfers[id as usize].queue = queue;
        }
        for id in interruptible(plan.in_order(of)) {
            self.queues[self.transfers[id as usize].queue as usize].turns.add(id);
        }
        self.queues[start as usize..].iter_mut().for_each(|queue| queue.turns.begin(plan));
        start..self.queues.len() as u32
    }

    fn add_queue(&mut self, flight: u32, rank: u32, interfaces: u32) {
        let queue = self.queues.len() as u32;
        let first = self.interfaces.len() as u32;
        let node = self.plan.node_of(flight, rank);
        self.interfaces.extend((0..interfaces).map(|_| Interface { queue, node, busy_until: 0 }));
        self.memory.iter_mut().for_each(|memory| memory.add_interfaces(interfaces as usize));
        self.queues.push(SendQueue {
            turns: Turns::default(),
            slot: vec![],
            outstanding: 0,
            interfaces: first..first + interfaces,
            // So that the first has the first turn.
            last: first + interfaces - 1,
            flight,
        });
    }

    /// Moves the gate of a flight past every phase whose predecessors are complete, and wakes its senders.
    pub fn open_gate(&mut self, flight: u32, now: Ticks, carrier: &mut impl Carrier) {
        let plan = &self.plan.flights[flight as usize];
        let state = &mut self.flights[flight as usize];
        let before = |phase: u32| plan.phases.start as usize..phase as usize;
        let complete = |phase: u32| self.phase_left[before(phase)].iter().all(|&left| left == 0);
        let mut gate = state.gate;
        let may_open = |gate: u32| gate < plan.phases.end && (!plan.phase(gate).barrier || complete(gate));
        let changes = |gate: u32| plan.changes(self.plan.fabric, gate);
        while may_open(gate) && (!changes(gate) || state.changed_at.take_if(|at| *at <= now).is_some()) {
            gate += 1;
        }
        let change = may_open(gate) && state.changed_at.is_none();
        if gate != state.gate {
            let (opened, queues) = (state.gate..gate, state.queues.clone());
            state.gate = gate;
            self.epoch += 1;
            self.admit_phases(flight, opened, now);
            for queue in queues {
                self.advance(queue, now, carrier);
            }
        }
        if change {
            self.change_fabric(flight, now);
        }
    }

    /// First phase of a queue's flight that is still behind a barrier.
    fn gate(&self, queue: u32) -> u32 {
        self.flights[self.queues[queue as usize].flight as usize].gate
    }

    /// Starts everything a sender may start now.
    pub fn advance(&mut self, queue: u32, now: Ticks, carrier: &mut impl Carrier) {
        let FlightState { by_link, stop_and_wait, strict, .. } =
            self.flights[self.queues[queue as usize].flight as usize];
        if by_link {
            self.advance_link(queue, stop_and_wait, now, carrier)
        } else {
            self.advance_steps(queue, strict, now, carrier)
        }
    }

    fn advance_link(&mut self, queue: u32, stop_and_wait: bool, now: Ticks, carrier: &mut impl Carrier) {
        loop {
            let state = &self.queues[queue as usize];
            let interface = state.interfaces.start;
            if (stop_and_wait && state.outstanding > 0) || !self.has_room(interface, carrier) {
                return;
            }
            let Some((phase, _, id)) = state.turns.peek() else {
                return;
            };
            if phase >= self.gate(queue) {
                return;
            }
            let units = self.plan.units.is_some();
            if units && (!self.has_machine(id) || self.is_behind(queue, id)) {
                self.queues[queue as usize].turns.park(self.plan);
                continue;
            }
            if !self.data_ready(id) {
                if units && self.step_aside(AsideFor::Turn(queue), id) {
                    self.queues[queue as usize].turns.park(self.plan);
                    continue;
                }
                return;
            }
            self.queues[queue as usize].turns.pop(self.plan);
            self.queues[queue as usize].outstanding += u32::from(stop_and_wait);
            self.start(id, interface, now, carrier);
        }
    }

    fn advance_steps(&mut self, queue: u32, strict: bool, now: Ticks, carrier: &mut impl Carrier) {
        loop {
            let state = &self.queues[queue as usize];
            let interfaces = state.interfaces.clone();
            if state.slot.is_empty() {
                if strict && !interfaces.clone().all(|i| self.is_free(i, now, carrier)) {
                    return;
                }
                let Some((phase, slot, _)) = state.turns.peek() else {
                    return;
                };
                if phase >= self.gate(queue) {
                    return;
                }
                let queue = &mut self.queues[queue as usize];
                while queue.turns.peek().is_some_and(|(p, s, _)| (p, s) == (phase, slot)) {
                    queue.slot.extend(queue.turns.pop(self.plan).map(|(.., id)| id));
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
                    if matches!(self.plan.system.interface.assignment, Assignment::Receiver | Assignment::Port) {
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
                    self.push(until, RankEvent::Wake { queue });
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
                let next = self.queues[self.transfers[id as usize].queue as usize].last + 1 - first;
                next..next + count
            }
            Assignment::Receiver => job.to % count..job.to % count + 1,
            Assignment::Port => {
                let port = self.plan.route(job).first().map_or(0, |&link| self.ports.of(link));
                port..port + 1
            }
        };
        turn.find_map(|i| Some(first + i % count).filter(|&i| self.is_free(i, now, carrier)))
    }

    /// Whether an interface can take another message: the last one has been handed to it.
    fn is_free(&self, interface: u32, now: Ticks, carrier: &impl Carrier) -> bool {
        self.interfaces[interface as usize].busy_until <= now && carrier.is_free(interface)
    }

    /// Whether another message may start at an interface of a link: where ranks read, whether another may be read.
    fn has_room(&self, interface: u32, carrier: &impl Carrier) -> bool {
        match &self.memory {
            Some(memory) => !memory.is_full(interface),
            None => carrier.has_room(interface),
        }
    }

    /// Whether the next chunk of a transfer may start, as far as data is concerned; if not, its queue will be woken.
    pub fn data_ready(&mut self, id: TransferId) -> bool {
        // Nothing of what it waits for has happened since.
        if self.waits.has(id) {
            return false;
        }
        let job = &self.plan.jobs[id as usize];
        let chunk = self.transfers[id as usize].started;
        let after = self.plan.start_after(job);
        // The last is the likeliest to come last: then this looks once.
        while let Some(&dependency) = after.iter().nth_back(self.transfers[id as usize].met as usize) {
            if !self.has_happened(dependency, chunk) {
                self.waits.add(id, dependency.transfer());
                return false;
            }
            self.transfers[id as usize].met += 1;
        }
        true
    }

    /// Starts the next message of a transfer at an interface; returns until when that takes it.
    fn start(&mut self, id: TransferId, interface: u32, now: Ticks, carrier: &mut impl Carrier) -> Ticks {
        let state = &mut self.transfers[id as usize];
        let chunk = state.started;
        (state.started, state.met) = (chunk + 1, 0);
        if self.fetch(id, chunk, interface, now) { now } else { self.hand_over((id, chunk), interface, now, carrier) }
    }

    /// Gives the message of a transfer's chunk to an interface; returns until when.
    pub fn hand_over(
        &mut self,
        (id, chunk): (TransferId, u64),
        interface: u32,
        now: Ticks,
        carrier: &mut impl Carrier,
    ) -> Ticks {
        let job = &self.plan.jobs[id as usize];
        self.buffers.sent(self.plan, job, now);
        if job.hops.is_empty() {
            self.sent(id, chunk, now);
        }
        carrier.send(id, chunk, interface, now)
    }
}
