//! When parts of a rank's memory are final: no message of the schedule writes them any more.

use super::elements;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Bytes;
use antiphon_model::schedule::{Lane, Schedule, TransferId};
use std::collections::HashMap;
use std::ops::Range;

/// A part of a rank's memory: ranges of bytes, each with its first and its end.
pub type MemoryPart = Vec<(usize, usize)>;

/// The parts of a rank's memory that are not final yet. A part is final when every chunk that has some of it is, and a chunk is when the
/// last message that writes it at this rank was applied.
#[derive(Debug, Clone)]
pub struct Finality {
    /// For every transfer to this rank, the number of the first chunk of each of its lanes.
    firsts: HashMap<TransferId, Vec<usize>>,
    /// By chunk: messages that have still to be applied, and the parts that have some of it.
    chunks: Vec<(u32, Vec<u32>)>,
    /// By part: its chunks that are not final.
    left: Vec<u32>,
    /// Parts that are final, and not yet told.
    news: Vec<u32>,
}

impl Finality {
    /// Of a rank of a checked schedule, on elements of `size` bytes; no two parts have a byte in common.
    /// O(transfers + chunks log ranges + parts).
    ///
    /// # Errors
    /// [`Code::BadSpec`] if two ranges have a byte in common.
    pub fn new(schedule: &Schedule, rank: u32, size: Bytes, parts: &[MemoryPart]) -> Result<Finality> {
        let mut ranges: Vec<(Range<usize>, u32)> = (0..)
            .zip(parts)
            .flat_map(|(part, ranges)| ranges.iter().map(move |&(start, end)| (start..end, part)))
            .filter(|(range, _)| !range.is_empty())
            .collect();
        ranges.sort_unstable_by_key(|(range, _)| range.start);
        if let Some(two) = ranges.windows(2).find(|two| two[0].0.end > two[1].0.start) {
            let what =
                format!("bytes {:?} and {:?} have some in common; give parts that have none", two[0].0, two[1].0);
            return Err(Error::new(Code::BadSpec, what));
        }
        let mut writes = vec![0; schedule.lanes.len()];
        let coming = || (0..).zip(&schedule.transfers).filter(|(_, transfer)| transfer.to == rank);
        coming().for_each(|(_, transfer)| transfer.lanes().for_each(|lane| writes[lane] += 1));
        let mut made = Finality { firsts: HashMap::new(), chunks: vec![], left: vec![0; parts.len()], news: vec![] };
        let mut firsts = vec![0; schedule.lanes.len()];
        for (lane, &writes) in writes.iter().enumerate().filter(|&(_, &writes)| writes > 0) {
            firsts[lane] = made.chunks.len();
            for chunk in 0..schedule.lanes[lane].chunks {
                let chunk = chunk_bytes(schedule, lane, chunk, size);
                let from = ranges.partition_point(|(range, _)| range.end <= chunk.start);
                let mut touched: Vec<u32> =
                    ranges[from..].iter().take_while(|(range, _)| range.start < chunk.end).map(|each| each.1).collect();
                touched.sort_unstable();
                touched.dedup();
                touched.iter().for_each(|&part| made.left[part as usize] += 1);
                made.chunks.push((writes, touched));
            }
        }
        made.firsts =
            coming().map(|(id, transfer)| (id, transfer.lanes().map(|lane| firsts[lane]).collect())).collect();
        made.news = (0..).zip(&made.left).filter(|&(_, &left)| left == 0).map(|(part, _)| part).collect();
        Ok(made)
    }

    /// A message was added or stored.
    pub fn applied(&mut self, transfer: TransferId, chunk: u64) {
        for first in self.firsts.get(&transfer).into_iter().flatten() {
            let (writes, parts) = &mut self.chunks[first + chunk as usize];
            *writes -= 1;
            for &part in parts.iter().filter(|_| *writes == 0) {
                self.left[part as usize] -= 1;
                if self.left[part as usize] == 0 {
                    self.news.push(part);
                }
            }
        }
    }

    /// Parts that have become final since this was asked last.
    pub fn take(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.news)
    }
}

/// Every chunk of every lane of a rank's memory, on elements of `size` bytes: lane, chunk, bytes; empty ones are left out.
pub fn chunks(schedule: &Schedule, size: Bytes) -> impl Iterator<Item = (usize, u64, Range<usize>)> + '_ {
    let lanes = schedule.lanes.iter().enumerate();
    let of_lane = move |(id, lane): (usize, &Lane)| {
        (0..lane.chunks).map(move |chunk| (id, chunk, chunk_bytes(schedule, id, chunk, size)))
    };
    lanes.flat_map(of_lane).filter(|(_, _, range)| !range.is_empty())
}

fn chunk_bytes(schedule: &Schedule, lane: usize, chunk: u64, size: Bytes) -> Range<usize> {
    let range = elements(schedule, lane, schedule.chunk_range(lane as u32, chunk), size);
    range.start * size as usize..range.end * size as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::*;
    use crate::{RankProgress, random::SplitMix64};
    use antiphon_model::schedule::Program;

    fn parts_of(schedule: &Schedule, size: Bytes) -> Vec<MemoryPart> {
        chunks(schedule, size).map(|(_, _, range)| vec![(range.start, range.end)]).collect()
    }

    #[test]
    fn a_part_is_final_with_its_last_chunk() {
        let (_, ring) = ring_all_reduce(2, 64, 2);
        let parts = parts_of(&ring, 4);
        assert_eq!(parts.concat(), [(0, 16), (16, 32), (32, 48), (48, 64)]);
        let rank = |parts: &[MemoryPart]| Finality::new(&ring, 0, 4, parts).unwrap();
        let (mut all, mut some) = (rank(&parts), rank(&[vec![(0, 4), (60, 64)], vec![(8, 8)], vec![(20, 24)]]));
        assert_eq!((all.take(), some.take()), (vec![], vec![1]));
        // What comes: the sum of one shard first, then that of the other.
        let mut coming: Vec<TransferId> =
            (0..).zip(&ring.transfers).filter(|(_, t)| t.to == 0).map(|(id, _)| id).collect();
        coming.sort_by_key(|&id| ring.transfers[id as usize].step);
        let mut told = vec![];
        for (transfer, chunk) in coming.iter().flat_map(|&id| [(id, 0), (id, 1)]) {
            all.applied(transfer, chunk);
            some.applied(transfer, chunk);
            told.push((all.take(), some.take()));
        }
        let parts: Vec<_> = told.iter().flat_map(|(all, _)| all.clone()).collect();
        assert_eq!(parts.len(), 4);
        assert_eq!(told.iter().flat_map(|(_, some)| some.clone()).collect::<Vec<_>>().len(), 2);
        assert!(told[3].1.contains(&0) || told[3].1.contains(&2));
        let error = Finality::new(&ring, 0, 4, &[vec![(0, 8)], vec![(4, 12)]]).unwrap_err();
        assert!(error.message.contains("0..8 and 4..12"), "{error}");
    }

    /// Whatever the order of messages, what is said to be final is not written again, and in the end all is.
    #[test]
    fn nothing_that_is_final_is_written_again() {
        for (_, schedule) in all() {
            let program = Program::new(&schedule);
            for rank in 0..schedule.ranks {
                let parts = parts_of(&schedule, 1);
                let mut progress = RankProgress::new(&schedule, &program, rank);
                progress.watch(Finality::new(&schedule, rank, 1, &parts).unwrap());
                let mut coming: Vec<(TransferId, u64)> = (0..)
                    .zip(&schedule.transfers)
                    .filter(|(_, transfer)| transfer.to == rank)
                    .flat_map(|(id, transfer)| (0..schedule.chunks(transfer)).map(move |chunk| (id, chunk)))
                    .collect();
                let mut random = SplitMix64(rank as u64);
                coming.sort_by_cached_key(|_| random.next());
                let mut is_final = vec![false; parts.len()];
                let note = |progress: &mut RankProgress, is_final: &mut Vec<bool>| {
                    progress.final_parts().into_iter().for_each(|part| is_final[part as usize] = true);
                };
                note(&mut progress, &mut is_final);
                for (transfer, chunk) in coming {
                    let message = progress.arrival(transfer, chunk).unwrap();
                    for piece in crate::pieces(&schedule, &message, 1) {
                        let is_written = |part: &MemoryPart| part[0].0 < piece.end && piece.start < part[0].1;
                        let mut written = parts.iter().zip(&is_final).filter(|(part, _)| is_written(part));
                        assert!(written.all(|(_, &is_final)| !is_final), "{}", schedule.algorithm);
                    }
                    progress.applied(&message);
                    note(&mut progress, &mut is_final);
                }
                assert!(is_final.iter().all(|&is| is), "{}", schedule.algorithm);
            }
        }
    }
}
