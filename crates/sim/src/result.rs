//! What a simulation returns: tables per link, rank and chunk, and utilization over time.

use super::Fidelity;
use super::energy::energy;
use super::flight::{FlightRow, Ranking};
use super::plan::RunPlan;
use super::playback::Playback;
use super::recorder::{Deliveries, Traffic};
use super::trace::Trace;
use crate::rails::EndpointUse;
use antiphon_base::units::{Bytes, Picos};
use antiphon_model::energy::Energy;
use antiphon_model::fabric::LinkId;
use serde::Serialize;
use std::collections::BTreeMap;

/// Totals of one directed link; row `i` is link `i` of the fabric.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LinkRow {
    /// Time the link was transmitting.
    pub busy_ps: Picos,
    /// Wire bytes carried, without headers.
    pub bytes: Bytes,
    /// Packets carried.
    pub packets: u64,
}

/// Totals of one rank; row `i` is rank `i`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RankRow {
    /// When the rank had received (and added) the last message addressed to it.
    pub finish_ps: Picos,
    /// Wire bytes sent.
    pub sent_bytes: Bytes,
    /// Wire bytes received.
    pub received_bytes: Bytes,
    /// Time spent adding received data.
    pub reduce_ps: Picos,
    /// The most bytes of messages at a time that were to be added and had been sent to it, so what its receive buffers
    /// must hold; not known of a run in parts.
    pub buffer_bytes: Option<Bytes>,
}

/// A link that several flights use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ContendedRow {
    /// The link.
    pub link: LinkId,
    /// The longest that a flight waited there until its next message (`alpha-beta`) or packet began; not known at `flit`.
    pub wait_ps: Option<Picos>,
    /// Flights that use it, and the bytes of each, without headers.
    pub flights: Vec<(u32, Bytes)>,
}

/// When one chunk of one lane was complete at every rank that needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ChunkRow {
    /// Lane.
    pub lane: u32,
    /// Chunk of the lane.
    pub chunk: u64,
    /// Completion time: its last transfer was received and added.
    pub complete_ps: Picos,
}

/// Mean link utilization over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Timeline {
    /// Length of a window.
    pub window_ps: Picos,
    /// Share of link time in use in each window, 0 to 1.
    pub utilization: Vec<f64>,
}

/// The outcome of a simulation, of one flight or of several.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SimulationResult {
    /// Fidelity it was obtained at.
    pub fidelity: Fidelity,
    /// The system's protocol that it is with, where it has some.
    pub protocol: Option<String>,
    /// From start to the last rank's finish.
    pub time_ps: Picos,
    /// Per link.
    pub links: Vec<LinkRow>,
    /// Per rank.
    pub ranks: Vec<RankRow>,
    /// Per lane and chunk, ordered by lane then chunk, lanes of all flights numbered through; only the first chunk of each lane and the
    /// last where a lane has so many that the table would pass 2^20 rows.
    pub chunks: Vec<ChunkRow>,
    /// Completion of the first complete chunk.
    pub first_chunk_ps: Picos,
    /// Completion of the last chunk.
    pub last_chunk_ps: Picos,
    /// Mean utilization of all links over time.
    pub timeline: Timeline,
    /// Packets times links they crossed.
    pub packet_hops: u64,
    /// Flits (headers included) times links they crossed.
    pub flit_hops: u64,
    /// Per flight, in the order in which they were given.
    pub flights: Vec<FlightRow>,
    /// Links that several flights use, in ascending order.
    pub contended: Vec<ContendedRow>,
    /// Events the engine processed; those of skipped periods are not among them.
    pub events: u64,
    /// What it took, where somebody asked.
    #[serde(skip)]
    pub energy: Option<Energy>,
    /// What happened when, where somebody asked.
    #[serde(skip)]
    pub trace: Option<Trace>,
    /// What can be played, where somebody asked.
    #[serde(skip)]
    pub playback: Option<Playback>,
    /// What the parts of the endpoint did, where it has some.
    #[serde(skip)]
    pub endpoint: Option<EndpointUse>,
}

impl SimulationResult {
    /// Share of link time in use over the whole run, 0 to 1.
    pub fn link_utilization_mean(&self) -> f64 {
        let busy: u128 = self.links.iter().map(|row| row.busy_ps as u128).sum();
        let total = self.time_ps as u128 * self.links.len() as u128;
        if total == 0 { 0.0 } else { busy as f64 / total as f64 }
    }
}

/// The tables of a run of `plan` that has ended.
pub fn collect(
    plan: &RunPlan,
    fidelity: Fidelity,
    ranking: &Ranking,
    deliveries: &Deliveries,
    traffic: &mut Traffic,
    flights: Vec<FlightRow>,
    events: u64,
) -> SimulationResult {
    let time = deliveries.finish.iter().copied().max().unwrap_or(0);
    let recorded = plan.power.as_ref().zip(traffic.take_power());
    let energy = recorded.map(|(rates, windows)| energy(plan, rates, time, windows));
    let (window, utilization) = traffic.utilization(time);
    let picos = |&ticks| plan.clock.picos(ticks);
    let (mut bytes, mut packets) = (vec![0; plan.fabric.links.len()], vec![0; plan.fabric.links.len()]);
    let row = |finish| RankRow { finish_ps: picos(finish), ..RankRow::default() };
    let mut ranks: Vec<RankRow> = deliveries.finish.iter().map(row).collect();
    // What was carried follows from the plan, however it was timed.
    let mut flit_hops = 0;
    let mut of_flights: BTreeMap<(LinkId, u32), Bytes> = BTreeMap::new();
    for job in &plan.jobs {
        let kind = plan.kind(job);
        let (all_bytes, all_packets) = (kind.bytes * kind.chunks, kind.packets.count * kind.chunks);
        for &link in plan.route(job) {
            bytes[link as usize] += all_bytes;
            packets[link as usize] += all_packets;
            if ranking.is_shared(link) {
                *of_flights.entry((link, job.flight)).or_default() += all_bytes;
            }
            flit_hops += all_packets * kind.packets.flits;
        }
        ranks[job.from as usize].sent_bytes += all_bytes;
        ranks[job.to as usize].received_bytes += all_bytes;
        ranks[job.to as usize].reduce_ps += plan.clock.picos(kind.reduce) * kind.chunks;
    }
    ranks.truncate(plan.fabric.ranks());
    let mut contended: Vec<ContendedRow> = vec![];
    for ((link, flight), bytes) in of_flights {
        if contended.last().is_none_or(|row| row.link != link) {
            let wait_ps = (fidelity != Fidelity::Flit).then(|| plan.clock.picos(traffic.longest_wait(link)));
            contended.push(ContendedRow { link, wait_ps, flights: vec![] });
        }
        contended.last_mut().expect("a row").flights.push((flight, bytes));
    }
    let rate = |id| plan.system.rate_of(plan.fabric.link(id)).0;
    plan.channels.share(&mut bytes, rate);
    plan.channels.share(&mut packets, rate);
    let busy_ps = |id| plan.clock.picos(traffic.busy_of(plan.channels.first_of(id)));
    let columns = (0..).zip(bytes.into_iter().zip(packets));
    let links: Vec<LinkRow> =
        columns.map(|(id, (bytes, packets))| LinkRow { busy_ps: busy_ps(id), bytes, packets }).collect();
    let chunks = deliveries.chunk_rows(plan);
    SimulationResult {
        fidelity,
        protocol: None,
        time_ps: picos(&time),
        first_chunk_ps: chunks.iter().map(|row| row.complete_ps).min().unwrap_or(0),
        last_chunk_ps: chunks.iter().map(|row| row.complete_ps).max().unwrap_or(0),
        timeline: Timeline { window_ps: picos(&window), utilization },
        packet_hops: links.iter().map(|row| row.packets).sum(),
        flit_hops,
        links,
        ranks,
        chunks,
        flights,
        contended,
        events,
        energy,
        trace: Trace::of(plan, deliveries, traffic),
        playback: Playback::of(plan, deliveries, traffic, time),
        endpoint: None,
    }
}
