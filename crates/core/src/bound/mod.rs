//! Lower bounds: how fast anything could be.

use crate::collective::Collective;
use crate::error::Result;
use crate::fabric::Fabric;
use crate::system::System;
use crate::units::{Bytes, Picos};
use serde::Serialize;

/// Lower bounds on the time of a collective; each holds for every schedule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bound {
    /// Total traffic every schedule must carry over the total link rate.
    pub volume_ps: Picos,
    /// The most loaded cut between two groups of ranks.
    pub cut_ps: Picos,
    /// Farthest ranks.
    pub latency_ps: Picos,
    /// AllReduce on symmetric fabrics without switches: bytes over rate times strength, exact for
    /// schedules that ship sums or copies.
    pub strength_ps: Option<Picos>,
    /// The largest of all.
    pub time_ps: Picos,
    /// Name of the bound that is largest.
    pub binding: &'static str,
}

/// Computes all lower bounds. Rates are payload rates of full packets, so headers do not count.
///
/// # Errors
/// [`crate::error::Code::BadSize`] for sizes out of range.
pub fn lower_bound(fabric: &Fabric, system: &System, collective: Collective, bytes: Bytes) -> Result<Bound> {
    let _ = (fabric, system, collective, bytes);
    todo!()
}
