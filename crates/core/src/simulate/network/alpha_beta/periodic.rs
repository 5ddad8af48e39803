//! What of the network's state decides the future, and how far a period of it reaches.

use super::AlphaBeta;
use super::Event;
use super::link::{Message, Share};
use crate::schedule::TransferId;
use crate::simulate::clock::Ticks;
use crate::simulate::endpoints::Endpoints;
use crate::simulate::period::{Recurrent, order_ahead};
use crate::simulate::recorder::Traffic;
use crate::simulate::turns::Turn;
use std::cmp::Reverse;

impl AlphaBeta<'_> {
    /// A turn without the chunk that its transfer is at: how many chunks it is behind, or before, which wraps.
    fn behind(&self, endpoints: &Endpoints, (_, slot, id): Turn) -> [u64; 2] {
        [id.into(), endpoints.behind(id, self.plan.chunk(&self.plan.jobs[id as usize], slot))]
    }

    /// What of a message decides the future.
    fn words(
        &self,
        endpoints: &Endpoints,
        Message { turn, hop, interface, head, tail }: Message,
        now: Ticks,
    ) -> [u64; 5] {
        let place = (hop as u64) << 32 | interface as u64;
        let [id, behind] = self.behind(endpoints, turn);
        [id, behind, place, head.wrapping_sub(now), tail.wrapping_sub(now)]
    }
}

impl Recurrent for AlphaBeta<'_> {
    fn write_state(&self, now: Ticks, endpoints: &Endpoints, state: &mut Vec<u64>) {
        for link in &self.links {
            for share in &link.flights {
                state.push((share.turns.unserved() as u64) << 32 | share.waiting.len() as u64);
            }
            state.push(link.free_at.saturating_sub(now));
            for share in &link.flights {
                for next in share.turns.next() {
                    state.push(next.len() as u64);
                    state.extend(next.iter().flat_map(|&turn| self.behind(endpoints, turn)));
                }
                let mut waiting: Vec<Message> = share.waiting.iter().map(|&Reverse(message)| message).collect();
                waiting.sort_unstable();
                state.extend(waiting.into_iter().flat_map(|message| self.words(endpoints, message, now)));
            }
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
                    state.extend(self.words(endpoints, message, now));
                }
            }
        }
        state.extend(self.queued.iter().map(|&messages| messages as u64));
    }

    fn delay(&mut self, by: Ticks, chunks: &[u64]) {
        let stride = |id: TransferId| self.plan.kind_of(id).stride;
        let later = |turn: &mut Turn| turn.1 += chunks[turn.2 as usize] * stride(turn.2);
        let delayed = |mut message: Message| {
            later(&mut message.turn);
            Message { head: message.head + by, tail: message.tail + by, ..message }
        };
        for link in &mut self.links {
            link.free_at += by;
            for share in &mut link.flights {
                share.turns.skip(chunks, self.plan);
                share.waiting = share.waiting.drain().map(|Reverse(message)| Reverse(delayed(message))).collect();
            }
        }
        let event = |event| match event {
            Event::Come { link, message } => Event::Come { link, message: delayed(message) },
            free => free,
        };
        self.departures.replace(|at, interface| (at + by, interface));
        self.leaving.iter_mut().flatten().for_each(|(at, id, chunk)| {
            *at += by;
            *chunk += chunks[*id as usize];
        });
        self.agenda.replace(|at, what| (at + by, event(what)));
    }

    fn periods_ahead(&self, moved: &[u64]) -> u64 {
        let of_flight = |share: &Share| {
            let turns: Vec<Turn> = share.turns.iter(self.plan).collect();
            order_ahead(&turns, moved, self.plan)
        };
        self.links.iter().flat_map(|link| &link.flights).map(of_flight).min().unwrap_or(u64::MAX)
    }

    fn traffic(&mut self) -> &mut Traffic {
        &mut self.traffic
    }
}
