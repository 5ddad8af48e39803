//! Runs of packets that go from link to link without an event for each.
//!
//! A run on one link *feeds* the next link of the route: it is known when each of its packets will
//! arrive there, so they join the queue when something asks what is in it. A link in whose queue
//! nothing else is takes the packets to come as a run of its own, which follows the first, and so on
//! down the route. When something else comes between, a run is cut after the packets before it, and
//! so are those that follow it.

use super::Network;
use super::link::Request;
use super::service::{Moment, Service, Source};
use crate::fabric::LinkId;
use crate::units::Picos;

/// A run that feeds a link.
pub struct Feeder {
    /// The link it is on.
    pub link: LinkId,
    /// Packets of it that have joined the queue of the link it feeds, or a run there.
    pub taken: u64,
}

/// After everything.
const NEVER: Moment = (Picos::MAX, LinkId::MAX);

impl Network<'_> {
    /// The place of the event being processed in the order of requests.
    pub fn moment(&self) -> Moment {
        (self.now, self.turn)
    }

    /// The feeder that brings a link its next packet, when, and when another one does.
    pub fn first_feeder(&self, link: LinkId) -> (usize, Moment, Moment) {
        let (mut first, mut second) = ((0, NEVER), NEVER);
        for (index, feeder) in self.links[link as usize].feeders.iter().enumerate() {
            let run = self.run(feeder.link);
            if feeder.taken < run.packets {
                let at = (run.end_of(feeder.taken), feeder.link);
                if at < first.1 {
                    (first, second) = ((index, at), first.1);
                } else {
                    second = second.min(at);
                }
            }
        }
        (first.0, first.1, second)
    }

    fn run(&self, link: LinkId) -> &Service {
        self.links[link as usize].service.as_ref().expect("a run feeds until its end")
    }

    /// Takes what a feeder of a link brings before a moment.
    pub fn take(&mut self, link: LinkId, index: usize, until: Moment) -> Request {
        let &Feeder { link: from, taken } = &self.links[link as usize].feeders[index];
        let run = self.run(from);
        let until = run.left_before(from, until);
        let last = run.last && until == run.packets;
        let request =
            Request::Transit { transfer: run.transfer, hop: run.hop + 1, count: (until - taken) as u32, last };
        self.links[link as usize].feeders[index].taken = until;
        request
    }

    /// Queues what feeders brought to a busy link before a moment.
    pub fn catch_up(&mut self, link: LinkId, until: Moment) {
        if self.links[link as usize].feeders.is_empty() {
            return;
        }
        loop {
            let (index, at, next) = self.first_feeder(link);
            if at >= until {
                return;
            }
            let request = self.take(link, index, until.min(next));
            self.links[link as usize].push(request);
        }
    }

    /// The packets that feeders are going to bring to an idle link without a queue.
    pub fn follow(&mut self, link: LinkId) -> Option<Service> {
        let (index, (at, from), next) = self.first_feeder(link);
        if at == Picos::MAX {
            return None;
        }
        let &Service { transfer, hop, spacing_ps, .. } = self.run(from);
        let packet_ps = self.packet_ps(transfer, link);
        let until = if self.merges(transfer, hop + 1, link) { next } else { (at, from + 1) };
        let Request::Transit { count, last, .. } = self.take(link, index, until) else { return None };
        Some(Service {
            source: Source::Run(from),
            transfer,
            hop: hop + 1,
            last,
            start: at,
            spacing_ps: spacing_ps.max(packet_ps),
            packet_ps,
            packets: count as u64,
            settled: 0,
            feeds: None,
        })
    }

    /// Extends a service of packets that waited, and none behind them, by those that a run brings in
    /// time.
    pub fn extend(&mut self, link: LinkId, service: &mut Service) {
        let (index, (at, from), next) = self.first_feeder(link);
        if at > service.start + service.packets * service.packet_ps {
            return;
        }
        let run = self.run(from);
        if (run.transfer, run.hop + 1) == (service.transfer, service.hop) && run.spacing_ps <= service.packet_ps {
            let Request::Transit { count, last, .. } = self.take(link, index, next) else { return };
            service.source = Source::Run(from);
            service.packets += count as u64;
            service.last = last;
        }
    }

    /// The run on `from` feeds a link from now on.
    pub fn feed(&mut self, link: LinkId, from: LinkId) {
        let first = (self.run(from).end_of(0), from);
        self.links[link as usize].feeders.push(Feeder { link: from, taken: 0 });
        if self.links[link as usize].service.is_none() {
            self.serve(link);
        } else {
            self.limit(link, first);
        }
    }

    /// The run on `from`, which fed a link, has ended before a moment.
    pub fn stop_feeding(&mut self, link: LinkId, from: LinkId, moment: Moment) {
        self.catch_up(link, moment);
        let state = &mut self.links[link as usize];
        state.feeders.retain(|feeder| feeder.link != from);
        if let Some(service) = &mut state.service
            && service.source == Source::Run(from)
        {
            service.source = Source::Queue;
        }
    }

    /// Another packet comes to a link at a moment, not in the past: a run there ends before it.
    pub fn limit(&mut self, link: LinkId, at: Moment) {
        let Some(service) = &self.links[link as usize].service else { return };
        let packets = service.packets;
        let keep = match service.source {
            // The packet that is being sent when it has asked for the next.
            Source::Interface(_) => (service.left_before(link, at) + 1).min(packets),
            Source::Run(from) => {
                let come = self.run(from).left_before(from, at);
                let taken = *self.links[link as usize].taken_of(from);
                packets - taken.saturating_sub(come)
            }
            Source::Queue | Source::Channel(..) => return,
        };
        self.cut(link, keep);
    }

    /// The run on a link ends after `keep` packets, and so do those that follow it.
    pub fn cut(&mut self, mut link: LinkId, mut keep: u64) {
        loop {
            let state = &mut self.links[link as usize];
            let Some(service) = &mut state.service else { return };
            let dropped = service.packets - keep;
            if dropped == 0 {
                return;
            }
            (service.packets, service.last) = (keep, false);
            let &mut Service { source, feeds, .. } = service;
            // What is over already, or never begins, ends now.
            let end = if keep > 0 { service.end_of(keep - 1).max(self.now) } else { self.now };
            self.events.end_run(link, end);
            if let Source::Run(from) = source {
                *state.taken_of(from) -= dropped;
            }
            let Some(next) = feeds else { return };
            let next_state = &mut self.links[next as usize];
            // Of packets that have not begun only a run that follows this one has taken any.
            let lost = next_state.taken_of(link).saturating_sub(keep);
            let Some(follower) = &next_state.service else { return };
            (link, keep) = (next, follower.packets - lost);
        }
    }

    /// Accounts for the packets of a run of an interface that have left.
    pub fn settle(&mut self, link: LinkId) {
        let moment = self.moment();
        let Some(service) = &mut self.links[link as usize].service else { return };
        let Source::Interface(id) = service.source else { return };
        let left = service.left_before(link, moment).min(service.packets - 1);
        let run = *service;
        service.settled = left;
        self.account(id, link, &run, left);
    }
}
