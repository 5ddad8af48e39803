//! Endpoints of ACE (ISCA 2021): the engine, the accelerator that moves data itself, and the ideal one, once for both levels.
//!
//! [`work`] says what a message and a chunk cost at a rank, [`partition`] how an engine is divided among phases, and
//! [`engine`] what is free of a rank's engine. [`units`] and [`footprint`] say what one chunk is in a schedule and what it
//! takes; [`phases`] says the same of the stages of a plan. Parameters are in the model (`system/endpoint.rs`).
//! `rails/stage_endpoint.rs` uses all this stage by stage; message by message `endpoints/unit_engine.rs`,
//! `endpoints/memory_ports.rs` and `plan/kinds.rs` do.

pub(crate) mod engine;
pub(crate) mod footprint;
pub(crate) mod partition;
pub(crate) mod phases;
pub(crate) mod units;
pub(crate) mod work;

pub use work::{accesses, loaded};
