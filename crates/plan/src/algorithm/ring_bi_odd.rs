//! RingBiOdd: a bidirectional ring through all chiplets of an odd mesh but one, which joins at two
//! merging neighbours, one for each direction.
//!
//! TTO paper, section IV, Algorithm 1: a corner is excluded, 2N-2 steps.

use super::path::{self, Way};
use super::{ALIGN, Algorithm, Info, Request, Scale, cycle};
use antiphon_base::error::Result;
use antiphon_model::collective::Kind;
use antiphon_model::schedule::{Op, Schedule};

/// See the module.
pub struct RingBiOdd;

const INFO: Info = Info {
    name: "ring-bi-odd",
    summary: "bidirectional ring on odd meshes; one chiplet joins through two merging neighbours",
    options: &[ALIGN],
    source: "TTO (HPCA 2024) section IV, Algorithm 1",
    collectives: &[Kind::AllReduce],
};

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
        let rank = |(r, c): (usize, usize)| mesh.rank(&[r as u32, c as u32]);
        let (r, c) = (rows as usize - 1, columns as usize - 1);
        let ring: Vec<u32> = cycle::without_corner(rows as usize, columns as usize).into_iter().map(rank).collect();
        let (excluded, merge) = (rank((r, c)), [rank((r, c - 1)), rank((r - 1, c))]);
        let slots = ring.len();
        let mut builder = request.builder();
        builder.schedule.conflict_free = true;
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
