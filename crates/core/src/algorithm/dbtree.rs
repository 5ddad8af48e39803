//! Double binary tree: two trees in which every rank is an inner node at most once; sub-flows are
//! pipelined through both.
//!
//! Sanders, Speck and Traeff, 2009; NCCL's trees as in the TTO artifact (reference: TTO section
//! 2.5). The artifact put four ranks on each of the first routers by mistake
//! (`mapping=four-per-router`, for reproduction); `linear` puts rank v on chiplet v.

use super::{Algorithm, Info, Request};
use crate::collective::{Kind, shard};
use crate::error::Result;
use crate::options::Opt;
use crate::schedule::{Issue, Lane, Op, Schedule};

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

/// Step at which every rank sends up: after its children, and not with its sibling, in
/// alternating colours. `u32::MAX` for the root.
fn up_steps(parents: &[Option<u32>]) -> Vec<u32> {
    let n = parents.len();
    let mut children = vec![Vec::new(); n];
    for (v, parent) in parents.iter().enumerate() {
        if let Some(parent) = parent {
            children[*parent as usize].push(v);
        }
    }
    let mut order: Vec<usize> = (0..n).filter(|&v| parents[v].is_none()).collect();
    for i in 0..n {
        order.extend(children[order[i]].clone());
    }
    let mut steps = vec![u32::MAX; n];
    for &v in order.iter().rev() {
        let mut colour = 0;
        // Two-wide slots: siblings differ in parity so that a pipeline of stride 2 never collides.
        for &child in &children[v] {
            let ready = children[child].iter().map(|&g| steps[g] + 1).max().unwrap_or(0);
            steps[child] = ready + (ready + colour) % 2;
            colour = (steps[child] + 1) % 2;
        }
    }
    steps
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
        for tree in 0..2 {
            let (offset, bytes) = shard(request.bytes, 2, tree);
            let chunk_bytes = request.block_bytes(n).max(Lane::payload(bytes, chunks));
            builder.lane(Lane { offset, bytes, chunks, chunk_bytes, stride: 2, source: 0, owner: 0 });
        }
        let trees = parents(n);
        let steps = [up_steps(&trees[0]), up_steps(&trees[1])];
        let last = steps.iter().flatten().filter(|&&s| s != u32::MAX).max().copied().unwrap_or(0);
        let edges = || (0..2).flat_map(|t| (0..n).map(move |v| (t, v)));
        builder.phase("reduce-scatter", false);
        for (tree, v) in edges() {
            if let Some(parent) = trees[tree][v as usize] {
                builder.send(Op::Reduce, v, parent, tree as u32, steps[tree][v as usize])?;
            }
        }
        builder.phase("all-gather", false);
        for (tree, v) in edges() {
            if let Some(parent) = trees[tree][v as usize] {
                builder.send(Op::Copy, parent, v, tree as u32, last - steps[tree][v as usize])?;
            }
        }
        builder.finish()
    }
}
