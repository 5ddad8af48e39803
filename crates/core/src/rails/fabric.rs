//! The expanded fabric of a topology: every NPU, switch and link by itself.

use super::coordinates::Coordinates;
use super::topology::{Shape, Topology};
use crate::error::{Code, Error, Result};
use crate::fabric::{self, Fabric, Link, LinkId, MAX_LINKS, MAX_NODES, MAX_RANKS, Node, NodeId};
use crate::units::{Picos, Rate, clip};

/// A topology with a node for every NPU and switch. Rank `x` has the coordinate `x / stride % size` along
/// each dimension, where the stride is the product of the sizes before it.
#[derive(Debug, Clone, PartialEq)]
pub struct Expansion {
    /// What was expanded.
    pub topology: Topology,
    /// Its ranks are the NPUs; links are labelled with the number of their dimension, from `1`.
    pub fabric: Fabric,
    pub(super) coordinates: Coordinates,
    /// First link of each dimension, whose links are numbered by NPU, then by port.
    first: Vec<LinkId>,
}

impl Expansion {
    /// Expands `topology`. On a ring every NPU has a link to either neighbour with half the rate, in a
    /// fully connected dimension one to every peer with an equal share of it, and every group on a switch
    /// has a switch with a link up and one down of the full rate, which share the latency. O(links).
    ///
    /// # Errors
    /// [`Code::TooLarge`] past the limits of a fabric, before memory is taken.
    pub fn new(topology: &Topology) -> Result<Expansion> {
        let npus = topology.npus();
        let (mut switches, mut links) = (0, 0u64);
        for dimension in &topology.dimensions {
            links = links.saturating_add(npus.saturating_mul(ports(dimension.shape, dimension.size)));
            switches += if dimension.shape == Shape::Switch { npus / dimension.size } else { 0 };
        }
        if npus > MAX_RANKS as u64 || npus + switches > MAX_NODES as u64 || links > MAX_LINKS as u64 {
            let what = format!(
                "rails {}: {npus} NPUs, {switches} switches and {links} links are too many one by one; \
                 at most {MAX_RANKS} NPUs, {MAX_NODES} nodes and {MAX_LINKS} links",
                clip(&topology.name)
            );
            return Err(Error::new(Code::TooLarge, what));
        }
        let coordinates = Coordinates::new(topology);
        let position =
            |npu| -> Vec<f64> { (0..coordinates.sizes.len()).map(|k| f64::from(coordinates.of(npu, k))).collect() };
        let mut nodes: Vec<Node> = (0..npus as u32).map(|npu| Node::rank(npu, position(npu))).collect();
        let (mut links, mut first) = (Vec::with_capacity(links as usize), Vec::new());
        for (number, dimension) in topology.dimensions.iter().enumerate() {
            first.push(links.len() as LinkId);
            let size = coordinates.sizes[number];
            let mut join = |from: NodeId, to: NodeId, share: u64, latency: Picos| {
                let rate = Some(Rate((dimension.rate.0 / share).max(1)));
                links.push(Link { rate, latency: Some(latency), ..Link::new(from, to, (number + 1).to_string()) });
            };
            let first_switch = nodes.len() as NodeId;
            if dimension.shape == Shape::Switch {
                for (index, origin) in coordinates.origins(number).enumerate() {
                    let mut middle = position(origin);
                    middle[number] = f64::from(size - 1) / 2.0;
                    nodes.push(Node::switch(format!("switch-{}-{index}", number + 1), middle));
                }
            }
            for npu in 0..coordinates.npus {
                let at = coordinates.of(npu, number);
                let peer = |offset| coordinates.with(npu, number, (at + offset) % size);
                match dimension.shape {
                    Shape::Ring => {
                        join(npu, peer(1), 2, dimension.latency_ps);
                        join(npu, peer(size - 1), 2, dimension.latency_ps);
                    }
                    Shape::FullyConnected => {
                        (1..size).for_each(|o| join(npu, peer(o), u64::from(size) - 1, dimension.latency_ps));
                    }
                    Shape::Switch => {
                        // Groups are numbered by their first NPU.
                        let stride = coordinates.strides[number];
                        let group = npu / (stride * size) * stride + npu % stride;
                        let up = dimension.latency_ps / 2;
                        join(npu, first_switch + group, 1, up);
                        join(first_switch + group, npu, 1, dimension.latency_ps - up);
                    }
                }
            }
        }
        let fabric = Fabric::new(format!("rails:{}", topology.name), fabric::Shape::Graph, nodes, links)?;
        Ok(Expansion { topology: topology.clone(), fabric, coordinates, first })
    }

    /// Links from an NPU to another of its group along a dimension; on a ring to a neighbour, by its
    /// link of `direction`, 0 upwards and 1 downwards.
    pub(super) fn route(&self, dimension: usize, from: u32, to: u32, direction: u32) -> Vec<LinkId> {
        let of = |npu| self.coordinates.of(npu, dimension);
        let size = self.coordinates.sizes[dimension];
        let first = |npu: u32| {
            self.first[dimension] + npu * ports(self.topology.dimensions[dimension].shape, size.into()) as u32
        };
        match self.topology.dimensions[dimension].shape {
            Shape::Ring => vec![first(from) + direction],
            Shape::FullyConnected => vec![first(from) + (of(to) + size - of(from)) % size - 1],
            Shape::Switch => vec![first(from), first(to) + 1],
        }
    }

    /// The dimension of each link, from 0.
    pub fn dimension_of(&self, link: LinkId) -> usize {
        self.first.partition_point(|&first| first <= link) - 1
    }
}

/// Links of one NPU in a dimension, with the one down from its switch.
fn ports(shape: Shape, size: u64) -> u64 {
    if shape == Shape::FullyConnected { size - 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_dimension() {
        let topology = Topology::parse("ring4@1000/20ns,sw4@800/701ns,fc3@600/700ns").unwrap();
        let expansion = Expansion::new(&topology).unwrap();
        let fabric = &expansion.fabric;
        assert_eq!((fabric.ranks(), fabric.nodes.len()), (48, 48 + 12));
        assert_eq!(fabric.links.len(), 48 * (2 + 2 + 2));
        assert!(fabric.nodes.iter().all(|node| node.coords.len() == 3));
        for (id, link) in (0..).zip(&fabric.links) {
            assert_eq!(link.dimension, (expansion.dimension_of(id) + 1).to_string());
        }
        // What leaves an NPU in a dimension adds up to its rate.
        for npu in 0..48 {
            for (number, dimension) in topology.dimensions.iter().enumerate() {
                let own = fabric.out_links(npu).iter().filter(|&&link| expansion.dimension_of(link) == number);
                let rate: u64 = own.map(|&link| fabric.link(link).rate.unwrap().0).sum();
                assert_eq!(rate, dimension.rate.0);
            }
        }
        // Every route leads from its NPU to the other, and takes the latency of its dimension.
        for (number, dimension) in topology.dimensions.iter().enumerate() {
            for from in 0..48 {
                for offset in 1..if number == 0 { 2 } else { dimension.size as u32 } {
                    let coordinates = &expansion.coordinates;
                    let place = (coordinates.of(from, number) + offset) % dimension.size as u32;
                    let to = coordinates.with(from, number, place);
                    let route = expansion.route(number, from, to, 0);
                    assert_eq!((fabric.link(route[0]).from, fabric.link(route[route.len() - 1]).to), (from, to));
                    assert!(route.windows(2).all(|pair| fabric.link(pair[0]).to == fabric.link(pair[1]).from));
                    let latency: u64 = route.iter().map(|&link| fabric.link(link).latency.unwrap()).sum();
                    assert_eq!(latency, dimension.latency_ps);
                }
            }
        }
    }

    #[test]
    fn a_ring_of_two_has_two_links_each_way() {
        let expansion = Expansion::new(&Topology::parse("ring2@1000/20ns").unwrap()).unwrap();
        assert_eq!(expansion.fabric.links.len(), 4);
        assert_eq!((expansion.route(0, 0, 1, 0), expansion.route(0, 0, 1, 1)), (vec![0], vec![1]));
    }

    #[test]
    fn large_ones_are_refused() {
        for spec in ["fc4294967295@1/1ns", "fc2048@1/1ns", "sw4096@1/1ns,ring2@1/1ns", "fc100@1/1ns,fc100@1/1ns"] {
            let error = Expansion::new(&Topology::parse(spec).unwrap()).unwrap_err();
            assert_eq!(error.code, Code::TooLarge, "{spec}");
            assert!(error.message.contains("too many one by one"), "{error}");
        }
        assert!(Expansion::new(&Topology::parse("4D-Ring_FC_Ring_SW").unwrap()).is_ok());
    }
}
