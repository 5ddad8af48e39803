//! The worst cut of an AllToAll, looked for: the most bytes between two sides over the rate of the links that join them.
//!
//! The worst of all cuts is NP-hard to find (a sparsest cut), and the true optimum may be longer still; every cut is a
//! valid bound. Of few nodes all sets are tried. Otherwise these are: single sites; boxes, that is everything up to a
//! place along a coordinate, or along the numbers of the nodes, in all of the fabric and again in halves of it, which
//! depend on no link; and sets grown from single nodes along the links. The best of them are refined by moving nodes.

use super::capacity::{Capacities, Load};
use super::cut::Cut;
use super::least_cut::LeastCuts;
use super::maxflow::spread;
use super::task::Task;
use antiphon_base::watch::checkpoint;
use antiphon_model::fabric::{Fabric, NodeId};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// All sets of so many nodes are tried.
const FEW_NODES: usize = 16;
/// Links followed in growing sets, about; at least one set is grown.
const GROWTH: usize = 1 << 19;
/// Most sets that are grown, and most that are refined.
const SETS: usize = 16;
/// Moves tried in refining one set.
const MOVES: usize = 1 << 19;
/// Most moves in a row without a worse cut.
const PATIENCE: usize = 32;

/// The worst cut that is found.
///
/// O(links log nodes) for boxes and for each set that is grown, [`MOVES`] for each that is refined, both fewer in large
/// fabrics; with switches, two maximum flows for every site and every refined set, most of them local.
pub(super) fn all_to_all(fabric: &Fabric, capacities: &Capacities, task: &Task) -> Cut {
    let graph = LinkedNodes::new(fabric, capacities, task);
    let mut cut = match graph.nodes.len() {
        _ if task.sites.len() == 1 => Cut::NONE,
        ..=FEW_NODES => graph.worst_of_all(),
        _ => graph.search(fabric, task),
    };
    cut.inside.iter_mut().for_each(|node| *node = graph.nodes[*node as usize]);
    cut
}

/// What nodes add to a side.
#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    ranks: u128,
    shards: u128,
    /// With a matrix: bytes for nodes outside, and from them.
    sent: u128,
    received: u128,
    /// Capacity of the links that leave.
    leaving: u128,
    /// Capacity of the links that enter.
    entering: u128,
}

/// The nodes that have links, renumbered.
struct LinkedNodes {
    nodes: Vec<NodeId>,
    weights: Vec<Weight>,
    links: Vec<(u32, u32, u128)>,
    /// The other end and the capacity of every link from or to a node.
    neighbours: Vec<Vec<(u32, u128)>>,
    /// With a matrix: the other node and the bytes both ways, of every pair with any.
    partners: Option<Vec<Vec<(u32, u128)>>>,
    ranks: u128,
    bytes: u128,
}

impl LinkedNodes {
    fn new(fabric: &Fabric, capacities: &Capacities, task: &Task) -> LinkedNodes {
        let mut weights = vec![Weight::default(); fabric.nodes.len()];
        for (link, &capacity) in fabric.links.iter().zip(&capacities.links) {
            weights[link.from as usize].leaving += capacity;
            weights[link.to as usize].entering += capacity;
        }
        for site in &task.sites {
            let weight = &mut weights[site.node as usize];
            (weight.ranks, weight.shards) = (site.ranks, site.shards);
        }
        let node = |site: usize| task.sites[site].node as usize;
        let pairs = || (0..task.sites.len()).flat_map(|from| (0..task.sites.len()).map(move |to| (from, to)));
        for (from, to) in pairs().filter(|_| task.has_matrix()) {
            weights[node(from)].sent += task.between(from, to);
            weights[node(to)].received += task.between(from, to);
        }
        let linked = |&node: &NodeId| weights[node as usize].leaving + weights[node as usize].entering > 0;
        let nodes: Vec<NodeId> = (0..fabric.nodes.len() as NodeId).filter(linked).collect();
        let mut number = vec![0; fabric.nodes.len()];
        (0..).zip(&nodes).for_each(|(at, &node)| number[node as usize] = at);
        let ends = fabric.links.iter().map(|link| (number[link.from as usize], number[link.to as usize]));
        let links: Vec<_> = ends.zip(&capacities.links).map(|((from, to), &capacity)| (from, to, capacity)).collect();
        let mut neighbours = vec![Vec::new(); nodes.len()];
        for &(from, to, capacity) in &links {
            neighbours[from as usize].push((to, capacity));
            neighbours[to as usize].push((from, capacity));
        }
        let weights = nodes.iter().map(|&node| weights[node as usize]).collect();
        let partners = task.has_matrix().then(|| {
            let mut partners = vec![Vec::new(); nodes.len()];
            let both = |(a, b)| (a, b, task.between(a, b) + task.between(b, a));
            for (a, b, bytes) in pairs().map(both).filter(|pair| pair.2 > 0) {
                partners[number[node(a)] as usize].push((number[node(b)], bytes));
            }
            partners
        });
        LinkedNodes { nodes, weights, links, neighbours, partners, ranks: task.ranks(), bytes: task.bytes as u128 }
    }

    /// Loads of AllToAll on the links that leave a side, and on those that enter it.
    fn loads(&self, side: Weight) -> [Load; 2] {
        let load = |bytes, capacity| if bytes == 0 { Load::NONE } else { Load { bytes, capacity } };
        let (sent, received) = match self.partners {
            Some(_) => (side.sent, side.received),
            None => (side.ranks * (self.bytes - side.shards), (self.ranks - side.ranks) * side.shards),
        };
        [load(sent, side.leaving), load(received, side.entering)]
    }

    /// The load in the worse direction.
    fn load(&self, side: Weight) -> Load {
        let [leaving, entering] = self.loads(side);
        leaving.max(entering)
    }

    /// A side as a cut.
    fn cut(&self, side: Weight, inside: impl Fn(u32) -> bool) -> Cut {
        let [leaving, entering] = self.loads(side);
        let inside = (0..self.nodes.len() as u32).filter(|&node| inside(node)).collect();
        Cut { load: leaving.max(entering), inside, entering: entering.exceeds(leaving) }
    }

    /// Over all sets without the last node, each a move from that before.
    fn worst_of_all(&self) -> Cut {
        let mut side = CutSide::empty(self);
        let mut worst = (Load::NONE, 0, Weight::default());
        for step in 1u32..1 << (self.nodes.len() - 1) {
            side.flip(step.trailing_zeros());
            if side.load().exceeds(worst.0) {
                // Sides go through a Gray code.
                worst = (side.load(), step ^ step >> 1, side.sum);
            }
        }
        self.cut(worst.2, |node| worst.1 >> node & 1 == 1)
    }

    /// Over the sets that this module names.
    fn search(&self, fabric: &Fabric, task: &Task) -> Cut {
        let count = self.nodes.len();
        let coordinates = |&node: &NodeId| &fabric.nodes[node as usize].coords;
        let dimensions = self.nodes.iter().map(|node| coordinates(node).len()).max().unwrap_or(0);
        let along = |dimension: usize| -> Vec<f64> {
            self.nodes.iter().map(|node| coordinates(node).get(dimension).copied().unwrap_or(0.0)).collect()
        };
        let mut found = self.boxes(&(0..dimensions).map(along).collect::<Vec<_>>());
        found.extend(self.boxes(&[(0..count).map(|node| node as f64).collect()]));
        let seeds = spread(count as u32).into_iter().take((GROWTH / self.links.len()).clamp(1, SETS));
        found.extend(seeds.map(|seed| CutSide::empty(self).sweep(&self.grown(seed))));
        found.sort_by(|a, b| match (a.0.exceeds(b.0), b.0.exceeds(a.0)) {
            (true, _) => Ordering::Less,
            (_, true) => Ordering::Greater,
            _ => a.1.cmp(&b.1),
        });
        found.dedup_by(|a, b| a.1 == b.1);
        found.truncate((MOVES * SETS / (count * count)).clamp(1, SETS));

        let sites: Vec<u32> = (0..count as u32).filter(|&node| self.weights[node as usize].ranks > 0).collect();
        let mut cuts = (count > task.sites.len())
            .then(|| [false, true].map(|reversed| LeastCuts::new(count, &self.links, sites.clone(), reversed)));
        let mut worst = Cut::NONE;
        let mut look = |side: &CutSide| {
            let sum = match &mut cuts {
                None => side.sum,
                // Whatever the side of the switches.
                Some(cuts) => {
                    let [leaving, entering] =
                        cuts.each_mut().map(|cuts| cuts.around(|site| side.inside[site as usize]));
                    Weight { leaving, entering, ..side.sum }
                }
            };
            if self.load(sum).exceeds(worst.load) {
                worst = self.cut(sum, |node| side.inside[node as usize]);
            }
        };
        let mut side = CutSide::empty(self);
        for &site in &sites {
            side.flip(site);
            look(&side);
            side.flip(site);
        }
        for (_, nodes) in found {
            let mut side = CutSide::empty(self);
            nodes.into_iter().for_each(|node| side.flip(node));
            side.refine();
            look(&side);
        }
        worst
    }

    /// The worst boxes along every dimension, of all nodes and of each half, quarter and so on that halving along the
    /// widest dimension gives. `places` has the place of every node along each dimension.
    fn boxes(&self, places: &[Vec<f64>]) -> Vec<(Load, Vec<u32>)> {
        let mut found = Vec::new();
        let mut side = CutSide::empty(self);
        let mut parts: Vec<Vec<u32>> = vec![(0..self.nodes.len() as u32).collect()];
        while let Some(part) = parts.pop() {
            let at = |node: u32, dimension: usize| places[dimension][node as usize];
            let extent = |dimension: usize| {
                let places = || part.iter().map(|&node| at(node, dimension));
                places().fold(f64::MIN, f64::max) - places().fold(f64::MAX, f64::min)
            };
            let ordered = |dimension: usize| {
                let mut order = part.clone();
                order.sort_by(|&a, &b| at(a, dimension).total_cmp(&at(b, dimension)).then(a.cmp(&b)));
                order
            };
            found.extend((0..places.len()).map(|dimension| side.sweep(&ordered(dimension))));
            let widest = (0..places.len()).max_by(|&a, &b| extent(a).total_cmp(&extent(b)));
            if let Some(widest) = widest.filter(|_| part.len() > 2) {
                let mut lower = ordered(widest);
                let upper = lower.split_off(lower.len() / 2);
                parts.extend([lower, upper]);
            }
        }
        found
    }

    /// All nodes in the order in which a set grows from one, always by the node that adds least to its border.
    fn grown(&self, seed: u32) -> Vec<u32> {
        // The border grows by a node's links less twice those that join it to the set; kept positive.
        let links = |weight: &Weight| weight.leaving + weight.entering;
        let most = self.weights.iter().map(links).max().unwrap_or(0);
        let mut growth: Vec<u128> = self.weights.iter().map(|weight| most + links(weight)).collect();
        let mut taken = vec![false; self.nodes.len()];
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut heap = BinaryHeap::from([Reverse((0, seed))]);
        while let Some(Reverse((_, node))) = heap.pop() {
            if std::mem::replace(&mut taken[node as usize], true) {
                continue;
            }
            order.push(node);
            for &(other, capacity) in &self.neighbours[node as usize] {
                growth[other as usize] -= 2 * capacity;
                heap.push(Reverse((growth[other as usize], other)));
            }
        }
        order
    }
}

/// A set of nodes, one side of a cut.
struct CutSide<'a> {
    graph: &'a LinkedNodes,
    inside: Vec<bool>,
    /// Capacity of the links between every node and the set.
    joined: Vec<u128>,
    /// With a matrix: bytes both ways between every node and the set.
    exchanged: Vec<u128>,
    sum: Weight,
}

impl<'a> CutSide<'a> {
    fn empty(graph: &'a LinkedNodes) -> CutSide<'a> {
        let count = graph.nodes.len();
        let (joined, exchanged) = (vec![0; count], vec![0; count]);
        CutSide { graph, inside: vec![false; count], joined, exchanged, sum: Weight::default() }
    }

    fn load(&self) -> Load {
        self.graph.load(self.sum)
    }

    /// The set's figures once a node has changed sides.
    fn moved(&self, node: u32) -> Weight {
        let (sum, own) = (self.sum, self.graph.weights[node as usize]);
        let (joined, exchanged) = (self.joined[node as usize], self.exchanged[node as usize]);
        match self.inside[node as usize] {
            false => Weight {
                ranks: sum.ranks + own.ranks,
                shards: sum.shards + own.shards,
                sent: sum.sent + own.sent - exchanged,
                received: sum.received + own.received - exchanged,
                leaving: sum.leaving + own.leaving - joined,
                entering: sum.entering + own.entering - joined,
            },
            true => Weight {
                ranks: sum.ranks - own.ranks,
                shards: sum.shards - own.shards,
                sent: sum.sent + exchanged - own.sent,
                received: sum.received + exchanged - own.received,
                leaving: sum.leaving + joined - own.leaving,
                entering: sum.entering + joined - own.entering,
            },
        }
    }

    fn flip(&mut self, node: u32) {
        self.sum = self.moved(node);
        let inside = &mut self.inside[node as usize];
        *inside = !*inside;
        for &(other, capacity) in &self.graph.neighbours[node as usize] {
            let joined = &mut self.joined[other as usize];
            *joined = if *inside { *joined + capacity } else { *joined - capacity };
        }
        for &(other, bytes) in self.graph.partners.iter().flat_map(|partners| &partners[node as usize]) {
            let exchanged = &mut self.exchanged[other as usize];
            *exchanged = if *inside { *exchanged + bytes } else { *exchanged - bytes };
        }
    }

    /// The worst set of the first nodes of an order, its nodes sorted; the side is empty before and after.
    fn sweep(&mut self, order: &[u32]) -> (Load, Vec<u32>) {
        let (mut worst, mut kept) = (Load::NONE, 0);
        checkpoint();
        for (length, &node) in (1..).zip(order) {
            self.flip(node);
            if self.load().exceeds(worst) {
                (worst, kept) = (self.load(), length);
            }
        }
        order.iter().for_each(|&node| self.flip(node));
        let mut nodes = order[..kept].to_vec();
        nodes.sort_unstable();
        (worst, nodes)
    }

    /// Moves the node whose move gives the worst cut, again and again, each at most once; goes back to the worst cut on
    /// the way, and starts again if it is worse than the first (C. M. Fiduccia and R. M. Mattheyses, "A linear-time
    /// heuristic for improving network partitions", DAC 1982, with the load as the aim).
    fn refine(&mut self) {
        let mut budget = MOVES;
        loop {
            let mut free: Vec<u32> = (0..self.inside.len() as u32).collect();
            let (mut worst, mut moves, mut kept) = (self.load(), Vec::new(), 0);
            while !free.is_empty() && moves.len() < kept + PATIENCE && free.len() <= budget {
                checkpoint();
                budget -= free.len();
                let (mut at, mut load) = (0, Load::NONE);
                for (place, &node) in free.iter().enumerate() {
                    let next = self.graph.load(self.moved(node));
                    if next.exceeds(load) {
                        (at, load) = (place, next);
                    }
                }
                moves.push(free.swap_remove(at));
                self.flip(moves[moves.len() - 1]);
                if load.exceeds(worst) {
                    (worst, kept) = (load, moves.len());
                }
            }
            moves[kept..].iter().for_each(|&node| self.flip(node));
            if kept == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_base::units::Rate;
    use antiphon_model::collective::{Collective, Kind};
    use antiphon_model::fabric::{Link, Node, Shape};
    use antiphon_model::system::System;
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::{RngCore, SeedableRng};

    /// A connected fabric of 5 to 14 ranks and up to 2 switches, with unequal, parallel and one-way links.
    fn fabric(random: &mut Pcg64) -> Fabric {
        let mut below = |count: u64| random.next_u64() % count;
        let count = 5 + below(10) as u32;
        let mut nodes: Vec<Node> = (0..count).map(|rank| Node::rank(rank, [])).collect();
        nodes.extend((0..below(3)).map(|id| Node::switch(id.to_string(), [])));
        let count = nodes.len() as u64;
        let mut links = Vec::new();
        for node in 1..count + 3 + below(3 * count) {
            let (a, b) = if node < count { (node, below(node)) } else { (below(count), below(count)) };
            let mut link = Link::new(a as u32, b as u32, "");
            link.rate = Some(Rate::gb_per_s([10, 25, 100, 400][below(4) as usize]));
            if a != b {
                links.extend((node < count || below(3) > 0).then(|| link.reversed()));
                links.push(link);
            }
        }
        Fabric::new("t", Shape::Graph, nodes, links).unwrap()
    }

    /// Of few nodes, where the worst cut is known, the search that larger fabrics get misses it hardly ever.
    #[test]
    fn searching_finds_the_worst_cut() {
        let mut random = Pcg64::seed_from_u64(7);
        let mut missed = 0;
        for _ in 0..300 {
            let fabric = fabric(&mut random);
            let capacities = Capacities::new(&fabric, &System::preset("generic").unwrap());
            let task = Task::new(&fabric, Collective::new(Kind::AllToAll), 1 << 20);
            let graph = LinkedNodes::new(&fabric, &capacities, &task);
            let (found, worst) = (graph.search(&fabric, &task).load, graph.worst_of_all().load);
            assert!(!found.exceeds(worst));
            missed += u32::from(worst.exceeds(found));
        }
        assert!(missed <= 3, "{missed} of 300");
    }
}
