//! Combs: a packing of spanning trees that loads every link of a mesh equally, reduction and broadcast
//! at once, so that AllReduce reaches the physical limit.
//!
//! Comb `j` of the rows has every row's edges and those of column `j`, rooted in the middle of that
//! column; the combs of the columns are the transpose. Together they use every edge equally often
//! (reference: mesh-optimum sections 1 and 2). The optimum is Tutte's and Nash-Williams' strength;
//! packing trees for collectives is Blink's idea, overlapping reduction and broadcast C-Cube's.

use super::{Algorithm, Info, Request};
use crate::collective::{Kind, shard};
use crate::error::Result;
use crate::fabric::GridKind;
use crate::schedule::{Issue, Lane, Op, Pacing, Schedule};
use crate::units::Bytes;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// See the module.
pub struct Combs;

const INFO: Info = Info {
    name: "combs",
    summary: "spanning trees that load every link equally, reduction and broadcast at once; all chiplets take part",
    options: &[("piece", "bytes of one piece of one tree (default: the best by the slots it takes)")],
    source: "Tutte and Nash-Williams; tree packing: Blink; overlap: C-Cube",
    collectives: &[Kind::AllReduce],
};

impl Algorithm for Combs {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        let shape =
            request.fabric.grid().filter(|grid| grid.kind == GridKind::Mesh).and_then(|grid| grid.rows_columns());
        let Some((rows, columns)) = shape else {
            return request.refuse("it needs an intact two-dimensional mesh with both sides at least 2");
        };
        let mesh = Mesh { rows, columns };
        let trees = mesh.trees();
        let (steps, period) = mesh.slots(&trees);
        let last = steps.iter().flatten().flat_map(|&(up, down)| [up, down]).max().unwrap_or(0);
        let piece = match request.options.get("piece") {
            Some(_) => request.options.bytes("piece", 0)?,
            None => best_piece(request, trees.len() as u64, period.into(), u64::from(last) + 1),
        };
        let mut builder = request.builder();
        (builder.schedule.issue, builder.schedule.pacing) = (Issue::Links, Pacing::Pipelined);
        builder.phase("reduce and broadcast", false);
        for (index, (tree, steps)) in trees.iter().zip(&steps).enumerate() {
            let (offset, bytes) = shard(request.bytes, trees.len(), index);
            // All trees have as many pieces, of whole elements.
            let most = request.bytes.div_ceil(trees.len() as u64);
            let chunks = most.div_ceil(piece.clamp(4, most.max(4)).next_multiple_of(4)).max(1);
            let chunk_bytes = most.div_ceil(chunks).next_multiple_of(4).max(Lane::payload(bytes, chunks));
            let lane = builder.lane(Lane { offset, bytes, chunks, chunk_bytes, stride: period, source: 0, owner: 0 });
            for (node, parent) in tree.parents.iter().enumerate() {
                let Some(parent) = *parent else { continue };
                builder.send(Op::Reduce, node as u32, parent, lane, 1, steps[node].0)?;
                builder.send(Op::Copy, parent, node as u32, lane, 1, steps[node].1)?;
            }
        }
        builder.finish()
    }
}

/// The piece size with the shortest time, by the model: a slot is a piece on a link and a hand-off.
fn best_piece(request: &Request, trees: u64, period: u64, makespan: u64) -> Bytes {
    let system = request.system;
    let payload = system.packet.payload_bytes;
    let Some(link) = request.fabric.links.first() else { return payload };
    let time = |packets: u64| {
        let rounds = request.bytes.div_ceil(trees * packets * payload).max(1);
        let sent = system.packets((request.bytes.div_ceil(trees * rounds)).max(1));
        let slot = sent.count * sent.flits * system.flit_time(link) + system.hand_off_ps + system.latency_of(link);
        u128::from((rounds - 1) * period + makespan) * u128::from(slot)
    };
    (0..12).map(|exponent| 1 << exponent).min_by_key(|&packets| time(packets)).unwrap_or(1) * payload
}

/// A spanning tree: parent of every node but the root, and nodes from the root outwards.
struct Tree {
    parents: Vec<Option<u32>>,
    outwards: Vec<u32>,
    /// Whether it is a comb of the rows, and of which column (or row).
    of_rows: bool,
    tooth: u32,
}

struct Mesh {
    rows: u32,
    columns: u32,
}

impl Mesh {
    /// The trees, each as often as one round has pieces of it: with `g = gcd(rows - 1, columns - 1)`
    /// every comb of the rows `(rows - 1) / g` times, of the columns `(columns - 1) / g` times.
    fn trees(&self) -> Vec<Tree> {
        let common = gcd(self.rows - 1, self.columns - 1);
        let mut trees = Vec::new();
        for tooth in 0..self.columns {
            trees.extend((0..(self.rows - 1) / common).map(|_| self.comb(true, tooth)));
        }
        for tooth in 0..self.rows {
            trees.extend((0..(self.columns - 1) / common).map(|_| self.comb(false, tooth)));
        }
        trees
    }

    fn comb(&self, of_rows: bool, tooth: u32) -> Tree {
        // Along the teeth, and across them.
        let (across, along) = if of_rows { (self.rows, self.columns) } else { (self.columns, self.rows) };
        let node = |a: u32, b: u32| if of_rows { a * self.columns + b } else { b * self.columns + a };
        let middle = across / 2;
        let toward = |from: u32, to: u32| if from < to { from + 1 } else { from - 1 };
        let mut parents = vec![None; (self.rows * self.columns) as usize];
        let mut outwards: Vec<(u32, u32)> = Vec::new();
        for a in 0..across {
            for b in 0..along {
                let here = node(a, b);
                outwards.push((a.abs_diff(middle) + b.abs_diff(tooth), here));
                parents[here as usize] = match (a == middle, b == tooth) {
                    (_, false) => Some(node(a, toward(b, tooth))),
                    (false, true) => Some(node(toward(a, middle), b)),
                    (true, true) => None,
                };
            }
        }
        outwards.sort_unstable();
        Tree { parents, outwards: outwards.into_iter().map(|(_, node)| node).collect(), of_rows, tooth }
    }

    /// For every tree and node the slots of its link to the parent and from it, in the first round, and
    /// the slots of a round. No link has two pieces in one slot of any round.
    fn slots(&self, trees: &[Tree]) -> (Vec<Vec<(u32, u32)>>, u32) {
        let period = (self.rows * self.columns - 1) / gcd(self.rows - 1, self.columns - 1);
        if self.rows == self.columns {
            return (trees.iter().map(|tree| self.closed_form(tree, period)).collect(), period);
        }
        (self.listed(trees, period), period)
    }

    /// Square meshes (reference section 3): in a row, the link from column `c` to the right serves class
    /// `k` in slots `u_k + c`, to the left in slots `w_k + (n - 1 - c)`, modulo `n + 1`; columns alike. The
    /// class of a comb's teeth is its number, that of its spine `n`.
    fn closed_form(&self, tree: &Tree, period: u32) -> Vec<(u32, u32)> {
        let n = self.rows;
        let residue = |from: u32, to: u32| {
            let along_row = from / n == to / n;
            let class = if along_row == tree.of_rows { tree.tooth } else { n };
            let place = if along_row { from % n } else { from / n };
            if to > from {
                ((2 * n - class) % period + place) % period
            } else {
                (class + u32::from(n.is_multiple_of(2)) + n - 1 - place) % period
            }
        };
        let after = |ready: u32, residue: u32| ready + (residue + period - ready % period) % period;
        let mut slots = vec![(0, 0); tree.parents.len()];
        // When a node has everything of its children, then when it has the sum.
        let mut ready = vec![0; tree.parents.len()];
        for &node in tree.outwards.iter().rev() {
            if let Some(parent) = tree.parents[node as usize] {
                let slot = after(ready[node as usize], residue(node, parent));
                slots[node as usize].0 = slot;
                ready[parent as usize] = ready[parent as usize].max(slot + 1);
            }
        }
        for &node in &tree.outwards {
            if let Some(parent) = tree.parents[node as usize] {
                let slot = after(ready[parent as usize], residue(parent, node));
                slots[node as usize].1 = slot;
                ready[node as usize] = slot + 1;
            }
        }
        slots
    }

    /// Other meshes: a list schedule. Every piece takes the first free slot of the round's table of its
    /// link, those that can start first first, of these the one with the longest way ahead.
    fn listed(&self, trees: &[Tree], period: u32) -> Vec<Vec<(u32, u32)>> {
        let nodes = (self.rows * self.columns) as usize;
        // Directions of a node's links: up, left, right, down.
        let link = |from: u32, to: u32| {
            let direction = match (to > from, from / self.columns == to / self.columns) {
                (false, false) => 0,
                (false, true) => 1,
                (true, true) => 2,
                (true, false) => 3,
            };
            from as usize * 4 + direction
        };
        let mut taken = vec![false; nodes * 4 * period as usize];
        let mut slots = vec![vec![(0, 0); nodes]; trees.len()];
        let mut missing: Vec<Vec<u32>> = vec![vec![0; nodes]; trees.len()];
        let mut children: Vec<Vec<Vec<u32>>> = vec![vec![Vec::new(); nodes]; trees.len()];
        let (mut depths, mut heights) = (vec![vec![0u32; nodes]; trees.len()], vec![vec![0u32; nodes]; trees.len()]);
        let mut waiting = BinaryHeap::new();
        for (index, tree) in trees.iter().enumerate() {
            for &node in &tree.outwards {
                if let Some(parent) = tree.parents[node as usize] {
                    missing[index][parent as usize] += 1;
                    children[index][parent as usize].push(node);
                    depths[index][node as usize] = depths[index][parent as usize] + 1;
                }
            }
            for &node in tree.outwards.iter().rev() {
                if let Some(parent) = tree.parents[node as usize] {
                    heights[index][parent as usize] =
                        heights[index][parent as usize].max(heights[index][node as usize] + 1);
                }
                if missing[index][node as usize] == 0 {
                    let ahead = depths[index][node as usize] + heights[index][tree.outwards[0] as usize];
                    waiting.push((Reverse(0), ahead, Reverse(index), Reverse(node), true));
                }
            }
        }
        let mut ready = vec![vec![0u32; nodes]; trees.len()];
        while let Some((Reverse(earliest), _, Reverse(index), Reverse(node), upwards)) = waiting.pop() {
            let tree = &trees[index];
            let parent = tree.parents[node as usize].expect("the root sends nothing to a parent");
            let (from, to) = if upwards { (node, parent) } else { (parent, node) };
            let table = &mut taken[link(from, to) * period as usize..][..period as usize];
            // The table has exactly as many slots as the link has pieces.
            let free = |slot: &u32| !table[(slot % period) as usize];
            let slot = (earliest..earliest + period).find(free).expect("a free slot for every piece");
            table[(slot % period) as usize] = true;
            let root_height = heights[index][tree.outwards[0] as usize];
            let arrived = if upwards { parent } else { node };
            let mut send_down = Vec::new();
            if upwards {
                slots[index][node as usize].0 = slot;
                let ready = &mut ready[index][parent as usize];
                *ready = (*ready).max(slot + 1);
                missing[index][parent as usize] -= 1;
                if missing[index][parent as usize] == 0 {
                    if tree.parents[parent as usize].is_some() {
                        let ahead = depths[index][parent as usize] + root_height;
                        waiting.push((Reverse(*ready), ahead, Reverse(index), Reverse(parent), true));
                    } else {
                        send_down.clone_from(&children[index][parent as usize]);
                    }
                }
            } else {
                slots[index][node as usize].1 = slot;
                ready[index][node as usize] = slot + 1;
                send_down.clone_from(&children[index][node as usize]);
            }
            for child in send_down {
                let ahead = heights[index][child as usize] + 1;
                waiting.push((Reverse(ready[index][arrived as usize]), ahead, Reverse(index), Reverse(child), false));
            }
        }
        slots
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(slots: &[Vec<(u32, u32)>]) -> u32 {
        slots.iter().flatten().map(|&(up, down)| up.max(down)).max().unwrap()
    }

    /// Reference section 3: the first round ends after 2 (n + floor(n / 2)) slots.
    #[test]
    fn squares_take_the_published_slots() {
        for n in 3..=32 {
            let mesh = Mesh { rows: n, columns: n };
            let (slots, period) = mesh.slots(&mesh.trees());
            assert_eq!((period, last(&slots) + 1), (n + 1, 2 * (n + n / 2)), "{n}x{n}");
        }
    }

    /// Every link has one piece in every slot of a round.
    #[test]
    fn every_slot_of_every_link_is_taken_once() {
        for (rows, columns) in [(2, 2), (3, 3), (4, 4), (8, 8), (3, 5), (5, 3), (4, 8), (8, 9), (2, 7)] {
            let mesh = Mesh { rows, columns };
            let trees = mesh.trees();
            let (slots, period) = mesh.slots(&trees);
            let mut taken = std::collections::HashSet::new();
            for (tree, slots) in trees.iter().zip(&slots) {
                for (node, parent) in tree.parents.iter().enumerate() {
                    let Some(parent) = *parent else { continue };
                    assert!(taken.insert((node as u32, parent, slots[node].0 % period)), "{rows}x{columns}");
                    assert!(taken.insert((parent, node as u32, slots[node].1 % period)), "{rows}x{columns}");
                }
            }
            let links = 2 * (2 * rows * columns - rows - columns);
            assert_eq!(taken.len() as u32, links * period, "{rows}x{columns}");
        }
    }
}
