//! Antiphon core: collective communication schedules, built, proven, bounded and simulated.
//!
//! `Fabric + Collective --algorithm--> Schedule --> verify | bound | simulate`,
//! `Workload + compute model + times of collectives --training--> iteration, epoch`

pub mod algorithm;
pub mod bound;
pub mod collective;
pub mod compute;
pub mod configure;
pub mod cost;
pub mod energy;
pub mod error;
pub mod execute;
pub mod fabric;
pub mod formats;
pub mod noc;
pub mod options;
pub mod parameter;
mod parts;
pub mod rails;
pub mod replan;
pub mod replay;
pub mod schedule;
pub mod simulate;
pub mod synthesis;
pub mod system;
pub mod training;
pub mod units;
pub mod verify;
pub mod watch;
pub mod workload;
