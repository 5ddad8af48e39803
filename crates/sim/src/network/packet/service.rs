//! What a link transmits: a packet, or a run of packets of one transfer at equal distances.

use super::{Flow, Tail};
use crate::clock::Ticks;
use antiphon_model::fabric::LinkId;
use antiphon_model::schedule::TransferId;

/// A place in the order in which links are asked for: the time, and whose turn it is then.
pub type ServiceMoment = (Ticks, ServiceTurn);

/// Order of what happens at one time: links finish packets, by number; packets arrive, by transfer; the rest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceTurn(u64);

impl ServiceTurn {
    /// After all links and packets.
    pub const LAST: ServiceTurn = ServiceTurn(u64::MAX);

    /// A link finishes a packet.
    pub fn done(link: LinkId) -> ServiceTurn {
        ServiceTurn(link.into())
    }

    /// A packet of a transfer arrives over a link with latency; over others it does when the link finishes it.
    pub fn packet(transfer: TransferId) -> ServiceTurn {
        ServiceTurn(1 << 32 | u64::from(transfer))
    }

    /// Tells it from others.
    pub fn word(self) -> u64 {
        self.0
    }

    /// Just after it.
    pub fn after(self) -> ServiceTurn {
        ServiceTurn(self.0 + 1)
    }
}

/// Where the packets of a service come from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PacketSource {
    /// An interface, which asks for the link anew with every packet.
    Interface(u32),
    /// A channel of a mixed interface.
    Channel(u32, u16),
    /// Packets that were waiting.
    Queue,
    /// Packets that were waiting, if any, and then those that the feeder with this number brings.
    Run(u32),
}

/// See the module.
#[derive(Clone, Copy)]
pub struct PacketService {
    pub source: PacketSource,
    pub flow: Flow,
    /// The message that ends with the last packet, if one does.
    pub last: Option<Tail>,
    /// When the first packet starts, which may be in the future.
    pub start: Ticks,
    /// From the start of one packet to that of the next; at least `packet_time`.
    pub spacing: Ticks,
    pub packet_time: Ticks,
    pub packets: u64,
    /// Whether it had more packets at first.
    pub is_cut: bool,
    /// Packets known to have left: the first ones.
    pub settled: u64,
    /// If the next link of the route takes the packets from this run without an event for each: the number of the feeder
    /// there.
    pub feeds: Option<u32>,
}

impl PacketService {
    /// Whether it sends packets of an interface.
    pub fn is_of(&self, interface: u32) -> bool {
        matches!(self.source, PacketSource::Interface(id) | PacketSource::Channel(id, _) if id == interface)
    }

    /// When packet `index` has left.
    pub fn end_of(&self, index: u64) -> Ticks {
        self.start + index * self.spacing + self.packet_time
    }

    /// Whether all packets have left before a moment, on each of which it is the turn `own`.
    pub fn is_over(&self, own: ServiceTurn, moment: ServiceMoment) -> bool {
        self.packets == 0 || (self.end_of(self.packets - 1), own) < moment
    }

    /// Number of packets that have left before a moment, on each of which it is the turn `own`.
    pub fn left_before(&self, own: ServiceTurn, (at, turn): ServiceMoment) -> u64 {
        let Some(since) = at.checked_sub(self.end_of(0)) else { return 0 };
        let pending = since.is_multiple_of(self.spacing) && own >= turn;
        (since / self.spacing + u64::from(!pending)).min(self.packets)
    }
}
