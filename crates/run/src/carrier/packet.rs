//! What travels on wires: packets, each with a header, the links that it has still to take, and data.

use std::io;

/// Bytes of a header.
pub const PACKET_HEADER_BYTES: usize = 32;
/// Most bytes of data in a packet.
pub const MAX_PACKET_BYTES: usize = 1 << 16;
/// Bytes of a link on the way of a packet.
pub const HOP_BYTES: usize = 2;

/// What a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum PacketKind {
    /// Data of a collective.
    Data = 1,
    /// The sender's rank has begun a collective, and takes all that is sent to it.
    Ready,
    /// A message of a collective has arrived after more than one link.
    Arrived,
    /// The sender's rank has reached so many barriers.
    Reached,
    /// So many barriers are open.
    Open,
    /// A whole message from rank to rank.
    Message,
    /// A message from rank to rank that waits for [`PacketKind::Go`]; its data are the length.
    Offer,
    /// The receiver takes the message.
    Go,
    /// Data of a message that was offered.
    Part,
    /// A part has arrived.
    PartArrived,
    /// The neighbour is there.
    Alive,
    /// A link has failed; told to all.
    LinkFailed,
    /// A node has ended; told to all.
    NodeFailed,
    /// The neighbour closes the wire in good order.
    Leaving,
}

impl PacketKind {
    const ALL: [PacketKind; 14] = [
        PacketKind::Data,
        PacketKind::Ready,
        PacketKind::Arrived,
        PacketKind::Reached,
        PacketKind::Open,
        PacketKind::Message,
        PacketKind::Offer,
        PacketKind::Go,
        PacketKind::Part,
        PacketKind::PartArrived,
        PacketKind::Alive,
        PacketKind::LinkFailed,
        PacketKind::NodeFailed,
        PacketKind::Leaving,
    ];

    /// Whether it is about wires and nodes, whatever the fabric.
    pub fn is_of_wire(self) -> bool {
        matches!(self, PacketKind::Alive | PacketKind::LinkFailed | PacketKind::NodeFailed | PacketKind::Leaving)
    }

    /// Whether it may overtake, and be overtaken by, other packets.
    pub fn is_bulk(self) -> bool {
        matches!(self, PacketKind::Data | PacketKind::Part)
    }
}

/// The header of a packet. Numbers are little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketHeader {
    /// What it is.
    pub kind: PacketKind,
    /// Links that it has still to take after this one.
    pub hops: u8,
    /// Whether the sender asks for [`PacketKind::Ready`] or [`PacketKind::Go`].
    pub asks: bool,
    /// Counts fabrics: after a failure ranks go on with another one.
    pub epoch: u8,
    /// Bytes of data behind the header.
    pub bytes: u32,
    /// The group of ranks.
    pub group: u32,
    /// The collective, or message, of the group.
    pub sequence: u32,
    /// Transfer of a collective; tag of a message; link or node that failed.
    pub item: u32,
    /// Chunk of a transfer or part of a message; number of barriers.
    pub chunk: u32,
    /// First byte within the chunk or part.
    pub offset: u32,
    /// Hash of the plan of a collective; else the node that the packet is from.
    pub plan: u32,
}

impl PacketHeader {
    /// A packet without data.
    pub fn new(kind: PacketKind, group: u32, sequence: u32) -> PacketHeader {
        PacketHeader {
            kind,
            hops: 0,
            asks: false,
            epoch: 0,
            bytes: 0,
            group,
            sequence,
            item: 0,
            chunk: 0,
            offset: 0,
            plan: 0,
        }
    }

    /// Its bytes, and the links to take, appended to `packet`.
    pub fn write(&self, hops: &[u16], packet: &mut Vec<u8>) {
        packet.extend_from_slice(&[self.kind as u8, hops.len() as u8, self.asks as u8, self.epoch]);
        let words = [self.bytes, self.group, self.sequence, self.item, self.chunk, self.offset, self.plan];
        words.iter().for_each(|word| packet.extend_from_slice(&word.to_le_bytes()));
        hops.iter().for_each(|hop| packet.extend_from_slice(&hop.to_le_bytes()));
    }

    /// The header that `bytes` begin with, of which there are enough.
    ///
    /// # Errors
    /// If no carrier writes such a header.
    pub fn read(bytes: &[u8]) -> io::Result<PacketHeader> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let kind = PacketKind::ALL.into_iter().find(|kind| *kind as u8 == bytes[0]);
        let kind = kind.filter(|_| word(4) as usize <= MAX_PACKET_BYTES);
        let kind =
            kind.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it brought what no carrier sends"))?;
        Ok(PacketHeader {
            kind,
            hops: bytes[1],
            asks: bytes[2] != 0,
            epoch: bytes[3],
            bytes: word(4),
            group: word(8),
            sequence: word(12),
            item: word(16),
            chunk: word(20),
            offset: word(24),
            plan: word(28),
        })
    }

    /// Bytes of the whole packet.
    pub fn packet_bytes(&self) -> usize {
        PACKET_HEADER_BYTES + HOP_BYTES * self.hops as usize + self.bytes as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_written() {
        for kind in PacketKind::ALL {
            let mut header = PacketHeader::new(kind, 1, 2);
            header = PacketHeader { asks: true, epoch: 9, bytes: 3, item: 4, chunk: 5, offset: 6, plan: 7, ..header };
            let mut packet = vec![];
            header.write(&[258, 3], &mut packet);
            header.hops = 2;
            assert_eq!((PacketHeader::read(&packet).unwrap(), packet.len()), (header, header.packet_bytes() - 3));
            assert_eq!(packet[PACKET_HEADER_BYTES..], [2, 1, 3, 0]);
        }
        assert!(PacketHeader::read(&[0; PACKET_HEADER_BYTES]).is_err());
        let mut long = vec![];
        PacketHeader { bytes: 1 + MAX_PACKET_BYTES as u32, ..PacketHeader::new(PacketKind::Data, 0, 0) }
            .write(&[], &mut long);
        assert!(PacketHeader::read(&long).is_err());
    }
}
