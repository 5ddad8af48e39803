//! What no configuration can beat.

use super::Reconfigurable;
use antiphon_base::error::Result;
use antiphon_base::units::{Bytes, Picos};
use antiphon_bound::lower_bound;
use antiphon_model::collective::Collective;
use antiphon_model::fabric::grid::grid;
use antiphon_model::fabric::{DimensionShape, Fabric, Link, Node, Shape};
use antiphon_model::system::System;

/// Ports of a router, each way.
const PORTS: usize = 4;

/// A lower bound of a collective's time on every configuration, and what it is by: `ports`, four links into and out of every
/// router; `wires`, which cross a cut between rows or columns; or `latency`.
///
/// Each is the bound on a fabric that can do what any configuration can: ranks with four links to a switch; a mesh with
/// bypass wires beside every link, along which a bypass goes from router to router; links between all in a row or column.
///
/// # Errors
/// As [`lower_bound`]; [`antiphon_base::error::Code::TooLarge`] past the limits of fabrics.
pub fn bound(
    fabric: &Reconfigurable,
    system: &System,
    collective: Collective,
    bytes: Bytes,
) -> Result<(Picos, &'static str)> {
    let aries = &fabric.aries;
    // The fastest link and the least latency of both dimensions.
    let rate = fabric.mesh.links.iter().map(|link| system.rate_of(link)).max();
    let latency = fabric.mesh.links.iter().map(|link| system.latency_of(link)).min();
    let like = |link: Link| Link { rate, latency, ..link };
    let ranks = fabric.mesh.ranks() as u32;
    let mut nodes = fabric.mesh.nodes.clone();
    nodes.push(Node::switch("ports", nodes[0].coords.clone()));
    let spokes = (0..ranks).flat_map(|rank| {
        let spoke = like(Link::new(rank, ranks, "port"));
        [spoke.clone(), spoke.reversed()].into_iter().flat_map(|link| std::iter::repeat_n(link, PORTS))
    });
    let ports = Fabric::new("ports", Shape::Graph, nodes, spokes.collect())?;
    let wires = 1 + aries.wires as usize;
    let repeated = |fabric: Fabric| {
        let links = fabric.links.into_iter().flat_map(|link| std::iter::repeat_n(link, wires)).map(like);
        Fabric::new("wires", Shape::Graph, fabric.nodes, links.collect())
    };
    let wide = repeated(fabric.mesh.clone())?;
    // All of a row or column are as near as two of them.
    let near = repeated(grid("rows and columns", DimensionShape::Clique, &aries.sizes.map(|size| size.min(2)))?)?;
    let of = |fabric: &Fabric| lower_bound(fabric, system, collective, bytes, None);
    let (ports, wide) = (of(&ports)?, of(&wide)?);
    let near = lower_bound(&near, system, Collective { root: 0, ..collective }, bytes, None)?;
    let by_rate = |bound: antiphon_bound::Bound| bound.strength_ps.unwrap_or(0).max(bound.cut_ps).max(bound.volume_ps);
    let candidates = [(by_rate(ports), "ports"), (by_rate(wide), "wires"), (near.latency_ps, "latency")];
    let largest = candidates.into_iter().fold((0, "ports"), |most, next| if next.0 > most.0 { next } else { most });
    Ok(largest)
}
