//! Interfaces: FIFOs of messages, whose packets move into the channels of their input.

use super::channel::Packet;
use super::{Event, Routed};
use crate::schedule::TransferId;
use crate::simulate::clock::Ticks;
use crate::simulate::endpoints::{Carrier, Endpoints};
use crate::simulate::network::flow::{Flow, Tail};
use std::collections::VecDeque;

/// See the module.
#[derive(Default)]
pub struct Interface {
    /// Messages, and their packets that have not left.
    pub queue: VecDeque<(Flow, Tail, u64)>,
    /// Packets that have not left.
    pub backlog: u64,
    /// The channel to which one is leaving.
    pub leaving: Option<u32>,
}

impl Carrier for Routed<'_> {
    fn is_free(&self, interface: u32) -> bool {
        self.interfaces[interface as usize].backlog <= self.plan.system.interface.depth_packets
    }

    fn has_room(&self, interface: u32) -> bool {
        self.interfaces[interface as usize].queue.len() < 2
    }

    fn send(&mut self, transfer: TransferId, chunk: u64, interface: u32, now: Ticks) -> Ticks {
        let job = &self.plan.jobs[transfer as usize];
        let (flow, tail) = (self.hops.first(transfer, job), Tail::of(chunk));
        if self.hops.at(flow).is_none() {
            // Both ranks on one node: nothing crosses a link.
            self.agenda.push(now, Event::Stayed { transfer, tail });
            return now;
        }
        let packets = self.plan.kind(job).packets.count;
        let state = &mut self.interfaces[interface as usize];
        state.queue.push_back((flow, tail, packets));
        state.backlog += packets;
        self.inject(interface);
        // One packet an issue slot; the last is visible one slot later.
        now + (packets + 1) * self.plan.issue
    }

    fn launched(&mut self, flight: u32, rank: u64) {
        self.ranking.launched(flight, rank);
    }
}

impl Routed<'_> {
    /// The next packet of an interface leaves it, if none does and a channel is open.
    pub fn inject(&mut self, id: u32) {
        let Interface { queue, leaving, .. } = &self.interfaces[id as usize];
        let (None, Some(&(flow, tail, _))) = (leaving, queue.front()) else { return };
        let Some(channel) = self.claim(self.links() + id, flow) else { return };
        self.interfaces[id as usize].leaving = Some(channel);
        self.agenda.push(self.now + self.flits(flow) * self.flit, Event::Left { interface: id });
        self.enter(channel, Packet { flow, tail });
    }

    /// A packet has left an interface.
    pub fn left(&mut self, id: u32, endpoints: &mut Endpoints) {
        let depth = self.plan.system.interface.depth_packets;
        let state = &mut self.interfaces[id as usize];
        let Some((channel, (flow, tail, packets))) = state.leaving.take().zip(state.queue.front_mut()) else { return };
        self.channels[channel as usize].held = false;
        *packets -= 1;
        let (transfer, tail, last) = (flow.transfer, *tail, *packets == 0);
        if last {
            state.queue.pop_front();
        }
        state.backlog -= 1;
        let freed = state.backlog == depth;
        self.inject(id);
        if last {
            endpoints.sent(transfer, tail.sent(transfer, endpoints), self.now);
        }
        if last || freed {
            endpoints.departed(id, self.now, self);
        }
    }
}
