//! Ring: reduce-scatter one way around, all-gather the other; the same way where links go one way.
//!
//! Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms" (JPDC 2009); on odd meshes as in
//! the TTO artifact (HPCA 2024): the walk passes one rank twice, so its
//! shard is cut in two, and each half still takes a whole turn.

use super::cycle::{self, Cycle};
use super::path::{self, Way};
use super::{Algorithm, Info, Request, Scale, half};
use crate::collective::Kind;
use crate::error::Result;
use crate::options::{Default::Derived, Opt};
use crate::parameter::Value;
use crate::schedule::{Builder, Dependency, Event, Issue, Schedule, TransferId};

/// See the module.
pub struct Ring;

const INFO: Info = Info {
    name: "ring",
    summary: "unidirectional ring, one shard a step; a closed walk on odd meshes",
    options: &[Opt::count(
        "buffers",
        1,
        4096,
        Derived("as many as there are"),
        "Most messages of a rank that are started and not yet sent: each waits for the sending of the one so many before.",
    )],
    source: "Patarasuk and Yuan, JPDC 2009; TTO (HPCA 2024) as baseline",
    collectives: &[Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather],
};

impl Algorithm for Ring {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn scale(&self) -> Scale {
        Scale::Large
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        request.expect_rings(1)?;
        let buffers = request.options.given("buffers").map(Value::whole);
        let Cycle { ranks: walk, both_ways, direct } = match cycle::closed_walk(request.fabric, request.system) {
            Ok(cycle) => cycle,
            Err(why) => return request.refuse(why),
        };
        let slots = walk.len();
        let block = request.block_bytes(request.ranks());
        let mut builder = request.builder();
        builder.reserve(request.ring_transfers(1, slots as u64));
        builder.schedule.endpoint.issue = Issue::Links;
        builder.schedule.conflict_free = direct;
        for (slot, &rank) in walk.iter().enumerate() {
            let mut region = request.shard(rank);
            let visits: Vec<usize> = (0..slots).filter(|&other| walk[other] == rank).collect();
            if visits.len() == 2 {
                region = half(region, usize::from(slot == visits[1]));
            }
            builder.shard_block(rank, region, block);
        }
        // Slot `i` after `start`, going forwards along the walk.
        // From every slot around the walk.
        let ways = |turned: fn(&mut [u32])| -> Vec<Way> {
            let around = |slot: usize| {
                let mut path = path::around(&walk, slot, 0);
                turned(&mut path);
                Way { lanes: slot as u32..slot as u32 + 1, path }
            };
            (0..slots).map(around).collect()
        };
        if request.scatters() {
            builder.phase("reduce-scatter", false);
            // To the slot: backwards, or forwards where links go one way.
            let turned = if both_ways { <[u32]>::reverse } else { |path: &mut [u32]| path.rotate_left(1) };
            path::reduce_along(&mut builder, &ways(turned), 0)?;
        }
        if request.gathers() {
            builder.phase("all-gather", false);
            path::copy_along(&mut builder, &ways(|_| {}), 0)?;
        }
        if let Some(buffers) = buffers {
            wait_for_buffers(&mut builder, buffers);
        }
        builder.finish()
    }
}

/// Makes every message of a rank wait until the one `buffers` before it was sent.
fn wait_for_buffers(builder: &mut Builder, buffers: u64) {
    let mut order: Vec<TransferId> = builder.schedule.order();
    order.sort_by_key(|&id| builder.schedule.transfers[id as usize].from);
    for pair in order.windows(buffers as usize + 1) {
        let (first, last) = (pair[0], pair[buffers as usize]);
        let from = |id: TransferId| builder.schedule.transfers[id as usize].from;
        if from(first) == from(last) {
            builder.start_after(last, Dependency::new(first, Event::Sent));
        }
    }
}
