//! Lanes of a chunk: numbered so that what a message carries is as few runs of adjacent lanes as possible.

use super::basic::Sending;
use super::fabric::Expansion;
use super::orders::RailsPlan;
use antiphon_model::collective::Kind;
use antiphon_model::fabric::DimensionShape;
use antiphon_model::schedule::LaneId;
use std::ops::Range;

/// Pieces of a block: each direction of a ring has its own.
pub(super) fn pieces(expansion: &Expansion) -> u32 {
    if expansion.topology.dimensions.iter().any(|dimension| dimension.shape == DimensionShape::Ring) { 2 } else { 1 }
}

/// Where the lanes of a chunk are: a product of axes. Axis `k` below the number of dimensions is the
/// coordinate of the block's owner along dimension `k`; then come its piece and slice and, for AllToAll,
/// the coordinates of its source.
pub(super) struct Layout {
    first: LaneId,
    /// Number and size, least significant first.
    axes: Vec<(usize, u32)>,
}

impl Layout {
    pub fn new(expansion: &Expansion, plan: &RailsPlan, slices: u32, chunk: usize, first: LaneId) -> Layout {
        let dimensions = &expansion.topology.dimensions;
        let path = match plan.kind {
            Kind::AllGather => plan.orders[chunk].gather.reversed(),
            _ => plan.orders[chunk].first,
        };
        // In the order in which the ReduceScatter fixes coordinates, most significant first, what is
        // sent adjoins; and with the piece after the first ring, so does a ring's half.
        let mut order: Vec<usize> = Vec::new();
        for number in path.as_slice().iter().map(|&number| usize::from(number)).chain(0..dimensions.len()) {
            if !order.contains(&number) {
                order.push(number);
            }
        }
        let ring = order.iter().position(|&number| dimensions[number].shape == DimensionShape::Ring);
        order.insert(ring.map_or(0, |place| place + 1), dimensions.len());
        let sizes: Vec<u32> = dimensions.iter().map(|dimension| dimension.size as u32).collect();
        let sizes = [&sizes[..], &[pieces(expansion), slices], &sizes[..]].concat();
        if plan.kind == Kind::AllToAll {
            order.splice(0..0, dimensions.len() + 2..sizes.len());
        }
        order.insert(0, dimensions.len() + 1);
        Layout { first, axes: order.into_iter().rev().map(|axis| (axis, sizes[axis])).collect() }
    }

    /// Coordinates of every lane, by axis, in lane order.
    pub fn lanes(&self) -> impl Iterator<Item = Vec<u32>> {
        let count = self.axes.iter().map(|(_, size)| size).product();
        (0..count).map(|mut place: u32| {
            let mut coordinates = vec![0; self.axes.len()];
            for &(axis, size) in &self.axes {
                coordinates[axis] = place % size;
                place /= size;
            }
            coordinates
        })
    }

    /// The lanes with coordinates in `wanted`, by axis, as runs of adjacent ones: first and number.
    pub fn runs(&self, wanted: &[Range<u32>]) -> Vec<(LaneId, u32)> {
        let (mut starts, mut length, mut stride) = (vec![self.first], 1, 1);
        for &(axis, size) in &self.axes {
            let range = wanted[axis].clone();
            if length == stride {
                starts[0] += range.start * stride;
                length *= range.len() as u32;
            } else {
                starts = range.flat_map(|at| starts.iter().map(move |start| start + at * stride)).collect();
            }
            stride *= size;
        }
        starts.into_iter().map(|start| (start, length)).collect()
    }
}

/// What a message carries in the group of NPU `origin`, by axis of the layout.
pub(super) fn carried(
    expansion: &Expansion,
    fixed: &[bool],
    dimension: usize,
    message: &Sending,
    slice: u32,
    origin: u32,
) -> Vec<Range<u32>> {
    let coordinates = expansion.coordinates();
    let along = |number: usize, own: bool| {
        let at = coordinates.of(origin, number);
        if own { at..at + 1 } else { 0..coordinates.sizes()[number] }
    };
    let (mut owners, mut sources): (Vec<_>, Vec<_>) =
        fixed.iter().enumerate().map(|(number, &fixed)| (along(number, fixed), along(number, !fixed))).unzip();
    owners[dimension] = message.blocks.clone();
    sources[dimension] = message.source..message.source + 1;
    owners.extend([message.pieces.clone(), slice..slice + 1]);
    owners.append(&mut sources);
    owners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_as_long_as_they_can_be() {
        let layout = Layout { first: 100, axes: vec![(2, 4), (0, 3), (1, 2)] };
        assert_eq!(layout.runs(&[0..3, 0..2, 0..4]), [(100, 24)]);
        assert_eq!(layout.runs(&[0..3, 1..2, 0..4]), [(112, 12)]);
        assert_eq!(layout.runs(&[1..3, 0..2, 0..4]), [(104, 8), (116, 8)]);
        assert_eq!(layout.runs(&[1..3, 0..1, 2..4]), [(106, 2), (110, 2)]);
        assert_eq!(layout.lanes().nth(13).unwrap(), [0, 1, 1]);
    }

    /// Where AllGather goes the way back, every message is one run, but for rings after the first.
    #[test]
    fn mirrored_orders_have_one_run_a_message() {
        let topology = antiphon_model::topology::Topology::parse("sw4@1/1ns,ring4@1/1ns,fc3@1/1ns").unwrap();
        let expansion = Expansion::new(&topology).unwrap();
        let plan = RailsPlan::uniform(&topology, Kind::AllReduce, 1 << 20, 1, false).unwrap();
        let timed = super::super::run(&topology, &plan, super::super::QueuePolicy::Fifo, 1);
        let schedule = super::super::lower(&expansion, &plan, &timed, 1).unwrap();
        // The direct stage, after the ring, needs a run for each direction.
        assert_eq!(schedule.transfers.len(), 2 * 48 * (2 + 2 * 3 + 2 * 2));
    }
}
