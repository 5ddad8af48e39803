//! Builds schedules: transfers are added with a step, routes and dependencies are derived.

use super::{
    Dependencies, Dependency, Holds, Lane, LaneId, MAX_DEPENDENCIES, MAX_HOPS, MAX_LANE_TRANSFERS, MAX_TRANSFERS, Op,
    Payload, Phase, Recommendation, Route, Schedule, Transfer, TransferId, Withdrawn,
};
use crate::collective::{Collective, Data};
use crate::fabric::{Fabric, LinkId, NodeId, Routing, Ways};
use crate::system::System;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Bytes;
use antiphon_base::watch::Watch;
use std::collections::HashMap;

/// Adds transfers step by step. A transfer sees everything its sender received in earlier steps
/// (and earlier phases) and nothing from its own step; the dependencies that follow from this are
/// derived by [`Builder::finish`].
pub struct Builder<'a> {
    fabric: &'a Fabric,
    ways: Ways<'a>,
    /// Into how many parts all messages may be divided that have a way of their own each; 1 where routes were given.
    parts: usize,
    /// What a packet carries: a message is not divided into less.
    packet: Option<Bytes>,
    watch: Watch<'a>,
    /// Parallel links, by their ends.
    parallel: HashMap<(NodeId, NodeId), Parallel>,
    lane_transfers: usize,
    hops: usize,
    /// Whether transfers wait for what is not derived.
    waits: bool,
    /// Whether sums wait at their receivers for what was stored there before: needed where data pass by a rank that
    /// has not yet added its own.
    pub hold_sums: bool,
    /// Whether transfers keep the numbers that they were given, in whatever order they are served.
    pub keep_numbers: bool,
    /// The schedule under construction; its attributes may be set directly.
    pub schedule: Schedule,
}

/// Packets of a part of a chunk, below which chunks are shared out whole.
const FEW_PACKETS: u64 = 2;

/// How transfers use some parallel links.
struct Parallel {
    first: LinkId,
    /// Whether a route uses them together, and whether one that was given uses them apart.
    found: bool,
    given: bool,
}

impl<'a> Builder<'a> {
    /// An empty schedule for `collective` of `data` on `fabric`, without phases.
    pub fn new(
        algorithm: impl Into<String>,
        fabric: &'a Fabric,
        collective: Collective,
        data: impl Into<Data>,
    ) -> Self {
        let Data { bytes, matrix, align } = data.into();
        Builder {
            fabric,
            watch: Watch::default(),
            parallel: fabric
                .parallel_links()
                .into_iter()
                .filter(|(_, links)| fabric.are_always_together(links))
                .map(|(ends, links)| (ends, Parallel { first: links[0], found: false, given: false }))
                .collect(),
            ways: Ways::new(fabric, 0, Routing::default(), System::default().link_rate),
            parts: usize::MAX,
            packet: None,
            lane_transfers: 0,
            hops: 0,
            waits: false,
            hold_sums: false,
            keep_numbers: false,
            schedule: Schedule {
                schema: Schedule::SCHEMA.into(),
                algorithm: algorithm.into(),
                fabric: fabric.name.clone(),
                collective,
                bytes,
                matrix,
                align,
                ranks: fabric.ranks() as u32,
                group: fabric.members().unwrap_or_default().to_vec(),
                excluded: vec![],
                placement: vec![],
                switches: vec![],
                bundled_links: vec![],
                lanes: vec![],
                phases: vec![],
                transfers: vec![],
                endpoint: Recommendation::default(),
                conflict_free: false,
                known_gaps: Withdrawn,
                known_race: Withdrawn,
                certificate: None,
            },
        }
    }

    /// Reports to `watch`, which may end the work.
    pub fn watched(self, watch: Watch<'a>) -> Self {
        Builder { watch, ..self }
    }

    /// Messages without a route of their own share ways as a system says, and where their senders have several ways out,
    /// those of more than a packet are divided among them.
    pub fn routed(self, system: &System) -> Self {
        let ways = Ways::new(self.fabric, 0, system.routing, system.link_rate);
        Builder { ways, packet: Some(system.packet.payload_bytes), ..self }
    }

    /// Makes room for so many transfers. A list of millions that grows is copied, and twice its memory asked for.
    pub fn reserve(&mut self, transfers: u64) {
        self.schedule.transfers.reserve_exact(transfers.min(MAX_TRANSFERS as u64) as usize);
    }

    /// Adds a lane and returns its id.
    pub fn lane(&mut self, lane: Lane) -> LaneId {
        self.schedule.lanes.push(lane);
        self.schedule.lanes.len() as LaneId - 1
    }

    /// Adds a lane of one chunk over `range` (start, length), at least `wire` bytes on the wire.
    pub fn block(&mut self, range: (Bytes, Bytes), wire: Bytes) -> LaneId {
        let (offset, bytes) = range;
        self.lane(Lane {
            offset,
            bytes,
            chunks: 1,
            chunk_bytes: wire.max(bytes).max(1),
            stride: 1,
            source: 0,
            owner: 0,
        })
    }

    /// [`Builder::block`] for a shard: `rank` starts with it (AllGather) and ends with it (ReduceScatter).
    pub fn shard_block(&mut self, rank: u32, range: (Bytes, Bytes), wire: Bytes) -> LaneId {
        let lane = self.block(range, wire);
        let entry = &mut self.schedule.lanes[lane as usize];
        (entry.source, entry.owner) = (rank, rank);
        lane
    }

    /// Starts a phase; transfers added from now on belong to it. Phases go through the configurations of a fabric in
    /// turn, the last one for all that are left; where it changes there is a barrier.
    pub fn phase(&mut self, name: &str, barrier: bool) {
        let phases = &mut self.schedule.phases;
        let configuration = self.fabric.configuration_of(phases.len() as u32);
        let changes = phases.last().is_some_and(|last| self.fabric.changes(last.configuration, configuration));
        phases.push(Phase { name: name.into(), barrier: barrier || changes, configuration });
        if self.fabric.configurations() > 1 {
            self.ways = self.ways.anew(configuration);
        }
    }

    /// Adds a transfer along a minimal route, and returns its number, at least until [`Builder::finish`] sorts them. Parallel links on it act as
    /// one channel, unless another transfer is given one of them.
    ///
    /// # Errors
    /// [`Code::BadFile`] for ranks that do not exist, [`Code::NotApplicable`] for ranks that the configuration of the
    /// phase does not join, [`Code::TooLarge`] for schedules past [`MAX_TRANSFERS`], [`MAX_LANE_TRANSFERS`] or [`MAX_HOPS`].
    pub fn send(&mut self, op: Op, from: u32, to: u32, payload: impl Into<Payload>, step: u32) -> Result<TransferId> {
        let ranks = self.schedule.participants();
        if from >= ranks || to >= ranks {
            return Err(Error::new(
                Code::BadFile,
                format!("transfer from rank {from} to rank {to}: ranks are 0 to {}", ranks - 1),
            ));
        }
        let payload = payload.into();
        let route = self.way(from, to, &payload, &[])?;
        if self.parts > 1 {
            let node = |rank| self.schedule.node_of(self.fabric, rank);
            self.parts = self.ways.parts(node(from), node(to))?.min(self.parts);
        }
        self.parallel_on(&route, |parallel| parallel.found = true);
        self.add(op, from, to, payload, step, route.into())
    }

    /// The way of a transfer that is given none; it meets others as late as it can.
    fn way(&mut self, from: u32, to: u32, payload: &Payload, others: &[Vec<LinkId>]) -> Result<Vec<LinkId>> {
        let lanes = payload.iter().cloned().flatten().filter_map(|lane| self.schedule.lanes.get(lane as usize));
        let bytes = lanes.fold(0, |sum: u64, lane| sum.saturating_add(lane.chunk_bytes.saturating_mul(lane.chunks)));
        let node = |rank| self.schedule.node_of(self.fabric, rank);
        self.ways.path(node(from), node(to), bytes, others)
    }

    /// Adds a transfer along a given route.
    ///
    /// # Errors
    /// As [`Builder::send`].
    pub fn send_via(
        &mut self,
        op: Op,
        from: u32,
        to: u32,
        payload: impl Into<Payload>,
        step: u32,
        route: impl Into<Route>,
    ) -> Result<TransferId> {
        let route = route.into();
        self.parts = 1;
        self.parallel_on(&route, |parallel| parallel.given = true);
        self.add(op, from, to, payload.into(), step, route)
    }

    /// [`Builder::send_via`] where parallel links on the route act as one channel, unless another transfer is given one of them.
    ///
    /// # Errors
    /// As [`Builder::send`].
    pub fn send_over(
        &mut self,
        op: Op,
        from: u32,
        to: u32,
        payload: impl Into<Payload>,
        step: u32,
        route: impl Into<Route>,
    ) -> Result<TransferId> {
        let route = route.into();
        self.parts = 1;
        self.parallel_on(&route, |parallel| parallel.found = true);
        self.add(op, from, to, payload.into(), step, route)
    }

    /// Notes parallel links on a route, whose links may not exist.
    fn parallel_on(&mut self, route: &[LinkId], note: impl Fn(&mut Parallel)) {
        if !self.parallel.is_empty() {
            let links = route.iter().filter_map(|&id| self.fabric.links.get(id as usize));
            links.for_each(|link| self.parallel.get_mut(&(link.from, link.to)).into_iter().for_each(&note));
        }
    }

    fn add(&mut self, op: Op, from: u32, to: u32, payload: Payload, step: u32, route: Route) -> Result<TransferId> {
        if self.schedule.phases.is_empty() {
            self.phase("main", false);
        }
        let phase = self.schedule.phases.len() as u32 - 1;
        let Phase { name, configuration, .. } = &self.schedule.phases[phase as usize];
        let is_absent =
            |&link: &LinkId| (link as usize) < self.fabric.links.len() && !self.fabric.has(link, *configuration);
        if self.fabric.configurations() > 1 && route.iter().any(is_absent) {
            let what = format!(
                "{} does not apply to {}: it chooses among the links of all configurations, and phase {name} has only some; \
                 give one configuration",
                self.schedule.algorithm, self.fabric.name
            );
            return Err(Error::new(Code::NotApplicable, what));
        }
        self.lane_transfers += payload.iter().map(|range| range.len()).sum::<usize>();
        self.hops += route.len();
        for (what, count, most) in [
            ("transfers", self.schedule.transfers.len() + 1, MAX_TRANSFERS),
            ("lane transfers", self.lane_transfers, MAX_LANE_TRANSFERS),
            ("links on its routes", self.hops, MAX_HOPS),
        ] {
            if count > most {
                return Err(too_many(what, most));
            }
        }
        self.watch.at(self.schedule.transfers.len(), MAX_TRANSFERS)?;
        self.schedule.transfers.push(Transfer {
            from,
            to,
            op,
            payload,
            phase,
            step,
            route,
            start_after: Dependencies::new(),
            apply_after: Holds::new(),
        });
        Ok(self.schedule.transfers.len() as TransferId - 1)
    }

    /// Makes a transfer wait at its sender, beyond the data it carries.
    pub fn start_after(&mut self, transfer: TransferId, dependency: Dependency) {
        self.schedule.transfers[transfer as usize].start_after.push(dependency);
        self.waits = true;
    }

    /// Makes a transfer wait at its receiver.
    pub fn apply_after(&mut self, transfer: TransferId, dependency: Dependency) {
        self.schedule.transfers[transfer as usize].apply_after.push(dependency);
        self.waits = true;
    }

    /// Divides every message among the ways that it may take, if there are several, and enough of it.
    fn divide(&mut self) -> Result<()> {
        let parts = self.parts;
        let (schedule, Some(packet)) = (&mut self.schedule, self.packet) else { return Ok(()) };
        let least = packet.saturating_mul(parts as u64);
        let is_small = |lane: &Lane| lane.chunk_bytes.saturating_mul(lane.chunks) < least;
        let counts = [
            (schedule.transfers.len(), MAX_TRANSFERS),
            (self.lane_transfers, MAX_LANE_TRANSFERS),
            (self.hops, MAX_HOPS),
        ];
        if !(2..usize::MAX).contains(&parts)
            || self.fabric.configurations() > 1
            || schedule.matrix.is_some()
            || schedule.lanes.iter().any(is_small)
            || counts.iter().any(|&(count, most)| count > most / parts)
        {
            return Ok(());
        }
        let align = schedule.align;
        let (lanes, transfers) = (std::mem::take(&mut schedule.lanes), std::mem::take(&mut schedule.transfers));
        let whole = lanes.len() as LaneId;
        // Chunks of few packets would wait for each other longer than they take: there are fewer, not shorter ones.
        let are_short = lanes.iter().any(|lane| lane.chunk_bytes < least.saturating_mul(FEW_PACKETS));
        // A rank that sends so many messages at a time sends all their parts.
        schedule.endpoint.interfaces = schedule.endpoint.interfaces.map(|count| count.saturating_mul(parts as u32));
        for part in 0..parts {
            schedule.lanes.extend(lanes.iter().map(|lane| {
                let (start, bytes) = align.shard(lane.bytes, parts, part);
                let chunks = if are_short { lane.chunks.div_ceil(parts as u64) } else { lane.chunks };
                let own = Lane { offset: lane.offset + start, bytes, chunks, ..lane.clone() };
                let wire =
                    u128::from(lane.chunk_bytes) * u128::from(lane.chunks) / u128::from(own.chunks * parts as u64);
                Lane { chunk_bytes: align.payload(own.bytes, own.chunks).max(wire as Bytes).max(1), ..own }
            }));
        }
        self.ways = self.ways.anew(0);
        for transfer in transfers {
            let mut others = vec![];
            for part in 0..parts as u32 {
                let shifted = |lanes: &std::ops::Range<LaneId>| lanes.start + part * whole..lanes.end + part * whole;
                let payload = Payload::of(transfer.payload.iter().map(shifted));
                let route = self.way(transfer.from, transfer.to, &payload, &others)?;
                others.push(route.clone());
                self.parallel_on(&route, |parallel| parallel.found = true);
                let mut own = Transfer { payload, route: route.into(), ..transfer.clone() };
                let waits = own.start_after.iter_mut().chain(&mut own.apply_after);
                waits.for_each(|other| *other = other.of(other.transfer() * parts as u32 + part));
                self.schedule.transfers.push(own);
            }
        }
        Ok(())
    }

    /// Brings transfers into schedule order.
    fn sort(&mut self) {
        let transfers = &mut self.schedule.transfers;
        if transfers.is_sorted_by_key(|t| (t.phase, t.step)) {
            return;
        }
        if self.waits {
            let mut order: Vec<usize> = (0..transfers.len()).collect();
            order.sort_by_key(|&id| (transfers[id].phase, transfers[id].step));
            let mut place = vec![0; transfers.len()];
            (0..).zip(&order).for_each(|(to, &id)| place[id] = to);
            for transfer in transfers.iter_mut() {
                let waits = transfer.start_after.iter_mut().chain(&mut transfer.apply_after);
                waits.for_each(|other| *other = other.of(place[other.transfer() as usize]));
            }
        }
        // Transfers are large: only their keys are sorted, and each moves once.
        transfers.sort_by_cached_key(|t| (t.phase, t.step));
    }

    /// Sorts transfers into schedule order unless they keep their numbers, derives dependencies and checks ranges.
    ///
    /// Complexity: O(lane transfers * mean fan-in).
    ///
    /// # Errors
    /// As [`Schedule::check`], and [`Code::TooLarge`] past [`MAX_DEPENDENCIES`].
    pub fn finish(mut self) -> Result<Schedule> {
        self.divide()?;
        let together = self.parallel.values().filter(|parallel| parallel.found && !parallel.given);
        self.schedule.bundled_links = together.map(|parallel| parallel.first).collect();
        self.schedule.bundled_links.sort_unstable();
        self.schedule.check(self.fabric)?;
        if !self.keep_numbers {
            self.sort();
        }
        let schedule = &mut self.schedule;
        let by_lane = schedule.transfers_by_lane();
        // Writes each rank has received of the current lane since it was last overwritten.
        let mut writes = vec![Dependencies::new(); schedule.participants() as usize];
        let stores: Vec<bool> = match self.hold_sums {
            true => schedule.transfers.iter().map(|transfer| transfer.op == Op::Copy).collect(),
            false => vec![],
        };
        let mut dependencies = 0;
        // The last visit at which a transfer was found to be waited for already.
        let mut known_at = vec![0; schedule.transfers.len()];
        let mut visit = 0;
        let lanes = by_lane.len();
        for (lane, list) in by_lane.into_iter().enumerate() {
            self.watch.at(lane, lanes)?;
            let moment = |id: TransferId| {
                let t = &schedule.transfers[id as usize];
                (t.phase, t.step)
            };
            let groups: Vec<&[TransferId]> = list.chunk_by(|&a, &b| moment(a) == moment(b)).collect();
            for group in groups {
                for &id in group {
                    let transfer = &mut schedule.transfers[id as usize];
                    let known = transfer.start_after.len();
                    let writes = &writes[transfer.from as usize];
                    if known == 0 {
                        transfer.start_after.extend_from_slice(writes);
                    } else if transfer.start_after[..] != writes[..] {
                        // Another lane of the same transfer may have some of these writes; mostly it has the same.
                        visit += 1;
                        let plain = transfer.start_after.iter().filter(|other| other.is_plain());
                        plain.for_each(|other| known_at[other.transfer() as usize] = visit);
                        let new = |write: &&Dependency| known_at[write.transfer() as usize] != visit;
                        transfer.start_after.extend(writes.iter().filter(new).copied());
                    }
                    dependencies += transfer.start_after.len() - known;
                    if dependencies > MAX_DEPENDENCIES {
                        return Err(too_many("dependencies", MAX_DEPENDENCIES));
                    }
                }
                for &id in group {
                    let transfer = &mut schedule.transfers[id as usize];
                    receive(id, transfer, &mut writes[transfer.to as usize], self.hold_sums.then_some(&stores));
                }
            }
            writes.iter_mut().for_each(Dependencies::clear);
        }
        Ok(self.schedule)
    }
}

/// Adds a transfer to the writes that its receiver has received of a lane. Where sums are held until what they are added to is
/// `stored`, a reduction is applied after that.
fn receive(id: TransferId, transfer: &mut Transfer, received: &mut Dependencies, stores: Option<&Vec<bool>>) {
    match (received.first().copied(), stores) {
        _ if transfer.op == Op::Copy => received.clear(),
        (Some(stored), Some(stores))
            if stores[stored.transfer() as usize] && !transfer.apply_after.contains(&stored) =>
        {
            transfer.apply_after.push(stored);
        }
        _ => {}
    }
    received.push(id.into());
}

fn too_many(what: &str, most: usize) -> Error {
    Error::new(Code::TooLarge, format!("the schedule has more than {most} {what}; use fewer ranks"))
}
