//! Packing spanning trees into a graph whose edges may be used several times.
//!
//! Trees are grown from the centre, lowest first; what does not fit is made room for by matroid union: the
//! shortest chain of exchanges between trees that ends with an edge for one that is incomplete (J. Edmonds
//! 1968; J. Roskind and R. E. Tarjan, "A note on finding minimum-cost edge-disjoint spanning trees", 1985).

mod branchings;
mod flatten;

pub(super) use branchings::branchings;
use flatten::flatten;
use std::collections::VecDeque;

/// A graph; edge `e` joins two nodes and may be in `most[e]` trees.
pub(super) struct PackingGraph {
    edges: Vec<(u32, u32)>,
    /// Edges of every node.
    at: Vec<Vec<u32>>,
}

const NONE: u32 = u32::MAX;

impl PackingGraph {
    /// A graph of `nodes` nodes.
    pub fn new(nodes: usize, edges: impl IntoIterator<Item = (u32, u32)>) -> PackingGraph {
        let edges: Vec<(u32, u32)> = edges.into_iter().collect();
        let mut at = vec![Vec::new(); nodes];
        for (edge, &(a, b)) in (0..).zip(&edges) {
            at[a as usize].push(edge);
            at[b as usize].push(edge);
        }
        PackingGraph { edges, at }
    }

    fn other(&self, edge: u32, node: u32) -> u32 {
        let (a, b) = self.edges[edge as usize];
        a ^ b ^ node
    }

    /// Distances from a node.
    fn distances(&self, from: u32) -> Vec<u32> {
        let mut distances = vec![NONE; self.at.len()];
        distances[from as usize] = 0;
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            for &edge in &self.at[node as usize] {
                let next = self.other(edge, node);
                if distances[next as usize] == NONE {
                    distances[next as usize] = distances[node as usize] + 1;
                    queue.push_back(next);
                }
            }
        }
        distances
    }

    /// Whether all nodes can be reached from each other.
    pub fn is_connected(&self) -> bool {
        !self.distances(0).contains(&NONE)
    }

    /// The node nearest to the one farthest from it.
    pub fn centre(&self) -> u32 {
        let far = |&node: &u32| (self.distances(node).into_iter().max(), node);
        (0..self.at.len() as u32).min_by_key(far).expect("a graph has a node")
    }

    /// `count` spanning trees as parents of all nodes, with edge `e` in at most `most[e]` of them; `None` if
    /// there are no such trees.
    ///
    /// O(count * nodes) searches of O(edges * count) at worst; most end soon.
    pub fn pack(&self, most: &[u32], count: usize, centre: u32) -> Option<Vec<Vec<Option<u32>>>> {
        let mut packing = Packing::new(self, most, count);
        packing.grow(centre);
        let missing: usize = packing.forests.iter().map(|forest| forest.parts - 1).sum();
        let complete = (0..missing).all(|_| packing.augment());
        complete.then(|| {
            let trees = packing.forests.iter().map(|forest| forest.rooted(self)).collect();
            flatten(self, most, trees)
        })
    }
}

/// A forest, kept as trees with roots.
struct RootedForest {
    member: Vec<bool>,
    /// Edge to the parent; [`NONE`] for roots.
    up: Vec<u32>,
    depth: Vec<u32>,
    root: Vec<u32>,
    parts: usize,
}

impl RootedForest {
    fn new(graph: &PackingGraph) -> RootedForest {
        let nodes = graph.at.len();
        let root = (0..nodes as u32).collect();
        RootedForest {
            member: vec![false; graph.edges.len()],
            up: vec![NONE; nodes],
            depth: vec![0; nodes],
            root,
            parts: nodes,
        }
    }

    /// Hangs the tree of `node` on what is at the other end of `edge`, or makes `node` its root.
    fn hang(&mut self, graph: &PackingGraph, node: u32, edge: u32) {
        let (root, depth) = match edge {
            NONE => (node, 0),
            _ => {
                let above = graph.other(edge, node) as usize;
                (self.root[above], self.depth[above] + 1)
            }
        };
        let mut stack = vec![(node, edge, root, depth)];
        while let Some((node, edge, root, depth)) = stack.pop() {
            let at = node as usize;
            (self.up[at], self.root[at], self.depth[at]) = (edge, root, depth);
            let below = graph.at[at].iter().filter(|&&next| next != edge && self.member[next as usize]);
            stack.extend(below.map(|&next| (graph.other(next, node), next, root, depth + 1)));
        }
    }

    /// Adds an edge between two parts.
    fn join(&mut self, graph: &PackingGraph, edge: u32) {
        let (a, b) = graph.edges[edge as usize];
        // The higher tree stays as it is.
        let (stays, moves) = if self.depth[a as usize] <= self.depth[b as usize] { (a, b) } else { (b, a) };
        debug_assert_ne!(self.root[stays as usize], self.root[moves as usize]);
        self.hang(graph, moves, edge);
        self.member[edge as usize] = true;
        self.parts -= 1;
    }

    fn cut(&mut self, graph: &PackingGraph, edge: u32) {
        self.member[edge as usize] = false;
        self.parts += 1;
        let (a, b) = graph.edges[edge as usize];
        let lower = if self.up[a as usize] == edge { a } else { b };
        self.hang(graph, lower, NONE);
    }

    /// Calls for every edge on the way between two nodes of one part that is not in `walked` yet.
    fn walk(&self, graph: &PackingGraph, walked: &mut Walked, a: u32, b: u32, mut visit: impl FnMut(u32)) {
        let (mut a, mut b) = (walked.top(a), walked.top(b));
        while a != b {
            if self.depth[a as usize] < self.depth[b as usize] {
                (a, b) = (b, a);
            }
            let edge = self.up[a as usize];
            visit(edge);
            let above = graph.other(edge, a);
            walked.top[a as usize] = above;
            a = walked.top(above);
        }
    }

    /// The parents when the root is in the middle of the longest path.
    fn rooted(&self, graph: &PackingGraph) -> Vec<Option<u32>> {
        let search = |from: u32| {
            let mut parents = vec![None; self.up.len()];
            let mut order = vec![from];
            let mut at = 0;
            while at < order.len() {
                let node = order[at];
                at += 1;
                for &edge in graph.at[node as usize].iter().filter(|&&edge| self.member[edge as usize]) {
                    let next = graph.other(edge, node);
                    if parents[node as usize] != Some(next) {
                        parents[next as usize] = Some(node);
                        order.push(next);
                    }
                }
            }
            (parents, order[order.len() - 1])
        };
        let (parents, end) = search(search(0).1);
        let path: Vec<u32> = std::iter::successors(Some(end), |&node| parents[node as usize]).collect();
        search(path[path.len() / 2]).0
    }
}

/// The edges of a forest that a search has walked, as the highest node it reaches over them from each node.
struct Walked {
    top: Vec<u32>,
}

impl Walked {
    fn top(&mut self, mut node: u32) -> u32 {
        loop {
            let above = self.top[node as usize];
            if above == node {
                return node;
            }
            // Halves the way for the next time.
            self.top[node as usize] = self.top[above as usize];
            node = above;
        }
    }
}

struct Packing<'a> {
    graph: &'a PackingGraph,
    most: &'a [u32],
    used: Vec<u32>,
    forests: Vec<RootedForest>,
}

impl<'a> Packing<'a> {
    fn new(graph: &'a PackingGraph, most: &'a [u32], count: usize) -> Self {
        let forests = (0..count).map(|_| RootedForest::new(graph)).collect();
        Packing { graph, most, used: vec![0; most.len()], forests }
    }

    /// Grows a tree around `centre` in every forest, in turn by an edge: the one least used of the nearest node
    /// with a free edge.
    fn grow(&mut self, centre: u32) {
        let graph = self.graph;
        // Nodes that may have free edges, nearer ones first.
        let mut open: Vec<VecDeque<u32>> = vec![VecDeque::from([centre]); self.forests.len()];
        let mut grown = true;
        while std::mem::take(&mut grown) {
            for (forest, open) in self.forests.iter_mut().zip(&mut open) {
                while let Some(&node) = open.front() {
                    let at = |&edge: &u32| (self.used[edge as usize], self.most[edge as usize]);
                    let outside =
                        |edge: &u32| forest.root[graph.other(*edge, node) as usize] != forest.root[node as usize];
                    let edges = graph.at[node as usize].iter().copied();
                    let free = edges.filter(|edge| at(edge).0 < at(edge).1 && outside(edge));
                    // In parts of what an edge may carry.
                    let load = |edge: &u32| (u64::from(at(edge).0) << 20) / u64::from(at(edge).1);
                    let Some(edge) = free.min_by_key(load) else {
                        open.pop_front();
                        continue;
                    };
                    forest.join(graph, edge);
                    self.used[edge as usize] += 1;
                    open.push_back(graph.other(edge, node));
                    grown = true;
                    break;
                }
            }
        }
    }

    /// Adds one edge to the forests by the shortest chain of exchanges; whether there is one.
    fn augment(&mut self) -> bool {
        let graph = self.graph;
        let free = |edge: &u32| self.used[*edge as usize] < self.most[*edge as usize];
        let mut queue: VecDeque<u32> = (0..graph.edges.len() as u32).filter(free).collect();
        // The edge that takes the place of each, and where.
        let mut instead: Vec<Option<(u32, usize)>> = vec![None; graph.edges.len()];
        let mut seen = vec![false; graph.edges.len()];
        queue.iter().for_each(|&edge| seen[edge as usize] = true);
        let mut walked: Vec<Option<Walked>> = self.forests.iter().map(|_| None).collect();
        let nodes = graph.at.len() as u32;
        while let Some(edge) = queue.pop_front() {
            let (a, b) = graph.edges[edge as usize];
            let apart = |forest: &RootedForest| forest.root[a as usize] != forest.root[b as usize];
            if let Some(index) = self.forests.iter().position(apart) {
                self.exchange(edge, index, &instead);
                return true;
            }
            for (index, forest) in self.forests.iter().enumerate().filter(|(_, forest)| !forest.member[edge as usize]) {
                let walked = walked[index].get_or_insert_with(|| Walked { top: (0..nodes).collect() });
                forest.walk(graph, walked, a, b, |other| {
                    if !std::mem::replace(&mut seen[other as usize], true) {
                        instead[other as usize] = Some((edge, index));
                        queue.push_back(other);
                    }
                });
            }
        }
        false
    }

    /// Puts `edge` into a forest, what takes its place into the one it leaves, and so on.
    fn exchange(&mut self, mut edge: u32, mut index: usize, instead: &[Option<(u32, usize)>]) {
        while let Some((next, place)) = instead[edge as usize] {
            self.forests[place].cut(self.graph, edge);
            self.forests[index].join(self.graph, edge);
            (edge, index) = (next, place);
        }
        self.forests[index].join(self.graph, edge);
        self.used[edge as usize] += 1;
    }
}
