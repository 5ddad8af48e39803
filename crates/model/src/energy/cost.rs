//! What a fabric costs to build: ports, wires, edges of chips and routers.

use super::area::{router_parts, router_ports};
use crate::fabric::{Fabric, Link, NodeId};
use crate::system::System;
use antiphon_base::units::Rate;

/// What a fabric costs to build. A link of length 0 stays on its chip: it is no port and no wire.
#[derive(Debug, Clone, PartialEq)]
pub struct FabricCost {
    /// Links out of a node that has most of them.
    pub ports: usize,
    /// Rate of the fastest link, one way, whatever has slowed it down.
    pub link_rate: Rate,
    /// What a node sends over all its ports together, of the node that sends most.
    pub io_rate: Rate,
    /// Links, one way each.
    pub links: usize,
    /// Length of all links together, each way counted, in millimetres; `None` if no link says its length.
    pub wire_mm: Option<f64>,
    /// Length of the longest link in millimetres; `None` if no link says its length.
    pub longest_link_mm: Option<f64>,
    /// What crosses the narrowest of the cuts between equal halves that coordinates and numbers give, one way; `None`
    /// where a switch has no ranks that would say on which side it is.
    pub bisection_rate: Option<Rate>,
    /// Edge of a chip that the ports of a node take, both ways, in millimetres.
    pub beachfront_mm: f64,
    /// Area of a router in square millimetres.
    pub router_mm2: f64,
    /// Area of all routers: one at every switch, and at every rank that is not on a switch alone.
    pub area_mm2: f64,
}

/// What a fabric costs to build on a system; of a group, what its whole fabric does. Routers are those of
/// [`super::area`], all with the ports of the largest, and as wide as the fastest link needs at the routers' clock:
/// their area is a constant and a part that is in proportion to that rate. O(links).
pub fn cost(fabric: &Fabric, system: &System) -> FabricCost {
    let fabric = fabric.group.as_ref().map_or(fabric, |group| &group.whole);
    let rate = |link: &Link| link.rate.unwrap_or(system.link_rate).0;
    let leaves = |link: &&Link| link.length_um != Some(0);
    let out: Vec<(usize, u64)> = (0..fabric.nodes.len() as NodeId)
        .map(|node| {
            let links = fabric.out_links(node).iter().map(|&id| fabric.link(id)).filter(leaves);
            links.fold((0, 0u64), |(ports, sum), link| (ports + 1, sum.saturating_add(rate(link))))
        })
        .collect();
    let outer = || fabric.links.iter().filter(leaves);
    let lengths = || outer().filter_map(Link::length_mm);
    let link_rate = Rate(outer().map(rate).max().unwrap_or(0));
    let io_rate = Rate(out.iter().map(|&(_, sum)| sum).max().unwrap_or(0));
    // Bytes of a clock of the routers.
    let width = link_rate.0 as f64 * system.router.clock_ps as f64 * 1e-12;
    let parts = router_parts(fabric, system, router_ports(fabric), width);
    let router_mm2 = parts.iter().map(|(_, area)| area).sum::<f64>() * 1e-6;
    let has_router = |node: &NodeId| match fabric.out_links(*node) {
        &[link] => fabric.nodes[*node as usize].rank.is_none() || is_rank(fabric, fabric.link(link).to),
        _ => true,
    };
    let routers = (0..fabric.nodes.len() as NodeId).filter(has_router).count();
    FabricCost {
        ports: out.iter().map(|&(ports, _)| ports).max().unwrap_or(0),
        link_rate,
        io_rate,
        links: outer().count(),
        wire_mm: lengths().next().map(|_| lengths().sum()),
        longest_link_mm: lengths().reduce(f64::max),
        bisection_rate: bisection(fabric, rate),
        beachfront_mm: 2.0 * io_rate.0 as f64 / system.beachfront_per_mm.0 as f64,
        router_mm2,
        area_mm2: router_mm2 * routers as f64,
    }
}

fn is_rank(fabric: &Fabric, node: NodeId) -> bool {
    fabric.nodes[node as usize].rank.is_some()
}

/// Least rate from the first half of the ranks to the rest, ordered by each of their coordinates, or by number. A
/// switch is on the side of most ranks that it is joined to.
fn bisection(fabric: &Fabric, rate: impl Fn(&Link) -> u64) -> Option<Rate> {
    let mut ranks: Vec<NodeId> = (0..fabric.ranks() as u32).map(|rank| fabric.node_of_rank(rank)).collect();
    ranks.sort_unstable();
    let coords = |node: NodeId| &fabric.nodes[node as usize].coords;
    let dimensions = ranks.iter().map(|&node| coords(node).len()).min().unwrap_or(0);
    let orders = (0..dimensions).map(|dimension| {
        let mut order = ranks.clone();
        order.sort_by(|&one, &other| coords(one)[dimension].total_cmp(&coords(other)[dimension]));
        order
    });
    let cut = |order: &[NodeId]| {
        let mut first = vec![false; fabric.nodes.len()];
        order[..order.len() / 2].iter().for_each(|&node| first[node as usize] = true);
        for node in (0..fabric.nodes.len() as NodeId).filter(|&node| !is_rank(fabric, node)) {
            let ranks = fabric.out_links(node).iter().map(|&id| fabric.link(id).to).filter(|&to| is_rank(fabric, to));
            let sides: Vec<bool> = ranks.map(|rank| first[rank as usize]).collect();
            if sides.is_empty() {
                return None;
            }
            first[node as usize] = 2 * sides.iter().filter(|&&side| side).count() >= sides.len();
        }
        let over = fabric.links.iter().filter(|link| first[link.from as usize] && !first[link.to as usize]);
        Some(Rate(over.map(&rate).fold(0, u64::saturating_add)))
    };
    orders.map(|order| cut(&order)).chain([cut(&ranks)]).min().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(spec: &str, system: &str) -> FabricCost {
        cost(&Fabric::parse(spec).unwrap(), &System::preset(system).unwrap())
    }

    /// 4x4 at 2 mm: 48 links of a mesh; 64 of a torus, of which 16 are 6 mm long, or half 4 mm if it is folded.
    #[test]
    fn wires_by_hand() {
        let figures = |spec: &str| {
            let cost = of(spec, "generic");
            (cost.ports, cost.links, cost.wire_mm, cost.longest_link_mm)
        };
        assert_eq!(figures("mesh:4x4"), (4, 48, None, None));
        assert_eq!(figures("mesh:4x4:pitch=2mm"), (4, 48, Some(96.0), Some(2.0)));
        assert_eq!(figures("torus:4x4:pitch=2mm"), (4, 64, Some(96.0 + 96.0), Some(6.0)));
        assert_eq!(figures("torus:4x4:pitch=2mm,folded"), (4, 64, Some(192.0), Some(4.0)));
        assert_eq!(figures("fbfly:4x4:pitch=2mm"), (6, 96, Some(8.0 * 2.0 * 2.0 * 10.0), Some(6.0)));
        assert_eq!(figures("mesh:8x8:pitch=2mm,express=4"), (6, 256, Some(448.0 + 32.0 * 8.0), Some(8.0)));
        // Ranks are on the chips of their routers.
        assert_eq!(figures("mesh:4x4:pitch=2mm,concentration=4"), (4, 48, Some(96.0), Some(2.0)));
    }

    #[test]
    fn what_crosses_the_middle() {
        for (spec, links) in [
            ("mesh:8x8", Some(8)),
            ("mesh:4x8", Some(4)),
            ("mesh:8x4", Some(4)),
            ("mesh:3x3", Some(4)),
            ("torus:4x8", Some(8)),
            ("fbfly:8x8", Some(8 * 16)),
            ("hypercube:4", Some(8)),
            ("ring:5", Some(2)),
            ("mesh:4x8:express=4", Some(4 + 4)),
            ("mesh:4x4:concentration=4", Some(4)),
            ("switch:16", Some(8)),
            ("dragonfly:1,2,1", Some(2)),
            ("fat-tree:4", None),
            ("mesh:8x8[0,1,8]", Some(8)),
            ("mesh:8x8,slow=27-28:0.5", Some(8)),
        ] {
            assert_eq!(of(spec, "generic").bisection_rate, links.map(|links| Rate::gb_per_s(25 * links)), "{spec}");
        }
    }

    /// At equal I/O a link of a butterfly has a fourteenth of it, that of a mesh a quarter.
    #[test]
    fn equal_input_and_output() {
        for (spec, ports, rate) in [("mesh:8x8", 4, 35), ("fbfly:8x8", 14, 10), ("torus:8x8", 4, 35)] {
            let cost = of(&format!("{spec}:io=140GB/s"), "generic");
            assert_eq!((cost.ports, cost.link_rate), (ports, Rate::gb_per_s(rate)), "{spec}");
            assert_eq!((cost.io_rate, cost.beachfront_mm), (Rate::gb_per_s(140), 1.25), "{spec}");
        }
        assert_eq!(of("mesh:4x4:io=100GB/s,concentration=4", "generic").io_rate, Rate::gb_per_s(100));
    }

    /// A mesh at the rate of ARIES's flits is as large as published; a router's area grows evenly with the rate.
    #[test]
    fn routers_are_as_wide_as_their_links() {
        assert!((of("mesh:8x8", "aries").area_mm2 - 8.332_864).abs() < 1e-12);
        let area = |rate: u32| of(&format!("fbfly:4x4@{rate}"), "aries").area_mm2;
        assert!((area(20) - area(10) - (area(30) - area(20))).abs() < 1e-9);
        // Ranks on a switch need no routers: one of 17 ports, or 16 of 4 and 4.
        assert_eq!(of("switch:16", "aries").area_mm2, of("switch:16", "aries").router_mm2);
        let concentrated = of("mesh:4x4:concentration=4", "aries");
        assert_eq!(concentrated.area_mm2, 16.0 * concentrated.router_mm2);
    }
}
