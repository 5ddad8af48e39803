//! Stages: along one dimension of a product of cliques and switches after the other, the fastest first, and back.
//!
//! Between boxes of a pod goes what has been reduced within them, which is the least, and there the limit is. So no search is needed.
//! Chunks follow each other through the stages, all dimensions busy at once, and messages are few: a rank has one for every other
//! value of a digit of its place, and behind a switch of many the place in a dimension has two digits. As all ranks
//! send as far at a time, no two messages meet in a switch.

use crate::algorithm::Request;
use antiphon_base::error::Result;
use antiphon_base::units::Bytes;
use antiphon_model::fabric::{Dimension, DimensionShape, Link, Product};
use antiphon_model::schedule::{Op, Schedule};
use std::cmp::Reverse;

/// Behind a switch of more, a place has two digits.
const FEW: u64 = 8;
/// Most chunks, and most messages of all of them: some seconds of simulation.
const MOST_CHUNKS: u64 = 128;
const MOST_MESSAGES: u64 = 1 << 24;

/// A digit of the place of a rank.
struct Digit {
    /// Its dimension, from the fastest on.
    stage: u32,
    values: u32,
    /// Ranks that agree in it and in all digits before it.
    weight: u32,
    /// The first step in which it is reduced, and gathered.
    steps: [u32; 2],
}

/// See the module.
pub struct Stages {
    digits: Vec<Digit>,
    /// By place.
    ranks: Vec<u32>,
    /// Steps from a chunk to the next one.
    stride: u32,
    /// Bytes of a block that go so fast that others cannot be sent while they are on their way.
    shortest: Bytes,
    /// Picoseconds that rates alone take.
    pub least_ps: u128,
}

impl Stages {
    /// Those of a reduce-scatter, an all-gather, or both; `None` if a dimension is a line or a ring.
    pub fn new(request: &Request) -> Option<Stages> {
        let (Request { fabric, bytes, .. }, costs) = (request, request.costs());
        let bytes = *bytes;
        let both = [request.scatters(), request.gathers()];
        let product = fabric.product().filter(|_| both.contains(&true))?.without_ones();
        let is_whole = |along: &Dimension| matches!(along.shape, DimensionShape::Clique | DimensionShape::Switch);
        if product.dimensions.is_empty() || !product.dimensions.iter().all(is_whole) {
            return None;
        }
        // Out of a rank: a clique has a link to every other one.
        let rate = |number: usize| {
            let along = &product.dimensions[number];
            let links = if along.shape == DimensionShape::Clique { along.size - 1 } else { 1 };
            let link = Link { rate: along.rate, ..Link::new(0, 1, "") };
            costs.payload_rate(&link).0.saturating_mul(links)
        };
        let mut order: Vec<usize> = (0..product.dimensions.len()).collect();
        order.sort_by_key(|&number| Reverse(rate(number)));
        let latency = costs.links(fabric).iter().map(|link| link.latency_ps).max().unwrap_or(0);
        let way = latency * 2 + costs.hand_off_ps();
        let ways = both.iter().filter(|there| **there).count() as u32;
        let (mut digits, mut weight, mut stride, mut shortest, mut least_ps) = (vec![], request.ranks(), 1, 1, 0);
        for (stage, &number) in (0..).zip(&order) {
            let first = digits.len();
            let whole = weight;
            for values in values(&product.dimensions[number]) {
                weight /= values;
                digits.push(Digit { stage, values, weight, steps: [0; 2] });
            }
            // Of a dimension, sums of a digit and copies of another one take turns, so that each is on its way while the other is sent.
            let own = &mut digits[first..];
            let mut step = 0;
            for at in 0..own.len() {
                for (way, at) in [at, own.len() - 1 - at].into_iter().enumerate().filter(|(way, _)| both[*way]) {
                    own[at].steps[way] = step;
                    step += own[at].values - 1;
                }
            }
            stride = step.max(stride);
            let share = u128::from(bytes) * u128::from(whole - weight) / u128::from(request.ranks());
            let picos = u128::from(ways) * share * 1_000_000_000_000 / u128::from(rate(number).max(1));
            if picos > least_ps {
                let last = u128::from(digits[digits.len() - 1].values - 1);
                least_ps = picos;
                shortest = (u128::from(way) * u128::from(rate(number)) / last / 1_000_000_000_000) as Bytes;
            }
        }
        let count = order.len() as u32;
        for digit in &mut digits {
            let back = 2 * count - 1 - digit.stage - if both[0] { 0 } else { count };
            digit.steps[0] += digit.stage * stride;
            digit.steps[1] += back * stride;
        }
        Some(Stages { ranks: places(request, &product, &order), digits, stride, shortest, least_ps })
    }

    /// Their schedule.
    ///
    /// # Errors
    /// As [`antiphon_model::schedule::Builder::finish`].
    pub fn schedule(&self, request: &Request) -> Result<Schedule> {
        let mut builder = request.builder();
        let ranks = self.ranks.len() as u32;
        let others: u32 = self.digits.iter().map(|digit| digit.values - 1).sum();
        let block = request.bytes / u64::from(ranks);
        let most = (MOST_MESSAGES / (2 * u64::from(others) * u64::from(ranks))).clamp(1, MOST_CHUNKS);
        let packet = request.system.packet.payload_bytes.min(self.shortest.max(4096));
        let chunk = block.div_ceil(most).max(self.shortest).max(packet);
        request.shard_lanes(&mut builder, self.ranks.iter().copied(), chunk, self.stride)?;
        builder.phase(request.collective.kind.name(), false);
        let both = [(Op::Reduce, request.scatters()), (Op::Copy, request.gathers())];
        for (way, (op, _)) in both.into_iter().enumerate().filter(|(_, (_, there))| *there) {
            let mut digits: Vec<&Digit> = self.digits.iter().collect();
            digits.sort_by_key(|digit| digit.steps[way]);
            for &Digit { values, weight, steps, .. } in digits {
                for (offset, from) in (1..values).flat_map(|offset| (0..ranks).map(move |from| (offset, from))) {
                    let own = from / weight % values;
                    let to = from - own * weight + (own + offset) % values * weight;
                    // Reduced is what its receiver goes on with, gathered what its sender has.
                    let holder = if op == Op::Reduce { to } else { from };
                    let lane = holder / weight * weight;
                    let step = steps[way] + offset - 1;
                    builder.send(op, self.ranks[from as usize], self.ranks[to as usize], lane..lane + weight, step)?;
                }
            }
        }
        builder.finish()
    }
}

/// How many values each digit of a place in a dimension has: two digits where two are enough, with the larger last.
fn values(along: &Dimension) -> Vec<u32> {
    let size = along.size;
    let first = (2..=size.isqrt()).rev().find(|first| size.is_multiple_of(*first));
    match first.filter(|_| along.shape == DimensionShape::Switch && size > FEW) {
        Some(first) => vec![first as u32, (size / first) as u32],
        None => vec![size as u32],
    }
}

/// The ranks by place, whose first digits are the coordinate in the first dimension of an order.
fn places(request: &Request, product: &Product, order: &[usize]) -> Vec<u32> {
    let ranks = product.ranks(request.fabric);
    let sizes = product.coordinates.sizes();
    let rank = |place: u32| {
        let (mut coordinates, mut left) = (vec![0; sizes.len()], place);
        for &number in order.iter().rev() {
            coordinates[number] = left % sizes[number];
            left /= sizes[number];
        }
        ranks[product.coordinates.position(&coordinates) as usize]
    };
    (0..request.ranks()).map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_base::options::Options;
    use antiphon_base::watch::Watch;
    use antiphon_model::collective::{Collective, Kind};
    use antiphon_model::fabric::Fabric;
    use antiphon_model::system::System;
    use antiphon_proof::verify;
    use antiphon_run::check_by_execution;

    /// One digit and two, cliques and switches, faster dimensions first or not; the busiest link carries no more than it must.
    #[test]
    fn every_collective_is_proven_and_executed() {
        for (spec, kind) in ["fc:5", "switch:12", "fbfly:3x4", "dgx-h100:3", "dgx-h100:9"]
            .into_iter()
            .flat_map(|spec| [Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather].map(|kind| (spec, kind)))
        {
            let (fabric, system) = (Fabric::parse(spec).unwrap(), System::preset("ideal").unwrap());
            let (collective, bytes) = (Collective::new(kind), 1 << 20);
            let request = Request {
                fabric: &fabric,
                system: &system,
                collective,
                bytes,
                matrix: None,
                align: antiphon_model::collective::Align::default(),
                spec: "test",
                options: Options::parse("test", "", &[]).unwrap(),
                watch: Watch::default(),
            };
            let stages = Stages::new(&request).unwrap();
            let schedule = stages.schedule(&request).unwrap();
            assert!(verify(&fabric, &schedule).unwrap().complete, "{spec} {kind:?}");
            check_by_execution(&schedule, Some(1)).unwrap();
            let busiest = u128::from(antiphon_bound::busiest_ps(&fabric, &system, &schedule));
            assert!(busiest.abs_diff(stages.least_ps) < busiest / 100, "{spec} {kind:?} {busiest} {}", stages.least_ps);
        }
    }
}
