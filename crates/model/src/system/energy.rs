//! What a bit costs on its way, and what parts cost for being there.

use super::System;
use crate::fabric::{Fabric, Link};
use antiphon_base::parameter::{Domain, StoredScale, parameters};

/// Attojoules: a microwatt in a picosecond.
pub type Attojoules = u128;

/// Energy of a bit, stored as attojoules a byte.
const PJ_PER_BIT: Domain =
    Domain::OrUnknown(&Domain::Number { least: 0.0, most: 1e6, unit: "pJ/bit", scale: StoredScale::Times(8e6) });
/// Energy of a bit on a millimetre of wire, stored as attojoules a byte.
const PJ_PER_BIT_MM: Domain =
    Domain::OrUnknown(&Domain::Number { least: 0.0, most: 1e3, unit: "pJ/bit/mm", scale: StoredScale::Times(8e6) });
/// Energy of an event, stored as attojoules.
const PJ: Domain =
    Domain::OrUnknown(&Domain::Number { least: 0.0, most: 1e6, unit: "pJ", scale: StoredScale::Times(1e6) });
/// Power, stored as nanowatts.
const MW: Domain =
    Domain::OrUnknown(&Domain::Number { least: 0.0, most: 1e9, unit: "mW", scale: StoredScale::Times(1e6) });

parameters! {
    /// Energy of what is done, and static power of what is there. What no source says is `None`: it counts as nothing,
    /// and results name it. Numbers are of the technology of their source; none is scaled to another.
    #[derive(Copy)]
    pub struct EnergyModel of System[energy] {
        /// A bit crosses a link that says no energy of its own.
        #[parameter("energy_link_pj_per_bit", PJ_PER_BIT, "ground-referenced on-package link, 16 nm (Wilson et al., ISSCC 2018)")]
        pub link_aj_per_byte: Option<u64> = Some(9_360_000),
        /// A bit crosses a millimetre of a link that says its length, beside what it costs in any case.
        #[parameter("energy_wire_pj_per_bit_mm", PJ_PER_BIT_MM, "Keckler et al., IEEE Micro 2011: 310 pJ for 256 bits over 10 mm, 40 nm")]
        pub wire_aj_per_byte_mm: Option<u64> = Some(968_750),
        /// A bit is written to a router's buffer and read from it.
        #[parameter("energy_buffer_pj_per_bit", PJ_PER_BIT, "Horowitz, ISSCC 2014: twice 10 pJ for 64 bits of 8 KB, 45 nm")]
        pub buffer_aj_per_byte: Option<u64> = Some(2_500_000),
        /// A bit crosses the rest of a router.
        #[parameter("energy_crossbar_pj_per_bit", PJ_PER_BIT, "FlooNoC (IEEE TVLSI 2025): 0.15 pJ a byte and hop, 12 nm")]
        pub crossbar_aj_per_byte: Option<u64> = Some(150_000),
        /// A router allocates its crossbar for one flit.
        #[parameter("energy_allocation_pj", PJ, "no published number of its own is known to us")]
        pub allocation_aj: Option<u64> = None,
        /// A bit enters the network, or leaves it.
        #[parameter("energy_interface_pj_per_bit", PJ_PER_BIT, "no published number of its own is known to us")]
        pub interface_aj_per_byte: Option<u64> = None,
        /// A received bit is added to what is there.
        #[parameter("energy_reduction_pj_per_bit", PJ_PER_BIT, "Horowitz, ISSCC 2014: 0.9 pJ for a sum in FP32, 45 nm")]
        pub reduction_aj_per_byte: Option<u64> = Some(225_000),
        /// A bit is read from memory, or written.
        #[parameter("energy_memory_pj_per_bit", PJ_PER_BIT, "HBM2 (O'Connor et al., MICRO 2017)")]
        pub memory_aj_per_byte: Option<u64> = Some(31_200_000),
        /// A bit is read from an engine's SRAM, or written.
        #[parameter("energy_sram_pj_per_bit", PJ_PER_BIT, "Horowitz, ISSCC 2014: 100 pJ for 64 bits of 1 MB, 45 nm")]
        pub sram_aj_per_byte: Option<u64> = Some(12_500_000),
        /// Static power of a link, one way.
        #[parameter("static_link_mw", MW, "no published number of its own is known to us")]
        pub static_link_nw: Option<u64> = None,
        /// Static power of a router: of a rank or a switch.
        #[parameter("static_router_mw", MW, "no published number of its own is known to us")]
        pub static_router_nw: Option<u64> = None,
        /// Static power of a rank's network interfaces.
        #[parameter("static_interface_mw", MW, "no published number of its own is known to us")]
        pub static_interface_nw: Option<u64> = None,
        /// Static power of what a rank communicates with besides: memory, engine.
        #[parameter("static_endpoint_mw", MW, "no published number of its own is known to us")]
        pub static_endpoint_nw: Option<u64> = None,
    }
}

impl EnergyModel {
    /// Keys of what is not known.
    pub fn unknown(&self) -> Vec<&'static str> {
        let system = System { energy: *self, ..System::default() };
        let unknown = EnergyModel::PARAMETERS.iter().filter(|field| field.write(&system) == Domain::UNKNOWN);
        unknown.map(|field| field.parameter.key).collect()
    }
}

impl System {
    /// Energy of a byte on a link.
    pub fn link_energy(&self, link: &Link) -> Attojoules {
        let wire =
            u128::from(self.energy.wire_aj_per_byte_mm.unwrap_or(0)) * u128::from(link.length_um.unwrap_or(0)) / 1000;
        u128::from(link.energy.or(self.energy.link_aj_per_byte).unwrap_or(0)) + wire
    }

    /// Energy of a flit in a router.
    pub fn router_energy(&self) -> Attojoules {
        let byte = u128::from(self.energy.buffer_aj_per_byte.unwrap_or(0))
            + u128::from(self.energy.crossbar_aj_per_byte.unwrap_or(0));
        byte * u128::from(self.packet.flit_bytes) + u128::from(self.energy.allocation_aj.unwrap_or(0))
    }

    /// Power of so many links, routers and ranks that do nothing, in nanowatts.
    pub fn static_power_nw(&self, links: usize, routers: usize, ranks: usize) -> u128 {
        let of = |power: Option<u64>, count: usize| u128::from(power.unwrap_or(0)) * count as u128;
        let energy = &self.energy;
        of(energy.static_link_nw, links)
            + of(energy.static_router_nw, routers)
            + of(energy.static_interface_nw, ranks)
            + of(energy.static_endpoint_nw, ranks)
    }

    /// As [`System::static_power_nw`], of a whole fabric.
    pub fn static_power_of(&self, fabric: &Fabric) -> u128 {
        self.static_power_nw(fabric.links.len(), fabric.nodes.len(), fabric.ranks())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_have_an_energy_of_their_own_and_a_length() {
        let mut system = System::default();
        let mut link = Link::new(0, 1, "x");
        // 1.17 pJ a bit.
        assert_eq!(system.link_energy(&link), 9_360_000);
        link.length_um = Some(2_500);
        assert_eq!(system.link_energy(&link), 9_360_000 + 968_750 * 5 / 2);
        link.energy = Some(4_000_000);
        system.set("energy_wire_pj_per_bit_mm", "unknown").unwrap();
        assert_eq!(system.link_energy(&link), 4_000_000);
    }

    #[test]
    fn what_is_unknown_is_named() {
        let mut system = System::default();
        let unknown = ["energy_allocation_pj", "energy_interface_pj_per_bit", "static_link_mw", "static_router_mw"];
        assert_eq!(system.energy.unknown()[..4], unknown);
        system.set("energy_allocation_pj", "0").unwrap();
        assert_eq!(system.energy.unknown()[..3], unknown[1..]);
        let error = system.set("static_link_mw", "-1").unwrap_err().message;
        assert!(error.contains("from 0 to 1e9 mW, or unknown"), "{error}");
        // Less than is kept is not nothing.
        assert!(system.set("static_link_mw", "1e-7").is_err() && system.set("energy_link_pj_per_bit", "1e-8").is_err());
        assert!(system.set("static_link_mw", "1e-6").is_ok() && system.set("energy_link_pj_per_bit", "0").is_ok());
    }

    #[test]
    fn static_power_is_of_all_that_is_there() {
        let mut system = System::default();
        for (key, power) in [("link", "1"), ("router", "10"), ("interface", "100"), ("endpoint", "0.5")] {
            system.set(&format!("static_{key}_mw"), power).unwrap();
        }
        // Two ranks on a switch: 4 links, 3 nodes.
        let fabric = Fabric::parse("switch:2").unwrap();
        assert_eq!(system.static_power_of(&fabric), 1_000_000 * (4 + 30 + 200 + 1));
    }
}
