//! What of the network's state decides the future.

use super::events::Event;
use super::{Network, Request};
use crate::simulate::period::Recurrent;
use crate::simulate::recorder::Traffic;
use crate::units::Picos;

impl Recurrent for Network<'_> {
    fn write_state(&self, now: Picos, state: &mut Vec<u64>) {
        for link in &self.links {
            state.push((link.waiting.len() as u64) << 1 | u64::from(link.service.is_some()));
            link.waiting.iter().for_each(|&request| state.extend(request.words()));
            if let Some(service) = &link.service {
                // The transfer of a service of an interface is that of its message, except when mixed.
                state.extend(service.request.words());
                let channel = service.channel.map_or(0, |channel| channel as u64 + 1);
                state.extend([(service.transfer as u64) << 32 | channel, now - service.start, service.packets]);
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

    fn delay(&mut self, by: Picos) {
        self.events.delay(by);
        self.links.iter_mut().filter_map(|link| link.service.as_mut()).for_each(|service| service.start += by);
    }

    fn traffic(&mut self) -> &mut Traffic {
        self.traffic
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
