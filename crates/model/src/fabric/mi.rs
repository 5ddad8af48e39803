//! Boxes of AMD Instinct GPUs joined by xGMI without switches, and the network between them.

use super::machine::{LinkKind, check_boxes, given, gpus, rails};
use super::product::{DimensionShape, Product};
use super::spec::{FabricPreset, Parameters};
use super::{Fabric, Link, Node, NodeId, Shape};
use antiphon_base::error::Result;
use antiphon_base::units::Rate;

pub(super) const BOX_MI250: FabricPreset = FabricPreset::new(
    "mi250",
    "mi250:1",
    "boxes of 16 dies of MI250 joined by xGMI, all dies on one switch; raw rates",
    |request| {
        let [boxes] = request.sizes()?;
        Some(mi250(request.name, boxes, request.parameters))
    },
);

pub(super) const BOX_MI300X: FabricPreset = FabricPreset::new(
    "mi300x",
    "mi300x:1",
    "boxes of eight MI300X, a link a pair, a NIC a GPU, eight rails; raw rates",
    |request| {
        let [boxes] = request.sizes()?;
        Some(mi300x(request.name, boxes, request.parameters))
    },
);

/// Graphics compute dies, two a GPU, in a box of eight MI250: each is a rank.
const DIES: u32 = 16;

/// An xGMI link, and a die's share of the NICs (topologies of ForestColl, github.com/liangyuRain/ForestColl).
const MI250: [LinkKind; 2] = [LinkKind::new("xgmi", 50), LinkKind::new("ib", 16)];

/// Pairs of dies and the number of links that join them, from the same source: four between the dies of a GPU, six
/// or seven a die in all.
const PAIRS: [(u32, u32, u64); 28] = [
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

/// An xGMI link (128 GB/s both ways), and a NIC of 400 Gb/s a GPU (AMD, "Understanding RCCL bandwidth and xGMI
/// performance on AMD Instinct MI300X").
const MI300X: [LinkKind; 2] = [LinkKind::new("xgmi", 64), LinkKind::new("rail", 50)];

/// Boxes of 16 dies of MI250. Parallel links between two dies are one link with the rate of all. Every die of several
/// boxes is joined to one switch.
///
/// # Errors
/// As [`check_boxes`] and [`given`].
pub(super) fn mi250(name: &str, boxes: u32, parameters: &[Parameters]) -> Result<Fabric> {
    check_boxes(name, boxes, DIES)?;
    let (xgmi, ib) = if boxes == 1 {
        (given(name, [MI250[0]], parameters)?[0], None)
    } else {
        let [xgmi, ib] = given(name, MI250, parameters)?;
        (xgmi, Some(ib))
    };
    let (mut nodes, mut links) = (gpus(boxes, DIES, 7.0, place), vec![]);
    for first in (0..boxes).map(|at| at * DIES) {
        for (a, b, count) in PAIRS {
            let bundle = LinkKind { rate: Rate(xgmi.rate.0.saturating_mul(count)), ..xgmi };
            links.extend(bundle.both(first + a, first + b));
        }
    }
    if let Some(ib) = ib {
        let switch = nodes.len() as NodeId;
        nodes.push(Node::switch("ib.0", [9.0, f64::from(7 * boxes - 3) / 2.0]));
        links.extend((0..switch).flat_map(|rank| ib.both(rank, switch)));
    }
    Fabric::new(name, Shape::Graph, nodes, links)
}

/// Boxes of eight MI300X: every pair of a box has a link, and GPU `g` of several boxes is joined to rail `g` by its
/// NIC.
///
/// # Errors
/// As [`check_boxes`] and [`given`].
pub(super) fn mi300x(name: &str, boxes: u32, parameters: &[Parameters]) -> Result<Fabric> {
    check_boxes(name, boxes, GPUS)?;
    let (xgmi, rail) = if boxes == 1 {
        (given(name, [MI300X[0]], parameters)?[0], None)
    } else {
        let [xgmi, rail] = given(name, MI300X, parameters)?;
        (xgmi, Some(rail))
    };
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
    let mut dimensions = vec![xgmi.dimension(DimensionShape::Clique, GPUS)];
    if let Some(rail) = rail {
        dimensions.push(rails((&mut nodes, &mut links), &rail, [boxes, GPUS], f64::from(3 * boxes)));
    }
    Fabric::new(name, Shape::Product(Product::first_fastest(dimensions)), nodes, links)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_die_has_six_or_seven_links_and_its_share_of_the_nics() {
        let fabric = Fabric::parse("mi250:2").unwrap();
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
        let one = Fabric::parse("mi300x:1").unwrap();
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
