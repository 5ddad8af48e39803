//! Collective algorithms, one per file.

use crate::collective::Collective;
use crate::error::Result;
use crate::fabric::Fabric;
use crate::schedule::Schedule;
use crate::system::System;
use crate::units::Bytes;

/// One row of [`list`].
#[derive(Debug, Clone, Copy)]
pub struct Info {
    /// Command-line name.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// `key: meaning` of each option.
    pub options: &'static [(&'static str, &'static str)],
    /// Paper or origin.
    pub source: &'static str,
    /// Collectives it can do.
    pub collectives: &'static [crate::collective::Kind],
}

/// All algorithms in documentation order.
pub fn list() -> &'static [Info] {
    &[]
}

/// Builds the schedule of `spec`, i.e. `name[:key=value,...]`.
///
/// # Errors
/// `UnknownName`, `BadSpec`, or `NotApplicable` with the reason in one line.
pub fn build(fabric: &Fabric, system: &System, collective: Collective, bytes: Bytes, spec: &str) -> Result<Schedule> {
    let _ = (fabric, system, collective, bytes, spec);
    todo!()
}
