//! Adders: the unit of every rank that adds one message at a time.
//!
//! Messages of one flight are added in the order in which they came. Those of a flight that goes first interrupt others,
//! which go on where they were.

use crate::clock::Ticks;
use crate::plan::RunPlan;
use antiphon_model::schedule::TransferId;

/// An addition under way, or one that waits.
struct Addition {
    rank: u64,
    transfer: TransferId,
    end: Ticks,
}

/// See the module.
pub struct Adders {
    /// When each rank has added what it has.
    free: Vec<Ticks>,
    /// With several flights: what each rank has to add, in order.
    queued: Vec<Vec<Addition>>,
}

impl Adders {
    /// Of all ranks of a plan, idle.
    pub fn new(plan: &RunPlan) -> Self {
        let ranks = plan.participants();
        let queued = if plan.flights.len() > 1 { ranks } else { 0 };
        Adders { free: vec![0; ranks], queued: (0..queued).map(|_| vec![]).collect() }
    }

    /// A rank is to add a message, which takes `time`; returns when it is done, unless others come between.
    #[inline]
    pub fn add(&mut self, at_rank: u32, transfer: TransferId, rank: u64, now: Ticks, time: Ticks) -> Ticks {
        let free = &mut self.free[at_rank as usize];
        *free = now.max(*free) + time;
        match self.queued.get_mut(at_rank as usize) {
            None => *free,
            Some(queue) => {
                // Those behind go on later.
                let place = queue.partition_point(|other| other.rank <= rank || other.end <= now);
                let start = place.checked_sub(1).map_or(now, |before| queue[before].end.max(now));
                queue[place..].iter_mut().for_each(|other| other.end += time);
                queue.insert(place, Addition { rank, transfer, end: start + time });
                start + time
            }
        }
    }

    /// An addition was to be done at `now`; when it will be, if others came between.
    #[inline]
    pub fn done(&mut self, at_rank: u32, transfer: TransferId, now: Ticks) -> Option<Ticks> {
        let queue = self.queued.get_mut(at_rank as usize)?;
        // The first of several chunks is done first.
        let place = queue.iter().position(|other| other.transfer == transfer)?;
        if queue[place].end > now {
            return Some(queue[place].end);
        }
        queue.remove(place);
        None
    }

    /// Appends what decides the future: how long ranks have to add from `now` on.
    pub fn write_state(&self, now: Ticks, state: &mut Vec<u64>) {
        state.extend(self.free.iter().map(|&at| at.saturating_sub(now)));
        for (at_rank, queue) in self.queued.iter().enumerate().filter(|(_, queue)| !queue.is_empty()) {
            state.extend([at_rank as u64, queue.len() as u64]);
            state.extend(queue.iter().flat_map(|one| [one.transfer as u64, one.end.wrapping_sub(now)]));
        }
    }

    /// Everything is done later by `by`.
    pub fn delay(&mut self, by: Ticks) {
        self.free.iter_mut().for_each(|at| *at += by);
        self.queued.iter_mut().flatten().for_each(|one| one.end += by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_goes_first_interrupts() {
        let mut adders = Adders { free: vec![0], queued: vec![vec![]] };
        assert_eq!(adders.add(0, 7, 1, 100, 10), 110);
        assert_eq!(adders.add(0, 8, 1, 101, 10), 120);
        assert_eq!(adders.add(0, 3, 0, 105, 4), 109);
        assert_eq!(adders.done(0, 3, 109), None);
        // Five of ten were done.
        assert_eq!(adders.done(0, 7, 110), Some(114));
        assert_eq!((adders.done(0, 7, 114), adders.done(0, 8, 120)), (None, Some(124)));
        assert_eq!(adders.done(0, 8, 124), None);
        // An idle one begins at once, behind what is done.
        assert_eq!(adders.add(0, 7, 1, 200, 10), 210);
    }
}
