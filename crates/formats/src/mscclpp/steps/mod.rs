//! A plan as steps of MSCCL, which are proven and raised to schedules there.
//!
//! A thread block's local operations are steps of a block of the same number. A *wire* does its operations on another
//! GPU: a block beside it that sends, and one at the other GPU that receives. The latter sends an empty message back if
//! the operation ends only with the receipt. A signal is an empty message, and a wait is for its receipt. So a put
//! lands when it is sent or later, and only operations after the signal may rely on it, as in memory.
//!
//! Threads of a thread block meet at a `nop` or a barrier. *Lanes* do the operations between two meetings: blocks
//! beside it that begin where threads have met and are waited for where they meet again. There is one for each
//! operation of all threads, and one for each thread that signals and waits. Packets are waited for chunk by chunk, so
//! each chunk of an operation on packets is a lane of its own.

mod buffers;
mod channels;
mod finish;
mod operations;
mod segments;

use super::model::{MscclppPlan, PlanBlock, PlanGpu};
use crate::msccl::{
    self, Algo, Buffer, Cells, ChunkPlace, MscclBlock, MscclGpu, MscclStep, Names, StepAction, StepGraph, Text,
};
use crate::{bad, fail};
use antiphon_base::error::{Code, Result, nearest};
use antiphon_base::units::{Bytes, clip};
use antiphon_base::watch::Watch;
use antiphon_model::collective::{Collective, Kind};
use antiphon_model::fabric::{Fabric, MAX_RANKS, NodeId};
use antiphon_model::schedule::Schedule;
use std::collections::{BTreeMap, HashMap};

/// Most chunks of a buffer, parts of thread blocks counted apart.
const MAX_CHUNKS: u32 = 1 << 20;
/// Most operations of a thread block.
const MAX_OPERATIONS: usize = 1 << 12;
/// Most steps of all GPUs.
const MAX_STEPS: usize = 1 << 22;
/// Most parts that chunks are cut into for thread blocks.
const MAX_PARTS: u32 = 64;

/// A plan, and its steps.
pub struct PlanSteps {
    algo: Algo,
    /// GPU, thread block and operation of every step, by GPU and block, with the name of the operation.
    origin: Vec<Vec<Vec<Origin>>>,
    operations: Vec<String>,
    /// Steps of a chunk.
    parts: u32,
    /// By GPU: further waits of steps, which can deadlock but order no data: for relaxed signals, and for the operation
    /// before of the same thread.
    loose: Vec<(u32, At, At)>,
    /// Whether there are packets.
    packets: bool,
    /// Puts and gets.
    pub messages: u64,
}

/// Where a step comes from: GPU, thread block, operation, the number of its name, and how often threads had met before.
type Origin = (u32, u32, u32, u32, u32);
/// A block and a step of it.
type At = (u32, u32);
/// Receipts of signals, and waits for them; those that are relaxed keep no order of memory.
type Signals = (Vec<(At, bool)>, Vec<(At, bool)>);
/// By GPU and kind: the peer of every channel, and its number at the peer.
type ChannelEnds = HashMap<(u32, ChannelKind), Vec<(u32, Option<u32>)>>;

impl PlanSteps {
    /// The steps of a plan. Each chunk of packets is a message by itself, or all those of an operation are one
    /// (`together`), which orders more than the plan does. O(operations * chunks that they move as packets).
    ///
    /// # Errors
    /// As [`super::read`]; [`Code::NotProven`] for signals, semaphores and barriers that do not match, and operations that need a `nop` between
    /// them; [`Code::Interrupted`].
    pub fn of(plan: &MscclppPlan, together: bool, watch: Watch) -> Result<PlanSteps> {
        let mut lowering = PlanLowering::new(plan, together)?;
        for (at, gpu) in plan.gpus.iter().enumerate() {
            for block in &gpu.threadblocks {
                watch.step(at, plan.gpus.len())?;
                lowering.block(gpu, block)?;
            }
        }
        lowering.finish()
    }

    /// What it computes.
    pub fn collective(&self) -> Collective {
        self.algo.collective()
    }

    /// Whether it has packets.
    pub fn packets(&self) -> bool {
        self.packets
    }

    /// Proves it.
    ///
    /// # Errors
    /// As [`msccl::prove`].
    pub fn prove(&self, watch: Watch) -> Result<()> {
        if !self.loose.is_empty() {
            let mut algo = self.algo.clone();
            for &(gpu, step, after) in &self.loose {
                algo.gpus[gpu as usize].blocks[step.0 as usize].steps[step.1 as usize].after = Some(after);
            }
            let graph = StepGraph::new(&algo, Some(self), watch)?;
            graph.order(None).map_err(|cycle| graph.deadlock(&cycle))?;
        }
        msccl::check(&StepGraph::new(&self.algo, Some(self), watch)?)?;
        Ok(())
    }

    /// The schedule that it is.
    ///
    /// # Errors
    /// As [`msccl::raise`].
    pub fn raise(&self, fabric: &Fabric, bytes: Bytes, placement: &[NodeId], watch: Watch) -> Result<Schedule> {
        msccl::raise_graph(&StepGraph::new(&self.algo, Some(self), watch)?, fabric, bytes, placement)
    }
}

impl Names for PlanSteps {
    fn step(&self, gpu: u32, block: u32, step: u32) -> String {
        let (gpu, block, at, name, _) = self.origin[gpu as usize][block as usize][step as usize];
        place(gpu, block, at, &self.operations[name as usize])
    }

    fn chunk(&self, offset: u32) -> String {
        chunk_name(offset, self.parts)
    }

    fn unordered(&self, gpu: u32, steps: [(u32, u32); 2]) -> &'static str {
        let of = |(block, step): (u32, u32)| self.origin[gpu as usize][block as usize][step as usize];
        let [(own, block, _, _, met), (other, second, _, _, again)] = steps.map(of);
        match (own, block, met) == (other, second, again) {
            true => ": they have no nop between them, so threads may do both at once",
            false => "",
        }
    }
}

/// A chunk of a plan by the number of one of its parts.
fn chunk_name(offset: u32, parts: u32) -> String {
    match parts {
        1 => offset.to_string(),
        _ => format!("{} (part {} of {parts})", offset / parts, offset % parts + 1),
    }
}

fn place(gpu: u32, block: u32, at: u32, name: &str) -> String {
    format!("gpu {gpu} thread block {block} operation {at} ({name})")
}

/// A kind of channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum ChannelKind {
    Memory,
    Port,
}

impl ChannelKind {
    const ALL: [ChannelKind; 2] = [ChannelKind::Memory, ChannelKind::Port];

    fn name(self) -> &'static str {
        match self {
            ChannelKind::Memory => "memory",
            ChannelKind::Port => "port",
        }
    }
}

/// Operations of a thread block that go one way, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Wire {
    /// Its own stores to and loads from a peer.
    Memory(u32),
    /// Signals of a channel in memory.
    Signal(u32),
    /// All operations by a port channel.
    Port(u32),
}

/// Where a wire begins and ends.
#[derive(Debug, Clone, Copy)]
struct WireEnds {
    here: u32,
    peer: u32,
    there: u32,
}

/// Chunks of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ChunkRange {
    gpu: u32,
    place: ChunkPlace,
    count: u32,
}

impl ChunkRange {
    /// Some of its chunks, by a first one and a number.
    fn part(&self, first: u32, count: u32) -> ChunkRange {
        let place = ChunkPlace { offset: self.place.offset + first, ..self.place };
        ChunkRange { place, count, ..*self }
    }
}

/// The work of a thread block between two meetings of its threads.
#[derive(Default)]
struct ThreadSegment {
    /// Where they met.
    start: Option<At>,
    /// The lanes used since, and how many of them are of all threads.
    lanes: Vec<u32>,
    shared: usize,
    /// The last lane of all threads.
    last: Option<u32>,
    /// Lanes of single threads that have done something since then, or before.
    threads: Vec<u32>,
    /// By kind, number and way: the thread that uses a channel or semaphore, and its operation.
    users: HashMap<(ThreadResource, u32, bool), (usize, u32)>,
}

/// A resource that one thread uses alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ThreadResource {
    Channel(ChannelKind),
    Semaphore,
}

/// The thread blocks that meet at a barrier.
#[derive(Default)]
struct Barrier {
    blocks: u32,
    /// By thread block: the steps before and after each time.
    times: BTreeMap<u32, Vec<(u32, u32)>>,
}

/// The steps that release a semaphore and that acquire it.
#[derive(Default)]
struct SemaphoreUses {
    releases: Vec<At>,
    acquires: Vec<At>,
}

/// Reading a plan.
struct PlanLowering<'a> {
    plan: &'a MscclppPlan,
    /// Parts of a chunk.
    parts: u32,
    algo: Algo,
    cells: Cells,
    origin: Vec<Vec<Vec<Origin>>>,
    operations: Vec<String>,
    numbers: HashMap<String, u32>,
    steps: usize,
    /// The GPU, thread block and operation at hand.
    at: Origin,
    /// Whether chunks of packets go together.
    together: bool,
    segment: ThreadSegment,
    /// The block that does steps now, and those that do them for the thread block: lanes of all threads, and of single ones.
    lane: u32,
    lanes: [Vec<u32>; 2],
    /// How often threads of the thread block have met.
    met: u32,
    /// By GPU and kind: peer of every channel, and its number at the peer.
    channels: ChannelEnds,
    wires: HashMap<(u32, u32, Wire), WireEnds>,
    /// By GPU, kind, number and whether it waits: the thread block that uses a channel.
    users: HashMap<(u32, ChannelKind, u32, bool), u32>,
    /// By GPU, kind and number of a channel: receipts of signals, and waits for them.
    signals: BTreeMap<(u32, ChannelKind, u32), Signals>,
    barriers: BTreeMap<(u32, u32), Barrier>,
    semaphores: BTreeMap<(u32, u32), SemaphoreUses>,
    /// By cell: who writes it as a packet, and who reads it so.
    packets: HashMap<usize, At>,
    readers: Vec<(u32, usize, At)>,
    loose: Vec<(u32, At, At)>,
    /// By GPU: whether scratch is used for packets, and for plain data.
    scratch: Vec<[bool; 2]>,
    messages: u64,
}

const UNUSED: ChunkPlace = ChunkPlace { buffer: Buffer::Input, offset: 0 };

impl<'a> PlanLowering<'a> {
    fn new(plan: &'a MscclppPlan, together: bool) -> Result<Self> {
        let (parts, algo) = empty_program(plan)?;
        let origin = plan.gpus.iter().map(|gpu| vec![vec![]; gpu.threadblocks.len()]).collect();
        let cells = algo.cells(plan.inplace);
        Ok(PlanLowering {
            plan,
            parts,
            cells,
            algo,
            origin,
            operations: vec![],
            numbers: HashMap::new(),
            steps: 0,
            at: (0, 0, 0, 0, 0),
            together,
            segment: ThreadSegment::default(),
            lane: 0,
            lanes: [vec![], vec![]],
            met: 0,
            channels: channels::ends(plan)?,
            wires: HashMap::new(),
            users: HashMap::new(),
            signals: BTreeMap::new(),
            barriers: BTreeMap::new(),
            semaphores: BTreeMap::new(),
            packets: HashMap::new(),
            readers: vec![],
            loose: vec![],
            scratch: vec![[false; 2]; plan.gpus.len()],
            messages: 0,
        })
    }

    fn block(&mut self, gpu: &PlanGpu, block: &PlanBlock) -> Result<()> {
        (self.segment, self.lane, self.lanes) = (ThreadSegment::default(), block.id, [vec![], vec![]]);
        self.met = 0;
        for (at, op) in (0..).zip(&block.ops) {
            let next = self.operations.len() as u32;
            let name = *self.numbers.entry(clip(&op.name)).or_insert(next);
            if name == next {
                self.operations.push(clip(&op.name));
            }
            self.at = (gpu.id, block.id, at, name, self.met);
            self.operation(gpu, block, op).map_err(|error| {
                let here = place(gpu.id, block.id, at, &clip(&op.name));
                // A race names both operations itself.
                if error.message.starts_with("race: ") { error } else { error.at(here) }
            })?;
        }
        Ok(())
    }

    /// Adds a step to a block of a GPU.
    fn add(
        &mut self,
        gpu: u32,
        block: u32,
        action: StepAction,
        ends: (ChunkPlace, ChunkPlace),
        count: u32,
        after: Option<At>,
    ) -> At {
        let (src, dst) = ends;
        let steps = &mut self.algo.gpus[gpu as usize].blocks[block as usize].steps;
        steps.push(MscclStep { action, src, dst, count, after, awaited: true });
        let at = (block, steps.len() as u32 - 1);
        self.origin[gpu as usize][block as usize].push(self.at);
        self.steps += 1;
        at
    }

    /// A step of the lane at hand that only waits.
    fn wait(&mut self, after: Option<At>) -> At {
        self.add(self.at.0, self.lane, StepAction::Nop, (UNUSED, UNUSED), 0, after)
    }

    /// A step of the lane at hand that waits for something that orders no data.
    fn wait_loosely(&mut self, after: At) {
        let step = self.wait(None);
        self.loose.push((self.at.0, step, after));
    }

    fn own(&mut self, action: StepAction, src: ChunkRange, dst: ChunkRange) -> At {
        self.add(self.at.0, self.lane, action, (src.place, dst.place), dst.count, None)
    }

    fn new_block(&mut self, gpu: u32, block: MscclBlock) -> u32 {
        let blocks = &mut self.algo.gpus[gpu as usize].blocks;
        blocks.push(block);
        self.origin[gpu as usize].push(vec![]);
        blocks.len() as u32 - 1
    }

    fn last_of(&self, lane: u32) -> At {
        (lane, self.algo.gpus[self.at.0 as usize].blocks[lane as usize].steps.len() as u32 - 1)
    }

    fn wire(&mut self, wire: Wire, peer: u32) -> WireEnds {
        let (gpu, block, ..) = self.at;
        // A channel keeps the order of all its sends, of whichever lane.
        let key = (gpu, if matches!(wire, Wire::Memory(_)) { self.lane } else { block }, wire);
        if let Some(&ends) = self.wires.get(&key) {
            return ends;
        }
        let channel = self.wires.len() as u32;
        let end = |peer: u32| MscclBlock { send: Some(peer), recv: Some(peer), channel, steps: vec![] };
        let ends = WireEnds { here: self.new_block(gpu, end(peer)), peer, there: self.new_block(peer, end(gpu)) };
        self.wires.insert(key, ends);
        ends
    }

    /// An empty message there, for all that came before; gives its receipt.
    fn notify(&mut self, ends: WireEnds, after: At) -> At {
        let gpu = self.at.0;
        self.add(gpu, ends.here, StepAction::Send, (UNUSED, UNUSED), 0, Some(after));
        self.add(ends.peer, ends.there, StepAction::Receive, (UNUSED, UNUSED), 0, None)
    }

    /// An empty message back, for all that came before; gives its receipt.
    fn acknowledge(&mut self, ends: WireEnds) -> At {
        self.add(ends.peer, ends.there, StepAction::Send, (UNUSED, UNUSED), 0, None);
        self.add(self.at.0, ends.here, StepAction::Receive, (UNUSED, UNUSED), 0, None)
    }

    /// Data there; gives the steps that read and that write them.
    fn store(&mut self, ends: WireEnds, src: ChunkRange, dst: ChunkRange) -> (At, At) {
        let after = self.wait(None);
        let read = self.add(self.at.0, ends.here, StepAction::Send, (src.place, UNUSED), src.count, Some(after));
        (read, self.add(ends.peer, ends.there, StepAction::Receive, (UNUSED, dst.place), dst.count, None))
    }

    /// Stores to a peer's memory, which is done when the operation is.
    fn put(&mut self, src: ChunkRange, dst: ChunkRange) {
        let ends = self.wire(Wire::Memory(dst.gpu), dst.gpu);
        self.store(ends, src, dst);
        let done = self.acknowledge(ends);
        self.wait(Some(done));
    }

    /// Loads from a peer's memory, and adds `added`, if anything.
    fn get(&mut self, src: ChunkRange, added: Option<ChunkRange>, dst: ChunkRange) {
        let ends = self.wire(Wire::Memory(src.gpu), src.gpu);
        let after = self.wait(None);
        self.notify(ends, after);
        self.add(ends.peer, ends.there, StepAction::Send, (src.place, UNUSED), src.count, None);
        let action = if added.is_some() { StepAction::ReceiveReduceCopy } else { StepAction::Receive };
        let places = (added.map_or(UNUSED, |range| range.place), dst.place);
        let done = self.add(self.at.0, ends.here, action, places, dst.count, None);
        self.wait(Some(done));
    }

    /// Adds local ranges up.
    fn sum(&mut self, srcs: &[ChunkRange], dst: ChunkRange) {
        let base = srcs.iter().position(|src| *src == dst);
        if base.is_none() {
            self.own(StepAction::Copy, srcs[0], dst);
        }
        for (at, &src) in srcs.iter().enumerate() {
            if at != base.unwrap_or(0) {
                self.own(StepAction::Reduce, src, dst);
            }
        }
    }
}

/// Parts of a chunk, and the program of a plan with blocks that have no steps yet.
fn empty_program(plan: &MscclppPlan) -> Result<(u32, Algo)> {
    let ranks = plan.gpus.len();
    if !(2..=MAX_RANKS).contains(&ranks) {
        return bad(format!("{ranks} gpus, expected 2 to {MAX_RANKS}"));
    }
    let Some(kind) = msccl::kind_of(&plan.collective) else {
        let names = Kind::ALL.map(|kind| kind.name().replace('-', ""));
        let near = nearest(&plan.collective, names.iter().map(String::as_str));
        return bad(format!("collective is '{}'{near}; known: {}", clip(&plan.collective), names.join(", ")));
    };
    if !["Simple", "LL"].contains(&&plan.protocol[..]) {
        return bad(format!("protocol is '{}', expected Simple or LL", clip(&plan.protocol)));
    }
    let parts = parts_of(plan)?;
    let first = &plan.gpus[0];
    let chunks = if kind == Kind::AllGather { first.output_chunks } else { first.input_chunks };
    if !(1..=MAX_CHUNKS / parts).contains(&chunks) {
        return bad(format!("{chunks} chunks, expected 1 to {}", MAX_CHUNKS / parts));
    }
    if matches!(kind, Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll) && !chunks.is_multiple_of(ranks as u32) {
        return bad(format!("{chunks} chunks are no whole number for each of {ranks} ranks"));
    }
    let size = |buffer| msccl::buffer_size(kind, chunks, ranks as u32, buffer).unwrap_or(0);
    let (input, output) = (size(Buffer::Input), size(Buffer::Output));
    let gpu = |(id, gpu): (u32, &PlanGpu)| {
        check_gpu(plan, id, gpu, parts)?;
        for (what, found, size) in [("input", gpu.input_chunks, input), ("output", gpu.output_chunks, output)] {
            // In place one of the two may not be spoken of.
            if found != size && !(plan.inplace && found == 0) {
                return bad(format!("gpu {id} has {found} {what}_chunks, expected {size} for {}", kind.name()));
            }
        }
        let blocks = vec![MscclBlock::default(); gpu.threadblocks.len()];
        Ok(MscclGpu { input: input * parts, output: output * parts, scratch: gpu.scratch_chunks * parts, blocks })
    };
    let algo = Algo {
        name: plan.name.clone(),
        proto: plan.protocol.clone(),
        channels: 1,
        chunks: chunks * parts,
        kind,
        in_place: plan.inplace,
        out_of_place: !plan.inplace,
        min_bytes: plan.min_message_size,
        max_bytes: plan.max_message_size,
        text: Text::default(),
        gpus: (0..).zip(&plan.gpus).map(gpu).collect::<Result<_>>()?,
    };
    Ok((parts, algo))
}

/// Parts that chunks are cut into, so that each thread block's share is a whole number of them.
fn parts_of(plan: &MscclppPlan) -> Result<u32> {
    let mut parts = 1u32;
    for op in plan.gpus.iter().flat_map(|gpu| &gpu.threadblocks).flat_map(|block| &block.ops) {
        let size = op.tbg_info.map_or(1, |part| part.tbg_size).max(1);
        let (mut a, mut b) = (parts, size);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        parts = (parts / a).saturating_mul(size);
        if parts > MAX_PARTS {
            let what = format!("thread blocks share chunks in {parts} parts, at most {MAX_PARTS} are followed");
            return fail(Code::TooLarge, what);
        }
    }
    Ok(parts)
}

/// Checks ids and sizes of a GPU.
fn check_gpu(plan: &MscclppPlan, id: u32, gpu: &PlanGpu, parts: u32) -> Result<()> {
    let (place, most) = (format!("gpu {id}"), MAX_CHUNKS / parts);
    if gpu.id != id {
        return bad(format!("{place} has id {}; ids are in order from 0", gpu.id));
    }
    if gpu.scratch_chunks > most {
        return bad(format!("{place} has {} scratch_chunks, at most {most}", gpu.scratch_chunks));
    }
    if plan.reuse_resources && gpu.scratch_chunks > 0 {
        let what = "reuse_resources: scratch that is smaller than its chunks is not followed by the proof";
        return fail(Code::NotApplicable, what);
    }
    for (at, block) in gpu.threadblocks.iter().enumerate() {
        if block.id as usize != at {
            return bad(format!("{place}: thread block {at} has id {}; ids are in order from 0", block.id));
        }
        if block.ops.len() > MAX_OPERATIONS {
            let (many, most) = (block.ops.len(), MAX_OPERATIONS);
            return fail(Code::TooLarge, format!("{place} thread block {at} has {many} operations, at most {most}"));
        }
    }
    Ok(())
}
