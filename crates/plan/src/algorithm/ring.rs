//! Ring: reduce-scatter around it, all-gather on the same way; or back, as in the TTO artifact (`gather=back`). With channels
//! there is a ring for each part of the data, through all ways into boxes.
//!
//! Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms" (JPDC 2009); on odd meshes as in
//! the TTO artifact (HPCA 2024): the walk passes one rank twice, so its
//! shard is cut in two, and each half still takes a whole turn.

use super::boxes::{Boxes, CHANNELS};
use super::cycle::{self, Cycle};
use super::path::{self, Way};
use super::{ALIGN, Algorithm, Info, Request, Scale};
use antiphon_base::error::Result;
use antiphon_base::options::{Default::Derived, Opt};
use antiphon_base::parameter::Value;
use antiphon_model::collective::Kind;
use antiphon_model::schedule::{Builder, Dependency, Event, Issue, Schedule, TransferId};

/// See the module.
pub struct Ring;

const INFO: Info = Info {
    name: "ring",
    summary: "unidirectional ring, one shard a step; a closed walk on odd meshes",
    options: &[
        CHANNELS,
        Opt::choice(
            "gather",
            &["on", "back"],
            "Way round of the all-gather. on: as the reduce-scatter; back: the other way, as the TTO artifact, where links go both ways.",
        ),
        Opt::count(
            "buffers",
            1,
            4096,
            Derived("as many as there are"),
            "Most messages of a rank that are started and not yet sent: each waits for the sending of the one so many before.",
        ),
        ALIGN,
    ],
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
        let buffers = request.options.given("buffers").map(Value::whole);
        let block = request.block_bytes(request.ranks());
        let boxes = Boxes::new(request);
        // More would take long.
        let most = MOST_TRANSFERS / request.ring_transfers(1, request.ranks().into()).max(1);
        let channels = Boxes::channels(boxes.as_ref(), request, block, 4, most);
        request.expect_rings(channels as u64)?;
        // A walk for every channel.
        let (walks, both_ways, direct) = match boxes.filter(|_| channels > 1) {
            Some(boxes) => ((0..channels).map(|channel| boxes.ring(channel)).collect(), true, false),
            None => match cycle::closed_walk(request.fabric, request.system) {
                Ok(Cycle { ranks, both_ways, direct }) => (vec![ranks; channels], both_ways, direct && channels == 1),
                Err(why) => return request.refuse(why),
            },
        };
        let slots = walks[0].len();
        let mut builder = request.builder();
        builder.reserve(request.ring_transfers(channels as u64, slots as u64));
        builder.schedule.endpoint.issue = Issue::Links;
        builder.schedule.conflict_free = direct;
        for (channel, walk) in walks.iter().enumerate() {
            for (slot, &rank) in walk.iter().enumerate() {
                let mut region = request.shard(rank);
                let visits: Vec<usize> = (0..slots).filter(|&other| walk[other] == rank).collect();
                if visits.len() == 2 {
                    region = request.portion(region, 2, usize::from(slot == visits[1]));
                }
                builder.shard_block(rank, request.portion(region, channels, channel), block.div_ceil(channels as u64));
            }
        }
        // From every slot around its walk.
        let ways = |turned: fn(&mut [u32])| -> Vec<Way> {
            let around = |lane: usize| {
                let mut path = path::around(&walks[lane / slots], lane % slots, 0);
                turned(&mut path);
                Way { lanes: lane as u32..lane as u32 + 1, path }
            };
            (0..channels * slots).map(around).collect()
        };
        if request.scatters() {
            builder.phase("reduce-scatter", false);
            // To the slot, forwards or backwards.
            let back = both_ways && request.options.choice("gather") == "back";
            let turned = if back { <[u32]>::reverse } else { |path: &mut [u32]| path.rotate_left(1) };
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

/// Most transfers for which there is more than one channel unless it is asked for: some seconds of work.
const MOST_TRANSFERS: u64 = 1 << 20;

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
