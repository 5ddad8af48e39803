//! Who does what in a round, on threads that may be stopped at any time.
//!
//! A round is over when all its tasks are. Whoever is free takes the next one, its own first: a thread that the machine
//! has stopped is waited for only if it has one.

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

/// How often a thread looks whether the next round has begun before it lets others have its core.
const LOOKS: u32 = 1 << 10;
/// Instead of the number of a round: there is none any more.
const OVER: u64 = u64::MAX;

/// See the module. (`std::sync::Barrier` sleeps, which takes longer than a round.)
pub struct Rounds {
    number: AtomicU64,
    /// The next round of each task.
    next: Vec<AtomicU64>,
    /// Tasks of this round that are done.
    done: AtomicUsize,
    broken: AtomicBool,
}

impl Rounds {
    /// Of so many tasks, numbered from 0.
    pub fn new(tasks: usize) -> Self {
        Rounds {
            number: AtomicU64::new(0),
            next: (0..tasks).map(|_| AtomicU64::new(0)).collect(),
            done: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
        }
    }

    /// Works as one of `threads` until the rounds are over: does a task of a round, and says after the last of each,
    /// when nobody does anything, whether there is another. `waits` is called now and then.
    ///
    /// If another thread panics this returns, and that one's panic is to be passed on.
    pub fn work(
        &self,
        thread: usize,
        threads: usize,
        mut task: impl FnMut(usize, u64),
        another: impl Fn() -> bool,
        mut between: impl FnMut(),
    ) {
        let _breaks = Breaks(&self.broken);
        let tasks = self.next.len();
        let own = || (thread..tasks).step_by(threads);
        let others = || (0..tasks).filter(|task| task % threads != thread);
        loop {
            let round = self.number.load(Ordering::Acquire);
            if round == OVER {
                return;
            }
            for number in own().chain(others()) {
                let next = &self.next[number];
                if next.compare_exchange(round, round + 1, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                    continue;
                }
                task(number, round);
                if self.done.fetch_add(1, Ordering::AcqRel) + 1 == tasks {
                    self.done.store(0, Ordering::Relaxed);
                    self.number.store(if another() { round + 1 } else { OVER }, Ordering::Release);
                }
            }
            between();
            let mut looks = 0;
            while self.number.load(Ordering::Acquire) == round {
                if self.broken.load(Ordering::Relaxed) {
                    return;
                }
                looks += 1;
                if looks < LOOKS { hint::spin_loop() } else { thread::yield_now() }
            }
        }
    }
}

/// Others do not wait for a thread that panics.
struct Breaks<'a>(&'a AtomicBool);

impl Drop for Breaks<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Each task is done once a round, by whomever, and all of a round before any of the next.
    #[test]
    fn every_task_is_done_once_a_round() {
        const TASKS: usize = 5;
        let (rounds, done) = (Rounds::new(TASKS), AtomicUsize::new(0));
        let task = |_, round: u64| {
            let before = done.fetch_add(1, Ordering::SeqCst);
            assert_eq!((before / TASKS) as u64, round);
        };
        let another = || done.load(Ordering::SeqCst) < 1000 * TASKS;
        thread::scope(|scope| {
            let work = |thread| rounds.work(thread, 3, task, another, || ());
            (1..3).for_each(|thread| drop(scope.spawn(move || work(thread))));
            work(0);
        });
        assert_eq!(done.into_inner(), 1000 * TASKS);
    }

    #[test]
    fn nobody_waits_for_a_thread_that_panics() {
        let (rounds, begun) = (Rounds::new(2), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                let fails = |_, _| {
                    begun.store(true, Ordering::SeqCst);
                    panic!("in a task");
                };
                assert!(catch_unwind(AssertUnwindSafe(|| rounds.work(1, 2, fails, || true, || ()))).is_err());
            });
            while !begun.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            rounds.work(0, 2, |_, _| (), || true, || ());
        });
    }
}
