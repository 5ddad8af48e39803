//! What is to be scheduled, as people ask for it.

use super::endpoint;
use super::engine::{Queue, Run, run};
use super::plan::{MAX_CHUNKS, Plan};
use super::scheduler::{Baseline, Phased, Scheduler, Search, Themis};
use super::topology::Topology;
use crate::collective::Kind;
use crate::error::{Code, Error, Result};
use crate::parameter::Choice;
use crate::system::Endpoint;
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
    /// [`Phased`].
    Phased,
}

impl Choice for Policy {
    const WHAT: &'static str = "scheduler";
    const ALL: &'static [(&'static str, Self)] = &[
        ("baseline", Policy::Baseline),
        ("themis", Policy::Themis),
        ("search", Policy::Search),
        ("phased", Policy::Phased),
    ];
}

impl Policy {
    /// The queue policy it is meant for.
    pub fn queue(self) -> Queue {
        match self {
            Policy::Baseline => Queue::Fifo,
            Policy::Themis => Queue::Smallest,
            Policy::Search => Queue::Tail,
            Policy::Phased => Queue::Oldest,
        }
    }

    /// The scheduler, with the parameters of either kind.
    pub fn scheduler(self, themis: Themis, search: Search) -> Box<dyn Scheduler> {
        match self {
            Policy::Baseline => Box::new(Baseline),
            Policy::Themis => Box::new(themis),
            Policy::Search => Box::new(search),
            Policy::Phased => Box::new(Phased),
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
    /// As many as have the size of the endpoint's ([`chunks_of`]).
    Endpoint,
}

/// Chunks where nobody says how many, nor how large.
const CHUNKS: u32 = 64;

/// Chunks of a buffer that have the size of the endpoint's; 64 where it has none.
///
/// # Errors
/// [`Code::TooLarge`] past [`MAX_CHUNKS`].
pub fn chunks_of(endpoint: &Endpoint, bytes: Bytes) -> Result<u32> {
    let Some(chunk) = endpoint.chunk() else { return Ok(CHUNKS) };
    match bytes.div_ceil(chunk) {
        count if count <= u64::from(MAX_CHUNKS) => Ok(count.max(1) as u32),
        count => {
            let what = format!("{count} chunks of {chunk} bytes; at most {MAX_CHUNKS}: give chunks, or a larger chunk");
            Err(Error::new(Code::TooLarge, what).at(format_args!("endpoint {}", endpoint.name())))
        }
    }
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
    /// What stands between memory and links.
    pub endpoint: Endpoint,
}

impl Task {
    /// The plan, the queue policy it is for, and its timing. A search without a given queue policy
    /// chooses that too ([`Search::best`]). Schedulers do not know of endpoints.
    ///
    /// # Errors
    /// As [`Plan::uniform`] and [`endpoint::run`].
    pub fn run(&self) -> Result<(Plan, Queue, Run)> {
        let search = Search { sharing: self.sharing, seed: self.seed, ..Search::default() };
        let chunks = match self.chunks {
            Chunks::Count(chunks) => chunks,
            Chunks::Best => search.chunks(&self.topology, self.kind, self.bytes, self.offload)?,
            Chunks::Endpoint => chunks_of(&self.endpoint, self.bytes)?,
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
        if self.endpoint == Endpoint::System {
            let timed = run(&self.topology, &plan, queue, self.sharing);
            return Ok((plan, queue, timed));
        }
        if self.sharing > 1 {
            let what = "chunks that share a dimension are not modelled with an endpoint; leave sharing 1";
            return Err(Error::new(Code::NotApplicable, what));
        }
        // Endpoints bound what is under way: a chunk that has begun is to be done.
        let queue = self.queue.unwrap_or(Queue::Oldest);
        let timed = endpoint::run(&self.topology, &plan, queue, self.endpoint)?;
        Ok((plan, queue, timed))
    }
}
