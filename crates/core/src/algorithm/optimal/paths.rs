//! Mixtures of paths between all pairs.

use super::ACCURACY;
use crate::algorithm::Request;
use crate::collective::shard;
use crate::error::Result;
use crate::fabric::LinkId;
use crate::schedule::{Lane, Op, Schedule};
use crate::synthesis::{self, Graph};
use std::collections::BTreeMap;

/// The schedule of the best mixture of paths.
///
/// # Errors
/// As [`crate::algorithm::Algorithm::build`].
pub fn paths(request: &Request) -> Result<Schedule> {
    let Request { fabric, system, collective, watch, .. } = *request;
    let graph = Graph::new(fabric, system);
    let mixture = synthesis::mixture(&graph, collective, ACCURACY, 0.0, watch)?;
    let ranks = request.ranks();
    // Shares of every path, by its ends.
    let mut paths: BTreeMap<(u32, u32), BTreeMap<&[u32], f64>> = BTreeMap::new();
    for (_, share, plan) in &mixture.plans {
        for (branch, &ends) in plan.branches.iter().enumerate() {
            *paths.entry(ends).or_default().entry(plan.ways(branch)[1]).or_default() += share;
        }
    }
    let mut builder = request.builder();
    let rounds: u64 = std::env::var("ROUNDS").map_or(16, |r| r.parse().unwrap());
    let longest = paths.values().flatten().map(|(path, _)| path.len()).max().unwrap_or(1) as u32;
    let stride = longest * ranks;
    builder.phase("all-to-all", false);
    for rank in 0..ranks {
        let (offset, bytes) = shard(request.bytes, ranks as usize, rank as usize);
        builder.lane(Lane { offset, bytes, chunks: 1, chunk_bytes: bytes.max(1), stride, source: rank, owner: rank });
    }
    for ((source, owner), paths) in paths {
        let (start, length) = shard(request.bytes, ranks as usize, owner as usize);
        let total: f64 = paths.values().sum();
        let (mut before, mut from) = (0.0, 0);
        let count = paths.len();
        for (at, (path, share)) in paths.into_iter().enumerate() {
            before += share / total;
            let to = if at + 1 == count { length } else { ((length as f64 * before) as u64 & !3).min(length) };
            if to == from {
                continue;
            }
            let (offset, bytes) = (start + from, to - from);
            from = to;
            let chunks = rounds.min(bytes.div_ceil(4)).max(1);
            let chunk_bytes = Lane::payload(bytes, chunks).max(1);
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
