//! What of the interfaces' and the network's state decides the future.

use super::Flit;
use crate::simulate::clock::Ticks;
use crate::simulate::period::Recurrent;
use crate::simulate::recorder::Traffic;

impl Recurrent for Flit<'_> {
    fn write_state(&self, now: Ticks, state: &mut Vec<u64>) {
        let period = self.period();
        // Equal phases make a period whole cycles.
        state.push(now % period);
        for (id, &arrived) in self.arrived.iter().enumerate().filter(|&(_, &arrived)| arrived > 0) {
            state.extend([id as u64, arrived]);
        }
        state.push(u64::MAX);
        for (id, &left) in self.left.iter().enumerate().filter(|&(_, &left)| left > 0) {
            state.extend([id as u64, left]);
        }
        state.push(u64::MAX);
        self.network.write_state(now / period, state);
    }

    fn delay(&mut self, by: Ticks, _chunks: &[u64]) {
        self.network.delay(by / self.period());
    }

    /// A transmission that goes on across an end of a period is recorded as two.
    fn traffic(&mut self) -> &mut Traffic {
        self.network.flush();
        self.record();
        &mut self.traffic
    }
}
