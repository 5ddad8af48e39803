//! Crossings: from their start to the arrival of the packet at the next node.

use super::channel::Packet;
use super::output::{Crossing, Holder};
use super::{Event, Routed};
use crate::schedule::TransferId;
use crate::simulate::clock::Ticks;
use crate::simulate::endpoints::Endpoints;
use crate::simulate::network::flow::{Flow, Tail};
use crate::system::Forwarding;

impl Routed<'_> {
    /// The first packet of a channel begins to cross.
    pub fn cross(&mut self, output: u32, holder: Holder) {
        let Holder { channel, claimed } = holder;
        let packet = self.channels[channel as usize].waiting[0];
        let at = self.now + self.flits(packet.flow) * self.flit;
        self.give_back(channel, packet.flow, self.now, self.flit);
        let end = claimed.map_or(at, |claimed| self.send(output, packet, at, claimed));
        let input = channel / self.count;
        self.inputs[input as usize].crossing += 1;
        let state = &mut self.outputs[output as usize];
        state.last_input = input;
        state.crossing.push(Crossing { holder, end });
        self.agenda.push(at, Event::Crossed { output, channel });
    }

    /// A packet that crosses to a link until `crossed_at` goes over it as soon as those before it have; returns when it has.
    fn send(&mut self, link: u32, packet: Packet, crossed_at: Ticks, claimed: u32) -> Ticks {
        let Packet { flow, tail } = packet;
        let (flit, latency) = (self.plan.flit[link as usize], self.plan.latency[link as usize]);
        let packet_time = self.flits(flow) * flit;
        let free_at = self.outputs[link as usize].free_at;
        let end = (self.now.max(free_at) + packet_time).max(crossed_at);
        self.outputs[link as usize].free_at = end;
        self.traffic.transmitted(link, Some(flow.transfer), end - packet_time, end);
        let (next, at) = (flow.next(), end + latency);
        let arrived = Event::Arrived { channel: claimed, packet: Packet { flow: next, tail } };
        match self.hops.at(next) {
            Some(after) => self.agenda.push(at - self.ahead(flow, link, after), arrived),
            // The last flit leaves no sooner than it comes.
            None if self.ejects() => self.agenda.push(at - (crossed_at - self.now), arrived),
            // Flits do not stay, but their credits pass the stages.
            None => self.give_back(claimed, flow, at - packet_time + self.router, flit),
        }
        end
    }

    /// By how much a packet asks for its next link before all of it has come there, as in the module `packet`.
    fn ahead(&self, flow: Flow, link: u32, next: u32) -> Ticks {
        if self.plan.system.forwarding == Forwarding::StoreAndForward {
            return 0;
        }
        let flit = self.plan.flit[link as usize].min(self.plan.flit[next as usize]);
        ((self.flits(flow) - 1) * flit).saturating_sub(self.router)
    }

    /// A packet has come to its receiver, or will at `at`.
    fn come(&mut self, transfer: TransferId, tail: Tail, at: Ticks, endpoints: &mut Endpoints) {
        if let Some(at) = self.arriving.come(self.plan, transfer, tail, at) {
            endpoints.arrived(transfer, tail.arrived(transfer, endpoints), at);
        }
    }

    /// The first packet of a channel has crossed.
    pub fn crossed(&mut self, output: u32, channel: u32, endpoints: &mut Endpoints) {
        let crossing = &mut self.outputs[output as usize].crossing;
        let place =
            crossing.iter().position(|each| each.holder.channel == channel).expect("an end belongs to a crossing");
        let Crossing { holder: Holder { claimed, .. }, end } = crossing.remove(place);
        let input = channel / self.count;
        self.inputs[input as usize].crossing -= 1;
        let waiting = &mut self.channels[channel as usize].waiting;
        let Some(Packet { flow, tail }) = waiting.pop_front() else { return };
        let goes_on = !waiting.is_empty();
        if let Some(claimed) = claimed {
            self.channels[claimed as usize].held = false;
            if !self.ejects() && self.hops.at(flow.next()).is_none() {
                self.come(flow.transfer, tail, end + self.plan.latency[output as usize], endpoints);
            }
        } else {
            self.come(flow.transfer, tail, self.now, endpoints);
        }
        if goes_on {
            self.request(channel);
        }
        // What else waits in the input, from the next output on, and then for this one.
        let first = input * self.count;
        let asks = |&channel: &u32| !self.channels[channel as usize].waiting.is_empty();
        let mut outputs: Vec<u32> =
            (first..first + self.count).filter(asks).map(|channel| self.output_of(channel)).collect();
        outputs.sort_unstable_by_key(|&wanted| wanted.wrapping_sub(output + 1));
        outputs.dedup();
        for wanted in outputs {
            self.serve(wanted);
        }
        self.serve(output);
    }
}
