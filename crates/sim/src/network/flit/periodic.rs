//! What of the interfaces' and the network's state decides the future.

use super::Flit;
use crate::clock::Ticks;
use crate::endpoints::Endpoints;
use crate::network::flow::Tail;
use crate::period::Recurrent;
use crate::recorder::Traffic;
use antiphon_noc::FlitPacket;

impl Recurrent for Flit<'_> {
    fn write_state(&self, now: Ticks, endpoints: &Endpoints, state: &mut Vec<u64>) {
        let period = self.period();
        // Equal phases make a period whole cycles.
        state.push(now % period);
        self.arrived.write_state(now, endpoints, state);
        self.left.write_state(now, endpoints, state);
        let behind =
            |packet: &FlitPacket| Tail::of_word(packet.route).behind(endpoints.chunks_started(packet.tag)) as u32;
        self.network.write_state(now / period, &behind, state);
    }

    fn delay(&mut self, by: Ticks, chunks: &[u64]) {
        self.arrived.delay(by, chunks);
        self.left.delay(by, chunks);
        let later = |packet: &mut FlitPacket| {
            if let Some(&chunks) = chunks.get(packet.tag as usize) {
                packet.route = Tail::of_word(packet.route).later(chunks).word();
            }
        };
        self.network.delay(by / self.period(), later);
    }

    /// A transmission that goes on across an end of a period is recorded as two.
    fn traffic(&mut self) -> &mut Traffic {
        self.network.flush();
        self.record();
        &mut self.traffic
    }
}
