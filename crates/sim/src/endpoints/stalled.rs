//! Why nothing moves any more.

use super::{Endpoints, HeldMessages};
use crate::clock::Ticks;
use antiphon_base::error::{Code, Error, Result};
use antiphon_model::schedule::TransferId;

impl Endpoints<'_> {
    /// Checks, when no event is to come after `now`, that every message was applied.
    ///
    /// # Errors
    /// [`Code::Stalled`] with the chain of waits.
    pub fn finish(&self, now: Ticks) -> Result<()> {
        let total = self.plan.messages();
        if self.done == total {
            return Ok(());
        }
        let chain = self.waits().join(" waits for ");
        let what = format!(
            "no progress after {} of {total} messages at {} ns: {chain}",
            self.done,
            self.plan.clock.picos(now) / 1000
        );
        Err(Error::new(Code::Stalled, what))
    }

    /// From a sender that cannot start, or a message that is held, along what it waits for.
    fn waits(&self) -> Vec<String> {
        let mut chain = Vec::new();
        let mut visited = Vec::new();
        let held = self.holds.iter().flat_map(HeldMessages::messages).map(|(id, _)| id).min();
        let queues = self.active().flat_map(|flight| self.flights[flight].queues.clone());
        let mut next = queues.map(|queue| queue as usize).find_map(|queue| self.head(queue)).or(held);
        while let Some(id) = next.filter(|id| !visited.contains(id) && visited.len() < 12) {
            visited.push(id);
            let job = &self.plan.jobs[id as usize];
            let (chunk, after, what) = match self.held(id) {
                Some(chunk) => (chunk, self.plan.apply_after(job), ", held at its receiver,"),
                None => (self.transfers[id as usize].started, self.plan.start_after(job), ""),
            };
            chain.push(self.plan.describe(id, chunk) + what);
            let missing = after.iter().copied().find(|&dependency| !self.has_happened(dependency, chunk));
            next = missing.and_then(|missing| {
                let other = missing.transfer();
                if self.held(other).is_some() {
                    return Some(other);
                }
                // It is on its way.
                if self.transfers[other as usize].started + missing.lag() as u64 > chunk {
                    return None;
                }
                let first = self.head(self.transfers[other as usize].queue as usize);
                if first == Some(id) { Some(other) } else { first }
            });
        }
        if let Some(id) = next {
            chain.push(format!("transfer {id} again"));
        }
        if chain.is_empty() {
            chain.push("no rank has anything to send".into());
        }
        chain
    }

    /// The first chunk of a transfer that is held at its receiver, if one is.
    fn held(&self, id: TransferId) -> Option<u64> {
        let all = self.holds.iter().flat_map(HeldMessages::messages);
        all.filter(|&(of, _)| of == id).map(|(_, chunk)| chunk).min()
    }

    /// The first transfer a queue has not started.
    fn head(&self, queue: usize) -> Option<TransferId> {
        let state = &self.queues[queue];
        state.slot.first().copied().or_else(|| state.turns.peek().map(|(.., id)| id))
    }
}
