//! What carries the exchanges of a job graph: one by one with given times, in flight on a fabric, or on the dimensions of rails.

mod fabric;
mod rails;
mod serial;

pub use fabric::OnFabric;
pub use rails::{Carriage, OnRails, divided_groups};
pub use serial::Serial;

use antiphon_base::error::Result;
use antiphon_base::units::{Bytes, Picos};
use std::collections::VecDeque;

/// Carries exchanges, by their numbers in the graph. Time never goes backwards between calls.
pub trait Transport {
    /// An exchange starts at `now`; whether there is anything to carry.
    ///
    /// # Errors
    /// Those of the simulation.
    fn submit(&mut self, now: Picos, exchange: u32) -> Result<bool>;

    /// When something happens next if nothing else is submitted before.
    fn next(&self) -> Option<Picos>;

    /// Lets that happen, and adds what has come of it. Nothing is submitted before `until`, if that is known.
    ///
    /// # Errors
    /// [`antiphon_base::error::Code::TooLarge`] or [`antiphon_base::error::Code::Interrupted`] for work that takes too long.
    fn step(&mut self, until: Option<Picos>, happened: &mut VecDeque<Delivery>) -> Result<()>;

    /// The most bytes at a time that waited at any rank to be added; `None` where there are no messages.
    fn buffer_bytes(&self) -> Option<Bytes> {
        None
    }

    /// Nothing is to happen any more.
    ///
    /// # Errors
    /// [`antiphon_base::error::Code::Stalled`] if an exchange has not ended.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// What has come of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// A part is complete at every rank: the next of [`parts`](crate::graph::JobGraph::parts).
    Part(u32),
    /// It has finished.
    Whole {
        /// Its number.
        exchange: u32,
        /// When it started.
        start_ps: Picos,
    },
}
