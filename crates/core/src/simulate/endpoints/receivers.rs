//! Receivers: one reduction at a time, and what an applied message sets free.

use super::{Carrier, Endpoints, Event};
use crate::schedule::TransferId;
use crate::simulate::clock::Ticks;

impl Endpoints<'_> {
    /// A message was handed over.
    pub fn received(&mut self, transfer: TransferId, now: Ticks, carrier: &mut impl Carrier) {
        self.hold(transfer, now);
        if self.stop_and_wait {
            let queue = self.transfer_queue[transfer as usize];
            self.queues[queue as usize].outstanding -= 1;
            self.advance(queue, now, carrier);
        }
    }

    /// A message may be added or stored: its reduction takes its turn.
    pub fn reduce(&mut self, transfer: TransferId, now: Ticks) {
        let job = &self.plan.jobs[transfer as usize];
        let mut at = now;
        if job.reduce > 0 {
            let free = &mut self.reducer_free[job.to as usize];
            *free = now.max(*free) + job.reduce;
            at = *free;
        }
        self.push(at, Event::Applied { transfer });
    }

    /// A message was added or stored.
    pub fn apply(&mut self, transfer: TransferId, now: Ticks, carrier: &mut impl Carrier) {
        let job = &self.plan.jobs[transfer as usize];
        let chunk = self.applied[transfer as usize];
        self.applied[transfer as usize] += 1;
        self.done += 1;
        self.deliveries.applied(self.plan, transfer, chunk, now);
        self.phase_left[job.phase as usize] -= 1;
        if self.phase_left[job.phase as usize] == 0 {
            self.open_gate(now, carrier);
        }
        self.wake(transfer, now, carrier);
    }
}
