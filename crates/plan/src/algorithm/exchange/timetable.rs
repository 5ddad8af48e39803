//! Who sends what when along one dimension: every position of a line or ring has a message for every other, which goes from
//! neighbour to neighbour the shorter way.
//!
//! A link serves the message that has farthest to go. On a line that keeps the middle link, which has most to carry,
//! busy from the first moment to the last; on a ring every link. A message is not expected to go on in the moment in
//! which it has come, but one message later, so that latencies are hidden. Where the network forwards, ranks only have
//! the order in which they send their own messages: again those first that go farthest.

use antiphon_model::fabric::DimensionShape;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// A message from one position to another, over one link after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PositionMessage {
    pub from: u32,
    pub to: u32,
    /// Parts of the data that go this way: where both ways round are equally long, a half each.
    pub halves: Range<u32>,
    /// Whether towards higher positions.
    up: bool,
    /// Links that it crosses.
    links: u32,
}

impl PositionMessage {
    /// The next position on its way.
    fn next(&self, at: u32, size: u32) -> u32 {
        (if self.up { at + 1 } else { at + size - 1 }) % size
    }
}

/// A message from a rank to the next that has a hand in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExchangeHop {
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
    pub messages: Vec<PositionMessage>,
    /// By step.
    pub hops: Vec<ExchangeHop>,
    /// When the last one has been sent.
    pub steps: u32,
    size: u32,
}

/// Whether both ways between opposite positions are equally long, and longer than a link.
pub(super) fn halves(shape: DimensionShape, size: u32) -> u32 {
    if wraps(shape, size) && size.is_multiple_of(2) { 2 } else { 1 }
}

/// Messages that cross the busiest link, rounded up where the halves of some do.
pub(super) fn crossing(shape: DimensionShape, size: u32) -> u128 {
    let square = u128::from(size).pow(2);
    if wraps(shape, size) { square.div_ceil(8) } else { square / 4 }
}

/// Links of the longest way.
pub(super) fn longest(shape: DimensionShape, size: u32) -> u32 {
    if wraps(shape, size) { size / 2 } else { size - 1 }
}

/// Whether there is another way round.
fn wraps(shape: DimensionShape, size: u32) -> bool {
    shape == DimensionShape::Ring && size > 2
}

/// Transfers that all messages take together. O(1).
pub(super) fn transfers(shape: DimensionShape, size: u32, halves: u32, forward: Forward) -> u64 {
    let (n, halves, half) = (u64::from(size), u64::from(halves), u64::from(size / 2));
    let opposite = u64::from(n.is_multiple_of(2));
    match (wraps(shape, size), forward) {
        (false, Forward::Ranks) => n * (n * n - 1) / 3,
        (false, Forward::Network) => n * (n - 1),
        // To those nearer than the opposite, then to that.
        (true, Forward::Ranks) => n * ((half + 1 - opposite) * (half - opposite) + opposite * half * halves),
        (true, Forward::Network) => n * (2 * (half - opposite) + opposite * halves),
    }
}

/// By position and direction: what may be sent, farthest to go and then longest on its way first.
type Ready = Vec<BinaryHeap<(u32, u32, Reverse<u32>)>>;

impl Timetable {
    /// For data in one or two halves. O(transfers * log size).
    pub fn new(shape: DimensionShape, size: u32, halves: u32, forward: Forward) -> Timetable {
        let mut table =
            Timetable { messages: messages(wraps(shape, size), size, halves), hops: vec![], steps: 0, size };
        match forward {
            Forward::Ranks => table.relay(halves),
            Forward::Network => {
                let hop = |(message, of): (u32, &PositionMessage)| ExchangeHop {
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
        let mut coming: Vec<Vec<(u32, u32, u32)>> =
            vec![(0..).zip(&self.messages).map(|(id, m)| (id, m.from, 0)).collect()];
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
                self.hops.push(ExchangeHop { message: id, at, to, step: now });
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
    pub fn way(&self, hop: &ExchangeHop) -> impl Iterator<Item = u32> {
        let (message, to) = (&self.messages[hop.message as usize], hop.to);
        std::iter::successors(Some(hop.at), move |&at| (at != to).then(|| message.next(at, self.size)))
    }
}

/// Messages of all pairs of positions.
fn messages(wraps: bool, size: u32, halves: u32) -> Vec<PositionMessage> {
    let mut messages = vec![];
    for from in 0..size {
        for to in (0..size).filter(|&to| to != from) {
            let ahead = (to + size - from) % size;
            let ways: &[(bool, Range<u32>)] = match wraps {
                false => &[(to > from, 0..halves)],
                true if 2 * ahead == size && halves == 2 => &[(true, 0..1), (false, 1..2)],
                true => &[(2 * ahead <= size, 0..halves)],
            };
            let message = |(up, halves): &(bool, Range<u32>)| PositionMessage {
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

#[cfg(test)]
mod tests {
    use super::*;
    use DimensionShape::{Line, Ring};

    fn all() -> impl Iterator<Item = (DimensionShape, u32, u32)> {
        let sizes = |shape| (2..14).flat_map(move |size| [1, 2].map(|halves| (shape, size, halves)));
        [Line, Ring].into_iter().flat_map(sizes)
    }

    /// What the busiest link carries, in halves: in its middle a line has size / 2 on either side; on a ring all links
    /// together carry all ways.
    fn load(shape: DimensionShape, size: u32, halves: u32) -> u32 {
        match shape {
            Ring if size > 2 && size.is_multiple_of(2) && halves == 1 => (size / 2) * (size / 2 + 1) / 2,
            Ring if size > 2 => halves * (size * size - size % 2) / 8,
            _ => halves * (size / 2) * size.div_ceil(2),
        }
    }

    #[test]
    fn busy_from_the_first_moment_to_the_last() {
        for (shape, size, halves) in all() {
            let table = Timetable::new(shape, size, halves, Forward::Ranks);
            // On short lines there is nothing to send while a message comes from afar.
            let wait = if shape == Line && (3..6).contains(&size) { halves } else { 0 };
            let name = format!("{shape:?} {size}, {halves} halves");
            assert_eq!(table.steps, load(shape, size, halves) + wait, "{name}");
        }
    }

    #[test]
    fn every_message_gets_there_and_links_carry_one_at_a_time() {
        for (shape, size, halves) in all() {
            for forward in [Forward::Ranks, Forward::Network] {
                let name = format!("{shape:?} {size}, {halves} halves, {forward:?}");
                let table = Timetable::new(shape, size, halves, forward);
                assert_eq!(table.hops.len() as u64, transfers(shape, size, halves, forward), "{name}");
                let mut at: Vec<_> = table.messages.iter().map(|message| (message.from, 0)).collect();
                let mut busy = std::collections::BTreeSet::new();
                for hop in &table.hops {
                    let message = &table.messages[hop.message as usize];
                    let (place, from) = at[hop.message as usize];
                    assert!(place == hop.at && from <= hop.step, "{name}: {hop:?}");
                    let time = message.halves.len() as u32;
                    at[hop.message as usize] = (hop.to, hop.step + time + 1);
                    assert!(hop.step < table.steps && table.way(hop).count() as u32 <= longest(shape, size) + 1);
                    if forward == Forward::Ranks {
                        let mut steps = hop.step..hop.step + time;
                        assert!(steps.all(|step| busy.insert((hop.at, message.up, step))), "{name}: {hop:?}");
                        assert_eq!(table.way(hop).collect::<Vec<_>>(), [hop.at, hop.to], "{name}");
                    }
                }
                for (message, (place, _)) in table.messages.iter().zip(at) {
                    assert_eq!(place, message.to, "{name}: {message:?}");
                }
                // Every pair has all of its data on the way.
                let sent: u32 = table.messages.iter().map(|message| message.halves.len() as u32).sum();
                assert_eq!(sent, size * (size - 1) * halves, "{name}");
            }
        }
    }

    #[test]
    fn where_the_network_forwards_the_farthest_are_sent_first() {
        let table = Timetable::new(Line, 5, 1, Forward::Network);
        let mut of_first: Vec<_> = table.hops.iter().filter(|hop| hop.at == 0).collect();
        of_first.sort_by_key(|hop| hop.step);
        assert_eq!(of_first.iter().map(|hop| hop.to).collect::<Vec<_>>(), [4, 3, 2, 1]);
        let way: Vec<u32> = table.way(of_first[1]).collect();
        assert_eq!(way, [0, 1, 2, 3]);
    }
}
