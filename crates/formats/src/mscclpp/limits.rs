//! Limits of the executor of MSCCL++.

use super::model::MscclppPlan;
use antiphon_base::error::{Code, Error, Result};

/// The only reader there is.
pub const CONSUMER: &str = "executor";
/// Operations of a thread block.
const OPERATIONS: usize = 64;
/// Channels of a kind that a thread block uses, and remote buffers.
const CHANNELS: usize = 16;
/// Channels of an operation, and buffers that it reads or writes.
const OPERANDS: usize = 8;
/// Semaphores, and barriers, of a GPU.
const SEMAPHORES: usize = 16;
/// Thread blocks of a GPU: all are there at once, since they wait for each other, and an H100 has so many multiprocessors.
const BLOCKS: usize = 132;

/// Checks a plan against the limits of the executor. O(operations).
///
/// # Errors
/// [`Code::TooLarge`] with the first limit that is passed.
pub fn check(plan: &MscclppPlan) -> Result<()> {
    let within = |place: String, what: &str, count: usize, most: usize| match count > most {
        true => {
            let what = format!("MSCCL++: {place} has {count} {what}, at most {most} are read");
            Err(Error::new(Code::TooLarge, what))
        }
        false => Ok(()),
    };
    for gpu in &plan.gpus {
        let place = || format!("gpu {}", gpu.id);
        within(place(), "thread blocks", gpu.threadblocks.len(), BLOCKS)?;
        within(place(), "semaphores", gpu.semaphores.len(), SEMAPHORES)?;
        for block in &gpu.threadblocks {
            let place = || format!("gpu {} thread block {}", gpu.id, block.id);
            within(place(), "operations", block.ops.len(), OPERATIONS)?;
            for kind in ["memory", "port"] {
                let of_kind = block.channels.iter().filter(|channels| channels.channel_type == kind);
                let what = format!("{kind} channels");
                within(place(), &what, of_kind.map(|channels| channels.channel_ids.len()).sum(), CHANNELS)?;
                let of_kind = block.remote_buffer_refs.iter().filter(|refs| refs.access_channel_type == kind);
                let what = format!("remote buffers by {kind} channels");
                within(place(), &what, of_kind.map(|refs| refs.remote_buffer_ids.len()).sum(), CHANNELS)?;
            }
            for (at, op) in block.ops.iter().enumerate() {
                let operands = op.channel_ids.len().max(op.src_buff.len()).max(op.dst_buff.len());
                within(format!("{} operation {at} ({})", place(), op.name), "operands", operands, OPERANDS)?;
                within(place(), "barriers", op.barrier_id.map_or(0, |id| id as usize + 1), SEMAPHORES)?;
            }
        }
    }
    Ok(())
}
