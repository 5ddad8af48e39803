//! Hamiltonian cycles, and the closed walks that stand in for them on odd meshes.

mod search;

use crate::fabric::{Fabric, Grid, GridKind, NodeId, Shape};
use crate::system::System;

/// A cycle through ranks over links, or through switches.
pub struct Cycle {
    /// From rank 0 on; a [closed walk](closed_walk) may pass some rank twice.
    pub ranks: Vec<u32>,
    /// Whether the way back is as short.
    pub both_ways: bool,
}

/// A cycle through all ranks, if one is known or found by a bounded search.
///
/// # Errors
/// Why not, in one line.
pub fn hamiltonian(fabric: &Fabric, system: &System) -> Result<Cycle, String> {
    if fabric.ranks() == 2 || fabric.shape == Shape::Switch {
        return Ok(Cycle { ranks: (0..fabric.ranks() as u32).collect(), both_ways: true });
    }
    match fabric.grid().and_then(grid_cycle) {
        Some(ranks) => Ok(Cycle { ranks, both_ways: true }),
        None => search::search(fabric, system),
    }
}

/// A Hamiltonian path of the sub-grid spanned by `dims` (boustrophedon), as coordinates.
fn snake(dims: &[u32]) -> Vec<Vec<u32>> {
    let Some((&extent, rest)) = dims.split_first() else {
        return vec![vec![]];
    };
    let inner = snake(rest);
    let mut path = Vec::new();
    for at in 0..extent {
        let row = inner.iter().map(|tail| [&[at], tail.as_slice()].concat());
        if at % 2 == 0 { path.extend(row) } else { path.extend(row.rev()) }
    }
    path
}

/// The cycle of the reference (TTO section 2.1): row 0 left to right, then up and down the
/// columns from the last to the first; for an even number of columns.
fn even_cycle(rows: usize, columns: usize) -> Vec<(usize, usize)> {
    let mut cycle: Vec<_> = (0..columns).map(|c| (0, c)).collect();
    for c in (0..columns).rev() {
        let column = (1..rows).map(|r| (r, c));
        if (columns - 1 - c).is_multiple_of(2) { cycle.extend(column) } else { cycle.extend(column.rev()) }
    }
    cycle
}

fn grid_cycle(grid: &Grid) -> Option<Vec<u32>> {
    let dims = &grid.dims;
    let long: Vec<usize> = (0..dims.len()).filter(|&i| dims[i] > 1).collect();
    if long.len() < 2 {
        return (grid.kind != GridKind::Mesh).then(|| (0..dims.iter().product()).collect());
    }
    // One even dimension against a Hamiltonian path of all others is an even two-dimensional grid.
    let even = long.iter().copied().rev().find(|&i| dims[i].is_multiple_of(2));
    if let Some(even) = even {
        let others: Vec<u32> = dims.iter().enumerate().filter(|&(i, _)| i != even).map(|(_, &d)| d).collect();
        let path = snake(&others);
        let node = |row: usize, column: usize| {
            let mut coords = path[row].clone();
            coords.insert(even, column as u32);
            grid.node(&coords)
        };
        return Some(even_cycle(path.len(), dims[even] as usize).into_iter().map(|(r, c)| node(r, c)).collect());
    }
    if let (Some((rows, columns)), true) = (grid.rows_columns(), grid.kind != GridKind::Mesh) {
        // Snake over columns 1.., then back up column 0 through the last row's wrap-around link.
        let mut cycle = vec![0];
        for r in 0..rows {
            let row = (1..columns).map(|c| grid.node(&[r, c]));
            if r % 2 == 0 { cycle.extend(row) } else { cycle.extend(row.rev()) }
        }
        cycle.extend((1..rows).rev().map(|r| grid.node(&[r, 0])));
        return Some(cycle);
    }
    None
}

/// On an odd `rows` x `columns` mesh, both at least 3: a cycle through all nodes but the
/// bottom-right corner (TTO paper, section IV-A, Fig. 2), as (row, column).
pub fn without_corner(rows: usize, columns: usize) -> Vec<(usize, usize)> {
    let mut cycle: Vec<_> = (0..columns).map(|c| (0, c)).collect();
    for r in 1..rows - 1 {
        let pair = [(r, columns - 1), (r, columns - 2)];
        if r % 2 == 1 { cycle.extend(pair) } else { cycle.extend(pair.iter().rev()) }
    }
    cycle.push((rows - 1, columns - 2));
    for c in (0..columns - 2).rev() {
        let column = (1..rows).map(|r| (r, c));
        if c % 2 == 0 { cycle.extend(column.rev()) } else { cycle.extend(column) }
    }
    cycle
}

/// On an odd n x n mesh: a cycle through all nodes but the centre, starting at its west neighbour
/// (reference: TTO section 2.4). Square shells, each merged into the next by swapping one pair of
/// parallel edges on the west side.
pub fn without_centre(side: usize) -> Vec<(usize, usize)> {
    let c = side / 2;
    let shell = |k: usize| {
        // Clockwise from the west edge's middle.
        let (low, high) = (c - k, c + k);
        let mut ring: Vec<(usize, usize)> = (low..=c).rev().map(|r| (r, low)).collect();
        ring.extend((low + 1..=high).map(|x| (low, x)));
        ring.extend((low + 1..=high).map(|r| (r, high)));
        ring.extend((low..high).rev().map(|x| (high, x)));
        ring.extend((c + 1..high).rev().map(|r| (r, low)));
        ring
    };
    let mut cycle = shell(1);
    for k in 2..=c {
        // Rows a and a + 1 of the west side, alternating so that the edge is still there.
        let a = if k % 2 == 0 { c } else { c - 1 };
        let at = |cycle: &[(usize, usize)], node| cycle.iter().position(|&x| x == node).expect("node on the shell");
        let outer = shell(k);
        let start = at(&outer, (a, c - k));
        let mut detour: Vec<_> = outer[start..].iter().chain(&outer[..start]).copied().collect();
        // Leave the inner cycle at one end of the edge, walk the whole shell, return at the other.
        let upper = at(&cycle, (a, c - k + 1));
        let lower = at(&cycle, (a + 1, c - k + 1));
        // `detour` runs from (a, west) up and around to (a + 1, west).
        let upper_first = (upper + 1) % cycle.len() == lower;
        if !upper_first {
            detour.reverse();
        }
        let first = if upper_first { upper } else { lower };
        cycle.splice(first + 1..first + 1, detour);
    }
    cycle
}

/// A closed walk that visits every rank at least once and each link at most once: the
/// Hamiltonian cycle, or on an odd mesh the cycle without one node plus a detour to it.
/// Without centre on square meshes (reference: TTO section 2.2), without a corner on others.
///
/// # Errors
/// As [`hamiltonian`].
pub fn closed_walk(fabric: &Fabric, system: &System) -> Result<Cycle, String> {
    hamiltonian(fabric, system).or_else(|why| odd_walk(fabric).ok_or(why))
}

fn odd_walk(fabric: &Fabric) -> Option<Cycle> {
    let grid = fabric.grid()?;
    let (rows, columns) = grid.rows_columns()?;
    if rows < 3 || columns < 3 {
        return None;
    }
    let node = |(r, c): (usize, usize)| -> NodeId { grid.node(&[r as u32, c as u32]) };
    let (cycle, left_out) = if rows == columns {
        let centre = rows as usize / 2;
        (without_centre(rows as usize), (centre, centre))
    } else {
        let cycle = without_corner(rows as usize, columns as usize);
        let corner = (rows as usize - 1, columns as usize - 1);
        let start = cycle.iter().position(|&x| x == (corner.0 - 1, corner.1)).expect("neighbour of the corner");
        ([&cycle[start..], &cycle[..start]].concat(), corner)
    };
    let mut walk = vec![node(cycle[0]), node(left_out)];
    walk.extend(cycle.into_iter().map(node));
    Some(Cycle { ranks: walk, both_ways: true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::grid::grid;

    fn system() -> System {
        System::preset("generic").unwrap()
    }

    fn assert_cycle(fabric: &Fabric, cycle: &[u32], length: usize) {
        let mut sorted = cycle.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!((cycle.len(), sorted.len()), (length, length), "{}: {cycle:?}", fabric.name);
        for (i, &a) in cycle.iter().enumerate() {
            let b = cycle[(i + 1) % length];
            assert!(fabric.link_between(a, b).is_some(), "{}: {a} and {b} are no neighbours", fabric.name);
        }
    }

    #[test]
    fn grids_have_cycles() {
        use GridKind::{Flat, Mesh, Torus};
        for (kind, dims) in [
            (Mesh, vec![4, 4]),
            (Mesh, vec![3, 4]),
            (Mesh, vec![4, 3]),
            (Mesh, vec![2, 2, 2]),
            (Mesh, vec![3, 4, 5]),
            (Torus, vec![7]),
            (Torus, vec![3, 5]),
            (Torus, vec![3, 3, 3]),
            (Flat, vec![5, 5]),
            (Flat, vec![6]),
        ] {
            let fabric = grid(&format!("{kind:?} {dims:?}"), kind, &dims).unwrap();
            let cycle = hamiltonian(&fabric, &system()).unwrap_or_else(|why| panic!("{}: {why}", fabric.name));
            assert_cycle(&fabric, &cycle.ranks, fabric.ranks());
        }
    }

    #[test]
    fn odd_meshes_without_one_node() {
        for (rows, columns) in [(3, 3), (3, 5), (5, 3), (5, 5), (7, 9), (9, 9), (15, 15)] {
            let fabric = grid("odd", GridKind::Mesh, &[rows, columns]).unwrap();
            let id = |list: Vec<(usize, usize)>| -> Vec<u32> {
                list.iter().map(|&(r, c)| r as u32 * columns + c as u32).collect()
            };
            let count = (rows * columns) as usize - 1;
            let corner = id(without_corner(rows as usize, columns as usize));
            assert_cycle(&fabric, &corner, count);
            assert!(!corner.contains(&(count as u32)));
            if rows == columns {
                let centre = id(without_centre(rows as usize));
                assert_cycle(&fabric, &centre, count);
                assert!(!centre.contains(&(count as u32 / 2)));
                assert_eq!(centre[0], count as u32 / 2 - 1);
            }
            let walk = closed_walk(&fabric, &system()).unwrap_or_else(|why| panic!("{why}"));
            assert_eq!(walk.ranks.len(), count + 2);
        }
        // The ring of the paper's 3x3 example (section IV-B), zero based.
        let ring: Vec<_> = without_corner(3, 3).iter().map(|&(r, c)| r * 3 + c).collect();
        assert_eq!(ring, [0, 1, 2, 5, 4, 7, 6, 3]);
    }
}
