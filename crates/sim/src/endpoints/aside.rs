//! Messages that let others pass while they wait (`ace/units.rs`).

use super::Endpoints;
use antiphon_model::schedule::TransferId;
use std::collections::HashMap;

/// Messages that wait, by queue, family and chunk: the first for data, those behind it for their turn.
#[derive(Default)]
pub struct Aside(HashMap<(u32, u32, u64), Vec<TransferId>>);

impl Endpoints<'_> {
    /// Whether the next message of a transfer must wait for others of its unit on the same link. It does so aside.
    pub fn is_behind(&mut self, queue: u32, id: TransferId) -> bool {
        let chunk = self.transfers[id as usize].started;
        let Some(units) = &self.plan.units else { return false };
        let key = (queue, units.family_of[id as usize], chunk);
        self.aside.0.get_mut(&key).is_some_and(|waiting| {
            waiting.push(id);
            true
        })
    }

    /// Lets a message wait for its data aside, if others may pass it.
    pub fn step_aside(&mut self, queue: u32, id: TransferId) -> bool {
        let chunk = self.transfers[id as usize].started;
        let Some(units) = &self.plan.units else { return false };
        self.aside.0.insert((queue, units.family_of[id as usize], chunk), vec![id]);
        true
    }

    /// What a message waited for has happened: it and those behind it come back.
    pub fn come_back(&mut self, queue: u32, id: TransferId) {
        let chunk = self.transfers[id as usize].started;
        let Some(units) = &self.plan.units else { return };
        let Some(waiting) = self.aside.0.remove(&(queue, units.family_of[id as usize], chunk)) else { return };
        for id in waiting {
            self.queues[queue as usize].turns.unpark(id, self.plan, self.transfers[id as usize].started);
        }
    }
}
