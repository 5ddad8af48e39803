//! TTO: three link-disjoint trees rooted at three corners of a mesh; chunks overlap in each tree.
//!
//! TTO paper, section V, Algorithm 2; the shape of the third tree as in the artifact (reference
//! section 2.8). The fourth corner is excluded from training: it forwards and adds in two trees.

use super::{Algorithm, Info, Request};
use crate::collective::{Kind, shard};
use crate::error::{Code, Error, Result};
use crate::options::{
    Default::{Derived, Fixed},
    Opt,
};
use crate::schedule::{Issue, Lane, Op, Pacing, Schedule};

/// See the module.
pub struct Tto;

const INFO: Info = Info {
    name: "tto",
    summary: "three disjoint trees with overlapped chunks; one corner is excluded from training",
    options: &[
        Opt::bytes("chunk", Fixed("96KiB"), "One chunk over the three trees."),
        Opt::rank("excluded", Derived("the bottom-left one"), "Rank of the excluded corner."),
        Opt::flag("barrier", Fixed("yes"), "Chiplets gather only after all roots have reduced everything."),
    ],
    source: "TTO (HPCA 2024) section V, Algorithm 2",
    collectives: &[Kind::AllReduce],
};

/// Parent and depth of every (row, column) in the tree, `None` where it is not reached or the root.
struct Tree {
    parent: Vec<Option<(u32, u32)>>,
    depth: Vec<u32>,
}

/// The three trees for the bottom-left corner excluded, roots top-left, top-right, bottom-right.
fn trees(rows: u32, columns: u32) -> [Tree; 3] {
    let tree = |parent: &dyn Fn(u32, u32) -> Option<(u32, u32)>, depth: &dyn Fn(u32, u32) -> u32| {
        let nodes = || (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c)));
        Tree {
            parent: nodes().map(|(r, c)| parent(r, c)).collect(),
            depth: nodes().map(|(r, c)| depth(r, c)).collect(),
        }
    };
    [
        // Column 0 downwards, then every row rightwards.
        tree(
            &|r, c| {
                if c > 0 { Some((r, c - 1)) } else { (r > 0).then(|| (r - 1, c)) }
            },
            &|r, c| r + c,
        ),
        // From the top-right corner by L-shaped shells along row and column of the anti-diagonal;
        // column 0 can only be entered leftwards and the last row only downwards.
        tree(
            &|r, c| match (r, c) {
                (0, c) if c == columns - 1 => None,
                (r, 0) if r == rows - 1 => None,
                (r, c) if c == 0 || (r != rows - 1 && r <= columns - 1 - c && c != columns - 1) => Some((r, c + 1)),
                (r, c) => Some((r - 1, c)),
            },
            &|r, c| r + columns - 1 - c,
        ),
        // The last row leftwards, then every column upwards.
        tree(
            &|r, c| {
                if r < rows - 1 { Some((r + 1, c)) } else { (c < columns - 1).then(|| (r, c + 1)) }
            },
            &|r, c| rows - 1 - r + columns - 1 - c,
        ),
    ]
}

impl Algorithm for Tto {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        let Some((mesh, rows, columns)) = request.mesh() else {
            return request.refuse("it needs an intact two-dimensional mesh with both sides at least 2");
        };
        let barrier = request.options.flag("barrier");
        let excluded = request.options.rank("excluded", request.ranks())?.unwrap_or(mesh.rank(&[rows - 1, 0]));
        let corners = [0, rows - 1].into_iter().flat_map(|r| [0, columns - 1].map(|c| (r, c)));
        let Some((r, c)) = corners.into_iter().find(|&(r, c)| mesh.rank(&[r, c]) == excluded) else {
            return Err(Error::new(
                Code::BadSpec,
                format!("tto: excluded={excluded} is no corner of the {rows}x{columns} mesh"),
            ));
        };
        // Mirror the mesh so that the excluded corner takes the place of the bottom-left one.
        let rank = |(row, column): (u32, u32)| {
            let row = if r == 0 { rows - 1 - row } else { row };
            let column = if c == 0 { column } else { columns - 1 - column };
            mesh.rank(&[row, column])
        };
        // Whole elements for each tree, so that no chunk is empty.
        let chunk = request.options.bytes("chunk").min(request.bytes).next_multiple_of(12);
        let chunks = request.bytes.div_ceil(chunk);
        let mut builder = request.builder();
        let schedule = &mut builder.schedule;
        (schedule.endpoint.issue, schedule.endpoint.pacing) = (Issue::Links, Pacing::StopAndWait);
        (schedule.conflict_free, schedule.excluded) = (true, vec![excluded]);
        for tree in 0..3 {
            let (offset, bytes) = shard(request.bytes, 3, tree);
            let chunk_bytes = chunk.div_ceil(3).max(Lane::payload(bytes, chunks));
            builder.lane(Lane { offset, bytes, chunks, chunk_bytes, stride: 1, source: 0, owner: 0 });
        }
        let trees = trees(rows, columns);
        let height = rows + columns - 2;
        let edges = || {
            trees.iter().enumerate().flat_map(|(lane, tree)| {
                tree.parent.iter().enumerate().filter_map(move |(node, parent)| {
                    let child = (node as u32 / columns, node as u32 % columns);
                    Some((lane as u32, rank(child), rank((*parent)?), tree.depth[node]))
                })
            })
        };
        builder.phase("reduce-scatter", false);
        for (lane, child, parent, depth) in edges() {
            builder.send(Op::Reduce, child, parent, lane, height - depth)?;
        }
        builder.phase("all-gather", barrier);
        for (lane, child, parent, depth) in edges() {
            builder.send(Op::Copy, parent, child, lane, depth - 1)?;
        }
        builder.finish()
    }
}
