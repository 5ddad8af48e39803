//! What every fidelity needs to know about schedules on a fabric, computed once.

mod age;
mod kinds;
mod relays;

pub use kinds::MessageKind;

use super::clock::{Clock, MAX_BITS, Ticks};
use super::cost::{CostModel, MessageCost};
use super::energy::PowerRates;
use super::flight::Flight;
use super::turns::Turn;
use crate::playback::PlaybackPlan;
use crate::units::Units;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Bytes, Picos};
use antiphon_base::watch::interruptible;
use antiphon_model::fabric::{Fabric, LinkId, NodeId};
use antiphon_model::schedule::{Channels, Dependency, LaneId, MAX_TRANSFERS, Phase, Transfer, TransferId};
use antiphon_model::system::{Endpoint, System};
use kinds::Known;
use relays::Relays;
use std::ops::Range;
use std::sync::Arc;

/// A transfer with all that an event needs of it in one line of a cache: large runs wait for memory more than they
/// compute.
pub struct Job {
    /// Which flight it is of.
    pub flight: u32,
    /// Sending rank.
    pub from: u32,
    /// Receiving rank.
    pub to: u32,
    /// Phase, of all of all flights.
    pub phase: u32,
    /// Slot of the first chunk.
    pub step: u32,
    /// Index of [`RunPlan::kinds`].
    pub kind: u32,
    /// Range of [`RunPlan::payload`].
    pub payload: Range<u32>,
    /// Range of [`RunPlan::hops`].
    pub hops: Range<u32>,
    /// Range of [`RunPlan::after`]: what it waits for at the sender.
    pub start_after: Range<u32>,
    /// Range of [`RunPlan::after`]: what it waits for at the receiver.
    pub apply_after: Range<u32>,
    /// The transfer of its schedule.
    pub origin: TransferId,
}

/// What decides how long a message of a job takes.
#[derive(PartialEq)]
struct MessagePath {
    kind: u32,
    hops: u32,
    slowest_flit: Ticks,
    latency: u128,
}

impl MessagePath {
    fn of(plan: &RunPlan, job: &Job) -> MessagePath {
        let (mut slowest_flit, mut latency) = (0, 0);
        for &link in plan.route(job) {
            slowest_flit = plan.flit[link as usize].max(slowest_flit);
            latency += u128::from(plan.latency[link as usize]);
        }
        MessagePath { kind: job.kind, hops: job.hops.len() as u32, slowest_flit, latency }
    }
}

/// A range of one of the tables of a plan, from `start` to its end.
fn range_from<T>(start: usize, table: &[T]) -> Range<u32> {
    start as u32..table.len() as u32
}

/// The part of a table that is such a range.
fn part<T>(table: &[T], range: Range<u32>) -> &[T] {
    &table[range.start as usize..range.end as usize]
}

/// A flight's part of a [`RunPlan`]. Transfers, phases and lanes of all flights are numbered through.
pub struct FlightPlan<'a> {
    /// What it is.
    pub flight: &'a Flight<'a>,
    /// Its transfers.
    pub jobs: Range<TransferId>,
    /// Its phases.
    pub phases: Range<u32>,
    /// Its lanes.
    pub lanes: Range<LaneId>,
    /// Kinds of its messages, and all dependencies.
    kinds: Range<usize>,
    after: Range<usize>,
    /// Into how many every chunk of the schedule is cut.
    parts: u64,
    /// Whether its ranks are those of a group, by whose numbers they are called in the schedule.
    grouped: bool,
}

impl FlightPlan<'_> {
    /// The participant of a run that one of the schedule is: a rank of the fabric, or a switch, which is numbered behind its `ranks` by node.
    fn rank(&self, rank: u32, ranks: u32) -> u32 {
        if let Some(switch) = self.flight.schedule.switch_of(rank) {
            return ranks + switch;
        }
        if self.grouped { self.flight.schedule.group[rank as usize] } else { rank }
    }

    /// Places of its jobs.
    fn range(&self) -> Range<usize> {
        self.jobs.start as usize..self.jobs.end as usize
    }

    /// One of its phases.
    pub fn phase(&self, phase: u32) -> &Phase {
        &self.flight.schedule.phases[(phase - self.phases.start) as usize]
    }

    /// Whether the fabric changes before a phase.
    pub fn changes(&self, fabric: &Fabric, phase: u32) -> bool {
        let configuration = |phase| self.phase(phase).configuration;
        phase > self.phases.start && fabric.changes(configuration(phase - 1), configuration(phase))
    }
}

/// Schedules resolved on a fabric and a system.
pub struct RunPlan<'a> {
    /// The flights.
    pub flights: Vec<FlightPlan<'a>>,
    /// The fabric.
    pub fabric: &'a Fabric,
    /// The system.
    pub system: &'a System,
    /// Transfers.
    pub jobs: Vec<Job>,
    /// Their messages, each kind once.
    pub kinds: Vec<MessageKind>,
    /// Which links act together.
    pub channels: Channels,
    /// Routes of all jobs, as first links of channels.
    pub hops: Vec<LinkId>,
    /// Dependencies of all jobs.
    pub after: Vec<Dependency>,
    /// Lanes of all jobs.
    pub payload: Vec<Range<LaneId>>,
    /// Chunks of every lane.
    pub lane_chunks: Vec<u64>,
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
    /// How long the fabric takes to change its configuration.
    pub switching: Ticks,
    /// From the launch of a flight to the first messages of its ranks.
    pub launching: Ticks,
    /// Where endpoints have an order of their own.
    pub units: Option<Units>,
    /// What power over time is recorded by, where somebody asks.
    pub power: Option<PowerRates>,
    /// Whether somebody asks what happened when.
    pub trace: bool,
    /// What is recorded to be played, where somebody asks.
    pub playback: Option<Arc<PlaybackPlan>>,
    /// Whether receive buffers are counted, which takes 5 to 15 % of a run's time.
    pub buffers: bool,
}

impl<'a> RunPlan<'a> {
    /// Resolves the schedules of `flights`. O(transfers + hops + dependencies).
    ///
    /// # Errors
    /// As [`Schedule::check`]; [`Code::BadSpec`] for a flight after one that does not exist; [`Code::TooLarge`] if the
    /// simulated time would not fit, or with too many transfers.
    pub fn new(fabric: &'a Fabric, flights: &'a [Flight<'a>], system: &'a System) -> Result<Self> {
        RunPlan::beside(fabric, flights, system, 0)
    }

    /// The same where computations of a client take `computing` beside the flights, for which the clock has room.
    ///
    /// # Errors
    /// As [`RunPlan::new`].
    pub fn beside(fabric: &'a Fabric, flights: &'a [Flight<'a>], system: &'a System, computing: Picos) -> Result<Self> {
        let changes = |of: &Flight| {
            let phases = of.schedule.phases.windows(2);
            phases.into_iter().any(|pair| fabric.changes(pair[0].configuration, pair[1].configuration))
        };
        if flights.len() > 1 && flights.iter().any(changes) {
            let what = "a schedule that changes the fabric's configuration runs alone, not with others in flight";
            return Err(Error::new(Code::NotApplicable, what));
        }
        for (index, flight) in flights.iter().enumerate() {
            check(fabric, flight, flights.len()).map_err(|error| match flights.len() {
                1 => error,
                _ => error.at(format_args!("flight {index}")),
            })?;
        }
        check_order(flights)?;
        let costs = CostModel::in_packets(system);
        let (relays, transfers) = legs(fabric, flights, costs)?;
        let channels = Channels::new(fabric, flights.iter().flat_map(|flight| &flight.schedule.bundled_links).copied());
        let links = (0..fabric.links.len() as LinkId)
            .map(|first| costs.channel(channels.links(first).iter().map(|&id| fabric.link(id))));
        let (flit, latency) = links.map(|link| (link.flit_ps, link.latency_ps)).unzip();
        let mut plan = RunPlan {
            flights: Vec::with_capacity(flights.len()),
            fabric,
            system,
            jobs: Vec::with_capacity(transfers),
            kinds: vec![],
            flit,
            channels,
            hops: vec![],
            after: vec![],
            payload: vec![],
            lane_chunks: vec![],
            clock: Clock::default(),
            latency,
            hand_off: costs.hand_off_ps(),
            issue: costs.issue_ps(),
            phase_messages: vec![],
            switching: fabric.switching_ps(),
            launching: system.launch_ps(),
            units: None,
            power: None,
            trace: false,
            playback: None,
            buffers: true,
        };
        for (flight, relays) in flights.iter().zip(&relays) {
            plan.add(flight, relays.as_ref());
        }
        if system.endpoint != Endpoint::System {
            plan.order_by_age();
        }
        let longest = plan.longest_ps();
        if longest > u64::MAX as u128 / 2 {
            return Err(Error::new(
                Code::TooLarge,
                "all messages one after the other would take more time than 64-bit picoseconds hold; use less data",
            ));
        }
        let finest = plan.flit_ticks(MAX_BITS);
        plan.set_clock(Clock::new(&finest, longest, computing));
        Ok(plan)
    }

    /// What all messages take one after the other, at most, in picoseconds, before times are ticks.
    fn longest_ps(&self) -> u128 {
        let starts = self.flights.iter().map(|of| u128::from(of.flight.start_ps) + u128::from(self.launching));
        let changes = self.phase_messages.iter().map(|_| u128::from(self.switching));
        let mut longest = starts.chain(changes).fold(0, u128::saturating_add);
        // Most jobs take as long as the one before.
        let (mut last, costs) = (None, self.costs());
        for job in &self.jobs {
            let path = MessagePath::of(self, job);
            let MessageKind { packets, reduce: adding_ps, fetch, chunks, .. } = *self.kind(job);
            let one = MessageCost { packets, adding_ps, fetch };
            let time = match last {
                Some((known, time)) if known == path => time,
                _ => costs.at_most_ps(&one, path.hops.into(), path.slowest_flit, path.latency),
            };
            last = Some((path, time));
            longest = longest.saturating_add(time.saturating_mul(chunks.into()));
        }
        longest
    }

    /// Adds the jobs of a flight.
    fn add(&mut self, flight: &'a Flight<'a>, relays: Option<&Relays>) {
        let schedule = &*flight.schedule;
        let first_phase = self.phase_messages.len() as u32;
        self.phase_messages.resize(self.phase_messages.len() + schedule.phases.len(), 0);
        let (first_job, first_lane) = (self.jobs.len() as TransferId, self.lane_chunks.len() as LaneId);
        self.lane_chunks.extend(schedule.lanes.iter().map(|lane| lane.chunks));
        let number = self.flights.len();
        self.flights.push(FlightPlan {
            flight,
            jobs: first_job..first_job + relays.map_or(schedule.transfers.len(), Relays::legs) as TransferId,
            phases: first_phase..self.phase_messages.len() as u32,
            lanes: first_lane..self.lane_chunks.len() as LaneId,
            grouped: schedule.group != self.fabric.members().unwrap_or_default(),
            kinds: self.kinds.len()..self.kinds.len(),
            after: self.after.len()..self.after.len(),
            parts: 1,
        });
        let mut known = Known::default();
        for (index, transfer) in interruptible(&schedule.transfers).enumerate() {
            let kind = MessageKind::of(self.fabric, schedule, transfer);
            match relays.filter(|relays| relays.is_stored(index)) {
                Some(relays) => self.add_legs(index, transfer, relays, kind, &mut known),
                None => {
                    let number = self.number(kind, &mut known);
                    let job = self.job(index, transfer, number, relays);
                    self.push_job(job);
                }
            }
        }
        let of = &mut self.flights[number];
        (of.kinds.end, of.after.end) = (self.kinds.len(), self.after.len());
    }

    /// The number of a kind, of those known of a flight or a new one.
    fn number(&mut self, kind: MessageKind, known: &mut Known) -> u32 {
        if let Some((last, number)) = known.last
            && last == kind
        {
            return number;
        }
        let number = *known.numbers.entry(kind).or_insert_with(|| {
            let costs = self.costs();
            self.kinds.push(kind.resolved(costs));
            self.kinds.len() as u32 - 1
        });
        known.last = Some((kind, number));
        number
    }

    fn push_job(&mut self, job: Job) {
        self.phase_messages[job.phase as usize] += self.kind(&job).chunks;
        self.jobs.push(job);
    }

    /// The job of a transfer of the flight added last.
    fn job(&mut self, index: usize, transfer: &Transfer, kind: u32, relays: Option<&Relays>) -> Job {
        let flight = self.flights.len() as u32 - 1;
        let FlightPlan { jobs, phases, lanes, .. } = &self.flights[flight as usize];
        let (first_job, first_phase, first_lane) = (jobs.start, phases.start, lanes.start);
        let renumbered = |&dependency: &Dependency| {
            let leg = relays.map_or(dependency.transfer(), |relays| relays.leg(dependency));
            dependency.of(first_job + leg)
        };
        let starts = self.after.len();
        self.after.extend(transfer.start_after.iter().map(renumbered));
        let applies = self.after.len();
        self.after.extend(transfer.apply_after.iter().map(renumbered));
        let payload = self.payload.len();
        self.payload.extend(transfer.payload.iter().map(|range| first_lane + range.start..first_lane + range.end));
        let hops = self.hops.len();
        self.hops.extend(transfer.route.iter().map(|&link| self.channels.first_of(link)));
        let (of, ranks) = (&self.flights[flight as usize], self.fabric.ranks() as u32);
        Job {
            flight,
            from: of.rank(transfer.from, ranks),
            to: of.rank(transfer.to, ranks),
            phase: first_phase + transfer.phase,
            step: transfer.step,
            kind,
            payload: range_from(payload, &self.payload),
            hops: range_from(hops, &self.hops),
            start_after: starts as u32..applies as u32,
            apply_after: range_from(applies, &self.after),
            origin: index as TransferId,
        }
    }

    /// What messages cost on its system, in packets.
    fn costs(&self) -> CostModel<'a> {
        CostModel::in_packets(self.system)
    }

    /// Time of one flit on the channel of which each link is the first, in 2^-`bits` picoseconds.
    fn flit_ticks(&self, bits: u32) -> Vec<Ticks> {
        let links = |first| self.channels.links(first).iter().map(|&id| self.fabric.link(id));
        (0..self.fabric.links.len() as LinkId).map(|first| self.costs().flit_ticks(links(first), bits)).collect()
    }

    /// Turns all times, until now in picoseconds, into ticks.
    fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
        self.flit = self.flit_ticks(clock.bits());
        let single = [&mut self.hand_off, &mut self.issue, &mut self.switching, &mut self.launching];
        let times = self.latency.iter_mut().chain(single);
        let of_kinds = self.kinds.iter_mut().flat_map(|MessageKind { reduce, fetch, .. }| {
            [reduce, &mut fetch.read, &mut fetch.read_first, &mut fetch.bus, &mut fetch.bus_first]
        });
        times.chain(of_kinds).for_each(|time| *time = clock.ticks(*time));
    }

    /// Route of a job, as first links of channels.
    pub fn route(&self, job: &Job) -> &[LinkId] {
        part(&self.hops, job.hops.clone())
    }

    /// The messages of a job.
    #[inline]
    pub fn kind(&self, job: &Job) -> &MessageKind {
        &self.kinds[job.kind as usize]
    }

    /// The messages of the job with a number.
    #[inline]
    pub fn kind_of(&self, id: TransferId) -> &MessageKind {
        self.kind(&self.jobs[id as usize])
    }

    /// The slot of a chunk of a job.
    #[inline]
    pub fn slot(&self, job: &Job, chunk: u64) -> u64 {
        u64::from(job.step) + chunk * self.kind(job).stride
    }

    /// The phase by which the messages of a job are served: that of their unit.
    pub fn turn_phase(&self, id: TransferId) -> u32 {
        match &self.units {
            Some(units) if units.by_age => units.age(id, 0).0,
            _ => self.jobs[id as usize].phase,
        }
    }

    /// The place of its first chunk in the order of service.
    #[inline]
    pub fn first_turn(&self, id: TransferId) -> Turn {
        (self.turn_phase(id), self.jobs[id as usize].step.into(), id)
    }

    /// The transfers of a flight in the order in which first chunks are served.
    pub fn in_order(&self, flight: &FlightPlan) -> Vec<TransferId> {
        let mut ids: Vec<TransferId> = flight.jobs.clone().collect();
        if !ids.is_sorted_by_key(|&id| self.first_turn(id)) {
            ids.sort_unstable_by_key(|&id| self.first_turn(id));
        }
        ids
    }

    /// The chunk of a job that has a slot.
    #[inline]
    pub fn chunk(&self, job: &Job, slot: u64) -> u64 {
        (slot - u64::from(job.step)) / self.kind(job).stride.max(1)
    }

    /// The lanes a job carries, in ranges.
    pub fn lane_ranges(&self, job: &Job) -> &[Range<LaneId>] {
        part(&self.payload, job.payload.clone())
    }

    /// The lanes a job carries.
    pub fn lanes(&self, job: &Job) -> impl Iterator<Item = usize> + use<'_> {
        self.lane_ranges(job).iter().flat_map(|range| range.start as usize..range.end as usize)
    }

    /// What a job waits for at the sender.
    pub fn start_after(&self, job: &Job) -> &[Dependency] {
        part(&self.after, job.start_after.clone())
    }

    /// What a job waits for at the receiver.
    pub fn apply_after(&self, job: &Job) -> &[Dependency] {
        part(&self.after, job.apply_after.clone())
    }

    /// Whether ranks read what they send.
    pub fn reads(&self) -> bool {
        self.costs().stores_at_ranks()
    }

    /// Bytes of a chunk of a lane.
    pub fn lane_bytes(&self, flight: u32, lane: LaneId) -> Bytes {
        let of = &self.flights[flight as usize];
        of.flight.schedule.lanes[(lane - of.lanes.start) as usize].chunk_bytes.div_ceil(of.parts)
    }

    /// Messages in the whole run.
    pub fn messages(&self) -> u64 {
        self.phase_messages.iter().sum()
    }

    /// Time one packet of a job occupies a link.
    pub fn packet_time(&self, job: &Job, link: LinkId) -> Ticks {
        self.kind(job).packets.flits * self.flit[link as usize]
    }

    /// A transfer in words, for messages.
    pub fn describe(&self, id: TransferId, chunk: u64) -> String {
        let job = &self.jobs[id as usize];
        let of = &self.flights[job.flight as usize];
        let phase = &of.phase(job.phase).name;
        let slot = self.slot(job, chunk);
        let flight = if self.flights.len() > 1 { format!("flight {}, ", job.flight) } else { String::new() };
        let id = job.origin;
        let end = |one: u32, rank: &str| match self.switch_of(one) {
            Some(switch) => format!("switch {}", self.fabric.nodes[switch as usize].name),
            None => format!("{rank}{one}"),
        };
        let (from, to) = (end(job.from, "rank "), end(job.to, ""));
        format!("{flight}transfer {id} ({from} -> {to}, {phase} slot {slot}, chunk {chunk})")
    }

    /// Ranks of the fabric, and numbers of switches behind them where some take part.
    pub fn participants(&self) -> usize {
        let any = self.flights.iter().any(|of| !of.flight.schedule.switches.is_empty());
        self.fabric.ranks() + if any { self.fabric.nodes.len() } else { 0 }
    }

    /// The switch that a participant is, if it is no rank.
    pub fn switch_of(&self, participant: u32) -> Option<NodeId> {
        participant.checked_sub(self.fabric.ranks() as u32)
    }

    /// The node that a participant is on in a flight, by the placement of its schedule.
    pub fn node_of(&self, flight: u32, rank: u32) -> NodeId {
        if let Some(switch) = self.switch_of(rank) {
            return switch;
        }
        let FlightPlan { flight, grouped, .. } = &self.flights[flight as usize];
        if *grouped || flight.schedule.placement.is_empty() {
            return self.fabric.node_of_rank(rank);
        }
        flight.schedule.node_of(self.fabric, rank)
    }
}

/// Where messages of flights are stored at ranks on their way, so that each is several, and all transfers.
fn legs(fabric: &Fabric, flights: &[Flight], costs: CostModel) -> Result<(Vec<Option<Relays>>, usize)> {
    let stores = costs.stores_at_ranks();
    let relays: Vec<_> = flights.iter().map(|of| stores.then(|| Relays::new(fabric, &of.schedule))).collect();
    let count =
        |(of, relays): (&Flight, &Option<Relays>)| relays.as_ref().map_or(of.schedule.transfers.len(), Relays::legs);
    let transfers = flights.iter().zip(&relays).map(count).sum();
    if transfers > MAX_TRANSFERS {
        let what = format!("all flights together have {transfers} transfers; at most {MAX_TRANSFERS} are supported");
        return Err(Error::new(Code::TooLarge, what));
    }
    Ok((relays, transfers))
}

/// Checks a flight, one of so many, against a fabric.
fn check(fabric: &Fabric, flight: &Flight, flights: usize) -> Result<()> {
    let Flight { schedule, ref after, .. } = *flight;
    if let Some(other) = after.iter().find(|&&other| other >= flights) {
        return Err(Error::new(Code::BadSpec, format!("it is after flight {other} of {flights}")));
    }
    if schedule.group == fabric.members().unwrap_or_default() || fabric.members().is_some() {
        return schedule.check(fabric);
    }
    if !schedule.placement.is_empty() {
        return Err(Error::new(Code::BadSpec, "a schedule of a group cannot place its ranks on other nodes"));
    }
    schedule.check(&fabric.group(&schedule.group)?.fabric)
}

/// Refuses flights that wait for each other. O(flights + what they wait for).
fn check_order(flights: &[Flight]) -> Result<()> {
    let mut missing: Vec<usize> = flights.iter().map(|flight| flight.after.len()).collect();
    let mut followers: Vec<Vec<usize>> = vec![vec![]; flights.len()];
    for (index, flight) in flights.iter().enumerate() {
        flight.after.iter().for_each(|&other| followers[other].push(index));
    }
    let mut over: Vec<usize> = (0..flights.len()).filter(|&index| missing[index] == 0).collect();
    while let Some(index) = over.pop() {
        for &next in &followers[index] {
            missing[next] -= 1;
            if missing[next] == 0 {
                over.push(next);
            }
        }
    }
    match missing.iter().position(|&missing| missing > 0) {
        Some(index) => Err(Error::new(Code::BadSpec, format!("flight {index} waits for itself, through others"))),
        None => Ok(()),
    }
}
