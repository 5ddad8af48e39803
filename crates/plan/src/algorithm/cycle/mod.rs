//! Hamiltonian cycles, and the closed walks that stand in for them on odd meshes.

pub mod search;

use antiphon_model::fabric::{Dimension, DimensionShape, Fabric, Product};
use antiphon_model::system::System;

/// A cycle through ranks over links, or through switches.
pub struct Cycle {
    /// From rank 0 on; a [closed walk](closed_walk) may pass some rank twice.
    pub ranks: Vec<u32>,
    /// Whether the way back is as short.
    pub both_ways: bool,
    /// Whether neighbours are joined by links of their own.
    pub direct: bool,
}

/// A cycle through all ranks, if one is known or found by a bounded search.
///
/// # Errors
/// Why not, in one line.
pub fn hamiltonian(fabric: &Fabric, system: &System) -> Result<Cycle, String> {
    if fabric.ranks() == 2 {
        let direct = fabric.product().map_or(!fabric.has_switches(), Product::is_direct);
        return Ok(Cycle { ranks: vec![0, 1], both_ways: true, direct });
    }
    let known = fabric.layout().and_then(|layout| Some(on_ranks(fabric, layout, product_cycle(layout)?)));
    match known.filter(|cycle| fabric.product().is_some() || is_there(fabric, &cycle.ranks)) {
        Some(cycle) => Ok(cycle),
        None => search::search(fabric, system),
    }
}

/// Whether links join the neighbours of a cycle, both ways.
fn is_there(fabric: &Fabric, cycle: &[u32]) -> bool {
    let node = |rank: u32| fabric.node_of_rank(rank);
    let joined = |a: u32, b: u32| fabric.link_between(node(a), node(b)).is_some();
    cycle.iter().zip(cycle.iter().cycle().skip(1)).all(|(&a, &b)| joined(a, b) && joined(b, a))
}

/// A walk through positions of a product, both ways over its neighbours.
fn on_ranks(fabric: &Fabric, product: &Product, positions: Vec<u32>) -> Cycle {
    let ranks = product.ranks(fabric);
    let ranks = positions.into_iter().map(|position| ranks[position as usize]).collect();
    Cycle { ranks, both_ways: true, direct: product.is_direct() }
}

/// A Hamiltonian path of the product spanned by `dims` (boustrophedon), as coordinates.
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

/// The cycle of the TTO artifact (HPCA 2024): row 0 left to right, then up and down the
/// columns from the last to the first; for an even number of columns.
fn even_cycle(rows: usize, columns: usize) -> Vec<(usize, usize)> {
    let mut cycle: Vec<_> = (0..columns).map(|c| (0, c)).collect();
    for c in (0..columns).rev() {
        let column = (1..rows).map(|r| (r, c));
        if (columns - 1 - c).is_multiple_of(2) { cycle.extend(column) } else { cycle.extend(column.rev()) }
    }
    cycle
}

/// Positions of a Hamiltonian cycle of a product: of one dimension, or without switches.
fn product_cycle(product: &Product) -> Option<Vec<u32>> {
    let (dims, coordinates) = (product.coordinates.sizes(), &product.coordinates);
    let long: Vec<usize> = (0..dims.len()).filter(|&i| dims[i] > 1).collect();
    let wraps = |i: usize| product.dimensions[i].wraps();
    if let [one] = long[..] {
        return wraps(one).then(|| (0..coordinates.count()).collect());
    }
    if !product.is_direct() {
        return None;
    }
    // One even dimension against a Hamiltonian path of all others is an even two-dimensional grid.
    let even = long.iter().copied().rev().find(|&i| dims[i].is_multiple_of(2));
    if let Some(even) = even {
        let others: Vec<u32> = dims.iter().enumerate().filter(|&(i, _)| i != even).map(|(_, &d)| d).collect();
        let path = snake(&others);
        let position = |(row, column): (usize, usize)| {
            let mut at = path[row].clone();
            at.insert(even, column as u32);
            coordinates.position(&at)
        };
        return Some(even_cycle(path.len(), dims[even] as usize).into_iter().map(position).collect());
    }
    // Snake over columns 1.., then back up column 0 through the last row's wrap-around link; or with rows and columns
    // exchanged.
    let ((rows, columns), last) = (product.rows_columns()?, [1, 0].into_iter().find(|&i| wraps(i))?);
    let (rows, columns) = if last == 1 { (rows, columns) } else { (columns, rows) };
    let position = |r, c| coordinates.position(&if last == 1 { [r, c] } else { [c, r] });
    let mut cycle = vec![position(0, 0)];
    for r in 0..rows {
        let row = (1..columns).map(|c| position(r, c));
        if r % 2 == 0 { cycle.extend(row) } else { cycle.extend(row.rev()) }
    }
    cycle.extend((1..rows).rev().map(|r| position(r, 0)));
    Some(cycle)
}

/// An order around a block of a grid, as coordinates: neighbour after neighbour, and the last one a neighbour of the first if
/// that can be.
pub fn around(sides: &[u32]) -> Vec<Vec<u32>> {
    let lines = sides.iter().map(|&side| Dimension::new(DimensionShape::Line, side.into()));
    let block = Product::last_fastest(lines.collect());
    match product_cycle(&block) {
        Some(cycle) => cycle.into_iter().map(|position| block.coordinates.all(position)).collect(),
        None => snake(sides),
    }
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
/// as in the TTO artifact. Square shells, each merged into the next by swapping one pair of
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
/// Without centre on square meshes, as in the TTO artifact, without a corner on others.
///
/// # Errors
/// As [`hamiltonian`].
pub fn closed_walk(fabric: &Fabric, system: &System) -> Result<Cycle, String> {
    hamiltonian(fabric, system).or_else(|why| odd_walk(fabric).ok_or(why))
}

fn odd_walk(fabric: &Fabric) -> Option<Cycle> {
    let product = fabric.product()?;
    let (rows, columns) = product.rows_columns()?;
    if rows < 3 || columns < 3 {
        return None;
    }
    let position = |(r, c): (usize, usize)| product.coordinates.position(&[r as u32, c as u32]);
    let (cycle, left_out) = if rows == columns {
        let centre = rows as usize / 2;
        (without_centre(rows as usize), (centre, centre))
    } else {
        let cycle = without_corner(rows as usize, columns as usize);
        let corner = (rows as usize - 1, columns as usize - 1);
        let start = cycle.iter().position(|&x| x == (corner.0 - 1, corner.1)).expect("neighbour of the corner");
        ([&cycle[start..], &cycle[..start]].concat(), corner)
    };
    let mut walk = vec![position(cycle[0]), position(left_out)];
    walk.extend(cycle.into_iter().map(position));
    Some(on_ranks(fabric, product, walk))
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_model::fabric::grid::grid;

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
        use DimensionShape::{Clique, Line, Ring};
        for (kind, dims) in [
            (Line, vec![4, 4]),
            (Line, vec![3, 4]),
            (Line, vec![4, 3]),
            (Line, vec![2, 2, 2]),
            (Line, vec![3, 4, 5]),
            (Ring, vec![7]),
            (Ring, vec![3, 5]),
            (Ring, vec![3, 3, 3]),
            (Clique, vec![5, 5]),
            (Clique, vec![6]),
        ] {
            let fabric = grid(&format!("{kind:?} {dims:?}"), kind, &dims).unwrap();
            let cycle = hamiltonian(&fabric, &system()).unwrap_or_else(|why| panic!("{}: {why}", fabric.name));
            assert_cycle(&fabric, &cycle.ranks, fabric.ranks());
        }
    }

    #[test]
    fn odd_meshes_without_one_node() {
        for (rows, columns) in [(3, 3), (3, 5), (5, 3), (5, 5), (7, 9), (9, 9), (15, 15)] {
            let fabric = grid("odd", DimensionShape::Line, &[rows, columns]).unwrap();
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
