//! Messages, sizes and times resolved.

use crate::ace::work::{after_link, before_link, forwarded_by, reads};
use crate::clock::Ticks;
use antiphon_base::units::Bytes;
use antiphon_model::schedule::{Op, Schedule, Transfer};
use antiphon_model::system::{Endpoint, Packets, System};
use rustc_hash::FxHashMap;

/// The messages of a transfer, one for every chunk; many transfers have the same. Sizes and times are resolved.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MessageKind {
    /// Number of chunks.
    pub chunks: u64,
    /// Slots between chunks.
    pub stride: u64,
    /// Wire bytes of one message, without headers.
    pub bytes: Bytes,
    /// Whether the receiver adds.
    pub adds: bool,
    /// How often a sender that reads what it sends reads a byte of it.
    pub(super) reads: u64,
    /// Whether the route has a link after the first.
    pub goes_on: bool,
    /// Packets of one message.
    pub packets: Packets,
    /// Time the receiver takes to add one message; 0 for copies.
    pub reduce: Ticks,
    /// What the sender's node does first.
    pub fetch: Fetch,
}

/// Kinds of a flight, before packets and times are resolved, and their numbers.
#[derive(Default)]
pub(super) struct Known {
    pub numbers: FxHashMap<MessageKind, u32>,
    /// That of the transfer before: most have the same.
    pub last: Option<(MessageKind, u32)>,
}

/// Reading a message from memory and bringing it over a bus, and the same of its first part.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Fetch {
    pub read: Ticks,
    pub read_first: Ticks,
    pub bus: Ticks,
    pub bus_first: Ticks,
    /// Packets of the first part.
    pub packets_first: u64,
}

impl Fetch {
    /// Of a message of `bytes`, each read so often.
    fn of(system: &System, bytes: Bytes, reads: u64) -> Fetch {
        let work = before_link(&system.endpoint, reads);
        let [read, bus] = &work[..] else { return Fetch::default() };
        let first = bytes.min(forwarded_by(&system.endpoint));
        Fetch {
            read: read.time_for(bytes),
            read_first: read.time_for(first),
            bus: bus.time_for(bytes),
            bus_first: bus.time_for(first),
            packets_first: system.packets(first).count,
        }
    }
}

impl MessageKind {
    /// That of a transfer, before packets and times are resolved.
    pub(super) fn of(schedule: &Schedule, transfer: &Transfer) -> MessageKind {
        let lane = &schedule.lanes[transfer.payload.first() as usize];
        let adds = transfer.op == Op::Reduce;
        MessageKind {
            chunks: lane.chunks,
            stride: lane.stride.into(),
            bytes: schedule.message_bytes(transfer),
            adds,
            reads: reads(adds),
            goes_on: transfer.route.len() > 1,
            packets: Packets { count: 0, flits: 0 },
            reduce: 0,
            fetch: Fetch::default(),
        }
    }

    /// With packets and times for its size.
    pub(super) fn resolved(self, system: &System) -> MessageKind {
        let reduce = match system.endpoint {
            _ if !self.adds => 0,
            Endpoint::System => system.reduce_time(self.bytes),
            _ => after_link(&system.endpoint).map_or(0, |work| work.time_for(self.bytes)),
        };
        let fetch = Fetch::of(system, self.bytes, self.reads);
        MessageKind { packets: system.packets(self.bytes), reduce, fetch, ..self }
    }

    /// Each message cut into so many, which follow each other.
    pub(super) fn cut(self, parts: u64, system: &System) -> MessageKind {
        let (chunks, stride) = (self.chunks * parts, self.stride.max(1));
        MessageKind { chunks, stride, bytes: self.bytes.div_ceil(parts), ..self }.resolved(system)
    }
}
