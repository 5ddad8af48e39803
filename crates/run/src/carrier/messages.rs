//! Messages from rank to rank, outside collectives.

use super::packet::{PacketHeader, PacketKind};
use antiphon_model::fabric::NodeId;
use std::collections::{HashMap, VecDeque};

/// Bytes of a message that is sent at once, whether or not somebody waits for it.
pub(super) const EAGER_MESSAGE_BYTES: usize = 32 << 10;
/// Bytes of a part of a larger message.
pub(super) const PART_BYTES: usize = 1 << 20;
/// Parts of a message on their way over several links.
pub(super) const PARTS_AHEAD: u64 = 2;

/// All messages that go from here or come here.
#[derive(Default)]
pub(super) struct Messages {
    next_number: HashMap<(u32, NodeId), u32>,
    pub sends: HashMap<u64, SendRun>,
    pub receives: HashMap<u64, ReceiveRun>,
    /// By group, in the order in which they were asked for.
    posted: HashMap<u32, VecDeque<u64>>,
    /// By group, in the order in which they came: what nobody has asked for.
    offers: HashMap<u32, VecDeque<Offer>>,
    /// By group, other node and number.
    pub sending: HashMap<(u32, NodeId, u32), u64>,
    pub receiving: HashMap<(u32, NodeId, u32), u64>,
}

/// A message that was offered and waits, or is on its way.
pub(super) struct SendRun {
    pub group: u32,
    pub to: NodeId,
    pub number: u32,
    pub length: usize,
    pub is_wanted: bool,
    /// Parts given to the port, gone from it, and arrived.
    pub given: u64,
    pub gone: u64,
    pub arrived: u64,
}

/// A message that is asked for.
pub(super) struct ReceiveRun {
    pub group: u32,
    pub source: Option<NodeId>,
    pub tag: u32,
    pub length: usize,
    pub have: usize,
    /// Who sends it, once that is known.
    pub from: Option<NodeId>,
    /// Data that came while the memory was not lent: first byte, and bytes.
    pub waiting: Vec<(usize, Vec<u8>)>,
}

/// A message that comes from another node.
pub(super) struct Offer {
    pub from: NodeId,
    pub tag: u32,
    pub number: u32,
    pub length: usize,
    /// All of it, if it came at once.
    pub data: Option<Vec<u8>>,
    /// The sender asks for an answer.
    pub asks: bool,
}

impl SendRun {
    pub fn parts(&self) -> u64 {
        self.length.div_ceil(PART_BYTES).max(1) as u64
    }
}

impl Messages {
    /// The number of the next message of a group to a node.
    pub fn number(&mut self, group: u32, to: NodeId) -> u32 {
        let next = self.next_number.entry((group, to)).or_default();
        *next = next.wrapping_add(1);
        *next
    }

    /// Asks for a message. Returns the oldest one that is offered and fits, if there is any.
    pub fn post(&mut self, id: u64, receive: ReceiveRun) -> Option<Offer> {
        let offers = self.offers.entry(receive.group).or_default();
        let found = offers.iter().position(|offer| receive.wants(offer.from, offer.tag));
        let offer = found.and_then(|at| offers.remove(at));
        if offer.is_none() {
            self.posted.entry(receive.group).or_default().push_back(id);
        }
        self.receives.insert(id, receive);
        offer
    }

    /// The oldest receive that waits for such a message, or keeps the offer until there is one.
    pub fn offered(&mut self, group: u32, offer: Offer) -> Option<(u64, Offer)> {
        let posted = self.posted.entry(group).or_default();
        let wants = |id: &u64| self.receives.get(id).is_some_and(|receive| receive.wants(offer.from, offer.tag));
        match posted.iter().position(wants).and_then(|at| posted.remove(at)) {
            Some(id) => Some((id, offer)),
            None => {
                self.offers.entry(group).or_default().push_back(offer);
                None
            }
        }
    }

    /// Nobody waits for a receive any more.
    pub fn withdraw(&mut self, id: u64) {
        if let Some(receive) = self.receives.remove(&id)
            && let Some(posted) = self.posted.get_mut(&receive.group)
        {
            posted.retain(|&each| each != id);
        }
    }
}

impl ReceiveRun {
    fn wants(&self, from: NodeId, tag: u32) -> bool {
        self.tag == tag && self.source.is_none_or(|source| source == from)
    }
}

/// A packet of a kind about a message: `number` of `group`, between its two nodes; `own` is this one.
pub(super) fn about(kind: PacketKind, group: u32, number: u32, own: NodeId) -> PacketHeader {
    PacketHeader { plan: own, ..PacketHeader::new(kind, group, number) }
}
