//! What of the network's state decides the future.

use super::channel::Packet;
use super::output::Holder;
use super::{Event, Routed};
use crate::simulate::clock::Ticks;
use crate::simulate::endpoints::Endpoints;
use crate::simulate::network::flow::{Flow, Tail};
use crate::simulate::period::Recurrent;
use crate::simulate::recorder::Traffic;

impl Recurrent for Routed<'_> {
    fn write_state(&self, now: Ticks, endpoints: &Endpoints, state: &mut Vec<u64>) {
        let words = |packet: &Packet| [packet.flow.word(), packet.flow.word_of(Some(packet.tail), endpoints)];
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
            state.extend(channel.waiting.iter().flat_map(words));
        }
        state.extend(self.inputs.iter().map(|input| u64::from(input.next)));
        for interface in &self.interfaces {
            state.push(
                (interface.queue.len() as u64) << 32 | interface.leaving.map_or(0, |channel| u64::from(channel) + 1),
            );
            let queue = interface.queue.iter();
            state.extend(
                queue.flat_map(|&(flow, tail, packets)| [flow.word(), flow.word_of(Some(tail), endpoints), packets]),
            );
        }
        self.arriving.write_state(now, endpoints, state);
        for (at, event) in self.agenda.in_order() {
            let words = match event {
                Event::Crossed { output, channel } => [0, output.into(), channel.into(), 0],
                Event::Left { interface } => [1, interface.into(), 0, 0],
                Event::Arrived { channel, packet } => {
                    let [flow, which] = words(&packet);
                    [2, channel.into(), flow, which]
                }
                Event::Stayed { transfer, tail } => {
                    [3, transfer.into(), tail.behind(endpoints.chunks_started(transfer)), 0]
                }
                Event::Credit { channel } => [4, channel.into(), 0, 0],
            };
            state.push(at - now);
            state.extend(words);
        }
    }

    fn delay(&mut self, by: Ticks, chunks: &[u64]) {
        let later = |flow: Flow, tail: Tail| tail.later(chunks[flow.transfer as usize]);
        let event = |event| match event {
            Event::Arrived { channel, packet: Packet { flow, tail } } => {
                Event::Arrived { channel, packet: Packet { flow, tail: later(flow, tail) } }
            }
            Event::Stayed { transfer, tail } => Event::Stayed { transfer, tail: tail.later(chunks[transfer as usize]) },
            other => other,
        };
        self.agenda.replace(|at, what| (at + by, event(what)));
        for packet in self.channels.iter_mut().flat_map(|channel| &mut channel.waiting) {
            packet.tail = later(packet.flow, packet.tail);
        }
        for (flow, tail, _) in self.interfaces.iter_mut().flat_map(|interface| &mut interface.queue) {
            *tail = later(*flow, *tail);
        }
        self.arriving.delay(by, chunks);
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
