//! When links were busy: totals, and utilization over time in windows that widen with the run.

use crate::fabric::LinkId;
use crate::simulate::clock::Ticks;
use crate::simulate::plan::Plan;

/// Windows of the timeline; their length doubles when a run outgrows them.
const WINDOWS: usize = 512;

/// See the module.
pub struct Traffic {
    /// Time each link was transmitting.
    pub busy: Vec<Ticks>,
    /// Links of each channel, at its first link.
    links: Vec<u64>,
    /// Windows are `1 << window_shift` ticks long.
    window_shift: u32,
    /// Time of all links together in each window.
    windows: Vec<Ticks>,
    record: Option<Record>,
}

/// A period as it was recorded.
struct Record {
    /// [`Traffic::busy`] at its start.
    busy: Vec<Ticks>,
    /// Start and end of every transmission, and on how many links.
    spans: Vec<(Ticks, Ticks, u64)>,
}

impl Traffic {
    /// Nothing transmitted yet; windows are a power of two of picoseconds.
    pub fn new(plan: &Plan) -> Self {
        let first = 0..plan.fabric.links.len() as LinkId;
        let links: Vec<u64> = first.map(|first| plan.channels.links(first).len() as u64).collect();
        Traffic {
            busy: vec![0; links.len()],
            links,
            window_shift: 10 + plan.clock.bits(),
            windows: vec![0; WINDOWS],
            record: None,
        }
    }

    /// A link transmitted from `start` to `end`.
    pub fn transmitted(&mut self, link: LinkId, start: Ticks, end: Ticks) {
        self.transmitted_run(link, start, 1, end - start, end - start);
    }

    /// A link transmitted packets of `packet_time` each, the first from `start`, each `spacing` after
    /// the one before.
    pub fn transmitted_run(&mut self, link: LinkId, start: Ticks, packets: u64, packet_time: Ticks, spacing: Ticks) {
        let Some(gaps) = packets.checked_sub(1) else { return };
        let total = packets * packet_time;
        let end = start + gaps * spacing + packet_time;
        self.busy[link as usize] += total;
        let links = self.links[link as usize];
        if let Some(record) = &mut self.record {
            if spacing == packet_time {
                record.spans.push((start, end, links));
            } else {
                let starts = (0..packets).map(|i| start + i * spacing);
                record.spans.extend(starts.map(|start| (start, start + packet_time, links)));
            }
        }
        self.reach(end);
        // Busy time before `at`, which is after the start.
        let before = |at: Ticks| {
            if spacing == packet_time {
                return at - start;
            }
            let over = ((at - start) / spacing).min(gaps);
            over * packet_time + (at - start - over * spacing).min(packet_time)
        };
        let (mut window, mut done) = (start >> self.window_shift, 0);
        while done < total {
            let until = (window + 1) << self.window_shift;
            let busy = if end <= until { total } else { before(until) };
            self.windows[window as usize] += links * (busy - done);
            (window, done) = (window + 1, busy);
        }
    }

    /// Widens the windows until they reach to `end`.
    #[inline]
    fn reach(&mut self, end: Ticks) {
        while end > (WINDOWS as u64) << self.window_shift {
            for i in 0..WINDOWS / 2 {
                self.windows[i] = self.windows[2 * i] + self.windows[2 * i + 1];
            }
            self.windows[WINDOWS / 2..].fill(0);
            self.window_shift += 1;
        }
    }

    /// Records what is transmitted from now on, to be repeated or discarded.
    pub fn record_period(&mut self) {
        self.record = Some(Record { busy: self.busy.clone(), spans: vec![] });
    }

    /// The record is of no use.
    pub fn discard_period(&mut self) {
        self.record = None;
    }

    /// Adds what was recorded `periods` times, each `period` later.
    pub fn repeat(&mut self, periods: u64, period: Ticks) {
        let Some(record) = self.record.take() else { return };
        for (busy, before) in self.busy.iter_mut().zip(&record.busy) {
            *busy += periods * (*busy - before);
        }
        let ramp = |time: fn(&(Ticks, Ticks, u64)) -> Ticks| {
            Ramp::new(record.spans.iter().map(|span| (time(span), span.2)).collect())
        };
        let (starts, ends) = (ramp(|span| span.0), ramp(|span| span.1));
        let Some(&(end, _)) = ends.times.last() else { return };
        self.reach(end + periods * period);
        // Busy time of one repetition before `at`, and of all.
        let one = |at: Ticks| (starts.before(at) - ends.before(at)) as Ticks;
        let all = |at: Ticks| -> Ticks {
            // Repetition `i` of `1..=periods` ends by `end + i * period`: it is over, or cut, or not begun.
            let over = (at.saturating_sub(end) / period).min(periods);
            let cut = (over + 1..=periods).map(|i| one(at.saturating_sub(i * period)));
            over * one(end) + cut.take_while(|&busy| busy > 0).sum::<Ticks>()
        };
        let mut done = 0;
        for (window, sum) in self.windows.iter_mut().enumerate() {
            let until = all((window as Ticks + 1) << self.window_shift);
            *sum += until - done;
            done = until;
        }
    }

    /// Length of a window, and the share of link time in use in each until `time`.
    pub fn utilization(&self, time: Ticks) -> (Ticks, Vec<f64>) {
        let window_length = 1u64 << self.window_shift;
        let count = (time.div_ceil(window_length) as usize).min(WINDOWS);
        let capacity = (window_length as f64) * self.busy.len().max(1) as f64;
        // The last window may be cut short by the end of the run.
        let share = |(i, &busy): (usize, &Ticks)| {
            let length = (time - i as u64 * window_length).min(window_length);
            busy as f64 / capacity * window_length as f64 / length as f64
        };
        (window_length, self.windows[..count].iter().enumerate().map(share).collect())
    }
}

/// How long ago given times were, summed with weights, as a function of time.
struct Ramp {
    times: Vec<(Ticks, u64)>,
    /// Sums of the weights and of the times before each.
    sums: Vec<(u128, u128)>,
}

impl Ramp {
    fn new(mut times: Vec<(Ticks, u64)>) -> Self {
        times.sort_unstable();
        let mut sums = vec![(0, 0)];
        for &(at, weight) in &times {
            let (weights, sum) = sums[sums.len() - 1];
            sums.push((weights + weight as u128, sum + at as u128 * weight as u128));
        }
        Ramp { times, sums }
    }

    /// Sum of the times from those before `at` until `at`.
    fn before(&self, at: Ticks) -> u128 {
        let (weights, sum) = self.sums[self.times.partition_point(|&(time, _)| time < at)];
        weights * at as u128 - sum
    }
}
