//! Antiphon core: collective communication schedules, built, proven, bounded and simulated.
//!
//! `Fabric + Collective --algorithm--> Schedule --> verify | bound | simulate`

pub mod algorithm;
pub mod bound;
pub mod collective;
pub mod error;
pub mod fabric;
pub mod noc;
pub mod schedule;
pub mod simulate;
pub mod system;
pub mod units;
pub mod verify;
