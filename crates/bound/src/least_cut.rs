//! The least cuts around sets of sites.

use super::maxflow::{FlowNetwork, UNLIMITED};
use antiphon_model::fabric::NodeId;

/// Node sets that hold some sites and no others, wherever switches are, with the least capacity of what leaves them.
pub(super) struct LeastCuts {
    /// Edges: from the source to each site, from each site to the sink, and the links.
    network: FlowNetwork,
    sites: Vec<NodeId>,
    source: NodeId,
}

impl LeastCuts {
    /// Of what enters, if `reversed`. O(nodes + links).
    pub fn new(nodes: usize, links: &[(NodeId, NodeId, u128)], sites: Vec<NodeId>, reversed: bool) -> LeastCuts {
        let source = nodes as NodeId;
        let ends = sites.iter().map(|&site| (source, site, 0)).chain(sites.iter().map(|&site| (site, source + 1, 0)));
        let links = links.iter().map(|&(a, b, capacity)| if reversed { (b, a, capacity) } else { (a, b, capacity) });
        let network = FlowNetwork::new(nodes + 2, &ends.chain(links).collect::<Vec<_>>());
        LeastCuts { network, sites, source }
    }

    /// The capacity around the sites that are `inside`; then [`Self::holds`] has the set. One maximum flow.
    pub fn around(&mut self, inside: impl Fn(NodeId) -> bool) -> u128 {
        self.network.reset();
        for (edge, &site) in self.sites.iter().enumerate() {
            let (source, sink) = if inside(site) { (UNLIMITED, 0) } else { (0, UNLIMITED) };
            self.network.set_capacity(edge, source);
            self.network.set_capacity(self.sites.len() + edge, sink);
        }
        self.network.augment(self.source, self.source + 1, UNLIMITED)
    }

    /// Whether a node is in the set found last.
    pub fn holds(&self, node: NodeId) -> bool {
        self.network.on_source_side(node)
    }
}
