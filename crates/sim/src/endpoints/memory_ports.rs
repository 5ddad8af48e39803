//! The part of a rank that feeds its interfaces: it reads what is sent from memory and brings it over a bus. The oldest
//! unit is read first (`units.rs`).

use super::{Carrier, Endpoints, RankEvent};
use crate::clock::Ticks;
use crate::cost::Fetch;
use crate::plan::RunPlan;
use antiphon_model::schedule::TransferId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Messages that are read for one interface at a time, or wait for that: as many as keep its link busy.
const READ_AHEAD: u32 = 16;

/// Place of a message among all: the rank of its flight, and its age.
type ReadTurn = (u64, u32, u64);

/// A message that is to be read, by its transfer and chunk, and its interface.
type ReadRequest = (ReadTurn, (TransferId, u64), u32);

/// Memory and bus of a rank.
#[derive(Default, Clone)]
struct MemoryPort {
    waiting: BinaryHeap<Reverse<ReadRequest>>,
    /// When they are free.
    read_free: Ticks,
    bus_free: Ticks,
    /// Whether the end of what is read is an event to come.
    is_reading: bool,
}

/// Messages for an interface.
#[derive(Default, Clone)]
struct ReadAhead {
    /// How many wait to be read, are read or have been.
    count: u32,
    /// Those that have been.
    ready: BinaryHeap<Reverse<(ReadTurn, (TransferId, u64))>>,
}

/// Ranks whose messages are read before they are sent.
pub struct MemoryPorts {
    ports: Vec<MemoryPort>,
    /// What is read for each interface.
    ahead: Vec<ReadAhead>,
}

impl MemoryPorts {
    /// Idle ranks, if those of the plan read at all.
    pub fn new(plan: &RunPlan) -> Option<MemoryPorts> {
        plan.reads().then(|| MemoryPorts { ports: vec![MemoryPort::default(); plan.participants()], ahead: vec![] })
    }

    /// Adds so many interfaces.
    pub fn add_interfaces(&mut self, count: usize) {
        self.ahead.resize(self.ahead.len() + count, ReadAhead::default());
    }

    /// Whether no more messages are read ahead for an interface.
    pub fn is_full(&self, interface: u32) -> bool {
        self.ahead[interface as usize].count >= READ_AHEAD
    }
}

impl MemoryPort {
    /// Reads a message of which a link takes `link` and its first part `first`; returns when it can be given to the
    /// interface: so that no part is sent before it is there.
    fn read(&mut self, fetch: &Fetch, (link, first): (Ticks, Ticks), now: Ticks) -> Ticks {
        self.read_free = now + fetch.read;
        let bus = (now + fetch.read_first).max(self.bus_free);
        self.bus_free = bus + fetch.bus;
        let spare = link.saturating_sub(first);
        let whole = (self.read_free + fetch.bus_first).max(self.bus_free);
        (bus + fetch.bus_first).max(whole.saturating_sub(spare))
    }
}

impl Endpoints<'_> {
    /// Lets a message be read for an interface, if its rank reads; whether it does.
    pub fn fetch(&mut self, transfer: TransferId, chunk: u64, interface: u32, now: Ticks) -> bool {
        if self.memory.is_none() {
            return false;
        }
        let place = self.place(transfer, chunk);
        let Some(memory) = &mut self.memory else { return false };
        let rank = self.plan.jobs[transfer as usize].from;
        memory.ahead[interface as usize].count += 1;
        memory.ports[rank as usize].waiting.push(Reverse((place, (transfer, chunk), interface)));
        if !memory.ports[rank as usize].is_reading {
            memory.ports[rank as usize].is_reading = true;
            // All that happens at one moment comes before the choice.
            self.push(now, RankEvent::Read { rank });
        }
        true
    }

    /// The place of a message among all.
    fn place(&self, transfer: TransferId, chunk: u64) -> ReadTurn {
        let (phase, slot) = self.plan.units.as_ref().map_or((0, 0), |units| units.age(transfer, chunk));
        (self.ranking.of(self.plan.jobs[transfer as usize].flight), phase, slot)
    }

    /// The memory of a rank is free.
    pub fn read_next(&mut self, rank: u32, now: Ticks) {
        let Some(memory) = &mut self.memory else { return };
        let port = &mut memory.ports[rank as usize];
        let Some(Reverse((_, (transfer, chunk), interface))) = port.waiting.pop() else {
            port.is_reading = false;
            return;
        };
        let (job, kind) = (&self.plan.jobs[transfer as usize], self.plan.kind_of(transfer));
        let link = self.plan.route(job).first().map_or(0, |&link| self.plan.packet_time(job, link));
        let first = kind.packets.count.min(kind.fetch.packets_first);
        let at = port.read(&kind.fetch, (link * kind.packets.count, link * first), now);
        let free = port.read_free;
        self.push(at, RankEvent::Fetched { interface, transfer, chunk });
        self.push(free, RankEvent::Read { rank });
    }

    /// A message was read, as far as it must be.
    pub fn fetched(
        &mut self,
        transfer: TransferId,
        chunk: u64,
        interface: u32,
        now: Ticks,
        carrier: &mut impl Carrier,
    ) {
        let place = self.place(transfer, chunk);
        if let Some(memory) = &mut self.memory {
            memory.ahead[interface as usize].ready.push(Reverse((place, (transfer, chunk))));
        }
        self.feed(interface, now, carrier);
        self.advance(self.interfaces[interface as usize].queue, now, carrier);
    }

    /// Gives what has been read to an interface, the oldest first, as long as it has room.
    pub fn feed(&mut self, interface: u32, now: Ticks, carrier: &mut impl Carrier) {
        while carrier.has_room(interface) {
            let Some(memory) = &mut self.memory else { return };
            let ahead = &mut memory.ahead[interface as usize];
            let Some(Reverse((_, message))) = ahead.ready.pop() else { return };
            ahead.count -= 1;
            self.hand_over(message, interface, now, carrier);
        }
    }
}
