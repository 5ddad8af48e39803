//! Messages of which some packets have come, or left: where packets wait in several channels, those of a transfer overtake
//! each other.

use crate::clock::Ticks;
use crate::endpoints::Endpoints;
use crate::network::flow::Tail;
use crate::plan::RunPlan;
use antiphon_model::schedule::TransferId;
use rustc_hash::FxHashMap;

/// See the module: of every such message how many packets, and when the last of them.
#[derive(Default)]
pub struct Arriving(FxHashMap<(TransferId, Tail), (u64, Ticks)>);

impl Arriving {
    /// A packet has come, or will at `at`; if it is the last of its message, when all of it has.
    pub fn come(&mut self, plan: &RunPlan, transfer: TransferId, tail: Tail, at: Ticks) -> Option<Ticks> {
        let packets = plan.kind_of(transfer).packets.count;
        if packets == 1 {
            return Some(at);
        }
        let (come, latest) = self.0.entry((transfer, tail)).or_default();
        (*come, *latest) = (*come + 1, at.max(*latest));
        let is_whole = *come == packets;
        is_whole.then(|| self.0.remove(&(transfer, tail)).map_or(at, |(_, latest)| latest))
    }

    /// Appends what decides the future.
    pub fn write_state(&self, now: Ticks, endpoints: &Endpoints, state: &mut Vec<u64>) {
        let words = |(&(transfer, tail), &(come, latest)): (&(TransferId, Tail), &(u64, Ticks))| {
            let behind = tail.behind(endpoints.chunks_started(transfer));
            [u64::from(transfer) << 32 | behind, come, latest.saturating_sub(now)]
        };
        let mut all: Vec<_> = self.0.iter().map(words).collect();
        all.sort_unstable();
        state.extend(all.into_iter().flatten());
        state.push(u64::MAX);
    }

    /// Everything is later by `by`, and `chunks` further of each transfer.
    pub fn delay(&mut self, by: Ticks, chunks: &[u64]) {
        let later = |((transfer, tail), (come, latest)): ((TransferId, Tail), (u64, Ticks))| {
            ((transfer, tail.later(chunks[transfer as usize])), (come, latest + by))
        };
        self.0 = self.0.drain().map(later).collect();
    }
}
