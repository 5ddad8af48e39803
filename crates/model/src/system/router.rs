//! The routers of a platform, for the flit-level network.

use super::System;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::parameter::{Choice, Domain, Field, Parameter, parameters};
use antiphon_base::units::Picos;
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

/// How flits leave their last router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ejection {
    /// As they pass others.
    Switched,
    /// From the input port straight to the local one, past buffers, allocation and crossbar.
    Circuit,
}

impl Choice for Ejection {
    const WHAT: &'static str = "ejection";
    const ALL: &'static [(&'static str, Self)] = &[("switched", Ejection::Switched), ("circuit", Ejection::Circuit)];
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

/// Most virtual channels, iterations, speed-ups, and cycles of a delay.
const LIMIT: u64 = 256;
/// Cycles of a delay.
const CYCLES: Domain = Domain::count(0, LIMIT, "cycles");
/// Flits of an output queue.
const QUEUE: Domain = Domain::count(1, u32::MAX as u64, "flits");
/// Cycles of an allocation.
const ALLOCATION: Domain = Domain::count(1, LIMIT, "cycles");

parameters! {
    /// An input-queued virtual-channel router with credit flow control. Delays are in cycles of `clock_ps`.
    ///
    /// A head flit that arrives at cycle `t` bids for a virtual channel at `t + routing_cycles`, for the
    /// crossbar `vc_allocation_cycles` later, and is on the link `switch_allocation_cycles +
    /// traversal_cycles` after its grant. Body flits only bid for the crossbar. (Dally and Towles,
    /// Principles and Practices of Interconnection Networks, chapters 16 and 17.)
    pub struct RouterModel of System[router] {
        /// Period of the routers' clock.
        #[parameter("router_clock_ns", Domain::ns(0.001), "TTO artifact: 1 GHz")]
        pub clock_ps: Picos = 1_000,
        /// Virtual channels of every link, interface and ejection port.
        #[parameter("router_virtual_channels", Domain::count(1, LIMIT, ""), "BookSim 2: num_vcs")]
        pub virtual_channels: u32 = 4,
        /// Flits in the buffer of one virtual channel.
        #[parameter("router_depth_flits", Domain::count(1, 1 << 20, "flits"), "BookSim 2: vc_buf_size")]
        // A packet and a round trip of credits fit.
        pub depth_flits: u32 = 128,
        /// When a packet may claim the next buffer: as flits of it fit, or as a whole.
        #[parameter("router_switching", Domain::Choice(Switching::NAMES), "Dally and Towles, chapter 13")]
        pub switching: Switching = Switching::CutThrough,
        /// Allocator of virtual channels and of the crossbar.
        #[parameter("router_allocator", Domain::Choice(Allocator::NAMES), "BookSim 2: vc_allocator, sw_allocator")]
        pub allocator: Allocator = Allocator::Islip,
        /// Iterations of each allocation.
        #[parameter("router_iterations", Domain::count(1, LIMIT, ""), "BookSim 2: alloc_iters")]
        pub iterations: u32 = 1,
        /// Route computation; 0 where it is done ahead.
        #[parameter("router_routing_cycles", CYCLES, "BookSim 2: routing_delay")]
        pub routing_cycles: u32 = 0,
        /// Allocation of a virtual channel.
        #[parameter("router_vc_allocation_cycles", ALLOCATION, "BookSim 2: vc_alloc_delay")]
        pub vc_allocation_cycles: u32 = 1,
        /// Allocation of the crossbar.
        #[parameter("router_switch_allocation_cycles", ALLOCATION, "BookSim 2: sw_alloc_delay")]
        pub switch_allocation_cycles: u32 = 1,
        /// Crossing the router.
        #[parameter("router_traversal_cycles", CYCLES, "BookSim 2: st_prepare_delay, st_final_delay")]
        pub traversal_cycles: u32 = 1,
        /// From the arrival of a credit to its use.
        #[parameter("router_credit_cycles", CYCLES, "BookSim 2: credit_delay")]
        pub credit_cycles: u32 = 1,
        /// Crossbar inputs of one input port: its virtual channels are dealt to them.
        #[parameter("router_input_speedup", Domain::count(1, LIMIT, ""), "BookSim 2: input_speedup")]
        pub input_speedup: u32 = 1,
        /// Crossbar outputs of one output port: input ports are dealt to them.
        #[parameter("router_output_speedup", Domain::count(1, LIMIT, ""), "BookSim 2: output_speedup")]
        pub output_speedup: u32 = 1,
        /// Allocations in one cycle.
        #[parameter("router_internal_speedup", Domain::count(1, LIMIT, ""), "BookSim 2: internal_speedup")]
        pub internal_speedup: u32 = 1,
        /// Flits that may wait between crossbar and link; inf: any number.
        #[parameter("router_output_queue_flits", Domain::Or(f64::INFINITY, &QUEUE), "BookSim 2: output_buffer_size")]
        pub output_queue_flits: Option<u32> = None,
        /// How flits leave their last router: switched by buffers and stages, or by a circuit to the local port.
        #[parameter("router_ejection", Domain::Choice(Ejection::NAMES), "BookSim 2: switched; ARIES (DATE 2024), section III: circuit")]
        pub ejection: Ejection = Ejection::Switched,
        /// From the arrival of a message's last flit at its interface to the start of what waited for it.
        #[parameter("router_hand_off_ns", Domain::ns(0.0), "hand_off_ns, less what the routers at both ends take")]
        pub hand_off_ps: Picos = 2_000,
    }
}

impl RouterModel {
    /// Four-stage routers of one cycle a stage at 1 GHz, iSLIP: what BookSim 2 has by default.
    pub fn textbook() -> RouterModel {
        RouterModel {
            depth_flits: 8,
            switching: Switching::Wormhole,
            routing_cycles: 1,
            hand_off_ps: 0,
            ..RouterModel::default()
        }
    }

    /// What its stages take from the arrival of a head flit to its departure, unless it waits.
    pub fn stages_ps(&self) -> Picos {
        let allocation = self.vc_allocation_cycles + self.switch_allocation_cycles;
        Picos::from(self.routing_cycles + allocation + self.traversal_cycles) * self.clock_ps
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

    /// Refuses values no router can have. Times may be in any unit here, such as the ticks of a simulation.
    ///
    /// # Errors
    /// As [`System::check`].
    pub fn check(&self) -> Result<()> {
        if self.clock_ps == 0 {
            return Err(Error::new(Code::BadSize, "a router's clock needs a period of at least 1 ps"));
        }
        let system = System { router: self.clone(), ..System::default() };
        RouterModel::network_parameters().try_for_each(|(parameter, field)| parameter.check(&field.get(&system)))
    }

    /// What the flit-level network alone takes, under its names there: all but times, as delays are in cycles.
    pub fn network_parameters() -> impl Iterator<Item = (Parameter, &'static Field<System>)> + Clone {
        RouterModel::PARAMETERS.iter().filter(|field| field.parameter.domain.unit() != "ns").map(|field| {
            let key = match field.parameter.key.trim_start_matches("router_") {
                "virtual_channels" => "vcs",
                "depth_flits" => "vc_depth",
                same => same,
            };
            (Parameter { key, ..field.parameter }, field)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routers_are_checked_whatever_the_unit_of_their_clock() {
        let router = RouterModel::textbook();
        assert_eq!(RouterModel { clock_ps: 1 << 54, ..router.clone() }.check(), Ok(()));
        for (wrong, message) in [
            (RouterModel { clock_ps: 0, ..router.clone() }, "clock"),
            (RouterModel { depth_flits: 0, ..router.clone() }, "vc_depth=0; expected a whole number from 1 to 1048576"),
            (RouterModel { output_queue_flits: Some(0), ..router.clone() }, "output_queue_flits=0"),
        ] {
            let error = wrong.check().unwrap_err();
            assert!(error.code == Code::BadSize && error.message.contains(message), "{error}");
        }
    }
}
