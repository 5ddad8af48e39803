//! Training: an iteration as a graph of computations and exchanges, its time, and that of an epoch.
//!
//! `layer times + overlap policy --iteration graph--> time line (on a transport) --> where the time went --> epoch`

mod epoch;
mod gradient_queue;
mod iteration;
mod request;
mod slow;
mod times;
mod unfold;

pub use epoch::iterations;
pub use gradient_queue::GradientQueue;
pub use iteration::{Bucket, Cost, DATA, IterationGraph, IterationPolicy, Label, MODEL, Overlap, Sizes};
pub use request::{IterationRequest, PlannedIteration};
pub use slow::SlowRanks;
pub use times::{Iteration, run, run_shared};
pub use unfold::unfold;
