//! The buffer of one virtual channel at the input of a router.
//!
//! It counts flits and keeps none; what allocation looks at fits into one cache line.

use std::collections::VecDeque;

/// No packet, no virtual channel.
pub const NONE: u32 = u32::MAX;

/// What a flit that arrived is.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// The head of a packet, first in the buffer.
    FirstHead,
    /// A further flit of the first packet.
    FirstBody,
    /// One of a packet behind the first; whether its head.
    Behind(bool),
}

/// See the module.
pub struct VcBuffer {
    /// The first packet, its flits that are here, and those that have not left yet, here or not.
    pub packet: u32,
    pub here: u32,
    pub left: u32,
    /// Virtual channel the first packet has.
    pub has: u32,
    /// Virtual channels it may take: from, up to.
    pub wants: (u32, u32),
    /// No bid before this cycle.
    pub ready: u64,
    /// Packets behind the first, and their flits here.
    behind: VecDeque<(u32, u32)>,
}

impl VcBuffer {
    /// An empty buffer.
    pub fn new() -> Self {
        VcBuffer { packet: NONE, here: 0, left: 0, has: NONE, wants: (0, 0), ready: 0, behind: VecDeque::new() }
    }

    /// A flit of a packet arrives. The flits of a packet arrive in one piece.
    pub fn receive(&mut self, packet: u32) -> Received {
        if self.packet == NONE {
            (self.packet, self.here) = (packet, 1);
            return Received::FirstHead;
        }
        match self.behind.back_mut() {
            Some((last, here)) if *last == packet => {
                *here += 1;
                Received::Behind(false)
            }
            None if self.packet == packet => {
                self.here += 1;
                Received::FirstBody
            }
            _ => {
                self.behind.push_back((packet, 1));
                Received::Behind(true)
            }
        }
    }

    /// The last flit of the first packet has left: the next packet is first.
    pub fn advance(&mut self) {
        (self.packet, self.here) = self.behind.pop_front().unwrap_or((NONE, 0));
        self.has = NONE;
    }

    /// Flits of all packets that are here. O(packets).
    pub fn flits(&self) -> u32 {
        self.here + self.behind().map(|(_, here)| here).sum::<u32>()
    }

    /// Packets behind the first, and their flits here.
    pub fn behind(&self) -> impl Iterator<Item = (u32, u32)> {
        self.behind.iter().copied()
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.packet == NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_follow_each_other() {
        assert_eq!(std::mem::size_of::<VcBuffer>(), 64);
        let mut buffer = VcBuffer::new();
        let received: Vec<Received> = [7, 7, 9, 9, 4].map(|packet| buffer.receive(packet)).into();
        use Received::*;
        assert_eq!(received, [FirstHead, FirstBody, Behind(true), Behind(false), Behind(true)]);
        buffer.advance();
        assert_eq!((buffer.packet, buffer.here), (9, 2));
        buffer.advance();
        buffer.advance();
        assert!(buffer.is_empty());
    }
}
