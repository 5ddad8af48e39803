//! Why NPUs must agree on the order of chunks (Themis paper, section 4.6): every NPU by itself, with
//! jitter, serving chunks as they come or in an order agreed on beforehand.

use super::orders::{RailsPlan, Stage};
use super::stage_loop::{QueuePolicy, priority, run as run_alike, turned};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Picos;
use antiphon_base::watch::interruptible;
use antiphon_model::fabric::Coordinates;
use antiphon_model::topology::Topology;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore, SeedableRng};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Most NPUs that are simulated one by one.
pub const MAX_NPUS: u64 = 1 << 14;
/// Chunks that an NPU looks through about as fast as all else about a stage is done.
const FEW_CHUNKS: u64 = 256;
/// Most stages of all NPUs together; each counts once more for every [`FEW_CHUNKS`] chunks.
const MAX_STAGES: u64 = 1 << 24;

/// What every NPU does by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jitter {
    /// Each NPU notices a chunk up to this much late.
    pub most_ps: Picos,
    /// Seed of the delays.
    pub seed: u64,
    /// Whether dimensions serve chunks in the order in which a run without jitter would.
    pub enforced: bool,
}

/// Times `plan` with every NPU by itself. A stage starts when all NPUs that are joined along the
/// dimension have turned to the same chunk; an NPU turns to the chunk that `queue` says among those it
/// has noticed, or that is next in the enforced order, and stays with it.
///
/// # Errors
/// [`Code::Stalled`] with the cycle of NPUs that wait for each other; [`Code::TooLarge`].
pub fn run(topology: &Topology, plan: &RailsPlan, queue: QueuePolicy, jitter: &Jitter) -> Result<Picos> {
    let npus = topology.npus();
    let stages = plan.orders.first().map_or(0, |order| plan.stages(topology, order).count()) as u64;
    let chunks = plan.orders.len() as u64;
    if npus > MAX_NPUS || npus * stages * chunks * chunks.div_ceil(FEW_CHUNKS) > MAX_STAGES {
        let what = format!(
            "jitter is simulated for every NPU: at most {MAX_NPUS} of them and 2^24 stages, and fewer with more than \
             {FEW_CHUNKS} chunks; use fewer chunks"
        );
        return Err(Error::new(Code::TooLarge, what));
    }
    Npus::new(topology, plan, queue, jitter).run()
}

struct Npus {
    coordinates: Coordinates,
    queue: QueuePolicy,
    jitter: Jitter,
    random: Pcg64Mcg,
    npus: usize,
    chunks: usize,
    /// Stages of each chunk.
    stages: Vec<Vec<Stage>>,
    /// By chunk and NPU: the next stage.
    next: Vec<u32>,
    /// By dimension and NPU: chunks that were noticed and wait, by the engine's order.
    waiting: Vec<Vec<(u64, Picos, u32)>>,
    /// By dimension and NPU: the chunk it has turned to.
    chosen: Vec<Option<u32>>,
    /// By dimension and NPU: whether the chosen chunk is being served.
    serving: Vec<bool>,
    /// By dimension: chunks in the agreed order; by dimension and NPU: how many were served.
    agreed: Vec<Vec<u32>>,
    served: Vec<usize>,
    /// Time, then arrivals (chunk * NPUs + NPU) before NPUs of a dimension that are free again.
    events: BinaryHeap<Reverse<(Picos, bool, usize)>>,
}

impl Npus {
    fn new(topology: &Topology, plan: &RailsPlan, queue: QueuePolicy, jitter: &Jitter) -> Self {
        let (npus, chunks, dimensions) = (topology.npus() as usize, plan.orders.len(), topology.dimensions.len());
        let agreed = if jitter.enforced { run_alike(topology, plan, queue, 1).spans } else { Vec::new() };
        let sizes = topology.dimensions.iter().map(|dimension| dimension.size as u32).collect();
        Npus {
            coordinates: Coordinates::first_fastest(sizes),
            queue,
            jitter: *jitter,
            random: Pcg64Mcg::seed_from_u64(jitter.seed),
            npus,
            chunks,
            stages: plan.orders.iter().map(|order| plan.stages(topology, order).collect()).collect(),
            next: vec![0; chunks * npus],
            waiting: vec![Vec::new(); dimensions * npus],
            chosen: vec![None; dimensions * npus],
            serving: vec![false; dimensions * npus],
            agreed: agreed.iter().map(|spans| spans.iter().map(|span| span.chunk).collect()).collect(),
            served: vec![0; dimensions * npus],
            events: BinaryHeap::new(),
        }
    }

    fn late(&mut self) -> Picos {
        if self.jitter.most_ps == 0 { 0 } else { self.random.next_u64() % (self.jitter.most_ps + 1) }
    }

    fn run(mut self) -> Result<Picos> {
        for index in 0..self.chunks * self.npus {
            let late = self.late();
            self.events.push(Reverse((late, false, index)));
        }
        let (mut end, mut open) = (0, self.chunks * self.npus);
        let mut steps = interruptible(0u64..);
        while let Some(Reverse((now, freed, index))) = self.events.pop() {
            steps.next();
            let (upper, npu) = (index / self.npus, index % self.npus);
            if freed {
                (self.chosen[index], self.serving[index]) = (None, false);
                self.served[index] += 1;
                self.turn(upper, npu, now);
            } else if let Some(stage) = self.stages[upper].get(self.next[index] as usize) {
                let last = self.next[index] as usize + 1 == self.stages[upper].len();
                let dimension = usize::from(stage.dimension);
                let (time, number) = turned(self.queue, now, upper as u32);
                let waiting = (priority(self.queue, (stage.size_before, stage.size), last), time, number);
                self.waiting[dimension * self.npus + npu].push(waiting);
                self.turn(dimension, npu, now);
            } else {
                end = end.max(now);
                open -= 1;
            }
        }
        if open > 0 { Err(self.stalled()) } else { Ok(end) }
    }

    /// Lets an NPU that is free on a dimension turn to a chunk, and the stage start if all have.
    fn turn(&mut self, dimension: usize, npu: usize, now: Picos) {
        let slot = dimension * self.npus + npu;
        if self.chosen[slot].is_some() {
            return;
        }
        let place = if self.jitter.enforced {
            let wanted = self.agreed[dimension].get(self.served[slot]);
            let wanted = wanted.map(|&chunk| turned(self.queue, 0, chunk).1);
            self.waiting[slot].iter().position(|&(.., number)| Some(number) == wanted)
        } else {
            (0..self.waiting[slot].len()).min_by_key(|&place| self.waiting[slot][place])
        };
        let Some(place) = place else { return };
        let (_, time, number) = self.waiting[slot].swap_remove(place);
        let (_, chunk) = turned(self.queue, time, number);
        self.chosen[slot] = Some(chunk);
        let group = self.group(dimension, npu);
        if !group.clone().all(|other| self.chosen[dimension * self.npus + other] == Some(chunk)) {
            return;
        }
        for other in group {
            let (index, slot) = (chunk as usize * self.npus + other, dimension * self.npus + other);
            let stage = self.stages[chunk as usize][self.next[index] as usize];
            self.next[index] += 1;
            self.serving[slot] = true;
            let late = self.late();
            self.events.push(Reverse((now + stage.busy_ps, true, slot)));
            self.events.push(Reverse((now + stage.busy_ps + stage.latency_ps + late, false, index)));
        }
    }

    /// NPUs that are joined with `npu` along a dimension, itself among them.
    fn group(&self, dimension: usize, npu: usize) -> impl Iterator<Item = usize> + Clone + use<> {
        self.coordinates.line(npu as u32, dimension).map(|npu| npu as usize)
    }

    /// The cycle of NPUs that wait for each other.
    fn stalled(&self) -> Error {
        // Follow who waits for whom from any NPU that has turned to a chunk, until one comes again.
        let mut slot = (0..self.chosen.len()).find(|&slot| self.chosen[slot].is_some() && !self.serving[slot]);
        let mut path: Vec<(usize, String)> = Vec::new();
        while let Some(here) = slot {
            if let Some(start) = path.iter().position(|(other, _)| *other == here) {
                let chain: Vec<_> = path[start..].iter().map(|(_, text)| text.as_str()).collect();
                let what = format!("chunks wait for each other: {}; enforce one order on all NPUs", chain.join("; "));
                return Error::new(Code::Stalled, what);
            }
            let (dimension, npu) = (here / self.npus, here % self.npus);
            let chunk = self.chosen[here].expect("it has turned to a chunk");
            // A neighbour that is elsewhere, and where it has turned to something.
            slot = self.group(dimension, npu).find_map(|other| {
                let there = dimension * self.npus + other;
                if self.chosen[there] == Some(chunk) {
                    return None;
                }
                if self.chosen[there].is_some() {
                    return Some(there);
                }
                let stage = self.stages[chunk as usize].get(self.next[chunk as usize * self.npus + other] as usize)?;
                let elsewhere = usize::from(stage.dimension) * self.npus + other;
                self.chosen[elsewhere].map(|_| elsewhere)
            });
            path.push((here, format!("NPU {npu} holds dimension {} for chunk {chunk}", dimension + 1)));
        }
        Error::new(Code::Stalled, "chunks wait for each other; enforce one order on all NPUs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rails::scheduler::{Scheduler, Themis};
    use antiphon_model::collective::Kind;

    fn plan(topology: &Topology) -> RailsPlan {
        let mut plan = RailsPlan::uniform(topology, Kind::AllReduce, 100_000_000, 16, false).unwrap();
        Themis::default().schedule(topology, &mut plan);
        plan
    }

    #[test]
    fn without_jitter_all_npus_do_as_one() {
        let topology = Topology::parse("ring4@1000/20ns,sw4@800/700ns,fc2@400/700ns").unwrap();
        let plan = plan(&topology);
        for queue in [QueuePolicy::Fifo, QueuePolicy::Tail] {
            let one = run_alike(&topology, &plan, queue, 1).time_ps;
            for enforced in [false, true] {
                let jitter = Jitter { most_ps: 0, seed: 1, enforced };
                assert_eq!(run(&topology, &plan, queue, &jitter).unwrap(), one, "{queue:?}, enforced: {enforced}");
            }
        }
    }

    #[test]
    fn jitter_deadlocks_unless_the_order_is_enforced() {
        let topology = Topology::parse("sw4@1000/700ns,sw4@800/700ns,sw4@400/700ns").unwrap();
        let plan = plan(&topology);
        let alike = run_alike(&topology, &plan, QueuePolicy::Fifo, 1).time_ps;
        let free = Jitter { most_ps: 50_000_000, seed: 1, enforced: false };
        let error = run(&topology, &plan, QueuePolicy::Fifo, &free).unwrap_err();
        assert_eq!(error.code, Code::Stalled);
        assert!(error.message.contains("NPU ") && error.message.contains("holds dimension"), "{error}");
        let enforced = run(&topology, &plan, QueuePolicy::Fifo, &Jitter { enforced: true, ..free }).unwrap();
        assert!(enforced > alike && enforced < 2 * alike + 32 * free.most_ps, "{alike} {enforced}");
        assert_eq!(enforced, run(&topology, &plan, QueuePolicy::Fifo, &Jitter { enforced: true, ..free }).unwrap());
    }

    /// A free dimension takes what the engine would take, also among chunks of one size.
    #[test]
    fn npus_choose_as_the_engine_does() {
        let topology = Topology::parse("sw4@1000/0ns").unwrap();
        let plan = RailsPlan::uniform(&topology, Kind::AllReduce, 64_000_000, 4, false).unwrap();
        for (queue, oldest_first) in
            [(QueuePolicy::Fifo, true), (QueuePolicy::Smallest, false), (QueuePolicy::SmallestBefore, false)]
        {
            let mut npus = Npus::new(&topology, &plan, queue, &Jitter { most_ps: 0, seed: 1, enforced: false });
            for chunk in 0..4 {
                let (time, number) = turned(queue, chunk.into(), chunk);
                npus.waiting[0].push((0, time, number));
            }
            npus.turn(0, 0, 4);
            assert_eq!(npus.chosen[0], Some(if oldest_first { 0 } else { 3 }), "{queue:?}");
        }
    }

    #[test]
    fn too_many_npus_are_refused() {
        let topology = Topology::parse("fc200@1000/700ns,fc200@800/700ns").unwrap();
        let jitter = Jitter { most_ps: 0, seed: 1, enforced: true };
        assert_eq!(run(&topology, &plan(&topology), QueuePolicy::Fifo, &jitter).unwrap_err().code, Code::TooLarge);
    }
}
