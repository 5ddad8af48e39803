//! What of the network's state decides the future.

use super::output::{Crossing, Packet, Request};
use super::{Event, Routed};
use crate::simulate::clock::Ticks;
use crate::simulate::period::Recurrent;
use crate::simulate::recorder::Traffic;

impl Recurrent for Routed<'_> {
    fn write_state(&self, now: Ticks, state: &mut Vec<u64>) {
        for output in &self.outputs {
            let waiting = output.queues.iter().map(|queue| queue.waiting.len()).sum::<usize>();
            state.extend([(waiting as u64) << 32 | output.crossing.len() as u64, output.last.into()]);
            state.push(output.free_at.saturating_sub(now));
            for &Crossing { input, flow, last, interface, end, .. } in &output.crossing {
                let channel = interface.map_or(0, |(_, channel)| channel.map_or(1, |channel| u64::from(channel) + 2));
                state.extend([u64::from(input) << 32 | channel << 1 | u64::from(last), flow.word(), end - now]);
            }
            let mut requests: Vec<_> = output.queues.iter().flat_map(|queue| &queue.waiting).collect();
            requests.sort_unstable_by_key(|&&(number, _)| number);
            for (_, request) in requests {
                state.extend(match *request {
                    Request::Interface(id) => [id.into(), u64::MAX, 0],
                    Request::Transit(packet) => packet.words(now),
                });
            }
        }
        state.extend(self.room.iter().map(|&room| u64::from(room)));
        for interface in &self.interfaces {
            interface.write_state(state);
        }
        for (at, event) in self.agenda.in_order() {
            state.push(at - now);
            match event {
                Event::Crossed { output, input } => state.push(u64::from(output) << 32 | u64::from(input)),
                Event::Arrived(packet) => state.extend(packet.words(now)),
                Event::Stayed { transfer } => state.push(u64::MAX >> 1 ^ u64::from(transfer)),
                Event::Credit { buffer } => state.push(u64::MAX - u64::from(buffer)),
            }
        }
    }

    fn delay(&mut self, by: Ticks, _chunks: &[u64]) {
        let late = |packet: Packet| Packet { held_until: packet.held_until + by, ..packet };
        self.agenda.replace(|at, event| match event {
            Event::Arrived(packet) => (at + by, Event::Arrived(late(packet))),
            event => (at + by, event),
        });
        for output in &mut self.outputs {
            output.free_at += by;
            for crossing in &mut output.crossing {
                (crossing.at, crossing.end) = (crossing.at + by, crossing.end + by);
            }
            for (_, request) in output.queues.iter_mut().flat_map(|queue| &mut queue.waiting) {
                if let Request::Transit(packet) = request {
                    *packet = late(*packet);
                }
            }
        }
    }

    fn traffic(&mut self) -> &mut Traffic {
        &mut self.traffic
    }
}

impl Packet {
    /// Tells it from others.
    fn words(self, now: Ticks) -> [u64; 3] {
        [self.flow.word(), self.last.into(), self.held_until.saturating_sub(now)]
    }
}
