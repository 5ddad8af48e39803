//! Compute models beside published cycles.

mod compute;
#[path = "../../../plan/tests/suite/common/published.rs"]
mod published;
