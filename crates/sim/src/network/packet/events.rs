//! Events in time order, ties broken in schedule order.
//!
//! A link has at most one event to come, the end of its service, and these are most of all events,
//! so they are not with the others. Ends of single packets are never changed: those that come in order are a list. Others, and
//! those of runs, are in a tournament: a tree over the links in which every node knows the earliest end below it.

use super::{Flow, Tail};
use crate::agenda::Agenda;
use crate::clock::Ticks;
use antiphon_model::fabric::LinkId;
use std::collections::VecDeque;

/// A packet, and whether it is the last of a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    pub flow: Flow,
    pub last: Option<Tail>,
}

/// What can happen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PacketEvent {
    /// A link finished its service.
    LinkDone { link: LinkId },
    /// A packet reached the node before a link, or a message on no links its receiver.
    Arrive(Arrival),
}

/// Events to come.
pub struct Events {
    /// Other events. Simultaneous ones are in the order of their transfers, then of their creation: so ties are broken
    /// in schedule order, whatever happened before.
    arrivals: Agenda<(u64, Arrival)>,
    created: u64,
    /// Ends of services of one packet each, and their links, in order: mostly packets take equally long. Others are among
    /// `runs`.
    singles: VecDeque<(Ticks, LinkId)>,
    /// The first end of another service below every node and its link; [`Ticks::MAX`] if there is none. Node 0 is the root,
    /// those below node `i` are `4 i + 1` to `4 i + 4`, the last ones the links.
    runs: Vec<(Ticks, LinkId)>,
    /// The node of the first link.
    leaf: usize,
    /// The link whose service has just ended. Its end is still among `runs`, since mostly that of the next replaces it.
    ended: Option<LinkId>,
}

impl Events {
    /// No events, for a fabric of `links` links.
    pub fn new(links: usize) -> Self {
        let mut leaf = 0;
        while 3 * leaf + 1 < links {
            leaf = 4 * leaf + 1;
        }
        let runs = vec![(Ticks::MAX, 0); 4 * leaf + 1];
        Events { arrivals: Agenda::new(), created: 0, singles: VecDeque::new(), runs, leaf, ended: None }
    }

    /// Adds an event other than the end of a service.
    pub fn push(&mut self, at: Ticks, packet: Arrival) {
        self.created = (self.created + 1) & 0xffff_ffff;
        self.arrivals.push(at, (u64::from(packet.flow.transfer) << 32 | self.created, packet));
    }

    /// The service of an idle link, of one packet, ends at `at`.
    #[inline]
    pub fn end_single(&mut self, link: LinkId, at: Ticks) {
        match self.singles.back() {
            Some(last) if *last > (at, link) => self.end_run(link, at),
            _ => self.singles.push_back((at, link)),
        }
    }

    /// The service of a link, of several packets until now or out of order, ends at `at`, or never ([`Ticks::MAX`]); replaces
    /// what was set.
    pub fn end_run(&mut self, link: LinkId, at: Ticks) {
        self.ended.take_if(|ended| *ended == link);
        let mut node = self.leaf + link as usize;
        let before = std::mem::replace(&mut self.runs[node], (at, link));
        if at < before.0 {
            // It is the first below every node whose first is later.
            while node > 0 {
                node = (node - 1) / 4;
                if self.runs[node] < (at, link) {
                    return;
                }
                self.runs[node] = (at, link);
            }
        } else {
            // Another may be the first where it was.
            while node > 0 {
                node = (node - 1) / 4;
                if self.runs[node].1 != link {
                    return;
                }
                let &[a, b, c, d] = self.runs[4 * node + 1..].first_chunk().expect("a node has four below it");
                // Of simultaneous ends that of the lowest link is first: links are in order.
                let first = |one: (Ticks, LinkId), other: (Ticks, LinkId)| if other.0 < one.0 { other } else { one };
                self.runs[node] = first(first(a, b), first(c, d));
            }
        }
    }

    /// When the next event is; [`Ticks::MAX`] if there is none.
    pub fn next_at(&self) -> Ticks {
        self.arrivals.next_at().min(self.next_single()).min(self.runs[0].0)
    }

    /// When the first of `singles` is.
    fn next_single(&self) -> Ticks {
        self.singles.front().map_or(Ticks::MAX, |&(at, _)| at)
    }

    /// Removes the next event. When it has happened, [`Self::happened`] is to be called.
    #[inline]
    pub fn next(&mut self) -> Option<(Ticks, PacketEvent)> {
        let (run, single) = (self.runs[0], self.singles.front().copied().unwrap_or((Ticks::MAX, 0)));
        // A simultaneous end comes first; of several that of the lowest link.
        if self.arrivals.next_at() < run.0.min(single.0) {
            return self.arrivals.pop().map(|(at, (_, packet))| (at, PacketEvent::Arrive(packet)));
        }
        if single < run {
            return self.singles.pop_front().map(|(at, link)| (at, PacketEvent::LinkDone { link }));
        }
        let (at, link) = run;
        if at == Ticks::MAX {
            return None;
        }
        self.ended = Some(link);
        Some((at, PacketEvent::LinkDone { link }))
    }

    /// The event has happened.
    #[inline]
    pub fn happened(&mut self) {
        if let Some(link) = self.ended {
            self.end_run(link, Ticks::MAX);
        }
    }

    /// Arrivals to come, in order.
    pub fn arrivals(&self) -> Vec<(Ticks, Arrival)> {
        self.arrivals.in_order().into_iter().map(|(at, (_, packet))| (at, packet)).collect()
    }

    /// Makes every event happen later by `by`, and `chunks` further of each transfer.
    pub fn delay(&mut self, by: Ticks, chunks: &[u64]) {
        let later = |Arrival { flow, last }: Arrival| Arrival { flow, last: flow.later(last, chunks) };
        self.arrivals.replace(|at, (order, packet)| (at + by, (order, later(packet))));
        self.singles.iter_mut().for_each(|(at, _)| *at += by);
        self.runs.iter_mut().filter(|(at, _)| *at < Ticks::MAX).for_each(|(at, _)| *at += by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Ends of runs and of single packets come by time and link, however often those of runs change.
        #[test]
        fn ends_come_in_order(steps in prop::collection::vec((0u32..21, prop::option::weighted(0.7, 0u64..9), any::<bool>()), 0..200)) {
            let mut events = Events::new(21);
            let mut ends: BTreeMap<LinkId, (Ticks, bool)> = BTreeMap::new();
            let first = |ends: &BTreeMap<LinkId, (Ticks, bool)>| ends.iter().map(|(&link, &(at, _))| (at, link)).min();
            let mut now = 0;
            for (link, step, alone) in steps {
                match (step, ends.get(&link)) {
                    // Those of single packets never change.
                    (Some(_), Some((_, true))) => {}
                    (Some(after), None) if alone => {
                        events.end_single(link, now + after);
                        ends.insert(link, (now + after, true));
                    }
                    (Some(after), _) => {
                        events.end_run(link, now + after);
                        ends.insert(link, (now + after, false));
                    }
                    (None, _) => {
                        let expected = first(&ends);
                        let got = events.next().map(|(at, event)| match event {
                            PacketEvent::LinkDone { link } => (at, link),
                            PacketEvent::Arrive(packet) => (at, packet.flow.transfer),
                        });
                        prop_assert_eq!(got, expected);
                        let Some((at, link)) = expected else { continue };
                        now = at;
                        ends.remove(&link);
                        events.happened();
                    }
                }
                prop_assert_eq!(events.next_at(), first(&ends).map_or(Ticks::MAX, |(at, _)| at));
            }
        }
    }
}
