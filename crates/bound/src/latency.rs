//! The latency bound: the smallest packet between the farthest ranks that must communicate.

use super::paths::CheapestPaths;
use super::task::Task;
use antiphon_base::units::Picos;
use antiphon_model::collective::Kind;
use antiphon_model::fabric::{DimensionShape, Fabric, Link, LinkId};
use antiphon_model::schedule::Op;
use antiphon_model::system::System;
use antiphon_sim::Fidelity;
use antiphon_sim::cost::{CostModel, Least};
use std::collections::HashMap;

/// Binary places of flit times, below a picosecond.
const BITS: u32 = 16;

/// Time until the smallest packet has crossed the quickest path between the farthest ranks, and was handed over, at a
/// fidelity or at any, after the launch; zero if all are on one node.
///
/// Every link of the path costs its latency and, where packets are stored at every node, all flits of the packet. Elsewhere it
/// costs one flit, and the others follow once, at the fastest link's pace. Ranks that pass data on only take longer, by a
/// hand-over each. O(sites * links log nodes), less if links are alike.
pub(super) fn latency(fabric: &Fabric, system: &System, task: &Task, fidelity: Option<Fidelity>) -> Picos {
    let Least { is_stored, hand_off_ps } = Least::of(system, fidelity);
    let costs = CostModel::in_packets(system);
    let flits = costs.message(1, Op::Copy).packets.flits;
    let (of_head, following) = if is_stored { (flits, 0) } else { (1, flits - 1) };
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
    let (mut starts, ends) = if reversed { (receivers, senders) } else { (senders, receivers) };
    if starts.len() == ends.len() && starts.len() == fabric.ranks() && !task.has_matrix() && has_like_ranks(fabric) {
        starts.truncate(1);
    }
    // Rounded down, as nothing of a bound may be above the truth.
    let picos =
        |ticks: u64, flits: u64| ((u128::from(ticks) * u128::from(flits)) >> BITS).min(u64::MAX.into()) as Picos;
    let together = |links: Vec<LinkId>| costs.flit_ticks(links.iter().map(|&id| fabric.link(id)), BITS);
    // Parallel links may act as one.
    let parallel: HashMap<_, _> =
        fabric.parallel_links().into_iter().map(|(ends, ids)| (ends, together(ids))).collect();
    let alone = |link: &Link| costs.flit_ticks(std::iter::once(link), BITS);
    let flit = |link: &Link| parallel.get(&(link.from, link.to)).copied().unwrap_or_else(|| alone(link));
    let hop = |link: &Link| costs.link(link).latency_ps.saturating_add(picos(flit(link), of_head));
    let paths = CheapestPaths::new(fabric, reversed, hop);
    let farthest = |&start: &usize| {
        let time = paths.from(task.sites[start].node);
        let ends = ends.iter().filter(|&&end| !task.has_matrix() || task.between(start, end) > 0);
        ends.map(|&end| time[task.sites[end].node as usize]).max().unwrap_or(0)
    };
    let head = starts.iter().map(farthest).max().unwrap_or(0);
    if head == 0 {
        return 0;
    }
    let fastest = fabric.links.iter().map(flit).min().unwrap_or(0);
    head.saturating_add(picos(fastest, following)).saturating_add(hand_off_ps).saturating_add(system.launch_ps())
}

/// The same where the farthest ranks are so many links apart, which are all alike.
pub(super) fn latency_of(hops: u64, link: &Link, system: &System, fidelity: Option<Fidelity>) -> Picos {
    let Least { is_stored, hand_off_ps } = Least::of(system, fidelity);
    let costs = CostModel::in_packets(system);
    let flits = costs.message(1, Op::Copy).packets.flits;
    let (of_head, following) = if is_stored { (flits, 0) } else { (1, flits - 1) };
    let flit = costs.flit_ticks(std::iter::once(link), BITS);
    let picos = |flits: u64| ((u128::from(flit) * u128::from(flits)) >> BITS).min(u64::MAX.into()) as Picos;
    let head = hops.saturating_mul(costs.link(link).latency_ps.saturating_add(picos(of_head)));
    match hops {
        0 => 0,
        _ => head.saturating_add(picos(following)).saturating_add(hand_off_ps).saturating_add(system.launch_ps()),
    }
}

/// Whether every rank sees the same around it: a product without ends whose links are alike in each dimension.
fn has_like_ranks(fabric: &Fabric) -> bool {
    let Some(product) = fabric.product() else { return false };
    let mut alike: HashMap<&str, &Link> = HashMap::new();
    product.dimensions.iter().all(|dimension| dimension.shape != DimensionShape::Line)
        && fabric.links.iter().all(|link| {
            let first = *alike.entry(&link.dimension).or_insert(link);
            let of = |link: &Link| (link.rate, link.latency, link.speed_permille, link.length_um);
            of(first) == of(link)
        })
}
