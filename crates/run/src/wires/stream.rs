//! Wires that are sockets.

use super::ByteWire;
use std::io::{self, IoSlice, Read, Write};

/// Bytes that a TCP connection takes beyond what is on its way. Few, so that the choice of the next packet is made late.
const UNSENT_BYTES: u32 = 128 << 10;

/// Nobody else sends on a cable, so its queue is no congestion. This window shrinks by loss alone; those that shrink when the queue
/// grows leave the cable idle while the process that feeds it waits for a core.
#[cfg(target_os = "linux")]
const CONGESTION: &[u8] = b"reno";

/// A connected socket that does not block.
pub struct StreamWire<S>(pub S);

impl StreamWire<mio::net::TcpStream> {
    /// Of a TCP connection.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn of_tcp(stream: std::net::TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        #[cfg(target_os = "linux")]
        {
            let socket = socket2::SockRef::from(&stream);
            socket.set_tcp_notsent_lowat(UNSENT_BYTES)?;
            // Every Linux has it.
            _ = socket.set_tcp_congestion(CONGESTION);
        }
        stream.set_read_timeout(None)?;
        stream.set_nonblocking(true)?;
        Ok(StreamWire(mio::net::TcpStream::from_std(stream)))
    }
}

impl StreamWire<mio::net::UnixStream> {
    /// Of a connection within this host.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn of_unix(stream: std::os::unix::net::UnixStream) -> io::Result<Self> {
        stream.set_read_timeout(None)?;
        stream.set_nonblocking(true)?;
        Ok(StreamWire(mio::net::UnixStream::from_std(stream)))
    }
}

/// 0 where a socket would block.
pub(super) fn now(outcome: io::Result<usize>) -> io::Result<usize> {
    match outcome {
        Err(what) if matches!(what.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
        _ => outcome,
    }
}

impl<S: Read + Write + mio::event::Source + Send> ByteWire for StreamWire<S> {
    fn send(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        now(self.0.write_vectored(slices))
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer) {
            Ok(0) if !buffer.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            outcome => now(outcome),
        }
    }

    fn source(&mut self) -> &mut dyn mio::event::Source {
        &mut self.0
    }
}
