//! What waits in ranks' memory beside their data: messages that are added, from when they are sent until they are added.
//! A message that is stored is written to its place as it comes.

use crate::clock::Ticks;
use crate::plan::{Job, RunPlan};
use antiphon_base::units::Bytes;

/// See the module. Unknown where nobody asks, and where ranks are in parts that run apart, since what one sends is added
/// in another.
pub struct Buffers(Option<Vec<Buffered>>);

/// That of one rank. What comes as something else is added takes its place.
#[derive(Clone, Copy, Default)]
struct Buffered {
    now: Bytes,
    /// When it changed last, and the most before.
    at: Ticks,
    most: Bytes,
}

impl Buffered {
    /// Something changes at a time.
    fn at(&mut self, now: Ticks) -> &mut Bytes {
        if now > self.at {
            (self.at, self.most) = (now, self.most.max(self.now));
        }
        &mut self.now
    }
}

impl Buffers {
    /// Nothing sent yet of `plan`.
    pub fn new(plan: &RunPlan) -> Buffers {
        Buffers(plan.buffers.then(|| vec![Buffered::default(); plan.participants()]))
    }

    /// Ranks run in parts.
    pub fn forget(&mut self) {
        self.0 = None;
    }

    /// A message of a job is sent.
    #[inline]
    pub fn sent(&mut self, plan: &RunPlan, job: &Job, now: Ticks) {
        let kind = plan.kind(job);
        if let (true, Some(ranks)) = (kind.adds, &mut self.0) {
            *ranks[job.to as usize].at(now) += kind.bytes;
        }
    }

    /// A message of a job was added or stored.
    #[inline]
    pub fn applied(&mut self, plan: &RunPlan, job: &Job, now: Ticks) {
        let kind = plan.kind(job);
        if let (true, Some(ranks)) = (kind.adds, &mut self.0) {
            *ranks[job.to as usize].at(now) -= kind.bytes;
        }
    }

    /// Time went on by `time` in which the same happened again and again: a moment that is not over is not over yet.
    pub fn delay(&mut self, time: Ticks) {
        self.0.iter_mut().flatten().for_each(|rank| rank.at += time);
    }

    /// The most that each rank of the fabric held at a time.
    pub fn most(&self, plan: &RunPlan) -> Option<Vec<Bytes>> {
        let ranks = self.0.as_ref()?;
        Some(ranks[..plan.fabric.ranks()].iter().map(|rank| rank.most).collect())
    }
}
