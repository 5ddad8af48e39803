//! Makes the trees of a packing lower.

use super::PackingGraph;

/// Most times that all nodes are tried; a handful is usual.
const SWEEPS: usize = 20;

/// A tree with what the effect of a move follows from.
struct Hung {
    parents: Vec<Option<u32>>,
    depth: Vec<i64>,
    /// Nodes below each node, itself included, and the sum of their depths.
    below: Vec<(i64, i64)>,
    /// The nodes below are those that enter between these.
    enters: Vec<(u32, u32)>,
}

impl Hung {
    fn new(parents: Vec<Option<u32>>) -> Hung {
        let nodes = parents.len();
        let mut hung = Hung { parents, depth: vec![0; nodes], below: vec![(0, 0); nodes], enters: vec![(0, 0); nodes] };
        hung.measure();
        hung
    }

    fn measure(&mut self) {
        let nodes = self.parents.len();
        let (mut first, mut next) = (vec![u32::MAX; nodes], vec![u32::MAX; nodes]);
        let mut root = 0;
        for (node, parent) in (0..).zip(&self.parents) {
            match *parent {
                Some(parent) => next[node as usize] = std::mem::replace(&mut first[parent as usize], node),
                None => root = node,
            }
        }
        let mut order = Vec::with_capacity(nodes);
        let mut stack = vec![root];
        while let Some(node) = stack.pop() {
            let at = node as usize;
            self.depth[at] = self.parents[at].map_or(0, |parent| self.depth[parent as usize] + 1);
            self.below[at] = (1, self.depth[at]);
            self.enters[at].0 = order.len() as u32;
            order.push(node);
            let mut child = first[at];
            while child != u32::MAX {
                stack.push(child);
                child = next[child as usize];
            }
        }
        for &node in order.iter().rev() {
            let (count, sum) = self.below[node as usize];
            self.enters[node as usize].1 = self.enters[node as usize].0 + count as u32;
            if let Some(parent) = self.parents[node as usize] {
                let above = &mut self.below[parent as usize];
                *above = (above.0 + count, above.1 + sum);
            }
        }
    }

    /// By how much the sum of squares of depths grows if `node` gets another parent; `None` if that is
    /// below the node.
    fn growth(&self, node: u32, parent: u32) -> Option<i64> {
        let (from, to) = self.enters[node as usize];
        let enters = self.enters[parent as usize].0;
        let deeper = self.depth[parent as usize] + 1 - self.depth[node as usize];
        let (count, sum) = self.below[node as usize];
        (enters < from || enters >= to).then_some(2 * deeper * sum + deeper * deeper * count)
    }

    fn hang(&mut self, node: u32, parent: u32) {
        self.parents[node as usize] = Some(parent);
        self.measure();
    }
}

/// Lets nodes change parents where that makes a tree lower: for an edge with room, or in exchange with another
/// tree that gets the former parent; until nothing helps, or [`SWEEPS`] times.
///
/// Lower means a smaller sum of squares of depths. O(trees^2 * edges) a sweep, O(nodes) more a change.
pub(super) fn flatten(graph: &PackingGraph, most: &[u32], trees: Vec<Vec<Option<u32>>>) -> Vec<Vec<Option<u32>>> {
    let mut trees: Vec<Hung> = trees.into_iter().map(Hung::new).collect();
    let mut used = vec![0u32; most.len()];
    let edge_to = |node: u32, parent: u32| {
        let edges = graph.at[node as usize].iter().copied();
        edges.clone().find(|&edge| graph.other(edge, node) == parent).expect("a parent is a neighbour") as usize
    };
    for tree in &trees {
        for (node, parent) in (0..).zip(&tree.parents) {
            if let Some(parent) = *parent {
                used[edge_to(node, parent)] += 1;
            }
        }
    }
    for _ in 0..SWEEPS {
        let mut changed = false;
        for index in 0..trees.len() {
            for node in 0..graph.at.len() as u32 {
                for &edge in &graph.at[node as usize] {
                    let Some(parent) = trees[index].parents[node as usize] else { break };
                    let next = graph.other(edge, node);
                    let Some(gain) = trees[index].growth(node, next).map(|growth| -growth).filter(|&gain| gain > 0)
                    else {
                        continue;
                    };
                    if used[edge as usize] < most[edge as usize] {
                        used[edge as usize] += 1;
                        used[edge_to(node, parent)] -= 1;
                    } else {
                        let loss = |(other, tree): (usize, &Hung)| {
                            let gives = tree.parents[node as usize] == Some(next);
                            let growth = tree.growth(node, parent).filter(|&growth| gives && growth < gain)?;
                            Some((growth, other))
                        };
                        let Some((_, other)) = trees.iter().enumerate().filter_map(loss).min() else { continue };
                        trees[other].hang(node, parent);
                    }
                    trees[index].hang(node, next);
                    changed = true;
                }
            }
        }
        if !changed {
            break;
        }
    }
    trees.into_iter().map(|tree| tree.parents).collect()
}
