//! Where packets are on their routes.

use crate::fabric::LinkId;
use crate::schedule::TransferId;
use crate::simulate::plan::{Job, Plan};

/// After the last link of a route.
const END: LinkId = LinkId::MAX;

/// The routes of all transfers, an end after each.
pub struct Hops(Vec<LinkId>);

impl Hops {
    /// Those of a plan. O(hops).
    pub fn new(plan: &Plan) -> Self {
        Hops(plan.jobs.iter().flat_map(|job| plan.route(job).iter().copied().chain([END])).collect())
    }

    /// The packets of a transfer before their first link.
    pub fn first(&self, transfer: TransferId, job: &Job) -> Flow {
        // One end lies before it for every transfer before it.
        Flow { transfer, kind: job.kind, hop: job.hops.start + transfer }
    }

    /// The link that packets are to cross, unless their route ends before.
    #[inline]
    pub fn at(&self, flow: Flow) -> Option<LinkId> {
        Some(self.0[flow.hop as usize]).filter(|&link| link != END)
    }

    /// The link that packets have crossed last.
    #[inline]
    pub fn before(&self, flow: Flow) -> LinkId {
        self.0[flow.hop as usize - 1]
    }
}

/// Packets of a transfer on a link of its route.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    pub transfer: TransferId,
    /// What they are, as the plan numbers it: asking the transfer would wait for memory.
    pub kind: u32,
    /// Place of the link in [`Hops`].
    pub hop: u32,
}

impl Flow {
    /// The same packets on the next link.
    pub fn next(self) -> Flow {
        Flow { hop: self.hop + 1, ..self }
    }

    /// The same place in [`Plan::hops`], which have no ends.
    pub fn hop_of_plan(self) -> usize {
        (self.hop - self.transfer) as usize
    }

    /// Tells it from others.
    pub fn word(self) -> u64 {
        (self.transfer as u64) << 32 | self.hop as u64
    }
}
