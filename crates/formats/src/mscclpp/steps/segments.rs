//! Work of threads between two meetings, and checks of the places that it uses.

use super::{At, ChunkRange, MAX_STEPS, PlanLowering, ThreadResource, ThreadSegment, chunk_name, place};
use crate::msccl::{Buffer, MscclBlock};
use crate::{bad, fail};
use antiphon_base::error::{Code, Result};
use antiphon_base::units::clip;

/// Lanes of all threads, and of single ones.
const SHARED: usize = 0;
const SINGLE: usize = 1;

impl PlanLowering<'_> {
    pub(super) fn check_steps(&self) -> Result<()> {
        match self.steps > MAX_STEPS {
            true => fail(Code::TooLarge, format!("more than {MAX_STEPS} steps")),
            false => Ok(()),
        }
    }

    /// Begins an operation of all threads, each of which does an unknown part of it.
    pub(super) fn begin(&mut self) -> Result<()> {
        self.check_steps()?;
        let number = self.segment.shared;
        self.segment.shared += 1;
        let before = self.segment.last;
        self.enter(SHARED, number);
        self.segment.last = Some(self.lane);
        for lane in before.into_iter().chain(std::mem::take(&mut self.segment.threads)) {
            self.wait_loosely(self.last_of(lane));
        }
        Ok(())
    }

    /// Begins an operation of a single thread.
    pub(super) fn begin_alone(&mut self, thread: usize) {
        self.enter(SINGLE, thread);
        if !self.segment.threads.contains(&self.lane) {
            self.segment.threads.push(self.lane);
            if let Some(before) = self.segment.last {
                self.wait_loosely(self.last_of(before));
            }
        }
    }

    fn enter(&mut self, kind: usize, number: usize) {
        while self.lanes[kind].len() <= number {
            let lane = self.new_block(self.at.0, MscclBlock::default());
            self.lanes[kind].push(lane);
        }
        self.lane = self.lanes[kind][number];
        if !self.segment.lanes.contains(&self.lane) {
            self.segment.lanes.push(self.lane);
            self.wait(self.segment.start);
        }
    }

    /// All threads meet.
    pub(super) fn meet(&mut self) {
        let ThreadSegment { mut start, lanes, .. } = std::mem::take(&mut self.segment);
        self.lane = self.at.1;
        self.met += 1;
        for lane in lanes {
            start = Some(self.wait(Some(self.last_of(lane))));
        }
        self.segment.start = start;
    }

    /// Notes the thread that uses a resource, since operations of several threads are in no order.
    pub(super) fn used_by(&mut self, what: ThreadResource, id: u32, waits: bool, thread: usize) -> Result<()> {
        let (gpu, block, at, name, _) = self.at;
        let (user, other) = *self.segment.users.entry((what, id, waits)).or_insert((thread, at));
        if user == thread {
            return Ok(());
        }
        let ops = &self.plan.gpus[gpu as usize].threadblocks[block as usize].ops;
        let (first, second) = (
            place(gpu, block, other, &clip(&ops[other as usize].name)),
            place(gpu, block, at, &self.operations[name as usize]),
        );
        let what = match what {
            ThreadResource::Channel(way) => format!("{} channel", way.name()),
            ThreadResource::Semaphore => "semaphore".into(),
        };
        let why = "have no nop between them, so threads may do both at once";
        fail(Code::NotProven, format!("race: {first} and {second} use {what} {id} by different threads and {why}"))
    }

    /// The parts of so many chunks that packets tell apart, each by its first chunk and their number.
    pub(super) fn pieces(&self, count: u32) -> impl Iterator<Item = (u32, u32)> + use<> {
        let size = if self.together { count } else { 1 };
        (0..count).step_by(size.max(1) as usize).map(move |first| (first, size))
    }

    pub(super) fn range(&self, range: &ChunkRange) -> (usize, usize) {
        let first = self.cells.of(range.gpu, range.place);
        (first, first + range.count as usize)
    }

    /// Notes where scratch has plain data.
    pub(super) fn plain(&mut self, ranges: &[ChunkRange]) -> Result<()> {
        let mut scratch = ranges.iter().filter(|range| range.place.buffer == Buffer::Scratch);
        scratch.try_for_each(|range| self.of_scratch(range.gpu, false))
    }

    /// Scratch has packets or plain data.
    fn of_scratch(&mut self, gpu: u32, packets: bool) -> Result<()> {
        let used = &mut self.scratch[gpu as usize];
        used[usize::from(packets)] = true;
        match *used {
            [true, true] => fail(
                Code::NotApplicable,
                format!("scratch of gpu {gpu} has packets and plain data; the proof follows one"),
            ),
            _ => Ok(()),
        }
    }

    /// Refuses sums into what overlaps a part of a term.
    pub(super) fn apart(&self, dst: ChunkRange, others: &[ChunkRange]) -> Result<()> {
        let (first, end) = self.range(&dst);
        let overlaps = |other: &&ChunkRange| {
            let (start, stop) = self.range(other);
            (start, stop) != (first, end) && start < end && first < stop
        };
        match others.iter().find(overlaps) {
            Some(_) => bad("dst_buff overlaps a part of src_buff"),
            None => Ok(()),
        }
    }

    /// Refuses packets elsewhere than in scratch.
    pub(super) fn of_packets(&mut self, range: ChunkRange) -> Result<()> {
        match range.place.buffer {
            Buffer::Scratch => self.of_scratch(range.gpu, true),
            _ => bad("packets lie in scratch"),
        }
    }

    pub(super) fn packets_at(&mut self, range: ChunkRange, step: At) -> Result<()> {
        self.of_packets(range)?;
        let (first, end) = self.range(&range);
        for cell in first..end {
            if self.packets.insert(cell, step).is_some() {
                let chunk = chunk_name((cell - first) as u32 + range.place.offset, self.parts);
                let what = format!("chunk {chunk} of scratch of gpu {} gets packets twice", range.gpu);
                return fail(Code::NotProven, what + ", which cannot be told apart");
            }
        }
        Ok(())
    }

    pub(super) fn read_packets(&mut self, range: ChunkRange) -> Result<()> {
        self.of_packets(range)?;
        let (first, end) = self.range(&range);
        for cell in first..end {
            let step = self.wait(None);
            self.readers.push((range.gpu, cell, step));
        }
        Ok(())
    }
}
