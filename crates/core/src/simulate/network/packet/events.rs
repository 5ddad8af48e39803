//! Events in time order, ties broken in schedule order.
//!
//! A link has at most one event to come, the end of its service, and these are most of all events,
//! so they are not with the others. Ends of single packets are never changed. Those of runs are in a tournament: a tree
//! over the links in which every node knows the earliest end below it.

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
}

/// Events to come.
pub struct Events {
    /// Other events. Simultaneous ones are in the order of their transfers, then of their creation: so ties are broken
    /// in schedule order, whatever happened before.
    arrivals: Agenda<(u64, Event)>,
    created: u64,
    /// Ends of services of one packet each, by link.
    singles: Agenda<LinkId>,
    /// The first end of another service below every node, as its time and its link. Node 0 is the root, those below node
    /// `i` are `4 i + 1` to `4 i + 4`, the last ones the links.
    runs: Vec<u128>,
    /// The node of the first link.
    leaf: usize,
    /// The link whose service has just ended. Its end is still among `runs`, since mostly that of the next replaces it.
    ended: Option<LinkId>,
}

/// No end.
const NEVER: u128 = (Ticks::MAX as u128) << 32;

/// In the order of time; of simultaneous ends that of the lowest link is first.
fn end(at: Ticks, link: LinkId) -> u128 {
    u128::from(at) << 32 | u128::from(link)
}

impl Events {
    /// No events, for a fabric of `links` links.
    pub fn new(links: usize) -> Self {
        let mut leaf = 0;
        while 3 * leaf + 1 < links {
            leaf = 4 * leaf + 1;
        }
        let runs = vec![NEVER; 4 * leaf + 1];
        Events { arrivals: Agenda::new(), created: 0, singles: Agenda::new(), runs, leaf, ended: None }
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
        self.ended.take_if(|ended| *ended == link);
        let mut node = self.leaf + link as usize;
        self.runs[node] = if at < Ticks::MAX { end(at, link) } else { NEVER };
        while node > 0 {
            node = (node - 1) / 4;
            let &[a, b, c, d] = self.runs[4 * node + 1..].first_chunk().expect("a node has four below it");
            let first = a.min(b).min(c.min(d));
            if self.runs[node] == first {
                return; // so are all above
            }
            self.runs[node] = first;
        }
    }

    /// The first end of a service, and whether it is one of `singles`.
    fn first_end(&self) -> ((Ticks, LinkId), bool) {
        let run = self.runs[0];
        match self.singles.first() {
            Some(single) if end(single.0, single.1) < run => (single, true),
            _ => (((run >> 32) as Ticks, run as LinkId), false),
        }
    }

    /// When the next event is; [`Ticks::MAX`] if there is none.
    pub fn next_at(&self) -> Ticks {
        let ((end, _), _) = self.first_end();
        self.arrivals.next_at().min(end)
    }

    /// Removes the next event. When it has happened, [`Self::happened`] is to be called.
    #[inline]
    pub fn next(&mut self) -> Option<(Ticks, Event)> {
        let ((end, link), single) = self.first_end();
        // A simultaneous end comes first.
        if self.arrivals.next_at() < end {
            return self.arrivals.pop().map(|(at, (_, event))| (at, event));
        }
        match single {
            true => drop(self.singles.pop()),
            false if end < Ticks::MAX => self.ended = Some(link),
            false => return None,
        }
        Some((end, Event::LinkDone { link }))
    }

    /// The event has happened.
    #[inline]
    pub fn happened(&mut self) {
        if let Some(link) = self.ended {
            self.end_run(link, Ticks::MAX);
        }
    }

    /// Arrivals to come, in order.
    pub fn arrivals(&self) -> Vec<(Ticks, Event)> {
        self.arrivals.in_order().into_iter().map(|(at, (_, event))| (at, event)).collect()
    }

    /// Makes every event happen later by `by`.
    pub fn delay(&mut self, by: Ticks) {
        self.arrivals.replace(|at, arrival| (at + by, arrival));
        self.singles.replace(|at, link| (at + by, link));
        self.runs.iter_mut().filter(|run| **run < NEVER).for_each(|run| *run += end(by, 0));
    }
}
