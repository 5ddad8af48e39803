//! What of the network's state decides the future, and how far a period of it reaches.

use super::Network;
use super::link::Message;
use crate::simulate::clock::Ticks;
use crate::simulate::period::{Recurrent, Turn, order_ahead};
use crate::simulate::recorder::Traffic;
use std::cmp::Reverse;

impl Network<'_> {
    /// A turn without the chunk that its transfer is at: how many chunks it is behind.
    fn behind(&self, (_, slot, id): Turn) -> u64 {
        let job = &self.plan.jobs[id as usize];
        (id as u64) << 32 | (self.taken[id as usize] - (slot - job.step) / job.stride.max(1))
    }
}

impl Recurrent for Network<'_> {
    fn write_state(&self, now: Ticks, state: &mut Vec<u64>) {
        for link in &self.links {
            state.push((link.first.len() as u64) << 32 | link.waiting.len() as u64);
            state.push(link.free_at.saturating_sub(now));
            for (_, turns) in &link.next {
                state.push(turns.len() as u64);
                state.extend(turns.iter().map(|&turn| self.behind(turn)));
            }
            let mut waiting: Vec<Message> = link.waiting.iter().map(|&Reverse(message)| message).collect();
            waiting.sort_unstable();
            for Message { turn, hop, interface, head, tail } in waiting {
                let times = [head.wrapping_sub(now), tail.wrapping_sub(now)];
                state.extend([self.behind(turn), (hop as u64) << 32 | interface as u64]);
                state.extend(times);
            }
        }
        let mut departures: Vec<_> = self.departures.iter().map(|&Reverse(departure)| departure).collect();
        departures.sort_unstable();
        state.extend(departures.into_iter().flat_map(|(at, interface)| [at - now, interface as u64]));
        state.extend(self.queued.iter().map(|&messages| messages as u64));
    }

    fn delay(&mut self, by: Ticks, chunks: &[u64]) {
        let jobs = &self.plan.jobs;
        let later = |turn: &mut Turn| turn.1 += chunks[turn.2 as usize] * jobs[turn.2 as usize].stride;
        for link in &mut self.links {
            link.free_at += by;
            link.next.iter_mut().for_each(|(_, turns)| turns.iter_mut().for_each(later));
            let delayed = |Reverse(mut message): Reverse<Message>| {
                later(&mut message.turn);
                Reverse(Message { head: message.head + by, tail: message.tail + by, ..message })
            };
            link.waiting = link.waiting.drain().map(delayed).collect();
        }
        self.departures =
            self.departures.drain().map(|Reverse((at, interface))| Reverse((at + by, interface))).collect();
        self.taken.iter_mut().zip(chunks).for_each(|(taken, chunks)| *taken += chunks);
    }

    fn periods_ahead(&self, moved: &[u64]) -> u64 {
        let jobs = &self.plan.jobs;
        let of_link = |link: &super::Link| {
            let first = link.first.iter().map(|&id| (jobs[id as usize].phase, jobs[id as usize].step, id));
            let turns: Vec<Turn> = link.next.iter().flat_map(|(_, turns)| turns.iter().copied()).chain(first).collect();
            order_ahead(&turns, moved, self.plan)
        };
        self.links.iter().map(of_link).min().unwrap_or(u64::MAX)
    }

    fn traffic(&mut self) -> &mut Traffic {
        self.traffic
    }
}
