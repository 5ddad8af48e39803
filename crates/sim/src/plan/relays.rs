//! Messages that are stored at ranks on their way: each is several, a leg after another.

use super::kinds::Known;
use super::{Job, MessageKind, RunPlan};
use antiphon_model::fabric::{Fabric, NodeId};
use antiphon_model::schedule::{Dependency, Event, Schedule, Transfer, TransferId};

/// Where messages are stored on the way: at ranks that a route passes.
pub(super) struct Relays {
    /// First leg of every transfer, and after the last.
    first: Vec<TransferId>,
}

impl Relays {
    /// Of the transfers of a schedule.
    pub(super) fn new(fabric: &Fabric, schedule: &Schedule) -> Relays {
        let mut first = vec![0];
        for transfer in &schedule.transfers {
            let stops = transfer
                .route
                .iter()
                .skip(1)
                .filter(|&&link| fabric.nodes[fabric.link(link).from as usize].rank.is_some());
            first.push(first[first.len() - 1] + 1 + stops.count() as TransferId);
        }
        Relays { first }
    }

    /// Legs of all transfers.
    pub(super) fn legs(&self) -> usize {
        self.first[self.first.len() - 1] as usize
    }

    /// Whether a transfer is stored on its way.
    pub(super) fn is_stored(&self, transfer: usize) -> bool {
        self.first[transfer + 1] - self.first[transfer] > 1
    }

    /// The leg that a dependency is about.
    pub(super) fn leg(&self, dependency: Dependency) -> TransferId {
        let transfer = dependency.transfer() as usize;
        match dependency.event() {
            Event::Sent => self.first[transfer],
            Event::Applied => self.first[transfer + 1] - 1,
        }
    }

    /// The legs of a transfer: first hop with the node it starts from, and the hop after its last.
    fn stops(&self, fabric: &Fabric, transfer: &Transfer) -> Vec<((u32, NodeId), u32)> {
        let from = |hop: usize| fabric.link(transfer.route[hop]).from;
        let starts: Vec<usize> = (0..transfer.route.len())
            .filter(|&hop| hop == 0 || fabric.nodes[from(hop) as usize].rank.is_some())
            .collect();
        let ends = starts.iter().skip(1).copied().chain([transfer.route.len()]);
        starts.iter().zip(ends).map(|(&start, end)| ((start as u32, from(start)), end as u32)).collect()
    }
}

impl RunPlan<'_> {
    /// Adds the legs of a transfer that is stored at ranks on its way: what they pass on they read once.
    pub(super) fn add_legs(
        &mut self,
        index: usize,
        transfer: &Transfer,
        relays: &Relays,
        kind: MessageKind,
        known: &mut Known,
    ) {
        let stops = relays.stops(self.fabric, transfer);
        let whole = self.job(index, transfer, 0, Some(relays));
        let first = whole.hops.start;
        for (leg, &(from, to)) in stops.iter().enumerate() {
            let is_last = leg + 1 == stops.len();
            let reads = if leg == 0 { kind.reads } else { 1 };
            let of_leg = MessageKind { adds: is_last && kind.adds, reads, ..kind };
            let number = self.number(of_leg, known);
            let before = self.after.len();
            if leg > 0 {
                self.after.push(Dependency::from(self.jobs.len() as TransferId - 1));
            }
            let own = if leg > 0 { before as u32..self.after.len() as u32 } else { whole.start_after.clone() };
            let ends = |at: usize| {
                if at == 0 { whole.from } else { self.fabric.nodes[stops[at].0.1 as usize].rank.expect("a rank") }
            };
            let job = Job {
                from: ends(leg),
                to: if is_last { whole.to } else { ends(leg + 1) },
                kind: number,
                payload: if is_last { whole.payload.clone() } else { 0..0 },
                hops: first + from.0..first + to,
                start_after: own,
                apply_after: if is_last { whole.apply_after.clone() } else { 0..0 },
                ..whole
            };
            self.push_job(job);
        }
    }
}
