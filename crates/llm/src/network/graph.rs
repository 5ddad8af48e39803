//! Any fabric as a wiring.

use super::wiring::Wiring;
use antiphon_base::units::Picos;
use antiphon_model::fabric::{Fabric, LinkId, Router};
use antiphon_model::system::System;
use std::sync::OnceLock;

/// Destinations whose routes are found together.
const TOGETHER: usize = 64;
/// No link.
const NONE: LinkId = LinkId::MAX;

/// A fabric with minimal routes. Links without rate or latency of their own have those of the `generic` system.
pub struct FabricWiring {
    fabric: Fabric,
    system: System,
    /// The box of every rank.
    machines: Vec<u32>,
    /// For some destinations at a time, found when one is asked for: the first link from every node.
    towards: Vec<OnceLock<Vec<Vec<LinkId>>>>,
}

impl FabricWiring {
    /// The wiring of a fabric. Ranks whose nodes are named `gpuB.G` are in box `B`.
    pub fn new(fabric: Fabric) -> Self {
        let ranks = fabric.ranks() as u32;
        let machine = |rank: u32| {
            let name = &fabric.nodes[fabric.node_of_rank(rank) as usize].name;
            name.strip_prefix("gpu")?.split_once('.')?.0.parse().ok()
        };
        let machines = (0..ranks).map(machine).collect::<Option<Vec<u32>>>();
        let machines = machines.unwrap_or_else(|| (0..ranks).collect());
        let towards = (0..(ranks as usize).div_ceil(TOGETHER)).map(|_| OnceLock::new()).collect();
        FabricWiring { system: System::default(), machines, towards, fabric }
    }

    /// The first link towards a rank from every node. O(links) once for each destination.
    fn towards(&self, to: u32) -> &[LinkId] {
        let (block, at) = (to as usize / TOGETHER, to as usize % TOGETHER);
        let found = self.towards[block].get_or_init(|| {
            let mut router = Router::new(&self.fabric);
            let nodes = self.fabric.nodes.len() as u32;
            let ranks = (block * TOGETHER) as u32..((block + 1) * TOGETHER).min(self.fabric.ranks()) as u32;
            let mut first = |to| (0..nodes).map(|node| router.next(node, to).unwrap_or(NONE)).collect();
            ranks.map(|rank| first(self.fabric.node_of_rank(rank))).collect()
        });
        &found[at]
    }
}

impl Wiring for FabricWiring {
    fn ranks(&self) -> u32 {
        self.fabric.ranks() as u32
    }

    fn links(&self) -> u32 {
        self.fabric.links.len() as u32
    }

    fn rate(&self, link: u32) -> f64 {
        let link = self.fabric.link(link);
        link.rate.unwrap_or(self.system.link_rate).0 as f64 * f64::from(link.speed_permille) / 1e3
    }

    fn latency_s(&self, link: u32) -> f64 {
        seconds(self.system.propagation(self.fabric.link(link)))
    }

    fn name(&self, link: u32) -> String {
        let link = self.fabric.link(link);
        let [from, to] = [link.from, link.to].map(|node| &self.fabric.nodes[node as usize].name);
        format!("{from}>{to}")
    }

    fn machine(&self, rank: u32) -> u32 {
        self.machines[rank as usize]
    }

    fn route(&self, from: u32, to: u32, links: &mut Vec<u32>) {
        let (mut at, end) = (self.fabric.node_of_rank(from), self.fabric.node_of_rank(to));
        let first = self.towards(to);
        while at != end {
            let link = first[at as usize];
            links.push(link);
            at = self.fabric.link(link).to;
        }
    }
}

/// Picoseconds in seconds.
pub(super) fn seconds(time: Picos) -> f64 {
    time as f64 * 1e-12
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_the_routers() {
        for spec in ["mesh:4x4@100/20ns", "ring:70@100/20ns", "dgx-h100:3", "dgx-a100:2:nics=4", "dgx-h100:2[1,9,4]"] {
            let fabric = Fabric::parse(spec).unwrap();
            let wiring = FabricWiring::new(fabric.clone());
            let mut router = Router::new(&fabric);
            for from in 0..wiring.ranks() {
                for to in 0..wiring.ranks() {
                    let mut links = vec![];
                    wiring.route(from, to, &mut links);
                    assert_eq!(links, router.route(fabric.node_of_rank(from), fabric.node_of_rank(to)), "{spec}");
                }
            }
        }
    }

    #[test]
    fn machines_rates_and_latencies() {
        let boxes = FabricWiring::new(Fabric::parse("mi300x:2").unwrap());
        assert_eq!([7, 8].map(|rank| boxes.machine(rank)), [0, 1]);
        let ring = FabricWiring::new(Fabric::parse("ring:4@100/30ns,slow=0>1:0.5").unwrap());
        assert_eq!([0, 3].map(|rank| ring.machine(rank)), [0, 3]);
        let slow = (0..8).find(|&link| ring.name(link).starts_with("0>1")).unwrap();
        assert_eq!((ring.rate(slow), ring.rate((slow + 1) % 8)), (50e9, 100e9));
        assert_eq!(ring.route_latency_s(0, 2), 60e-9);
        let bare = FabricWiring::new(Fabric::parse("ring:4").unwrap());
        assert_eq!((bare.rate(0), bare.latency_s(0)), (25e9, 20e-9));
    }
}
