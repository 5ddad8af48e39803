//! Crossings: from their start to the arrival of the packet at the next node.

use super::output::{Crossing, Packet, Request};
use super::{Event, Routed};
use crate::simulate::clock::Ticks;
use crate::simulate::endpoints::Endpoints;
use crate::simulate::network::flow::Flow;

impl Routed<'_> {
    /// A packet begins to cross.
    pub fn cross(&mut self, output: u32, input: u32, request: Request) {
        let (flow, last, interface) = match request {
            Request::Transit(packet) => (packet.flow, packet.last, None),
            Request::Interface(id) => {
                let (channel, message) = self.head_of(id, output);
                (message.flow, message.packets_left == 1, Some((id, channel)))
            }
        };
        let flits = self.plan.kinds[flow.kind as usize].packets.flits;
        let crossed_at = self.now + flits * self.flit;
        if let Request::Transit(Packet { held_until, .. }) = request {
            self.give_back(input, flow.before(), held_until, self.now, self.flit);
        }
        let end = if output < self.links() { self.send(output, flow, last, crossed_at) } else { crossed_at };
        self.inputs[input as usize].crossing += 1;
        let state = &mut self.outputs[output as usize];
        state.last = input;
        state.crossing.push(Crossing { input, flow, last, interface, at: crossed_at, end });
        self.agenda.push(crossed_at, Event::Crossed { output, input });
    }

    /// A packet that crosses to a link goes over it, as soon as those before it have; returns when it has.
    fn send(&mut self, link: u32, flow: Flow, last: bool, crossed_at: Ticks) -> Ticks {
        let packet_time = self.plan.kinds[flow.kind as usize].packets.flits * self.plan.flit[link as usize];
        let free_at = self.outputs[link as usize].free_at;
        let end = (self.now.max(free_at) + packet_time).max(crossed_at);
        self.outputs[link as usize].free_at = end;
        self.traffic.transmitted(link, Some(flow.transfer), end - packet_time, end);
        let buffer = self.buffer(link, flow);
        self.room[buffer as usize] -= 1;
        let (next, latency) = (flow.next(), self.plan.latency[link as usize]);
        let at = end + latency;
        let arrived = Event::Arrived(Packet { flow: next, last, held_until: crossed_at });
        match self.hops.at(next) {
            Some(_) => self.agenda.push(at - self.ahead(flow, link), arrived),
            // The last flit leaves no sooner than it comes.
            None if self.ejects() => self.agenda.push(at - (crossed_at - self.now), arrived),
            None => self.give_back(link, flow, crossed_at, end - packet_time + latency, self.plan.flit[link as usize]),
        }
        end
    }

    /// The credit of the buffer that a packet needs at the end of a link comes back, when so many of its flits have left
    /// from `start` on, each in `flit`, that the next packet fits, and the link's end has no longer held it.
    fn give_back(&mut self, link: u32, flow: Flow, held_until: Ticks, start: Ticks, flit: Ticks) {
        let flits = self.plan.kinds[flow.kind as usize].packets.flits;
        let fits_at = start + self.buffers[link as usize].flits_before_next.min(flits) * flit;
        let at = fits_at.max(held_until) + self.plan.latency[link as usize] + self.credit;
        self.agenda.push(at, Event::Credit { buffer: self.buffer(link, flow) });
    }

    /// By how much a packet asks for its next link before all of it has come there, as in the module `packet`.
    fn ahead(&self, flow: Flow, link: u32) -> Ticks {
        let (Some(stages), Some(next)) = (self.stages, self.hops.at(flow.next())) else { return 0 };
        let flit = self.plan.flit[link as usize].min(self.plan.flit[next as usize]);
        ((self.plan.kinds[flow.kind as usize].packets.flits - 1) * flit).saturating_sub(stages)
    }

    /// A packet has crossed.
    pub fn crossed(&mut self, output: u32, input: u32, endpoints: &mut Endpoints) {
        let crossing = &mut self.outputs[output as usize].crossing;
        let place = crossing
            .iter()
            .position(|each| (each.input, each.at) == (input, self.now))
            .expect("an end belongs to a crossing");
        let Crossing { flow, last, interface, end, .. } = crossing.remove(place);
        self.inputs[input as usize].crossing -= 1;
        let freed = interface.map(|(id, channel)| (id, self.left(id, channel, output)));
        let is_local = output >= self.links();
        if last && is_local {
            endpoints.arrived(flow.transfer, self.now);
        } else if last && !self.ejects() && self.hops.at(flow.next()).is_none() {
            endpoints.arrived(flow.transfer, end + self.plan.latency[output as usize]);
        }
        // What else waits in the input goes first, from the next output on.
        let mut wants: Vec<u32> = self.inputs[input as usize].wants.iter().map(|&(wanted, _)| wanted).collect();
        wants.sort_unstable_by_key(|&wanted| wanted.wrapping_sub(output + 1));
        for wanted in wants {
            self.serve(wanted);
        }
        self.serve(output);
        let Some((id, freed)) = freed else { return };
        if last {
            endpoints.sent(flow.transfer, self.now);
        }
        if last || freed {
            endpoints.departed(id, self.now, self);
        }
    }
}
