//! Computations and collectives with dependencies: iterations of training, traces that are replayed.

pub mod compute;
pub mod replay;
pub mod training;
