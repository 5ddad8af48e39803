//! Bytes that must go from node to node.

use antiphon_model::fabric::{Fabric, NodeId};
use antiphon_model::schedule::Schedule;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Most phases that are told apart; those after count with the last one.
pub const PHASES: usize = 4;
/// Bytes in each phase.
pub type PhaseBytes = [f64; PHASES];

/// Bytes that a schedule sends from node to node in each of its phases.
#[derive(Debug, Clone, PartialEq)]
pub struct Demands {
    /// By destination, the sources.
    pub to: Vec<(NodeId, Vec<(NodeId, PhaseBytes)>)>,
    /// All bytes together.
    pub total: f64,
}

impl Demands {
    /// Of a schedule's messages in some phases. O(transfers).
    pub fn of(fabric: &Fabric, schedule: &Schedule, phases: &Range<usize>) -> Demands {
        let mut bytes: HashMap<_, [u64; PHASES]> = HashMap::new();
        for transfer in schedule.transfers.iter().filter(|transfer| phases.contains(&(transfer.phase as usize))) {
            let ends = [transfer.to, transfer.from].map(|rank| schedule.node_of(fabric, rank));
            let lanes = transfer.lanes().map(|lane| &schedule.lanes[lane]);
            let sum: u64 = lanes.map(|lane| lane.chunk_bytes * lane.chunks).sum();
            bytes.entry(ends).or_default()[(transfer.phase as usize).min(PHASES - 1)] += sum;
        }
        let mut list: Vec<_> = bytes.into_iter().filter(|([to, from], bytes)| to != from && *bytes != [0; 4]).collect();
        list.sort_unstable();
        let total = list.iter().flat_map(|(_, bytes)| bytes).sum::<u64>() as f64;
        let mut to = BTreeMap::<_, Vec<_>>::new();
        for ([end, from], bytes) in list {
            to.entry(end).or_default().push((from, bytes.map(|bytes| bytes as f64)));
        }
        Demands { to: to.into_iter().collect(), total }
    }

    /// About how many steps it takes to send all messages among so many nodes.
    pub fn work(&self, nodes: usize) -> usize {
        let hops = nodes.isqrt();
        (self.to.len() * nodes * 6 + self.to.iter().map(|(_, list)| list.len()).sum::<usize>() * hops * hops).max(1)
    }
}
