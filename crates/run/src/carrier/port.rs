//! What a node has to send to one neighbour, and what comes from there.

use super::RunKey;
use super::lent::LentMemory;
use super::packet::{HOP_BYTES, PACKET_HEADER_BYTES, PacketHeader};
use crate::RankMessage;
use crate::wires::ByteWire;
use antiphon_model::fabric::{LinkId, NodeId};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::time::Instant;

/// Bytes that a wire is asked for at once.
const BUFFER_BYTES: usize = 256 << 10;
/// Most slices of memory in a packet, and of all that is sent at once.
const MAX_SLICES: usize = 64;

/// A neighbour, with all wires to it.
pub(super) struct CarrierPort {
    pub neighbour: NodeId,
    pub wires: Vec<PortWire>,
    /// Packets that keep their order and go first.
    pub control: VecDeque<Vec<u8>>,
    /// Data from elsewhere.
    pub passing: VecDeque<Vec<u8>>,
    /// Messages of runs here.
    pub own: VecDeque<OwnMessage>,
    /// Whose turn it is.
    passes: bool,
    pub has_left: bool,
}

pub(super) struct PortWire {
    pub wire: Box<dyn ByteWire>,
    /// The links of its cable, there and back, in order.
    pub links: Vec<LinkId>,
    /// The cable, for people.
    pub name: String,
    pub last_sent: Instant,
    pub last_heard: Instant,
    pub is_dead: bool,
    /// The rest of a packet of which a part is gone, and the first byte of it.
    rest: (Vec<u8>, usize),
    /// What has come of packets that are not yet whole: bytes `begin..end`.
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
}

/// A message in the memory of a run.
pub(super) struct OwnMessage {
    pub key: RunKey,
    /// The header of its packets, but for offset and bytes.
    pub header: PacketHeader,
    pub hops: Vec<u16>,
    pub pieces: Vec<Range<usize>>,
    pub length: usize,
    pub gone: usize,
    /// What is reported when it is gone: of collectives, the message.
    pub message: Option<RankMessage>,
}

impl PortWire {
    pub fn new(wire: Box<dyn ByteWire>, links: Vec<LinkId>, name: String, now: Instant) -> PortWire {
        PortWire {
            wire,
            links,
            name,
            last_sent: now,
            last_heard: now,
            is_dead: false,
            rest: (vec![], 0),
            buffer: vec![],
            begin: 0,
            end: 0,
        }
    }

    pub fn is_free(&self) -> bool {
        self.rest.1 == self.rest.0.len()
    }

    /// Sends what is left of the last packet. True if anything went.
    fn flush(&mut self) -> io::Result<bool> {
        let (rest, done) = &mut self.rest;
        let mut has_changed = false;
        while *done < rest.len() {
            match self.wire.send(&[IoSlice::new(&rest[*done..])])? {
                0 => break,
                more => (*done, has_changed) = (*done + more, true),
            }
        }
        Ok(has_changed)
    }

    /// Sends a packet, or keeps what does not fit for later. The last one must be gone.
    ///
    /// # Errors
    /// If the wire is broken.
    pub fn send(&mut self, slices: &[IoSlice<'_>]) -> io::Result<()> {
        let mut gone = self.wire.send(slices)?;
        self.rest.0.clear();
        self.rest.1 = 0;
        for slice in slices {
            self.rest.0.extend_from_slice(&slice[gone.min(slice.len())..]);
            gone = gone.saturating_sub(slice.len());
        }
        Ok(())
    }

    /// Sends the first packets of a queue, about so many bytes of them.
    fn send_some(&mut self, queue: &mut VecDeque<Vec<u8>>, bytes: usize) -> io::Result<()> {
        let mut sum = 0;
        let fit = |packet: &&Vec<u8>| {
            sum += packet.len();
            sum - packet.len() < bytes
        };
        let slices: Vec<IoSlice<'_>> =
            queue.iter().take(MAX_SLICES).take_while(fit).map(|packet| IoSlice::new(packet)).collect();
        self.send(&slices)?;
        let count = slices.len();
        queue.drain(..count);
        Ok(())
    }

    /// Takes what has come. True if anything had.
    pub fn receive(&mut self) -> io::Result<bool> {
        if self.buffer.is_empty() {
            self.buffer = vec![0; BUFFER_BYTES];
        }
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
        } else if self.end == self.buffer.len() {
            self.buffer.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        let count = self.wire.receive(&mut self.buffer[self.end..])?;
        self.end += count;
        Ok(count > 0)
    }

    /// The buffer, for as long as packets in it are handled.
    pub fn take_buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Ends that.
    pub fn give_back(&mut self, buffer: Vec<u8>) {
        self.buffer = buffer;
    }

    /// The next whole packet in the buffer that was taken: header, and place.
    ///
    /// # Errors
    /// If no carrier sends it.
    pub fn next_packet(&mut self, buffer: &[u8]) -> io::Result<Option<(PacketHeader, Range<usize>)>> {
        let have = &buffer[self.begin..self.end];
        if have.len() < PACKET_HEADER_BYTES {
            return Ok(None);
        }
        let header = PacketHeader::read(have)?;
        let bytes = header.packet_bytes();
        if have.len() < bytes {
            return Ok(None);
        }
        let packet = self.begin..self.begin + bytes;
        self.begin += bytes;
        Ok(Some((header, packet)))
    }
}

impl OwnMessage {
    /// Its next bytes, of a packet.
    fn slices<'m>(&self, lent: &'m LentMemory<'_>, packet_bytes: usize, most: usize) -> Vec<IoSlice<'m>> {
        let end = self.length.min(self.gone + packet_bytes);
        let mut before = 0;
        let place = |piece: &Range<usize>| {
            let (first, last) = (self.gone.max(before), end.min(before + piece.len()));
            let place = piece.start + first.saturating_sub(before)..(piece.start + last).saturating_sub(before);
            before += piece.len();
            place
        };
        self.pieces.iter().map(place).flat_map(|place| lent.slices(place)).take(most).map(IoSlice::new).collect()
    }
}

impl CarrierPort {
    pub fn new(neighbour: NodeId) -> CarrierPort {
        CarrierPort {
            neighbour,
            wires: vec![],
            control: VecDeque::new(),
            passing: VecDeque::new(),
            own: VecDeque::new(),
            passes: false,
            has_left: false,
        }
    }

    /// Sends as much as a wire takes; `memory` gives what was lent to a run, `gone` is told of messages that left. True if anything
    /// happened.
    ///
    /// # Errors
    /// If the wire is broken.
    pub fn send_by<'m, 'a: 'm>(
        &mut self,
        number: usize,
        packet_bytes: usize,
        memory: impl Fn(RunKey) -> Option<&'m LentMemory<'a>>,
        mut gone: impl FnMut(OwnMessage),
    ) -> io::Result<bool> {
        let mut has_changed = false;
        if !self.wires[number].is_dead {
            has_changed |= self.wires[number].flush()?;
            while self.wires[number].is_free() {
                // Control packets keep their order on the first wire that works.
                if !self.control.is_empty() && self.wires[..number].iter().all(|wire| wire.is_dead) {
                    self.wires[number].send_some(&mut self.control, packet_bytes)?;
                    has_changed = true;
                    continue;
                }
                self.passes = self.own.is_empty() || !self.passes && !self.passing.is_empty();
                if self.passes {
                    if self.passing.is_empty() {
                        break;
                    }
                    self.wires[number].send_some(&mut self.passing, packet_bytes)?;
                    has_changed = true;
                    continue;
                }
                // Small messages go together: a call of the system costs more than they do.
                let (mut parts, mut count, mut sum) = (vec![], 0, 0);
                for (at, message) in self.own.iter().enumerate() {
                    let Some(lent) = memory(message.key) else { continue };
                    if sum >= packet_bytes || count + 1 >= MAX_SLICES {
                        break;
                    }
                    let data = message.slices(lent, packet_bytes, MAX_SLICES - count - 1);
                    let bytes: usize = data.iter().map(|slice| slice.len()).sum();
                    if bytes == 0 && message.gone < message.length {
                        return Err(io::Error::other("memory of a message was not given"));
                    }
                    let mut header = Vec::with_capacity(PACKET_HEADER_BYTES + HOP_BYTES * message.hops.len());
                    PacketHeader { bytes: bytes as u32, offset: message.gone as u32, ..message.header }
                        .write(&message.hops, &mut header);
                    (count, sum) = (count + 1 + data.len(), sum + header.len() + bytes);
                    parts.push((at, bytes, header, data));
                }
                if parts.is_empty() {
                    if self.passing.is_empty() {
                        break;
                    }
                    continue;
                }
                let mut slices = Vec::with_capacity(count);
                for (_, _, header, data) in &parts {
                    slices.push(IoSlice::new(header));
                    slices.extend_from_slice(data);
                }
                self.wires[number].send(&slices)?;
                has_changed = true;
                let mut removed = 0;
                for (at, bytes, ..) in parts {
                    let at = at - removed;
                    self.own[at].gone += bytes;
                    if self.own[at].gone == self.own[at].length
                        && let Some(message) = self.own.remove(at)
                    {
                        removed += 1;
                        gone(message);
                    }
                }
            }
        }
        if has_changed {
            self.wires[number].last_sent = Instant::now();
        }
        Ok(has_changed)
    }

    /// Whether anything waits to be sent that can be.
    pub fn has_more(&self) -> bool {
        let waits = !self.control.is_empty() || !self.passing.is_empty();
        self.wires.iter().any(|wire| !wire.is_dead && (waits || !wire.is_free()))
    }

    /// Forgets all that is to be sent, and gives the wires back that are gone. What of a packet is gone is followed by its rest.
    pub fn renew(&mut self, is_gone: impl Fn(&PortWire) -> bool) -> Vec<PortWire> {
        self.control.clear();
        self.passing.clear();
        self.own.clear();
        let (gone, left) = std::mem::take(&mut self.wires).into_iter().partition(is_gone);
        self.wires = left;
        gone
    }
}
