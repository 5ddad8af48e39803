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
    /// then, ends it.
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
                scope.spawn(move || work(thread, &mut || ()));
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
