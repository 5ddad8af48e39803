//! Trees that join ranks: the [`Tree`], which [`plant`] lays on the links of a fabric; the slots of its messages on
//! these links, [`table`]; and many trees that stream their parts of the data at once, [`stream`].
//!
//! Who finds the trees is another's matter (`combs`, `forest`, `tto`, `overlapped_tree`, `dbtree`).

mod colour;
mod pace;
mod plant;
mod shares;
mod spread;
mod stream;
mod table;
mod timetable;

pub(super) use plant::{Planter, twins};
pub(super) use spread::{Demand, spread};
pub(super) use stream::{PIECE, Tried, most, prefixes, stream, stream_timed};
pub(super) use table::{Message, Priority, Table, widths};
pub(super) use timetable::Timetable;

use antiphon_model::fabric::LinkId;
use antiphon_model::schedule::Op;

/// Up an edge, and down.
const OPS: [Op; 2] = [Op::Reduce, Op::Copy];

/// Child and parent of an edge, and its links up and down.
pub(super) type Laid = (u32, u32, [Vec<LinkId>; 2]);

/// What trees do with their data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TreeWork {
    /// Sums go up, then copies down; each counts slots from its own start.
    Phases,
    /// Sums go up, and copies down as soon as there are sums.
    Overlapped,
    /// Sums go up.
    Reduce,
    /// Copies go down.
    Broadcast,
}

impl TreeWork {
    /// Operations, in the order in which they come.
    pub fn ops(self) -> &'static [Op] {
        match self {
            TreeWork::Phases | TreeWork::Overlapped => &OPS,
            TreeWork::Reduce => &OPS[..1],
            TreeWork::Broadcast => &OPS[1..],
        }
    }
}

/// A tree of some of the ranks.
///
/// Its edges are numbered; of the messages in one slot those on lower edges come first in a schedule. Reduction goes
/// up every edge, the broadcast down.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    /// Child and parent of every edge.
    edges: Vec<(u32, u32)>,
    /// The way up edge `e` is `links[ways[2 e]..ways[2 e + 1]]`, the way down `links[ways[2 e + 1]..ways[2 e + 2]]`.
    ways: Vec<u32>,
    links: Vec<LinkId>,
    root: u32,
    nodes: Vec<TreeNode>,
    /// Edges, each after that of its parent; those of one parent beside each other.
    outwards: Vec<u32>,
    /// Where copies go down another tree of the same ranks and root than that up which sums go.
    down: Option<Box<Tree>>,
}

/// What a tree knows of a rank.
#[derive(Debug, Clone, Copy)]
struct TreeNode {
    /// Edge to the parent.
    above: Option<u32>,
    /// Edges to the children, as a part of [`Tree::outwards`].
    children: (u32, u32),
    /// Edges from the root.
    depth: u32,
    /// Edges to the farthest leaf below.
    height: u32,
}

impl Tree {
    /// The tree of these edges among so many `ranks`: child, parent, links up and down. O(ranks + links).
    ///
    /// # Panics
    /// If the edges are no tree.
    pub fn new<R: AsRef<[LinkId]>>(ranks: usize, edges: impl IntoIterator<Item = (u32, u32, [R; 2])>) -> Self {
        let node = TreeNode { above: None, children: (0, 0), depth: 0, height: 0 };
        let mut tree = Tree {
            edges: Vec::with_capacity(ranks - 1),
            ways: Vec::with_capacity(2 * ranks - 1),
            links: Vec::with_capacity(2 * (ranks - 1)),
            root: 0,
            nodes: vec![node; ranks],
            outwards: Vec::with_capacity(ranks - 1),
            down: None,
        };
        tree.ways.push(0);
        for (child, parent, routes) in edges {
            let above = tree.nodes[child as usize].above.replace(tree.edges.len() as u32);
            assert_eq!(above, None, "rank {child} has one parent");
            tree.edges.push((child, parent));
            for route in routes {
                tree.links.extend_from_slice(route.as_ref());
                tree.ways.push(tree.links.len() as u32);
            }
        }
        let is_root = |&rank: &u32| tree.nodes[rank as usize].above.is_none();
        tree.root = tree.edges.iter().map(|edge| edge.1).find(is_root).unwrap_or(0);
        tree.measure();
        tree
    }

    /// Sums go up one tree, and copies down the other.
    ///
    /// # Panics
    /// If they are not of the same ranks and root.
    pub fn pair(up: Tree, down: Tree) -> Self {
        assert_eq!((up.root, up.edges.len()), (down.root, down.edges.len()), "trees of one root");
        Tree { down: Some(Box::new(down)), ..up }
    }

    /// The tree on which it does this.
    fn of(&self, op: Op) -> &Tree {
        match &self.down {
            Some(down) if op == Op::Copy => down,
            _ => self,
        }
    }

    /// A tree that is on no links yet, by the parents of all ranks.
    ///
    /// # Panics
    /// If the parents are no tree.
    pub fn logical(parents: &[Option<u32>]) -> Self {
        Tree::new(parents.len(), edges(parents).map(|(child, parent)| (child, parent, [[]; 2])))
    }

    /// Finds the order outwards, depths and heights.
    fn measure(&mut self) {
        // The first child of every rank, and the next one of the same parent.
        let (mut first, mut next) = (vec![None; self.nodes.len()], vec![None; self.edges.len()]);
        for (edge, &(_, parent)) in self.edges.iter().enumerate().rev() {
            next[edge] = first[parent as usize].replace(edge as u32);
        }
        let (mut rank, mut done) = (self.root, 0);
        loop {
            let start = self.outwards.len() as u32;
            let mut below = first[rank as usize];
            while let Some(edge) = below {
                let child = self.edges[edge as usize].0;
                self.nodes[child as usize].depth = self.nodes[rank as usize].depth + 1;
                self.outwards.push(edge);
                below = next[edge as usize];
            }
            self.nodes[rank as usize].children = (start, self.outwards.len() as u32);
            let Some(&edge) = self.outwards.get(done) else { break };
            (rank, done) = (self.edges[edge as usize].0, done + 1);
        }
        assert_eq!(self.outwards.len(), self.edges.len(), "a tree");
        for &edge in self.outwards.iter().rev() {
            let (child, parent) = self.edges[edge as usize];
            let height = self.nodes[child as usize].height + 1;
            let above = &mut self.nodes[parent as usize].height;
            *above = height.max(*above);
        }
    }

    /// Child and parent of every edge: up, where another tree leads down.
    pub fn edges(&self) -> &[(u32, u32)] {
        &self.edges
    }

    /// The same, those nearer to the root first.
    pub fn edges_by_depth(&self) -> Vec<(u32, u32)> {
        let mut edges = self.edges.clone();
        edges.sort_by_key(|&(child, _)| self.depth(child));
        edges
    }

    /// Who sends and who receives on an edge.
    pub fn ends(&self, edge: u32, op: Op) -> (u32, u32) {
        let (child, parent) = self.of(op).edges[edge as usize];
        if op == Op::Reduce { (child, parent) } else { (parent, child) }
    }

    /// The links of an edge, up or down; none where they are still to be found.
    pub fn route(&self, edge: u32, op: Op) -> &[LinkId] {
        let (tree, way) = (self.of(op), 2 * edge as usize + usize::from(op == Op::Copy));
        &tree.links[tree.ways[way] as usize..tree.ways[way + 1] as usize]
    }

    /// All routes.
    pub fn routes(&self) -> impl Iterator<Item = &[LinkId]> {
        let trees = std::iter::once(self).chain(self.down.as_deref());
        trees.flat_map(|tree| tree.ways.windows(2).map(|way| &tree.links[way[0] as usize..way[1] as usize]))
    }

    /// Edges to the children of a rank.
    pub fn children(&self, rank: u32) -> &[u32] {
        let (start, end) = self.nodes[rank as usize].children;
        &self.outwards[start as usize..end as usize]
    }

    /// Edges from the root to a rank.
    pub fn depth(&self, rank: u32) -> u32 {
        self.nodes[rank as usize].depth
    }

    /// The last rank in the order outwards: the end of a path.
    pub fn farthest(&self) -> u32 {
        self.outwards.last().map_or(self.root, |&edge| self.edges[edge as usize].0)
    }

    /// Edges from the root to the farthest rank.
    pub fn height(&self) -> u32 {
        self.height_of(self.root)
    }

    /// Edges from a rank to the farthest leaf below.
    fn height_of(&self, rank: u32) -> u32 {
        self.nodes[rank as usize].height
    }

    /// Edges ahead of a message on an edge until it is everywhere.
    fn ahead(&self, edge: u32, op: Op, work: TreeWork) -> u32 {
        let tree = self.of(op);
        let child = tree.edges[edge as usize].0;
        match op {
            Op::Reduce if work == TreeWork::Reduce => tree.depth(child),
            Op::Reduce => tree.depth(child) + self.of(Op::Copy).height(),
            Op::Copy => tree.height_of(child) + 1,
        }
    }
}

/// Child and parent of every edge of the tree with these parents.
pub(super) fn edges(parents: &[Option<u32>]) -> impl Iterator<Item = (u32, u32)> {
    (0..).zip(parents).filter_map(|(rank, parent)| Some((rank, (*parent)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rank 3 over 1 and 4, 1 over 0 and 2; 5 is in no tree.
    #[test]
    fn a_tree_knows_its_ranks() {
        let edges = [(2, 1), (4, 3), (0, 1), (1, 3)];
        let links: Vec<LinkId> = (0..8).collect();
        // The edge from 4 is a detour.
        let routes =
            [[&links[..1], &links[1..2]], [&links[2..5], &[]], [&links[5..6], &[]], [&links[6..7], &links[7..8]]];
        let tree = Tree::new(6, edges.into_iter().zip(routes).map(|((child, parent), routes)| (child, parent, routes)));
        assert_eq!((tree.root, tree.height(), tree.edges()), (3, 2, &edges[..]));
        assert_eq!([0, 1, 2, 3, 4].map(|rank| tree.depth(rank)), [2, 1, 2, 0, 1]);
        assert_eq!([0, 1, 2, 3, 4].map(|rank| tree.height_of(rank)), [0, 1, 0, 2, 0]);
        assert_eq!([3, 1, 0].map(|rank| tree.children(rank)), [&[1, 3][..], &[0, 2], &[]]);
        assert_eq!(tree.outwards, [1, 3, 0, 2]);
        assert_eq!(tree.edges_by_depth(), [(4, 3), (1, 3), (2, 1), (0, 1)]);
        assert_eq!((tree.ends(1, Op::Reduce), tree.ends(1, Op::Copy)), ((4, 3), (3, 4)));
        assert_eq!((tree.route(1, Op::Reduce), tree.route(1, Op::Copy)), (&links[2..5], &[][..]));
        assert_eq!(tree.routes().flatten().copied().collect::<Vec<_>>(), links);
        let ahead = |edge, op| tree.ahead(edge, op, TreeWork::Overlapped);
        assert_eq!((ahead(0, Op::Reduce), ahead(3, Op::Copy), tree.ahead(0, Op::Reduce, TreeWork::Reduce)), (4, 2, 2));
    }

    #[test]
    #[should_panic(expected = "a tree")]
    fn a_cycle_is_no_tree() {
        Tree::logical(&[None, Some(0), Some(3), Some(2)]);
    }
}
