//! What limits a collective: the links that a bound by rates rests on.

use super::capacity::Capacities;
use super::cut::Cut;
use super::least_cut::LeastCuts;
use super::strength::SitePartition;
use super::task::Task;
use antiphon_model::fabric::{Fabric, Link, LinkId, NodeId, listed};
use antiphon_model::schedule::Certificate;
use antiphon_model::system::System;
use serde::Serialize;

/// The links that limit a collective, and what they join.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// In one line.
    pub text: String,
    /// The links, in ascending order: all, where it is the volume.
    pub links: Vec<LinkId>,
    /// The price of each, from which the bound follows; see [`Certificate`].
    pub prices: Vec<u64>,
    /// The part of every rank, if the links are those between parts of the ranks: for a cut 0, from which they lead, and 1.
    pub part_of: Vec<u32>,
}

/// Links that are named.
const NAMED: usize = 3;

impl Limit {
    /// All links together.
    pub(super) fn volume(fabric: &Fabric) -> Limit {
        let links = fabric.links.len();
        Limit {
            text: format!("all {links} links together"),
            links: (0..links as LinkId).collect(),
            prices: vec![1; links],
            part_of: vec![],
        }
    }

    /// The links over a cut.
    pub(super) fn cut(fabric: &Fabric, system: &System, task: &Task, capacities: &Capacities, cut: &Cut) -> Limit {
        let mut inside = vec![false; fabric.nodes.len()];
        cut.inside.iter().for_each(|&node| inside[node as usize] = true);
        let mut cuts = least_cuts(fabric, capacities, task, cut.entering);
        let prices = crossing(fabric, &mut cuts, |node| inside[node as usize], cut.entering);
        // Links lead from part 0 to part 1.
        let part_of: Vec<u32> =
            task.sites.iter().map(|site| u32::from(inside[site.node as usize] == cut.entering)).collect();
        let ranks = |part: u32| {
            let of = |&site: &usize| part_of[site] == part;
            let nodes = (0..part_of.len()).filter(of).map(|site| task.sites[site].node);
            listed(&nodes.filter_map(|node| fabric.nodes[node as usize].rank).collect::<Vec<_>>())
        };
        let of = |links: &[LinkId]| format!("{} from ranks {} to {}", rates(fabric, system, links), ranks(0), ranks(1));
        Limit::new(fabric, task, &prices, &part_of, of)
    }

    /// The links between the parts of a partition.
    pub(super) fn partition(
        fabric: &Fabric,
        system: &System,
        task: &Task,
        capacities: &Capacities,
        partition: &SitePartition,
    ) -> Limit {
        let SitePartition { part_of, entering, .. } = partition;
        let mut cuts = least_cuts(fabric, capacities, task, *entering);
        let parts = part_of.iter().max().map_or(0, |&last| last + 1);
        let mut prices = vec![0; fabric.links.len()];
        let mut site_part = vec![u32::MAX; fabric.nodes.len()];
        task.sites.iter().zip(part_of).for_each(|(site, &part)| site_part[site.node as usize] = part);
        for part in 0..parts {
            let around = crossing(fabric, &mut cuts, |node| site_part[node as usize] == part, *entering);
            prices.iter_mut().zip(around).for_each(|(price, more)| *price += more);
        }
        let of = |links: &[LinkId]| {
            let (links, way) = (rates(fabric, system, links), if *entering { "enter" } else { "leave" });
            match parts as usize == task.sites.len() {
                true => format!("{links} that {way} single ranks"),
                false => format!("{links} that {way} {parts} groups of ranks"),
            }
        };
        Limit::new(fabric, task, &prices, part_of, of)
    }

    /// Links with prices.
    pub(super) fn prices(fabric: &Fabric, system: &System, certificate: &Certificate) -> Limit {
        let (links, prices): (Vec<LinkId>, Vec<u64>) = certificate.prices.iter().copied().unzip();
        let mut dearest: Vec<usize> = (0..links.len()).collect();
        dearest.sort_by_key(|&at| std::cmp::Reverse(prices[at]));
        let dearest: Vec<LinkId> = dearest.into_iter().map(|at| links[at]).collect();
        let text = format!("{} by their prices, first {}", rates(fabric, system, &links), named(fabric, &dearest));
        Limit { text, links, prices, part_of: vec![] }
    }

    fn new(fabric: &Fabric, task: &Task, prices: &[u64], part_of: &[u32], text: impl Fn(&[LinkId]) -> String) -> Limit {
        let (links, prices): (Vec<LinkId>, Vec<u64>) =
            (0..).zip(prices).filter(|&(_, &price)| price > 0).map(|(link, &price)| (link, price)).unzip();
        let mut of_node = vec![None; fabric.nodes.len()];
        task.sites.iter().zip(part_of).for_each(|(site, &part)| of_node[site.node as usize] = Some(part));
        let part = |rank: u32| of_node[fabric.node_of_rank(rank) as usize];
        let part_of: Option<Vec<u32>> = (0..fabric.ranks() as u32).map(part).collect();
        let text = format!("{}: {}", text(&links), named(fabric, &links));
        Limit { text, links, prices, part_of: part_of.unwrap_or_default() }
    }

    /// The prices as a certificate that claims nothing yet.
    pub(super) fn certificate(&self) -> Certificate {
        let prices = self.links.iter().copied().zip(self.prices.iter().copied()).collect();
        Certificate { share_ppm: 0, prices }
    }
}

/// What finds the least sets around sites: none where every node is a site, since they are the sites themselves then.
fn least_cuts(fabric: &Fabric, capacities: &Capacities, task: &Task, entering: bool) -> Option<LeastCuts> {
    if task.sites.len() == fabric.nodes.len() {
        return None;
    }
    let links = fabric.links.iter().zip(&capacities.links).map(|(link, &capacity)| (link.from, link.to, capacity));
    let sites = task.sites.iter().map(|site| site.node).collect();
    Some(LeastCuts::new(fabric.nodes.len(), &links.collect::<Vec<_>>(), sites, entering))
}

/// 1 for every link that leaves, or enters, the least set with the sites `inside`.
pub(super) fn crossing(
    fabric: &Fabric,
    cuts: &mut Option<LeastCuts>,
    inside: impl Fn(NodeId) -> bool,
    entering: bool,
) -> Vec<u64> {
    if let Some(cuts) = cuts {
        cuts.around(&inside);
    }
    let holds = |node: NodeId| cuts.as_ref().map_or_else(|| inside(node), |cuts| cuts.holds(node));
    let crosses = |from: NodeId, to: NodeId| u64::from(holds(from) && !holds(to));
    let of = |link: &Link| if entering { crosses(link.to, link.from) } else { crosses(link.from, link.to) };
    fabric.links.iter().map(of).collect()
}

/// How many links there are, and of what rate.
pub(super) fn rates(fabric: &Fabric, system: &System, links: &[LinkId]) -> String {
    let rates = || links.iter().map(|&link| system.rate_of(fabric.link(link)));
    let count = match links.len() {
        1 => "1 link".to_string(),
        count => format!("{count} links"),
    };
    match (rates().min(), rates().max()) {
        (Some(least), Some(most)) if least == most => format!("{count} of {} GB/s", least.as_gb_per_s()),
        (Some(least), Some(most)) => format!("{count} of {} to {} GB/s", least.as_gb_per_s(), most.as_gb_per_s()),
        _ => count,
    }
}

/// The first of some links by the names of their ends.
pub(super) fn named(fabric: &Fabric, links: &[LinkId]) -> String {
    let name = |&link: &LinkId| {
        let [from, to] = [fabric.link(link).from, fabric.link(link).to].map(|node| &fabric.nodes[node as usize].name);
        format!("{from}>{to}")
    };
    let names: Vec<String> = links.iter().take(NAMED).map(name).collect();
    let more = if links.len() > NAMED { ", ..." } else { "" };
    format!("{}{more}", names.join(", "))
}
