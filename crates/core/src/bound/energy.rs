//! The least energy: bytes that must move, each the cheapest way.
//!
//! Of a byte of an AllReduce, some rank is the first that knows all contributions. By then every other rank has sent a
//! message with its own, and after that every other rank receives one with what it lacks: twice one less than ranks, as in
//! one-way gossiping (Harary and Schwenk, J. Franklin Inst. 1974). A message costs at least the cheapest path to another
//! rank, or from one.

use super::paths::{Paths, UNREACHABLE};
use super::task::Task;
use crate::collective::Kind;
use crate::energy::Attojoules;
use crate::fabric::{Fabric, NodeId};
use crate::system::{Endpoint, System};

/// The least dynamic energy of a task. O(ranks (links + ranks)), with a logarithm where links differ.
pub(super) fn energy(fabric: &Fabric, system: &System, task: &Task) -> Attojoules {
    let router = system.router_energy() / u128::from(system.packet.flit_bytes);
    let byte = |link: &_| u64::try_from(system.link_energy(link) + router).unwrap_or(u64::MAX - 1);
    let of = |energy: Option<u64>| u128::from(energy.unwrap_or(0));
    let (memory, sram) = (of(system.energy.memory), of(system.energy.sram));
    let ends = match system.endpoint {
        Endpoint::System | Endpoint::Ideal(_) => 0,
        Endpoint::Npu(_) => 2 * memory,
        Endpoint::Ace(_) => 2 * sram,
    };
    // Of every byte of a message beside its path: a first router, two interfaces, what both ends read and write.
    let message = router + 2 * of(system.energy.interface) + ends;
    let paths = Paths::new(fabric, false, byte);
    let own: Vec<NodeId> = task.sites.iter().map(|site| site.node).collect();
    let nodes: Vec<NodeId> = own.iter().chain(&task.helpers).copied().collect();
    // By site: the cheapest message from it, and to it; in an AllToAll all messages together.
    let mut least = vec![[Attojoules::MAX; 2]; own.len()];
    let (mut pairs, bytes) = (0, u128::from(task.bytes));
    for (from, &node) in nodes.iter().enumerate() {
        let cost = paths.from(node);
        for (to, &other) in nodes.iter().enumerate() {
            let path = cost[other as usize];
            if from == to || path == UNREACHABLE {
                continue;
            }
            let cost = u128::from(path) + message;
            if let Some(own) = least.get_mut(from) {
                own[0] = own[0].min(cost);
            }
            if let Some(own) = least.get_mut(to) {
                own[1] = own[1].min(cost);
            }
            if let (Some(from), Some(to)) = (task.sites.get(from), task.sites.get(to)) {
                pairs += from.ranks * to.shards * cost;
            }
        }
    }
    if own.len() < 2 {
        least.fill([0; 2]);
    }
    let others = || task.sites.iter().zip(&least).enumerate().filter(|(index, _)| *index != task.root);
    let moved: Attojoules = match task.kind {
        Kind::AllReduce => {
            let both = || least.iter().map(|[out, back]| out + back);
            bytes * (both().sum::<u128>() - both().max().unwrap_or(0))
        }
        Kind::ReduceScatter => task.sites.iter().zip(&least).map(|(site, own)| (bytes - site.shards) * own[0]).sum(),
        Kind::AllGather => task.sites.iter().zip(&least).map(|(site, own)| (bytes - site.shards) * own[1]).sum(),
        Kind::Reduce => others().map(|(_, (_, own))| bytes * own[0]).sum(),
        Kind::Broadcast => others().map(|(_, (_, own))| bytes * own[1]).sum(),
        Kind::AllToAll => pairs,
    };
    let adds = matches!(task.kind, Kind::AllReduce | Kind::ReduceScatter | Kind::Reduce);
    let sums = if adds { bytes * (task.ranks() - 1) * of(system.energy.reduction) } else { 0 };
    // An engine reads all that is added.
    let loads = matches!(system.endpoint, Endpoint::Ace(_)) && adds && own.len() > 1;
    let loaded = if loads { bytes * own.len() as u128 * (memory + sram) } else { 0 };
    moved + sums + loaded
}
