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
/// Most slices of memory in a packet.
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
                if self.wires[..number].iter().all(|wire| wire.is_dead)
                    && let Some(packet) = self.control.pop_front()
                {
                    self.wires[number].send(&[IoSlice::new(&packet)])?;
                    has_changed = true;
                    continue;
                }
                self.passes = self.own.is_empty() || !self.passes && !self.passing.is_empty();
                if self.passes {
                    let Some(packet) = self.passing.pop_front() else { break };
                    self.wires[number].send(&[IoSlice::new(&packet)])?;
                    has_changed = true;
                    continue;
                }
                let lent = self.own.iter().position(|message| memory(message.key).is_some());
                let Some((at, lent)) = lent.and_then(|at| Some((at, memory(self.own[at].key)?))) else {
                    if self.passing.is_empty() {
                        break;
                    }
                    continue;
                };
                let message = &mut self.own[at];
                let end = message.length.min(message.gone + packet_bytes);
                let mut slices: [IoSlice<'_>; MAX_SLICES] = [IoSlice::new(&[]); MAX_SLICES];
                let (mut count, mut bytes) = (1, 0);
                let mut before = 0;
                'all: for piece in &message.pieces {
                    let (first, last) = (message.gone.max(before), end.min(before + piece.len()));
                    if first < last {
                        for slice in lent.slices(piece.start + first - before..piece.start + last - before) {
                            if count == MAX_SLICES {
                                break 'all;
                            }
                            slices[count] = IoSlice::new(slice);
                            (count, bytes) = (count + 1, bytes + slice.len());
                        }
                    }
                    before += piece.len();
                }
                let mut header = Vec::with_capacity(PACKET_HEADER_BYTES + HOP_BYTES * message.hops.len());
                PacketHeader { bytes: bytes as u32, offset: message.gone as u32, ..message.header }
                    .write(&message.hops, &mut header);
                slices[0] = IoSlice::new(&header);
                self.wires[number].send(&slices[..count])?;
                has_changed = true;
                message.gone += bytes;
                if bytes == 0 && message.gone < message.length {
                    return Err(io::Error::other("memory of a message was not given"));
                }
                if message.gone == message.length
                    && let Some(message) = self.own.remove(at)
                {
                    gone(message);
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
