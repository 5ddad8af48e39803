//! A search for the orders of chunks, by timing them.

use super::{Baseline, Scheduler, Split, Themis};
use crate::collective::Kind;
use crate::error::Result;
use crate::rails::engine::{Engine, Queue};
use crate::rails::plan::{Order, Plan, StageTable};
use crate::rails::topology::Topology;
use crate::system::Choice;
use crate::units::{Bytes, Picos};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore, SeedableRng};

/// Stages that are timed in one search, by default: a fraction of a second.
pub const STAGES: u64 = 1_400_000;

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
    pub fn best(&self, topology: &Topology, plan: &mut Plan) -> Queue {
        let queues: Vec<Queue> = Queue::ALL.iter().map(|(_, queue)| *queue).collect();
        self.find(topology, plan, &queues)
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

    fn find(&self, topology: &Topology, plan: &mut Plan, queues: &[Queue]) -> Queue {
        let levels = std::env::var("LEVELS").ok().map_or(1, |x| x.parse().unwrap());
        self.solve(topology, plan, queues, levels)
    }

    fn solve(&self, topology: &Topology, plan: &mut Plan, queues: &[Queue], levels: u64) -> Queue {
        let dimensions = topology.dimensions.len();
        let count = plan.orders.len();
        let mut starts: Vec<(&str, Vec<Order>)> = Vec::new();
        let schedulers: [(&str, &dyn Scheduler); 4] = [("base", &Baseline), ("themis", &Themis::default()), ("delay", &Themis { fixed_delay: true }), ("split", &Split)];
        for (name, scheduler) in schedulers {
            scheduler.schedule(topology, plan);
            starts.push((name, plan.orders.clone()));
        }
        if levels > 1 && count > 4 {
            let mut half = Plan { orders: vec![plan.orders[0]; count.div_ceil(2)], ..plan.clone() };
            self.solve(topology, &mut half, queues, levels - 1);
            starts.push(("half", half.orders.iter().cycle().take(count).copied().collect()));
            starts.push(("twice", half.orders.iter().flat_map(|&order| [order; 2]).take(count).collect()));
        }
        let table = StageTable::new(topology, plan);
        let mut stepped = 0;
        let (mut best, mut queue, mut from) = (Picos::MAX, self.queue, "");
        for (name, orders) in starts {
            for &other in queues {
                let mut engine = Engine::new(dimensions, other, self.sharing);
                if let Some(time) = engine.run_within(best - 1, &table, &orders, &mut stepped) {
                    (best, queue, from) = (time, other, name);
                    plan.orders.clone_from(&orders);
                }
            }
        }
        let verbose = std::env::var("V").is_ok();
        if verbose { print!("{count} from {from} {} {best}", queue.name()); }
        let mut engine = Engine::new(dimensions, queue, self.sharing);
        let mut random = Pcg64Mcg::seed_from_u64(self.seed);
        let mut below = |bound: usize| (random.next_u64() % bound as u64) as usize;
        let mut stepped = 0;
        let budget = self.stages / levels;
        let mut tries = 0;
        let k: f64 = std::env::var("DEV").ok().map_or(0.0, |x| x.parse().unwrap());
        let mut record = plan.orders.clone();
        let kinds: usize = std::env::var("MOVES").ok().map_or(6, |x| x.parse().unwrap());
        while stepped < budget {
            stepped += 8; tries += 1;
            let (chunk, other) = (below(count), below(count));
            let old = [(chunk, plan.orders[chunk]), (other, plan.orders[other])];
            let (from, to) = (below(dimensions), below(dimensions));
            let gather = below(2) == 0;
            match below(kinds) {
                0 => { let path = if gather { &mut plan.orders[chunk].gather } else { &mut plan.orders[chunk].first }; path.as_mut_slice().swap(from, to); }
                1 => { let path = if gather { &mut plan.orders[chunk].gather } else { &mut plan.orders[chunk].first };
                    let slice = path.as_mut_slice();
                    if from < to { slice[from..=to].rotate_left(1) } else { slice[to..=from].rotate_right(1) } }
                2 => plan.orders.swap(chunk, other),
                3 => if gather { plan.orders[chunk].gather = plan.orders[other].gather } else { plan.orders[chunk].first = plan.orders[other].first },
                4 => { let there = plan.orders[other]; let here = plan.orders[chunk];
                     if gather { plan.orders[chunk].gather = there.gather; plan.orders[other].gather = here.gather } else { plan.orders[chunk].first = there.first; plan.orders[other].first = here.first } }
                _ => { plan.orders[chunk].first.as_mut_slice().swap(from, to); plan.orders[other].gather.as_mut_slice().swap(dimensions - 1 - from, dimensions - 1 - to); }
            }
            if [chunk, other].iter().zip(&old).all(|(&c, old)| plan.orders[c] == old.1) { continue; }
            let slack = (best as f64 * k / count as f64 * (1.0 - stepped as f64 / budget as f64).max(0.0).powi(std::env::var("POW").ok().map_or(1, |x| x.parse().unwrap()))) as u64;
            match engine.run_within(best + slack, &table, &plan.orders, &mut stepped) {
                Some(now) => if now <= best { best = now; record.clone_from(&plan.orders) },
                None => { for (chunk, order) in old { plan.orders[chunk] = order; } }
            }
        }
        plan.orders = record;
        if verbose { println!(" -> {best} tries {tries}"); }
        queue
    }
}

impl Scheduler for Search {
    fn schedule(&self, topology: &Topology, plan: &mut Plan) {
        if topology.dimensions.len() < 2 {
            return; // one order
        }
        self.find(topology, plan, &[self.queue]);
    }
}
