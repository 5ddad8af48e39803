//! The expanded fabric of a topology: every NPU, switch and link by itself.

use super::topology::Topology;
use crate::error::Result;
use crate::fabric::rails::{ports, rails};
use crate::fabric::{Coordinates, DimensionShape, Fabric, LinkId};

/// A topology with a node for every NPU and switch.
#[derive(Debug, Clone, PartialEq)]
pub struct Expansion {
    /// What was expanded.
    pub topology: Topology,
    /// Its product of dimensions, the first fastest; the ranks are the NPUs.
    pub fabric: Fabric,
    /// First link of each dimension, whose links are numbered by NPU, then by port.
    first: Vec<LinkId>,
}

impl Expansion {
    /// Expands `topology` ([`rails`]). O(links).
    ///
    /// # Errors
    /// As [`rails`].
    pub fn new(topology: &Topology) -> Result<Expansion> {
        let fabric = rails(&topology.name, &topology.dimensions)?;
        let (mut first, mut next) = (Vec::new(), 0);
        for dimension in &topology.dimensions {
            first.push(next);
            next += (topology.npus() * ports(dimension)) as LinkId;
        }
        Ok(Expansion { topology: topology.clone(), fabric, first })
    }

    /// Where NPUs are.
    pub(super) fn coordinates(&self) -> &Coordinates {
        &self.fabric.product().expect("an expansion is a product").coordinates
    }

    /// Links from an NPU to another of its group along a dimension; on a ring to a neighbour, by its
    /// link of `direction`, 0 upwards and 1 downwards.
    pub(super) fn route(&self, dimension: usize, from: u32, to: u32, direction: u32) -> Vec<LinkId> {
        let of = |npu| self.coordinates().of(npu, dimension);
        let size = self.coordinates().sizes()[dimension];
        let along = &self.topology.dimensions[dimension];
        let first = |npu: u32| self.first[dimension] + npu * ports(along) as u32;
        match along.shape {
            DimensionShape::Line | DimensionShape::Ring => vec![first(from) + direction],
            DimensionShape::Clique => vec![first(from) + (of(to) + size - of(from)) % size - 1],
            DimensionShape::Switch => vec![first(from), first(to) + 1],
        }
    }

    /// The dimension of each link, from 0.
    pub fn dimension_of(&self, link: LinkId) -> usize {
        self.first.partition_point(|&first| first <= link) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

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
                assert_eq!(rate, dimension.npu_rate().0);
            }
        }
        // Every route leads from its NPU to the other, and takes the latency of its dimension.
        for (number, dimension) in topology.dimensions.iter().enumerate() {
            for from in 0..48 {
                for offset in 1..if number == 0 { 2 } else { dimension.size as u32 } {
                    let coordinates = expansion.coordinates();
                    let place = (coordinates.of(from, number) + offset) % dimension.size as u32;
                    let to = coordinates.with(from, number, place);
                    let route = expansion.route(number, from, to, 0);
                    assert_eq!((fabric.link(route[0]).from, fabric.link(route[route.len() - 1]).to), (from, to));
                    assert!(route.windows(2).all(|pair| fabric.link(pair[0]).to == fabric.link(pair[1]).from));
                    let latency: u64 = route.iter().map(|&link| fabric.link(link).latency.unwrap()).sum();
                    assert_eq!(latency, dimension.npu_latency());
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
