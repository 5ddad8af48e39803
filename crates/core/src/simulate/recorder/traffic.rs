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
}

impl Traffic {
    /// Nothing transmitted yet on `links` links.
    pub fn new(links: usize) -> Self {
        Traffic { busy_ps: vec![0; links], window_shift: 10, windows: vec![0; WINDOWS] }
    }

    /// A link transmitted from `start` to `end`.
    pub fn transmitted(&mut self, link: LinkId, start: Picos, end: Picos) {
        self.busy_ps[link as usize] += end - start;
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
