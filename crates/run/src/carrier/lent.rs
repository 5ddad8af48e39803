//! Memory that a caller lends to a running collective or message.

use std::ops::Range;

/// Bytes that [`LentPiece::Over`] copies at once.
const BLOCK_BYTES: usize = 4096;

/// A contiguous part of a rank's memory.
#[derive(Debug)]
pub enum LentPiece<'a> {
    /// Is only read.
    Read(&'a [u8]),
    /// Is read and written.
    Write(&'a mut [u8]),
    /// Begins as the first bytes, which stay as they are; a block of them is copied to the second when it is first written.
    Over(&'a [u8], &'a mut [u8], &'a mut Copied),
}

/// The blocks of a [`LentPiece::Over`] that were copied, empty at first.
pub type Copied = Vec<bool>;

impl LentPiece<'_> {
    fn len(&self) -> usize {
        match self {
            LentPiece::Read(bytes) => bytes.len(),
            LentPiece::Write(bytes) => bytes.len(),
            LentPiece::Over(original, bytes, _) => original.len().min(bytes.len()),
        }
    }

    /// At most so many bytes from a place on, as far as they are side by side.
    fn bytes(&self, at: usize, most: usize) -> &[u8] {
        let end = self.len().min(at + most);
        let (original, bytes, copied) = match self {
            LentPiece::Read(bytes) => return &bytes[at..end],
            LentPiece::Write(bytes) => return &bytes[at..end],
            LentPiece::Over(original, bytes, copied) => (original, bytes, copied),
        };
        let is_copied = |at: usize| copied.get(at / BLOCK_BYTES).is_some_and(|&is| is);
        let blocks = (at / BLOCK_BYTES + 1)..end.div_ceil(BLOCK_BYTES);
        let other = blocks.map(|block| block * BLOCK_BYTES).find(|&start| is_copied(start) != is_copied(at));
        let end = other.unwrap_or(end);
        if is_copied(at) { &bytes[at..end] } else { &original[at..end] }
    }

    /// Bytes to be written; `None` if they may not be.
    fn bytes_mut(&mut self, range: Range<usize>) -> Option<&mut [u8]> {
        match self {
            LentPiece::Read(_) => None,
            LentPiece::Write(bytes) => bytes.get_mut(range),
            LentPiece::Over(original, bytes, copied) => {
                copied.resize(bytes.len().div_ceil(BLOCK_BYTES), false);
                for block in range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES) {
                    if !std::mem::replace(copied.get_mut(block)?, true) {
                        let block = block * BLOCK_BYTES..original.len().min((block + 1) * BLOCK_BYTES);
                        bytes.get_mut(block.clone())?.copy_from_slice(original.get(block)?);
                    }
                }
                bytes.get_mut(range)
            }
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
        let (mut number, mut skip) = self.find(range.start);
        let mut left = range.len();
        std::iter::from_fn(move || {
            let (_, piece) = self.0.get(number).filter(|(_, piece)| skip < piece.len() && left > 0)?;
            let slice = piece.bytes(skip, left);
            (skip, left) = (skip + slice.len(), left - slice.len());
            if skip == piece.len() {
                (number, skip) = (number + 1, 0);
            }
            Some(slice)
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
            let end = piece.len().min(skip + range.len() - done);
            let Some(bytes) = piece.bytes_mut(skip..end) else { return false };
            let count = bytes.len();
            store(bytes, done..done + count);
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
        let (original, mut over, mut copied) = ([7u8; BLOCK_BYTES + 9], [0u8; BLOCK_BYTES + 9], vec![]);
        let mut memory = LentMemory::new(vec![(2, LentPiece::Over(&original, &mut over, &mut copied))]);
        let end = BLOCK_BYTES + 9;
        assert!(memory.change(end..end + 1, |bytes, _| bytes[0] += 1));
        assert!(
            read(&memory, 2..end + 2).iter().enumerate().all(|(at, &byte)| byte == if at + 2 == end { 8 } else { 7 })
        );
        assert_eq!(memory.slices(2..end + 2).map(<[u8]>::len).collect::<Vec<_>>(), [BLOCK_BYTES, 9]);
        assert!(!memory.change(end..end + 3, |_, _| {}));
        assert_eq!((over[0], over[BLOCK_BYTES], over[BLOCK_BYTES + 7]), (0, 7, 8));
        assert!(LentMemory::default().slices(0..3).next().is_none());
    }
}
