//! A machine that runs programs of thread blocks on numbers, one small event after the other in an order it is told. It shares no
//! code with the proof.

use antiphon_formats::msccl::{Algo, ChunkPlace, MscclStep, StepAction};
use antiphon_model::collective::Kind;
use rustc_hash::FxHashMap;
use std::collections::{HashSet, VecDeque};

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// Who goes first where several could.
#[derive(Clone, Copy, Debug)]
pub enum Turn {
    /// Anybody.
    Random(u64),
    /// Events of this thread block as late as possible, or as soon.
    Last(usize),
    First(usize),
    /// What this thread block has begun ends as late as possible.
    Slow(usize),
}

impl Turn {
    pub fn random(self) -> Random {
        Random(if let Turn::Random(seed) = self { seed } else { 1 })
    }
}

/// Memory of all GPUs, in which every cell begins with a number of its own.
pub struct Memory {
    kind: Kind,
    in_place: bool,
    /// Chunks of a shard, of an input and of an output.
    part: usize,
    inputs: usize,
    outputs: usize,
    /// Chunks of scratch, by GPU.
    scratch: Vec<usize>,
    before: Vec<Vec<u64>>,
    pub values: Vec<Vec<u64>>,
}

impl Memory {
    /// For a full buffer of so many chunks.
    pub fn new(kind: Kind, in_place: bool, chunks: usize, scratch: Vec<usize>) -> Memory {
        let part = chunks / scratch.len();
        let (inputs, outputs) = match kind {
            Kind::AllGather => (part, chunks),
            Kind::ReduceScatter => (chunks, part),
            _ => (chunks, chunks),
        };
        let mut numbers = Random(7);
        let mut cells = |scratch: &usize| (0..inputs + outputs + scratch).map(|_| numbers.next()).collect();
        let values: Vec<Vec<u64>> = scratch.iter().map(&mut cells).collect();
        Memory { kind, in_place, part, inputs, outputs, scratch, before: values.clone(), values }
    }

    /// The cell of a chunk of a buffer, unless that ends before it.
    pub fn cell(&self, gpu: usize, letter: &str, at: usize) -> Result<usize, String> {
        let (part, inputs, outputs) = (self.part, self.inputs, self.outputs);
        let (cell, size) = match (letter, self.in_place, self.kind) {
            ("i", true, Kind::AllGather) => (inputs + gpu * part + at, inputs),
            ("o", true, Kind::ReduceScatter) => (gpu * part + at, outputs),
            ("o", true, kind) if kind != Kind::AllGather => (at, outputs),
            ("i", ..) => (at, inputs),
            ("o", ..) => (inputs + at, outputs),
            _ => (inputs + outputs + at, self.scratch[gpu]),
        };
        if at < size { Ok(cell) } else { Err("out of memory".into()) }
    }

    /// Whether all outputs are those of the collective.
    pub fn check(&self, root: usize) -> Result<(), String> {
        let (gpus, part) = (self.values.len(), self.part);
        let input = |gpu: usize, at: usize| self.before[gpu][self.cell(gpu, "i", at).unwrap()];
        let sum = |at: usize| (0..gpus).fold(0u64, |sum, gpu| sum.wrapping_add(input(gpu, at)));
        for (gpu, at) in (0..gpus).flat_map(|gpu| (0..self.outputs).map(move |at| (gpu, at))) {
            let wanted = match self.kind {
                Kind::AllReduce => sum(at),
                Kind::ReduceScatter => sum(gpu * part + at),
                Kind::Reduce if gpu == root => sum(at),
                Kind::Reduce => continue,
                Kind::Broadcast => input(root, at),
                Kind::AllGather => input(at / part, at % part),
                Kind::AllToAll => input(at / part, gpu * part + at % part),
            };
            if self.values[gpu][self.cell(gpu, "o", at)?] != wanted {
                return Err(format!("gpu {gpu} ends with a wrong chunk {at}"));
            }
        }
        Ok(())
    }
}

/// A thread block at work.
struct Worker<'a> {
    gpu: usize,
    send: Option<u32>,
    recv: Option<u32>,
    channel: u32,
    steps: &'a [MscclStep],
    /// Steps done.
    done: usize,
    /// What the current step has read, once it has begun.
    read: Option<Vec<u64>>,
}

struct Machine<'a> {
    /// Messages that a connection holds.
    depth: usize,
    memory: Memory,
    workers: Vec<Worker<'a>>,
    /// Number of the worker of a GPU and thread block.
    number: FxHashMap<(usize, u32), usize>,
    fifos: FxHashMap<(usize, usize, u32), VecDeque<Vec<u64>>>,
}

/// Runs an algorithm, with connections of `depth` messages; says what went wrong.
pub fn run(algo: &Algo, root: usize, depth: usize, turn: Turn) -> Result<(), String> {
    let mut machine = Machine::new(algo, depth)?;
    let mut random = turn.random();
    loop {
        let ready: Vec<usize> = (0..machine.workers.len()).filter(|&id| machine.is_ready(id)).collect();
        if ready.is_empty() {
            break;
        }
        let others: Vec<usize> = match turn {
            Turn::Last(late) if ready.len() > 1 => ready.iter().copied().filter(|&id| id != late).collect(),
            Turn::Slow(slow) if ready.len() > 1 && machine.workers[slow].read.is_some() => {
                ready.iter().copied().filter(|&id| id != slow).collect()
            }
            Turn::First(early) if ready.contains(&early) => vec![early],
            _ => ready,
        };
        machine.go_on(others[random.below(others.len())])?;
    }
    if machine.workers.iter().any(|worker| worker.done < worker.steps.len()) {
        return Err("deadlock".into());
    }
    if machine.fifos.values().any(|fifo| !fifo.is_empty()) {
        return Err("a message that nobody took".into());
    }
    machine.memory.check(root)
}

impl<'a> Machine<'a> {
    fn new(algo: &'a Algo, depth: usize) -> Result<Self, String> {
        let scratch = algo.gpus.iter().map(|gpu| gpu.scratch as usize).collect();
        let memory = Memory::new(algo.kind, algo.in_place, algo.chunks as usize, scratch);
        let (mut workers, mut number, mut owned) = (vec![], FxHashMap::default(), HashSet::new());
        for (gpu, program) in algo.gpus.iter().enumerate() {
            for (tb, block) in (0..).zip(&program.blocks) {
                number.insert((gpu, tb), workers.len());
                for (peer, sends) in [(block.send, true), (block.recv, false)] {
                    let Some(peer) = peer else { continue };
                    if peer as usize >= algo.gpus.len() || peer as usize == gpu {
                        return Err("a peer that is none".into());
                    }
                    if !owned.insert((gpu, peer, block.channel, sends)) {
                        return Err("a connection of two thread blocks".into());
                    }
                }
                let steps = &block.steps[..];
                let only_waits = |step: &MscclStep| step.action == StepAction::Nop && step.after.is_some();
                let lost = steps.windows(2).any(|pair| only_waits(&pair[0]) && pair[1].after.is_none());
                if lost || steps.last().is_some_and(only_waits) {
                    return Err("a wait is lost".into());
                }
                let (send, recv, channel) = (block.send, block.recv, block.channel);
                workers.push(Worker { gpu, send, recv, channel, steps, done: 0, read: None });
            }
        }
        Ok(Machine { depth, memory, workers, number, fifos: FxHashMap::default() })
    }

    fn is_ready(&self, id: usize) -> bool {
        let worker = &self.workers[id];
        let Some(step) = worker.steps.get(worker.done) else { return false };
        if worker.read.is_some() {
            return true;
        }
        let waits = step.after.is_some_and(|(tb, at)| {
            let Some(&other) = self.number.get(&(worker.gpu, tb)) else { return true };
            let awaited = self.workers[other].steps.get(at as usize);
            let tells = awaited.is_some_and(|step| step.awaited && step.action != StepAction::Nop);
            !tells || self.workers[other].done <= at as usize
        });
        let held = |from: usize, to: usize| self.fifos.get(&(from, to, worker.channel)).map_or(0, VecDeque::len);
        let empty = step.action.receives() && worker.recv.is_none_or(|peer| held(peer as usize, worker.gpu) == 0);
        let full = step.action.sends() && worker.send.is_none_or(|peer| held(worker.gpu, peer as usize) >= self.depth);
        !waits && !empty && !full
    }

    fn range(&self, gpu: usize, place: ChunkPlace, count: u32) -> Result<Vec<usize>, String> {
        let cell = |k| self.memory.cell(gpu, place.buffer.letter(), (place.offset + k) as usize);
        (0..count).map(cell).collect()
    }

    /// Begins a step of a worker, which reads all that it needs, or ends it.
    fn go_on(&mut self, id: usize) -> Result<(), String> {
        let (gpu, step) = (self.workers[id].gpu, self.workers[id].steps[self.workers[id].done]);
        if let Some(data) = self.workers[id].read.take() {
            return self.end(id, step, data);
        }
        let mut read = vec![];
        let places = match step.action {
            StepAction::Reduce => vec![step.src, step.dst],
            action if action.reads() => vec![step.src],
            _ => vec![],
        };
        for place in places {
            read.extend(self.range(gpu, place, step.count)?.into_iter().map(|cell| self.memory.values[gpu][cell]));
        }
        self.workers[id].read = Some(read);
        Ok(())
    }

    /// Stores and sends what a step makes of what it has read.
    fn end(&mut self, id: usize, step: MscclStep, mut data: Vec<u64>) -> Result<(), String> {
        let (gpu, count) = (self.workers[id].gpu, step.count as usize);
        if step.action == StepAction::Reduce {
            let dst = data.split_off(count);
            data.iter_mut().zip(dst).for_each(|(a, b)| *a = a.wrapping_add(b));
        }
        if step.action.receives() {
            let key = (self.workers[id].recv.unwrap() as usize, gpu, self.workers[id].channel);
            let message = self.fifos.get_mut(&key).unwrap().pop_front().unwrap();
            if message.len() != count {
                return Err("a message of another size".into());
            }
            data.resize(count, 0);
            data.iter_mut().zip(message).for_each(|(a, b)| *a = a.wrapping_add(b));
        }
        if step.action.writes() {
            for (cell, &value) in self.range(gpu, step.dst, step.count)?.into_iter().zip(&data) {
                self.memory.values[gpu][cell] = value;
            }
        }
        if step.action.sends() {
            let key = (gpu, self.workers[id].send.unwrap() as usize, self.workers[id].channel);
            self.fifos.entry(key).or_default().push_back(data);
        }
        self.workers[id].done += 1;
        Ok(())
    }
}
