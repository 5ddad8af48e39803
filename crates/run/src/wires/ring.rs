//! Wires within a host: a ring of bytes each way in memory that two processes share.

use super::ByteWire;
use super::stream::now;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Bytes of each ring, a power of two.
const RING_BYTES: usize = 1 << 20;
/// Words before the data of a ring. Each counter has a cache line, with that which the processor reads ahead.
const CONTROL_WORDS: usize = 48;
/// Bytes that were ever sent.
const SENT: usize = 0;
/// Bytes that were ever received.
const RECEIVED: usize = 16;
/// Whether the receiver sleeps.
const SLEEPS: usize = 32;
/// Whether the sender sleeps until there is room.
const FULL: usize = 40;
const RING_WORDS: usize = CONTROL_WORDS + RING_BYTES / 8;
const MAP_BYTES: u64 = 2 * 8 * RING_WORDS as u64;

/// One end of a shared file, and a socket that wakes the other process and ends with it.
pub struct RingWire {
    map: memmap2::MmapMut,
    /// Which ring this end writes.
    writes: usize,
    doorbell: mio::net::UnixStream,
    /// Counted here, so that nothing rests on what the other process writes into its own counters but these themselves.
    sent: u64,
    received: u64,
    /// The last send did not find enough room.
    is_full: bool,
    is_gone: bool,
}

/// A view of a part of a ring. Words are read and written as atomics, since another process does the same.
fn words(map: &mut memmap2::MmapMut, ring: usize) -> &[AtomicU64] {
    let all = zerocopy::FromBytes::mut_from_bytes(&mut map[..]);
    let all: &mut [AtomicU64] = all.unwrap_or_default();
    all.get(ring * RING_WORDS..(ring + 1) * RING_WORDS).unwrap_or_default()
}

/// Maps a file of this size.
#[expect(unsafe_code, reason = "no map of a file is safe by its type: another process may change it at any time")]
fn map(file: &File) -> io::Result<memmap2::MmapMut> {
    if file.metadata()?.len() != MAP_BYTES {
        return Err(io::Error::other("a shared file has a wrong size"));
    }
    // SAFETY: the memory is only read and written through `words`, as atomics, which any value and any change of it suits. The
    // file is as large as the map and nobody shortens it: it has no name once both ends have mapped it.
    unsafe { memmap2::MmapMut::map_mut(file) }
}

/// A file that is mapped.
pub struct SharedFile(memmap2::MmapMut);

impl SharedFile {
    /// Makes one.
    ///
    /// # Errors
    /// If there is no room.
    pub fn make(path: &Path) -> io::Result<SharedFile> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        // Room that is missing shows here, not at the first access. The counters begin at 0.
        let zeros = vec![0; 1 << 16];
        let mut left = MAP_BYTES;
        while left > 0 {
            let now = left.min(zeros.len() as u64);
            (&file).write_all(&zeros[..now as usize])?;
            left -= now;
        }
        map(&file).map(SharedFile)
    }

    /// Opens one that another process has made.
    ///
    /// # Errors
    /// If it is not there, or is not what [`Self::make`] makes.
    pub fn open(path: &Path) -> io::Result<SharedFile> {
        map(&OpenOptions::new().read(true).write(true).open(path)?).map(SharedFile)
    }
}

impl RingWire {
    /// One end of a shared file: of who made it, or the other.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new(file: SharedFile, is_maker: bool, doorbell: std::os::unix::net::UnixStream) -> io::Result<RingWire> {
        doorbell.set_read_timeout(None)?;
        doorbell.set_nonblocking(true)?;
        Ok(RingWire {
            map: file.0,
            writes: if is_maker { 0 } else { 1 },
            doorbell: mio::net::UnixStream::from_std(doorbell),
            sent: 0,
            received: 0,
            is_full: false,
            is_gone: false,
        })
    }
}

/// Whether the other process said that it sleeps; it is then to be woken, once. It looks once more after it said so, and this one
/// looks after it changed a counter: one of both sees the other.
fn is_asleep(flag: &AtomicU64) -> bool {
    fence(Ordering::SeqCst);
    flag.load(Ordering::Relaxed) != 0 && flag.swap(0, Ordering::AcqRel) != 0
}

fn wrong() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the other process broke the shared memory")
}

/// Stores bytes from a place of the data on, word by word.
fn store(data: &[AtomicU64], mut at: usize, mut bytes: &[u8]) {
    let partly = |at: usize, bytes: &[u8]| {
        let word = &data[at / 8 % data.len()];
        let mut whole = word.load(Ordering::Relaxed).to_ne_bytes();
        whole[at % 8..at % 8 + bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
    };
    if !at.is_multiple_of(8) {
        let (first, rest) = bytes.split_at(bytes.len().min(8 - at % 8));
        partly(at, first);
        (at, bytes) = (at + first.len(), rest);
    }
    while bytes.len() >= 8 {
        let start = at / 8 % data.len();
        let count = (bytes.len() / 8).min(data.len() - start);
        let (now, rest) = bytes.split_at(8 * count);
        for (word, eight) in data[start..start + count].iter().zip(now.chunks_exact(8)) {
            word.store(u64::from_ne_bytes(eight.try_into().unwrap_or_default()), Ordering::Relaxed);
        }
        (at, bytes) = (at + 8 * count, rest);
    }
    if !bytes.is_empty() {
        partly(at, bytes);
    }
}

/// Loads bytes from a place of the data on.
fn load(data: &[AtomicU64], mut at: usize, mut bytes: &mut [u8]) {
    let partly = |at: usize, bytes: &mut [u8]| {
        let whole = data[at / 8 % data.len()].load(Ordering::Relaxed).to_ne_bytes();
        bytes.copy_from_slice(&whole[at % 8..at % 8 + bytes.len()]);
    };
    if !at.is_multiple_of(8) {
        let (first, rest) = bytes.split_at_mut(bytes.len().min(8 - at % 8));
        partly(at, first);
        (at, bytes) = (at + first.len(), rest);
    }
    while bytes.len() >= 8 {
        let start = at / 8 % data.len();
        let count = (bytes.len() / 8).min(data.len() - start);
        let (now, rest) = bytes.split_at_mut(8 * count);
        for (word, eight) in data[start..start + count].iter().zip(now.chunks_exact_mut(8)) {
            eight.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        (at, bytes) = (at + 8 * count, rest);
    }
    if !bytes.is_empty() {
        partly(at, bytes);
    }
}

impl ByteWire for RingWire {
    fn send(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let ring = words(&mut self.map, self.writes);
        let (control, data) = ring.split_at(CONTROL_WORDS);
        let on_the_way = self.sent.wrapping_sub(control[RECEIVED].load(Ordering::Acquire));
        let mut room = (RING_BYTES as u64).checked_sub(on_the_way).ok_or_else(wrong)? as usize;
        let before = self.sent;
        self.is_full = false;
        for slice in slices {
            let now = &slice[..slice.len().min(room)];
            self.is_full |= now.len() < slice.len();
            store(data, self.sent as usize % RING_BYTES, now);
            self.sent = self.sent.wrapping_add(now.len() as u64);
            room -= now.len();
        }
        if self.sent == before {
            return match self.is_gone {
                true => Err(io::ErrorKind::BrokenPipe.into()),
                false => Ok(0),
            };
        }
        control[SENT].store(self.sent, Ordering::Release);
        if is_asleep(&control[SLEEPS]) {
            now(self.doorbell.write(&[1]))?;
        }
        Ok(self.sent.wrapping_sub(before) as usize)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let ring = words(&mut self.map, 1 - self.writes);
        let (control, data) = ring.split_at(CONTROL_WORDS);
        let there = control[SENT].load(Ordering::Acquire).wrapping_sub(self.received);
        if there > RING_BYTES as u64 {
            return Err(wrong());
        }
        let count = (there as usize).min(buffer.len());
        if count == 0 {
            return match self.is_gone && there == 0 {
                true => Err(io::ErrorKind::UnexpectedEof.into()),
                false => Ok(0),
            };
        }
        load(data, self.received as usize % RING_BYTES, &mut buffer[..count]);
        self.received = self.received.wrapping_add(count as u64);
        control[RECEIVED].store(self.received, Ordering::Release);
        if is_asleep(&control[FULL]) {
            now(self.doorbell.write(&[1]))?;
        }
        Ok(count)
    }

    fn source(&mut self) -> &mut dyn mio::event::Source {
        &mut self.doorbell
    }

    fn is_local(&self) -> bool {
        true
    }

    fn before_sleep(&mut self) -> bool {
        let (received, sent, is_full) = (self.received, self.sent, self.is_full);
        words(&mut self.map, 1 - self.writes)[SLEEPS].store(1, Ordering::Relaxed);
        words(&mut self.map, self.writes)[FULL].store(is_full as u64, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let has_come = words(&mut self.map, 1 - self.writes)[SENT].load(Ordering::Acquire) != received;
        let gone = words(&mut self.map, self.writes)[RECEIVED].load(Ordering::Acquire);
        has_come || is_full && sent.wrapping_sub(gone) < RING_BYTES as u64
    }

    fn after_sleep(&mut self) {
        words(&mut self.map, 1 - self.writes)[SLEEPS].store(0, Ordering::Relaxed);
        words(&mut self.map, self.writes)[FULL].store(0, Ordering::Relaxed);
        let mut rings = [0; 64];
        loop {
            match self.doorbell.read(&mut rings) {
                Ok(0) => break self.is_gone = true,
                Ok(_) => {}
                Err(what) if what.kind() == io::ErrorKind::WouldBlock => break,
                Err(what) if what.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break self.is_gone = true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn pair() -> (RingWire, RingWire) {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("antiphon-ring-{}-{number}", std::process::id()));
        let (near, far) = UnixStream::pair().unwrap();
        let (made, opened) = (SharedFile::make(&path).unwrap(), SharedFile::open(&path).unwrap());
        let ends = (RingWire::new(made, true, near).unwrap(), RingWire::new(opened, false, far).unwrap());
        std::fs::remove_file(path).unwrap();
        ends
    }

    #[test]
    fn bytes_come_in_order_whatever_their_pieces() {
        let (mut near, mut far) = pair();
        let data: Vec<u8> = (0..3 * RING_BYTES + 77).map(|at| ((at * 31) >> 3) as u8).collect();
        let mut found = vec![];
        let (mut gone, mut step) = (0, 1);
        let mut buffer = vec![0; 100_000];
        while found.len() < data.len() {
            let (middle, end) = ((gone + step / 3).min(data.len()), (gone + step).min(data.len()));
            gone += near.send(&[IoSlice::new(&data[gone..middle]), IoSlice::new(&data[middle..end])]).unwrap();
            let room = 1 + (step * 7) % buffer.len();
            let count = far.receive(&mut buffer[..room]).unwrap();
            found.extend_from_slice(&buffer[..count]);
            step = step * 5 % 90_001 + 1;
        }
        assert!(found == data);
    }

    #[test]
    fn a_full_ring_takes_no_more_and_sleepers_are_woken() {
        let (mut near, mut far) = pair();
        let much = vec![7; RING_BYTES + 5];
        assert!(!far.before_sleep());
        assert_eq!(near.send(&[IoSlice::new(&much)]).unwrap(), RING_BYTES);
        let mut one = [0];
        assert_eq!((far.doorbell.read(&mut one).unwrap(), near.send(&[IoSlice::new(&much)]).unwrap()), (1, 0));
        assert!(far.before_sleep());
        far.after_sleep();
        assert!(!near.before_sleep());
        assert_eq!(far.receive(&mut one).unwrap(), 1);
        assert_eq!((near.doorbell.read(&mut one).unwrap(), near.before_sleep()), (1, true));
    }

    #[test]
    fn the_end_of_the_other_process_shows_after_what_it_sent() {
        let (mut near, mut far) = pair();
        near.send(&[IoSlice::new(b"last")]).unwrap();
        drop(near);
        far.after_sleep();
        let mut found = [0; 9];
        assert_eq!(far.receive(&mut found).unwrap(), 4);
        assert_eq!(far.receive(&mut found).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn counters_that_cannot_be_end_the_wire() {
        let (mut near, mut far) = pair();
        words(&mut near.map, 0)[SENT].store(RING_BYTES as u64 + 1, Ordering::Relaxed);
        assert_eq!(far.receive(&mut [0]).unwrap_err().kind(), io::ErrorKind::InvalidData);
        words(&mut far.map, 0)[RECEIVED].store(1, Ordering::Relaxed);
        assert_eq!(near.send(&[IoSlice::new(&[1])]).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
