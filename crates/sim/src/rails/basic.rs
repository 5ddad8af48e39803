//! The basic collectives of one dimension, message by message: rings in both directions, direct, and
//! halving-doubling (Themis, ISCA 2022, section 2.2 and Table 1).

use super::orders::Basic;
use antiphon_model::fabric::DimensionShape;
use std::ops::Range;

/// A message between two NPUs of one group. Senders, receivers, blocks and sources are coordinates along
/// the dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sending {
    /// What it carries is the sender's own or has arrived in an earlier step.
    pub step: u32,
    /// Sender.
    pub from: u32,
    /// Receiver; on a ring a neighbour.
    pub to: u32,
    /// On a ring, which way it goes: 0 upwards, 1 downwards.
    pub direction: u32,
    /// Pieces of every block it carries.
    pub pieces: Range<u32>,
    /// Blocks it carries, by the NPUs that own them or, in an AllToAll, that they are for.
    pub blocks: Range<u32>,
    /// In an AllToAll, the NPU whose data it carries.
    pub source: u32,
}

/// Number of messages that every NPU of a group sends, on a line the mean.
pub(super) fn count(shape: DimensionShape, size: u64, basic: Basic) -> u64 {
    match (shape, basic) {
        (DimensionShape::Ring, Basic::Exchange) => size / 2 * (size / 2 + 1),
        (DimensionShape::Line, Basic::Exchange) => (size * size - 1).div_ceil(3),
        (DimensionShape::Ring, _) => 2 * (size - 1),
        (DimensionShape::Switch, Basic::Reduce | Basic::Gather) => u64::from(size.ilog2()),
        _ => size - 1,
    }
}

/// Blocks that every NPU of a group sends or passes on, on a line the mean.
pub(super) fn blocks(shape: DimensionShape, size: u64, basic: Basic) -> u64 {
    match (shape, basic) {
        (DimensionShape::Ring, Basic::Exchange) => size * size / 4,
        (DimensionShape::Line, Basic::Exchange) => (size * size - 1).div_ceil(3),
        _ => size - 1,
    }
}

/// All messages of a group of `size` NPUs, by step. Blocks have `pieces` pieces: two where there are rings,
/// one for each direction. An AllToAll is direct on a switch too: with halving-doubling every block
/// would be sent several times.
pub(super) fn messages(shape: DimensionShape, size: u32, basic: Basic, pieces: u32) -> Vec<Sending> {
    let mut list = match (shape, basic) {
        (DimensionShape::Ring, Basic::Exchange) => ring_exchange(size, pieces),
        (DimensionShape::Ring, _) => ring(size, basic),
        (DimensionShape::Line, Basic::Exchange) => line_exchange(size, pieces),
        (DimensionShape::Line, Basic::Reduce) => line(size, pieces),
        (DimensionShape::Line, Basic::Gather) => {
            line(size, pieces).into_iter().map(|message| back(size, message)).collect()
        }
        (DimensionShape::Switch, Basic::Reduce) => halving(size, pieces),
        (DimensionShape::Switch, Basic::Gather) => doubling(size, pieces),
        _ => direct(shape, size, basic, pieces),
    };
    list.sort_by_key(|message| message.step);
    list
}

/// The NPU `distance` further in a direction of a ring.
fn ahead(size: u32, from: u32, direction: u32, distance: u32) -> u32 {
    (from + if direction == 0 { distance } else { size - distance }) % size
}

/// Each piece goes around the ring in its own direction: to its owner, gathering contributions, or from it.
fn ring(size: u32, basic: Basic) -> Vec<Sending> {
    let mut list = Vec::new();
    for (step, direction, from) in triples(size - 1, 2, size) {
        let owner = match basic {
            Basic::Reduce => ahead(size, from, direction, size - 1 - step),
            _ => ahead(size, from, 1 - direction, step),
        };
        let (to, pieces) = (ahead(size, from, direction, 1), direction..direction + 1);
        list.push(Sending { step, from, to, direction, pieces, blocks: owner..owner + 1, source: from });
    }
    list
}

/// Each block comes to its owner from both ends, gathering contributions on the way, the farthest first: every link
/// carries a block a step.
fn line(size: u32, pieces: u32) -> Vec<Sending> {
    let mut list = Vec::new();
    for owner in 0..size {
        let message = |step, from, to, direction| Sending {
            step,
            from,
            to,
            direction,
            pieces: 0..pieces,
            blocks: owner..owner + 1,
            source: from,
        };
        list.extend((0..owner).map(|from| message(from + size - 1 - owner, from, from + 1, 0)));
        list.extend((owner + 1..size).map(|from| message(size - 1 - from + owner, from, from - 1, 1)));
    }
    list
}

/// A message of [`line`] the other way, with time reversed.
fn back(size: u32, message: Sending) -> Sending {
    let Sending { step, from, to, direction, .. } = message;
    Sending { step: size - 2 - step, from: to, to: from, direction: 1 - direction, source: to, ..message }
}

/// Blocks go the shorter way, hop by hop, the farthest first; if both ways are equal, half of the pieces go
/// either way.
fn ring_exchange(size: u32, pieces: u32) -> Vec<Sending> {
    let mut list = Vec::new();
    for (distance, direction, source) in triples(size / 2 + 1, 2, size) {
        let distance = size / 2 - distance;
        let pieces = if 2 * distance == size { direction..direction + 1 } else { 0..pieces };
        let block = ahead(size, source, direction, distance);
        for step in 0..distance {
            let (from, to) = (ahead(size, source, direction, step), ahead(size, source, direction, step + 1));
            list.push(Sending { step, from, to, direction, pieces: pieces.clone(), blocks: block..block + 1, source });
        }
    }
    list
}

/// Blocks go hop by hop, those of the farthest NPU first, the sender's own before those it passes on: every one has come a step
/// before it goes on, no link is idle before its last block, and that in the middle, which has most, needs no more steps
/// than it has blocks.
fn line_exchange(size: u32, pieces: u32) -> Vec<Sending> {
    let mut list = Vec::new();
    for (source, block) in (0..size).flat_map(|source| (0..size).map(move |block| (source, block))) {
        let up = source < block;
        // Downwards as upwards on the line the other way round.
        let place = |npu: u32| if up { npu } else { size - 1 - npu };
        for at in place(source)..place(block) {
            let step = (size - 1 - place(block)) * (at + 1) + at - place(source);
            let (from, to, direction) = (place(at), place(at + 1), u32::from(!up));
            list.push(Sending { step, from, to, direction, pieces: 0..pieces, blocks: block..block + 1, source });
        }
    }
    list
}

/// Everyone to everyone: at once where each pair has a link; through a switch one after the other, so
/// that at any time every NPU receives from one.
fn direct(shape: DimensionShape, size: u32, basic: Basic, pieces: u32) -> Vec<Sending> {
    let mut list = Vec::new();
    for (offset, from) in (1..size).flat_map(|offset| (0..size).map(move |from| (offset, from))) {
        let to = (from + offset) % size;
        let block = if basic == Basic::Gather { from } else { to };
        let step = if shape == DimensionShape::Switch { offset - 1 } else { 0 };
        list.push(Sending { step, from, to, direction: 0, pieces: 0..pieces, blocks: block..block + 1, source: from });
    }
    list
}

/// Recursive halving, the farthest partners first, so that what is sent adjoins.
fn halving(size: u32, pieces: u32) -> Vec<Sending> {
    let mut list = Vec::new();
    for (step, from) in (0..size.ilog2()).flat_map(|step| (0..size).map(move |from| (step, from))) {
        let part = size >> (step + 1);
        let to = from ^ part;
        let start = to / part * part;
        list.push(Sending {
            step,
            from,
            to,
            direction: 0,
            pieces: 0..pieces,
            blocks: start..start + part,
            source: from,
        });
    }
    list
}

/// Recursive doubling, the nearest partners first.
fn doubling(size: u32, pieces: u32) -> Vec<Sending> {
    let mut list = Vec::new();
    for (step, from) in (0..size.ilog2()).flat_map(|step| (0..size).map(move |from| (step, from))) {
        let part = 1 << step;
        let start = from / part * part;
        let (to, blocks) = (from ^ part, start..start + part);
        list.push(Sending { step, from, to, direction: 0, pieces: 0..pieces, blocks, source: from });
    }
    list
}

/// All triples of numbers below the bounds, the last fastest.
fn triples(a: u32, b: u32, c: u32) -> impl Iterator<Item = (u32, u32, u32)> {
    (0..a).flat_map(move |i| (0..b).flat_map(move |j| (0..c).map(move |k| (i, j, k))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every NPU sends as many messages and blocks as the stage-level model counts.
    #[test]
    fn counts() {
        for shape in [DimensionShape::Ring, DimensionShape::Clique, DimensionShape::Switch] {
            for size in
                (2..=9).chain([16]).filter(|size| shape != DimensionShape::Switch || u32::is_power_of_two(*size))
            {
                for basic in [Basic::Reduce, Basic::Gather, Basic::Exchange] {
                    let list = messages(shape, size, basic, 2);
                    for npu in 0..size {
                        let own: Vec<_> = list.iter().filter(|message| message.from == npu).collect();
                        assert_eq!(own.len() as u64, count(shape, size.into(), basic), "{shape:?} {size} {basic:?}");
                        let sent: usize = own.iter().map(|message| message.blocks.len() * message.pieces.len()).sum();
                        assert_eq!(sent as u64, 2 * blocks(shape, size.into(), basic), "{shape:?} {size} {basic:?}");
                    }
                }
            }
        }
    }
    /// In the AllToAll of a line a block has come before it goes on, and no link is idle before its last one.
    #[test]
    fn lines_exchange() {
        for size in 2..=9 {
            let list = messages(DimensionShape::Line, size, Basic::Exchange, 1);
            assert_eq!(list.len() as u64, (u64::from(size).pow(3) - u64::from(size)) / 3);
            assert!(list.len() as u64 <= u64::from(size) * count(DimensionShape::Line, size.into(), Basic::Exchange));
            for message in list.iter().filter(|message| message.from != message.source) {
                let same = |other: &&Sending| (&other.blocks, other.source) == (&message.blocks, message.source);
                let before = list.iter().filter(same).find(|other| other.to == message.from).unwrap();
                assert!(before.step < message.step, "{size}: {message:?}");
            }
            for from in 0..size - 1 {
                let blocks = (from + 1) * (size - 1 - from);
                for (from, to) in [(from, from + 1), (size - 1 - from, size - 2 - from)] {
                    let on_link = list.iter().filter(|message| (message.from, message.to) == (from, to));
                    let steps: Vec<u32> = on_link.map(|message| message.step).collect();
                    assert_eq!(steps, (0..blocks).collect::<Vec<_>>());
                }
            }
        }
    }

    /// On a line every link carries a block a step, and ends are not as others are.
    #[test]
    fn lines() {
        for size in 2..=9 {
            for basic in [Basic::Reduce, Basic::Gather] {
                let list = messages(DimensionShape::Line, size, basic, 1);
                let each = count(DimensionShape::Line, size.into(), basic);
                assert_eq!(list.len() as u64, u64::from(size) * each);
                assert!(list.iter().all(|message| message.step < size - 1 && message.from.abs_diff(message.to) == 1));
                let links: std::collections::HashSet<_> = list.iter().map(|m| (m.step, m.from, m.to)).collect();
                assert_eq!(links.len(), list.len());
            }
        }
    }
}
