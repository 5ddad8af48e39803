//! What a plan moves, and what that takes: counts do not depend on how it is timed.

use super::clock::Ticks;
use super::endpoints::memory_bytes;
use super::plan::{Job, MessageKind, Plan};
use super::recorder::Windows;
use crate::energy::{Energy, Moved, Power};
use crate::fabric::LinkId;
use crate::system::Endpoint;

/// Energies of what the recorder sees are in parts of an attojoule: those of a tick are small.
const FRACTION_BITS: u32 = 20;

/// What the recorder of power over time must know.
pub struct PowerRates {
    /// What a channel takes a tick while it transmits, with the router that its flits reach; by its first link.
    pub of_links: Vec<u128>,
    /// What a message takes besides, by its kind, and whether it is added: for how long before it is there, and a tick.
    of_kinds: Vec<[(Ticks, u128); 2]>,
}

impl PowerRates {
    /// Of a plan. O(hops).
    pub fn new(plan: &Plan) -> PowerRates {
        // Links that act together may differ.
        let moved = moved(plan);
        let (system, flit) = (plan.system, u128::from(plan.system.packet.flit_bytes));
        let of_link = |first: LinkId| -> u128 {
            let links = || plan.channels.links(first).iter();
            let flits: u128 = links().map(|&id| u128::from(moved.link_flits[id as usize])).sum();
            let of =
                |&id: &LinkId| u128::from(moved.link_flits[id as usize]) * system.link_energy(plan.fabric.link(id));
            let byte = links().map(of).sum::<u128>() / flits.max(1);
            let energy = byte * flit + system.router_energy();
            (energy << FRACTION_BITS) / u128::from(plan.flit[first as usize]).max(1)
        };
        // About as long as it is transmitted: by the slowest link, since which one is last is not said by its kind.
        let slowest = plan.flit.iter().copied().max().unwrap_or(1);
        let of_kind = |kind: &MessageKind| {
            [false, true].map(|reduces| {
                let mut moved = Moved::default();
                moved.message(&[], kind.packets.count * kind.packets.flits, 1, kind.bytes, reduces);
                endpoint(plan, kind, reduces, &mut moved);
                let length = (kind.packets.count * kind.packets.flits).saturating_mul(slowest).max(1);
                (length, (moved.energy(system, |_| 0, 0, 0).dynamic() << FRACTION_BITS) / u128::from(length))
            })
        };
        PowerRates {
            of_links: (0..plan.fabric.links.len() as LinkId).map(of_link).collect(),
            of_kinds: plan.kinds.iter().map(of_kind).collect(),
        }
    }

    /// Of a message of a job that is there at `now`, since the start at most.
    #[inline]
    pub fn of(&self, job: &Job, now: Ticks) -> (Ticks, u128) {
        let (length, tick) = self.of_kinds[job.kind()][usize::from(job.reduces)];
        if length <= now {
            return (length, tick);
        }
        let since = now.max(1);
        (since, tick * u128::from(length) / u128::from(since))
    }
}

/// What a message reads and writes at both ends.
fn endpoint(plan: &Plan, kind: &MessageKind, reduces: bool, moved: &mut Moved) {
    let bytes = u128::from(kind.bytes);
    match plan.system.endpoint {
        Endpoint::System | Endpoint::Ideal(_) => {}
        // What is sent on is read, and what it is added to; what comes is written.
        Endpoint::Npu(_) => moved.memory_bytes += if reduces { 3 * bytes } else { 2 * bytes },
        // As much in SRAM; a sum is read and written where it comes.
        Endpoint::Ace(_) => moved.sram_bytes += if reduces { 3 * bytes } else { 2 * bytes },
    }
}

/// All that a plan moves. O(hops).
fn moved(plan: &Plan) -> Moved {
    let mut moved = Moved { link_flits: vec![0; plan.fabric.links.len()], ..Moved::default() };
    for job in &plan.jobs {
        let kind = plan.kind(job);
        let flits = kind.packets.count * kind.packets.flits;
        moved.message(plan.route(job), flits, kind.chunks, kind.bytes, job.reduces);
        let mut once = Moved::default();
        endpoint(plan, kind, job.reduces, &mut once);
        moved.memory_bytes += once.memory_bytes * u128::from(kind.chunks);
        moved.sram_bytes += once.sram_bytes * u128::from(kind.chunks);
    }
    plan.channels.share(&mut moved.link_flits, |id| plan.system.rate_of(plan.fabric.link(id)).0);
    // What engines read goes into their SRAM, what they write back comes from it.
    let loaded = memory_bytes(plan);
    moved.memory_bytes += loaded;
    moved.sram_bytes += loaded;
    moved
}

/// Energy of a run of a plan that took `time` ticks, and power as it was recorded. What engines load and write back is
/// spread over the run.
pub fn energy(plan: &Plan, time: Ticks, recorded: Option<Windows<u128>>) -> Energy {
    let (system, fabric) = (plan.system, plan.fabric);
    let idle = system.static_power_of(fabric);
    let of_link = |link: usize| system.link_energy(&fabric.links[link]);
    let mut energy = moved(plan).energy(system, of_link, idle, plan.clock.picos(time));
    if let Some(mut windows) = recorded {
        let bits = plan.clock.bits();
        let loaded = Moved { memory_bytes: memory_bytes(plan), sram_bytes: memory_bytes(plan), ..Moved::default() };
        let spread = loaded.energy(system, of_link, 0, 0).memory;
        let (window, sums) = windows.until(time);
        // Attojoules a picosecond are microwatts.
        let power = |(length, sum): (Ticks, u128)| {
            idle / 1000
                + (((sum >> FRACTION_BITS) + spread * u128::from(length) / u128::from(time.max(1))) << bits)
                    / u128::from(length.max(1))
        };
        energy.power = Power { window_ps: plan.clock.picos(window), microwatts: sums.map(power).collect() };
    }
    energy
}
