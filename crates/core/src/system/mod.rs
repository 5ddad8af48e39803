//! Systems: the parameters of a platform, shared by bounds and simulators. Presets hold a paper's.

mod choice;
mod processor;
mod router;

pub use choice::Choice;
pub use processor::{Dataflow, Processor, Roofline, SystolicArray};
pub use router::{Allocator, RouterModel, Switching};

use crate::error::{Code, Error, Result, nearest};
use crate::fabric::Link;
use crate::units::{Bytes, Picos, Rate, clip};
use serde::{Deserialize, Serialize};

/// How data is cut into packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PacketFormat {
    /// Most payload bytes in a packet.
    pub payload_bytes: Bytes,
    /// Bytes in a flit; a packet is a whole number of flits.
    pub flit_bytes: Bytes,
    /// Flits of header in front of the payload.
    pub header_flits: u64,
    /// Whether short packets are padded to full payload.
    pub fixed_size: bool,
}

/// Which interface of a rank takes a message, where they are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Assignment {
    /// The lowest that is free.
    #[default]
    LowestFree,
    /// The next free one after that of the message before.
    RoundRobin,
    /// That of the receiver's number, modulo the count: messages of one flow stay in order.
    Receiver,
}

impl Choice for Assignment {
    const WHAT: &'static str = "assignment";
    const ALL: &'static [(&'static str, Self)] = &[
        ("lowest-free", Assignment::LowestFree),
        ("round-robin", Assignment::RoundRobin),
        ("receiver", Assignment::Receiver),
    ];
}

/// Network interfaces of one rank, used by schedules that are issued in step order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkInterface {
    /// Interfaces of a rank.
    pub count: u32,
    /// Which of them takes a message.
    #[serde(default)]
    pub assignment: Assignment,
    /// Packets that queue in one interface before it pushes back.
    pub depth_packets: u64,
    /// Virtual channels the packets of an interface are dealt to when they leave over several links.
    pub virtual_channels: u32,
    /// Time to hand one packet to an interface.
    pub issue_ps: Picos,
}

/// The parameters of a platform. Times in picoseconds, rates in bytes per second.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Preset name.
    pub name: String,
    /// What it models and where its numbers are from.
    pub description: String,
    /// Rate of links that give none.
    pub link_rate: Rate,
    /// Propagation latency of links that give none.
    pub link_latency_ps: Picos,
    /// If set, the time of one flit on a link is rounded up to whole periods of this clock.
    pub clock_ps: Option<Picos>,
    /// Packet format.
    pub packet: PacketFormat,
    /// Network interfaces.
    pub interface: NetworkInterface,
    /// Routers, for flit fidelity.
    pub router: RouterModel,
    /// From the arrival of a message's last packet to the start of what waited for it.
    pub hand_off_ps: Picos,
    /// Rate at which a rank adds received data to its own, one message at a time; `None` is free.
    pub reduce_rate: Option<Rate>,
    /// What computes on a rank, for training.
    pub processor: Processor,
}

/// Packets of one message: how many, and flits in each (header included).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packets {
    /// Number of packets, at least 1.
    pub count: u64,
    /// Flits in each packet, header included.
    pub flits: u64,
}

impl System {
    /// Names of the presets.
    pub const PRESETS: [&'static str; 4] = ["generic", "ideal", "dgx1", "tto"];

    /// A preset by name.
    ///
    /// # Errors
    /// [`Code::UnknownName`] with the nearest known name.
    pub fn preset(name: &str) -> Result<System> {
        match name {
            "generic" => Ok(System {
                name: "generic".into(),
                description: "25 GB/s links, 20 ns latency, 4096 B packets with a 64 B header; reductions are free; 100 TFLOP/s and 1 TB/s a rank".into(),
                link_rate: Rate::gb_per_s(25),
                link_latency_ps: 20_000,
                clock_ps: None,
                packet: PacketFormat { payload_bytes: 4096, flit_bytes: 64, header_flits: 1, fixed_size: false },
                interface: NetworkInterface { count: 4, assignment: Assignment::LowestFree, depth_packets: 64, virtual_channels: 4, issue_ps: 1_000 },
                // A packet and a round trip of credits fit into a buffer.
                router: RouterModel {
                    depth_flits: 128,
                    switching: Switching::CutThrough,
                    routing_cycles: 0,
                    hand_off_ps: 2_000,
                    ..RouterModel::textbook()
                },
                hand_off_ps: 10_000,
                reduce_rate: None,
                processor: Processor::parse("roofline")?,
            }),
            // What stage-level models leave out costs nothing here (docs/rails.md).
            "ideal" => Ok(System {
                name: "ideal".into(),
                description: "25 GB/s links, 20 ns latency, 64 KiB packets without header; hand-off and reductions are free".into(),
                packet: PacketFormat { payload_bytes: 64 << 10, flit_bytes: 256, header_flits: 0, fixed_size: false },
                router: RouterModel { depth_flits: 512, ..System::preset("generic")?.router },
                hand_off_ps: 0,
                ..System::preset("generic")?
            }),
            // reference/ccube.md: the latency is fitted to one figure, the gain of the overlap at 64 MB; the other
            // numbers are the machine's.
            "dgx1" => Ok(System {
                name: "dgx1".into(),
                description: "DGX-1 of C-Cube (HPCA 2023): 25 GB/s NVLinks; 12.4 us a step, a fit to its Figure 12 at 64 MB; V100 GPUs: 60 % of 15.7 TFLOP/s, 75 % of 900 GB/s".into(),
                link_latency_ps: 0,
                packet: PacketFormat { payload_bytes: 4096, flit_bytes: 64, header_flits: 0, fixed_size: false },
                // As in `generic`, 8 ns of it are spent in the routers at both ends.
                router: RouterModel { hand_off_ps: 12_392_000, ..System::preset("generic")?.router },
                hand_off_ps: 12_400_000,
                processor: Processor::parse("roofline:tflops=15.7,gb-per-s=900,element-bytes=4")?,
                ..System::preset("generic")?
            }),
            // reference/tto.md section 1; Table II of the paper.
            "tto" => Ok(System {
                name: "tto".into(),
                description: "TTO (HPCA 2024) Table II: 25 GB/s chiplet links, 512 B flits at 21 ns, 8192 B packets with a head flit, 4 network interfaces, 16 PEs of 256x256 MACs".into(),
                link_rate: Rate::gb_per_s(25),
                link_latency_ps: 0,
                clock_ps: Some(1_000),
                packet: PacketFormat { payload_bytes: 8192, flit_bytes: 512, header_flits: 1, fixed_size: true },
                // Outgoing FIFO 32 + per-interface message buffer 16 + injection queue 4 packets.
                interface: NetworkInterface { count: 4, assignment: Assignment::LowestFree, depth_packets: 52, virtual_channels: 4, issue_ps: 1_000 },
                // Reference section 1: 4 channels of 318 flits, look-ahead routing, iSLIP; 9 of the 12 ns
                // of hand-off are spent in the routers at both ends.
                router: RouterModel {
                    depth_flits: 318,
                    switching: Switching::CutThrough,
                    routing_cycles: 0,
                    hand_off_ps: 3_000,
                    ..RouterModel::textbook()
                },
                hand_off_ps: 12_000,
                // 16 PEs x 256 four-byte sums a cycle (reference section 1.3).
                reduce_rate: Some(Rate(16 * 256 * 4 * 1_000_000_000)),
                processor: Processor::parse("systolic")?,
            }),
            _ => Err(Error::new(
                Code::UnknownName,
                format!("no system '{}'{}; known: {}", clip(name), nearest(name, System::PRESETS), System::PRESETS.join(", ")),
            )),
        }
    }

    /// Effective rate of a link.
    pub fn rate_of(&self, link: &Link) -> Rate {
        let rate = link.rate.unwrap_or(self.link_rate).0;
        Rate(((rate as u128 * link.speed_permille as u128 / 1000) as u64).max(1))
    }

    /// Propagation latency of a link.
    pub fn latency_of(&self, link: &Link) -> Picos {
        link.latency.unwrap_or(self.link_latency_ps)
    }

    /// Time one flit occupies a link, rounded up to a picosecond.
    pub fn flit_time(&self, link: &Link) -> Picos {
        self.flit_ticks(link, 0)
    }

    /// Time one flit occupies a link in units of 2^-`bits` picoseconds, rounded up; whole clocks on a system with one.
    pub fn flit_ticks(&self, link: &Link, bits: u32) -> u64 {
        self.ticks_at(self.rate_of(link), bits)
    }

    /// As [`System::flit_ticks`], for links that act as one channel of their summed rate; of the rates in whole clocks
    /// on a system with one.
    pub fn channel_ticks<'a>(&self, links: impl Iterator<Item = &'a Link>, bits: u32) -> u64 {
        let flit = u128::from(self.packet.flit_bytes) * 1_000_000_000_000;
        let rate = |link: &Link| match self.clock_ps {
            Some(_) => flit.div_ceil(u128::from(self.flit_time(link)).max(1)) as u64,
            None => self.rate_of(link).0,
        };
        self.ticks_at(Rate(links.map(rate).fold(0, u64::saturating_add)), bits)
    }

    fn ticks_at(&self, rate: Rate, bits: u32) -> u64 {
        let scaled = |picos: u128| u64::try_from(picos << bits).unwrap_or(u64::MAX);
        let rate = u128::from(rate.0.max(1));
        let picos = u128::from(self.packet.flit_bytes) * 1_000_000_000_000;
        match self.clock_ps.map(u128::from) {
            Some(clock) => scaled(picos.div_ceil(rate * clock) * clock),
            None => u64::try_from((picos << bits).div_ceil(rate)).unwrap_or(u64::MAX),
        }
    }

    /// Rates of links that this system's clock rounds down: as written, and at which they carry flits, in bytes per
    /// second; each once, slowest first. Empty without a clock. O(links).
    pub fn rounded_rates(&self, links: &[Link]) -> Vec<(Rate, f64)> {
        let Some(clock) = self.clock_ps else { return vec![] };
        let effective = |link: &Link| {
            let rate = self.rate_of(link);
            let cycle_bytes = u128::from(rate.0) * u128::from(clock);
            let whole = (u128::from(self.packet.flit_bytes) * 1_000_000_000_000).is_multiple_of(cycle_bytes);
            let carried = self.packet.flit_bytes as f64 * 1e12 / self.flit_time(link) as f64;
            (!whole).then_some((rate, carried))
        };
        let mut rates: Vec<_> = links.iter().filter_map(effective).collect();
        rates.sort_by_key(|&(rate, _)| rate);
        rates.dedup_by_key(|&mut (rate, _)| rate);
        rates
    }

    /// Packets of a message of `bytes`: all of equal size, as few as possible.
    pub fn packets(&self, bytes: Bytes) -> Packets {
        let format = &self.packet;
        let count = bytes.div_ceil(format.payload_bytes).max(1);
        let payload = if format.fixed_size { format.payload_bytes } else { bytes.div_ceil(count) };
        Packets { count, flits: payload.div_ceil(format.flit_bytes).max(1) + format.header_flits }
    }

    /// Fastest payload rate of a link in bytes per second, as the exact fraction
    /// `numerator / denominator`: the best packets back to back, header flits not counted as payload.
    pub fn payload_rate(&self, link: &Link) -> (u128, u128) {
        let format = &self.packet;
        // A packet that just fills its flits can beat a full one with a flit hardly filled.
        let filled = format.payload_bytes / format.flit_bytes * format.flit_bytes;
        let rate = |payload: Bytes| (payload as u128, self.packets(payload).flits as u128);
        let mut best = rate(format.payload_bytes);
        if filled > 0 && !format.fixed_size && rate(filled).0 * best.1 > best.0 * rate(filled).1 {
            best = rate(filled);
        }
        match self.clock_ps {
            Some(_) => (best.0 * 1_000_000_000_000, (self.flit_time(link) as u128 * best.1).max(1)),
            None => (best.0 * self.rate_of(link).0 as u128, format.flit_bytes as u128 * best.1),
        }
    }

    /// Time a rank takes to add `bytes` of received data to its own.
    pub fn reduce_time(&self, bytes: Bytes) -> Picos {
        let Some(rate) = self.reduce_rate else { return 0 };
        let time = rate.time_for(bytes);
        match self.clock_ps {
            Some(clock) => time.div_ceil(clock).saturating_mul(clock),
            None => time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tto_packet_takes_357_ns() {
        let system = System::preset("tto").unwrap();
        let link = Link::new(0, 1, "x");
        let packets = system.packets(1);
        assert_eq!(packets, Packets { count: 1, flits: 17 });
        assert_eq!(packets.flits * system.flit_time(&link), 357_000);
        assert_eq!(system.payload_rate(&link), (8192 * 1_000_000_000_000, 357_000));
        assert_eq!(system.reduce_time(4 * 8192), 2_000);
    }

    #[test]
    fn the_best_packet_counts() {
        let mut system = System::preset("generic").unwrap();
        system.packet = PacketFormat { payload_bytes: 65, flit_bytes: 64, header_flits: 1, fixed_size: false };
        let link = Link::new(0, 1, "x");
        // 128 bytes go as two packets of 64, faster than one of 65 and one of 63 would.
        assert_eq!(system.packets(128), Packets { count: 2, flits: 2 });
        assert_eq!(system.payload_rate(&link), (64 * 25_000_000_000, 2 * 64));
        system.packet.fixed_size = true;
        assert_eq!(system.payload_rate(&link), (65 * 25_000_000_000, 3 * 64));
    }

    #[test]
    fn unknown_system_names_the_nearest() {
        assert!(System::preset("ttoo").unwrap_err().message.contains("did you mean 'tto'"));
    }
}
