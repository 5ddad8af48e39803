//! The last of it: what waits is tied to what it waits for.

use super::{At, PlanLowering, PlanSteps, UNUSED, fail, place};
use crate::msccl::{MscclBlock, StepAction};
use antiphon_base::error::{Code, Result};

impl PlanLowering<'_> {
    /// Ties what waits to what it waits for.
    pub(super) fn finish(mut self) -> Result<PlanSteps> {
        let wrong = |what: String| fail(Code::NotProven, what);
        let steps = |lowering: &mut Self, gpu: u32, at: At, after: At| {
            lowering.algo.gpus[gpu as usize].blocks[at.0 as usize].steps[at.1 as usize].after = Some(after);
        };
        for ((gpu, way, channel), (signals, waits)) in std::mem::take(&mut self.signals) {
            for (&(wait, loose), &(signal, relaxed)) in waits.iter().zip(&signals) {
                match loose || relaxed {
                    true => self.loose.push((gpu, wait, signal)),
                    false => steps(&mut self, gpu, wait, signal),
                }
            }
            let name = |at: At| {
                let (gpu, block, at, name, _) = self.origin[gpu as usize][at.0 as usize][at.1 as usize];
                place(gpu, block, at, &self.operations[name as usize])
            };
            if let Some(&(wait, _)) = waits.get(signals.len()) {
                return wrong(format!("deadlock: {} waits for a signal that nobody sends", name(wait)));
            }
            if let Some(&(signal, _)) = signals.get(waits.len()) {
                return wrong(format!(
                    "{} signals {} channel {channel} of gpu {gpu}, where nobody waits: the next run would begin with it",
                    name(signal),
                    way.name()
                ));
            }
        }
        for ((gpu, id), barrier) in std::mem::take(&mut self.barriers) {
            let times = barrier.times.values().map(Vec::len).max().unwrap_or(0);
            let even = barrier.times.values().all(|list| list.len() == times);
            if barrier.times.len() != barrier.blocks as usize || !even {
                return wrong(format!(
                    "deadlock: barrier {id} of gpu {gpu} is for {} thread blocks, {} come to it{}",
                    barrier.blocks,
                    barrier.times.len(),
                    if even { "" } else { ", not all equally often" }
                ));
            }
            let middle = self.new_block(gpu, MscclBlock::default());
            for time in 0..times {
                let mut met = (middle, 0);
                for (&block, list) in &barrier.times {
                    self.at = self.origin[gpu as usize][block as usize][list[time].0 as usize];
                    met = self.add(gpu, middle, StepAction::Nop, (UNUSED, UNUSED), 0, Some((block, list[time].0)));
                }
                for (&block, list) in &barrier.times {
                    steps(&mut self, gpu, (block, list[time].1), met);
                }
            }
        }
        for ((gpu, id), uses) in std::mem::take(&mut self.semaphores) {
            for list in [&uses.releases, &uses.acquires] {
                let of = |at: &At| self.origin[gpu as usize][at.0 as usize][at.1 as usize].1;
                if list.windows(2).any(|pair| of(&pair[0]) != of(&pair[1])) {
                    let what = format!(
                        "semaphore {id} of gpu {gpu} is used by several thread blocks in one way; the proof follows one"
                    );
                    return fail(Code::NotApplicable, what);
                }
            }
            let first = self.plan.gpus[gpu as usize].semaphores[id as usize].init_value as usize;
            for (&acquire, &release) in uses.acquires.iter().skip(first).zip(&uses.releases) {
                steps(&mut self, gpu, acquire, release);
            }
            let (acquires, releases) = (uses.acquires.len(), uses.releases.len());
            if acquires > releases + first {
                return wrong(format!(
                    "deadlock: semaphore {id} of gpu {gpu} is acquired {acquires} times and released {releases} times"
                ));
            }
            if acquires != releases {
                return wrong(format!(
                    "semaphore {id} of gpu {gpu} does not end as it began: released {releases} times, acquired {acquires} times"
                ));
            }
        }
        for (gpu, cell, step) in std::mem::take(&mut self.readers) {
            let Some(&written) = self.packets.get(&cell) else {
                let (gpu, block, at, name, _) = self.origin[gpu as usize][step.0 as usize][step.1 as usize];
                let name = place(gpu, block, at, &self.operations[name as usize]);
                return wrong(format!("deadlock: {name} waits for packets that nobody writes"));
            };
            steps(&mut self, gpu, step, written);
        }
        Ok(PlanSteps {
            algo: self.algo,
            origin: self.origin,
            operations: self.operations,
            parts: self.parts,
            loose: self.loose,
            packets: !self.packets.is_empty(),
            messages: self.messages,
        })
    }
}
