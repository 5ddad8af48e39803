//! Words that everything else is written in: one error type, units, what users give by key, work that can be interrupted.

pub mod cores;
pub mod error;
pub mod options;
pub mod parameter;
pub mod registry;
pub mod units;
pub mod watch;
