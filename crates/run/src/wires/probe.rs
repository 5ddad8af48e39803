//! What wires can do: round trips, and rates under load, by the same kind of loop that a carrier has.

use super::ByteWire;
use super::join::Joiner;
use antiphon_base::error::{Code, Error, Result};
use std::io::{self, IoSlice};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes that are sent at once to measure a rate. The first says whether more follow.
const BLOCK_BYTES: usize = 32 << 10;
/// Round trips of which the least counts.
const ROUNDS: u32 = 20;
/// Bytes of a round trip: its number. The last round has [`ROUNDS`].
const PING_BYTES: usize = 8;
/// How long the other end may take to begin.
const PATIENCE: Duration = Duration::from_secs(5);

impl Joiner {
    /// The least of some round trips over each cable where this end asks, by the first of its wires; at the other end nobody asks, and
    /// both do this at about the same time.
    ///
    /// # Errors
    /// [`Code::Stalled`] if the other end does not take part.
    pub fn round_trips(&mut self, cables: &[(u32, bool)]) -> Result<Vec<(u32, Duration)>> {
        let mut states: Vec<PingState> =
            cables.iter().map(|&(cable, asks)| PingState { cable, asks, ..PingState::default() }).collect();
        let until = Instant::now() + PATIENCE;
        while states.iter().any(|state| !state.is_done()) {
            let mut has_changed = false;
            for state in states.iter_mut().filter(|state| !state.is_done()) {
                let wire = self.joined.get_mut(&state.cable).and_then(|wires| wires.first_mut());
                let Some(wire) = wire else { return Err(missing(state.cable)) };
                has_changed |= state.step(&mut **wire).map_err(|what| broken(state.cable, &what))?;
            }
            if Instant::now() > until {
                let late = states.iter().find(|state| !state.is_done()).map_or(0, |state| state.cable);
                return Err(Error::new(Code::Stalled, format!("cable {late}: the other end does not answer")));
            }
            if !has_changed {
                thread::yield_now();
            }
        }
        Ok(states.iter().filter_map(|state| Some((state.cable, state.least?))).collect())
    }

    /// Loads the first wires of cables, at most `streams` of each, in both directions for so long, and returns the rate in bytes a second at which the later half came over each; both
    /// ends do this at about the same time.
    ///
    /// # Errors
    /// As [`Self::round_trips`].
    pub fn rates(&mut self, cables: &[u32], time: Duration, streams: usize) -> Result<Vec<(u32, f64)>> {
        let mut states: Vec<LoadState> = vec![];
        for &cable in cables {
            let wires = self.joined.get(&cable).ok_or_else(|| missing(cable))?.len();
            states.extend((0..wires.min(streams)).map(|wire| LoadState::new(cable, wire)));
        }
        let begin = Instant::now();
        let mut buffer = vec![0; 1 << 18];
        let block = vec![0; BLOCK_BYTES];
        while states.iter().any(|state| !state.is_done()) {
            let mut has_changed = false;
            let elapsed = begin.elapsed();
            for state in states.iter_mut().filter(|state| !state.is_done()) {
                let wire = self.joined.get_mut(&state.cable).and_then(|wires| wires.get_mut(state.wire));
                let Some(wire) = wire else { return Err(missing(state.cable)) };
                let outcome = state.step(&mut **wire, &block, &mut buffer, time, elapsed >= time);
                has_changed |= outcome.map_err(|what| broken(state.cable, &what))?;
            }
            if elapsed > time + PATIENCE {
                let late = states.iter().find(|state| !state.is_done()).map_or(0, |state| state.cable);
                return Err(Error::new(Code::Stalled, format!("cable {late}: what the other end sends does not come")));
            }
            if !has_changed {
                thread::sleep(Duration::from_micros(50));
            }
        }
        let rate =
            |&cable: &u32| (cable, states.iter().filter(|state| state.cable == cable).map(LoadState::rate).sum());
        Ok(cables.iter().map(rate).collect())
    }
}

fn missing(cable: u32) -> Error {
    Error::new(Code::BadSpec, format!("cable {cable} is not joined"))
}

fn broken(cable: u32, what: &io::Error) -> Error {
    Error::new(Code::Stalled, format!("cable {cable} broke while it was probed: {what}"))
}

/// Round trips over one wire.
#[derive(Default)]
struct PingState {
    cable: u32,
    asks: bool,
    /// The one on its way, or the last that was answered.
    round: u32,
    since: Option<Instant>,
    least: Option<Duration>,
    have: usize,
    bytes: [u8; PING_BYTES],
    is_over: bool,
}

impl PingState {
    fn is_done(&self) -> bool {
        self.is_over
    }

    fn step(&mut self, wire: &mut dyn ByteWire) -> io::Result<bool> {
        if self.asks && self.since.is_none() {
            self.round += 1;
            self.since = Some(Instant::now());
            let bytes = (self.round as u64).to_le_bytes();
            send_all(wire, &bytes)?;
            return Ok(true);
        }
        let count = wire.receive(&mut self.bytes[self.have..])?;
        self.have += count;
        if self.have < PING_BYTES {
            return Ok(count > 0);
        }
        self.have = 0;
        if let Some(since) = self.since.take() {
            let time = since.elapsed();
            self.least = Some(self.least.map_or(time, |least| least.min(time)));
            self.is_over = self.round == ROUNDS;
        } else {
            send_all(wire, &self.bytes)?;
            self.is_over = u64::from_le_bytes(self.bytes) == ROUNDS as u64;
        }
        Ok(true)
    }
}

/// Sends few bytes, for which there is room.
fn send_all(wire: &mut dyn ByteWire, bytes: &[u8]) -> io::Result<()> {
    match wire.send(&[IoSlice::new(bytes)])? == bytes.len() {
        true => Ok(()),
        false => Err(io::Error::other("it has no room for a few bytes")),
    }
}

/// A load on one wire, both ways.
struct LoadState {
    cable: u32,
    wire: usize,
    /// Bytes of the block on its way that are gone, and whether it is the last.
    gone: usize,
    is_last: bool,
    has_sent: bool,
    /// Bytes that came; when the first did, and what had come when half the time was over.
    have: u64,
    first: Option<Instant>,
    half: Option<(u64, Instant)>,
    last: Option<Instant>,
    /// The block that comes is the last.
    ends: bool,
    has_come: bool,
}

impl LoadState {
    fn new(cable: u32, wire: usize) -> LoadState {
        LoadState {
            cable,
            wire,
            gone: 0,
            is_last: false,
            has_sent: false,
            have: 0,
            first: None,
            half: None,
            last: None,
            ends: false,
            has_come: false,
        }
    }

    fn is_done(&self) -> bool {
        self.has_sent && self.has_come
    }

    fn rate(&self) -> f64 {
        let begin = self.half.or(self.first.map(|first| (0, first)));
        match (begin, self.last) {
            (Some((at, since)), Some(last)) if last > since => (self.have - at) as f64 / (last - since).as_secs_f64(),
            _ => 0.0,
        }
    }

    fn step(
        &mut self,
        wire: &mut dyn ByteWire,
        block: &[u8],
        buffer: &mut [u8],
        time: Duration,
        is_late: bool,
    ) -> io::Result<bool> {
        let mut has_changed = false;
        if !self.has_sent {
            if self.gone == 0 {
                self.is_last = is_late;
            }
            let first = [self.is_last as u8];
            let count = match self.gone {
                0 => wire.send(&[IoSlice::new(&first), IoSlice::new(&block[1..])])?,
                gone => wire.send(&[IoSlice::new(&block[gone..])])?,
            };
            has_changed |= count > 0;
            self.gone += count;
            if self.gone == BLOCK_BYTES {
                (self.gone, self.has_sent) = (0, self.is_last);
            }
        }
        if !self.has_come {
            // No more than the end of the last block: what follows is not of this load.
            let room = (BLOCK_BYTES - self.have as usize % BLOCK_BYTES).min(buffer.len());
            let count = wire.receive(&mut buffer[..room])?;
            if count > 0 {
                let now = Instant::now();
                if (self.have as usize).is_multiple_of(BLOCK_BYTES) {
                    self.ends = buffer[0] == 1;
                }
                let since = *self.first.get_or_insert(now);
                self.have += count as u64;
                self.last = Some(now);
                if now - since >= time / 2 && self.half.is_none() {
                    self.half = Some((self.have, now));
                }
                self.has_come = self.ends && (self.have as usize).is_multiple_of(BLOCK_BYTES);
                has_changed = true;
            }
        }
        Ok(has_changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wires::stream::StreamWire;
    use std::os::unix::net::UnixStream;

    #[test]
    fn both_ends_measure_at_once() {
        let (mut low, mut high) = (Joiner::new(0, [0; 32]), Joiner::new(1, [0; 32]));
        for cable in [4, 9] {
            let (near, far) = UnixStream::pair().unwrap();
            low.joined.insert(cable, vec![Box::new(StreamWire::of_unix(near).unwrap())]);
            high.joined.insert(cable, vec![Box::new(StreamWire::of_unix(far).unwrap())]);
        }
        let time = Duration::from_millis(60);
        let measure = |joiner: &mut Joiner, asks: bool| {
            let trips = joiner.round_trips(&[(4, asks), (9, asks)]).unwrap();
            (trips, joiner.rates(&[9], time, 1).unwrap(), joiner.rates(&[4, 9], time, 2).unwrap())
        };
        let (near, far) = thread::scope(|scope| {
            let far = scope.spawn(|| measure(&mut high, false));
            (measure(&mut low, true), far.join().unwrap())
        });
        assert_eq!((near.0.len(), far.0.len()), (2, 0));
        assert!(near.0.iter().all(|(_, trip)| !trip.is_zero() && *trip < Duration::from_secs(1)));
        for rates in [&near.1, &near.2, &far.1, &far.2] {
            assert!(rates.iter().all(|&(_, rate)| rate > 1e6 && rate < 1e12), "{rates:?}");
        }
        assert_eq!(near.2.iter().map(|(cable, _)| *cable).collect::<Vec<_>>(), [4, 9]);
        assert_eq!(low.rates(&[5], time, 1).unwrap_err().code, Code::BadSpec);
        drop(high);
        assert!(low.rates(&[4], time, 1).unwrap_err().message.starts_with("cable 4 broke"));
    }
}
