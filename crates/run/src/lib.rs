//! Byte-exact execution: the transfers of a schedule, done to real numbers, and compared with the definition of its
//! collective.

pub mod carrier;
mod definition;
mod element;
mod finality;
#[cfg(test)]
#[path = "../../proof/src/fixtures.rs"]
mod fixtures;
mod numbers;
mod random;
mod rank;
mod shared;
pub mod wires;

pub use definition::{Output, check_by_execution, check_by_threads, input, outputs};
pub use element::{ElementType, Reduction};
pub use finality::{Finality, MemoryPart, chunks};
pub use numbers::{numbers, wrong};
pub use rank::{RankMessage, RankProgress};
pub use shared::{Execution, Threads};

use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Bytes;
use antiphon_model::collective::Kind;
use antiphon_model::schedule::{Schedule, TransferId};
use antiphon_proof::{check_order, text};
use std::ops::{Add, Range};

/// Most messages an execution keeps track of.
const MAX_MESSAGES: u64 = 1 << 26;

/// Executes a schedule that passes [`Schedule::check`] on `data`, one buffer a rank, in place.
///
/// A buffer has `bytes / size_of::<T>()` elements. For AllToAll, where a rank ends with data of
/// every source, it has that many for each source in turn: rank `r` starts with its data at part
/// `r` and ends with its shard in every part.
///
/// Without a seed, messages go one by one in schedule order. With one, they go in a random order
/// that respects only dependencies and barriers. They are read at their start and applied at any moment after their
/// waits at the receiver. If reductions are not serial, they read the operand at the receiver when that wait ends,
/// not when they are applied. A message whose sending others wait for is read at any moment before it is sent.
///
/// # Errors
/// [`Code::BadSize`] if a buffer has another length or does not consist of whole elements,
/// [`Code::TooLarge`] past 2^26 messages, [`Code::NotProven`] if it could deadlock.
pub fn execute<T: Copy + Default + Add<Output = T>>(
    schedule: &Schedule,
    data: &mut [Vec<T>],
    seed: Option<u64>,
) -> Result<()> {
    check_data(schedule, data)?;
    check_order(schedule)?;
    let mut all: Vec<Vec<T>> = data.iter_mut().map(std::mem::take).chain(switch_memories(schedule)).collect();
    match seed {
        Some(seed) => random::shuffled(schedule, &mut all, seed),
        None => random::in_order(schedule, &mut all),
    }
    data.iter_mut().zip(all).for_each(|(own, done)| *own = done);
    Ok(())
}

/// Checks that a schedule can be executed on these buffers.
///
/// # Errors
/// As [`execute`], but for deadlock.
fn check_data<T, B: AsRef<[T]>>(schedule: &Schedule, data: &[B]) -> Result<()> {
    let size = size_of::<T>() as u64;
    check_elements(schedule, size)?;
    let elements = memory_bytes(schedule) / size;
    if data.len() != schedule.ranks as usize || data.iter().any(|buffer| buffer.as_ref().len() as u64 != elements) {
        let ranks = schedule.ranks;
        return Err(Error::new(
            Code::BadSize,
            format!("expected {ranks} buffers of {elements} elements of {size} bytes"),
        ));
    }
    Ok(())
}

/// The memory of every switch that takes part: zeros.
fn switch_memories<T: Copy + Default>(schedule: &Schedule) -> impl Iterator<Item = Vec<T>> + '_ {
    let elements = memory_bytes(schedule) / size_of::<T>() as u64;
    schedule.switches.iter().map(move |_| vec![T::default(); elements as usize])
}

/// Bytes of the buffer of every rank: the collective's, and for AllToAll that for each source.
pub fn memory_bytes(schedule: &Schedule) -> Bytes {
    let parts = if schedule.collective.kind == Kind::AllToAll { schedule.ranks as u64 } else { 1 };
    schedule.bytes.saturating_mul(parts)
}

/// Checks that a schedule can be executed on elements of `size` bytes. Where a chunk would end within an element, it
/// ends before it, as the next begins.
///
/// # Errors
/// [`Code::BadSize`] if the buffer, or an entry of a matrix, does not consist of whole elements; [`Code::TooLarge`]
/// past 2^26 messages.
pub fn check_elements(schedule: &Schedule, size: Bytes) -> Result<()> {
    if let Some(what) =
        misaligned(schedule, size).filter(|_| schedule.matrix.is_some() || !schedule.bytes.is_multiple_of(size))
    {
        return Err(Error::new(Code::BadSize, format!("{what} is no whole number of {size}-byte elements")));
    }
    let messages = schedule.transfers.iter().fold(0, |sum: u64, t| sum.saturating_add(schedule.chunks(t)));
    if messages > MAX_MESSAGES {
        return Err(Error::new(Code::TooLarge, format!("{messages} messages; execution takes at most {MAX_MESSAGES}")));
    }
    Ok(())
}

/// The first size that is not a multiple of `element` bytes, in words.
fn misaligned(schedule: &Schedule, element: u64) -> Option<String> {
    let whole = |bytes: u64| element > 0 && bytes.is_multiple_of(element);
    if !whole(schedule.bytes) {
        return Some(format!("the buffer of {} bytes", schedule.bytes));
    }
    let lanes = schedule.lanes.iter().enumerate().filter(|(_, lane)| lane.bytes > 0);
    lanes.into_iter().find_map(|(id, lane)| {
        let range = format!("lane {id} (bytes {}..{})", lane.offset, lane.offset + lane.bytes);
        if !whole(lane.offset) || !whole(lane.bytes) {
            Some(range)
        } else if lane.chunks > 1 && !whole(schedule.payload_per_chunk(lane)) {
            Some(format!("{range}: a chunk of {} bytes", schedule.payload_per_chunk(lane)))
        } else {
            None
        }
    })
}

/// Ranges of a message in the buffers of both its ranks, of elements of `size` bytes; adjacent ranges are joined, empty
/// ones are left out.
pub fn pieces(schedule: &Schedule, message: &RankMessage, size: Bytes) -> Vec<Range<usize>> {
    chunk_pieces(schedule, message.transfer, message.chunk, size)
}

fn chunk_pieces(schedule: &Schedule, transfer: TransferId, chunk: u64, size: Bytes) -> Vec<Range<usize>> {
    let mut pieces: Vec<Range<usize>> = vec![];
    for lane in schedule.transfers[transfer as usize].lanes() {
        let range = elements(schedule, lane, schedule.chunk_range(lane as u32, chunk), size);
        let piece = range.start * size as usize..range.end * size as usize;
        match pieces.last_mut() {
            Some(last) if last.end == piece.start => last.end = piece.end,
            _ if piece.is_empty() => {}
            _ => pieces.push(piece),
        }
    }
    pieces
}

/// Appends pieces of a memory, one after the other.
pub fn gather<T: Copy>(pieces: &[Range<usize>], memory: &[T], into: &mut Vec<T>) {
    into.reserve(pieces.iter().map(Range::len).sum());
    pieces.iter().for_each(|piece| into.extend_from_slice(&memory[piece.clone()]));
}

/// A message in words: `transfer 17 (rank 4 to 5, phase 'reduce-scatter' step 4), chunk 2`.
pub fn describe(schedule: &Schedule, message: &RankMessage) -> String {
    format!("{}, chunk {}", text::transfer(schedule, message.transfer), message.chunk)
}

/// Elements of a rank's buffer that hold a byte range of a lane.
fn elements(schedule: &Schedule, lane: usize, bytes: Range<Bytes>, size: u64) -> Range<usize> {
    let base = match schedule.collective.kind {
        Kind::AllToAll => schedule.lanes[lane].source as u64 * schedule.bytes,
        _ => 0,
    };
    ((base + bytes.start) / size) as usize..((base + bytes.end) / size) as usize
}
