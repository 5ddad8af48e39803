//! Messages that wait at their receivers.

use super::waits::{Waiting, Waits};
use super::{Carrier, Endpoints};
use crate::schedule::TransferId;
use crate::simulate::clock::Ticks;
use smallvec::SmallVec;

/// See the module.
pub struct Holds {
    /// Chunks of every transfer that were received, and those of them no longer held.
    pub received: Vec<u64>,
    pub released: Vec<u64>,
    /// Transfers with messages that are held.
    pub waits: Waits,
}

impl Holds {
    /// Nothing received of so many transfers.
    pub fn new(transfers: usize) -> Self {
        Holds { received: vec![0; transfers], released: vec![0; transfers], waits: Waits::new(transfers) }
    }
}

impl Endpoints<'_> {
    /// Reduces or stores a message that was received, unless it is to wait.
    pub fn hold(&mut self, transfer: TransferId, now: Ticks) {
        match &mut self.holds {
            Some(holds) => holds.received[transfer as usize] += 1,
            None => return self.reduce(transfer, now),
        }
        self.release(transfer, now);
    }

    /// Reduces or stores all held messages of a transfer that need no longer wait, in order.
    fn release(&mut self, transfer: TransferId, now: Ticks) {
        loop {
            let Some(holds) = &self.holds else { return };
            let chunk = holds.released[transfer as usize];
            if chunk == holds.received[transfer as usize] {
                return;
            }
            let after = self.plan.apply_after(&self.plan.jobs[transfer as usize]);
            let missing = after.iter().find(|&&dependency| self.reached(dependency) <= chunk).copied();
            let Some(holds) = &mut self.holds else { return };
            if let Some(missing) = missing {
                holds.waits.add(transfer, missing.transfer());
                return;
            }
            holds.released[transfer as usize] += 1;
            self.reduce(transfer, now);
        }
    }

    /// A message was sent: nothing else may wait for it but what names it.
    pub fn was_sent(&mut self, transfer: TransferId, now: Ticks, carrier: &mut impl Carrier) {
        if let Some(sent) = &mut self.sent {
            sent[transfer as usize] += 1;
        }
        let waiting = self.waits.take(transfer);
        self.wake(transfer, waiting, now, carrier);
    }

    /// Something became of a message: releases what waited for it at receivers, and starts those `waiting` at their senders.
    pub fn wake(&mut self, transfer: TransferId, waiting: Waiting, now: Ticks, carrier: &mut impl Carrier) {
        if let Some(holds) = &mut self.holds {
            let held = holds.waits.take(transfer);
            held.into_iter().for_each(|held| self.release(held, now));
        }
        // Mostly it is one, or none.
        if let [id] = waiting[..] {
            let queue = self.transfers[id as usize].queue;
            if self.plan.units.is_some() {
                self.come_back(queue, id);
            }
            return self.advance(queue, now, carrier);
        }
        let mut woken: SmallVec<[u32; 4]> = waiting.iter().map(|&id| self.transfers[id as usize].queue).collect();
        if self.plan.units.is_some() {
            waiting.into_iter().zip(&woken).for_each(|(id, &queue)| self.come_back(queue, id));
        }
        woken.sort_unstable();
        woken.dedup();
        for queue in woken {
            self.advance(queue, now, carrier);
        }
    }
}
