//! Parts of a fabric: what is planned on one is a plan for the whole.

use crate::algorithm::Request;
use crate::algorithm::estimate::flit_times;
use antiphon_model::fabric::{Fabric, LinkId, Shape, View};
use antiphon_model::schedule::Schedule;
use std::collections::HashSet;

/// A part of a fabric with all its ranks.
pub struct FabricPart {
    view: View,
}

impl FabricPart {
    /// The fabric of a request without what a plan may be better off without: links of nodes that only forward, links that have
    /// none back, links slower than others; and without several of these. O(links).
    pub fn all(request: &Request) -> Vec<FabricPart> {
        let fabric = request.fabric;
        let times = flit_times(request);
        let fastest = times.iter().copied().min().unwrap_or(0);
        let ends: HashSet<_> = fabric.links.iter().map(|link| (link.from, link.to)).collect();
        let is_rank = |node| fabric.nodes[node as usize].rank.is_some();
        let kinds = |(id, link): (usize, &antiphon_model::fabric::Link)| {
            let forwards = !is_rank(link.from) || !is_rank(link.to);
            let one_way = !ends.contains(&(link.to, link.from));
            u32::from(forwards) | u32::from(one_way) << 1 | u32::from(times[id] > fastest) << 2
        };
        let kinds: Vec<u32> = fabric.links.iter().enumerate().map(kinds).collect();
        let mut seen = HashSet::from([vec![true; kinds.len()]]);
        let kept = (1..8).map(|without| kinds.iter().map(|kind| kind & without == 0).collect::<Vec<bool>>());
        kept.filter(|kept| seen.insert(kept.clone())).filter_map(|kept| FabricPart::of(fabric, &kept)).collect()
    }

    /// That with some of the links, if they join all ranks.
    fn of(fabric: &Fabric, kept: &[bool]) -> Option<FabricPart> {
        let ranks = (0..fabric.ranks() as u32).collect();
        let view = View::new(fabric.clone(), Shape::Graph, ranks, |id| kept[id as usize]).ok()?;
        Some(FabricPart { view })
    }

    /// The fabric that it is.
    pub fn fabric(&self) -> &Fabric {
        &self.view.fabric
    }

    /// A schedule for the part, for the whole.
    pub fn on_whole(&self, mut schedule: Schedule) -> Schedule {
        let links = |ids: &mut dyn Iterator<Item = &mut LinkId>| ids.for_each(|id| *id = self.view.links[*id as usize]);
        schedule.transfers.iter_mut().for_each(|transfer| links(&mut transfer.route.iter_mut()));
        links(&mut schedule.bundled_links.iter_mut());
        schedule
    }
}
