//! What of the network's state decides the future.

use super::events::Arrival;
use super::link::LinkRequest;
use super::runs::Feeder;
use super::service::{PacketService, PacketSource, ServiceTurn};
use super::turns::Inputs;
use super::{Endpoints, Packet};
use crate::clock::Ticks;
use crate::period::Recurrent;
use crate::recorder::Traffic;

impl Recurrent for Packet<'_> {
    fn write_state(&self, now: Ticks, endpoints: &Endpoints, state: &mut Vec<u64>) {
        for link in &self.links {
            // Those that bring nothing more are only not forgotten yet.
            let feeders = || link.feeders.iter().filter(|feeder| !feeder.is_done((now, ServiceTurn::LAST)));
            state.push(
                (link.waiting.len() as u64) << 32 | (feeders().count() as u64) << 1 | u64::from(link.service.is_some()),
            );
            link.waiting.iter().for_each(|&request| state.extend(request.words(endpoints)));
            let place = |number| feeders().position(|feeder| feeder.number == number);
            for Feeder { run, turn, taken, .. } in feeders() {
                // What fed the run is of the past.
                state.extend(PacketService { source: PacketSource::Queue, ..*run }.words(now, endpoints, place));
                state.extend([turn.word(), *taken]);
            }
            if let Some(service) = &link.service {
                state.extend(service.words(now, endpoints, place));
            }
        }
        self.turns.iter().flatten().for_each(|inputs| inputs.write_state(endpoints, state));
        self.shares.iter().for_each(|shares| shares.write_state(now, state));
        for interface in &self.interfaces {
            interface.write_state(endpoints, state);
        }
        for (at, Arrival { flow, last }) in self.events.arrivals() {
            state.extend([at - now, flow.word(), flow.word_of(last, endpoints)]);
        }
    }

    fn delay(&mut self, by: Ticks, chunks: &[u64]) {
        self.events.delay(by, chunks);
        let later = |request: &mut LinkRequest| {
            if let LinkRequest::Transit { flow, last, .. } = request {
                *last = flow.later(*last, chunks);
            }
        };
        for link in &mut self.links {
            let runs = link.feeders.iter_mut().map(|feeder| &mut feeder.run);
            for service in runs.chain(&mut link.service) {
                service.start += by;
                service.last = service.flow.later(service.last, chunks);
            }
            link.waiting.iter_mut().for_each(later);
        }
        self.turns.iter_mut().flatten().flat_map(Inputs::requests).for_each(later);
        self.shares.iter_mut().for_each(|shares| shares.delay(by));
        for message in self.interfaces.iter_mut().flat_map(|interface| &mut interface.queue) {
            message.tail = message.tail.later(chunks[message.flow.transfer as usize]);
        }
    }

    fn traffic(&mut self) -> &mut Traffic {
        &mut self.traffic
    }
}

impl LinkRequest {
    /// Tells it from others.
    pub fn words(self, endpoints: &Endpoints) -> [u64; 3] {
        match self {
            LinkRequest::Interface(id) => [id as u64, u64::MAX, 0],
            LinkRequest::Transit { flow, count, last } => [flow.word(), count.into(), flow.word_of(last, endpoints)],
        }
    }
}

impl PacketService {
    /// `place` tells where the feeder with a number is: numbers do not repeat.
    fn words(&self, now: Ticks, endpoints: &Endpoints, place: impl Fn(u32) -> Option<usize>) -> [u64; 7] {
        let source = match self.source {
            PacketSource::Interface(id) => (id as u64) << 2,
            // Its interface waits for this link.
            PacketSource::Channel(_, channel) => (channel as u64) << 2 | 1,
            PacketSource::Queue => 2,
            PacketSource::Run(number) => place(number).map_or(2, |place| (place as u64) << 2 | 3),
        };
        let flow = self.flow.word();
        let last = self.flow.word_of(self.last, endpoints);
        // It may start in the future.
        let start = now.wrapping_sub(self.start);
        [source << 1 | u64::from(self.feeds.is_some()), flow, last, start, self.spacing, self.packets, self.settled]
    }
}
