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
/// Of what the busiest arc is too busy, others may come to be so much at a look at all plans, so that many share it first.
const SHARED: f64 = 0.6;
/// The same that is left after a look which was worth another one, at most.
const BETTER: f64 = 0.75;

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
        while !self.paths && mender.most() > self.enough && mender.most() - self.enough < before * BETTER {
            before = mender.most() - self.enough;
            mender.limit = self.enough + before * SHARED;
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
    /// No arc may come to be busier by what is laid anew than this, or than the arc that is relieved.
    limit: f64,
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
        let (enough, busy, prices) = (to.enough, to.busy(plans), vec![0.0; arcs]);
        let mut mender = Mender { to, enough, limit: enough, busy, prices, grower, own, search };
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
            false => {
                let grown = self.grower.tree(&self.prices, self.to.back.as_deref(), known.root, &left, &[]);
                self.count(&left, grown.gone, -known.share);
                self.count(&grown.plan, grown.start..grown.plan.branches.len(), known.share);
                grown.plan
            }
        };
    }

    /// Lays as much of a plan anew as is too much for the busiest of its arcs, if that does not make others too busy.
    fn relieve(&mut self, plans: &mut Vec<Known>, at: usize) {
        let Known { root, share, ref plan } = plans[at];
        let (busy, enough) = (&self.busy, self.enough);
        let too_busy: Vec<usize> = plan.places(|arc| busy[arc as usize] > enough);
        let arcs = too_busy.iter().map(|&place| plan.arcs()[place]);
        let Some(worst) = arcs.max_by(|&a, &b| busy[a as usize].total_cmp(&busy[b as usize])) else { return };
        let mut off: Vec<usize> = too_busy.iter().map(|&place| plan.branch_at(place)).collect();
        off.dedup();
        let grown = self.grower.tree(&self.prices, self.to.back.as_deref(), root, plan, &off);
        let moved = self.room(share, plan, &grown, worst);
        if moved <= 0.0 {
            return;
        }
        let whole = std::mem::take(&mut plans[at].plan);
        self.count(&whole, grown.gone, -moved);
        self.count(&grown.plan, grown.start..grown.plan.branches.len(), moved);
        let known = Known { root, share: moved, plan: grown.plan };
        if moved < share {
            plans[at] = Known { root, share: share - moved, plan: whole };
            plans.push(known);
        } else {
            plans[at] = known;
        }
    }

    /// How much of a plan with a share may become what is grown from it, in whole parts: as much as is too much for the busiest of its
    /// arcs, unless others come to be busier than they may.
    fn room(&self, share: f64, plan: &Plan, grown: &Grown, worst: u32) -> f64 {
        // Picoseconds for every byte by which arcs are busier if all of a root's bytes go.
        let gone = grown.gone.iter().map(|&branch| (plan, branch, -1.0));
        let new = (grown.start..grown.plan.branches.len()).map(|branch| (&grown.plan, branch, 1.0));
        let mut each: Vec<(u32, f64)> = vec![];
        for (plan, branch, sign) in gone.chain(new) {
            let bytes = sign * self.to.load.of(plan.branches[branch]);
            let more = |&arc: &u32| (arc, bytes / self.to.graph.arcs[arc as usize].rate);
            each.extend(plan.both_ways(branch).iter().map(more));
        }
        each.sort_unstable_by_key(|more| more.0);
        let of_arc = |all: &[(u32, f64)]| (all[0].0, all.iter().map(|more| more.1).sum::<f64>());
        let all = || each.chunk_by(|a, b| a.0 == b.0).map(of_arc);
        let less = all().find(|more| more.0 == worst).map_or(0.0, |more| -more.1);
        if less <= 0.0 {
            return 0.0;
        }
        let most = self.busy[worst as usize];
        let room = all().filter(|more| more.1 > 0.0).map(|(arc, more)| {
            let busy = self.busy[arc as usize];
            ((self.limit - busy) / more).max((most - busy) / (more + less))
        });
        let part = share / PARTS;
        let room = (room.fold(f64::INFINITY, f64::min) / part).floor();
        let needed = ((most - self.enough) / less / part).ceil();
        part * needed.min(room).clamp(0.0, PARTS)
    }
}

/// A tree that is grown from another one.
struct Grown {
    plan: Plan,
    /// Its first branch that is new: the last ones are.
    start: usize,
    /// Branches of the other one that it has not, in order.
    gone: Vec<usize>,
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
    /// The branch of what is left of the tree that a node's rank comes with, but where trees go both ways: these may be turned round,
    /// so that it does not matter where they are entered.
    over: Vec<u32>,
    /// The first branch at every rank, and the next one at the same: twice its number from its upper rank, and one more from its
    /// lower one, which only trees that go both ways have.
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
            over: vec![],
            first: vec![],
            next: vec![],
            into,
            leads: vec![],
            is_near: vec![],
            open: BinaryHeap::new(),
            later: BinaryHeap::new(),
        }
    }

    /// The tree from a root that keeps as many branches of another as lead to ranks, but for some that are `off`, in order.
    /// O(branches + arcs log arcs), the arcs near ranks that are missing.
    fn tree(&mut self, prices: &[f64], back: Option<&[u32]>, root: u32, left: &Plan, off: &[usize]) -> Grown {
        let (graph, nodes, ranks) = (self.graph, self.graph.rank_at.len(), self.graph.ranks.len());
        let reset = |list: &mut Vec<u32>, length: usize| {
            list.clear();
            list.resize(length, NONE);
        };
        reset(&mut self.first, ranks);
        reset(&mut self.next, 2 * left.branches.len());
        reset(&mut self.over, nodes);
        let mut rest = off.iter().peekable();
        for (branch, &(above, below)) in left.branches.iter().enumerate() {
            if rest.next_if_eq(&&branch).is_some() {
                continue;
            }
            self.next[2 * branch] = std::mem::replace(&mut self.first[above as usize], 2 * branch as u32);
            match back {
                Some(_) => {
                    let link = 2 * branch as u32 + 1;
                    self.next[link as usize] = std::mem::replace(&mut self.first[below as usize], link);
                }
                None => self.over[graph.ranks[below as usize] as usize] = branch as u32,
            }
        }
        reset(&mut self.last, nodes);
        self.cost.clear();
        self.cost.resize(nodes, f64::INFINITY);
        self.in_tree.clear();
        self.in_tree.resize(ranks, false);
        self.open.clear();
        self.later.clear();
        let (mut new, mut gone, mut turned) = (Plan::default(), off.to_vec(), vec![]);
        // What is left comes first.
        let mut reached = self.hang(left, root, 0, &mut turned);
        let mut count = reached.len();
        self.look_back();
        while count < ranks {
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
            new.branch(above.expect("ways start at ranks"), rank, up, way);
            let over = self.over[node as usize];
            if over != NONE {
                gone.push(over as usize);
            }
            reached = self.hang(left, rank, depth + 1, &mut turned);
            count += reached.len();
        }
        gone.sort_unstable();
        let mut plan = left.without(&gone);
        turned.into_iter().for_each(|branch: usize| plan.turn(branch - gone.partition_point(|&one| one < branch)));
        Grown { start: plan.branches.len(), plan: plan.and(&new), gone }
    }

    /// Adds a rank that is so deep, with what is left of a tree below it, or around it where that goes both ways: then some branches
    /// are to be turned. Comes back with the ranks and how deep they are.
    fn hang(&mut self, left: &Plan, rank: u32, depth: u32, turned: &mut Vec<usize>) -> Vec<(u32, u32)> {
        self.in_tree[rank as usize] = true;
        let (mut open, mut reached) = (vec![(rank, depth)], vec![]);
        while let Some((rank, depth)) = open.pop() {
            self.depth[self.graph.ranks[rank as usize] as usize] = depth;
            reached.push((rank, depth));
            let mut link = self.first[rank as usize];
            while link != NONE {
                let (branch, is_turned) = (link as usize / 2, link % 2 == 1);
                let (above, below) = left.branches[branch];
                let below = if is_turned { above } else { below };
                if !std::mem::replace(&mut self.in_tree[below as usize], true) {
                    turned.extend(is_turned.then_some(branch));
                    open.push((below, depth + 1));
                }
                link = self.next[link as usize];
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
                let open = if self.over[to as usize] == NONE { &mut self.open } else { &mut self.later };
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
            let Grown { plan, start, gone } = grower.tree(&prices, None, whole.root, &whole.plan, &off);
            assert_plan(&graph, Kind::AllGather, whole.root, &plan);
            assert!(off.iter().all(|branch| gone.contains(branch)));
            assert_eq!(start + gone.len(), whole.plan.branches.len());
            // Of what is left at the root.
            let mut depths = HashMap::from([(whole.root, 0)]);
            let kept = || (0..).zip(&whole.plan.branches).filter(|(at, _)| !off.contains(at)).map(|(_, ends)| ends);
            while let Some((above, below)) = kept().find(|(a, b)| depths.contains_key(a) && !depths.contains_key(b)) {
                depths.insert(*below, depths[above] + 1);
            }
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
            let way: f64 = plan.both_ways(start).iter().map(|&arc| prices[arc as usize]).sum();
            let cost = way + f64::from(depths[&plan.branches[start].0]) * grower.level;
            assert!((cost / least - 1.0).abs() < 1e-9, "{spec}: {cost} {least}");
        }
    }

    /// Trees of an all-reduce are good enough without a linear program: what is cut off is joined by whichever rank is cheapest, and
    /// plans stay few.
    #[test]
    fn trees_that_go_both_ways_are_turned_round() {
        for (spec, failed, most) in [("dgx-h100:4", "dgx-h100:4,drop=0-36", 6), ("mesh:6x6", "mesh:6x6,drop=3-4", 12)] {
            let [whole, graph] =
                [spec, failed].map(|spec| Graph::new(&Fabric::parse(spec).unwrap(), &System::preset("ideal").unwrap()));
            let ids: HashMap<(u32, u32), u32> =
                (0..).zip(&graph.arcs).map(|(id, arc)| ((arc.from, arc.to), id)).collect();
            let id = |arc: u32| ids.get(&(whole.arcs[arc as usize].from, whole.arcs[arc as usize].to)).copied();
            let mut known = broken(&whole, Kind::AllReduce, |arc| id(arc).is_none());
            for known in &mut known {
                let way = |way: &[u32]| way.iter().map(|&arc| id(arc).unwrap()).collect::<Vec<u32>>();
                let left = std::mem::take(&mut known.plan);
                for (branch, &(above, below)) in left.branches.iter().enumerate() {
                    let [up, down] = left.ways(branch).map(way);
                    known.plan.branch(above, below, up, down);
                }
            }
            let wanted = Wanted { accuracy: 1e-4, level: 0.0, trees: None };
            let collective = Collective::new(Kind::AllReduce);
            let best = mixture(&graph, collective, None, &wanted, Start::default(), Watch::default()).unwrap();
            let (load, enough) = (Load { share: 1.0, matrix: None }, best.least * 1.005);
            let mending = Mending { graph: &graph, paths: false, back: opposite(&graph), load, enough };
            let plans = known.len();
            let (found, busy) = mending.mended(known, Watch::default()).unwrap();
            found.iter().for_each(|each| assert_plan(&graph, Kind::AllReduce, each.root, &each.plan));
            let time = busy.into_iter().fold(0.0, f64::max);
            assert!(time <= enough, "{failed}: {}", time / best.least);
            assert!(found.len() <= most * plans, "{failed}: {} of {plans}", found.len());
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
                    // Those that go both ways may be turned round.
                    let turned = |branch: &Branch| ((branch.0.1, branch.0.0), [branch.1[1].clone(), branch.1[0].clone()]);
                    let has = |one: &Branch| after.contains(one) || kind == Kind::AllReduce && after.contains(&turned(one));
                    prop_assert!(branches(&before.plan).iter().all(has));
                }
            }
        }
    }
}
