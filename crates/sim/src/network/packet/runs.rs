//! Runs of packets that go from link to link without an event for each.
//!
//! A run on one link *feeds* the next link of the route: it is known when each of its packets will
//! arrive there, so they join the queue when something asks what is in it. A link in whose queue
//! nothing else is takes the packets to come as a run of its own, which follows the first, and so on
//! down the route. When something else comes between, a run is cut after the packets before it, and
//! so are those that follow it. Where links have latency a run feeds the next link for as long after its end.

use super::link::{LinkRequest, PacketLink};
use super::service::{PacketService, PacketSource, ServiceMoment, ServiceTurn};
use super::{Flow, Packet, Tail};
use crate::clock::Ticks;
use antiphon_model::fabric::LinkId;

/// A run that feeds a link.
pub struct Feeder {
    /// Tells it from others.
    pub number: u32,
    /// The run, later by the latency of its link, and sooner by what packets ask ahead: they arrive when they leave this.
    pub run: PacketService,
    /// The turn of its packets' arrivals.
    pub turn: ServiceTurn,
    /// Packets of it that have joined the queue of the link it feeds, or a run there.
    pub taken: u64,
    /// Whether the run is over, so that nothing changes it any more.
    pub ended: bool,
}

impl Feeder {
    /// Whether before a moment all has come that it brings.
    pub fn is_done(&self, moment: ServiceMoment) -> bool {
        self.ended && self.taken == self.run.packets && self.run.is_over(self.turn, moment)
    }
}

/// The next packet that feeders bring to a link.
pub struct Coming {
    /// Which of its feeders.
    feeder: usize,
    /// When.
    pub at: ServiceMoment,
    /// When another feeder brings one.
    other: ServiceMoment,
}

/// After everything.
const NEVER: ServiceMoment = (Ticks::MAX, ServiceTurn::LAST);

/// Most runs that feed one link, as many as nodes of meshes have neighbours: every event looks at all of them.
const MAX_FEEDERS: usize = 4;

impl Packet<'_> {
    /// The place of the event being processed in the order of requests.
    pub fn moment(&self) -> ServiceMoment {
        (self.now, self.turn)
    }

    /// Whether packets can be a run on a link: their route ends there, or the run can feed the next link.
    pub fn merges(&self, flow: Flow, link: LinkId) -> bool {
        // Simultaneous arrivals of a transfer at one link are not told apart by their turns.
        let feeds = |next: LinkId| {
            !self.revisiting[flow.transfer as usize]
                && !self.ranking.is_shared(next)
                && self.links[next as usize].feeders.len() < MAX_FEEDERS
        };
        // Where flights meet, and at the end of a part, every packet is told apart.
        self.merge_runs
            && !self.ranking.is_shared(link)
            && !self.leaves(link)
            && self.link_after(flow).is_none_or(feeds)
    }

    /// The next packet to come to a link, if any.
    pub fn coming(&self, link: LinkId) -> Option<Coming> {
        let mut coming = Coming { feeder: 0, at: NEVER, other: NEVER };
        for (index, feeder) in self.links[link as usize].feeders.iter().enumerate() {
            if feeder.taken < feeder.run.packets {
                let at = (feeder.run.end_of(feeder.taken), feeder.turn);
                if at < coming.at {
                    coming = Coming { feeder: index, at, other: coming.at };
                } else {
                    coming.other = coming.other.min(at);
                }
            }
        }
        (coming.at < NEVER).then_some(coming)
    }

    /// Takes what a feeder of a link brings before a moment: how many packets, and whether they end with the last of a
    /// message.
    fn take(&mut self, link: LinkId, feeder: usize, until: ServiceMoment) -> (u64, Option<Tail>) {
        let Feeder { run, turn, taken, .. } = &mut self.links[link as usize].feeders[feeder];
        let come = run.left_before(*turn, until);
        (come - std::mem::replace(taken, come), run.last.filter(|_| come == run.packets))
    }

    /// Queues what feeders brought to a busy link before a moment.
    #[inline]
    pub fn catch_up(&mut self, link: LinkId, until: ServiceMoment) {
        if !self.links[link as usize].feeders.is_empty() {
            self.queue_until(link, until);
        }
    }

    fn queue_until(&mut self, link: LinkId, until: ServiceMoment) {
        while let Some(Coming { feeder, at, other }) = self.coming(link)
            && at < until
        {
            let flow = self.links[link as usize].feeders[feeder].run.flow.next();
            let (count, last) = self.take(link, feeder, until.min(other));
            let request = LinkRequest::Transit { flow, count: count as u32, last };
            self.queue(link, request);
        }
        if self.links[link as usize].feeders.iter().any(|feeder| feeder.is_done(until)) {
            self.drop_feeders(link, until);
        }
    }

    /// Forgets feeders that bring nothing more: nobody waits for that, so it is no event.
    fn drop_feeders(&mut self, link: LinkId, moment: ServiceMoment) {
        let PacketLink { service, feeders, .. } = &mut self.links[link as usize];
        if let Some(service) = service
            && let PacketSource::Run(number) = service.source
            && feeders.iter().any(|feeder| feeder.number == number && feeder.is_done(moment))
        {
            service.source = PacketSource::Queue;
            let packets = service.packets;
            self.set_waited(link, packets);
        }
        self.links[link as usize].feeders.retain(|feeder| !feeder.is_done(moment));
    }

    /// A service of the packets that feeders are going to bring to an idle link, if any.
    pub fn follow(&mut self, link: LinkId) -> Option<PacketService> {
        let Coming { feeder, at, other } = self.coming(link)?;
        let (start, turn) = at;
        let Feeder { number, run: PacketService { flow, spacing, .. }, .. } = self.links[link as usize].feeders[feeder];
        let flow = flow.next();
        let until = if self.merges(flow, link) { other } else { (start, turn.after()) };
        let (packets, last) = self.take(link, feeder, until);
        let service = self.service(link, PacketSource::Run(number), flow, packets, last);
        self.set_waited(link, 0);
        Some(PacketService { start, spacing: spacing.max(service.packet_time), ..service })
    }

    /// Extends a run of packets that waited, and none behind them, by those that a run brings in
    /// time.
    pub fn extend(&mut self, link: LinkId, service: &mut PacketService) {
        let Some(Coming { feeder, at: (at, _), other }) = self.coming(link) else { return };
        let Feeder { number, ref run, .. } = self.links[link as usize].feeders[feeder];
        if at <= service.end_of(service.packets - 1)
            && run.flow.next() == service.flow
            && run.spacing <= service.packet_time
        {
            let (packets, last) = self.take(link, feeder, other);
            service.source = PacketSource::Run(number);
            service.packets += packets;
            service.last = last;
        }
    }

    /// The link that takes the packets of a service without an event for each, and the number of the feeder there.
    pub fn fed(&self, service: &PacketService) -> Option<(LinkId, u32)> {
        service.feeds.and_then(|number| Some((self.link_after(service.flow)?, number)))
    }

    /// The service that begins on a link feeds the next link, which is returned, if it is a run and its route goes on.
    pub fn feed(&mut self, link: LinkId) -> Option<LinkId> {
        let PacketLink { service, latency, .. } = self.links[link as usize];
        let service = service?;
        let (next, number) = self.fed(&service)?;
        let ahead = self.ahead(service.flow, link);
        let turn = if latency == 0 && ahead == 0 {
            ServiceTurn::done(link)
        } else {
            ServiceTurn::packet(service.flow.transfer)
        };
        let run = PacketService { start: service.start + latency, packet_time: service.packet_time - ahead, ..service };
        let first = (run.end_of(0), turn);
        self.links[next as usize].feeders.push(Feeder { number, run, turn, taken: 0, ended: false });
        self.limit(next, first);
        Some(next)
    }

    /// A run that feeds a link has ended. Its last packet may still be on the way.
    pub fn end_feeding(&mut self, link: LinkId, number: u32, moment: ServiceMoment) {
        self.links[link as usize].feeder(number).ended = true;
        self.catch_up(link, moment);
    }

    /// Another packet comes to a link at a moment, not in the past: a run there ends before it.
    #[inline]
    pub fn limit(&mut self, link: LinkId, at: ServiceMoment) {
        let Some(service) = &self.links[link as usize].service else { return };
        let packets = service.packets;
        // A single packet that follows no run is being sent.
        if packets == 1 && !matches!(service.source, PacketSource::Run(_)) {
            return;
        }
        // Where inputs take turns, what waited does not go first.
        let begun = self.turns_of(link).map_or(u64::MAX, |_| service.left_before(ServiceTurn::done(link), at) + 1);
        let keep = match service.source {
            // The packet that is being sent when it has asked for the next.
            PacketSource::Interface(_) | PacketSource::Channel(..) => {
                (service.left_before(ServiceTurn::done(link), at) + 1).min(packets)
            }
            PacketSource::Run(number) => {
                let Feeder { run, turn, taken, .. } = self.links[link as usize].feeder(number);
                packets - taken.saturating_sub(run.left_before(*turn, at))
            }
            PacketSource::Queue if self.turns_of(link).is_some() => packets,
            PacketSource::Queue => return,
        };
        self.cut(link, keep.min(begun));
    }

    /// The run on a link ends after `keep` packets, and so do those that follow it.
    pub fn cut(&mut self, mut link: LinkId, mut keep: u64) {
        loop {
            let waited = self.waited(link);
            let state = &mut self.links[link as usize];
            let Some(service) = &mut state.service else { return };
            let dropped = service.packets - keep;
            if dropped == 0 {
                return;
            }
            let last = service.last.filter(|_| waited == service.packets);
            (service.packets, service.last, service.is_cut) = (keep, None, true);
            let run = *service;
            // What is over already, or never begins, ends now.
            let end = if keep > 0 { service.end_of(keep - 1).max(self.now) } else { self.now };
            self.events.end_run(link, end);
            if let PacketSource::Run(number) = run.source {
                state.feeder(number).taken -= dropped.min(keep + dropped - waited);
            }
            if waited > keep && matches!(run.source, PacketSource::Run(_) | PacketSource::Queue) {
                self.wait_again(link, run.flow, keep, last);
            }
            let Some((next, number)) = self.fed(&run) else { return };
            let next_state = &mut self.links[next as usize];
            let Feeder { run, taken, .. } = next_state.feeder(number);
            (run.packets, run.last) = (keep, None);
            // Of packets that have not begun only a run that follows this one has taken any.
            let lost = taken.saturating_sub(keep);
            let Some(follower) = &next_state.service else { return };
            (link, keep) = (next, follower.packets - lost);
        }
    }

    /// Accounts for the packets of a run of an interface that have left.
    pub fn settle(&mut self, link: LinkId) {
        let moment = self.moment();
        let Some(run) = self.links[link as usize].service else { return };
        let (PacketSource::Interface(id) | PacketSource::Channel(id, _)) = run.source else { return };
        let left = run.left_before(ServiceTurn::done(link), moment).min(run.packets - 1).max(run.settled);
        self.account(id, link, &run, left);
    }
}
