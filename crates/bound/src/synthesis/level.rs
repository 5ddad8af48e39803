//! Paths levelled: one after the other, those over the busiest arcs are led along ways that cost less.
//!
//! Every path is small beside what an arc carries, so that this comes close to the optimum within a few looks at all of them.
//! The price of an arc rises exponentially with the time for which it is busy (S. Plotkin, D. Shmoys and E. Tardos 1995). In
//! the end the busiest arcs are often those of one cut, which then proves how near it is.

use super::graph::Graph;
use super::oracle::Search;
use super::own::{Own, rise};
use super::plan::Plan;
use super::start::{Known, Load};
use antiphon_base::error::Result;
use antiphon_base::watch::Watch;

/// The price of an arc rises by so many powers of e until it is as busy as the busiest.
const STEEP: f64 = 200.0;
/// Paths are led off arcs that lack no more than this part to be the busiest, as far as those are busier than they need be.
const OFF: f64 = 0.1;
/// Arcs may be the limit that lack no more than this part to be the busiest.
const NEARLY: f64 = 5e-3;
/// Looks at all paths, at most, and those without gain after which the best is taken.
const LOOKS: usize = 32;
const PATIENCE: usize = 1;
/// Plans of no larger shares are not split.
const SMALLEST: f64 = 1.0 / 16.0;
/// Halves of plans add no more than so many arcs, or so many times as many as there were.
const ROOM: usize = 1 << 22;
const TIMES: usize = 3;

/// Plans of paths that are levelled, and how near to the optimum they are.
pub struct Levelled {
    pub plans: Vec<Known>,
    /// Picoseconds for every byte for which the busiest arc is busy.
    pub time: f64,
    /// Prices of arcs, and the picoseconds for every byte that they prove no mixture to be below.
    pub prices: Vec<f64>,
    pub least: f64,
}

impl Levelled {
    /// With the prices if they prove more.
    fn prove(&mut self, prices: Vec<f64>, graph: &Graph, load: Load) {
        let least = proven(graph, load, &prices);
        if least > self.least {
            (self.least, self.prices) = (least, prices);
        }
    }
}

/// Paths on a graph, with what they carry.
pub struct Levelling<'a> {
    graph: &'a Graph,
    load: Load<'a>,
    /// Picoseconds for every byte for which every arc is busy, and those of the busiest when the look at all began.
    busy: Vec<f64>,
    most: f64,
    /// Paths may stay over arcs that are no busier.
    enough: f64,
    /// Arcs that halves of plans may add.
    room: usize,
    prices: Vec<f64>,
    own: Own<'a>,
    /// The cheapest ways from a root for a load, of this look.
    search: Search,
    searched: Option<(u32, f64)>,
}

impl<'a> Levelling<'a> {
    /// Of plans that keep arcs so `busy`.
    pub fn new(graph: &'a Graph, load: Load<'a>, busy: Vec<f64>) -> Self {
        let search = Search::new(graph.rank_at.len());
        let own = Own::new(graph);
        Levelling { graph, load, busy, most: 0.0, enough: 0.0, room: 0, prices: vec![], own, search, searched: None }
    }

    /// The plans levelled, until prices prove that they take longer than the optimum by no more than a part of `near`; those
    /// that are `known` may prove that, too.
    ///
    /// # Errors
    /// [`antiphon_base::error::Code::Interrupted`].
    pub fn levelled(
        mut self,
        mut plans: Vec<Known>,
        mut known: Option<Vec<f64>>,
        near: f64,
        watch: Watch,
    ) -> Result<Levelled> {
        let none = vec![0.0; self.busy.len()];
        let mut best = Levelled { plans: vec![], time: self.busiest(), prices: none, least: 0.0 };
        self.room = ROOM.max(TIMES * plans.iter().map(|known| known.plan.arcs().len()).sum::<usize>());
        let mut worse = 0;
        for look in 0..LOOKS {
            if worse == 0 {
                best.plans.clone_from(&plans);
            }
            self.most = self.busiest().max(f64::MIN_POSITIVE);
            self.enough = (best.least * (1.0 + near)).max(self.most * (1.0 - OFF));
            self.prices = (0..self.busy.len()).map(|arc| self.price(arc)).collect();
            self.searched = None;
            let mut at = 0;
            while at < plans.len() {
                watch.step(look * plans.len() + at, LOOKS * plans.len())?;
                let other = self.reroute(&mut plans[at], look > 0);
                plans.extend(other);
                at += 1;
            }
            worse += 1;
            let time = self.busiest();
            if time < best.time {
                (best.time, worse) = (time, 0);
            }
            let nearly = time * (1.0 - NEARLY);
            let is_nearly = |&busy: &f64| f64::from(u8::from(busy > nearly));
            let limit: Vec<f64> = self.busy.iter().map(is_nearly).collect();
            best.prove(limit, self.graph, self.load);
            // The limit mostly proves as much as what was the limit before.
            if look > 0
                && best.time > best.least * (1.0 + near)
                && let Some(known) = known.take()
            {
                best.prove(known, self.graph, self.load);
            }
            if worse > PATIENCE || best.time <= best.least * (1.0 + near) {
                break;
            }
        }
        if best.time > best.least * (1.0 + near) {
            // Links that all are worth the same always prove something.
            let even = self.graph.arcs.iter().map(|arc| 1.0 / arc.rate).collect();
            best.prove(even, self.graph, self.load);
        }
        if worse == 0 {
            best.plans = plans;
        }
        Ok(best)
    }

    fn busiest(&self) -> f64 {
        self.busy.iter().copied().fold(0.0, f64::max)
    }

    fn price(&self, arc: usize) -> f64 {
        // What a path adds to the busiest is little.
        (STEEP * (self.busy[arc] / self.most - 1.0)).exp() / self.graph.arcs[arc].rate
    }

    /// Leads the paths of a plan that are over the busiest arcs along the cheapest ways. Where that is too much, half of the plan
    /// stays as it is if it may be split, and comes back.
    fn reroute(&mut self, known: &mut Known, may_split: bool) -> Option<Known> {
        let enough = self.enough;
        let is_busy = |way: &[u32], busy: &[f64]| way.iter().any(|&arc| busy[arc as usize] > enough);
        if !is_busy(known.plan.arcs(), &self.busy) {
            return None;
        }
        let steep = STEEP / self.most;
        let most = self.own.of(known.share * self.load.most(known.root, self.graph.ranks.len()) * steep);
        if self.searched != Some((known.root, most)) {
            let prices = self.own.added(&self.prices, most);
            self.search.run(self.graph, prices, self.graph.ranks[known.root as usize], true);
            self.searched = Some((known.root, most));
        }
        let mut half = None;
        let whole = &known.plan;
        // Branches, and where their new ways end in one list.
        let (mut moved, mut ways): (Vec<(usize, usize)>, Vec<u32>) = (vec![], vec![]);
        for (branch, &(from, to)) in whole.branches.iter().enumerate() {
            let own = whole.both_ways(branch);
            let load = self.load.of((from, to));
            if load == 0.0 || !is_busy(own, &self.busy) {
                continue;
            }
            let start = ways.len();
            ways.extend(self.search.back(self.graph, self.graph.ranks[to as usize]));
            ways[start..].reverse();
            let other = &ways[start..];
            if other.is_empty() {
                continue;
            }
            let mut is_moved = false;
            let cost = |to: &Self, way: &[u32], load: f64| to.own.cost(way, &to.prices, load * steep);
            // Prices have changed since the search, and what the path itself adds to them counts on both ways.
            while cost(self, other, 0.0) < cost(self, own, 0.0) {
                let carried = known.share * load;
                self.add(own, -carried);
                is_moved = cost(self, other, carried) < cost(self, own, carried);
                self.add(if is_moved { other } else { own }, carried);
                // A half stays as it is: that nothing has been moved yet is what the arcs count on.
                let is_split = may_split && moved.is_empty() && half.is_none() && known.share > SMALLEST;
                if is_moved || !is_split || self.room < whole.arcs().len() {
                    break;
                }
                self.room -= whole.arcs().len();
                known.share /= 2.0;
                half = Some(Known { share: known.share, plan: whole.clone(), ..*known });
            }
            match is_moved {
                true => moved.push((branch, ways.len())),
                false => ways.truncate(start),
            }
        }
        if !moved.is_empty() {
            let mut plan = Plan::with_capacity(whole.branches.len(), whole.arcs().len());
            let (mut moved, mut start) = (moved.into_iter().peekable(), 0);
            for (branch, &(from, to)) in whole.branches.iter().enumerate() {
                let way = match moved.next_if(|moved| moved.0 == branch) {
                    Some((_, end)) => &ways[std::mem::replace(&mut start, end)..end],
                    None => whole.both_ways(branch),
                };
                plan.push((from, to), [&[], way]);
            }
            known.plan = plan;
        }
        half
    }

    fn add(&mut self, way: &[u32], bytes: f64) {
        // Most arcs of a way are equally fast, and rise in price by the same factor.
        let (mut time, mut factor) = (0.0, 1.0);
        for &arc in way {
            let more = bytes / self.graph.arcs[arc as usize].rate;
            if more != time {
                (time, factor) = (more, rise(STEEP * more / self.most));
            }
            self.busy[arc as usize] += more;
            self.prices[arc as usize] *= factor;
        }
    }
}

/// Picoseconds for every byte that prices prove no mixture of paths to be below.
fn proven(graph: &Graph, load: Load, prices: &[f64]) -> f64 {
    let mut search = Search::new(graph.rank_at.len());
    let worth: f64 = graph.arcs.iter().zip(prices).map(|(arc, price)| arc.rate * price).sum();
    let mut cost = 0.0;
    for (from, &node) in (0..).zip(&graph.ranks) {
        search.run(graph, prices, node, true);
        let others = (0..).zip(&graph.ranks).filter(|other| other.0 != from);
        cost += others.map(|(to, &node)| load.of((from, to)) * search.cost(node)).sum::<f64>();
    }
    if worth > 0.0 { cost / worth } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::tests::assert_plan;
    use super::super::{Start, Wanted, mixture};
    use super::*;
    use antiphon_base::units::Rate;
    use antiphon_model::collective::{Collective, Kind};
    use antiphon_model::fabric::{Fabric, Link, Node, Shape};
    use antiphon_model::system::System;

    /// A shortest path of every pair.
    fn shortest(graph: &Graph) -> (Vec<Known>, Load<'static>) {
        let ranks = graph.ranks.len() as u32;
        let mut search = Search::new(graph.rank_at.len());
        let hops = vec![1.0; graph.arcs.len()];
        let mut plan = |root| search.added(graph, &hops, root, Plan::default());
        let plans = (0..ranks).map(|root| Known { root, share: 1.0, plan: plan(root) }).collect();
        (plans, Load { share: 1.0 / f64::from(ranks), matrix: None })
    }

    fn busy(graph: &Graph, plans: &[Known], load: Load) -> Vec<f64> {
        let mut busy = vec![0.0; graph.arcs.len()];
        for Known { share, plan, .. } in plans {
            let add = |&arc: &u32| busy[arc as usize] += share * load.share / graph.arcs[arc as usize].rate;
            plan.arcs().iter().for_each(add);
        }
        busy
    }

    /// Paths are split finely enough to come as near as they are to be.
    #[test]
    fn parts_of_paths_are_small_enough() {
        let graph = Graph::new(&Fabric::parse("torus:8x8,drop=3-4").unwrap(), &System::preset("ideal").unwrap());
        let (plans, load) = shortest(&graph);
        let busy = busy(&graph, &plans, load);
        let found = Levelling::new(&graph, load, busy).levelled(plans, None, 1e-3, Watch::default()).unwrap();
        assert!(found.time <= found.least * 1.001, "{} {}", found.time, found.least);
    }

    /// A torus at 100 GB/s, and a switch that every rank has a slower link to and from.
    fn beside_a_switch(size: usize, rate: u64) -> Graph {
        let ranks = (size * size) as u32;
        let mut fabric = Fabric::parse(&format!("torus:{size}x{size}@100")).unwrap();
        let mut nodes = std::mem::take(&mut fabric.nodes);
        nodes.push(Node::switch("forwards", []));
        let to = |rank| Link { rate: Some(Rate::gb_per_s(rate)), ..Link::new(rank, ranks, "x") };
        fabric.links.extend((0..ranks).flat_map(|rank| [to(rank), to(rank).reversed()]));
        let fabric = Fabric::new("beside", Shape::Graph, nodes, fabric.links).unwrap();
        Graph::new(&fabric, &System::preset("ideal").unwrap())
    }

    /// A path is not led over links that it alone makes the busiest; and something is proven even if all others can be gone round.
    #[test]
    fn links_of_other_rates() {
        for (size, rate) in [(4, 1), (5, 1), (5, 2)] {
            let graph = beside_a_switch(size, rate);
            let quick: Vec<f64> = graph.arcs.iter().map(|arc| 1.0 / arc.rate).collect();
            let mut search = Search::new(graph.rank_at.len());
            let mut plan = |root| search.added(&graph, &quick, root, Plan::default());
            let plans: Vec<Known> =
                (0..(size * size) as u32).map(|root| Known { root, share: 1.0, plan: plan(root) }).collect();
            let load = Load { share: 1.0 / (size * size) as f64, matrix: None };
            let busy = busy(&graph, &plans, load);
            let found = Levelling::new(&graph, load, busy).levelled(plans, None, 1e-3, Watch::default()).unwrap();
            let wanted = Wanted { accuracy: 1e-3, level: 0.0, trees: None };
            let collective = Collective::new(Kind::AllToAll);
            let best = mixture(&graph, collective, None, &wanted, Start::default(), Watch::default()).unwrap();
            assert!(found.time < best.time * 1.05, "{size} {rate}: {} {}", found.time, best.time);
            assert!(found.least > 0.0, "{size} {rate}");
        }
    }

    /// From shortest paths paths come near to the optimum of the linear program, stay whole, and prices prove it.
    #[test]
    fn levelled_paths_are_near_the_optimum() {
        for spec in ["mesh:4x4,drop=5-6", "torus:4x4,drop=5-6", "dgx-h100:2,drop=0-18"] {
            let graph = Graph::new(&Fabric::parse(spec).unwrap(), &System::preset("ideal").unwrap());
            let ranks = graph.ranks.len() as u32;
            let (plans, load) = shortest(&graph);
            let levelling = Levelling::new(&graph, load, busy(&graph, &plans, load));
            let found = levelling.levelled(plans, None, 1e-3, Watch::default()).unwrap();
            found.plans.iter().for_each(|known| assert_plan(&graph, Kind::AllToAll, known.root, &known.plan));
            for root in 0..ranks {
                let shares = found.plans.iter().filter(|known| known.root == root).map(|known| known.share);
                assert!((shares.sum::<f64>() - 1.0).abs() < 1e-9);
            }
            let most = busy(&graph, &found.plans, load).into_iter().fold(0.0, f64::max);
            assert!((found.time / most - 1.0).abs() < 1e-9, "{spec}");
            assert_eq!(found.least, proven(&graph, load, &found.prices));
            let wanted = Wanted { accuracy: 1e-6, level: 0.0, trees: None };
            let collective = Collective::new(Kind::AllToAll);
            let best = mixture(&graph, collective, None, &wanted, Start::default(), Watch::default()).unwrap();
            assert!(found.least <= best.time * (1.0 + 1e-9), "{spec}");
            assert!(found.time < best.time * 1.02, "{spec}: {} {}", found.time, best.time);
        }
    }
}
