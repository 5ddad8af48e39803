//! What of the network's state decides the future.

use super::channel::Packet;
use super::output::Holder;
use super::{Event, Routed};
use crate::simulate::clock::Ticks;
use crate::simulate::period::Recurrent;
use crate::simulate::recorder::Traffic;

impl Recurrent for Routed<'_> {
    fn write_state(&self, now: Ticks, state: &mut Vec<u64>) {
        for output in &self.outputs {
            state.push((output.waiting.len() as u64) << 32 | output.crossing.len() as u64);
            state.push(u64::from(output.last_channel) << 32 | u64::from(output.last_input));
            state.extend([output.free_at.saturating_sub(now), output.holding.len() as u64]);
            state.extend(output.waiting.iter().map(|&(_, channel)| u64::from(channel)));
            state.extend(output.holding.iter().map(|holder| holder.word()));
            state.extend(output.crossing.iter().flat_map(|crossing| [crossing.holder.word(), crossing.end - now]));
        }
        for channel in &self.channels {
            state.push((channel.waiting.len() as u64) << 32 | u64::from(channel.room) << 1 | u64::from(channel.held));
            channel.waiting.iter().for_each(|packet| state.extend(packet.words()));
        }
        state.extend(self.inputs.iter().map(|input| u64::from(input.next)));
        for interface in &self.interfaces {
            state.push(
                (interface.queue.len() as u64) << 32 | interface.leaving.map_or(0, |channel| u64::from(channel) + 1),
            );
            interface.queue.iter().for_each(|&(flow, packets)| state.extend([flow.word(), packets]));
        }
        for (at, event) in self.agenda.in_order() {
            let words = match event {
                Event::Crossed { output, channel } => [0, output.into(), channel.into()],
                Event::Left { interface } => [1, interface.into(), 0],
                Event::Arrived { channel, packet } => {
                    let [flow, last] = packet.words();
                    [2 | last << 8, channel.into(), flow]
                }
                Event::Stayed { transfer } => [3, transfer.into(), 0],
                Event::Credit { channel } => [4, channel.into(), 0],
            };
            state.push(at - now);
            state.extend(words);
        }
    }

    fn delay(&mut self, by: Ticks, _chunks: &[u64]) {
        self.agenda.replace(|at, event| (at + by, event));
        for output in &mut self.outputs {
            output.free_at += by;
            output.crossing.iter_mut().for_each(|crossing| crossing.end += by);
        }
    }

    fn traffic(&mut self) -> &mut Traffic {
        &mut self.traffic
    }
}

impl Holder {
    /// Tells it from others.
    fn word(self) -> u64 {
        u64::from(self.channel) << 32 | self.claimed.map_or(0, |claimed| u64::from(claimed) + 1)
    }
}

impl Packet {
    /// Tells it from others.
    fn words(self) -> [u64; 2] {
        [self.flow.word(), self.last.into()]
    }
}
