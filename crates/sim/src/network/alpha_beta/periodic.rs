//! What of the network's state decides the future, and how far a period of it reaches.

use super::link::{MessageAtLink, MessageLink, MessageRank};
use super::{AlphaBeta, LinkEvent};
use crate::clock::Ticks;
use crate::endpoints::Endpoints;
use crate::period::{Recurrent, order_ahead};
use crate::plan::RunPlan;
use crate::recorder::Traffic;
use crate::turns::Turn;
use antiphon_model::schedule::TransferId;
use std::cmp::Reverse;
use std::collections::HashMap;

impl MessageAtLink {
    /// What of it decides the future.
    fn words(&self, plan: &RunPlan, endpoints: &Endpoints, now: Ticks) -> [u64; 5] {
        let (_, slot, id) = self.turn;
        let place = u64::from(self.hop) << 32 | u64::from(self.interface);
        let behind = endpoints.behind(id, plan.chunk(&plan.jobs[id as usize], slot));
        [id.into(), behind, place, self.head.wrapping_sub(now), self.tail.wrapping_sub(now)]
    }

    /// The same later by `by`, and `chunks` further of each transfer.
    fn later(self, plan: &RunPlan, by: Ticks, chunks: &[u64]) -> MessageAtLink {
        let (phase, slot, id) = self.turn;
        let turn = (phase, slot + chunks[id as usize] * plan.kind_of(id).stride, id);
        MessageAtLink { turn, head: self.head + by, tail: self.tail + by, ..self }
    }
}

impl Recurrent for AlphaBeta<'_> {
    fn write_state(&self, now: Ticks, endpoints: &Endpoints, state: &mut Vec<u64>) {
        for link in &self.links {
            state.extend([link.waiting.len() as u64, link.free_at.saturating_sub(now)]);
            let mut waiting: Vec<_> = link.waiting.iter().map(|&Reverse(ranked)| ranked).collect();
            waiting.sort_unstable();
            for ((rank, _), message) in waiting {
                state.push(link.shares.above(rank));
                state.extend(message.words(self.plan, endpoints, now));
            }
            link.shares.write_state(now, state);
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
                LinkEvent::Free { link } => state.push(1 << 32 | link as u64),
                LinkEvent::Come { link, message } => {
                    state.push(2 << 32 | link as u64);
                    state.extend(message.words(self.plan, endpoints, now));
                }
            }
        }
        state.extend(self.queued.iter().map(|&messages| messages as u64));
    }

    fn delay(&mut self, by: Ticks, chunks: &[u64]) {
        let plan = self.plan;
        for link in &mut self.links {
            link.free_at += by;
            link.shares.delay(by);
            let later = |Reverse((rank, message)): Reverse<(MessageRank, MessageAtLink)>| {
                Reverse((rank, message.later(plan, by, chunks)))
            };
            link.waiting = link.waiting.drain().map(later).collect();
        }
        let event = |event| match event {
            LinkEvent::Come { link, message } => LinkEvent::Come { link, message: message.later(plan, by, chunks) },
            free => free,
        };
        self.departures.replace(|at, interface| (at + by, interface));
        self.leaving.iter_mut().flatten().for_each(|(at, id, chunk)| {
            *at += by;
            *chunk += chunks[*id as usize];
        });
        self.agenda.replace(|at, what| (at + by, event(what)));
    }

    fn periods_ahead(&self, endpoints: &Endpoints, moved: &[u64]) -> u64 {
        let plan = self.plan;
        let mut turns: HashMap<(u32, u32), Vec<Turn>> = HashMap::new();
        for (id, job) in (0..).zip(&plan.jobs).filter(|&(id, _)| moved[id as usize] > 0) {
            let turn = (job.phase, plan.slot(job, endpoints.chunks_started(id)), id);
            for &link in plan.route(job).iter().filter(|&&link| !self.links[link as usize].is_from_one) {
                turns.entry((link, job.flight)).or_default().push(turn);
            }
        }
        for (link, MessageLink { waiting, .. }) in (0..).zip(&self.links) {
            let turns_here = waiting.iter().map(|Reverse((_, message))| message.turn);
            for turn in turns_here.filter(|turn| moved[turn.2 as usize] == 0) {
                turns.entry((link, plan.jobs[turn.2 as usize].flight)).or_default().push(turn);
            }
        }
        turns.values().map(|turns| order_ahead(turns, moved, plan)).min().unwrap_or(u64::MAX)
    }

    fn traffic(&mut self) -> &mut Traffic {
        &mut self.traffic
    }
}
