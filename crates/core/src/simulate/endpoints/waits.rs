//! Which transfers wait for which, so that an applied message wakes those and no others.

use crate::schedule::TransferId;

/// End of a list.
const END: TransferId = TransferId::MAX;
/// In no list.
const FREE: TransferId = TransferId::MAX - 1;

/// Lists of transfers through two arrays; each transfer is in at most one.
pub struct Waits {
    /// First of those that wait for each transfer.
    first: Vec<TransferId>,
    next: Vec<TransferId>,
}

impl Waits {
    /// Of `transfers` transfers none waits.
    pub fn new(transfers: usize) -> Self {
        Waits { first: vec![END; transfers], next: vec![FREE; transfers] }
    }

    /// `id` waits for `other`, unless it waits for another already, which then comes first.
    pub fn add(&mut self, id: TransferId, other: TransferId) {
        if self.next[id as usize] == FREE {
            self.next[id as usize] = std::mem::replace(&mut self.first[other as usize], id);
        }
    }

    /// Takes all that wait for `other`.
    pub fn take(&mut self, other: TransferId) -> impl Iterator<Item = TransferId> {
        let mut at = std::mem::replace(&mut self.first[other as usize], END);
        std::iter::from_fn(move || {
            let id = Some(at).filter(|&at| at != END)?;
            at = std::mem::replace(&mut self.next[id as usize], FREE);
            Some(id)
        })
    }
}
