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
    /// The first of all, and where it is.
    first: Option<((Ticks, E), usize)>,
}

impl<E: Copy + Ord> Agenda<E> {
    /// Without events.
    pub fn new() -> Self {
        Agenda { lists: Default::default(), heap: BinaryHeap::new(), first: None }
    }

    /// Adds an event.
    #[inline]
    pub fn push(&mut self, at: Ticks, event: E) {
        let entry = (at, event);
        let list = self.lists.iter().position(|list| list.back().is_none_or(|last| *last <= entry));
        match list {
            Some(list) => self.lists[list].push_back(entry),
            None => self.heap.push(Reverse(entry)),
        }
        if self.first.is_none_or(|(first, _)| entry < first) {
            self.first = Some((entry, list.unwrap_or(HEAP)));
        }
    }

    /// When the next event is; [`Ticks::MAX`] if there is none.
    #[inline]
    pub fn next_at(&self) -> Ticks {
        self.first.map_or(Ticks::MAX, |((at, _), _)| at)
    }

    /// The next event.
    #[inline]
    pub fn first(&self) -> Option<(Ticks, E)> {
        self.first.map(|(first, _)| first)
    }

    /// Removes the next event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Ticks, E)> {
        let (entry, place) = self.first?;
        if place == HEAP {
            self.heap.pop();
        } else {
            self.lists[place].pop_front();
        }
        self.first = self.heap.peek().map(|&Reverse(top)| (top, HEAP));
        for (place, list) in self.lists.iter().enumerate() {
            if let Some(&front) = list.front()
                && self.first.is_none_or(|(first, _)| front < first)
            {
                self.first = Some((front, place));
            }
        }
        Some(entry)
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
