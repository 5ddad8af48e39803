//! Combs: a packing of spanning trees that loads every link of a grid equally, reduction and broadcast
//! at once, so that AllReduce reaches the physical limit.
//!
//! Comb `j` of the rows of a mesh has every row's edges and those of column `j`; the combs of the columns
//! are the transpose. Together they use every edge equally often (reference: mesh-optimum sections 1 and
//! 2). On other grids, of any dimension, what takes the place of a row's path is a tree of the row that
//! loads it equally when turned to every place: a ring without the edge opposite, the star of a clique.
//! The optimum is Tutte's and Nash-Williams' strength; packing trees for collectives is Blink's idea,
//! overlapping reduction and broadcast C-Cube's.

use super::estimate::flit_times;
use super::tree::{self, Planter, Priority, Table, Tree};
use super::{Algorithm, Info, Request};
use crate::collective::Kind;
use crate::error::Result;
use crate::fabric::{Fabric, Grid, GridKind};
use crate::schedule::Schedule;

/// See the module.
pub struct Combs;

const INFO: Info = Info {
    name: "combs",
    summary: "spanning trees that load every link of a grid equally, reduction and broadcast at once",
    options: tree::OPTIONS,
    source: "Tutte and Nash-Williams; tree packing: Blink; overlap: C-Cube",
    collectives: &[Kind::AllReduce],
};

impl Algorithm for Combs {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        let Some(grid) = request.fabric.grid() else {
            return request
                .refuse("it needs an intact mesh, torus or flattened butterfly; forest takes others without switches");
        };
        let product = Product::new(grid);
        let combs = product.combs(tree::most(request));
        let flit_times = flit_times(request);
        let widths = tree::widths(&flit_times);
        let mut planter = Planter::new(request.fabric, request.system);
        let planted = planter.plant_all(combs.iter().map(|comb| product.parents(comb)));
        let alike = flit_times.iter().all(|&time| time == flit_times[0]);
        let tables = tree::prefixes(planted.len()).map(|count| match product.square_mesh() {
            Some(n) if alike && count == combs.len() => closed_form(request.fabric, n, &combs, &planted),
            _ => Table::listed(&planted[..count], widths.clone(), Priority::Farthest, true),
        });
        tree::stream(request, tables)
    }
}

/// A comb: lines along dimension `first` everywhere, along the next one where they cross at the centre,
/// and so on cyclically. Every line is a tree around the coordinate of the centre, which is the root.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Comb {
    first: usize,
    centre: Vec<u32>,
}

/// How the nodes of a line are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Path,
    Ring,
    Clique,
}

/// A grid without dimensions of extent 1: numbers of nodes stay the same.
struct Product {
    lines: Vec<Line>,
    extents: Vec<u32>,
}

impl Product {
    fn new(grid: &Grid) -> Product {
        let extents: Vec<u32> = grid.dims.iter().copied().filter(|&extent| extent > 1).collect();
        let line = |&extent: &u32| match grid.kind {
            GridKind::Torus if extent > 2 => Line::Ring,
            GridKind::Flat if extent > 2 => Line::Clique,
            _ => Line::Path,
        };
        Product { lines: extents.iter().map(line).collect(), extents }
    }

    /// The side of a square mesh.
    fn square_mesh(&self) -> Option<u32> {
        match (&self.lines[..], &self.extents[..]) {
            ([Line::Path, Line::Path], &[rows, columns]) if rows == columns => Some(rows),
            _ => None,
        }
    }

    /// Combs such that all links are loaded equally, or the first `most` of these; a part from the start
    /// loads them about equally.
    fn combs(&self, most: usize) -> Vec<Comb> {
        let dimensions = self.extents.len();
        let shares = self.shares();
        let counts: Vec<u64> = (0..dimensions).map(|first| self.count(first)).collect();
        // How often each of a dimension's combs is needed, as whole numbers without common factor.
        let common = counts.iter().fold(1u128, |common, &count| lcm(common, count.into()));
        let copies: Vec<u128> =
            shares.iter().zip(&counts).map(|(share, &count)| share * common / count as u128).collect();
        let factor = copies.iter().fold(0, |factor, &copies| gcd(factor, copies));
        let total: u128 = copies.iter().zip(&counts).map(|(copies, &count)| copies / factor * count as u128).sum();
        let mut taken = vec![0u64; dimensions];
        let next = |_| {
            // The dimension that is the farthest behind its share; the last, e.g. rows, first.
            let behind =
                |&first: &usize| (u128::from(taken[first] + 1) * u128::MAX.isqrt() / shares[first], dimensions - first);
            let first = (0..dimensions).min_by_key(behind).expect("a grid has a dimension");
            taken[first] += 1;
            self.comb(first, (taken[first] - 1) % counts[first])
        };
        (0..total.min(most as u128)).map(next).collect()
    }

    /// Share of the combs that start with each dimension, so that all links are loaded equally.
    ///
    /// With `e` edges on a line of `n` nodes, a tree in it loads each by `(n - 1) / e` on average. Combs that
    /// start with dimension `i` load dimension `i + 1` in one of `n_i` lines and so on, so that loads are
    /// equal if the share is `e_i / (n_i - 1) - e_h / (n_h (n_h - 1))`, where `h` comes before `i` cyclically.
    fn shares(&self) -> Vec<u128> {
        let dimensions = self.extents.len();
        let edges = |at: usize| {
            let n = u128::from(self.extents[at]);
            let edges = match self.lines[at] {
                Line::Path => n - 1,
                Line::Ring => n,
                Line::Clique => n * (n - 1) / 2,
            };
            (edges, n)
        };
        let scale = (0..dimensions).map(|at| edges(at).1 * (edges(at).1 - 1)).fold(1, lcm);
        let share = |at: usize| {
            let ((own, n), (before, m)) = (edges(at), edges((at + dimensions - 1) % dimensions));
            scale / (n - 1) * own - scale / (m * (m - 1)) * before
        };
        (0..dimensions).map(share).collect()
    }

    /// Dimensions in the order of a comb's lines.
    fn order(&self, first: usize) -> impl Iterator<Item = usize> {
        let dimensions = self.extents.len();
        (first..first + dimensions).map(move |at| at % dimensions)
    }

    /// Different combs that start with a dimension: one for every place of its lines' trees, where the
    /// place of the last path, which is whole, does not matter.
    fn count(&self, first: usize) -> u64 {
        let places = |at: usize| u64::from(self.extents[at]);
        let last = self.order(first).last().expect("a grid has a dimension");
        let all: u64 = self.order(first).map(places).product();
        if self.lines[last] == Line::Path { all / places(last) } else { all }
    }

    /// Comb `index` of those that start with a dimension: middle ones first, neighbours in the list apart in
    /// every dimension.
    fn comb(&self, first: usize, mut index: u64) -> Comb {
        let mut centre: Vec<u32> = self.extents.iter().map(|extent| extent / 2).collect();
        let last = self.order(first).last();
        let mut place = 0;
        for at in self.order(first).filter(|&at| Some(at) != last || self.lines[at] != Line::Path) {
            let extent = self.extents[at];
            place = (place + (index % u64::from(extent)) as u32) % extent;
            index /= u64::from(extent);
            centre[at] = middle_out(place, extent);
        }
        Comb { first, centre }
    }

    fn parents(&self, comb: &Comb) -> Vec<Option<u32>> {
        let nodes: u32 = self.extents.iter().product();
        // Nodes from one to the next along each dimension.
        let strides: Vec<u32> = (0..self.extents.len()).map(|at| self.extents[at + 1..].iter().product()).collect();
        let parent = |node: u32| {
            let coordinate = |at: usize| node / strides[at] % self.extents[at];
            let at = self.order(comb.first).find(|&at| coordinate(at) != comb.centre[at])?;
            let (from, to, extent) = (coordinate(at), comb.centre[at], self.extents[at]);
            let next = match self.lines[at] {
                Line::Clique => to,
                Line::Path if from < to => from + 1,
                Line::Path => from - 1,
                // Beyond the opposite node lies the edge left out.
                Line::Ring if (from + extent - to) % extent <= extent / 2 => (from + extent - 1) % extent,
                Line::Ring => (from + 1) % extent,
            };
            Some(node - from * strides[at] + next * strides[at])
        };
        (0..nodes).map(parent).collect()
    }
}

/// The numbers below `extent` from the middle outwards.
fn middle_out(place: u32, extent: u32) -> u32 {
    let (middle, away) = (extent / 2, place.div_ceil(2));
    if place % 2 == 1 { middle - away } else { middle + away }
}

/// Slots of the combs of an `n` x `n` mesh (reference section 3): in a row, the link from column `c` to the
/// right serves class `k` in slots `u_k + c`, to the left in slots `w_k + (n - 1 - c)`, modulo `n + 1`;
/// columns alike. The class of a comb's teeth is its number, that of its spine `n`.
fn closed_form<'a>(fabric: &Fabric, n: u32, combs: &[Comb], trees: &'a [Tree]) -> Table<'a> {
    let period = n + 1;
    Table::at_residues(fabric, trees, period, |index, edge, op| {
        let (comb, (from, to)) = (&combs[index], trees[index].ends(edge, op));
        let along_row = from / n == to / n;
        let is_tooth = along_row == (comb.first == 1);
        let class = if is_tooth { comb.centre[comb.first] } else { n };
        let place = if along_row { from % n } else { from / n };
        if to > from {
            ((2 * n - class) % period + place) % period
        } else {
            (class + u32::from(n.is_multiple_of(2)) + n - 1 - place) % period
        }
    })
}

fn lcm(a: u128, b: u128) -> u128 {
    a / gcd(a, b) * b
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::System;

    const GRIDS: [&str; 20] = [
        "mesh:2x2",
        "mesh:3x3",
        "mesh:8x8",
        "mesh:3x5",
        "mesh:5x3",
        "mesh:4x8",
        "mesh:2x7",
        "mesh:6",
        "mesh:1x4",
        "mesh:4x4x4",
        "mesh:2x3x4",
        "ring:5",
        "ring:2",
        "torus:4x4",
        "torus:2x3x2",
        "torus:3x4x5",
        "fc:5",
        "fbfly:4x4",
        "fbfly:2x3x4",
        "hypercube:4",
    ];

    fn product(spec: &str) -> (Fabric, Product) {
        let fabric = Fabric::parse(spec).unwrap();
        let product = Product::new(fabric.grid().unwrap());
        (fabric, product)
    }

    /// Reference section 2: all combs together load every edge equally, each is a spanning tree, and on
    /// meshes there are as few as published.
    #[test]
    fn all_edges_are_loaded_equally() {
        for spec in GRIDS {
            let (fabric, product) = product(spec);
            let combs = product.combs(usize::MAX);
            let mut trees = vec![0; fabric.links.len()];
            for comb in &combs {
                let parents = product.parents(comb);
                assert_eq!(parents.iter().filter(|parent| parent.is_none()).count(), 1, "{spec}: {comb:?}");
                for (node, parent) in (0..).zip(&parents) {
                    let steps = std::iter::successors(*parent, |&parent| parents[parent as usize]).take(parents.len());
                    assert!(steps.count() < parents.len(), "{spec}: {comb:?} has a cycle");
                    if let Some(parent) = *parent {
                        trees[fabric.link_between(node, parent).unwrap() as usize] += 1;
                        trees[fabric.link_between(parent, node).unwrap() as usize] += 1;
                    }
                }
            }
            let each = 2 * combs.len() * (fabric.ranks() - 1) / fabric.links.len();
            assert!(trees.iter().all(|&trees| trees == each), "{spec}: {} combs, {trees:?}", combs.len());
        }
        let count = |spec| product(spec).1.combs(usize::MAX).len();
        assert_eq!(["mesh:8x8", "mesh:9x9", "mesh:3x5", "mesh:4x8", "torus:8x8"].map(count), [16, 18, 11, 52, 128]);
    }

    /// What lies within a few combs of the start is spread over all dimensions and places.
    #[test]
    fn the_first_combs_differ() {
        let (_, torus) = product("torus:4x4");
        let combs = torus.combs(8);
        for first in [0, 1] {
            for at in [0, 1] {
                let mut places: Vec<u32> =
                    combs.iter().filter(|comb| comb.first == first).map(|comb| comb.centre[at]).collect();
                places.sort_unstable();
                assert_eq!(places, [0, 1, 2, 3]);
            }
        }
        assert_eq!((0..5).map(|place| middle_out(place, 5)).collect::<Vec<_>>(), [2, 1, 3, 0, 4]);
    }

    /// Reference section 3: the first round ends after 2 (n + floor(n / 2)) slots, and no link has two pieces
    /// in a slot.
    #[test]
    fn squares_take_the_published_slots() {
        for n in 3..=32 {
            let (fabric, product) = product(&format!("mesh:{n}x{n}"));
            let combs = product.combs(usize::MAX);
            let system = System::preset("ideal").unwrap();
            let mut planter = Planter::new(&fabric, &system);
            let trees = planter.plant_all(combs.iter().map(|comb| product.parents(comb)));
            let table = closed_form(&fabric, n, &combs, &trees);
            assert_eq!(table.last(), 2 * (n + n / 2), "{n}x{n}");
            table.assert_free();
        }
    }
}
