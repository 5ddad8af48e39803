//! What a plan moves, and what that takes: counts do not depend on how it is timed.

use super::clock::Ticks;
use super::plan::RunPlan;
use super::recorder::Windows;
use crate::ace::work::accesses;
use crate::footprint::memory_bytes;
use antiphon_base::watch::interruptible;
use antiphon_model::energy::{Energy, Moved, Power};
use antiphon_model::fabric::LinkId;

/// Energies of what the recorder sees are in parts of an attojoule: those of a tick are small.
const FRACTION_BITS: u32 = 20;

/// What a plan takes, and what power over time is recorded by.
pub struct PowerRates {
    /// All that is moved, without static power.
    dynamic: Energy,
    /// What a channel takes a tick while it transmits, by its first link: its links, the routers that its flits reach, and of
    /// all that is not on links as much a flit as any other.
    pub of_links: Vec<u128>,
}

impl PowerRates {
    /// Of a plan. O(hops).
    pub fn new(plan: &RunPlan) -> PowerRates {
        let (system, moved) = (plan.system, moved(plan));
        let dynamic = moved.energy(system, |link| system.link_energy(&plan.fabric.links[link]), 0, 0);
        let all_flits: u128 = moved.link_flits.iter().map(|&flits| u128::from(flits)).sum();
        let rest = (dynamic.dynamic() - dynamic.links) / all_flits.max(1);
        let of_channel = |first: LinkId| -> u128 {
            // Links that act together may differ.
            let links = || plan.channels.links(first).iter().map(|&id| id as usize);
            let flits: u128 = links().map(|link| u128::from(moved.link_flits[link])).sum();
            let energy: u128 = links().map(|link| dynamic.per_link[link]).sum();
            let idle = || system.link_energy(plan.fabric.link(first)) * u128::from(system.packet.flit_bytes);
            let flit = energy.checked_div(flits).unwrap_or_else(idle) + rest;
            (flit << FRACTION_BITS) / u128::from(plan.flit[first as usize]).max(1)
        };
        PowerRates { of_links: (0..plan.fabric.links.len() as LinkId).map(of_channel).collect(), dynamic }
    }
}

/// All that a plan moves. O(hops).
fn moved(plan: &RunPlan) -> Moved {
    let mut moved = Moved { link_flits: vec![0; plan.fabric.links.len()], ..Moved::default() };
    for job in interruptible(&plan.jobs) {
        let kind = plan.kind(job);
        let flits = kind.packets.count * kind.packets.flits;
        moved.message(plan.route(job), flits, kind.chunks, kind.bytes, kind.adds);
        // One end reads, the other writes, and reads what it adds to. Switches have no such memory.
        let [memory, sram] = match [job.from, job.to].map(|end| plan.switch_of(end).is_some()) {
            [false, false] => accesses(&plan.system.endpoint, kind.adds),
            [true, true] => [0, 0],
            _ => accesses(&plan.system.endpoint, false).map(|both| both / 2),
        };
        let bytes = u128::from(kind.bytes) * u128::from(kind.chunks);
        moved.memory_bytes += memory * bytes;
        moved.sram_bytes += sram * bytes;
    }
    plan.channels.share(&mut moved.link_flits, |id| plan.system.rate_of(plan.fabric.link(id)).0);
    // What engines read goes into their SRAM, what they write back comes from it.
    let loaded = memory_bytes(plan);
    moved.memory_bytes += loaded;
    moved.sram_bytes += loaded;
    moved
}

/// Energy of a run of a plan that took `time` ticks, and power as it was recorded, where all is on links.
pub fn energy(plan: &RunPlan, rates: &PowerRates, time: Ticks, mut recorded: Windows<u128>) -> Energy {
    let idle = plan.system.static_power_of(plan.fabric);
    let (window, sums) = recorded.until(time);
    // Attojoules a picosecond are microwatts.
    let power = |(length, sum): (Ticks, u128)| {
        idle / 1000 + ((sum >> FRACTION_BITS) << plan.clock.bits()) / u128::from(length.max(1))
    };
    let power = Power { window_ps: plan.clock.picos(window), microwatts: sums.map(power).collect() };
    Energy { power, ..rates.dynamic.clone().within(idle, plan.clock.picos(time)) }
}

/// What the messages of a plan take, whenever they are sent.
pub fn dynamic_energy(plan: &RunPlan) -> Energy {
    PowerRates::new(plan).dynamic
}
