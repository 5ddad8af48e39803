//! Memory that a caller lends to a running collective or message.

use std::ops::Range;

/// A contiguous part of a rank's memory.
#[derive(Debug)]
pub enum LentPiece<'a> {
    /// Is only read.
    Read(&'a [u8]),
    /// Is read and written.
    Write(&'a mut [u8]),
}

impl LentPiece<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            LentPiece::Read(bytes) => bytes,
            LentPiece::Write(bytes) => bytes,
        }
    }
}

/// A rank's memory, or as much of it as its messages touch: pieces in order, each with the place of its first byte.
#[derive(Debug, Default)]
pub struct LentMemory<'a>(Vec<(usize, LentPiece<'a>)>);

impl<'a> LentMemory<'a> {
    /// Of pieces, in any order.
    pub fn new(mut pieces: Vec<(usize, LentPiece<'a>)>) -> LentMemory<'a> {
        pieces.sort_by_key(|&(start, _)| start);
        LentMemory(pieces)
    }

    /// The number of the piece that has a place, and where in it.
    fn find(&self, at: usize) -> (usize, usize) {
        let piece = self.0.partition_point(|&(start, _)| start <= at).saturating_sub(1);
        (piece, at - self.0.get(piece).map_or(at, |&(start, _)| start.min(at)))
    }

    /// Bytes of a range, slice by slice; fewer where memory was not lent.
    pub fn slices(&self, range: Range<usize>) -> impl Iterator<Item = &[u8]> {
        let (first, mut skip) = self.find(range.start);
        let mut left = range.len();
        self.0.iter().skip(first).map_while(move |(_, piece)| {
            let bytes = piece.bytes().get(skip..)?;
            let slice = &bytes[..bytes.len().min(left)];
            (skip, left) = (0, left - slice.len());
            (!slice.is_empty()).then_some(slice)
        })
    }

    /// Calls `store` with every slice of a range that may be written, and the range of its bytes in that range. False
    /// where memory was not lent, or only to be read.
    pub fn change(&mut self, range: Range<usize>, mut store: impl FnMut(&mut [u8], Range<usize>)) -> bool {
        let (first, mut skip) = self.find(range.start);
        let mut done = 0;
        for (_, piece) in self.0.iter_mut().skip(first) {
            if done == range.len() {
                break;
            }
            let LentPiece::Write(bytes) = piece else { return false };
            let Some(bytes) = bytes.get_mut(skip..) else { return false };
            let count = bytes.len().min(range.len() - done);
            store(&mut bytes[..count], done..done + count);
            (skip, done) = (0, done + count);
        }
        done == range.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_go_through_pieces() {
        let (mut first, second, mut third) = ([1u8, 2, 3], [4u8, 5], [6u8, 7, 8]);
        let pieces = vec![
            (13, LentPiece::Read(&second)),
            (10, LentPiece::Write(&mut first)),
            (20, LentPiece::Write(&mut third)),
        ];
        let mut memory = LentMemory::new(pieces);
        let read = |memory: &LentMemory, range| memory.slices(range).flatten().copied().collect::<Vec<_>>();
        assert_eq!(read(&memory, 11..14), [2, 3, 4]);
        assert_eq!(read(&memory, 21..22), [7]);
        assert_eq!(read(&memory, 21..40), [7, 8]);
        assert!(memory.change(10..12, |bytes, range| bytes.copy_from_slice(&[9, 8][range])));
        assert!(!memory.change(12..14, |_, _| {}));
        assert!(memory.change(20..23, |bytes, range| assert_eq!((bytes.len(), range), (3, 0..3))));
        assert!(!memory.change(22..24, |_, _| {}));
        assert_eq!(read(&memory, 10..13), [9, 8, 3]);
        assert!(LentMemory::default().slices(0..3).next().is_none());
    }
}
