//! Grids: meshes, tori and flattened butterflies of any dimension; ring, fully connected and
//! hypercube are one-dimensional or two-wide cases.

use super::{Fabric, Link, MAX_LINKS, MAX_RANKS, Node, NodeId, Shape};
use crate::error::{Code, Error, Result};
use serde::{Deserialize, Serialize};

/// How the nodes along one dimension of a grid are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GridKind {
    /// A line.
    Mesh,
    /// A ring.
    Torus,
    /// A clique (flattened butterfly).
    Flat,
}

/// A product of equal-kind dimensions; node ids are row-major (the last dimension is adjacent).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grid {
    /// How each dimension is joined.
    pub kind: GridKind,
    /// Extent of every dimension, slowest first: rows, columns.
    pub dims: Vec<u32>,
}

impl Grid {
    /// Coordinates of a node.
    pub fn coords(&self, node: NodeId) -> Vec<u32> {
        let mut rest = node;
        let mut coords = vec![0; self.dims.len()];
        for (slot, &extent) in coords.iter_mut().zip(&self.dims).rev() {
            *slot = rest % extent;
            rest /= extent;
        }
        coords
    }

    /// The node at coordinates.
    pub fn node(&self, coords: &[u32]) -> NodeId {
        coords.iter().zip(&self.dims).fold(0, |id, (&c, &extent)| id * extent + c)
    }

    /// Rows and columns, if the grid is two-dimensional with both at least 2.
    pub fn rows_columns(&self) -> Option<(u32, u32)> {
        match self.dims[..] {
            [rows, columns] if rows >= 2 && columns >= 2 => Some((rows, columns)),
            _ => None,
        }
    }

    /// Directed links of the grid; `nodes` is the product of its extents.
    fn link_count(&self, nodes: u64) -> u64 {
        let in_line = |extent: u64| match self.kind {
            GridKind::Flat => extent * (extent - 1),
            GridKind::Torus if extent > 2 => 2 * extent,
            _ => 2 * (extent - 1),
        };
        let counts = self.dims.iter().map(|&extent| extent as u64);
        counts.map(|extent| nodes / extent * in_line(extent)).sum()
    }

    /// Positions along a dimension of extent `extent` that `at` is joined to, lower first.
    fn joined(&self, at: u32, extent: u32) -> Vec<u32> {
        let mut list: Vec<u32> = match self.kind {
            GridKind::Flat => (0..extent).filter(|&x| x != at).collect(),
            GridKind::Mesh => [at.wrapping_sub(1), at + 1].into_iter().filter(|&x| x < extent).collect(),
            GridKind::Torus if extent <= 2 => (0..extent).filter(|&x| x != at).collect(),
            GridKind::Torus => vec![(at + extent - 1) % extent, (at + 1) % extent],
        };
        list.dedup();
        list
    }
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

/// A grid fabric; every node is a rank. Two-wide torus dimensions have one link a direction.
///
/// # Errors
/// [`Code::BadSpec`] without dimensions or with an empty one, [`Code::TooLarge`] past [`MAX_RANKS`]
/// or [`MAX_LINKS`].
pub fn grid(name: &str, kind: GridKind, dims: &[u32]) -> Result<Fabric> {
    if dims.is_empty() || dims.contains(&0) || dims.len() > 16 {
        return Err(Error::new(Code::BadSpec, format!("fabric '{name}': needs 1 to 16 dimensions, each at least 1")));
    }
    let count = dims.iter().try_fold(1u64, |product, &extent| product.checked_mul(extent as u64));
    let count = count
        .filter(|&n| n <= MAX_RANKS as u64)
        .ok_or_else(|| Error::new(Code::TooLarge, format!("fabric '{name}' has more than {MAX_RANKS} ranks")))?;
    let grid = Grid { kind, dims: dims.to_vec() };
    if grid.link_count(count) > MAX_LINKS as u64 {
        return Err(Error::new(Code::TooLarge, format!("fabric '{name}' has more than {MAX_LINKS} links")));
    }
    let mut nodes = Vec::with_capacity(count as usize);
    let mut links = Vec::with_capacity(grid.link_count(count) as usize);
    for id in 0..count as u32 {
        let coords = grid.coords(id);
        for (dimension, &extent) in dims.iter().enumerate() {
            for at in grid.joined(coords[dimension], extent) {
                let mut to = coords.clone();
                to[dimension] = at;
                links.push(Link::new(id, grid.node(&to), label(dimension, dims.len())));
            }
        }
        nodes.push(Node::rank(id, coords.iter().map(|&c| c as f64).collect::<Vec<_>>()));
    }
    Fabric::new(name, Shape::Grid(grid), nodes, links)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_counts() {
        for (kind, dims, links) in [
            (GridKind::Mesh, vec![8, 8], 224),
            (GridKind::Mesh, vec![3, 5], 44),
            (GridKind::Mesh, vec![2, 2, 2], 24),
            (GridKind::Torus, vec![4, 4], 64),
            (GridKind::Torus, vec![2, 4], 24),
            (GridKind::Torus, vec![1, 3], 6),
            (GridKind::Flat, vec![4, 4], 96),
            (GridKind::Flat, vec![5], 20),
        ] {
            let fabric = grid("t", kind, &dims).unwrap();
            assert_eq!(fabric.links.len(), links, "{kind:?} {dims:?}");
            let count = fabric.grid().unwrap().link_count(fabric.ranks() as u64);
            assert_eq!(count, links as u64, "{kind:?} {dims:?}");
        }
    }

    #[test]
    fn neighbours_come_by_dimension_lower_first() {
        let fabric = grid("t", GridKind::Mesh, &[3, 3]).unwrap();
        assert_eq!(fabric.neighbours(4), [1, 7, 3, 5]);
        let torus = grid("t", GridKind::Torus, &[3, 3]).unwrap();
        assert_eq!(torus.neighbours(0), [6, 3, 2, 1]);
    }

    #[test]
    fn absurd_extents_are_refused_before_memory_is_taken() {
        assert_eq!(grid("t", GridKind::Mesh, &[u32::MAX; 8]).unwrap_err().code, Code::TooLarge);
        assert_eq!(grid("t", GridKind::Mesh, &[0, 4]).unwrap_err().code, Code::BadSpec);
    }
}
