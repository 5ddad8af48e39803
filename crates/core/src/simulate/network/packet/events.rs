//! Events in time order, ties broken in schedule order.
//!
//! A link has at most one event to come, the end of its service, and these are most of all events,
//! so they are not in the heap. Single packets mostly take equally long, so that a list of their ends
//! is sorted as it grows. All others are in a tournament: a binary tree over the links in which
//! every node knows the earliest end below it.

use crate::fabric::LinkId;
use crate::schedule::TransferId;
use crate::simulate::clock::Ticks;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What can happen.
#[derive(Clone, Copy)]
pub enum Event {
    /// A link finished its service.
    LinkDone { link: LinkId },
    /// A packet reached the node before hop `hop`, or a message on no links its receiver.
    Arrive { transfer: TransferId, hop: u32, last: bool },
    /// The last packet of a run that feeds a link has come to it.
    Fed { link: LinkId, feeder: u32 },
}

/// An event with its time and rank among simultaneous ones: transfer, then creation. So ties are broken in
/// schedule order, whatever happened before.
#[derive(Clone, Copy)]
struct Timed(Ticks, u64, Event);

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
    /// Arrivals that came in order, as they do where links have one latency.
    sorted: VecDeque<Timed>,
    created: u64,
    /// Ends of services of one packet each, and their links, in order.
    singles: VecDeque<(Ticks, LinkId)>,
    /// Earliest end of another service and its link, of two links or nodes each; node 1 is the root,
    /// link `i` is node `links + i` with `links` rounded up to a power of two.
    runs: Vec<(Ticks, LinkId)>,
}

impl Events {
    /// No events, for a fabric of `links` links.
    pub fn new(links: usize) -> Self {
        let leaves = links.next_power_of_two();
        let nodes = (0..2 * leaves).map(|node| (Ticks::MAX, (node % leaves) as LinkId));
        Events {
            heap: BinaryHeap::new(),
            sorted: VecDeque::new(),
            created: 0,
            singles: VecDeque::new(),
            runs: nodes.collect(),
        }
    }

    /// Adds an event other than the end of a service.
    pub fn push(&mut self, at: Ticks, transfer: TransferId, event: Event) {
        self.created = (self.created + 1) & 0xffff_ffff;
        let timed = Timed(at, u64::from(transfer) << 32 | self.created, event);
        if self.sorted.back().is_none_or(|last| *last <= timed) {
            self.sorted.push_back(timed);
        } else {
            self.heap.push(Reverse(timed));
        }
    }

    /// The next arrival, and whether it is in `sorted`.
    #[inline]
    fn first_arrival(&self) -> Option<(Timed, bool)> {
        let (front, top) = (self.sorted.front().copied(), self.heap.peek().map(|Reverse(top)| *top));
        match (front, top) {
            (Some(front), Some(top)) if top < front => Some((top, false)),
            (Some(front), _) => Some((front, true)),
            (None, top) => Some((top?, false)),
        }
    }

    /// The service of an idle link, of one packet, ends at `at`.
    #[inline]
    pub fn end_single(&mut self, link: LinkId, at: Ticks) {
        if self.singles.back().is_none_or(|&last| last < (at, link)) {
            self.singles.push_back((at, link));
        } else {
            self.end_run(link, at);
        }
    }

    /// The service of a link, of several packets until now, ends at `at`; replaces what was set.
    pub fn end_run(&mut self, link: LinkId, at: Ticks) {
        let mut node = self.runs.len() / 2 + link as usize;
        let mut first = (at, link);
        self.runs[node] = first;
        while node > 1 {
            // Of simultaneous ends that of the lowest link is first.
            first = first.min(self.runs[node ^ 1]);
            node /= 2;
            self.runs[node] = first;
        }
    }

    /// The first end of a service, and whether it is one of `singles`.
    fn first_end(&self) -> ((Ticks, LinkId), bool) {
        match self.singles.front() {
            Some(&single) if single < self.runs[1] => (single, true),
            _ => (self.runs[1], false),
        }
    }

    /// When the next event is; [`Ticks::MAX`] if there is none.
    pub fn next_at(&self) -> Ticks {
        let ((end, _), _) = self.first_end();
        self.first_arrival().map_or(end, |(first, _)| first.0.min(end))
    }

    /// Removes the next event.
    #[inline]
    pub fn next(&mut self) -> Option<(Ticks, Event)> {
        let ((end, link), single) = self.first_end();
        match self.first_arrival() {
            Some((Timed(at, _, event), sorted)) if at < end => {
                if sorted {
                    self.sorted.pop_front();
                } else {
                    self.heap.pop();
                }
                return Some((at, event));
            }
            // A simultaneous end comes first.
            _ if single => drop(self.singles.pop_front()),
            _ if end < Ticks::MAX => self.end_run(link, Ticks::MAX),
            _ => return None,
        }
        Some((end, Event::LinkDone { link }))
    }

    /// Arrivals to come, in order.
    pub fn arrivals(&self) -> Vec<(Ticks, Event)> {
        let mut arrivals: Vec<Timed> =
            self.heap.iter().map(|&Reverse(timed)| timed).chain(self.sorted.iter().copied()).collect();
        arrivals.sort_unstable();
        arrivals.into_iter().map(|Timed(at, _, event)| (at, event)).collect()
    }

    /// Makes every event happen later by `by`.
    pub fn delay(&mut self, by: Ticks) {
        self.heap =
            self.heap.drain().map(|Reverse(Timed(at, key, event))| Reverse(Timed(at + by, key, event))).collect();
        self.sorted.iter_mut().for_each(|timed| timed.0 += by);
        self.singles.iter_mut().for_each(|(at, _)| *at += by);
        self.runs.iter_mut().filter(|(at, _)| *at < Ticks::MAX).for_each(|(at, _)| *at += by);
    }
}
