//! Work on all cores that can be ended.

use antiphon_base::watch::while_it;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How often it is asked whether to go on.
const HEARTBEAT: Duration = Duration::from_millis(50);

/// What work gives for each item, in their order, on as many threads as there are cores; None once `goes_on` says no, when work ends
/// at its next [`antiphon_base::watch::checkpoint`].
pub fn on_cores<T: Sync, R: Send>(
    items: &[T],
    goes_on: &mut dyn FnMut() -> bool,
    work: impl Fn(&T) -> R + Sync,
) -> Option<Vec<R>> {
    let (stop, next) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(0));
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
                    let ended = Arc::clone(stop);
                    let result = while_it(move || !ended.load(Ordering::Relaxed), || work(item));
                    // The other side is there until all is done.
                    let _ = done.send((at, result));
                }
            });
        }
        drop(done);
        loop {
            match results_of_workers.recv_timeout(HEARTBEAT) {
                Ok((at, result)) => results[at] = result,
                Err(RecvTimeoutError::Timeout) => (),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            stop.fetch_or(!goes_on(), Ordering::Relaxed);
        }
    });
    results.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_base::watch::checkpoint;

    #[test]
    fn results_are_in_order_and_work_can_be_ended() {
        let items: Vec<u64> = (0..100).collect();
        assert_eq!(on_cores(&items, &mut || true, |item| item * item).unwrap()[99], 9801);
        assert_eq!(on_cores(&[] as &[u8], &mut || true, |_| 0), Some(vec![]));
        let until_told = |_: &u64| {
            loop {
                checkpoint();
                thread::yield_now();
            }
        };
        assert_eq!(on_cores(&items, &mut || false, until_told), None::<Vec<()>>);
    }
}
