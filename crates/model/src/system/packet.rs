//! Packets: how data is cut into them.

use super::System;
use antiphon_base::parameter::{Domain, parameters};
use antiphon_base::units::Bytes;

parameters! {
    /// How data is cut into packets.
    #[derive(Copy)]
    pub struct PacketFormat of System[packet] {
        /// Most payload bytes in a packet.
        #[parameter("packet_payload_bytes", Domain::Bytes { least: 1, most: 1 << 30 }, "TTO (HPCA 2024), Table II")]
        pub payload_bytes: Bytes = 4096,
        /// Bytes in a flit; a packet is a whole number of flits.
        #[parameter("flit_bytes", Domain::Bytes { least: 1, most: 1 << 30 }, "TTO (HPCA 2024), Table II")]
        pub flit_bytes: Bytes = 64,
        /// Flits of header in front of the payload.
        #[parameter("header_flits", Domain::count(0, 1 << 16, "flits"), "TTO artifact: a head flit")]
        pub header_flits: u64 = 1,
        /// Whether short packets are padded to full payload.
        #[parameter("fixed_size_packets", Domain::Flag, "TTO artifact: they are")]
        pub fixed_size: bool = false,
    }
}

impl PacketFormat {
    /// No message is to be cut into shorter ones: of these headers would take more than 3 % of the links, or rounding up to
    /// flits, and simulating them longer than they are worth.
    pub fn least_message(&self) -> Bytes {
        if self.fixed_size {
            return self.payload_bytes;
        }
        (32 * self.header_flits * self.flit_bytes).min(self.payload_bytes).max(2 << 10)
    }
}
