//! When the gradients of a layer are complete while their AllReduce still runs.

use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Bytes, Picos};

/// C-Cube's gradient queue (C-Cube paper, section IV). The buffer's chunks are dealt out to the lanes
/// in turn, so that its first bytes are in the first chunks of all lanes. Every lane has an enqueue
/// semaphore, which counts the chunks that are complete in order at every rank that needs them; a layer may
/// use its gradients once the semaphore of every lane has reached the layer's last chunk there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GradientQueue {
    /// For every lane, when its semaphore reaches 1, 2, ...
    semaphores: Vec<Vec<Picos>>,
}

impl GradientQueue {
    /// From (lane, chunk, completion), by lane and chunk, as in
    /// [`chunks`](antiphon_sim::SimulationResult::chunks) of a simulation.
    ///
    /// # Errors
    /// [`Code::TooLarge`] if chunks are missing, as they are in tables of very many.
    pub fn new(chunks: impl Iterator<Item = (u32, u64, Picos)>) -> Result<GradientQueue> {
        let mut semaphores: Vec<Vec<Picos>> = Vec::new();
        for (lane, chunk, complete) in chunks {
            if lane as usize == semaphores.len() {
                semaphores.push(Vec::new());
            }
            match semaphores.last_mut() {
                Some(reached) if chunk == reached.len() as u64 => {
                    reached.push(complete.max(reached.last().copied().unwrap_or(0)));
                }
                _ => {
                    let what = "the exchange has too many chunks to follow each; choose a larger chunk or piece";
                    return Err(Error::new(Code::TooLarge, what));
                }
            }
        }
        Ok(GradientQueue { semaphores })
    }

    /// When the first `part` of `whole` bytes are complete. O(lanes).
    pub fn ready(&self, part: Bytes, whole: Bytes) -> Picos {
        let reached = |times: &Vec<Picos>| {
            let needed = (u128::from(part) * times.len() as u128).div_ceil(u128::from(whole.max(1))) as usize;
            needed.min(times.len()).checked_sub(1).map(|last| times[last])
        };
        self.semaphores.iter().filter_map(reached).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_waits_for_its_last_chunk_in_every_lane() {
        let queue = GradientQueue::new([(0, 0, 10), (0, 1, 20), (1, 0, 12), (1, 1, 25)].into_iter()).unwrap();
        assert_eq!([0, 1, 50, 51, 100].map(|part| queue.ready(part, 100)), [0, 12, 12, 25, 25]);
    }

    #[test]
    fn chunks_count_in_order() {
        let queue = GradientQueue::new([(0, 0, 30), (0, 1, 20), (0, 2, 40)].into_iter()).unwrap();
        assert_eq!([1, 34, 100].map(|part| queue.ready(part, 100)), [30, 30, 40]);
    }

    #[test]
    fn tables_with_gaps_are_refused() {
        let error = GradientQueue::new([(0, 0, 10), (0, 7, 20)].into_iter()).unwrap_err();
        assert_eq!(error.code, Code::TooLarge);
    }
}
