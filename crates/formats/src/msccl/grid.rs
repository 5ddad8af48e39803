//! The equal chunks that the data of a schedule are whole numbers of.

use super::consumers::MAX_OFFSET;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Bytes;
use antiphon_base::watch::Watch;
use antiphon_model::collective::Kind;
use antiphon_model::schedule::Schedule;
use std::ops::Range;

/// A cut of the buffer into equal chunks.
pub struct ChunkGrid {
    /// Chunks of the full buffer.
    pub chunks: u32,
    /// Chunks of every lane.
    lanes: Vec<Range<u32>>,
}

impl ChunkGrid {
    /// The coarsest cut in which every lane is a whole number of chunks, but for the rounding to elements: what has a third of the
    /// data has a third of the chunks.
    ///
    /// Complexity: O(chunks * lanes), mostly far less.
    ///
    /// # Errors
    /// [`Code::NotApplicable`] for sizes whose rounding leaves no equal chunks; [`Code::TooLarge`] if more chunks are needed than files can
    /// number; [`Code::Interrupted`].
    pub fn of(schedule: &Schedule, watch: Watch) -> Result<ChunkGrid> {
        let lanes = || schedule.lanes.iter().filter(|lane| lane.bytes > 0);
        let mut ends: Vec<Bytes> = lanes().flat_map(|lane| [lane.offset, lane.offset + lane.bytes]).collect();
        ends.sort_unstable();
        ends.dedup();
        let kind = schedule.collective.kind;
        let step = match kind {
            Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll => schedule.ranks.max(1),
            _ => 1,
        };
        let most = MAX_OFFSET + 1;
        let mut chunks = step;
        // What a rank has in these is a whole part of the chunks, so its shard must begin where that does.
        let shards = |chunks: u32| {
            (0..step).all(|rank| {
                let (start, _) = schedule.align.shard(schedule.bytes, step as usize, rank as usize);
                place(schedule.bytes, chunks, start) == (rank * (chunks / step)) as u64
            })
        };
        while chunks <= most && !(fits(schedule, chunks, &ends) && shards(chunks)) {
            watch.step(chunks as usize, most as usize)?;
            chunks += step;
        }
        if chunks > most {
            let even = u64::from(step) * schedule.align.bytes();
            if step > 1 && !schedule.bytes.is_multiple_of(even) {
                let what = format!(
                    "shards of {} bytes are rounded to {}, so they are not cut into equal chunks; \
                     choose a multiple of {even} bytes",
                    schedule.bytes / step as u64,
                    if schedule.align.is_least() { "elements" } else { "their align" }
                );
                return Err(Error::new(Code::NotApplicable, what));
            }
            let what = format!(
                "data cut at {} places are no whole number of at most {most} equal chunks; \
                 choose a size that divides evenly, or an algorithm with equal parts",
                ends.len()
            );
            return Err(Error::new(Code::TooLarge, what));
        }
        let at = |byte: Bytes| place(schedule.bytes, chunks, byte) as u32;
        let range = |lane: &antiphon_model::schedule::Lane| match lane.bytes {
            0 => 0..0,
            bytes => at(lane.offset)..at(lane.offset + bytes),
        };
        Ok(ChunkGrid { chunks, lanes: schedule.lanes.iter().map(range).collect() })
    }

    /// Chunks of a lane.
    pub fn lane(&self, lane: usize) -> Range<u32> {
        self.lanes[lane].clone()
    }
}

/// The chunk that begins nearest to a byte.
fn place(bytes: Bytes, chunks: u32, byte: Bytes) -> u64 {
    ((byte as u128 * chunks as u128 * 2 + bytes as u128) / (bytes as u128 * 2)) as u64
}

/// Whether all ends are where chunks begin, each at another.
fn fits(schedule: &Schedule, chunks: u32, ends: &[Bytes]) -> bool {
    let bytes = schedule.bytes;
    let (bytes_wide, chunks_wide) = (bytes as u128, chunks as u128);
    // Of shards within shards.
    let rounding = (2 * schedule.align.bytes()).min(bytes / chunks as u64 / 4) as u128;
    let mut before = None;
    ends.iter().all(|&end| {
        let at = place(bytes, chunks, end);
        let off = (end as u128 * chunks_wide).abs_diff(at as u128 * bytes_wide);
        off <= rounding * chunks_wide && before.replace(at) != Some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_model::collective::{Align, Collective};
    use antiphon_model::fabric::Fabric;
    use antiphon_model::schedule::Builder;

    fn grid(bytes: Bytes, cuts: &[(Bytes, Bytes)]) -> Result<ChunkGrid> {
        let fabric = Fabric::parse("ring:3").unwrap();
        let mut builder = Builder::new("test", &fabric, Collective::new(Kind::AllReduce), bytes);
        for &(offset, length) in cuts {
            builder.block((offset, length), 1);
        }
        ChunkGrid::of(&builder.schedule, Watch::default())
    }

    /// What a rank has of an all-gather is a whole part of the chunks, or the file cannot be written.
    #[test]
    fn shards_begin_where_their_chunks_do() {
        let fabric = Fabric::parse("ring:8").unwrap();
        let cut = |bytes: Bytes, parts: usize| {
            let mut builder = Builder::new("test", &fabric, Collective::new(Kind::AllGather), bytes);
            for rank in 0..8 {
                let (start, length) = Align::default().shard(bytes, 8, rank);
                for part in 0..parts {
                    let (offset, length) = Align::default().shard(length, parts, part);
                    builder.block((start + offset, length), 1);
                }
            }
            ChunkGrid::of(&builder.schedule, Watch::default())
        };
        for (bytes, parts) in [(1000, 1), (1000, 2), (1004, 2), (1 << 20, 3)] {
            let grid = cut(bytes, parts).unwrap();
            let each = grid.chunks / 8;
            assert!((0..8).all(|rank| grid.lane(rank * parts).start == rank as u32 * each), "{bytes} {parts}");
        }
        let error = cut(100, 5).err().unwrap();
        assert!(error.code == Code::NotApplicable && error.message.contains("choose a multiple of 32"), "{error}");
    }

    #[test]
    fn chunks_are_as_large_as_can_be() {
        let thirds: Vec<_> = (0..3).map(|i| Align::default().shard(1 << 20, 3, i)).collect();
        let cut = grid(1 << 20, &thirds).unwrap();
        assert_eq!((cut.chunks, cut.lane(0), cut.lane(2)), (3, 0..1, 2..3));
        let cut = grid(64, &[(0, 8), (8, 8), (16, 48)]).unwrap();
        assert_eq!((cut.chunks, cut.lane(2)), (8, 2..8));
        let error = grid((1 << 20) + 3, &[(0, 1), (1, (1 << 20) + 2)]).err().unwrap();
        assert!(error.code == Code::TooLarge && error.message.contains("at most 32768 equal chunks"), "{error}");
    }
}
