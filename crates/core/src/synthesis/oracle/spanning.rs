//! Trees that join all ranks, up which sums go and down which copies come: all-reduce.

use super::Oracle;
use super::closure::Closure;
use super::low::Lowest;
use crate::synthesis::graph::Graph;
use crate::synthesis::parts::Parts;
use crate::synthesis::plan::Plan;
use std::collections::HashMap;

/// Spanning trees of the ranks, loaded both ways, whatever the root.
pub struct SpanningTrees {
    graph: Graph,
    /// Whether some neighbours are joined one way only, so that the way back is over other ranks.
    through: bool,
}

impl SpanningTrees {
    /// Of a graph's ranks.
    pub fn new(graph: Graph) -> Self {
        let closure = Closure::new(&graph, &vec![1.0; graph.arcs.len()], false);
        let through = closure.back().contains(&None);
        SpanningTrees { graph, through }
    }
}

impl Oracle for SpanningTrees {
    /// J. B. Kruskal's; O(ways log ways).
    fn cheapest(&mut self, prices: &[f64], _: &[u32]) -> Vec<Plan> {
        let ranks = self.graph.ranks.len();
        let closure = Closure::new(&self.graph, prices, self.through);
        let back = closure.back();
        let pair = |there: u32| {
            let way = closure.ways[there as usize];
            let back = back[there as usize].filter(|_| way.from < way.to)?;
            Some((way.cost + closure.ways[back as usize].cost, there, back))
        };
        let mut pairs: Vec<(f64, u32, u32)> = (0..closure.ways.len() as u32).filter_map(pair).collect();
        pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut parts = Parts::new(ranks);
        let mut joined: Vec<Vec<Edge>> = vec![Vec::new(); ranks];
        for (_, there, back) in pairs {
            let way = closure.ways[there as usize];
            if parts.join(way.from, way.to) {
                joined[way.from as usize].push((way.to, there, back));
                joined[way.to as usize].push((way.from, back, there));
            }
        }
        vec![rooted(&closure, &joined)]
    }

    /// From the root whose tree is the cheapest.
    fn low(&mut self, prices: &[f64], _: &[u32]) -> Vec<Plan> {
        let ranks = self.graph.ranks.len();
        let closure = Closure::new(&self.graph, prices, self.through);
        let back = closure.back();
        let price = |way: u32| {
            let back = back[way as usize].expect("ways lead both ways");
            closure.ways[way as usize].cost + closure.ways[back as usize].cost
        };
        let lowest = Lowest::new(ranks, &closure);
        let trees = (0..ranks as u32).map(|root| lowest.from(root, price));
        let (entered, _) = trees.min_by(|a, b| a.1.total_cmp(&b.1)).expect("a graph has ranks");
        let mut plan = Plan::default();
        for way in entered.into_iter().flatten() {
            let ends = closure.ways[way as usize];
            let up = closure.arcs(back[way as usize].expect("ways lead both ways"));
            plan.branch(ends.from, ends.to, up.iter().copied(), closure.arcs(way).iter().copied());
        }
        vec![plan]
    }
}

/// The other rank of a branch, and the ways to and from it.
type Edge = (u32, u32, u32);

/// The tree rooted in the middle of its longest path.
fn rooted(closure: &Closure, joined: &[Vec<Edge>]) -> Plan {
    // Every rank's upper one, and ways down to it and up, in the order of a search.
    let search = |from: u32| {
        let mut order = vec![(from, None)];
        let mut at = 0;
        while at < order.len() {
            let (rank, above): (u32, Option<Edge>) = order[at];
            at += 1;
            for &(next, down, up) in &joined[rank as usize] {
                if above.is_none_or(|above| above.0 != next) {
                    order.push((next, Some((rank, down, up))));
                }
            }
        }
        order
    };
    let end = |order: &[(u32, Option<Edge>)]| order[order.len() - 1].0;
    let order = search(end(&search(0)));
    let above: HashMap<u32, u32> = order.iter().filter_map(|&(rank, above)| Some((rank, above?.0))).collect();
    let path: Vec<u32> = std::iter::successors(Some(end(&order)), |rank| above.get(rank).copied()).collect();
    let mut plan = Plan::default();
    for (rank, above) in search(path[path.len() / 2]) {
        let Some((above, down, up)) = above else { continue };
        plan.branch(above, rank, closure.arcs(up).iter().copied(), closure.arcs(down).iter().copied());
    }
    plan
}
