//! Direct: every rank exchanges with every other, along minimal routes.

use super::{Algorithm, Info, Request};
use crate::collective::{Kind, shard};
use crate::error::{Code, Error, Result};
use crate::schedule::{Op, Schedule};

/// See the module.
pub struct Direct;

const INFO: Info = Info {
    name: "direct",
    summary: "every pair of ranks exchanges directly, along minimal routes",
    options: &[],
    source: "folklore; the basic algorithm of fully connected dimensions (Themis, ISCA 2022, section 2)",
    collectives: &Kind::ALL,
};

/// Most ranks of a direct AllToAll, whose lanes grow with their square.
const MAX_ALL_TO_ALL_RANKS: u32 = 1024;

impl Algorithm for Direct {
    fn info(&self) -> &'static Info {
        &INFO
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
                        Kind::Broadcast => builder.send(Op::Copy, root, other, lane, 1, 0)?,
                        _ => builder.send(Op::Reduce, other, root, lane, 1, 0)?,
                    }
                }
            }
            Kind::AllToAll => {
                if n > MAX_ALL_TO_ALL_RANKS {
                    let what = format!("direct all-to-all on {n} ranks; at most {MAX_ALL_TO_ALL_RANKS} are supported");
                    return Err(Error::new(Code::TooLarge, what));
                }
                builder.phase("all-to-all", false);
                for source in 0..n {
                    for owner in 0..n {
                        let region = shard(request.bytes, n as usize, owner as usize);
                        let lane = builder.block(region, request.block_bytes(n));
                        let entry = &mut builder.schedule.lanes[lane as usize];
                        (entry.source, entry.owner) = (source, owner);
                        if source != owner {
                            builder.send(Op::Copy, source, owner, lane, 1, (owner + n - source) % n - 1)?;
                        }
                    }
                }
            }
            _ => {
                for rank in 0..n {
                    builder.shard_block(rank, request.shard(rank), request.block_bytes(n));
                }
                let pairs = || (1..n).flat_map(|k| (0..n).map(move |rank| (k, rank, (rank + k) % n)));
                if request.scatters() {
                    builder.phase("reduce-scatter", false);
                    for (k, rank, other) in pairs() {
                        builder.send(Op::Reduce, rank, other, other, 1, k - 1)?;
                    }
                }
                if request.gathers() {
                    builder.phase("all-gather", false);
                    for (k, rank, other) in pairs() {
                        builder.send(Op::Copy, rank, other, rank, 1, k - 1)?;
                    }
                }
            }
        }
        builder.finish()
    }
}
