//! The expanded fabric of a topology: every NPU, switch and link by itself; and any fabric that is a product as one.

use crate::cost::CostModel;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Rate;
use antiphon_model::fabric::rails::{ports, rails};
use antiphon_model::fabric::{Coordinates, Dimension, DimensionShape, Fabric, LinkId, NodeId, Product};
use antiphon_model::system::System;
use antiphon_model::topology::{MAX_DIMENSIONS, Topology};

/// No link: beyond the end of a line.
const NONE: LinkId = LinkId::MAX;

/// A topology with a node for every NPU and switch.
#[derive(Debug, Clone, PartialEq)]
pub struct Expansion {
    /// What was expanded.
    pub topology: Topology,
    /// Its NPUs are those of the topology.
    pub fabric: Fabric,
    product: Product,
    /// The rank of every NPU.
    ranks: Vec<u32>,
    /// By dimension and NPU the links to its neighbours: up and down on lines and rings, by distance in cliques, to the
    /// switch and from it.
    ports: Vec<Vec<LinkId>>,
    /// The dimension of every link.
    dimension_of: Vec<u8>,
}

impl Expansion {
    /// Expands `topology` ([`rails`]). O(links).
    ///
    /// # Errors
    /// As [`rails`].
    pub fn new(topology: &Topology) -> Result<Expansion> {
        let fabric = rails(&topology.name, &topology.dimensions)?;
        let mut next = 0;
        let mut ports = |dimension| {
            let first = next;
            next += (topology.npus() * ports(dimension)) as LinkId;
            (first..next).collect()
        };
        let ports = topology.dimensions.iter().map(&mut ports).collect();
        let product = fabric.product().expect("rails are a product").clone();
        Ok(Expansion::of_parts(topology.clone(), fabric, product, ports))
    }

    /// A fabric that is a product, with the rates that its links have on `system`: the nearest dimension first, in every
    /// one the slowest counts. What an NPU can send into a line is the rate of one link, since those at the ends have no other.
    /// O(nodes * links of a node).
    ///
    /// # Errors
    /// [`Code::NotApplicable`] for other fabrics, and those of more than eight dimensions.
    pub fn of(fabric: &Fabric, system: &System) -> Result<Expansion> {
        let refuse = |why: String| Err(Error::new(Code::NotApplicable, why));
        let Some(product) = fabric.product().map(Product::without_ones) else {
            return refuse("it is no intact product of dimensions".into());
        };
        if product.dimensions.len() > MAX_DIMENSIONS {
            let count = product.dimensions.len();
            return refuse(format!("it has {count} dimensions; at most {MAX_DIMENSIONS} are scheduled"));
        }
        let costs = CostModel::in_packets(system);
        let (mut dimensions, mut all) = (vec![], vec![]);
        for (number, dimension) in product.dimensions.iter().enumerate() {
            let (shape, ports) = ports_along(fabric, &product, number);
            if shape == DimensionShape::Switch && !dimension.size.is_power_of_two() {
                return refuse(format!(
                    "halving-doubling on a switch needs a power of two of ranks, not {}",
                    dimension.size
                ));
            }
            let links = || ports.iter().filter(|&&link| link != NONE).map(|&link| fabric.link(link));
            let rate = links().map(|link| system.rate_of(link).0).min().unwrap_or(1);
            let latency = costs.channel(links()).latency_ps;
            let (ways, hops) = match shape {
                DimensionShape::Line => (1, 1),
                DimensionShape::Ring => (2, 1),
                DimensionShape::Clique => (dimension.size - 1, 1),
                DimensionShape::Switch => (1, 2),
            };
            dimensions.push(Dimension {
                rate: Some(Rate(rate.saturating_mul(ways))),
                latency: Some(latency.saturating_mul(hops).saturating_add(costs.received_ps())),
                energy: dimension.energy,
                ..Dimension::new(shape, dimension.size)
            });
            all.push(ports);
        }
        // As on rails: the nearest first, of equally near ones that along which ranks are numbered first.
        let mut order: Vec<usize> = (0..dimensions.len()).collect();
        order.sort_by_key(|&number| (dimensions[number].nearness(), product.coordinates.stride(number)));
        let topology = Topology {
            name: fabric.name.clone(),
            dimensions: order.iter().map(|&number| dimensions[number]).collect(),
        };
        let all = order.iter().map(|&number| std::mem::take(&mut all[number])).collect();
        Ok(Expansion::of_parts(topology, fabric.clone(), product.along(&order), all))
    }

    fn of_parts(topology: Topology, fabric: Fabric, product: Product, ports: Vec<Vec<LinkId>>) -> Expansion {
        let mut dimension_of = vec![0; fabric.links.len()];
        for (number, ports) in (0..).zip(&ports) {
            ports.iter().filter(|&&link| link != NONE).for_each(|&link| dimension_of[link as usize] = number);
        }
        Expansion { ranks: product.ranks(&fabric), topology, fabric, product, ports, dimension_of }
    }

    /// Where NPUs are.
    pub(super) fn coordinates(&self) -> &Coordinates {
        &self.product.coordinates
    }

    /// The rank of an NPU.
    pub(super) fn rank(&self, npu: u32) -> u32 {
        self.ranks[npu as usize]
    }

    /// Links from an NPU to another of its group along a dimension; on a line or ring to a neighbour, by its
    /// link of `direction`, 0 upwards and 1 downwards.
    pub(super) fn route(&self, dimension: usize, from: u32, to: u32, direction: u32) -> Vec<LinkId> {
        let of = |npu| self.coordinates().of(npu, dimension);
        let size = self.coordinates().sizes()[dimension];
        let along = &self.topology.dimensions[dimension];
        let port =
            |npu: u32, number: u32| self.ports[dimension][npu as usize * ports(along) as usize + number as usize];
        match along.shape {
            DimensionShape::Line | DimensionShape::Ring => vec![port(from, direction)],
            DimensionShape::Clique => vec![port(from, (of(to) + size - of(from)) % size - 1)],
            DimensionShape::Switch => vec![port(from, 0), port(to, 1)],
        }
    }

    /// The dimension of each link, from 0.
    pub fn dimension_of(&self, link: LinkId) -> usize {
        self.dimension_of[link as usize].into()
    }
}

/// The links of every NPU along a dimension, and how they join its NPUs: a ring of two with one link each way is a clique.
fn ports_along(fabric: &Fabric, product: &Product, number: usize) -> (DimensionShape, Vec<LinkId>) {
    let (coordinates, size) = (&product.coordinates, product.coordinates.sizes()[number]);
    let node = |npu: u32| product.nodes[npu as usize];
    let between = |from: NodeId, to: NodeId| {
        let links = fabric.out_links(from).iter().copied();
        links.filter(move |&link| fabric.link(link).to == to)
    };
    let peer = |npu: u32, offset: u32| coordinates.with(npu, number, (coordinates.of(npu, number) + offset) % size);
    let shape = match product.dimensions[number].shape {
        DimensionShape::Ring | DimensionShape::Line if size == 2 && between(node(0), node(peer(0, 1))).count() == 1 => {
            DimensionShape::Clique
        }
        shape => shape,
    };
    let mut ports = vec![];
    for npu in 0..coordinates.count() {
        let (at, own) = (coordinates.of(npu, number), node(npu));
        let to = |offset: u32| between(own, node(peer(npu, offset)));
        match shape {
            DimensionShape::Line => {
                ports.push(if at + 1 < size { to(1).next().unwrap_or(NONE) } else { NONE });
                ports.push(if at > 0 { to(size - 1).next().unwrap_or(NONE) } else { NONE });
            }
            // In a ring of two the last of the links between them goes down.
            DimensionShape::Ring => {
                ports.extend([to(1).next().unwrap_or(NONE), to(size - 1).next_back().unwrap_or(NONE)]);
            }
            DimensionShape::Clique => ports.extend((1..size).map(|offset| to(offset).next().unwrap_or(NONE))),
            DimensionShape::Switch => {
                let other = node(peer(npu, 1));
                let switches = fabric.out_links(own).iter().copied().filter(|&up| {
                    let middle = fabric.link(up).to;
                    fabric.nodes[middle as usize].rank.is_none() && between(middle, other).next().is_some()
                });
                let up = switches.clone().next();
                let down = up.and_then(|up| between(fabric.link(up).to, own).next());
                ports.extend([up.unwrap_or(NONE), down.unwrap_or(NONE)]);
            }
        }
    }
    (shape, ports)
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_base::error::Code;

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
