//! Hierarchical: a reduce-scatter along one dimension of a product after the other, and back; chunks go through the
//! dimensions in different orders, so that all are busy at once.
//!
//! The orders are those of the schedulers of `rails` (Themis, ISCA 2022), for the rates of this fabric's links.

use super::{Algorithm, Info, Request};
use crate::collective::Kind;
use crate::error::{Code, Result};
use crate::fabric::DimensionShape;
use crate::rails::{Chunks, Expansion, Policy, Task, lower_watched};
use crate::schedule::Schedule;
use crate::system::Choice;

/// See the module.
pub struct Hierarchical;

const INFO: Info = Info {
    name: "hierarchical",
    summary: "one dimension of a product after the other; chunks in different orders keep all of them busy",
    options: &[
        ("chunks", "parts of the buffer, 1 to 256 (default 32, fewer where blocks would be less than a packet)"),
        (
            "slices",
            "parts of a chunk that follow each other through the steps of a dimension, 1 to 64 (default 4, fewer for small blocks)",
        ),
        ("scheduler", "search (default), themis or baseline: who orders the dimensions for each chunk"),
    ],
    source: "Themis (ISCA 2022), on any product of lines, rings, cliques and switches",
    collectives: &[Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::AllToAll],
};

/// Most chunks.
const MAX_CHUNKS: u32 = 256;
/// Most slices.
const MAX_SLICES: u32 = 64;
/// Lanes in messages of a schedule that is still built in seconds, if options do not ask for more.
const MAX_LANES: u64 = 1 << 24;

impl Algorithm for Hierarchical {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        let policy = Policy::parse(request.options.choice("scheduler", &["search", "themis", "baseline"])?)?;
        let expansion = match Expansion::of(request.fabric, request.system) {
            Err(error) if error.code == Code::NotApplicable => return request.refuse(error.message),
            expansion => expansion?,
        };
        let kind = request.collective.kind;
        let lines = expansion.topology.dimensions.iter().any(|dimension| dimension.shape == DimensionShape::Line);
        if kind == Kind::AllToAll && lines {
            return request.refuse("all-to-all goes around rings, through switches and in cliques, not along lines");
        }
        // Parts of the block of a rank, each way, that are no less than a packet; and that are not too many.
        let packets = request.bytes / (2 * u64::from(request.ranks()) * request.system.packet.payload_bytes).max(1);
        let lanes = MAX_LANES / u64::from(request.ranks()).pow(if kind == Kind::AllToAll { 3 } else { 2 });
        let parts = packets.min(lanes).max(1);
        let chunks = request.options.count("chunks", parts.min(32) as u32, MAX_CHUNKS)?;
        let slices = request.options.count("slices", (parts / u64::from(chunks)).clamp(1, 4) as u32, MAX_SLICES)?;
        let task = Task {
            topology: expansion.topology.clone(),
            kind,
            bytes: request.bytes,
            policy,
            queue: None,
            chunks: Chunks::Count(chunks),
            sharing: 1,
            offload: false,
            fixed_delay: true,
            seed: 0,
        };
        let (plan, _, timed) = task.run()?;
        let mut schedule = lower_watched(&expansion, &plan, &timed, slices, request.watch)?;
        schedule.algorithm = request.spec.into();
        Ok(schedule)
    }
}
