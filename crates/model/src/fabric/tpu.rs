//! Slices of a TPU v4 pod: cubes of 4x4x4 chips, joined to tori by optical switches ("TPU v4: An Optically
//! Reconfigurable Supercomputer for Machine Learning with Hardware Support for Embeddings", ISCA 2023; Google Cloud's
//! description of TPU v4).

use super::grid::grid;
use super::spec::{FabricPreset, PresetRequest};
use super::{DimensionShape, Fabric, MAX_RANKS};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Rate;

pub(super) const TPU_V4: FabricPreset = FabricPreset::new(
    "tpu-v4",
    "tpu-v4:4x4x8",
    "slice of a TPU v4 pod: a torus of cubes of 4x4x4, or part of one; raw rate",
    |request| {
        let own = [(RATE, None)];
        let parameters = if request.parameters.is_empty() { &own } else { request.parameters };
        let fabric = v4(request.name, request.sizes()?);
        Some(PresetRequest { parameters, ..*request }.with_parameters(fabric))
    },
);

/// Chips along an edge of a cube.
const CUBE: u32 = 4;

/// Rate of a link in one direction (ISCA 2023). Its latency is the system's.
pub(super) const RATE: Rate = Rate::gb_per_s(50);

/// A slice of these sizes, without rates. Whole cubes make a torus. Part of one cube is a mesh: the links of the
/// optical switches leave from faces of whole cubes. It has whole trays of 2x2x1 chips. Twisted tori are not modelled.
///
/// # Errors
/// [`Code::BadSpec`] for a slice that does not exist, [`Code::TooLarge`] for more chips than a pod has.
pub(super) fn v4(name: &str, sizes: [u32; 3]) -> Result<Fabric> {
    let cubes = sizes.iter().all(|&size| size > 0 && size.is_multiple_of(CUBE));
    let trays = sizes.iter().filter(|&&size| size == 2 || size == CUBE).count() >= 2;
    let part = trays && sizes.iter().all(|&size| [1, 2, CUBE].contains(&size));
    if !cubes && !part {
        let what = "a slice has sizes that are all multiples of 4 (a torus of whole cubes), or 1, 2 and 4 with at most \
                    one 1 (a mesh in one cube, of trays of 2x2x1)";
        return Err(Error::new(Code::BadSpec, format!("fabric '{name}': {what}")));
    }
    // No more ranks than a fabric may have, so far.
    if sizes.iter().map(|&size| u64::from(size)).fold(1, u64::saturating_mul) > MAX_RANKS as u64 {
        let what = format!("fabric '{name}': a pod has {MAX_RANKS} chips (64 cubes of 4x4x4)");
        return Err(Error::new(Code::TooLarge, what));
    }
    grid(name, if cubes { DimensionShape::Ring } else { DimensionShape::Line }, &sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cubes_are_tori_and_parts_of_one_meshes() {
        let same = |one: &str, other: &str| {
            let [one, other] = [one, other].map(|spec| Fabric::parse(spec).unwrap());
            assert_eq!((&one.links, &one.shape), (&other.links, &other.shape), "{}", one.name);
        };
        same("tpu-v4:4x4x4", "torus:4x4x4@50");
        same("tpu-v4:4x8x8", "torus:4x8x8@50");
        same("tpu-v4:2x2x1", "mesh:2x2x1@50");
        same("tpu-v4:2x4x4", "mesh:2x4x4@50");
        same("tpu-v4:4x4x8@46.9/1us", "torus:4x4x8@46.9/1us");
        same("tpu-v4:4x4x4@50+50+25", "torus:4x4x4@50+50+25");
    }
}
