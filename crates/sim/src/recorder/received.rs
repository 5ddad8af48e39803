//! How much each rank had received and added after each window, and when followed messages were, where somebody asks.

use super::carried::later_chunks;
use super::windows::Windows;
use crate::clock::Ticks;
use crate::plan::RunPlan;
use crate::playback::{NOT_FOLLOWED, PlaybackPlan};
use antiphon_model::schedule::TransferId;
use std::sync::Arc;

/// See the module.
pub struct ReceivedShares {
    of: Arc<PlaybackPlan>,
    /// Bytes, each in the tick before it was applied, of every rank.
    pub ranks: Vec<Windows<u64>>,
    /// First and last message of each phase that was applied.
    pub phases: Vec<(Ticks, Ticks)>,
    /// Transfer, chunk and time of followed messages.
    pub ended: Vec<(TransferId, u64, Ticks)>,
}

impl ReceivedShares {
    /// Nothing yet.
    pub fn new(of: &Arc<PlaybackPlan>, plan: &RunPlan) -> Self {
        let windows = |_| Windows::with_windows(of.windows, of.shift);
        ReceivedShares {
            ranks: (0..plan.fabric.ranks()).map(windows).collect(),
            phases: vec![(Ticks::MAX, 0); of.phases],
            ended: vec![],
            of: of.clone(),
        }
    }

    /// A message was received and added at `now`.
    pub fn add(&mut self, plan: &RunPlan, id: TransferId, chunk: u64, now: Ticks) {
        let (job, mark) = (&plan.jobs[id as usize], self.of.marks[id as usize]);
        // What a switch receives is nobody's.
        if let Some(windows) = self.ranks.get_mut(job.to as usize) {
            windows.add_point(now.saturating_sub(1), plan.kind(job).bytes);
        }
        let phase = &mut self.phases[mark.phase as usize];
        *phase = (now.min(phase.0), now.max(phase.1));
        if mark.followed != NOT_FOLLOWED
            && self.of.chosen(&self.of.followed[mark.followed as usize]).binary_search(&chunk).is_ok()
        {
            self.ended.push((id, chunk, now));
        }
    }

    /// Adds a `record` of transfers, chunks and times `periods` times, each `period` later and as many `chunks` further as
    /// were recorded of the transfer.
    pub fn repeat(
        &mut self,
        plan: &RunPlan,
        record: &[(TransferId, u64, Ticks)],
        chunks: &[usize],
        periods: u64,
        period: Ticks,
    ) {
        let mut spans = vec![vec![]; self.ranks.len()];
        for &(id, chunk, at) in record {
            let (job, mark) = (&plan.jobs[id as usize], self.of.marks[id as usize]);
            if let Some(of_rank) = spans.get_mut(job.to as usize) {
                of_rank.push((at.saturating_sub(1), at.saturating_sub(1) + 1, plan.kind(job).bytes));
            }
            let last = &mut self.phases[mark.phase as usize].1;
            *last = (at + periods * period).max(*last);
            if mark.followed != NOT_FOLLOWED {
                let chosen = self.of.chosen(&self.of.followed[mark.followed as usize]);
                let later = later_chunks(chosen, chunk, chunks[id as usize] as u64, periods);
                self.ended.extend(later.map(|(chunk, times)| (id, chunk, at + times * period)));
            }
        }
        for (windows, spans) in self.ranks.iter_mut().zip(spans) {
            windows.add_later(&spans, periods, period);
        }
    }

    /// Adds what was received elsewhere; neither is to be repeated.
    pub fn join(&mut self, other: ReceivedShares) {
        self.ranks.iter_mut().zip(other.ranks).for_each(|(own, other)| own.join(other));
        for (own, other) in self.phases.iter_mut().zip(other.phases) {
            *own = (own.0.min(other.0), own.1.max(other.1));
        }
        self.ended.extend(other.ended);
    }

    /// The widest windows are `1 << shift` ticks long.
    pub fn shift(&self) -> u32 {
        self.ranks.iter().map(Windows::shift).max().unwrap_or(0)
    }
}
