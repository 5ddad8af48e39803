//! Events in time order, ties broken in schedule order.
//!
//! A link has at most one event to come, the end of its service, and these are most of all events,
//! so they are not with the others. Ends of single packets are never changed. Those of runs are in a tournament: a binary
//! tree over the links in which every node knows the earliest end below it.

use super::service::Flow;
use crate::fabric::LinkId;
use crate::schedule::TransferId;
use crate::simulate::agenda::Agenda;
use crate::simulate::clock::Ticks;

/// What can happen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A link finished its service.
    LinkDone { link: LinkId },
    /// A packet reached the node before a link, or a message on no links its receiver.
    Arrive { flow: Flow, last: bool },
    /// The last packet of a run that feeds a link has come to it.
    Fed { link: LinkId, feeder: u32 },
}

/// Events to come.
pub struct Events {
    /// Other events. Simultaneous ones are in the order of their transfers, then of their creation: so ties are broken
    /// in schedule order, whatever happened before.
    arrivals: Agenda<(u64, Event)>,
    created: u64,
    /// Ends of services of one packet each, by link.
    singles: Agenda<LinkId>,
    /// Earliest end of another service and its link, of two links or nodes each; node 1 is the root,
    /// link `i` is node `links + i` with `links` rounded up to a power of two.
    runs: Vec<(Ticks, LinkId)>,
}

impl Events {
    /// No events, for a fabric of `links` links.
    pub fn new(links: usize) -> Self {
        let leaves = links.next_power_of_two();
        let nodes = (0..2 * leaves).map(|node| (Ticks::MAX, (node % leaves) as LinkId));
        Events { arrivals: Agenda::new(), created: 0, singles: Agenda::new(), runs: nodes.collect() }
    }

    /// Adds an event other than the end of a service.
    pub fn push(&mut self, at: Ticks, transfer: TransferId, event: Event) {
        self.created = (self.created + 1) & 0xffff_ffff;
        self.arrivals.push(at, (u64::from(transfer) << 32 | self.created, event));
    }

    /// The service of an idle link, of one packet, ends at `at`.
    #[inline]
    pub fn end_single(&mut self, link: LinkId, at: Ticks) {
        self.singles.push(at, link);
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
            if self.runs[node] == first {
                return; // so are all above
            }
            self.runs[node] = first;
        }
    }

    /// The first end of a service, and whether it is one of `singles`.
    fn first_end(&self) -> ((Ticks, LinkId), bool) {
        match self.singles.first() {
            Some(single) if single < self.runs[1] => (single, true),
            _ => (self.runs[1], false),
        }
    }

    /// When the next event is; [`Ticks::MAX`] if there is none.
    pub fn next_at(&self) -> Ticks {
        let ((end, _), _) = self.first_end();
        self.arrivals.next_at().min(end)
    }

    /// Removes the next event.
    #[inline]
    pub fn next(&mut self) -> Option<(Ticks, Event)> {
        let ((end, link), single) = self.first_end();
        // A simultaneous end comes first.
        if self.arrivals.next_at() < end {
            return self.arrivals.pop().map(|(at, (_, event))| (at, event));
        }
        match single {
            true => drop(self.singles.pop()),
            false if end < Ticks::MAX => self.end_run(link, Ticks::MAX),
            false => return None,
        }
        Some((end, Event::LinkDone { link }))
    }

    /// Arrivals to come, in order.
    pub fn arrivals(&self) -> Vec<(Ticks, Event)> {
        self.arrivals.in_order().into_iter().map(|(at, (_, event))| (at, event)).collect()
    }

    /// Makes every event happen later by `by`.
    pub fn delay(&mut self, by: Ticks) {
        self.arrivals.replace(|at, arrival| (at + by, arrival));
        self.singles.replace(|at, link| (at + by, link));
        self.runs.iter_mut().filter(|(at, _)| *at < Ticks::MAX).for_each(|(at, _)| *at += by);
    }
}
