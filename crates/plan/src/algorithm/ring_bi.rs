//! Bidirectional ring: two rings on one cycle, in opposite directions, half the data each.
//!
//! TTO paper (HPCA 2024), sections II-B and III-B.

use super::cycle::{self, Cycle};
use super::path::{self, Way};
use super::{ALIGN, Algorithm, Info, Request, Scale};
use antiphon_base::error::Result;
use antiphon_model::collective::Kind;
use antiphon_model::schedule::{Issue, Schedule};

/// See the module.
pub struct RingBi;

const INFO: Info = Info {
    name: "ring-bi",
    summary: "two rings in opposite directions on one Hamiltonian cycle",
    options: &[ALIGN],
    source: "TTO (HPCA 2024) section III-B, RingBiEven",
    collectives: &[Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather],
};

impl Algorithm for RingBi {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn scale(&self) -> Scale {
        Scale::Large
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
                builder.shard_block(rank, request.portion(request.shard(rank), 2, direction), block);
            }
        }
        // Of every lane the way from its slot.
        let outwards = |lane: usize| {
            let (direction, slot) = (lane / slots, lane % slots);
            Way { lanes: lane as u32..lane as u32 + 1, path: path::around(&cycle, slot, direction) }
        };
        let mut ways: Vec<Way> = (0..2 * slots).map(outwards).collect();
        let turn = |ways: &mut [Way]| ways.iter_mut().for_each(|way| way.path.reverse());
        if request.scatters() {
            builder.phase("reduce-scatter", false);
            turn(&mut ways);
            path::reduce_along(&mut builder, &ways, 0)?;
            turn(&mut ways);
        }
        if request.gathers() {
            builder.phase("all-gather", false);
            path::copy_along(&mut builder, &ways, 0)?;
        }
        builder.finish()
    }
}
