//! Messages that let others pass while they wait (`units.rs`).

use super::Endpoints;
use antiphon_model::schedule::TransferId;
use std::collections::HashMap;

/// What a message waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AsideFor {
    /// A state machine for its unit.
    Machine,
    /// On the link of a queue: the first of its unit for data, those behind it for their turn.
    Turn(u32),
}

/// Messages that wait, by what for, family and chunk.
#[derive(Default)]
pub struct Aside(HashMap<(AsideFor, u32, u64), Vec<TransferId>>);

impl Endpoints<'_> {
    /// Whether the next message of a transfer must wait for others of its unit on the same link. It does so aside.
    pub fn is_behind(&mut self, queue: u32, id: TransferId) -> bool {
        let chunk = self.transfers[id as usize].started;
        let Some(units) = &self.plan.units else { return false };
        let key = (AsideFor::Turn(queue), units.family_of[id as usize], chunk);
        self.aside.0.get_mut(&key).is_some_and(|waiting| {
            waiting.push(id);
            true
        })
    }

    /// Lets the next message of a transfer wait aside, if others may pass it.
    pub fn step_aside(&mut self, what: AsideFor, id: TransferId) -> bool {
        let chunk = self.transfers[id as usize].started;
        let Some(units) = &self.plan.units else { return false };
        self.aside.0.entry((what, units.family_of[id as usize], chunk)).or_default().push(id);
        true
    }

    /// What messages of a unit waited for has happened: they come back to their queues. Which these are.
    pub fn come_back(&mut self, what: AsideFor, family: u32, chunk: u64) -> Vec<u32> {
        let back = self.aside.0.remove(&(what, family, chunk)).unwrap_or_default().into_iter();
        let unpark = |id: TransferId| {
            let of = &self.transfers[id as usize];
            self.queues[of.queue as usize].turns.unpark(id, self.plan, of.started);
            of.queue
        };
        back.map(unpark).collect()
    }
}
