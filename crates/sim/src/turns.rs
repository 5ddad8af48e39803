//! Messages in the order in which they are served: by phase, slot and transfer.
//!
//! Of every transfer the next chunk is in the list. First chunks are sorted once; what is served in order comes back
//! in order, so that chunks further on are queues, one for each stride. Nothing is ever searched.

use super::plan::{MessageKind, RunPlan};
use antiphon_model::schedule::TransferId;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Place of a message in the order of service: phase, slot, transfer.
pub type Turn = (u32, u64, TransferId);

/// See the module.
#[derive(Default)]
pub struct Turns {
    /// The first chunk that comes next.
    head: Option<Turn>,
    /// Whose first chunks come after it, the next one last. Where a transfer is in the order is looked up when it becomes
    /// the head: lists of millions are short then, and its memory has come by the time it is served.
    first: Vec<TransferId>,
    /// Next chunks of the others, by stride.
    next: SmallVec<[(u64, VecDeque<Turn>); 1]>,
    /// Those that were put back out of order.
    back: BinaryHeap<Reverse<Turn>>,
}

impl Turns {
    /// Adds a transfer; they come in order ([`RunPlan::in_order`]), and [`Turns::begin`] after the last.
    pub fn add(&mut self, id: TransferId) {
        self.first.push(id);
    }

    /// All transfers were added.
    pub fn begin(&mut self, plan: &RunPlan) {
        self.first.reverse();
        self.first.shrink_to_fit();
        self.next_head(plan);
    }

    fn next_head(&mut self, plan: &RunPlan) {
        self.head = self.first.pop().map(|id| plan.first_turn(id));
    }

    /// The next message to be served.
    #[inline]
    pub fn peek(&self) -> Option<Turn> {
        let mut turn = self.head;
        for (_, turns) in &self.next {
            if let Some(&next) = turns.front()
                && turn.is_none_or(|turn| next < turn)
            {
                turn = Some(next);
            }
        }
        match self.back.peek() {
            Some(&Reverse(back)) if turn.is_none_or(|turn| back < turn) => Some(back),
            _ => turn,
        }
    }

    /// Takes the next message out until it is put back, and with it those behind it of its transfer.
    pub fn park(&mut self, plan: &RunPlan) {
        if let Some(turn) = self.peek() {
            self.take(turn, plan);
        }
    }

    /// Puts a transfer back, which is at `chunk`.
    pub fn unpark(&mut self, id: TransferId, plan: &RunPlan, chunk: u64) {
        let job = &plan.jobs[id as usize];
        self.back.push(Reverse((plan.turn_phase(id), plan.slot(job, chunk), id)));
    }

    /// Takes the next message out.
    fn take(&mut self, turn: Turn, plan: &RunPlan) {
        if self.head == Some(turn) {
            self.next_head(plan);
        } else if self.back.peek() == Some(&Reverse(turn)) {
            self.back.pop();
        } else if let Some((_, turns)) = self.next.iter_mut().find(|(_, turns)| turns.front() == Some(&turn)) {
            turns.pop_front();
        }
    }

    /// The next message is being served: the next chunk of its transfer takes its place, if there is one.
    pub fn pop(&mut self, plan: &RunPlan) -> Option<Turn> {
        let turn = self.peek()?;
        let (phase, slot, id) = turn;
        let job = &plan.jobs[id as usize];
        let &MessageKind { chunks, stride, .. } = plan.kind(job);
        self.take(turn, plan);
        if chunks > 1 && plan.chunk(job, slot) + 1 < chunks {
            let queue = self.next.iter().position(|(of, _)| *of == stride).unwrap_or_else(|| {
                self.next.push((stride, VecDeque::new()));
                self.next.len() - 1
            });
            let (next, turns) = ((phase, slot + stride, id), &mut self.next[queue].1);
            // Only what was put back can be behind.
            match turns.back() {
                Some(last) if *last > next => self.back.push(Reverse(next)),
                _ => turns.push_back(next),
            }
        }
        Some(turn)
    }

    /// Chunks further on, of every stride.
    pub fn next(&self) -> impl Iterator<Item = &VecDeque<Turn>> {
        self.next.iter().map(|(_, turns)| turns)
    }

    /// All of them, in any order.
    pub fn iter(&self, plan: &RunPlan) -> impl Iterator<Item = Turn> {
        let first = self.head.into_iter().chain(self.first.iter().map(|&id| plan.first_turn(id)));
        self.next().flatten().copied().chain(first).chain(self.back.iter().map(|&Reverse(turn)| turn))
    }

    /// Transfers go on `chunks` further.
    pub fn skip(&mut self, chunks: &[u64], plan: &RunPlan) {
        let turns = self.next.iter_mut().flat_map(|(_, turns)| turns);
        turns.for_each(|turn| turn.1 += chunks[turn.2 as usize] * plan.kind_of(turn.2).stride);
    }
}
