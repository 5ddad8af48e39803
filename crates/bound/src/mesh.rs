//! AllReduce on a mesh of any size whose links are all alike: its weakest partition is known.

use super::capacity::{Capacities, Load};
use super::latency::latency_of;
use antiphon_base::units::{Bytes, Picos};
use antiphon_model::fabric::Link;
use antiphon_model::system::System;
use antiphon_sim::Fidelity;

/// The lower bound of an AllReduce among all nodes of a mesh of these two sides, all of whose links are like `link`, and
/// what it rests on: [`time_ps`](super::Bound::time_ps) and [`binding`](super::Bound::binding) of the fabric's bound. O(links).
///
/// The spanning trees called combs load all edges alike, so the strength is that of the partition into single nodes,
/// `(2 r c - r - c) / (r c - 1)` edges (Tutte 1961, Nash-Williams 1961). No cut says more: the two links of a
/// corner are more than half of that.
///
/// # Panics
/// If there is a single node.
pub fn mesh_bound(
    [rows, columns]: [u32; 2],
    link: &Link,
    system: &System,
    bytes: Bytes,
    fidelity: Option<Fidelity>,
) -> (Picos, &'static str) {
    let [r, c] = [rows, columns].map(u128::from);
    let links = 2 * (2 * r * c - r - c);
    let capacities = Capacities::of(std::iter::repeat_n(link, links as usize), system);
    let load = Load { bytes: 2 * (r * c - 1), capacity: capacities.total() }.reduced();
    let strength_ps = capacities.time(Load { bytes: load.bytes * u128::from(bytes), ..load });
    let latency_ps = latency_of(u64::from(rows + columns - 2), link, system, fidelity);
    if latency_ps > strength_ps { (latency_ps, "latency") } else { (strength_ps, "strength") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_model::collective::{Collective, Kind};
    use antiphon_model::fabric::Fabric;

    /// As the search for the weakest partition finds on every mesh up to 8x8, and on some larger ones.
    #[test]
    fn the_closed_form_is_the_bound() {
        let small = (1..=8).flat_map(|rows| (1..=8).map(move |columns| (rows, columns)));
        for (rows, columns) in small.filter(|&sides| sides != (1, 1)).chain([(16, 16), (3, 20)]) {
            let fabric = Fabric::parse(&format!("mesh:{rows}x{columns}@37/7ns")).unwrap();
            for (name, bytes) in [("generic", 1), ("generic", 1 << 26), ("tto", 1_000_003), ("ideal", 4096)] {
                let system = System::preset(name).unwrap();
                for fidelity in [None, Some(Fidelity::AlphaBeta), Some(Fidelity::Packet)] {
                    let all_reduce = Collective::new(Kind::AllReduce);
                    let bound = super::super::lower_bound(&fabric, &system, all_reduce, bytes, fidelity).unwrap();
                    let closed = mesh_bound([rows, columns], &fabric.links[0], &system, bytes, fidelity);
                    assert_eq!(closed, (bound.time_ps, bound.binding), "{rows}x{columns} {name} {bytes}");
                }
            }
        }
    }
}
