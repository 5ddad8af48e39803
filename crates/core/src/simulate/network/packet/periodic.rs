//! What of the network's state decides the future.

use super::Packet;
use super::events::Event;
use super::link::Request;
use super::service::{Service, Source};
use crate::simulate::clock::Ticks;
use crate::simulate::period::Recurrent;
use crate::simulate::recorder::Traffic;

impl Recurrent for Packet<'_> {
    fn write_state(&self, now: Ticks, state: &mut Vec<u64>) {
        for link in &self.links {
            state.push(
                (link.waiting.len() as u64) << 32
                    | (link.feeders.len() as u64) << 1
                    | u64::from(link.service.is_some()),
            );
            link.waiting.iter().for_each(|&request| state.extend(request.words()));
            link.feeders.iter().for_each(|feeder| state.extend([feeder.link as u64, feeder.taken]));
            if let Some(service) = &link.service {
                state.extend(service.words(now));
            }
        }
        for interface in &self.interfaces {
            interface.write_state(state);
        }
        for (at, event) in self.events.arrivals() {
            if let Event::Arrive { transfer, hop, last } = event {
                state.extend([at - now, (transfer as u64) << 32 | hop as u64, u64::from(last)]);
            }
        }
    }

    fn delay(&mut self, by: Ticks, _chunks: &[u64]) {
        self.events.delay(by);
        self.links.iter_mut().filter_map(|link| link.service.as_mut()).for_each(|service| service.start += by);
    }

    fn traffic(&mut self) -> &mut Traffic {
        &mut self.traffic
    }
}

impl Request {
    fn words(self) -> [u64; 2] {
        match self {
            Request::Interface(id) => [id as u64, u64::MAX],
            Request::Transit { transfer, hop, count, last } => {
                [(transfer as u64) << 32 | count as u64, (hop as u64) << 1 | u64::from(last)]
            }
        }
    }
}

impl Service {
    fn words(&self, now: Ticks) -> [u64; 6] {
        let source = match self.source {
            Source::Interface(id) => (id as u64) << 2,
            // Its interface waits for this link.
            Source::Channel(_, channel) => (channel as u64) << 2 | 1,
            Source::Queue => 2,
            Source::Run(from) => (from as u64) << 2 | 3,
        };
        let flow = (self.transfer as u64) << 32 | (self.hop as u64);
        let flags = u64::from(self.last) << 1 | u64::from(self.feeds.is_some());
        // It may start in the future.
        let start = now.wrapping_sub(self.start);
        [source << 2 | flags, flow, start, self.spacing, self.packets, self.settled]
    }
}
