//! When the messages of combs are through, where sums take no time.
//!
//! A link sends its messages in the order of their slots, each when it has come: the message of a slot ends at
//! `max(end of the one before, arrivals that it waits for) + busy`, and arrives a `way` later. Slots go through all
//! messages so that what a message waits for is known. Rows and columns do the same, so one of them stands for both: a comb with teeth along
//! rows has the times of its mirror image.
//!
//! What goes along a line goes on in every slot, so of every class only the last arrival is kept. On a side, the class of the
//! link from position `p` on is `shift + p` in a slot; `shift` falls by 1 from slot to slot, so classes go on by one link.
//! Teeth that come to their middle (`shift` 1), and spines, are kept for as many chunks as may be under way.
//!
//! **Periods.** Once all classes are under way, and until the first of them ends, every period does the same to the state `x`,
//! which is all ends and arrivals that are kept: a map `x -> F(x)` of maxima and sums with constants, so `F(x + c) = F(x) + c`
//! (max-plus linear; Baccelli et al., "Synchronization and Linearity", 1992, section 3.7). If the state after `p` periods
//! is that of before and a constant `c`, it is so after every `p` periods more: these are skipped. There are so many chunks
//! less, and `c` is added for each.

use super::rule::CombRule;
use antiphon_base::error::Result;
use antiphon_base::watch::Watch;

/// Times of a message, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MessageTicks {
    /// On a link.
    pub busy: i64,
    /// From the end on a link to where it is applied.
    pub way: i64,
    /// When the first messages may start.
    pub launch: i64,
}

/// No message.
const NONE: i64 = i64::MIN;
/// Chunks of a comb that may be under way, a power of two: its slots are fewer than three periods.
const KEPT: usize = 4;

/// The state of all lines.
#[derive(Clone)]
struct Waves {
    /// By side, line and position: when the link from this position on has sent its last message.
    free: [Vec<i64>; 2],
    /// By side, line and class: the last arrival.
    wave: [Vec<i64>; 2],
    /// By side, chunk modulo [`KEPT`], line and class along the line: when the middle of a tooth has what comes from this side.
    teeth: [Vec<i64>; 2],
    /// By side, chunk, position and line: when what a spine sends over the link from this position on has arrived.
    spine: [Vec<i64>; 2],
}

/// How it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settled {
    /// When all is over, in ticks.
    pub ticks: i64,
    /// Periods that were gone through, of all chunks and what follows.
    pub periods: u64,
}

/// When all chunks of combs are over. O(n^3) for a period, in memory for some n^2 times. Whether periods are skipped changes nothing.
///
/// # Errors
/// [`antiphon_base::error::Code::Interrupted`].
pub(super) fn run(combs: &CombRule, chunks: u64, times: MessageTicks, skips: bool, watch: Watch) -> Result<Settled> {
    let (period, last) = (combs.period() as u64, u64::from(combs.last));
    let mut waves = Waves::new(combs.n);
    let mut kept: Option<(u64, Waves)> = None;
    let (mut chunks, mut at, mut skipped) = (chunks, 0, None);
    while at * period < chunks * period + last {
        watch.step(at.min(chunks) as usize, (chunks + last / period + 1) as usize)?;
        for slot in at * period..(at + 1) * period {
            waves.step(combs, slot, chunks, times);
        }
        at += 1;
        if !skips || skipped.is_some() || at * period < last || at >= chunks {
            continue;
        }
        let Some((before, state)) = &kept else {
            kept = Some((at, waves.clone()));
            continue;
        };
        let each = at - before;
        if let Some(later) = waves.later(state, each as usize % KEPT) {
            let count = (chunks - at) / each;
            chunks -= count * each;
            skipped = Some(count as i64 * later);
        } else if at >= 2 * before {
            // The next state to compare with, after twice as many periods (Brent, 1980).
            kept = Some((at, waves.clone()));
        }
    }
    let ends = waves.free.iter().flatten().max().copied().unwrap_or(0);
    Ok(Settled { ticks: ends + times.way + skipped.unwrap_or(0), periods: at })
}

impl Waves {
    fn new(n: usize) -> Waves {
        let of = |count: usize, value| [0, 1].map(|_| vec![value; count]);
        let mut free = of(n * n, 0);
        // There is none from the last position on.
        free.iter_mut().flat_map(|free| free.iter_mut().skip(n - 1).step_by(n)).for_each(|last| *last = NONE);
        Waves { free, wave: of(n * n, NONE), teeth: of(KEPT * n * n, NONE), spine: of(KEPT * n * n, NONE) }
    }

    /// All messages of a slot.
    fn step(&mut self, combs: &CombRule, slot: u64, chunks: u64, times: MessageTicks) {
        let period = combs.period() as u64;
        for side in [0, 1] {
            // The class of the link from position 0 on.
            let shift = ((combs.base(side, 0) as u64 + period - slot % period) % period) as usize;
            match shift {
                0 => self.start_copies(combs, side, slot, chunks, times),
                _ => self.go_on(combs, side, (slot, shift), chunks, times),
            }
            if shift == 1 {
                self.end_teeth(combs, side, slot);
            }
            if shift >= 2 {
                self.send_spines(combs, side, (slot, combs.n - shift), chunks, times);
            }
        }
    }

    /// All classes of teeth go on by one link, and one begins.
    fn go_on(&mut self, combs: &CombRule, side: usize, (slot, shift): (u64, usize), chunks: u64, times: MessageTicks) {
        let (n, period) = (combs.n, combs.period());
        let begins = (shift < n).then(|| if slot / (period as u64) < chunks { times.launch } else { NONE });
        let lines = self.wave[side].chunks_exact_mut(n).zip(self.free[side].chunks_exact_mut(n));
        for (wave, free) in lines {
            if let Some(begins) = begins {
                wave[shift] = begins;
            }
            // To their middle from position 0 on, behind the spine from the middle on.
            send(&mut wave[shift..], &mut free[..n - shift], times, n - 1);
            if shift >= 3 {
                send(&mut wave[..shift - 2], &mut free[period - shift..], times, shift - 2);
            }
        }
    }

    /// Teeth have come to their middle.
    fn end_teeth(&mut self, combs: &CombRule, side: usize, slot: u64) {
        let (n, period) = (combs.n, combs.period() as u64);
        for line in 0..n {
            for at in 1..n {
                let arrives = self.wave[side][line * n + at];
                // It began `at - 1` slots before.
                if let (Some(start), true) = (slot.checked_sub(at as u64 - 1), arrives != NONE) {
                    let chunk = (start / period) as usize % KEPT;
                    self.teeth[side][(chunk * n + line) * n + combs.mirrored(side, at)] = arrives;
                }
            }
        }
    }

    /// Copies go from the middle of all teeth on.
    fn start_copies(&mut self, combs: &CombRule, side: usize, slot: u64, chunks: u64, times: MessageTicks) {
        let n = combs.n;
        for (line, at) in (0..n).flat_map(|line| (0..n - 1).map(move |at| (line, at))) {
            let chunk = chunk_of(slot, combs.tooth[side][line * n + at], combs, chunks);
            let class = combs.mirrored(side, at);
            let ready = chunk.map(|chunk| match combs.spine_into(line) {
                Some((from, p)) => self.spine[from][(chunk * n + p) * n + class],
                None => self.sum(combs, class, chunk),
            });
            let place = line * n + at;
            self.wave[side][place] = ready.map_or(NONE, |ready| {
                let free = &mut self.free[side][place];
                *free = ready.max(*free) + times.busy;
                *free + times.way
            });
        }
    }

    /// The spines of all lines send over the link from position `p` on.
    fn send_spines(
        &mut self,
        combs: &CombRule,
        side: usize,
        (slot, p): (u64, usize),
        chunks: u64,
        times: MessageTicks,
    ) {
        let (n, middle) = (combs.n, combs.mirrored(side, combs.middle));
        for line in 0..n {
            let Some(chunk) = chunk_of(slot, combs.spine[side][p * n + line], combs, chunks) else { continue };
            let before = || if p == 0 { NONE } else { self.spine[side][(chunk * n + p - 1) * n + line] };
            let ready = match p.cmp(&middle) {
                std::cmp::Ordering::Less => before().max(self.tooth(combs.mirrored(side, p), line, chunk, n)),
                std::cmp::Ordering::Equal => self.sum(combs, line, chunk),
                std::cmp::Ordering::Greater => before(),
            };
            let free = &mut self.free[side][line * n + p];
            *free = ready.max(*free) + times.busy;
            self.spine[side][(chunk * n + p) * n + line] = *free + times.way;
        }
    }

    /// When the middle of a tooth has what comes along its line.
    fn tooth(&self, line: usize, class: usize, chunk: usize, n: usize) -> i64 {
        let place = (chunk * n + line) * n + class;
        self.teeth[0][place].max(self.teeth[1][place])
    }

    /// When the root of the spine along a line has the sum.
    fn sum(&self, combs: &CombRule, line: usize, chunk: usize) -> i64 {
        let n = combs.n;
        let spine = |side: usize| match combs.mirrored(side, combs.middle) {
            0 => NONE,
            at => self.spine[side][(chunk * n + at - 1) * n + line],
        };
        spine(0).max(spine(1)).max(self.tooth(combs.middle, line, chunk, n))
    }

    /// How much later than another state it is in everything that is kept, where chunks have gone on by so many.
    fn later(&self, other: &Waves, chunks: usize) -> Option<i64> {
        let later = self.free[0][0] - other.free[0][0];
        let plain =
            [&self.free, &self.wave].into_iter().flatten().zip([&other.free, &other.wave].into_iter().flatten());
        let by_chunk = [&self.teeth, &self.spine].into_iter().flatten();
        let by_chunk = by_chunk.zip([&other.teeth, &other.spine].into_iter().flatten());
        let turned = by_chunk.flat_map(|(now, before)| {
            let size = now.len() / KEPT;
            (0..KEPT)
                .map(move |chunk| (&now[(chunk + chunks) % KEPT * size..][..size], &before[chunk * size..][..size]))
        });
        let mut all = plain.map(|(now, before)| (&now[..], &before[..])).chain(turned);
        let same = |(now, before): (&[i64], &[i64])| {
            now.iter().zip(before).all(|(&now, &before)| match (now, before) {
                (NONE, NONE) => true,
                (NONE, _) | (_, NONE) => false,
                _ => now - before == later,
            })
        };
        all.all(same).then_some(later)
    }
}

/// The chunk, modulo [`KEPT`], of a message in a slot whose first is in another one, if there is one.
fn chunk_of(slot: u64, first: u32, combs: &CombRule, chunks: u64) -> Option<usize> {
    let chunk = slot.checked_sub(first.into())? / combs.period() as u64;
    (chunk < chunks).then_some(chunk as usize % KEPT)
}

/// Messages that have come go over links beside each other, at most so many.
#[inline]
fn send(wave: &mut [i64], free: &mut [i64], times: MessageTicks, most: usize) {
    for (time, free) in wave.iter_mut().zip(free).take(most) {
        let end = (*time).max(*free) + times.busy;
        let is_there = *time != NONE;
        *free = if is_there { end } else { *free };
        *time = if is_there { end + times.way } else { NONE };
    }
}
