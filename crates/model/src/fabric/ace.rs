//! The three-dimensional tori of ACE (ISCA 2021, section V and Table V): L accelerators in a package joined by a fast
//! ring, V x H packages joined by slower ones.

use super::grid::grid;
use super::product::{Dimension, DimensionShape};
use super::spec::FabricPreset;
use super::{Fabric, Shape};
use antiphon_base::error::Result;
use antiphon_base::units::{Picos, Rate};

pub(super) const ACE: FabricPreset = FabricPreset::new(
    "ace",
    "ace:4x4x4",
    "packages of L accelerators in a torus of V x H: ACE (ISCA 2021), Table V",
    |request| {
        let sizes = request.sizes()?;
        Some(request.with_parameters(ace(request.name, sizes)))
    },
);

/// Energy of a byte in attojoules: 0.5 pJ a bit in a package, 10 pJ on a board (MCM-GPU, ISCA 2017, Table 2).
const PACKAGE_ENERGY: u64 = 4_000_000;
const BOARD_ENERGY: u64 = 80_000_000;

/// What a rank can send into a ring, both ways together, and the latency of a link: 2 x 200 and 2 x 25 GB/s at a link
/// efficiency of 94 %, 90 and 500 cycles at 1245 MHz.
const PACKAGE: (Rate, Picos, u64) = (Rate(376_000_000_000), 72_289, PACKAGE_ENERGY);
const BETWEEN: (Rate, Picos, u64) = (Rate(47_000_000_000), 401_606, BOARD_ENERGY);

/// The dimensions of an `L x V x H` torus: in the package, vertical, horizontal.
pub fn dimensions([local, vertical, horizontal]: [u32; 3]) -> [Dimension; 3] {
    [(local, PACKAGE), (vertical, BETWEEN), (horizontal, BETWEEN)].map(|(size, (rate, latency, energy))| Dimension {
        rate: Some(rate),
        latency: Some(latency),
        energy: Some(energy),
        ..Dimension::new(DimensionShape::Ring, size.into())
    })
}

/// The torus `H x V x L` with these dimensions: rank `(h V + v) L + l`. A ring of two has one link each way with the rate
/// of both.
///
/// # Errors
/// As [`grid`].
pub fn ace(name: &str, sizes: [u32; 3]) -> Result<Fabric> {
    let [local, vertical, horizontal] = sizes;
    let mut fabric = grid(name, DimensionShape::Ring, &[horizontal, vertical, local])?;
    let [local, vertical, horizontal] = dimensions(sizes);
    let Shape::Product(product) = &mut fabric.shape else { unreachable!("a grid is a product") };
    product.dimensions = vec![horizontal, vertical, local];
    for link in &mut fabric.links {
        let number = product.coordinates.differ(link.from, link.to).unwrap_or(0);
        link.rate = product.dimensions[number].link_rate();
        link.latency = product.dimensions[number].latency;
        link.energy = product.dimensions[number].energy;
    }
    Ok(fabric)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Link;

    #[test]
    fn is_a_torus_with_a_fast_ring_in_the_package() {
        let ace = Fabric::parse("ace:4x3x2").unwrap();
        let torus = Fabric::parse("torus:2x3x4@47/401.606ns+23.5/401.606ns+188/72.289ns").unwrap();
        let plain = |link: &Link| Link { energy: None, ..link.clone() };
        assert_eq!((ace.ranks(), ace.links.iter().map(plain).collect()), (24, torus.links));
        let energy = |label| ace.links.iter().find(|link| link.dimension == label).unwrap().energy;
        assert_eq!(["x", "y", "z"].map(energy), [Some(4_000_000), Some(80_000_000), Some(80_000_000)]);
    }
}
