//! Where data may be cut.

use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Bytes;
use serde::{Deserialize, Serialize};

/// Shards, lanes and chunks begin at multiples of so many bytes: a power of two, by default one 32-bit element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Bytes", into = "Bytes")]
pub struct Align(Bytes);

impl Align {
    /// The least: one element.
    pub const LEAST: Bytes = 4;
    /// The most: a page.
    pub const MOST: Bytes = 4096;

    /// Of so many bytes.
    ///
    /// # Errors
    /// [`Code::BadSpec`] for what is no power of two from 4 to 4096.
    pub fn new(bytes: Bytes) -> Result<Align> {
        match bytes.is_power_of_two() && (Align::LEAST..=Align::MOST).contains(&bytes) {
            true => Ok(Align(bytes)),
            false => {
                let what =
                    format!("align is {bytes}, expected a power of two from {} to {}", Align::LEAST, Align::MOST);
                Err(Error::new(Code::BadSpec, what))
            }
        }
    }

    /// In bytes.
    pub fn bytes(self) -> Bytes {
        self.0
    }

    /// Whether it is that of one element.
    pub fn is_least(&self) -> bool {
        self.0 == Align::LEAST
    }

    /// The last multiple that is at most `bytes`.
    pub fn down(self, bytes: Bytes) -> Bytes {
        bytes & !(self.0 - 1)
    }

    /// The first multiple that is at least `bytes`.
    pub fn up(self, bytes: Bytes) -> Bytes {
        bytes.next_multiple_of(self.0)
    }

    /// Start and length in bytes of shard `index` when `bytes` are cut into `parts` shards as evenly as possible; the last
    /// takes the rest.
    pub fn shard(self, bytes: Bytes, parts: usize, index: usize) -> (Bytes, Bytes) {
        let cut = |i: usize| match i == parts {
            true => bytes,
            false => self.down((u128::from(bytes) * i as u128 / parts as u128) as Bytes),
        };
        (cut(index), cut(index + 1) - cut(index))
    }

    /// Payload of one of `chunks` chunks of `bytes` bytes: no more than whole elements of all of them.
    pub fn payload(self, bytes: Bytes, chunks: u64) -> Bytes {
        self.up(bytes.div_ceil(chunks)).min(Align::default().up(bytes))
    }
}

impl Default for Align {
    fn default() -> Align {
        Align(Align::LEAST)
    }
}

impl TryFrom<Bytes> for Align {
    type Error = Error;

    fn try_from(bytes: Bytes) -> Result<Align> {
        Align::new(bytes)
    }
}

impl From<Align> for Bytes {
    fn from(align: Align) -> Bytes {
        align.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn other_than_powers_of_two_are_refused() {
        for bytes in [0, 1, 2, 3, 5, 12, 24, 8192, u64::MAX] {
            let error = Align::new(bytes).unwrap_err();
            assert_eq!(error.message, format!("align is {bytes}, expected a power of two from 4 to 4096"));
        }
        for power in 2..=12 {
            assert_eq!(Align::new(1 << power).unwrap().bytes(), 1 << power);
        }
    }

    proptest! {
        #[test]
        fn shards_partition_at_multiples(bytes in 1u64..1 << 40, parts in 1usize..300, power in 2u32..13) {
            let align = Align::new(1 << power).unwrap();
            let mut next = 0;
            for i in 0..parts {
                let (start, length) = align.shard(bytes, parts, i);
                prop_assert_eq!(start, next);
                prop_assert!(start.is_multiple_of(align.bytes()));
                prop_assert!(length.abs_diff(bytes / parts as u64) <= align.bytes());
                next = start + length;
            }
            prop_assert_eq!(next, bytes);
        }

        #[test]
        fn chunks_begin_at_multiples_and_hold_everything(bytes in 0u64..1 << 40, chunks in 1u64..5000, power in 2u32..13) {
            let align = Align::new(1 << power).unwrap();
            let payload = align.payload(bytes, chunks);
            prop_assert!(payload * chunks >= bytes && payload <= bytes + 3);
            prop_assert!(payload.is_multiple_of(align.bytes()) || payload >= bytes);
            prop_assert!(payload < bytes.div_ceil(chunks) + align.bytes());
        }
    }
}
