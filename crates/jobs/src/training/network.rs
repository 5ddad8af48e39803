//! What carries the exchanges of an iteration.

use super::plan::Plan;
use antiphon_base::error::Result;
use antiphon_base::units::Picos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Carries exchanges, numbered by the caller. Time never goes backwards between calls.
pub trait Network {
    /// Exchange `id` is ready at `now`.
    ///
    /// # Errors
    /// Those of the simulation.
    fn submit(&mut self, now: Picos, id: usize) -> Result<()>;

    /// When something happens next if nothing else is submitted before.
    fn next(&self) -> Option<Picos>;

    /// Lets that happen; returns what has come of it. Nothing is submitted before `until`.
    ///
    /// # Errors
    /// [`antiphon_base::error::Code::TooLarge`] or [`antiphon_base::error::Code::Interrupted`] for work that takes too long.
    fn step(&mut self, until: Picos) -> Result<Option<Event>>;

    /// Nothing is to happen any more.
    ///
    /// # Errors
    /// [`antiphon_base::error::Code::Stalled`] if an exchange has not ended.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// What happens on a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A part of an exchange is complete at every rank: the next of [`Plan::parts`].
    Arrived(usize),
    /// An exchange has finished.
    Finished {
        /// Its number.
        exchange: usize,
        /// When it started.
        start: Picos,
    },
}

/// One exchange after another, in the order in which they became ready, as the TTO artifact (HPCA 2024) composes its
/// overlap (Fig. 11 of the paper), but for their [priorities](Plan::priorities).
pub struct Serial<'a> {
    plan: &'a Plan,
    /// Time of every exchange.
    times: &'a [Picos],
    /// For every exchange, when its parts have arrived, after its start and in order.
    parts: &'a [Vec<Picos>],
    /// Priority, place in the order, and number.
    waiting: BinaryHeap<Reverse<(u32, usize, usize)>>,
    submitted: usize,
    /// The exchange in flight: start, number, and parts that have arrived.
    flying: Option<(Picos, usize, usize)>,
}

impl<'a> Serial<'a> {
    /// A network on which exchange `i` of the plan takes `times[i]`, and its parts arrive after `parts[i]`
    /// ([`Plan::arrivals`]).
    pub fn new(plan: &'a Plan, times: &'a [Picos], parts: &'a [Vec<Picos>]) -> Self {
        Serial { plan, times, parts, waiting: BinaryHeap::new(), submitted: 0, flying: None }
    }

    /// When the next part of the exchange in flight arrives.
    fn next_part(&self) -> Option<Picos> {
        let (start, id, arrived) = self.flying?;
        self.parts[id].get(arrived).map(|time| start + time)
    }
}

impl Network for Serial<'_> {
    fn submit(&mut self, now: Picos, id: usize) -> Result<()> {
        if self.flying.is_none() {
            self.flying = Some((now, id, 0));
        } else {
            self.waiting.push(Reverse((self.plan.priorities[id], self.submitted, id)));
            self.submitted += 1;
        }
        Ok(())
    }

    fn next(&self) -> Option<Picos> {
        self.next_part().or_else(|| self.flying.map(|(start, id, _)| start + self.times[id]))
    }

    fn step(&mut self, _until: Picos) -> Result<Option<Event>> {
        let part = self.next_part().is_some();
        let Some((start, exchange, arrived)) = &mut self.flying else { return Ok(None) };
        if part {
            *arrived += 1;
            return Ok(Some(Event::Arrived(*exchange)));
        }
        let (start, exchange) = (*start, *exchange);
        self.flying = self.waiting.pop().map(|Reverse((.., next))| (start + self.times[exchange], next, 0));
        Ok(Some(Event::Finished { exchange, start }))
    }
}
