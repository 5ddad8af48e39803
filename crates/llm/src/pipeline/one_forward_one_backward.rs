//! 1F1B, with one part a stage or interleaved with several (Narayanan et al., arXiv 2104.04473, section 2.2).
//!
//! Interleaved stages take micro batches in groups: a group passes through all chunks before the next one starts.
//! Groups have as many micro batches as there are stages, where these divide the micro batches. Otherwise groups are
//! larger, up to twice that, and differ by at most one micro batch. This costs memory, but bubbles stay as small, while
//! stages that take a small last group after full ones can deadlock. Llama 3 (arXiv 2407.21783, section 3.3.2) has
//! groups of any size, too.

use super::{PipelineOrder, PipelineTask, TaskList};

pub(super) fn tasks(order: &PipelineOrder, stage: u32) -> Vec<PipelineTask> {
    let PipelineOrder { stages, chunks, micro_batches, .. } = *order;
    let behind = stages - 1 - stage;
    let groups = (micro_batches / stages).max(1);
    let warm_up = match chunks {
        1 => behind,
        _ => 2 * behind + (chunks - 1) * micro_batches.div_ceil(groups),
    };
    let mut list = TaskList::new(chunks * micro_batches);
    let mut forwards = pairs(groups, micro_batches, chunks);
    forwards.by_ref().take(warm_up as usize).for_each(|(chunk, micro_batch)| list.forward(chunk, micro_batch));
    for (chunk, micro_batch) in pairs(groups, micro_batches, chunks) {
        if let Some((chunk, micro_batch)) = forwards.next() {
            list.forward(chunk, micro_batch);
        }
        list.backward(chunks - 1 - chunk, micro_batch);
    }
    list.tasks
}

/// Chunks and micro batches in the order of forward passes.
fn pairs(groups: u32, micro_batches: u32, chunks: u32) -> impl Iterator<Item = (u32, u32)> {
    let (size, larger) = (micro_batches / groups, micro_batches % groups);
    let start = move |group: u32| group * size + group.min(larger);
    (0..groups).flat_map(move |group| {
        (0..chunks).flat_map(move |chunk| (start(group)..start(group + 1)).map(move |of| (chunk, of)))
    })
}
