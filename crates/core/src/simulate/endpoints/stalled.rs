//! Why nothing moves any more.

use super::Endpoints;
use crate::error::{Code, Error, Result};
use crate::schedule::TransferId;
use crate::simulate::clock::Ticks;
use std::cmp::Reverse;

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

    /// From a sender that cannot start, along what it waits for.
    fn waits(&self) -> Vec<String> {
        let mut chain = Vec::new();
        let mut visited = Vec::new();
        let mut next = (0..self.queues.len()).find_map(|queue| self.head(queue));
        while let Some(id) = next.filter(|id| !visited.contains(id) && visited.len() < 12) {
            visited.push(id);
            chain.push(self.plan.describe(id, self.started[id as usize]));
            let job = &self.plan.jobs[id as usize];
            let missing = self.plan.after[job.after.clone()]
                .iter()
                .copied()
                .find(|&other| self.applied[other as usize] <= self.started[id as usize]);
            next = match missing {
                Some(other) if self.started[other as usize] > self.started[id as usize] => None,
                Some(other) => {
                    let first = self.head(self.transfer_queue[other as usize] as usize);
                    if first == Some(id) { Some(other) } else { first }
                }
                None => None,
            };
        }
        if let Some(id) = next {
            chain.push(format!("transfer {id} again"));
        }
        if chain.is_empty() {
            chain.push("no rank has anything to send".into());
        }
        chain
    }

    /// The first transfer a queue has not started.
    fn head(&self, queue: usize) -> Option<TransferId> {
        let state = &self.queues[queue];
        state.slot.first().copied().or_else(|| state.heap.peek().map(|&Reverse((_, _, id))| id))
    }
}
