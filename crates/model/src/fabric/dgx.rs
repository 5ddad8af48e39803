//! NVIDIA's boxes of GPUs joined by NVSwitch, and the network between them.

use super::machine::{BOXES, LinkKind, NICS, RAW, check_boxes, given, gpus, network, nics};
use super::product::{DimensionShape, Product};
use super::spec::{FabricPreset, PresetRequest};
use super::{Fabric, Node, NodeId, Shape};
use antiphon_base::error::Result;

pub(super) const DGX_A100: FabricPreset = FabricPreset::new(
    "dgx-a100",
    "dgx-a100:2",
    "boxes of eight A100 on NVSwitch, a NIC a GPU, two InfiniBand switches; usable rates, or :raw",
    |request| Some(a100(request, request.sizes()?)),
)
.with(&[RAW, NICS]);

pub(super) const DGX_H100: FabricPreset = FabricPreset::new(
    "dgx-h100",
    "dgx-h100:2",
    "boxes of eight H100 on NVSwitch, a NIC a GPU, eight rails; usable rates, or :raw",
    |request| Some(boxes("dgx-h100", request, request.sizes()?, 8)),
)
.with(BOXES);

pub(super) const DGX_H200: FabricPreset =
    FabricPreset::new("dgx-h200", "dgx-h200:2", "boxes of eight H200 with the links of H100", |request| {
        Some(boxes("dgx-h200", request, request.sizes()?, 8))
    })
    .with(BOXES);

pub(super) const DGX_B200: FabricPreset = FabricPreset::new(
    "dgx-b200",
    "dgx-b200:2",
    "boxes of eight B200 on NVSwitch, a NIC a GPU, eight rails",
    |request| Some(boxes("dgx-b200", request, request.sizes()?, 8)),
)
.with(BOXES);

pub(super) const H800: FabricPreset =
    FabricPreset::new("h800", "h800:2", "boxes of eight H800: those of H100 with fewer NVLinks", |request| {
        Some(boxes("h800", request, request.sizes()?, 8))
    })
    .with(BOXES);

pub(super) const GB200_NVL72: FabricPreset = FabricPreset::new(
    "gb200-nvl72",
    "gb200-nvl72:2",
    "racks of 72 B200 on NVSwitch, a NIC and a rail a GPU",
    |request| Some(boxes("gb200-nvl72", request, request.sizes()?, 72)),
)
.with(&[RAW]);

/// GPUs in a box of A100.
const GPUS: u32 = 8;

/// Boxes of eight A100. The switches of a box are one node. As in ForestColl's topology every GPU has a NIC, which is
/// a node, and NICs with an even and with an odd number are joined by a switch each. A box by itself has no NICs and
/// is a [`Shape::Product`] of one switch, more are a graph: pairs of GPUs in different boxes are no longer joined by
/// one switch alone.
///
/// # Errors
/// As [`check_boxes`], [`given`] and [`nics`].
fn a100(request: &PresetRequest, [boxes]: [u32; 1]) -> Result<Fabric> {
    check_boxes(request.name, boxes, GPUS)?;
    let count = nics(request, boxes, GPUS)?;
    if boxes == 1 {
        return one("nvswitch0.0", request, given("dgx-a100", request)?, GPUS);
    }
    let [nvlink, ib] = given("dgx-a100", request)?;
    let (mut nodes, mut links) = (gpus(boxes, GPUS, 4.0, |gpu| [f64::from(gpu), 1.0]), vec![]);
    // Every box's switch and NICs; the switches between boxes come after those of the first box.
    let mut switches = [0; 2];
    for at in 0..boxes {
        let column = f64::from(4 * at);
        let nvswitch = nodes.len() as NodeId;
        nodes.push(Node::switch(format!("nvswitch{at}.0"), [3.5, column]));
        let place = |nic: u32| [f64::from(nic * GPUS / count), column + 2.0];
        nodes.extend((0..count).map(|nic| Node::switch(format!("mlx5{at}.{nic}"), place(nic))));
        if at == 0 {
            let first = nodes.len() as NodeId;
            switches = [first, first + 1];
            let middle = f64::from(2 * boxes) - 1.5;
            let switch = |n: u32| Node::switch(format!("ib.{n}"), [9.0, middle + f64::from(n)]);
            nodes.extend((0..count.min(2)).map(switch));
        }
        for gpu in 0..GPUS {
            let (rank, nic) = (at * GPUS + gpu, gpu * count / GPUS);
            links.extend(nvlink.both(rank, nvswitch));
            links.extend(ib.both(rank, nvswitch + 1 + nic));
            if gpu * count % GPUS == 0 {
                links.extend(ib.both(nvswitch + 1 + nic, switches[nic as usize % 2]));
            }
        }
    }
    Fabric::new(request.name, Shape::Graph, nodes, links)
}

/// Boxes whose switches are one node each, on rails: a product of switches if every GPU has a NIC and a rail is one
/// switch. A box by itself has no rails.
///
/// # Errors
/// As [`check_boxes`], [`given`] and [`network`].
fn boxes(machine: &str, request: &PresetRequest, [boxes]: [u32; 1], count: u32) -> Result<Fabric> {
    check_boxes(request.name, boxes, count)?;
    if boxes == 1 {
        nics(request, boxes, count)?;
        return one("nvswitch0", request, given(machine, request)?, count);
    }
    let [nvlink, rail] = given(machine, request)?;
    let (mut nodes, mut links) = (gpus(boxes, count, 2.0, |gpu| [f64::from(gpu), 0.0]), vec![]);
    let ranks = nodes.len() as NodeId;
    let middle = f64::from(count - 1) / 2.0;
    nodes.extend((0..boxes).map(|at| Node::switch(format!("nvswitch{at}"), [middle, f64::from(2 * at) + 1.0])));
    links.extend((0..ranks).flat_map(|rank| nvlink.both(rank, ranks + rank / count)));
    let rails = network(request, (&mut nodes, &mut links), &rail, [boxes, count], f64::from(2 * boxes))?;
    let inside = nvlink.dimension(DimensionShape::Switch, count);
    let shape = rails.map_or(Shape::Graph, |rails| Shape::Product(Product::first_fastest(vec![inside, rails])));
    Fabric::new(request.name, shape, nodes, links)
}

/// One box: GPUs around a switch.
fn one(switch: &str, request: &PresetRequest, [nvlink]: [LinkKind; 1], count: u32) -> Result<Fabric> {
    let mut nodes = gpus(1, count, 0.0, |gpu| [f64::from(gpu), 0.0]);
    nodes.push(Node::switch(switch, [f64::from(count - 1) / 2.0, 1.0]));
    let links = (0..count).flat_map(|rank| nvlink.both(rank, count)).collect();
    let product = Product::first_fastest(vec![nvlink.dimension(DimensionShape::Switch, count)]);
    Fabric::new(request.name, Shape::Product(product), nodes, links)
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_base::units::Rate;

    #[test]
    fn rates_of_a_gpu_and_of_a_box() {
        for (spec, label, inside, outside) in [("dgx-a100:3:raw", "ib", 300, 25), ("dgx-h100:3:raw", "rail", 450, 50)] {
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
