//! Which chunks of transfers have come to an event.

use super::Endpoints;
use antiphon_model::schedule::Event::Sent;
use antiphon_model::schedule::{Dependency, TransferId};
use rustc_hash::FxHashSet;

/// Chunks that have come to an event while earlier ones of their transfers have not: few, if any.
#[derive(Default)]
pub struct Early(FxHashSet<(TransferId, u64)>);

impl Early {
    /// A chunk has come to the event to which all before `reached` have.
    #[inline]
    pub fn come(&mut self, id: TransferId, chunk: u64, reached: &mut u64) {
        if chunk != *reached {
            self.0.insert((id, chunk));
            return;
        }
        *reached += 1;
        while !self.0.is_empty() && self.0.remove(&(id, *reached)) {
            *reached += 1;
        }
    }

    /// Whether a chunk has, where all before `reached` have.
    #[inline]
    pub fn has(&self, id: TransferId, chunk: u64, reached: u64) -> bool {
        chunk < reached || !self.0.is_empty() && self.0.contains(&(id, chunk))
    }

    /// Appends those there are, `behind` what their transfers have started.
    pub fn write_state(&self, behind: impl Fn(TransferId, u64) -> u64, state: &mut Vec<u64>) {
        let start = state.len();
        state.extend(self.0.iter().map(|&(id, chunk)| u64::from(id) << 32 | behind(id, chunk)));
        state[start..].sort_unstable();
        state.push(u64::MAX);
    }

    /// Transfers go on `chunks` further.
    pub fn skip(&mut self, chunks: &[u64]) {
        self.0 = self.0.drain().map(|(id, chunk)| (id, chunk + chunks[id as usize])).collect();
    }
}

impl Endpoints<'_> {
    /// Whether what the message of a chunk waits for has happened.
    #[inline]
    pub fn has_happened(&self, dependency: Dependency, chunk: u64) -> bool {
        // Before the first chunk there is none to wait for.
        let Some(chunk) = chunk.checked_sub(dependency.lag().into()) else { return true };
        let id = dependency.transfer();
        match (&self.sent, dependency.event()) {
            (Some((reached, early)), Sent) => early.has(id, chunk, reached[id as usize]),
            _ => self.early.has(id, chunk, self.transfers[id as usize].applied),
        }
    }

    /// Chunks that need not wait for a dependency, all before which need not either.
    pub fn reached(&self, dependency: Dependency) -> u64 {
        let id = dependency.transfer() as usize;
        let reached = match (&self.sent, dependency.event()) {
            (Some((sent, _)), Sent) => sent[id],
            _ => self.transfers[id].applied,
        };
        reached + u64::from(dependency.lag())
    }

    /// By how many chunks one is behind the next of its transfer to start, or before it, which wraps: that tells it from
    /// others in whatever period.
    pub fn behind(&self, id: TransferId, chunk: u64) -> u64 {
        self.transfers[id as usize].started.wrapping_sub(chunk)
    }
}
