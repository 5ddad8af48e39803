//! Messages that wait at their receivers, and what an event sets free.

use super::aside::AsideFor;
use super::waits::Waiting;
use super::{Carrier, Endpoints};
use crate::clock::Ticks;
use antiphon_model::schedule::{Dependency, Event, TransferId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A transfer and a chunk of it.
type ChunkOfTransfer = (TransferId, u64);

/// Messages that are held, each with the first event that it still waits for, and the chunk that this is of.
#[derive(Default)]
pub struct HeldMessages(FxHashMap<(Dependency, u64), SmallVec<[ChunkOfTransfer; 1]>>);

impl HeldMessages {
    /// All messages that are held, in no order.
    pub fn messages(&self) -> impl Iterator<Item = ChunkOfTransfer> {
        self.0.values().flatten().copied()
    }

    /// Transfers go on `chunks` further.
    pub fn skip(&mut self, chunks: &[u64]) {
        let later = |id: TransferId, chunk: u64| chunk + chunks[id as usize];
        let held = self.0.drain().map(|((event, chunk), mut held)| {
            held.iter_mut().for_each(|(id, chunk)| *chunk = later(*id, *chunk));
            ((event, later(event.transfer(), chunk)), held)
        });
        self.0 = held.collect();
    }
}

impl Endpoints<'_> {
    /// Reduces or stores a message that was received, unless it must wait.
    pub fn hold(&mut self, (transfer, chunk): ChunkOfTransfer, now: Ticks) {
        let after = self.plan.apply_after(&self.plan.jobs[transfer as usize]);
        let missing = after.iter().find(|&&dependency| !self.has_happened(dependency, chunk));
        match (missing, &mut self.holds) {
            (Some(missing), Some(holds)) => {
                let event = Dependency::new(missing.transfer(), missing.event());
                let of = chunk - u64::from(missing.lag());
                holds.0.entry((event, of)).or_default().push((transfer, chunk));
            }
            _ => self.reduce(transfer, chunk, now),
        }
    }

    /// A message was sent: nothing else may wait for it but what names it.
    pub fn was_sent(&mut self, transfer: TransferId, chunk: u64, now: Ticks, carrier: &mut impl Carrier) {
        if let Some((sent, early)) = &mut self.sent {
            early.come(transfer, chunk, &mut sent[transfer as usize]);
        }
        let waiting = self.waits.take(transfer);
        self.wake((Dependency::new(transfer, Event::Sent), chunk), waiting, now, carrier);
    }

    /// Something became of a chunk: releases what waited for it at receivers, by transfer and chunk, and starts those of the
    /// `waiting` at senders that need not wait any longer.
    pub fn wake(&mut self, event: (Dependency, u64), waiting: Waiting, now: Ticks, carrier: &mut impl Carrier) {
        if let Some(mut held) = self.holds.as_mut().and_then(|holds| holds.0.remove(&event)) {
            held.sort_unstable();
            held.into_iter().for_each(|message| self.hold(message, now));
        }
        let mut woken: SmallVec<[u32; 4]> = SmallVec::new();
        for id in waiting {
            let queue = self.transfers[id as usize].queue;
            if self.data_ready(id) {
                if let Some(units) = &self.plan.units {
                    let (family, chunk) = (units.family_of[id as usize], self.transfers[id as usize].started);
                    self.come_back(AsideFor::Turn(queue), family, chunk);
                }
                woken.push(queue);
            }
        }
        woken.sort_unstable();
        woken.dedup();
        for queue in woken {
            self.advance(queue, now, carrier);
        }
    }
}
