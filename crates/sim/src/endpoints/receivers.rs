//! Receivers: one reduction at a time, and what an applied message sets free.

use super::{Carrier, Endpoints, RankEvent};
use crate::clock::Ticks;
use antiphon_model::schedule::{Dependency, Event, TransferId};

impl Endpoints<'_> {
    /// Whether messages of a transfer are applied when they are handed over, and nothing else happens then.
    #[inline]
    pub fn is_stored_at_once(&self, transfer: TransferId) -> bool {
        let job = &self.plan.jobs[transfer as usize];
        self.holds.is_none() && self.plan.kind(job).reduce == 0 && !self.flights[job.flight as usize].stop_and_wait
    }

    /// A message was handed over.
    pub fn received(&mut self, transfer: TransferId, chunk: u64, now: Ticks, carrier: &mut impl Carrier) {
        self.hold((transfer, chunk), now);
        let flight = self.plan.jobs[transfer as usize].flight;
        if self.flights[flight as usize].stop_and_wait {
            let queue = self.transfers[transfer as usize].queue;
            self.queues[queue as usize].outstanding -= 1;
            self.advance(queue, now, carrier);
        }
    }

    /// A message may be added or stored: its reduction takes its turn.
    pub fn reduce(&mut self, transfer: TransferId, chunk: u64, now: Ticks) {
        let job = &self.plan.jobs[transfer as usize];
        let at = match self.plan.kind(job).reduce {
            0 => now,
            reduce => self.adders.add(job.to, transfer, self.ranking.of(job.flight), now, reduce),
        };
        self.push(at, RankEvent::Applied { transfer, chunk });
    }

    /// A message was added, unless others that go first came between.
    pub fn added(&mut self, transfer: TransferId, chunk: u64, now: Ticks, carrier: &mut impl Carrier) {
        let job = &self.plan.jobs[transfer as usize];
        match self.adders.done(job.to, transfer, now) {
            Some(later) => self.push(later, RankEvent::Applied { transfer, chunk }),
            None => self.apply(transfer, chunk, now, carrier),
        }
    }

    /// A message was added or stored.
    fn apply(&mut self, transfer: TransferId, chunk: u64, now: Ticks, carrier: &mut impl Carrier) {
        let job = &self.plan.jobs[transfer as usize];
        self.early.come(transfer, chunk, &mut self.transfers[transfer as usize].applied);
        self.done += 1;
        self.buffers.applied(self.plan, job, now);
        self.deliveries.applied(self.plan, transfer, chunk, now);
        // Before a gate opens: what waits for this is not waiting any more.
        let waiting = self.waits.take(transfer);
        self.phase_left[job.phase as usize] -= 1;
        if self.phase_left[job.phase as usize] == 0 {
            self.open_gate(job.flight, now, carrier);
        }
        self.wake((Dependency::new(transfer, Event::Applied), chunk), waiting, now, carrier);
        self.drive(transfer, chunk, now, carrier);
        let left = &mut self.flights[job.flight as usize].left;
        *left -= 1;
        if *left == 0 {
            self.finished(job.flight, now);
        }
    }
}
