//! Events in time order, ties broken in schedule order.

use crate::fabric::LinkId;
use crate::schedule::TransferId;
use crate::units::Picos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What can happen.
#[derive(Clone, Copy)]
pub enum Event {
    /// A link finished its service.
    LinkDone { link: LinkId, version: u32 },
    /// A packet reached the node before hop `hop`.
    Arrive { transfer: TransferId, chunk: u64, hop: u32, last: bool },
    /// The last packet of a message was received and handed over.
    Received { transfer: TransferId },
    /// Its data was added (or stored).
    Applied { transfer: TransferId },
    /// Something a sender may have waited for happened.
    Wake { queue: u32 },
}

impl Event {
    /// Rank among simultaneous events: kind, then link, transfer or queue number.
    pub fn rank(self) -> (u64, u32) {
        match self {
            Event::LinkDone { link, .. } => (0, link),
            Event::Arrive { transfer, .. } => (1, transfer),
            Event::Received { transfer } => (2, transfer),
            Event::Applied { transfer } => (3, transfer),
            Event::Wake { queue } => (4, queue),
        }
    }
}

/// An event with its time and rank among simultaneous ones: kind, then link, transfer or queue
/// number, then creation. So ties are broken in schedule order, whatever happened before.
#[derive(Clone, Copy)]
struct Timed(Picos, u64, Event);

impl PartialEq for Timed {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Timed {}
impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Timed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// Events to come.
#[derive(Default)]
pub struct Events {
    heap: BinaryHeap<Reverse<Timed>>,
    created: u64,
}

impl Events {
    /// Adds an event.
    pub fn push(&mut self, at: Picos, event: Event) {
        self.created = (self.created + 1) & 0xffff_ffff;
        let (kind, id) = event.rank();
        // 3 bits of kind, 29 of number, 32 of creation order.
        let key = kind << 61 | (id as u64 & 0x1fff_ffff) << 32 | self.created;
        self.heap.push(Reverse(Timed(at, key, event)));
    }

    /// Removes the next event.
    pub fn pop(&mut self) -> Option<(Picos, Event)> {
        self.heap.pop().map(|Reverse(Timed(at, _, event))| (at, event))
    }
}
