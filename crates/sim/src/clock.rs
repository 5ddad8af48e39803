//! The clock of a run, finer than a picosecond where rates ask for it.
//!
//! At 900 GB/s a flit of 64 bytes takes 71.1 ps: in whole picoseconds the link would be 1.2 % too slow. So engines
//! count in *ticks* of 2^-bits picoseconds, and results are rounded down to picoseconds. Where every link takes whole
//! picoseconds for a flit, as on systems with a clock, a tick is a picosecond.

use antiphon_base::units::Picos;

/// Time in ticks of a run's [`Clock`].
pub type Ticks = u64;

/// Finest ticks: the rate of a link that takes a picosecond a flit is met within 1 part in 2^16.
pub const MAX_BITS: u32 = 16;
/// Ticks that the whole run may take, with room for what the estimate of its length leaves out.
const MAX_TICKS: u128 = 1 << 54;

/// Longest computation beside a run for which ticks need not be coarser: half of what 64 bits hold of the finest, 141 s.
const FINEST_PS: Picos = 1 << (63 - MAX_BITS);

/// See the module.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clock {
    bits: u32,
}

impl Clock {
    /// The clock of a run whose messages take at most `longest` picoseconds and computations beside them `computing`; `flits`
    /// are the times of a flit on all links, in the finest ticks.
    pub fn new(flits: &[Ticks], longest: u128, computing: Picos) -> Clock {
        if flits.iter().all(|ticks| ticks.is_multiple_of(1 << MAX_BITS)) {
            return Clock::default();
        }
        let longest = longest + u128::from(computing.saturating_sub(FINEST_PS));
        let room = (MAX_TICKS / longest.max(1)).max(1);
        Clock { bits: room.ilog2().min(MAX_BITS) }
    }

    /// Binary digits of a picosecond's fraction.
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// A time in ticks.
    pub fn ticks(self, time: Picos) -> Ticks {
        time << self.bits
    }

    /// Ticks in whole picoseconds, rounded down.
    pub fn picos(self, ticks: Ticks) -> Picos {
        ticks >> self.bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_coarser_only_where_computations_would_not_fit() {
        let flits = [(71 << MAX_BITS) + 1];
        let bits = |computing| Clock::new(&flits, 1 << 30, computing).bits();
        assert_eq!((bits(0), bits(FINEST_PS)), (MAX_BITS, MAX_BITS));
        for shift in 48..62 {
            let computing = 1u64 << shift;
            assert!(u128::from(computing) << bits(computing) < 1 << 63, "2^{shift} ps in {} bits", bits(computing));
        }
        assert_eq!(Clock::new(&[71 << MAX_BITS], 1 << 30, 1 << 61).bits(), 0);
    }
}
