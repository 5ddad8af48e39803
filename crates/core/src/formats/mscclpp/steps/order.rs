//! What threads of a block may do at once, and what lies where.

use super::{At, Lowering, MAX_STEPS, Range, bad, fail, place};
use crate::error::{Code, Result};
use crate::formats::msccl::Buffer;
use crate::units::clip;

impl Lowering<'_> {
    /// Refuses an operation of some threads where others may still move data, and notes that others must wait for it.
    pub(super) fn meet(&mut self, waits: bool) -> Result<()> {
        if let Some(data) = self.segment.data {
            return self.unordered(data);
        }
        if waits {
            self.segment.waited = Some(self.at.2);
        }
        Ok(())
    }

    pub(super) fn unordered<T>(&self, other: u32) -> Result<T> {
        let (gpu, block, at, name) = self.at;
        let ops = &self.plan.gpus[gpu as usize].threadblocks[block as usize].ops;
        let (first, second) = (
            place(gpu, block, other, &clip(&ops[other as usize].name)),
            place(gpu, block, at, &self.operations[name as usize]),
        );
        fail(
            Code::NotProven,
            format!("race: {first} and {second} have no nop between them, so threads may do both at once"),
        )
    }

    /// Notes what an operation writes and reads, but for packets, and refuses what other threads may still use.
    pub(super) fn plain(&mut self, writes: &[Range], reads: &[Range]) -> Result<()> {
        if let Some(waited) = self.segment.waited {
            return self.unordered(waited);
        }
        let at = self.at.2;
        self.segment.data = Some(at);
        for (ranges, writes) in [(reads, false), (writes, true)] {
            for range in ranges {
                if range.place.buffer == Buffer::Scratch {
                    self.of_scratch(range.gpu, false)?;
                }
                let (first, end) = self.range(range);
                let conflict = self.segment.uses.iter().find(|&&(start, stop, written, other)| {
                    other != at && (written || writes) && start < end && first < stop
                });
                if let Some(&(.., other)) = conflict {
                    return self.unordered(other);
                }
                self.segment.uses.push((first, end, writes, at));
            }
        }
        Ok(())
    }

    pub(super) fn range(&self, range: &Range) -> (usize, usize) {
        let first = self.cells.of(range.gpu, range.place);
        (first, first + range.count as usize)
    }

    /// Scratch has packets or plain data.
    pub(super) fn of_scratch(&mut self, gpu: u32, packets: bool) -> Result<()> {
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
    pub(super) fn apart(&self, dst: Range, others: &[Range]) -> Result<()> {
        let (first, end) = self.range(&dst);
        let overlaps = |other: &&Range| {
            let (start, stop) = self.range(other);
            (start, stop) != (first, end) && start < end && first < stop
        };
        match others.iter().find(overlaps) {
            Some(_) => bad("dst_buff overlaps a part of src_buff"),
            None => Ok(()),
        }
    }

    pub(super) fn packets_at(&mut self, range: Range, step: At) -> Result<()> {
        if range.place.buffer != Buffer::Scratch {
            return bad("packets lie in scratch");
        }
        self.of_scratch(range.gpu, true)?;
        let (first, end) = self.range(&range);
        for cell in first..end {
            if self.packets.insert(cell, step).is_some() {
                let offset = (cell - first) as u32 + range.place.offset;
                let what = format!("s[{offset}] of gpu {} gets packets twice, which cannot be told apart", range.gpu);
                return fail(Code::NotProven, what);
            }
        }
        Ok(())
    }

    pub(super) fn read_packets(&mut self, range: Range) -> Result<()> {
        if range.place.buffer != Buffer::Scratch {
            return bad("packets lie in scratch");
        }
        self.of_scratch(range.gpu, true)?;
        let (first, end) = self.range(&range);
        if self.steps + (end - first) > MAX_STEPS {
            return fail(Code::TooLarge, format!("more than {MAX_STEPS} steps"));
        }
        for cell in first..end {
            let step = self.wait(None);
            self.readers.push((range.gpu, cell, step));
        }
        Ok(())
    }
}
