//! The fabric of a rails topology: rings, cliques and switches, every NPU, switch and link by itself.

use super::product::{Dimension, DimensionShape, Product};
use super::{Fabric, Link, MAX_LINKS, MAX_NODES, MAX_RANKS, Node, NodeId, Shape};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Picos, Rate, clip};

/// Links of one node in a dimension, with the one down from its switch.
pub fn ports(dimension: &Dimension) -> u64 {
    if dimension.shape == DimensionShape::Clique { dimension.size - 1 } else { 2 }
}

/// A product of `dimensions`, the first fastest, whose ranks are the NPUs. On a ring every NPU has a link to either
/// neighbour with half the rate, in a clique one to every peer with an equal share of it, and every group on a switch
/// has a switch with a link up and one down of the full rate, which share the latency. Links are numbered by dimension,
/// then by NPU, then by port, and labelled with the number of their dimension, from `1`. O(links).
///
/// # Errors
/// [`Code::TooLarge`] past the limits of a fabric, before memory is taken; [`Code::NotApplicable`] for lines.
pub fn rails(name: &str, dimensions: &[Dimension]) -> Result<Fabric> {
    if let Some(number) = dimensions.iter().position(|dimension| dimension.shape == DimensionShape::Line) {
        let what = format!("rails {}: dimension {} is a line; use a ring, fc or sw", clip(name), number + 1);
        return Err(Error::new(Code::NotApplicable, what));
    }
    let most_links = checked_links(name, dimensions)?;
    let product = Product::first_fastest(dimensions.to_vec());
    let coordinates = &product.coordinates;
    let place = |npu| -> Vec<f64> { coordinates.all(npu).into_iter().map(f64::from).collect() };
    let mut nodes: Vec<Node> = (0..coordinates.count()).map(|npu| Node::rank(npu, place(npu))).collect();
    let mut links = Vec::with_capacity(most_links as usize);
    for (number, dimension) in dimensions.iter().enumerate() {
        let size = coordinates.sizes()[number];
        let label = (number + 1).to_string();
        let mut join = |from: NodeId, to: NodeId, share: u64, latency: Option<Picos>| {
            let rate = dimension.rate.map(|rate| Rate((rate.0 / share).max(1)));
            links.push(Link { rate, latency, energy: dimension.energy, ..Link::new(from, to, &*label) });
        };
        // The switch of every NPU's group; groups are numbered by their first NPU.
        let mut switch = vec![0; nodes.len()];
        if dimension.shape == DimensionShape::Switch {
            for (index, origin) in coordinates.origins(number).enumerate() {
                coordinates.line(origin, number).for_each(|npu| switch[npu as usize] = nodes.len() as NodeId);
                let mut middle = place(origin);
                middle[number] = f64::from(size - 1) / 2.0;
                nodes.push(Node::switch(format!("switch-{}-{index}", number + 1), middle));
            }
        }
        for npu in 0..coordinates.count() {
            let at = coordinates.of(npu, number);
            let peer = |offset| coordinates.with(npu, number, (at + offset) % size);
            match dimension.shape {
                DimensionShape::Line | DimensionShape::Ring => {
                    [1, size - 1].into_iter().for_each(|o| join(npu, peer(o), 2, dimension.latency));
                }
                DimensionShape::Clique => {
                    (1..size).for_each(|o| join(npu, peer(o), u64::from(size) - 1, dimension.latency));
                }
                DimensionShape::Switch => {
                    let up = dimension.latency.map(|latency| latency / 2);
                    join(npu, switch[npu as usize], 1, up);
                    join(switch[npu as usize], npu, 1, dimension.latency.zip(up).map(|(latency, up)| latency - up));
                }
            }
        }
    }
    Fabric::new(format!("rails:{name}"), Shape::Product(product), nodes, links)
}

/// The number of links, if a fabric may have that many.
fn checked_links(name: &str, dimensions: &[Dimension]) -> Result<u64> {
    let npus = dimensions.iter().map(|dimension| dimension.size).fold(1, u64::saturating_mul);
    let (mut switches, mut links) = (0, 0u64);
    for dimension in dimensions {
        links = links.saturating_add(npus.saturating_mul(ports(dimension)));
        switches += if dimension.shape == DimensionShape::Switch { npus / dimension.size } else { 0 };
    }
    if npus > MAX_RANKS as u64 || npus + switches > MAX_NODES as u64 || links > MAX_LINKS as u64 {
        let what = format!(
            "rails {}: {npus} NPUs, {switches} switches and {links} links are too many one by one; \
             at most {MAX_RANKS} NPUs, {MAX_NODES} nodes and {MAX_LINKS} links",
            clip(name)
        );
        return Err(Error::new(Code::TooLarge, what));
    }
    Ok(links)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_refused_and_rates_may_be_the_systems() {
        let rings = [Dimension::new(DimensionShape::Ring, 4), Dimension::new(DimensionShape::Switch, 2)];
        let fabric = rails("t", &rings).unwrap();
        assert!(fabric.links.iter().all(|link| (link.rate, link.latency) == (None, None)));
        assert_eq!(fabric.product().unwrap().dimensions, rings);
        let error = rails("t", &[rings[0], Dimension::new(DimensionShape::Line, 4)]).unwrap_err();
        assert!(error.message.contains("rails t: dimension 2 is a line; use a ring, fc or sw"), "{error}");
    }
}
