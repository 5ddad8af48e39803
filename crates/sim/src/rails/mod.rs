//! Rails: multi-dimensional networks as products of rings, fully connected groups and switches, and
//! the scheduling of chunks over their dimensions (Themis, ISCA 2022).
//!
//! `Topology --scheduler--> RailsPlan --stage_loop--> RailsTimes` at the level of stages: every NPU does the same, so
//! one of them stands for all and cost does not grow with their number. `lower` makes of both a
//! message-level `Schedule` on the `Expansion` of the topology, for the verifier and the simulators.

pub mod advise;
mod basic;
pub mod consistency;
pub mod fabric;
mod layout;
pub mod lower;
pub mod orders;
pub mod packets;
mod request;
pub mod scheduler;
pub mod stage_endpoint;
mod stage_energy;
pub mod stage_loop;
mod stage_phases;
mod stage_use;
mod steps;
pub mod symmetry;
pub mod task;

pub use fabric::Expansion;
pub use lower::{estimate, lower, lower_watched};
pub use orders::{ChunkOrder, RailsPlan};
pub use packets::RailsPackets;
pub use request::RailsRequest;
pub use scheduler::Scheduler;
pub use stage_energy::{dynamic_energy, energy, least_energy, static_power_nw};
pub use stage_loop::{QueuePolicy, RailsTimes, run};
pub use stage_use::{EndpointUse, PartUse, add_span};
pub use symmetry::{SymmetryProof, prove_by_symmetry};
pub use task::{Chunks, Policy, RailsTask, check_steps, chunks_of};

#[cfg(test)]
mod stage_tests;
