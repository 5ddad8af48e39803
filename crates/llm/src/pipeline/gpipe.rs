//! GPipe (arXiv 1811.06965, Figure 2): all forward passes, then all backward passes, the last micro batch first.

use super::{PipelineTask, TaskList};

pub(super) fn tasks(micro_batches: u32) -> Vec<PipelineTask> {
    let mut list = TaskList::new(micro_batches);
    (0..micro_batches).for_each(|micro_batch| list.forward(0, micro_batch));
    (0..micro_batches).rev().for_each(|micro_batch| list.backward(0, micro_batch));
    list.tasks
}
