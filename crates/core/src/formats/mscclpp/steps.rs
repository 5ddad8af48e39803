//! A plan as steps of MSCCL, whose proof and way back to a schedule are used.
//!
//! What a thread block does itself are steps of a block of the same number. What it does to another GPU is done by a *wire*: a block
//! beside it that sends, and one at the other GPU that receives and, for what is done when the operation is, sends an empty message
//! back. A signal is an empty message; a wait is for its receipt. So a put lands when it is sent or later, and what may rest on
//! it is only what comes after the signal, as in memory.

use super::model::{Block as PlanBlock, Chunks, Gpu as PlanGpu, Operation, Plan};
use crate::collective::{Collective, Kind};
use crate::error::{Code, Error, Result, nearest};
use crate::fabric::{Fabric, MAX_RANKS, NodeId};
use crate::formats::msccl::{self, Action, Algo, Block, Buffer, Cells, Gpu, Graph, Place, Step};
use crate::schedule::Schedule;
use crate::units::{Bytes, clip};
use std::collections::{BTreeMap, HashMap};

/// Most chunks of a buffer, parts of thread blocks counted apart.
const MAX_CHUNKS: u32 = 1 << 20;
/// Most operations of a thread block.
const MAX_OPERATIONS: usize = 1 << 12;
/// Most steps of all GPUs.
const MAX_STEPS: usize = 1 << 22;
/// Most parts that chunks are cut into for thread blocks.
const MAX_PARTS: u32 = 64;

/// Operations of the executor that the proof does not follow.
const OTHERS: [&str; 3] = ["glres", "gstore", "pipeline"];
/// Those that it follows.
const KNOWN: [&str; 25] = [
    "nop",
    "barrier",
    "signal",
    "wait",
    "rlxsignal",
    "rlxwait",
    "flush",
    "sem_acquire",
    "sem_release",
    "put",
    "pws",
    "pwsf",
    "get",
    "copy",
    "re",
    "res",
    "rre",
    "rres",
    "ppkt",
    "rppkt",
    "upkt",
    "cpkt",
    "repkt",
    "respkt",
    "recpkt",
];
/// Sends what it adds and copies, as packets.
const REDUCE_COPY_SEND: &str = "recspkt";

/// A plan, and its steps.
pub struct Steps {
    algo: Algo,
    /// GPU, thread block and operation of every step, by GPU and block, with the name of the operation.
    origin: Vec<Vec<Vec<Origin>>>,
    operations: Vec<String>,
    /// By GPU: waits for relaxed signals, which can deadlock too, but order nothing else.
    relaxed: Vec<(u32, At, At)>,
    /// Puts and gets.
    pub messages: u64,
}

/// Where a step comes from: GPU, thread block, operation and the number of its name.
type Origin = (u32, u32, u32, u32);
/// A block and a step of it.
type At = (u32, u32);
/// Receipts of signals, and waits for them; those that are relaxed keep no order of memory.
type Signals = (Vec<(At, bool)>, Vec<(At, bool)>);
/// By GPU and kind: the peer of every channel, and its number at the peer.
type Channels = HashMap<(u32, Way), Vec<(u32, Option<u32>)>>;

impl Steps {
    /// The steps of a plan. O(operations * chunks that they read as packets).
    ///
    /// # Errors
    /// As [`super::read`]; [`Code::NotProven`] for signals, semaphores and barriers that do not match, and operations that need a `nop` between
    /// them.
    pub fn of(plan: &Plan) -> Result<Steps> {
        let mut lowering = Lowering::new(plan)?;
        for gpu in &plan.gpus {
            for block in &gpu.threadblocks {
                lowering.block(gpu, block)?;
            }
        }
        lowering.finish()
    }

    /// What it computes.
    pub fn collective(&self) -> Collective {
        self.algo.collective()
    }

    fn name(&self, gpu: u32, block: u32, step: u32) -> String {
        let (gpu, block, at, name) = self.origin[gpu as usize][block as usize][step as usize];
        place(gpu, block, at, &self.operations[name as usize])
    }

    /// Proves it.
    ///
    /// # Errors
    /// As [`msccl::prove`].
    pub fn prove(&self) -> Result<()> {
        let names = |gpu, block, step| self.name(gpu, block, step);
        if !self.relaxed.is_empty() {
            let mut algo = self.algo.clone();
            for &(gpu, wait, signal) in &self.relaxed {
                algo.gpus[gpu as usize].blocks[wait.0 as usize].steps[wait.1 as usize].after = Some(signal);
            }
            let graph = Graph::new(&algo, Some(&names))?;
            graph.order(None).map_err(|cycle| graph.deadlock(&cycle))?;
        }
        msccl::check(&Graph::new(&self.algo, Some(&names))?)?;
        Ok(())
    }

    /// The schedule that it is.
    ///
    /// # Errors
    /// As [`msccl::raise`].
    pub fn raise(&self, fabric: &Fabric, bytes: Bytes, placement: &[NodeId]) -> Result<Schedule> {
        let names = |gpu, block, step| self.name(gpu, block, step);
        msccl::raise_graph(&Graph::new(&self.algo, Some(&names))?, fabric, bytes, placement)
    }
}

fn place(gpu: u32, block: u32, at: u32, name: &str) -> String {
    format!("gpu {gpu} thread block {block} operation {at} ({name})")
}

fn fail<T>(code: Code, what: impl AsRef<str>) -> Result<T> {
    Err(Error::new(code, what))
}

fn bad<T>(what: impl AsRef<str>) -> Result<T> {
    fail(Code::BadFile, what)
}

/// A kind of channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Way {
    Memory,
    Port,
}

impl Way {
    const ALL: [Way; 2] = [Way::Memory, Way::Port];

    fn name(self) -> &'static str {
        match self {
            Way::Memory => "memory",
            Way::Port => "port",
        }
    }
}

/// What goes one way from a thread block, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Wire {
    /// What it stores and loads itself, with a peer.
    Memory(u32),
    /// Signals of a channel in memory.
    Signal(u32),
    /// All that goes by a channel of a port.
    Port(u32),
}

/// Where a wire begins and ends.
#[derive(Debug, Clone, Copy)]
struct Ends {
    here: u32,
    peer: u32,
    there: u32,
}

/// Chunks of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    gpu: u32,
    place: Place,
    count: u32,
}

/// What threads may do at once: what has been begun since they last met.
#[derive(Default)]
struct Segment {
    /// The last that moves data, and the last that threads must have waited for.
    data: Option<u32>,
    waited: Option<u32>,
    /// GPU, first cell, cells, whether it is written, and by which operation.
    uses: Vec<(usize, usize, bool, u32)>,
}

/// Who meets at a barrier.
#[derive(Default)]
struct Barrier {
    blocks: u32,
    /// By thread block: the steps before and after each time.
    times: BTreeMap<u32, Vec<(u32, u32)>>,
}

/// Who releases a semaphore and who acquires it.
#[derive(Default)]
struct Uses {
    releases: Vec<At>,
    acquires: Vec<At>,
}

/// Reading a plan.
struct Lowering<'a> {
    plan: &'a Plan,
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
    segment: Segment,
    /// By GPU and kind: peer of every channel, and its number at the peer.
    channels: Channels,
    wires: HashMap<(u32, u32, Wire), Ends>,
    /// By GPU, kind and number: the thread block that uses a channel.
    users: HashMap<(u32, Way, u32), u32>,
    /// By GPU, kind and number of a channel: receipts of signals, and waits for them.
    signals: BTreeMap<(u32, Way, u32), Signals>,
    barriers: BTreeMap<(u32, u32), Barrier>,
    semaphores: BTreeMap<(u32, u32), Uses>,
    /// By cell: who writes it as a packet, and who reads it so.
    packets: HashMap<usize, At>,
    readers: Vec<(u32, usize, At)>,
    relaxed: Vec<(u32, At, At)>,
    /// By GPU: whether scratch is used for packets, and for plain data.
    scratch: Vec<[bool; 2]>,
    messages: u64,
}

const UNUSED: Place = Place { buffer: Buffer::Input, offset: 0 };

impl<'a> Lowering<'a> {
    fn new(plan: &'a Plan) -> Result<Self> {
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
        let first = &plan.gpus[0];
        let chunks = if kind == Kind::AllGather { first.output_chunks } else { first.input_chunks };
        if !(1..=MAX_CHUNKS / parts).contains(&chunks) {
            return bad(format!("{chunks} chunks, expected 1 to {}", MAX_CHUNKS / parts));
        }
        if matches!(kind, Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll)
            && !chunks.is_multiple_of(ranks as u32)
        {
            return bad(format!("{chunks} chunks are no whole number for each of {ranks} ranks"));
        }
        let mut gpus = vec![];
        for (id, gpu) in (0..).zip(&plan.gpus) {
            let place = format!("gpu {id}");
            if gpu.id != id {
                return bad(format!("{place} has id {}; ids are in order from 0", gpu.id));
            }
            let size = |buffer| msccl::buffer_size(kind, chunks, ranks as u32, buffer).unwrap_or(0);
            let (input, output) = (size(Buffer::Input), size(Buffer::Output));
            for (what, found, size) in [("input", gpu.input_chunks, input), ("output", gpu.output_chunks, output)] {
                // In place one of the two may not be spoken of.
                if found != size && !(plan.inplace && found == 0) {
                    return bad(format!("{place} has {found} {what}_chunks, expected {size} for {}", kind.name()));
                }
            }
            if gpu.scratch_chunks > MAX_CHUNKS / parts {
                return bad(format!(
                    "{place} has {} scratch_chunks, at most {}",
                    gpu.scratch_chunks,
                    MAX_CHUNKS / parts
                ));
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
                    return fail(
                        Code::TooLarge,
                        format!("{place} thread block {at} has {many} operations, at most {most}"),
                    );
                }
            }
            let blocks = vec![Block::default(); gpu.threadblocks.len()];
            gpus.push(Gpu {
                input: input * parts,
                output: output * parts,
                scratch: gpu.scratch_chunks * parts,
                blocks,
            });
        }
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
            gpus,
        };
        let origin = plan.gpus.iter().map(|gpu| vec![vec![]; gpu.threadblocks.len()]).collect();
        let cells = algo.cells(plan.inplace);
        Ok(Lowering {
            plan,
            parts,
            cells,
            algo,
            origin,
            operations: vec![],
            numbers: HashMap::new(),
            steps: 0,
            at: (0, 0, 0, 0),
            segment: Segment::default(),
            channels: channels(plan)?,
            wires: HashMap::new(),
            users: HashMap::new(),
            signals: BTreeMap::new(),
            barriers: BTreeMap::new(),
            semaphores: BTreeMap::new(),
            packets: HashMap::new(),
            readers: vec![],
            relaxed: vec![],
            scratch: vec![[false; 2]; ranks],
            messages: 0,
        })
    }

    fn block(&mut self, gpu: &PlanGpu, block: &PlanBlock) -> Result<()> {
        self.segment = Segment::default();
        for (at, op) in (0..).zip(&block.ops) {
            let next = self.operations.len() as u32;
            let name = *self.numbers.entry(clip(&op.name)).or_insert(next);
            if name == next {
                self.operations.push(clip(&op.name));
            }
            self.at = (gpu.id, block.id, at, name);
            self.operation(gpu, block, op).map_err(|error| {
                let here = place(gpu.id, block.id, at, &clip(&op.name));
                // What is unordered names both operations.
                if error.message.starts_with("race: ") { error } else { error.at(here) }
            })?;
        }
        Ok(())
    }

    /// Adds a step to a block of a GPU.
    fn add(&mut self, gpu: u32, block: u32, action: Action, ends: (Place, Place), count: u32, after: Option<At>) -> At {
        let (src, dst) = ends;
        let steps = &mut self.algo.gpus[gpu as usize].blocks[block as usize].steps;
        steps.push(Step { action, src, dst, count, after, awaited: true });
        let at = (block, steps.len() as u32 - 1);
        self.origin[gpu as usize][block as usize].push(self.at);
        self.steps += 1;
        at
    }

    /// A step of the thread block itself that only waits.
    fn wait(&mut self, after: Option<At>) -> At {
        let (gpu, block, ..) = self.at;
        self.add(gpu, block, Action::Nop, (UNUSED, UNUSED), 0, after)
    }

    fn own(&mut self, action: Action, src: Range, dst: Range) -> At {
        let (gpu, block, ..) = self.at;
        self.add(gpu, block, action, (src.place, dst.place), dst.count, None)
    }

    fn wire(&mut self, wire: Wire, peer: u32) -> Ends {
        let (gpu, block, ..) = self.at;
        if let Some(&ends) = self.wires.get(&(gpu, block, wire)) {
            return ends;
        }
        let channel = self.wires.len() as u32;
        let mut new = |gpu: u32, peer: u32| {
            let blocks = &mut self.algo.gpus[gpu as usize].blocks;
            blocks.push(Block { send: Some(peer), recv: Some(peer), channel, steps: vec![] });
            self.origin[gpu as usize].push(vec![]);
            blocks.len() as u32 - 1
        };
        let ends = Ends { here: new(gpu, peer), peer, there: new(peer, gpu) };
        self.wires.insert((gpu, block, wire), ends);
        ends
    }

    /// An empty message there, for all that came before; gives its receipt.
    fn notify(&mut self, ends: Ends, after: At) -> At {
        let gpu = self.at.0;
        self.add(gpu, ends.here, Action::Send, (UNUSED, UNUSED), 0, Some(after));
        self.add(ends.peer, ends.there, Action::Receive, (UNUSED, UNUSED), 0, None)
    }

    /// An empty message back, for all that came before; gives its receipt.
    fn acknowledge(&mut self, ends: Ends) -> At {
        self.add(ends.peer, ends.there, Action::Send, (UNUSED, UNUSED), 0, None);
        self.add(self.at.0, ends.here, Action::Receive, (UNUSED, UNUSED), 0, None)
    }

    /// Data there; gives the steps that read and that write them.
    fn store(&mut self, ends: Ends, src: Range, dst: Range) -> (At, At) {
        let after = self.wait(None);
        self.messages += 1;
        let read = self.add(self.at.0, ends.here, Action::Send, (src.place, UNUSED), src.count, Some(after));
        (read, self.add(ends.peer, ends.there, Action::Receive, (UNUSED, dst.place), dst.count, None))
    }

    /// Stores to a peer's memory, which is done when the operation is.
    fn put(&mut self, src: Range, dst: Range) {
        let ends = self.wire(Wire::Memory(dst.gpu), dst.gpu);
        self.store(ends, src, dst);
        let done = self.acknowledge(ends);
        self.wait(Some(done));
    }

    /// Loads from a peer's memory, and adds `added`, if anything.
    fn get(&mut self, src: Range, added: Option<Range>, dst: Range) {
        let ends = self.wire(Wire::Memory(src.gpu), src.gpu);
        let after = self.wait(None);
        self.notify(ends, after);
        self.messages += 1;
        self.add(ends.peer, ends.there, Action::Send, (src.place, UNUSED), src.count, None);
        let action = if added.is_some() { Action::ReceiveReduceCopy } else { Action::Receive };
        let places = (added.map_or(UNUSED, |range| range.place), dst.place);
        let done = self.add(self.at.0, ends.here, action, places, dst.count, None);
        self.wait(Some(done));
    }

    /// Adds local ranges up.
    fn sum(&mut self, srcs: &[Range], dst: Range) {
        let base = srcs.iter().position(|src| *src == dst);
        if base.is_none() {
            self.own(Action::Copy, srcs[0], dst);
        }
        for (at, &src) in srcs.iter().enumerate() {
            if at != base.unwrap_or(0) {
                self.own(Action::Reduce, src, dst);
            }
        }
    }

    fn operation(&mut self, gpu: &PlanGpu, block: &PlanBlock, op: &Operation) -> Result<()> {
        if self.steps > MAX_STEPS {
            return fail(Code::TooLarge, format!("more than {MAX_STEPS} steps"));
        }
        if let Some(part) = op.tbg_info.filter(|part| part.tb_id >= part.tbg_size) {
            return bad(format!("tbg_info: part {} of {}", part.tb_id, part.tbg_size));
        }
        if let Some(name) = op.reduce_op.as_deref().filter(|name| *name != "sum") {
            return fail(Code::NotApplicable, format!("reduce_op is '{}'; the proof follows sums", clip(name)));
        }
        let way = match op.channel_type.as_deref() {
            Some("memory") | Some("none") | None => Way::Memory,
            Some("port") => Way::Port,
            Some("switch") => return fail(Code::NotApplicable, "switch channels are not followed by the proof"),
            Some(other) => return bad(format!("channel_type is '{}', expected memory or port", clip(other))),
        };
        match &op.name[..] {
            "nop" => {
                self.segment = Segment::default();
                Ok(())
            }
            "barrier" => self.barrier(op),
            "signal" | "wait" | "flush" | "rlxsignal" | "rlxwait" => {
                let relaxed = op.name.starts_with("rlx");
                if !relaxed {
                    self.meet(op.name != "signal")?;
                }
                for &id in &op.channel_ids {
                    let channel = self.channel(block, way, id)?;
                    match &op.name[..] {
                        "signal" | "rlxsignal" => self.signal(way, channel, relaxed)?,
                        "wait" | "rlxwait" => {
                            let step = self.wait(None);
                            self.signals.entry((gpu.id, way, channel)).or_default().1.push((step, relaxed));
                        }
                        _ => self.flush(way, channel)?,
                    }
                }
                if op.channel_ids.is_empty() { bad("channel_ids is missing") } else { Ok(()) }
            }
            "sem_acquire" | "sem_release" => {
                self.meet(op.name == "sem_acquire")?;
                for &id in &op.semaphore_ids {
                    if id as usize >= gpu.semaphores.len() {
                        return bad(format!("semaphore {id}, gpu {} has {}", gpu.id, gpu.semaphores.len()));
                    }
                    let step = self.wait(None);
                    let uses = self.semaphores.entry((gpu.id, id)).or_default();
                    if op.name == "sem_acquire" { uses.acquires.push(step) } else { uses.releases.push(step) }
                }
                if op.semaphore_ids.is_empty() { bad("semaphore_ids is missing") } else { Ok(()) }
            }
            "put" | "pws" | "pwsf" | "ppkt" => self.puts(gpu, block, op, way),
            "get" => {
                let (srcs, dsts) =
                    (self.remotes(gpu, block, op, &op.src_buff, way)?, self.locals(gpu, op, &op.dst_buff)?);
                let pairs = pairs(&srcs, &dsts)?;
                self.plain(&dsts, &srcs)?;
                pairs.into_iter().for_each(|(src, dst)| self.get(src, None, dst));
                Ok(())
            }
            "copy" | "upkt" | "cpkt" => {
                let (srcs, dsts) = (self.locals(gpu, op, &op.src_buff)?, self.locals(gpu, op, &op.dst_buff)?);
                let [(src, dst)] = pairs(&srcs, &dsts)?[..] else {
                    return bad("expected one src_buff and one dst_buff");
                };
                let (reads, writes) = (op.name == "upkt", op.name == "cpkt");
                self.plain(if writes { &[] } else { &dsts }, if reads { &[] } else { &srcs })?;
                if reads {
                    self.read_packets(src)?;
                }
                let step = self.own(Action::Copy, src, dst);
                if writes { self.packets_at(dst, step) } else { Ok(()) }
            }
            "re" | "res" | "rre" | "rres" => self.reduce(gpu, block, op, way),
            "repkt" | "respkt" | "recpkt" | REDUCE_COPY_SEND => self.reduce_packets(gpu, block, op, way),
            "rppkt" => {
                let srcs = self.locals(gpu, op, &op.src_buff)?;
                let dsts = self.remotes(gpu, block, op, &op.dst_buff, way)?;
                let [src] = srcs[..] else { return bad("expected one src_buff") };
                same_size(src, &dsts)?;
                self.plain(&[], &[])?;
                self.read_packets(src)?;
                self.send_packets(block, op, way, &vec![src; dsts.len()], &dsts)
            }
            other if OTHERS.contains(&other) => fail(
                Code::NotApplicable,
                format!("'{other}' is not followed by the proof; known: {}", KNOWN.join(", ")),
            ),
            other => {
                let near = nearest(other, KNOWN);
                bad(format!("no operation '{}'{near}; known: {}", clip(other), KNOWN.join(", ")))
            }
        }
    }

    fn puts(&mut self, gpu: &PlanGpu, block: &PlanBlock, op: &Operation, way: Way) -> Result<()> {
        let (srcs, dsts) = (self.locals(gpu, op, &op.src_buff)?, self.remotes(gpu, block, op, &op.dst_buff, way)?);
        let pairs = pairs(&srcs, &dsts)?;
        if op.name == "ppkt" {
            self.plain(&[], if way == Way::Memory { &srcs } else { &[] })?;
            return self.send_packets(block, op, way, &srcs, &dsts);
        }
        // A single put by a port is done by the thread that signals and waits.
        let alone = way == Way::Port && pairs.len() == 1;
        let before = (self.segment.data, self.segment.waited.take_if(|_| alone));
        self.plain(&dsts, &srcs)?;
        if alone {
            (self.segment.data, self.segment.waited) = before;
        }
        if way == Way::Memory {
            if op.name != "put" {
                return bad("it signals, which only puts by port channels do; expected put, nop, signal");
            }
            pairs.into_iter().for_each(|(src, dst)| self.put(src, dst));
            return Ok(());
        }
        if op.channel_ids.len() != pairs.len() {
            return bad(format!("{} channel_ids for {} puts", op.channel_ids.len(), pairs.len()));
        }
        for (&id, (src, dst)) in op.channel_ids.iter().zip(pairs) {
            let channel = self.channel(block, way, id)?;
            let ends = self.port(channel, dst.gpu)?;
            self.store(ends, src, dst);
            self.acknowledge(ends);
            if op.name != "put" {
                self.signal(way, channel, false)?;
            }
            if op.name == "pwsf" {
                self.flush(way, channel)?;
            }
        }
        Ok(())
    }

    fn send_packets(
        &mut self,
        block: &PlanBlock,
        op: &Operation,
        way: Way,
        srcs: &[Range],
        dsts: &[Range],
    ) -> Result<()> {
        if way == Way::Port && op.channel_ids.len() != dsts.len() {
            return bad(format!("{} channel_ids for {} puts", op.channel_ids.len(), dsts.len()));
        }
        for (at, (&src, &dst)) in srcs.iter().zip(dsts).enumerate() {
            let ends = match way {
                Way::Memory => self.wire(Wire::Memory(dst.gpu), dst.gpu),
                Way::Port => {
                    let channel = self.channel(block, way, op.channel_ids[at])?;
                    self.port(channel, dst.gpu)?
                }
            };
            let (read, written) = self.store(ends, src, dst);
            match way {
                Way::Memory => drop(self.wait(Some(read))),
                Way::Port => drop(self.acknowledge(ends)),
            }
            self.packets_at(dst, written)?;
        }
        Ok(())
    }

    fn reduce(&mut self, gpu: &PlanGpu, block: &PlanBlock, op: &Operation, way: Way) -> Result<()> {
        let reads = op.name.starts_with("rr");
        let sends = op.name.ends_with('s');
        let (Some((src, others)), Some((dst, targets))) = (op.src_buff.split_first(), op.dst_buff.split_first()) else {
            return bad("expected src_buff and dst_buff");
        };
        let (src, dst) = (self.local(gpu, op, src)?, self.local(gpu, op, dst)?);
        let others = if reads { self.remotes(gpu, block, op, others, way)? } else { self.locals(gpu, op, others)? };
        let targets = self.remotes(gpu, block, op, targets, way)?;
        if !sends && !targets.is_empty() {
            return bad(format!("{} results, expected one", targets.len() + 1));
        }
        same_size(dst, &[&[src], &others[..], &targets].concat())?;
        self.apart(dst, if reads { std::slice::from_ref(&src) } else { &others })?;
        self.apart(dst, &[src])?;
        self.plain(&[&[dst], &targets[..]].concat(), &[&[src], &others[..]].concat())?;
        match reads {
            true => {
                let mut own = src;
                for &other in &others {
                    self.get(other, Some(own), dst);
                    own = dst;
                }
                if others.is_empty() {
                    self.sum(&[src], dst);
                }
            }
            false => self.sum(&[&[src], &others[..]].concat(), dst),
        }
        targets.iter().for_each(|&target| self.put(dst, target));
        Ok(())
    }

    fn reduce_packets(&mut self, gpu: &PlanGpu, block: &PlanBlock, op: &Operation, way: Way) -> Result<()> {
        let (Some((src, others)), Some((dst, targets))) = (op.src_buff.split_first(), op.dst_buff.split_first()) else {
            return bad("expected src_buff and dst_buff");
        };
        let (src, dst) = (self.local(gpu, op, src)?, self.local(gpu, op, dst)?);
        let others = self.locals(gpu, op, others)?;
        let copies = op.name.contains("recpkt") || op.name == REDUCE_COPY_SEND;
        let (kept, targets) = match (copies, targets.split_first()) {
            (true, Some((kept, targets))) => (Some(self.local(gpu, op, kept)?), targets),
            (true, None) => return bad("expected a second dst_buff, for packets"),
            (false, _) => (None, targets),
        };
        let targets = self.remotes(gpu, block, op, targets, way)?;
        let sends = op.name == "respkt" || op.name == REDUCE_COPY_SEND;
        if !sends && !targets.is_empty() {
            return bad(format!("{} results are sent, expected none", targets.len()));
        }
        same_size(dst, &[&[src], &others[..], &targets, kept.as_slice()].concat())?;
        self.apart(dst, &[src])?;
        self.plain(&[dst], &[src])?;
        for &other in &others {
            self.read_packets(other)?;
        }
        self.sum(&[&[src], &others[..]].concat(), dst);
        if let Some(kept) = kept {
            let step = self.own(Action::Copy, dst, kept);
            self.packets_at(kept, step)?;
        }
        self.send_packets(block, op, way, &vec![dst; targets.len()], &targets)
    }

    fn barrier(&mut self, op: &Operation) -> Result<()> {
        let (Some(id), Some(blocks)) = (op.barrier_id, op.num_threadblocks) else {
            return bad("barrier_id and num_threadblocks are needed");
        };
        let (gpu, block, ..) = self.at;
        let (before, after) = (self.wait(None).1, self.wait(None).1);
        let barrier = self.barriers.entry((gpu, id)).or_default();
        if !barrier.times.is_empty() && barrier.blocks != blocks {
            return bad(format!("barrier {id} is for {blocks} thread blocks, and elsewhere for {}", barrier.blocks));
        }
        barrier.blocks = blocks;
        barrier.times.entry(block).or_default().push((before, after));
        self.segment = Segment::default();
        Ok(())
    }

    /// Refuses an operation of some threads where others may still move data, and notes that others must wait for it.
    fn meet(&mut self, waits: bool) -> Result<()> {
        if let Some(data) = self.segment.data {
            return self.unordered(data);
        }
        if waits {
            self.segment.waited = Some(self.at.2);
        }
        Ok(())
    }

    fn unordered<T>(&self, other: u32) -> Result<T> {
        let (gpu, block, at, name) = self.at;
        let ops = &self.plan.gpus[gpu as usize].threadblocks[block as usize].ops;
        let (first, second) = (
            place(gpu, block, other, &clip(&ops[other as usize].name)),
            place(gpu, block, at, &self.operations[name as usize]),
        );
        fail(
            Code::NotProven,
            format!("race: {first} and {second} have no nop between them, so threads may do both at once"),
        )
    }

    /// Notes what an operation writes and reads, but for packets, and refuses what other threads may still use.
    fn plain(&mut self, writes: &[Range], reads: &[Range]) -> Result<()> {
        if let Some(waited) = self.segment.waited {
            return self.unordered(waited);
        }
        let at = self.at.2;
        self.segment.data = Some(at);
        for (ranges, writes) in [(reads, false), (writes, true)] {
            for range in ranges {
                if range.place.buffer == Buffer::Scratch {
                    self.of_scratch(range.gpu, false)?;
                }
                let (first, end) = self.range(range);
                let conflict = self.segment.uses.iter().find(|&&(start, stop, written, other)| {
                    other != at && (written || writes) && start < end && first < stop
                });
                if let Some(&(.., other)) = conflict {
                    return self.unordered(other);
                }
                self.segment.uses.push((first, end, writes, at));
            }
        }
        Ok(())
    }

    fn range(&self, range: &Range) -> (usize, usize) {
        let first = self.cells.of(range.gpu, range.place);
        (first, first + range.count as usize)
    }

    /// Scratch has packets or plain data.
    fn of_scratch(&mut self, gpu: u32, packets: bool) -> Result<()> {
        let used = &mut self.scratch[gpu as usize];
        used[usize::from(packets)] = true;
        match *used {
            [true, true] => fail(
                Code::NotApplicable,
                format!("scratch of gpu {gpu} has packets and plain data; the proof follows one"),
            ),
            _ => Ok(()),
        }
    }

    /// Refuses sums into what overlaps a part of a term.
    fn apart(&self, dst: Range, others: &[Range]) -> Result<()> {
        let (first, end) = self.range(&dst);
        let overlaps = |other: &&Range| {
            let (start, stop) = self.range(other);
            (start, stop) != (first, end) && start < end && first < stop
        };
        match others.iter().find(overlaps) {
            Some(_) => bad("dst_buff overlaps a part of src_buff"),
            None => Ok(()),
        }
    }

    fn packets_at(&mut self, range: Range, step: At) -> Result<()> {
        if range.place.buffer != Buffer::Scratch {
            return bad("packets lie in scratch");
        }
        self.of_scratch(range.gpu, true)?;
        let (first, end) = self.range(&range);
        for cell in first..end {
            if self.packets.insert(cell, step).is_some() {
                let offset = (cell - first) as u32 + range.place.offset;
                let what = format!("s[{offset}] of gpu {} gets packets twice, which cannot be told apart", range.gpu);
                return fail(Code::NotProven, what);
            }
        }
        Ok(())
    }

    fn read_packets(&mut self, range: Range) -> Result<()> {
        if range.place.buffer != Buffer::Scratch {
            return bad("packets lie in scratch");
        }
        self.of_scratch(range.gpu, true)?;
        let (first, end) = self.range(&range);
        if self.steps + (end - first) > MAX_STEPS {
            return fail(Code::TooLarge, format!("more than {MAX_STEPS} steps"));
        }
        for cell in first..end {
            let step = self.wait(None);
            self.readers.push((range.gpu, cell, step));
        }
        Ok(())
    }

    /// The number at its GPU of a channel of a thread block.
    fn channel(&mut self, block: &PlanBlock, way: Way, id: u32) -> Result<u32> {
        let own = block.channels.iter().filter(|channels| channels.channel_type == way.name());
        let mut own = own.flat_map(|channels| &channels.channel_ids);
        let Some(&channel) = own.nth(id as usize) else {
            return bad(format!("no {} channel {id} in its thread block", way.name()));
        };
        let gpu = self.at.0;
        if channel as usize >= self.channels[&(gpu, way)].len() {
            return bad(format!("no {} channel {channel} on gpu {gpu}", way.name()));
        }
        let user = *self.users.entry((gpu, way, channel)).or_insert(block.id);
        if user != block.id {
            let what = format!(
                "{} channel {channel} of gpu {gpu} is used by thread block {user} too: whose signals come \
                 first is not known",
                way.name()
            );
            return fail(Code::NotApplicable, what);
        }
        Ok(channel)
    }

    /// The wire of a port channel, which must lead to a peer.
    fn port(&mut self, channel: u32, peer: u32) -> Result<Ends> {
        let (connected, _) = self.channels[&(self.at.0, Way::Port)][channel as usize];
        if connected != peer {
            return bad(format!("port channel {channel} leads to gpu {connected}, the buffer is of gpu {peer}"));
        }
        Ok(self.wire(Wire::Port(channel), peer))
    }

    fn signal(&mut self, way: Way, channel: u32, relaxed: bool) -> Result<()> {
        let (peer, other) = self.channels[&(self.at.0, way)][channel as usize];
        let Some(other) = other else {
            let what = format!("{} channel {channel} to gpu {peer} has no other end there that could wait", way.name());
            return fail(Code::NotProven, what);
        };
        let ends = match way {
            Way::Memory => self.wire(Wire::Signal(channel), peer),
            Way::Port => self.wire(Wire::Port(channel), peer),
        };
        let after = self.wait(None);
        let receipt = self.notify(ends, after);
        self.signals.entry((peer, way, other)).or_default().0.push((receipt, relaxed));
        Ok(())
    }

    /// Waits for all that has been put into a port channel.
    fn flush(&mut self, way: Way, channel: u32) -> Result<()> {
        let (gpu, block, ..) = self.at;
        if way != Way::Port {
            return bad("only port channels are flushed");
        }
        let Some(&ends) = self.wires.get(&(gpu, block, Wire::Port(channel))) else { return Ok(()) };
        let done = self.acknowledge(ends);
        self.wait(Some(done));
        Ok(())
    }

    fn locals(&self, gpu: &PlanGpu, op: &Operation, list: &[Chunks]) -> Result<Vec<Range>> {
        list.iter().map(|chunks| self.local(gpu, op, chunks)).collect()
    }

    fn local(&self, gpu: &PlanGpu, op: &Operation, chunks: &Chunks) -> Result<Range> {
        match chunks.kind.as_deref() {
            Some(kind) => self.chunks(gpu.id, kind, op, chunks),
            None => bad("expected a buffer of its own gpu, with a type"),
        }
    }

    fn remotes(
        &self,
        gpu: &PlanGpu,
        block: &PlanBlock,
        op: &Operation,
        list: &[Chunks],
        way: Way,
    ) -> Result<Vec<Range>> {
        let remote = |chunks: &Chunks| {
            let Some(id) = chunks.buffer_id else { return bad("expected a buffer of another gpu, with a buffer_id") };
            let own = block.remote_buffer_refs.iter().filter(|refs| refs.access_channel_type == way.name());
            let Some(&number) = own.flat_map(|refs| &refs.remote_buffer_ids).nth(id as usize) else {
                return bad(format!("no buffer {id} by {} channels in its thread block", way.name()));
            };
            let Some(buffer) = gpu.remote_buffers.get(number as usize) else {
                return bad(format!("no remote buffer {number} on gpu {}", gpu.id));
            };
            if buffer.rank == gpu.id || buffer.rank as usize >= self.plan.gpus.len() {
                return bad(format!("remote buffer {number} is of gpu {}", buffer.rank));
            }
            self.chunks(buffer.rank, &buffer.kind, op, chunks)
        };
        list.iter().map(remote).collect()
    }

    fn chunks(&self, gpu: u32, kind: &str, op: &Operation, chunks: &Chunks) -> Result<Range> {
        let all = [Buffer::Input, Buffer::Output, Buffer::Scratch];
        let Some(buffer) = all.into_iter().find(|buffer| buffer.letter() == kind) else {
            return bad(format!("buffer '{}', expected i, o or s", clip(kind)));
        };
        let scratch = self.plan.gpus[gpu as usize].scratch_chunks;
        let size = if buffer == Buffer::Scratch { scratch } else { self.cells.size(buffer) / self.parts };
        let end = chunks.index as u64 + chunks.size as u64;
        if chunks.size == 0 || end > size as u64 {
            let what =
                format!("{} chunks from {} of buffer {kind} of gpu {gpu}, which has {size}", chunks.size, chunks.index);
            return bad(what);
        }
        let (part, of) = op.tbg_info.map_or((0, 1), |part| (part.tb_id, part.tbg_size));
        let count = chunks.size * self.parts / of;
        let offset = chunks.index * self.parts + part * count;
        Ok(Range { gpu, place: Place { buffer, offset }, count })
    }

    /// Ties what waits to what it waits for.
    fn finish(mut self) -> Result<Steps> {
        let wrong = |what: String| fail(Code::NotProven, what);
        let steps = |lowering: &mut Self, gpu: u32, at: At, after: At| {
            lowering.algo.gpus[gpu as usize].blocks[at.0 as usize].steps[at.1 as usize].after = Some(after);
        };
        for ((gpu, way, channel), (signals, waits)) in std::mem::take(&mut self.signals) {
            for (&(wait, loose), &(signal, relaxed)) in waits.iter().zip(&signals) {
                match loose || relaxed {
                    true => self.relaxed.push((gpu, wait, signal)),
                    false => steps(&mut self, gpu, wait, signal),
                }
            }
            let name = |at: At| {
                let (gpu, block, at, name) = self.origin[gpu as usize][at.0 as usize][at.1 as usize];
                place(gpu, block, at, &self.operations[name as usize])
            };
            if let Some(&(wait, _)) = waits.get(signals.len()) {
                return wrong(format!("deadlock: {} waits for a signal that nobody sends", name(wait)));
            }
            if let Some(&(signal, _)) = signals.get(waits.len()) {
                return wrong(format!(
                    "{} signals {} channel {channel} of gpu {gpu}, where nobody waits: the next run would begin with it",
                    name(signal),
                    way.name()
                ));
            }
        }
        for ((gpu, id), barrier) in std::mem::take(&mut self.barriers) {
            let times = barrier.times.values().map(Vec::len).max().unwrap_or(0);
            let even = barrier.times.values().all(|list| list.len() == times);
            if barrier.times.len() != barrier.blocks as usize || !even {
                return wrong(format!(
                    "deadlock: barrier {id} of gpu {gpu} is for {} thread blocks, {} come to it{}",
                    barrier.blocks,
                    barrier.times.len(),
                    if even { "" } else { ", not all equally often" }
                ));
            }
            let blocks = &mut self.algo.gpus[gpu as usize].blocks;
            blocks.push(Block::default());
            let middle = blocks.len() as u32 - 1;
            self.origin[gpu as usize].push(vec![]);
            for time in 0..times {
                let mut met = (middle, 0);
                for (&block, list) in &barrier.times {
                    self.at = self.origin[gpu as usize][block as usize][list[time].0 as usize];
                    met = self.add(gpu, middle, Action::Nop, (UNUSED, UNUSED), 0, Some((block, list[time].0)));
                }
                for (&block, list) in &barrier.times {
                    steps(&mut self, gpu, (block, list[time].1), met);
                }
            }
        }
        for ((gpu, id), uses) in std::mem::take(&mut self.semaphores) {
            for list in [&uses.releases, &uses.acquires] {
                if list.windows(2).any(|pair| pair[0].0 != pair[1].0) {
                    let what = format!(
                        "semaphore {id} of gpu {gpu} is used by several thread blocks in one way; the proof follows one"
                    );
                    return fail(Code::NotApplicable, what);
                }
            }
            let first = self.plan.gpus[gpu as usize].semaphores[id as usize].init_value as usize;
            for (&acquire, &release) in uses.acquires.iter().skip(first).zip(&uses.releases) {
                steps(&mut self, gpu, acquire, release);
            }
            let (acquires, releases) = (uses.acquires.len(), uses.releases.len());
            if acquires > releases + first {
                return wrong(format!(
                    "deadlock: semaphore {id} of gpu {gpu} is acquired {acquires} times and released {releases} times"
                ));
            }
            if acquires != releases {
                return wrong(format!(
                    "semaphore {id} of gpu {gpu} does not end as it began: released {releases} times, acquired {acquires} times"
                ));
            }
        }
        for (gpu, cell, step) in std::mem::take(&mut self.readers) {
            let Some(&written) = self.packets.get(&cell) else {
                let (gpu, block, at, name) = self.origin[gpu as usize][step.0 as usize][step.1 as usize];
                let name = place(gpu, block, at, &self.operations[name as usize]);
                return wrong(format!("deadlock: {name} waits for packets that nobody writes"));
            };
            steps(&mut self, gpu, step, written);
        }
        Ok(Steps {
            algo: self.algo,
            origin: self.origin,
            operations: self.operations,
            relaxed: self.relaxed,
            messages: self.messages,
        })
    }
}

/// Pairs of what is read and what is written.
fn pairs(srcs: &[Range], dsts: &[Range]) -> Result<Vec<(Range, Range)>> {
    if srcs.len() != dsts.len() || srcs.is_empty() {
        return bad(format!("{} src_buff for {} dst_buff", srcs.len(), dsts.len()));
    }
    srcs.iter().zip(dsts).try_for_each(|(&src, &dst)| same_size(src, &[dst]))?;
    Ok(srcs.iter().copied().zip(dsts.iter().copied()).collect())
}

fn same_size(range: Range, others: &[Range]) -> Result<()> {
    match others.iter().find(|other| other.count != range.count) {
        Some(other) => bad(format!("buffers of {} and {} chunks", range.count, other.count)),
        None => Ok(()),
    }
}

/// By GPU and kind: the peer of every channel, and which of its channels there is the other end.
fn channels(plan: &Plan) -> Result<Channels> {
    let mut lists = Channels::new();
    // By GPU, kind and peer: its channels in order.
    let mut by_peer: HashMap<(u32, Way, u32), Vec<u32>> = HashMap::new();
    for gpu in &plan.gpus {
        for way in Way::ALL {
            let list = lists.entry((gpu.id, way)).or_default();
            let of_kind = gpu.channels.iter().filter(|channels| channels.channel_type == way.name());
            for &peer in of_kind.flat_map(|channels| &channels.connected_to) {
                if peer == gpu.id || peer as usize >= plan.gpus.len() {
                    return bad(format!("gpu {}: a {} channel is connected to gpu {peer}", gpu.id, way.name()));
                }
                by_peer.entry((gpu.id, way, peer)).or_default().push(list.len() as u32);
                list.push((peer, None));
            }
        }
    }
    for (&(gpu, way, peer), own) in &by_peer {
        let Some(others) = by_peer.get(&(peer, way, gpu)) else { continue };
        for (&channel, &other) in own.iter().zip(others) {
            lists.get_mut(&(gpu, way)).expect("it was made above")[channel as usize].1 = Some(other);
        }
    }
    Ok(lists)
}
