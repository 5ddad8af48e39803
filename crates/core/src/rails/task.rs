//! What is to be scheduled, as people ask for it.

use super::engine::{Queue, Run, run};
use super::plan::Plan;
use super::scheduler::{Baseline, Scheduler, Search, Themis};
use super::topology::Topology;
use crate::collective::Kind;
use crate::error::Result;
use crate::parameter::Choice;
use crate::units::Bytes;

/// Schedulers by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// [`Baseline`].
    Baseline,
    /// [`Themis`].
    Themis,
    /// [`Search`].
    Search,
}

impl Choice for Policy {
    const WHAT: &'static str = "scheduler";
    const ALL: &'static [(&'static str, Self)] =
        &[("baseline", Policy::Baseline), ("themis", Policy::Themis), ("search", Policy::Search)];
}

impl Policy {
    /// The queue policy it is meant for.
    pub fn queue(self) -> Queue {
        match self {
            Policy::Baseline => Queue::Fifo,
            Policy::Themis => Queue::Smallest,
            Policy::Search => Queue::Tail,
        }
    }

    /// The scheduler, with the parameters of either kind.
    pub fn scheduler(self, themis: Themis, search: Search) -> Box<dyn Scheduler> {
        match self {
            Policy::Baseline => Box::new(Baseline),
            Policy::Themis => Box::new(themis),
            Policy::Search => Box::new(search),
        }
    }
}

/// A number of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunks {
    /// So many.
    Count(u32),
    /// The fewest that are about as fast as any: [`Search::chunks`].
    Best,
}

/// A collective to schedule, and how.
#[derive(Debug, Clone)]
pub struct Task {
    /// Where.
    pub topology: Topology,
    /// What.
    pub kind: Kind,
    /// Full buffer size.
    pub bytes: Bytes,
    /// Who orders the chunks.
    pub policy: Policy,
    /// Queue policy of the dimensions; the scheduler's own where there is none.
    pub queue: Option<Queue>,
    /// Parts of the buffer.
    pub chunks: Chunks,
    /// Chunks that share a dimension.
    pub sharing: u32,
    /// Whether switches reduce and multicast by themselves.
    pub offload: bool,
    /// As [`Themis::fixed_delay`].
    pub fixed_delay: bool,
    /// Seed of the search.
    pub seed: u64,
}

impl Task {
    /// The plan, the queue policy it is for, and its timing. A search without a given queue policy
    /// chooses that too ([`Search::best`]).
    ///
    /// # Errors
    /// As [`Plan::uniform`].
    pub fn run(&self) -> Result<(Plan, Queue, Run)> {
        let search = Search { sharing: self.sharing, seed: self.seed, ..Search::default() };
        let chunks = match self.chunks {
            Chunks::Count(chunks) => chunks,
            Chunks::Best => search.chunks(&self.topology, self.kind, self.bytes, self.offload)?,
        };
        let mut plan = Plan::uniform(&self.topology, self.kind, self.bytes, chunks, self.offload)?;
        let queue = if self.policy == Policy::Search && self.queue.is_none() {
            search.best(&self.topology, &mut plan)
        } else {
            let queue = self.queue.unwrap_or(self.policy.queue());
            let themis = Themis { fixed_delay: self.fixed_delay };
            self.policy.scheduler(themis, Search { queue, ..search }).schedule(&self.topology, &mut plan);
            queue
        };
        let timed = run(&self.topology, &plan, queue, self.sharing);
        Ok((plan, queue, timed))
    }
}
