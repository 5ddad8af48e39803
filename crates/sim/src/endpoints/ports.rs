//! Ports of nodes: the links that leave them, numbered.

use antiphon_model::fabric::{Fabric, LinkId, NodeId};

/// See the module.
pub struct Ports {
    /// Number of every link among those that leave its node.
    of_link: Vec<u32>,
    /// How many leave each node.
    counts: Vec<u32>,
}

impl Ports {
    /// Of a fabric.
    pub fn new(fabric: &Fabric) -> Ports {
        let mut counts = vec![0; fabric.nodes.len()];
        let number = |link: &antiphon_model::fabric::Link| {
            counts[link.from as usize] += 1;
            counts[link.from as usize] - 1
        };
        let of_link = fabric.links.iter().map(number).collect();
        Ports { of_link, counts }
    }

    /// By which port a link leaves.
    pub fn of(&self, link: LinkId) -> u32 {
        self.of_link[link as usize]
    }

    /// Ports of a node; one where it has none, for what stays there.
    pub fn count(&self, node: NodeId) -> u32 {
        self.counts[node as usize].max(1)
    }
}
