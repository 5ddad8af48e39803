//! Work on all cores that can be ended.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How often it is asked whether to go on.
const HEARTBEAT: Duration = Duration::from_millis(50);

/// What work gives for each item, in their order, on as many threads as there are cores. Once `goes_on` says no, `work` is told by
/// the flag that it may end soon, and what it then gives is of no use.
pub fn on_cores<T: Sync, R: Send>(
    items: &[T],
    goes_on: &mut dyn FnMut() -> bool,
    work: impl Fn(&T, &AtomicBool) -> R + Sync,
) -> Vec<R> {
    let (stop, next) = (AtomicBool::new(false), AtomicUsize::new(0));
    let workers = thread::available_parallelism().map_or(1, NonZero::get).min(items.len());
    let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
    thread::scope(|scope| {
        let (done, results_of_workers) = channel();
        for _ in 0..workers {
            let done = done.clone();
            let (stop, next, work) = (&stop, &next, &work);
            scope.spawn(move || {
                while let Some((at, item)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, items.get(at)?)))
                {
                    // The other side is there until all is done.
                    let _ = done.send((at, work(item, stop)));
                }
            });
        }
        drop(done);
        loop {
            match results_of_workers.recv_timeout(HEARTBEAT) {
                Ok((at, result)) => results[at] = Some(result),
                Err(RecvTimeoutError::Timeout) => stop.store(!goes_on(), Ordering::Relaxed),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    results.into_iter().map(|result| result.expect("every item was worked on")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_work_can_be_ended() {
        let items: Vec<u64> = (0..100).collect();
        assert_eq!(on_cores(&items, &mut || true, |item, _| item * item)[99], 9801);
        assert!(on_cores(&[] as &[u8], &mut || true, |_, _| 0).is_empty());
        let until_told = |_: &u64, stop: &AtomicBool| {
            while !stop.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            7
        };
        assert_eq!(on_cores(&items, &mut || false, until_told), [7; 100]);
    }
}
