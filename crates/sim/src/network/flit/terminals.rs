//! Local ports of routers: where messages enter and leave a network of routers.

use crate::endpoints::Endpoints;
use crate::plan::RunPlan;
use antiphon_model::fabric::{LinkId, NodeId};
use std::collections::HashMap;

/// Terminal `i` is interface `i`; those after the last interface only receive.
pub struct Terminals {
    /// Where each is.
    pub nodes: Vec<NodeId>,
    /// At which each transfer arrives.
    pub destination: Vec<u32>,
}

impl Terminals {
    /// An interface for every outgoing link comes with one for every incoming link; shared interfaces receive from the
    /// links in turn. O(transfers).
    pub fn new(plan: &RunPlan, endpoints: &Endpoints) -> Self {
        let mut nodes: Vec<NodeId> = (0..endpoints.interfaces() as u32).map(|id| endpoints.node_of(id)).collect();
        let mut of_link: HashMap<(u32, u32, Option<LinkId>), u32> = HashMap::new();
        let mut received: HashMap<(u32, u32), u32> = HashMap::new();
        let mut destination = Vec::with_capacity(plan.jobs.len());
        for job in &plan.jobs {
            let terminal = *of_link.entry((job.flight, job.to, plan.route(job).last().copied())).or_insert_with(|| {
                let turn = received.entry((job.flight, job.to)).or_default();
                *turn += 1;
                if let Some(shared) = endpoints.interfaces_of(job.flight, job.to) {
                    return shared.start + (*turn - 1) % shared.len() as u32;
                }
                nodes.push(plan.node_of(job.flight, job.to));
                nodes.len() as u32 - 1
            });
            destination.push(terminal);
        }
        Terminals { nodes, destination }
    }
}
