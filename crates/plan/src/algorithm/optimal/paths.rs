//! Mixtures of paths between all pairs.

use crate::algorithm::Request;
use crate::algorithm::tree::{self, Laid, Timetable, Tree, TreeWork, Tried};
use antiphon_base::error::Result;
use antiphon_bound::synthesis::{Graph, Mixture};
use antiphon_model::fabric::LinkId;
use antiphon_model::schedule::{Lane, Op, Schedule};
use std::collections::BTreeMap;

/// Up to so many ranks pass on what comes, by a timetable.
const FEW_RANKS: u32 = 128;
/// Parts of what a rank has for another that shares are rounded to.
const WHOLE: f64 = 256.0;
/// With a matrix: of the most that a rank has for another.
const WHOLE_OF_MOST: f64 = 16_777_216.0;
/// Chunks of a message that the network passes on.
const ROUNDS: u64 = 16;

/// The schedule of a mixture of paths.
///
/// # Errors
/// As [`crate::algorithm::Algorithm::build`].
pub fn lowered(request: &Request, graph: &Graph, mixture: &Mixture, tried: Tried) -> Result<Schedule> {
    let ranks = request.ranks();
    // Shares of every path, by its ends.
    let mut paths: BTreeMap<(u32, u32), BTreeMap<&[u32], f64>> = BTreeMap::new();
    let wanted = |ends: (u32, u32)| request.matrix.is_none() || request.part(ends.0, ends.1).1 > 0;
    for (_, share, plan) in &mixture.plans {
        for (branch, &ends) in plan.branches.iter().enumerate().filter(|(_, ends)| wanted(**ends)) {
            *paths.entry(ends).or_default().entry(plan.ways(branch)[1]).or_default() += share;
        }
    }
    if ranks > FEW_RANKS {
        return direct(request, graph, paths);
    }
    let most = paths.keys().map(|&(source, owner)| request.part(source, owner).1).max().unwrap_or(1);
    let laid = |(&ends, paths): (&(u32, u32), &BTreeMap<&[u32], f64>)| {
        let sum: f64 = paths.values().sum();
        let whole = match request.matrix {
            Some(_) => WHOLE_OF_MOST * request.part(ends.0, ends.1).1 as f64 / most as f64,
            None => WHOLE,
        };
        let tree =
            |(path, share): (&&[u32], &f64)| (lay(graph, ends.0, path), ((share / sum * whole).round() as u32).max(1));
        paths.iter().map(tree).collect::<Vec<_>>()
    };
    let (trees, sizes): (Vec<Tree>, Vec<u32>) = paths.iter().flat_map(laid).unzip();
    let timetable = Timetable::new(request, &trees, sizes, TreeWork::Broadcast, true).moving(request.exchanged());
    let timetable = if request.matrix.is_some() { timetable.loose() } else { timetable };
    tree::stream_timed(request, &[timetable], tried)
}

/// A path on links as a tree: ranks on its way pass on what comes.
fn lay(graph: &Graph, from: u32, path: &[u32]) -> Tree {
    let mut edges: Vec<Laid> = vec![];
    let (mut above, mut links) = (from, vec![]);
    for &arc in path {
        let arc = &graph.arcs[arc as usize];
        links.push(arc.links[0]);
        if let Some(rank) = graph.rank_at[arc.to as usize] {
            edges.push((rank, above, [vec![], std::mem::take(&mut links)]));
            above = rank;
        }
    }
    Tree::new(graph.ranks.len(), edges)
}

/// Paths over which the network passes messages on: for many ranks.
fn direct(request: &Request, graph: &Graph, paths: BTreeMap<(u32, u32), BTreeMap<&[u32], f64>>) -> Result<Schedule> {
    let ranks = request.ranks();
    let mut builder = request.builder();
    let longest = paths.values().flatten().map(|(path, _)| path.len()).max().unwrap_or(1) as u32;
    let stride = longest * ranks;
    builder.phase("all-to-all", false);
    for rank in (0..ranks).filter(|_| request.matrix.is_none()) {
        builder.shard_block(rank, request.shard(rank), 1);
    }
    for ((source, owner), paths) in paths {
        let (start, length) = request.part(source, owner);
        let total: f64 = paths.values().sum();
        let (mut before, mut from) = (0.0, 0);
        let count = paths.len();
        for (at, (path, share)) in paths.into_iter().enumerate() {
            before += share / total;
            let to =
                if at + 1 == count { length } else { request.align.down((length as f64 * before) as u64).min(length) };
            if to == from {
                continue;
            }
            let (offset, bytes) = (start + from, to - from);
            from = to;
            let chunks = ROUNDS.min(bytes.div_ceil(request.align.bytes())).max(1);
            let chunk_bytes = request.align.payload(bytes, chunks).max(1);
            let chunks = bytes.div_ceil(chunk_bytes);
            let lane = builder.lane(Lane { offset, bytes, chunks, chunk_bytes, stride, source, owner });
            let links: Vec<LinkId> = path.iter().map(|&arc| graph.arcs[arc as usize].links[0]).collect();
            // Those with the longest way first.
            let slot = (longest - path.len() as u32) * ranks + (owner + ranks - source) % ranks;
            builder.send_over(Op::Copy, source, owner, lane, slot, links)?;
        }
    }
    builder.finish()
}
