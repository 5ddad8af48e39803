//! Collects the result tables while an engine runs, in memory that does not grow with time.

use super::Fidelity;
use super::plan::{Job, Plan};
use super::result::{ChunkRow, LinkRow, RankRow, SimulationResult, Timeline};
use crate::fabric::LinkId;
use crate::units::Picos;

/// Windows of the timeline; their length doubles when a run outgrows them.
const WINDOWS: usize = 512;
/// Most rows of the chunk table.
const MAX_CHUNK_ROWS: u64 = 1 << 20;

/// See the module.
pub struct Recorder {
    links: Vec<LinkRow>,
    ranks: Vec<RankRow>,
    /// Start of every lane's rows in `complete`: a row a chunk, or only the first and the last
    /// chunk's when the table would be too large.
    lane_rows: Vec<usize>,
    complete: Vec<Picos>,
    all_chunks: bool,
    /// Windows are `1 << window_shift` picoseconds long.
    window_shift: u32,
    busy: Vec<Picos>,
}

impl Recorder {
    /// An empty record for a run of `plan`.
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
        Recorder {
            links: vec![LinkRow::default(); plan.fabric.links.len()],
            ranks: vec![RankRow::default(); plan.fabric.ranks()],
            lane_rows,
            complete: vec![0; rows],
            all_chunks,
            window_shift: 10,
            busy: vec![0; WINDOWS],
        }
    }

    /// A link transmitted from `start` to `end`.
    pub fn transmitted(&mut self, link: LinkId, start: Picos, end: Picos) {
        self.links[link as usize].busy_ps += end - start;
        while end > (WINDOWS as u64) << self.window_shift {
            for i in 0..WINDOWS / 2 {
                self.busy[i] = self.busy[2 * i] + self.busy[2 * i + 1];
            }
            self.busy[WINDOWS / 2..].fill(0);
            self.window_shift += 1;
        }
        let mut at = start;
        while at < end {
            let window = at >> self.window_shift;
            let until = end.min((window + 1) << self.window_shift);
            self.busy[window as usize] += until - at;
            at = until;
        }
    }

    /// A message of `job` was received and added at `now`.
    pub fn applied(&mut self, plan: &Plan, job: &Job, chunk: u64, now: Picos) {
        let finish = &mut self.ranks[job.to as usize].finish_ps;
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

    /// The result tables.
    pub fn finish(mut self, plan: &Plan, fidelity: Fidelity, events: u64) -> SimulationResult {
        let window_ps = 1u64 << self.window_shift;
        // What was carried follows from the plan, however it was timed.
        for job in &plan.jobs {
            for &link in plan.route(job) {
                self.links[link as usize].bytes += job.bytes * job.chunks;
                self.links[link as usize].packets += job.packets.count * job.chunks;
            }
            self.ranks[job.from as usize].sent_bytes += job.bytes * job.chunks;
            self.ranks[job.to as usize].received_bytes += job.bytes * job.chunks;
            self.ranks[job.to as usize].reduce_ps += job.reduce_ps * job.chunks;
        }
        let time_ps = self.ranks.iter().map(|row| row.finish_ps).max().unwrap_or(0);
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
        let windows = time_ps.div_ceil(window_ps) as usize;
        let capacity = (window_ps as f64) * self.links.len().max(1) as f64;
        // The last window may be cut short by the end of the run.
        let share = |(i, &busy): (usize, &Picos)| {
            let length = (time_ps - i as u64 * window_ps).min(window_ps);
            busy as f64 / capacity * window_ps as f64 / length as f64
        };
        SimulationResult {
            fidelity,
            time_ps,
            first_chunk_ps: chunks.iter().map(|row| row.complete_ps).min().unwrap_or(0),
            last_chunk_ps: chunks.iter().map(|row| row.complete_ps).max().unwrap_or(0),
            timeline: Timeline {
                window_ps,
                utilization: self.busy[..windows.min(WINDOWS)].iter().enumerate().map(share).collect(),
            },
            packet_hops: self.links.iter().map(|row| row.packets).sum(),
            flit_hops: plan
                .jobs
                .iter()
                .map(|j| j.chunks * j.packets.count * j.packets.flits * j.hops.len() as u64)
                .sum(),
            links: self.links,
            ranks: self.ranks,
            chunks,
            events,
        }
    }
}
