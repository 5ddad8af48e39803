//! Routes on which many messages share the links of a fabric as evenly as can be found.

use antiphon_model::fabric::{Fabric, LinkId, NodeId};
use antiphon_model::system::System;
use antiphon_sim::cost::CostModel;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A message to be routed in one of the configurations of a fabric, beside others of its phase.
#[derive(Debug, Clone, Copy)]
pub(in crate::algorithm) struct Demand {
    pub from: NodeId,
    pub to: NodeId,
    pub phase: usize,
    pub configuration: u32,
}

/// Most looks at a link.
const MOST_LOOKS: usize = 1 << 27;
/// Most times that every message is routed anew.
const MOST_ROUNDS: usize = 32;

/// A route for every message. Each in turn takes the one that adds least to the sum of the cubes of all links' loads, and
/// all take their turns until none moves. O(rounds * messages * links * log links).
pub(in crate::algorithm) fn spread(fabric: &Fabric, system: &System, demands: &[Demand]) -> Vec<Vec<LinkId>> {
    let costs = CostModel::in_packets(system).links(fabric);
    let fastest = costs.iter().map(|link| link.flit_ps).min().unwrap_or(1).max(1);
    let widths: Vec<u64> = costs.iter().map(|link| link.flit_ps.div_ceil(fastest).min(1 << 8)).collect();
    let phases = demands.iter().map(|demand| demand.phase + 1).max().unwrap_or(0);
    let mut busy = vec![vec![0u64; widths.len()]; phases];
    let mut routes: Vec<Vec<LinkId>> = vec![vec![]; demands.len()];
    let rounds = (MOST_LOOKS / (demands.len() * widths.len()).max(1)).clamp(1, MOST_ROUNDS);
    for _ in 0..rounds {
        let mut moved = false;
        for (demand, route) in demands.iter().zip(&mut routes) {
            let busy = &mut busy[demand.phase];
            route.iter().for_each(|&link| busy[link as usize] -= widths[link as usize]);
            let adds = |link: LinkId| {
                let (busy, width) = (busy[link as usize], widths[link as usize]);
                (busy + width).pow(3) - busy.pow(3)
            };
            let found = cheapest(fabric, demand, adds);
            let cost = |route: &[LinkId]| route.iter().map(|&link| adds(link)).sum::<u64>();
            if route.is_empty() || cost(&found) < cost(route) {
                moved |= *route != found;
                *route = found;
            }
            route.iter().for_each(|&link| busy[link as usize] += widths[link as usize]);
        }
        if !moved {
            break;
        }
    }
    routes
}

/// The cheapest route of a message; of these one with the fewest links.
fn cheapest(fabric: &Fabric, demand: &Demand, cost: impl Fn(LinkId) -> u64) -> Vec<LinkId> {
    let mut best = vec![((u64::MAX, 0), None); fabric.nodes.len()];
    best[demand.from as usize].0 = (0, 0);
    let mut waiting = BinaryHeap::from([Reverse(((0, 0), demand.from))]);
    while let Some(Reverse((so_far, node))) = waiting.pop() {
        if node == demand.to {
            break;
        }
        if so_far > best[node as usize].0 {
            continue;
        }
        for &link in fabric.out_links(node).iter().filter(|&&link| fabric.has(link, demand.configuration)) {
            let (to, next) = (fabric.link(link).to, (so_far.0 + cost(link), so_far.1 + 1));
            if next < best[to as usize].0 {
                best[to as usize] = (next, Some(link));
                waiting.push(Reverse((next, to)));
            }
        }
    }
    let mut route: Vec<LinkId> =
        std::iter::successors(best[demand.to as usize].1, |&link: &LinkId| best[fabric.link(link).from as usize].1)
            .collect();
    route.reverse();
    route
}
