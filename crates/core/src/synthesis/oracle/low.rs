//! The cheapest of the lowest trees: every rank is as few ways from the root as it can be, and takes the cheapest of the
//! ways from ranks that are one nearer.

use super::closure::Closure;

/// Ways into ranks, and those out of them, by number.
pub struct Lowest<'a> {
    closure: &'a Closure,
    out: Vec<Vec<u32>>,
    into: Vec<Vec<u32>>,
}

impl<'a> Lowest<'a> {
    /// Of so many ranks.
    pub fn new(ranks: usize, closure: &'a Closure) -> Self {
        let mut lowest = Lowest { closure, out: vec![Vec::new(); ranks], into: vec![Vec::new(); ranks] };
        for (id, way) in (0..).zip(&closure.ways) {
            lowest.out[way.from as usize].push(id);
            lowest.into[way.to as usize].push(id);
        }
        lowest
    }

    /// The way into every rank but the root, and what all cost: `price` is of a way. O(ways).
    pub fn from(&self, root: u32, price: impl Fn(u32) -> f64) -> (Vec<Option<u32>>, f64) {
        let ways = &self.closure.ways;
        let mut level = vec![u32::MAX; self.out.len()];
        level[root as usize] = 0;
        let mut order = vec![root];
        let mut at = 0;
        while at < order.len() {
            let rank = order[at];
            at += 1;
            for &way in &self.out[rank as usize] {
                let to = ways[way as usize].to;
                if level[to as usize] == u32::MAX {
                    level[to as usize] = level[rank as usize] + 1;
                    order.push(to);
                }
            }
        }
        let mut cost = 0.0;
        let mut entered = vec![None; self.out.len()];
        for &rank in &order[1..] {
            let nearer = |way: &&u32| level[ways[**way as usize].from as usize] + 1 == level[rank as usize];
            let ways = self.into[rank as usize].iter().filter(nearer);
            let (least, way) =
                ways.map(|&way| (price(way), way)).min_by(|a, b| a.0.total_cmp(&b.0)).expect("it was reached");
            cost += least;
            entered[rank as usize] = Some(way);
        }
        (entered, cost)
    }
}
