//! A link that serves messages in the order in which they come; of several flights first those of the one that goes first.

use crate::schedule::TransferId;
use crate::simulate::clock::Ticks;
use crate::simulate::plan::Plan;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A message in front of a link. Of those that come at once, that of the lowest transfer goes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message {
    /// When its first flit comes here.
    pub head: Ticks,
    /// What it carries.
    pub transfer: TransferId,
    /// See `transfer`.
    pub chunk: u64,
    /// Links it has crossed.
    pub hop: u32,
    /// Where it came from.
    pub interface: u32,
    /// When its last flit comes here.
    pub tail: Ticks,
}

/// See the module.
#[derive(Default)]
pub struct Link {
    /// When what it has served is through.
    pub free_at: Ticks,
    /// Whether messages come from one interface only: then they come in the order in which they are sent.
    pub is_from_one: bool,
    /// Messages that have come, and the ranks of their flights, where several flights use it.
    pub waiting: BinaryHeap<Reverse<(u64, Message)>>,
}

impl Link {
    /// The links of a plan. O(hops).
    pub fn all(plan: &Plan) -> Vec<Link> {
        let free = || Link { is_from_one: true, ..Link::default() };
        let mut links: Vec<Link> = plan.fabric.links.iter().map(|_| free()).collect();
        for job in &plan.jobs {
            for &link in plan.route(job).iter().skip(1) {
                links[link as usize].is_from_one = false;
            }
        }
        links
    }
}
