//! Messages that are held at their receivers until later ones are sent, as where ranks exchange what they have and add it.

use super::{Event, Schedule, Transfer, TransferId};
use std::collections::{BTreeSet, HashMap};

/// Which transfers are applied later than it is their turn.
#[derive(Debug, Clone, Default)]
pub struct Held {
    /// The last transfer whose sending each waits for at its receiver, of those that are later.
    until: HashMap<TransferId, Moment>,
    /// When it is each transfer's turn; empty if nothing is held.
    turns: Vec<Moment>,
}

/// A place in schedule order: phase, step, index.
pub type Moment = (u32, u32, TransferId);

/// What happens to a transfer of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListTurn {
    /// Its place in the list.
    pub at: u32,
    /// Whether it is read.
    pub reads: bool,
    /// Whether it is added or stored.
    pub applies: bool,
}

impl Held {
    /// O(dependencies at receivers).
    pub fn of(schedule: &Schedule) -> Held {
        let moment = |id: TransferId, transfer: &Transfer| (transfer.phase, transfer.step, id);
        let mut held = Held::default();
        for (id, transfer) in (0..).zip(&schedule.transfers) {
            let sent = transfer.apply_after.iter().filter(|other| other.event() == Event::Sent && other.lag() == 0);
            let others = sent.filter_map(|other| {
                let at = other.transfer();
                schedule.transfers.get(at as usize).map(|other| moment(at, other))
            });
            if let Some(last) = others.max().filter(|&last| last > moment(id, transfer)) {
                held.until.insert(id, last);
            }
        }
        if !held.is_empty() {
            held.turns = (0..).zip(&schedule.transfers).map(|(id, transfer)| moment(id, transfer)).collect();
        }
        held
    }

    /// Whether all are applied in their turn.
    pub fn is_empty(&self) -> bool {
        self.until.is_empty()
    }

    /// The transfer until which one is held; `None` if it is applied in its turn.
    pub fn until(&self, id: TransferId) -> Option<TransferId> {
        self.until.get(&id).map(|&(.., other)| other)
    }

    /// The turns of transfers in schedule order: what is held is applied right behind what it waits for.
    pub fn turns(&self, list: &[TransferId]) -> Vec<ListTurn> {
        let whole = |at: u32| ListTurn { at, reads: true, applies: true };
        if self.is_empty() {
            return (0..list.len() as u32).map(whole).collect();
        }
        let (mut turns, mut waiting) = (vec![], BTreeSet::new());
        for (at, id) in (0..).zip(list) {
            while let Some(&(_, first)) = waiting.first().filter(|&&(until, _)| until < self.turns[*id as usize]) {
                waiting.pop_first();
                turns.push(ListTurn { at: first, reads: false, applies: true });
            }
            match self.until.get(id) {
                Some(&until) => {
                    waiting.insert((until, at));
                    turns.push(ListTurn { at, reads: true, applies: false });
                }
                None => turns.push(whole(at)),
            }
        }
        turns.extend(waiting.into_iter().map(|(_, at)| ListTurn { at, reads: false, applies: true }));
        turns
    }
}
