//! Fast-forward: finds that the whole state of a run recurs, and skips whole periods exactly.
//!
//! Equal chunks through deterministic servers settle into a period. A *beat* is the arrival of one
//! chunk of one chosen transfer. At some beats the state is written down relative to the time and
//! to the chunk each transfer is at. If it equals that of an earlier beat, the time in between is a
//! period: it is recorded once more while it repeats, compared word for word, and then added as
//! often as it is certain to repeat (see [`Endpoints::periods_ahead`]).

use super::endpoints::{Carrier, Endpoints};
use super::plan::RunPlan;
use super::recorder::Traffic;
use super::turns::Turn;
use crate::clock::Ticks;
use antiphon_model::schedule::TransferId;
use rustc_hash::FxHasher;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::Hasher;

/// A network whose state may recur.
pub trait Recurrent: Carrier {
    /// Appends all that decides what happens next, with times relative to `now`, and chunks to those that the ranks have
    /// started.
    fn write_state(&self, now: Ticks, endpoints: &Endpoints, state: &mut Vec<u64>);

    /// Makes everything happen later by `by`, and `chunks` further of each transfer.
    fn delay(&mut self, by: Ticks, chunks: &[u64]);

    /// For how many more periods, in each of which `moved` chunks of each transfer start, its own order stays.
    fn periods_ahead(&self, _endpoints: &Endpoints, _moved: &[u64]) -> u64 {
        u64::MAX
    }

    /// What it records.
    fn traffic(&mut self) -> &mut Traffic;
}

/// For how many more periods, in each of which `moved` chunks of each transfer are served, turns keep their order.
pub fn order_ahead(turns: &[Turn], moved: &[u64], plan: &RunPlan) -> u64 {
    let shift = |id: TransferId| moved[id as usize] * plan.kind_of(id).stride;
    let mut moving = turns.iter().filter(|turn| moved[turn.2 as usize] > 0);
    let Some(&(phase, mut last, id)) = moving.next() else { return u64::MAX };
    let each = shift(id);
    for &(other, slot, id) in moving {
        if (other, shift(id)) != (phase, each) {
            return 0;
        }
        last = last.max(slot);
    }
    let still = turns.iter().filter(|turn| moved[turn.2 as usize] == 0);
    // What does not move must stay behind what does.
    let behind = |&(other, slot, _): &Turn| match other.cmp(&phase) {
        Ordering::Less => 0,
        Ordering::Equal => (slot.saturating_sub(last + 1) / each).saturating_sub(1),
        Ordering::Greater => u64::MAX,
    };
    still.map(behind).min().unwrap_or(u64::MAX)
}

/// Fewest chunks a transfer must have left to be worth watching.
pub const MIN_CHUNKS: u64 = 8;
/// Most events in a period, which bounds the memory of its record.
const MAX_EVENTS: u64 = 1 << 23;

/// When a state was seen last.
#[derive(Clone, Copy)]
struct Seen {
    beat: u64,
    events: u64,
}

/// A period being recorded.
struct Trial {
    start: Ticks,
    /// Beat at its end.
    end_beat: u64,
    state: Vec<u64>,
    started: Vec<u64>,
}

/// See the module.
pub struct Periods {
    /// Transfer whose chunks are the beats, and the epoch for which it was chosen.
    watched: Option<TransferId>,
    epoch: u64,
    /// The last beat.
    beat: u64,
    /// Events before the next look.
    next_events: u64,
    /// States seen since the last trial, by their hash.
    seen: HashMap<u64, Seen>,
    trial: Option<Trial>,
    state: Vec<u64>,
}

impl Periods {
    /// Nothing seen yet.
    pub fn new() -> Self {
        Periods {
            watched: None,
            epoch: 0,
            beat: 0,
            next_events: 0,
            seen: HashMap::new(),
            trial: None,
            state: Vec::new(),
        }
    }

    /// To be called after every event of the ranks; `events` counts all events. Skips periods where it can, while they
    /// end by `until`.
    pub fn look(
        &mut self,
        now: Ticks,
        until: Ticks,
        events: u64,
        endpoints: &mut Endpoints,
        network: &mut impl Recurrent,
    ) {
        let Some(beat) = self.beat(endpoints, network) else { return };
        let due = self.trial.as_ref().map_or(events >= self.next_events, |trial| beat >= trial.end_beat);
        if !due {
            return;
        }
        self.state.clear();
        endpoints.write_state(now, &mut self.state);
        network.write_state(now, endpoints, &mut self.state);
        // A word costs a few percent of an event, so this keeps looking cheap.
        self.next_events = events + self.state.len() as u64;
        match self.trial.take() {
            Some(trial) => self.finish(trial, now, until, endpoints, network),
            None => self.compare(now, Seen { beat, events }, endpoints, network),
        }
    }

    /// Chunks of the watched transfer that were applied, if one was just now.
    fn beat(&mut self, endpoints: &mut Endpoints, network: &mut impl Recurrent) -> Option<u64> {
        if endpoints.epoch() != self.epoch || self.watched.is_some_and(|id| endpoints.chunks_left(id) == 0) {
            if self.trial.take().is_some() {
                endpoints.discard_period();
                network.traffic().discard_period();
            }
            self.epoch = endpoints.epoch();
            self.watched = endpoints.longest(MIN_CHUNKS);
            (self.beat, self.next_events) = (0, 0);
            self.seen.clear();
        }
        let beat = endpoints.chunks_applied(self.watched?);
        (std::mem::replace(&mut self.beat, beat) != beat).then_some(beat)
    }

    /// Starts a trial if the state was seen before, and remembers it.
    fn compare(&mut self, now: Ticks, here: Seen, endpoints: &mut Endpoints, network: &mut impl Recurrent) {
        let mut hasher = FxHasher::default();
        self.state.iter().for_each(|&word| hasher.write_u64(word));
        let Some(earlier) = self.seen.insert(hasher.finish(), here) else { return };
        let beats = here.beat - earlier.beat;
        let left = self.watched.map_or(0, |id| endpoints.chunks_left(id));
        // One for the trial and one to skip.
        if left > 2 * beats && here.events - earlier.events <= MAX_EVENTS {
            self.trial = Some(Trial {
                start: now,
                end_beat: here.beat + beats,
                state: std::mem::take(&mut self.state),
                started: endpoints.started().collect(),
            });
            endpoints.record_period();
            network.traffic().record_period();
        }
    }

    /// Skips what is certain to repeat the trial, if it was a period.
    fn finish(
        &mut self,
        trial: Trial,
        now: Ticks,
        until: Ticks,
        endpoints: &mut Endpoints,
        network: &mut impl Recurrent,
    ) {
        let same = trial.state == self.state;
        let moved: Vec<u64> = endpoints.started().zip(&trial.started).map(|(now, before)| now - before).collect();
        let period = now - trial.start;
        let in_time = until.saturating_sub(now).checked_div(period).unwrap_or(0);
        let ahead = || endpoints.periods_ahead(&moved).min(network.periods_ahead(endpoints, &moved));
        let ahead = if same { ahead() } else { 0 };
        let periods = ahead.min(in_time);
        if periods > 0 {
            let chunks: Vec<u64> = moved.iter().map(|moved| periods * moved).collect();
            endpoints.repeat(periods, period, &chunks);
            network.traffic().repeat(periods, period);
            network.delay(periods * period, &chunks);
            self.beat = self.watched.map_or(0, |id| endpoints.chunks_applied(id));
        } else {
            endpoints.discard_period();
            network.traffic().discard_period();
            // It recurs, but cannot be used now.
            self.next_events += 8 * self.state.len() as u64;
        }
        self.seen.clear();
    }
}
