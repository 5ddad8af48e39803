//! Double binary tree: two trees in which every rank is an inner node at most once; sub-flows are
//! pipelined through both.
//!
//! Sanders, Speck and Traeff, 2009; NCCL's trees as in the TTO artifact (HPCA 2024).
//! The artifact put four ranks on each of the first routers by mistake
//! (`mapping=four-per-router`, for reproduction); `linear` puts rank v on chiplet v.

use super::tree::{Table, Tree};
use super::{Algorithm, Info, Request};
use crate::collective::Kind;
use crate::error::Result;
use crate::options::Opt;
use crate::schedule::{Issue, Op, Schedule};

/// See the module.
pub struct DbTree;

const INFO: Info = Info {
    name: "dbtree",
    summary: "double binary tree, pipelined; ignores the topology",
    options: &[Opt::choice(
        "mapping",
        &["linear", "four-per-router"],
        "Where ranks are; four-per-router: the artifact's, for reproduction, drops an odd last rank.",
    )],
    source: "Sanders et al., Parallel Computing 2009; TTO (HPCA 2024) as baseline",
    collectives: &[Kind::AllReduce],
};

/// Parent of `v` in NCCL's binary tree over `0..n`; `None` for the root 0.
pub(super) fn parent(v: u32, n: u32) -> Option<u32> {
    let low = v & v.wrapping_neg();
    if v == 0 {
        return None;
    }
    let up = (v ^ low) | (low << 1);
    Some(if up < n { up } else { v ^ low })
}

/// Parents in the first tree and in the second, its mirror (even n) or shift (odd n).
fn parents(n: u32) -> [Vec<Option<u32>>; 2] {
    let first: Vec<_> = (0..n).map(|v| parent(v, n)).collect();
    let second = (0..n)
        .map(|v| match n % 2 {
            0 => first[(n - 1 - v) as usize].map(|p| n - 1 - p),
            _ => first[((v + n - 1) % n) as usize].map(|p| (p + 1) % n),
        })
        .collect();
    [first, second]
}

impl Algorithm for DbTree {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        let crowded = request.options.choice("mapping") == "four-per-router";
        let grid = request.fabric.product().filter(|product| product.is_direct());
        if crowded && grid.is_none() {
            return request.refuse("mapping=four-per-router is defined for intact grids");
        }
        let n = if crowded { request.ranks() & !1 } else { request.ranks() };
        let mut builder = request.builder();
        let schedule = &mut builder.schedule;
        schedule.endpoint.issue = Issue::StrictSteps;
        schedule.endpoint.interfaces = Some(1);
        if let Some(grid) = grid.filter(|_| crowded) {
            schedule.excluded = (n..request.ranks()).collect();
            schedule.placement = (0..request.ranks()).map(|v| grid.nodes[v as usize / 4]).collect();
        }
        let chunks = (n as u64 / 2).max(1);
        let trees = parents(n).map(|parents| Tree::logical(&parents));
        // Two-wide slots: siblings differ in parity so that a pipeline of stride 2 never collides.
        let parity = |tree: usize, edge: u32, _| {
            let siblings = trees[tree].children(trees[tree].edges()[edge as usize].1);
            siblings.iter().position(|&other| other == edge).unwrap_or(0) as u32 % 2
        };
        let mut slots = Table::at_residues(request.fabric, &trees, 2, parity).slots;
        // The broadcast is the reduction backwards.
        let last = slots.iter().flatten().map(|slots| slots[0]).max().unwrap_or(0);
        slots.iter_mut().flatten().for_each(|slots| slots[1] = last - slots[0]);
        let table = Table::new(request.fabric, &trees, slots, 2, false);
        table.lanes(&mut builder, request.block_bytes(n), chunks);
        builder.phase("reduce-scatter", false);
        table.send(&mut builder, &[Op::Reduce])?;
        builder.phase("all-gather", false);
        table.send(&mut builder, &[Op::Copy])?;
        builder.finish()
    }
}
