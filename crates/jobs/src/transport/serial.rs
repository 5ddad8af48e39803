//! Exchanges one by one.

use super::{Delivery, Transport};
use crate::graph::JobGraph;
use antiphon_base::error::Result;
use antiphon_base::units::Picos;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// One exchange after another, in the order in which they became ready, as the TTO artifact (HPCA 2024) composes its
/// overlap (Fig. 11 of the paper), but for their priorities.
pub struct Serial<'a> {
    graph: &'a JobGraph,
    /// Time of every exchange.
    times: &'a [Picos],
    /// For every exchange, when its parts have arrived, after its start and in order.
    parts: &'a [Vec<Picos>],
    /// Priority, place in the order, and number.
    waiting: BinaryHeap<Reverse<(u32, usize, u32)>>,
    submitted: usize,
    /// The exchange under way: start, number, and parts that have arrived.
    carried: Option<(Picos, u32, usize)>,
}

impl<'a> Serial<'a> {
    /// A transport on which exchange `i` of the graph takes `times[i]`, and its parts arrive after `parts[i]`.
    pub fn new(graph: &'a JobGraph, times: &'a [Picos], parts: &'a [Vec<Picos>]) -> Self {
        Serial { graph, times, parts, waiting: BinaryHeap::new(), submitted: 0, carried: None }
    }

    /// When the next part of the exchange under way arrives.
    fn next_part(&self) -> Option<Picos> {
        let (start, exchange, arrived) = self.carried?;
        self.parts[exchange as usize].get(arrived).map(|time| start + time)
    }
}

impl Transport for Serial<'_> {
    fn submit(&mut self, now: Picos, exchange: u32) -> Result<bool> {
        if self.carried.is_none() {
            self.carried = Some((now, exchange, 0));
        } else {
            let priority = self.graph.exchanges[exchange as usize].priority;
            self.waiting.push(Reverse((priority, self.submitted, exchange)));
            self.submitted += 1;
        }
        Ok(true)
    }

    fn next(&self) -> Option<Picos> {
        self.next_part().or_else(|| self.carried.map(|(start, id, _)| start + self.times[id as usize]))
    }

    fn step(&mut self, _until: Option<Picos>, happened: &mut VecDeque<Delivery>) -> Result<()> {
        let Some((start_ps, exchange, arrived)) = self.carried else { return Ok(()) };
        if self.next_part().is_some() {
            self.carried = Some((start_ps, exchange, arrived + 1));
            happened.push_back(Delivery::Part(exchange));
        } else {
            let end = start_ps + self.times[exchange as usize];
            self.carried = self.waiting.pop().map(|Reverse((.., next))| (end, next, 0));
            happened.push_back(Delivery::Whole { exchange, start_ps });
        }
        Ok(())
    }
}
