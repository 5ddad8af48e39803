//! A search for the orders of chunks, by timing them.

use super::split::Split;
use super::timing::Timing;
use super::{Baseline, Scheduler, Themis};
use crate::rails::advise::advise;
use crate::rails::orders::{ChunkOrder, RailsPlan, StageTable};
use crate::rails::stage_loop::{QueuePolicy, StageLoop, run};
use antiphon_base::error::Result;
use antiphon_base::parameter::Choice;
use antiphon_base::units::{Bytes, Picos};
use antiphon_model::collective::Kind;
use antiphon_model::topology::Topology;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore, SeedableRng};

/// Stages that are timed in one search, by default: a fraction of a second.
pub const STAGES: u64 = 1_500_000;

/// Starts from the best of all schedulers and of orders that follow the best split of bytes over the dimensions, and
/// changes the orders of one or two chunks after another, AllGather apart from ReduceScatter, as long as the
/// collective does not get slower. Deterministic; never slower than another scheduler with the same queue policy.
#[derive(Debug, Clone, Copy)]
pub struct OrderSearch {
    /// Queue policy of the timings.
    pub queue: QueuePolicy,
    /// Chunks that share a dimension.
    pub sharing: u32,
    /// Stages to time.
    pub stages: u64,
    /// Seed of the changes.
    pub seed: u64,
}

impl Default for OrderSearch {
    fn default() -> Self {
        OrderSearch { queue: QueuePolicy::Tail, sharing: 1, stages: STAGES, seed: 1 }
    }
}

/// Numbers of chunks that [`OrderSearch::chunks`] tries.
const CHUNKS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
/// More chunks are worth it if they save more than this share of the time.
const WORTH: f64 = 0.005;
/// A search of many chunks takes this many times as long where it stays further from the bound of any scheduler than
/// this share.
const PATIENCE: u64 = 4;
const NEAR: f64 = 0.97;
/// A few chunks soon have no change left that helps: so many chunks are searched together from as many starts.
const CHUNKS_OF_STARTS: usize = 16;

impl OrderSearch {
    /// Schedules `plan` and chooses the queue policy too, so that it never loses to another scheduler, with whatever
    /// policy.
    pub fn best(&self, topology: &Topology, plan: &mut RailsPlan) -> QueuePolicy {
        // All chunks come at once: the oldest come first anyway.
        let queues = QueuePolicy::ALL.iter().map(|(_, queue)| *queue).filter(|queue| *queue != QueuePolicy::Oldest);
        let queues: Vec<QueuePolicy> = queues.collect();
        self.find(topology, plan, &queues)
    }

    /// The fewest chunks, of powers of two up to 256, that are about as fast as any: each costs messages.
    ///
    /// # Errors
    /// As [`RailsPlan::uniform`].
    pub fn chunks(&self, topology: &Topology, kind: Kind, bytes: Bytes, offload: bool) -> Result<u32> {
        let mut times = Vec::new();
        for chunks in CHUNKS {
            let mut plan = RailsPlan::uniform(topology, kind, bytes, chunks, offload)?;
            let queue = OrderSearch { stages: self.stages / 4, ..*self }.best(topology, &mut plan);
            let time = StageLoop::new(topology.dimensions.len(), queue, self.sharing).run(topology, &plan, |_, _| ());
            times.push((chunks, time as f64));
        }
        let least = times.iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min);
        let enough = times.iter().find(|(_, time)| *time <= least * (1.0 + WORTH));
        Ok(enough.map_or(CHUNKS[0], |(chunks, _)| *chunks))
    }

    /// Schedules `plan` for the best of some queue policies. O(stages * log chunks).
    fn find(&self, topology: &Topology, plan: &mut RailsPlan, queues: &[QueuePolicy]) -> QueuePolicy {
        let table = StageTable::new(topology, plan);
        let rounds = (CHUNKS_OF_STARTS / plan.orders.len()).max(1);
        let mut changes = Changes::new(self.seed, plan, topology.dimensions.len());
        let mut best: Option<Found> = None;
        for mut found in self.starts(topology, plan, &table, queues, rounds) {
            let mut timing = Timing::new(&table, found.queue, self.sharing);
            let mut tries = 0;
            let near =
                if rounds == 1 && plan.orders.len() <= 256 { self.near(topology, plan, &found) } else { Picos::MAX };
            // To begin a run costs about as much as to serve a stage of every chunk.
            while topology.dimensions.len() > 1
                && timing.served() + tries * found.orders.len() as u64
                    <= self.stages / rounds as u64 * if found.time > near { PATIENCE } else { 1 }
            {
                let before = changes.apply(&mut found.orders);
                tries += 1;
                match timing.run_within(found.time, &found.orders) {
                    Some(time) => found.time = time,
                    None => before.into_iter().for_each(|(chunk, order)| found.orders[chunk] = order),
                }
            }
            if best.as_ref().is_none_or(|best| found.time < best.time) {
                best = Some(found);
            }
        }
        let Some(Found { queue, orders, .. }) = best else { return self.queue };
        plan.orders = orders;
        queue
    }

    /// The time at which orders are near the bound of any scheduler, from how far `found` is.
    fn near(&self, topology: &Topology, plan: &RailsPlan, found: &Found) -> Picos {
        let plan = RailsPlan { orders: found.orders.clone(), ..plan.clone() };
        let reached = run(topology, &plan, found.queue, self.sharing).mean_utilization(topology);
        (found.time as f64 * reached / advise(topology).utilization_bound / NEAR) as Picos
    }

    /// The best of all schedulers and queue policies, at most `most` of them.
    fn starts(
        &self,
        topology: &Topology,
        plan: &RailsPlan,
        table: &StageTable,
        queues: &[QueuePolicy],
        most: usize,
    ) -> Vec<Found> {
        let mut starts: Vec<Found> = Vec::new();
        // The best first, so that the others are soon known to be slower.
        let schedulers: [&dyn Scheduler; 4] =
            [&Split, &Themis::default(), &Themis { fixed_delay: true, ..Themis::default() }, &Baseline];
        for scheduler in schedulers {
            let mut plan = plan.clone();
            scheduler.schedule(topology, &mut plan);
            for &queue in queues {
                let last = starts.get(most - 1).map_or(Picos::MAX, |last| last.time.saturating_sub(1));
                if let Some(time) = Timing::new(table, queue, self.sharing).run_within(last, &plan.orders) {
                    starts.truncate(most - 1);
                    starts.push(Found { time, queue, orders: plan.orders.clone() });
                    starts.sort_by_key(|found| found.time);
                }
            }
        }
        starts
    }
}

impl Scheduler for OrderSearch {
    fn schedule(&self, topology: &Topology, plan: &mut RailsPlan) {
        self.find(topology, plan, &[self.queue]);
    }
}

/// Orders that were timed.
struct Found {
    time: Picos,
    queue: QueuePolicy,
    orders: Vec<ChunkOrder>,
}

/// Random changes of the orders of one or two chunks.
struct Changes {
    random: Pcg64Mcg,
    kind: Kind,
    dimensions: usize,
}

impl Changes {
    fn new(seed: u64, plan: &RailsPlan, dimensions: usize) -> Changes {
        Changes { random: Pcg64Mcg::seed_from_u64(seed), kind: plan.kind, dimensions }
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.random.next_u64() % bound as u64) as usize
    }

    /// Changes the orders of at most two chunks; returns which, and their orders before.
    fn apply(&mut self, orders: &mut [ChunkOrder]) -> [(usize, ChunkOrder); 2] {
        let (one, other) = (self.below(orders.len()), self.below(orders.len()));
        let before = [(one, orders[one]), (other, orders[other])];
        let (from, to) = (self.below(self.dimensions), self.below(self.dimensions));
        let both = self.kind == Kind::AllReduce;
        let gather = if both { self.below(2) == 0 } else { self.kind == Kind::AllGather };
        let half = |order: &ChunkOrder| if gather { order.gather } else { order.first };
        match self.below(6) {
            0 => orders[one].half_mut(gather).as_mut_slice().swap(from, to),
            1 if from < to => orders[one].half_mut(gather).as_mut_slice()[from..=to].rotate_left(1),
            1 => orders[one].half_mut(gather).as_mut_slice()[to..=from].rotate_right(1),
            2 => orders.swap(one, other),
            3 => *orders[one].half_mut(gather) = half(&orders[other]),
            4 => {
                *orders[one].half_mut(gather) = half(&before[1].1);
                *orders[other].half_mut(gather) = half(&before[0].1);
            }
            _ => {
                orders[one].half_mut(gather).as_mut_slice().swap(from, to);
                let last = self.dimensions - 1;
                orders[other].half_mut(gather != both).as_mut_slice().swap(last - from, last - to);
            }
        }
        before
    }
}
