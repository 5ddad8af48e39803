//! What of the network's state decides the future.

use super::link::Message;
use super::{AlphaBeta, Event};
use crate::schedule::TransferId;
use crate::simulate::clock::Ticks;
use crate::simulate::endpoints::Endpoints;
use crate::simulate::period::Recurrent;
use crate::simulate::recorder::Traffic;
use std::cmp::Reverse;

impl Message {
    /// What of it decides the future.
    fn words(&self, endpoints: &Endpoints, now: Ticks) -> [u64; 5] {
        let place = u64::from(self.hop) << 32 | u64::from(self.interface);
        let behind = endpoints.behind(self.transfer, self.chunk);
        [self.transfer.into(), behind, place, self.head.wrapping_sub(now), self.tail.wrapping_sub(now)]
    }

    /// The same later by `by`, and `chunks` further of each transfer.
    fn later(self, by: Ticks, chunks: &[u64]) -> Message {
        let chunk = self.chunk + chunks[self.transfer as usize];
        Message { head: self.head + by, tail: self.tail + by, chunk, ..self }
    }
}

impl Recurrent for AlphaBeta<'_> {
    fn write_state(&self, now: Ticks, endpoints: &Endpoints, state: &mut Vec<u64>) {
        for link in &self.links {
            state.extend([link.waiting.len() as u64, link.free_at.saturating_sub(now)]);
            let mut waiting: Vec<_> = link.waiting.iter().map(|&Reverse(ranked)| ranked).collect();
            waiting.sort_unstable();
            state.extend(waiting.iter().flat_map(|(_, message)| message.words(endpoints, now)));
        }
        for leaving in &self.leaving {
            state.push(leaving.len() as u64);
            let words =
                |&(at, id, chunk): &(Ticks, TransferId, u64)| [at - now, id.into(), endpoints.behind(id, chunk)];
            state.extend(leaving.iter().flat_map(words));
        }
        for (at, event) in self.agenda.in_order() {
            state.push(at - now);
            match event {
                Event::Free { link } => state.push(1 << 32 | link as u64),
                Event::Come { link, message } => {
                    state.push(2 << 32 | link as u64);
                    state.extend(message.words(endpoints, now));
                }
            }
        }
        state.extend(self.queued.iter().map(|&messages| messages as u64));
    }

    fn delay(&mut self, by: Ticks, chunks: &[u64]) {
        for link in &mut self.links {
            link.free_at += by;
            let later = |Reverse((rank, message)): Reverse<(u64, Message)>| Reverse((rank, message.later(by, chunks)));
            link.waiting = link.waiting.drain().map(later).collect();
        }
        let event = |event| match event {
            Event::Come { link, message } => Event::Come { link, message: message.later(by, chunks) },
            free => free,
        };
        self.departures.replace(|at, interface| (at + by, interface));
        self.leaving.iter_mut().flatten().for_each(|(at, id, chunk)| {
            *at += by;
            *chunk += chunks[*id as usize];
        });
        self.agenda.replace(|at, what| (at + by, event(what)));
    }

    fn traffic(&mut self) -> &mut Traffic {
        &mut self.traffic
    }
}
