//! Proof of trees that are described: each reduces its part of the data to its root and copies the sum back, chunk by chunk.
//!
//! It asks the description for parents, slots and lanes, and for nothing else. Per tree and node it holds that
//! - parents are neighbours, and every node reaches the one root: a spanning tree, so every contribution comes to the root
//!   once, and the sum to every node once;
//! - a node sends its sum in a later slot than all its children, and passes the sum of all on in a later slot than it gets it.
//!   Chunks are a period apart, so a message only waits for messages of earlier slots;
//! - no link has two messages in a slot, modulo the period, so its order is that of slots, and nothing waits in a cycle;
//! - lanes are beside each other and cover the data once.

use super::Grid;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Bytes;
use antiphon_base::watch::Watch;
use antiphon_model::schedule::Op;
use std::fmt::Display;

/// Trees that each stream a lane of the data, by rules.
pub trait DescribedTrees {
    /// How many.
    fn trees(&self) -> u32;
    /// Slots from a chunk to the next one.
    fn period(&self) -> u32;
    /// Start and length of a tree's part of the data.
    fn lane(&self, tree: u32) -> (Bytes, Bytes);
    /// Above a node; None at the root.
    fn parent(&self, tree: u32, node: u32) -> Option<u32>;
    /// Slot of the first message between a node and its parent: up, or down to it.
    fn slot(&self, tree: u32, node: u32, op: Op) -> u32;
}

/// Checks all that the module says of trees that sum so many bytes on a grid; returns what was checked. O(trees * nodes).
///
/// # Errors
/// [`Code::NotProven`] with the first thing that does not hold, [`Code::Interrupted`].
pub fn prove(grid: &Grid, trees: &impl DescribedTrees, bytes: Bytes, watch: Watch) -> Result<String> {
    let (count, nodes, period) = (trees.trees(), grid.ranks() as usize, trees.period() as usize);
    let mut end = 0;
    for tree in 0..count {
        let (offset, length) = trees.lane(tree);
        if offset != end || length == 0 {
            return wrong(tree, format_args!("its lane begins at byte {offset} with {length} bytes, not at {end}"));
        }
        end = offset.saturating_add(length);
    }
    if end != bytes {
        return wrong(count - 1, format_args!("lanes end at byte {end} of {bytes}"));
    }
    // The slots of a period that are taken on every link: four links leave a node.
    let mut taken = vec![0u64; (4 * nodes * period).div_ceil(64)];
    let mut known = vec![0; nodes];
    let (mut parents, mut slots) = (vec![None; nodes], vec![[0; 2]; nodes]);
    for tree in 0..count {
        watch.step(tree as usize, count as usize)?;
        for node in 0..nodes as u32 {
            parents[node as usize] = trees.parent(tree, node);
            let Some(parent) = parents[node as usize] else { continue };
            if !grid.joins(node, parent) {
                return wrong(tree, format_args!("no link joins node {node} and its parent {parent}"));
            }
            slots[node as usize] = [Op::Reduce, Op::Copy].map(|op| trees.slot(tree, node, op));
        }
        let root = spans(&parents, &mut known, tree)?;
        // When the root has all, and when it sends first.
        let (mut has, mut sends) = (0, u32::MAX);
        for (node, &[up, down]) in slots.iter().enumerate() {
            let Some(parent) = parents[node] else { continue };
            for (from, to, slot) in [(node, parent as usize, up), (parent as usize, node, down)] {
                let link = 4 * from + usize::from(from.abs_diff(to) != 1) + if to > from { 2 } else { 0 };
                let place = link * period + slot as usize % period;
                if taken[place / 64] >> (place % 64) & 1 == 1 {
                    return wrong(tree, format_args!("the link {from}>{to} has two messages in slot {slot}"));
                }
                taken[place / 64] |= 1 << (place % 64);
            }
            if parent == root {
                (has, sends) = (up.max(has), down.min(sends));
                continue;
            }
            let [next, before] = slots[parent as usize];
            if up >= next || before >= down {
                let what = format_args!("slots {up}, {down} of node {node} do not fit its parent's {next}, {before}");
                return wrong(tree, what);
            }
        }
        if has >= sends {
            return wrong(tree, format_args!("the root sends in slot {sends}, before all has come in slot {has}"));
        }
    }
    Ok(format!(
        "{count} spanning trees of {nodes} ranks on links of the mesh; lanes cover the data once; every message waits for \
         earlier slots only; no link has two in a slot of {period}"
    ))
}

/// The only root of a tree that all its nodes reach; `known` has the last tree in which a node was found to do so.
fn spans(parents: &[Option<u32>], known: &mut [u32], tree: u32) -> Result<u32> {
    let mut roots = (0..).zip(parents).filter(|(_, parent)| parent.is_none()).map(|(node, _)| node);
    let (Some(root), None) = (roots.next(), roots.next()) else {
        return wrong(tree, "it has not one root");
    };
    let done = tree + 1;
    known[root as usize] = done;
    for start in 0..parents.len() as u32 {
        let up = |&node: &u32| parents[node as usize];
        let path = || std::iter::successors(Some(start), up);
        let steps = path().take(parents.len()).take_while(|&node| known[node as usize] != done).count();
        if steps == parents.len() {
            return wrong(tree, format_args!("node {start} does not reach the root {root}"));
        }
        path().take(steps).for_each(|node| known[node as usize] = done);
    }
    Ok(root)
}

fn wrong<T>(tree: u32, what: impl Display) -> Result<T> {
    Err(Error::new(Code::NotProven, format!("tree {tree}: {what}")))
}
