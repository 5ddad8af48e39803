//! What a link transmits: a packet, or a run of packets of one transfer at equal distances.

use crate::fabric::LinkId;
use crate::schedule::TransferId;
use crate::simulate::clock::Ticks;

/// A place in the order in which links are asked for: the time, and the link that has just finished
/// a packet then; other events come after all links.
pub type Moment = (Ticks, LinkId);

/// Where the packets of a service come from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// An interface, which asks for the link anew with every packet.
    Interface(u32),
    /// A channel of a mixed interface.
    Channel(u32, u32),
    /// Packets that were waiting.
    Queue,
    /// Packets that were waiting, if any, and then those a run on the link before brings.
    Run(LinkId),
}

/// See the module.
#[derive(Clone, Copy)]
pub struct Service {
    pub source: Source,
    pub transfer: TransferId,
    /// Hop of its route that the link is.
    pub hop: u32,
    /// Whether the last packet is the last of its message.
    pub last: bool,
    /// When the first packet starts, which may be in the future.
    pub start: Ticks,
    /// From the start of one packet to that of the next; at least `packet_time`.
    pub spacing: Ticks,
    pub packet_time: Ticks,
    pub packets: u64,
    /// Packets known to have left: the first ones.
    pub settled: u64,
    /// The next link of the route, if it takes the packets from this run without an event for each.
    pub feeds: Option<LinkId>,
}

impl Service {
    /// When packet `index` has left.
    pub fn end_of(&self, index: u64) -> Ticks {
        self.start + index * self.spacing + self.packet_time
    }

    /// Whether all packets have left `link` before a moment.
    pub fn is_over(&self, link: LinkId, moment: Moment) -> bool {
        self.packets == 0 || (self.end_of(self.packets - 1), link) < moment
    }

    /// Number of packets that have left `link`, on which this is, before a moment.
    pub fn left_before(&self, link: LinkId, (at, turn): Moment) -> u64 {
        let Some(since) = at.checked_sub(self.end_of(0)) else { return 0 };
        let pending = since.is_multiple_of(self.spacing) && link >= turn;
        (since / self.spacing + u64::from(!pending)).min(self.packets)
    }
}
