//! Messages from rank to rank, outside collectives.

use super::RunKey;
use super::lent::LentMemory;
use super::node::{CarrierNode, Lent, UNASKED_BYTES};
use super::packet::{PacketHeader, PacketKind};
use super::port::OwnMessage;
use antiphon_base::error::{Code, Error, Result};
use antiphon_model::fabric::NodeId;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

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

impl CarrierNode {
    /// Begins to send a message. Returns its key if it is not already gone.
    pub fn send(&mut self, group: u32, to: NodeId, tag: u32, data: &[u8]) -> Result<Option<RunKey>> {
        self.check_peer(to)?;
        let number = self.messages.number(group, to);
        let is_eager = data.len() <= EAGER_MESSAGE_BYTES && self.unasked_bytes[to as usize] < UNASKED_BYTES;
        if is_eager {
            let header = PacketHeader { item: tag, ..about(PacketKind::Message, group, number, self.node) };
            let header = PacketHeader { asks: self.note_unasked(to, group, true, number, data.len()), ..header };
            self.control(to, header, data);
            return Ok(None);
        }
        let header = PacketHeader { item: tag, ..about(PacketKind::Offer, group, number, self.node) };
        self.control(to, header, &(data.len() as u64).to_le_bytes());
        let id = self.id();
        let length = data.len();
        let run = SendRun { group, to, number, length, is_wanted: false, given: 0, gone: 0, arrived: 0 };
        self.messages.sends.insert(id, run);
        self.messages.sending.insert((group, to, number), id);
        Ok(Some(RunKey::Send(id)))
    }

    /// Asks for a message of `length` bytes.
    pub fn receive(&mut self, group: u32, source: Option<NodeId>, tag: u32, length: usize) -> Result<RunKey> {
        source.map_or(Ok(()), |source| self.check_peer(source))?;
        let id = self.id();
        let receive = ReceiveRun { group, source, tag, length, have: 0, from: None, waiting: vec![] };
        if let Some(offer) = self.messages.post(id, receive) {
            self.accept(group, id, offer);
        }
        Ok(RunKey::Receive(id))
    }

    pub(super) fn check_peer(&self, node: NodeId) -> Result<()> {
        let Some(route) = self.routes.get(node as usize) else {
            return Err(Error::new(Code::BadSpec, format!("there is no node {node}")));
        };
        match route {
            _ if node == self.node => Err(Error::new(Code::BadSpec, "a rank sends no message to itself")),
            None => Err(Error::new(Code::Stalled, format!("no link that works leads to rank {node}"))),
            Some(_) => Ok(()),
        }
    }

    pub(super) fn end_send(&mut self, id: u64, outcome: Result<NodeId>) {
        if let Some(run) = self.messages.sends.remove(&id) {
            self.messages.sending.remove(&(run.group, run.to, run.number));
            self.finished.insert(RunKey::Send(id), outcome);
        }
    }

    /// A message that was offered has found who asked for it.
    pub(super) fn accept(&mut self, group: u32, id: u64, offer: Offer) {
        let Some(receive) = self.messages.receives.get_mut(&id) else { return };
        receive.from = Some(offer.from);
        if receive.length != offer.length {
            let what =
                format!("rank {} sent {} bytes where {} were asked for", offer.from, offer.length, receive.length);
            self.messages.withdraw(id);
            self.finished.insert(RunKey::Receive(id), Err(Error::new(Code::BadSize, what)));
            return;
        }
        if let Some(data) = offer.data {
            receive.waiting.push((0, data));
        } else {
            self.messages.receiving.insert((group, offer.from, offer.number), id);
        }
        if offer.asks || receive.waiting.is_empty() {
            self.control(offer.from, about(PacketKind::Go, group, offer.number, self.node), &[]);
        }
    }

    /// Takes a part of a message.
    pub(super) fn part(&mut self, header: PacketHeader, data: &[u8], lent: &mut Lent<'_, '_>) -> Option<()> {
        let (group, number, from) = (header.group, header.sequence, header.plan);
        let Some(&id) = self.messages.receiving.get(&(group, from, number)) else { return Some(()) };
        let receive = self.messages.receives.get_mut(&id)?;
        let start = (header.chunk as usize).checked_mul(PART_BYTES)?.checked_add(header.offset as usize)?;
        if start.checked_add(data.len())? > receive.length {
            return None;
        }
        let is_last_of_part = start + data.len() == receive.length || (start + data.len()).is_multiple_of(PART_BYTES);
        match lent.get_mut(&RunKey::Receive(id)) {
            Some(memory) => {
                memory.change(start..start + data.len(), |own, range| own.copy_from_slice(&data[range]));
                receive.have += data.len();
            }
            None => receive.waiting.push((start, data.to_vec())),
        }
        let is_whole = receive.have == receive.length;
        let is_far = self.routes[from as usize].as_ref().is_some_and(|(_, hops)| !hops.is_empty());
        if is_last_of_part && is_far {
            self.control(from, about(PacketKind::PartArrived, group, number, self.node), &[]);
        }
        if is_whole {
            self.end_receive(id);
        }
        Some(())
    }

    pub(super) fn store(&mut self, id: u64, lent: &mut Lent<'_, '_>) {
        if let Some(memory) = lent.get_mut(&RunKey::Receive(id)) {
            self.store_in(id, memory);
        }
    }

    /// Stores what came of a message while its memory was not lent. True if anything had.
    pub(super) fn store_in(&mut self, id: u64, memory: &mut LentMemory<'_>) -> bool {
        let Some(receive) = self.messages.receives.get_mut(&id) else { return false };
        if receive.from.is_none() || receive.waiting.is_empty() && receive.length > 0 {
            return false;
        }
        for (start, data) in std::mem::take(&mut receive.waiting) {
            memory.change(start..start + data.len(), |own, range| own.copy_from_slice(&data[range]));
            receive.have += data.len();
        }
        if receive.have == receive.length {
            self.end_receive(id);
        }
        true
    }

    pub(super) fn end_receive(&mut self, id: u64) {
        if let Some(receive) = self.messages.receives.remove(&id) {
            self.messages.receiving.retain(|_, each| *each != id);
            self.finished.insert(RunKey::Receive(id), Ok(receive.from.unwrap_or(self.node)));
        }
    }

    /// Gives the port parts of a message that its receiver wants. True if there were any.
    pub(super) fn give_parts(&mut self, id: u64) -> bool {
        let Some(run) = self.messages.sends.get_mut(&id).filter(|run| run.is_wanted) else { return false };
        let Some(Some((port, hops))) = self.routes.get(run.to as usize) else { return false };
        let before = run.given;
        while run.given < run.parts()
            && run.given - run.gone < PARTS_AHEAD
            && (hops.is_empty() || run.given - run.arrived.min(run.given) < PARTS_AHEAD)
        {
            let start = run.given as usize * PART_BYTES;
            let end = run.length.min(start + PART_BYTES);
            let header = about(PacketKind::Part, run.group, run.number, self.node);
            self.ports[*port].own.push_back(OwnMessage {
                key: RunKey::Send(id),
                header: PacketHeader { chunk: run.given as u32, epoch: self.epoch, ..header },
                hops: hops.clone(),
                pieces: std::iter::once::<Range<usize>>(start..end).collect(),
                length: end - start,
                gone: 0,
                message: None,
            });
            run.given += 1;
        }
        run.given > before
    }
}

/// A packet of a kind about a message: `number` of `group`, between its two nodes; `own` is this one.
pub(super) fn about(kind: PacketKind, group: u32, number: u32, own: NodeId) -> PacketHeader {
    PacketHeader { plan: own, ..PacketHeader::new(kind, group, number) }
}
