//! What it costs at least to bring every site's data to every site, where messages cost what their ways cost.
//!
//! As one-way gossiping: take a price, and call messages that cost more dear. Ways of others, which are free here, join the sites to
//! parts, between which they lead one way at most. Until the first part knows everything, a dear message must have left every other part
//! that no free way leaves; after that one must enter every other part that no free way enters. These are different messages. Summed over
//! all prices that is a bound of what all messages cost. Where ways cost the same both ways it is twice a minimum spanning tree.

use antiphon_base::watch::checkpoint;

/// The least cost for every byte, by the cost of the ways from each site to each. O(sites^4) at worst; where ways cost one of few
/// prices O(sites^3).
pub(super) fn gossip(ways: &[Vec<u64>]) -> u128 {
    let mut all: Vec<(u64, usize, usize)> = Vec::with_capacity(ways.len() * ways.len());
    for (from, ways) in ways.iter().enumerate() {
        all.extend(ways.iter().enumerate().map(|(to, &cost)| (cost, from, to)));
    }
    all.sort_unstable();
    let mut free = Free::new(ways.len());
    let (mut total, mut price, mut messages) = (0, 0, free.messages());
    for same in all.chunk_by(|one, other| one.0 == other.0) {
        total += u128::from(same[0].0 - price) * messages;
        price = same[0].0;
        let mut is_new = false;
        for &(_, from, to) in same {
            checkpoint();
            is_new |= free.add(from, to);
        }
        if is_new {
            messages = free.messages();
        }
        if messages == 0 {
            break;
        }
    }
    total
}

/// Which sites reach which for free, over any number of ways: a set of bits each.
struct Free {
    reached: Vec<Vec<u64>>,
}

impl Free {
    /// Every site only itself.
    fn new(sites: usize) -> Free {
        let own =
            |site: usize| (0..sites.div_ceil(64)).map(|word| u64::from(word == site / 64) << (site % 64)).collect();
        Free { reached: (0..sites).map(own).collect() }
    }

    fn reaches(&self, from: usize, to: usize) -> bool {
        self.reached[from][to / 64] >> (to % 64) & 1 == 1
    }

    /// A way is free; returns whether that is new.
    fn add(&mut self, from: usize, to: usize) -> bool {
        if self.reaches(from, to) {
            return false;
        }
        let more = self.reached[to].clone();
        for site in 0..self.reached.len() {
            if self.reaches(site, from) {
                self.reached[site].iter_mut().zip(&more).for_each(|(all, more)| *all |= more);
            }
        }
        true
    }

    /// Dear messages that are needed.
    fn messages(&self) -> u128 {
        let sites = 0..self.reached.len();
        let both = |one: usize, other: usize| self.reaches(one, other) && self.reaches(other, one);
        // The first site of each part stands for it.
        let parts = sites.clone().filter(|&site| !(0..site).any(|before| both(before, site)));
        let leaves = |part: usize| sites.clone().any(|site| self.reaches(part, site) && !self.reaches(site, part));
        let enters = |part: usize| sites.clone().any(|site| self.reaches(site, part) && !self.reaches(part, site));
        let needed: Vec<u128> = parts.map(|part| u128::from(!leaves(part)) + u128::from(!enters(part))).collect();
        needed.iter().sum::<u128>() - needed.iter().max().unwrap_or(&0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Reverse;
    use std::collections::{BinaryHeap, HashMap};

    /// The costs with which all know everything, by trying all orders of messages.
    fn by_force(ways: &[Vec<u64>]) -> u128 {
        let sites = ways.len();
        let mut cheapest = HashMap::new();
        let start: Vec<u32> = (0..sites).map(|site| 1 << site).collect();
        let mut open = BinaryHeap::from([Reverse((0, start))]);
        while let Some(Reverse((cost, known))) = open.pop() {
            if known.iter().all(|&known| known == (1 << sites) - 1) {
                return cost;
            }
            for (from, ways) in ways.iter().enumerate() {
                for (to, &way) in ways.iter().enumerate() {
                    let mut next = known.clone();
                    next[to] |= known[from];
                    let cost = cost + u128::from(way);
                    if cheapest.get(&next).is_none_or(|&known| cost < known) {
                        cheapest.insert(next.clone(), cost);
                        open.push(Reverse((cost, next)));
                    }
                }
            }
        }
        unreachable!("all reach all");
    }

    /// Ways between up to four sites, none longer than over another one.
    fn ways() -> impl Strategy<Value = Vec<Vec<u64>>> {
        (2usize..=4, prop::collection::vec(0u64..9, 16)).prop_map(|(sites, costs)| {
            let cost = |from: usize, to: usize| if from == to { 0 } else { costs[from * 4 + to] };
            let mut ways: Vec<Vec<u64>> =
                (0..sites).map(|from| (0..sites).map(|to| cost(from, to)).collect()).collect();
            for over in 0..sites {
                let on = ways[over].clone();
                for ways in &mut ways {
                    let to = ways[over];
                    ways.iter_mut().zip(&on).for_each(|(way, on)| *way = (*way).min(to + on));
                }
            }
            ways
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

        #[test]
        fn nothing_is_cheaper(ways in ways()) {
            prop_assert!(gossip(&ways) <= by_force(&ways), "{} {}", gossip(&ways), by_force(&ways));
        }
    }

    #[test]
    fn three_on_a_ring_one_way() {
        // Two messages until somebody knows all, two more until all do.
        let ring = [vec![0, 1, 2], vec![2, 0, 1], vec![1, 2, 0]].to_vec();
        assert_eq!((gossip(&ring), by_force(&ring)), (4, 4));
        // Of the dear ways back one must be taken.
        let line = [vec![0, 1, 2], vec![9, 0, 1], vec![9, 9, 0]].to_vec();
        assert_eq!((gossip(&line), by_force(&line)), (12, 12));
        // Ways that cost the same both ways: twice a spanning tree.
        let star = [vec![0, 2, 3], vec![2, 0, 5], vec![3, 5, 0]].to_vec();
        assert_eq!((gossip(&star), by_force(&star)), (10, 10));
    }
}
