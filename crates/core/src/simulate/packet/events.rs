//! Events in time order, ties broken in schedule order.
//!
//! A link has at most one event to come, the end of its service, and these are most of all events.
//! So they are not in the heap but in a tournament: a binary tree over the links in which every
//! node knows the earliest end below it.

use crate::fabric::LinkId;
use crate::schedule::TransferId;
use crate::units::Picos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What can happen.
#[derive(Clone, Copy)]
pub enum Event {
    /// A link finished its service.
    LinkDone { link: LinkId },
    /// A packet reached the node before hop `hop`, or a message on no links its receiver.
    Arrive { transfer: TransferId, hop: u32, last: bool },
}

impl Event {
    /// Rank among simultaneous events: kind, then link or transfer number.
    pub fn rank(self) -> (u64, u32) {
        match self {
            Event::LinkDone { link } => (0, link),
            Event::Arrive { transfer, .. } => (1, transfer),
        }
    }
}

/// An event with its time and rank among simultaneous ones: kind, then link or transfer number,
/// then creation. So ties are broken in schedule order, whatever happened before.
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
pub struct Events {
    heap: BinaryHeap<Reverse<Timed>>,
    created: u64,
    /// Earliest end of a service and its link, of two links or nodes each; node 1 is the root, link
    /// `i` is node `links + i` with `links` rounded up to a power of two.
    ends: Vec<(Picos, LinkId)>,
}

impl Events {
    /// No events, for a fabric of `links` links.
    pub fn new(links: usize) -> Self {
        let leaves = links.next_power_of_two();
        let nodes = (0..2 * leaves).map(|node| (Picos::MAX, (node % leaves) as LinkId));
        Events { heap: BinaryHeap::new(), created: 0, ends: nodes.collect() }
    }

    /// Adds an event other than the end of a service.
    pub fn push(&mut self, at: Picos, event: Event) {
        self.created = (self.created + 1) & 0xffff_ffff;
        let (kind, id) = event.rank();
        // 3 bits of kind, 29 of number, 32 of creation order.
        let key = kind << 61 | (id as u64 & 0x1fff_ffff) << 32 | self.created;
        self.heap.push(Reverse(Timed(at, key, event)));
    }

    /// Sets when the service of a link ends; replaces what was set.
    pub fn set_end(&mut self, link: LinkId, at: Picos) {
        let mut node = self.ends.len() / 2 + link as usize;
        let mut first = (at, link);
        self.ends[node] = first;
        while node > 1 {
            // Of simultaneous ends that of the lowest link is first.
            first = first.min(self.ends[node ^ 1]);
            node /= 2;
            self.ends[node] = first;
        }
    }

    /// The link is idle: its end is no longer to come.
    pub fn clear_end(&mut self, link: LinkId) {
        self.set_end(link, Picos::MAX);
    }

    /// When the next event is; [`Picos::MAX`] if there is none.
    pub fn next_at(&self) -> Picos {
        self.heap.peek().map_or(Picos::MAX, |Reverse(first)| first.0).min(self.ends[1].0)
    }

    /// Returns the next event. Removes it, but for the end of a service: that one is to be replaced
    /// or cleared before the next call.
    pub fn next(&mut self) -> Option<(Picos, Event)> {
        let (end, link) = self.ends[1];
        match self.heap.peek() {
            Some(Reverse(first)) if first.0 < end => self.heap.pop().map(|Reverse(Timed(at, _, event))| (at, event)),
            // A simultaneous end comes first.
            _ => (end < Picos::MAX).then_some((end, Event::LinkDone { link })),
        }
    }

    /// Arrivals to come, in order.
    pub fn arrivals(&self) -> Vec<(Picos, Event)> {
        let mut arrivals: Vec<Timed> = self.heap.iter().map(|&Reverse(timed)| timed).collect();
        arrivals.sort_unstable();
        arrivals.into_iter().map(|Timed(at, _, event)| (at, event)).collect()
    }

    /// Makes every event happen later by `by`.
    pub fn delay(&mut self, by: Picos) {
        self.heap =
            self.heap.drain().map(|Reverse(Timed(at, key, event))| Reverse(Timed(at + by, key, event))).collect();
        self.ends.iter_mut().filter(|(at, _)| *at < Picos::MAX).for_each(|(at, _)| *at += by);
    }
}
