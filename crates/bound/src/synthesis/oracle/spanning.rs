//! Trees that join all ranks, up which sums go and down which copies come: all-reduce.

use super::Oracle;
use super::closure::{Closure, Entry, HubSource, HubWays};
use super::low::Lowest;
use crate::synthesis::graph::Graph;
use crate::synthesis::parts::DisjointSets;
use crate::synthesis::plan::Plan;
use std::collections::HashMap;
use std::ops::Range;

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
        let through = !closure.ways.are_mutual();
        SpanningTrees { graph, through }
    }
}

impl Oracle for SpanningTrees {
    /// J. B. Kruskal's; O(ends log ends).
    fn plans(&mut self, prices: &[f64], _: &[u32], low: bool) -> [Vec<Plan>; 2] {
        let pairs = Pairs::new(Closure::new(&self.graph, prices, self.through));
        let lowest = || {
            let lowest = Lowest::new(&pairs.ways);
            // From the root whose tree is the cheapest.
            let trees = (0..pairs.ways.ranks as u32).map(|root| lowest.from(root));
            let (entered, _) = trees.min_by(|a, b| a.1.total_cmp(&b.1)).expect("a graph has ranks");
            let mut plan = Plan::default();
            entered.into_iter().flatten().for_each(|(above, below)| pairs.branch(&mut plan, above.id, below.id));
            plan
        };
        [vec![pairs.cheapest()], if low { vec![lowest()] } else { vec![] }]
    }
}

/// One end of a way there and back: a rank that sends to one hub and receives from another.
struct HubEnd {
    hubs: (u32, u32),
    rank: u32,
    cost: f64,
    /// Its way to the one hub and from the other.
    source: u32,
    entry: u32,
}

/// Ways there and back between ranks. Those over the same two hubs cost what both their ends cost, so that pairs of hubs are hubs
/// of these ways.
struct Pairs {
    closure: Closure,
    ends: Vec<HubEnd>,
    /// Sources and entries are numbers of ends.
    ways: HubWays,
    /// Ends that send to a hub and receive from another one, and those that do the opposite; the cheapest first.
    both: Vec<(Range<usize>, Range<usize>)>,
}

impl Pairs {
    fn new(closure: Closure) -> Pairs {
        let one_way = &closure.ways;
        let mut sent: Vec<Vec<(u32, HubSource)>> = vec![vec![]; one_way.ranks];
        for (hub, sources) in (0..).zip(&one_way.sources) {
            sources.iter().for_each(|source| sent[source.rank as usize].push((hub, *source)));
        }
        let mut ends: Vec<HubEnd> = vec![];
        for entry in &one_way.entries {
            ends.extend(sent[entry.to as usize].iter().map(|&(hub, source)| HubEnd {
                hubs: (hub, entry.hub),
                rank: entry.to,
                cost: source.cost + entry.cost,
                source: source.id,
                entry: entry.id,
            }));
        }
        ends.sort_unstable_by(|a, b| a.hubs.cmp(&b.hubs).then(a.cost.total_cmp(&b.cost)).then(a.rank.cmp(&b.rank)));
        let mut groups: Vec<Range<usize>> = vec![];
        for group in ends.chunk_by(|a, b| a.hubs == b.hubs) {
            let start = groups.last().map_or(0, |last| last.end);
            groups.push(start..start + group.len());
        }
        let of: HashMap<(u32, u32), &Range<usize>> =
            groups.iter().map(|group| (ends[group.start].hubs, group)).collect();
        let mut ways = HubWays { ranks: one_way.ranks, sources: vec![], entries: vec![] };
        let mut both = vec![];
        for (hub, group) in (0..).zip(&groups) {
            let (one, other) = ends[group.start].hubs;
            let others = of.get(&(other, one)).map_or(0..0, |&others| others.clone());
            let source = |at: usize| HubSource { rank: ends[at].rank, cost: ends[at].cost, id: at as u32 };
            ways.sources.push(group.clone().map(source).collect());
            let entry = |at: usize| Entry { hub, to: ends[at].rank, cost: ends[at].cost, id: at as u32 };
            ways.entries.extend(others.clone().map(entry));
            if one <= other && !others.is_empty() {
                both.push((group.clone(), others));
            }
        }
        Pairs { closure, ends, ways, both }
    }

    /// The cheapest tree. At two hubs, an edge is no cheaper than those from its ends to the cheapest ends, so that only these
    /// matter.
    fn cheapest(&self) -> Plan {
        let mut edges: Vec<(f64, u32, u32)> = vec![];
        for (group, others) in &self.both {
            let to_all = others.clone().map(|other| (group.start, other));
            let from_all = group.clone().skip(1).map(|one| (one, others.start));
            for (one, other) in to_all.chain(from_all) {
                let ends = [&self.ends[one], &self.ends[other]];
                if ends[0].rank != ends[1].rank {
                    edges.push((ends[0].cost + ends[1].cost, one as u32, other as u32));
                }
            }
        }
        edges.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        let mut parts = DisjointSets::new(self.ways.ranks);
        let mut joined: Vec<Vec<(u32, u32)>> = vec![vec![]; self.ways.ranks];
        for (_, one, other) in edges {
            let [a, b] = [one, other].map(|end| self.ends[end as usize].rank);
            if parts.join(a, b) {
                joined[a as usize].push((one, other));
                joined[b as usize].push((other, one));
            }
        }
        self.rooted(&joined)
    }

    /// The tree rooted in the middle of its longest path.
    fn rooted(&self, joined: &[Vec<(u32, u32)>]) -> Plan {
        let rank = |end: u32| self.ends[end as usize].rank;
        // Every rank, and the ends of its way from the one above, in the order of a search.
        let search = |from: u32| {
            let mut order: Vec<(u32, Option<(u32, u32)>)> = vec![(from, None)];
            let mut at = 0;
            while let Some(&(from, above)) = order.get(at) {
                at += 1;
                for &(own, other) in &joined[from as usize] {
                    if above.is_none_or(|above| rank(above.0) != rank(other)) {
                        order.push((rank(other), Some((own, other))));
                    }
                }
            }
            order
        };
        let last = |order: &[(u32, Option<(u32, u32)>)]| order[order.len() - 1].0;
        let order = search(last(&search(0)));
        let above: HashMap<u32, u32> = order.iter().filter_map(|&(at, above)| Some((at, rank(above?.0)))).collect();
        let path: Vec<u32> = std::iter::successors(Some(last(&order)), |rank| above.get(rank).copied()).collect();
        let mut plan = Plan::default();
        for (_, ends) in search(path[path.len() / 2]) {
            ends.into_iter().for_each(|(above, below)| self.branch(&mut plan, above, below));
        }
        plan
    }

    /// Adds a branch between two ends.
    fn branch(&self, plan: &mut Plan, above: u32, below: u32) {
        let [above, below] = [above, below].map(|end| &self.ends[end as usize]);
        let up = self.closure.arcs(below.source, above.entry);
        plan.branch(above.rank, below.rank, up, self.closure.arcs(above.source, below.entry));
    }
}
