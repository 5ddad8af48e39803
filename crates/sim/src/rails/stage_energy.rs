//! Energy of a plan, stage by stage: every NPU does the same, so one of them stands for all. There are no packets here, so
//! no headers either.

use super::RailsTimes;
use super::orders::{Basic, RailsPlan};
use super::stage_loop::spread;
use crate::ace::work;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Picos;
use antiphon_model::collective::Kind;
use antiphon_model::energy::{Attojoules, Energy, Moved, Power, static_energy};
use antiphon_model::fabric::{Dimension, DimensionShape, Link};
use antiphon_model::system::{Endpoint, System};
use antiphon_model::topology::Topology;

/// Links that a message crosses.
fn links(dimension: &Dimension) -> u128 {
    if dimension.shape == DimensionShape::Switch { 2 } else { 1 }
}

/// Energy of a byte on a link of a dimension.
fn of_link(dimension: &Dimension, system: &System) -> Attojoules {
    system.link_energy(&Link { energy: dimension.energy, ..Link::new(0, 1, "") })
}

/// Static power of all links, routers and NPUs, in nanowatts.
pub fn static_power_nw(topology: &Topology, system: &System) -> u128 {
    let npus = topology.npus();
    let (mut links, mut switches) = (0, 0);
    for dimension in &topology.dimensions {
        let switch = dimension.shape == DimensionShape::Switch;
        links += npus * if switch { 2 } else { dimension.neighbours() };
        switches += if switch { npus / dimension.size } else { 0 };
    }
    system.static_power_nw(links as usize, (npus + switches) as usize, npus as usize)
}

/// Binary digits of the fraction of a byte.
const FRACTION_BITS: u32 = 20;

/// Bytes that all NPUs together send on each dimension to be added, and to be kept.
fn sent(topology: &Topology, plan: &RailsPlan) -> Vec<[u128; 2]> {
    let mut sent = vec![[0; 2]; topology.dimensions.len()];
    for order in &plan.orders {
        for stage in plan.stages(topology, order) {
            let number = usize::from(stage.dimension);
            let (numerator, denominator) = plan.share(&topology.dimensions[number], stage.basic);
            // In parts of a byte, rounded up: sizes of stages are rounded down.
            let bytes = (u128::from(plan.bytes) * u128::from(numerator)) << FRACTION_BITS;
            let parts = plan.orders.len() as u128 * u128::from(stage.parts) * u128::from(denominator);
            sent[number][usize::from(stage.basic != Basic::Reduce)] += bytes.div_ceil(parts);
        }
    }
    let all = |sent: u128| (sent * u128::from(topology.npus())).div_ceil(1 << FRACTION_BITS);
    sent.iter().map(|both| both.map(all)).collect()
}

/// What all engines read and write back.
fn loaded(topology: &Topology, plan: &RailsPlan, endpoint: &Endpoint) -> u128 {
    let (npus, bytes) = (u128::from(topology.npus()), u128::from(plan.bytes));
    work::loaded(endpoint, plan.kind, npus, bytes, (npus - 1) * bytes)
}

/// What a plan takes, whenever its stages are served; links are told apart by dimension. At an endpoint other than the
/// system's it reads and writes memory.
///
/// # Errors
/// [`Code::NotApplicable`] where switches reduce, since what that takes is not known, and for headers of packets.
pub fn dynamic_energy(topology: &Topology, plan: &RailsPlan, system: &System) -> Result<Energy> {
    if plan.offload {
        let what = "energy is not known of switches that reduce; leave offload or energy out";
        return Err(Error::new(Code::NotApplicable, what));
    }
    if !plan.packets.is_empty() {
        return Err(Error::new(Code::NotApplicable, "energy leaves out headers; leave packets or energy out"));
    }
    let mut moved = Moved::default();
    let flit = u128::from(system.packet.flit_bytes);
    for (dimension, [added, kept]) in topology.dimensions.iter().zip(sent(topology, plan)) {
        let (bytes, links) = (added + kept, links(dimension));
        let flits = bytes.div_ceil(flit);
        moved.link_flits.push(u64::try_from(flits * links).unwrap_or(u64::MAX));
        moved.router_flits += flits * (links + 1);
        moved.interface_flits += 2 * flits;
        moved.reduced_bytes += added;
        for (bytes, adds) in [(added, true), (kept, false)] {
            let [memory, sram] = work::accesses(&system.endpoint, adds);
            moved.memory_bytes += memory * bytes;
            moved.sram_bytes += sram * bytes;
        }
    }
    let loaded = loaded(topology, plan, &system.endpoint);
    moved.memory_bytes += loaded;
    moved.sram_bytes += loaded;
    Ok(moved.energy(system, |number| of_link(&topology.dimensions[number], system), 0, 0))
}

/// What a run of a plan takes.
///
/// # Errors
/// As [`dynamic_energy`].
pub fn energy(topology: &Topology, plan: &RailsPlan, run: &RailsTimes, system: &System) -> Result<Energy> {
    let idle = static_power_nw(topology, system);
    let energy = dynamic_energy(topology, plan, system)?.within(idle, run.time_ps);
    let power = power(topology, &energy, run, idle);
    Ok(Energy { power, ..energy })
}

/// Windows of power over time.
const WINDOWS: u64 = 256;

/// Power over time: what a dimension takes, with its share of all else, over the time in which it serves.
fn power(topology: &Topology, energy: &Energy, run: &RailsTimes, idle: u128) -> Power {
    let window_ps = run.time_ps.div_ceil(WINDOWS).max(1);
    let mut spent = vec![0.0; run.time_ps.div_ceil(window_ps) as usize];
    let rest = (energy.dynamic() - energy.links) as f64;
    for (number, spans) in run.spans.iter().enumerate().take(topology.dimensions.len()) {
        let share = energy.per_link[number] as f64 / energy.links.max(1) as f64;
        let mut shares = vec![0.0; spent.len()];
        for span in spans {
            spread(&mut shares, window_ps as f64, span.start_ps as f64, span.finish_ps as f64);
        }
        // Microwatts while it serves.
        let all = shares.iter().sum::<f64>() * window_ps as f64;
        let rate = (energy.per_link[number] as f64 + share * rest) / all.max(1.0);
        spent.iter_mut().zip(shares).for_each(|(spent, share)| *spent += rate * share);
    }
    let length = |window: u64| (run.time_ps - window * window_ps).min(window_ps) as f64;
    let watts =
        (0..).zip(spent).map(|(window, share)| idle / 1000 + (share * window_ps as f64 / length(window)) as u128);
    Power { window_ps, microwatts: watts.collect() }
}

/// The least energy of the plan's collective: bytes that must move, the cheapest ways
/// (`bound/energy.rs`), and static power over `time_ps`, a lower bound of the time.
pub fn least_energy(topology: &Topology, plan: &RailsPlan, system: &System, time_ps: Picos) -> Attojoules {
    let of = |energy: Option<u64>| u128::from(energy.unwrap_or(0));
    let router = system.router_energy() / u128::from(system.packet.flit_bytes);
    let (memory, sram) = (of(system.energy.memory_aj_per_byte), of(system.energy.sram_aj_per_byte));
    let [of_memory, of_sram] = work::accesses(&system.endpoint, false);
    let ends = of_memory * memory + of_sram * sram;
    // Of every byte of a message: on its way along a dimension, and beside that.
    let along = |dimension: &Dimension| links(dimension) * (of_link(dimension, system) + router);
    let message = router + 2 * of(system.energy.interface_aj_per_byte) + ends;
    let (bytes, npus) = (u128::from(plan.bytes), u128::from(topology.npus()));
    let others = npus - 1;
    let mut costs: Vec<(Attojoules, u128)> =
        topology.dimensions.iter().map(|dimension| (along(dimension), dimension.size.into())).collect();
    costs.sort_unstable();
    // The minimum spanning tree has as many links as it can of the cheapest dimension, then of the next.
    let (mut parts, mut tree) = (npus, 0);
    for &(cost, size) in &costs {
        tree += (parts - parts / size) * (cost + message);
        parts /= size;
    }
    let cheapest = costs.first().map_or(0, |first| first.0 + message);
    let moved = match plan.kind {
        Kind::AllReduce => bytes * (tree + others * cheapest),
        Kind::AllToAll => {
            let way = |&(cost, size): &(Attojoules, u128)| (npus - npus / size) * cost;
            bytes * (costs.iter().map(way).sum::<Attojoules>() + others * message)
        }
        _ => bytes * tree,
    };
    let adds = matches!(plan.kind, Kind::AllReduce | Kind::ReduceScatter);
    let sums = if adds { bytes * others * of(system.energy.reduction_aj_per_byte) } else { 0 };
    let loaded = loaded(topology, plan, &system.endpoint) * (memory + sram);
    moved + sums + loaded + static_energy(static_power_nw(topology, system), time_ps)
}
