//! What most tests of schedules name.

#![allow(unused_imports)] // no suite has a use for all of it

pub use super::sweep::sweep;
pub use super::timed::simulate;
pub use antiphon_base::error::Code;
pub use antiphon_base::parameter::Choice;
pub use antiphon_base::units::Rate;
pub use antiphon_bound::{certified, lower_bound, of_schedule};
pub use antiphon_model::collective::{Collective, Kind};
pub use antiphon_model::fabric::{Fabric, Link, Node, Shape};
pub use antiphon_model::schedule::{Op, Schedule};
pub use antiphon_model::system::System;
pub use antiphon_plan::algorithm;
pub use antiphon_proof::{Proven, prove, verify};
pub use antiphon_run::{Threads, check_by_execution, check_by_threads};
pub use antiphon_sim::{Fidelity, Flight, Order, RunOptions, SimulationResult, simulate_flights};
pub use proptest::prelude::*;
pub use std::collections::{BTreeMap, BTreeSet};
