//! Products that the labels of links name: where a file says of each link along which dimension it is.

use super::grid::joined;
use super::{Coordinates, Dimension, DimensionShape, Fabric, NodeId, Product, Shape};
use std::collections::{HashMap, HashSet};

/// Most labels that may be dimensions.
const MAX_LABELS: usize = 16;

impl Product {
    /// The product that a fabric is, or that its links name, without dimensions of a single node.
    pub fn of(fabric: &Fabric) -> Option<Product> {
        fabric.product().cloned().or_else(|| Product::named(fabric)).map(|product| product.without_ones())
    }

    /// The product of lines, rings and cliques that a graph is whose links are labelled by dimension: all links along a
    /// dimension have its label, one link goes each way, and every node is a rank. Dimensions come in the order of
    /// their labels. `None` for any other graph. O(labels * (nodes + links)).
    pub fn named(fabric: &Fabric) -> Option<Product> {
        if fabric.shape != Shape::Graph || fabric.configured.is_some() || fabric.has_switches() {
            return None;
        }
        let mut labels: Vec<&str> = Vec::new();
        for link in &fabric.links {
            if !labels.contains(&&*link.dimension) {
                labels.push(&link.dimension);
            }
            if labels.len() > MAX_LABELS {
                return None;
            }
        }
        let (mut dimensions, mut at) = (vec![], vec![vec![]; fabric.nodes.len()]);
        for &label in &labels {
            let (shape, line) = first_line(fabric, label)?;
            dimensions.push(dimension(fabric, label, shape, line.len()));
            let slices = slices(fabric, label);
            let numbers: HashMap<usize, u32> = line.iter().map(|&node| slices[node as usize]).zip(0..).collect();
            for (at, slice) in at.iter_mut().zip(&slices) {
                at.push(*numbers.get(slice)?);
            }
        }
        let count = dimensions.iter().try_fold(1u64, |count, along| count.checked_mul(along.size))?;
        if count != fabric.nodes.len() as u64 {
            return None;
        }
        let coordinates = Coordinates::last_fastest(dimensions.iter().map(|along| along.size as u32).collect());
        let mut nodes = vec![NodeId::MAX; at.len()];
        (0..).zip(&at).for_each(|(node, at)| nodes[coordinates.position(at) as usize] = node);
        let product = Product { dimensions, coordinates, nodes };
        is_of(&product, fabric, &labels, &at).then_some(product)
    }
}

/// Whether links join what the product joins, once each way, with the labels of its dimensions.
fn is_of(product: &Product, fabric: &Fabric, labels: &[&str], at: &[Vec<u32>]) -> bool {
    if product.nodes.contains(&NodeId::MAX) {
        return false;
    }
    let mut links: HashSet<(NodeId, NodeId, &str)> = HashSet::new();
    if !fabric.links.iter().all(|link| links.insert((link.from, link.to, &link.dimension))) {
        return false;
    }
    let mut count = 0;
    for (from, at) in (0..).zip(at) {
        for (number, along) in product.dimensions.iter().enumerate() {
            for next in joined(along.shape, at[number], along.size as u32) {
                let to =
                    product.nodes[product.coordinates.with(product.coordinates.position(at), number, next) as usize];
                if !links.contains(&(from, to, labels[number])) {
                    return false;
                }
                count += 1;
            }
        }
    }
    count == fabric.links.len()
}

/// How the nodes on the first node's line along a label are joined, and these in order.
fn first_line(fabric: &Fabric, label: &str) -> Option<(DimensionShape, Vec<NodeId>)> {
    let near = |node: NodeId| -> Vec<NodeId> {
        let links = fabric.out_links(node).iter().map(|&id| fabric.link(id));
        links.filter(|link| link.dimension == label).map(|link| link.to).collect()
    };
    let mut line = vec![0];
    let mut seen = HashSet::from([0]);
    let mut next = 0;
    while let Some(&node) = line.get(next) {
        line.extend(near(node).into_iter().filter(|&to| seen.insert(to)));
        next += 1;
    }
    line.sort_unstable();
    let ends: Vec<NodeId> = line.iter().copied().filter(|&node| near(node).len() == 1).collect();
    let is_two = |node: &NodeId| near(*node).len() == 2;
    let shape = match line.len() {
        1 => return None,
        2 => return Some((DimensionShape::Line, line)),
        _ if ends.len() == 2 => DimensionShape::Line,
        _ if line.iter().all(is_two) => DimensionShape::Ring,
        _ => return Some((DimensionShape::Clique, line)),
    };
    // From an end, or around.
    let mut order = vec![ends.first().copied().unwrap_or(0)];
    let mut seen = HashSet::from([order[0]]);
    while let Some(to) = near(order[order.len() - 1]).into_iter().filter(|to| !seen.contains(to)).min() {
        seen.insert(to);
        order.push(to);
    }
    Some((shape, order))
}

/// For every node the lowest of those that links of other labels lead to: they have the same coordinate along this one.
fn slices(fabric: &Fabric, label: &str) -> Vec<usize> {
    let mut slices = vec![usize::MAX; fabric.nodes.len()];
    for first in 0..slices.len() {
        let mut stack = vec![first];
        while let Some(node) = stack.pop() {
            if slices[node] == usize::MAX {
                slices[node] = first;
                let links = fabric.out_links(node as NodeId).iter().map(|&id| fabric.link(id));
                stack.extend(links.filter(|link| link.dimension != label).map(|link| link.to as usize));
            }
        }
    }
    slices
}

/// A dimension with the rate and the latency of its slowest links, where all have them.
fn dimension(fabric: &Fabric, label: &str, shape: DimensionShape, size: usize) -> Dimension {
    let links = || fabric.links.iter().filter(|link| link.dimension == label);
    let rates: Option<Vec<_>> = links().map(|link| link.rate).collect();
    let latencies: Option<Vec<_>> = links().map(|link| link.latency).collect();
    let latency = latencies.and_then(|all| all.into_iter().max());
    Dimension { latency, ..Dimension::new(shape, size as u64) }
        .with_link_rate(rates.and_then(|all| all.into_iter().min()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(spec: &str) -> Fabric {
        Fabric::from_json("t", &Fabric::parse(spec).unwrap().to_json()).unwrap()
    }

    #[test]
    fn grids_in_files_are_found_again() {
        for spec in [
            "mesh:4x4",
            "mesh:3x5@50/20ns+25",
            "torus:4x5",
            "torus:2x4x5",
            "mesh:2x2x3",
            "fbfly:4x5",
            "ring:6",
            "fc:5",
            "tpu-v4:2x2x4",
            "mesh:5",
        ] {
            let (whole, found) = (Fabric::parse(spec).unwrap(), Product::named(&read(spec)));
            let (mut expected, found) = (whole.product().unwrap().clone(), found.unwrap_or_else(|| panic!("{spec}")));
            // Two in a ring are as two in a line.
            for along in expected.dimensions.iter_mut().filter(|along| along.size == 2) {
                along.shape = DimensionShape::Line;
            }
            assert_eq!(found, expected, "{spec}");
        }
    }

    #[test]
    fn other_graphs_are_no_products() {
        for spec in [
            "mesh:3x3,drop=0-1",
            "mesh:3x3,drop=0>1",
            "mesh:3x3,exclude=4",
            "mesh:3x3,dead=8",
            "tpu-v4:4x4x8:twisted",
            "mi250:1",
            "wafer:5x5",
            "switch:4",
            "dgx1v",
            // Their links are labelled by what they join.
            "packages:2x2:of=2x2",
        ] {
            assert_eq!(Product::named(&read(spec)), None, "{spec}");
        }
        assert_eq!(Product::named(&Fabric::parse("mesh:3x3").unwrap()), None);
        // Two links one way.
        let twice = Fabric::from_json(
            "t",
            r#"{"schema": "antiphon-fabric/1", "nodes": [{}, {}], "links": [{"from": 0, "to": 1, "count": 2}]}"#,
        );
        assert_eq!(Product::named(&twice.unwrap()), None);
    }
}
