//! Switches that add or multicast: what they change about lower bounds of an AllReduce.
//!
//! Eight ranks around a switch that is read (NVLS): somebody is the first to know the sum of an element. If it read it, all eight have sent
//! and it has received; then it must write to all eight, itself among them. So an element crosses 9 links up and 9 down, where
//! messages between ranks would cross 14 of each, and D bytes take 9/8 D over the rate of a link.

use super::capacity::Capacities;
use super::task::Task;
use antiphon_model::collective::Kind;
use antiphon_model::fabric::{Fabric, NodeId};

/// The links of a star: of every rank one to the switch, which is read and written to, and one from it.
pub(super) struct ReadStar {
    /// Links to the switch, and from it.
    links: [Vec<usize>; 2],
}

impl ReadStar {
    /// The star that a fabric is, if all that a task moves goes over one switch that adds on reads and multicasts.
    pub fn of(fabric: &Fabric, task: &Task) -> Option<ReadStar> {
        let mut switches = fabric.computing_switches();
        let (Some(switch), None) = (switches.next(), switches.next()) else { return None };
        let compute = fabric.nodes[switch as usize].compute?;
        let joins = |link: &antiphon_model::fabric::Link| link.from == switch || link.to == switch;
        let alone = task.sites.iter().all(|site| site.ranks == 1) && task.helpers.is_empty();
        if !compute.is_on_read() || !compute.multicasts || !alone || !fabric.links.iter().all(joins) {
            return None;
        }
        let of = |way: usize| {
            let link = |node: NodeId| {
                let mut found = (0..fabric.links.len()).filter(|&link| {
                    let link = &fabric.links[link];
                    [link.from, link.to][way] == node
                });
                found.next().filter(|_| found.next().is_none())
            };
            task.sites.iter().map(|site| link(site.node)).collect::<Option<Vec<usize>>>()
        };
        Some(ReadStar { links: [of(0)?, of(1)?] })
    }

    /// What an element of an AllReduce costs at least at prices of links.
    ///
    /// Let `v` be the first to know the sum. All others have sent by then, and `v` has received. If `v` or another rank has read, that one
    /// has sent once more; else all others were received, each message at some rank. After that all others receive, and somebody
    /// sends: once, and receives its own, or as often as there are others.
    pub fn all_reduce_cost(&self, prices: &[u64]) -> u128 {
        let of = |way: usize| self.links[way].iter().map(move |&link| u128::from(prices[link]));
        let (up, down) = (|| of(0), || of(1));
        let least = [up().min().unwrap_or(0), down().min().unwrap_or(0)];
        let others = (self.links[0].len() as u128).saturating_sub(2);
        let all = up().sum::<u128>() + down().sum::<u128>() - up().max().unwrap_or(0);
        all + least[0].min(others * least[1]) + least[0] + least[1].min(others * least[0])
    }
}

/// Capacities with which what computing switches do is free: links at them never limit. An AllReduce that uses these switches
/// takes no less than one among ranks that know all that their neighbours at such a switch know.
pub(super) fn freed(fabric: &Fabric, capacities: &Capacities, task: &Task) -> Option<Capacities> {
    let computes = |node: NodeId| fabric.nodes[node as usize].compute.is_some();
    if task.kind != Kind::AllReduce || fabric.computing_switches().next().is_none() {
        return None;
    }
    let mut freed = capacities.clone();
    let most = capacities.total() * fabric.links.len() as u128;
    for (link, capacity) in fabric.links.iter().zip(&mut freed.links) {
        *capacity = if computes(link.from) || computes(link.to) { most } else { *capacity };
    }
    Some(freed)
}
