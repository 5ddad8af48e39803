//! Messages, sizes and times resolved.

use crate::ace::work::reads;
use crate::clock::Ticks;
use crate::cost::{CostModel, Fetch, MessageCost};
use antiphon_base::units::{Bytes, Rate};
use antiphon_model::fabric::Fabric;
use antiphon_model::schedule::{Op, Schedule, Transfer};
use antiphon_model::system::Packets;
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
    /// Bytes a second at which the receiver takes them in, if it is a switch.
    pub(super) switch: Option<Rate>,
    /// How often a sender that reads what it sends reads a byte of it; a switch reads nothing.
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

impl MessageKind {
    /// That of a transfer, before packets and times are resolved.
    pub(super) fn of(fabric: &Fabric, schedule: &Schedule, transfer: &Transfer) -> MessageKind {
        let lane = &schedule.lanes[transfer.payload.first() as usize];
        let adds = transfer.op == Op::Reduce;
        MessageKind {
            chunks: lane.chunks,
            stride: lane.stride.into(),
            bytes: schedule.message_bytes(transfer),
            adds,
            switch: schedule.switch_of(transfer.to).map(|node| fabric.adding_rate(node).unwrap_or(Rate(u64::MAX))),
            reads: match (schedule.switch_of(transfer.from), schedule.switch_of(transfer.to)) {
                (Some(_), _) => 0,
                (None, Some(_)) => 1,
                (None, None) => reads(adds),
            },
            goes_on: transfer.route.len() > 1,
            packets: Packets { count: 0, flits: 0 },
            reduce: 0,
            fetch: Fetch::default(),
        }
    }

    /// With packets and times for its size.
    pub(super) fn resolved(self, costs: CostModel) -> MessageKind {
        let MessageCost { packets, mut adding_ps, fetch } = costs.message_read(self.bytes, self.adds, self.reads);
        // What a switch passes on crosses no bus.
        let fetch = if self.reads == 0 { Fetch::default() } else { fetch };
        if let Some(rate) = self.switch {
            adding_ps = rate.time_for(self.bytes);
        }
        MessageKind { packets, reduce: adding_ps, fetch, ..self }
    }

    /// Each message cut into so many, which follow each other.
    pub(super) fn cut(self, parts: u64, costs: CostModel) -> MessageKind {
        let (chunks, stride) = (self.chunks * parts, self.stride.max(1));
        MessageKind { chunks, stride, bytes: self.bytes.div_ceil(parts), ..self }.resolved(costs)
    }
}
