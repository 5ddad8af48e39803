//! What several of them use; suites of other crates take single files.

pub mod fuzz;
#[allow(dead_code)] // the rest is for tests of the proofs
#[path = "../../../../proof/src/mutate.rs"]
pub mod mutate;
pub mod prelude;
pub mod published;
pub mod random_fabric;
pub mod sweep;
pub mod timed;
pub mod within_bounds;
