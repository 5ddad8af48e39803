//! The best split of what is sent over the dimensions, followed chunk by chunk.

use super::Scheduler;
use crate::rails::orders::{ChunkOrder, RailsPlan, StagePath, StageTable};
use antiphon_model::collective::Kind;
use antiphon_model::fabric::Dimension;
use antiphon_model::fabric::split::levels;
use antiphon_model::topology::Topology;
use std::cmp::Reverse;

/// Follows the split of bytes that keeps the dimensions busy for the least time ([`levels`]). Every chunk, in an
/// AllReduce each half of it by itself, goes over the levels from the least busy one on, and in a level first over the
/// dimensions that are behind their share. What is sent stays near the split, which is no whole number of chunks.
pub(super) struct Split;

impl Scheduler for Split {
    fn schedule(&self, topology: &Topology, plan: &mut RailsPlan) {
        let (table, count) = (StageTable::new(topology, plan), topology.dimensions.len());
        // Of a chunk in a picosecond.
        let rate = |(number, dimension): (usize, &Dimension)| {
            (1.0 - 1.0 / dimension.size as f64) / table.whole(number).busy_ps.max(1) as f64
        };
        let rates: Vec<f64> = topology.dimensions.iter().enumerate().map(rate).collect();
        let sizes: Vec<u64> = topology.dimensions.iter().map(|dimension| dimension.size).collect();
        let (mut level, mut share) = (vec![0; count], vec![0.0; count]);
        for (depth, (set, time)) in levels(&sizes, &rates).into_iter().enumerate() {
            for number in (0..count).filter(|number| set >> number & 1 == 1) {
                (level[number], share[number]) = (depth, time);
            }
        }
        let mut ahead = vec![0.0; count];
        let halves = if plan.kind == Kind::AllReduce { 2 } else { 1 };
        for order in &mut plan.orders {
            for half in 0..halves {
                let mut path = StagePath::nearest_first(topology);
                // The same time is more bytes where the rate is high.
                let key = |number: u8| {
                    (Reverse(level[usize::from(number)]), ahead[usize::from(number)] / rates[usize::from(number)])
                };
                path.as_mut_slice().sort_by(|&a, &b| key(a).partial_cmp(&key(b)).expect("numbers"));
                if half == 0 {
                    *order = ChunkOrder::mirrored(path);
                } else {
                    order.gather = path.reversed();
                }
                for stage in table.of(order).skip(half * count).take(count) {
                    ahead[usize::from(stage.dimension)] += stage.busy_ps as f64;
                }
                ahead.iter_mut().zip(&share).for_each(|(ahead, share)| *ahead -= share);
            }
        }
    }
}
