//! A machine that runs programs of thread blocks on numbers, one small event after the other in an order it is told. It shares no
//! code with the proof.

use antiphon_formats::msccl::{Algo, Buffer, ChunkPlace, MscclStep, StepAction};
use antiphon_model::collective::Kind;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

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
    /// This thread block as late as possible, or as soon.
    Last(usize),
    /// A step of this thread block, once begun, ends as late as possible.
    Slow(usize),
    First(usize),
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

/// Runs an algorithm, with connections of `depth` messages; says what went wrong.
pub fn run(algo: &Algo, root: usize, depth: usize, turn: Turn) -> Result<(), String> {
    let (gpus, chunks) = (algo.gpus.len(), algo.chunks as usize);
    let part = chunks / gpus;
    let in_place = algo.in_place;
    let (inputs, outputs) = match algo.kind {
        Kind::AllGather => (part, chunks),
        Kind::ReduceScatter => (chunks, part),
        _ => (chunks, chunks),
    };
    // Every cell begins with a number of its own.
    let mut numbers = Random(7);
    let scratch = |gpu: usize| algo.gpus[gpu].scratch as usize;
    let mut memory: Vec<Vec<u64>> =
        (0..gpus).map(|gpu| (0..inputs + outputs + scratch(gpu)).map(|_| numbers.next()).collect()).collect();
    let cell = |gpu: usize, buffer: Buffer, at: usize| -> Option<usize> {
        let size = match buffer {
            Buffer::Input => inputs,
            Buffer::Output => outputs,
            Buffer::Scratch => scratch(gpu),
        };
        let cell = match buffer {
            Buffer::Input if in_place && algo.kind == Kind::AllGather => inputs + gpu * part + at,
            Buffer::Output if in_place && algo.kind == Kind::ReduceScatter => gpu * part + at,
            Buffer::Output if in_place && algo.kind != Kind::AllGather => at,
            Buffer::Input => at,
            Buffer::Output => inputs + at,
            Buffer::Scratch => inputs + outputs + at,
        };
        (at < size).then_some(cell)
    };
    let range = |gpu: usize, place: ChunkPlace, count: u32| -> Result<Vec<usize>, String> {
        (0..count).map(|k| cell(gpu, place.buffer, (place.offset + k) as usize).ok_or("out of memory".into())).collect()
    };
    let first = memory.clone();
    let mut workers: Vec<Worker> = vec![];
    let mut number: FxHashMap<(usize, u32), usize> = FxHashMap::default();
    let mut owners: FxHashMap<(usize, u32, u32, bool), usize> = FxHashMap::default();
    for (gpu, program) in algo.gpus.iter().enumerate() {
        for (tb, block) in (0..).zip(&program.blocks) {
            number.insert((gpu, tb), workers.len());
            for (peer, sends) in [(block.send, true), (block.recv, false)] {
                let Some(peer) = peer else { continue };
                if peer as usize >= gpus || peer as usize == gpu {
                    return Err("a peer that is none".into());
                }
                if owners.insert((gpu, peer, block.channel, sends), workers.len()).is_some() {
                    return Err("a connection of two thread blocks".into());
                }
            }
            let steps = &block.steps[..];
            for pair in steps.windows(2) {
                if pair[0].action == StepAction::Nop && pair[0].after.is_some() && pair[1].after.is_none() {
                    return Err("a wait is lost".into());
                }
            }
            if steps.last().is_some_and(|step| step.action == StepAction::Nop && step.after.is_some()) {
                return Err("a wait is lost".into());
            }
            let (send, recv, channel) = (block.send, block.recv, block.channel);
            workers.push(Worker { gpu, send, recv, channel, steps, done: 0, read: None });
        }
    }
    let mut fifos: FxHashMap<(usize, usize, u32), VecDeque<Vec<u64>>> = FxHashMap::default();
    let mut random = Random(if let Turn::Random(seed) = turn { seed } else { 1 });
    loop {
        let mut ready = vec![];
        for (id, worker) in workers.iter().enumerate() {
            let Some(step) = worker.steps.get(worker.done) else { continue };
            if worker.read.is_some() {
                ready.push(id);
                continue;
            }
            let waits = step.after.is_some_and(|(tb, at)| {
                let Some(&other) = number.get(&(worker.gpu, tb)) else { return true };
                let awaited = workers[other].steps.get(at as usize);
                let tells = awaited.is_some_and(|step| step.awaited && step.action != StepAction::Nop);
                !tells || workers[other].done <= at as usize
            });
            let key = |from: usize, to: usize| (from, to, worker.channel);
            let empty = step.action.receives()
                && worker
                    .recv
                    .is_none_or(|peer| fifos.get(&key(peer as usize, worker.gpu)).is_none_or(|f| f.is_empty()));
            let full = step.action.sends()
                && worker
                    .send
                    .is_none_or(|peer| fifos.get(&key(worker.gpu, peer as usize)).is_some_and(|f| f.len() >= depth));
            if !waits && !empty && !full {
                ready.push(id);
            }
        }
        if ready.is_empty() {
            break;
        }
        let others: Vec<usize> = match turn {
            Turn::Last(late) if ready.len() > 1 => ready.iter().copied().filter(|&id| id != late).collect(),
            Turn::Slow(slow) if ready.len() > 1 && workers[slow].read.is_some() => {
                ready.iter().copied().filter(|&id| id != slow).collect()
            }
            Turn::First(early) if ready.contains(&early) => vec![early],
            _ => ready,
        };
        let id = others[random.below(others.len())];
        let (gpu, step) = (workers[id].gpu, workers[id].steps[workers[id].done]);
        let Some(mut data) = workers[id].read.take() else {
            // It begins: everything it needs is read.
            let mut read = vec![];
            let places = match step.action {
                StepAction::Reduce => vec![step.src, step.dst],
                action if action.reads() => vec![step.src],
                _ => vec![],
            };
            for place in places {
                read.extend(range(gpu, place, step.count)?.into_iter().map(|cell| memory[gpu][cell]));
            }
            workers[id].read = Some(read);
            continue;
        };
        // It ends: what it makes is stored and sent.
        let count = step.count as usize;
        if step.action == StepAction::Reduce {
            let dst = data.split_off(count);
            data.iter_mut().zip(dst).for_each(|(a, b)| *a = a.wrapping_add(b));
        }
        if step.action.receives() {
            let key = (workers[id].recv.unwrap() as usize, gpu, workers[id].channel);
            let message = fifos.get_mut(&key).unwrap().pop_front().unwrap();
            if message.len() != count {
                return Err("a message of another size".into());
            }
            data.resize(count, 0);
            data.iter_mut().zip(message).for_each(|(a, b)| *a = a.wrapping_add(b));
        }
        if step.action.writes() {
            for (cell, &value) in range(gpu, step.dst, step.count)?.into_iter().zip(&data) {
                memory[gpu][cell] = value;
            }
        }
        if step.action.sends() {
            let key = (gpu, workers[id].send.unwrap() as usize, workers[id].channel);
            fifos.entry(key).or_default().push_back(data);
        }
        workers[id].done += 1;
    }
    if workers.iter().any(|worker| worker.done < worker.steps.len()) {
        return Err("deadlock".into());
    }
    if fifos.values().any(|fifo| !fifo.is_empty()) {
        return Err("a message that nobody took".into());
    }
    let input = |gpu: usize, at: usize| first[gpu][cell(gpu, Buffer::Input, at).unwrap()];
    let sum = |at: usize| (0..gpus).fold(0u64, |sum, gpu| sum.wrapping_add(input(gpu, at)));
    for gpu in 0..gpus {
        for at in 0..outputs {
            let wanted = match algo.kind {
                Kind::AllReduce => sum(at),
                Kind::ReduceScatter => sum(gpu * part + at),
                Kind::Reduce if gpu == root => sum(at),
                Kind::Reduce => continue,
                Kind::Broadcast => input(root, at),
                Kind::AllGather => input(at / part, at % part),
                Kind::AllToAll => input(at / part, gpu * part + at % part),
            };
            if memory[gpu][cell(gpu, Buffer::Output, at).unwrap()] != wanted {
                return Err(format!("gpu {gpu} ends with a wrong chunk {at}"));
            }
        }
    }
    Ok(())
}
