//! What carries the exchanges of an iteration.

use crate::units::Picos;
use std::collections::VecDeque;

/// Carries exchanges, numbered by the caller. Time never goes backwards between calls.
pub trait Network {
    /// Exchange `id` is ready at `now`.
    fn submit(&mut self, now: Picos, id: usize);

    /// When something happens next if nothing else is submitted before.
    fn next(&self) -> Option<Picos>;

    /// Lets that happen; returns an exchange that has finished by it, with the time it started.
    fn step(&mut self) -> Option<(usize, Picos)>;
}

/// One exchange after another, in the order in which they became ready (TTO artifact's overlap:
/// reference section 6).
pub struct Serial<'a> {
    /// Time of every exchange.
    times: &'a [Picos],
    waiting: VecDeque<usize>,
    /// The exchange in flight: start and number.
    flying: Option<(Picos, usize)>,
}

impl<'a> Serial<'a> {
    /// A network on which exchange `i` takes `times[i]`.
    pub fn new(times: &'a [Picos]) -> Self {
        Serial { times, waiting: VecDeque::new(), flying: None }
    }
}

impl Network for Serial<'_> {
    fn submit(&mut self, now: Picos, id: usize) {
        if self.flying.is_none() {
            self.flying = Some((now, id));
        } else {
            self.waiting.push_back(id);
        }
    }

    fn next(&self) -> Option<Picos> {
        self.flying.map(|(start, id)| start + self.times[id])
    }

    fn step(&mut self) -> Option<(usize, Picos)> {
        let (start, id) = self.flying?;
        self.flying = self.waiting.pop_front().map(|next| (start + self.times[id], next));
        Some((id, start))
    }
}
