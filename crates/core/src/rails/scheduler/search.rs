//! A search for the orders of chunks, by timing them.

use super::{Scheduler, Themis};
use crate::collective::Kind;
use crate::error::Result;
use crate::rails::engine::{Engine, Queue};
use crate::rails::plan::Plan;
use crate::rails::topology::Topology;
use crate::system::Choice;
use crate::units::Bytes;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore, SeedableRng};

/// Stages that are timed in one search, by default: a fraction of a second.
pub const STAGES: u64 = 1_000_000;

/// Starts from the better of Themis and the baseline, and changes the order of one chunk after
/// another, AllGather apart from ReduceScatter, as long as the collective does not get slower.
/// Deterministic; never slower than Themis with the same queue policy.
#[derive(Debug, Clone, Copy)]
pub struct Search {
    /// Queue policy of the timings.
    pub queue: Queue,
    /// Chunks that share a dimension.
    pub sharing: u32,
    /// Stages to time.
    pub stages: u64,
    /// Seed of the changes.
    pub seed: u64,
}

impl Default for Search {
    fn default() -> Self {
        Search { queue: Queue::Tail, sharing: 1, stages: STAGES, seed: 1 }
    }
}

/// Numbers of chunks that [`Search::chunks`] tries.
const CHUNKS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
/// More chunks are worth it if they save more than this share of the time.
const WORTH: f64 = 0.005;

impl Search {
    /// Schedules `plan` and chooses the queue policy too: that of the search, or another with which
    /// Themis is faster. So it never loses to Themis, with whatever policy.
    pub fn best(&self, topology: &Topology, plan: &mut Plan) -> Queue {
        let time = |plan: &Plan, queue| {
            Engine::new(topology.dimensions.len(), queue, self.sharing).run(topology, plan, |_, _| ())
        };
        let mut themis = plan.clone();
        self.schedule(topology, plan);
        Themis::default().schedule(topology, &mut themis);
        let (mut best, mut chosen) = (time(plan, self.queue), self.queue);
        for &(_, queue) in Queue::ALL {
            let other = time(&themis, queue);
            if other < best {
                (best, chosen) = (other, queue);
                plan.orders.clone_from(&themis.orders);
            }
        }
        chosen
    }

    /// The fewest chunks, of powers of two up to 256, that are about as fast as any: each costs messages.
    ///
    /// # Errors
    /// As [`Plan::uniform`].
    pub fn chunks(&self, topology: &Topology, kind: Kind, bytes: Bytes, offload: bool) -> Result<u32> {
        let mut times = Vec::new();
        for chunks in CHUNKS {
            let mut plan = Plan::uniform(topology, kind, bytes, chunks, offload)?;
            let queue = Search { stages: self.stages / 4, ..*self }.best(topology, &mut plan);
            let time = Engine::new(topology.dimensions.len(), queue, self.sharing).run(topology, &plan, |_, _| ());
            times.push((chunks, time as f64));
        }
        let least = times.iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min);
        let enough = times.iter().find(|(_, time)| *time <= least * (1.0 + WORTH));
        Ok(enough.map_or(CHUNKS[0], |(chunks, _)| *chunks))
    }
}

impl Scheduler for Search {
    fn schedule(&self, topology: &Topology, plan: &mut Plan) {
        if topology.dimensions.len() < 2 {
            return; // one order
        }
        let mut engine = Engine::new(topology.dimensions.len(), self.queue, self.sharing);
        let mut time = |plan: &Plan| engine.run(topology, plan, |_, _| ());
        let baseline = plan.clone();
        Themis::default().schedule(topology, plan);
        let mut best = time(plan);
        if time(&baseline) < best {
            best = time(&baseline);
            *plan = baseline;
        }
        let mut random = Pcg64Mcg::seed_from_u64(self.seed);
        let mut below = |bound: usize| (random.next_u64() % bound as u64) as usize;
        let tries = self.stages / (plan.orders.len() * 2 * topology.dimensions.len()) as u64;
        for _ in 0..tries {
            let chunk = below(plan.orders.len());
            let old = plan.orders[chunk];
            let path = if below(2) == 0 { &mut plan.orders[chunk].first } else { &mut plan.orders[chunk].gather };
            let slice = path.as_mut_slice();
            let (from, to) = (below(slice.len()), below(slice.len()));
            slice.swap(from, to);
            let now = time(plan);
            if now <= best {
                best = now;
            } else {
                plan.orders[chunk] = old;
            }
        }
    }
}
