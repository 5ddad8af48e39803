//! When messages were received and added: the finish of ranks and the completion of chunks.

use super::received::ReceivedShares;
use crate::clock::Ticks;
use crate::plan::RunPlan;
use crate::result::ChunkRow;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::watch::interruptible;
use antiphon_model::schedule::{LaneId, TransferId};
use rustc_hash::FxHashMap;

/// Most rows of the chunk table.
const MAX_CHUNK_ROWS: u64 = 1 << 20;

/// See the module.
pub struct Deliveries {
    /// Last message of each rank.
    pub finish: Vec<Ticks>,
    /// Start of every lane's rows in `complete`: a row a chunk, or only the first and the last
    /// chunk's when the table would be too large.
    lane_rows: Vec<usize>,
    complete: Vec<Ticks>,
    all_chunks: bool,
    /// How far lanes are, where somebody waits for parts of a collective.
    semaphores: Option<Semaphores>,
    /// Transfer, chunk and time of everything applied in a period that is being recorded.
    record: Option<Vec<(TransferId, u64, Ticks)>>,
    /// The same of the whole run, where somebody asks; not to be used with [`Deliveries::repeat`].
    pub log: Option<Vec<(TransferId, u64, Ticks)>>,
    /// What is played, where somebody asks.
    pub received: Option<ReceivedShares>,
}

/// Counts of chunks, by lane.
struct Semaphores {
    /// Messages not yet applied, by row of [`Deliveries::complete`].
    missing: Vec<u32>,
    /// Chunks complete in order, by lane.
    reached: Vec<u64>,
    /// Lanes whose count has grown.
    raised: Vec<LaneId>,
}

impl Semaphores {
    /// A message of one of the `chunks` of a lane, whose rows start at `first`, was applied.
    fn applied(&mut self, lane: usize, first: usize, chunk: u64, chunks: u64) {
        self.missing[first + chunk as usize] -= 1;
        let reached = &mut self.reached[lane];
        let before = *reached;
        while *reached < chunks && self.missing[first + *reached as usize] == 0 {
            *reached += 1;
        }
        if *reached > before {
            self.raised.push(lane as LaneId);
        }
    }
}

impl Deliveries {
    /// Nothing delivered yet of `plan`.
    pub fn new(plan: &RunPlan) -> Self {
        let lanes = &plan.lane_chunks;
        let all_chunks = lanes.iter().fold(0u64, |sum, &chunks| sum.saturating_add(chunks)) <= MAX_CHUNK_ROWS;
        let mut rows = 0;
        let lane_rows = lanes
            .iter()
            .map(|&chunks| {
                let start = rows;
                rows += if all_chunks { chunks as usize } else { chunks.min(2) as usize };
                start
            })
            .collect();
        Deliveries {
            finish: vec![0; plan.participants()],
            lane_rows,
            complete: vec![0; rows],
            all_chunks,
            semaphores: None,
            record: None,
            log: plan.trace.then(Vec::new),
            received: plan.playback.as_ref().map(|of| ReceivedShares::new(of, plan)),
        }
    }

    /// Counts the chunks of every lane that are complete, in order ([`Deliveries::reached`]); not to be used with
    /// [`Deliveries::repeat`].
    ///
    /// # Errors
    /// [`Code::TooLarge`] for too many chunks.
    pub fn count_chunks(&mut self, plan: &RunPlan) -> Result<()> {
        if !self.all_chunks {
            let what = "the exchanges have too many chunks to follow each; choose a larger chunk or piece";
            return Err(Error::new(Code::TooLarge, what));
        }
        let mut missing = vec![0; self.complete.len()];
        for job in interruptible(&plan.jobs) {
            for lane in plan.lanes(job) {
                missing[self.lane_rows[lane]..][..plan.kind(job).chunks as usize]
                    .iter_mut()
                    .for_each(|count| *count += 1);
            }
        }
        // What no message brings is complete.
        let moved = |(lane, &chunks): (usize, &u64)| if missing[self.lane_rows[lane]] == 0 { chunks } else { 0 };
        let reached = plan.lane_chunks.iter().enumerate().map(moved).collect();
        self.semaphores = Some(Semaphores { missing, reached, raised: vec![] });
        Ok(())
    }

    /// Chunks of a lane that are complete, without a gap from the first on.
    pub fn reached(&self, lane: LaneId) -> u64 {
        self.semaphores.as_ref().map_or(0, |semaphores| semaphores.reached[lane as usize])
    }

    /// A lane of which chunks were completed since this was asked last.
    pub fn raised(&mut self) -> Option<LaneId> {
        self.semaphores.as_mut()?.raised.pop()
    }

    /// What a rank has received was written back at `now`.
    pub fn written(&mut self, rank: u32, now: Ticks) {
        let finish = &mut self.finish[rank as usize];
        *finish = now.max(*finish);
    }

    /// A message was received and added at `now`.
    pub fn applied(&mut self, plan: &RunPlan, id: TransferId, chunk: u64, now: Ticks) {
        if let Some(record) = &mut self.record {
            record.push((id, chunk, now));
        }
        if let Some(log) = &mut self.log {
            log.push((id, chunk, now));
        }
        if let Some(received) = &mut self.received {
            received.add(plan, id, chunk, now);
        }
        let job = &plan.jobs[id as usize];
        let finish = &mut self.finish[job.to as usize];
        *finish = now.max(*finish);
        for lane in plan.lanes(job) {
            let index = match (self.all_chunks, chunk) {
                (true, _) => chunk as usize,
                (false, 0) => 0,
                (false, _) if chunk + 1 == plan.lane_chunks[lane] => 1,
                _ => continue,
            };
            let entry = &mut self.complete[self.lane_rows[lane] + index];
            *entry = now.max(*entry);
            if let Some(semaphores) = &mut self.semaphores {
                semaphores.applied(lane, self.lane_rows[lane], chunk, plan.lane_chunks[lane]);
            }
        }
    }

    /// Adds what was delivered elsewhere; neither is to be repeated.
    pub fn join(&mut self, other: Deliveries) {
        let times = |own: &mut Vec<Ticks>, others: Vec<Ticks>| {
            own.iter_mut().zip(others).for_each(|(own, other)| *own = other.max(*own));
        };
        times(&mut self.finish, other.finish);
        times(&mut self.complete, other.complete);
        if let (Some(own), Some(other)) = (&mut self.received, other.received) {
            own.join(other);
        }
    }

    /// Records what is applied from now on, to be repeated or discarded.
    pub fn record_period(&mut self) {
        self.record = Some(vec![]);
    }

    /// The record is of no use.
    pub fn discard_period(&mut self) {
        self.record = None;
    }

    /// Adds what was recorded `periods` times, each `period` later and as many chunks further as
    /// were recorded of the transfer. First and last chunks are never among what is repeated.
    pub fn repeat(&mut self, plan: &RunPlan, periods: u64, period: Ticks) {
        let Some(record) = self.record.take() else { return };
        let mut chunks = vec![0; plan.jobs.len()];
        record.iter().for_each(|&(id, _, _)| chunks[id as usize] += 1);
        if let Some(received) = &mut self.received {
            received.repeat(plan, &record, &chunks, periods, period);
        }
        // Latest time in every row, by how many rows further it is repeated.
        let mut latest: FxHashMap<(usize, usize), Ticks> = FxHashMap::default();
        for (id, chunk, at) in record {
            let job = &plan.jobs[id as usize];
            let finish = &mut self.finish[job.to as usize];
            *finish = (at + periods * period).max(*finish);
            for lane in plan.lanes(job).filter(|_| self.all_chunks) {
                let entry = latest.entry((self.lane_rows[lane] + chunk as usize, chunks[id as usize])).or_default();
                *entry = at.max(*entry);
            }
        }
        for ((row, step), at) in latest {
            let (rows, mut at) = (&mut self.complete[row..], at);
            for i in 1..=periods as usize {
                at += period;
                if rows[i * step] < at {
                    rows[i * step] = at;
                }
            }
        }
    }

    /// The chunk table: lanes that were moved at all.
    pub fn chunk_rows(&self, plan: &RunPlan) -> Vec<ChunkRow> {
        let mut moved = vec![false; plan.lane_chunks.len()];
        plan.jobs.iter().flat_map(|job| plan.lanes(job)).for_each(|lane| moved[lane] = true);
        let mut chunks = Vec::with_capacity(self.complete.len());
        for (lane, &start) in self.lane_rows.iter().enumerate().filter(|(lane, _)| moved[*lane]) {
            let count = plan.lane_chunks[lane];
            let rows = if self.all_chunks { count } else { count.min(2) };
            for row in 0..rows {
                let chunk = if self.all_chunks || row == 0 { row } else { count - 1 };
                chunks.push(ChunkRow {
                    lane: lane as u32,
                    chunk,
                    complete_ps: plan.clock.picos(self.complete[start + row as usize]),
                });
            }
        }
        chunks
    }
}
