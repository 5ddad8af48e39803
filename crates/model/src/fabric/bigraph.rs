//! The BiGraph of EFLOPS (Dong et al., HPCA 2020): two layers of switches, complete bipartite between
//! the layers, hosts on every switch of both.

use super::spec::FabricPreset;
use super::{Fabric, Link, MAX_LINKS, MAX_NODES, MAX_RANKS, Node, Shape};
use antiphon_base::error::{Code, Error, Result};

pub(super) const BIGRAPH: FabricPreset = FabricPreset::new(
    "bigraph",
    "bigraph:4x4",
    "EFLOPS: switches a layer x hosts a switch, two fully joined layers",
    |request| {
        let both = request.sizes().map(|[both]| [both; 2]);
        let [switches, hosts] = both.or_else(|| request.sizes())?;
        Some(request.with_parameters(bigraph(request.name, switches, hosts)))
    },
);

/// A BiGraph with `switches` switches in each layer and `hosts` ranks on every switch.
///
/// Host `h` of switch `s` is rank `s * hosts + h` in the lower layer, `switches * hosts` more in the
/// upper one. Nodes are the ranks, then the lower switches, then the upper ones.
///
/// # Errors
/// [`Code::BadSpec`] if a number is zero, [`Code::TooLarge`] past the limits of a fabric.
pub fn bigraph(name: &str, switches: u32, hosts: u32) -> Result<Fabric> {
    if switches == 0 || hosts == 0 {
        return Err(Error::new(
            Code::BadSpec,
            format!("fabric '{name}': needs at least one switch a layer and one host a switch"),
        ));
    }
    let (s, h) = (switches as u128, hosts as u128);
    let (ranks, nodes, links) = (2 * s * h, 2 * s * h + 2 * s, 4 * s * h + 2 * s * s);
    if ranks > MAX_RANKS as u128 || nodes > MAX_NODES as u128 || links > MAX_LINKS as u128 {
        return Err(Error::new(
            Code::TooLarge,
            format!("fabric '{name}' has {ranks} ranks and {links} links; at most {MAX_RANKS} and {MAX_LINKS}"),
        ));
    }
    // Drawn as four rows: upper hosts, upper switches, lower switches, lower hosts.
    let layer_ranks = switches * hosts;
    let mut nodes: Vec<Node> = (0..2 * layer_ranks)
        .map(|rank| {
            let row = if rank < layer_ranks { 3.0 } else { 0.0 };
            Node::rank(rank, [row, (rank % layer_ranks) as f64])
        })
        .collect();
    let middle = |s: u32| (s * hosts) as f64 + (hosts - 1) as f64 / 2.0;
    nodes.extend((0..switches).map(|s| Node::switch(format!("lower-{s}"), [2.0, middle(s)])));
    nodes.extend((0..switches).map(|s| Node::switch(format!("upper-{s}"), [1.0, middle(s)])));

    let first = 2 * layer_ranks;
    let host_links = (0..2 * layer_ranks).flat_map(|rank| {
        let link = Link::new(rank, first + rank / hosts, "host");
        [link.clone(), link.reversed()]
    });
    let layer_links = (0..switches).flat_map(|lower| {
        (0..switches).flat_map(move |upper| {
            let link = Link::new(first + lower, first + switches + upper, "layer");
            [link.clone(), link.reversed()]
        })
    });
    let links = host_links.chain(layer_links).collect();
    Fabric::new(name, Shape::BiGraph { switches, hosts }, nodes, links)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Router;

    #[test]
    fn two_layers() {
        let fabric = bigraph("bigraph:3x2", 3, 2).unwrap();
        assert_eq!((fabric.ranks(), fabric.nodes.len(), fabric.links.len()), (12, 18, 24 + 18));
        assert_eq!(fabric.neighbours(3), [13]); // lower switch 1, host 1
        assert_eq!(fabric.neighbours(6 + 4), [17]); // upper switch 2, host 0
        assert_eq!(fabric.neighbours(12), [0, 1, 15, 16, 17]);
        let mut router = Router::new(&fabric);
        assert_eq!([1, 2, 6].map(|to| router.route(0, to).len()), [2, 4, 3]);
    }

    #[test]
    fn sizes_are_checked_first() {
        for (switches, hosts) in [(u32::MAX, u32::MAX), (2048, 1), (1, 4096)] {
            assert_eq!(bigraph("t", switches, hosts).unwrap_err().code, Code::TooLarge);
        }
        assert_eq!(bigraph("t", 0, 4).unwrap_err().code, Code::BadSpec);
        assert_eq!(bigraph("t", 1, 1).unwrap().ranks(), 2);
    }
}
