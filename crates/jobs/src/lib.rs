//! Computations and collectives with dependencies: iterations of training, traces that are replayed.
//!
//! A [`workload`] is the layers of a model; a [`graph`] says what ranks compute and exchange; [`timeline`] runs it on a [`transport`].

pub mod beside;
pub mod compute;
pub mod graph;
pub mod rails_flights;
pub mod replay;
pub mod timeline;
pub mod training;
pub mod transport;
pub mod vary;
pub mod workload;
