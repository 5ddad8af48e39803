//! What every fidelity needs to know about schedules on a fabric, computed once.

use super::clock::{Clock, MAX_BITS, Ticks};
use super::endpoints::largest_unit;
use super::energy::PowerRates;
use super::flight::Flight;
use super::units::Units;
use crate::error::{Code, Error, Result};
use crate::fabric::{Fabric, LinkId, NodeId};
use crate::schedule::{Channels, Dependency, Event, LaneId, MAX_TRANSFERS, Op, Phase, Schedule, Transfer, TransferId};
use crate::system::{AceEndpoint, Endpoint, Packets, System};
use crate::units::{Bytes, Picos};
use std::collections::HashMap;
use std::ops::Range;

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
    /// Index of [`Plan::kinds`].
    kind: u32,
    /// Range of [`Plan::payload`].
    pub payload: Range<u32>,
    /// Range of [`Plan::hops`].
    pub hops: Range<u32>,
    /// Range of [`Plan::after`]: what it waits for at the sender.
    pub start_after: Range<u32>,
    /// Range of [`Plan::after`]: what it waits for at the receiver.
    pub apply_after: Range<u32>,
    /// The transfer of its schedule.
    origin: TransferId,
    /// Whether the receiver adds.
    pub reduces: bool,
}

/// The messages of a transfer, one for every chunk; many transfers have the same. Sizes and times are resolved.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MessageKind {
    /// Number of chunks.
    pub chunks: u64,
    /// Slots between chunks.
    pub stride: u64,
    /// Packets of one message.
    pub packets: Packets,
    /// Wire bytes of one message, without headers.
    pub bytes: Bytes,
    /// Time the receiver takes to add one message; 0 for copies.
    pub reduce: Ticks,
    /// What the sender's node does first.
    pub fetch: Fetch,
}

/// Reading a message from memory and bringing it over a bus, and the same of its first part.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Fetch {
    pub read: Ticks,
    pub read_first: Ticks,
    pub bus: Ticks,
    pub bus_first: Ticks,
    /// Packets of the first part.
    pub packets_first: u64,
}

impl Fetch {
    /// Of a message of `bytes`: what has come is read to be added to what is there.
    fn of(endpoint: &Endpoint, system: &System, bytes: Bytes, reduces: bool) -> Fetch {
        let Endpoint::Npu(npu) = endpoint else { return Fetch::default() };
        let (reads, first) = (if reduces { 2 } else { 1 }, bytes.min(npu.message));
        Fetch {
            read: npu.read_rate().time_for(reads * bytes),
            read_first: npu.read_rate().time_for(reads * first),
            bus: npu.bus_rate.time_for(bytes),
            bus_first: npu.bus_rate.time_for(first),
            packets_first: system.packets(first).count,
        }
    }
}

impl MessageKind {
    fn of(system: &System, schedule: &Schedule, transfer: &Transfer) -> MessageKind {
        let lane = &schedule.lanes[transfer.payload.first() as usize];
        let bytes = schedule.message_bytes(transfer);
        let reduces = transfer.op == Op::Reduce;
        let reduce = match system.endpoint {
            _ if !reduces => 0,
            Endpoint::System => system.reduce_time(bytes),
            Endpoint::Ace(ace) => ace.add_rate().time_for(bytes),
            Endpoint::Ideal(_) | Endpoint::Npu(_) => 0,
        };
        let packets = system.packets(bytes);
        let fetch = Fetch::of(&system.endpoint, system, bytes, reduces);
        MessageKind { chunks: lane.chunks, stride: lane.stride.into(), packets, bytes, reduce, fetch }
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

/// A flight's part of a [`Plan`]. Transfers, phases and lanes of all flights are numbered through.
pub struct FlightPlan<'a> {
    /// What it is.
    pub flight: &'a Flight<'a>,
    /// Its transfers.
    pub jobs: Range<TransferId>,
    /// Its phases.
    pub phases: Range<u32>,
    /// Its lanes.
    pub lanes: Range<LaneId>,
    /// Whether its ranks are those of a group, by whose numbers they are called in the schedule.
    grouped: bool,
}

impl FlightPlan<'_> {
    /// The rank of the fabric that a rank of the schedule is.
    fn rank(&self, rank: u32) -> u32 {
        if self.grouped { self.flight.schedule.group[rank as usize] } else { rank }
    }

    /// One of its phases.
    pub fn phase(&self, phase: u32) -> &Phase {
        &self.flight.schedule.phases[(phase - self.phases.start) as usize]
    }
}

/// Schedules resolved on a fabric and a system.
pub struct Plan<'a> {
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
    /// Where endpoints have an order of their own.
    pub units: Option<Units>,
    /// What power over time is recorded by, where somebody asks.
    pub power: Option<PowerRates>,
    /// Into how many an engine cuts every chunk.
    cut: u64,
}

impl Job {
    /// Index of [`Plan::kinds`].
    pub fn kind(&self) -> usize {
        self.kind as usize
    }
}

impl<'a> Plan<'a> {
    /// Resolves the schedules of `flights`. O(transfers + hops + dependencies).
    ///
    /// # Errors
    /// As [`Schedule::check`]; [`Code::BadSpec`] for a flight after one that does not exist; [`Code::TooLarge`] if the
    /// simulated time would not fit, or with too many transfers.
    pub fn new(fabric: &'a Fabric, flights: &'a [Flight<'a>], system: &'a System) -> Result<Self> {
        for (index, flight) in flights.iter().enumerate() {
            check(fabric, flight, flights.len()).map_err(|error| match flights.len() {
                1 => error,
                _ => error.at(format_args!("flight {index}")),
            })?;
        }
        check_order(flights)?;
        // Messages that are stored at ranks on their way are several.
        let stores = matches!(system.endpoint, Endpoint::Npu(_));
        let relays: Vec<_> = flights.iter().map(|of| stores.then(|| Relays::new(fabric, of.schedule))).collect();
        let count = |(of, relays): (&Flight, &Option<Relays>)| {
            relays.as_ref().map_or(of.schedule.transfers.len(), Relays::legs)
        };
        let transfers = flights.iter().zip(&relays).map(count).sum();
        if transfers > MAX_TRANSFERS {
            let what =
                format!("all flights together have {transfers} transfers; at most {MAX_TRANSFERS} are supported");
            return Err(Error::new(Code::TooLarge, what));
        }
        let channels = Channels::new(fabric, flights.iter().flat_map(|flight| &flight.schedule.bundled_links).copied());
        let latencies = |first| channels.links(first).iter().map(|&id| system.latency_of(fabric.link(id)));
        let latency = (0..fabric.links.len() as LinkId).map(|first| latencies(first).max().unwrap_or(0)).collect();
        let mut plan = Plan {
            flights: Vec::with_capacity(flights.len()),
            fabric,
            system,
            jobs: Vec::with_capacity(transfers),
            kinds: vec![],
            flit: flit_ticks(fabric, system, &channels, 0),
            channels,
            hops: vec![],
            after: vec![],
            payload: vec![],
            lane_chunks: vec![],
            clock: Clock::default(),
            latency,
            hand_off: hand_off(system),
            issue: system.interface.issue_ps,
            phase_messages: vec![],
            units: None,
            power: None,
            cut: 1,
        };
        let mut longest = 0u128;
        for (flight, relays) in flights.iter().zip(&relays) {
            longest = longest.saturating_add(plan.add(flight, relays.as_ref())).saturating_add(flight.start_ps.into());
        }
        if longest > u64::MAX as u128 / 2 {
            return Err(Error::new(
                Code::TooLarge,
                "all messages one after the other would take more time than 64-bit picoseconds hold; use less data",
            ));
        }
        let finest = flit_ticks(fabric, system, &plan.channels, MAX_BITS);
        plan.set_clock(Clock::new(&finest, longest));
        if system.endpoint != Endpoint::System {
            plan.order_by_age();
        }
        Ok(plan)
    }

    /// Adds the jobs of a flight. Returns the picoseconds that they take one after the other, at most.
    fn add(&mut self, flight: &'a Flight<'a>, relays: Option<&Relays>) -> u128 {
        let schedule = flight.schedule;
        let first_phase = self.phase_messages.len() as u32;
        self.phase_messages.resize(self.phase_messages.len() + schedule.phases.len(), 0);
        let (first_job, first_lane) = (self.jobs.len() as TransferId, self.lane_chunks.len() as LaneId);
        self.lane_chunks.extend(schedule.lanes.iter().map(|lane| lane.chunks));
        self.flights.push(FlightPlan {
            flight,
            jobs: first_job..first_job + relays.map_or(schedule.transfers.len(), Relays::legs) as TransferId,
            phases: first_phase..self.phase_messages.len() as u32,
            lanes: first_lane..self.lane_chunks.len() as LaneId,
            grouped: schedule.group != self.fabric.members().unwrap_or_default(),
        });
        let (mut longest, mut known, mut last) = (0u128, HashMap::new(), u32::MAX);
        for (index, transfer) in schedule.transfers.iter().enumerate() {
            let kind = MessageKind::of(self.system, schedule, transfer);
            if let Some(relays) = relays.filter(|relays| relays.is_stored(index)) {
                longest = longest.saturating_add(self.add_legs(index, transfer, relays, kind));
                continue;
            }
            // Most transfers have the same as the one before.
            if self.kinds.get(last as usize) != Some(&kind) {
                last = *known.entry(kind).or_insert(self.kinds.len() as u32);
            }
            if last as usize == self.kinds.len() {
                self.kinds.push(kind);
            }
            let job = self.job(index, transfer, last, relays);
            longest = longest.saturating_add(self.push_job(job));
        }
        longest
    }

    /// Adds a job. Returns the picoseconds that its messages take one after the other, at most.
    fn push_job(&mut self, job: Job) -> u128 {
        let chunks = self.kind(&job).chunks;
        let longest = self.store_and_forward_ps(&job).saturating_mul(chunks.into());
        self.phase_messages[job.phase as usize] += chunks;
        self.jobs.push(job);
        longest
    }

    /// Adds the legs of a transfer that is stored at ranks on its way: what they pass on they read once.
    fn add_legs(&mut self, index: usize, transfer: &Transfer, relays: &Relays, kind: MessageKind) -> u128 {
        let copied = Fetch::of(&self.system.endpoint, self.system, kind.bytes, false);
        let stops = relays.stops(self.fabric, transfer);
        let whole = self.job(index, transfer, 0, Some(relays));
        let (first, mut longest) = (whole.hops.start, 0u128);
        for (leg, &(from, to)) in stops.iter().enumerate() {
            let is_last = leg + 1 == stops.len();
            let kind = MessageKind {
                reduce: if is_last { kind.reduce } else { 0 },
                fetch: if leg == 0 { kind.fetch } else { copied },
                ..kind
            };
            let number = self.kinds.iter().position(|known| *known == kind).unwrap_or_else(|| {
                self.kinds.push(kind);
                self.kinds.len() - 1
            });
            let before = self.after.len();
            if leg > 0 {
                self.after.push(Dependency::from(self.jobs.len() as TransferId - 1));
            }
            let own = if leg > 0 { before as u32..self.after.len() as u32 } else { whole.start_after.clone() };
            let ends = |at: usize| {
                if at == 0 { whole.from } else { self.fabric.nodes[stops[at].0.1 as usize].rank.expect("a rank") }
            };
            let job = Job {
                from: ends(leg),
                to: if is_last { whole.to } else { ends(leg + 1) },
                kind: number as u32,
                payload: if is_last { whole.payload.clone() } else { 0..0 },
                hops: first + from.0..first + to,
                start_after: own,
                apply_after: if is_last { whole.apply_after.clone() } else { 0..0 },
                reduces: is_last && whole.reduces,
                ..whole
            };
            longest = longest.saturating_add(self.push_job(job));
        }
        longest
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
        let of = &self.flights[flight as usize];
        Job {
            flight,
            from: of.rank(transfer.from),
            to: of.rank(transfer.to),
            phase: first_phase + transfer.phase,
            step: transfer.step,
            kind,
            payload: range_from(payload, &self.payload),
            hops: range_from(hops, &self.hops),
            start_after: starts as u32..applies as u32,
            apply_after: range_from(applies, &self.after),
            origin: index as TransferId,
            reduces: transfer.op == Op::Reduce,
        }
    }

    /// One message of a job, before times are ticks.
    fn store_and_forward_ps(&self, job: &Job) -> u128 {
        let (system, route, kind) = (self.system, self.route(job), self.kind(job));
        let packet = |l: &LinkId| (self.flit[*l as usize] as u128).saturating_mul(kind.packets.flits as u128);
        let slowest = route.iter().map(packet).max().unwrap_or(0);
        let latency = route.iter().map(|&l| self.latency[l as usize] as u128).sum::<u128>();
        (kind.packets.count as u128)
            .saturating_mul(
                slowest.saturating_mul(route.len() as u128).saturating_add(system.interface.issue_ps as u128),
            )
            .saturating_add(latency + system.interface.issue_ps as u128 + system.hand_off_ps as u128)
            .saturating_add(kind.reduce as u128)
            .saturating_add(kind.fetch.read as u128 + kind.fetch.bus as u128)
    }

    /// Lets slots begin with the age of the unit: the oldest goes first, and what is in it in its own order.
    fn order_by_age(&mut self) {
        let mut units = Units::new(self);
        if let Endpoint::Ace(ace) = self.system.endpoint {
            // So that every state machine can have a chunk.
            let most = (ace.sram / u64::from(ace.fsms)).max(ace.chunk);
            self.cut_chunks(largest_unit(self, &units).div_ceil(most), &ace);
            units.families.iter_mut().for_each(|family| family.chunks *= self.cut);
        }
        let factor = self.jobs.iter().map(|job| u64::from(job.step)).max().unwrap_or(0) + 1;
        // Where slots are too many they stay as they are.
        if factor.saturating_mul(factor) <= u32::MAX.into() {
            for (job, &family) in self.jobs.iter_mut().zip(&units.family_of) {
                job.step += units.families[family as usize].slot * factor as u32;
            }
            self.kinds.iter_mut().for_each(|kind| kind.stride *= factor);
            for family in &mut units.families {
                (family.slot, family.stride) = (family.slot * factor as u32, family.stride * factor);
            }
        }
        self.units = Some(units);
    }

    /// Cuts every chunk into `parts`, which follow each other like chunks: as an engine does with what it is given.
    fn cut_chunks(&mut self, parts: u64, ace: &AceEndpoint) {
        let lags = self.after.iter().map(|after| u64::from(after.lag()));
        if parts <= 1 || lags.max().unwrap_or(0) * parts > Dependency::MAX_LAG.into() {
            return;
        }
        self.cut = parts;
        for after in &mut self.after {
            *after = Dependency::new(after.transfer(), after.event()).lagging(after.lag() * parts as u32);
        }
        for kind in &mut self.kinds {
            kind.chunks *= parts;
            kind.bytes = kind.bytes.div_ceil(parts);
            kind.packets = self.system.packets(kind.bytes);
            kind.stride = kind.stride.max(1);
            if kind.reduce > 0 {
                kind.reduce = self.clock.ticks(ace.add_rate().time_for(kind.bytes));
            }
        }
        self.lane_chunks.iter_mut().chain(&mut self.phase_messages).for_each(|count| *count *= parts);
    }

    /// Turns all times, until now in picoseconds, into ticks.
    fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
        self.flit = flit_ticks(self.fabric, self.system, &self.channels, clock.bits());
        let times = self.latency.iter_mut().chain([&mut self.hand_off, &mut self.issue]);
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

    /// The chunk of a job that has a slot.
    #[inline]
    pub fn chunk(&self, job: &Job, slot: u64) -> u64 {
        (slot - u64::from(job.step)) / self.kind(job).stride.max(1)
    }

    /// The lanes a job carries.
    pub fn lanes(&self, job: &Job) -> impl Iterator<Item = usize> + use<'_> {
        part(&self.payload, job.payload.clone()).iter().flat_map(|range| range.start as usize..range.end as usize)
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
        matches!(self.system.endpoint, Endpoint::Npu(_))
    }

    /// Bytes of a chunk of a lane.
    pub fn lane_bytes(&self, flight: u32, lane: LaneId) -> Bytes {
        let of = &self.flights[flight as usize];
        of.flight.schedule.lanes[(lane - of.lanes.start) as usize].chunk_bytes.div_ceil(self.cut)
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
        format!("{flight}transfer {id} (rank {} -> {}, {phase} slot {slot}, chunk {chunk})", job.from, job.to)
    }

    /// The node that a rank of the fabric is on in a flight, by the placement of its schedule.
    pub fn node_of(&self, flight: u32, rank: u32) -> NodeId {
        let FlightPlan { flight, grouped, .. } = &self.flights[flight as usize];
        if *grouped || flight.schedule.placement.is_empty() {
            return self.fabric.node_of_rank(rank);
        }
        flight.schedule.node_of(self.fabric, rank)
    }
}

/// Where messages are stored on the way: at ranks that a route passes.
struct Relays {
    /// First leg of every transfer, and after the last.
    first: Vec<TransferId>,
}

impl Relays {
    /// Of the transfers of a schedule.
    fn new(fabric: &Fabric, schedule: &Schedule) -> Relays {
        let mut first = vec![0];
        for transfer in &schedule.transfers {
            let stops = transfer
                .route
                .iter()
                .skip(1)
                .filter(|&&link| fabric.nodes[fabric.link(link).from as usize].rank.is_some());
            first.push(first[first.len() - 1] + 1 + stops.count() as TransferId);
        }
        Relays { first }
    }

    /// Legs of all transfers.
    fn legs(&self) -> usize {
        self.first[self.first.len() - 1] as usize
    }

    /// Whether a transfer is stored on its way.
    fn is_stored(&self, transfer: usize) -> bool {
        self.first[transfer + 1] - self.first[transfer] > 1
    }

    /// The leg that a dependency is about.
    fn leg(&self, dependency: Dependency) -> TransferId {
        let transfer = dependency.transfer() as usize;
        match dependency.event() {
            Event::Sent => self.first[transfer],
            Event::Applied => self.first[transfer + 1] - 1,
        }
    }

    /// The legs of a transfer: first hop with the node it starts from, and the hop after its last.
    fn stops(&self, fabric: &Fabric, transfer: &Transfer) -> Vec<((u32, NodeId), u32)> {
        let from = |hop: usize| fabric.link(transfer.route[hop]).from;
        let starts: Vec<usize> = (0..transfer.route.len())
            .filter(|&hop| hop == 0 || fabric.nodes[from(hop) as usize].rank.is_some())
            .collect();
        let ends = starts.iter().skip(1).copied().chain([transfer.route.len()]);
        starts.iter().zip(ends).map(|(&start, end)| ((start as u32, from(start)), end as u32)).collect()
    }
}

/// From the arrival of a message to the start of what waited for it.
fn hand_off(system: &System) -> Picos {
    match system.endpoint {
        Endpoint::System => system.hand_off_ps,
        Endpoint::Ideal(ideal) => ideal.delay_ps,
        Endpoint::Npu(_) | Endpoint::Ace(_) => 0,
    }
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

/// Time of one flit on the channel of which each link is the first.
fn flit_ticks(fabric: &Fabric, system: &System, channels: &Channels, bits: u32) -> Vec<Ticks> {
    let links = |first| channels.links(first).iter().map(|&id| fabric.link(id));
    (0..fabric.links.len() as LinkId).map(|first| system.channel_ticks(links(first), bits)).collect()
}
