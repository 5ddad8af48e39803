//! The throughput that no router can exceed: the busiest link or ejection port bounds it.

use super::network::{FlitPacket, PacketRouting};
use super::route::{COIN_SHIFT, Routes};
use super::traffic::Pattern;
use antiphon_model::fabric::{Fabric, LinkId, NodeId};

/// Most pairs of nodes and ranks that are looked at.
const MAX_PAIRS: usize = 1 << 25;

/// Flits per rank and cycle at which the busiest link, or ejection port, is always busy, with links of
/// `link_cycles` a flit; infinite where the fabric is too large to tell. O(nodes x ranks).
pub fn capacity(fabric: &Fabric, nodes: &[NodeId], routes: &Routes, pattern: &Pattern, link_cycles: u32) -> f64 {
    let ranks = nodes.len() as u32;
    if fabric.nodes.len() * nodes.len() > MAX_PAIRS {
        return f64::INFINITY;
    }
    let mut on_link = vec![0.0; fabric.links.len()];
    let mut at_node = vec![0.0; fabric.nodes.len()];
    // Links from each node to the destination, and the longest way first.
    let mut distance = vec![u32::MAX; fabric.nodes.len()];
    let mut visited = vec![];
    let mut busiest: f64 = 0.0;
    for to in 0..ranks {
        // A tie of two ways round is broken by a coin, once a dimension.
        let next =
            |at: NodeId, coins: u32| routes.next(&mut FlitPacket::new(to, 1, 0, coins << COIN_SHIFT, 0), at).link;
        visited.clear();
        for from in 0..ranks {
            let share = pattern.share(from, to, ranks);
            if share == 0.0 {
                continue;
            }
            let at = nodes[from as usize];
            at_node[at as usize] += share;
            find_ways(fabric, at, &next, &mut distance, &mut visited);
        }
        visited.sort_by_key(|&node| std::cmp::Reverse(distance[node as usize]));
        for &at in &visited {
            let load = std::mem::take(&mut at_node[at as usize]);
            distance[at as usize] = u32::MAX;
            for coins in [0, u32::MAX >> COIN_SHIFT] {
                match next(at, coins) {
                    Some(link) => {
                        on_link[link as usize] += load / 2.0;
                        at_node[fabric.link(link).to as usize] += load / 2.0;
                    }
                    None => busiest = busiest.max(load),
                }
            }
        }
    }
    let links = on_link.into_iter().map(|load: f64| load * link_cycles as f64);
    1.0 / links.fold(busiest, f64::max)
}

/// Follows all ways from a node to the destination, depth first: lists nodes not visited before, with their distance.
fn find_ways(
    fabric: &Fabric,
    from: NodeId,
    next: &impl Fn(NodeId, u32) -> Option<LinkId>,
    distance: &mut [u32],
    visited: &mut Vec<NodeId>,
) {
    // Both coins lead to ways of the same length, but not over the same nodes.
    let mut way = vec![from];
    while let Some(&at) = way.last() {
        if distance[at as usize] != u32::MAX {
            way.pop();
            continue;
        }
        let after = [0, u32::MAX >> COIN_SHIFT].map(|coins| next(at, coins).map(|link| fabric.link(link).to));
        if let Some(&open) = after.iter().flatten().find(|&&node| distance[node as usize] == u32::MAX) {
            way.push(open);
            continue;
        }
        distance[at as usize] = after[0].map_or(0, |node| distance[node as usize] + 1);
        visited.push(at);
        way.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::super::route::RoutingKind;
    use super::*;

    #[test]
    fn textbook_capacities() {
        for (spec, traffic, link_cycles, expected) in [
            // Half of the traffic of half of the nodes crosses the middle: 4 / k; 8 / k on tori.
            ("mesh:8x8", "uniform", 1, 0.5),
            ("mesh:32x32", "uniform", 1, 0.125),
            ("torus:8x8", "uniform", 1, 1.0),
            ("torus:16x16", "uniform", 1, 0.5),
            ("mesh:8x8", "uniform", 2, 0.25),
            // All of a row but one turn at the diagonal.
            ("mesh:8x8", "transpose", 1, 1.0 / 7.0),
            ("mesh:8x8", "bit-complement", 1, 0.25),
            ("ring:4", "neighbor", 1, 1.0),
            // Of 8 ranks, all send an eighth of 0.8 and 0.2 more to one.
            ("fc:8", "hotspot:rank=3,share=0.2", 1, 1.0 / (8.0 * 0.2 + 0.8)),
        ] {
            let fabric = Fabric::parse(spec).unwrap();
            let nodes: Vec<NodeId> = (0..fabric.ranks() as u32).map(|rank| fabric.node_of_rank(rank)).collect();
            let routes = Routes::new(RoutingKind::of(&fabric), &fabric, &nodes, 4).unwrap();
            let pattern = Pattern::parse(traffic, &fabric).unwrap();
            let found = capacity(&fabric, &nodes, &routes, &pattern, link_cycles);
            assert!((found - expected).abs() < 1e-6, "{spec} {traffic}: {found}, not {expected}");
        }
    }
}
