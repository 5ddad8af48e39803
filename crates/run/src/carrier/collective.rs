//! One collective under way at one node.

use super::lent::LentMemory;
use super::packet::{PacketHeader, PacketKind};
use super::rank_plan::RankPlan;
use crate::{ElementType, Finality, MemoryPart, RankMessage, RankProgress, Reduction, chunk_pieces, describe, pieces};
use antiphon_base::error::{Code, Error, Result};
use antiphon_model::fabric::NodeId;
use antiphon_model::schedule::{Action, TransferId};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a collective that may be sent to a rank that has not said that it has begun it.
pub(super) const EAGER_BYTES: u64 = 256 << 10;
/// Bytes that a stream may have on their way over several links; one message may always be.
const WINDOW_BYTES: usize = 1 << 20;
/// Messages of a stream that wait for their link at once: the one on its way, and the next; more of small ones, which go together.
const AHEAD: usize = 2;
const AHEAD_BYTES: usize = 64 << 10;

/// A collective, from the call that begins it until its rank is done.
pub(super) struct CollectiveRun {
    pub plan: Arc<RankPlan>,
    pub progress: RankProgress,
    element: ElementType,
    reduction: Reduction,
    streams: Vec<SendStream>,
    /// By rank of the group: whether it has begun, and bytes that it was sent before.
    peers: Vec<PeerState>,
    incoming: HashMap<(TransferId, u64), Incoming>,
    /// Whole messages that may not be applied yet; the chunks of a transfer go in order, though not all come so.
    held: BTreeSet<(TransferId, u64)>,
    /// Packets that came while the memory was not lent.
    pub waiting: VecDeque<(PacketHeader, Vec<u8>)>,
    told_reached: usize,
    /// At the first rank: barriers that each has reached.
    all_reached: Vec<usize>,
    told_open: usize,
}

#[derive(Clone, Default)]
struct SendStream {
    /// Messages that wait for their link, and their bytes.
    queued: usize,
    queued_bytes: usize,
    /// Bytes on their way over several links.
    flying: usize,
    /// Its receiver has not begun.
    blocked: Option<RankMessage>,
}

#[derive(Clone, Default)]
struct PeerState {
    has_begun: bool,
    sent_before: u64,
}

/// A message that comes in parts.
struct Incoming {
    message: RankMessage,
    pieces: Vec<Range<usize>>,
    length: usize,
    have: usize,
    /// Parts that could not be applied at once: first byte in the message, and data.
    parts: Vec<(usize, Vec<u8>)>,
}

/// What a collective gives its node to send.
pub(super) enum ToSend {
    /// A message of its memory, of so many bytes.
    Message(RankMessage, Vec<Range<usize>>, usize),
    /// A packet for the rank at a node.
    Control(NodeId, PacketHeader),
}

impl CollectiveRun {
    /// `parts` of the rank's memory are told when they are final.
    ///
    /// # Errors
    /// As [`Finality::new`].
    pub fn new(
        plan: Arc<RankPlan>,
        element: ElementType,
        reduction: Reduction,
        parts: &[MemoryPart],
    ) -> Result<CollectiveRun> {
        let ranks = plan.nodes.len();
        let mut progress = plan.fresh.clone();
        if !parts.is_empty() {
            progress.watch(Finality::new(&plan.schedule, plan.rank, element.bytes(), parts)?);
        }
        Ok(CollectiveRun {
            progress,
            element,
            reduction,
            streams: vec![SendStream::default(); plan.links.len()],
            peers: vec![PeerState::default(); ranks],
            incoming: HashMap::new(),
            held: BTreeSet::new(),
            waiting: VecDeque::new(),
            told_reached: 0,
            all_reached: vec![0; if plan.rank == 0 && plan.barriers > 0 { ranks } else { 0 }],
            told_open: 0,
            plan,
        })
    }

    /// Whether the rank has sent and applied all, and nobody waits for it to open a barrier.
    pub fn is_done(&self) -> bool {
        self.progress.is_done() && (self.all_reached.is_empty() || self.told_open == self.plan.barriers)
    }

    /// Ranks, as nodes, that may send more than is taken before this rank has begun.
    pub fn waiting_for_ready(&self) -> impl Iterator<Item = NodeId> + '_ {
        let plan = &self.plan;
        plan.nodes.iter().zip(&plan.from).filter(|&(_, &bytes)| bytes > EAGER_BYTES / 2).map(|(&node, _)| node)
    }

    /// The rank at a node has begun.
    pub fn begun(&mut self, node: NodeId) {
        if let Some(rank) = self.plan.nodes.iter().position(|&each| each == node) {
            self.peers[rank].has_begun = true;
        }
    }

    /// Whether the rank at a node is known to have begun.
    pub fn has_begun(&self, node: NodeId) -> bool {
        self.plan.nodes.iter().position(|&each| each == node).is_some_and(|rank| self.peers[rank].has_begun)
    }

    /// So many barriers are open.
    pub fn open(&mut self, barriers: usize) {
        self.progress.open(barriers.min(self.plan.barriers));
    }

    /// The rank at a node has reached so many barriers.
    pub fn reached(&mut self, node: NodeId, barriers: usize) {
        let rank = self.plan.nodes.iter().position(|&each| each == node);
        if let Some(known) = rank.and_then(|rank| self.all_reached.get_mut(rank)) {
            *known = barriers.max(*known);
        }
    }

    /// Takes a packet with data of a message. Returns the node to tell that the whole message has come, if it
    /// took several links.
    ///
    /// # Errors
    /// [`Code::Stalled`] if the packet is none of this collective; [`Code::BadSpec`] if memory was not lent.
    pub fn take(&mut self, header: &PacketHeader, data: &[u8], memory: &mut LentMemory<'_>) -> Result<Option<NodeId>> {
        let wrong =
            || Error::new(Code::Stalled, "a rank sent what the plan of this one does not have; do all run the same?");
        if header.plan != self.plan.hash() {
            return Err(wrong());
        }
        let (transfer, chunk) = (header.item, header.chunk as u64);
        let key = (transfer, chunk);
        if !self.incoming.contains_key(&key) {
            let message = self.progress.arrival(transfer, chunk).ok_or_else(wrong)?;
            if chunk >= self.plan.schedule.chunks(&self.plan.schedule.transfers[transfer as usize]) {
                return Err(wrong());
            }
            let pieces = pieces(&self.plan.schedule, &message, self.element.bytes());
            let length = pieces.iter().map(Range::len).sum();
            self.incoming.insert(key, Incoming { message, pieces, length, have: 0, parts: vec![] });
        }
        let incoming = self.incoming.get_mut(&key).ok_or_else(wrong)?;
        let start = header.offset as usize;
        if start + data.len() > incoming.length || incoming.have + data.len() > incoming.length {
            return Err(wrong());
        }
        incoming.have += data.len();
        self.peers[self.plan.schedule.transfers[transfer as usize].from as usize].has_begun = true;
        let (message, is_whole) = (incoming.message, incoming.have == incoming.length);
        if self.progress.may_apply(&message) && incoming.parts.is_empty() {
            let combine = (self.element, self.reduction);
            apply(combine, message.action, &incoming.pieces, start, data, memory)?;
            if is_whole {
                self.incoming.remove(&key);
                self.progress.applied(&message);
            }
        } else {
            incoming.parts.push((start, data.to_vec()));
            if is_whole {
                self.held.insert(key);
            }
        }
        Ok(self.plan.sender_of(transfer).filter(|_| is_whole && self.plan.route(transfer).len() > 1))
    }

    /// Does all that the rank can do now; `give` takes what is to be sent. True if anything happened.
    ///
    /// # Errors
    /// [`Code::BadSpec`] if memory was not lent.
    pub fn go_on(
        &mut self,
        memory: &mut LentMemory<'_>,
        may_send: impl Fn(NodeId) -> bool,
        mut give: impl FnMut(ToSend),
    ) -> Result<bool> {
        let mut has_changed = self.apply_held(memory)?;
        has_changed |= self.tell_barriers(&mut give);
        for number in 0..self.streams.len() {
            if self.plan.links[number].is_none() {
                continue;
            }
            while self.streams[number].queued < AHEAD || self.streams[number].queued_bytes < AHEAD_BYTES {
                let blocked = self.streams[number].blocked.take();
                let Some(message) = blocked.or_else(|| self.progress.next_send(number)) else { break };
                let rank = self.plan.schedule.transfers[message.transfer as usize].to as usize;
                let pieces = pieces(&self.plan.schedule, &message, self.element.bytes());
                let length: usize = pieces.iter().map(Range::len).sum();
                let stream = &mut self.streams[number];
                let peer = &mut self.peers[rank];
                let is_far = self.plan.route(message.transfer).len() > 1;
                let has_room = !is_far || stream.flying == 0 || stream.flying + length <= WINDOW_BYTES;
                let is_taken = peer.has_begun
                    || peer.sent_before + length as u64 <= EAGER_BYTES && may_send(self.plan.nodes[rank]);
                if !has_room || !is_taken {
                    stream.blocked = Some(message);
                    break;
                }
                peer.sent_before += if peer.has_begun { 0 } else { length as u64 };
                stream.queued += 1;
                stream.queued_bytes += length;
                stream.flying += if is_far { length } else { 0 };
                give(ToSend::Message(message, pieces, length));
                has_changed = true;
            }
        }
        Ok(has_changed)
    }

    /// Adds or stores the messages that had to wait and may be now.
    fn apply_held(&mut self, memory: &mut LentMemory<'_>) -> Result<bool> {
        let mut has_changed = false;
        let may_apply = |run: &Self| {
            let ready = |key: &&(TransferId, u64)| run.progress.may_apply(&run.incoming[key].message);
            run.held.iter().find(ready).copied()
        };
        while let Some(key) = may_apply(self) {
            self.held.remove(&key);
            let Some(incoming) = self.incoming.remove(&key) else { continue };
            let combine = (self.element, self.reduction);
            for (start, data) in &incoming.parts {
                apply(combine, incoming.message.action, &incoming.pieces, *start, data, memory)?;
            }
            self.progress.applied(&incoming.message);
            has_changed = true;
        }
        Ok(has_changed)
    }

    /// Tells the first rank which barriers this one has reached, and others which are open.
    fn tell_barriers(&mut self, give: &mut impl FnMut(ToSend)) -> bool {
        if self.plan.barriers == 0 {
            return false;
        }
        let mut has_changed = false;
        let reached = self.progress.reached();
        let packet = |kind, barriers: usize| PacketHeader { chunk: barriers as u32, ..PacketHeader::new(kind, 0, 0) };
        if reached > self.told_reached {
            (self.told_reached, has_changed) = (reached, true);
            match self.all_reached.first_mut() {
                Some(own) => *own = reached,
                None => give(ToSend::Control(self.plan.nodes[0], packet(PacketKind::Reached, reached))),
            }
        }
        let open = self.all_reached.iter().copied().min().unwrap_or(0);
        if open > self.told_open {
            (self.told_open, has_changed) = (open, true);
            self.progress.open(open);
            let others = &self.plan.nodes[1..];
            others.iter().for_each(|&node| give(ToSend::Control(node, packet(PacketKind::Open, open))));
        }
        has_changed
    }

    /// A message of so many bytes has left this node.
    pub fn sent(&mut self, message: &RankMessage, bytes: usize) {
        self.progress.sent(message);
        self.streams[message.stream].queued -= 1;
        self.streams[message.stream].queued_bytes -= bytes;
    }

    /// A message that took several links has arrived.
    pub fn arrived(&mut self, header: &PacketHeader) {
        let (transfer, chunk) = (header.item, header.chunk as u64);
        let Some(found) = self.plan.schedule.transfers.get(transfer as usize) else { return };
        if found.from != self.plan.rank || chunk >= self.plan.schedule.chunks(found) {
            return;
        }
        let first = self.plan.route(transfer).first();
        if let Some(stream) = self.plan.links.iter().position(|link| link.is_some() && link.as_ref() == first) {
            let pieces = chunk_pieces(&self.plan.schedule, transfer, chunk, self.element.bytes());
            let flying = &mut self.streams[stream].flying;
            *flying = flying.saturating_sub(pieces.iter().map(Range::len).sum());
        }
    }

    /// The message that the rank waits for, in words.
    pub fn waits_for(&self) -> String {
        let next = self.progress.waits_for(&self.plan.schedule);
        next.map_or("the others".into(), |message| describe(&self.plan.schedule, &message))
    }
}

/// Adds or stores data that begin at byte `start` of a message with these pieces.
fn apply(
    (element, reduction): (ElementType, Reduction),
    action: Action,
    pieces: &[Range<usize>],
    mut start: usize,
    mut data: &[u8],
    memory: &mut LentMemory<'_>,
) -> Result<()> {
    for piece in pieces {
        if start >= piece.len() {
            start -= piece.len();
            continue;
        }
        let (now, later) = data.split_at(data.len().min(piece.len() - start));
        let place = piece.start + start..piece.start + start + now.len();
        let is_lent = memory.change(place, |own, range| match action {
            Action::Reduce => element.reduce(reduction, own, &now[range]),
            _ => own.copy_from_slice(&now[range]),
        });
        if !is_lent {
            return Err(Error::new(Code::BadSpec, "memory that a plan writes was not given, or may not be written"));
        }
        (start, data) = (0, later);
        if data.is_empty() {
            break;
        }
    }
    Ok(())
}
