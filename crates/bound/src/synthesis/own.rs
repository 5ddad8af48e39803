//! Prices at which what a path carries counts itself: where arcs are not equally fast, one path may be too much for an idle one.

use super::graph::Graph;

/// A price rises by so many powers of e at most, and to no more than the other, so that sums of prices are numbers.
const HIGHEST: f64 = 500.0;
pub const MOST: f64 = 1e250;

/// By what a price rises for so many powers of e.
pub fn rise(powers: f64) -> f64 {
    powers.clamp(-HIGHEST, HIGHEST).exp()
}

/// Prices of arcs that rise exponentially with the time for which they are busy, with a load on each. Loads are in bytes times the
/// powers of e for a picosecond.
pub struct Own<'a> {
    graph: &'a Graph,
    /// Whether all arcs are equally fast: all prices would rise alike, and no way become cheaper than another.
    is_even: bool,
    /// The last load, and by what it makes every arc dearer.
    load: f64,
    factors: Vec<f64>,
    prices: Vec<f64>,
}

impl<'a> Own<'a> {
    pub fn new(graph: &'a Graph) -> Self {
        let is_even = graph.arcs.windows(2).all(|pair| pair[0].rate == pair[1].rate);
        Own { graph, is_even, load: 0.0, factors: vec![1.0; graph.arcs.len()], prices: vec![] }
    }

    /// The load as far as it matters.
    pub fn of(&self, load: f64) -> f64 {
        if self.is_even { 0.0 } else { load }
    }

    /// The prices of all arcs with a load.
    pub fn added<'b>(&'b mut self, prices: &'b [f64], load: f64) -> &'b [f64] {
        if self.is_even {
            return prices;
        }
        if load != self.load {
            self.load = load;
            self.factors.clear();
            self.factors.extend(self.graph.arcs.iter().map(|arc| rise(load / arc.rate)));
        }
        self.prices.clear();
        self.prices.extend(prices.iter().zip(&self.factors).map(|(price, factor)| (price * factor).min(MOST)));
        &self.prices
    }

    /// What a way costs with a load.
    pub fn cost(&self, way: &[u32], prices: &[f64], load: f64) -> f64 {
        // Most arcs of a way are equally fast.
        let (mut rate, mut factor) = (0.0, 1.0);
        let mut price = |&arc: &u32| {
            let own = self.graph.arcs[arc as usize].rate;
            if !self.is_even && own != rate {
                (rate, factor) = (own, rise(load / own));
            }
            prices[arc as usize] * factor
        };
        way.iter().map(&mut price).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_model::fabric::Fabric;
    use antiphon_model::system::System;

    /// What is added to all prices and what is added to those of a way are the same, and numbers however much is carried.
    #[test]
    fn loads_raise_prices_by_what_arcs_are_slow() {
        let of = |spec: &str| Graph::new(&Fabric::parse(spec).unwrap(), &System::preset("ideal").unwrap());
        let graph = of("torus:3x3@100+1");
        let mut own = Own::new(&graph);
        let prices: Vec<f64> = (1..=graph.arcs.len()).map(|arc| arc as f64).collect();
        let way: Vec<u32> = (0..graph.arcs.len() as u32).collect();
        for load in [0.0, 0.01, 0.2, 1e300] {
            let cost = own.cost(&way, &prices, load);
            let added = own.added(&prices, load);
            assert!((added.iter().sum::<f64>() / cost - 1.0).abs() < 1e-9 && cost.is_finite());
            let raised = |slow: bool| {
                let all = graph.arcs.iter().zip(added.iter().zip(&prices));
                all.filter(|(arc, _)| (arc.rate < 0.05) == slow)
                    .map(|(_, (added, price))| added / price)
                    .next()
                    .unwrap()
            };
            assert!(load == 0.0 || load > 1.0 || raised(true) > raised(false));
        }
        // Nothing where all are equally fast.
        let graph = of("torus:3x3");
        let mut own = Own::new(&graph);
        assert_eq!((own.of(1.0), own.added(&prices, 1.0)), (0.0, prices.as_slice()));
    }
}
