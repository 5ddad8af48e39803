//! What goes on over time, in windows that widen with the run.

use crate::clock::Ticks;
use std::fmt::Debug;
use std::ops::{Add, AddAssign, Mul, Sub};

/// Windows of all links together; their length doubles when a run outgrows them.
const WINDOWS: usize = 512;

/// What is summed: `u64`, or `u128` where that is too small.
pub trait Amount:
    Copy
    + Default
    + Debug
    + From<u64>
    + Into<u128>
    + TryFrom<u128, Error: Debug>
    + Add<Output = Self>
    + AddAssign
    + Mul<Output = Self>
    + Sub<Output = Self>
{
}

impl Amount for u64 {}
impl Amount for u128 {}

/// Time in use, weighted, in each of a number of equal windows.
pub struct Windows<A> {
    /// Windows are `1 << shift` ticks long.
    shift: u32,
    sums: Vec<A>,
    /// Start, end and weight of everything since the start of a period that is being recorded.
    record: Option<Vec<(Ticks, Ticks, A)>>,
}

impl<A: Amount> Windows<A> {
    /// Empty ones, at first of `1 << shift` ticks.
    pub fn new(shift: u32) -> Self {
        Windows::with_windows(WINDOWS, shift)
    }

    /// So many of them, an even number.
    pub fn with_windows(windows: usize, shift: u32) -> Self {
        Windows { shift, sums: vec![A::default(); windows], record: None }
    }

    /// So many spans of `length` each were in use, the first from `start`, each `spacing` after the one before.
    #[inline]
    pub fn add(&mut self, start: Ticks, count: u64, length: Ticks, spacing: Ticks, weight: A) {
        let Some(gaps) = count.checked_sub(1) else { return };
        let total = count * length;
        let end = start + gaps * spacing + length;
        if let Some(record) = &mut self.record {
            if spacing == length {
                record.push((start, end, weight));
            } else {
                let starts = (0..count).map(|i| start + i * spacing);
                record.extend(starts.map(|start| (start, start + length, weight)));
            }
        }
        self.reach(end);
        if spacing == length {
            return self.add_one(start, end, weight);
        }
        // Time in use before `at`, which is after the start.
        let before = |at: Ticks| {
            let over = ((at - start) / spacing).min(gaps);
            over * length + (at - start - over * spacing).min(length)
        };
        let (mut window, mut done) = (start >> self.shift, 0);
        while done < total {
            let until = (window + 1) << self.shift;
            let busy = if end <= until { total } else { before(until) };
            self.sums[window as usize] += weight * A::from(busy - done);
            (window, done) = (window + 1, busy);
        }
    }

    /// The tick from `at` on was in use; it is not recorded.
    #[inline]
    pub fn add_point(&mut self, at: Ticks, weight: A) {
        self.reach(at + 1);
        self.sums[(at >> self.shift) as usize] += weight;
    }

    /// All of the time from `start` to `end`, which they reach to, was in use.
    #[inline]
    fn add_one(&mut self, start: Ticks, end: Ticks, weight: A) {
        let (first, last) = (start >> self.shift, end >> self.shift);
        if first == last {
            self.sums[first as usize] += weight * A::from(end - start);
            return;
        }
        let whole = weight * A::from(1 << self.shift);
        self.sums[first as usize] += weight * A::from(((first + 1) << self.shift) - start);
        self.sums[first as usize + 1..last as usize].iter_mut().for_each(|sum| *sum += whole);
        // The end may be that of the last window.
        if let Some(sum) = self.sums.get_mut(last as usize) {
            *sum += weight * A::from(end - (last << self.shift));
        }
    }

    /// Widens the windows until they reach to `end`.
    #[inline]
    fn reach(&mut self, end: Ticks) {
        while end > (self.sums.len() as u64) << self.shift {
            self.widen();
        }
    }

    fn widen(&mut self) {
        let half = self.sums.len() / 2;
        for i in 0..half {
            self.sums[i] = self.sums[2 * i] + self.sums[2 * i + 1];
        }
        self.sums[half..].fill(A::default());
        self.shift += 1;
    }

    /// Widens the windows to at least `1 << shift` ticks.
    fn widen_to(&mut self, shift: u32) {
        while self.shift < shift {
            self.widen();
        }
    }

    /// Their length is `1 << shift` ticks.
    pub fn shift(&self) -> u32 {
        self.shift
    }

    /// The sums of windows of `1 << shift` ticks, which are no shorter.
    pub fn wider(&self, shift: u32) -> impl Iterator<Item = A> + '_ {
        let sum = |sums: &[A]| sums.iter().fold(A::default(), |sum, &each| sum + each);
        self.sums.chunks(1 << (shift - self.shift)).map(sum)
    }

    /// Adds what others have, none of which is being recorded.
    pub fn join(&mut self, mut other: Windows<A>) {
        self.widen_to(other.shift);
        other.widen_to(self.shift);
        self.sums.iter_mut().zip(other.sums).for_each(|(sum, other)| *sum += other);
    }

    /// Records what is added from now on, to be repeated or discarded.
    pub fn record_period(&mut self) {
        self.record = Some(vec![]);
    }

    /// The record is of no use.
    pub fn discard_period(&mut self) {
        self.record = None;
    }

    /// Adds what was recorded `periods` times, each `period` later.
    pub fn repeat(&mut self, periods: u64, period: Ticks) {
        if let Some(spans) = self.record.take() {
            self.add_later(&spans, periods, period);
        }
    }

    /// Adds starts, ends and weights `periods` times, each `period` later.
    pub fn add_later(&mut self, spans: &[(Ticks, Ticks, A)], periods: u64, period: Ticks) {
        if spans.is_empty() {
            return;
        }
        let ramp =
            |time: fn(&(Ticks, Ticks, A)) -> Ticks| Ramp::new(spans.iter().map(|span| (time(span), span.2)).collect());
        let (starts, ends) = (ramp(|span| span.0), ramp(|span| span.1));
        let end = ends.times[ends.times.len() - 1].0;
        self.reach(end + periods * period);
        // Time in use of one repetition before `at`, and of all.
        let one = |at: Ticks| starts.before(at) - ends.before(at);
        let all = |at: Ticks| -> u128 {
            // Repetition `i` of `1..=periods` ends by `end + i * period`: it is over, or cut, or not begun.
            let over = (at.saturating_sub(end) / period).min(periods);
            let cut = (over + 1..=periods).map(|i| one(at.saturating_sub(i * period)));
            u128::from(over) * one(end) + cut.take_while(|&busy| busy > 0).sum::<u128>()
        };
        let mut done = 0;
        for (window, sum) in self.sums.iter_mut().enumerate() {
            let until = all((window as Ticks + 1) << self.shift);
            *sum += A::try_from(until - done).expect("no more than is in use");
            done = until;
        }
    }

    /// The same windows, each times `factor`.
    pub fn times(&self, factor: u128) -> Windows<u128> {
        let sums = self.sums.iter().map(|&sum| factor * sum.into()).collect();
        Windows { shift: self.shift, sums, record: None }
    }

    /// Length of a window, and the length and sum of each until `time`: the last may be cut short by the end of the run.
    pub fn until(&mut self, time: Ticks) -> (Ticks, impl Iterator<Item = (Ticks, A)> + '_) {
        self.reach(time);
        let length = 1u64 << self.shift;
        let count = time.div_ceil(length) as usize;
        let of = move |(i, &sum): (usize, &A)| ((time - i as u64 * length).min(length), sum);
        (length, self.sums[..count].iter().enumerate().map(of))
    }
}

/// How long ago given times were, summed with weights, as a function of time.
struct Ramp<A> {
    times: Vec<(Ticks, A)>,
    /// Sums of the weights and of the times before each.
    sums: Vec<(u128, u128)>,
}

impl<A: Amount> Ramp<A> {
    fn new(mut times: Vec<(Ticks, A)>) -> Self {
        times.sort_unstable_by_key(|&(at, _)| at);
        let mut sums = vec![(0, 0)];
        for &(at, weight) in &times {
            let ((weights, sum), weight) = (sums[sums.len() - 1], weight.into());
            sums.push((weights + weight, sum + at as u128 * weight));
        }
        Ramp { times, sums }
    }

    /// Sum of the times from those before `at` until `at`.
    fn before(&self, at: Ticks) -> u128 {
        let (weights, sum) = self.sums[self.times.partition_point(|&(time, _)| time < at)];
        weights * at as u128 - sum
    }
}
