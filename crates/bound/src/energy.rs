//! The least energy: bytes that must move, each the cheapest way.
//!
//! Of a byte of an AllReduce, some rank is the first that knows all contributions. By then every other rank has sent a
//! message with its own, and after that every other rank receives one with what it lacks: twice one less than ranks, as in
//! one-way gossiping (Harary and Schwenk, J. Franklin Inst. 1974). A message costs at least the cheapest path to another
//! rank, or from one. Those by then join all ranks, as those of the other collectives do: together they cost at least
//! the minimum spanning tree of cheapest paths.

use super::paths::{CheapestPaths, UNREACHABLE};
use super::task::Task;
use antiphon_model::collective::Kind;
use antiphon_model::energy::Attojoules;
use antiphon_model::fabric::{Fabric, Link, NodeId};
use antiphon_model::system::System;
use antiphon_sim::ace::{accesses, loaded};

/// The cheapest messages among ranks that take part.
struct CheapestMessages {
    /// By site: the cheapest message from it, and to it.
    least: Vec<[Attojoules; 2]>,
    /// Their sums.
    all: [Attojoules; 2],
    /// The minimum spanning tree of sites, whichever way its messages go; 0 where other ranks may forward, with which
    /// less can do.
    tree: Attojoules,
}

impl CheapestMessages {
    /// O(sites (links + sites)), with a logarithm where links differ.
    fn new(
        fabric: &Fabric,
        byte: impl Fn(&Link) -> u64,
        message: Attojoules,
        own: &[NodeId],
        helpers: &[NodeId],
    ) -> CheapestMessages {
        let paths = [true, false].map(|reversed| CheapestPaths::new(fabric, reversed, &byte));
        let mut least = vec![[Attojoules::MAX; 2]; own.len()];
        // Prim: what joins each site to the tree so far.
        let (mut joins, mut tree) = (vec![Attojoules::MAX; own.len()], 0);
        let mut open: Vec<usize> = (0..own.len()).collect();
        while let Some(next) = (0..open.len()).min_by_key(|&at| joins[open[at]]) {
            let site = open.swap_remove(next);
            tree += if open.len() + 1 == own.len() { 0 } else { joins[site] };
            // Paths to it, and from it.
            let [to, from] = [0, 1].map(|way| paths[way].from(own[site]));
            let cost = |path: u64| if path == UNREACHABLE { Attojoules::MAX } else { u128::from(path) + message };
            let others = own.iter().chain(helpers).filter(|&&other| other != own[site]);
            for &other in others {
                least[site][0] = least[site][0].min(cost(from[other as usize]));
                least[site][1] = least[site][1].min(cost(to[other as usize]));
            }
            for &other in &open {
                let both = cost(from[own[other] as usize]).min(cost(to[own[other] as usize]));
                joins[other] = joins[other].min(both);
            }
        }
        let all = [0, 1].map(|part| least.iter().map(|own| own[part]).fold(0, Attojoules::saturating_add));
        CheapestMessages { least, all, tree: if helpers.is_empty() { tree } else { 0 } }
    }
}

/// The least dynamic energy of a task. O(ranks (links + ranks)), with a logarithm where links differ.
pub(super) fn energy(fabric: &Fabric, system: &System, task: &Task) -> Attojoules {
    let router = system.router_energy() / u128::from(system.packet.flit_bytes);
    let byte = |link: &Link| u64::try_from(system.link_energy(link) + router).unwrap_or(u64::MAX - 1);
    let of = |energy: Option<u64>| u128::from(energy.unwrap_or(0));
    let (memory, sram) = (of(system.energy.memory_aj_per_byte), of(system.energy.sram_aj_per_byte));
    let [of_memory, of_sram] = accesses(&system.endpoint, false);
    let ends = of_memory * memory + of_sram * sram;
    // Of every byte of a message beside its path: a first router, two interfaces, what both ends read and write.
    let message = router + 2 * of(system.energy.interface_aj_per_byte) + ends;
    let bytes = u128::from(task.bytes);
    let own: Vec<NodeId> = task.sites.iter().map(|site| site.node).collect();
    // Of a message to or from a switch that adds or multicasts one end alone reads or writes.
    let switches: Vec<NodeId> = fabric.computing_switches().collect();
    let of_message = if switches.is_empty() { message } else { message - ends / 2 };
    let helpers = [&task.helpers[..], &switches].concat();
    let ways = CheapestMessages::new(fabric, byte, of_message, &own, &helpers);
    let tree = |shard: u128, part: usize, own: [Attojoules; 2]| shard * ways.tree.max(ways.all[part] - own[part]);
    let owned = |part: usize| {
        let sites = task.sites.iter().zip(&ways.least);
        sites.map(|(site, &own)| tree(site.shards, part, own)).sum::<Attojoules>()
    };
    let moved: Attojoules = if own.len() < 2 {
        0
    } else {
        match task.kind {
            Kind::AllReduce => {
                let rest =
                    [0, 1].map(|part| ways.all[part] - ways.least.iter().map(|own| own[part]).max().unwrap_or(0));
                bytes * (ways.tree.max(rest[0]) + rest[1]).max(rest[0] + ways.tree.max(rest[1]))
            }
            Kind::ReduceScatter => owned(0),
            Kind::AllGather => owned(1),
            Kind::Reduce => tree(bytes, 0, ways.least[task.root]),
            Kind::Broadcast => tree(bytes, 1, ways.least[task.root]),
            Kind::AllToAll => {
                let paths = CheapestPaths::new(fabric, false, byte);
                let from = |from: usize| -> Attojoules {
                    let cost = paths.from(own[from]);
                    let others = (0..own.len()).filter(|&to| to != from);
                    others.map(|to| task.between(from, to) * (u128::from(cost[own[to] as usize]) + message)).sum()
                };
                (0..own.len()).map(from).sum()
            }
        }
    };
    let adds = matches!(task.kind, Kind::AllReduce | Kind::ReduceScatter | Kind::Reduce);
    let sums = if adds { bytes * (task.ranks() - 1) * of(system.energy.reduction_aj_per_byte) } else { 0 };
    // What is not a rank's own.
    let others = match task.kind {
        Kind::AllToAll if task.has_matrix() => {
            let pairs = (0..own.len()).flat_map(|from| (0..own.len()).map(move |to| (from, to)));
            pairs.map(|(from, to)| task.between(from, to)).sum::<u128>()
        }
        _ => task.sites.iter().map(|site| bytes.saturating_sub(site.shards)).sum(),
    };
    let loaded = match own.len() as u128 {
        0 | 1 => 0,
        count => loaded(&system.endpoint, task.kind, count, bytes, others) * (memory + sram),
    };
    moved + sums + loaded
}
