//! Bidirectional ring: two rings on one cycle, in opposite directions, half the data each.
//!
//! TTO paper (HPCA 2024), sections II-B and III-B.

use super::cycle::{self, Cycle};
use super::{Algorithm, Info, Request, half, path};
use crate::collective::Kind;
use crate::error::Result;
use crate::schedule::{Issue, Schedule};

/// See the module.
pub struct RingBi;

const INFO: Info = Info {
    name: "ring-bi",
    summary: "two rings in opposite directions on one Hamiltonian cycle",
    options: &[],
    source: "TTO (HPCA 2024) section III-B, RingBiEven",
    collectives: &[Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather],
};

impl Algorithm for RingBi {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        request.expect_rings(2)?;
        let (cycle, direct) = match cycle::hamiltonian(request.fabric, request.system) {
            Ok(Cycle { ranks, both_ways: true, direct }) => (ranks, direct),
            Ok(_) => return request.refuse("links of the Hamiltonian cycles that were found go one way"),
            Err(why) => {
                let odd_mesh = request.fabric.product().is_some_and(|product| product.rows_columns().is_some());
                let hint = if odd_mesh { "; use ring-bi-odd" } else { "" };
                return request.refuse(format!("{why}{hint}"));
            }
        };
        if cycle.len() < 3 {
            return request.refuse("a cycle needs at least 3 ranks to have two directions");
        }
        let slots = cycle.len();
        let block = request.block_bytes(request.ranks()).div_ceil(2);
        let mut builder = request.builder();
        builder.reserve(request.ring_transfers(2, slots as u64));
        builder.schedule.endpoint.issue = Issue::Links;
        builder.schedule.conflict_free = direct;
        for direction in 0..2 {
            for &rank in &cycle {
                builder.shard_block(rank, half(request.shard(rank), direction), block);
            }
        }
        let around = |slot, direction| path::around(&cycle, slot, direction);
        let lanes = || (0..2).flat_map(|direction| (0..slots).map(move |slot| (direction, slot)));
        if request.scatters() {
            builder.phase("reduce-scatter", false);
            for (direction, slot) in lanes() {
                let mut inwards = around(slot, direction);
                inwards.reverse();
                path::reduce_along(&mut builder, &inwards, (direction * slots + slot) as u32, 1, 0)?;
            }
        }
        if request.gathers() {
            builder.phase("all-gather", false);
            for (direction, slot) in lanes() {
                let outwards = around(slot, direction);
                path::copy_along(&mut builder, &outwards, (direction * slots + slot) as u32, 1, 0)?;
            }
        }
        builder.finish()
    }
}
