//! Which transfers wait for which, so that an applied message wakes those and no others.

use antiphon_model::schedule::TransferId;
use smallvec::SmallVec;

/// End of a list.
const END: TransferId = TransferId::MAX;
/// In no list.
const FREE: TransferId = TransferId::MAX - 1;

/// Transfers that waited for one.
pub type Waiting = SmallVec<[TransferId; 4]>;

/// Lists of transfers; each transfer is in at most one.
pub struct Waits(Vec<Wait>);

#[derive(Clone, Copy)]
struct Wait {
    /// First of those that wait for this transfer.
    first: TransferId,
    /// The next that waits for the same as this.
    next: TransferId,
}

impl Waits {
    /// Of `transfers` transfers none waits.
    pub fn new(transfers: usize) -> Self {
        Waits(vec![Wait { first: END, next: FREE }; transfers])
    }

    /// `id` waits for `other`, unless it waits for another already, which then comes first.
    pub fn add(&mut self, id: TransferId, other: TransferId) {
        if self.0[id as usize].next == FREE {
            self.0[id as usize].next = std::mem::replace(&mut self.0[other as usize].first, id);
        }
    }

    /// Whether `id` waits for another.
    #[inline]
    pub fn has(&self, id: TransferId) -> bool {
        self.0[id as usize].next != FREE
    }

    /// Takes all that wait for `other`.
    pub fn take(&mut self, other: TransferId) -> Waiting {
        let mut at = std::mem::replace(&mut self.0[other as usize].first, END);
        let next = || {
            let id = Some(at).filter(|&at| at != END)?;
            at = std::mem::replace(&mut self.0[id as usize].next, FREE);
            Some(id)
        };
        std::iter::from_fn(next).collect()
    }
}
