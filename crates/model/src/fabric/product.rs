//! Products of dimensions: meshes, tori, flattened butterflies, rings, cliques, switches, hypercubes and rails
//! topologies, and the boxes that can be cut out of them.

use super::{Fabric, LinkId, NodeId};
use antiphon_base::units::{Picos, Rate};
use std::collections::{HashMap, HashSet};

/// How the nodes along one dimension are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DimensionShape {
    /// Every node to the next.
    Line,
    /// A line whose ends are joined too.
    Ring,
    /// Every pair.
    Clique,
    /// All to one switch.
    Switch,
}

impl DimensionShape {
    /// Name for people and JSON.
    pub fn name(self) -> &'static str {
        match self {
            DimensionShape::Line => "line",
            DimensionShape::Ring => "ring",
            DimensionShape::Clique => "clique",
            DimensionShape::Switch => "switch",
        }
    }
}

/// One dimension of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dimension {
    /// How its nodes are joined.
    pub shape: DimensionShape,
    /// Nodes along it.
    pub size: u64,
    /// What a node can send into it over all its links together, if it has all neighbours that a node of this
    /// shape may have, in bytes per second; `None` where links have the system's rate.
    pub rate: Option<Rate>,
    /// From neighbour to neighbour, through the switch if there is one, for a message without length;
    /// `None` where links have the system's latency.
    pub latency: Option<Picos>,
    /// Energy of a byte on a link in attojoules; `None` where links have the system's.
    pub energy: Option<u64>,
}

impl Dimension {
    /// A dimension with the system's rate and latency.
    pub fn new(shape: DimensionShape, size: u64) -> Dimension {
        Dimension { shape, size, rate: None, latency: None, energy: None }
    }

    /// Most neighbours of a node; a switch counts as one.
    pub fn neighbours(&self) -> u64 {
        let others = self.size.saturating_sub(1);
        match self.shape {
            DimensionShape::Line | DimensionShape::Ring => others.min(2),
            DimensionShape::Clique => others,
            DimensionShape::Switch => others.min(1),
        }
        .max(1)
    }

    /// Rate from a node to one neighbour, over all links between them; `None` for the system's.
    pub fn link_rate(&self) -> Option<Rate> {
        self.rate.map(|rate| Rate((rate.0 / self.neighbours()).max(1)))
    }

    /// This dimension with a rate from a node to each neighbour.
    pub fn with_link_rate(self, rate: Option<Rate>) -> Dimension {
        Dimension { rate: rate.map(|rate| Rate(rate.0.saturating_mul(self.neighbours()))), ..self }
    }

    /// Whether the last node is joined to the first as to the one before it.
    pub fn wraps(&self) -> bool {
        self.shape != DimensionShape::Line
    }

    /// What is left of the dimension where only nodes with these ascending coordinates are, and their order along
    /// it; `None` if those are no longer joined like a dimension. Part of a ring is a line.
    fn part(&self, coordinates: &[u32]) -> Option<(Dimension, Vec<u32>)> {
        let (count, first) = (coordinates.len(), coordinates[0]);
        if count as u64 == self.size {
            return Some((*self, coordinates.to_vec()));
        }
        let adjoin = |list: &[u32]| list.windows(2).all(|pair| pair[1] == pair[0] + 1);
        let (shape, order) = match self.shape {
            DimensionShape::Line if adjoin(coordinates) => (DimensionShape::Line, coordinates.to_vec()),
            DimensionShape::Ring => {
                // Where it goes over the last node, the part after the gap comes first.
                let gap = coordinates.windows(2).position(|pair| pair[1] != pair[0] + 1).map_or(0, |at| at + 1);
                let over_the_end = first == 0 && u64::from(coordinates[count - 1]) == self.size - 1;
                let (before, after) = coordinates.split_at(gap);
                if !(adjoin(before) && adjoin(after) && (gap == 0 || over_the_end)) {
                    return None;
                }
                (DimensionShape::Line, [after, before].concat())
            }
            DimensionShape::Clique | DimensionShape::Switch => (self.shape, coordinates.to_vec()),
            DimensionShape::Line => return None,
        };
        let part = Dimension { shape, size: count as u64, ..*self };
        Some((part.with_link_rate(self.link_rate()), order))
    }
}

/// Numbers the positions of a product by their coordinates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coordinates {
    sizes: Vec<u32>,
    /// Step from a position to the next along each dimension.
    strides: Vec<u32>,
    count: u32,
}

impl Coordinates {
    /// Neighbouring numbers are neighbours along the last dimension: row by row. The product of the sizes is below
    /// 2^32.
    pub fn last_fastest(sizes: Vec<u32>) -> Coordinates {
        let mut coordinates = Coordinates::first_fastest(sizes.into_iter().rev().collect());
        coordinates.sizes.reverse();
        coordinates.strides.reverse();
        coordinates
    }

    /// Neighbouring numbers are neighbours along the first dimension. The product of the sizes is below 2^32.
    pub fn first_fastest(sizes: Vec<u32>) -> Coordinates {
        let mut count = 1;
        let mut strides = Vec::with_capacity(sizes.len());
        for size in &sizes {
            strides.push(count);
            count *= size;
        }
        Coordinates { sizes, strides, count }
    }

    /// Positions along each dimension.
    pub fn sizes(&self) -> &[u32] {
        &self.sizes
    }

    /// From a position to the next along a dimension.
    pub fn stride(&self, dimension: usize) -> u32 {
        self.strides[dimension]
    }

    /// Number of positions.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The coordinate of a position along a dimension.
    pub fn of(&self, position: u32, dimension: usize) -> u32 {
        position / self.strides[dimension] % self.sizes[dimension]
    }

    /// All coordinates of a position.
    pub fn all(&self, position: u32) -> Vec<u32> {
        (0..self.sizes.len()).map(|dimension| self.of(position, dimension)).collect()
    }

    /// The position at some coordinates.
    pub fn position(&self, coordinates: &[u32]) -> u32 {
        coordinates.iter().zip(&self.strides).map(|(at, stride)| at * stride).sum()
    }

    /// The position with the same other coordinates and `coordinate` along a dimension.
    pub fn with(&self, position: u32, dimension: usize, coordinate: u32) -> u32 {
        position - self.of(position, dimension) * self.strides[dimension] + coordinate * self.strides[dimension]
    }

    /// Positions that differ from `position` only along a dimension, itself among them, from coordinate 0 on.
    pub fn line(&self, position: u32, dimension: usize) -> impl Iterator<Item = u32> + Clone + use<> {
        let stride = self.strides[dimension];
        let first = self.with(position, dimension, 0);
        (0..self.sizes[dimension]).map(move |at| first + at * stride)
    }

    /// The first position of every line along a dimension.
    pub fn origins(&self, dimension: usize) -> impl Iterator<Item = u32> {
        (0..self.count).filter(move |&position| self.of(position, dimension) == 0)
    }

    /// The first dimension along which two positions differ.
    pub fn differ(&self, one: u32, other: u32) -> Option<usize> {
        (0..self.sizes.len()).find(|&dimension| self.of(one, dimension) != self.of(other, dimension))
    }
}

/// Part of a dimension of a product: inside packages, or from package to package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DimensionPart {
    /// Number of the dimension.
    pub dimension: usize,
    /// Nodes of the dimension from one coordinate of the part to the next.
    pub step: u32,
}

/// A product of dimensions, on nodes of a fabric that all hold a rank. Positions that differ along one dimension are
/// joined there as its shape says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Product {
    /// Dimensions in the order in which a specification writes them.
    pub dimensions: Vec<Dimension>,
    /// Numbers of positions.
    pub coordinates: Coordinates,
    /// The node at every position.
    pub nodes: Vec<NodeId>,
}

impl Product {
    /// A product whose positions are numbered row by row and as their nodes. The sizes multiply to less than 2^32.
    pub fn last_fastest(dimensions: Vec<Dimension>) -> Product {
        let coordinates = Coordinates::last_fastest(sizes(&dimensions));
        Product { nodes: (0..coordinates.count()).collect(), dimensions, coordinates }
    }

    /// The same with the first dimension fastest.
    pub fn first_fastest(dimensions: Vec<Dimension>) -> Product {
        let coordinates = Coordinates::first_fastest(sizes(&dimensions));
        Product { nodes: (0..coordinates.count()).collect(), dimensions, coordinates }
    }

    /// Whether all dimensions have this shape.
    pub fn is_all(&self, shape: DimensionShape) -> bool {
        self.dimensions.iter().all(|dimension| dimension.shape == shape)
    }

    /// Whether neighbours are joined by links of their own, without switches.
    pub fn is_direct(&self) -> bool {
        self.dimensions.iter().all(|dimension| dimension.shape != DimensionShape::Switch)
    }

    /// Rows and columns, if there are two dimensions of at least 2 nodes.
    pub fn rows_columns(&self) -> Option<(u32, u32)> {
        match *self.coordinates.sizes() {
            [rows, columns] if rows >= 2 && columns >= 2 => Some((rows, columns)),
            _ => None,
        }
    }

    /// The node at some coordinates.
    pub fn node(&self, coordinates: &[u32]) -> NodeId {
        self.nodes[self.coordinates.position(coordinates) as usize]
    }

    /// The rank at every position.
    ///
    /// # Panics
    /// If this is no product of `fabric`.
    pub fn ranks(&self, fabric: &Fabric) -> Vec<u32> {
        let rank = |&node: &NodeId| fabric.nodes[node as usize].rank.expect("nodes of a product hold ranks");
        self.nodes.iter().map(rank).collect()
    }

    /// The position of each of `nodes` nodes.
    pub fn positions(&self, nodes: usize) -> Vec<Option<u32>> {
        let mut positions = vec![None; nodes];
        for (position, &node) in (0..).zip(&self.nodes) {
            positions[node as usize] = Some(position);
        }
        positions
    }

    /// The same product without dimensions of a single node.
    pub fn without_ones(&self) -> Product {
        let long = |&number: &usize| self.dimensions[number].size > 1;
        self.along(&(0..self.dimensions.len()).filter(long).collect::<Vec<_>>())
    }

    /// The same product with some of its dimensions, in this order; the others have a single node.
    pub fn along(&self, order: &[usize]) -> Product {
        let of = |list: &[u32]| order.iter().map(|&number| list[number]).collect();
        let (sizes, strides) = (of(&self.coordinates.sizes), of(&self.coordinates.strides));
        let coordinates = Coordinates { sizes, strides, count: self.coordinates.count };
        let dimensions = order.iter().map(|&number| self.dimensions[number]).collect();
        Product { dimensions, coordinates, nodes: self.nodes.clone() }
    }

    /// Nodes of a package along each dimension, if all nodes are in packages that are equal boxes side by side. O(nodes).
    pub fn packages(&self, fabric: &Fabric) -> Option<Vec<u32>> {
        let package = |position: u32| fabric.nodes[self.nodes[position as usize] as usize].package;
        let first = package(0)?;
        let size = |number| {
            let line = self.coordinates.line(0, number);
            line.take_while(|&position| package(position) == Some(first)).count() as u32
        };
        let own: Vec<u32> = (0..self.dimensions.len()).map(size).collect();
        let is_whole = |(all, own): (&u32, &u32)| all.is_multiple_of(*own);
        if !self.coordinates.sizes.iter().zip(&own).all(is_whole) {
            return None;
        }
        let (mut boxes, mut seen) = (HashMap::new(), HashSet::new());
        for position in 0..self.coordinates.count() {
            let place: Vec<u32> = self.coordinates.all(position).iter().zip(&own).map(|(at, own)| at / own).collect();
            let package = package(position)?;
            match boxes.insert(place, package) {
                Some(other) if other != package => return None,
                None if !seen.insert(package) => return None,
                _ => {}
            }
        }
        Some(own)
    }

    /// The same positions where each dimension is one inside packages of so many nodes, and one from package to package. A
    /// dimension of a single package stays, as does one along which a package has a single node. Of each new dimension it is
    /// said what it is part of.
    pub fn in_packages(&self, packages: &[u32]) -> (Product, Vec<DimensionPart>) {
        let (mut dimensions, mut parts) = (vec![], vec![]);
        let (mut sizes, mut strides) = (vec![], vec![]);
        for (number, (dimension, &own)) in self.dimensions.iter().zip(packages).enumerate() {
            let of =
                [(DimensionShape::Line, u64::from(own), 1), (dimension.shape, dimension.size / u64::from(own), own)];
            let is_split = own > 1 && u64::from(own) < dimension.size;
            let whole = [(dimension.shape, dimension.size, 1)];
            for &(shape, size, step) in if is_split { &of[..] } else { &whole[..] } {
                dimensions.push(Dimension { shape, size, ..*dimension }.with_link_rate(dimension.link_rate()));
                parts.push(DimensionPart { dimension: number, step });
                sizes.push(size as u32);
                strides.push(self.coordinates.strides[number] * step);
            }
        }
        let coordinates = Coordinates { sizes, strides, count: self.coordinates.count };
        (Product { dimensions, coordinates, nodes: self.nodes.clone() }, parts)
    }

    /// The links of every position along a dimension, and how they join its nodes: up and down on lines and rings, by distance
    /// in cliques, to the switch and from it; `None` beyond the end of a line. A ring of two with one link each way is a clique.
    pub fn ports(&self, fabric: &Fabric, number: usize) -> (DimensionShape, Vec<Option<LinkId>>) {
        let (coordinates, size) = (&self.coordinates, self.coordinates.sizes[number]);
        let node = |position: u32| self.nodes[position as usize];
        let between = |from: NodeId, to: NodeId| {
            let links = fabric.out_links(from).iter().copied();
            links.filter(move |&link| fabric.link(link).to == to)
        };
        let peer = |position: u32, offset: u32| {
            coordinates.with(position, number, (coordinates.of(position, number) + offset) % size)
        };
        let is_single = || size == 2 && between(node(0), node(peer(0, 1))).count() == 1;
        let shape = match self.dimensions[number].shape {
            DimensionShape::Ring | DimensionShape::Line if is_single() => DimensionShape::Clique,
            shape => shape,
        };
        let mut ports = vec![];
        for position in 0..coordinates.count() {
            let (at, own) = (coordinates.of(position, number), node(position));
            let to = |offset: u32| between(own, node(peer(position, offset)));
            match shape {
                DimensionShape::Line => {
                    ports.push(if at + 1 < size { to(1).next() } else { None });
                    ports.push(if at > 0 { to(size - 1).next() } else { None });
                }
                // In a ring of two the last of the links between them goes down.
                DimensionShape::Ring => ports.extend([to(1).next(), to(size - 1).next_back()]),
                DimensionShape::Clique => ports.extend((1..size).map(|offset| to(offset).next())),
                DimensionShape::Switch => {
                    let other = node(peer(position, 1));
                    let mut switches = fabric.out_links(own).iter().copied().filter(|&up| {
                        let middle = fabric.link(up).to;
                        fabric.nodes[middle as usize].rank.is_none() && between(middle, other).next().is_some()
                    });
                    let up = switches.next();
                    ports.extend([up, up.and_then(|up| between(fabric.link(up).to, own).next())]);
                }
            }
        }
        (shape, ports)
    }

    /// The part of this product on some different nodes, if they are a box of it: on a line neighbours, on a ring all
    /// or an arc, which is a line, on a clique or a switch any. Dimensions of which one coordinate is left are gone.
    /// O(nodes of the fabric * dimensions).
    pub fn part(&self, nodes: &[NodeId]) -> Option<Product> {
        let most = self.nodes.iter().chain(nodes).max().map_or(0, |&node| node as usize + 1);
        let positions = self.positions(most);
        let places: Vec<u32> = nodes.iter().map(|&node| positions[node as usize]).collect::<Option<_>>()?;
        let mut parts = Vec::new();
        for (number, dimension) in self.dimensions.iter().enumerate() {
            let mut present = vec![false; dimension.size as usize];
            places.iter().for_each(|&place| present[self.coordinates.of(place, number) as usize] = true);
            let coordinates: Vec<u32> = (0..dimension.size as u32).filter(|&at| present[at as usize]).collect();
            parts.push((coordinates.len() as u64 == dimension.size, dimension.part(&coordinates)?));
        }
        let count: u64 = parts.iter().map(|(_, (part, _))| part.size).product();
        if count != places.len() as u64 {
            return None;
        }
        let kept = |(whole, (part, _)): &(bool, (Dimension, Vec<u32>))| *whole || part.size > 1;
        let dimensions: Vec<Dimension> = parts.iter().filter(|part| kept(part)).map(|(_, (part, _))| *part).collect();
        let coordinates = Coordinates::last_fastest(sizes(&dimensions));
        let node = |position: u32| {
            let mut own = coordinates.all(position).into_iter();
            let at = parts.iter().map(|part| {
                let place = if kept(part) { own.next().unwrap_or(0) } else { 0 };
                part.1.1[place as usize]
            });
            self.node(&at.collect::<Vec<_>>())
        };
        Some(Product { nodes: (0..coordinates.count()).map(node).collect(), dimensions, coordinates })
    }
}

fn sizes(dimensions: &[Dimension]) -> Vec<u32> {
    dimensions.iter().map(|dimension| dimension.size as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dimension(shape: DimensionShape, size: u64) -> Dimension {
        Dimension::new(shape, size).with_link_rate(Some(Rate(10)))
    }

    #[test]
    fn rates_of_a_node_and_of_a_link() {
        use DimensionShape::{Clique, Line, Ring, Switch};
        for (shape, size, node) in [
            (Line, 2, 10),
            (Line, 5, 20),
            (Ring, 2, 10),
            (Ring, 3, 20),
            (Clique, 5, 40),
            (Switch, 8, 10),
            (Line, 1, 10),
        ] {
            let along = dimension(shape, size);
            assert_eq!((along.rate, along.link_rate()), (Some(Rate(node)), Some(Rate(10))), "{along:?}");
        }
        // What was given for a node is kept where it cannot be divided.
        let clique = Dimension { rate: Some(Rate(100)), ..Dimension::new(DimensionShape::Clique, 4) };
        assert_eq!((clique.rate, clique.link_rate()), (Some(Rate(100)), Some(Rate(33))));
        assert_eq!(Dimension::new(Ring, 4).link_rate(), None);
    }

    #[test]
    fn parts_of_dimensions() {
        use DimensionShape::{Clique, Line, Ring, Switch};
        let part = |shape, size, coordinates: &[u32]| {
            let (part, order) = dimension(shape, size).part(coordinates)?;
            assert_eq!(part.link_rate(), Some(Rate(10)));
            Some((part.shape, part.size, order))
        };
        assert_eq!(part(Line, 5, &[1, 2, 3]), Some((Line, 3, vec![1, 2, 3])));
        assert_eq!(part(Line, 5, &[1, 3]), None);
        assert_eq!(part(Ring, 5, &[0, 1, 2, 3, 4]), Some((Ring, 5, vec![0, 1, 2, 3, 4])));
        assert_eq!(part(Ring, 5, &[0, 1, 3, 4]), Some((Line, 4, vec![3, 4, 0, 1])));
        assert_eq!(part(Ring, 5, &[1, 2]), Some((Line, 2, vec![1, 2])));
        assert_eq!(part(Ring, 5, &[0, 2, 4]), None);
        assert_eq!(part(Ring, 6, &[0, 1, 3]), None);
        assert_eq!(part(Ring, 3, &[0, 2]), Some((Line, 2, vec![2, 0])));
        assert_eq!(part(Clique, 5, &[0, 2, 4]), Some((Clique, 3, vec![0, 2, 4])));
        assert_eq!(part(Switch, 5, &[4]), Some((Switch, 1, vec![4])));
    }

    #[test]
    fn boxes_of_products() {
        let mesh = Product::last_fastest(vec![dimension(DimensionShape::Line, 3), dimension(DimensionShape::Ring, 4)]);
        assert_eq!((mesh.rows_columns(), mesh.node(&[2, 1])), (Some((3, 4)), 9));
        let part = mesh.part(&[9, 8, 4, 5, 11, 7]).unwrap();
        assert_eq!(part.coordinates.sizes(), [2, 3]);
        assert_eq!(part.nodes, [7, 4, 5, 11, 8, 9]);
        assert!(part.is_all(DimensionShape::Line));
        let column = mesh.part(&[1, 5, 9]).unwrap();
        assert_eq!((column.dimensions.len(), column.nodes), (1, vec![1, 5, 9]));
        assert_eq!(mesh.part(&[1, 5, 8]), None);
        assert_eq!(mesh.part(&[0, 1, 4]), None);
        assert_eq!(mesh.part(&[0, 99]), None);
        // A dimension of one node in the whole stays.
        let flat = Product::first_fastest(vec![dimension(DimensionShape::Ring, 4), dimension(DimensionShape::Line, 1)]);
        assert_eq!(flat.part(&[0, 3]).unwrap().coordinates.sizes(), [2, 1]);
        assert_eq!(flat.without_ones().coordinates.sizes(), [4]);
    }

    #[test]
    fn packages_are_boxes_of_equal_size() {
        let packages = |spec: &str| {
            let fabric = Fabric::parse(spec).unwrap();
            fabric.product().unwrap().packages(&fabric)
        };
        assert_eq!(packages("packages:2x3:of=4x2"), Some(vec![4, 2]));
        assert_eq!(packages("packages:2x3:of=1x1"), Some(vec![1, 1]));
        assert_eq!(packages("packages:1x1:of=3x2"), Some(vec![3, 2]));
        assert_eq!(packages("mesh:4x4"), None);
        // Parts of packages, and half packages.
        assert_eq!(packages("packages:1x3:of=2x2[0,1,4,5,8,9]"), Some(vec![2]));
        assert_eq!(packages("packages:1x3:of=2x2[0-3,4,6]"), None);
        let fabric = Fabric::parse("packages:2x3:of=4x2:torus").unwrap();
        let product = fabric.product().unwrap();
        let (split, parts) = product.in_packages(&[4, 2]);
        assert_eq!(split.coordinates.sizes(), [4, 2, 2, 3]);
        let of = |parts: &[DimensionPart]| parts.iter().map(|part| (part.dimension, part.step)).collect::<Vec<_>>();
        assert_eq!(of(&parts), [(0, 1), (0, 4), (1, 1), (1, 2)]);
        use DimensionShape::{Line, Ring};
        assert_eq!(split.dimensions.iter().map(|along| along.shape).collect::<Vec<_>>(), [Line, Ring, Line, Ring]);
        for position in 0..48 {
            let (at, whole) = (split.coordinates.all(position), product.coordinates.all(position));
            assert_eq!([at[0] + 4 * at[1], at[2] + 2 * at[3]], whole[..]);
            assert_eq!(split.coordinates.position(&at), position);
        }
        assert_eq!(product.in_packages(&[8, 1]).0.coordinates.sizes(), [8, 6]);
    }

    proptest! {
        #[test]
        fn positions_and_coordinates(sizes in prop::collection::vec(1u32..6, 1..5), pick in 0u32..10_000) {
            for coordinates in [Coordinates::last_fastest(sizes.clone()), Coordinates::first_fastest(sizes.clone())] {
                prop_assert_eq!(coordinates.count(), sizes.iter().product::<u32>());
                let position = pick % coordinates.count();
                let at = coordinates.all(position);
                prop_assert_eq!(coordinates.position(&at), position);
                prop_assert!(at.iter().zip(coordinates.sizes()).all(|(at, size)| at < size));
                for number in 0..sizes.len() {
                    let line: Vec<u32> = coordinates.line(position, number).collect();
                    prop_assert_eq!(line.len(), sizes[number] as usize);
                    prop_assert_eq!(line[at[number] as usize], position);
                    for (place, other) in (0..).zip(line) {
                        prop_assert_eq!(coordinates.with(position, number, place), other);
                        let expected = (place != at[number]).then_some(number);
                        prop_assert_eq!(coordinates.differ(position, other), expected);
                    }
                    prop_assert_eq!(coordinates.origins(number).count() as u32, coordinates.count() / sizes[number]);
                }
            }
            let (row_major, last) = (Coordinates::last_fastest(sizes.clone()), sizes.len() - 1);
            prop_assert!(sizes[last] < 2 || row_major.line(0, last).take(2).eq([0, 1]));
        }
    }
}
