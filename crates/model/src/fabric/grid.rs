//! Grids: meshes, tori and flattened butterflies of any dimension; ring, fully connected and
//! hypercube are one-dimensional or two-wide cases.

use super::machine::{RAW, of_one_kind};
use super::product::{Dimension, DimensionShape, Product};
use super::spec::{FabricPreset, PresetRequest, dimensions};
use super::{Fabric, Link, MAX_LINKS, MAX_RANKS, Node, Shape};
use antiphon_base::error::{Code, Error, Result};

pub(super) const MESH: FabricPreset =
    FabricPreset::new("mesh", "mesh:8x8", "mesh of any dimension, slowest first (rows x columns)", |request| {
        of_any_size(request, DimensionShape::Line)
    });

pub(super) const TORUS: FabricPreset =
    FabricPreset::new("torus", "torus:4x4x4", "mesh with wrap-around links", |request| {
        of_any_size(request, DimensionShape::Ring)
    });

pub(super) const RING: FabricPreset =
    FabricPreset::new("ring", "ring:16", "one-dimensional torus", |request| of_one_size(request, DimensionShape::Ring));

pub(super) const FC: FabricPreset = FabricPreset::new("fc", "fc:8", "every rank joined to every other", |request| {
    of_one_size(request, DimensionShape::Clique)
});

pub(super) const FBFLY: FabricPreset =
    FabricPreset::new("fbfly", "fbfly:8x8", "flattened butterfly: rows and columns fully joined", |request| {
        of_any_size(request, DimensionShape::Clique)
    });

pub(super) const HYPERCUBE: FabricPreset =
    FabricPreset::new("hypercube", "hypercube:4", "two ranks in each of so many dimensions", hypercube);

pub(super) const UB_MESH: FabricPreset = FabricPreset::new(
    "ub-mesh",
    "ub-mesh:2x2x4x4",
    "n-D full mesh, racks x boards x NPUs say: UB-Mesh (arXiv 2503.20377)",
    |request| of_any_size(request, DimensionShape::Clique),
);

pub(super) const TT_GALAXY: FabricPreset = FabricPreset::new(
    "tt-galaxy",
    "tt-galaxy",
    "32 Wormhole in a torus of 8x4, four links to a neighbour; usable rates, or :raw",
    |request| {
        let [] = request.sizes()?;
        Some(of_one_kind("tt-galaxy", request, grid(request.name, DimensionShape::Ring, &[8, 4])))
    },
)
.with(&[RAW]);

pub(super) const FUGAKU: FabricPreset =
    FabricPreset::new("fugaku", "fugaku:4x4x4", "nodes of Fugaku in the torus that a job sees: TofuD", |request| {
        let sizes: [u32; 3] = request.sizes()?;
        Some(of_one_kind("fugaku", request, grid(request.name, DimensionShape::Ring, &sizes)))
    });

fn of_any_size(request: &PresetRequest, shape: DimensionShape) -> Option<Result<Fabric>> {
    let sizes = dimensions(request.size?)?;
    Some(request.with_parameters(grid(request.name, shape, &sizes)))
}

fn of_one_size(request: &PresetRequest, shape: DimensionShape) -> Option<Result<Fabric>> {
    let [size] = request.sizes()?;
    Some(request.with_parameters(grid(request.name, shape, &[size])))
}

fn hypercube(request: &PresetRequest) -> Option<Result<Fabric>> {
    let [count] = request.sizes()?;
    let most = MAX_RANKS.ilog2();
    if count > most {
        let message = format!("fabric '{}': a hypercube has at most {most} dimensions", request.name);
        return Some(Err(Error::new(Code::TooLarge, message)));
    }
    Some(request.with_parameters(grid(request.name, DimensionShape::Line, &vec![2; count as usize])))
}

/// Directed links of a dimension of a grid.
fn links_in_line(shape: DimensionShape, size: u64) -> u64 {
    match shape {
        DimensionShape::Clique => size * (size - 1),
        DimensionShape::Ring if size > 2 => 2 * size,
        _ => 2 * (size - 1),
    }
}

/// Positions along a dimension of `size` nodes that `at` is joined to, lower first.
pub(super) fn joined(shape: DimensionShape, at: u32, size: u32) -> Vec<u32> {
    let mut list: Vec<u32> = match shape {
        DimensionShape::Line => [at.wrapping_sub(1), at + 1].into_iter().filter(|&x| x < size).collect(),
        DimensionShape::Ring if size > 2 => vec![(at + size - 1) % size, (at + 1) % size],
        _ => (0..size).filter(|&x| x != at).collect(),
    };
    list.dedup();
    list
}

/// Label of dimension `index` of `count`, slowest first: `y, x` in two dimensions, `z, y, x` in three.
fn label(index: usize, count: usize) -> String {
    match count - 1 - index {
        0 => "x".into(),
        1 => "y".into(),
        2 => "z".into(),
        other => format!("d{other}"),
    }
}

/// A product of lines, rings or cliques of these sizes, slowest first; node ids are row-major and every node is a
/// rank. Two-wide rings have one link a direction.
///
/// # Errors
/// [`Code::BadSpec`] without dimensions or with an empty one, [`Code::TooLarge`] past [`MAX_RANKS`]
/// or [`MAX_LINKS`].
pub fn grid(name: &str, shape: DimensionShape, sizes: &[u32]) -> Result<Fabric> {
    if sizes.is_empty() || sizes.contains(&0) || sizes.len() > 16 {
        return Err(Error::new(Code::BadSpec, format!("fabric '{name}': needs 1 to 16 dimensions, each at least 1")));
    }
    let count = sizes.iter().try_fold(1u64, |product, &size| product.checked_mul(size.into()));
    let count = count
        .filter(|&n| n <= MAX_RANKS as u64)
        .ok_or_else(|| Error::new(Code::TooLarge, format!("fabric '{name}' has more than {MAX_RANKS} ranks")))?;
    let link_count: u64 = sizes.iter().map(|&size| count / u64::from(size) * links_in_line(shape, size.into())).sum();
    if link_count > MAX_LINKS as u64 {
        return Err(Error::new(Code::TooLarge, format!("fabric '{name}' has more than {MAX_LINKS} links")));
    }
    let product = Product::last_fastest(sizes.iter().map(|&size| Dimension::new(shape, size.into())).collect());
    let coordinates = &product.coordinates;
    let mut nodes = Vec::with_capacity(count as usize);
    let mut links = Vec::with_capacity(link_count as usize);
    for id in 0..coordinates.count() {
        let place = coordinates.all(id);
        for (dimension, (&at, &size)) in place.iter().zip(sizes).enumerate() {
            for to in joined(shape, at, size) {
                links.push(Link::new(id, coordinates.with(id, dimension, to), label(dimension, sizes.len())));
            }
        }
        nodes.push(Node::rank(id, place.into_iter().map(f64::from).collect::<Vec<_>>()));
    }
    Fabric::new(name, Shape::Product(product), nodes, links)
}

#[cfg(test)]
mod tests {
    use super::DimensionShape::{Clique, Line, Ring};
    use super::*;

    #[test]
    fn link_counts() {
        for (shape, sizes, links) in [
            (Line, vec![8, 8], 224),
            (Line, vec![3, 5], 44),
            (Line, vec![2, 2, 2], 24),
            (Ring, vec![4, 4], 64),
            (Ring, vec![2, 4], 24),
            (Ring, vec![1, 3], 6),
            (Clique, vec![4, 4], 96),
            (Clique, vec![5], 20),
        ] {
            let fabric = grid("t", shape, &sizes).unwrap();
            assert_eq!(fabric.links.len(), links, "{shape:?} {sizes:?}");
            assert_eq!(fabric.links.capacity(), links, "{shape:?} {sizes:?}");
        }
    }

    #[test]
    fn neighbours_come_by_dimension_lower_first() {
        let fabric = grid("t", Line, &[3, 3]).unwrap();
        assert_eq!(fabric.neighbours(4), [1, 7, 3, 5]);
        let torus = grid("t", Ring, &[3, 3]).unwrap();
        assert_eq!(torus.neighbours(0), [6, 3, 2, 1]);
    }

    #[test]
    fn absurd_extents_are_refused_before_memory_is_taken() {
        assert_eq!(grid("t", Line, &[u32::MAX; 8]).unwrap_err().code, Code::TooLarge);
        assert_eq!(grid("t", Line, &[0, 4]).unwrap_err().code, Code::BadSpec);
    }
}
