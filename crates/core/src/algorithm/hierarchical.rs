//! Hierarchical: a reduce-scatter along one dimension of a product after the other, and back; chunks go through the
//! dimensions in different orders, so that all are busy at once.
//!
//! The orders are those of the schedulers of `rails` (Themis, ISCA 2022), for the rates of this fabric's links.

use super::{Algorithm, Info, Request};
use crate::collective::Kind;
use crate::error::{Code, Result};
use crate::fabric::DimensionShape;
use crate::options::{Default::Derived, Opt};
use crate::parameter::{Choice, Domain, Parameter, Value};
use crate::rails::{Chunks, Expansion, Policy, Task, lower_watched};
use crate::schedule::Schedule;
use crate::system::Endpoint;

/// See the module.
pub struct Hierarchical;

const INFO: Info = Info {
    name: "hierarchical",
    summary: "one dimension of a product after the other; chunks in different orders keep all of them busy",
    options: &[
        Opt::count(
            "chunks",
            1,
            256,
            Derived("32, fewer where blocks would be less than a packet"),
            "Parts of the buffer, which go through the dimensions in different orders.",
        ),
        Opt::count(
            "slices",
            1,
            64,
            Derived("4, fewer for small blocks"),
            "Parts of a chunk that follow each other through the steps of a dimension.",
        ),
        Opt {
            parameter: Parameter {
                key: "scheduler",
                domain: Domain::Choice(&["search", "themis", "baseline", "phased"]),
                meaning: "Who orders the dimensions for each chunk.",
            },
            default: Derived("phased on ace:LxVxH, as in its paper; else search"),
        },
    ],
    source: "Themis (ISCA 2022), on any product of lines, rings, cliques and switches",
    collectives: &[Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::AllToAll],
};

/// Lanes in messages of a schedule that is still built in seconds, if options do not ask for more.
const MAX_LANES: u64 = 1 << 24;

impl Algorithm for Hierarchical {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        // The paper of these tori gives the order, too.
        let usual = if request.fabric.name.starts_with("ace:") { "phased" } else { "search" };
        let policy = Policy::parse(request.options.given("scheduler").map_or(usual, Value::text))?;
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
        let given = |key: &str| request.options.given(key).map(Value::whole).map(|count| count as u32);
        let chunks = given("chunks").unwrap_or(parts.min(32) as u32);
        let slices = given("slices").unwrap_or((parts / u64::from(chunks)).clamp(1, 4) as u32);
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
            endpoint: Endpoint::System,
        };
        let (plan, _, timed) = task.run()?;
        let mut schedule = lower_watched(&expansion, &plan, &timed, slices, request.watch)?;
        schedule.algorithm = request.spec.into();
        Ok(schedule)
    }
}
