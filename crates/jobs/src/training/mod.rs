//! Training: an iteration as a graph of computations and exchanges, its time, and that of an epoch.
//!
//! `layer times + overlap policy --plan--> operations --timeline (on a network)--> iteration --> epoch`

mod epoch;
mod gradient_queue;
mod network;
mod plan;
mod rails;
mod shared;
mod timeline;
mod unfold;

pub use epoch::iterations;
pub use gradient_queue::GradientQueue;
pub use network::{Event, Network, Serial};
pub use plan::{Bucket, Cost, Operation, Overlap, Plan, Policy, Sizes, Work};
pub use rails::{Carriage, Groups, Rails};
pub use shared::run_shared;
pub use timeline::{Iteration, Span, run};
pub use unfold::unfold;
