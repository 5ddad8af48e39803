//! Bytes that must go from node to node.

use crate::fabric::{Fabric, NodeId};
use crate::schedule::Schedule;
use std::collections::{BTreeMap, HashMap};

/// Bytes that a schedule sends from node to node.
#[derive(Debug, Clone, PartialEq)]
pub struct Demands {
    /// By destination, the sources.
    pub to: Vec<(NodeId, Vec<(NodeId, f64)>)>,
    /// All bytes together.
    pub total: f64,
}

impl Demands {
    /// Of a schedule's messages. O(transfers).
    pub fn of(fabric: &Fabric, schedule: &Schedule) -> Demands {
        let mut bytes = HashMap::new();
        for transfer in &schedule.transfers {
            let ends = [transfer.to, transfer.from].map(|rank| schedule.node_of(fabric, rank));
            let lanes = transfer.lanes().map(|lane| &schedule.lanes[lane]);
            let sum: u64 = lanes.map(|lane| lane.chunk_bytes * lane.chunks).sum();
            *bytes.entry(ends).or_insert(0) += sum;
        }
        let mut to = BTreeMap::<_, Vec<_>>::new();
        let mut list: Vec<_> = bytes.into_iter().filter(|([to, from], bytes)| to != from && *bytes > 0).collect();
        list.sort_unstable();
        let total = list.iter().map(|(_, bytes)| *bytes as f64).sum();
        list.into_iter().for_each(|([end, from], bytes)| to.entry(end).or_default().push((from, bytes as f64)));
        Demands { to: to.into_iter().collect(), total }
    }

    /// About how many steps it takes to send all messages among so many nodes.
    pub fn work(&self, nodes: usize) -> usize {
        let hops = nodes.isqrt();
        (self.to.len() * nodes * 6 + self.to.iter().map(|(_, list)| list.len()).sum::<usize>() * hops * hops).max(1)
    }

    /// Whether as much goes one way as the other between all nodes.
    pub fn are_symmetric(&self) -> bool {
        let all: HashMap<_, f64> =
            self.to.iter().flat_map(|(to, list)| list.iter().map(|&(from, bytes)| ((from, *to), bytes))).collect();
        all.iter().all(|(&(from, to), &bytes)| all.get(&(to, from)) == Some(&bytes))
    }
}
