//! Alpha-beta fidelity: whole messages, each link serving its messages in schedule order.
//!
//! A message takes its links' latencies, one flit a link, and its size over the slowest rate (cut-through), plus
//! the hand-off and reduction at the receiver. Network interfaces and step order of ranks are not
//! modelled. O(messages * (hops + dependencies)).

use super::budget::Budget;
use super::plan::Plan;
use super::recorder::Recorder;
use super::{Engine, Progress};
use crate::error::{Code, Error, Result};
use crate::schedule::{Issue, Pacing};
use crate::simulate::clock::Ticks;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Most messages of one run: minutes.
const MAX_MESSAGES: u64 = 4_000_000_000;

/// See the module.
pub struct AlphaBeta;

/// When the dependencies of the next chunks of a transfer were met: latest time and how many.
type Ready = VecDeque<(Ticks, u32)>;

impl Engine for AlphaBeta {
    fn run(&self, plan: &Plan, recorder: &mut Recorder, progress: &mut Progress) -> Result<u64> {
        let total = plan.messages();
        Budget::new(MAX_MESSAGES, "messages").expect(total.into())?;
        let mut dependents = vec![Vec::new(); plan.jobs.len()];
        for (id, job) in plan.jobs.iter().enumerate() {
            plan.after[job.after.clone()].iter().for_each(|&other| dependents[other as usize].push(id as u32));
        }
        let mut ready: Vec<Ready> = vec![Ready::new(); plan.jobs.len()];
        let mut next_chunk = vec![0u64; plan.jobs.len()];
        let mut link_free: Vec<Ticks> = vec![0; plan.fabric.links.len()];
        let mut send_free: Vec<Ticks> = vec![0; plan.fabric.links.len()];
        // The last reduction of each rank.
        let mut reducer_busy: Vec<(Ticks, Ticks)> = vec![(0, 0); plan.fabric.ranks()];
        let stop_and_wait = plan.schedule.pacing == Pacing::StopAndWait && plan.schedule.issue == Issue::Links;
        let (mut phase, mut barrier, mut latest) = (0, 0, 0);
        let mut heap: BinaryHeap<Reverse<(u32, u64, u32)>> =
            plan.jobs.iter().enumerate().map(|(id, job)| Reverse((job.phase, job.step, id as u32))).collect();
        let mut done = 0u64;
        while let Some(Reverse((at_phase, slot, id))) = heap.pop() {
            let job = &plan.jobs[id as usize];
            let chunk = next_chunk[id as usize];
            next_chunk[id as usize] += 1;
            if chunk + 1 < job.chunks {
                heap.push(Reverse((at_phase, slot + job.stride, id)));
            }
            for p in phase + 1..=at_phase {
                if plan.schedule.phases[p as usize].barrier {
                    barrier = latest;
                }
            }
            phase = at_phase;
            let (dependencies, met) = match ready[id as usize].pop_front() {
                _ if job.after.is_empty() => (0, 0),
                Some((time, met)) => (time, met),
                None => (0, 0),
            };
            if met as usize != job.after.len() {
                let what = format!("{} comes before a transfer it waits for", plan.describe(id, chunk));
                return Err(Error::new(Code::Stalled, what));
            }
            let mut start = dependencies.max(barrier);
            let mut arrived = start;
            for (i, &link) in plan.route(job).iter().enumerate() {
                let duration = job.packets.count * plan.packet_time(job, link);
                if i == 0 && stop_and_wait {
                    start = start.max(send_free[link as usize]);
                }
                start = start.max(link_free[link as usize]);
                link_free[link as usize] = start + duration;
                recorder.traffic.transmitted(link, start, start + duration);
                // The tail leaves after the head and, but for the first link, one flit after it came in.
                let tail = if i == 0 { 0 } else { arrived + plan.flit[link as usize] };
                arrived = tail.max(start + duration) + plan.latency[link as usize];
                // The next link starts when the first flit is there.
                start += plan.latency[link as usize] + plan.flit[link as usize];
            }
            let delivered = arrived + plan.hand_off;
            if let Some(&first) = plan.route(job).first() {
                send_free[first as usize] = delivered;
            }
            let mut applied = delivered;
            if job.reduce > 0 {
                // Messages come here in schedule order; one that arrives early goes before.
                let (begin, end) = &mut reducer_busy[job.to as usize];
                if delivered + job.reduce > *begin {
                    *begin = delivered.max(*end);
                    *end = *begin + job.reduce;
                    applied = *end;
                } else {
                    applied = delivered + job.reduce;
                }
            }
            recorder.deliveries.applied(plan, id, chunk, applied);
            latest = latest.max(applied);
            for &dependent in &dependents[id as usize] {
                let ahead = (chunk - next_chunk[dependent as usize]) as usize;
                let queue = &mut ready[dependent as usize];
                if queue.len() <= ahead {
                    queue.resize(ahead + 1, (0, 0));
                }
                let entry = &mut queue[ahead];
                *entry = (entry.0.max(applied), entry.1 + 1);
            }
            done += 1;
            if done.is_multiple_of(1 << 16) && !progress(done as f64 / total as f64) {
                return Err(Error::new(Code::Interrupted, "interrupted"));
            }
        }
        Ok(done)
    }
}
