//! Routes that follow from the destination: dimension order on grids, minimal tables on any graph.

use super::network::{FlitPacket, NextHop, PacketRouting};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::parameter::Choice;
use antiphon_model::fabric::{DimensionShape, Fabric, LinkId, NodeId, Product, Router};

/// Most entries of a routing table.
const MAX_ENTRIES: usize = 1 << 26;
/// Most entries of a table of routes that could be computed as well: looking up is faster while all fits into a
/// cache.
const SMALL: usize = 1 << 16;

/// A named routing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoutingKind {
    /// Dimension order, the fastest dimension (x) first.
    Xy,
    /// Dimension order, the slowest dimension first.
    Yx,
    /// Fewest links, ties to the neighbour with the lowest number.
    Minimal,
}

impl Choice for RoutingKind {
    const WHAT: &'static str = "routing";
    const ALL: &'static [(&'static str, Self)] =
        &[("xy", RoutingKind::Xy), ("yx", RoutingKind::Yx), ("minimal", RoutingKind::Minimal)];
}

impl RoutingKind {
    /// The default of a fabric: `xy` on grids, `minimal` elsewhere.
    pub fn of(fabric: &Fabric) -> RoutingKind {
        if grid(fabric).is_some() { RoutingKind::Xy } else { RoutingKind::Minimal }
    }
}

/// The product a fabric is, if its neighbours are joined without switches.
fn grid(fabric: &Fabric) -> Option<&Product> {
    fabric.product().filter(|product| product.is_direct())
}

/// Routes of packets between the nodes of terminals.
pub enum Routes {
    /// See [`RoutingKind::Xy`] and [`RoutingKind::Yx`], on tori and large grids.
    Grid(DimensionOrder),
    /// See [`RoutingKind::Minimal`]; small grids.
    Table(Table),
}

impl Routes {
    /// Routes of a kind to `terminals` on `fabric` for routers of `virtual_channels`.
    ///
    /// # Errors
    /// [`Code::NotApplicable`] for dimension order off grids or without two virtual channels on a
    /// torus; [`Code::TooLarge`].
    pub fn new(kind: RoutingKind, fabric: &Fabric, terminals: &[NodeId], virtual_channels: u32) -> Result<Routes> {
        Ok(match kind {
            RoutingKind::Minimal => Routes::Table(Table::new(fabric, terminals)?),
            RoutingKind::Xy | RoutingKind::Yx => {
                let grid = DimensionOrder::new(fabric, terminals, kind == RoutingKind::Xy, virtual_channels)?;
                match !grid.torus && terminals.len() * fabric.nodes.len() <= SMALL {
                    true => Routes::Table(grid.table(terminals.len())),
                    false => Routes::Grid(grid),
                }
            }
        })
    }
}

impl<R: PacketRouting> PacketRouting for &R {
    fn next(&self, packet: &mut FlitPacket, at: NodeId) -> NextHop {
        R::next(self, packet, at)
    }

    fn is_over(&self, packet: &FlitPacket, at: NodeId, link: LinkId) -> bool {
        R::is_over(self, packet, at, link)
    }
}

impl PacketRouting for Routes {
    fn next(&self, packet: &mut FlitPacket, at: NodeId) -> NextHop {
        match self {
            Routes::Grid(grid) => grid.next(packet, at),
            Routes::Table(table) => table.next(packet, at),
        }
    }

    fn is_over(&self, packet: &FlitPacket, at: NodeId, link: LinkId) -> bool {
        match self {
            Routes::Grid(grid) => grid.is_over(packet, at, link),
            Routes::Table(table) => table.is_over(packet, at, link),
        }
    }
}

/// Dimension order. On rings the shorter way, ties by the packet's coin; the virtual channels are in
/// two classes, and a packet whose way along a dimension crosses the dateline between the last and
/// the first node takes the second class all along it, so that no cycle of buffers closes.
pub struct DimensionOrder {
    /// Whether some ring has more than two nodes.
    torus: bool,
    /// Whether each dimension is a ring of such a torus.
    rings: Vec<bool>,
    /// Dimensions in the order they are corrected.
    order: Vec<usize>,
    dims: Vec<u32>,
    /// Coordinates of all nodes; 0 for nodes outside the product.
    coords: Vec<u32>,
    /// Coordinates of the nodes of all terminals.
    destinations: Vec<u32>,
    /// Link of every node to every position along every dimension (where there is one).
    links: Vec<LinkId>,
    /// First entry of each dimension in a node's part of `links`, and its length.
    offsets: Vec<usize>,
    width: usize,
}

/// Bits of [`FlitPacket::route`]: dimension + 1 and class of the stretch a packet is on, then coins.
const DIMENSION_BITS: u32 = 8;
const CLASS_BIT: u32 = 1 << 8;
const UP_BIT: u32 = 1 << 9;
/// Coins of a packet, one for every dimension, as the initial [`FlitPacket::route`].
pub const COIN_SHIFT: u32 = 16;

impl DimensionOrder {
    fn new(fabric: &Fabric, terminals: &[NodeId], xy: bool, virtual_channels: u32) -> Result<Self> {
        let refuse = |why: &str| Err(Error::new(Code::NotApplicable, format!("{}: {why}", fabric.name)));
        let Some(grid) = grid(fabric) else {
            return refuse("dimension-ordered routing needs a grid; use routing minimal");
        };
        let is_ring: Vec<bool> = grid.dimensions.iter().map(|along| along.shape == DimensionShape::Ring).collect();
        let dims = grid.coordinates.sizes();
        let torus = is_ring.iter().zip(dims).any(|(&ring, &extent)| ring && extent > 2);
        if torus && virtual_channels < 2 {
            return refuse("a torus needs at least 2 virtual channels, on either side of its datelines");
        }
        let offsets: Vec<usize> =
            dims.iter().scan(0, |next, &extent| Some(std::mem::replace(next, *next + extent as usize))).collect();
        let width = dims.iter().map(|&extent| extent as usize).sum();
        if width * fabric.nodes.len() > MAX_ENTRIES {
            return Err(Error::new(Code::TooLarge, format!("{}: too large for routing tables", fabric.name)));
        }
        let positions = grid.positions(fabric.nodes.len());
        let count = dims.len();
        let place = |position: &Option<u32>| position.map_or(vec![0; count], |position| grid.coordinates.all(position));
        let coords: Vec<u32> = positions.iter().flat_map(place).collect();
        let mut links = vec![LinkId::MAX; width * fabric.nodes.len()];
        for (id, link) in (0..).zip(&fabric.links) {
            let ends = positions[link.from as usize].zip(positions[link.to as usize]);
            if let Some((dimension, to)) = ends.and_then(|(from, to)| Some((grid.coordinates.differ(from, to)?, to))) {
                let at = grid.coordinates.of(to, dimension) as usize;
                links[link.from as usize * width + offsets[dimension] + at] = id;
            }
        }
        let mut order: Vec<usize> = (0..count).collect();
        if xy {
            order.reverse();
        }
        Ok(DimensionOrder {
            torus,
            rings: is_ring.into_iter().map(|ring| ring && torus).collect(),
            order,
            dims: dims.to_vec(),
            destinations: terminals
                .iter()
                .flat_map(|&node| &coords[node as usize * count..][..count])
                .copied()
                .collect(),
            coords,
            links,
            offsets,
            width,
        })
    }
}

impl DimensionOrder {
    /// The same routes as a table, where only the destination decides.
    fn table(&self, terminals: usize) -> Table {
        let nodes = self.links.len() / self.width.max(1);
        let hop = |to: u32, at: usize| self.next(&mut FlitPacket::new(to, 1, 0, 0, 0), at as NodeId).link;
        let next = (0..terminals as u32).flat_map(|to| (0..nodes).map(move |at| (to, at)));
        let next = next.map(|(to, at)| hop(to, at).unwrap_or(LinkId::MAX)).collect();
        Table { nodes, next }
    }
}

impl PacketRouting for DimensionOrder {
    fn next(&self, packet: &mut FlitPacket, at: NodeId) -> NextHop {
        let count = self.dims.len();
        let here = &self.coords[at as usize * count..][..count];
        let there = &self.destinations[packet.destination as usize * count..][..count];
        let classes = if self.torus { 2 } else { 1 };
        let Some(&dimension) = self.order.iter().find(|&&d| here[d] != there[d]) else {
            return NextHop { link: None, class: 0, classes };
        };
        let (from, to, extent) = (here[dimension], there[dimension], self.dims[dimension]);
        let link = |position: u32| self.links[at as usize * self.width + self.offsets[dimension] + position as usize];
        // A clique, and neighbours: straight there.
        let direct = link(to);
        if !self.rings[dimension] && direct != LinkId::MAX {
            return NextHop { link: Some(direct), class: 0, classes };
        }
        if !self.rings[dimension] {
            let next = if to > from { from + 1 } else { from - 1 };
            return NextHop { link: Some(link(next)), class: 0, classes };
        }
        if packet.route % (1 << DIMENSION_BITS) != dimension as u32 + 1 {
            // Onto a new dimension: the shorter way, and whether it crosses the dateline.
            let distance = (to + extent - from) % extent;
            let coin = packet.route >> (COIN_SHIFT + dimension as u32 % 16) & 1 != 0;
            let up = 2 * distance < extent || (2 * distance == extent && coin);
            let crosses = if up { from > to } else { from < to };
            packet.route = packet.route >> COIN_SHIFT << COIN_SHIFT | (dimension as u32 + 1);
            packet.route |= if crosses { CLASS_BIT } else { 0 } | if up { UP_BIT } else { 0 };
        }
        let next = if packet.route & UP_BIT != 0 { (from + 1) % extent } else { (from + extent - 1) % extent };
        NextHop { link: Some(link(next)), class: u32::from(packet.route & CLASS_BIT != 0), classes }
    }

    fn is_over(&self, packet: &FlitPacket, at: NodeId, _link: LinkId) -> bool {
        let count = self.dims.len();
        self.coords[at as usize * count..][..count] == self.destinations[packet.destination as usize * count..][..count]
    }
}

/// Next links by destination.
pub struct Table {
    nodes: usize,
    /// Link towards each terminal from each node.
    next: Vec<LinkId>,
}

impl Table {
    fn new(fabric: &Fabric, terminals: &[NodeId]) -> Result<Self> {
        let nodes = fabric.nodes.len();
        if terminals.len() * nodes > MAX_ENTRIES {
            return Err(Error::new(Code::TooLarge, format!("{}: too large for routing tables", fabric.name)));
        }
        let mut router = Router::new(fabric);
        let pairs = terminals.iter().flat_map(|&to| (0..nodes as NodeId).map(move |at| (at, to)));
        Ok(Table { nodes, next: pairs.map(|(at, to)| router.next(at, to).unwrap_or(LinkId::MAX)).collect() })
    }
}

impl PacketRouting for Table {
    fn next(&self, packet: &mut FlitPacket, at: NodeId) -> NextHop {
        let link = self.next[packet.destination as usize * self.nodes + at as usize];
        NextHop { link: (link != LinkId::MAX).then_some(link), class: 0, classes: 1 }
    }

    fn is_over(&self, packet: &FlitPacket, at: NodeId, _link: LinkId) -> bool {
        self.next[packet.destination as usize * self.nodes + at as usize] == LinkId::MAX
    }
}
