//! DGX boxes of eight GPUs joined by NVSwitch, and the InfiniBand between them.

use super::machine::{LinkKind, check_boxes, given, gpus, rails};
use super::product::{DimensionShape, Product};
use super::spec::{FabricPreset, Parameters};
use super::{Fabric, Node, NodeId, Shape};
use antiphon_base::error::Result;

pub(super) const DGX_A100: FabricPreset = FabricPreset::new(
    "dgx-a100",
    "dgx-a100:2",
    "boxes of eight A100 on NVSwitch, a NIC a GPU, two InfiniBand switches; raw rates",
    |request| {
        let [boxes] = request.sizes()?;
        Some(a100(request.name, boxes, request.parameters))
    },
);

pub(super) const DGX_H100: FabricPreset = FabricPreset::new(
    "dgx-h100",
    "dgx-h100:2",
    "boxes of eight H100 or H200 on NVSwitch, a NIC a GPU, eight rails; raw rates",
    |request| {
        let [boxes] = request.sizes()?;
        Some(h100(request.name, boxes, request.parameters))
    },
);

/// GPUs in a box.
const GPUS: u32 = 8;

/// NVLinks of a GPU together, 12 of 25 GB/s, and a NIC of 200 Gb/s (NVIDIA's documents of DGX A100; topologies of
/// ForestColl, github.com/liangyuRain/ForestColl).
const A100: [LinkKind; 2] = [LinkKind::new("nvlink", 300), LinkKind::new("ib", 25)];

/// The same: 18 of 25 GB/s, and a NIC of 400 Gb/s (NVIDIA's documents of DGX H100; "Third-Generation NVSwitch").
const H100: [LinkKind; 2] = [LinkKind::new("nvlink", 450), LinkKind::new("rail", 50)];

/// Boxes of eight A100. The switches of a box are one node. As in ForestColl's topology every GPU has a NIC, which is a
/// node, and NICs with an even and with an odd number are joined by a switch each. A box by itself has no NICs and
/// is a [`Shape::Product`] of one switch, more are a graph: pairs of GPUs in different boxes are no longer joined by one
/// switch alone.
///
/// # Errors
/// As [`check_boxes`] and [`given`].
pub(super) fn a100(name: &str, boxes: u32, parameters: &[Parameters]) -> Result<Fabric> {
    check_boxes(name, boxes, GPUS)?;
    if boxes == 1 {
        let [nvlink] = given(name, [A100[0]], parameters)?;
        return one(name, "nvswitch0.0", &nvlink);
    }
    let [nvlink, ib] = given(name, A100, parameters)?;
    let (mut nodes, mut links) = (gpus(boxes, GPUS, 4.0, |gpu| [f64::from(gpu), 1.0]), vec![]);
    // Every box's switch and NICs; the switches between boxes come after those of the first box.
    let mut switches = [0; 2];
    for at in 0..boxes {
        let column = f64::from(4 * at);
        let nvswitch = nodes.len() as NodeId;
        nodes.push(Node::switch(format!("nvswitch{at}.0"), [3.5, column]));
        nodes.extend((0..GPUS).map(|nic| Node::switch(format!("mlx5{at}.{nic}"), [f64::from(nic), column + 2.0])));
        if at == 0 {
            switches = [nodes.len() as NodeId, nodes.len() as NodeId + 1];
            let middle = f64::from(2 * boxes) - 1.0;
            nodes.push(Node::switch("ib.0", [9.0, middle - 0.5]));
            nodes.push(Node::switch("ib.1", [9.0, middle + 0.5]));
        }
        for gpu in 0..GPUS {
            let (rank, nic) = (at * GPUS + gpu, nvswitch + 1 + gpu);
            links.extend(nvlink.both(rank, nvswitch));
            links.extend(ib.both(rank, nic));
            links.extend(ib.both(nic, switches[gpu as usize % 2]));
        }
    }
    Fabric::new(name, Shape::Graph, nodes, links)
}

/// Boxes of eight H100, or H200, that are a product of switches: those of a box are one node, and GPU `g` of all boxes
/// is joined to rail `g` by its NIC. A box by itself has no rails.
///
/// # Errors
/// As [`check_boxes`] and [`given`].
pub(super) fn h100(name: &str, boxes: u32, parameters: &[Parameters]) -> Result<Fabric> {
    check_boxes(name, boxes, GPUS)?;
    if boxes == 1 {
        let [nvlink] = given(name, [H100[0]], parameters)?;
        return one(name, "nvswitch0", &nvlink);
    }
    let [nvlink, rail] = given(name, H100, parameters)?;
    let (mut nodes, mut links) = (gpus(boxes, GPUS, 2.0, |gpu| [f64::from(gpu), 0.0]), vec![]);
    let ranks = nodes.len() as NodeId;
    nodes.extend((0..boxes).map(|at| Node::switch(format!("nvswitch{at}"), [3.5, f64::from(2 * at) + 1.0])));
    links.extend((0..ranks).flat_map(|rank| nvlink.both(rank, ranks + rank / GPUS)));
    let between = rails((&mut nodes, &mut links), &rail, [boxes, GPUS], f64::from(2 * boxes));
    let product = Product::first_fastest(vec![nvlink.dimension(DimensionShape::Switch, GPUS), between]);
    Fabric::new(name, Shape::Product(product), nodes, links)
}

/// One box: GPUs around a switch.
fn one(name: &str, switch: &str, nvlink: &LinkKind) -> Result<Fabric> {
    let mut nodes = gpus(1, GPUS, 0.0, |gpu| [f64::from(gpu), 0.0]);
    nodes.push(Node::switch(switch, [3.5, 1.0]));
    let links = (0..GPUS).flat_map(|rank| nvlink.both(rank, GPUS)).collect();
    let product = Product::first_fastest(vec![nvlink.dimension(DimensionShape::Switch, GPUS)]);
    Fabric::new(name, Shape::Product(product), nodes, links)
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_base::units::Rate;

    #[test]
    fn rates_of_a_gpu_and_of_a_box() {
        for (spec, label, inside, outside) in [("dgx-a100:3", "ib", 300, 25), ("dgx-h100:3", "rail", 450, 50)] {
            let [inside, outside] = [inside, outside].map(|gb_per_s| Rate::gb_per_s(gb_per_s).0);
            let fabric = Fabric::parse(spec).unwrap();
            assert_eq!(fabric.ranks(), 24);
            for rank in 0..24 {
                assert_eq!(fabric.rate_out(rank, "nvlink"), inside);
                assert_eq!(fabric.rate_out(rank, label), outside);
            }
            // What leaves a box: the NICs of its eight GPUs.
            let sent = |at: u32| (8 * at..8 * at + 8).map(|rank| fabric.rate_out(rank, label)).sum::<u64>();
            assert!((0..3).all(|at| sent(at) == 8 * outside));
            assert!(fabric.links.iter().all(|link| link.latency == Some(700_000)));
        }
    }

    #[test]
    fn odd_nics_are_on_the_other_switch() {
        let fabric = Fabric::parse("dgx-a100:4").unwrap();
        let id = |name: &str| fabric.nodes.iter().position(|node| node.name == name).unwrap() as NodeId;
        for at in 0..4 {
            for nic in 0..8 {
                let node = id(&format!("mlx5{at}.{nic}"));
                assert_eq!(fabric.neighbours(node), [at * 8 + nic, id(&format!("ib.{}", nic % 2))]);
            }
        }
    }

    #[test]
    fn h100_is_a_product_of_switches() {
        let fabric = Fabric::parse("dgx-h100:4@370.8/1us+48").unwrap();
        let along = &fabric.product().unwrap().dimensions;
        assert!(along.iter().all(|along| along.shape == DimensionShape::Switch));
        let found = [0, 1].map(|number: usize| (along[number].size, along[number].rate, along[number].latency));
        let rate = |mb_per_s: u64| Some(Rate(mb_per_s * 1_000_000));
        assert_eq!(found, [(8, rate(370_800), Some(2_000_000)), (4, rate(48_000), Some(1_400_000))]);
        for one in ["dgx-h100:1", "dgx-a100:1"] {
            let fabric = Fabric::parse(one).unwrap();
            assert_eq!((fabric.nodes.len(), fabric.product().unwrap().coordinates.sizes()), (9, &[8][..]));
        }
    }
}
