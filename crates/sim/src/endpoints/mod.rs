//! Ranks: which message starts when, and what its receiver does with it.
//!
//! - [`Issue::Links`]: one interface for every outgoing link, messages in schedule order.
//!   [`Issue::Steps`]: a rank goes through its slots; a send takes a free interface (see [`Assignment`]).
//! - A message counts as received `hand_off` after it arrived; then it waits for what it is to be
//!   applied after. Reductions of a rank run one at a time.
//! - A message is sent when its last packet has left the sender.
//! - Messages of a transfer may overtake each other: whoever waits for a chunk waits for that one, however many others
//!   have come.
//!
//! All engines share this side; each is a [`Carrier`] of messages. Events of the ranks come after
//! those of the network at the same time.

mod adders;
mod aside;
mod buffers;
mod holds;
mod launches;
mod memory_ports;
mod ports;
mod rank_state;
mod reached;
mod receivers;
mod senders;
mod stalled;
mod unit_engine;
mod uses;
mod waits;

use super::agenda::Agenda;
use super::flight::{Order, Ranking};
use super::plan::RunPlan;
use super::recorder::Deliveries;
use crate::clock::Ticks;
use adders::Adders;
use antiphon_base::error::Result;
use antiphon_model::fabric::NodeId;
use antiphon_model::schedule::Event::Sent;
use antiphon_model::schedule::{Issue, TransferId};
#[cfg(doc)]
use antiphon_model::system::Assignment;
use aside::Aside;
use buffers::Buffers;
use holds::HeldMessages;
use launches::{FlightState, Launches};
use memory_ports::MemoryPorts;
use ports::Ports;
use reached::Early;
use senders::SendQueue;
use std::ops::Range;
use unit_engine::UnitEngines;
use waits::Waits;

/// A network as the ranks see it: interfaces that take whole messages.
pub trait Carrier {
    /// Whether the last packet given to an interface has entered its queue.
    fn is_free(&self, interface: u32) -> bool;

    /// Whether an interface has fewer than two messages: two keep its link busy, more would only
    /// cost memory.
    fn has_room(&self, interface: u32) -> bool;

    /// Takes the message of a chunk, also one whose route is empty; returns until when its packets are being
    /// handed to the interface. [`Endpoints::departed`], [`Endpoints::sent`] and [`Endpoints::arrived`]
    /// are to be told what becomes of it.
    fn send(&mut self, transfer: TransferId, chunk: u64, interface: u32, now: Ticks) -> Ticks;

    /// A flight was launched. Of several on a link those of lower rank go first.
    fn launched(&mut self, flight: u32, rank: u64);
}

/// A network interface, as its rank sees it.
struct Interface {
    /// Queue that fills it.
    queue: u32,
    /// Where it is.
    node: NodeId,
    /// Until when packets are being handed to it.
    busy_until: Ticks,
}

/// How far a transfer is, in one line of a cache: large runs wait for memory.
#[derive(Clone, Copy, Default)]
struct TransferState {
    /// Chunks started; and applied, all before which are.
    started: u64,
    applied: u64,
    /// Dependencies known to be met for the next chunk.
    met: u32,
    /// Queue it is sent from.
    queue: u32,
}

/// Something to happen at a rank.
///
/// The order of variants, then that of numbers, is the order of simultaneous events.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RankEvent {
    /// The last packet of a message was received and handed over.
    Received { transfer: TransferId, chunk: u64 },
    /// Its data was added (or stored).
    Applied { transfer: TransferId, chunk: u64 },
    /// The last packet of a message has left, and somebody may wait for that.
    Sent { transfer: TransferId, chunk: u64 },
    /// Interfaces of a sender have been handed all packets.
    Wake { queue: u32 },
    /// The message for an interface is there, as far as it must be.
    Fetched { interface: u32, transfer: TransferId, chunk: u64 },
    /// The memory of a rank is free.
    Read { rank: u32 },
    /// A unit was read into engines.
    Loaded { family: u32, chunk: u64 },
    /// A unit was written back.
    Written { family: u32 },
}

/// See the module.
pub struct Endpoints<'a> {
    plan: &'a RunPlan<'a>,
    /// What was applied.
    pub deliveries: Deliveries,
    /// What waits to be added.
    pub buffers: Buffers,
    /// From the arrival of a message to the start of what waited for it.
    hand_off: Ticks,
    agenda: Agenda<RankEvent>,
    queues: Vec<SendQueue>,
    interfaces: Vec<Interface>,
    ports: Ports,
    transfers: Vec<TransferState>,
    /// Chunks applied before others of their transfers.
    early: Early,
    /// Transfers that wait at their senders.
    waits: Waits,
    /// Where some wait for messages to be sent: of every transfer the chunks before which all are, and those sent early.
    sent: Option<(Vec<u64>, Early)>,
    /// Where some wait at their receivers.
    holds: Option<HeldMessages>,
    adders: Adders,
    /// Where ranks read what they send.
    memory: Option<MemoryPorts>,
    /// Where they have an order of their own.
    aside: Aside,
    /// Where they have engines.
    engines: Option<UnitEngines>,
    /// Messages of each phase not yet applied.
    phase_left: Vec<u64>,
    flights: Vec<FlightState>,
    launches: Launches,
    ranking: Ranking,
    order: Order,
    /// How often gates were opened or flights began or ended.
    epoch: u64,
    /// Messages applied.
    done: u64,
}

impl<'a> Endpoints<'a> {
    /// The ranks of a plan before anything has started. `issue` is instead of the schedules', where no interfaces are
    /// modelled.
    ///
    /// # Errors
    /// As [`UnitEngines::new`].
    pub fn new(plan: &'a RunPlan<'a>, order: Order, hand_off: Ticks, issue: Option<Issue>) -> Result<Self> {
        // They serve every link by itself, then.
        let issue = if plan.units.is_some() { Some(Issue::Links) } else { issue };
        let mut endpoints = Endpoints {
            plan,
            deliveries: Deliveries::new(plan),
            buffers: Buffers::new(plan),
            hand_off,
            agenda: Agenda::new(),
            queues: vec![],
            interfaces: vec![],
            ports: Ports::new(plan.fabric),
            transfers: vec![TransferState::default(); plan.jobs.len()],
            early: Early::default(),
            waits: Waits::new(plan.jobs.len()),
            sent: (plan.after.iter().any(|dependency| dependency.event() == Sent))
                .then(|| (vec![0; plan.jobs.len()], Early::default())),
            holds: plan.jobs.iter().any(|job| !job.apply_after.is_empty()).then(HeldMessages::default),
            adders: Adders::new(plan),
            memory: MemoryPorts::new(plan),
            aside: Aside::default(),
            engines: UnitEngines::new(plan)?,
            phase_left: plan.phase_messages.clone(),
            flights: Vec::with_capacity(plan.flights.len()),
            launches: Launches::new(plan, order),
            ranking: Ranking::new(plan, order),
            order,
            epoch: 0,
            done: 0,
        };
        for flight in 0..plan.flights.len() as u32 {
            endpoints.add_flight(flight, issue);
        }
        Ok(endpoints)
    }

    /// Number of interfaces of all ranks together.
    pub fn interfaces(&self) -> usize {
        self.interfaces.len()
    }

    /// The node of an interface.
    pub fn node_of(&self, interface: u32) -> NodeId {
        self.interfaces[interface as usize].node
    }

    /// The flight of an interface.
    pub fn flight_of(&self, interface: u32) -> u32 {
        self.queues[self.interfaces[interface as usize].queue as usize].flight
    }

    /// Interfaces of a rank in a flight, if they are for any of its links.
    pub fn interfaces_of(&self, flight: u32, rank: u32) -> Option<Range<u32>> {
        let flight = &self.flights[flight as usize];
        (!flight.by_link).then(|| self.queues[(flight.queues.start + rank) as usize].interfaces.clone())
    }

    /// Which flights go first.
    pub fn ranking(&self) -> &Ranking {
        &self.ranking
    }

    /// Messages applied.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Share of messages applied, 0 to 1.
    pub fn progress(&self) -> f64 {
        self.done as f64 / self.plan.messages().max(1) as f64
    }

    /// When the next event is; [`Ticks::MAX`] if there is none.
    pub fn next_at(&self) -> Ticks {
        self.agenda.next_at()
    }

    /// Processes the next event.
    pub fn step(&mut self, carrier: &mut impl Carrier) {
        let Some((now, event)) = self.agenda.pop() else { return };
        match event {
            RankEvent::Received { transfer, chunk } => self.received(transfer, chunk, now, carrier),
            RankEvent::Applied { transfer, chunk } => self.added(transfer, chunk, now, carrier),
            RankEvent::Sent { transfer, chunk } => self.was_sent(transfer, chunk, now, carrier),
            RankEvent::Wake { queue } => self.advance(queue, now, carrier),
            RankEvent::Fetched { interface, transfer, chunk } => self.fetched(transfer, chunk, interface, now, carrier),
            RankEvent::Read { rank } => self.read_next(rank, now),
            RankEvent::Loaded { family, chunk } => self.loaded(family, chunk, now, carrier),
            RankEvent::Written { family } => self.written(family, now),
        }
    }

    /// Packets have left an interface, so that it may be free or have room.
    pub fn departed(&mut self, interface: u32, now: Ticks, carrier: &mut impl Carrier) {
        if self.memory.is_some() {
            self.feed(interface, now, carrier);
        }
        self.advance(self.interfaces[interface as usize].queue, now, carrier);
    }

    /// The message of a chunk reached the node of its receiver, or will at `at`.
    pub fn arrived(&mut self, transfer: TransferId, chunk: u64, at: Ticks) {
        let event = match self.is_stored_at_once(transfer) {
            true => RankEvent::Applied { transfer, chunk },
            false => RankEvent::Received { transfer, chunk },
        };
        // A switch takes what comes as it passes.
        let hand_off = self.plan.switch_of(self.plan.jobs[transfer as usize].to).map_or(self.hand_off, |_| 0);
        self.push(at + hand_off, event);
    }

    /// The last packet of a message left its sender, or will at `at`.
    pub fn sent(&mut self, transfer: TransferId, chunk: u64, at: Ticks) {
        if self.sent.is_some() {
            self.push(at, RankEvent::Sent { transfer, chunk });
        }
    }

    fn push(&mut self, at: Ticks, event: RankEvent) {
        self.agenda.push(at, event);
    }
}
