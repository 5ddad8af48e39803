//! When messages were received and added: the finish of ranks and the completion of chunks.

use crate::simulate::plan::{Job, Plan};
use crate::simulate::result::ChunkRow;
use crate::units::Picos;

/// Most rows of the chunk table.
const MAX_CHUNK_ROWS: u64 = 1 << 20;

/// See the module.
pub struct Deliveries {
    /// Last message of each rank.
    pub finish_ps: Vec<Picos>,
    /// Start of every lane's rows in `complete`: a row a chunk, or only the first and the last
    /// chunk's when the table would be too large.
    lane_rows: Vec<usize>,
    complete: Vec<Picos>,
    all_chunks: bool,
}

impl Deliveries {
    /// Nothing delivered yet of `plan`.
    pub fn new(plan: &Plan) -> Self {
        let lanes = &plan.schedule.lanes;
        let all_chunks = lanes.iter().fold(0u64, |sum, l| sum.saturating_add(l.chunks)) <= MAX_CHUNK_ROWS;
        let mut rows = 0;
        let lane_rows = lanes
            .iter()
            .map(|lane| {
                let start = rows;
                rows += if all_chunks { lane.chunks as usize } else { lane.chunks.min(2) as usize };
                start
            })
            .collect();
        Deliveries { finish_ps: vec![0; plan.fabric.ranks()], lane_rows, complete: vec![0; rows], all_chunks }
    }

    /// A message of `job` was received and added at `now`.
    pub fn applied(&mut self, plan: &Plan, job: &Job, chunk: u64, now: Picos) {
        let finish = &mut self.finish_ps[job.to as usize];
        *finish = now.max(*finish);
        for lane in job.lanes.clone() {
            let index = match (self.all_chunks, chunk) {
                (true, _) => chunk as usize,
                (false, 0) => 0,
                (false, _) if chunk + 1 == plan.schedule.lanes[lane].chunks => 1,
                _ => continue,
            };
            let entry = &mut self.complete[self.lane_rows[lane] + index];
            *entry = now.max(*entry);
        }
    }

    /// The chunk table: lanes that were moved at all.
    pub fn chunk_rows(&self, plan: &Plan) -> Vec<ChunkRow> {
        let mut moved = vec![false; plan.schedule.lanes.len()];
        plan.jobs.iter().for_each(|job| moved[job.lanes.clone()].fill(true));
        let mut chunks = Vec::new();
        for (lane, &start) in self.lane_rows.iter().enumerate().filter(|(lane, _)| moved[*lane]) {
            let count = plan.schedule.lanes[lane].chunks;
            let rows = if self.all_chunks { count } else { count.min(2) };
            for row in 0..rows {
                let chunk = if self.all_chunks || row == 0 { row } else { count - 1 };
                chunks.push(ChunkRow { lane: lane as u32, chunk, complete_ps: self.complete[start + row as usize] });
            }
        }
        chunks
    }
}
