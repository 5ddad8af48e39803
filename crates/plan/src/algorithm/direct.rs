//! Direct: every rank exchanges with every other, along minimal routes.
//!
//! Shards go in chunks: every rank gathers a chunk before it scatters the next. That keeps the ranks
//! together, so that few packets wait in the network, and makes long runs periodic.

use super::{ALIGN, Algorithm, Info, Request, Scale};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::options::{Default::Derived, Opt};
use antiphon_base::parameter::Value;
use antiphon_base::units::Picos;
use antiphon_bound::busiest_ps;
use antiphon_model::collective::{Collective, Kind};
use antiphon_model::schedule::{Builder, Issue, Op, Schedule};

/// See the module.
pub struct Direct;

const INFO: Info = Info {
    name: "direct",
    summary: "every pair of ranks exchanges directly, along minimal routes",
    options: &[
        Opt::bytes(
            "chunk",
            Derived("8KiB, past 128 ranks 64KiB"),
            "One message of AllReduce, ReduceScatter and AllGather.",
        ),
        ALIGN,
    ],
    source: "folklore; the basic algorithm of fully connected dimensions (Themis, ISCA 2022, section 2)",
    collectives: &Kind::ALL,
};

/// Most ranks of a direct AllToAll, whose lanes grow with their square.
const MAX_ALL_TO_ALL_RANKS: u32 = 1024;

impl Algorithm for Direct {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn scale(&self) -> Scale {
        Scale::Large
    }

    fn takes_matrix(&self) -> bool {
        true
    }

    /// Both halves of an AllReduce go the same ways, and one alone has no dependencies, which take most of the time.
    fn busiest_ps(&self, request: &Request) -> Option<Picos> {
        if request.collective.kind != Kind::AllReduce {
            return None;
        }
        let Request { fabric, system, bytes, spec, watch, .. } = *request;
        let half = Collective { kind: Kind::ReduceScatter, ..request.collective };
        let half = super::build_watched(fabric, system, half, bytes, spec, watch).ok()?;
        Some(2 * busiest_ps(fabric, system, &half))
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        let n = request.ranks();
        let mut builder = request.builder();
        let root = request.collective.root;
        match request.collective.kind {
            Kind::Broadcast | Kind::Reduce => {
                let lane = builder.block((0, request.bytes), request.block_bytes(1));
                builder.phase(request.collective.kind.name(), false);
                for other in (1..n).map(|k| (root + k) % n) {
                    match request.collective.kind {
                        Kind::Broadcast => builder.send(Op::Copy, root, other, lane, 0)?,
                        _ => builder.send(Op::Reduce, other, root, lane, 0)?,
                    };
                }
            }
            Kind::AllToAll => all_to_all(request, &mut builder)?,
            _ => {
                // Every rank scatters what it has gathered from all others.
                let passes = u64::from(request.scatters()) + u64::from(request.gathers());
                let pairs = u64::from(n) * u64::from(n - 1);
                request.expect(passes * pairs, if passes == 2 { pairs * u64::from(n - 1) } else { 0 })?;
                let half = n.saturating_sub(1);
                let stride = half * (u32::from(request.scatters()) + u32::from(request.gathers()));
                // With many ranks a period outlasts the run, and small messages only cost time.
                let small = if n <= 128 { 8 << 10 } else { 64 << 10 };
                let chunk = request.options.given("chunk").map_or(small, Value::whole);
                request.shard_lanes(&mut builder, 0..n, chunk, stride.max(1))?;
                builder.schedule.endpoint.issue = Issue::StrictSteps;
                builder.phase(request.collective.kind.name(), false);
                let pairs = || (1..n).flat_map(|k| (0..n).map(move |rank| (k, rank, (rank + k) % n)));
                for (k, rank, other) in pairs().filter(|_| request.scatters()) {
                    builder.send(Op::Reduce, rank, other, other, k - 1)?;
                }
                for (k, rank, other) in pairs().filter(|_| request.gathers()) {
                    builder.send(Op::Copy, rank, other, rank, stride - half + k - 1)?;
                }
            }
        }
        builder.finish()
    }
}

/// Adds a lane and a message for every pair of ranks that has data.
fn all_to_all(request: &Request, builder: &mut Builder) -> Result<()> {
    let n = request.ranks();
    if n > MAX_ALL_TO_ALL_RANKS {
        let what = format!("direct all-to-all on {n} ranks; at most {MAX_ALL_TO_ALL_RANKS} are supported");
        return Err(Error::new(Code::TooLarge, what));
    }
    builder.phase("all-to-all", false);
    for source in 0..n {
        for owner in 0..n {
            let region = request.part(source, owner);
            let wire = match request.matrix {
                Some(_) if region.1 == 0 => continue,
                Some(_) => request.wire_bytes(region.1),
                None => request.block_bytes(n),
            };
            let lane = builder.block(region, wire);
            let entry = &mut builder.schedule.lanes[lane as usize];
            (entry.source, entry.owner) = (source, owner);
            if source != owner {
                builder.send(Op::Copy, source, owner, lane, (owner + n - source) % n - 1)?;
            }
        }
    }
    Ok(())
}
