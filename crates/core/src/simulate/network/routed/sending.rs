//! Interfaces: what they offer to the links of their node.

use super::output::Request;
use super::{Event, Routed};
use crate::fabric::LinkId;
use crate::schedule::TransferId;
use crate::simulate::clock::Ticks;
use crate::simulate::endpoints::Carrier;
use crate::simulate::network::interface::{Channel, Message};
use smallvec::smallvec;

impl Carrier for Routed<'_> {
    fn is_free(&self, interface: u32) -> bool {
        self.interfaces[interface as usize].backlog <= self.plan.system.interface.depth_packets
    }

    fn has_room(&self, interface: u32) -> bool {
        self.interfaces[interface as usize].queue.len() < 2
    }

    fn send(&mut self, transfer: TransferId, interface: u32, now: Ticks) -> Ticks {
        let job = &self.plan.jobs[transfer as usize];
        let flow = self.hops.first(transfer, job);
        let Some(first) = self.hops.at(flow) else {
            self.agenda.push(now, Event::Stayed { transfer });
            return now;
        };
        let packets = self.plan.kind(job).packets.count;
        let state = &mut self.interfaces[interface as usize];
        let idle = state.backlog == 0;
        let joins = !state.is_mixed() && state.single_link() == Some(first);
        state.queue.push_back(Message::new(flow, first, packets));
        state.backlog += packets;
        if idle {
            self.request(first, Request::Interface(interface));
        } else if !joins {
            if state.is_mixed() {
                state.deal(state.gone + state.queue.len() as u64 - 1, packets);
            } else {
                self.split(interface);
            }
            self.ask(interface);
        }
        // One packet an issue slot; the last is visible one slot later.
        now + (packets + 1) * self.plan.issue
    }

    fn launched(&mut self, flight: u32, rank: u64) {
        self.ranking.launched(flight, rank);
    }
}

impl Routed<'_> {
    /// What an interface sends next over a link: the message, and the channel of a mixed one.
    pub fn head_of(&self, id: u32, link: LinkId) -> (Option<u16>, Message) {
        let interface = &self.interfaces[id as usize];
        if !interface.is_mixed() {
            return (None, *interface.queue.front().expect("an interface that asks has a message"));
        }
        let channel = interface.channel_for(link).expect("a mixed interface asks only for links its channels want");
        let message = interface.queue[(interface.channels[channel].number - interface.gone) as usize];
        (Some(channel as u16), message)
    }

    /// A packet of an interface has left over a link; whether the interface is free by that.
    pub fn left(&mut self, id: u32, channel: Option<u16>, link: LinkId) -> bool {
        let depth = self.plan.system.interface.depth_packets;
        let interface = &mut self.interfaces[id as usize];
        interface.backlog -= 1;
        let freed = interface.backlog == depth;
        let number = channel.map_or(interface.gone, |channel| interface.channels[channel as usize].number);
        interface.message(number).packets_left -= 1;
        if let Some(channel) = channel {
            interface.take_from(channel.into(), 1);
        }
        interface.asked.retain(|asked| *asked != link);
        interface.trim();
        let unasked = interface.asked.is_empty();
        if interface.is_mixed() && unasked && (interface.backlog == 0 || interface.single_link().is_some()) {
            interface.unmix();
        }
        if interface.is_mixed() {
            self.ask(id);
        } else if let Some(next) = interface.queue.front().map(|message| message.first) {
            self.request(next, Request::Interface(id));
        }
        freed
    }

    /// Turns an interface with messages for several links into a mixed one. A packet that crosses is not dealt.
    fn split(&mut self, id: u32) {
        let first = self.interfaces[id as usize].queue[0].first;
        let input = self.links() + id;
        let crossing = u64::from(self.inputs[input as usize].crossing);
        let count = self.plan.system.interface.virtual_channels.max(1) as usize;
        let state = &mut self.interfaces[id as usize];
        state.channels.resize(count, Channel::default());
        state.asked = smallvec![first];
        for index in 0..state.queue.len() {
            let packets = state.queue[index].packets_left - if index == 0 { crossing } else { 0 };
            state.deal(state.gone + index as u64, packets);
        }
    }

    /// Asks for every link that some channel of a mixed interface wants and that is not asked for.
    fn ask(&mut self, id: u32) {
        for channel in 0..self.interfaces[id as usize].channels.len() {
            let state = &mut self.interfaces[id as usize];
            let Channel { packets, link, .. } = state.channels[channel];
            if packets > 0 && !state.asked.contains(&link) {
                state.asked.push(link);
                self.request(link, Request::Interface(id));
            }
        }
    }
}
