//! The cheapest of the lowest trees: every rank is as few ways from the root as it can be, and takes the cheapest of the
//! ways from ranks that are one nearer.

use super::closure::{HubSource, HubWay, HubWays};

/// Ways by the ranks they start at and end at.
pub struct Lowest<'a> {
    ways: &'a HubWays,
    /// Hubs of which each rank is a source.
    hubs: Vec<Vec<u32>>,
    /// Entries of every hub, and of every rank.
    out: Vec<Vec<u32>>,
    into: Vec<Vec<u32>>,
}

impl<'a> Lowest<'a> {
    /// With these ways.
    pub fn new(ways: &'a HubWays) -> Self {
        let (ranks, hubs) = (ways.ranks, ways.sources.len());
        let mut lowest = Lowest { ways, hubs: vec![vec![]; ranks], out: vec![vec![]; hubs], into: vec![vec![]; ranks] };
        for (hub, sources) in (0..).zip(&ways.sources) {
            sources.iter().for_each(|source| lowest.hubs[source.rank as usize].push(hub));
        }
        for (id, entry) in (0..).zip(&ways.entries) {
            lowest.out[entry.hub as usize].push(id);
            lowest.into[entry.to as usize].push(id);
        }
        lowest
    }

    /// The way into every rank but the root, and what all cost. O(sources + entries).
    pub fn from(&self, root: u32) -> (Vec<Option<HubWay>>, f64) {
        let mut level = vec![u32::MAX; self.ways.ranks];
        // A hub is as near as its nearest source; of these the cheapest counts.
        let mut hub_level = vec![u32::MAX; self.ways.sources.len()];
        level[root as usize] = 0;
        let mut order = vec![root];
        let mut at = 0;
        while let Some(&rank) = order.get(at) {
            at += 1;
            for &hub in &self.hubs[rank as usize] {
                if hub_level[hub as usize] != u32::MAX {
                    continue;
                }
                hub_level[hub as usize] = level[rank as usize];
                for &entry in &self.out[hub as usize] {
                    let to = self.ways.entries[entry as usize].to;
                    if level[to as usize] == u32::MAX {
                        level[to as usize] = level[rank as usize] + 1;
                        order.push(to);
                    }
                }
            }
        }
        let nearest = |(hub, sources): (usize, &Vec<HubSource>)| {
            sources
                .iter()
                .find(|source| hub_level[hub] == level[source.rank as usize] && hub_level[hub] != u32::MAX)
                .copied()
        };
        let nearest: Vec<Option<HubSource>> = self.ways.sources.iter().enumerate().map(nearest).collect();
        let mut cost = 0.0;
        let mut entered = vec![None; self.ways.ranks];
        for &rank in &order[1..] {
            let way = |&entry: &u32| {
                let entry = self.ways.entries[entry as usize];
                let is_nearer = hub_level[entry.hub as usize].saturating_add(1) == level[rank as usize];
                Some((nearest[entry.hub as usize].filter(|_| is_nearer)?, entry))
            };
            let price = |way: &HubWay| way.0.cost + way.1.cost;
            let ways = self.into[rank as usize].iter().filter_map(way);
            let way = ways.min_by(|a, b| price(a).total_cmp(&price(b))).expect("it was reached");
            cost += price(&way);
            entered[rank as usize] = Some(way);
        }
        (entered, cost)
    }
}
