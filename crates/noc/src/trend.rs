//! Whether packets pile up: how many were created and not delivered, sampled over a window.

/// Samples of a window, after the one at its start.
pub const SAMPLES: u64 = 20;
/// Student's t for 19 degrees of freedom, one-sided 99.9 %.
const STUDENT_T: f64 = 3.579;
/// A network that takes all but this share of what is offered keeps up; also how well that must be known.
const SHARE: (f64, f64) = (0.005, 0.02);

/// See the module.
#[derive(Default)]
pub struct Trend {
    /// Packets waiting or in flight.
    pub waiting: Vec<f64>,
    /// Packets created in the window, on average.
    pub offered: f64,
}

impl Trend {
    /// Change over the window, and what chance alone can make of it: changes from one sample to the next
    /// are taken to be independent. In a network at rest they rather undo each other, so that few of
    /// those are called rising.
    fn change(&self) -> (f64, f64) {
        let steps: Vec<f64> = self.waiting.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let count = steps.len() as f64;
        if count < 2.0 {
            return (0.0, f64::INFINITY);
        }
        let change: f64 = steps.iter().sum();
        let variance = steps.iter().map(|step| (step - change / count).powi(2)).sum::<f64>() / (count - 1.0);
        (change, STUDENT_T * (variance * count).sqrt())
    }

    /// More and more packets wait.
    pub fn rises(&self) -> bool {
        let (change, noise) = self.change();
        change > noise && change > SHARE.0 * self.offered
    }

    /// The window is long enough for a rise to show.
    pub fn is_clear(&self) -> bool {
        self.change().1 <= SHARE.1 * self.offered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets that wait after each of 20 steps with noise of 30 packets.
    fn trend(step: f64) -> Trend {
        let noise = (0..=SAMPLES).map(|i| [0.0, 30.0, -10.0, 20.0, -30.0][i as usize % 5]);
        Trend { waiting: noise.zip(0..).map(|(noise, i)| 500.0 + noise + step * f64::from(i)).collect(), offered: 1e4 }
    }

    #[test]
    fn a_rise_is_told_from_noise() {
        assert!(!trend(0.0).rises() && !trend(10.0).rises() && !trend(-60.0).rises());
        assert!(trend(60.0).rises());
        // A rise of less than half a percent of the traffic.
        assert!(!Trend { offered: 1e6, ..trend(60.0) }.rises());
        assert!(!trend(0.0).is_clear() && Trend { offered: 1e5, ..trend(0.0) }.is_clear());
        assert!(!Trend::default().rises() && !Trend::default().is_clear());
    }
}
