//! Collects the result tables while an engine runs, in memory that does not grow with time.

mod deliveries;
mod traffic;

pub use deliveries::Deliveries;
pub use traffic::Traffic;

use super::Fidelity;
use super::plan::Plan;
use super::result::{LinkRow, RankRow, SimulationResult, Timeline};
use crate::fabric::LinkId;

/// See the module.
pub struct Recorder {
    /// What the network says.
    pub traffic: Traffic,
    /// What the ranks say.
    pub deliveries: Deliveries,
}

impl Recorder {
    /// An empty record for a run of `plan`.
    pub fn new(plan: &Plan) -> Self {
        let links = (0..plan.fabric.links.len() as LinkId).map(|first| plan.channels.links(first).len() as u64);
        Recorder { traffic: Traffic::new(links.collect(), plan.clock), deliveries: Deliveries::new(plan) }
    }

    /// The result tables.
    pub fn finish(self, plan: &Plan, fidelity: Fidelity, events: u64) -> SimulationResult {
        let picos = |&ticks| plan.clock.picos(ticks);
        let (mut bytes, mut packets) = (vec![0; plan.fabric.links.len()], vec![0; plan.fabric.links.len()]);
        let row = |finish| RankRow { finish_ps: picos(finish), ..RankRow::default() };
        let mut ranks: Vec<RankRow> = self.deliveries.finish.iter().map(row).collect();
        // What was carried follows from the plan, however it was timed.
        for job in &plan.jobs {
            for &link in plan.route(job) {
                bytes[link as usize] += job.bytes * job.chunks;
                packets[link as usize] += job.packets.count * job.chunks;
            }
            ranks[job.from as usize].sent_bytes += job.bytes * job.chunks;
            ranks[job.to as usize].received_bytes += job.bytes * job.chunks;
            ranks[job.to as usize].reduce_ps += plan.clock.picos(job.reduce) * job.chunks;
        }
        let rate = |id| plan.system.rate_of(plan.fabric.link(id)).0;
        plan.channels.share(&mut bytes, rate);
        plan.channels.share(&mut packets, rate);
        let busy_ps = |id| picos(&self.traffic.busy[plan.channels.first_of(id) as usize]);
        let columns = (0..).zip(bytes.into_iter().zip(packets));
        let links: Vec<LinkRow> =
            columns.map(|(id, (bytes, packets))| LinkRow { busy_ps: busy_ps(id), bytes, packets }).collect();
        let time = self.deliveries.finish.iter().copied().max().unwrap_or(0);
        let chunks = self.deliveries.chunk_rows(plan);
        let (window, utilization) = self.traffic.utilization(time);
        SimulationResult {
            fidelity,
            time_ps: picos(&time),
            first_chunk_ps: chunks.iter().map(|row| row.complete_ps).min().unwrap_or(0),
            last_chunk_ps: chunks.iter().map(|row| row.complete_ps).max().unwrap_or(0),
            timeline: Timeline { window_ps: picos(&window), utilization },
            packet_hops: links.iter().map(|row| row.packets).sum(),
            flit_hops: plan
                .jobs
                .iter()
                .map(|j| j.chunks * j.packets.count * j.packets.flits * j.hops.len() as u64)
                .sum(),
            links,
            ranks,
            chunks,
            events,
        }
    }
}
