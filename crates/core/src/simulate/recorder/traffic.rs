//! When links were busy: totals, and utilization over time in windows that widen with the run.

use crate::fabric::LinkId;
use crate::units::Picos;

/// Windows of the timeline; their length doubles when a run outgrows them.
const WINDOWS: usize = 512;

/// See the module.
pub struct Traffic {
    /// Time each link was transmitting.
    pub busy_ps: Vec<Picos>,
    /// Windows are `1 << window_shift` picoseconds long.
    window_shift: u32,
    /// Time of all links together in each window.
    windows: Vec<Picos>,
    record: Option<Record>,
}

/// A period as it was recorded.
struct Record {
    /// [`Traffic::busy_ps`] at its start.
    busy_ps: Vec<Picos>,
    /// Start and end of every transmission.
    spans: Vec<(Picos, Picos)>,
}

impl Traffic {
    /// Nothing transmitted yet on `links` links.
    pub fn new(links: usize) -> Self {
        Traffic { busy_ps: vec![0; links], window_shift: 10, windows: vec![0; WINDOWS], record: None }
    }

    /// A link transmitted from `start` to `end`.
    pub fn transmitted(&mut self, link: LinkId, start: Picos, end: Picos) {
        self.transmitted_run(link, start, 1, end - start, end - start);
    }

    /// A link transmitted packets of `packet_ps` each, the first from `start`, each `spacing_ps` after
    /// the one before.
    pub fn transmitted_run(&mut self, link: LinkId, start: Picos, packets: u64, packet_ps: Picos, spacing_ps: Picos) {
        let Some(gaps) = packets.checked_sub(1) else { return };
        let total = packets * packet_ps;
        let end = start + gaps * spacing_ps + packet_ps;
        self.busy_ps[link as usize] += total;
        if let Some(record) = &mut self.record {
            if spacing_ps == packet_ps {
                record.spans.push((start, end));
            } else {
                let starts = (0..packets).map(|i| start + i * spacing_ps);
                record.spans.extend(starts.map(|start| (start, start + packet_ps)));
            }
        }
        self.reach(end);
        // Busy time before `at`, which is after the start.
        let before = |at: Picos| {
            if spacing_ps == packet_ps {
                return at - start;
            }
            let over = ((at - start) / spacing_ps).min(gaps);
            over * packet_ps + (at - start - over * spacing_ps).min(packet_ps)
        };
        let (mut window, mut done) = (start >> self.window_shift, 0);
        while done < total {
            let until = (window + 1) << self.window_shift;
            let busy = if end <= until { total } else { before(until) };
            self.windows[window as usize] += busy - done;
            (window, done) = (window + 1, busy);
        }
    }

    /// Widens the windows until they reach to `end`.
    #[inline]
    fn reach(&mut self, end: Picos) {
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
        self.record = Some(Record { busy_ps: self.busy_ps.clone(), spans: vec![] });
    }

    /// The record is of no use.
    pub fn discard_period(&mut self) {
        self.record = None;
    }

    /// Adds what was recorded `periods` times, each `period_ps` later.
    pub fn repeat(&mut self, periods: u64, period_ps: Picos) {
        let Some(record) = self.record.take() else { return };
        for (busy, before) in self.busy_ps.iter_mut().zip(&record.busy_ps) {
            *busy += periods * (*busy - before);
        }
        let (starts, ends): (Vec<Picos>, Vec<Picos>) = record.spans.into_iter().unzip();
        let (starts, ends) = (Ramp::new(starts), Ramp::new(ends));
        let Some(&end) = ends.times.last() else { return };
        self.reach(end + periods * period_ps);
        // Busy time of one repetition before `at`, and of all.
        let one = |at: Picos| (starts.before(at) - ends.before(at)) as Picos;
        let all = |at: Picos| -> Picos {
            // Repetition `i` of `1..=periods` ends by `end + i * period_ps`: it is over, or cut, or not begun.
            let over = (at.saturating_sub(end) / period_ps).min(periods);
            let cut = (over + 1..=periods).map(|i| one(at.saturating_sub(i * period_ps)));
            over * one(end) + cut.take_while(|&busy| busy > 0).sum::<Picos>()
        };
        let mut done = 0;
        for (window, sum) in self.windows.iter_mut().enumerate() {
            let until = all((window as Picos + 1) << self.window_shift);
            *sum += until - done;
            done = until;
        }
    }

    /// Length of a window, and the share of link time in use in each until `time_ps`.
    pub fn utilization(&self, time_ps: Picos) -> (Picos, Vec<f64>) {
        let window_ps = 1u64 << self.window_shift;
        let count = (time_ps.div_ceil(window_ps) as usize).min(WINDOWS);
        let capacity = (window_ps as f64) * self.busy_ps.len().max(1) as f64;
        // The last window may be cut short by the end of the run.
        let share = |(i, &busy): (usize, &Picos)| {
            let length = (time_ps - i as u64 * window_ps).min(window_ps);
            busy as f64 / capacity * window_ps as f64 / length as f64
        };
        (window_ps, self.windows[..count].iter().enumerate().map(share).collect())
    }
}

/// How long ago given times were, summed, as a function of time.
struct Ramp {
    times: Vec<Picos>,
    /// Sum of the times before each.
    sums: Vec<u128>,
}

impl Ramp {
    fn new(mut times: Vec<Picos>) -> Self {
        times.sort_unstable();
        let before = |sum: &mut u128, &at: &Picos| Some(std::mem::replace(sum, *sum + at as u128));
        let mut sums: Vec<u128> = times.iter().scan(0, before).collect();
        sums.push(times.iter().map(|&at| at as u128).sum());
        Ramp { times, sums }
    }

    /// Sum of the times from those before `at` until `at`.
    fn before(&self, at: Picos) -> u128 {
        let count = self.times.partition_point(|&time| time < at);
        count as u128 * at as u128 - self.sums[count]
    }
}
