//! What is to happen, in order.
//!
//! Most of what happens at equal delays is told in order of time: a list of it is sorted as it grows, and only the rest
//! needs a heap. What happens at one time is sorted once, when it is next.

use super::clock::Ticks;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// As many as there are common delays: none, until a message is handed over, until it is added.
const LISTS: usize = 3;

/// Events with their times; equal ones are interchangeable.
pub struct Agenda<E> {
    /// By time; simultaneous ones in any order. While there is a group, all later than that.
    lists: [VecDeque<(Ticks, E)>; LISTS],
    heap: BinaryHeap<Reverse<(Ticks, E)>>,
    /// Events at `group_at`, in order, of which so many were taken.
    group: Vec<E>,
    group_at: Ticks,
    taken: usize,
    /// When the first of all is, [`Ticks::MAX`] if there is none.
    next_at: Ticks,
}

impl<E: Copy + Ord> Agenda<E> {
    /// Without events.
    pub fn new() -> Self {
        Agenda {
            lists: Default::default(),
            heap: BinaryHeap::new(),
            group: vec![],
            group_at: 0,
            taken: 0,
            next_at: Ticks::MAX,
        }
    }

    /// Adds an event.
    #[inline]
    pub fn push(&mut self, at: Ticks, event: E) {
        self.next_at = at.min(self.next_at);
        if at <= self.group_at
            && let Some(&last) = self.group.last()
        {
            match at == self.group_at && last <= event {
                true => self.group.push(event),
                false => self.heap.push(Reverse((at, event))),
            }
            return;
        }
        match self.lists.iter_mut().find(|list| list.back().is_none_or(|last| last.0 <= at)) {
            Some(list) => list.push_back((at, event)),
            None => self.heap.push(Reverse((at, event))),
        }
    }

    /// When the next event is; [`Ticks::MAX`] if there is none.
    #[inline]
    pub fn next_at(&self) -> Ticks {
        self.next_at
    }

    /// Removes the next event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Ticks, E)> {
        if self.group.is_empty() && self.first_of_lists() == self.next_at {
            self.form_group();
        }
        let next = self.group.get(self.taken).map(|&event| (self.group_at, event));
        let entry = match self.heap.peek() {
            Some(&Reverse(top)) if next.is_none_or(|next| top < next) => self.heap.pop().map(|Reverse(top)| top),
            _ => {
                self.taken += 1;
                next
            }
        };
        if self.taken >= self.group.len() {
            self.group.clear();
            self.taken = 0;
        }
        let first = if self.group.is_empty() { self.first_of_lists() } else { self.group_at };
        self.next_at = self.heap.peek().map_or(first, |Reverse(top)| top.0.min(first));
        entry
    }

    /// When the first event of the lists is.
    #[inline]
    fn first_of_lists(&self) -> Ticks {
        self.lists.iter().map(first_of).min().unwrap_or(Ticks::MAX)
    }

    /// What is next of the lists becomes a group.
    fn form_group(&mut self) {
        self.group_at = self.next_at;
        for list in &mut self.lists {
            while first_of(list) == self.group_at
                && let Some((_, event)) = list.pop_front()
            {
                self.group.push(event);
            }
        }
        if !self.group.is_sorted() {
            self.group.sort_unstable();
        }
    }

    /// All events, in order.
    pub fn in_order(&self) -> Vec<(Ticks, E)> {
        let heap = self.heap.iter().map(|&Reverse(entry)| entry);
        let group = self.group[self.taken..].iter().map(|&event| (self.group_at, event));
        let mut all: Vec<_> = self.lists.iter().flatten().copied().chain(heap).chain(group).collect();
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

/// When the first event of a list is.
#[inline]
fn first_of<E>(list: &VecDeque<(Ticks, E)>) -> Ticks {
    list.front().map_or(Ticks::MAX, |&(at, _)| at)
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
