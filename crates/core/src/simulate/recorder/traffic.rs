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
        self.busy_ps[link as usize] += end - start;
        if let Some(record) = &mut self.record {
            record.spans.push((start, end));
        }
        self.reach(end);
        let mut at = start;
        while at < end {
            let window = at >> self.window_shift;
            let until = end.min((window + 1) << self.window_shift);
            self.windows[window as usize] += until - at;
            at = until;
        }
    }

    /// Widens the windows until they reach to `end`.
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
        let Some(end) = record.spans.iter().map(|&(_, end)| end).max() else { return };
        self.reach(end + periods * period_ps);
        let busy = Busy::new(record.spans);
        // Busy time of all repetitions before `at`.
        let before = |at: Picos| -> Picos {
            // Repetition `i` of `1..=periods` ends by `end + i * period_ps`: it is whole, or not begun, or cut.
            let whole = (at.saturating_sub(end) / period_ps).min(periods);
            let cut = (whole + 1..=periods).map(|i| at.saturating_sub(i * period_ps));
            whole * busy.total() + cut.map(|at| busy.before(at)).take_while(|&busy| busy > 0).sum::<Picos>()
        };
        let mut done = 0;
        for (window, sum) in self.windows.iter_mut().enumerate() {
            let until = before((window as Picos + 1) << self.window_shift);
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

/// Busy time as a function of time, of links together: linear between its points.
struct Busy {
    /// Time, busy time before it, and links busy from then on.
    points: Vec<(Picos, Picos, u64)>,
}

impl Busy {
    /// The function for transmissions from start to end each.
    fn new(spans: Vec<(Picos, Picos)>) -> Self {
        let edges = |(start, end)| [(start, 1i64), (end, -1)];
        let mut edges: Vec<(Picos, i64)> = spans.into_iter().flat_map(edges).collect();
        edges.sort_unstable();
        let mut points: Vec<(Picos, Picos, u64)> = Vec::new();
        for (at, change) in edges {
            let (last, busy, links) = points.last().copied().unwrap_or((at, 0, 0));
            let point = (at, busy + (at - last) * links, links.wrapping_add_signed(change));
            if last == at {
                points.pop();
            }
            points.push(point);
        }
        Busy { points }
    }

    /// Busy time before `at`.
    fn before(&self, at: Picos) -> Picos {
        match self.points.partition_point(|&(point, _, _)| point <= at) {
            0 => 0,
            next => {
                let (point, busy, links) = self.points[next - 1];
                busy + (at - point) * links
            }
        }
    }

    fn total(&self) -> Picos {
        self.points.last().map_or(0, |&(_, busy, _)| busy)
    }
}
