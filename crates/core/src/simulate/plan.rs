//! What every fidelity needs to know about a schedule on a fabric, computed once.

use super::clock::{Clock, MAX_BITS, Ticks};
use crate::error::{Code, Error, Result};
use crate::fabric::{Fabric, LinkId};
use crate::schedule::{Channels, Dependency, LaneId, Op, Schedule, TransferId};
use crate::system::{Packets, System};
use crate::units::Bytes;
use std::ops::Range;

/// A transfer with all sizes and times resolved.
pub struct Job {
    /// Sending rank.
    pub from: u32,
    /// Receiving rank.
    pub to: u32,
    /// Phase.
    pub phase: u32,
    /// Slot of the first chunk.
    pub step: u64,
    /// Slots between chunks.
    pub stride: u64,
    /// Number of chunks.
    pub chunks: u64,
    /// Packets of one message.
    pub packets: Packets,
    /// Wire bytes of one message, without headers.
    pub bytes: Bytes,
    /// Time the receiver takes to add one message; 0 for copies.
    pub reduce: Ticks,
    /// Range of [`Plan::payload`].
    pub payload: Range<usize>,
    /// Range of [`Plan::hops`].
    pub hops: Range<usize>,
    /// Range of [`Plan::after`]: what it waits for at the sender.
    pub start_after: Range<usize>,
    /// Range of [`Plan::after`]: what it waits for at the receiver.
    pub apply_after: Range<usize>,
}

/// A schedule resolved on a fabric and a system.
pub struct Plan<'a> {
    /// The schedule.
    pub schedule: &'a Schedule,
    /// The fabric.
    pub fabric: &'a Fabric,
    /// The system.
    pub system: &'a System,
    /// Transfers.
    pub jobs: Vec<Job>,
    /// Which links act together.
    pub channels: Channels,
    /// Routes of all jobs, as first links of channels.
    pub hops: Vec<LinkId>,
    /// Dependencies of all jobs.
    pub after: Vec<Dependency>,
    /// Lanes of all jobs.
    pub payload: Vec<Range<LaneId>>,
    /// What all times below, and those of the jobs, are in.
    pub clock: Clock,
    /// Time of one flit on the channel of which a link is the first.
    pub flit: Vec<Ticks>,
    /// Propagation latency of that channel: the largest of its links.
    pub latency: Vec<Ticks>,
    /// From the arrival of a message to the start of what waited for it.
    pub hand_off: Ticks,
    /// Time to hand one packet to an interface.
    pub issue: Ticks,
    /// Messages of every phase.
    pub phase_messages: Vec<u64>,
}

impl<'a> Plan<'a> {
    /// Resolves `schedule`.
    ///
    /// # Errors
    /// As [`Schedule::check`]; [`Code::TooLarge`] if the simulated time would not fit.
    pub fn new(fabric: &'a Fabric, schedule: &'a Schedule, system: &'a System) -> Result<Self> {
        schedule.check(fabric)?;
        let channels = schedule.channels(fabric);
        let latencies = |first| channels.links(first).iter().map(|&id| system.latency_of(fabric.link(id)));
        let latency = (0..fabric.links.len() as LinkId).map(|first| latencies(first).max().unwrap_or(0)).collect();
        let mut plan = Plan {
            schedule,
            fabric,
            system,
            jobs: Vec::with_capacity(schedule.transfers.len()),
            flit: flit_ticks(fabric, system, &channels, 0),
            channels,
            hops: vec![],
            after: vec![],
            payload: vec![],
            clock: Clock::default(),
            latency,
            hand_off: system.hand_off_ps,
            issue: system.interface.issue_ps,
            phase_messages: vec![0; schedule.phases.len()],
        };
        let mut longest = 0u128;
        for transfer in &schedule.transfers {
            let lane = &schedule.lanes[transfer.payload.first() as usize];
            let bytes = schedule.message_bytes(transfer);
            let packets = system.packets(bytes);
            let starts = plan.after.len();
            plan.after.extend_from_slice(&transfer.start_after);
            let applies = plan.after.len();
            plan.after.extend_from_slice(&transfer.apply_after);
            let payload = plan.payload.len()..plan.payload.len() + transfer.payload.len();
            plan.payload.extend_from_slice(&transfer.payload);
            let route = plan.hops.len()..plan.hops.len() + transfer.route.len();
            plan.hops.extend(transfer.route.iter().map(|&link| plan.channels.first_of(link)));
            plan.phase_messages[transfer.phase as usize] += lane.chunks;
            let hops = transfer.route.len() as u128;
            let reduce = if transfer.op == Op::Reduce { system.reduce_time(bytes) } else { 0 };
            // One message after the other, each store-and-forward.
            let packet = |l: &LinkId| (plan.flit[*l as usize] as u128).saturating_mul(packets.flits as u128);
            let slowest = plan.hops[route.clone()].iter().map(packet).max().unwrap_or(0);
            let latency = plan.hops[route.clone()].iter().map(|&l| plan.latency[l as usize] as u128).sum::<u128>();
            let message = (packets.count as u128)
                .saturating_mul(slowest.saturating_mul(hops).saturating_add(system.interface.issue_ps as u128))
                .saturating_add(latency + system.interface.issue_ps as u128 + system.hand_off_ps as u128)
                .saturating_add(reduce as u128);
            longest = longest.saturating_add(message.saturating_mul(lane.chunks as u128));
            plan.jobs.push(Job {
                from: transfer.from,
                to: transfer.to,
                phase: transfer.phase,
                step: transfer.step as u64,
                stride: lane.stride as u64,
                chunks: lane.chunks,
                packets,
                bytes,
                reduce,
                payload,
                hops: route,
                start_after: starts..applies,
                apply_after: applies..plan.after.len(),
            });
        }
        if longest > u64::MAX as u128 / 2 {
            return Err(Error::new(
                Code::TooLarge,
                "all messages one after the other would take more time than 64-bit picoseconds hold; use less data",
            ));
        }
        let finest = flit_ticks(fabric, system, &plan.channels, MAX_BITS);
        plan.set_clock(Clock::new(&finest, longest));
        Ok(plan)
    }

    /// Turns all times, until now in picoseconds, into ticks.
    fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
        self.flit = flit_ticks(self.fabric, self.system, &self.channels, clock.bits());
        let times = self.latency.iter_mut().chain([&mut self.hand_off, &mut self.issue]);
        times.chain(self.jobs.iter_mut().map(|job| &mut job.reduce)).for_each(|time| *time = clock.ticks(*time));
    }

    /// Route of a job, as first links of channels.
    pub fn route(&self, job: &Job) -> &[LinkId] {
        &self.hops[job.hops.clone()]
    }

    /// The lanes a job carries.
    pub fn lanes(&self, job: &Job) -> impl Iterator<Item = usize> + use<'_> {
        self.payload[job.payload.clone()].iter().flat_map(|range| range.start as usize..range.end as usize)
    }

    /// What a job waits for at the sender.
    pub fn start_after(&self, job: &Job) -> &[Dependency] {
        &self.after[job.start_after.clone()]
    }

    /// What a job waits for at the receiver.
    pub fn apply_after(&self, job: &Job) -> &[Dependency] {
        &self.after[job.apply_after.clone()]
    }

    /// Messages in the whole run.
    pub fn messages(&self) -> u64 {
        self.phase_messages.iter().sum()
    }

    /// Time one packet of a job occupies a link.
    pub fn packet_time(&self, job: &Job, link: LinkId) -> Ticks {
        job.packets.flits * self.flit[link as usize]
    }

    /// A transfer in words, for messages.
    pub fn describe(&self, id: TransferId, chunk: u64) -> String {
        let job = &self.jobs[id as usize];
        let phase = &self.schedule.phases[job.phase as usize].name;
        let slot = job.step + chunk * job.stride;
        format!("transfer {id} (rank {} -> {}, {phase} slot {slot}, chunk {chunk})", job.from, job.to)
    }
}

/// Time of one flit on the channel of which each link is the first.
fn flit_ticks(fabric: &Fabric, system: &System, channels: &Channels, bits: u32) -> Vec<Ticks> {
    let links = |first| channels.links(first).iter().map(|&id| fabric.link(id));
    (0..fabric.links.len() as LinkId).map(|first| system.channel_ticks(links(first), bits)).collect()
}
