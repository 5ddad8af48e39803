//! Runs on several cores: the fabric in parts, each a machine of its own.
//!
//! A packet that begins on a link comes to the other end when it has been sent, and the latency later: all parts go on by
//! themselves for as long as that takes at least ([`antiphon_base::cores`]). Every packet has the time that it has in one machine.

use super::clock::Ticks;
use super::cost::CostModel;
use super::plan::{Job, RunPlan};
use antiphon_base::cores::part_of;
use antiphon_model::fabric::{LinkId, NodeId};
use antiphon_model::schedule::{Dependency, Event, Pacing};
use antiphon_model::system::Endpoint;

/// Fewest nodes of a part: with fewer, parts wait for each other more than they compute.
const FEWEST_NODES: usize = 64;
/// Most parts, which need no more cores.
const MOST_PARTS: usize = 16;
/// Most packets that are no longer in runs, as a share of all events: each is about four more.
const MOST_TOLD_APART: f64 = 1.0 / 16.0;
/// Most transfers, of which every part has the state of all.
const MOST_TRANSFERS: usize = 1 << 18;

/// Which part of a fabric everything is in.
pub struct Division {
    of_link: Vec<u32>,
    of_rank: Vec<u32>,
    /// Links that lead to another part.
    crosses: Vec<bool>,
    pub count: u32,
    /// From the beginning of a packet on such a link to its end, at least.
    pub window: Ticks,
}

impl Division {
    /// As many as are worth it in a run that takes `events` in one machine, if any are. O(hops + dependencies).
    pub fn new(plan: &RunPlan, events: f64) -> Option<Division> {
        let most = (plan.fabric.nodes.len() / FEWEST_NODES).min(MOST_PARTS);
        let counts = std::iter::successors(Some(most), |count| Some(count / 2)).take_while(|&count| count > 1);
        let is_worth_it = |parts: &Division| parts.told_apart(plan) as f64 <= events * MOST_TOLD_APART;
        counts.map_while(|count| Division::of(plan, count)).find(is_worth_it)
    }

    /// How many packets behind others of their messages may no longer be in runs with them, as they cross to another part:
    /// on how many links, together.
    fn told_apart(&self, plan: &RunPlan) -> u64 {
        let of_job = |job: &Job| {
            let (route, kind) = (plan.route(job), plan.kind(job));
            let first = route.iter().position(|&link| self.crosses(link)).unwrap_or(route.len());
            (route.len() - first) as u64 * (kind.packets.count - 1) * kind.chunks
        };
        plan.jobs.iter().map(of_job).sum()
    }

    /// So many parts of the fabric of a plan, if they meet only at links with latency and ranks wait only for what happens in
    /// theirs.
    pub fn of(plan: &RunPlan, count: usize) -> Option<Division> {
        let [of] = &plan.flights[..] else { return None };
        let stands_alone = of.flight.after.is_empty() && !of.flight.held && plan.units.is_none() && !plan.trace;
        let is_plain = matches!(plan.system.endpoint, Endpoint::System | Endpoint::Ideal(_));
        let has_gates = of.flight.schedule.phases.iter().skip(1).any(|phase| phase.barrier);
        let waits_for_receipt = of.flight.schedule.endpoint.pacing == Pacing::StopAndWait;
        if count < 2 || !stands_alone || !is_plain || has_gates || waits_for_receipt || plan.jobs.len() > MOST_TRANSFERS
        {
            return None;
        }
        // Neighbours have numbers near each other on most fabrics.
        let nodes = plan.fabric.nodes.len();
        let part = |node: NodeId| part_of(node, nodes, count as u32);
        let links = &plan.fabric.links;
        let crosses: Vec<bool> = links.iter().map(|link| part(link.from) != part(link.to)).collect();
        let borders = || (0..links.len()).filter(|&link| crosses[link]);
        // What is at the other end at once comes in the order of links, which one part alone does not know.
        if borders().any(|link| plan.latency[link] == 0) {
            return None;
        }
        let transit = CostModel::in_packets(plan.system).transit();
        let flits = plan.kinds.iter().map(|kind| transit.leading_flits(kind.packets.flits)).min()?;
        let parts = Division {
            of_link: links.iter().map(|link| part(link.from)).collect(),
            of_rank: (0..plan.participants() as u32).map(|rank| part(plan.node_of(0, rank))).collect(),
            count: count as u32,
            // One that follows others is told of a tick after it has begun.
            window: borders().map(|link| flits * plan.flit[link] + plan.latency[link] - 1).min()?,
            crosses,
        };
        (parts.window > 0 && parts.knows_all(plan)).then_some(parts)
    }

    /// Whether ranks wait only for what happens in their part.
    fn knows_all(&self, plan: &RunPlan) -> bool {
        let place = |dependency: &Dependency| {
            let job = &plan.jobs[dependency.transfer() as usize];
            self.of_rank(if dependency.event() == Event::Sent { job.from } else { job.to })
        };
        plan.jobs.iter().all(|job| {
            plan.start_after(job).iter().all(|after| place(after) == self.of_rank(job.from))
                && plan.apply_after(job).iter().all(|after| place(after) == self.of_rank(job.to))
        })
    }

    /// Number of parts.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The part of a link: that where it begins.
    #[inline]
    pub fn of_link(&self, link: LinkId) -> u32 {
        self.of_link[link as usize]
    }

    /// Whether a link leads to another part.
    #[inline]
    pub fn crosses(&self, link: LinkId) -> bool {
        self.crosses[link as usize]
    }

    /// The part of a rank.
    #[inline]
    pub fn of_rank(&self, rank: u32) -> u32 {
        self.of_rank[rank as usize]
    }
}
