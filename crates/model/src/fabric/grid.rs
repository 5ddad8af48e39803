//! Grids: meshes, tori and flattened butterflies of any dimension; ring, fully connected and
//! hypercube are one-dimensional or two-wide cases. Their options say how long links are, what the ports of a node
//! share, and what is added to them.

use super::floor::FloorPlan;
use super::link::parse_rate;
use super::machine::{RAW, of_one_kind};
use super::product::{Coordinates, Dimension, DimensionShape, Product};
use super::spec::{FabricPreset, PresetRequest, dimensions};
use super::{Fabric, Link, MAX_LINKS, MAX_RANKS, Node, Shape};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::options::{
    Default::{Derived, Fixed},
    Opt,
};
use antiphon_base::parameter::Value;
use antiphon_base::units::{Rate, parse_length};

pub(super) const PITCH: Opt = Opt::spec(
    "pitch",
    "a length such as 2mm",
    |text| parse_length(text).map(drop),
    Derived("lengths are not known"),
    "Distance of neighbouring nodes, from which the length of every link follows.",
);
const FOLDED: Opt =
    Opt::flag("folded", Fixed("no"), "Rings are folded: no link is longer than two pitches; needs pitch.");
const STACK: Opt = Opt::spec(
    "stack",
    "a length such as 50um",
    |text| parse_length(text).map(drop),
    Derived("all nodes are on one floor"),
    "Distance of layers: the first dimension is vertical.",
);
const IO: Opt = Opt::spec(
    "io",
    "a rate such as 100GB/s",
    |text| parse_rate(text).map(drop),
    Derived("links have rates of their own"),
    "What all ports of a node send together: each has its share, that of a node with most ports.",
);
const EXPRESS: Opt = Opt::count(
    "express",
    2,
    4096,
    Derived("none"),
    "Express cube: every so many nodes of a line are joined by links, too (Dally, IEEE ToC 1991).",
);
const CONCENTRATION: Opt =
    Opt::count("concentration", 1, 4096, Fixed("1"), "Ranks of a router, which is then a switch.");

pub(super) const MESH: FabricPreset =
    FabricPreset::new("mesh", "mesh:8x8", "mesh of any dimension, slowest first (rows x columns)", |request| {
        of_any_size(request, DimensionShape::Line)
    })
    .with(&[PITCH, STACK, IO, EXPRESS, CONCENTRATION]);

pub(super) const TORUS: FabricPreset =
    FabricPreset::new("torus", "torus:4x4x4", "mesh with wrap-around links", |request| {
        of_any_size(request, DimensionShape::Ring)
    })
    .with(&[PITCH, FOLDED, STACK, IO, CONCENTRATION]);

pub(super) const RING: FabricPreset =
    FabricPreset::new("ring", "ring:16", "one-dimensional torus", |request| of_one_size(request, DimensionShape::Ring))
        .with(&[PITCH, FOLDED, IO]);

pub(super) const FC: FabricPreset = FabricPreset::new("fc", "fc:8", "every rank joined to every other", |request| {
    of_one_size(request, DimensionShape::Clique)
})
.with(&[PITCH, IO]);

pub(super) const FBFLY: FabricPreset =
    FabricPreset::new("fbfly", "fbfly:8x8", "flattened butterfly: rows and columns fully joined", |request| {
        of_any_size(request, DimensionShape::Clique)
    })
    .with(&[PITCH, STACK, IO, CONCENTRATION]);

pub(super) const HYPERCUBE: FabricPreset =
    FabricPreset::new("hypercube", "hypercube:4", "two ranks in each of so many dimensions", hypercube)
        .with(&[PITCH, STACK, IO]);

pub(super) const UB_MESH: FabricPreset = FabricPreset::new(
    "ub-mesh",
    "ub-mesh:2x2x4x4",
    "n-D full mesh, racks x boards x NPUs say: UB-Mesh (arXiv 2503.20377)",
    |request| of_any_size(request, DimensionShape::Clique),
)
.with(&[PITCH, STACK, IO]);

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
    Some(with_options(request, shape, &sizes))
}

fn of_one_size(request: &PresetRequest, shape: DimensionShape) -> Option<Result<Fabric>> {
    let [size] = request.sizes()?;
    Some(with_options(request, shape, &[size]))
}

fn hypercube(request: &PresetRequest) -> Option<Result<Fabric>> {
    let [count] = request.sizes()?;
    let most = MAX_RANKS.ilog2();
    if count > most {
        let message = format!("fabric '{}': a hypercube has at most {most} dimensions", request.name);
        return Some(Err(Error::new(Code::TooLarge, message)));
    }
    Some(with_options(request, DimensionShape::Line, &vec![2; count as usize]))
}

/// The grid of a request with what its options say, and parameters of its links.
fn with_options(request: &PresetRequest, shape: DimensionShape, sizes: &[u32]) -> Result<Fabric> {
    let given = |key| request.options.given(key);
    let io = given("io").map(|rate| parse_rate(rate.text())).transpose()?;
    let folded = given("folded").is_some_and(Value::flag);
    let ranks = given("concentration").map_or(1, Value::whole) as u32;
    if folded && given("pitch").is_none() {
        return Err(request.refused("folded needs pitch=, as in torus:8x8:pitch=2mm,folded"));
    }
    if io.is_some() && request.gives_rates() {
        return Err(request.refused("io and @ both give rates; write one of them, and @/20ns for a latency alone"));
    }
    let Fabric { shape: mut structure, nodes, mut links, .. } = grid(request.name, shape, sizes)?;
    let coordinates = Coordinates::last_fastest(sizes.to_vec());
    let mut labels: Vec<String> = (0..sizes.len()).map(|dimension| label(dimension, sizes.len())).collect();
    let every = given("express").map(|every| every.whole() as u32);
    if let Some(every) = every {
        let express = express_links(&coordinates, every);
        if express.is_empty() {
            let what = format!("express={every} joins no nodes; write less than the size of a dimension");
            return Err(request.refused(what));
        }
        links.extend(express);
        labels.push(EXPRESS_LINK.into());
    }
    let plan = FloorPlan::new(sizes, request.length_um("pitch")?, request.length_um("stack")?, folded);
    for link in &mut links {
        let dimension = coordinates.differ(link.from, link.to).unwrap_or(0);
        let ends = [link.from, link.to].map(|node| coordinates.of(node, dimension));
        link.length_um = plan.length_um(dimension, shape, ends).map_err(|error| request.refused(error.message))?;
    }
    if let Some(io) = io {
        let rate = Some(Rate((io.0 / most_ports(nodes.len(), &links)).max(1)));
        links.iter_mut().for_each(|link| link.rate = rate);
        if let Shape::Product(product) = &mut structure {
            product.dimensions.iter_mut().for_each(|dimension| *dimension = dimension.with_link_rate(rate));
        }
    }
    if every.is_none() && ranks == 1 {
        return request.with_parameters(Fabric::new(request.name, structure, nodes, links));
    }
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let fabric = request.with_labelled(&labels, Fabric::new(request.name, Shape::Graph, nodes, links))?;
    if ranks == 1 { Ok(fabric) } else { concentrated(fabric, ranks, io) }
}

/// Label of the links that an express cube has beside those of its mesh.
const EXPRESS_LINK: &str = "express";

/// Links from every `every`-th node of each line to the next such node, and back ("Express Cubes: Improving the
/// Performance of k-ary n-cube Interconnection Networks", Dally, IEEE ToC 1991; the interchanges are nodes here).
fn express_links(coordinates: &Coordinates, every: u32) -> Vec<Link> {
    let mut links = vec![];
    for node in 0..coordinates.count() {
        for (dimension, &size) in coordinates.sizes().iter().enumerate() {
            let at = coordinates.of(node, dimension);
            if at.is_multiple_of(every) && every < size - at {
                let link = Link::new(node, coordinates.with(node, dimension, at + every), EXPRESS_LINK);
                links.extend([link.reversed(), link].into_iter().rev());
            }
        }
    }
    links
}

/// Links out of a node that has most of them.
fn most_ports(nodes: usize, links: &[Link]) -> u64 {
    let mut ports = vec![0; nodes];
    links.iter().for_each(|link| ports[link.from as usize] += 1);
    ports.into_iter().max().unwrap_or(1)
}

/// A fabric whose nodes become switches with so many ranks each, numbered switch by switch. A rank is on the chip of
/// its switch: its links have no length, latency or energy, and carry all that the ports of the switch share, or as
/// much as the fastest of them.
///
/// # Errors
/// [`Code::TooLarge`] past [`MAX_RANKS`]; those of [`Fabric::new`].
fn concentrated(routers: Fabric, each: u32, io: Option<Rate>) -> Result<Fabric> {
    let Fabric { name, nodes, mut links, .. } = routers;
    let ranks = nodes.len() * each as usize;
    if ranks > MAX_RANKS {
        return Err(Error::new(Code::TooLarge, format!("fabric '{name}' has {ranks} ranks; at most {MAX_RANKS}")));
    }
    let rate = io.or(links.iter().filter_map(|link| link.rate).max());
    for link in &mut links {
        (link.from, link.to) = (link.from + ranks as u32, link.to + ranks as u32);
    }
    let mut all = Vec::with_capacity(ranks + nodes.len());
    for (router, rank) in (0..nodes.len()).flat_map(|router| std::iter::repeat_n(router, each as usize)).zip(0..) {
        let host = Link { rate, latency: Some(0), energy: Some(0), length_um: Some(0), ..Link::new(rank, 0, "host") };
        let host = Link { to: (ranks + router) as u32, ..host };
        links.extend([host.reversed(), host].into_iter().rev());
        let mut place = nodes[router].coords.clone();
        let last = place.last_mut().expect("a grid has dimensions");
        // Side by side before their router.
        *last += (f64::from(rank % each) + 0.5) / f64::from(each) - 0.5;
        all.push(Node::rank(rank, place));
    }
    all.extend(nodes.into_iter().map(|node| Node::switch(format!("router{}", node.name), node.coords)));
    Fabric::new(name, Shape::Graph, all, links)
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
pub(super) fn label(index: usize, count: usize) -> String {
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
