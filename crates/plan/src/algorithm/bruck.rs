//! Bruck: in every step whole messages to ranks twice as far away, so that few steps do for any number of ranks.
//!
//! AllGather: a rank has the shards of the ranks that follow it, and sends all of them back by as many ranks.
//! AllToAll: a block goes to a rank `d` further by the powers of two that make up `d`, the smallest first, with
//! all others that go the same way. Bruck et al., "Efficient algorithms for all-to-all communications in
//! multiport message-passing systems", TPDS 1997.

use super::{ALIGN, Algorithm, Info, Request, Scale};
use antiphon_base::error::Result;
use antiphon_model::collective::Kind;
use antiphon_model::schedule::{LaneId, Op, Payload, Schedule};
use std::ops::Range;

/// See the module.
pub struct Bruck;

const INFO: Info = Info {
    name: "bruck",
    summary: "as few steps as possible: messages of many blocks to ranks at distances of powers of two",
    options: &[ALIGN],
    source: "Bruck, Ho, Kipnis, Upfal and Weathersby, TPDS 1997",
    collectives: &[Kind::AllGather, Kind::AllToAll],
};

/// Most ranks of an AllToAll, whose lanes grow with their square.
const MAX_ALL_TO_ALL_RANKS: u32 = 1024;

impl Algorithm for Bruck {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn scale(&self) -> Scale {
        Scale::Short
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        let n = request.ranks();
        let block = request.block_bytes(n);
        let mut builder = request.builder();
        if request.collective.kind == Kind::AllGather {
            request.expect(u64::from(n) * u64::from(n.ilog2() + 1), 0)?;
            (0..n).for_each(|rank| _ = builder.shard_block(rank, request.shard(rank), block));
            builder.phase("all-gather", false);
            for (step, distance) in distances(n) {
                let count = distance.min(n - distance);
                for rank in 0..n {
                    builder.send(Op::Copy, rank, (rank + n - distance) % n, around(rank, count, n), step)?;
                }
            }
            return builder.finish();
        }
        if n > MAX_ALL_TO_ALL_RANKS {
            return request
                .refuse(format!("it has a block for every pair of ranks; at most {MAX_ALL_TO_ALL_RANKS} ranks"));
        }
        for source in 0..n {
            for owner in 0..n {
                let lane = builder.block(request.shard(owner), block);
                let entry = &mut builder.schedule.lanes[lane as usize];
                (entry.source, entry.owner) = (source, owner);
            }
        }
        builder.phase("all-to-all", false);
        for (step, distance) in distances(n) {
            for rank in 0..n {
                // Of a block that goes `ahead` ranks, the smaller powers have brought it here.
                let here = (1..n).filter(|ahead| ahead & distance != 0).map(|ahead| {
                    let source = (rank + n - ahead % distance) % n;
                    source * n + (source + ahead) % n
                });
                let payload = Payload::of(here.map(|lane| lane..lane + 1));
                builder.send(Op::Copy, rank, (rank + distance) % n, payload, step)?;
            }
        }
        builder.finish()
    }
}

/// Steps and powers of two below `n`.
fn distances(n: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..u32::BITS).map(|step| (step, 1 << step)).take_while(move |&(_, distance)| distance < n)
}

/// `count` lanes from `first` on, around `n`.
fn around(first: LaneId, count: u32, n: u32) -> Payload {
    let end = first + count;
    let ranges: [Range<LaneId>; 2] = [first..end.min(n), 0..end.saturating_sub(n)];
    Payload::of(ranges)
}
