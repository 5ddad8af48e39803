//! ZB-H1 and ZB-H2 (Qi et al., arXiv 2401.10241, section 2.3): gradients of weights are put off until a stage would
//! wait.
//!
//! Both are made for forward pass, gradient of the input and gradient of the weights of equal time. For other times
//! there are orders with smaller bubbles, which the paper finds by search: that is not done here. The idle time of 0 of
//! ZB-H2 is that between a stage's first and last task: stages start one after another, and they end so.

use super::{PipelineOrder, PipelineTask, TaskList};

/// Gradients of weights are put off by as many micro batches as there are stages before: each stage holds as many as
/// the first.
pub(super) fn h1(order: &PipelineOrder, stage: u32) -> Vec<PipelineTask> {
    tasks(order.micro_batches, order.stages - stage, stage)
}

/// As many forward passes first as fill the time until the first gradient comes back.
pub(super) fn h2(order: &PipelineOrder, stage: u32) -> Vec<PipelineTask> {
    tasks(order.micro_batches, 2 * (order.stages - stage) - 1, 2 * stage)
}

/// So many forward passes first, and gradients of weights so many micro batches late.
fn tasks(micro_batches: u32, first: u32, late: u32) -> Vec<PipelineTask> {
    let mut list = TaskList::new(micro_batches);
    (0..first.min(micro_batches)).for_each(|micro_batch| list.forward(0, micro_batch));
    for micro_batch in 0..micro_batches {
        list.divided_backward(0, micro_batch);
        if micro_batch >= late {
            list.weights();
        }
        if micro_batch + first < micro_batches {
            list.forward(0, micro_batch + first);
        }
    }
    (0..late).for_each(|_| list.weights());
    list.tasks
}
