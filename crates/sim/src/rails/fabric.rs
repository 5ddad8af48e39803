//! The expanded fabric of a topology: every NPU, switch and link by itself; and any fabric that is a product as one.

use crate::cost::CostModel;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Rate;
use antiphon_model::fabric::rails::{ports, rails};
use antiphon_model::fabric::{
    Coordinates, Dimension, DimensionPart, DimensionShape, Fabric, Link, LinkId, Node, NodeId, Product, Shape,
};
use antiphon_model::system::System;
use antiphon_model::topology::{MAX_DIMENSIONS, Topology};

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
    /// Where NPUs are in the fabric, whose dimensions may be several of the topology.
    places: Coordinates,
    /// What each dimension is a part of, if it is one.
    parts: Vec<Option<DimensionPart>>,
    /// By dimension and NPU the links to its neighbours: up and down on lines and rings, by distance in cliques, to the
    /// switch and from it; `None` beyond the end of a line. Of a part, those of its dimension of the fabric.
    ports: Vec<Vec<Option<LinkId>>>,
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
            (first..next).map(Some).collect()
        };
        let ports = topology.dimensions.iter().map(&mut ports).collect();
        let product = fabric.product().expect("rails are a product").clone();
        Ok(Expansion::of_parts(topology.clone(), fabric, product, ports))
    }

    /// A fabric that is a product, or a graph whose links are labelled as one ([`Product::named`]), with the rates that its
    /// links have on `system`: the nearest dimension first, in every one the slowest counts. What an NPU can send into a line
    /// is the rate of one link, since those at the ends have no other. O(nodes * links of a node).
    ///
    /// # Errors
    /// [`Code::NotApplicable`] for other fabrics, and those of more than eight dimensions.
    pub fn of(fabric: &Fabric, system: &System) -> Result<Expansion> {
        let Some(whole) = Product::of(fabric) else {
            return Err(Error::new(Code::NotApplicable, "it is no intact product of dimensions"));
        };
        let parts = (0..whole.dimensions.len()).map(|dimension| DimensionPart { dimension, step: 1 }).collect();
        Expansion::of_product(fabric, system, &whole, &whole, parts)
    }

    /// The same of a fabric of packages, with dimensions inside packages and between them. From package to package NPUs that
    /// have the same place in theirs are neighbours: a message passes all between them on its line, so as many messages share
    /// a link as a package has NPUs along the dimension. `None` without packages that are equal boxes and divide a dimension.
    ///
    /// # Errors
    /// [`Code::NotApplicable`] for more than eight dimensions.
    pub fn in_packages(fabric: &Fabric, system: &System) -> Result<Option<Expansion>> {
        let Some(whole) = Product::of(fabric).filter(Product::is_direct) else { return Ok(None) };
        let Some(packages) = whole.packages(fabric) else { return Ok(None) };
        let (product, parts) = whole.in_packages(&packages);
        if parts.len() == whole.dimensions.len() {
            return Ok(None);
        }
        Expansion::of_product(fabric, system, &whole, &product, parts).map(Some)
    }

    /// A fabric that is `whole`, with the dimensions of `product`, which are `parts` of those of `whole`.
    fn of_product(
        fabric: &Fabric,
        system: &System,
        whole: &Product,
        product: &Product,
        parts: Vec<DimensionPart>,
    ) -> Result<Expansion> {
        let refuse = |why: String| Err(Error::new(Code::NotApplicable, why));
        if parts.len() > MAX_DIMENSIONS {
            return refuse(format!("it has {} dimensions; at most {MAX_DIMENSIONS} are scheduled", parts.len()));
        }
        let costs = CostModel::in_packets(system);
        let package = |node: NodeId| fabric.nodes[node as usize].package;
        let (mut dimensions, mut all, mut split) = (vec![], vec![], vec![]);
        for (part, along) in parts.iter().zip(&product.dimensions) {
            let (line_shape, ports) = whole.ports(fabric, part.dimension);
            let is_split = along.size < whole.dimensions[part.dimension].size;
            let shape = match along.shape {
                _ if !is_split => line_shape,
                DimensionShape::Line if along.size == 2 => DimensionShape::Clique,
                shape => shape,
            };
            if shape == DimensionShape::Switch && !along.size.is_power_of_two() {
                return refuse(format!(
                    "halving-doubling on a switch needs a power of two of ranks, not {}",
                    along.size
                ));
            }
            // Of a part, those between packages or those inside.
            let links = |kinds: &'static [bool]| {
                let links = ports.iter().flatten().map(|&link| fabric.link(link));
                links.filter(move |link| !is_split || kinds.contains(&(package(link.from) != package(link.to))))
            };
            let latency = |kinds| costs.channel(links(kinds)).latency_ps;
            let (step, mut kinds, mut latency_ps) = (u64::from(part.step), &[false][..], latency(&[false]));
            if step > 1 {
                kinds = &[false, true];
                latency_ps = latency(&[true]).saturating_add(latency_ps.saturating_mul(step - 1));
            }
            let rate = links(kinds).map(|link| system.rate_of(link).0).min().unwrap_or(1) / step;
            let (ways, hops) = match shape {
                DimensionShape::Line => (1, 1),
                DimensionShape::Ring => (2, 1),
                DimensionShape::Clique => (along.size - 1, 1),
                DimensionShape::Switch => (1, 2),
            };
            dimensions.push(Dimension {
                rate: Some(Rate(rate.saturating_mul(ways).max(1))),
                latency: Some(latency_ps.saturating_mul(hops).saturating_add(costs.received_ps())),
                energy: along.energy,
                ..Dimension::new(shape, along.size)
            });
            all.push(ports);
            split.push(is_split.then_some(*part));
        }
        // As on rails: the nearest first, of equally near ones that along which ranks are numbered first.
        let mut order: Vec<usize> = (0..dimensions.len()).collect();
        order.sort_by_key(|&number| (dimensions[number].nearness(), product.coordinates.stride(number)));
        let dimensions = order.iter().map(|&number| dimensions[number]).collect();
        let topology = Topology { name: fabric.name.clone(), dimensions };
        let all = order.iter().map(|&number| std::mem::take(&mut all[number])).collect();
        let parts = order.iter().map(|&number| split[number]).collect();
        let expansion = Expansion::of_parts(topology, fabric.clone(), product.along(&order), all);
        Ok(Expansion { parts, places: whole.coordinates.clone(), ..expansion })
    }

    fn of_parts(topology: Topology, fabric: Fabric, product: Product, ports: Vec<Vec<Option<LinkId>>>) -> Expansion {
        let (places, parts) = (product.coordinates.clone(), vec![None; ports.len()]);
        Expansion { ranks: product.ranks(&fabric), topology, fabric, product, places, parts, ports }
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
        if let Some(part) = self.parts[dimension] {
            // In a clique, which is of two, the direction is that to the other.
            let is_up = if along.shape == DimensionShape::Clique { of(from) < of(to) } else { direction == 0 };
            let length = self.places.sizes()[part.dimension];
            let next = |npu: &u32| {
                let at = self.places.of(*npu, part.dimension);
                self.places.with(*npu, part.dimension, (at + if is_up { 1 } else { length - 1 }) % length)
            };
            let passed = std::iter::successors(Some(from), |npu| Some(next(npu))).take(part.step as usize);
            return passed.filter_map(|npu| self.ports[dimension][2 * npu as usize + usize::from(!is_up)]).collect();
        }
        let port =
            |npu: u32, number: u32| self.ports[dimension][npu as usize * ports(along) as usize + number as usize];
        match along.shape {
            DimensionShape::Line | DimensionShape::Ring => port(from, direction).into_iter().collect(),
            DimensionShape::Clique => port(from, (of(to) + size - of(from)) % size - 1).into_iter().collect(),
            DimensionShape::Switch => [port(from, 0), port(to, 1)].into_iter().flatten().collect(),
        }
    }

    /// The fabric of a line along a dimension alone, with its switch if it has one. O(links).
    ///
    /// # Errors
    /// [`Code::NotApplicable`] if a link differs from those that are parallel to it, or the dimension is part of another.
    pub fn line(&self, dimension: usize) -> Result<Fabric> {
        let refuse = |why: String| Err(Error::new(Code::NotApplicable, why));
        if self.parts[dimension].is_some() {
            return refuse(
                "lines inside packages share links with those between them, so that none stands for all".into(),
            );
        }
        let Dimension { shape, size, .. } = self.topology.dimensions[dimension];
        let switch = size as NodeId;
        // Of the nodes, those that hold NPUs.
        let positions = self.product.positions(self.fabric.nodes.len());
        let place = |node: NodeId| {
            positions[node as usize].map_or(switch, |position| self.coordinates().of(position, dimension))
        };
        let of_npu = |npu: u32| {
            let ports = ports(&self.topology.dimensions[dimension]) as usize;
            self.ports[dimension][npu as usize * ports..][..ports].iter().flatten().map(|&link| {
                let link = self.fabric.link(link);
                Link { from: place(link.from), to: place(link.to), ..link.clone() }
            })
        };
        let lines: Vec<u32> = self.coordinates().line(0, dimension).collect();
        for npu in 0..self.coordinates().count() {
            if !of_npu(npu).eq(of_npu(lines[self.coordinates().of(npu, dimension) as usize])) {
                return refuse(format!(
                    "its lines along dimension {} differ, so that none stands for all",
                    dimension + 1
                ));
            }
        }
        let mut nodes: Vec<Node> = (0..switch).map(|rank| Node::rank(rank, [f64::from(rank)])).collect();
        if shape == DimensionShape::Switch {
            nodes.push(Node::switch("switch", [-1.0]));
        }
        let links = lines.iter().flat_map(|&npu| of_npu(npu)).collect();
        let product = Product::first_fastest(vec![Dimension::new(shape, size)]);
        Fabric::new(format!("{} of {}", shape.name(), self.topology.name), Shape::Product(product), nodes, links)
    }
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
        // What leaves an NPU in a dimension adds up to its rate.
        for npu in 0..48 {
            for (number, dimension) in topology.dimensions.iter().enumerate() {
                let own = fabric.out_links(npu).iter().map(|&link| fabric.link(link));
                let own = own.filter(|link| link.dimension == (number + 1).to_string());
                let rate: u64 = own.map(|link| link.rate.unwrap().0).sum();
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
