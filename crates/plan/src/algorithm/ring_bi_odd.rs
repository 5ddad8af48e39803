//! RingBiOdd: a bidirectional ring through all chiplets of an odd mesh but one, which joins at two
//! merging neighbours, one for each direction.
//!
//! TTO paper, section IV, Algorithm 1: a corner is excluded, 2N-2 steps. Its ReduceScatter leaves every block on the ring;
//! alone, where the excluded chiplet owns a shard as all others do, it takes N steps of blocks that are so much smaller.

use super::path::{self, Way};
use super::{ALIGN, Algorithm, Info, Request, Scale, cycle};
use antiphon_base::error::Result;
use antiphon_model::collective::Kind;
use antiphon_model::schedule::{Builder, Op, Schedule};

/// See the module.
pub struct RingBiOdd;

const INFO: Info = Info {
    name: "ring-bi-odd",
    summary: "bidirectional ring on odd meshes; one chiplet joins through two merging neighbours",
    options: &[ALIGN],
    source: "TTO (HPCA 2024) section IV, Algorithm 1",
    collectives: &[Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather],
};

/// Only ReduceScatter, or, with all its steps backwards, only AllGather: of shards of all ranks.
///
/// Sums for ranks of the ring go around as in `ring-bi`, each joined by the excluded rank's part one step before the
/// merging rank sends it on. Those for the excluded rank go around as well, to the merging rank and on: first of all on
/// every link, so that what would go there with them or later goes one step later.
fn apart(request: &Request, builder: &mut Builder, ring: &[u32], excluded: u32, merges: [u32; 2]) -> Result<()> {
    let (count, reduces) = (ring.len(), request.scatters());
    let block = request.block_bytes(request.ranks()).div_ceil(2);
    builder.phase(if reduces { "reduce-scatter" } else { "all-gather" }, false);
    for (direction, merge) in merges.into_iter().enumerate() {
        let lane = |builder: &mut Builder, rank| {
            builder.shard_block(rank, request.portion(request.shard(rank), 2, direction), block)
        };
        let hop = |builder: &mut Builder, from, to, lane, step: usize| {
            let (op, from, to) = if reduces { (Op::Reduce, from, to) } else { (Op::Copy, to, from) };
            builder.send(op, from, to, lane, if reduces { step } else { count - step } as u32)
        };
        // On which way from the neighbour after the merging rank a rank comes.
        let start = ring.iter().position(|&rank| rank == merge).expect("on the ring");
        let mut inwards = path::around(ring, start, direction);
        inwards.reverse();
        let to_excluded = lane(builder, excluded);
        for (at, ends) in inwards.windows(2).enumerate() {
            hop(builder, ends[0], ends[1], to_excluded, 1 + at)?;
        }
        hop(builder, merge, excluded, to_excluded, count)?;
        for owner in 0..count {
            let to_owner = lane(builder, inwards[owner]);
            let way = (owner + 1..=owner + count).map(|at| at % count).collect::<Vec<_>>();
            let joins = way.iter().position(|&at| at == count - 1).expect("on the ring");
            hop(builder, excluded, merge, to_owner, joins)?;
            for (at, ends) in way.windows(2).enumerate() {
                let later = usize::from(ends[0] < count - 1 && at >= ends[0]);
                hop(builder, inwards[ends[0]], inwards[ends[1]], to_owner, 1 + at + later)?;
            }
        }
    }
    Ok(())
}

impl Algorithm for RingBiOdd {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn scale(&self) -> Scale {
        Scale::Large
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        let Some((mesh, rows, columns)) = request.mesh() else {
            return request.refuse("it needs an intact two-dimensional mesh");
        };
        if rows % 2 == 0 || columns % 2 == 0 {
            return request.refuse("it is for meshes with odd sides; use ring-bi");
        }
        request.expect_rings(2)?;
        let rank = |(r, c): (usize, usize)| mesh.rank(&[r as u32, c as u32]);
        let (r, c) = (rows as usize - 1, columns as usize - 1);
        let ring: Vec<u32> = cycle::without_corner(rows as usize, columns as usize).into_iter().map(rank).collect();
        let (excluded, merge) = (rank((r, c)), [rank((r, c - 1)), rank((r - 1, c))]);
        let slots = ring.len();
        let mut builder = request.builder();
        builder.schedule.conflict_free = true;
        if !(request.scatters() && request.gathers()) {
            apart(request, &mut builder, &ring, excluded, merge)?;
            return builder.finish();
        }
        let block = request.bytes.div_ceil(2 * slots as u64);
        for direction in 0..2 {
            for slot in 0..slots {
                builder.block(request.portion(request.align.shard(request.bytes, slots, slot), 2, direction), block);
            }
        }
        let around = |slot, direction| path::around(&ring, slot, direction);
        let lanes = || (0..2).flat_map(|direction| (0..slots).map(move |slot| (direction, slot)));
        // Hops from the owner of a lane to the merging rank of its direction, along the gather.
        let hops_to_merge = |direction: usize, slot: usize| {
            around(slot, direction).iter().position(|&r| r == merge[direction]).expect("on the ring") as u32
        };
        builder.phase("reduce-scatter", false);
        for (direction, slot) in lanes() {
            let mut inwards = around(slot, direction);
            inwards.reverse();
            let lane = (direction * slots + slot) as u32;
            // The excluded rank's part arrives one step before the merging rank sends it on.
            let joins = slots as u32 - 1 - hops_to_merge(direction, slot);
            builder.send(Op::Reduce, excluded, merge[direction], lane, joins)?;
            path::reduce_along(&mut builder, &[Way { lanes: lane..lane + 1, path: inwards }], 1)?;
        }
        builder.phase("all-gather", false);
        for (direction, slot) in lanes() {
            let lane = (direction * slots + slot) as u32;
            path::copy_along(&mut builder, &[Way { lanes: lane..lane + 1, path: around(slot, direction) }], 0)?;
            builder.send(Op::Copy, merge[direction], excluded, lane, hops_to_merge(direction, slot))?;
        }
        builder.finish()
    }
}
