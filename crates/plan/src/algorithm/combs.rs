//! Combs: a packing of spanning trees that loads every link of a product as its rate allows, reduction and broadcast
//! at once, so that AllReduce reaches the physical limit.
//!
//! Comb `j` of the rows of a mesh has every row's edges and those of column `j`; the combs of the columns
//! are the transpose. Together they use every edge equally often (docs/explanation/combs.md).
//! On other products, of any dimension, what takes the place of a row's path is a tree of the row that
//! loads it equally when turned to every place: a ring without the edge opposite, the star of a clique. Where
//! dimensions have different rates, so do the numbers of their combs; a dimension too fast for what any trees can send
//! over it comes first in all of them, and the others are full.
//! The optimum is Tutte's and Nash-Williams' strength; packing trees for collectives is Blink's idea,
//! overlapping reduction and broadcast C-Cube's.

use super::estimate::flit_times_of_ranks;
use super::tree::{self, Planter, Priority, Table, Tree, TreeWork};
use super::{ALIGN, Algorithm, Info, Placed, Request};
use antiphon_base::error::Result;
use antiphon_base::units::Rate;
use antiphon_model::collective::Kind;
use antiphon_model::fabric::{Dimension, DimensionShape, Fabric, Product, split};
use antiphon_model::schedule::Schedule;

/// See the module.
pub struct Combs;

const INFO: Info = Info {
    name: "combs",
    summary: "spanning trees that load every link of a grid as its rate allows, reduction and broadcast at once",
    options: &[tree::PIECE, ALIGN],
    source: "Tutte and Nash-Williams; tree packing: Blink; overlap: C-Cube",
    collectives: &[Kind::AllReduce],
};

impl Algorithm for Combs {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        let Some((placed, packing, combs, planted)) = planted(request) else {
            return request
                .refuse("it needs an intact mesh, torus or flattened butterfly; forest takes others without switches");
        };
        let flit_times = flit_times_of_ranks(request);
        let widths = tree::widths(&flit_times);
        let alike = flit_times.iter().all(|&time| time == flit_times[0]);
        // Row and column of every rank.
        let mut places = vec![[0; 2]; placed.ranks.len()];
        if packing.square_mesh().is_some() {
            let of = |position, at| packing.product.coordinates.of(position, at);
            (0..).zip(&placed.ranks).for_each(|(at, &rank)| places[rank as usize] = [of(at, 0), of(at, 1)]);
        }
        let tables = tree::prefixes(planted.len()).map(|count| match packing.square_mesh() {
            Some(n) if alike && count == combs.len() => closed_form(request.fabric, n, &places, &combs, &planted),
            _ => Table::listed(&planted[..count], widths.clone(), Priority::Farthest, TreeWork::Overlapped),
        });
        tree::stream(request, tables)
    }
}

/// A request's product, if it has no switches, its packing, and combs on its links.
fn planted<'a>(request: &Request<'a>) -> Option<(Placed<'a>, CombProduct, Vec<Comb>, Vec<Tree>)> {
    let placed = request.product().filter(|placed| placed.product.is_direct())?;
    let packing = CombProduct::new(placed.product, request.system.link_rate);
    let combs = packing.combs(tree::most(request));
    let mut planter = Planter::new(request.fabric, request.system);
    let trees = planter.plant_all(combs.iter().map(|comb| placed.by_rank(&packing.parents(comb))));
    Some((placed, packing, combs, trees))
}

/// Combs on the links of a request's fabric, if it is a product without switches.
pub(super) fn trees(request: &Request) -> Option<Vec<Tree>> {
    Some(planted(request)?.3)
}

/// A comb: lines along the first dimension of an order everywhere, along the next one where they cross at the centre,
/// and so on. Every line is a tree around the coordinate of the centre, which is the root.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Comb {
    order: Vec<usize>,
    centre: Vec<u32>,
}

/// A product without dimensions of extent 1, whose neighbours are joined by links of their own.
struct CombProduct {
    product: Product,
    /// Rate of a link of each dimension, as whole numbers without common factor.
    rates: Vec<u128>,
}

/// Rates are told apart to this part of the slowest.
const FINEST: u128 = 64;
/// Above this all are too fast for what trees can send.
const FASTEST: u128 = 1 << 26;
/// Most parts by which shares of orders are approached.
const MOST_PARTS: u64 = 32;

impl CombProduct {
    fn new(product: &Product, system_rate: Rate) -> CombProduct {
        let product = product.without_ones();
        let rate = |along: &Dimension| u128::from(along.link_rate().unwrap_or(system_rate).0);
        let rates: Vec<u128> = product.dimensions.iter().map(rate).collect();
        let (common, slowest) =
            (rates.iter().copied().fold(0, num_integer::gcd), rates.iter().copied().min().unwrap_or(1));
        let unit = common.max(slowest / FINEST);
        let rates = rates.iter().map(|rate| ((rate + unit / 2) / unit).min(FASTEST)).collect();
        CombProduct { product, rates }
    }

    fn extents(&self) -> &[u32] {
        self.product.coordinates.sizes()
    }

    /// How the nodes along a dimension are joined; two in any way are a line.
    fn line(&self, at: usize) -> DimensionShape {
        if self.extents()[at] == 2 { DimensionShape::Line } else { self.product.dimensions[at].shape }
    }

    /// The side of a square mesh whose links are all alike.
    fn square_mesh(&self) -> Option<u32> {
        match *self.extents() {
            [rows, columns] if rows == columns => {
                let lines = [0, 1].map(|at| (self.line(at), self.rates[at])) == [(DimensionShape::Line, 1); 2];
                lines.then_some(rows)
            }
            _ => None,
        }
    }

    /// Combs such that all links are loaded as their rates allow, or the first `most` of these; a part from the start
    /// loads them about so.
    fn combs(&self, most: usize) -> Vec<Comb> {
        let shares = self.shares();
        let counts: Vec<u64> = shares.iter().map(|(order, _)| self.count(order)).collect();
        // How often each of an order's combs is needed, as whole numbers without common factor.
        let common = counts.iter().fold(1u128, |common, &count| num_integer::lcm(common, count.into()));
        let copies: Vec<u128> =
            shares.iter().zip(&counts).map(|((_, share), &count)| share * common / count as u128).collect();
        let factor = copies.iter().fold(0, |factor, &copies| num_integer::gcd(factor, copies));
        let total: u128 = copies.iter().zip(&counts).map(|(copies, &count)| copies / factor * count as u128).sum();
        let mut taken = vec![0u64; shares.len()];
        let next = |_| {
            // The order that is the farthest behind its share; the last, e.g. rows, first.
            let behind = |&one: &usize, &other: &usize| {
                let of = |a: usize, b: usize| u128::from(taken[a] + 1) * shares[b].1;
                of(one, other).cmp(&of(other, one)).then(other.cmp(&one))
            };
            let at = (0..shares.len()).min_by(behind).expect("a grid has a dimension");
            taken[at] += 1;
            self.comb(&shares[at].0, (taken[at] - 1) % counts[at])
        };
        (0..total.min(most as u128)).map(next).collect()
    }

    /// Orders of dimensions, and their shares of the combs, so that all links are loaded as their rates allow.
    ///
    /// With `e` edges of rate `c` on a line of `n` nodes, a tree in it loads each by `1 / w` on average, where
    /// `w = c e / (n - 1)`. Combs that start with dimension `i` load dimension `i + 1` in one of `n_i` lines and so on,
    /// so that loads are equal if the share is `w_i - w_h / n_h`, where `h` comes before `i` cyclically. Where that
    /// is negative, other orders take part too, in the shares of [`split::orders`].
    fn shares(&self) -> Vec<(Vec<usize>, u128)> {
        let dimensions = self.extents().len();
        let edges = |at: usize| {
            let n = u128::from(self.extents()[at]);
            let edges = match self.line(at) {
                DimensionShape::Ring => n,
                DimensionShape::Clique => n * (n - 1) / 2,
                _ => n - 1,
            };
            (self.rates[at] * edges, n)
        };
        let scale = (0..dimensions).map(|at| edges(at).1 * (edges(at).1 - 1)).fold(1, num_integer::lcm);
        let share = |at: usize| {
            let ((own, n), (before, m)) = (edges(at), edges((at + dimensions - 1) % dimensions));
            let order = (at..at + dimensions).map(|at| at % dimensions).collect();
            Some((order, (scale / (n - 1) * own).checked_sub(scale / (m * (m - 1)) * before)?))
        };
        let shares: Option<Vec<(Vec<usize>, u128)>> = (0..dimensions).map(share).collect();
        let mut shares = shares.unwrap_or_else(|| {
            let (sizes, rates): (Vec<u64>, Vec<f64>) =
                (0..dimensions).map(edges).map(|(edges, n)| (n as u64, edges as f64 / n as f64)).unzip();
            let orders = split::whole_orders(&sizes, &rates, MOST_PARTS);
            orders.into_iter().map(|(order, parts)| (order, parts.into())).collect()
        });
        shares.retain(|(_, share)| *share > 0);
        shares
    }

    /// Different combs of an order: one for every place of its lines' trees, where the
    /// place of the last path, which is whole, does not matter.
    fn count(&self, order: &[usize]) -> u64 {
        self.places(order).map(|at| u64::from(self.extents()[at])).product()
    }

    /// Dimensions of an order in which the place of the centre matters.
    fn places(&self, order: &[usize]) -> impl Iterator<Item = usize> {
        let last = order.last().copied();
        order.iter().copied().filter(move |&at| Some(at) != last || self.line(at) != DimensionShape::Line)
    }

    /// Comb `index` of those of an order: middle ones first, neighbours in the list apart in
    /// every dimension.
    fn comb(&self, order: &[usize], mut index: u64) -> Comb {
        let mut centre: Vec<u32> = self.extents().iter().map(|extent| extent / 2).collect();
        let mut place = 0;
        for at in self.places(order) {
            let extent = self.extents()[at];
            place = (place + (index % u64::from(extent)) as u32) % extent;
            index /= u64::from(extent);
            centre[at] = middle_out(place, extent);
        }
        Comb { order: order.to_vec(), centre }
    }

    /// The position above every position.
    fn parents(&self, comb: &Comb) -> Vec<Option<u32>> {
        let coordinates = &self.product.coordinates;
        let parent = |position: u32| {
            let &at = comb.order.iter().find(|&&at| coordinates.of(position, at) != comb.centre[at])?;
            let (from, to, extent) = (coordinates.of(position, at), comb.centre[at], self.extents()[at]);
            let next = match self.line(at) {
                DimensionShape::Ring if (from + extent - to) % extent <= extent / 2 => (from + extent - 1) % extent,
                // Beyond the opposite node lies the edge left out.
                DimensionShape::Ring => (from + 1) % extent,
                DimensionShape::Line if from < to => from + 1,
                DimensionShape::Line => from - 1,
                _ => to,
            };
            Some(coordinates.with(position, at, next))
        };
        (0..coordinates.count()).map(parent).collect()
    }
}

/// The numbers below `extent` from the middle outwards.
fn middle_out(place: u32, extent: u32) -> u32 {
    let (middle, away) = (extent / 2, place.div_ceil(2));
    if place % 2 == 1 { middle - away } else { middle + away }
}

/// Slots of the combs of an `n` x `n` mesh whose ranks have these rows and columns: in a row, the link from column `c` to
/// the right serves class `k` in slots `u_k + c`, to the left in slots `w_k + (n - 1 - c)`, modulo `n + 1`;
/// columns alike. The class of a comb's teeth is its number, that of its spine `n`. See docs/explanation/combs.md.
fn closed_form<'a>(fabric: &Fabric, n: u32, places: &[[u32; 2]], combs: &[Comb], trees: &'a [Tree]) -> Table<'a> {
    let period = n + 1;
    Table::at_residues(fabric, trees, period, |index, edge, op| {
        let (comb, (from, to)) = (&combs[index], trees[index].ends(edge, op));
        let first = comb.order[0];
        let (from, to) = (places[from as usize], places[to as usize]);
        let along = usize::from(from[0] == to[0]);
        let class = if along == first { comb.centre[first] } else { n };
        let place = from[along];
        if to[along] > place {
            ((2 * n - class) % period + place) % period
        } else {
            (class + u32::from(n.is_multiple_of(2)) + n - 1 - place) % period
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_model::system::System;

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

    fn packing(spec: &str) -> (Fabric, CombProduct) {
        let fabric = Fabric::parse(spec).unwrap();
        let packing = CombProduct::new(fabric.product().unwrap(), Rate::gb_per_s(25));
        (fabric, packing)
    }

    /// Products with unlike rates, all of whose links can be full.
    const UNLIKE: [&str; 7] = [
        "mesh:4x4@100+50",
        "mesh:8x8@50+100",
        "mesh:4x4x4@100+50+25",
        "torus:4x4x4@100+25+25",
        "torus:3x4@50+33",
        "fbfly:4x8@50+25",
        "hypercube:3@1+1+2",
    ];

    /// How many trees use every link; each is a spanning tree.
    fn loads(fabric: &Fabric, packing: &CombProduct, combs: &[Comb]) -> Vec<usize> {
        let mut trees = vec![0; fabric.links.len()];
        for comb in combs {
            let parents = packing.parents(comb);
            assert_eq!(parents.iter().filter(|parent| parent.is_none()).count(), 1, "{}: {comb:?}", fabric.name);
            for (node, parent) in (0..).zip(&parents) {
                let steps = std::iter::successors(*parent, |&parent| parents[parent as usize]).take(parents.len());
                assert!(steps.count() < parents.len(), "{}: {comb:?} has a cycle", fabric.name);
                if let Some(parent) = *parent {
                    trees[fabric.link_between(node, parent).unwrap() as usize] += 1;
                    trees[fabric.link_between(parent, node).unwrap() as usize] += 1;
                }
            }
        }
        trees
    }

    /// All combs together load every link in proportion to its rate.
    #[test]
    fn unlike_links_are_loaded_by_their_rates() {
        for spec in UNLIKE {
            let (fabric, packing) = packing(spec);
            let combs = packing.combs(usize::MAX);
            let loads = loads(&fabric, &packing, &combs);
            let rate = |link: usize| fabric.links[link].rate.unwrap().0;
            for (link, &load) in loads.iter().enumerate() {
                assert_eq!(load as u64 * rate(0), loads[0] as u64 * rate(link), "{spec}: link {link}");
            }
        }
    }

    /// A dimension too fast for what trees can send over it comes first in all of them; the others are full.
    #[test]
    fn too_fast_dimensions_come_first() {
        for (spec, fast, orders) in [
            ("torus:4x4x4@200+25+25", 0, &[[0, 1, 2], [0, 2, 1]][..]),
            ("torus:4x4x4@25+200+25", 1, &[[1, 0, 2], [1, 2, 0]]),
            ("torus:4x4x4@1+2+1000000", 2, &[[2, 0, 1], [2, 1, 0]]),
        ] {
            let (fabric, packing) = packing(spec);
            let combs = packing.combs(usize::MAX);
            assert!(combs.iter().all(|comb| orders.iter().any(|order| comb.order == order)), "{spec}");
            let loads = loads(&fabric, &packing, &combs);
            let slowest = fabric.links.iter().map(|link| link.rate.unwrap().0).min().unwrap();
            let busy = |link: usize| loads[link] as f64 / fabric.links[link].rate.unwrap().0 as f64;
            let most = (0..loads.len()).map(busy).fold(0.0, f64::max);
            for (id, link) in fabric.links.iter().enumerate() {
                assert!(link.rate != Some(Rate(slowest)) || busy(id) > 0.99 * most, "{spec}: {id}");
                let label = ["z", "y", "x"][fast];
                assert!(link.dimension != label || busy(id) < 0.99 * most, "{spec}: {id}");
            }
        }
    }

    /// All combs together load every edge equally, each is a spanning tree, and on meshes there are no more than the
    /// shares of docs/explanation/combs.md need.
    #[test]
    fn all_edges_are_loaded_equally() {
        for spec in GRIDS {
            let (fabric, packing) = packing(spec);
            let combs = packing.combs(usize::MAX);
            let trees = loads(&fabric, &packing, &combs);
            let each = 2 * combs.len() * (fabric.ranks() - 1) / fabric.links.len();
            assert!(trees.iter().all(|&trees| trees == each), "{spec}: {} combs, {trees:?}", combs.len());
        }
        let count = |spec| packing(spec).1.combs(usize::MAX).len();
        assert_eq!(["mesh:8x8", "mesh:9x9", "mesh:3x5", "mesh:4x8", "torus:8x8"].map(count), [16, 18, 11, 52, 128]);
    }

    /// What lies within a few combs of the start is spread over all dimensions and places.
    #[test]
    fn the_first_combs_differ() {
        let (_, torus) = packing("torus:4x4");
        let combs = torus.combs(8);
        for first in [0, 1] {
            for at in [0, 1] {
                let mut places: Vec<u32> =
                    combs.iter().filter(|comb| comb.order[0] == first).map(|comb| comb.centre[at]).collect();
                places.sort_unstable();
                assert_eq!(places, [0, 1, 2, 3]);
            }
        }
        assert_eq!((0..5).map(|place| middle_out(place, 5)).collect::<Vec<_>>(), [2, 1, 3, 0, 4]);
    }

    /// By the closed form the first round ends after 2 (n + floor(n / 2)) slots, and no link has two pieces
    /// in a slot.
    #[test]
    fn squares_take_the_slots_of_the_closed_form() {
        for n in 3..=32 {
            let (fabric, packing) = packing(&format!("mesh:{n}x{n}"));
            let combs = packing.combs(usize::MAX);
            let system = System::preset("ideal").unwrap();
            let mut planter = Planter::new(&fabric, &system);
            let trees = planter.plant_all(combs.iter().map(|comb| packing.parents(comb)));
            let places: Vec<[u32; 2]> = (0..n * n).map(|rank| [rank / n, rank % n]).collect();
            let table = closed_form(&fabric, n, &places, &combs, &trees);
            assert_eq!(table.last(), 2 * (n + n / 2), "{n}x{n}");
            table.assert_free();
        }
    }
}
