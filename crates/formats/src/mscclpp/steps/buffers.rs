//! Chunks that operations name, here and at other GPUs.

use super::{ChannelKind, ChunkRange, PlanLowering};
use crate::bad;
use crate::msccl::{Buffer, ChunkPlace};
use crate::mscclpp::model::{PlanBlock, PlanChunks, PlanGpu, PlanOperation};
use antiphon_base::error::Result;
use antiphon_base::units::clip;

impl PlanLowering<'_> {
    pub(super) fn locals(&self, gpu: &PlanGpu, op: &PlanOperation, list: &[PlanChunks]) -> Result<Vec<ChunkRange>> {
        list.iter().map(|chunks| self.local(gpu, op, chunks)).collect()
    }

    pub(super) fn local(&self, gpu: &PlanGpu, op: &PlanOperation, chunks: &PlanChunks) -> Result<ChunkRange> {
        match chunks.kind.as_deref() {
            Some(kind) => self.chunks(gpu.id, kind, op, chunks),
            None => bad("expected a buffer of its own gpu, with a type"),
        }
    }

    pub(super) fn remotes(
        &self,
        gpu: &PlanGpu,
        block: &PlanBlock,
        op: &PlanOperation,
        list: &[PlanChunks],
        way: ChannelKind,
    ) -> Result<Vec<ChunkRange>> {
        let remote = |chunks: &PlanChunks| {
            let Some(id) = chunks.buffer_id else { return bad("expected a buffer of another gpu, with a buffer_id") };
            let own = block.remote_buffer_refs.iter().filter(|refs| refs.access_channel_type == way.name());
            let Some(&number) = own.flat_map(|refs| &refs.remote_buffer_ids).nth(id as usize) else {
                return bad(format!("no buffer {id} by {} channels in its thread block", way.name()));
            };
            let Some(buffer) = gpu.remote_buffers.get(number as usize) else {
                return bad(format!("no remote buffer {number} on gpu {}", gpu.id));
            };
            if buffer.rank == gpu.id || buffer.rank as usize >= self.plan.gpus.len() {
                return bad(format!("remote buffer {number} is of gpu {}", buffer.rank));
            }
            self.chunks(buffer.rank, &buffer.kind, op, chunks)
        };
        list.iter().map(remote).collect()
    }

    pub(super) fn chunks(&self, gpu: u32, kind: &str, op: &PlanOperation, chunks: &PlanChunks) -> Result<ChunkRange> {
        let Some(buffer) = Buffer::of_letter(kind) else {
            return bad(format!("buffer '{}', expected i, o or s", clip(kind)));
        };
        let scratch = self.plan.gpus[gpu as usize].scratch_chunks;
        let size = if buffer == Buffer::Scratch { scratch } else { self.cells.size(buffer) / self.parts };
        let end = chunks.index as u64 + chunks.size as u64;
        if chunks.size == 0 || end > size as u64 {
            let what =
                format!("{} chunks from {} of buffer {kind} of gpu {gpu}, which has {size}", chunks.size, chunks.index);
            return bad(what);
        }
        let (part, of) = op.tbg_info.map_or((0, 1), |part| (part.tb_id, part.tbg_size));
        let count = chunks.size * self.parts / of;
        let offset = chunks.index * self.parts + part * count;
        Ok(ChunkRange { gpu, place: ChunkPlace { buffer, offset }, count })
    }
}
