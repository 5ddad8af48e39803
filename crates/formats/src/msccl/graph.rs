//! The order of steps as a graph, which holds in every execution. Messages of a connection are matched by order, so the
//! graph is known without running anything, and a deadlock is a cycle in it.

use super::model::{Algo, ChunkPlace, MscclStep, StepAction};
use super::read::MAX_STEPS;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::watch::Watch;
use std::collections::HashMap;

/// Number of a step among those of all GPUs.
pub type StepId = u32;

/// No step.
pub const NONE: StepId = StepId::MAX;

/// Names of steps and chunks in another format that is lowered to this one.
pub trait Names {
    /// A step of a GPU and a thread block.
    fn step(&self, gpu: u32, tb: u32, step: u32) -> String;
    /// A chunk of a buffer.
    fn chunk(&self, offset: u32) -> String;
    /// Why nothing orders two steps of a GPU, each a thread block and a step of it; empty if it cannot be said.
    fn unordered(&self, gpu: u32, steps: [(u32, u32); 2]) -> &'static str;
}

/// The steps of an algorithm, and the messages between them.
pub struct StepGraph<'a> {
    /// The algorithm.
    pub algo: &'a Algo,
    names: Option<&'a dyn Names>,
    /// Watches the work on it.
    pub watch: Watch<'a>,
    /// GPU and thread block of every step.
    pub owner: Vec<(u32, u32)>,
    /// Number of the first step, by GPU and thread block.
    pub first: Vec<Vec<StepId>>,
    /// For every step that receives, the one that sends the message.
    pub sender: Vec<StepId>,
    /// Steps that send and that receive, in order, of every connection.
    connections: Vec<(Vec<StepId>, Vec<StepId>)>,
}

impl<'a> StepGraph<'a> {
    /// Matches messages. O(steps).
    ///
    /// # Errors
    /// [`Code::NotProven`] where one of the two sides of a message is missing, or they differ in size; [`Code::Interrupted`].
    pub fn new(algo: &'a Algo, names: Option<&'a dyn Names>, watch: Watch<'a>) -> Result<StepGraph<'a>> {
        let mut graph =
            StepGraph { algo, names, watch, owner: vec![], first: vec![], sender: vec![], connections: vec![] };
        let mut numbers: HashMap<(u32, u32, u32), usize> = HashMap::new();
        for (gpu, program) in (0..).zip(&algo.gpus) {
            graph.first.push(vec![]);
            for (tb, block) in (0..).zip(&program.blocks) {
                graph.first[gpu as usize].push(graph.owner.len() as StepId);
                for step in &block.steps {
                    watch.at(graph.owner.len(), MAX_STEPS)?;
                    let node = graph.owner.len() as StepId;
                    graph.owner.push((gpu, tb));
                    let mut note = |from: u32, to: u32, receives: bool| {
                        let next = graph.connections.len();
                        let number = *numbers.entry((from, to, block.channel)).or_insert(next);
                        if number == next {
                            graph.connections.push((vec![], vec![]));
                        }
                        let (sends, receipts) = &mut graph.connections[number];
                        if receives { receipts.push(node) } else { sends.push(node) }
                    };
                    if let Some(peer) = block.recv.filter(|_| step.action.receives()) {
                        note(peer, gpu, true);
                    }
                    if let Some(peer) = block.send.filter(|_| step.action.sends()) {
                        note(gpu, peer, false);
                    }
                }
            }
        }
        graph.sender = vec![NONE; graph.owner.len()];
        for (sends, receives) in &graph.connections {
            for (&send, &receive) in sends.iter().zip(receives) {
                graph.sender[receive as usize] = send;
                let (sent, taken) = (graph.step(send).count, graph.step(receive).count);
                if sent != taken {
                    let (send, receive) = (graph.name(send), graph.name(receive));
                    return wrong(format!("{send} sends {sent} chunks, {receive} takes {taken}"));
                }
            }
            let both = sends.len().min(receives.len());
            if let Some(&send) = sends.get(both) {
                return wrong(format!("{} sends a message that nobody receives", graph.name(send)));
            }
            if let Some(&receive) = receives.get(both) {
                return wrong(format!("deadlock: {} waits for a message that nobody sends", graph.name(receive)));
            }
        }
        Ok(graph)
    }

    /// A step by its number.
    pub fn step(&self, node: StepId) -> &'a MscclStep {
        let (gpu, tb) = self.owner[node as usize];
        &self.algo.gpus[gpu as usize].blocks[tb as usize].steps[self.index(node) as usize]
    }

    /// Number of a step in its thread block.
    pub fn index(&self, node: StepId) -> u32 {
        let (gpu, tb) = self.owner[node as usize];
        node - self.first[gpu as usize][tb as usize]
    }

    /// The step a step waits for by name.
    pub fn awaited(&self, node: StepId) -> Option<StepId> {
        let (gpu, _) = self.owner[node as usize];
        self.step(node).after.map(|(tb, step)| self.first[gpu as usize][tb as usize] + step)
    }

    /// The step before it in its thread block.
    pub fn before(&self, node: StepId) -> Option<StepId> {
        (self.index(node) > 0).then(|| node - 1)
    }

    /// Direct predecessors of a step on the same GPU.
    pub fn local(&self, node: StepId) -> impl Iterator<Item = StepId> {
        self.before(node).into_iter().chain(self.awaited(node))
    }

    /// [`StepGraph::local`], and the step that sends the message that it receives.
    pub fn all_before(&self, node: StepId) -> impl Iterator<Item = StepId> {
        self.local(node).chain(Some(self.sender[node as usize]).filter(|&sender| sender != NONE))
    }

    /// GPU, thread block and step, with what it does.
    pub fn name(&self, node: StepId) -> String {
        let ((gpu, tb), step) = (self.owner[node as usize], self.index(node));
        if let Some(names) = self.names {
            return names.step(gpu, tb, step);
        }
        format!("gpu {gpu} tb {tb} step {step} ({})", self.step(node).action.name())
    }

    /// A chunk of a buffer.
    pub fn chunk(&self, offset: u32) -> String {
        self.names.map_or_else(|| offset.to_string(), |names| names.chunk(offset))
    }

    /// A chunk, with its buffer.
    pub fn place(&self, place: ChunkPlace) -> String {
        let chunk = self.chunk(place.offset);
        let (number, part) = chunk.split_once(' ').unwrap_or((&chunk, ""));
        format!("{}[{number}] {part}", place.buffer.letter()).trim_end().into()
    }

    /// Why nothing orders two steps of a GPU; empty if it cannot be said.
    pub fn unordered(&self, first: StepId, second: StepId) -> &'static str {
        let [(gpu, a), (_, b)] = [first, second].map(|node| self.owner[node as usize]);
        self.names.map_or("", |names| names.unordered(gpu, [(a, self.index(first)), (b, self.index(second))]))
    }

    /// An order of all steps in which each comes after what it waits for, where a connection holds `depth` messages, or any
    /// number.
    ///
    /// # Errors
    /// A cycle of steps, each waiting for the next.
    pub fn order(&self, depth: Option<usize>) -> std::result::Result<Vec<StepId>, Vec<StepId>> {
        let count = self.owner.len();
        let mut after: Vec<(StepId, StepId)> = vec![];
        for node in 0..count as StepId {
            after.extend(self.all_before(node).map(|earlier| (earlier, node)));
        }
        for (sends, receives) in depth.iter().flat_map(|_| &self.connections) {
            after.extend(receives.iter().copied().zip(sends.iter().copied().skip(depth.unwrap_or(0))));
        }
        after.sort_unstable();
        let mut left = vec![0u32; count];
        after.iter().for_each(|&(_, node)| left[node as usize] += 1);
        let mut start = vec![0usize; count + 1];
        after.iter().for_each(|&(earlier, _)| start[earlier as usize + 1] += 1);
        (0..count).for_each(|node| start[node + 1] += start[node]);
        let mut order: Vec<StepId> = (0..count as StepId).filter(|&node| left[node as usize] == 0).collect();
        let mut next = 0;
        while let Some(&node) = order.get(next) {
            next += 1;
            for &(_, later) in &after[start[node as usize]..start[node as usize + 1]] {
                left[later as usize] -= 1;
                if left[later as usize] == 0 {
                    order.push(later);
                }
            }
        }
        if order.len() == count {
            return Ok(order);
        }
        let mut waits_for = vec![NONE; count];
        for &(earlier, node) in after.iter().filter(|&&(earlier, _)| left[earlier as usize] > 0) {
            waits_for[node as usize] = earlier;
        }
        let mut seen = vec![false; count];
        let mut node = (0..count).find(|&node| left[node] > 0).unwrap_or(0);
        while !seen[node] {
            seen[node] = true;
            node = waits_for[node] as usize;
        }
        let mut cycle = vec![node as StepId];
        while waits_for[cycle[cycle.len() - 1] as usize] != node as StepId {
            cycle.push(waits_for[cycle[cycle.len() - 1] as usize]);
        }
        Err(cycle)
    }

    /// The error that the steps of a cycle wait for each other.
    pub fn deadlock(&self, cycle: &[StepId]) -> Error {
        let mut names: Vec<String> = cycle.iter().map(|&node| self.name(node)).collect();
        names.dedup();
        if names.len() > 1 && names.first() == names.last() {
            names.pop();
        }
        let more = if names.len() > 6 { format!(" ({} in all)", names.len()) } else { String::new() };
        names.truncate(6);
        Error::new(Code::NotProven, format!("deadlock: {} waits for the first{more}", names.join(" waits for ")))
    }

    /// The least number of messages that connections must hold so that nothing can deadlock, of 1, 2, 4 and 8.
    ///
    /// # Errors
    /// [`Code::NotProven`] with a cycle of waits if 8 are too few; [`Code::Interrupted`].
    pub fn least_depth(&self) -> Result<u32> {
        for depth in [1, 2, 4, 8] {
            self.watch.step(0, 1)?;
            match self.order(Some(depth)) {
                Ok(_) => return Ok(depth as u32),
                Err(_) if depth < 8 => {}
                Err(cycle) => return Err(self.deadlock(&cycle)),
            }
        }
        Ok(8)
    }

    /// Chunks that a step reads and those that it writes, each a first one and a number.
    pub fn accesses(step: &MscclStep) -> (Vec<ChunkPlace>, Option<ChunkPlace>) {
        let mut reads = vec![];
        if step.action.reads() {
            reads.push(step.src);
        }
        if step.action == StepAction::Reduce {
            reads.push(step.dst);
        }
        (reads, step.action.writes().then_some(step.dst))
    }
}

/// A refusal of a file that would run wrong.
pub fn wrong<T>(what: impl AsRef<str>) -> Result<T> {
    Err(Error::new(Code::NotProven, what))
}
