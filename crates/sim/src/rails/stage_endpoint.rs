//! A collective at an endpoint, stage by stage: what a chunk needs of the links, the memory and the engine of one NPU that
//! stands for all (ACE, ISCA 2021, sections III to V). What is done for a message and how an engine is divided is in
//! `ace/`.
//!
//! A stage is a list of steps, one message each on the way around a ring. Chunks take turns at its two directions. A step
//! goes on while the rest of its message is on the way: what is forwarded as a whole is a message of an NPU, else a
//! packet.

use super::orders::{Basic, ChunkOrder, RailsPlan, Stage};
use super::packets::RailsPacket;
use super::stage_loop::{QueuePolicy, RailsTimes, StageLoop, StageService, StageSpan, Step};
use super::stage_phases::{PARTS, phases};
use super::stage_use::{EndpointUse, PartUse, RoomUse, add_span, joined, total};
use crate::ace::partition::{ChunkPhases, EngineNeeds, Partition, PhaseNeed};
use crate::ace::work::{EndpointPart, PartWork, after_link, before_link, forwarded_by, loading, reads, storing};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Bytes, Picos, Rate};
use antiphon_model::collective::Kind;
use antiphon_model::fabric::{Dimension, DimensionShape};
use antiphon_model::system::{AceEndpoint, Endpoint};
use antiphon_model::topology::Topology;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// Some dimensions of a topology, or parts of them, as a topology of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RailsGroup {
    /// What it is by itself.
    pub topology: Topology,
    /// Number of each of its dimensions in the whole.
    pub numbers: Vec<u8>,
}

impl RailsGroup {
    /// The whole.
    pub fn whole(topology: &Topology) -> RailsGroup {
        RailsGroup { topology: topology.clone(), numbers: (0..topology.dimensions.len() as u8).collect() }
    }
}

/// An endpoint on a topology. Its servers are the two directions of every dimension, then the parts of the endpoint.
pub struct RailsEndpoint {
    /// Dimensions of the topology.
    dimensions: usize,
    endpoint: Endpoint,
    /// Of an engine.
    partition: Partition,
}

impl RailsEndpoint {
    /// An endpoint on a topology of so many dimensions, for the chunks of some plans, each of a group. An engine is divided
    /// for the plan with the most phases, of these that with the largest chunks.
    ///
    /// # Errors
    /// [`Code::NotApplicable`] for [`Endpoint::System`] and switches that reduce; [`Code::BadSize`] if an engine has too
    /// few state machines, or too little SRAM for a chunk in every partition.
    pub fn new(dimensions: usize, endpoint: Endpoint, plans: &[(&RailsGroup, &RailsPlan)]) -> Result<RailsEndpoint> {
        if plans.iter().any(|(_, plan)| plan.offload) {
            let what = "switches that reduce by themselves leave nothing for an endpoint to do; use one or the other";
            return Err(Error::new(Code::NotApplicable, what));
        }
        let mut at = RailsEndpoint { dimensions, endpoint, partition: Partition { fsms: vec![], sram: vec![] } };
        let Endpoint::Ace(ace) = endpoint else { return Ok(at) };
        let plans: Vec<_> = plans.iter().map(|(group, plan)| (*group, *plan, different(group, plan))).collect();
        let size = |chunk: &ChunkPhases| (chunk.phases.len(), chunk.whole());
        let largest = plans.iter().rev().max_by_key(|(.., orders)| orders.iter().map(|of| size(&of.chunk)).max());
        if let Some((group, plan, orders)) = largest {
            at.partition = Partition::divided(&ace, &at.needs(&ace, group, &plan.packets, orders))?;
        }
        plans.iter().flat_map(|(.., orders)| orders).try_for_each(|of| at.partition.expect_room(&of.chunk))?;
        Ok(at)
    }

    /// An idle loop of its servers and rooms.
    pub fn stage_loop(&self, queue: QueuePolicy) -> StageLoop {
        // Adders take a word at a time, so that a chunk that goes first need not wait for another's message.
        let adders = self.server(EndpointPart::Add);
        StageLoop::new(self.servers(), queue, 1).with_rooms(&self.partition.rooms()).with_interrupts(adders)
    }

    /// The dimension of a server, if it is a link.
    pub fn dimension_of(&self, server: usize) -> Option<usize> {
        (server < 2 * self.dimensions).then_some(server / 2)
    }

    /// What the parts of the endpoint and the links did in a loop, whose servers were `busy` at these times, while something
    /// was `under_way`.
    pub fn uses(
        &self,
        stages: &StageLoop,
        busy: &[Vec<(Picos, Picos)>],
        under_way: Vec<(Picos, Picos)>,
    ) -> EndpointUse {
        let time = total(&under_way).max(1) as f64;
        let share = |spans: &[(Picos, Picos)]| total(spans) as f64 / time;
        let serves = |part: EndpointPart, name, option| {
            let server = usize::from(self.server(part));
            let (spans, waiting) = (busy[server].clone(), stages.waited_ps(server) as f64 / time);
            PartUse { name, option, busy: share(&spans), waiting: Some(waiting), limits: share(&spans), spans }
        };
        let rooms = |rooms: Range<usize>, sizes: &[u64], name| {
            let of = &stages.room_uses()[rooms];
            let sum = |what: fn(&RoomUse) -> u128| of.iter().map(what).sum::<u128>() as f64 / time;
            let limits = of.iter().map(|room| room.limits_ps).fold(0.0, f64::max) / time;
            PartUse {
                name,
                option: name,
                busy: sum(|room| room.held_over_time) / sizes.iter().sum::<u64>().max(1) as f64,
                waiting: Some(sum(|room| room.waited_ps)),
                limits,
                spans: joined(of.iter().flat_map(|room| room.stalls.iter().copied()).collect()),
            }
        };
        let parts = match self.endpoint {
            Endpoint::System | Endpoint::Ideal(_) => vec![],
            Endpoint::Npu(npu) => {
                vec![
                    serves(EndpointPart::Read, "read", npu.read_option()),
                    serves(EndpointPart::Bus, "bus", "bus_gb_per_s"),
                ]
            }
            Endpoint::Ace(_) => {
                let (fsms, all) = (self.partition.fsms.len(), stages.room_uses().len());
                vec![
                    serves(EndpointPart::Read, "read", "memory_gb_per_s"),
                    serves(EndpointPart::Bus, "bus", "bus_gb_per_s"),
                    serves(EndpointPart::Add, "add", "alus"),
                    serves(EndpointPart::Write, "write", "memory_gb_per_s"),
                    rooms(0..fsms, &self.partition.fsms, "fsms"),
                    rooms(fsms..all, &self.partition.sram, "sram"),
                ]
            }
        };
        let link = |dimension: usize| {
            let busy = share(&busy[2 * dimension]).max(share(&busy[2 * dimension + 1]));
            (format!("dim{}", dimension + 1), busy)
        };
        EndpointUse { parts, links: (0..self.dimensions).map(link).collect(), under_way }
    }

    fn server(&self, part: EndpointPart) -> u8 {
        (2 * self.dimensions + part as usize) as u8
    }

    /// How many servers it has.
    pub fn servers(&self) -> usize {
        2 * self.dimensions + EndpointPart::COUNT
    }

    /// Steps of every chunk of a plan. Chunks take turns, and else differ by their orders only.
    pub fn chunks(&self, group: &RailsGroup, plan: &RailsPlan) -> Vec<Rc<[Step]>> {
        let mut known: HashMap<_, Rc<[Step]>> = HashMap::new();
        let mut of = |(number, order): (usize, &ChunkOrder)| {
            let turn = if plan.kind == Kind::AllToAll { number } else { number % 2 };
            known.entry((*order, turn)).or_insert_with(|| self.steps(group, plan, number).into()).clone()
        };
        plan.orders.iter().enumerate().map(&mut of).collect()
    }

    /// Steps of a chunk of a plan: `number` is that of the chunk, by which chunks take turns. One of an engine claims room
    /// for a phase when the one before is over: claimed at its start, half of the bandwidth would be lost.
    fn steps(&self, group: &RailsGroup, plan: &RailsPlan, number: usize) -> Vec<Step> {
        let stages: Vec<Stage> = plan.stages(&group.topology, &plan.orders[number]).collect();
        let Endpoint::Ace(ace) = self.endpoint else {
            return self.messages(group, &plan.packets, &stages, 0..stages.len(), number);
        };
        let chunk = phases(&stages);
        let sram = |phase: usize| self.partition.sram_room(&chunk, phase);
        let mut list = vec![Step::Take(sram(0), chunk.whole())];
        let load = loading(&ace);
        let services = load.iter().map(|work| self.part(work, 0, parts(chunk.whole()))).collect();
        list.extend(forwarded(services, &load.map(|work| time(parts(ace.packet), work.rate))));
        for (index, (phase, next)) in chunk.phases.iter().zip(chunk.sizes().skip(1)).enumerate() {
            let fsm = self.partition.fsm_room(&chunk, number, index);
            list.push(Step::Take(fsm, 1));
            list.extend(self.messages(group, &plan.packets, &stages, phase.stages.clone(), number));
            list.extend([Step::Take(sram(index + 1), next), Step::Give(fsm, 1), Step::Give(sram(index), phase.bytes)]);
        }
        let last = stages.len().saturating_sub(1);
        list.push(Step::Serve(self.part(&storing(&ace), last, parts(chunk.results))));
        list.push(Step::Give(sram(chunk.phases.len()), chunk.results));
        list
    }

    /// What is done for the messages of a range of stages that follow each other at once.
    fn messages(
        &self,
        group: &RailsGroup,
        packets: &[RailsPacket],
        stages: &[Stage],
        range: Range<usize>,
        number: usize,
    ) -> Vec<Step> {
        let (mut services, mut units) = (Vec::new(), Vec::new());
        let unit = parts(forwarded_by(&self.endpoint));
        for (index, stage) in range.clone().zip(&stages[range]) {
            let dimension = &group.topology.dimensions[usize::from(stage.dimension)];
            let adds = stage.basic == Basic::Reduce;
            let before = before_link(&self.endpoint, reads(adds));
            let after = after_link(&self.endpoint).filter(|_| adds);
            let ring = dimension.shape == DimensionShape::Ring;
            let way = if ring { number % 2 } else { 0 };
            let rate = Rate(if ring { (dimension.npu_rate().0 / 2).max(1) } else { dimension.npu_rate().0 });
            let format = packets.get(usize::from(stage.dimension));
            for message in messages(dimension, stage) {
                let wire = format.map_or(message, |format| format.wire(message, PARTS));
                let link = StageService {
                    server: 2 * group.numbers[usize::from(stage.dimension)] + way as u8,
                    stage: index as u8,
                    size: stage.size,
                    size_before: stage.size_before,
                    busy_ps: time(wire, rate),
                    latency_ps: dimension.npu_latency().saturating_mul(hops(dimension, stage)) + self.endpoint.delay(),
                    early_ps: 0,
                };
                let part = |work: &PartWork| (self.part(work, index, message), work.byte_rate());
                for (service, rate) in before.iter().map(part).chain([(link, rate)]).chain(after.iter().map(part)) {
                    services.push(service);
                    units.push(time(unit.min(message), rate));
                }
            }
        }
        forwarded(services, &units).collect()
    }

    /// The service of a part of the endpoint for parts of bytes.
    fn part(&self, work: &PartWork, stage: usize, amount: u128) -> StageService {
        StageService {
            server: self.server(work.part),
            stage: stage as u8,
            size: 0,
            size_before: 0,
            busy_ps: time(amount, work.byte_rate()),
            latency_ps: 0,
            early_ps: 0,
        }
    }

    /// How long a chunk is in a phase that it has for itself.
    fn duration(&self, group: &RailsGroup, packets: &[RailsPacket], stages: &[Stage], range: Range<usize>) -> u128 {
        let time = |step| match step {
            Step::Serve(service) => u128::from(service.busy_ps + service.latency_ps - service.early_ps),
            _ => 0,
        };
        self.messages(group, packets, stages, range, 0).into_iter().map(time).sum()
    }

    /// What all chunks of a plan need of an engine.
    fn needs(
        &self,
        ace: &AceEndpoint,
        group: &RailsGroup,
        packets: &[RailsPacket],
        orders: &[DifferentOrder],
    ) -> EngineNeeds {
        let mut needs = EngineNeeds::default();
        for DifferentOrder { stages, chunk, count } in orders {
            needs.phases.resize(needs.phases.len().max(chunk.phases.len()), PhaseNeed::default());
            for (need, phase) in needs.phases.iter_mut().zip(&chunk.phases) {
                let rate = group.topology.dimensions[usize::from(stages[phase.stages.start].dimension)].npu_rate().0;
                need.bytes = need.bytes.max(phase.bytes);
                need.duration += (self.duration(group, packets, stages, phase.stages.clone()) * count).max(1);
                need.rate_bytes = need.rate_bytes.max(u128::from(rate) * u128::from(phase.bytes));
            }
            needs.results = needs.results.max(chunk.results);
        }
        let all: u128 = orders.iter().map(|of| of.count).sum();
        let of = |rate: Rate, bytes: Bytes| (u128::from(time(parts(bytes), rate)) * all).max(1);
        needs.reading = of(loading(ace)[0].rate, needs.phases.first().map_or(0, |need| need.bytes));
        needs.writing = of(storing(ace).rate, needs.results);
        needs
    }
}

/// For how long a stage of a chunk keeps the link or part of an endpoint busy that it needs longest.
pub(super) fn longest(topology: &Topology, plan: &RailsPlan, stage: Stage, endpoint: Endpoint) -> u128 {
    let partition = Partition { fsms: vec![], sram: vec![] };
    let at = RailsEndpoint { dimensions: topology.dimensions.len(), endpoint, partition };
    let mut busy = vec![0; at.servers()];
    for step in at.messages(&RailsGroup::whole(topology), &plan.packets, &[stage], 0..1, 0) {
        if let Step::Serve(service) = step {
            busy[usize::from(service.server)] += u128::from(service.busy_ps);
        }
    }
    // Chunks take turns at the two directions of a ring.
    if topology.dimensions[usize::from(stage.dimension)].shape == DimensionShape::Ring {
        busy[2 * usize::from(stage.dimension)] /= 2;
    }
    busy.into_iter().max().unwrap_or(0)
}

/// A different order of a plan: what its chunks do, and how many have it.
struct DifferentOrder {
    stages: Vec<Stage>,
    chunk: ChunkPhases,
    count: u128,
}

/// The different orders of a plan.
fn different(group: &RailsGroup, plan: &RailsPlan) -> Vec<DifferentOrder> {
    let mut orders = plan.orders.clone();
    orders.sort_unstable();
    let of = |same: &[ChunkOrder]| {
        let stages: Vec<Stage> = plan.stages(&group.topology, &same[0]).collect();
        DifferentOrder { chunk: phases(&stages), stages, count: same.len() as u128 }
    };
    orders.chunk_by(|one, other| one == other).map(of).collect()
}

/// Parts of bytes.
fn parts(bytes: Bytes) -> u128 {
    u128::from(bytes) * PARTS
}

/// Time for parts of bytes at a rate.
fn time(amount: u128, rate: Rate) -> Picos {
    let picos = amount.saturating_mul(1_000_000_000_000).div_ceil(PARTS * u128::from(rate.0.max(1)));
    u64::try_from(picos).unwrap_or(Picos::MAX / 4)
}

/// Sizes of the messages of a stage that follow one another, in parts of bytes. Those to different peers are one.
fn messages(dimension: &Dimension, stage: &Stage) -> Vec<u128> {
    let (size, all) = (u128::from(dimension.size), u128::from(stage.size));
    match (dimension.shape, stage.basic) {
        (DimensionShape::Ring, Basic::Exchange) => vec![all * (size * size / 4) / size],
        (DimensionShape::Ring | DimensionShape::Line, _) => vec![all / size; dimension.size as usize - 1],
        (DimensionShape::Switch, Basic::Reduce) => (1..=dimension.steps()).map(|step| all >> step).collect(),
        (DimensionShape::Switch, Basic::Gather) => (1..=dimension.steps()).rev().map(|step| all >> step).collect(),
        _ => vec![all * (size - 1) / size],
    }
}

/// Latencies of a message one after the other.
fn hops(dimension: &Dimension, stage: &Stage) -> u64 {
    match (dimension.shape, stage.basic) {
        (DimensionShape::Ring, Basic::Exchange) => dimension.size / 2,
        _ => 1,
    }
}

/// Services one after the other: each goes on with the first unit of a message to the next, unless all that follow are
/// faster and would end before the last unit is there.
fn forwarded(mut services: Vec<StageService>, units: &[Picos]) -> impl Iterator<Item = Step> + use<> {
    // The longest and the most spare of those that follow.
    let (mut longest, mut most) = (0, 0);
    for (service, unit) in services.iter_mut().zip(units).rev() {
        let spare = service.busy_ps.saturating_sub(*unit);
        service.early_ps = if longest >= service.busy_ps { spare } else { spare.min(most) };
        (longest, most) = (longest.max(service.busy_ps), most.max(spare));
    }
    services.into_iter().map(Step::Serve)
}

/// Times `plan` at an endpoint, and keeps what every dimension did. Spans are of whole stages.
///
/// # Errors
/// As [`RailsEndpoint::new`].
pub fn run(topology: &Topology, plan: &RailsPlan, queue: QueuePolicy, endpoint: Endpoint) -> Result<RailsTimes> {
    let group = RailsGroup::whole(topology);
    let at = RailsEndpoint::new(topology.dimensions.len(), endpoint, &[(&group, plan)])?;
    let mut stages = at.stage_loop(queue);
    for steps in at.chunks(&group, plan) {
        stages.submit_steps(0, 0, steps.iter().copied());
    }
    let dimensions = topology.dimensions.len();
    let mut spans: Vec<HashMap<(u32, u32), StageSpan>> = vec![HashMap::new(); dimensions];
    let (mut busy_ps, mut time_ps, mut complete) = (vec![0; dimensions], 0, 0);
    let mut busy = vec![vec![]; at.servers()];
    while let Some(now) = stages.next() {
        stages.step(
            |server, span| {
                add_span(&mut busy[server], (span.start_ps, span.finish_ps));
                let Some(dimension) = at.dimension_of(server) else { return };
                let ways = if topology.dimensions[dimension].shape == DimensionShape::Ring { 2 } else { 1 };
                busy_ps[dimension] += (span.finish_ps - span.start_ps) / ways;
                let whole = spans[dimension].entry((span.chunk, span.stage)).or_insert(span);
                whole.start_ps = whole.start_ps.min(span.start_ps);
                whole.ready_ps = whole.ready_ps.min(span.ready_ps);
                whole.finish_ps = whole.finish_ps.max(span.finish_ps);
            },
            |_| (time_ps, complete) = (now, complete + 1),
        );
    }
    if complete < plan.orders.len() {
        let what =
            format!("{} of {} chunks wait for room in the engine", plan.orders.len() - complete, plan.orders.len());
        return Err(Error::new(Code::Stalled, what).at("endpoint ace"));
    }
    let sorted = |spans: HashMap<_, StageSpan>| {
        let mut spans: Vec<StageSpan> = spans.into_values().collect();
        spans.sort_by_key(|span| (span.start_ps, span.chunk));
        spans
    };
    let endpoint = Some(at.uses(&stages, &busy, vec![(0, time_ps)]));
    Ok(RailsTimes { time_ps, spans: spans.into_iter().map(sorted).collect(), busy_ps, endpoint })
}

#[cfg(test)]
mod tests {
    use super::super::scheduler::{Phased, Scheduler, Themis};
    use super::*;
    use antiphon_model::system::SramSplit;

    fn plan(topology: &Topology, kind: Kind, bytes: Bytes, chunks: u32) -> RailsPlan {
        let mut plan = RailsPlan::uniform(topology, kind, bytes, chunks, false).unwrap();
        Phased.schedule(topology, &mut plan);
        plan
    }

    fn timed(topology: &str, plan_of: impl Fn(&Topology) -> RailsPlan, endpoint: &str) -> Result<RailsTimes> {
        let topology = Topology::parse(topology).unwrap();
        run(&topology, &plan_of(&topology), QueuePolicy::Oldest, Endpoint::parse(endpoint).unwrap())
    }

    /// GB/s that an NPU sends in an AllReduce of 64 MiB.
    fn sent_gb_per_s(topology: &str, endpoint: &str) -> f64 {
        let all = |topology: &Topology| plan(topology, Kind::AllReduce, 64 << 20, 1024);
        let sent: f64 =
            all(&Topology::parse(topology).unwrap()).bytes_sent(&Topology::parse(topology).unwrap()).iter().sum();
        sent * 1e3 / timed(topology, all, endpoint).unwrap().time_ps as f64
    }

    /// One chunk of 40,000 bytes around a ring of four: six steps of 10,000 bytes, 1 us each, with a latency of 100 ns.
    #[test]
    fn exact_times_of_one_chunk() {
        let one = |topology: &Topology| plan(topology, Kind::AllReduce, 40_000, 1);
        let time = |endpoint: &str| timed("ring4@160/100ns", one, endpoint).unwrap().time_ps;
        assert_eq!(time("ideal:packet=1MB,delay_ns=1"), 6 * 1_101_000);
        // Messages of half a step are forwarded while the link still sends the other half.
        assert_eq!(time("ideal:packet=5kB,delay_ns=1"), 6 * 1_000_000 + 101_000);
        // Two reads of 1 us where it adds, one where it does not; 20 ns on the bus.
        let steps = 3 * (2_000_000 + 20_000 + 1_100_000) + 3 * (1_000_000 + 20_000 + 1_100_000);
        assert_eq!(time("npu:memory_gb_per_s=10,message=1MB"), steps);
        // Read once in 4 us, 80 ns on the bus, three sums of 40 ns, written back in 4 us.
        let engine = "ace:memory_gb_per_s=10,packet=1MB,alus=1,alu_gb_per_s=250";
        assert_eq!(time(engine), 4_000_000 + 80_000 + 6 * 1_100_000 + 3 * 40_000 + 4_000_000);
        // Packets of 1,000 bytes go on, added, while the link still sends the others; the first is on the bus for 2 ns.
        let packets = "ace:memory_gb_per_s=10,packet=1kB,alus=1,alu_gb_per_s=250";
        assert_eq!(time(packets), 4_002_000 + 6_000_000 + 100_000 + 4_000_000);
    }

    /// With one state machine chunks follow each other, with two they go around both ways at once.
    #[test]
    fn state_machines_and_sram_bound_what_is_under_way() {
        let two = |topology: &Topology| plan(topology, Kind::AllReduce, 80_000, 2);
        let time = |more: &str| {
            let free = "ace:memory_gb_per_s=900,packet=1MB,chunk=40kB,bus_gb_per_s=1e9,alus=1000000";
            timed("ring4@160/100ns", two, &format!("{free}{more}")).unwrap().time_ps
        };
        let alone = 6 * 1_100_000;
        assert!((alone..alone + 200_000).contains(&time(",fsms=2")));
        assert!((2 * alone..2 * alone + 200_000).contains(&time(",fsms=1")));
        assert!((2 * alone..2 * alone + 400_000).contains(&time(",fsms=2,sram=80kB")));
    }

    /// Section VI-A: 2.25 bytes are sent for each on 64 NPUs; and for other tori
    /// 2(L-1)/L + 2(V-1)/(VL) + 2(H-1)/(HL).
    #[test]
    fn bytes_sent() {
        for (spec, sent) in [("ace:4x4x4", 2.25), ("ace:4x2x2", 2.0), ("ace:4x4x2", 2.125), ("ace:4x8x4", 2.3125)] {
            let topology = Topology::parse(spec).unwrap();
            let plan = plan(&topology, Kind::AllReduce, 1 << 20, 16);
            assert_eq!(plan.bytes_sent(&topology).iter().sum::<f64>(), sent * f64::from(1 << 20));
        }
    }

    /// Figs. 5 and 6: what the slowest phase allows, and what processors of 79.7 GB/s do, at one and a half reads a byte.
    #[test]
    fn an_ideal_endpoint_saturates_and_processors_do_not() {
        for (spec, saturation) in [("ace:4x4x4", 282.0), ("ace:4x2x2", 376.0), ("ace:4x8x4", 248.17)] {
            let reached = sent_gb_per_s(spec, "ideal") / saturation;
            assert!((0.98..1.0).contains(&reached), "{spec}: {reached}");
        }
        for (sms, expected) in [(1, 53.0), (2, 106.0), (3, 159.0), (4, 211.0), (5, 263.0), (6, 278.0), (7, 278.0)] {
            let reached = sent_gb_per_s("ace:4x4x4", &format!("npu:memory_gb_per_s=900,sms={sms}"));
            assert!((reached / expected - 1.0).abs() < 0.02, "{sms} SMs: {reached}");
        }
    }

    #[test]
    fn an_engine_is_divided_by_need_or_as_the_paper_does() {
        let topology = Topology::parse("ace:4x4x4").unwrap();
        let plan = plan(&topology, Kind::AllReduce, 64 << 20, 1024);
        let of = |spec: &str| {
            let group = RailsGroup::whole(&topology);
            RailsEndpoint::new(3, Endpoint::parse(spec).unwrap(), &[(&group, &plan)]).map(|at| at.partition)
        };
        assert_eq!(of("ace").unwrap().fsms, [1, 7, 7, 1]);
        assert_eq!(of("ace:fsm_split=equal,fsms=18").unwrap().fsms, [5, 5, 4, 4]);
        let paper = of("ace:sram_split=paper").unwrap().sram;
        let percent: Vec<u64> = paper.iter().map(|bytes| (bytes * 100 + (2 << 20)) / (4 << 20)).collect();
        assert_eq!(percent, [64, 2, 2, 16, 16]);
        // Whole chunks, and less than one is left.
        let sram = of("ace").unwrap().sram;
        assert_eq!(
            sram.iter().zip([65_536, 16_384, 16_384, 16_384, 65_536]).map(|(of, chunk)| of % chunk).sum::<u64>(),
            0
        );
        assert!((4 << 20) - sram.iter().sum::<u64>() < 65_536);
        assert!(of("ace:fsms=3").unwrap_err().message.contains("3 state machines for 4 phases"));
        let small = of("ace:sram=512KiB,sram_split=paper").unwrap_err().message;
        assert_eq!(
            small,
            "endpoint ace: phase 2 has 10485 bytes of the SRAM, and a chunk there 16384; give a larger sram, a smaller \
             chunk, or sram_split=need"
        );
    }

    /// Of a larger engine no phase has less, whatever it is like.
    #[test]
    fn more_is_divided_into_no_less() {
        for spec in ["ace:4x4x4", "ace:4x2x2", "ace:2x16x8", "sw16@1600/700ns,sw8@800/700ns,sw8@400/1700ns"] {
            let topology = Topology::parse(spec).unwrap();
            let (group, plan) = (RailsGroup::whole(&topology), plan(&topology, Kind::AllReduce, 64 << 20, 1024));
            let of = |ace: AceEndpoint| {
                RailsEndpoint::new(3, Endpoint::Ace(ace), &[(&group, &plan)]).ok().map(|of| of.partition)
            };
            for sram_split in [SramSplit::Need, SramSplit::Paper] {
                let ace = AceEndpoint { sram_split, ..AceEndpoint::default() };
                let fsms: Vec<_> = (4..200).filter_map(|fsms| of(AceEndpoint { fsms, ..ace })).collect();
                let sram: Vec<_> = (1..200).filter_map(|parts| of(AceEndpoint { sram: parts << 15, ..ace })).collect();
                assert!(fsms.len() == 196 && sram.len() > 90, "{spec}: {} {}", fsms.len(), sram.len());
                for pair in fsms.windows(2).chain(sram.windows(2)) {
                    let of = |partition: &Partition| [partition.fsms.clone(), partition.sram.clone()].concat();
                    let grows = of(&pair[0]).iter().zip(of(&pair[1])).all(|(&less, more)| less <= more);
                    assert!(grows, "{spec}: {:?}, then {:?}", pair[0], pair[1]);
                }
            }
        }
    }

    /// Fig. 9a: more state machines or SRAM are never slower, since none of what an older chunk needs is held up by another.
    #[test]
    fn more_is_never_slower() {
        for spec in ["ace:4x2x2", "ace:4x4x4"] {
            for split in ["need,sram_split=need", "need,sram_split=paper", "equal,sram_split=need"] {
                let time = |mib: u64, fsms: u64| {
                    let of = |topology: &Topology| plan(topology, Kind::AllReduce, 16 << 20, 256);
                    timed(spec, of, &format!("ace:fsms={fsms},sram={mib}MiB,fsm_split={split}")).unwrap().time_ps as f64
                };
                let times = [1, 2, 4, 8].map(|mib| [4, 8, 12, 16].map(|fsms| time(mib, fsms)));
                for (row, column) in (0..4).flat_map(|row| (0..4).map(move |column| (row, column))) {
                    let (more, less) = (times[row][column], times[row.saturating_sub(1)][column]);
                    let fewer = times[row][column.saturating_sub(1)];
                    assert!(more <= 1.001 * less.min(fewer), "{spec}, {split}: {times:?}");
                }
            }
        }
    }

    #[test]
    fn every_collective_ends_at_every_endpoint() {
        // Whatever the order of dimensions, as Themis has several.
        let themis = |topology: &Topology| {
            let mut plan = plan(topology, Kind::AllReduce, 16 << 20, 256);
            (plan.phased, plan.orders) =
                (false, RailsPlan::uniform(topology, Kind::AllReduce, 16 << 20, 256, false).unwrap().orders);
            Themis::default().schedule(topology, &mut plan);
            plan
        };
        for spec in ["ace:4x4x4", "sw16@1600/700ns,sw8@800/700ns,sw8@400/1700ns"] {
            assert!(
                timed(spec, themis, "ace").unwrap().time_ps > timed(spec, themis, "ideal").unwrap().time_ps * 9 / 10
            );
        }
        for spec in ["ace:4x3x2", "sw8@800/700ns,fc3@100/20ns", "ring5@400/10ns"] {
            for kind in [Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::AllToAll] {
                let of = |topology: &Topology| plan(topology, kind, 1 << 20, 16);
                let ideal = timed(spec, of, "ideal").unwrap().time_ps;
                for endpoint in ["npu", "ace", "ace:fsms=6,sram=512KiB", "ace-baseline-compopt"] {
                    let time = timed(spec, of, endpoint).unwrap().time_ps;
                    assert!(time > ideal * 9 / 10, "{spec}, {}, {endpoint}: {time}, {ideal}", kind.name());
                }
            }
        }
    }
}
