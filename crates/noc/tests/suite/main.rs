//! The network beside BookSim.

mod booksim;
#[path = "../../../plan/tests/suite/common/published.rs"]
mod published;
