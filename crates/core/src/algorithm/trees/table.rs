//! Slots for the pieces of trees on all links.

use super::{Parent, Tree};
use crate::fabric::Fabric;
use crate::system::System;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Trees, and the slots of their pieces. One slot is the time of a piece on the fastest link.
#[derive(Debug, Clone)]
pub(in crate::algorithm) struct Table {
    /// The trees; a round has one piece of each.
    pub trees: Vec<Tree>,
    /// For every tree and rank the first slots of its links to the parent and from it, in the first round.
    /// No link has two pieces in one slot of any round.
    pub steps: Vec<Vec<(u32, u32)>>,
    /// Slots of a round.
    pub period: u32,
    /// Slots that a piece takes on every link; parts of a slot are rounded up.
    pub widths: Vec<u32>,
}

/// Slots that a piece takes on each link.
pub(in crate::algorithm) fn widths(fabric: &Fabric, system: &System) -> Vec<u32> {
    let times = || fabric.links.iter().map(|link| system.flit_time(link));
    let fastest = times().min().unwrap_or(1).max(1);
    times().map(|time| time.div_ceil(fastest).min(1 << 10) as u32).collect()
}

impl Table {
    /// Trees with given slots on a fabric whose links are all alike.
    pub fn new(fabric: &Fabric, trees: Vec<Tree>, steps: Vec<Vec<(u32, u32)>>, period: u32) -> Table {
        Table { trees, steps, period, widths: vec![1; fabric.links.len()] }
    }

    /// Trees by a list schedule. Every piece takes the first free slot of the round's table of its link,
    /// those that can start first first, of these the one with the longest way ahead.
    ///
    /// O(pieces * (log pieces + slots of a round)).
    pub fn listed(fabric: &Fabric, system: &System, trees: Vec<Tree>) -> Table {
        let ranks = fabric.ranks();
        let widths = widths(fabric, system);
        let mut pieces = vec![0u32; fabric.links.len()];
        for parent in trees.iter().flat_map(|tree| tree.parents.iter().flatten()) {
            pieces[parent.up as usize] += 1;
            pieces[parent.down as usize] += 1;
        }
        let period = pieces.iter().zip(&widths).map(|(&pieces, &width)| pieces * width).max().unwrap_or(0).max(1);
        // Every link has a table of places for pieces, each as wide as a piece on it.
        let places: Vec<u32> = widths.iter().map(|width| period / width).collect();
        let mut start = vec![0usize; places.len() + 1];
        for (link, &places) in places.iter().enumerate() {
            start[link + 1] = start[link] + if pieces[link] > 0 { places as usize } else { 0 };
        }
        let mut taken = vec![false; start[places.len()]];
        // The first slot from `ready` on at which `link` is free.
        let mut take = |link: u32, ready: u32| {
            let (width, places) = (widths[link as usize], places[link as usize]);
            let table = &mut taken[start[link as usize]..start[link as usize + 1]];
            let (mut round, mut place) = (ready / period, (ready % period).div_ceil(width));
            loop {
                if place >= places {
                    (round, place) = (round + 1, 0);
                }
                if !table[place as usize] {
                    table[place as usize] = true;
                    return round * period + place * width;
                }
                place += 1;
            }
        };
        let mut steps = vec![vec![(0, 0); ranks]; trees.len()];
        let shapes: Vec<Shape> = trees.iter().map(Shape::new).collect();
        let mut missing: Vec<Vec<u32>> = shapes.iter().map(|shape| shape.counts.clone()).collect();
        let mut ready = vec![vec![0u32; ranks]; trees.len()];
        let mut waiting = BinaryHeap::new();
        for (index, (tree, shape)) in trees.iter().zip(&shapes).enumerate() {
            let root = tree.outwards[0];
            for &rank in tree.outwards.iter().filter(|&&rank| rank != root && shape.counts[rank as usize] == 0) {
                waiting.push((Reverse(0), shape.up(rank, root), Reverse(index), Reverse(rank), true));
            }
        }
        while let Some((Reverse(earliest), _, Reverse(index), Reverse(rank), upwards)) = waiting.pop() {
            let (tree, shape, ready) = (&trees[index], &shapes[index], &mut ready[index]);
            let Parent { rank: parent, up, down } = tree.parents[rank as usize].expect("the root has no piece");
            let root = tree.outwards[0];
            let link = if upwards { up } else { down };
            let slot = take(link, earliest);
            let arrives = slot + widths[link as usize];
            let has_sum = if upwards {
                steps[index][rank as usize].0 = slot;
                ready[parent as usize] = ready[parent as usize].max(arrives);
                missing[index][parent as usize] -= 1;
                if missing[index][parent as usize] > 0 {
                    continue;
                }
                if parent != root {
                    let ahead = shape.up(parent, root);
                    waiting.push((Reverse(ready[parent as usize]), ahead, Reverse(index), Reverse(parent), true));
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
                waiting.push((Reverse(ready[has_sum as usize]), ahead, Reverse(index), Reverse(child), false));
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
