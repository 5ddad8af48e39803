//! What of the interfaces' and the network's state decides the future.

use super::Interfaces;
use crate::simulate::period::Recurrent;
use crate::simulate::recorder::Traffic;
use crate::units::Picos;

impl Recurrent for Interfaces<'_> {
    fn write_state(&self, now: Picos, state: &mut Vec<u64>) {
        let clock = self.plan.system.router.clock_ps;
        // Equal phases make a period whole cycles.
        state.push(now % clock);
        for (id, &arrived) in self.arrived.iter().enumerate().filter(|&(_, &arrived)| arrived > 0) {
            state.extend([id as u64, arrived]);
        }
        state.push(u64::MAX);
        self.network.write_state(now / clock, state);
    }

    fn delay(&mut self, by: Picos) {
        self.network.delay(by / self.plan.system.router.clock_ps);
    }

    /// A transmission that goes on across an end of a period is recorded as two.
    fn traffic(&mut self) -> &mut Traffic {
        self.network.flush();
        self.record();
        self.traffic
    }
}
