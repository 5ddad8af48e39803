//! A machine that runs MSCCL++ plans on numbers, one small event after the other in a random or unkind order. Between two `nop`s all
//! data operations of a thread block go on at once, whatever some of its threads wait for. It shares no code with the proof.

use super::machine::{Memory, Turn};
use antiphon_formats::mscclpp::{MscclppPlan, PlanBlock, PlanChunks, PlanGpu, PlanOperation};
use antiphon_model::collective::Kind;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::rc::Rc;

/// A GPU and a cell of it.
type Cell = (usize, usize);
/// Something that a worker may do next: an operation, and whether it has begun, or all its threads meet.
type Ready = (usize, Option<usize>, bool);

/// Memory has two of each chunk, for plans that share operations among two thread blocks.
const HALVES: usize = 2;

/// What a data operation does to one run of chunks.
#[derive(Clone, Debug)]
struct Move {
    srcs: Vec<Vec<Cell>>,
    dsts: Vec<Vec<Cell>>,
    /// Sources and destinations, by number, that are packets.
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

impl<'a> Worker<'a> {
    /// Begins the stretch that begins with an operation.
    fn begin(&mut self, first: usize) {
        let meets = |op: &PlanOperation| op.name == "nop" || op.name == "barrier";
        let ops = &self.block.ops[first..];
        self.first = first;
        self.done = vec![false; ops.iter().position(meets).unwrap_or(ops.len())];
        self.read.clear();
    }

    /// The operation at which all threads now meet.
    fn meeting(&self) -> Option<&'a PlanOperation> {
        let next = self.block.ops.get(self.first + self.done.len());
        next.filter(|_| self.done.iter().all(|&done| done))
    }

    fn channel(&self, kind: &str, id: u32) -> Result<usize, String> {
        let own = self.block.channels.iter().filter(|channels| channels.channel_type == kind);
        let channel = own.flat_map(|channels| &channels.channel_ids).nth(id as usize);
        channel.map(|&channel| channel as usize).ok_or("no channel".into())
    }
}

struct Machine<'a> {
    plan: &'a MscclppPlan,
    memory: Memory,
    /// Cells that have packets.
    flags: FxHashSet<Cell>,
    workers: Vec<Worker<'a>>,
    /// Signals not yet waited for, by GPU, kind and channel.
    count: FxHashMap<(usize, &'a str, usize), u64>,
    semaphores: Vec<Vec<u32>>,
    /// By GPU and port channel.
    queues: FxHashMap<(usize, usize), VecDeque<Item>>,
}

/// Runs a plan; says what went wrong.
pub fn run(plan: &MscclppPlan, kind: Kind, root: usize, turn: Turn) -> Result<(), String> {
    let mut machine = Machine::new(plan, kind);
    let mut random = turn.random();
    loop {
        let ready = machine.ready()?;
        let queues = machine.queues.iter().filter(|(_, queue)| !queue.is_empty());
        let mut queued: Vec<(usize, usize)> = queues.map(|(&key, _)| key).collect();
        queued.sort_unstable();
        if ready.is_empty() && queued.is_empty() {
            break;
        }
        let kinder: Vec<Ready> = match turn {
            Turn::Last(late) => ready.iter().copied().filter(|&(id, ..)| id != late).collect(),
            Turn::Slow(slow) => ready.iter().copied().filter(|&(id, _, begun)| id != slow || !begun).collect(),
            Turn::First(early) => ready.iter().copied().filter(|&(id, ..)| id == early).collect(),
            Turn::Random(_) => vec![],
        };
        let (from, ports) = if kinder.is_empty() { (&ready, queued.len()) } else { (&kinder, 0) };
        let pick = random.below(from.len() + ports);
        match from.get(pick) {
            Some(&(id, Some(at), begun)) => machine.operate(id, at, begun)?,
            Some(&(id, None, _)) => machine.meet(id),
            None => machine.deliver(queued[pick - from.len()])?,
        }
    }
    machine.check()?;
    machine.memory.check(root)
}

fn kind_of(op: &PlanOperation) -> &str {
    op.channel_type.as_deref().unwrap_or("memory")
}

/// Whether an operation moves no data.
fn signals(op: &PlanOperation) -> bool {
    matches!(&op.name[..], "signal" | "wait" | "rlxsignal" | "rlxwait" | "flush" | "sem_acquire" | "sem_release")
}

/// Whether a single thread does an operation, always the same.
fn alone(op: &PlanOperation) -> bool {
    signals(op) || kind_of(op) == "port" && op.name.starts_with('p') && op.dst_buff.len() == 1
}

impl<'a> Machine<'a> {
    fn new(plan: &'a MscclppPlan, kind: Kind) -> Self {
        let first = &plan.gpus[0];
        let total = if kind == Kind::AllGather { first.output_chunks } else { first.input_chunks } as usize;
        let scratch = plan.gpus.iter().map(|gpu| HALVES * gpu.scratch_chunks as usize).collect();
        let worker = |(gpu, block): (usize, &'a PlanBlock)| {
            let (read, moves) = (FxHashMap::default(), RefCell::default());
            let mut worker = Worker { gpu, block, first: 0, done: vec![], read, moves };
            worker.begin(0);
            worker
        };
        let blocks = plan.gpus.iter().enumerate().flat_map(|(id, gpu)| gpu.threadblocks.iter().map(move |tb| (id, tb)));
        let semaphores = |gpu: &PlanGpu| gpu.semaphores.iter().map(|semaphore| semaphore.init_value).collect();
        Machine {
            plan,
            memory: Memory::new(kind, plan.inplace, HALVES * total, scratch),
            flags: FxHashSet::default(),
            workers: blocks.map(worker).collect(),
            count: FxHashMap::default(),
            semaphores: plan.gpus.iter().map(semaphores).collect(),
            queues: FxHashMap::default(),
        }
    }

    fn cells(&self, worker: &Worker, op: &PlanOperation, chunks: &PlanChunks) -> Result<Vec<Cell>, String> {
        let (owner, letter) = match (&chunks.kind, chunks.buffer_id) {
            (Some(letter), _) => (worker.gpu, letter),
            (None, Some(id)) => {
                let refs = worker.block.remote_buffer_refs.iter();
                let refs = refs.filter(|refs| refs.access_channel_type == kind_of(op));
                let number = *refs.flat_map(|refs| &refs.remote_buffer_ids).nth(id as usize).ok_or("no buffer")?;
                let remote = &self.plan.gpus[worker.gpu].remote_buffers;
                let buffer = remote.get(number as usize).ok_or("no buffer")?;
                (buffer.rank as usize, &buffer.kind)
            }
            _ => return Err("no buffer".into()),
        };
        if owner >= self.plan.gpus.len() {
            return Err("no gpu".into());
        }
        let (tb, of) = op.tbg_info.map_or((0, 1), |part| (part.tb_id as usize, part.tbg_size as usize));
        let count = chunks.size as usize * HALVES / of;
        let first = chunks.index as usize * HALVES + tb * count;
        (first..first + count).map(|at| self.memory.cell(owner, letter, at).map(|cell| (owner, cell))).collect()
    }

    /// What a data operation of a worker does.
    fn moves(&self, worker: &Worker, number: usize) -> Result<Rc<[Move]>, String> {
        if let Some(moves) = worker.moves.borrow().get(&number) {
            return Ok(moves.clone());
        }
        let op = &worker.block.ops[number];
        let all = |list: &[PlanChunks]| -> Result<Vec<Vec<Cell>>, String> {
            list.iter().map(|chunks| self.cells(worker, op, chunks)).collect()
        };
        let (srcs, dsts) = (all(&op.src_buff)?, all(&op.dst_buff)?);
        let one = |srcs: Vec<Vec<Cell>>, dsts: Vec<Vec<Cell>>, packets: Vec<usize>, writes_packets: Vec<usize>| {
            let sizes: HashSet<usize> = srcs.iter().chain(&dsts).map(Vec::len).collect();
            match sizes.len() {
                1 => Ok(Move { srcs, dsts, packets, writes_packets }),
                _ => Err(String::from("sizes differ")),
            }
        };
        let (reads, writes) = (srcs.len(), dsts.len());
        let moves: Rc<[Move]> = match &op.name[..] {
            "put" | "pws" | "pwsf" | "get" | "copy" | "upkt" | "cpkt" | "ppkt" => {
                if reads != writes || reads == 0 {
                    return Err("not as many".into());
                }
                let packets = if op.name == "upkt" { vec![0] } else { vec![] };
                let written = if matches!(&op.name[..], "cpkt" | "ppkt") { vec![0] } else { vec![] };
                let pairs = srcs.into_iter().zip(dsts);
                pairs
                    .map(|(src, dst)| one(vec![src], vec![dst], packets.clone(), written.clone()))
                    .collect::<Result<_, _>>()?
            }
            "rppkt" => [one(srcs, dsts, vec![0], (0..writes).collect())?].into(),
            "re" | "res" | "rre" | "rres" => [one(srcs, dsts, vec![], vec![])?].into(),
            "repkt" | "respkt" | "recpkt" | "recspkt" => {
                [one(srcs, dsts, (1..reads).collect(), (1..writes).collect())?].into()
            }
            other => return Err(format!("no operation {other}")),
        };
        worker.moves.borrow_mut().insert(number, moves.clone());
        Ok(moves)
    }

    /// The other end of a channel.
    fn other_end(&self, gpu: usize, kind: &str, channel: usize) -> Result<(usize, usize), String> {
        let peers = |gpu: &PlanGpu| -> Vec<u32> {
            let of_kind = gpu.channels.iter().filter(|channels| channels.channel_type == kind);
            of_kind.flat_map(|channels| channels.connected_to.clone()).collect()
        };
        let own = peers(&self.plan.gpus[gpu]);
        let peer = *own.get(channel).ok_or("no channel")?;
        let nth = own[..channel].iter().filter(|&&other| other == peer).count();
        let theirs = peers(self.plan.gpus.get(peer as usize).ok_or("no gpu")?);
        let found = (0..).zip(&theirs).filter(|(_, other)| **other as usize == gpu).nth(nth).ok_or("no other end")?;
        Ok((peer as usize, found.0))
    }

    /// All that workers may do next.
    fn ready(&self) -> Result<Vec<Ready>, String> {
        let mut ready = vec![];
        for (id, worker) in self.workers.iter().enumerate() {
            let mut held = false;
            for at in (0..worker.done.len()).filter(|&at| !worker.done[at]) {
                let op = &worker.block.ops[worker.first + at];
                if alone(op) {
                    // Some threads do these one after the other.
                    if !std::mem::replace(&mut held, true) && self.may_go_on(worker, op)? {
                        ready.push((id, Some(at), false));
                    }
                    continue;
                }
                let begun = worker.read.contains_key(&at);
                let is_there = |cell: &Cell| self.flags.contains(cell);
                let there = |one: &Move| one.packets.iter().all(|&src| one.srcs[src].iter().all(is_there));
                if begun || self.moves(worker, worker.first + at)?.iter().all(there) {
                    ready.push((id, Some(at), begun));
                }
            }
            if let Some(op) = worker.meeting() {
                let wanted = if op.name == "barrier" { op.num_threadblocks.unwrap_or(0) as usize } else { 1 };
                if self.together(id, op).len() == wanted {
                    ready.push((id, None, false));
                }
            }
        }
        Ok(ready)
    }

    /// Whether nothing holds what a single thread does.
    fn may_go_on(&self, worker: &Worker, op: &PlanOperation) -> Result<bool, String> {
        let kind = kind_of(op);
        let mut may = true;
        for &number in &op.channel_ids {
            let channel = worker.channel(kind, number)?;
            may &= match &op.name[..] {
                "wait" | "rlxwait" => self.count.get(&(worker.gpu, kind, channel)).is_some_and(|&count| count > 0),
                "flush" => self.queues.get(&(worker.gpu, channel)).is_none_or(|queue| queue.is_empty()),
                _ => true,
            };
        }
        let free = |&id: &u32| self.semaphores[worker.gpu].get(id as usize).is_some_and(|&count| count > 0);
        Ok(if op.name == "sem_acquire" { op.semaphore_ids.iter().all(free) } else { may })
    }

    /// The workers that are at the same barrier, or the one alone.
    fn together(&self, id: usize, op: &PlanOperation) -> Vec<usize> {
        if op.name != "barrier" {
            return vec![id];
        }
        let same = |other: &PlanOperation| other.name == "barrier" && other.barrier_id == op.barrier_id;
        let is_here = |&other: &usize| {
            let other = &self.workers[other];
            other.gpu == self.workers[id].gpu && other.meeting().is_some_and(same)
        };
        (0..self.workers.len()).filter(is_here).collect()
    }

    /// All threads of a worker meet, or of all workers at its barrier.
    fn meet(&mut self, id: usize) {
        let op = self.workers[id].meeting().expect("it is ready to meet");
        for id in self.together(id, op) {
            let worker = &mut self.workers[id];
            worker.begin(worker.first + worker.done.len() + 1);
        }
    }

    /// Does the first thing that a port is to do.
    fn deliver(&mut self, key: (usize, usize)) -> Result<(), String> {
        match self.queues.get_mut(&key).unwrap().pop_front().unwrap() {
            Item::Put(one) => {
                let values = self.sums(&one);
                self.store(&one, &values);
            }
            Item::Signal(channel) => {
                let (peer, end) = self.other_end(key.0, "port", channel)?;
                *self.count.entry((peer, "port", end)).or_default() += 1;
            }
        }
        Ok(())
    }

    /// What a data operation reads, added up.
    fn sums(&self, one: &Move) -> Vec<u64> {
        let value = |(gpu, cell): Cell| self.memory.values[gpu][cell];
        let sum = |k: usize| one.srcs.iter().fold(0u64, |sum, src| sum.wrapping_add(value(src[k])));
        (0..one.srcs[0].len()).map(sum).collect()
    }

    fn store(&mut self, one: &Move, values: &[u64]) {
        for (to, dst) in one.dsts.iter().enumerate() {
            for (&(gpu, cell), &value) in dst.iter().zip(values) {
                self.memory.values[gpu][cell] = value;
                if one.writes_packets.contains(&to) {
                    self.flags.insert((gpu, cell));
                }
            }
        }
    }

    /// Does an operation of a worker: at once, or reads at first and stores when it has begun.
    fn operate(&mut self, id: usize, at: usize, begun: bool) -> Result<(), String> {
        let (number, block) = (self.workers[id].first + at, self.workers[id].block);
        let op = &block.ops[number];
        if signals(op) {
            self.signal(id, op)?;
            self.workers[id].done[at] = true;
            return Ok(());
        }
        let list = self.moves(&self.workers[id], number)?;
        if kind_of(op) == "port" && op.name.starts_with('p') {
            self.put_by_port(id, op, &list)?;
        } else if begun {
            let values = self.workers[id].read.remove(&at).unwrap();
            list.iter().zip(values).for_each(|(one, values)| self.store(one, &values));
        } else {
            let values = list.iter().map(|one| self.sums(one)).collect();
            self.workers[id].read.insert(at, values);
            return Ok(());
        }
        self.workers[id].done[at] = true;
        Ok(())
    }

    fn signal(&mut self, id: usize, op: &'a PlanOperation) -> Result<(), String> {
        let (gpu, kind) = (self.workers[id].gpu, kind_of(op));
        for &number in &op.channel_ids {
            let channel = self.workers[id].channel(kind, number)?;
            match &op.name[..] {
                "signal" | "rlxsignal" if kind == "port" => {
                    self.queues.entry((gpu, channel)).or_default().push_back(Item::Signal(channel));
                }
                "signal" | "rlxsignal" => {
                    let (peer, end) = self.other_end(gpu, kind, channel)?;
                    *self.count.entry((peer, kind, end)).or_default() += 1;
                }
                "wait" | "rlxwait" => *self.count.get_mut(&(gpu, kind, channel)).unwrap() -= 1,
                _ => {}
            }
        }
        for &number in &op.semaphore_ids {
            let semaphore = self.semaphores[gpu].get_mut(number as usize).ok_or("no semaphore")?;
            if op.name == "sem_acquire" { *semaphore -= 1 } else { *semaphore += 1 }
        }
        Ok(())
    }

    fn put_by_port(&mut self, id: usize, op: &PlanOperation, list: &[Move]) -> Result<(), String> {
        for (one, &number) in list.iter().zip(&op.channel_ids) {
            let channel = self.workers[id].channel("port", number)?;
            let key = (self.workers[id].gpu, channel);
            let queue = self.queues.entry(key).or_default();
            queue.push_back(Item::Put(one.clone()));
            if op.name.starts_with("pws") {
                queue.push_back(Item::Signal(channel));
            }
            while op.name == "pwsf" && !self.queues[&key].is_empty() {
                self.deliver(key)?;
            }
        }
        Ok(())
    }

    /// Whether all is done, and nothing is left of it.
    fn check(&self) -> Result<(), String> {
        let open =
            |worker: &Worker| worker.first + worker.done.len() < worker.block.ops.len() || worker.done.contains(&false);
        if self.workers.iter().any(open) {
            return Err("deadlock".into());
        }
        if self.count.values().any(|&count| count > 0) {
            return Err("a signal that nobody waited for".into());
        }
        for (gpu, list) in self.plan.gpus.iter().zip(&self.semaphores) {
            if gpu.semaphores.iter().zip(list).any(|(first, &last)| first.init_value != last) {
                return Err("a semaphore that does not end as it began".into());
            }
        }
        Ok(())
    }
}
