//! Numbers to run collectives on, chosen so that any error shows: those of any two ranks and places are as good as
//! independent.

use super::random::SplitMix64;
use super::{ElementType, Output, outputs};
use antiphon_base::units::Bytes;
use antiphon_base::watch::interruptible;
use antiphon_model::schedule::Schedule;
use antiphon_proof::participation;
use half::{bf16, f16};
use std::ops::Range;

/// The initial data of a rank in these bytes of its memory. For collectives that add they are whole numbers other than
/// 0 whose sum is exact in the type in any order; for others, any bits.
pub fn numbers(schedule: &Schedule, element: ElementType, rank: u32, bytes: Range<Bytes>) -> Vec<u8> {
    let (drawn, size) = (Drawn::of(schedule, element), element.bytes());
    places(&bytes, size).flat_map(|place| drawn.bytes(rank, place).into_iter().take(size as usize)).collect()
}

/// The number of elements of a rank's memory that differ from the definition of the collective, if all began with
/// [`numbers`].
///
/// Complexity: O(elements), times ranks where data are added.
pub fn wrong(schedule: &Schedule, element: ElementType, rank: u32, memory: &[u8]) -> u64 {
    let (drawn, size) = (Drawn::of(schedule, element), element.bytes());
    let takes_part = participation(schedule);
    let adding: Vec<u32> = (0..schedule.ranks).filter(|&rank| takes_part[rank as usize]).collect();
    let is_wrong = |of: Option<u32>, place: u64| {
        let expected = match of {
            Some(source) => drawn.bytes(source, place),
            None => stored(element, adding.iter().map(|&rank| drawn.number(rank, place)).sum()),
        };
        let (at, size) = ((place * size) as usize, size as usize);
        memory[at..at + size] != expected[..size]
    };
    let count =
        |Output { bytes, of }| interruptible(places(&bytes, size)).filter(|&place| is_wrong(of, place)).count() as u64;
    outputs(schedule, rank).into_iter().map(count).sum()
}

/// The whole elements before both ends of some bytes.
fn places(bytes: &Range<Bytes>, size: u64) -> Range<u64> {
    bytes.start / size..bytes.end / size
}

/// The numbers drawn for every rank and place.
struct Drawn {
    element: ElementType,
    /// The largest number; `None` where any bits will do.
    largest: Option<u64>,
}

impl Drawn {
    fn of(schedule: &Schedule, element: ElementType) -> Self {
        // Whole numbers up to these are all exact.
        let exact = match element {
            ElementType::Float32 => 1 << 24,
            ElementType::Float64 => 1 << 53,
            ElementType::Float16 => 1 << 11,
            ElementType::Bfloat16 => 1 << 8,
            ElementType::Int32 => i32::MAX as u64,
            ElementType::Int64 => i64::MAX as u64,
            ElementType::Int16 => i16::MAX as u64,
            ElementType::Int8 | ElementType::Uint8 => i8::MAX as u64,
            ElementType::Bool => 1,
        };
        let largest = (exact / schedule.ranks as u64).max(1);
        Drawn { element, largest: schedule.collective.kind.reduces().then_some(largest) }
    }

    fn bits(rank: u32, place: u64) -> u64 {
        SplitMix64((rank as u64) << 40 ^ place).next()
    }

    /// The element, padded to 8 bytes.
    fn bytes(&self, rank: u32, place: u64) -> [u8; 8] {
        match self.largest {
            Some(_) => stored(self.element, self.number(rank, place)),
            None => Self::bits(rank, place).to_ne_bytes(),
        }
    }

    fn number(&self, rank: u32, place: u64) -> i64 {
        let bits = Self::bits(rank, place);
        let number = ((bits as u128 * self.largest.unwrap_or(1) as u128) >> 64) as i64 + 1;
        if bits & 1 == 0 || self.element == ElementType::Bool { number } else { -number }
    }
}

/// A whole number in a type, padded to 8 bytes.
fn stored(element: ElementType, number: i64) -> [u8; 8] {
    fn padded<const N: usize>(bytes: [u8; N]) -> [u8; 8] {
        std::array::from_fn(|at| bytes.get(at).copied().unwrap_or(0))
    }
    match element {
        ElementType::Float32 => padded((number as f32).to_ne_bytes()),
        ElementType::Float64 => padded((number as f64).to_ne_bytes()),
        ElementType::Float16 => padded(f16::from_f32(number as f32).to_ne_bytes()),
        ElementType::Bfloat16 => padded(bf16::from_f32(number as f32).to_ne_bytes()),
        ElementType::Int32 => padded((number as i32).to_ne_bytes()),
        ElementType::Int64 => number.to_ne_bytes(),
        ElementType::Int16 => padded((number as i16).to_ne_bytes()),
        ElementType::Int8 | ElementType::Uint8 => padded((number as i8).to_ne_bytes()),
        ElementType::Bool => padded([(number != 0) as u8]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::*;
    use crate::memory_bytes;
    use antiphon_model::schedule::Action;

    /// Types that can tell many ranks apart.
    fn wide() -> [ElementType; 6] {
        std::array::from_fn(|at| ElementType::ALL[at])
    }

    fn all(schedule: &Schedule, element: ElementType) -> Vec<Vec<u8>> {
        (0..schedule.ranks).map(|rank| numbers(schedule, element, rank, 0..memory_bytes(schedule))).collect()
    }

    #[test]
    fn sums_are_exact_in_any_order_and_no_two_ranks_have_the_same() {
        for (ranks, element) in [3, 13, 19, 64, 254, 256].into_iter().flat_map(|n| wide().map(|e| (n, e))) {
            let (_, schedule) = star_reduce(ranks, 4096);
            let mut data = all(&schedule, element);
            data.sort();
            data.dedup();
            assert_eq!(data.len(), ranks as usize, "{element:?}");
            let (mut sums, root) = (vec![0; 4096], schedule.collective.root);
            data.iter().for_each(|own| element.apply(Action::Reduce, &mut sums, own));
            assert_eq!(wrong(&schedule, element, root, &sums), 0, "{element:?} on {ranks}");
            // What is missing, or there twice, shows in every element.
            element.apply(Action::Reduce, &mut sums, &data[1]);
            assert_eq!(wrong(&schedule, element, root, &sums), 4096 / element.bytes());
        }
    }

    #[test]
    fn an_exchange_of_two_ranks_data_shows() {
        for element in wide() {
            let shard = element.bytes() as usize;
            let (_, gather) = ring_all_gather(19, 19 * shard as u64);
            let right: Vec<u8> = (0..19)
                .flat_map(|rank| numbers(&gather, element, rank, outputs(&gather, 0)[rank as usize].bytes.clone()))
                .collect();
            assert_eq!(wrong(&gather, element, 3, &right), 0);
            for (one, other) in (0..19).flat_map(|one| (0..one).map(move |other| (one, other))) {
                let mut exchanged = right.clone();
                (0..shard).for_each(|at| exchanged.swap(one * shard + at, other * shard + at));
                assert_eq!(wrong(&gather, element, 3, &exchanged), 2, "{element:?} {one} {other}");
            }
        }
    }
}
