//! Packing trees away from one root into a directed graph: as many as the least cut, none of which use an arc more often
//! than it may be used.
//!
//! J. Edmonds, "Edge-disjoint branchings", 1973: parts of trees can be completed if and only if, for every set of nodes, at
//! least as many arcs enter it as there are trees without a node in it. So all trees grow at once, an arc at a time, and a
//! maximum flow says whether the rest can still be completed (L. Lovász, "On two minimax theorems in graph theory", 1976).

use antiphon_base::watch::checkpoint;
use std::collections::VecDeque;

/// A directed arc: from, to, and how many trees may use it.
pub(in crate::algorithm) type Arc = (u32, u32, u32);

/// Most trees: the bits of a set of trees.
const MOST_TREES: usize = u128::BITS as usize;
const NONE: u32 = u32::MAX;

/// Trees from `root` to all of `nodes` nodes, as the arc into every node but the root: as many as the least cut between the
/// root and another node. Low ones are preferred: each grows breadth first where the others leave it room. `None` if there
/// would be none, or more than [`MOST_TREES`].
///
/// O(trees * arcs) searches for a flow, most of which end soon, of O(trees * arcs).
pub(in crate::algorithm) fn branchings(nodes: usize, arcs: &[Arc], root: u32) -> Option<Vec<Vec<Option<u32>>>> {
    let mut growth = Growth::new(nodes, arcs, root);
    let count = growth.least_cut();
    if !(1..=MOST_TREES).contains(&count) {
        return None;
    }
    growth.plant(count);
    growth.grow();
    Some(growth.entered)
}

/// Trees that grow.
struct Growth<'a> {
    arcs: &'a [Arc],
    root: u32,
    /// Arcs out of and into every node.
    out: Vec<Vec<u32>>,
    into: Vec<Vec<u32>>,
    /// How often every arc may still be used.
    left: Vec<u32>,
    /// Trees, as a set, that have each node.
    trees: Vec<u128>,
    /// The arc into every node, by tree.
    entered: Vec<Vec<Option<u32>>>,
    flow: BranchingFlow,
}

/// A flow to a node, and a search for more.
struct BranchingFlow {
    /// On every arc.
    on: Vec<u32>,
    touched: Vec<u32>,
    /// Where the unit of each tree comes in.
    start: Vec<u32>,
    /// From each node, then from where each tree comes in: the next step to the sink; the arc, and the node or tree.
    next: Vec<(u32, u32)>,
    seen: Vec<u32>,
    queue: VecDeque<u32>,
}

impl<'a> Growth<'a> {
    fn new(nodes: usize, arcs: &'a [Arc], root: u32) -> Self {
        let (mut out, mut into) = (vec![Vec::new(); nodes], vec![Vec::new(); nodes]);
        for (id, &(from, to, _)) in (0..).zip(arcs) {
            out[from as usize].push(id);
            into[to as usize].push(id);
        }
        let flow = BranchingFlow {
            on: vec![0; arcs.len()],
            touched: vec![],
            start: vec![],
            next: vec![(NONE, NONE); nodes],
            seen: vec![],
            queue: VecDeque::new(),
        };
        let left = arcs.iter().map(|arc| arc.2).collect();
        Growth { arcs, root, out, into, left, trees: vec![0; nodes], entered: vec![], flow }
    }

    /// The least flow from the root to another node, or one more than [`MOST_TREES`].
    fn least_cut(&mut self) -> usize {
        let others = (0..self.out.len() as u32).filter(|&node| node != self.root).collect::<Vec<_>>();
        let mut least = MOST_TREES + 1;
        for node in others {
            least = self.flow_to(node, self.root, 0, least);
        }
        least
    }

    /// Starts so many trees at the root.
    fn plant(&mut self, count: usize) {
        self.trees[self.root as usize] = u128::MAX >> (MOST_TREES - count);
        self.entered = vec![vec![None; self.out.len()]; count];
        self.flow.start = vec![NONE; count];
        self.flow.next.resize(self.out.len() + count, (NONE, NONE));
    }

    /// Grows all trees, in turn by an arc: out of the nearest node that has one which the others can spare.
    fn grow(&mut self) {
        let count = self.entered.len();
        let mut missing = count * (self.out.len() - 1);
        // Nodes with arcs to look at, nearer ones first, and how many of the first one's have been looked at. What cannot be
        // spared now never can.
        let mut open: Vec<(VecDeque<u32>, usize)> = vec![(VecDeque::from([self.root]), 0); count];
        while missing > 0 {
            let before = missing;
            for (tree, (nodes, looked)) in open.iter_mut().enumerate() {
                while let Some(&node) = nodes.front() {
                    let arcs = &self.out[node as usize][*looked..];
                    let Some(&arc) = arcs.first() else {
                        nodes.pop_front();
                        *looked = 0;
                        continue;
                    };
                    *looked += 1;
                    if self.take(tree, arc) {
                        nodes.push_back(self.arcs[arc as usize].1);
                        missing -= 1;
                        break;
                    }
                }
            }
            assert!(missing < before, "a tree can always grow");
        }
    }

    /// Adds an arc to a tree if all can be completed after that.
    fn take(&mut self, tree: usize, arc: u32) -> bool {
        let (from, to, _) = self.arcs[arc as usize];
        let bit = 1 << tree;
        if self.left[arc as usize] == 0 || self.trees[to as usize] & bit != 0 {
            return false;
        }
        self.left[arc as usize] -= 1;
        // Sets that hold the end, not the start, and a node of this tree lose an arc that they may need. What the others need
        // to get to the end must come from where they are, or over the start, which is outside.
        let others = self.trees[self.root as usize] & !bit & !self.trees[to as usize];
        let needed = others.count_ones() as usize;
        if self.flow_to(to, from, others, needed) < needed {
            self.left[arc as usize] += 1;
            return false;
        }
        self.trees[to as usize] |= bit;
        self.entered[tree][to as usize] = Some(arc);
        true
    }

    /// How much can flow to `sink`, up to `limit`: anything from `source`, and a unit from each of some trees, wherever it is.
    fn flow_to(&mut self, sink: u32, source: u32, trees: u128, limit: usize) -> usize {
        checkpoint();
        for arc in self.flow.touched.drain(..) {
            self.flow.on[arc as usize] = 0;
        }
        self.flow.start.fill(NONE);
        (0..limit).take_while(|_| self.augment(sink, source, trees)).count()
    }

    /// Lets one unit more flow, if it can: the shortest way, searched from the sink.
    fn augment(&mut self, sink: u32, source: u32, trees: u128) -> bool {
        let Growth { arcs, out, into, left, flow, .. } = self;
        let nodes = out.len() as u32;
        for at in flow.seen.drain(..) {
            flow.next[at as usize] = (NONE, NONE);
        }
        flow.queue.clear();
        let mut unseen = trees;
        let BranchingFlow { on, start, next, seen, queue, .. } = flow;
        let mut reach = |at: u32, by: (u32, u32)| {
            let new = next[at as usize].1 == NONE;
            if new {
                next[at as usize] = by;
                seen.push(at);
            }
            new
        };
        reach(sink, (NONE, sink));
        queue.push_back(sink);
        let found = loop {
            let Some(node) = queue.pop_front() else { return false };
            if node == source {
                break node;
            }
            // Trees that have it.
            let mut here = self.trees[node as usize] & unseen;
            unseen &= !here;
            let mut first = None;
            while here != 0 {
                let tree = here.trailing_zeros();
                here &= here - 1;
                reach(nodes + tree, (NONE, node));
                let other = start[tree as usize];
                if other == NONE {
                    first = Some(tree);
                    break;
                }
                // Its unit could come in here instead.
                if reach(other, (NONE, nodes + tree)) {
                    queue.push_back(other);
                }
            }
            if let Some(tree) = first {
                break nodes + tree;
            }
            let more = into[node as usize].iter().filter(|&&arc| on[arc as usize] < left[arc as usize]);
            let less = out[node as usize].iter().filter(|&&arc| on[arc as usize] > 0);
            let ends = more.map(|&arc| (arc, arcs[arc as usize].0)).chain(less.map(|&arc| (arc, arcs[arc as usize].1)));
            for (arc, other) in ends {
                if reach(other, (arc, node)) {
                    queue.push_back(other);
                }
            }
        };
        self.flow_along(found, sink);
        true
    }

    /// Lets a unit flow to the sink on the way that was found.
    fn flow_along(&mut self, found: u32, sink: u32) {
        let (flow, nodes) = (&mut self.flow, self.out.len() as u32);
        let mut at = found;
        while at != sink {
            let (arc, to) = flow.next[at as usize];
            if at >= nodes {
                flow.start[(at - nodes) as usize] = to;
            } else if arc != NONE {
                let on = &mut flow.on[arc as usize];
                if self.arcs[arc as usize].1 == to {
                    *on += 1
                } else {
                    *on -= 1
                }
                flow.touched.push(arc);
            }
            at = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A graph, with a root from which all nodes can be reached, and where arcs may be used up to three times.
    fn graphs() -> impl Strategy<Value = (usize, Vec<Arc>, u32)> {
        let more = prop::collection::vec((any::<u32>(), any::<u32>(), 1u32..4), 0..60);
        let tree = prop::collection::vec((any::<u32>(), 1u32..4), 11);
        (2u32..12, tree, more, any::<u32>()).prop_map(|(nodes, tree, more, turn)| {
            let turned = |node: u32| (node + turn % nodes) % nodes;
            let tree = (1..nodes).zip(tree).map(|(node, (above, most))| (above % node, node, most));
            let more = more.into_iter().map(|(from, to, most)| (from % nodes, to % nodes, most));
            let arcs = tree.chain(more).filter(|arc| arc.0 != arc.1);
            (nodes as usize, arcs.map(|(a, b, most)| (turned(a), turned(b), most)).collect(), turned(0))
        })
    }

    /// The least capacity of the arcs into a set without the root: of all sets.
    fn least_cut(nodes: usize, arcs: &[Arc], root: u32) -> u32 {
        let sets = (1u32..1 << nodes).filter(|set| set >> root & 1 == 0);
        let into = |set: u32| {
            let enters = |arc: &&Arc| set >> arc.1 & 1 == 1 && set >> arc.0 & 1 == 0;
            arcs.iter().filter(enters).map(|arc| arc.2).sum::<u32>()
        };
        sets.map(into).min().unwrap()
    }

    /// Each is a tree away from the root, and no arc is used more often than it may be.
    fn assert_trees(nodes: usize, arcs: &[Arc], root: u32, trees: &[Vec<Option<u32>>]) {
        let mut used = vec![0; arcs.len()];
        for entered in trees {
            for node in 0..nodes as u32 {
                let above = |node: u32| {
                    entered[node as usize].map(|arc| {
                        assert_eq!(arcs[arc as usize].1, node);
                        arcs[arc as usize].0
                    })
                };
                let way: Vec<u32> = std::iter::successors(Some(node), |&node| above(node)).take(nodes + 1).collect();
                assert_eq!(way.last(), Some(&root));
            }
            entered.iter().flatten().for_each(|&arc| used[arc as usize] += 1);
        }
        used.iter().zip(arcs).for_each(|(&used, arc)| assert!(used <= arc.2, "{used} times: {arc:?}"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

        /// Edmonds' theorem.
        #[test]
        fn as_many_trees_as_the_least_cut((nodes, arcs, root) in graphs()) {
            let trees = branchings(nodes, &arcs, root).unwrap();
            prop_assert_eq!(trees.len() as u32, least_cut(nodes, &arcs, root));
            assert_trees(nodes, &arcs, root, &trees);
        }
    }

    #[test]
    fn none_where_a_node_cannot_be_reached() {
        assert_eq!(branchings(3, &[(0, 1, 1), (2, 1, 1)], 0), None);
        assert_eq!(branchings(2, &[(0, 1, 200)], 0), None);
        assert_eq!(branchings(2, &[(0, 1, 100), (0, 1, 28)], 0).map(|trees| trees.len()), Some(128));
    }

    /// Grids of 16 by 16, closed to tori: four trees from any node, hardly higher than must be, in well under a second.
    #[test]
    fn trees_of_a_torus_are_low() {
        let side = 16u32;
        let node = |x: u32, y: u32| x % side + y % side * side;
        let around = |at: u32| {
            let (x, y) = (at % side, at / side);
            [node(x + 1, y), node(x + side - 1, y), node(x, y + 1), node(x, y + side - 1)].map(|to| (at, to, 1))
        };
        let arcs: Vec<Arc> = (0..side * side).flat_map(around).collect();
        let trees = branchings(256, &arcs, 37).unwrap();
        assert_eq!(trees.len(), 4);
        assert_trees(256, &arcs, 37, &trees);
        let depth = |entered: &[Option<u32>], node: u32| {
            let above = |&node: &u32| entered[node as usize].map(|arc: u32| arcs[arc as usize].0);
            std::iter::successors(Some(node), above).count() - 1
        };
        let heights = trees.iter().map(|entered| (0..256).map(|node| depth(entered, node)).max().unwrap());
        let heights: Vec<usize> = heights.collect();
        assert!(heights.iter().all(|&height| height <= 32), "{heights:?}");
    }
}
