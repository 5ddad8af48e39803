//! Execution compared with the definition of the collective, computed directly: an independent
//! check of the proof, and of schedules from elsewhere.

use super::random::SplitMix64;
use super::{Execution, Threads, execute, misaligned};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Bytes;
use antiphon_model::collective::Kind;
use antiphon_model::schedule::Schedule;
use antiphon_proof::{participation, text};
use std::fmt::Display;
use std::num::Wrapping;
use std::ops::{Add, Range};

/// Most bytes of data over all ranks.
const MAX_DATA_BYTES: u64 = 1 << 31;

/// Executes a schedule that passes [`Schedule::check`] on integers that differ from rank to rank
/// and from element to element, and compares every byte the collective defines with its
/// definition. See [`execute`] for the seed.
///
/// Complexity: O(messages + bytes moved + ranks * bytes), with ranks^2 * bytes for AllToAll.
///
/// # Errors
/// [`Code::NotProven`] with the first rank and byte that differ, [`Code::TooLarge`] if the data of
/// all ranks do not fit 2 GiB, and as [`execute`].
pub fn check_by_execution(schedule: &Schedule, seed: Option<u64>) -> Result<()> {
    check(schedule, How::Alone(seed))
}

/// [`check_by_execution`] by threads.
///
/// # Errors
/// As [`check_by_execution`] and [`Execution`].
pub fn check_by_threads(schedule: &Schedule, threads: Threads) -> Result<()> {
    check(schedule, How::Threads(threads))
}

/// Who executes.
#[derive(Clone, Copy)]
enum How {
    /// One message after the other; in a random order if there is a seed.
    Alone(Option<u64>),
    /// Threads.
    Threads(Threads),
}

fn check(schedule: &Schedule, how: How) -> Result<()> {
    let parts = parts(schedule) as u64;
    let bytes = schedule.bytes.saturating_mul(schedule.ranks as u64).saturating_mul(parts);
    if bytes > MAX_DATA_BYTES {
        let what = format!(
            "execution would take {bytes} bytes of data, at most {MAX_DATA_BYTES} are supported; verify with fewer bytes"
        );
        return Err(Error::new(Code::TooLarge, what));
    }
    match misaligned(schedule, 4) {
        None => compare(schedule, how, |value| Wrapping(value as u32)),
        Some(_) => compare(schedule, how, |value| Wrapping(value as u8)),
    }
}

/// Buffers of full size that a rank's data consists of.
fn parts(schedule: &Schedule) -> usize {
    match schedule.collective.kind {
        Kind::AllToAll => schedule.ranks as usize,
        _ => 1,
    }
}

fn compare<T>(schedule: &Schedule, how: How, number: impl Fn(u64) -> T) -> Result<()>
where
    T: Copy + Default + PartialEq + Display + Add<Output = T> + Send + Sync,
{
    let size = size_of::<T>() as u64;
    let length = (schedule.bytes / size) as usize;
    let takes_part = participation(schedule);
    let initial = |rank: usize, at: usize| match takes_part[rank] {
        true => number(SplitMix64((rank as u64) << 40 ^ at as u64).next()),
        false => T::default(),
    };
    let ranks = 0..schedule.ranks as usize;
    // Elements outside a rank's input hold numbers too, which must not matter.
    let mut data: Vec<Vec<T>> =
        ranks.clone().map(|rank| (0..length * parts(schedule)).map(|at| initial(rank, at)).collect()).collect();
    let mut sums = vec![T::default(); if schedule.collective.kind.reduces() { length } else { 0 }];
    for (_, own) in takes_part.iter().zip(&data).filter(|(takes_part, _)| **takes_part) {
        sums.iter_mut().zip(own).for_each(|(sum, &own)| *sum = *sum + own);
    }
    let seed = match how {
        How::Alone(seed) => {
            execute(schedule, &mut data, seed)?;
            seed
        }
        How::Threads(threads) => {
            let mut buffers: Vec<&mut [T]> = data.iter_mut().map(Vec::as_mut_slice).collect();
            Execution::new(schedule)?.run(&mut buffers, threads)?;
            match threads {
                Threads::Of(_) => None,
                Threads::Pausing(seed) => Some(seed),
            }
        }
    };

    for rank in ranks {
        for Output { bytes, of } in outputs(schedule, rank as u32) {
            // Only the end of the buffer is not a multiple of 4, and then elements are bytes.
            for at in (bytes.start / size) as usize..(bytes.end / size) as usize {
                let expected = of.map_or_else(|| sums[at], |source| initial(source as usize, at));
                let got = data[rank][at];
                if got != expected {
                    let byte = at % length * size as usize;
                    let whose = match schedule.collective.kind {
                        Kind::AllToAll => format!(" from rank {}", at / length),
                        _ => String::new(),
                    };
                    return text::not_proven(format!(
                        "executed (seed {}): rank {rank} byte {byte}{whose}: expected {expected}, got {got}",
                        seed.map_or("none".into(), |seed| seed.to_string())
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Bytes of a rank's buffer that a collective defines, when it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Where.
    pub bytes: Range<Bytes>,
    /// The rank that had them at the same place before; `None` if they are the sum of all that take part.
    pub of: Option<u32>,
}

/// The data that a rank has when the collective is done, by its definition; nothing for one that does not take part.
pub fn outputs(schedule: &Schedule, rank: u32) -> Vec<Output> {
    let takes_part = participation(schedule);
    let participants: Vec<u32> = (0..schedule.ranks).filter(|&rank| takes_part[rank as usize]).collect();
    let Some(index) = participants.iter().position(|&other| other == rank) else { return vec![] };
    let (all, data) = (0..schedule.bytes, schedule.data());
    let part = |source: u32, index: usize, base: Bytes| {
        let (start, bytes) = data.part(participants.len(), source as usize, index);
        base + start..base + start + bytes
    };
    let root = schedule.collective.root;
    match schedule.collective.kind {
        Kind::AllReduce => vec![Output { bytes: all, of: None }],
        Kind::Reduce if rank == root => vec![Output { bytes: all, of: None }],
        Kind::Reduce => vec![],
        Kind::ReduceScatter => vec![Output { bytes: part(0, index, 0), of: None }],
        Kind::Broadcast => vec![Output { bytes: all, of: Some(root) }],
        Kind::AllGather => {
            let of = |(index, &source): (usize, &u32)| Output { bytes: part(0, index, 0), of: Some(source) };
            participants.iter().enumerate().map(of).collect()
        }
        Kind::AllToAll => {
            let of = |&source: &u32| {
                let base = source as Bytes * schedule.bytes;
                Output { bytes: part(source, index, base), of: Some(source) }
            };
            participants.iter().map(of).collect()
        }
    }
}

/// Bytes of a rank's buffer that hold its data before the collective; empty if it has none.
pub fn input(schedule: &Schedule, rank: u32) -> Range<Bytes> {
    if !schedule.participates(rank) {
        return 0..0;
    }
    let before = (0..rank).filter(|&other| schedule.participates(other)).count();
    let participants = (0..schedule.ranks).filter(|&rank| schedule.participates(rank)).count();
    match schedule.collective.kind {
        Kind::AllReduce | Kind::ReduceScatter | Kind::Reduce => 0..schedule.bytes,
        Kind::Broadcast if rank == schedule.collective.root => 0..schedule.bytes,
        Kind::Broadcast => 0..0,
        Kind::AllGather => {
            let (start, bytes) = schedule.data().part(participants, 0, before);
            start..start + bytes
        }
        Kind::AllToAll => rank as Bytes * schedule.bytes..(rank as Bytes + 1) * schedule.bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::*;
    use antiphon_model::schedule::Op;

    #[test]
    fn differences_are_named() {
        let (_, mut tree) = tree_all_reduce(4, 640, 2);
        let id = tree.transfers.iter().position(|t| t.op == Op::Copy && t.to == 3).unwrap();
        tree.transfers.remove(id);
        let error = check_by_execution(&tree, None).unwrap_err();
        assert_eq!(error.code, Code::NotProven);
        assert_has(&error.message, &["executed (seed none): rank 3 byte 0: expected ", ", got "]);
        let (_, mut direct) = direct_all_to_all(3, 60);
        direct.transfers.retain(|t| (t.from, t.to) != (1, 2));
        let error = check_by_execution(&direct, Some(7)).unwrap_err().message;
        assert_has(&error, &["executed (seed 7): rank 2 byte 40 from rank 1: expected"]);
    }

    #[test]
    fn a_collective_says_what_goes_in_and_comes_out() {
        let (_, gather) = ring_all_gather(4, 64);
        assert_eq!(input(&gather, 1), 16..32);
        assert_eq!(outputs(&gather, 1)[2], Output { bytes: 32..48, of: Some(2) });
        let (_, mut direct) = direct_all_to_all(3, 60);
        assert_eq!((input(&direct, 2), &outputs(&direct, 1)[2]), (120..180, &Output { bytes: 140..160, of: Some(2) }));
        direct.excluded = vec![0];
        assert_eq!((input(&direct, 0), outputs(&direct, 0)), (0..0, vec![]));
        let (_, scatter) = ring_reduce_scatter(4, 64);
        assert_eq!((input(&scatter, 3), outputs(&scatter, 3)), (0..64, vec![Output { bytes: 48..64, of: None }]));
        let (_, star) = star_reduce(8, 64);
        assert_eq!((outputs(&star, star.collective.root).len(), outputs(&star, 7).len()), (1, 0));
    }

    #[test]
    fn races_show() {
        let (_, mut ring) = ring_all_reduce(4, 64, 1);
        ring.transfers.iter_mut().for_each(|t| t.start_after.clear());
        assert_eq!(check_by_execution(&ring, None), Ok(()));
        assert!((0..9).any(|seed| check_by_execution(&ring, Some(seed)).is_err()));
        let (_, mut star) = star_reduce(8, 64);
        star.endpoint.serial_reductions = false;
        assert!((0..9).any(|seed| check_by_execution(&star, Some(seed)).is_err()));
        // One after the other at the root, whatever it comes in.
        for id in 1..star.transfers.len() {
            star.transfers[id].apply_after.push((id as u32 - 1).into());
        }
        assert!((0..9).all(|seed| check_by_execution(&star, Some(seed)).is_ok()));
    }

    #[test]
    fn excluded_ranks_count_as_zero() {
        let (_, mut direct) = direct_all_reduce(4, 64);
        direct.excluded = vec![2];
        assert_eq!(check_by_execution(&direct, Some(1)), Ok(()));
    }

    #[test]
    fn absurd_sizes_are_refused() {
        let (_, ring) = ring_all_reduce(4, 1 << 50, 1);
        assert_eq!(check_by_execution(&ring, None).unwrap_err().code, Code::TooLarge);
    }
}
