//! Slices of TPU v4 and v5p pods: cubes of 4x4x4 chips, joined to tori by optical switches ("TPU v4: An Optically
//! Reconfigurable Supercomputer for Machine Learning with Hardware Support for Embeddings", ISCA 2023; Google Cloud's
//! descriptions of TPU v4 and v5p).

use super::grid::grid;
use super::machine::of_one_kind;
use super::spec::{FabricPreset, PresetRequest};
use super::{DimensionShape, Fabric, MAX_RANKS, Shape};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::options::{Default::Fixed, Opt};

pub(super) const TPU_V4: FabricPreset = FabricPreset::new(
    "tpu-v4",
    "tpu-v4:4x4x8",
    "slice of a TPU v4 pod: a torus of cubes of 4x4x4, or part of one; raw rate",
    |request| Some(slice("tpu-v4", "a pod has 4096 chips (64 cubes of 4x4x4)", request, request.sizes()?)),
)
.with(TWISTED);

pub(super) const TPU_V5P: FabricPreset =
    FabricPreset::new("tpu-v5p", "tpu-v5p:4x4x8", "slice of a TPU v5p pod: the same with twice the rate", |request| {
        Some(slice("tpu-v5p", "jobs have up to 16x16x24 chips, of which 4096 are supported", request, request.sizes()?))
    })
    .with(TWISTED);

const TWISTED: &[Opt] = &[Opt::flag(
    "twisted",
    Fixed("no"),
    "Twisted torus of n x n x 2n or n x 2n x 2n chips: short rings shift the long ones.",
)];

/// Chips along an edge of a cube.
const CUBE: u32 = 4;

/// A slice of these sizes. Whole cubes make a torus. Part of one cube is a mesh: the links of the
/// optical switches leave from faces of whole cubes. It has whole trays of 2x2x1 chips.
///
/// # Errors
/// [`Code::BadSpec`] for a slice that does not exist, [`Code::TooLarge`] for more chips than a fabric may have.
fn slice(machine: &str, most: &str, request: &PresetRequest, sizes: [u32; 3]) -> Result<Fabric> {
    let cubes = sizes.iter().all(|&size| size > 0 && size.is_multiple_of(CUBE));
    let trays = sizes.iter().filter(|&&size| size == 2 || size == CUBE).count() >= 2;
    let part = trays && sizes.iter().all(|&size| [1, 2, CUBE].contains(&size));
    if !cubes && !part {
        let what = "a slice has sizes that are all multiples of 4 (a torus of whole cubes), or 1, 2 and 4 with at most \
                    one 1 (a mesh in one cube, of trays of 2x2x1)";
        return Err(request.refused(what));
    }
    if sizes.iter().map(|&size| u64::from(size)).fold(1, u64::saturating_mul) > MAX_RANKS as u64 {
        return Err(Error::new(Code::TooLarge, format!("fabric '{}': {most}", request.name)));
    }
    let shape = if cubes { DimensionShape::Ring } else { DimensionShape::Line };
    let fabric = of_one_kind(machine, request, grid(request.name, shape, &sizes))?;
    if request.options.flag("twisted") { twisted(request, fabric, sizes) } else { Ok(fabric) }
}

/// The torus whose rings along the short dimensions come back shifted by half of each long one: with `n` x `n` x `2n`
/// and `n` x `2n` x `2n` nodes all three dimensions are then alike ("Twisted Torus Topologies for Enhanced
/// Interconnection Networks", Camara et al., IEEE TPDS 2010).
fn twisted(request: &PresetRequest, fabric: Fabric, sizes: [u32; 3]) -> Result<Fabric> {
    let short = sizes.into_iter().min().unwrap_or(1);
    let longs = sizes.map(|size| size == 2 * short);
    if !(0..3).all(|d| longs[d] || sizes[d] == short) || !longs.contains(&true) || longs == [true; 3] || short < CUBE {
        return Err(request.refused("a twisted torus has n x n x 2n or n x 2n x 2n chips, such as 4x4x8 or 4x8x8"));
    }
    let Shape::Product(product) = &fabric.shape else { unreachable!("a grid is a product") };
    let coordinates = product.coordinates.clone();
    let mut links = fabric.links;
    for link in &mut links {
        let along = coordinates.differ(link.from, link.to).unwrap_or(0);
        let ends = [link.from, link.to].map(|node| coordinates.of(node, along));
        if longs[along] || ends[0].abs_diff(ends[1]) != short - 1 {
            continue;
        }
        // Half around is the same both ways.
        for d in (0..3).filter(|&d| longs[d]) {
            link.to = coordinates.with(link.to, d, (coordinates.of(link.to, d) + short) % sizes[d]);
        }
    }
    Fabric::new(request.name, Shape::Graph, fabric.nodes, links)
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
        same("tpu-v5p:4x4x4", "torus:4x4x4@100");
    }

    /// Diameters: of twisted ones 3 n / 2, as of the lattices FCC and BCC that they are (Camarero et al., IEEE TPDS
    /// 2015).
    #[test]
    fn a_twist_makes_paths_shorter_and_dimensions_alike() {
        for (spec, plain, twisted) in [("4x4x8", 8, 6), ("4x8x8", 10, 6), ("8x4x4", 8, 6), ("8x8x16", 16, 12)] {
            let [one, other] = ["", ":twisted"].map(|end| Fabric::parse(&format!("tpu-v4:{spec}{end}")).unwrap());
            assert_eq!((one.diameter(), other.diameter()), (plain, twisted), "{spec}");
            assert!(other.is_symmetric() && other.links.len() == one.links.len());
        }
    }

    /// From one half of a pod to the other, over both ends of it.
    #[test]
    fn bisection_of_a_pod() {
        let pod = Fabric::parse("tpu-v4:16x16x16").unwrap();
        let half = |node: u32| pod.nodes[node as usize].coords[0] < 8.0;
        let across = pod.links.iter().filter(|link| half(link.from) && !half(link.to));
        assert_eq!(across.map(|link| link.rate.unwrap().0).sum::<u64>(), 25_600_000_000_000);
    }
}
