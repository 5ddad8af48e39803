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
        let given = request.options.get("piece").map(|_| request.options.bytes("piece", 0)).transpose()?;
        // One of each comb is soon through; as many as load all links equally are best in the long run.
        let tables = [(1, 1), mesh.balanced()].map(|copies| mesh.table(copies));
        let timed = tables.into_iter().map(|table| (best_piece(request, &table, given), table));
        let ((_, piece), Table { trees, steps, period, .. }) =
            timed.min_by_key(|((time, _), _)| *time).expect("there are two tables");
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

/// The time of all pieces by the model, in picoseconds, and the piece size with the shortest.
fn best_piece(request: &Request, table: &Table, given: Option<Bytes>) -> (u128, Bytes) {
    let system = request.system;
    let trees = table.trees.len() as u64;
    let time = |piece: Bytes| {
        let rounds = request.bytes.div_ceil(trees).div_ceil(piece).max(1);
        let sent = system.packets(request.bytes.div_ceil(trees * rounds));
        let (slot, passing) = request.fabric.links.first().map_or((0, 0), |link| {
            (sent.count * sent.flits * system.flit_time(link), system.hand_off_ps + system.latency_of(link))
        });
        // A piece goes on in the very next slot, so that passing it on holds up the link.
        u128::from(rounds * u64::from(table.period) + u64::from(table.tail)) * u128::from(slot + passing)
    };
    let payload = system.packet.payload_bytes;
    let sizes = given.map_or_else(|| (0..12).map(|exponent| payload << exponent).collect(), |piece| vec![piece]);
    sizes.into_iter().map(|piece| (time(piece.max(1)), piece)).min().expect("at least one size")
}

/// Trees, and the slots of their pieces.
struct Table {
    trees: Vec<Tree>,
    /// For every tree and node the slots of its link to the parent and from it, in the first round. No
    /// link has two pieces in one slot of any round.
    steps: Vec<Vec<(u32, u32)>>,
    /// Slots of a round.
    period: u32,
    /// About how many slots after its last round the last piece arrives.
    tail: u32,
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
    /// How often a round has every comb of the rows, and of the columns, so that all links are loaded
    /// equally.
    fn balanced(&self) -> (u32, u32) {
        let common = gcd(self.rows - 1, self.columns - 1);
        ((self.rows - 1) / common, (self.columns - 1) / common)
    }

    /// Trees and slots where a round has every comb of the rows and of the columns so often.
    fn table(&self, (of_rows, of_columns): (u32, u32)) -> Table {
        let mut trees = Vec::new();
        for tooth in 0..self.columns {
            trees.extend((0..of_rows).map(|_| self.comb(true, tooth)));
        }
        for tooth in 0..self.rows {
            trees.extend((0..of_columns).map(|_| self.comb(false, tooth)));
        }
        // A link along a row has the teeth of all combs of the rows, and one spine of the columns'.
        let period = (self.columns * of_rows + of_columns).max(self.rows * of_columns + of_rows);
        let steps: Vec<Vec<(u32, u32)>> = if self.rows == self.columns {
            trees.iter().map(|tree| self.closed_form(tree, period)).collect()
        } else {
            self.listed(&trees, period)
        };
        // Links do not wait for the slots of a list schedule: a piece waits for half a round on its way.
        let last = steps.iter().flatten().map(|&(up, down)| up.max(down)).max().unwrap_or(0);
        let tail = (last + 1).saturating_sub(period).min(2 * (self.rows + self.columns) + period / 2);
        Table { trees, steps, period, tail }
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
            // The table has at least as many slots as the link has pieces.
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

    /// Reference section 3: the first round ends after 2 (n + floor(n / 2)) slots.
    #[test]
    fn squares_take_the_published_slots() {
        for n in 3..=32 {
            let table = Mesh { rows: n, columns: n }.table((1, 1));
            let last = table.steps.iter().flatten().map(|&(up, down)| up.max(down)).max().unwrap();
            assert_eq!((table.period, last + 1), (n + 1, 2 * (n + n / 2)), "{n}x{n}");
        }
    }

    /// No link has two pieces in a slot, and with balanced combs one in every slot.
    #[test]
    fn every_slot_of_every_link_is_taken_once() {
        for (rows, columns) in [(2, 2), (3, 3), (4, 4), (8, 8), (3, 5), (5, 3), (4, 8), (8, 9), (2, 7)] {
            let mesh = Mesh { rows, columns };
            for copies in [(1, 1), mesh.balanced()] {
                let Table { trees, steps, period, .. } = mesh.table(copies);
                let mut taken = std::collections::HashSet::new();
                for (tree, steps) in trees.iter().zip(&steps) {
                    for (node, parent) in tree.parents.iter().enumerate() {
                        let Some(parent) = *parent else { continue };
                        assert!(taken.insert((node as u32, parent, steps[node].0 % period)), "{rows}x{columns}");
                        assert!(taken.insert((parent, node as u32, steps[node].1 % period)), "{rows}x{columns}");
                    }
                }
                let links = 2 * (2 * rows * columns - rows - columns);
                assert!(copies != mesh.balanced() || taken.len() as u32 == links * period, "{rows}x{columns}");
            }
        }
    }
}
