//! A simulation on several cores: in parts, each of which goes on by itself for a while.
//!
//! What happens in one part reaches another no sooner than a *window* later. So all go on for a window after the first event of
//! all, and then hand over what has crossed: conservative synchronization, Nicol, JACM 1993. Nothing depends on how many
//! threads there are.

mod rounds;

use rounds::Rounds;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two looks whether to go on.
const HEARTBEAT: Duration = Duration::from_millis(5);

/// What crosses to another part.
pub struct Parcel<T> {
    /// When it comes there.
    pub at: u64,
    /// What it is.
    pub what: T,
}

/// A part of a simulation. Times are whole, in any unit.
pub trait Part: Send {
    /// What crosses to others.
    type Content: Send;

    /// When the next event is; `u64::MAX` if there is none.
    fn next_at(&self) -> u64;

    /// Goes on to the last event before `end`.
    fn run_before(&mut self, end: u64);

    /// What has left for others since it was taken last, by the number of the part.
    fn left(&mut self) -> &mut [Vec<Parcel<Self::Content>>];

    /// Something has come from another part; what one part has sent comes in the order in which it left.
    fn accept(&mut self, parcel: Parcel<Self::Content>);

    /// Events until now, and a count of what is done, for who watches.
    fn counts(&self) -> [u64; 2];
}

/// What a part has for others at the end of a window.
struct Outcome<T> {
    /// When the next event is, here or of what has left.
    next: AtomicU64,
    /// What has left, by the part it is for; of even windows and of odd ones.
    left: [Vec<Mutex<Vec<Parcel<T>>>>; 2],
    /// See [`Part::counts`].
    counts: [AtomicU64; 2],
}

/// What threads write to on lines of a cache that no other has.
#[repr(align(128))]
struct Apart<T>(T);

/// The part, of `count`, that one of `all` things is in whose neighbours have numbers near its own.
pub fn part_of(number: u32, all: usize, count: u32) -> u32 {
    (u64::from(number) * u64::from(count) / all as u64) as u32
}

/// All parts.
pub struct Parts<P: Part> {
    parts: Vec<Apart<Mutex<P>>>,
    outcomes: Vec<Apart<Outcome<P::Content>>>,
    window: u64,
    /// End of the present window, and of the last one.
    end: AtomicU64,
    until: u64,
    stops: AtomicBool,
    /// When somebody was asked last whether to go on.
    asked: Instant,
}

/// Nobody else has it, but for a thread that panicked.
fn take<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().expect("no thread goes on after a panic")
}

impl<P: Part> Parts<P> {
    /// Parts in the order of their numbers, and the time in which nothing crosses.
    pub fn new(parts: Vec<P>, window: u64) -> Self {
        let outcome = |_| {
            Apart(Outcome {
                next: AtomicU64::new(0),
                left: std::array::from_fn(|_| parts.iter().map(|_| Mutex::default()).collect()),
                counts: Default::default(),
            })
        };
        Parts {
            outcomes: (0..parts.len()).map(outcome).collect(),
            parts: parts.into_iter().map(|part| Apart(Mutex::new(part))).collect(),
            window,
            end: AtomicU64::new(0),
            until: 0,
            stops: AtomicBool::new(false),
            asked: Instant::now(),
        }
    }

    /// Runs all that is before `until` on so many threads, unless `goes_on`, which is given the counts of all parts now and
    /// then, ends it for good.
    pub fn run_before(&mut self, until: u64, threads: usize, goes_on: &mut dyn FnMut([u64; 2]) -> bool) {
        let next = self.each().map(|part| part.next_at()).min().unwrap_or(u64::MAX);
        if next >= until {
            return;
        }
        (self.until, *self.end.get_mut()) = (until, next.saturating_add(self.window).min(until));
        let rounds = Rounds::new(self.parts.len());
        let threads = threads.clamp(1, self.parts.len());
        let mut asked = self.asked;
        thread::scope(|scope| {
            let (rounds, shared) = (&rounds, &*self);
            let work = move |thread: usize, between: &mut dyn FnMut()| {
                rounds.work(thread, threads, |part, window| shared.advance(part, window), || shared.next(), between);
            };
            for thread in 1..threads {
                // What one would have done that there is no room for, others do.
                let _ = thread::Builder::new().spawn_scoped(scope, move || work(thread, &mut || ()));
            }
            work(0, &mut || {
                if asked.elapsed() > HEARTBEAT && !shared.stops.load(Ordering::Relaxed) {
                    asked = Instant::now();
                    shared.stops.store(!goes_on(shared.counts()), Ordering::Relaxed);
                }
            });
        });
        self.asked = asked;
        // What crossed last.
        for (number, mut part) in self.each().enumerate() {
            let left = self.outcomes.iter().flat_map(|Apart(outcome)| outcome.left.iter().map(|left| &left[number]));
            left.for_each(|left| take(left).drain(..).for_each(|parcel| part.accept(parcel)));
        }
    }

    /// A part goes on to the end of a window.
    fn advance(&self, number: usize, window: u64) {
        let mut part = take(&self.parts[number].0);
        let (now, before) = ((window % 2) as usize, ((window + 1) % 2) as usize);
        for Apart(other) in &self.outcomes {
            take(&other.left[before][number]).drain(..).for_each(|parcel| part.accept(parcel));
        }
        part.run_before(self.end.load(Ordering::Relaxed));
        let Apart(outcome) = &self.outcomes[number];
        let mut next = part.next_at();
        for (to, left) in part.left().iter_mut().enumerate().filter(|(_, left)| !left.is_empty()) {
            next = left.iter().map(|parcel| parcel.at).fold(next, u64::min);
            std::mem::swap(&mut *take(&outcome.left[now][to]), left);
        }
        outcome.next.store(next, Ordering::Relaxed);
        outcome.counts.iter().zip(part.counts()).for_each(|(count, now)| count.store(now, Ordering::Relaxed));
    }

    /// Sets the end of the next window, if there is one.
    fn next(&self) -> bool {
        let next = self.outcomes.iter().map(|Apart(of)| of.next.load(Ordering::Relaxed)).min().unwrap_or(u64::MAX);
        self.end.store(next.saturating_add(self.window).min(self.until), Ordering::Relaxed);
        next < self.until && !self.stops.load(Ordering::Relaxed)
    }

    fn counts(&self) -> [u64; 2] {
        std::array::from_fn(|i| {
            self.outcomes.iter().map(|Apart(outcome)| outcome.counts[i].load(Ordering::Relaxed)).sum()
        })
    }

    /// Each part.
    pub fn each(&self) -> impl Iterator<Item = MutexGuard<'_, P>> {
        self.parts.iter().map(|Apart(part)| take(part))
    }

    /// The parts, in the order of their numbers.
    pub fn into_parts(self) -> Vec<P> {
        self.parts.into_iter().filter_map(|Apart(part)| part.into_inner().ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands on every token that comes, to the next part of a ring, as late as it must.
    struct Station {
        coming: Vec<u64>,
        seen: Vec<u64>,
        left: Vec<Vec<Parcel<()>>>,
        next: usize,
    }

    const DELAY: u64 = 7;

    impl Part for Station {
        type Content = ();

        fn next_at(&self) -> u64 {
            self.coming.iter().copied().min().unwrap_or(u64::MAX)
        }

        fn run_before(&mut self, end: u64) {
            while self.next_at() < end {
                let at = self.next_at();
                let place = self.coming.iter().position(|&coming| coming == at).unwrap();
                self.coming.swap_remove(place);
                assert!(self.seen.last().is_none_or(|&last| last <= at), "{at} comes too late");
                self.seen.push(at);
                self.left[self.next].push(Parcel { at: at + DELAY, what: () });
            }
        }

        fn left(&mut self) -> &mut [Vec<Parcel<()>>] {
            &mut self.left
        }

        fn accept(&mut self, parcel: Parcel<()>) {
            self.coming.push(parcel.at);
        }

        fn counts(&self) -> [u64; 2] {
            [self.seen.len() as u64, 0]
        }
    }

    /// A ring of parts, with a token of each that sets out at the time of its number.
    fn ring(count: usize) -> Parts<Station> {
        let station = |number| Station {
            coming: vec![number as u64],
            seen: vec![],
            left: (0..count).map(|_| vec![]).collect(),
            next: (number + 1) % count,
        };
        Parts::new((0..count).map(station).collect(), DELAY)
    }

    #[test]
    fn tokens_go_round_in_time() {
        for threads in 1..4 {
            let mut parts = ring(3);
            // Whatever has crossed when it ends is there when it goes on.
            for until in [1, 2, 50, 51, 300] {
                parts.run_before(until, threads, &mut |_| true);
            }
            for (number, part) in parts.into_parts().into_iter().enumerate() {
                let mut all: Vec<u64> = (0..3)
                    .flat_map(|token| {
                        let first = token as u64 + (number + 3 - token) as u64 % 3 * DELAY;
                        (first..300).step_by(3 * DELAY as usize)
                    })
                    .collect();
                all.sort_unstable();
                assert_eq!(part.seen, all);
            }
        }
    }

    #[test]
    fn ends_when_it_is_told() {
        let mut parts = ring(2);
        parts.run_before(u64::MAX, 2, &mut |[seen, _]| seen < 1000);
        assert!(parts.each().map(|part| part.seen.len()).sum::<usize>() >= 1000);
    }
}
