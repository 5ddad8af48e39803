//! Who sends what when along one dimension: every position of a line or ring has a message for every other, which goes from
//! neighbour to neighbour the shorter way.
//!
//! A link serves the message that has farthest to go. On a line that keeps the middle link, which has most to carry,
//! busy from the first moment to the last; on a ring every link. A message is not expected to go on in the moment in
//! which it has come, but one message later, so that latencies are hidden. Where the network forwards, ranks only have
//! the order in which they send their own messages: again those first that go farthest.

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
    /// Links that it crosses.
    links: u32,
}

impl Message {
    /// The next position on its way.
    fn next(&self, at: u32, size: u32) -> u32 {
        (if self.up { at + 1 } else { at + size - 1 }) % size
    }
}

/// A message from a rank to the next that has a hand in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hop {
    /// Index of [`Timetable::messages`].
    pub message: u32,
    pub at: u32,
    pub to: u32,
    /// When it is sent, in halves of messages.
    pub step: u32,
}

/// Who forwards what goes farther than to a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forward {
    Ranks,
    Network,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Timetable {
    pub messages: Vec<Message>,
    /// By step.
    pub hops: Vec<Hop>,
    /// When the last one has been sent.
    pub steps: u32,
    size: u32,
}

/// Whether both ways between opposite positions are equally long, and longer than a link.
pub(super) fn halves(shape: DimensionShape, size: u32) -> u32 {
    if shape == DimensionShape::Ring && size > 2 && size.is_multiple_of(2) { 2 } else { 1 }
}

/// Transfers that all messages take together. O(1).
pub(super) fn transfers(shape: DimensionShape, size: u32, halves: u32, forward: Forward) -> u64 {
    let n = u64::from(size);
    let opposite = shape == DimensionShape::Ring && n > 2 && n.is_multiple_of(2);
    match (forward, shape) {
        (Forward::Network, _) => n * (n - 1) + if opposite { n * u64::from(halves - 1) } else { 0 },
        (_, DimensionShape::Ring) if n > 2 => {
            let near = (n - 1) / 2;
            n * near * (near + 1) + if opposite { n * n / 2 * u64::from(halves) } else { 0 }
        }
        _ => n * (n * n - 1) / 3,
    }
}

/// By position and direction: what may be sent, farthest to go and then longest on its way first.
type Ready = Vec<BinaryHeap<(u32, u32, Reverse<u32>)>>;

impl Timetable {
    /// For data in one or two halves. O(transfers * log size).
    pub fn new(shape: DimensionShape, size: u32, halves: u32, forward: Forward) -> Timetable {
        let wraps = shape == DimensionShape::Ring && size > 2;
        let mut table = Timetable { messages: messages(wraps, size, halves), hops: vec![], steps: 0, size };
        match forward {
            Forward::Ranks => table.relay(halves),
            Forward::Network => {
                let hop = |(message, of): (u32, &Message)| Hop {
                    message,
                    at: of.from,
                    to: of.to,
                    step: size - of.links,
                };
                table.hops = (0..).zip(&table.messages).map(hop).collect();
                table.steps = size;
            }
        }
        table
    }

    /// Every message from link to link, by time.
    fn relay(&mut self, halves: u32) {
        let mut ready: Ready = vec![BinaryHeap::new(); 2 * self.size as usize];
        let mut free_at = vec![0; ready.len()];
        // By time: messages, where they are and how far they have come.
        let mut coming: Vec<Vec<(u32, u32, u32)>> = vec![(0..).zip(&self.messages).map(|(id, m)| (id, m.from, 0)).collect()];
        let (mut left, mut now) = (self.messages.len(), 0u32);
        while left > 0 {
            for (id, at, come) in coming.get_mut(now as usize).map(std::mem::take).unwrap_or_default() {
                let message = &self.messages[id as usize];
                ready[2 * at as usize + usize::from(message.up)].push((message.links - come, come, Reverse(id)));
            }
            for (link, ready) in ready.iter_mut().enumerate() {
                if free_at[link] > now {
                    continue;
                }
                let Some((_, come, Reverse(id))) = ready.pop() else { continue };
                let (message, at) = (&self.messages[id as usize], link as u32 / 2);
                let to = message.next(at, self.size);
                self.hops.push(Hop { message: id, at, to, step: now });
                free_at[link] = now + message.halves.len() as u32;
                self.steps = self.steps.max(free_at[link]);
                if to == message.to {
                    left -= 1;
                    continue;
                }
                let again = (free_at[link] + halves) as usize;
                coming.resize_with(coming.len().max(again + 1), Vec::new);
                coming[again].push((id, to, come + 1));
            }
            now += 1;
        }
    }

    /// Positions that a hop goes through, with its ends.
    pub fn way(&self, hop: &Hop) -> impl Iterator<Item = u32> {
        let (message, to) = (&self.messages[hop.message as usize], hop.to);
        std::iter::successors(Some(hop.at), move |&at| (at != to).then(|| message.next(at, self.size)))
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
            let message = |(up, halves): &(bool, Range<u32>)| Message {
                from,
                to,
                halves: halves.clone(),
                up: *up,
                links: if *up { ahead } else { size - ahead },
            };
            messages.extend(ways.iter().map(message));
        }
    }
    messages
}
