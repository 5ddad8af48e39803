//! Slots for the pieces of trees on all links.

use super::{Parent, Tree};
use crate::fabric::Fabric;
use crate::units::Picos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Trees, and the slots of their pieces.
#[derive(Debug, Clone)]
pub(in crate::algorithm) struct Table {
    /// The trees; a round has one piece of each.
    pub trees: Vec<Tree>,
    /// For every tree and rank the first slots of its links to the parent and from it, in the first round.
    /// No link has two pieces in one slot of any round.
    pub steps: Vec<Vec<(u32, u32)>>,
    /// Slots of a round.
    pub period: u32,
    /// See [`widths`].
    pub widths: Vec<u32>,
}

/// Most slots of a piece on a link; slower links than that are taken for faster.
const MOST_SLOTS: u128 = 1 << 8;

/// Slots that a piece takes on links of these flit times: one on the fastest, if all others take whole ones,
/// else eight.
fn widths(flit_times: &[Picos]) -> Vec<u32> {
    let fastest = flit_times.iter().copied().min().unwrap_or(1).max(1);
    let parts = if flit_times.iter().all(|time| time % fastest == 0) { 1 } else { 8 };
    flit_times.iter().map(|&time| (u128::from(time) * parts).div_ceil(fastest.into()).min(MOST_SLOTS) as u32).collect()
}

impl Table {
    /// Trees with given slots on a fabric whose links are all alike.
    pub fn new(fabric: &Fabric, trees: Vec<Tree>, steps: Vec<Vec<(u32, u32)>>, period: u32) -> Table {
        Table { trees, steps, period, widths: vec![1; fabric.links.len()] }
    }

    /// Trees, at least one, by a list schedule: the piece with the longest way ahead, of these the one that can start first,
    /// takes the first free slot of the round's table of its link.
    ///
    /// O(pieces * (log pieces + slots of a round)).
    pub fn listed(flit_times: &[Picos], trees: Vec<Tree>) -> Table {
        let ranks = trees[0].parents.len();
        let widths = widths(flit_times);
        let mut pieces = vec![0u32; widths.len()];
        for parent in trees.iter().flat_map(|tree| tree.parents.iter().flatten()) {
            pieces[parent.up as usize] += 1;
            pieces[parent.down as usize] += 1;
        }
        let period = pieces.iter().zip(&widths).map(|(&pieces, &width)| pieces * width).max().unwrap_or(0).max(1);
        let mut places = Places::new(&widths, &pieces, period);
        let mut steps = vec![vec![(0, 0); ranks]; trees.len()];
        let shapes: Vec<Shape> = trees.iter().map(Shape::new).collect();
        let mut missing: Vec<Vec<u32>> = shapes.iter().map(|shape| shape.counts.clone()).collect();
        // When a rank has everything of its children, then when it has the sum.
        let mut ready = vec![vec![0u32; ranks]; trees.len()];
        let mut waiting = BinaryHeap::new();
        for (index, (tree, shape)) in trees.iter().zip(&shapes).enumerate() {
            let root = tree.outwards[0];
            for &rank in tree.outwards.iter().filter(|&&rank| rank != root && shape.counts[rank as usize] == 0) {
                waiting.push((shape.up(rank, root), Reverse(0), Reverse(index), Reverse(rank), true));
            }
        }
        while let Some((_, Reverse(earliest), Reverse(index), Reverse(rank), upwards)) = waiting.pop() {
            let (tree, shape, ready) = (&trees[index], &shapes[index], &mut ready[index]);
            let Parent { rank: parent, up, down } = tree.parents[rank as usize].expect("the root has no piece");
            let root = tree.outwards[0];
            let link = if upwards { up } else { down };
            let slot = places.take(link, earliest);
            let arrives = slot + widths[link as usize];
            let has_sum = if upwards {
                steps[index][rank as usize].0 = slot;
                ready[parent as usize] = ready[parent as usize].max(arrives);
                missing[index][parent as usize] -= 1;
                if missing[index][parent as usize] > 0 {
                    continue;
                }
                if parent != root {
                    let earliest = Reverse(ready[parent as usize]);
                    waiting.push((shape.up(parent, root), earliest, Reverse(index), Reverse(parent), true));
                    continue;
                }
                root
            } else {
                steps[index][rank as usize].1 = slot;
                ready[rank as usize] = arrives;
                rank
            };
            for &child in shape.children(has_sum) {
                let ahead = shape.heights[child as usize] + 1;
                waiting.push((ahead, Reverse(ready[has_sum as usize]), Reverse(index), Reverse(child), false));
            }
        }
        Table { trees, steps, period, widths }
    }

    /// Slots from the start to the arrival of the first round's last piece.
    pub fn last(&self) -> u32 {
        let pieces = self.trees.iter().zip(&self.steps).flat_map(|(tree, steps)| tree.parents.iter().zip(steps));
        let arrivals = pieces.filter_map(|(parent, &(reduce, copy))| {
            let Parent { up, down, .. } = (*parent)?;
            Some((reduce + self.widths[up as usize]).max(copy + self.widths[down as usize]))
        });
        arrivals.max().unwrap_or(0)
    }
}

/// The places for pieces on all links in a round, each as wide as a piece there.
struct Places<'a> {
    widths: &'a [u32],
    period: u32,
    /// Those of link `l` are `start[l]..start[l + 1]`.
    start: Vec<usize>,
    taken: Vec<bool>,
}

impl<'a> Places<'a> {
    /// For links that carry so many `pieces` a round.
    fn new(widths: &'a [u32], pieces: &[u32], period: u32) -> Self {
        let mut start = vec![0usize];
        for (width, &pieces) in widths.iter().zip(pieces) {
            let places = if pieces > 0 { (period / width) as usize } else { 0 };
            start.push(start[start.len() - 1] + places);
        }
        let taken = vec![false; start[widths.len()]];
        Places { widths, period, start, taken }
    }

    /// The first slot from `ready` on, in any round, whose place on the link is free; no longer is.
    fn take(&mut self, link: u32, ready: u32) -> u32 {
        let width = self.widths[link as usize];
        let table = &mut self.taken[self.start[link as usize]..self.start[link as usize + 1]];
        let (mut round, mut place) = (ready / self.period, (ready % self.period).div_ceil(width) as usize);
        loop {
            match table.get_mut(place) {
                None => (round, place) = (round + 1, 0),
                Some(taken) if *taken => place += 1,
                Some(taken) => {
                    *taken = true;
                    return round * self.period + place as u32 * width;
                }
            }
        }
    }
}

/// Children, depths and heights of the ranks in a tree.
struct Shape {
    counts: Vec<u32>,
    /// Children of rank `r` are `list[first[r]..first[r + 1]]`.
    first: Vec<u32>,
    list: Vec<u32>,
    depths: Vec<u32>,
    heights: Vec<u32>,
}

impl Shape {
    fn new(tree: &Tree) -> Shape {
        let ranks = tree.parents.len();
        let mut counts = vec![0; ranks];
        for parent in tree.parents.iter().flatten() {
            counts[parent.rank as usize] += 1;
        }
        let mut first = vec![0; ranks + 1];
        for rank in 0..ranks {
            first[rank + 1] = first[rank] + counts[rank];
        }
        let (mut free, mut list, mut heights) = (first.clone(), vec![0; ranks - 1], vec![0; ranks]);
        for &rank in tree.outwards.iter().rev() {
            if let Some(parent) = tree.parents[rank as usize] {
                let height = heights[rank as usize] + 1;
                let above = &mut heights[parent.rank as usize];
                *above = height.max(*above);
                list[free[parent.rank as usize] as usize] = rank;
                free[parent.rank as usize] += 1;
            }
        }
        Shape { counts, first, list, depths: tree.depths(), heights }
    }

    fn children(&self, rank: u32) -> &[u32] {
        &self.list[self.first[rank as usize] as usize..self.first[rank as usize + 1] as usize]
    }

    /// Links ahead of a piece on its way up from `rank`.
    fn up(&self, rank: u32, root: u32) -> u32 {
        self.depths[rank as usize] + self.heights[root as usize]
    }
}

#[cfg(test)]
impl Table {
    /// Asserts that no link has two pieces at a time and that every piece is sent when it has come.
    pub fn assert_free(&self) {
        let mut taken = std::collections::HashSet::new();
        for (tree, steps) in self.trees.iter().zip(&self.steps) {
            for (parent, &(reduce, copy)) in tree.parents.iter().zip(steps) {
                let Some(parent) = *parent else { continue };
                for (link, step) in [(parent.up, reduce), (parent.down, copy)] {
                    for slot in step..step + self.widths[link as usize] {
                        assert!(taken.insert((link, slot % self.period)), "link {link}, slot {slot}");
                    }
                }
                let up = self.widths[parent.up as usize];
                let above = steps[parent.rank as usize];
                match tree.parents[parent.rank as usize] {
                    Some(next) => {
                        assert!(reduce + up <= above.0, "reduction");
                        assert!(copy >= above.1 + self.widths[next.down as usize], "broadcast");
                    }
                    None => {
                        let up = |(parent, step): (&Option<Parent>, &(u32, u32))| {
                            Some(step.0 + self.widths[(*parent)?.up as usize])
                        };
                        let sum = tree.parents.iter().zip(steps).filter_map(up).max().unwrap();
                        assert!(copy >= sum, "broadcast starts with the sum");
                    }
                }
            }
        }
    }
}
