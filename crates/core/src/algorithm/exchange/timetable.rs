//! Who sends what when along one dimension: every position of a line or ring has a message for every other, which goes from
//! neighbour to neighbour the shorter way.
//!
//! A link serves the message that has farthest to go. On a line that keeps the middle link, which has most to carry,
//! busy from the first moment to the last; on a ring every link. A message is not expected to go on in the moment in
//! which it has come, but one message later, so that latencies are hidden.

use crate::fabric::DimensionShape;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// A message from one position to another, over one link after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    pub from: u32,
    pub to: u32,
    /// Parts of the data that go this way: where both ways round are equally long, a half each.
    pub halves: Range<u32>,
    /// Whether towards higher positions.
    up: bool,
}

/// A message on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hop {
    /// Index of [`Timetable::messages`].
    pub message: u32,
    pub at: u32,
    pub to: u32,
    /// When it is sent, in halves of messages.
    pub step: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Timetable {
    pub messages: Vec<Message>,
    /// By step.
    pub hops: Vec<Hop>,
    /// When the last one has arrived.
    pub steps: u32,
}

/// Whether both ways between opposite positions are equally long, and longer than a link.
pub(super) fn halves(shape: DimensionShape, size: u32) -> u32 {
    if shape == DimensionShape::Ring && size > 2 && size.is_multiple_of(2) { 2 } else { 1 }
}

/// Links that all messages cross together. O(1).
pub(super) fn hops(shape: DimensionShape, size: u32) -> u64 {
    let n = u64::from(size);
    match shape {
        DimensionShape::Ring if n > 2 => {
            let near = (n - 1) / 2;
            n * near * (near + 1) + if n % 2 == 0 { n * n } else { 0 }
        }
        _ => n * (n * n - 1) / 3,
    }
}

impl Timetable {
    /// For data in one or two halves. O(hops * log size).
    pub fn new(shape: DimensionShape, size: u32, halves: u32) -> Timetable {
        let wraps = shape == DimensionShape::Ring && size > 2;
        let messages = messages(wraps, size, halves);
        let distance = |from: u32, to: u32, up: bool| if up { to + size - from } else { from + size - to } % size;
        let mut table = Timetable { hops: vec![], steps: 0, messages };
        // By position and direction: what may be sent, farthest to go and then longest on its way first.
        let mut ready: Vec<BinaryHeap<(u32, u32, Reverse<u32>)>> = vec![BinaryHeap::new(); 2 * size as usize];
        let mut free_at = vec![0; ready.len()];
        let mut coming: Vec<Vec<(u32, u32)>> = vec![vec![]; 1];
        coming[0].extend((0..).zip(&table.messages).map(|(id, message)| (id, message.from)));
        let (mut left, mut now) = (table.messages.len(), 0u32);
        while left > 0 {
            for (id, at) in coming.get_mut(now as usize).map(std::mem::take).unwrap_or_default() {
                let Message { from, to, up, .. } = table.messages[id as usize];
                let link = 2 * at as usize + usize::from(up);
                ready[link].push((distance(at, to, up), distance(from, at, up), Reverse(id)));
            }
            for (link, ready) in ready.iter_mut().enumerate() {
                if free_at[link] > now {
                    continue;
                }
                let Some((_, _, Reverse(id))) = ready.pop() else { continue };
                let Message { to: goal, ref halves, up, .. } = table.messages[id as usize];
                let at = link as u32 / 2;
                let to = if up { at + 1 } else { at + size - 1 } % size;
                table.hops.push(Hop { message: id, at, to, step: now });
                free_at[link] = now + halves.len() as u32;
                table.steps = table.steps.max(free_at[link]);
                if to == goal {
                    left -= 1;
                    continue;
                }
                let again = (free_at[link] + halves.end.max(1)) as usize;
                coming.resize_with(coming.len().max(again + 1), Vec::new);
                coming[again].push((id, to));
            }
            now += 1;
        }
        table
    }
}

/// Messages of all pairs of positions.
fn messages(wraps: bool, size: u32, halves: u32) -> Vec<Message> {
    let mut messages = vec![];
    for from in 0..size {
        for to in (0..size).filter(|&to| to != from) {
            let ahead = (to + size - from) % size;
            let ways: &[(bool, Range<u32>)] = match wraps {
                false => &[(to > from, 0..halves)],
                true if 2 * ahead == size && halves == 2 => &[(true, 0..1), (false, 1..2)],
                true => &[(2 * ahead <= size, 0..halves)],
            };
            messages.extend(ways.iter().map(|(up, halves)| Message { from, to, halves: halves.clone(), up: *up }));
        }
    }
    messages
}
