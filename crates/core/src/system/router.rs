//! The routers of a platform, for the flit-level network.

use super::Choice;
use crate::error::{Code, Error, Result};
use crate::units::Picos;
use serde::{Deserialize, Serialize};

/// When a packet may claim the next buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Switching {
    /// As soon as a virtual channel is free; its flits follow as credits come.
    Wormhole,
    /// When a free virtual channel has room for the whole packet.
    CutThrough,
}

/// How virtual channels and the crossbar are allocated. All are separable: each side picks one
/// request on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Allocator {
    /// Outputs grant, inputs accept, round robin; pointers move only past accepted grants of the
    /// first iteration (McKeown, IEEE/ACM ToN 1999).
    Islip,
    /// Inputs pick, outputs grant, round robin; pointers move past granted requests.
    RoundRobin,
    /// Inputs pick, outputs grant; the oldest packet wins.
    Age,
}

impl Choice for Switching {
    const WHAT: &'static str = "switching";
    const ALL: &'static [(&'static str, Self)] =
        &[("wormhole", Switching::Wormhole), ("cut-through", Switching::CutThrough)];
}

impl Choice for Allocator {
    const WHAT: &'static str = "allocator";
    const ALL: &'static [(&'static str, Self)] =
        &[("islip", Allocator::Islip), ("round-robin", Allocator::RoundRobin), ("age", Allocator::Age)];
}

/// An input-queued virtual-channel router with credit flow control. Delays are in cycles of `clock_ps`.
///
/// A head flit that arrives at cycle `t` bids for a virtual channel at `t + routing_cycles`, for the
/// crossbar `vc_allocation_cycles` later, and is on the link `switch_allocation_cycles +
/// traversal_cycles` after its grant. Body flits only bid for the crossbar. (Dally and Towles,
/// Principles and Practices of Interconnection Networks, chapters 16 and 17.)
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouterModel {
    /// Period of the routers' clock.
    pub clock_ps: Picos,
    /// Virtual channels of every link, interface and ejection port.
    pub virtual_channels: u32,
    /// Flits in the buffer of one virtual channel.
    pub depth_flits: u32,
    /// When a packet may claim the next buffer.
    pub switching: Switching,
    /// Allocator of virtual channels and of the crossbar.
    pub allocator: Allocator,
    /// Iterations of each allocation.
    pub iterations: u32,
    /// Route computation; 0 where it is done ahead.
    pub routing_cycles: u32,
    /// Allocation of a virtual channel, at least 1.
    pub vc_allocation_cycles: u32,
    /// Allocation of the crossbar, at least 1.
    pub switch_allocation_cycles: u32,
    /// Crossing the router.
    pub traversal_cycles: u32,
    /// From the arrival of a credit to its use.
    pub credit_cycles: u32,
    /// Crossbar inputs of one input port: its virtual channels are dealt to them.
    pub input_speedup: u32,
    /// Crossbar outputs of one output port: input ports are dealt to them.
    pub output_speedup: u32,
    /// Allocations in one cycle.
    pub internal_speedup: u32,
    /// Flits that may wait between crossbar and link; unlimited if `None`.
    pub output_queue_flits: Option<u32>,
    /// From the arrival of a message's last flit at its interface to the start of what waited for it.
    pub hand_off_ps: Picos,
}

impl RouterModel {
    /// Most virtual channels, iterations, speed-ups and cycles of one delay.
    pub const LIMIT: u32 = 256;
    /// Most flits in a buffer.
    pub const DEPTH_LIMIT: u32 = 1 << 20;

    /// Four-stage routers of one cycle a stage at 1 GHz, iSLIP: what BookSim 2 has by default.
    pub fn textbook() -> RouterModel {
        RouterModel {
            clock_ps: 1_000,
            virtual_channels: 4,
            depth_flits: 8,
            switching: Switching::Wormhole,
            allocator: Allocator::Islip,
            iterations: 1,
            routing_cycles: 1,
            vc_allocation_cycles: 1,
            switch_allocation_cycles: 1,
            traversal_cycles: 1,
            credit_cycles: 1,
            input_speedup: 1,
            output_speedup: 1,
            internal_speedup: 1,
            output_queue_flits: None,
            hand_off_ps: 0,
        }
    }

    /// The same router with ports that move a flit in `clock_ps`, at most its own clock's period: it
    /// allocates that often, and its delays keep their times, rounded up to such periods.
    pub fn with_ports_of(&self, clock_ps: Picos) -> RouterModel {
        // What a router can have is below 2^30 unless its clock takes longer than a microsecond.
        let time =
            |cycles: u32| (cycles as u128 * self.clock_ps as u128).div_ceil(clock_ps as u128).min(1 << 30) as u32;
        let crossing = self.switch_allocation_cycles + self.traversal_cycles;
        RouterModel {
            clock_ps,
            routing_cycles: time(self.routing_cycles),
            vc_allocation_cycles: time(self.vc_allocation_cycles),
            traversal_cycles: time(crossing) - self.switch_allocation_cycles,
            credit_cycles: time(self.credit_cycles),
            ..self.clone()
        }
    }

    /// Refuses values no router can have.
    ///
    /// # Errors
    /// [`Code::BadSize`] with the field and its range.
    pub fn check(&self) -> Result<()> {
        let limit = Self::LIMIT;
        for (name, value, from, to) in [
            ("virtual channels", self.virtual_channels, 1, limit),
            ("flits of depth", self.depth_flits, 1, Self::DEPTH_LIMIT),
            ("allocator iterations", self.iterations, 1, limit),
            ("routing cycles", self.routing_cycles, 0, limit),
            ("cycles of virtual-channel allocation", self.vc_allocation_cycles, 1, limit),
            ("cycles of switch allocation", self.switch_allocation_cycles, 1, limit),
            ("traversal cycles", self.traversal_cycles, 0, limit),
            ("credit cycles", self.credit_cycles, 0, limit),
            ("input speed-up", self.input_speedup, 1, limit),
            ("output speed-up", self.output_speedup, 1, limit),
            ("internal speed-up", self.internal_speedup, 1, limit),
            ("flits of output queue", self.output_queue_flits.unwrap_or(1), 1, u32::MAX),
        ] {
            if value < from || value > to {
                return Err(Error::new(Code::BadSize, format!("a router has {from} to {to} {name}, not {value}")));
            }
        }
        if self.clock_ps == 0 {
            return Err(Error::new(Code::BadSize, "a router's clock needs a period of at least 1 ps"));
        }
        Ok(())
    }
}
