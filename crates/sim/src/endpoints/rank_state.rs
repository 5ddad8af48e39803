//! What of the ranks' state decides the future, and how far a period of it reaches.

use super::{Endpoints, HeldMessages, RankEvent, TransferState};
use crate::clock::Ticks;
use crate::period::order_ahead;
use crate::turns::Turn;
use antiphon_model::schedule::TransferId;
use std::cmp::Reverse;

impl Endpoints<'_> {
    /// Changes when a barrier opens, or a flight starts or ends: no period goes on across that.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Chunks of a transfer before which all were applied.
    pub fn chunks_applied(&self, id: TransferId) -> u64 {
        self.transfers[id as usize].applied
    }

    /// Chunks of a transfer from the first on that was not applied.
    pub fn chunks_left(&self, id: TransferId) -> u64 {
        self.plan.kind_of(id).chunks - self.transfers[id as usize].applied
    }

    /// Chunks of a transfer that were started.
    pub fn chunks_started(&self, id: TransferId) -> u64 {
        self.transfers[id as usize].started
    }

    /// Chunks started of every transfer.
    pub fn started(&self) -> impl Iterator<Item = u64> + '_ {
        self.transfers.iter().map(|state| state.started)
    }

    /// The transfer with most chunks left, at least `chunks`, that is behind no barrier; of the
    /// first phase that has one.
    pub fn longest(&self, chunks: u64) -> Option<TransferId> {
        let jobs = self.active().flat_map(|flight| self.plan.flights[flight].jobs.clone());
        let gate = |id: TransferId| self.flights[self.plan.jobs[id as usize].flight as usize].gate;
        let open = jobs.filter(|&id| self.plan.jobs[id as usize].phase < gate(id));
        let left = open.filter(|&id| self.chunks_left(id) >= chunks);
        left.min_by_key(|&id| (self.plan.jobs[id as usize].phase, Reverse(self.chunks_left(id)), id))
    }

    /// Appends all that decides what happens next, with times relative to `now` and without the
    /// chunk each transfer is at.
    pub fn write_state(&self, now: Ticks, state: &mut Vec<u64>) {
        let agenda = self.agenda.in_order();
        state.push(agenda.len() as u64);
        for (at, event) in agenda {
            let (kind, id, behind) = match event {
                RankEvent::Received { transfer, chunk } => (0, transfer, self.behind(transfer, chunk)),
                RankEvent::Applied { transfer, chunk } => (1, transfer, self.behind(transfer, chunk)),
                RankEvent::Wake { queue } => (2, queue, 0),
                RankEvent::Sent { transfer, chunk } => (3, transfer, self.behind(transfer, chunk)),
                RankEvent::Fetched { .. }
                | RankEvent::Read { .. }
                | RankEvent::Loaded { .. }
                | RankEvent::Written { .. } => {
                    unreachable!("what has its own order skips no periods")
                }
            };
            state.extend([at - now, kind << 32 | id as u64, behind]);
        }
        let queues = self.active().flat_map(|flight| self.flights[flight].queues.clone());
        for queue in queues.map(|queue| &self.queues[queue as usize]) {
            state.push((queue.slot.len() as u64) << 32 | queue.outstanding as u64);
            state.push(queue.last as u64);
            state.extend(queue.slot.iter().map(|&id| id as u64));
            let interfaces = &self.interfaces[queue.interfaces.start as usize..queue.interfaces.end as usize];
            state.extend(interfaces.iter().map(|interface| interface.busy_until.saturating_sub(now)));
        }
        self.adders.write_state(now, state);
        for id in self.active().flat_map(|flight| self.plan.flights[flight].jobs.clone()) {
            let id = id as usize;
            let TransferState { started, applied, met, .. } = self.transfers[id];
            if started > applied || met > 0 {
                state.extend([id as u64, started - applied, met as u64]);
                state.extend(self.sent.iter().map(|(sent, _)| started - sent[id]));
            }
        }
        let behind = |id: TransferId, chunk: u64| self.behind(id, chunk);
        self.early.write_state(behind, state);
        self.sent.iter().for_each(|(_, early)| early.write_state(behind, state));
        let held = self.holds.iter().flat_map(HeldMessages::messages);
        let start = state.len();
        state.extend(held.map(|(id, chunk)| u64::from(id) << 32 | behind(id, chunk)));
        state[start..].sort_unstable();
        state.push(u64::MAX);
        state.extend(self.active().map(|flight| self.flights[flight].gate as u64));
    }

    /// How many more periods like one in which `moved` chunks of each transfer started, at both
    /// ends of which the state was the same, are certain to follow: no transfer comes to its last
    /// chunk, no order in a queue changes and no dependency is met or missed that was not.
    pub fn periods_ahead(&self, moved: &[u64]) -> u64 {
        let mut periods = u64::MAX;
        let queues = self.active().flat_map(|flight| self.flights[flight].queues.clone());
        for queue in queues.map(|queue| &self.queues[queue as usize]) {
            let turns: Vec<Turn> = queue.turns.iter(self.plan).collect();
            periods = periods.min(order_ahead(&turns, moved, self.plan));
            let open = |(phase, _, id): Turn| (phase < self.flights[queue.flight as usize].gate).then_some(id);
            let head = queue.turns.peek().and_then(open);
            for id in queue.slot.iter().copied().chain(head).filter(|&id| moved[id as usize] == 0) {
                periods = periods.min(self.data_ahead(id, moved));
            }
        }
        for (id, (job, &each)) in (0..).zip(self.plan.jobs.iter().zip(moved)) {
            let left = self.plan.kind(job).chunks.saturating_sub(self.transfers[id as usize].started + 2);
            if let Some(left) = left.checked_div(each) {
                periods = periods.min(left).min(self.data_ahead(id, moved));
            }
        }
        periods
    }

    /// The part of [`Endpoints::periods_ahead`] that dependencies of a transfer decide.
    fn data_ahead(&self, id: TransferId, moved: &[u64]) -> u64 {
        let job = &self.plan.jobs[id as usize];
        let each = moved[id as usize];
        // What is received and applied has been started.
        let chunk = self.transfers[id as usize].started;
        let mut periods = u64::MAX;
        for &dependency in self.plan.start_after(job).iter().chain(self.plan.apply_after(job)) {
            let other_each = moved[dependency.transfer() as usize];
            if other_each == each {
                continue;
            }
            // Chunks by which it was ahead, at least, during the period: it was never waited for.
            let ahead = (self.reached(dependency) - other_each).saturating_sub(chunk);
            if ahead == 0 {
                return 0;
            }
            if other_each < each {
                let ahead = self.reached(dependency) - chunk;
                periods = periods.min((ahead - 1).saturating_sub(each) / (each - other_each));
            }
        }
        periods
    }

    /// Records what is applied from now on, to be repeated or discarded.
    pub fn record_period(&mut self) {
        self.deliveries.record_period();
    }

    /// The record is of no use.
    pub fn discard_period(&mut self) {
        self.deliveries.discard_period();
    }

    /// Adds what was recorded `periods` times, each `period` later, and goes on from there, `chunks` further of each
    /// transfer.
    pub fn repeat(&mut self, periods: u64, period: Ticks, chunks: &[u64]) {
        self.deliveries.repeat(self.plan, periods, period);
        for (id, job) in self.plan.jobs.iter().enumerate() {
            self.transfers[id].started += chunks[id];
            self.transfers[id].applied += chunks[id];
            self.done += chunks[id];
            self.flights[job.flight as usize].left -= chunks[id];
            self.phase_left[job.phase as usize] -= chunks[id];
        }
        self.early.skip(chunks);
        if let Some((sent, early)) = &mut self.sent {
            sent.iter_mut().zip(chunks).for_each(|(sent, chunks)| *sent += chunks);
            early.skip(chunks);
        }
        self.holds.iter_mut().for_each(|holds| holds.skip(chunks));
        let by = periods * period;
        self.interfaces.iter_mut().for_each(|interface| interface.busy_until += by);
        self.adders.delay(by);
        self.buffers.delay(by);
        let later = |event| match event {
            RankEvent::Received { transfer, chunk } => {
                RankEvent::Received { transfer, chunk: chunk + chunks[transfer as usize] }
            }
            RankEvent::Applied { transfer, chunk } => {
                RankEvent::Applied { transfer, chunk: chunk + chunks[transfer as usize] }
            }
            RankEvent::Sent { transfer, chunk } => {
                RankEvent::Sent { transfer, chunk: chunk + chunks[transfer as usize] }
            }
            other => other,
        };
        self.agenda.replace(|at, event| (at + by, later(event)));
        for queue in &mut self.queues {
            queue.turns.skip(chunks, self.plan);
        }
    }
}
