//! What units take of the ranks' engines and memories.

use crate::plan::RunPlan;
use crate::units::{Family, Units};
use antiphon_base::units::Bytes;
use antiphon_model::collective::Kind;
use antiphon_model::schedule::TransferId;
use antiphon_model::system::Endpoint;
use std::collections::HashMap;

/// What a unit takes at a rank.
#[derive(Clone, Copy, Default)]
pub struct Footprint {
    pub rank: u32,
    /// Room in the engine while it is there.
    pub sram: Bytes,
    /// Bytes that are read from memory at first, and written back at last.
    pub read: Bytes,
    pub write: Bytes,
}

/// What a unit of a family takes.
#[derive(Default)]
pub struct Footprints {
    /// By rank.
    pub parts: Vec<Footprint>,
    /// Its messages.
    pub messages: u64,
}

/// The most bytes that a unit of every flight has at a rank.
pub fn largest_units(plan: &RunPlan, units: &Units) -> Vec<Bytes> {
    let mut largest = vec![0; plan.flights.len()];
    for (family, of) in units.families.iter().zip(&footprints(plan, units)) {
        let most = &mut largest[family.flight as usize];
        *most = of.parts.iter().map(|part| part.sram).fold(*most, Bytes::max);
    }
    largest
}

/// What all engines of a plan read from memory and write back, in bytes; 0 without engines.
pub fn memory_bytes(plan: &RunPlan) -> u128 {
    let (Endpoint::Ace(_), Some(units)) = (plan.system.endpoint, &plan.units) else { return 0 };
    let moved = |(family, of): (&Family, &Footprints)| -> u128 {
        let bytes = of.parts.iter().map(|part| u128::from(part.read) + u128::from(part.write)).sum::<u128>();
        bytes * u128::from(family.chunks)
    };
    units.families.iter().zip(&footprints(plan, units)).map(moved).sum()
}

/// What a unit of every family takes. O(lanes in messages).
pub fn footprints(plan: &RunPlan, units: &Units) -> Vec<Footprints> {
    let mut families: Vec<Footprints> = units.families.iter().map(|_| Footprints::default()).collect();
    let mut order: Vec<TransferId> = (0..plan.jobs.len() as TransferId).collect();
    order.sort_by_key(|&id| (plan.jobs[id as usize].phase, plan.jobs[id as usize].step, id));
    let mut parts: HashMap<(u32, u32), Footprint> = HashMap::new();
    // Of a lane at a rank: its family, whether it has been received, and whether that is what was done last.
    let mut seen: HashMap<(u32, u32, u32), (u32, bool, bool)> = HashMap::new();
    for id in order {
        let (job, family) = (&plan.jobs[id as usize], units.family_of[id as usize]);
        families[family as usize].messages += 1;
        let epoch = units.epochs[job.phase as usize];
        for lane in plan.lanes(job) {
            let bytes = plan.lane_bytes(job.flight, lane as u32);
            // A switch has no engine.
            let ends = [(job.from, false), (job.to, true)].into_iter().filter(|end| plan.switch_of(end.0).is_none());
            for (rank, receives) in ends {
                let before = seen.get(&(rank, lane as u32, epoch)).copied();
                if before.is_none() {
                    let part = parts.entry((family, rank)).or_default();
                    part.sram += bytes;
                    // What is its own is read: it is sent, or something is added to it.
                    part.read += if !receives || plan.kind(job).adds { bytes } else { 0 };
                }
                let received = before.is_some_and(|(_, received, _)| received) || receives;
                seen.insert((rank, lane as u32, epoch), (family, received, receives));
            }
        }
    }
    for ((rank, lane, _), (family, received, last)) in seen {
        let flight = units.families[family as usize].flight;
        let kind = plan.flights[flight as usize].flight.schedule.collective.kind;
        // What is passed on is a result of these, and of no other.
        let keeps = matches!(kind, Kind::AllReduce | Kind::AllGather | Kind::Broadcast);
        if last || keeps && received {
            parts.entry((family, rank)).or_default().write += plan.lane_bytes(flight, lane);
        }
    }
    let mut sorted: Vec<_> = parts.into_iter().collect();
    sorted.sort_unstable_by_key(|(key, _)| *key);
    for ((family, rank), part) in sorted {
        families[family as usize].parts.push(Footprint { rank, ..part });
    }
    families
}
