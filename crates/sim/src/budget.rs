//! Refuses runs that would take too long, by the work that they turn out to be.
//!
//! How much fast-forward will skip is not known before, so a run is judged while it goes: by the events it took for the
//! share that is done.

use antiphon_base::error::{Code, Error, Result};
use antiphon_base::watch::Progress;

/// Work before the first look: about a second, by which time most runs have found their period.
const FIRST_LOOK: u64 = 1 << 26;

/// The work of one run.
pub struct Budget {
    most: u64,
    unit: &'static str,
    next_look: u64,
}

impl Budget {
    /// At most about `most` of a `unit`, such as events.
    pub fn new(most: u64, unit: &'static str) -> Self {
        Budget { most, unit, next_look: FIRST_LOOK }
    }

    /// Reports that a run has taken `work` for a `share` (0 to 1) of all, and judges it.
    ///
    /// # Errors
    /// [`Code::Interrupted`] if `progress` says so, [`Code::TooLarge`] if the whole run would take too much.
    pub fn judge(&mut self, work: u64, share: f64, progress: &mut Progress) -> Result<()> {
        if !progress(share) {
            return Err(Error::new(Code::Interrupted, "interrupted"));
        }
        if work < self.next_look {
            return Ok(());
        }
        self.next_look = 2 * work;
        let whole = work as f64 / share;
        if whole <= self.most as f64 {
            return Ok(());
        }
        let Budget { most, unit, .. } = self;
        let about = if whole.is_finite() { format!("about {whole:.0e}") } else { "too many".into() };
        let what = format!(
            "after {work} {unit} the run is {:.3} % done and would take {about} (at most {most}); use larger chunks, less data or a cheaper fidelity",
            100.0 * share
        );
        Err(Error::new(Code::TooLarge, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judged_by_the_share_that_is_done() {
        let mut budget = Budget::new(4 * FIRST_LOOK, "events");
        let mut judge = |work, share| budget.judge(work, share, &mut |_| true);
        assert!(judge(FIRST_LOOK - 1, 0.0).is_ok() && judge(FIRST_LOOK, 0.25).is_ok());
        // Not looked at again before the work has doubled.
        assert!(judge(FIRST_LOOK + 1, 0.0).is_ok());
        assert_eq!(judge(2 * FIRST_LOOK, 0.4).unwrap_err().code, Code::TooLarge);
        assert_eq!(budget.judge(0, 0.0, &mut |_| false).unwrap_err().code, Code::Interrupted);
    }
}
