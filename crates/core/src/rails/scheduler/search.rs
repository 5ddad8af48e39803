//! A search for the orders of chunks, by timing them.

use super::{Scheduler, Themis};
use crate::rails::engine::{Engine, Queue};
use crate::rails::plan::Plan;
use crate::rails::topology::Topology;
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

impl Scheduler for Search {
    fn schedule(&self, topology: &Topology, plan: &mut Plan) {
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
