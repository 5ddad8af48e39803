//! What is to happen, in order.
//!
//! Most of what happens at equal delays is told in order: a list of it is sorted as it grows, and only the rest needs a
//! heap.

use super::clock::Ticks;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// As many as there are common delays: none, until a message is handed over, until it is added.
const LISTS: usize = 3;
/// The place of what is in the heap.
const HEAP: usize = LISTS;

/// Events with their times; equal ones are interchangeable.
pub struct Agenda<E> {
    lists: [VecDeque<(Ticks, E)>; LISTS],
    heap: BinaryHeap<Reverse<(Ticks, E)>>,
    /// When the first of all is, [`Ticks::MAX`] if there is none, and where.
    first: (Ticks, usize),
}

impl<E: Copy + Ord> Agenda<E> {
    /// Without events.
    pub fn new() -> Self {
        Agenda { lists: Default::default(), heap: BinaryHeap::new(), first: (Ticks::MAX, HEAP) }
    }

    /// Adds an event.
    #[inline]
    pub fn push(&mut self, at: Ticks, event: E) {
        let entry = (at, event);
        let is_first = at < self.first.0 || at == self.first.0 && self.first().is_none_or(|first| entry < first);
        let place = self.lists.iter().position(|list| list.back().is_none_or(|last| *last <= entry)).unwrap_or(HEAP);
        if is_first {
            self.first = (at, place);
        }
        match self.lists.get_mut(place) {
            Some(list) => list.push_back(entry),
            None => self.heap.push(Reverse(entry)),
        }
    }

    /// When the next event is; [`Ticks::MAX`] if there is none.
    #[inline]
    pub fn next_at(&self) -> Ticks {
        self.first.0
    }

    /// The next event.
    #[inline]
    pub fn first(&self) -> Option<(Ticks, E)> {
        match self.lists.get(self.first.1) {
            Some(list) => list.front().copied(),
            None => self.heap.peek().map(|&Reverse(top)| top),
        }
    }

    /// Removes the next event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Ticks, E)> {
        let entry = match self.lists.get_mut(self.first.1) {
            Some(list) => list.pop_front(),
            None => self.heap.pop().map(|Reverse(top)| top),
        };
        self.first = (Ticks::MAX, HEAP);
        let mut first = self.heap.peek().map(|Reverse(top)| top);
        for (place, list) in self.lists.iter().enumerate() {
            if let Some(front) = list.front()
                && first.is_none_or(|first| front < first)
            {
                (first, self.first.1) = (Some(front), place);
            }
        }
        self.first.0 = first.map_or(Ticks::MAX, |&(at, _)| at);
        entry
    }

    /// All events, in order.
    pub fn in_order(&self) -> Vec<(Ticks, E)> {
        let heap = self.heap.iter().map(|&Reverse(entry)| entry);
        let mut all: Vec<_> = self.lists.iter().flatten().copied().chain(heap).collect();
        all.sort_unstable();
        all
    }

    /// Puts others in the place of all events.
    pub fn replace(&mut self, with: impl Fn(Ticks, E) -> (Ticks, E)) {
        let mut all: Vec<_> = self.in_order().into_iter().map(|(at, event)| with(at, event)).collect();
        all.sort_unstable();
        *self = Agenda::new();
        all.into_iter().for_each(|(at, event)| self.push(at, event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever is pushed when, events come as from a heap.
        #[test]
        fn comes_in_order(steps in prop::collection::vec(prop::option::weighted(0.6, (0u64..50, 0u32..5)), 0..200), by in 0u64..9) {
            let (mut agenda, mut heap) = (Agenda::new(), BinaryHeap::new());
            for step in steps {
                match step {
                    Some((at, event)) => {
                        agenda.push(at, event);
                        heap.push(Reverse((at, event)));
                    }
                    None => prop_assert_eq!(agenda.pop(), heap.pop().map(|Reverse(entry)| entry)),
                }
                prop_assert_eq!(agenda.next_at(), heap.peek().map_or(Ticks::MAX, |Reverse((at, _))| *at));
            }
            let sorted: Vec<_> = heap.into_sorted_vec().into_iter().rev().map(|Reverse(entry)| entry).collect();
            prop_assert_eq!(agenda.in_order(), sorted.clone());
            agenda.replace(|at, event| (at + by, event));
            for (at, event) in sorted {
                prop_assert_eq!(agenda.pop(), Some((at + by, event)));
            }
            prop_assert_eq!(agenda.pop(), None);
        }
    }
}
