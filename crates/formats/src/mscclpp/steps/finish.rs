//! The last stage of lowering: every wait is tied to the step that it waits for.

use super::{At, Origin, PlanLowering, PlanSteps, UNUSED, place};
use crate::fail;
use crate::msccl::{MscclBlock, StepAction, wrong};
use antiphon_base::error::{Code, Result};

impl PlanLowering<'_> {
    /// Ties every wait to the step that it waits for.
    pub(super) fn finish(mut self) -> Result<PlanSteps> {
        self.tie_signals()?;
        self.tie_barriers()?;
        self.tie_semaphores()?;
        for (gpu, cell, step) in std::mem::take(&mut self.readers) {
            let Some(&written) = self.packets.get(&cell) else {
                let name = self.name_of(gpu, step);
                return wrong(format!("deadlock: {name} waits for packets that nobody writes"));
            };
            self.tie(gpu, step, written);
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

    /// Lets a step of a GPU wait for another.
    fn tie(&mut self, gpu: u32, step: At, after: At) {
        self.algo.gpus[gpu as usize].blocks[step.0 as usize].steps[step.1 as usize].after = Some(after);
    }

    fn origin_of(&self, gpu: u32, step: At) -> Origin {
        self.origin[gpu as usize][step.0 as usize][step.1 as usize]
    }

    fn name_of(&self, gpu: u32, step: At) -> String {
        let (gpu, block, at, name, _) = self.origin_of(gpu, step);
        place(gpu, block, at, &self.operations[name as usize])
    }

    fn tie_signals(&mut self) -> Result<()> {
        for ((gpu, way, channel), (signals, waits)) in std::mem::take(&mut self.signals) {
            for (&(wait, loose), &(signal, relaxed)) in waits.iter().zip(&signals) {
                match loose || relaxed {
                    true => self.loose.push((gpu, wait, signal)),
                    false => self.tie(gpu, wait, signal),
                }
            }
            if let Some(&(wait, _)) = waits.get(signals.len()) {
                let name = self.name_of(gpu, wait);
                return wrong(format!("deadlock: {name} waits for a signal that nobody sends"));
            }
            if let Some(&(signal, _)) = signals.get(waits.len()) {
                return wrong(format!(
                    "{} signals {} channel {channel} of gpu {gpu}, where nobody waits: the next run would begin with it",
                    self.name_of(gpu, signal),
                    way.name()
                ));
            }
        }
        Ok(())
    }

    fn tie_barriers(&mut self) -> Result<()> {
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
                    let before = (block, list[time].0);
                    self.at = self.origin_of(gpu, before);
                    met = self.add(gpu, middle, StepAction::Nop, (UNUSED, UNUSED), 0, Some(before));
                }
                for (&block, list) in &barrier.times {
                    self.tie(gpu, (block, list[time].1), met);
                }
            }
        }
        Ok(())
    }

    fn tie_semaphores(&mut self) -> Result<()> {
        for ((gpu, id), uses) in std::mem::take(&mut self.semaphores) {
            for list in [&uses.releases, &uses.acquires] {
                let block = |at: At| self.origin_of(gpu, at).1;
                if list.windows(2).any(|pair| block(pair[0]) != block(pair[1])) {
                    let what = format!(
                        "semaphore {id} of gpu {gpu} is used by several thread blocks in one way; the proof follows one"
                    );
                    return fail(Code::NotApplicable, what);
                }
            }
            let first = self.plan.gpus[gpu as usize].semaphores[id as usize].init_value as usize;
            for (&acquire, &release) in uses.acquires.iter().skip(first).zip(&uses.releases) {
                self.tie(gpu, acquire, release);
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
        Ok(())
    }
}
