//! A collective at an endpoint, step by step: what a chunk needs of the links, the memory and the engine of one NPU that
//! stands for all (ACE, ISCA 2021, sections III to V).
//!
//! A stage is a list of steps, one message each on the way around a ring. Chunks take turns at its two directions. A step
//! goes on while the rest of its message is on the way: what is forwarded as a whole is a message of an NPU, else a
//! packet.

use super::engine::{Engine, Queue, Run, Service, Span, Step};
use super::plan::{Basic, Order, Plan, Stage};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Bytes, Picos, Rate};
use antiphon_model::collective::Kind;
use antiphon_model::fabric::{Dimension, DimensionShape};
use antiphon_model::system::{AceEndpoint, Endpoint, FsmSplit, SramSplit};
use antiphon_model::topology::Topology;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// Sizes of stages are in parts of a byte.
const PARTS: u128 = 4096;

/// Servers of an NPU after the two directions of every dimension.
#[derive(Clone, Copy)]
enum Part {
    /// Reads memory.
    Read,
    /// The bus from memory to the network.
    Bus,
    /// Adds.
    Add,
    /// Writes to memory.
    Write,
}
const PARTS_OF_NODE: usize = 4;

/// Stages that a chunk goes through under one state machine: both of an AllReduce along one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Phase {
    first: usize,
    end: usize,
    /// Bytes of a chunk that enters it.
    bytes: Bytes,
}

/// An engine's resources, divided among phases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// State machines of every phase.
    pub fsms: Vec<u64>,
    /// Bytes of SRAM for the chunks of every phase, and for results.
    pub sram: Vec<Bytes>,
}

/// Some dimensions of a topology, or parts of them, as a topology of its own.
#[derive(Debug, Clone)]
pub struct Group {
    /// What it is by itself.
    pub topology: Topology,
    /// Number of each of its dimensions in the whole.
    pub numbers: Vec<u8>,
}

impl Group {
    /// The whole.
    pub fn whole(topology: &Topology) -> Group {
        Group { topology: topology.clone(), numbers: (0..topology.dimensions.len() as u8).collect() }
    }
}

/// An endpoint on a topology.
pub struct Node {
    /// Dimensions of the topology.
    dimensions: usize,
    endpoint: Endpoint,
    /// Of an engine.
    partition: Partition,
}

impl Node {
    /// An endpoint on a topology of so many dimensions, for the chunks of some plans, each of a group. An engine is divided
    /// for the plan with the most phases, of these that with the largest chunks.
    ///
    /// # Errors
    /// [`Code::NotApplicable`] for [`Endpoint::System`] and switches that reduce; [`Code::BadSize`] if an engine has too
    /// few state machines, or too little SRAM for a chunk in every partition.
    pub fn new(dimensions: usize, endpoint: Endpoint, plans: &[(&Group, &Plan)]) -> Result<Node> {
        if plans.iter().any(|(_, plan)| plan.offload) {
            let what = "switches that reduce by themselves leave nothing for an endpoint to do; use one or the other";
            return Err(Error::new(Code::NotApplicable, what));
        }
        let mut node = Node { dimensions, endpoint, partition: Partition { fsms: vec![], sram: vec![] } };
        if let Endpoint::Ace(ace) = endpoint {
            let size = |(group, plan): &&(&Group, &Plan)| {
                let first = |(stages, _): &(Vec<Stage>, u128)| {
                    let phases = phases(stages);
                    (phases.len(), phases.first().map_or(0, |phase| phase.bytes))
                };
                stages(group, plan).iter().map(first).max()
            };
            let largest = plans.iter().rev().max_by_key(size);
            if let Some((group, plan)) = largest {
                node.partition = node.divided(&ace, group, plan)?;
            }
            for (group, plan) in plans {
                node.check(group, plan)?;
            }
        }
        Ok(node)
    }

    /// How an engine is divided.
    pub fn partition(&self) -> &Partition {
        &self.partition
    }

    /// An idle engine.
    pub fn engine(&self, queue: Queue) -> Engine {
        let rooms: Vec<u64> = self.partition.fsms.iter().chain(&self.partition.sram).copied().collect();
        // Adders take a word at a time, so that a chunk that goes first need not wait for another's message.
        Engine::new(self.servers(), queue, 1).with_rooms(&rooms).with_interrupts(self.server(Part::Add))
    }

    /// The dimension of a server, if it is a link.
    pub fn dimension_of(&self, server: usize) -> Option<usize> {
        (server < 2 * self.dimensions).then_some(server / 2)
    }

    fn server(&self, part: Part) -> u8 {
        (2 * self.dimensions + part as usize) as u8
    }

    /// Its servers: links, and parts of the endpoint.
    pub fn servers(&self) -> usize {
        2 * self.dimensions + PARTS_OF_NODE
    }

    /// Steps of every chunk of a plan. Chunks take turns, and else differ by their orders only.
    pub fn chunks(&self, group: &Group, plan: &Plan) -> Vec<Rc<[Step]>> {
        let mut known: HashMap<_, Rc<[Step]>> = HashMap::new();
        let mut of = |(number, order): (usize, &Order)| {
            let turn = if plan.kind == Kind::AllToAll { number } else { number % 2 };
            known.entry((*order, turn)).or_insert_with(|| self.steps(group, plan, number).into()).clone()
        };
        plan.orders.iter().enumerate().map(&mut of).collect()
    }

    /// Steps of a chunk of a plan: `number` is that of the chunk, by which chunks take turns.
    fn steps(&self, group: &Group, plan: &Plan, number: usize) -> Vec<Step> {
        let stages: Vec<Stage> = plan.stages(&group.topology, &plan.orders[number]).collect();
        let Endpoint::Ace(ace) = self.endpoint else {
            return self.messages(group, &stages, 0..stages.len(), number);
        };
        let phases = phases(&stages);
        let (rooms, results) = (self.partition.fsms.len(), self.partition.sram.len() - 1);
        // State machines of all phases do an AllToAll, which keeps its chunk in the first partition.
        let turn = (number as u64 * 7919) % self.partition.fsms.iter().sum::<u64>().max(1);
        let machine_of_turn = self.partition.fsms.iter().scan(0, |sum, &fsms| {
            *sum += fsms;
            Some(*sum)
        });
        let any = machine_of_turn.take_while(|&sum| sum <= turn).count();
        let alone = phases.len() == 1 && stages.first().is_some_and(|stage| stage.basic == Basic::Exchange);
        let fsm = |phase: usize| (if alone { any } else { phase }) as u8;
        let sram = |phase: usize| (rooms + if phase == phases.len() { results } else { phase }) as u8;
        let (whole, after) = (phases.first().map_or(0, |phase| phase.bytes), bytes_after(&stages));
        let mut list = vec![Step::Take(sram(0), whole)];
        let load = [(Part::Read, ace.memory_rate), (Part::Bus, ace.bus_rate)];
        let services = load.map(|(part, rate)| self.part(part, 0, time(parts(whole), rate)));
        list.extend(forwarded(
            services.to_vec(),
            &[time(parts(ace.packet), ace.memory_rate), time(parts(ace.packet), ace.bus_rate)],
        ));
        for (index, phase) in phases.iter().enumerate() {
            list.push(Step::Take(fsm(index), 1));
            list.extend(self.messages(group, &stages, phase.first..phase.end, number));
            let next = phases.get(index + 1).map_or(after, |next| next.bytes);
            list.extend([
                Step::Take(sram(index + 1), next),
                Step::Give(fsm(index), 1),
                Step::Give(sram(index), phase.bytes),
            ]);
        }
        list.push(Step::Serve(self.part(
            Part::Write,
            stages.len().saturating_sub(1),
            time(parts(after), ace.memory_rate),
        )));
        list.push(Step::Give(sram(phases.len()), after));
        list
    }

    /// What is done for the messages of a range of stages that follow each other at once.
    fn messages(&self, group: &Group, stages: &[Stage], range: Range<usize>, number: usize) -> Vec<Step> {
        let (mut services, mut units) = (Vec::new(), Vec::new());
        let unit = match self.endpoint {
            Endpoint::Ace(ace) => ace.packet,
            Endpoint::Npu(npu) => npu.message,
            Endpoint::Ideal(ideal) => ideal.packet,
            Endpoint::System => 1,
        };
        for (index, stage) in range.clone().zip(&stages[range]) {
            let dimension = &group.topology.dimensions[usize::from(stage.dimension)];
            let ring = dimension.shape == DimensionShape::Ring;
            let way = if ring { number % 2 } else { 0 };
            let link = 2 * group.numbers[usize::from(stage.dimension)] + way as u8;
            let rate = Rate(if ring { (dimension.npu_rate().0 / 2).max(1) } else { dimension.npu_rate().0 });
            for message in messages(dimension, stage) {
                let mut add = |service: Service, rate: Rate| {
                    units.push(time(parts(unit).min(message), rate));
                    services.push(service);
                };
                if let Endpoint::Npu(npu) = self.endpoint {
                    // What is received and what is there are read to be added; what is passed on only once.
                    let reads = if stage.basic == Basic::Reduce { 2 } else { 1 };
                    let read = Rate((npu.read_rate().0 / reads).max(1));
                    add(self.part(Part::Read, index, time(message, read)), read);
                    add(self.part(Part::Bus, index, time(message, npu.bus_rate)), npu.bus_rate);
                }
                let mut latency_ps = dimension.npu_latency().saturating_mul(hops(dimension, stage));
                if let Endpoint::Ideal(ideal) = self.endpoint {
                    latency_ps += ideal.delay_ps;
                }
                add(
                    Service {
                        server: link,
                        stage: index as u8,
                        size: stage.size,
                        size_before: stage.size_before,
                        busy_ps: time(message, rate),
                        latency_ps,
                        early_ps: 0,
                    },
                    rate,
                );
                if let Endpoint::Ace(ace) = self.endpoint
                    && stage.basic == Basic::Reduce
                {
                    add(self.part(Part::Add, index, time(message, ace.add_rate())), ace.add_rate());
                }
            }
        }
        forwarded(services, &units).collect()
    }

    /// A service of a part of the node that takes so long.
    fn part(&self, part: Part, stage: usize, busy_ps: Picos) -> Service {
        Service {
            server: self.server(part),
            stage: stage as u8,
            size: 0,
            size_before: 0,
            busy_ps,
            latency_ps: 0,
            early_ps: 0,
        }
    }

    /// How long a chunk is in a phase that it has for itself.
    fn duration(&self, group: &Group, stages: &[Stage], phase: &Phase) -> u128 {
        let steps = self.messages(group, stages, phase.first..phase.end, 0).into_iter();
        let time = |step| match step {
            Step::Serve(service) => u128::from(service.busy_ps + service.latency_ps - service.early_ps),
            _ => 0,
        };
        steps.map(time).sum()
    }

    /// Divides an engine among the phases of a plan, by what all its chunks need.
    fn divided(&self, ace: &AceEndpoint, group: &Group, plan: &Plan) -> Result<Partition> {
        let (mut needs, mut after): (Vec<Need>, Bytes) = (vec![], 0);
        for (stages, chunks) in stages(group, plan) {
            let phases = phases(&stages);
            needs.resize(needs.len().max(phases.len()), Need::default());
            for (need, phase) in needs.iter_mut().zip(&phases) {
                let rate = group.topology.dimensions[usize::from(stages[phase.first].dimension)].npu_rate().0;
                need.bytes = need.bytes.max(phase.bytes);
                need.duration += (self.duration(group, &stages, phase) * chunks).max(1);
                need.rate_bytes = need.rate_bytes.max(u128::from(rate) * u128::from(phase.bytes));
            }
            after = after.max(bytes_after(&stages));
        }
        let (count, fsms) = (needs.len() as u64, u64::from(ace.fsms));
        if fsms < count {
            let what = format!("{fsms} state machines for {count} phases; give fsms={count} or more");
            return Err(Error::new(Code::BadSize, what).at("endpoint ace"));
        }
        let durations = needs.iter().map(|need| need.duration);
        let stays: Vec<u128> = match ace.fsm_split {
            FsmSplit::Equal => vec![1; needs.len()],
            FsmSplit::Need => durations.clone().collect(),
        };
        let fsms = places(fsms, &vec![1; needs.len()], &stays);
        let sram = match ace.sram_split {
            SramSplit::Paper => {
                let of = |need: &Need| need.rate_bytes;
                let weights: Vec<u128> = needs.iter().map(of).chain(needs.last().map(of)).collect();
                let all = weights.iter().sum::<u128>().max(1);
                weights.iter().map(|weight| (u128::from(ace.sram) * weight / all) as u64).collect()
            }
            SramSplit::Need => {
                // The first also holds what is still read, the last what is written.
                let chunks = plan.orders.len() as u128;
                let memory = |bytes: Bytes| (u128::from(time(parts(bytes), ace.memory_rate)) * chunks).max(1);
                let mut stays: Vec<u128> = durations.chain([memory(after)]).collect();
                stays[0] += memory(needs.first().map_or(0, |need| need.bytes));
                let sizes: Vec<u64> = needs.iter().map(|need| need.bytes).chain([after]).map(|of| of.max(1)).collect();
                let counts = places(ace.sram, &sizes, &stays);
                counts.iter().zip(sizes).map(|(count, size)| count * size).collect()
            }
        };
        Ok(Partition { fsms, sram })
    }

    /// Refuses partitions that have no room for a chunk.
    fn check(&self, group: &Group, plan: &Plan) -> Result<()> {
        let results = self.partition.sram.len() - 1;
        for (stages, _) in stages(group, plan) {
            let needed = phases(&stages).into_iter().map(|phase| phase.bytes).enumerate();
            for (number, bytes) in needed.chain([(results, bytes_after(&stages))]) {
                let room = self.partition.sram[number];
                if bytes > room {
                    let place =
                        if number == results { "results have".into() } else { format!("phase {} has", number + 1) };
                    let what = format!(
                        "{place} {room} bytes of the SRAM, and a chunk there {bytes}; give a larger sram, a smaller \
                         chunk, or sram_split=need"
                    );
                    return Err(Error::new(Code::BadSize, what).at("endpoint ace"));
                }
            }
        }
        Ok(())
    }
}

/// What the chunks of a phase need.
#[derive(Clone, Copy, Default)]
struct Need {
    /// Of the largest.
    bytes: Bytes,
    /// Of all of them, one after the other.
    duration: u128,
    /// Rate of its links times bytes.
    rate_bytes: u128,
}

/// Stages of a chunk of each different order of a plan, and how many chunks have it.
fn stages(group: &Group, plan: &Plan) -> Vec<(Vec<Stage>, u128)> {
    let mut orders = plan.orders.clone();
    orders.sort_unstable();
    let same = orders.chunk_by(|one, other| one == other);
    same.map(|same| (plan.stages(&group.topology, &same[0]).collect(), same.len() as u128)).collect()
}

/// Phases of a chunk. An AllToAll has one.
fn phases(stages: &[Stage]) -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::new();
    for (number, stage) in stages.iter().enumerate() {
        let before = number.checked_sub(1).map(|before| stages[before]);
        let same = before.is_some_and(|before| {
            let exchange = stage.basic == Basic::Exchange;
            exchange || before.dimension == stage.dimension && stage.basic == Basic::Gather
        });
        match phases.last_mut() {
            Some(last) if same => last.end = number + 1,
            _ => phases.push(Phase { first: number, end: number + 1, bytes: bytes_of(stage.size_before) }),
        }
    }
    phases
}

/// Parts of bytes.
fn parts(bytes: Bytes) -> u128 {
    u128::from(bytes) * PARTS
}

/// Whole bytes that hold parts.
fn bytes_of(size: u64) -> Bytes {
    size.div_ceil(PARTS as u64)
}

/// Bytes of a chunk after its last stage.
fn bytes_after(stages: &[Stage]) -> Bytes {
    stages.last().map_or(0, |stage| match stage.basic {
        Basic::Gather => bytes_of(stage.size_before).max(bytes_of(stage.size)),
        Basic::Reduce => bytes_of(stage.size),
        Basic::Exchange => bytes_of(stage.size_before),
    })
}

/// Time for parts of bytes at a rate.
fn time(amount: u128, rate: Rate) -> Picos {
    let picos = amount.saturating_mul(1_000_000_000_000).div_ceil(PARTS * u128::from(rate.0.max(1)));
    u64::try_from(picos).unwrap_or(Picos::MAX / 4)
}

/// How many places each has of `total`, which are of these sizes: one after the other, to where chunks that stay so long
/// get on most slowly with the places that there are. Of more nobody has less (Adams' method of apportionment).
fn places(total: u64, sizes: &[u64], stays: &[u128]) -> Vec<u64> {
    let spare = u128::from(total.saturating_sub(sizes.iter().sum()));
    let all: u128 = sizes.iter().zip(stays).map(|(&size, stay)| u128::from(size) * stay).sum();
    // All that come before a common rate that is certainly reached.
    let mut counts: Vec<u64> = stays.iter().map(|stay| (stay * spare).div_ceil(all) as u64).collect();
    let mut left = total - counts.iter().zip(sizes).map(|(count, size)| count * size).sum::<u64>();
    loop {
        let time = |one: usize, other: usize| stays[one] * u128::from(counts[other]);
        let slowest = (0..sizes.len()).min_by(|&one, &other| time(other, one).cmp(&time(one, other)));
        let Some(slowest) = slowest.filter(|&slowest| sizes[slowest] <= left) else { return counts };
        left -= sizes[slowest];
        counts[slowest] += 1;
    }
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
fn forwarded(mut services: Vec<Service>, units: &[Picos]) -> impl Iterator<Item = Step> + use<> {
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
/// As [`Node::new`].
pub fn run(topology: &Topology, plan: &Plan, queue: Queue, endpoint: Endpoint) -> Result<Run> {
    let group = Group::whole(topology);
    let node = Node::new(topology.dimensions.len(), endpoint, &[(&group, plan)])?;
    let mut engine = node.engine(queue);
    for steps in node.chunks(&group, plan) {
        engine.submit_steps(0, 0, steps.iter().copied());
    }
    let dimensions = topology.dimensions.len();
    let mut spans: Vec<HashMap<(u32, u32), Span>> = vec![HashMap::new(); dimensions];
    let (mut busy_ps, mut time_ps, mut complete) = (vec![0; dimensions], 0, 0);
    while let Some(now) = engine.next() {
        engine.step(
            |server, span| {
                let Some(dimension) = node.dimension_of(server) else { return };
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
    let sorted = |spans: HashMap<_, Span>| {
        let mut spans: Vec<Span> = spans.into_values().collect();
        spans.sort_by_key(|span| (span.start_ps, span.chunk));
        spans
    };
    Ok(Run { time_ps, spans: spans.into_iter().map(sorted).collect(), busy_ps })
}

#[cfg(test)]
mod tests {
    use super::super::scheduler::{Phased, Scheduler, Themis};
    use super::*;

    fn plan(topology: &Topology, kind: Kind, bytes: Bytes, chunks: u32) -> Plan {
        let mut plan = Plan::uniform(topology, kind, bytes, chunks, false).unwrap();
        Phased.schedule(topology, &mut plan);
        plan
    }

    fn timed(topology: &str, plan_of: impl Fn(&Topology) -> Plan, endpoint: &str) -> Result<Run> {
        let topology = Topology::parse(topology).unwrap();
        run(&topology, &plan_of(&topology), Queue::Oldest, Endpoint::parse(endpoint).unwrap())
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
            let group = Group::whole(&topology);
            Node::new(3, Endpoint::parse(spec).unwrap(), &[(&group, &plan)]).map(|node| node.partition)
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
            let (group, plan) = (Group::whole(&topology), plan(&topology, Kind::AllReduce, 64 << 20, 1024));
            let of =
                |ace: AceEndpoint| Node::new(3, Endpoint::Ace(ace), &[(&group, &plan)]).ok().map(|of| of.partition);
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
        // One each; then the first, three times as slow as the second, is next until it has three. Its fourth needs 2.
        assert_eq!(places(5, &[2, 1, 3], &[10, 3, 1]), [1, 1, 0]);
        assert_eq!(places(11, &[2, 1, 3], &[10, 3, 1]), [3, 1, 1]);
        assert_eq!(places(12, &[2, 1, 3], &[10, 3, 1]), [4, 1, 1]);
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
                (false, Plan::uniform(topology, Kind::AllReduce, 16 << 20, 256, false).unwrap().orders);
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
