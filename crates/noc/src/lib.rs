//! A flit-level network of input-queued virtual-channel routers with credit flow control.
//!
//! It moves packets for whoever drives it: `antiphon_sim` with a schedule, [`synthetic`] with
//! random traffic, by which the network is validated on its own.

mod allocate;
mod border;
mod buffer;
mod build;
mod capacity;
mod channel;
mod deadlock;
mod measure;
mod network;
mod recur;
pub mod route;
mod router;
pub mod synthetic;
mod terminal;
#[cfg(test)]
mod tests;
pub mod traffic;
mod trend;
mod wheel;

pub use network::{FlitNetwork, FlitPacket, NextHop, PacketRouting, PacketRun};
