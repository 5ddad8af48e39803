//! Byte streams between processes: TCP connections, or rings in memory that processes of a host share.

mod join;
mod probe;
mod ring;
mod stream;

pub use join::{Cable, Joiner, Remote};
pub use ring::{RingWire, SharedFile};
pub use stream::StreamWire;

use std::io::{self, IoSlice};

/// A byte stream to another process that never blocks. Bytes arrive whole and in order, or the wire breaks.
pub trait ByteWire: Send {
    /// Takes as many bytes of the slices as there is room for; `Ok(0)` where there is none now.
    ///
    /// # Errors
    /// If the wire is broken.
    fn send(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Fills as much of the buffer as there is now; `Ok(0)` for nothing.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] when the other end is gone; if the wire is broken.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// What the event loop waits on.
    fn source(&mut self) -> &mut dyn mio::event::Source;

    /// Whether it ends in this host: then nothing but the end of the other process, which shows, can cut it, and silence means nothing.
    fn is_local(&self) -> bool {
        false
    }

    /// Called before the event loop sleeps; true if something is there already.
    fn before_sleep(&mut self) -> bool {
        false
    }

    /// Called after it woke.
    fn after_sleep(&mut self) {}
}

/// All wires of a node to one neighbour over one cable.
pub struct WirePort {
    /// The node at the other end.
    pub neighbour: u32,
    /// The link that goes there.
    pub out_link: Option<u32>,
    /// The link that comes from there.
    pub in_link: Option<u32>,
    /// One or more streams.
    pub wires: Vec<Box<dyn ByteWire>>,
    /// For people: hosts, interfaces, addresses.
    pub name: String,
}

/// The connections of one node.
pub struct Wires {
    /// One for every cable.
    pub ports: Vec<WirePort>,
}
