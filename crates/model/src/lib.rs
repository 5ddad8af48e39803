//! What is described: nothing here decides, proves or times anything.

pub mod collective;
pub mod energy;
pub mod fabric;
pub mod schedule;
pub mod system;
pub mod topology;
