//! What several of them use; suites of other crates take single files.

pub mod fuzz;
pub mod prelude;
pub mod published;
pub mod random_fabric;
pub mod sweep;
pub mod timed;
pub mod within_bounds;
