//! Units: what an endpoint works on as one chunk.
//!
//! Lanes that travel together or wait for each other are one *family* with all others that start at the same slot, and
//! their chunks with the same number are a unit: nothing in it waits for another unit of the same phases. So where ranks
//! have endpoints of their own, the messages of a unit keep their order on a link, and those of others need not wait for
//! them: on every link the oldest unit that can goes.

use crate::plan::RunPlan;
use antiphon_model::schedule::TransferId;
use std::collections::HashMap;

/// What the units of a family have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Family {
    pub flight: u32,
    /// Phase and slot of the first message.
    pub phase: u32,
    pub slot: u32,
    pub stride: u64,
    pub chunks: u64,
}

/// See the module.
#[derive(Default)]
pub struct Units {
    pub families: Vec<Family>,
    /// The family of every transfer, and what is behind barriers that were before it.
    pub family_of: Vec<u32>,
    /// How many barriers are before each phase.
    pub epochs: Vec<u32>,
    /// Whether messages are served by the age of their unit.
    pub by_age: bool,
}

impl Units {
    /// The units of a plan. O(lanes in messages + dependencies).
    pub fn new(plan: &RunPlan) -> Units {
        let mut sets = Sets((0..plan.lane_chunks.len() as u32).collect());
        let first_lane = |id: TransferId| plan.lanes(&plan.jobs[id as usize]).next();
        for job in &plan.jobs {
            let mut lanes = plan.lanes(job);
            let Some(first) = lanes.next() else { continue };
            lanes.for_each(|lane| sets.join(first, lane));
            let after = plan.start_after(job).iter().chain(plan.apply_after(job)).filter(|after| after.lag() == 0);
            after.filter_map(|after| first_lane(after.transfer())).for_each(|other| sets.join(first, other));
        }
        // Behind a barrier chunks are taken anew: all of them were there before.
        let mut epochs = vec![0u32; plan.phase_messages.len()];
        for of in &plan.flights {
            for phase in of.phases.start + 1..of.phases.end {
                epochs[phase as usize] = epochs[phase as usize - 1] + u32::from(of.phase(phase).barrier);
            }
        }
        let mut order: Vec<TransferId> = (0..plan.jobs.len() as TransferId).collect();
        order.sort_by_key(|&id| (plan.jobs[id as usize].phase, plan.jobs[id as usize].step, id));
        let (mut starts, mut numbers, mut families) = (HashMap::new(), HashMap::new(), vec![]);
        let mut family_of = vec![0; plan.jobs.len()];
        // Legs on the way carry no lanes: what comes last does.
        let mut carries: Vec<Option<usize>> = (0..plan.jobs.len() as TransferId).map(first_lane).collect();
        for id in (1..carries.len()).rev() {
            if carries[id - 1].is_none() {
                carries[id - 1] = carries[id];
            }
        }
        for id in order {
            let (job, kind) = (&plan.jobs[id as usize], plan.kind_of(id));
            let Some(lane) = carries[id as usize] else { continue };
            let set = (sets.of(lane), epochs[job.phase as usize]);
            let &mut (phase, slot) = starts.entry(set).or_insert((job.phase, job.step));
            let family = Family { flight: job.flight, phase, slot, stride: kind.stride, chunks: kind.chunks };
            family_of[id as usize] = *numbers.entry(family).or_insert_with(|| {
                families.push(family);
                families.len() as u32 - 1
            });
        }
        Units { families, family_of, epochs, by_age: false }
    }
}

impl Units {
    /// Phase and slot of the unit of a message: the lowest is the oldest.
    pub fn age(&self, id: TransferId, chunk: u64) -> (u32, u64) {
        let Family { phase, slot, stride, .. } = self.families[self.family_of[id as usize] as usize];
        (phase, u64::from(slot) + chunk * stride)
    }
}

/// Disjoint sets of lanes.
struct Sets(Vec<u32>);

impl Sets {
    fn of(&mut self, lane: usize) -> u32 {
        let mut at = lane as u32;
        while self.0[at as usize] != at {
            let next = self.0[self.0[at as usize] as usize];
            (self.0[at as usize], at) = (next, next);
        }
        at
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.of(one), self.of(other));
        self.0[one.max(other) as usize] = one.min(other);
    }
}
