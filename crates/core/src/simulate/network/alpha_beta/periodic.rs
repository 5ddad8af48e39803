//! What of the network's state decides the future, and how far a period of it reaches.

use super::AlphaBeta;
use super::Event;
use super::link::{Message, Turns};
use crate::simulate::clock::Ticks;
use crate::simulate::period::{Recurrent, Turn, order_ahead};
use crate::simulate::recorder::Traffic;
use std::cmp::Reverse;

impl AlphaBeta<'_> {
    /// A turn without the chunk that its transfer is at: how many chunks it is behind.
    fn behind(&self, (_, slot, id): Turn) -> u64 {
        let job = &self.plan.jobs[id as usize];
        (id as u64) << 32 | (self.taken[id as usize] - (slot - job.step) / job.stride.max(1))
    }
}

impl AlphaBeta<'_> {
    /// What of a message decides the future.
    fn words(&self, Message { turn, hop, interface, head, tail }: Message, now: Ticks) -> [u64; 4] {
        let place = (hop as u64) << 32 | interface as u64;
        [self.behind(turn), place, head.wrapping_sub(now), tail.wrapping_sub(now)]
    }
}

impl Recurrent for AlphaBeta<'_> {
    fn write_state(&self, now: Ticks, state: &mut Vec<u64>) {
        for link in &self.links {
            for turns in &link.flights {
                state.push((turns.first.len() as u64) << 32 | turns.waiting.len() as u64);
            }
            state.push(link.free_at.saturating_sub(now));
            for turns in &link.flights {
                for (_, next) in &turns.next {
                    state.push(next.len() as u64);
                    state.extend(next.iter().map(|&turn| self.behind(turn)));
                }
                let mut waiting: Vec<Message> = turns.waiting.iter().map(|&Reverse(message)| message).collect();
                waiting.sort_unstable();
                state.extend(waiting.into_iter().flat_map(|message| self.words(message, now)));
            }
        }
        let mut agenda: Vec<_> = self.agenda.iter().map(|&Reverse(entry)| entry).collect();
        agenda.sort_unstable();
        for (at, event) in agenda {
            state.push(at - now);
            match event {
                Event::Departed { interface } => state.push(interface as u64),
                Event::Free { link } => state.push(1 << 32 | link as u64),
                Event::Come { link, message } => {
                    state.push(2 << 32 | link as u64);
                    state.extend(self.words(message, now));
                }
            }
        }
        state.extend(self.queued.iter().map(|&messages| messages as u64));
    }

    fn delay(&mut self, by: Ticks, chunks: &[u64]) {
        let jobs = &self.plan.jobs;
        let later = |turn: &mut Turn| turn.1 += chunks[turn.2 as usize] * jobs[turn.2 as usize].stride;
        let delayed = |mut message: Message| {
            later(&mut message.turn);
            Message { head: message.head + by, tail: message.tail + by, ..message }
        };
        for link in &mut self.links {
            link.free_at += by;
            for turns in &mut link.flights {
                turns.next.iter_mut().for_each(|(_, turns)| turns.iter_mut().for_each(later));
                turns.waiting = turns.waiting.drain().map(|Reverse(message)| Reverse(delayed(message))).collect();
            }
        }
        let event = |event| match event {
            Event::Come { link, message } => Event::Come { link, message: delayed(message) },
            other => other,
        };
        self.agenda = self.agenda.drain().map(|Reverse((at, what))| Reverse((at + by, event(what)))).collect();
        self.taken.iter_mut().zip(chunks).for_each(|(taken, chunks)| *taken += chunks);
    }

    fn periods_ahead(&self, moved: &[u64]) -> u64 {
        let jobs = &self.plan.jobs;
        let of_flight = |link: &Turns| {
            let first = link.first.iter().map(|&id| (jobs[id as usize].phase, jobs[id as usize].step, id));
            let turns: Vec<Turn> = link.next.iter().flat_map(|(_, turns)| turns.iter().copied()).chain(first).collect();
            order_ahead(&turns, moved, self.plan)
        };
        self.links.iter().flat_map(|link| &link.flights).map(of_flight).min().unwrap_or(u64::MAX)
    }

    fn traffic(&mut self) -> &mut Traffic {
        &mut self.traffic
    }
}
