//! The volume bound: bytes times links all schedules must cross, over the rate of all links.

use super::capacity::{Capacities, Load};
use super::computing::ReadStar;
use super::paths::CheapestPaths;
use super::task::Task;
use antiphon_model::collective::Kind;
use antiphon_model::fabric::Fabric;

/// Load on all links together.
///
/// To be summed, every element must leave all sites but one, before any rank can hold the sum; to be spread, it must
/// then enter all but one, or more where it goes over a switch that is read ([`ReadStar`]). In AllToAll nothing is summed or copied, so every byte crosses as many links as the ranks
/// are apart. O(1), AllToAll O(sites * links).
pub(super) fn volume(fabric: &Fabric, capacities: &Capacities, task: &Task) -> Load {
    let others = task.sites.len() as u128 - 1;
    let of_star = |star: ReadStar| star.all_reduce_cost(&vec![1; fabric.links.len()]);
    let bytes = match task.kind {
        Kind::AllReduce => ReadStar::of(fabric, task).map_or(2 * others, of_star) * task.bytes as u128,
        Kind::ReduceScatter | Kind::AllGather | Kind::Broadcast | Kind::Reduce => others * task.bytes as u128,
        Kind::AllToAll => all_to_all(fabric, task),
    };
    Load { bytes, capacity: capacities.total() }
}

/// Bytes times hops over all pairs of ranks.
fn all_to_all(fabric: &Fabric, task: &Task) -> u128 {
    let hops = CheapestPaths::new(fabric, true, |_| 1);
    let into = |to: usize| {
        let distance = hops.from(task.sites[to].node);
        let from = |from: usize| task.between(from, to) * distance[task.sites[from].node as usize] as u128;
        (0..task.sites.len()).map(from).sum::<u128>()
    };
    (0..task.sites.len()).map(into).sum()
}
