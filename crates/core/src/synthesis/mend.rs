//! Plans of before made whole: what is left of each is kept, and where something is missing it takes the ways that are least
//! busy by then.
//!
//! A tree grows from its root by what is left of it, then over the cheapest ways to further ranks (R. C. Prim 1957). The price of an
//! arc rises exponentially with the time for which it is busy, so that the busiest are avoided (S. Plotkin, D. Shmoys and E. Tardos
//! 1995).

use super::graph::Graph;
use super::oracle::{Open, Search};
use super::plan::Plan;
use super::start::Known;
use crate::error::Result;
use crate::watch::Watch;
use std::collections::{BinaryHeap, HashMap};

/// By how many times e the price of an arc rises to that of the busiest.
const STEEP: f64 = 30.0;
/// Plans over arcs that are too busy are laid anew in so many parts.
const PARTS: f64 = 16.0;
/// So many times as many plans come to be at most.
const MOST: usize = 4;
/// As long as the busiest arc is as much less busy then.
const BETTER: f64 = 0.99;

/// What plans are made whole for.
pub struct Mending<'a> {
    /// The graph; plans lead away from their roots.
    pub graph: &'a Graph,
    /// Whether plans are paths, not trees.
    pub paths: bool,
    /// Arc in the opposite direction of each, for trees that go both ways.
    pub back: Option<Vec<u32>>,
    /// What a branch carries for every share of its plan, for every byte of the collective.
    pub load: &'a dyn Fn((u32, u32)) -> f64,
    /// Picoseconds for every byte that are good enough.
    pub enough: f64,
}

impl Mending<'_> {
    /// The plans, whole, and the picoseconds for every byte for which the busiest arc is busy.
    ///
    /// # Errors
    /// [`crate::error::Code::Interrupted`].
    pub fn mended(&self, plans: &[Known], watch: Watch) -> Result<(Vec<Known>, f64)> {
        let graph = self.graph;
        let mut busy = vec![0.0; graph.arcs.len()];
        let mut grower = Grower::new(graph);
        plans.iter().for_each(|known| self.add(&mut busy, known, 1.0));
        let mut plans = plans.to_vec();
        // The largest first.
        let mut order: Vec<usize> = (0..plans.len()).filter(|&at| !self.is_whole(&plans[at].plan)).collect();
        order.sort_by(|&a, &b| plans[b].share.total_cmp(&plans[a].share));
        for (done, &at) in order.iter().enumerate() {
            watch.at(done, order.len())?;
            self.lay(&mut grower, &mut busy, &mut plans[at]);
        }
        let most = |busy: &[f64]| busy.iter().copied().fold(0.0, f64::max);
        let mut before = f64::INFINITY;
        while most(&busy) > self.enough && most(&busy) < before * BETTER {
            before = most(&busy);
            // Those that come to be are looked at, too.
            let (mut at, last) = (0, plans.len() * MOST);
            while at < plans.len() && plans.len() < last {
                watch.at(at, plans.len())?;
                self.relieve(&mut grower, &mut busy, &mut plans, at);
                at += 1;
            }
        }
        // Without what has been added and taken away in vain.
        busy.fill(0.0);
        plans.iter().for_each(|known| self.add(&mut busy, known, 1.0));
        Ok((plans, busy.into_iter().fold(0.0, f64::max)))
    }

    /// Lays as much of a plan anew as is too much for the busiest of its arcs.
    fn relieve(&self, grower: &mut Grower, busy: &mut [f64], plans: &mut Vec<Known>, at: usize) {
        let known = &mut plans[at];
        let Some(&worst) = known.plan.arcs().iter().max_by(|&&a, &&b| busy[a as usize].total_cmp(&busy[b as usize]))
        else {
            return;
        };
        let too_much = busy[worst as usize] - self.enough;
        if too_much <= 0.0 {
            return;
        }
        let mut own = vec![0.0; busy.len()];
        self.add(&mut own, known, 1.0);
        let part = (too_much / own[worst as usize] * PARTS).ceil() / PARTS;
        let less = known.plan.without(|arc| busy[arc as usize] > self.enough);
        let mut moved = Known { share: known.share * part.min(1.0), ..known.clone() };
        known.share -= moved.share;
        self.add(busy, &moved, -1.0);
        moved.plan = less;
        self.add(busy, &moved, 1.0);
        self.lay(grower, busy, &mut moved);
        match part < 1.0 {
            true => plans.push(moved),
            false => plans[at] = moved,
        }
    }

    fn is_whole(&self, plan: &Plan) -> bool {
        plan.branches.len() + 1 == self.graph.ranks.len()
    }

    /// Makes a plan whole whose load is counted.
    fn lay(&self, grower: &mut Grower, busy: &mut [f64], known: &mut Known) {
        let most = busy.iter().copied().fold(self.enough, f64::max);
        let price = |arc: u32| {
            let price =
                |arc: u32| (STEEP * (busy[arc as usize] / most - 1.0)).exp() / self.graph.arcs[arc as usize].rate;
            price(arc) + self.back.as_ref().map_or(0.0, |back| price(back[arc as usize]))
        };
        let prices: Vec<f64> = (0..busy.len() as u32).map(price).collect();
        let whole = match self.paths {
            true => grower.paths(&prices, known.root, known.plan.clone()),
            false => grower.tree(&prices, self.back.as_deref(), known.root, &known.plan),
        };
        self.add(busy, known, -1.0);
        known.plan = whole;
        self.add(busy, known, 1.0);
    }

    /// Counts what a plan keeps busy, so many times.
    fn add(&self, busy: &mut [f64], known: &Known, times: f64) {
        for (branch, &ends) in known.plan.branches.iter().enumerate() {
            let load = times * known.share * (self.load)(ends);
            for &arc in known.plan.ways(branch).into_iter().flatten() {
                busy[arc as usize] += load / self.graph.arcs[arc as usize].rate;
            }
        }
    }
}

/// Grows plans on a graph.
struct Grower<'a> {
    graph: &'a Graph,
    search: Search,
    /// What it costs to come to every node from the tree, and the last arc there.
    cost: Vec<f64>,
    last: Vec<u32>,
}

/// In the heap of a tree that grows: a node that ways lead to, or past all nodes a branch that was there before.
type Next = Open;

impl<'a> Grower<'a> {
    fn new(graph: &'a Graph) -> Self {
        let nodes = graph.rank_at.len();
        Grower { graph, search: Search::new(nodes), cost: vec![], last: vec![] }
    }

    /// The paths of a plan, and the cheapest to each rank that it has no path to.
    fn paths(&mut self, prices: &[f64], from: u32, mut plan: Plan) -> Plan {
        let ranks = self.graph.ranks.len();
        let mut has = vec![false; ranks];
        has[from as usize] = true;
        plan.branches.iter().for_each(|branch| has[branch.1 as usize] = true);
        self.search.run(self.graph, prices, from, true);
        for to in (0..ranks as u32).filter(|&to| !has[to as usize]) {
            let mut arcs: Vec<u32> = self.search.back(self.graph, self.graph.ranks[to as usize]).collect();
            arcs.reverse();
            plan.branch(from, to, [], arcs);
        }
        plan
    }

    /// The tree from a root that keeps as many branches of another as lead to ranks. O(arcs log arcs).
    fn tree(&mut self, prices: &[f64], back: Option<&[u32]>, root: u32, left: &Plan) -> Plan {
        let (graph, nodes) = (self.graph, self.graph.rank_at.len());
        let mut below = vec![Vec::new(); graph.ranks.len()];
        (0..).zip(&left.branches).for_each(|(branch, &(above, _))| below[above as usize].push(branch));
        self.cost.clear();
        self.cost.resize(nodes, f64::INFINITY);
        self.last.clear();
        self.last.resize(nodes, u32::MAX);
        let mut in_tree = vec![false; graph.ranks.len()];
        let mut open: BinaryHeap<Next> = BinaryHeap::new();
        let mut plan = Plan::default();
        let mut reached = Some(root);
        loop {
            if let Some(rank) = reached.take() {
                in_tree[rank as usize] = true;
                let node = graph.ranks[rank as usize];
                (self.cost[node as usize], self.last[node as usize]) = (0.0, u32::MAX);
                self.widen(prices, node, &mut open);
                open.extend(below[rank as usize].iter().map(|&branch: &usize| Open(-1.0, (nodes + branch) as u32)));
            }
            let Some(Open(cost, at)) = open.pop() else { break };
            if let Some(branch) = (at as usize).checked_sub(nodes) {
                let ((above, rank), [up, down]) = (left.branches[branch], left.ways(branch));
                if !in_tree[rank as usize] {
                    plan.branch(above, rank, up.iter().copied(), down.iter().copied());
                    reached = Some(rank);
                }
            } else if cost <= self.cost[at as usize] {
                match graph.rank_at[at as usize] {
                    None => self.widen(prices, at, &mut open),
                    Some(rank) if in_tree[rank as usize] => (),
                    Some(rank) => {
                        let last = |node: u32| Some(self.last[node as usize]).filter(|&arc| arc != u32::MAX);
                        let from = |&arc: &u32| last(graph.arcs[arc as usize].from);
                        let mut way: Vec<u32> = std::iter::successors(last(at), from).collect();
                        let start = way.last().map_or(at, |&arc| graph.arcs[arc as usize].from);
                        let above = graph.rank_at[start as usize].expect("ways start at ranks");
                        let up: Vec<u32> =
                            back.map_or(vec![], |back| way.iter().map(|&arc| back[arc as usize]).collect());
                        way.reverse();
                        plan.branch(above, rank, up, way);
                        reached = Some(rank);
                    }
                }
            }
        }
        plan
    }

    /// Looks at what is beside a node.
    fn widen(&mut self, prices: &[f64], node: u32, open: &mut BinaryHeap<Next>) {
        for &arc in &self.graph.out[node as usize] {
            let (to, cost) = (self.graph.arcs[arc as usize].to, self.cost[node as usize] + prices[arc as usize]);
            if cost < self.cost[to as usize] {
                (self.cost[to as usize], self.last[to as usize]) = (cost, arc);
                open.push(Open(cost, to));
            }
        }
    }
}

/// The arc in the opposite direction of each, if all have one that is as fast.
pub fn opposite(graph: &Graph) -> Option<Vec<u32>> {
    let mut free: HashMap<(u32, u32, u64), Vec<u32>> = HashMap::new();
    for (id, arc) in (0..).zip(&graph.arcs) {
        free.entry((arc.from, arc.to, arc.rate.to_bits())).or_default().push(id);
    }
    free.values_mut().for_each(|ids| ids.reverse());
    graph.arcs.iter().map(|arc| free.get_mut(&(arc.to, arc.from, arc.rate.to_bits()))?.pop()).collect()
}
