//! A machine that runs MSCCL++ plans on numbers, one small event after the other in a random or unkind order. Between two `nop`s all
//! data operations of a thread block go on at once, whatever some of its threads wait for. It shares no code with the proof.

use super::machine::Random;
use antiphon_formats::mscclpp::{MscclppPlan, PlanBlock, PlanChunks, PlanGpu, PlanOperation};
use antiphon_model::collective::Kind;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::rc::Rc;

/// Who goes first where several could.
#[derive(Clone, Copy, Debug)]
pub enum Turn {
    Random(u64),
    /// Events of this thread block as late as possible, or as soon.
    Last(usize),
    First(usize),
    /// What this thread block has begun ends as late as possible.
    Slow(usize),
}

/// A GPU and a cell of it.
type Cell = (usize, usize);

/// What a data operation does to one run of chunks.
#[derive(Clone, Debug)]
struct Move {
    srcs: Vec<Vec<Cell>>,
    dsts: Vec<Vec<Cell>>,
    /// Sources, by number, that are packets; whether all written are.
    packets: Vec<usize>,
    writes_packets: Vec<usize>,
}

#[derive(Clone, Debug)]
enum Item {
    Put(Move),
    Signal(usize),
}

struct Worker<'a> {
    gpu: usize,
    block: &'a PlanBlock,
    /// Operations of the current stretch between nops: the first, and whether each is done; data operations that have read.
    first: usize,
    done: Vec<bool>,
    read: FxHashMap<usize, Vec<Vec<u64>>>,
    /// What data operations do, by number of the operation, once asked.
    moves: RefCell<FxHashMap<usize, Rc<[Move]>>>,
}

fn stretch(block: &PlanBlock, first: usize) -> usize {
    let meets = |op: &PlanOperation| op.name == "nop" || op.name == "barrier";
    block.ops[first..].iter().position(meets).unwrap_or(block.ops.len() - first)
}

fn ways(gpu: &PlanGpu, kind: &str) -> Vec<u32> {
    let of_kind = gpu.channels.iter().filter(|channels| channels.channel_type == kind);
    of_kind.flat_map(|channels| channels.connected_to.clone()).collect()
}

/// Runs a plan; says what went wrong.
pub fn run(plan: &MscclppPlan, kind: Kind, root: usize, turn: Turn) -> Result<(), String> {
    let gpus = plan.gpus.len();
    let total = if kind == Kind::AllGather { plan.gpus[0].output_chunks } else { plan.gpus[0].input_chunks } as usize;
    let part = total / gpus;
    let (inputs, outputs) = match kind {
        Kind::AllGather => (part, total),
        Kind::ReduceScatter => (total, part),
        _ => (total, total),
    };
    // Memory has two of each chunk, for plans that share operations among two thread blocks.
    let halves = 2;
    let cell = |gpu: usize, letter: &str, at: usize| -> Option<usize> {
        let scratch = plan.gpus[gpu].scratch_chunks as usize;
        let (cell, size) = match (letter, plan.inplace, kind) {
            ("i", true, Kind::AllGather) => (inputs + gpu * part + at, inputs),
            ("o", true, Kind::ReduceScatter) => (gpu * part + at, outputs),
            ("o", true, kind) if kind != Kind::AllGather => (at, outputs),
            ("i", ..) => (at, inputs),
            ("o", ..) => (inputs + at, outputs),
            _ => (inputs + outputs + at, scratch),
        };
        (at < size).then_some(cell)
    };
    let mut numbers = Random(7);
    let mut memory: Vec<Vec<u64>> = plan
        .gpus
        .iter()
        .map(|gpu| (0..halves * (inputs + outputs + gpu.scratch_chunks as usize)).map(|_| numbers.next()).collect())
        .collect();
    let before = memory.clone();
    let mut flags: FxHashSet<Cell> = FxHashSet::default();
    let cells = |gpu: usize, block: &PlanBlock, op: &PlanOperation, chunks: &PlanChunks| -> Result<Vec<Cell>, String> {
        let (owner, letter) = match (&chunks.kind, chunks.buffer_id) {
            (Some(letter), _) => (gpu, letter.clone()),
            (None, Some(id)) => {
                let kind = op.channel_type.as_deref().unwrap_or("memory");
                let refs = block.remote_buffer_refs.iter().filter(|refs| refs.access_channel_type == kind);
                let number = *refs.flat_map(|refs| &refs.remote_buffer_ids).nth(id as usize).ok_or("no buffer")?;
                let buffer = plan.gpus[gpu].remote_buffers.get(number as usize).ok_or("no buffer")?;
                (buffer.rank as usize, buffer.kind.clone())
            }
            _ => return Err("no buffer".into()),
        };
        if owner >= gpus {
            return Err("no gpu".into());
        }
        let (tb, of) = op.tbg_info.map_or((0, 1), |part| (part.tb_id as usize, part.tbg_size as usize));
        let count = chunks.size as usize * halves / of;
        let first = chunks.index as usize * halves + tb * count;
        (first..first + count)
            .map(|at| {
                cell(owner, &letter, at / halves)
                    .map(|cell| (owner, cell * halves + at % halves))
                    .ok_or("out of memory".into())
            })
            .collect()
    };
    let moves_of = |gpu: usize, block: &PlanBlock, op: &PlanOperation| -> Result<Vec<Move>, String> {
        let all = |list: &[PlanChunks]| -> Result<Vec<Vec<Cell>>, String> {
            list.iter().map(|chunks| cells(gpu, block, op, chunks)).collect()
        };
        let (srcs, dsts) = (all(&op.src_buff)?, all(&op.dst_buff)?);
        let one = |srcs: Vec<Vec<Cell>>, dsts: Vec<Vec<Cell>>, packets: Vec<usize>, writes: Vec<usize>| {
            let sizes: HashSet<usize> = srcs.iter().chain(&dsts).map(Vec::len).collect();
            match sizes.len() {
                1 => Ok(Move { srcs, dsts, packets, writes_packets: writes }),
                _ => Err(String::from("sizes differ")),
            }
        };
        let (reads, writes) = (srcs.len(), dsts.len());
        match &op.name[..] {
            "put" | "pws" | "pwsf" | "get" | "copy" | "upkt" | "cpkt" | "ppkt" => {
                if reads != writes || reads == 0 {
                    return Err("not as many".into());
                }
                let packets = if op.name == "upkt" { vec![0] } else { vec![] };
                let written = if matches!(&op.name[..], "cpkt" | "ppkt") { vec![0] } else { vec![] };
                srcs.into_iter()
                    .zip(dsts)
                    .map(|(src, dst)| one(vec![src], vec![dst], packets.clone(), written.clone()))
                    .collect()
            }
            "rppkt" => Ok(vec![one(srcs, dsts, vec![0], (0..writes).collect())?]),
            "re" | "res" | "rre" | "rres" => Ok(vec![one(srcs, dsts, vec![], vec![])?]),
            "repkt" | "respkt" | "recpkt" | "recspkt" => {
                Ok(vec![one(srcs, dsts, (1..reads).collect(), (1..writes).collect())?])
            }
            other => Err(format!("no operation {other}")),
        }
    };
    let moves = |worker: &Worker, number: usize| -> Result<Rc<[Move]>, String> {
        if let Some(moves) = worker.moves.borrow().get(&number) {
            return Ok(moves.clone());
        }
        let moves: Rc<[Move]> = moves_of(worker.gpu, worker.block, &worker.block.ops[number])?.into();
        worker.moves.borrow_mut().insert(number, moves.clone());
        Ok(moves)
    };
    let signals = |op: &PlanOperation| {
        matches!(&op.name[..], "signal" | "wait" | "rlxsignal" | "rlxwait" | "flush" | "sem_acquire" | "sem_release")
    };
    // What a single thread does, always the same.
    let alone = |op: &PlanOperation| {
        signals(op) || op.channel_type.as_deref() == Some("port") && op.name.starts_with('p') && op.dst_buff.len() == 1
    };
    let mut workers: Vec<Worker> = vec![];
    for (gpu, program) in plan.gpus.iter().enumerate() {
        for block in &program.threadblocks {
            let done = vec![false; stretch(block, 0)];
            workers.push(Worker { gpu, block, first: 0, done, read: FxHashMap::default(), moves: RefCell::default() });
        }
    }
    // By GPU, kind and channel.
    let mut count: FxHashMap<(usize, String, usize), u64> = FxHashMap::default();
    let mut semaphores: Vec<Vec<u32>> =
        plan.gpus.iter().map(|gpu| gpu.semaphores.iter().map(|semaphore| semaphore.init_value).collect()).collect();
    let mut queues: FxHashMap<(usize, usize), VecDeque<Item>> = FxHashMap::default();
    let channel = |worker: &Worker, kind: &str, id: u32| -> Result<usize, String> {
        let own = worker.block.channels.iter().filter(|channels| channels.channel_type == kind);
        own.flat_map(|channels| &channels.channel_ids)
            .nth(id as usize)
            .map(|&id| id as usize)
            .ok_or("no channel".into())
    };
    // The other end of a channel.
    let other = |gpu: usize, kind: &str, channel: usize| -> Result<(usize, usize), String> {
        let own = ways(&plan.gpus[gpu], kind);
        let peer = *own.get(channel).ok_or("no channel")?;
        let nth = own[..channel].iter().filter(|&&other| other == peer).count();
        let theirs = ways(plan.gpus.get(peer as usize).ok_or("no gpu")?, kind);
        let found = (0..).zip(&theirs).filter(|(_, other)| **other as usize == gpu).nth(nth).ok_or("no other end")?;
        Ok((peer as usize, found.0))
    };
    let mut random = Random(if let Turn::Random(seed) = turn { seed } else { 1 });
    loop {
        // Events: a worker with an operation, or a queue.
        let mut ready: Vec<(usize, Option<usize>, bool)> = vec![];
        for (id, worker) in workers.iter().enumerate() {
            let mut held = false;
            for (at, done) in worker.done.iter().enumerate() {
                let op = &worker.block.ops[worker.first + at];
                if *done {
                    continue;
                }
                if alone(op) {
                    // Some threads do these one after the other.
                    if held {
                        continue;
                    }
                    held = true;
                    let kind = op.channel_type.clone().unwrap_or_default();
                    let mut can = true;
                    for &number in &op.channel_ids {
                        let channel = channel(worker, &kind, number)?;
                        can &= match &op.name[..] {
                            "wait" | "rlxwait" => {
                                count.get(&(worker.gpu, kind.clone(), channel)).is_some_and(|&count| count > 0)
                            }
                            "flush" => queues.get(&(worker.gpu, channel)).is_none_or(|queue| queue.is_empty()),
                            _ => true,
                        };
                    }
                    if op.name == "sem_acquire" {
                        can = op
                            .semaphore_ids
                            .iter()
                            .all(|&id| semaphores[worker.gpu].get(id as usize).is_some_and(|&n| n > 0));
                    }
                    if can {
                        ready.push((id, Some(at), false));
                    }
                } else {
                    let begun = worker.read.contains_key(&at);
                    let there = |one: &Move| {
                        one.packets.iter().all(|&src| one.srcs[src].iter().all(|cell| flags.contains(cell)))
                    };
                    if begun || moves(worker, worker.first + at)?.iter().all(there) {
                        ready.push((id, Some(at), begun));
                    }
                }
            }
            let ended = worker.first + worker.done.len();
            if worker.done.iter().all(|&done| done) && ended < worker.block.ops.len() {
                let op = &worker.block.ops[ended];
                let meets = match &op.name[..] {
                    "barrier" => {
                        let there = workers.iter().filter(|other| {
                            let at = other.first + other.done.len();
                            other.gpu == worker.gpu
                                && other.done.iter().all(|&done| done)
                                && other
                                    .block
                                    .ops
                                    .get(at)
                                    .is_some_and(|op2| op2.name == "barrier" && op2.barrier_id == op.barrier_id)
                        });
                        there.count() == op.num_threadblocks.unwrap_or(0) as usize
                    }
                    _ => true,
                };
                if meets {
                    ready.push((id, None, false));
                }
            }
        }
        let queued: Vec<(usize, usize)> =
            queues.iter().filter(|(_, queue)| !queue.is_empty()).map(|(&key, _)| key).collect();
        if ready.is_empty() && queued.is_empty() {
            break;
        }
        let kinder: Vec<_> = match turn {
            Turn::Last(late) => ready.iter().copied().filter(|&(id, ..)| id != late).collect(),
            Turn::Slow(slow) => ready.iter().copied().filter(|&(id, _, begun)| id != slow || !begun).collect(),
            Turn::First(early) => ready.iter().copied().filter(|&(id, ..)| id == early).collect(),
            Turn::Random(_) => vec![],
        };
        let from = if kinder.is_empty() { &ready } else { &kinder };
        let pick = random.below(from.len() + if kinder.is_empty() { queued.len() } else { 0 });
        let mut sorted = queued;
        sorted.sort_unstable();
        if pick >= from.len() {
            let (gpu, port) = sorted[pick - from.len()];
            match queues.get_mut(&(gpu, port)).unwrap().pop_front().unwrap() {
                Item::Put(one) => {
                    let values: Vec<u64> = one.srcs[0].iter().map(|&(gpu, cell)| memory[gpu][cell]).collect();
                    for (&(gpu, cell), value) in one.dsts[0].iter().zip(values) {
                        memory[gpu][cell] = value;
                        if !one.writes_packets.is_empty() {
                            flags.insert((gpu, cell));
                        }
                    }
                }
                Item::Signal(channel) => {
                    let (peer, end) = other(gpu, "port", channel)?;
                    *count.entry((peer, "port".into(), end)).or_default() += 1;
                }
            }
            continue;
        }
        let (id, at, begun) = from[pick];
        let Some(at) = at else {
            let at = workers[id].first + workers[id].done.len();
            let op = &workers[id].block.ops[at];
            let meets: Vec<usize> = match &op.name[..] {
                "barrier" => (0..workers.len())
                    .filter(|&other| {
                        let worker = &workers[other];
                        let next = worker.first + worker.done.len();
                        worker.gpu == workers[id].gpu
                            && worker.done.iter().all(|&done| done)
                            && worker
                                .block
                                .ops
                                .get(next)
                                .is_some_and(|op2| op2.name == "barrier" && op2.barrier_id == op.barrier_id)
                    })
                    .collect(),
                _ => vec![id],
            };
            for id in meets {
                let worker = &mut workers[id];
                worker.first += worker.done.len() + 1;
                worker.done = vec![false; stretch(worker.block, worker.first)];
                worker.read.clear();
            }
            continue;
        };
        let gpu = workers[id].gpu;
        let op = workers[id].block.ops[workers[id].first + at].clone();
        let kind_of = op.channel_type.clone().unwrap_or("memory".into());
        if signals(&op) {
            for &number in &op.channel_ids {
                let channel = channel(&workers[id], &kind_of, number)?;
                match &op.name[..] {
                    "signal" | "rlxsignal" if kind_of == "port" => {
                        queues.entry((gpu, channel)).or_default().push_back(Item::Signal(channel))
                    }
                    "signal" | "rlxsignal" => {
                        let (peer, end) = other(gpu, &kind_of, channel)?;
                        *count.entry((peer, kind_of.clone(), end)).or_default() += 1;
                    }
                    "wait" | "rlxwait" => *count.get_mut(&(gpu, kind_of.clone(), channel)).unwrap() -= 1,
                    _ => {}
                }
            }
            for &number in &op.semaphore_ids {
                let semaphore = semaphores[gpu].get_mut(number as usize).ok_or("no semaphore")?;
                if op.name == "sem_acquire" { *semaphore -= 1 } else { *semaphore += 1 }
            }
            workers[id].done[at] = true;
            continue;
        }
        let list = moves(&workers[id], workers[id].first + at)?;
        if kind_of == "port" && op.name.starts_with('p') {
            for (one, &number) in list.iter().zip(&op.channel_ids) {
                let channel = channel(&workers[id], "port", number)?;
                let queue = queues.entry((gpu, channel)).or_default();
                queue.push_back(Item::Put(one.clone()));
                if op.name.starts_with("pws") {
                    queue.push_back(Item::Signal(channel));
                }
                if op.name == "pwsf" {
                    while let Some(item) = queues.get_mut(&(gpu, channel)).unwrap().pop_front() {
                        match item {
                            Item::Put(one) => {
                                let values: Vec<u64> =
                                    one.srcs[0].iter().map(|&(gpu, cell)| memory[gpu][cell]).collect();
                                one.dsts[0]
                                    .iter()
                                    .zip(values)
                                    .for_each(|(&(gpu, cell), value)| memory[gpu][cell] = value);
                            }
                            Item::Signal(channel) => {
                                let (peer, end) = other(gpu, "port", channel)?;
                                *count.entry((peer, "port".into(), end)).or_default() += 1;
                            }
                        }
                    }
                }
            }
            workers[id].done[at] = true;
        } else if begun {
            let values = workers[id].read.remove(&at).unwrap();
            for (one, values) in list.iter().zip(values) {
                for (to, dst) in one.dsts.iter().enumerate() {
                    for (&(gpu, cell), &value) in dst.iter().zip(&values) {
                        memory[gpu][cell] = value;
                        if one.writes_packets.contains(&to) {
                            flags.insert((gpu, cell));
                        }
                    }
                }
            }
            workers[id].done[at] = true;
        } else {
            let value = |one: &Move| -> Vec<u64> {
                (0..one.srcs[0].len())
                    .map(|k| one.srcs.iter().fold(0u64, |sum, src| sum.wrapping_add(memory[src[k].0][src[k].1])))
                    .collect()
            };
            let values = list.iter().map(value).collect();
            workers[id].read.insert(at, values);
        }
    }
    if workers
        .iter()
        .any(|worker| worker.first + worker.done.len() < worker.block.ops.len() || worker.done.contains(&false))
    {
        return Err("deadlock".into());
    }
    if count.values().any(|&count| count > 0) {
        return Err("a signal that nobody waited for".into());
    }
    for (gpu, list) in plan.gpus.iter().zip(&semaphores) {
        if gpu.semaphores.iter().zip(list).any(|(first, &last)| first.init_value != last) {
            return Err("a semaphore that does not end as it began".into());
        }
    }
    let input = |gpu: usize, at: usize, half: usize| before[gpu][cell(gpu, "i", at).unwrap() * halves + half];
    for gpu in 0..gpus {
        for at in 0..outputs {
            for half in 0..halves {
                let sum = |at: usize| (0..gpus).fold(0u64, |sum, gpu| sum.wrapping_add(input(gpu, at, half)));
                let wanted = match kind {
                    Kind::AllReduce => sum(at),
                    Kind::ReduceScatter => sum(gpu * part + at),
                    Kind::Reduce if gpu == root => sum(at),
                    Kind::Reduce => continue,
                    Kind::Broadcast => input(root, at, half),
                    Kind::AllGather => input(at / part, at % part, half),
                    Kind::AllToAll => input(at / part, gpu * part + at % part, half),
                };
                if memory[gpu][cell(gpu, "o", at).unwrap() * halves + half] != wanted {
                    return Err(format!("gpu {gpu} ends with a wrong chunk {at}"));
                }
            }
        }
    }
    Ok(())
}
