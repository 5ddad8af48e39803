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
        ("chunks", "parts of the buffer, 1 to 256 (default: the fewest that are about as fast as any)"),
        ("slices", "parts of a chunk that follow each other through the steps of a dimension, 1 to 64 (default 4)"),
        ("scheduler", "search (default), themis or baseline: who orders the dimensions for each chunk"),
    ],
    source: "Themis (ISCA 2022), on any product of lines, rings, cliques and switches",
    collectives: &[Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::AllToAll],
};

/// Most chunks.
const MAX_CHUNKS: u32 = 256;
/// Most slices.
const MAX_SLICES: u32 = 64;

impl Algorithm for Hierarchical {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        let policy = Policy::parse(request.options.choice("scheduler", &["search", "themis", "baseline"])?)?;
        let slices = request.options.count("slices", 4, MAX_SLICES)?;
        let chunks = match request.options.get("chunks") {
            Some(_) => Chunks::Count(request.options.count("chunks", 1, MAX_CHUNKS)?),
            None => Chunks::Best,
        };
        let expansion = match Expansion::of(request.fabric, request.system) {
            Err(error) if error.code == Code::NotApplicable => return request.refuse(error.message),
            expansion => expansion?,
        };
        let kind = request.collective.kind;
        let lines = expansion.topology.dimensions.iter().any(|dimension| dimension.shape == DimensionShape::Line);
        if kind == Kind::AllToAll && lines {
            return request.refuse("all-to-all goes around rings, through switches and in cliques, not along lines");
        }
        let task = Task {
            topology: expansion.topology.clone(),
            kind,
            bytes: request.bytes,
            policy,
            queue: None,
            chunks,
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
