//! Where packets are on their routes.

use crate::endpoints::Endpoints;
use crate::plan::{Job, RunPlan};
use antiphon_model::fabric::LinkId;
use antiphon_model::schedule::TransferId;
use std::num::NonZeroU32;

/// After the last link of a route.
const END: LinkId = LinkId::MAX;

/// The routes of all transfers, an end after each.
pub struct Hops(Vec<LinkId>);

impl Hops {
    /// Those of a plan. O(hops).
    pub fn new(plan: &RunPlan) -> Self {
        Hops(plan.jobs.iter().flat_map(|job| plan.route(job).iter().copied().chain([END])).collect())
    }

    /// The packets of a transfer before their first link.
    pub fn first(&self, transfer: TransferId, job: &Job) -> Flow {
        // One end lies before it for every transfer before it.
        Flow { transfer, kind: job.kind, hop: job.hops.start + transfer }
    }

    /// The link that packets are to cross, unless their route ends before.
    #[inline]
    pub fn at(&self, flow: Flow) -> Option<LinkId> {
        Some(self.0[flow.hop as usize]).filter(|&link| link != END)
    }

    /// The link that packets have crossed last.
    #[inline]
    pub fn before(&self, flow: Flow) -> LinkId {
        self.0[flow.hop as usize - 1]
    }
}

/// Packets of a transfer on a link of its route.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    pub transfer: TransferId,
    /// What they are, as the plan numbers it: asking the transfer would wait for memory.
    pub kind: u32,
    /// Place of the link in [`Hops`].
    pub hop: u32,
}

impl Flow {
    /// The same packets on the next link.
    pub fn next(self) -> Flow {
        Flow { hop: self.hop + 1, ..self }
    }

    /// Tells it from others.
    pub fn word(self) -> u64 {
        (self.transfer as u64) << 32 | self.hop as u64
    }

    /// Tells which message ends with one of its packets, in whatever period.
    pub fn word_of(self, last: Option<Tail>, endpoints: &Endpoints) -> u64 {
        last.map_or(0, |tail| tail.behind(endpoints.chunks_started(self.transfer)) + 1)
    }

    /// The message that ends with one of its packets, where its transfer is `chunks` further.
    pub fn later(self, last: Option<Tail>, chunks: &[u64]) -> Option<Tail> {
        last.map(|tail| tail.later(chunks[self.transfer as usize]))
    }
}

/// That a packet is the last of a message: of the chunk with this number, modulo 2^31 and one more. Fewer messages of a
/// transfer are under way at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tail(NonZeroU32);

impl Tail {
    const MASK: u32 = (1 << 31) - 1;

    /// A word for it, of which it is made again.
    pub fn word(self) -> u32 {
        self.0.get() - 1
    }

    /// See [`Tail::word`].
    pub fn of_word(word: u32) -> Tail {
        Tail::of(word.into())
    }

    /// That of a chunk's message.
    pub fn of(chunk: u64) -> Tail {
        Tail(NonZeroU32::MIN.saturating_add(chunk as u32 & Self::MASK))
    }

    /// By how many chunks it is behind the next of its transfer to start.
    pub fn behind(self, started: u64) -> u64 {
        ((started as u32).wrapping_sub(self.word()) & Self::MASK).into()
    }

    /// The same, `chunks` further.
    pub fn later(self, chunks: u64) -> Tail {
        Tail::of(u64::from(self.word()).wrapping_add(chunks))
    }

    /// The chunk of its transfer, which one of this part of the fabric has started.
    pub fn sent(self, transfer: TransferId, endpoints: &Endpoints) -> u64 {
        let started = endpoints.chunks_started(transfer);
        started - self.behind(started)
    }

    /// The chunk of its transfer, which has not been applied.
    pub fn arrived(self, transfer: TransferId, endpoints: &Endpoints) -> u64 {
        let applied = endpoints.chunks_applied(transfer);
        applied + u64::from(self.word().wrapping_sub(applied as u32) & Self::MASK)
    }
}
