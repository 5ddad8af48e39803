//! Link rates as integers: exact arithmetic for every bound.

use antiphon_base::units::Picos;
use antiphon_model::fabric::{Fabric, Link, LinkId, NodeId};
use antiphon_model::system::System;
use num_integer::gcd;
use rustc_hash::FxHashMap;

/// Largest common denominator of rates kept exactly; together with [`MAX_EXACT_CAPACITY`] it keeps every product inside
/// 128 bits.
const MAX_EXACT_SCALE: u128 = 1 << 53;
/// Largest capacity of one link kept exactly.
const MAX_EXACT_CAPACITY: u128 = 1 << 40;
/// Most bits of precision of the fastest link where rates have to be rounded up, and of all links together.
const ROUNDED_BITS: u32 = 44;
const ROUNDED_TOTAL_BITS: u32 = 60;

/// Bytes that must cross some links, over the capacity of those links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Load {
    /// Bytes.
    pub bytes: u128,
    /// Capacity in units of [`Capacities::unit`].
    pub capacity: u128,
}

impl Load {
    /// No load at all.
    pub const NONE: Load = Load { bytes: 0, capacity: 1 };

    /// Whether this load takes longer than another.
    pub fn exceeds(self, other: Load) -> bool {
        self.bytes * other.capacity > other.bytes * self.capacity
    }

    /// The load that takes longer.
    pub fn max(self, other: Load) -> Load {
        if other.exceeds(self) { other } else { self }
    }

    /// The same load in lowest terms.
    pub fn reduced(self) -> Load {
        let divisor = gcd(self.bytes, self.capacity).max(1);
        Load { bytes: self.bytes / divisor, capacity: self.capacity / divisor }
    }
}

/// Payload rates of all links as integer multiples of one unit; 1 everywhere on a uniform fabric.
#[derive(Debug, Clone)]
pub(super) struct Capacities {
    /// Capacity of every link, at least 1.
    pub links: Vec<u128>,
    /// Bytes per picosecond of one unit, as a fraction.
    unit: (u128, u128),
}

impl Capacities {
    /// Capacities of a fabric's links: exact if the rates have a common denominator of reasonable size, otherwise
    /// rounded up (bounds stay valid) by less than one part in 2^38 of the fastest link. O(links).
    pub fn new(fabric: &Fabric, system: &System) -> Capacities {
        Capacities::of(fabric.links.iter(), system)
    }

    /// The same of any links.
    pub fn of<'a>(links: impl Iterator<Item = &'a Link>, system: &System) -> Capacities {
        let rate_of = |link| {
            let (bytes, seconds) = system.payload_rate(link);
            let divisor = gcd(bytes, seconds * PICOS_PER_SECOND);
            (bytes / divisor, seconds * PICOS_PER_SECOND / divisor)
        };
        let rates: Vec<(u128, u128)> = links.map(rate_of).collect();
        exact(&rates).unwrap_or_else(|| rounded_up(&rates))
    }

    /// Capacity of links that act as one.
    pub fn of_channel(&self, links: &[LinkId]) -> u128 {
        links.iter().map(|&link| self.links[link as usize]).sum()
    }

    /// Capacity of all links together.
    pub fn total(&self) -> u128 {
        self.links.iter().sum()
    }

    /// Whether nodes are joined equally fast both ways. O(links).
    pub fn are_mutual(&self, fabric: &Fabric) -> bool {
        let mut joined: FxHashMap<(NodeId, NodeId), i128> = FxHashMap::default();
        for (link, &capacity) in fabric.links.iter().zip(&self.links) {
            let (ends, sign) = if link.from < link.to { ((link.from, link.to), 1) } else { ((link.to, link.from), -1) };
            *joined.entry(ends).or_default() += sign * capacity as i128;
        }
        joined.values().all(|&more| more == 0)
    }

    /// Time a load takes, rounded down to a picosecond; `u64::MAX` if it does not fit.
    pub fn time(&self, load: Load) -> Picos {
        let (bytes, picos) = self.unit;
        let divisor = load.capacity * bytes;
        let time = match load.bytes.checked_mul(picos) {
            Some(product) => product / divisor,
            // Only for links below a kilobyte per second or so; rounds down further.
            None => (load.bytes / divisor).saturating_mul(picos),
        };
        Picos::try_from(time).unwrap_or(Picos::MAX)
    }
}

const PICOS_PER_SECOND: u128 = 1_000_000_000_000;

/// Capacities over the least common denominator, if that and they are small enough.
fn exact(rates: &[(u128, u128)]) -> Option<Capacities> {
    let mut scale = 1u128;
    for &(_, picos) in rates {
        scale = (scale / gcd(scale, picos)).checked_mul(picos)?;
        if scale > MAX_EXACT_SCALE {
            return None;
        }
    }
    let scaled = rates.iter().map(|&(bytes, picos)| bytes.checked_mul(scale / picos));
    let capacities = in_largest_unit(scaled.collect::<Option<_>>()?, scale);
    let small = capacities.links.iter().all(|&link| link <= MAX_EXACT_CAPACITY);
    small.then_some(capacities)
}

/// Capacities rounded up to multiples of a power of two bytes per picosecond.
fn rounded_up(rates: &[(u128, u128)]) -> Capacities {
    // floor(log2(rate)) is at least this for some link.
    let log2 = |x: u128| x.max(1).ilog2() as i64;
    let fastest = rates.iter().map(|&(bytes, picos)| log2(bytes) - log2(picos)).max();
    let bits = ROUNDED_BITS.min(ROUNDED_TOTAL_BITS - rates.len().max(1).ilog2());
    let shift = (i64::from(bits) - fastest.unwrap_or(0)).clamp(0, 100) as u32;
    let links = rates.iter().map(|&(bytes, picos)| (bytes << shift).div_ceil(picos).max(1));
    in_largest_unit(links.collect(), 1 << shift)
}

/// Capacities from rates in bytes per `picos` picoseconds.
fn in_largest_unit(mut links: Vec<u128>, picos: u128) -> Capacities {
    let common = links.iter().fold(0, |divisor, &link| gcd(divisor, link));
    links.iter_mut().for_each(|link| *link /= common);
    Capacities { links, unit: (common, picos) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_base::units::{MAX_BYTES, Rate};
    use antiphon_model::fabric::{DimensionShape, grid::grid};

    fn mesh(rates: &[u64]) -> Fabric {
        let mut fabric = grid("t", DimensionShape::Line, &[rates.len() as u32 + 1]).unwrap();
        for link in &mut fabric.links {
            link.rate = Some(Rate(rates[link.from.min(link.to) as usize]));
        }
        fabric
    }

    fn system() -> System {
        let mut system = System::preset("generic").unwrap();
        system.packet.header_flits = 0;
        system
    }

    #[test]
    fn uniform_rates_are_ones() {
        let capacities = Capacities::new(&mesh(&[25_000_000_000; 3]), &system());
        assert_eq!(capacities.links, [1; 6]);
        assert_eq!(capacities.time(Load { bytes: 25, capacity: 1 }), 1_000);
        assert_eq!(capacities.time(Load { bytes: 25, capacity: 3 }), 333);
    }

    #[test]
    fn mixed_rates_keep_their_ratio() {
        let capacities = Capacities::new(&mesh(&[10_000_000_000, 25_000_000_000]), &system());
        assert_eq!(capacities.links, [2, 2, 5, 5]);
        assert_eq!(capacities.time(Load { bytes: 70, capacity: 7 }), 2_000);
    }

    #[test]
    fn awkward_rates_are_rounded_up_a_little() {
        let rates: Vec<u64> = (0..40).map(|i| 10_000_000_019 + 77_777_777 * i).collect();
        let (fabric, system) = (mesh(&rates), system());
        let capacities = Capacities::new(&fabric, &system);
        let bytes = MAX_BYTES as u128;
        for (link, &capacity) in fabric.links.iter().zip(&capacities.links) {
            let (rate, seconds) = system.payload_rate(link);
            let exact = bytes * seconds * PICOS_PER_SECOND / rate;
            let time = capacities.time(Load { bytes, capacity }) as u128;
            assert!(time <= exact && exact - time <= exact >> 38, "{time} {exact}");
        }
    }

    #[test]
    fn the_slowest_and_fastest_links_do_not_overflow() {
        for rates in [&[1u64][..], &[1, u64::MAX], &[u64::MAX], &[1, 3, 7, 1_000_003]] {
            let capacities = Capacities::new(&mesh(rates), &system());
            let load = Load { bytes: (MAX_BYTES as u128) << 13, capacity: capacities.total() };
            assert!(capacities.time(load) > 0);
        }
    }
}
