//! Energy and power of any run, from what it moved and how long it took; area of what is there.
//!
//! Everything is counted in whole attojoules, so that parts sum exactly, whatever the order in which they are added.

mod area;
mod cost;

pub use crate::system::Attojoules;
pub use area::{Area, AreaPart, area};
pub use cost::{FabricCost, cost};

use crate::system::System;
use antiphon_base::units::{Bytes, Picos};
use std::ops::AddAssign;

/// What was moved and done. Flits include headers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moved {
    /// Flits over each link.
    pub link_flits: Vec<u64>,
    /// Flits through routers: of every message one more than links it crosses.
    pub router_flits: u128,
    /// Flits into the network and out of it, both counted.
    pub interface_flits: u128,
    /// Bytes added to others.
    pub reduced_bytes: u128,
    /// Bytes read from memory or written to it.
    pub memory_bytes: u128,
    /// Bytes read from an engine's SRAM or written to it.
    pub sram_bytes: u128,
}

impl Moved {
    /// A message of `packets.count` times `packets.flits` flits crosses `links`, so many `times`; where it ends, `bytes` are
    /// added if it `reduces`.
    pub fn message(&mut self, links: &[u32], flits: u64, times: u64, bytes: Bytes, reduces: bool) {
        let all = flits * times;
        links.iter().for_each(|&link| self.link_flits[link as usize] += all);
        self.router_flits += u128::from(all) * (links.len() as u128 + 1);
        self.interface_flits += 2 * u128::from(all);
        self.reduced_bytes += if reduces { u128::from(bytes) * u128::from(times) } else { 0 };
    }

    /// What that took, where a byte on link `i` takes `of_link(i)` and everything idle together `static_nw` nanowatts.
    pub fn energy(
        &self,
        system: &System,
        of_link: impl Fn(usize) -> Attojoules,
        static_nw: u128,
        time_ps: Picos,
    ) -> Energy {
        let (of, flit) = (&system.energy, u128::from(system.packet.flit_bytes));
        let bytes = |count: u128, energy: Option<u64>| count * u128::from(energy.unwrap_or(0));
        let each = self.link_flits.iter().enumerate();
        let per_link: Vec<_> = each.map(|(link, &flits)| u128::from(flits) * flit * of_link(link)).collect();
        Energy {
            links: per_link.iter().sum(),
            routers: self.router_flits * system.router_energy(),
            interfaces: bytes(self.interface_flits * flit, of.interface_aj_per_byte),
            reductions: bytes(self.reduced_bytes, of.reduction_aj_per_byte),
            memory: bytes(self.memory_bytes, of.memory_aj_per_byte) + bytes(self.sram_bytes, of.sram_aj_per_byte),
            idle: static_energy(static_nw, time_ps),
            time_ps,
            per_link,
            power: Power::default(),
        }
    }
}

/// Power over time, in equal windows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Power {
    /// Length of a window; the last may be shorter.
    pub window_ps: Picos,
    /// Mean power of each, static power included, in microwatts.
    pub microwatts: Vec<u128>,
}

/// What a run took, in attojoules. All but `idle` is dynamic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Energy {
    /// On links.
    pub links: Attojoules,
    /// In routers.
    pub routers: Attojoules,
    /// In network interfaces.
    pub interfaces: Attojoules,
    /// Adding.
    pub reductions: Attojoules,
    /// Reading and writing memory and engines' SRAM.
    pub memory: Attojoules,
    /// Static power over the time of the run, whatever was done.
    pub idle: Attojoules,
    /// How long it took.
    pub time_ps: Picos,
    /// Of `links`, each link's; empty where links are not told apart.
    pub per_link: Vec<Attojoules>,
    /// Over time, where it was recorded.
    pub power: Power,
}

impl Energy {
    /// The five dynamic parts with their names.
    pub fn parts(&self) -> [(&'static str, Attojoules); 5] {
        [
            ("links", self.links),
            ("routers", self.routers),
            ("interfaces", self.interfaces),
            ("reductions", self.reductions),
            ("memory", self.memory),
        ]
    }

    /// What does not depend on time.
    pub fn dynamic(&self) -> Attojoules {
        self.parts().iter().map(|part| part.1).sum()
    }

    /// All of it.
    pub fn total(&self) -> Attojoules {
        self.dynamic() + self.idle
    }

    /// Mean power in watts; 0 for a run that takes no time.
    pub fn average_power_w(&self) -> f64 {
        if self.time_ps == 0 { 0.0 } else { self.total() as f64 / self.time_ps as f64 * 1e-6 }
    }

    /// Power of the window with the most in watts; the mean, where power over time was not recorded.
    pub fn peak_power_w(&self) -> f64 {
        let most = self.power.microwatts.iter().max();
        most.map_or(self.average_power_w(), |&most| (most as f64 * 1e-6).max(self.average_power_w()))
    }

    /// So many of it at the same time; links and power over time are lost.
    pub fn times(self, count: u128) -> Energy {
        Energy {
            links: self.links * count,
            routers: self.routers * count,
            interfaces: self.interfaces * count,
            reductions: self.reductions * count,
            memory: self.memory * count,
            idle: self.idle * count,
            time_ps: self.time_ps,
            per_link: vec![],
            power: Power::default(),
        }
    }

    /// The same dynamic energy in another time.
    pub fn within(mut self, static_nw: u128, time_ps: Picos) -> Energy {
        (self.idle, self.time_ps) = (static_energy(static_nw, time_ps), time_ps);
        self
    }
}

impl AddAssign<&Energy> for Energy {
    /// One after the other; links must be the same ones. Power over time is lost.
    fn add_assign(&mut self, other: &Energy) {
        self.links += other.links;
        self.routers += other.routers;
        self.interfaces += other.interfaces;
        self.reductions += other.reductions;
        self.memory += other.memory;
        self.idle += other.idle;
        self.time_ps += other.time_ps;
        self.per_link.resize(self.per_link.len().max(other.per_link.len()), 0);
        self.per_link.iter_mut().zip(&other.per_link).for_each(|(sum, more)| *sum += more);
        self.power = Power::default();
    }
}

/// Energy of so many nanowatts in a time.
pub fn static_energy(static_nw: u128, time_ps: Picos) -> Attojoules {
    static_nw * u128::from(time_ps) / 1000
}

/// Attojoules in joules.
pub fn joules(energy: Attojoules) -> f64 {
    energy as f64 * 1e-18
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of three flits of 64 bytes over two links, of which the second costs twice as much, twice.
    #[test]
    fn every_part_by_hand() {
        let mut system = System::default();
        for setting in [
            "flit_bytes=64",
            "energy_buffer_pj_per_bit=0.5",
            "energy_crossbar_pj_per_bit=0.25",
            "energy_allocation_pj=10",
            "energy_interface_pj_per_bit=0.125",
            "energy_reduction_pj_per_bit=0.0625",
            "energy_memory_pj_per_bit=4",
            "energy_sram_pj_per_bit=1",
        ] {
            let (key, value) = setting.split_once('=').unwrap();
            system.set(key, value).unwrap();
        }
        let mut moved = Moved { link_flits: vec![0; 3], ..Moved::default() };
        moved.message(&[0, 2], 3, 2, 150, true);
        moved.memory_bytes = 1000;
        moved.sram_bytes = 10;
        let pico = 1_000_000;
        let energy = moved.energy(&system, |link| 8 * pico * (1 + link as u128 / 2), 5_000_000_000, 1_000_000);
        let bits = 2 * 3 * 64 * 8;
        assert_eq!(energy.per_link, [bits * pico, 0, 2 * bits * pico]);
        assert_eq!(energy.links, 3 * bits * pico);
        // Three routers.
        assert_eq!(energy.routers, 3 * (bits * pico * 3 / 4 + 6 * 10 * pico));
        assert_eq!(energy.interfaces, 2 * bits * pico / 8);
        assert_eq!(energy.reductions, 2 * 150 * 8 * pico / 16);
        assert_eq!(energy.memory, (1000 * 8 * 4 + 10 * 8) * pico);
        // 5 W for a microsecond.
        assert_eq!(energy.idle, 5_000_000 * pico);
        assert_eq!(energy.dynamic(), energy.parts().iter().map(|part| part.1).sum());
        assert_eq!(energy.total(), energy.dynamic() + energy.idle);
        assert!((energy.average_power_w() - joules(energy.total()) / 1e-6).abs() < 1e-12);
        let mut twice = energy.clone();
        twice += &energy;
        assert_eq!((twice.total(), twice.time_ps), (2 * energy.total(), 2_000_000));
        assert_eq!(energy.clone().times(2).total(), twice.total());
        assert_eq!(energy.within(0, 7).total(), twice.dynamic() / 2);
    }
}
