//! When every message of some trees is sent: no link has two in one slot, in any round.

use super::map::Tree;
use crate::fabric::{Fabric, LinkId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Slots of the messages of one chunk of every tree.
pub struct Table {
    /// Slots between successive chunks.
    pub stride: u32,
    /// For every tree and edge the slots of the message up and of that down; the latter of its own phase, if there
    /// are two.
    pub steps: Vec<Vec<(u32, u32)>>,
    /// Slots of the first chunk, over all phases.
    pub first: u32,
}

/// The table with the smallest stride that a list schedule fills; `overlap`: both ways in one phase.
///
/// A stride below the messages of the busiest link cannot do. Where no link has two, every message goes out as soon
/// as it can: after `2 h` slots the first chunk is everywhere. O(strides tried * messages * (links + log)).
pub fn table(fabric: &Fabric, trees: &[Tree], overlap: bool) -> Table {
    let mut load = vec![0u32; 2 * fabric.links.len()];
    for edge in trees.iter().flat_map(|tree| &tree.edges) {
        edge.up.iter().for_each(|&link| load[link as usize] += 1);
        edge.down.iter().for_each(|&link| load[link as usize + usize::from(!overlap) * fabric.links.len()] += 1);
    }
    let least = load.into_iter().max().unwrap_or(1).max(1);
    let table = |stride| {
        let any = fill(fabric, trees, overlap, stride, None);
        any.or_else(|| fill(fabric, trees, overlap, stride, Some(&residues(fabric, trees, overlap, stride)?)))
    };
    (least..).find_map(table).expect("with a slot a message there is room")
}

/// Slots modulo the stride, by tree and edge, of the message up and of that down.
type Residues = Vec<Vec<[u32; 2]>>;

/// Residues such that no link has two messages in one, if messages have at most two links each, as over a switch:
/// the edges of a bipartite graph of links are coloured with as many colours as its degree (König 1916). `None` if
/// the graph is another. O(messages * (stride + messages)).
fn residues(fabric: &Fabric, trees: &[Tree], overlap: bool, stride: u32) -> Option<Residues> {
    let mut residues: Residues = trees.iter().map(|tree| vec![[0; 2]; tree.edges.len()]).collect();
    // The message of every link and residue, by tree, edge and direction.
    let mut taken: Vec<Option<(usize, usize, usize)>> = vec![None; 2 * fabric.links.len() * stride as usize];
    let ends = |(index, edge, down): (usize, usize, usize)| -> Vec<usize> {
        let edge = &trees[index].edges[edge];
        let offset = if overlap { 0 } else { down * fabric.links.len() };
        (if down == 1 { &edge.down } else { &edge.up }).iter().map(|&link| offset + link as usize).collect()
    };
    let at = |end: usize, residue: u32| end * stride as usize + residue as usize;
    // In the order in which they would go out if links were free.
    let mut messages = vec![];
    for (index, tree) in trees.iter().enumerate() {
        for (number, edge) in tree.edges.iter().enumerate() {
            let start = if overlap { tree.height() } else { 0 };
            messages.push((tree.heights[edge.child as usize], (index, number, 0)));
            messages.push((start + tree.depths[edge.parent as usize], (index, number, 1)));
        }
    }
    if messages.iter().any(|&(_, message)| ends(message).len() > 2) {
        return None;
    }
    messages.sort_unstable();
    for (slot, message) in messages {
        let ends_here = ends(message);
        let free = |end: usize, residue: &u32| taken[at(end, *residue)].is_none();
        let common = (slot..slot + stride).map(|slot| slot % stride);
        let residue = match (common.clone().find(|r| ends_here.iter().all(|&end| free(end, r))), &ends_here[..]) {
            (Some(residue), _) => residue,
            (None, &[first, second]) => {
                // Where both ends have room, but at other times: swap the two residues along a path.
                let [here, there] = [first, second].map(|end| (0..stride).find(|residue| free(end, residue)));
                let (here, there) = (here?, there?);
                let (mut path, mut end, mut residue) = (vec![], second, here);
                while let Some(next) = taken[at(end, residue)] {
                    path.push((next, residue));
                    residue = here + there - residue;
                    let Some(other) = ends(next).into_iter().find(|&other| other != end) else { break };
                    end = other;
                    if end == first {
                        return None;
                    }
                }
                for &(next, residue) in &path {
                    ends(next).into_iter().for_each(|end| taken[at(end, residue)] = None);
                }
                for (next, residue) in path {
                    let swapped = here + there - residue;
                    ends(next).into_iter().for_each(|end| taken[at(end, swapped)] = Some(next));
                    residues[next.0][next.1][next.2] = swapped;
                }
                here
            }
            _ => return None,
        };
        ends_here.into_iter().for_each(|end| taken[at(end, residue)] = Some(message));
        residues[message.0][message.1][message.2] = residue;
    }
    Some(residues)
}

/// A message that can be sent: earliest slot first, then the one with most before it.
type Waiting = (Reverse<u32>, u32, Reverse<usize>, Reverse<usize>, bool);

/// A list schedule: every message takes the first slot that is free on all its links, or that has its residue.
fn fill(fabric: &Fabric, trees: &[Tree], overlap: bool, stride: u32, residues: Option<&Residues>) -> Option<Table> {
    let mut taken = vec![false; (if overlap { 1 } else { 2 }) * fabric.links.len() * stride as usize];
    let mut claim = |route: &[LinkId], phase: usize, earliest: u32| {
        let at = |link: LinkId, slot: u32| {
            (phase * fabric.links.len() + link as usize) * stride as usize + (slot % stride) as usize
        };
        let slot = (earliest..earliest + stride).find(|&slot| route.iter().all(|&link| !taken[at(link, slot)]))?;
        route.iter().for_each(|&link| taken[at(link, slot)] = true);
        Some(slot)
    };
    let mut steps: Vec<Vec<(u32, u32)>> = trees.iter().map(|tree| vec![(0, 0); tree.edges.len()]).collect();
    let mut slots = [0, 0];
    let missing = |tree: &Tree| tree.to_children.iter().map(Vec::len).collect();
    let mut missing: Vec<Vec<usize>> = trees.iter().map(missing).collect();
    let mut ready = vec![vec![0; fabric.ranks()]; trees.len()];
    let up = |index: usize, edge: usize, earliest: u32| -> Waiting {
        let child = trees[index].edges[edge].child as usize;
        let ahead = trees[index].depths[child] + trees[index].height();
        (Reverse(earliest), ahead, Reverse(index), Reverse(edge), true)
    };
    let leaf = |index: usize, edge: &usize| trees[index].heights[trees[index].edges[*edge].child as usize] == 0;
    let mut waiting: BinaryHeap<Waiting> = (0..trees.len())
        .flat_map(|index| {
            (0..trees[index].edges.len()).filter(move |edge| leaf(index, edge)).map(move |edge| up(index, edge, 0))
        })
        .collect();
    while let Some((Reverse(earliest), _, Reverse(index), Reverse(edge), upwards)) = waiting.pop() {
        let (tree, ends) = (&trees[index], &trees[index].edges[edge]);
        let phase = usize::from(!upwards && !overlap);
        let slot = match residues {
            Some(residues) => {
                let residue = residues[index][edge][usize::from(!upwards)];
                earliest + (residue + stride - earliest % stride) % stride
            }
            None => claim(if upwards { &ends.up } else { &ends.down }, phase, earliest)?,
        };
        slots[phase] = slots[phase].max(slot + 1);
        let complete = if upwards {
            steps[index][edge].0 = slot;
            let (parent, ready) = (ends.parent as usize, &mut ready[index][ends.parent as usize]);
            *ready = (slot + 1).max(*ready);
            missing[index][parent] -= 1;
            match tree.to_parent[parent] {
                _ if missing[index][parent] > 0 => continue,
                Some(next) => {
                    waiting.push(up(index, next, *ready));
                    continue;
                }
                None => (parent, if overlap { *ready } else { 0 }),
            }
        } else {
            steps[index][edge].1 = slot;
            (ends.child as usize, slot + 1)
        };
        // The rank has the whole sum: to its children.
        for &edge in &tree.to_children[complete.0] {
            let ahead = tree.heights[tree.edges[edge].child as usize] + 1;
            waiting.push((Reverse(complete.1), ahead, Reverse(index), Reverse(edge), false));
        }
    }
    Some(Table { stride, steps, first: slots[0] + slots[1] })
}
