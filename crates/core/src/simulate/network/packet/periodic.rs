//! What of the network's state decides the future.

use super::Packet;
use super::events::Event;
use super::link::Request;
use super::runs::Feeder;
use super::service::{Service, Source, Turn};
use crate::simulate::clock::Ticks;
use crate::simulate::period::Recurrent;
use crate::simulate::recorder::Traffic;

impl Recurrent for Packet<'_> {
    fn write_state(&self, now: Ticks, state: &mut Vec<u64>) {
        for link in &self.links {
            // Those that bring nothing more are only not forgotten yet.
            let feeders = || link.feeders.iter().filter(|feeder| !feeder.is_done((now, Turn::LAST)));
            state.push(
                (link.waiting.len() as u64) << 32 | (feeders().count() as u64) << 1 | u64::from(link.service.is_some()),
            );
            link.waiting.iter().for_each(|&request| state.extend(request.words()));
            let place = |number| feeders().position(|feeder| feeder.number == number);
            for Feeder { run, turn, taken, .. } in feeders() {
                // What fed the run is of the past.
                state.extend(Service { source: Source::Queue, ..*run }.words(now, place));
                state.extend([turn.word(), *taken]);
            }
            if let Some(service) = &link.service {
                state.extend(service.words(now, place));
            }
        }
        self.turns.iter().flatten().for_each(|inputs| inputs.write_state(state));
        for interface in &self.interfaces {
            interface.write_state(state);
        }
        for (at, event) in self.events.arrivals() {
            if let Event::Arrive { flow, last } = event {
                state.extend([at - now, flow.word(), u64::from(last)]);
            }
        }
    }

    fn delay(&mut self, by: Ticks, _chunks: &[u64]) {
        self.events.delay(by);
        for link in &mut self.links {
            let runs = link.feeders.iter_mut().map(|feeder| &mut feeder.run);
            runs.chain(&mut link.service).for_each(|service| service.start += by);
        }
    }

    fn traffic(&mut self) -> &mut Traffic {
        &mut self.traffic
    }
}

impl Request {
    /// Tells it from others.
    pub fn words(self) -> [u64; 2] {
        match self {
            Request::Interface(id) => [id as u64, u64::MAX],
            Request::Transit { flow, count, last } => [flow.word(), (count as u64) << 1 | u64::from(last)],
        }
    }
}

impl Service {
    /// `place` tells where the feeder with a number is: numbers do not repeat.
    fn words(&self, now: Ticks, place: impl Fn(u32) -> Option<usize>) -> [u64; 6] {
        let source = match self.source {
            Source::Interface(id) => (id as u64) << 2,
            // Its interface waits for this link.
            Source::Channel(_, channel) => (channel as u64) << 2 | 1,
            Source::Queue => 2,
            Source::Run(number) => place(number).map_or(2, |place| (place as u64) << 2 | 3),
        };
        let flow = self.flow.word();
        let flags = u64::from(self.last) << 1 | u64::from(self.feeds.is_some());
        // It may start in the future.
        let start = now.wrapping_sub(self.start);
        [source << 2 | flags, flow, start, self.spacing, self.packets, self.settled]
    }
}
