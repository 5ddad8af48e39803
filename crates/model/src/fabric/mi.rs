//! Boxes of AMD Instinct GPUs joined by xGMI without switches, and the network between them.

use super::machine::{BOXES, LinkKind, RAW, check_boxes, given, gpus, network, nics};
use super::product::{DimensionShape, Product};
use super::spec::{FabricPreset, PresetRequest};
use super::{Fabric, Link, Node, NodeId, Shape};
use antiphon_base::error::Result;

pub(super) const BOX_MI250: FabricPreset = FabricPreset::new(
    "mi250",
    "mi250:1",
    "boxes of 16 dies of MI250 joined by xGMI, all dies on one switch; usable rates, or :raw",
    |request| Some(mi250(request, request.sizes()?)),
)
.with(&[RAW]);

pub(super) const BOX_MI300X: FabricPreset = FabricPreset::new(
    "mi300x",
    "mi300x:1",
    "boxes of eight MI300X, a link a pair, a NIC a GPU, eight rails; usable rates, or :raw",
    |request| Some(mi300x(request, request.sizes()?)),
)
.with(BOXES);

/// Graphics compute dies, two a GPU, in a box of eight MI250: each is a rank.
const DIES: u32 = 16;

/// Pairs of dies and the number of links that join them (topologies of ForestColl, github.com/liangyuRain/ForestColl):
/// four between the dies of a GPU, six or seven a die in all.
const PAIRS: [(u32, u32, u32); 28] = [
    (0, 1, 4),
    (0, 4, 2),
    (0, 8, 1),
    (1, 5, 1),
    (1, 9, 1),
    (1, 10, 1),
    (2, 3, 4),
    (2, 6, 1),
    (2, 9, 1),
    (2, 10, 1),
    (3, 7, 2),
    (3, 11, 1),
    (4, 5, 4),
    (4, 6, 1),
    (5, 6, 1),
    (5, 7, 1),
    (6, 7, 4),
    (8, 9, 4),
    (8, 12, 2),
    (9, 13, 1),
    (10, 11, 4),
    (10, 14, 1),
    (11, 15, 2),
    (12, 13, 4),
    (12, 14, 1),
    (13, 14, 1),
    (13, 15, 1),
    (14, 15, 4),
];

/// Row and column of the dies of a box in a drawing: the dies of a GPU side by side, GPUs in two columns.
fn place(die: u32) -> [f64; 2] {
    let (column, row) = (die / 8, die % 8 / 2);
    [f64::from(2 * row + die % 2), f64::from(3 * column) + 1.2 * f64::from(die % 2)]
}

/// GPUs in a box of MI300X.
const GPUS: u32 = 8;

/// Boxes of 16 dies of MI250. Parallel links between two dies are one link with the rate of all. Every die of several
/// boxes is joined to one switch.
///
/// # Errors
/// As [`check_boxes`] and [`given`].
fn mi250(request: &PresetRequest, [boxes]: [u32; 1]) -> Result<Fabric> {
    check_boxes(request.name, boxes, DIES)?;
    let (xgmi, ib) = inside_and_between("mi250", request, boxes)?;
    let (mut nodes, mut links) = (gpus(boxes, DIES, 7.0, place), vec![]);
    for first in (0..boxes).map(|at| at * DIES) {
        for (a, b, count) in PAIRS {
            links.extend(xgmi.times(count).both(first + a, first + b));
        }
    }
    if let Some(ib) = ib {
        let switch = nodes.len() as NodeId;
        nodes.push(Node::switch("ib.0", [9.0, f64::from(7 * boxes - 3) / 2.0]));
        links.extend((0..switch).flat_map(|rank| ib.both(rank, switch)));
    }
    Fabric::new(request.name, Shape::Graph, nodes, links)
}

/// Boxes of eight MI300X: every pair of a box has a link, and GPU `g` of several boxes is joined to rail `g` by its
/// NIC.
///
/// # Errors
/// As [`check_boxes`] and [`given`].
fn mi300x(request: &PresetRequest, [boxes]: [u32; 1]) -> Result<Fabric> {
    check_boxes(request.name, boxes, GPUS)?;
    nics(request, boxes, GPUS)?;
    let (xgmi, rail) = inside_and_between("mi300x", request, boxes)?;
    // An arc, so that no link of a clique lies on another.
    let mut nodes = gpus(boxes, GPUS, 3.0, |gpu| {
        let row = f64::from(gpu);
        [row, -(row - 3.5).powi(2) / 8.0]
    });
    let mut links: Vec<Link> = vec![];
    for rank in 0..boxes * GPUS {
        let peers = (0..GPUS).map(|gpu| rank - rank % GPUS + gpu);
        links.extend(peers.filter(|&peer| peer != rank).map(|peer| xgmi.link(rank, peer)));
    }
    let inside = xgmi.dimension(DimensionShape::Clique, GPUS);
    let dimensions = match rail {
        Some(rail) => network(request, (&mut nodes, &mut links), &rail, [boxes, GPUS], f64::from(3 * boxes))?
            .map(|rails| vec![inside, rails]),
        None => Some(vec![inside]),
    };
    let product = |dimensions| Shape::Product(Product::first_fastest(dimensions));
    Fabric::new(request.name, dimensions.map_or(Shape::Graph, product), nodes, links)
}

/// Links in a box and, of several, between them.
fn inside_and_between(machine: &str, request: &PresetRequest, boxes: u32) -> Result<(LinkKind, Option<LinkKind>)> {
    if boxes == 1 {
        return Ok((given::<1>(machine, request)?[0], None));
    }
    let [inside, between] = given(machine, request)?;
    Ok((inside, Some(between)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_base::units::Rate;

    #[test]
    fn a_die_has_six_or_seven_links_and_its_share_of_the_nics() {
        let fabric = Fabric::parse("mi250:2:raw").unwrap();
        assert_eq!((fabric.ranks(), fabric.nodes.len(), &fabric.shape), (32, 33, &Shape::Graph));
        for rank in 0..32 {
            let links = fabric.rate_out(rank, "xgmi") / 50_000_000_000;
            assert!((6..=7).contains(&links), "{rank}: {links}");
            assert_eq!(fabric.rate_out(rank, "ib"), 16_000_000_000);
        }
        let usable = Fabric::parse("mi250:1@36/1us").unwrap();
        let pair = usable.link(usable.link_between(0, 1).unwrap());
        assert_eq!((pair.rate, pair.latency), (Some(Rate::gb_per_s(144)), Some(1_000_000)));
    }

    #[test]
    fn every_pair_of_mi300x_has_a_link() {
        let one = Fabric::parse("mi300x:1:raw").unwrap();
        assert_eq!((one.ranks(), one.links.len(), one.has_switches()), (8, 56, false));
        assert!((0..8).all(|rank| one.rate_out(rank, "xgmi") == 7 * 64_000_000_000));
        let clique = Fabric::parse("fc:8@64/700ns").unwrap();
        assert_eq!(one.product(), clique.product());
        let more = Fabric::parse("mi300x:4@48+50").unwrap();
        let along = &more.product().unwrap().dimensions;
        assert_eq!([along[0].link_rate(), along[1].rate], [48, 50].map(|rate| Some(Rate::gb_per_s(rate))));
        assert_eq!([along[0].shape, along[1].shape], [DimensionShape::Clique, DimensionShape::Switch]);
        assert!((0..32).all(|rank| more.rate_out(rank, "rail") == 50_000_000_000));
    }
}
