//! Who gets a link next, where packets wait for it.

use antiphon_base::parameter::Choice;
use serde::{Deserialize, Serialize};

/// See the module. For packets: the routers of flits have allocators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arbitration {
    /// What came first.
    #[default]
    Arrival,
    /// Inputs in turn: the links into its router, and the interfaces there.
    RoundRobin,
}

impl Choice for Arbitration {
    const WHAT: &'static str = "arbitration";
    const ALL: &'static [(&'static str, Self)] =
        &[("arrival", Arbitration::Arrival), ("round-robin", Arbitration::RoundRobin)];
}
