//! The latency bound: the smallest packet between the farthest ranks that must communicate.

use super::paths::Paths;
use super::task::Task;
use crate::collective::Kind;
use crate::fabric::{Fabric, Link, LinkId};
use crate::system::System;
use crate::units::Picos;
use std::collections::HashMap;

/// Time until the last flit of the smallest packet has crossed the quickest path between the farthest ranks; zero if
/// all are on one node.
///
/// Every link of the path costs its latency and one flit; the remaining flits follow once, at the fastest link's pace
/// (cut-through; store-and-forward only takes longer). O(sites * links log nodes), less if links are alike.
pub(super) fn latency(fabric: &Fabric, system: &System, task: &Task) -> Picos {
    let all = || (0..task.sites.len()).collect::<Vec<_>>();
    let with_shard = || (0..task.sites.len()).filter(|&site| task.sites[site].shards > 0).collect::<Vec<_>>();
    let root = || vec![task.root];
    let (senders, receivers) = match task.kind {
        Kind::AllReduce => (all(), all()),
        Kind::AllGather => (with_shard(), all()),
        Kind::AllToAll if task.has_matrix() => (all(), all()),
        Kind::ReduceScatter | Kind::AllToAll => (all(), with_shard()),
        Kind::Broadcast => (root(), all()),
        Kind::Reduce => (all(), root()),
    };
    let reversed = receivers.len() < senders.len();
    let (starts, ends) = if reversed { (receivers, senders) } else { (senders, receivers) };
    // Rounded down, as nothing of a bound may be above the truth.
    let together = |links: Vec<LinkId>| system.channel_ticks(links.iter().map(|&id| fabric.link(id)), 16) >> 16;
    // Parallel links may act as one.
    let parallel: HashMap<_, _> =
        fabric.parallel_links().into_iter().map(|(ends, ids)| (ends, together(ids))).collect();
    let alone = |link: &Link| system.flit_ticks(link, 16) >> 16;
    let flit_ps = |link: &Link| parallel.get(&(link.from, link.to)).copied().unwrap_or_else(|| alone(link));
    let hop = |link: &Link| system.latency_of(link).saturating_add(flit_ps(link));
    let paths = Paths::new(fabric, reversed, hop);
    let farthest = |&start: &usize| {
        let time = paths.from(task.sites[start].node);
        let ends = ends.iter().filter(|&&end| !task.has_matrix() || task.between(start, end) > 0);
        ends.map(|&end| time[task.sites[end].node as usize]).max().unwrap_or(0)
    };
    let head = starts.iter().map(farthest).max().unwrap_or(0);
    if head == 0 {
        return 0;
    }
    let flit = fabric.links.iter().map(flit_ps).min().unwrap_or(0);
    let tail = flit.saturating_mul(system.packets(1).flits.saturating_sub(1));
    head.saturating_add(tail)
}
