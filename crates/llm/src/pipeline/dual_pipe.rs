//! DualPipe (DeepSeek-V3, arXiv 2412.19437, section 3.2.1; github.com/deepseek-ai/DualPipe): half of the micro batches
//! from each end, forward and backward passes of the two directions in pairs.
//!
//! With p stages, a pair of the time U, a whole backward pass of B and a gradient of the weights of W, bubbles take
//! (p/2 - 1) (U + B - 3 W), if the gradient of the input takes as long as the forward pass and W is no longer.

use super::{PipelineOrder, PipelineTask, TaskList};

/// A stage's list, and how far it is in both directions: first that of the nearer end, then that of the other.
struct Directions {
    list: TaskList,
    /// The chunk of each direction, and its next micro batches: forward, backward.
    next: [(u32, u32, u32); 2],
}

impl Directions {
    fn forward(&mut self, direction: usize, paired: bool) {
        let (chunk, micro_batch, _) = self.next[direction];
        self.next[direction].1 += 1;
        if paired {
            self.list.paired_forward(chunk, micro_batch);
        } else {
            self.list.forward(chunk, micro_batch);
        }
    }

    fn backward(&mut self, direction: usize, divided: bool) {
        let (chunk, _, micro_batch) = self.next[direction];
        self.next[direction].2 += 1;
        if divided {
            self.list.divided_backward(chunk, micro_batch);
        } else {
            self.list.backward(chunk, micro_batch);
        }
    }
}

pub(super) fn tasks(order: &PipelineOrder, stage: u32) -> Vec<PipelineTask> {
    let (stages, half) = (order.stages, order.micro_batches / 2);
    let outside = stage.min(stages - 1 - stage);
    let inside = stages / 2 - 1 - outside;
    let ends = [(0, 0, 0), (1, half, half)];
    let next = if stage < stages / 2 { ends } else { [ends[1], ends[0]] };
    let mut stage = Directions { list: TaskList::new(order.micro_batches), next };
    for _ in 0..2 * inside {
        stage.forward(0, false);
    }
    for _ in 0..=outside {
        stage.forward(0, false);
        stage.forward(1, false);
    }
    for _ in 0..inside {
        stage.backward(1, true);
        stage.list.weights();
        stage.forward(1, false);
    }
    for turn in 0..half + outside + 1 - stages {
        // The first two passes of the stages in the middle are not a unit, so that the forward pass is passed on at
        // once. Bubbles are smaller for it where the gradient of the input takes longer than the forward pass.
        stage.forward(0, inside > 0 || turn > 0);
        stage.backward(1, false);
        stage.forward(1, true);
        stage.backward(0, false);
    }
    for _ in 0..inside {
        stage.backward(1, false);
        stage.forward(1, true);
        stage.backward(0, false);
    }
    // The second half of these puts off its gradients of weights.
    for backward in 0..2 * (outside + 1) {
        stage.backward(1 - backward as usize % 2, backward > outside);
    }
    for _ in 0..inside {
        stage.list.weights();
        stage.backward(0, true);
    }
    for _ in 0..=outside {
        stage.list.weights();
    }
    stage.list.tasks
}
