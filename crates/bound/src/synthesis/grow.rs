//! A tree grown from what is left of another one: from its root by that, then over the cheapest ways to further ranks (R. C. Prim
//! 1957), each of which brings what is left below it, or around it where trees go both ways.

use super::graph::Graph;
use super::oracle::Open;
use super::own::{MOST, rise};
use super::plan::Plan;
use std::collections::BinaryHeap;

/// What a branch from the root costs, of what an arc costs that is as busy as it may be.
const LEVEL: f64 = 1e-3;

/// Costs are the same that differ by no more than this part.
const SAME: f64 = 1e-9;

/// What makes a tree of what is left of another one.
pub struct Grown {
    /// Branches that are new.
    pub new: Plan,
    /// Branches of the other one that it has not, and those that it has turned round, both in order.
    pub gone: Vec<usize>,
    turned: Vec<usize>,
}

impl Grown {
    /// The tree: what is left of the other one, then what is new.
    pub fn of(self, left: Plan) -> Plan {
        let mut plan = if self.gone.is_empty() { left } else { left.without(&self.gone) };
        let mut gone = self.gone.iter().peekable();
        let mut before = 0;
        for branch in self.turned {
            while gone.next_if(|&&gone| gone < branch).is_some() {
                before += 1;
            }
            plan.turn(branch - before);
        }
        plan.and(&self.new)
    }
}

/// Grows plans on a graph.
pub struct Grower<'a> {
    graph: &'a Graph,
    /// Whether the graph is turned round, but plans are not: their branches lead up.
    turned: bool,
    /// What arcs cost, with what the tree itself carries, so that it does not go over the same ones again and again.
    prices: Vec<f64>,
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
    /// Arcs into every node, with the nodes that they are from.
    into: Vec<Vec<(u32, u32)>>,
    /// Nodes of ranks that are missing and come with no other, and switches that lead to one; ranks with an arc to these.
    leads: Vec<bool>,
    is_near: Vec<bool>,
    /// Nodes that are looked at next, the nearest first.
    open: BinaryHeap<Open>,
}

const NONE: u32 = u32::MAX;

impl<'a> Grower<'a> {
    /// For a graph, which may be `turned` round.
    pub fn new(graph: &'a Graph, turned: bool) -> Self {
        let nodes = graph.rank_at.len();
        let mut into = vec![Vec::new(); nodes];
        (0..).zip(&graph.arcs).for_each(|(id, arc)| into[arc.to as usize].push((id, arc.from)));
        Grower {
            graph,
            turned,
            prices: vec![],
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
        }
    }

    /// The tree from a root that keeps as many branches of another as lead to ranks, but for some that are `off`, in order. What it
    /// carries makes an arc dearer by as many powers of e as `load` is of the arc's rate.
    /// O(branches + new ones * arcs log arcs), the arcs near ranks that are missing.
    pub fn tree(
        &mut self,
        prices: &[f64],
        load: f64,
        back: Option<&[u32]>,
        root: u32,
        left: &Plan,
        off: &[usize],
    ) -> Grown {
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
        self.prices.clear();
        self.prices.extend_from_slice(prices);
        self.in_tree.clear();
        self.in_tree.resize(ranks, false);
        self.forget();
        let mut grown = Grown { new: Plan::default(), gone: off.to_vec(), turned: vec![] };
        // What is left comes first.
        let mut reached = self.hang(left, root, 0, &mut grown.turned);
        let mut count = reached.len();
        self.look_back();
        while count < ranks {
            for (rank, depth) in reached.drain(..) {
                if self.is_near[rank as usize] {
                    self.widen(back, graph.ranks[rank as usize], f64::from(depth) * self.level);
                }
            }
            let Some(Open(cost, node)) = self.open.pop() else {
                // What is left of the tree begins nowhere beside it: it is entered over ranks that come with others.
                let Some(way) = self.look_for_tree(back) else { break };
                for way in way.chunk_by(|&arc, _| graph.rank_at[graph.arcs[arc as usize].to as usize].is_none()) {
                    let rank = graph.rank_at[graph.arcs[way[way.len() - 1] as usize].to as usize];
                    let rank = rank.expect("ways end at ranks");
                    if !self.in_tree[rank as usize] {
                        count += self.join(left, load, back, way, &mut grown).len();
                    }
                }
                reached = self.start_again();
                continue;
            };
            if cost > self.cost[node as usize] {
                continue;
            }
            let Some(rank) = graph.rank_at[node as usize] else {
                self.widen(back, node, cost);
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
            way.reverse();
            let depth = self.depth[graph.arcs[way[0] as usize].from as usize];
            let now = f64::from(depth) * self.level + way.iter().map(|&arc| self.price(back, arc)).sum::<f64>();
            if now > cost * (1.0 + SAME) {
                // What has been joined meanwhile has made it dearer.
                reached = self.start_again();
                continue;
            }
            reached = self.join(left, load, back, &way, &mut grown);
            count += reached.len();
        }
        grown.gone.sort_unstable();
        grown.turned.sort_unstable();
        grown
    }

    /// Joins the rank at the end of a way, which makes its arcs dearer, with what is left of a tree there. Comes back as [`Grower::hang`].
    fn join(
        &mut self,
        left: &Plan,
        load: f64,
        back: Option<&[u32]>,
        way: &[u32],
        grown: &mut Grown,
    ) -> Vec<(u32, u32)> {
        let graph = self.graph;
        for &arc in way {
            for arc in [Some(arc), back.map(|back| back[arc as usize])].into_iter().flatten() {
                let price = &mut self.prices[arc as usize];
                *price = (*price * rise(load / graph.arcs[arc as usize].rate)).min(MOST);
            }
        }
        let [start, end] = [graph.arcs[way[0] as usize].from, graph.arcs[way[way.len() - 1] as usize].to];
        let [above, rank] = [start, end].map(|node| graph.rank_at[node as usize].expect("ways join ranks"));
        let towards = || way.iter().rev().copied();
        match (self.turned, back) {
            (true, _) => grown.new.branch(above, rank, towards(), []),
            (false, Some(back)) => {
                grown.new.branch(above, rank, towards().map(|arc| back[arc as usize]), way.iter().copied());
            }
            (false, None) => grown.new.branch(above, rank, [], way.iter().copied()),
        }
        let over = self.over[end as usize];
        if over != NONE {
            grown.gone.push(over as usize);
        }
        self.hang(left, rank, self.depth[start as usize] + 1, &mut grown.turned)
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

    /// Finds from where ranks that are missing and come with no other can be entered: what is farther away need not be looked at.
    fn look_back(&mut self) {
        let graph = self.graph;
        self.leads.clear();
        self.leads.resize(graph.rank_at.len(), false);
        self.is_near.clear();
        self.is_near.resize(graph.ranks.len(), false);
        let missing = graph.ranks.iter().zip(&self.in_tree).filter(|(_, in_tree)| !**in_tree);
        let starts = missing.filter(|(node, _)| self.over[**node as usize] == NONE);
        let mut open: Vec<u32> = starts.map(|(&node, _)| node).collect();
        open.iter().for_each(|&node| self.leads[node as usize] = true);
        while let Some(node) = open.pop() {
            for &(_, from) in &self.into[node as usize] {
                match graph.rank_at[from as usize] {
                    Some(rank) => self.is_near[rank as usize] = true,
                    None if !std::mem::replace(&mut self.leads[from as usize], true) => open.push(from),
                    None => (),
                }
            }
        }
    }

    /// The cheapest way from the tree to where something begins that is cut off, whatever is on it. It is looked for from there, which
    /// mostly is not far.
    fn look_for_tree(&mut self, back: Option<&[u32]>) -> Option<Vec<u32>> {
        let graph = self.graph;
        self.forget();
        for (&node, _) in graph.ranks.iter().zip(&self.in_tree).filter(|(_, in_tree)| !**in_tree) {
            if self.over[node as usize] == NONE {
                self.cost[node as usize] = 0.0;
                self.open.push(Open(0.0, node));
            }
        }
        let (mut least, mut beside) = (f64::INFINITY, vec![]);
        while let Some(Open(cost, node)) = self.open.pop() {
            let is_in_tree = |node: u32| graph.rank_at[node as usize].is_some_and(|rank| self.in_tree[rank as usize]);
            if is_in_tree(node) {
                let next = |arc: u32| if arc == NONE { None } else { Some(arc) };
                let after = |&arc: &u32| next(self.last[graph.arcs[arc as usize].to as usize]);
                return Some(std::iter::successors(next(self.last[node as usize]), after).collect());
            }
            if cost > self.cost[node as usize] {
                continue;
            }
            let is_switch = |node: u32| graph.rank_at[node as usize].is_none();
            beside.push((cost, node));
            while let Some((cost, node)) = beside.pop() {
                for &(arc, from) in &self.into[node as usize] {
                    let most = self.cost[from as usize].min(least);
                    let mut cost = cost + self.price(back, arc);
                    // Without the level it is mostly too much already.
                    if cost >= most {
                        continue;
                    }
                    let is_end = is_in_tree(from);
                    if is_end {
                        cost += f64::from(self.depth[from as usize]) * self.level;
                        if cost >= most {
                            continue;
                        }
                        least = cost;
                    }
                    (self.cost[from as usize], self.last[from as usize]) = (cost, arc);
                    // Ranks beside a switch are many, and mostly lead to a few others: they need not wait in order.
                    match is_switch(node) && !is_switch(from) && !is_end {
                        true => beside.push((cost, from)),
                        false => self.open.push(Open(cost, from)),
                    }
                }
            }
        }
        None
    }

    /// Forgets all ways. Comes back with the ranks of the tree that are near missing ones, and how deep they are.
    fn start_again(&mut self) -> Vec<(u32, u32)> {
        self.forget();
        let depth = |rank: usize| self.depth[self.graph.ranks[rank] as usize];
        let near = (0..self.in_tree.len()).filter(|&rank| self.in_tree[rank] && self.is_near[rank]);
        near.map(|rank| (rank as u32, depth(rank))).collect()
    }

    /// Forgets all ways.
    fn forget(&mut self) {
        let nodes = self.graph.rank_at.len();
        self.cost.clear();
        self.cost.resize(nodes, f64::INFINITY);
        self.last.clear();
        self.last.resize(nodes, NONE);
        self.open.clear();
    }

    /// What an arc costs, both ways if the tree goes both.
    #[inline]
    fn price(&self, back: Option<&[u32]>, arc: u32) -> f64 {
        self.prices[arc as usize] + back.map_or(0.0, |back| self.prices[back[arc as usize] as usize])
    }

    /// Looks at what is beside a node that costs as much.
    fn widen(&mut self, back: Option<&[u32]>, node: u32, so_far: f64) {
        for &arc in &self.graph.out[node as usize] {
            let to = self.graph.arcs[arc as usize].to;
            if !self.leads[to as usize] {
                continue;
            }
            let cost = so_far + self.price(back, arc);
            if cost < self.cost[to as usize] {
                (self.cost[to as usize], self.last[to as usize]) = (cost, arc);
                self.open.push(Open(cost, to));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_plan, broken};
    use super::*;
    use crate::synthesis::oracle::Search;
    use antiphon_model::collective::Kind;
    use antiphon_model::fabric::Fabric;
    use antiphon_model::system::System;
    use std::collections::HashMap;

    /// To look near ranks that are missing is enough: the first of them is joined over the cheapest way that there is.
    #[test]
    fn missing_ranks_are_joined_over_the_cheapest_ways() {
        for spec in ["mesh:4x4", "dgx-a100:2", "dgx-h100:4", "fc:5"] {
            let graph = Graph::new(&Fabric::parse(spec).unwrap(), &System::preset("ideal").unwrap());
            let prices: Vec<f64> = (1..=graph.arcs.len()).map(|arc| (arc as f64 * 0.618).fract() + 0.01).collect();
            let whole = broken(&graph, Kind::AllGather, |_| false).swap_remove(0);
            let off: Vec<usize> = (0..whole.plan.branches.len()).skip(1).step_by(4).collect();
            let mut grower = Grower::new(&graph, false);
            let grown = grower.tree(&prices, 0.0, None, whole.root, &whole.plan, &off);
            let (gone, start) = (grown.gone.clone(), whole.plan.branches.len() - grown.gone.len());
            let plan = grown.of(whole.plan.clone());
            assert_plan(&graph, Kind::AllGather, whole.root, &plan);
            assert!(off.iter().all(|branch| gone.contains(branch)));
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
}
