//! Trees that join all ranks, up which sums go and down which copies come: all-reduce.

use super::Oracle;
use super::closure::Closure;
use super::low::Lowest;
use crate::synthesis::graph::Graph;
use crate::synthesis::plan::Plan;
use std::collections::HashMap;

/// Spanning trees of the ranks, loaded both ways, whatever the root.
pub struct SpanningTrees(pub Graph);

impl Oracle for SpanningTrees {
    /// J. B. Kruskal's; O(ways log ways).
    fn cheapest(&mut self, prices: &[f64], _: &[u32]) -> Vec<Plan> {
        let ranks = self.0.ranks.len();
        let closure = Closure::new(&self.0, prices);
        let back: HashMap<(u32, u32), u32> =
            (0..).zip(&closure.ways).map(|(id, way)| ((way.from, way.to), id)).collect();
        let pair = |(there, way): (u32, &super::closure::Way)| {
            let &back = back.get(&(way.to, way.from)).filter(|_| way.from < way.to)?;
            Some((way.cost + closure.ways[back as usize].cost, there, back))
        };
        let mut pairs: Vec<(f64, u32, u32)> = (0..).zip(&closure.ways).filter_map(pair).collect();
        pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut top: Vec<u32> = (0..ranks as u32).collect();
        let mut joined: Vec<Vec<(u32, u32, u32)>> = vec![Vec::new(); ranks];
        for (_, there, back) in pairs {
            let way = closure.ways[there as usize];
            let [a, b] = [way.from, way.to].map(|rank| find(&mut top, rank));
            if a != b {
                top[a as usize] = b;
                joined[way.from as usize].push((way.to, there, back));
                joined[way.to as usize].push((way.from, back, there));
            }
        }
        vec![rooted(&closure, &joined)]
    }

    /// From the root whose tree is the cheapest.
    fn low(&mut self, prices: &[f64], _: &[u32]) -> Vec<Plan> {
        let ranks = self.0.ranks.len();
        let closure = Closure::new(&self.0, prices);
        let numbers: HashMap<(u32, u32), u32> =
            (0..).zip(&closure.ways).map(|(id, way)| ((way.from, way.to), id)).collect();
        let back: Vec<Option<u32>> = closure.ways.iter().map(|way| numbers.get(&(way.to, way.from)).copied()).collect();
        let price = |way: u32| {
            let back = back[way as usize].map_or(f64::INFINITY, |back| closure.ways[back as usize].cost);
            closure.ways[way as usize].cost + back
        };
        let lowest = Lowest::new(ranks, &closure);
        let trees = (0..ranks as u32).map(|root| lowest.from(root, price));
        let Some((entered, cost)) = trees.min_by(|a, b| a.1.total_cmp(&b.1)) else { return vec![] };
        if cost == f64::INFINITY {
            return vec![];
        }
        let mut plan = Plan::default();
        for way in entered.into_iter().flatten() {
            let ends = closure.ways[way as usize];
            let up = closure.arcs(back[way as usize].expect("both ways"));
            plan.branch(ends.from, ends.to, up.iter().copied(), closure.arcs(way).iter().copied());
        }
        vec![plan]
    }
}

/// The tree rooted in the middle of its longest path.
fn rooted(closure: &Closure, joined: &[Vec<(u32, u32, u32)>]) -> Plan {
    // Every rank's upper one, and ways down to it and up, in the order of a search.
    let search = |from: u32| {
        let mut order = vec![(from, None)];
        let mut at = 0;
        while at < order.len() {
            let (rank, above): (u32, Option<(u32, u32, u32)>) = order[at];
            at += 1;
            for &(next, down, up) in &joined[rank as usize] {
                if above.is_none_or(|above| above.0 != next) {
                    order.push((next, Some((rank, down, up))));
                }
            }
        }
        order
    };
    let end = |order: &[(u32, Option<(u32, u32, u32)>)]| order[order.len() - 1].0;
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

fn find(top: &mut [u32], mut rank: u32) -> u32 {
    while top[rank as usize] != rank {
        top[rank as usize] = top[top[rank as usize] as usize];
        rank = top[rank as usize];
    }
    rank
}
