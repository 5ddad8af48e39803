//! Bounds by prices: what the cheapest plan costs, over what all links sell.
//!
//! At any prices of links, what a schedule buys is at least the cost of the cheapest plan for every byte, and in a time T the
//! links sell at most their rates times T, each at its price. So T is at least the one over the other. Cuts, partitions and the
//! volume are such bounds too, with prices of their own. The prices may come from anywhere: what is found here holds
//! whatever they are.

use super::capacity::{Capacities, Load};
use super::computing::ReadStar;
use super::gossip::gossip;
use super::paths::{CheapestPaths, UNREACHABLE};
use super::task::Task;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::watch::checkpoint;
use antiphon_model::collective::Kind;
use antiphon_model::fabric::{Fabric, Link, NodeId};
use antiphon_model::schedule::Certificate;
use std::collections::{HashMap, HashSet};

/// The load that a certificate's prices prove.
///
/// A shortest path for every pair of groups of sites that reach each other for nothing; then a cheapest arborescence for every
/// root, O(groups^2). There are two groups where the prices are those of a cut, and as many as there are sites at worst.
///
/// # Errors
/// [`Code::NotApplicable`] if ranks are left out that could add.
pub(super) fn load(fabric: &Fabric, capacities: &Capacities, task: &Task, certificate: &Certificate) -> Result<Load> {
    let copies = task.kind != Kind::AllToAll;
    if copies && !task.helpers.is_empty() {
        let what = "certificates of schedules that leave ranks out are not supported";
        return Err(Error::new(Code::NotApplicable, what));
    }
    let mut prices = vec![0; fabric.links.len()];
    certificate.prices.iter().for_each(|&(link, price)| prices[link as usize] = price);
    let worth = prices.iter().zip(&capacities.links).map(|(&price, &capacity)| price as u128 * capacity).sum();
    let groups = groups(fabric, task, &prices);
    // What is summed goes towards the root: the same against the links.
    let reversed = matches!(task.kind, Kind::ReduceScatter | Kind::Reduce);
    let paths = CheapestPaths::of_costs(fabric, reversed, &prices);
    let way = |group: &Vec<usize>| {
        let cost = paths.from(task.sites[group[0]].node);
        groups.iter().map(|to| cost[task.sites[to[0]].node as usize]).collect::<Vec<u64>>()
    };
    let ways: Vec<Vec<u64>> = groups.iter().map(way).collect();
    if worth == 0 || ways.iter().flatten().any(|&cost| cost == UNREACHABLE) {
        return Ok(Load::NONE);
    }
    let shards = |group: &Vec<usize>| group.iter().map(|&site| task.sites[site].shards).sum::<u128>();
    let root = groups.iter().position(|group| group.contains(&task.root)).unwrap_or(0);
    let bytes = match task.kind {
        Kind::AllToAll => {
            let mut bytes = 0;
            for (from, ways) in groups.iter().zip(&ways) {
                for (to, &way) in groups.iter().zip(ways) {
                    let pairs = from.iter().flat_map(|&from| to.iter().map(move |&to| (from, to)));
                    let between = pairs.map(|(from, to)| task.between(from, to)).sum::<u128>();
                    bytes += between * u128::from(way);
                }
            }
            bytes
        }
        Kind::Broadcast | Kind::Reduce => arborescence(&ways, root) * u128::from(task.bytes),
        Kind::AllGather | Kind::ReduceScatter => {
            (0..).zip(&groups).map(|(root, group)| arborescence(&ways, root) * shards(group)).sum()
        }
        Kind::AllReduce if fabric.computing_switches().next().is_some() => {
            u128::from(task.bytes) * with_computing_switches(fabric, task, &prices, &ways)
        }
        Kind::AllReduce => {
            // Whatever order all messages have; and every site's data must reach all, and all data every site.
            let back: Vec<Vec<u64>> = (0..groups.len()).map(|to| ways.iter().map(|from| from[to]).collect()).collect();
            let one = [&ways, &back].map(|ways| arborescence(ways, root));
            one.into_iter().fold(gossip(&ways), u128::max) * u128::from(task.bytes)
        }
    };
    Ok(Load { bytes, capacity: worth })
}

/// What an element of an AllReduce costs at least where switches add or multicast. Over a cut it goes both ways, whatever they do; and
/// it costs no less than where their links are free, or in a star of such a switch.
fn with_computing_switches(fabric: &Fabric, task: &Task, prices: &[u64], ways: &[Vec<u64>]) -> u128 {
    let star = ReadStar::of(fabric, task).map_or(0, |star| star.all_reduce_cost(prices));
    let cut = if let [there, back] = ways { there[1].max(back[0]) } else { 0 };
    let computes = |node: NodeId| fabric.nodes[node as usize].compute.is_some();
    let freed = |(link, &price): (&Link, &u64)| if computes(link.from) || computes(link.to) { 0 } else { price };
    let prices: Vec<u64> = fabric.links.iter().zip(prices).map(freed).collect();
    let groups = groups(fabric, task, &prices);
    let paths = CheapestPaths::of_costs(fabric, false, &prices);
    let way = |group: &Vec<usize>| {
        let cost = paths.from(task.sites[group[0]].node);
        groups.iter().map(|to| cost[task.sites[to[0]].node as usize]).collect::<Vec<u64>>()
    };
    star.max(cut.into()).max(gossip(&groups.iter().map(way).collect::<Vec<_>>()))
}

/// Sites between which free links lead both ways, over whatever nodes.
fn groups(fabric: &Fabric, task: &Task, prices: &[u64]) -> Vec<Vec<usize>> {
    let free = || fabric.links.iter().zip(prices).filter(|(_, price)| **price == 0).map(|(link, _)| link);
    let there: HashSet<(NodeId, NodeId)> = free().map(|link| (link.from, link.to)).collect();
    let mut site_at: HashMap<NodeId, usize> = (0..).zip(&task.sites).map(|(at, site)| (site.node, at)).collect();
    let mut beside = vec![Vec::new(); fabric.nodes.len()];
    for link in free().filter(|link| there.contains(&(link.to, link.from))) {
        beside[link.from as usize].push(link.to);
    }
    let mut is_seen = vec![false; fabric.nodes.len()];
    let mut groups = vec![];
    for site in &task.sites {
        let (mut group, mut open) = (vec![], vec![site.node]);
        while let Some(node) = open.pop() {
            if !std::mem::replace(&mut is_seen[node as usize], true) {
                group.extend(site_at.remove(&node));
                open.extend(&beside[node as usize]);
            }
        }
        groups.extend(Some(group).filter(|group| !group.is_empty()));
    }
    groups
}

/// The cost of the cheapest arborescence from a root to all others. O(vertices^2).
///
/// From a vertex that is not reached yet a path grows backwards, always by the cheapest way in, which then is free. A
/// vertex that is on the path already closes a cycle, which becomes one vertex; a vertex that is reached ends the path (J. Edmonds
/// 1967; H. N. Gabow, Z. Galil, T. Spencer and R. E. Tarjan, "Efficient algorithms for finding minimum spanning trees", Combinatorica 1986).
fn arborescence(ways: &[Vec<u64>], root: usize) -> u128 {
    let count = ways.len();
    let mut into: Vec<Vec<u64>> = (0..count).map(|to| ways.iter().map(|from| from[to]).collect()).collect();
    // The vertex that each has become one with, and which are reached.
    let mut part_of: Vec<usize> = (0..count).collect();
    let mut is_reached = vec![false; count];
    is_reached[root] = true;
    let mut place: Vec<Option<usize>> = vec![None; count];
    let mut total = 0;
    for start in 0..count {
        let mut path: Vec<usize> = vec![];
        let mut next = part_of[start];
        while !is_reached[next] {
            checkpoint();
            match place[next] {
                None => {
                    place[next] = Some(path.len());
                    path.push(next);
                }
                Some(first) => {
                    for other in path.drain(first + 1..) {
                        let ways = std::mem::take(&mut into[other]);
                        into[next].iter_mut().zip(ways).for_each(|(least, way)| *least = (*least).min(way));
                        part_of.iter_mut().filter(|part| **part == other).for_each(|part| *part = next);
                    }
                }
            }
            let top = path[path.len() - 1];
            let outside = (0..count).filter(|&from| part_of[from] != top);
            let Some((least, from)) = outside.map(|from| (into[top][from], from)).min() else { break };
            total += u128::from(least);
            into[top].iter_mut().for_each(|way| *way = way.saturating_sub(least));
            next = part_of[from];
        }
        path.into_iter().for_each(|vertex| is_reached[vertex] = true);
    }
    total
}
