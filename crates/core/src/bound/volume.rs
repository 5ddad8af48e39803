//! The volume bound: bytes times links all schedules must cross, over the rate of all links.

use super::capacity::{Capacities, Load, shards};
use super::paths::Paths;
use crate::collective::{Collective, Kind};
use crate::fabric::Fabric;
use crate::units::Bytes;

/// Load on all links together.
///
/// To be summed, every element must leave all ranks but one, before any rank can hold the sum; to be spread, it must
/// then enter all but one. In AllToAll nothing is summed or copied, so every byte crosses as many links as the ranks
/// are apart. O(1), AllToAll O(ranks * links).
pub(super) fn volume(fabric: &Fabric, capacities: &Capacities, collective: Collective, bytes: Bytes) -> Load {
    let others = fabric.ranks() as u128 - 1;
    let bytes = match collective.kind {
        Kind::AllReduce => 2 * others * bytes as u128,
        Kind::ReduceScatter | Kind::AllGather | Kind::Broadcast | Kind::Reduce => others * bytes as u128,
        Kind::AllToAll => all_to_all(fabric, bytes),
    };
    Load { bytes, capacity: capacities.total() }
}

/// Bytes times hops over all pairs of ranks.
fn all_to_all(fabric: &Fabric, bytes: Bytes) -> u128 {
    let hops = Paths::new(fabric, true, |_| 1);
    let to_rank = |(rank, shard): (usize, u128)| {
        let distance = hops.from(fabric.node_of_rank(rank as u32));
        let from = (0..fabric.ranks() as u32).map(|sender| distance[fabric.node_of_rank(sender) as usize] as u128);
        from.sum::<u128>() * shard
    };
    shards(fabric.ranks(), bytes).into_iter().enumerate().map(to_rank).sum()
}
