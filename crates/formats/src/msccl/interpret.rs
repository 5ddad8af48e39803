//! Proof of a program: it cannot deadlock, no two steps use a chunk in no order, and every rank ends with the right sums.
//!
//! The program itself enforces this order: a thread block's steps follow each other, a step follows the one it waits
//! for, and a receipt follows its sending. A connection that holds few messages orders more, but the proof does not
//! rely on it. If all conflicting accesses are ordered, every execution computes the same as this one.

use super::cells::Cells;
use super::consumers::CONSUMERS;
use super::graph::{StepGraph, StepId, wrong};
use super::model::{Algo, ChunkPlace, StepAction};
use super::races;
use crate::FileProof;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::watch::Watch;
use std::collections::HashMap;
use std::sync::Arc;

/// Most chunks of all buffers together.
const MAX_CELLS: u64 = 1 << 25;
/// Most terms of all sums that are followed, and most accesses.
const MAX_WORK: u64 = 1 << 28;

/// A sum of what cells held at first: each cell with how often it is in it, ascending.
type Sum = Arc<[(u32, u32)]>;

/// Proves an algorithm.
///
/// Complexity: O(steps * chunks of a step * ranks), and for chunks that only messages over other GPUs order
/// O(steps of all GPUs) for each GPU.
///
/// # Errors
/// [`Code::NotProven`] with the first deadlock, race or wrong chunk, naming GPU, thread block and step; [`Code::TooLarge`];
/// [`Code::Interrupted`].
pub fn prove(algo: &Algo, watch: Watch) -> Result<FileProof> {
    let graph = StepGraph::new(algo, None, watch)?;
    let fifo_depth = graph.least_depth()?;
    let order = check(&graph)?;
    let receives = |node: &StepId| graph.step(*node).action.receives();
    Ok(FileProof {
        blocks: algo.gpus.iter().map(|gpu| gpu.blocks.len() as u64).sum(),
        steps: algo.steps(),
        messages: order.iter().filter(|node| receives(node)).count() as u64,
        fifo_depth,
        places: algo.places().into_iter().map(|(_, name)| name).collect(),
        consumers: CONSUMERS
            .iter()
            .map(|consumer| (consumer.name, consumer.check(algo).err().map(|error| error.message)))
            .collect(),
    })
}

/// Checks that nothing can deadlock where connections hold any number of messages, that there is no race, and the sums; gives an order
/// of all steps.
///
/// # Errors
/// As [`prove`].
pub fn check(graph: &StepGraph) -> Result<Vec<StepId>> {
    graph.watch.step(0, 1)?;
    let order = graph.order(None).map_err(|cycle| graph.deadlock(&cycle))?;
    for (in_place, place) in graph.algo.places() {
        let cells = graph.algo.cells(in_place);
        let mut run = SymbolicRun::new(graph, &cells)?;
        order.iter().try_for_each(|&node| run.step(node))?;
        races::check(graph, &cells, &order, &run.accesses).map_err(|error| error.at(place))?;
        run.check_result().map_err(|error| error.at(place))?;
    }
    Ok(order)
}

/// A step's access to a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellAccess {
    pub cell: u32,
    pub node: StepId,
    /// Whether it changes the value. Writing the same value again counts as a read.
    pub writes: bool,
}

/// One execution, on sums.
struct SymbolicRun<'a> {
    graph: &'a StepGraph<'a>,
    cells: &'a Cells,
    /// The sum in every cell that has been written.
    held: Vec<Option<Sum>>,
    /// The step that wrote a cell last.
    writer: HashMap<u32, StepId>,
    /// Messages under way, by the step that sent them.
    sent: HashMap<StepId, Vec<Sum>>,
    accesses: Vec<CellAccess>,
    work: u64,
}

impl<'a> SymbolicRun<'a> {
    fn new(graph: &'a StepGraph<'a>, cells: &'a Cells) -> Result<Self> {
        if cells.count() > MAX_CELLS {
            let what = format!("{} chunks in all buffers; at most {MAX_CELLS} are followed", cells.count());
            return Err(Error::new(Code::TooLarge, what));
        }
        let held = vec![None; cells.count() as usize];
        Ok(SymbolicRun { graph, cells, held, writer: HashMap::new(), sent: HashMap::new(), accesses: vec![], work: 0 })
    }

    fn sum(&self, cell: usize) -> Sum {
        self.held[cell].clone().unwrap_or_else(|| Arc::new([(cell as u32, 1)]))
    }

    fn range(&self, node: StepId, place: ChunkPlace) -> std::ops::Range<usize> {
        let first = self.cells.of(self.graph.owner[node as usize].0, place);
        first..first + self.graph.step(node).count as usize
    }

    fn worked(&mut self, more: usize) -> Result<()> {
        // Reports by work, since steps may be few or many, of few chunks or many.
        let before = self.work >> 16;
        self.work += more as u64;
        if before != self.work >> 16 {
            self.graph.watch.step(self.work as usize, MAX_WORK as usize)?;
        }
        match self.work > MAX_WORK {
            true => Err(Error::new(Code::TooLarge, "its sums are too long to be followed")),
            false => Ok(()),
        }
    }

    fn step(&mut self, node: StepId) -> Result<()> {
        let step = self.graph.step(node);
        if step.action == StepAction::Nop {
            return Ok(());
        }
        self.worked(3 * step.count as usize)?;
        let mut data: Option<Vec<Sum>> = match step.action.receives() {
            true => self.sent.remove(&self.graph.sender[node as usize]),
            false => None,
        };
        let (reads, writes) = StepGraph::accesses(step);
        let written = writes.map(|place| self.range(node, place)).unwrap_or_default();
        for place in reads {
            let range = self.range(node, place);
            let mut own: Vec<Sum> = Vec::with_capacity(range.len());
            for (at, cell) in range.enumerate() {
                let sum = self.sum(cell);
                own.push(match &data {
                    Some(data) => {
                        let both = added(&data[at], &sum);
                        self.worked(both.len())?;
                        both
                    }
                    None => sum,
                });
                if !written.contains(&cell) {
                    self.accesses.push(CellAccess { cell: cell as u32, node, writes: false });
                }
            }
            data = Some(own);
        }
        let data = data.unwrap_or_default();
        for (cell, sum) in written.zip(&data) {
            let same = match &self.held[cell] {
                Some(held) => held == sum,
                None => sum[..] == [(cell as u32, 1)],
            };
            self.accesses.push(CellAccess { cell: cell as u32, node, writes: !same });
            if !same {
                self.held[cell] = Some(sum.clone());
                self.writer.insert(cell as u32, node);
            }
        }
        if step.action.sends() {
            self.sent.insert(node, data);
        }
        Ok(())
    }

    fn check_result(&self) -> Result<()> {
        let output = super::model::Buffer::Output;
        let gpus = self.graph.algo.gpus.len() as u32;
        for gpu in 0..gpus {
            self.graph.watch.step(gpu as usize, gpus as usize)?;
            for offset in 0..self.cells.size(output) {
                let Some(wanted) = self.cells.wanted(gpu, offset) else { break };
                let cell = self.cells.of(gpu, ChunkPlace { buffer: output, offset });
                let found = self.sum(cell);
                let right = wanted.len() == found.len()
                    && wanted.iter().zip(&*found).all(|(&cell, &term)| (cell as u32, 1) == term);
                if !right {
                    let last = match self.writer.get(&(cell as u32)) {
                        Some(&node) => format!("last written by {}", self.graph.name(node)),
                        None => "never written".into(),
                    };
                    let why = self.difference(&wanted, &found);
                    let chunk = self.graph.chunk(offset);
                    return wrong(format!("gpu {gpu} ends with a wrong chunk {chunk} of its output, {last}: {why}"));
                }
            }
        }
        Ok(())
    }

    /// The first term in which a sum is not what it should be.
    fn difference(&self, wanted: &[usize], found: &[(u32, u32)]) -> String {
        let term = |cell: usize| {
            let (gpu, place) = self.cells.place(cell);
            format!("what gpu {gpu} had in {}", self.graph.place(place))
        };
        let count =
            |cell: usize| found.iter().find(|&&(other, _)| other as usize == cell).map_or(0, |&(_, count)| count);
        let strange = found.iter().find(|&&(cell, _)| !wanted.contains(&(cell as usize)));
        match (wanted.iter().find(|&&cell| count(cell) != 1), strange) {
            (_, Some(&(cell, _))) => format!("it has {}", term(cell as usize)),
            (Some(&cell), None) if count(cell) == 0 => format!("it lacks {}", term(cell)),
            (Some(&cell), None) => format!("it has {} times {}", count(cell), term(cell)),
            (None, None) => "it differs".into(),
        }
    }
}

/// The sum of two sums.
fn added(a: &Sum, b: &Sum) -> Sum {
    let mut sum = Vec::with_capacity(a.len() + b.len());
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    loop {
        match (a.peek(), b.peek()) {
            (Some(&&(x, count)), Some(&&(y, more))) if x == y => {
                sum.push((x, count.saturating_add(more)));
                a.next();
                b.next();
            }
            (Some(&&x), Some(&&y)) if x.0 < y.0 => {
                sum.push(x);
                a.next();
            }
            (_, Some(&&y)) => {
                sum.push(y);
                b.next();
            }
            (Some(&&x), None) => {
                sum.push(x);
                a.next();
            }
            (None, None) => return sum.into(),
        }
    }
}
