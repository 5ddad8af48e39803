//! A link that serves, of the messages that have come, that of the flight that goes first, and of its messages the first in
//! schedule order.

use crate::clock::Ticks;
use crate::flight::Shares;
use crate::plan::RunPlan;
use crate::turns::Turn;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A message in front of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessageAtLink {
    /// Its place in schedule order.
    pub turn: Turn,
    /// Links it has crossed.
    pub hop: u32,
    /// Where it came from.
    pub interface: u32,
    /// When its first flit comes here.
    pub head: Ticks,
    /// When its last flit comes here.
    pub tail: Ticks,
}

/// The rank of a message's flight; or, where flights share the link equally, how long that had been served, and its number.
pub type MessageRank = (u64, u32);

/// See the module.
#[derive(Default)]
pub struct MessageLink {
    /// When what it has served is through.
    pub free_at: Ticks,
    /// Whether the messages of a flight come from one interface only, which sends them in schedule order.
    pub is_from_one: bool,
    /// Messages that have come, and which flight's go first.
    pub waiting: BinaryHeap<Reverse<(MessageRank, MessageAtLink)>>,
    /// Where several flights use it.
    pub shares: Shares,
}

impl MessageLink {
    /// The links of a plan. O(hops).
    pub fn all(plan: &RunPlan) -> Vec<MessageLink> {
        let free = || MessageLink { is_from_one: true, ..MessageLink::default() };
        let mut links: Vec<MessageLink> = plan.fabric.links.iter().map(|_| free()).collect();
        for job in &plan.jobs {
            for &link in plan.route(job).iter().skip(1) {
                links[link as usize].is_from_one = false;
            }
        }
        links
    }
}
