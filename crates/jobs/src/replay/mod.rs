//! Replay: what every rank computes and exchanges, each by a graph of its own, and when it is over on a fabric.
//!
//! `graphs of ranks + a schedule for each exchange --timeline--> time, exposed communication, every exchange`

mod graph;
mod timeline;

pub use graph::{Exchange, Graph, Group, Lane, MAX_COMPUTE, MAX_DEPENDENCIES, MAX_NODES, Node, Program, What, Work};
pub use timeline::{ExchangeTimes, RankTimes, Replay, run};
