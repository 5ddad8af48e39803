//! Plans of before made whole: what is left of each is kept, and where something is missing it takes the ways that are least
//! busy by then.
//!
//! A tree grows from its root by what is left of it, then over the cheapest ways to further ranks (R. C. Prim 1957). The price of an
//! arc rises exponentially with the time for which it is busy, so that the busiest are avoided (S. Plotkin, D. Shmoys and E. Tardos
//! 1995).

use super::graph::Graph;
use super::oracle::{Open, Search};
use super::own::Own;
use super::plan::Plan;
use super::start::{Known, Load};
use crate::error::Result;
use crate::watch::Watch;
use std::collections::{BinaryHeap, HashMap};

/// The price of an arc rises by so many powers of e until it is as busy as it may be.
const STEEP: f64 = 30.0;
/// More than that is no price.
const HIGHEST: f64 = 500.0;
/// What a branch from the root costs, of what an arc costs that is as busy as it may be.
const LEVEL: f64 = 1e-3;
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
    /// What branches carry.
    pub load: Load<'a>,
    /// Picoseconds for every byte that are good enough.
    pub enough: f64,
}

impl Mending<'_> {
    /// The plans, whole, and the picoseconds for every byte for which every arc is busy.
    ///
    /// # Errors
    /// [`crate::error::Code::Interrupted`].
    pub fn mended(&self, mut plans: Vec<Known>, watch: Watch) -> Result<(Vec<Known>, Vec<f64>)> {
        let mut mender = Mender::new(self, &plans);
        // The largest first.
        let is_whole = |plan: &Plan| plan.branches.len() + 1 == self.graph.ranks.len();
        let mut order: Vec<usize> = (0..plans.len()).filter(|&at| !is_whole(&plans[at].plan)).collect();
        order.sort_by(|&a, &b| plans[b].share.total_cmp(&plans[a].share));
        for (done, &at) in order.iter().enumerate() {
            watch.at(done, order.len())?;
            mender.lay(&mut plans[at]);
        }
        let mut before = f64::INFINITY;
        while !self.paths && mender.most() > self.enough && mender.most() < before * BETTER {
            before = mender.most();
            // Those that come to be are looked at, too.
            let (mut at, last) = (0, plans.len() * MOST);
            while at < plans.len() && plans.len() < last {
                watch.at(at, plans.len())?;
                mender.relieve(&mut plans, at);
                at += 1;
            }
        }
        // Counted again, without what has been added and taken away in vain.
        let busy = self.busy(&plans);
        Ok((plans, busy))
    }

    /// Picoseconds for every byte for which some plans keep every arc busy.
    fn busy(&self, plans: &[Known]) -> Vec<f64> {
        let mut bytes = vec![0.0; self.graph.arcs.len()];
        for Known { share, plan, .. } in plans {
            for (branch, &ends) in plan.branches.iter().enumerate() {
                let load = share * self.load.of(ends);
                for &arc in plan.both_ways(branch) {
                    bytes[arc as usize] += load;
                }
            }
        }
        bytes.iter().zip(&self.graph.arcs).map(|(bytes, arc)| bytes / arc.rate).collect()
    }
}

/// Lays plans where arcs are least busy.
struct Mender<'a> {
    to: &'a Mending<'a>,
    enough: f64,
    /// Picoseconds for every byte for which every arc is busy, and what it costs then.
    busy: Vec<f64>,
    prices: Vec<f64>,
    grower: Grower<'a>,
    own: Own<'a>,
    search: Search,
}

impl<'a> Mender<'a> {
    /// With the arcs as busy as plans, or what is left of them, keep them.
    fn new(to: &'a Mending<'a>, plans: &[Known]) -> Self {
        let arcs = to.graph.arcs.len();
        let (grower, own) = (Grower::new(to.graph), Own::new(to.graph));
        let search = Search::new(to.graph.rank_at.len());
        let mut mender =
            Mender { to, enough: to.enough, busy: to.busy(plans), prices: vec![0.0; arcs], grower, own, search };
        if to.paths {
            // Of paths no better time is known than that of before, which what is left takes.
            mender.enough = mender.most().max(f64::MIN_POSITIVE);
        }
        (0..arcs as u32).for_each(|arc| mender.add(arc, 0.0));
        mender
    }

    /// Of the busiest arc.
    fn most(&self) -> f64 {
        self.busy.iter().copied().fold(0.0, f64::max)
    }

    fn add(&mut self, arc: u32, bytes: f64) {
        let (rate, busy) = (self.to.graph.arcs[arc as usize].rate, &mut self.busy[arc as usize]);
        *busy += bytes / rate;
        self.prices[arc as usize] = (STEEP * (*busy / self.enough - 1.0)).min(HIGHEST).exp() / rate;
    }

    /// Counts what some branches of a plan keep busy.
    fn count(&mut self, plan: &Plan, branches: impl IntoIterator<Item = usize>, share: f64) {
        for branch in branches {
            let bytes = share * self.to.load.of(plan.branches[branch]);
            plan.both_ways(branch).iter().for_each(|&arc| self.add(arc, bytes));
        }
    }

    /// Makes a plan whole whose load is counted.
    fn lay(&mut self, known: &mut Known) {
        let left = std::mem::take(&mut known.plan);
        known.plan = match self.to.paths {
            true => {
                let start = left.branches.len();
                let most = known.share * self.to.load.most(known.root, self.to.graph.ranks.len());
                let prices = self.own.added(&self.prices, STEEP / self.enough * most);
                let plan = self.search.added(self.to.graph, prices, known.root, left);
                self.count(&plan, start..plan.branches.len(), known.share);
                plan
            }
            false => self.grown(known.root, known.share, &left, &[]),
        };
    }

    /// The tree with a share that keeps all but some branches of another, which are counted.
    fn grown(&mut self, root: u32, share: f64, left: &Plan, off: &[usize]) -> Plan {
        let (plan, grown) = self.grower.tree(&self.prices, self.to.back.as_deref(), root, left, off);
        match plan.branches.len() - grown.len() < left.branches.len() - off.len() {
            // Branches that lead nowhere are left out.
            true => {
                let kept = (0..left.branches.len()).filter(|branch| off.binary_search(branch).is_err());
                self.count(left, kept, -share);
                self.count(&plan, 0..plan.branches.len(), share);
            }
            false => self.count(&plan, grown, share),
        }
        plan
    }

    /// Lays as much of a plan anew as is too much for the busiest of its arcs.
    fn relieve(&mut self, plans: &mut Vec<Known>, at: usize) {
        let Known { root, share, ref mut plan } = plans[at];
        let (busy, enough) = (&self.busy, self.enough);
        let too_busy: Vec<usize> = plan.places(|arc| busy[arc as usize] > enough);
        let arcs = too_busy.iter().map(|&place| plan.arcs()[place]);
        let Some(worst) = arcs.max_by(|&a, &b| busy[a as usize].total_cmp(&busy[b as usize])) else { return };
        let mut off: Vec<usize> = too_busy.iter().map(|&place| plan.branch_at(place)).collect();
        off.dedup();
        let uses = |branch: usize| plan.both_ways(branch).iter().filter(|&&arc| arc == worst).count();
        let own: f64 = off.iter().map(|&branch| uses(branch) as f64 * self.to.load.of(plan.branches[branch])).sum();
        let own = share * own / self.to.graph.arcs[worst as usize].rate;
        let part = ((busy[worst as usize] - enough) / own * PARTS).ceil() / PARTS;
        let whole = std::mem::take(plan);
        let moved = share * part.min(1.0);
        self.count(&whole, off.iter().copied(), -moved);
        let plan = self.grown(root, moved, &whole, &off);
        plans[at].plan = whole;
        plans[at].share -= moved;
        match part < 1.0 {
            true => plans.push(Known { root, share: moved, plan }),
            false => plans[at] = Known { root, share: moved, plan },
        }
    }
}

/// Grows plans on a graph.
struct Grower<'a> {
    graph: &'a Graph,
    /// What it costs to come to every node from the tree, and the last arc there.
    cost: Vec<f64>,
    last: Vec<u32>,
    /// Ranks of the tree, and how many branches the node of each is from the root.
    in_tree: Vec<bool>,
    depth: Vec<u32>,
    /// What every branch from the root costs.
    level: f64,
    /// Whether a node's rank comes with what is left of the tree, from where that begins.
    is_below: Vec<bool>,
    /// The first branch below every rank, and the next one below the same.
    first: Vec<u32>,
    next: Vec<u32>,
    /// Arcs into every node.
    into: Vec<Vec<u32>>,
    /// Nodes of ranks that are missing, and switches that lead to one; ranks with an arc to these.
    leads: Vec<bool>,
    is_near: Vec<bool>,
    /// Nodes that are looked at next, the nearest first.
    open: BinaryHeap<Open>,
    later: BinaryHeap<Open>,
}

const NONE: u32 = u32::MAX;

impl<'a> Grower<'a> {
    fn new(graph: &'a Graph) -> Self {
        let nodes = graph.rank_at.len();
        let mut into = vec![Vec::new(); nodes];
        (0..).zip(&graph.arcs).for_each(|(id, arc)| into[arc.to as usize].push(id));
        Grower {
            graph,
            cost: vec![],
            last: vec![],
            in_tree: vec![],
            depth: vec![0; nodes],
            level: LEVEL * graph.arcs.iter().map(|arc| 1.0 / arc.rate).sum::<f64>() / graph.arcs.len() as f64,
            is_below: vec![],
            first: vec![],
            next: vec![],
            into,
            leads: vec![],
            is_near: vec![],
            open: BinaryHeap::new(),
            later: BinaryHeap::new(),
        }
    }

    /// The tree from a root that keeps as many branches of another as lead to ranks, but for some that are `off`, in order, and which
    /// of its branches are new. O(branches + arcs log arcs), the arcs near ranks that are missing.
    fn tree(
        &mut self,
        prices: &[f64],
        back: Option<&[u32]>,
        root: u32,
        left: &Plan,
        off: &[usize],
    ) -> (Plan, Vec<usize>) {
        let (graph, nodes, ranks) = (self.graph, self.graph.rank_at.len(), self.graph.ranks.len());
        let reset = |list: &mut Vec<u32>, length: usize| {
            list.clear();
            list.resize(length, NONE);
        };
        reset(&mut self.first, ranks);
        reset(&mut self.next, left.branches.len());
        self.is_below.clear();
        self.is_below.resize(nodes, false);
        let mut off = off.iter().rev().peekable();
        for (branch, &(above, below)) in left.branches.iter().enumerate().rev() {
            if off.next_if_eq(&&branch).is_some() {
                continue;
            }
            self.next[branch] = std::mem::replace(&mut self.first[above as usize], branch as u32);
            self.is_below[graph.ranks[below as usize] as usize] = true;
        }
        reset(&mut self.last, nodes);
        self.cost.clear();
        self.cost.resize(nodes, f64::INFINITY);
        self.in_tree.clear();
        self.in_tree.resize(ranks, false);
        self.open.clear();
        self.later.clear();
        let (mut plan, mut grown) = (Plan::with_capacity(ranks, left.arcs().len()), vec![]);
        // What is left comes first.
        let mut reached = self.hang(left, root, 0, &mut plan);
        self.look_back();
        while plan.branches.len() + 1 < ranks {
            for (rank, depth) in reached.drain(..) {
                if self.is_near[rank as usize] {
                    self.widen(prices, back, graph.ranks[rank as usize], f64::from(depth) * self.level);
                }
            }
            // Ranks that come with what is left of the tree are entered only if where that begins cannot be.
            let Some(Open(cost, node)) = self.open.pop().or_else(|| self.later.pop()) else { break };
            if cost > self.cost[node as usize] {
                continue;
            }
            let Some(rank) = graph.rank_at[node as usize] else {
                self.widen(prices, back, node, cost);
                continue;
            };
            if self.in_tree[rank as usize] {
                continue;
            }
            let from = |&arc: &u32| {
                let node = graph.arcs[arc as usize].from;
                let is_over = graph.rank_at[node as usize].is_some();
                (!is_over).then_some(self.last[node as usize])
            };
            let mut way: Vec<u32> = std::iter::successors(Some(self.last[node as usize]), from).collect();
            let start = graph.arcs[way[way.len() - 1] as usize].from as usize;
            let (above, depth) = (graph.rank_at[start], self.depth[start]);
            let up: Vec<u32> = back.map_or(vec![], |back| way.iter().map(|&arc| back[arc as usize]).collect());
            way.reverse();
            grown.push(plan.branches.len());
            plan.branch(above.expect("ways start at ranks"), rank, up, way);
            reached = self.hang(left, rank, depth + 1, &mut plan);
        }
        (plan, grown)
    }

    /// Adds a rank that is so deep, with what is left of a tree below it; comes back with the ranks and how deep they are.
    fn hang(&mut self, left: &Plan, rank: u32, depth: u32, plan: &mut Plan) -> Vec<(u32, u32)> {
        self.in_tree[rank as usize] = true;
        let (mut open, mut reached) = (vec![(rank, depth)], vec![]);
        while let Some((rank, depth)) = open.pop() {
            self.depth[self.graph.ranks[rank as usize] as usize] = depth;
            reached.push((rank, depth));
            let mut branch = self.first[rank as usize];
            while branch != NONE {
                let at = branch as usize;
                let below = left.branches[at].1;
                if !std::mem::replace(&mut self.in_tree[below as usize], true) {
                    plan.copy(left, at);
                    open.push((below, depth + 1));
                }
                branch = self.next[at];
            }
        }
        reached
    }

    /// Finds from where ranks that are missing can be entered: what is farther away need not be looked at.
    fn look_back(&mut self) {
        let graph = self.graph;
        self.leads.clear();
        self.leads.resize(graph.rank_at.len(), false);
        self.is_near.clear();
        self.is_near.resize(graph.ranks.len(), false);
        let missing = graph.ranks.iter().zip(&self.in_tree).filter(|(_, in_tree)| !**in_tree);
        let mut open: Vec<u32> = missing.map(|(&node, _)| node).collect();
        open.iter().for_each(|&node| self.leads[node as usize] = true);
        while let Some(node) = open.pop() {
            for &arc in &self.into[node as usize] {
                let from = graph.arcs[arc as usize].from;
                match graph.rank_at[from as usize] {
                    Some(rank) => self.is_near[rank as usize] = true,
                    None if !std::mem::replace(&mut self.leads[from as usize], true) => open.push(from),
                    None => (),
                }
            }
        }
    }

    /// Looks at what is beside a node that costs as much.
    fn widen(&mut self, prices: &[f64], back: Option<&[u32]>, node: u32, so_far: f64) {
        for &arc in &self.graph.out[node as usize] {
            let to = self.graph.arcs[arc as usize].to;
            if !self.leads[to as usize] {
                continue;
            }
            let price = prices[arc as usize] + back.map_or(0.0, |back| prices[back[arc as usize] as usize]);
            let cost = so_far + price;
            if cost < self.cost[to as usize] {
                (self.cost[to as usize], self.last[to as usize]) = (cost, arc);
                let open = if self.is_below[to as usize] { &mut self.later } else { &mut self.open };
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

#[cfg(test)]
mod tests {
    use super::super::level::Levelling;
    use super::super::tests::assert_plan;
    use super::super::{Graph, Known, Start, Wanted, mixture};
    use super::*;
    use crate::collective::{Collective, Kind};
    use crate::fabric::Fabric;
    use crate::system::System;
    use crate::watch::Watch;
    use proptest::prelude::*;

    /// The branches of a plan that use none of some arcs.
    fn without(whole: &Plan, is_one: impl Fn(u32) -> bool) -> Plan {
        let mut plan = Plan::default();
        let is_off = |branch: usize| whole.both_ways(branch).iter().any(|&arc| is_one(arc));
        (0..whole.branches.len()).filter(|&branch| !is_off(branch)).for_each(|branch| plan.copy(whole, branch));
        plan
    }

    /// A mixture's plans without some of their branches, for trees away from their roots, or both ways.
    fn broken(graph: &Graph, kind: Kind, lost: impl Fn(u32) -> bool) -> Vec<Known> {
        let wanted = Wanted { accuracy: 1e-3, level: 0.0, trees: None };
        let found = mixture(graph, Collective::new(kind), None, &wanted, Start::default(), Watch::default()).unwrap();
        let known = |(root, share, plan): (u32, f64, Plan)| {
            let below: Vec<u32> = plan.branches.iter().map(|branch| branch.1).collect();
            let tops = plan.branches.iter().map(|branch| branch.0).find(|above| !below.contains(above));
            // A tree of an all-reduce is of any root: here of its own.
            Known {
                root: if kind == Kind::AllReduce { tops.unwrap() } else { root },
                share,
                plan: without(&plan, &lost),
            }
        };
        found.plans.into_iter().map(known).collect()
    }

    /// Ends of a branch, and its ways.
    type Branch = ((u32, u32), [Vec<u32>; 2]);

    fn branches(plan: &Plan) -> Vec<Branch> {
        (0..plan.branches.len()).map(|at| (plan.branches[at], plan.ways(at).map(<[u32]>::to_vec))).collect()
    }

    /// To look near ranks that are missing is enough: the first of them is joined over the cheapest way that there is.
    #[test]
    fn missing_ranks_are_joined_over_the_cheapest_ways() {
        for spec in ["mesh:4x4", "dgx-a100:2", "dgx-h100:4", "fc:5"] {
            let graph = Graph::new(&Fabric::parse(spec).unwrap(), &System::preset("ideal").unwrap());
            let prices: Vec<f64> = (1..=graph.arcs.len()).map(|arc| (arc as f64 * 0.618).fract() + 0.01).collect();
            let whole = broken(&graph, Kind::AllGather, |_| false).swap_remove(0);
            let off: Vec<usize> = (0..whole.plan.branches.len()).skip(1).step_by(4).collect();
            let mut grower = Grower::new(&graph);
            let (plan, grown) = grower.tree(&prices, None, whole.root, &whole.plan, &off);
            assert_plan(&graph, Kind::AllGather, whole.root, &plan);
            let kept: Vec<(u32, u32)> = plan.branches[..grown[0]].to_vec();
            let mut depths = HashMap::from([(whole.root, 0)]);
            kept.iter().for_each(|(above, below)| _ = depths.insert(*below, depths[above] + 1));
            // Others come with these.
            let is_first = |rank: u32| {
                let at = whole.plan.branches.iter().position(|branch| branch.1 == rank);
                !depths.contains_key(&rank) && at.is_some_and(|at| off.contains(&at))
            };
            let mut search = Search::new(graph.rank_at.len());
            let mut least = f64::INFINITY;
            for (&rank, &depth) in &depths {
                search.run(&graph, &prices, graph.ranks[rank as usize], false);
                let costs = (0..).zip(&graph.ranks).filter(|to| is_first(to.0)).map(|to| search.cost(*to.1));
                least = least.min(costs.fold(f64::INFINITY, f64::min) + f64::from(depth) * grower.level);
            }
            let way: f64 = plan.both_ways(grown[0]).iter().map(|&arc| prices[arc as usize]).sum();
            let cost = way + f64::from(depths[&plan.branches[grown[0]].0]) * grower.level;
            assert!((cost / least - 1.0).abs() < 1e-9, "{spec}: {cost} {least}");
        }
    }

    /// Of paths nothing may be left, so that no arc is busy.
    #[test]
    fn paths_that_are_all_lost_are_laid_anew() {
        let graph = Graph::new(&Fabric::parse("dgx1v").unwrap(), &System::preset("ideal").unwrap());
        let none = |root| Known { root, share: 1.0, plan: Plan::default() };
        let load = Load { share: 0.125, matrix: None };
        let mending = Mending { graph: &graph, paths: true, back: None, load, enough: f64::INFINITY };
        let (found, _) = mending.mended((0..8).map(none).collect(), Watch::default()).unwrap();
        found.iter().for_each(|each| assert_plan(&graph, Kind::AllToAll, each.root, &each.plan));
        // Neither are numbers of what is not busy.
        let levelling = Levelling::new(&graph, load, vec![0.0; graph.arcs.len()]);
        let levelled = levelling.levelled(vec![], None, 1e-3, Watch::default()).unwrap();
        assert!(levelled.prices.iter().all(|price| price.is_finite()) && levelled.time == 0.0);
    }

    proptest! {
        /// Plans are whole, of the same shares, and keep what was left; the busiest arc is counted right.
        #[test]
        fn what_is_mended_is_whole(
            spec in prop::sample::select(vec!["fc:5", "dgx-a100:2", "dgx1v", "torus:3x3"]),
            kind in prop::sample::select(vec![Kind::AllGather, Kind::AllReduce, Kind::Broadcast, Kind::AllToAll]),
            lost in any::<u32>(),
            is_enough in any::<bool>(),
        ) {
            let graph = Graph::new(&Fabric::parse(spec).unwrap(), &System::preset("ideal").unwrap());
            let (ranks, arcs) = (graph.ranks.len(), graph.arcs.len() as u32);
            let known = broken(&graph, kind, |arc| arc == lost % arcs || arc == (lost >> 8) % arcs);
            let back = if kind == Kind::AllReduce { opposite(&graph) } else { None };
            let share = if matches!(kind, Kind::AllGather | Kind::AllToAll) { 1.0 / ranks as f64 } else { 1.0 };
            let paths = kind == Kind::AllToAll;
            // Of paths no time is enough.
            let is_enough = is_enough || paths;
            let enough = if is_enough { f64::INFINITY } else { 1e-3 };
            let mending = Mending { graph: &graph, paths, back, load: Load { share, matrix: None }, enough };
            let (found, counted) = mending.mended(known.clone(), Watch::default()).unwrap();
            let mut busy = vec![0.0; graph.arcs.len()];
            for each in &found {
                assert_plan(&graph, kind, each.root, &each.plan);
                for &arc in each.plan.arcs() {
                    busy[arc as usize] += share * each.share / graph.arcs[arc as usize].rate;
                }
            }
            prop_assert!(counted.iter().zip(&busy).all(|(counted, busy)| (counted - busy).abs() <= 1e-9 * busy));
            for root in 0..ranks as u32 {
                let sum = |all: &[Known]| all.iter().filter(|one| one.root == root).map(|one| one.share).sum::<f64>();
                prop_assert!((sum(&found) - sum(&known)).abs() < 1e-9);
            }
            if is_enough {
                for (before, after) in known.iter().zip(&found) {
                    let after = branches(&after.plan);
                    prop_assert!(branches(&before.plan).iter().all(|branch| after.contains(branch)));
                }
            }
        }
    }
}
