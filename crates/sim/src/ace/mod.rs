//! Endpoints of ACE (ISCA 2021): the engine, the accelerator that moves data itself, and the ideal one, once for both
//! levels. docs/papers/ace.md says where each part of the paper is.
//!
//! - `work.rs`: what is done at a rank for a message, and for a chunk of an engine.
//! - `partition.rs`: an engine, divided among phases; `engine.rs`: what is free of a rank's, where it is not divided.
//!
//! What one chunk is in a schedule, and what it takes, is in `units.rs` and `footprint.rs`; the same in a plan's stages is
//! in `rails/stage_phases.rs`. Parameters are in the model (`system/endpoint.rs`). Stage by stage `rails/stage_endpoint.rs`
//! uses all this; message by message `endpoints/unit_engine.rs`, `endpoints/memory_ports.rs` and `plan/` do.

pub(crate) mod engine;
pub(crate) mod partition;
pub(crate) mod work;

pub use work::{accesses, loaded};
