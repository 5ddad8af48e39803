//! Programs run by threads, one a stream: a test of the proof that leaves the order to the machine.

use super::random::Random;
use super::{check_data, elements};
use crate::error::{Code, Error, Result};
use crate::schedule::{Action, Dependency, Event, Program, Schedule, Stream};
use crate::verify::check_order;
use std::collections::HashMap;
use std::ops::{Add, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Most threads of one run.
const MAX_THREADS: usize = 1024;

/// Executes a schedule on `data`, one buffer a rank as for [`super::execute`], with a thread for every stream
/// of every rank. A message is taken from the sender's buffer when it is sent; one more to the same peer may be
/// under way. Some threads pause at moments that `seed` chooses; the rest is up to the machine.
///
/// # Errors
/// As [`super::execute`]; [`Code::TooLarge`] past 1024 streams.
pub fn run_threads<T: Copy + Add<Output = T> + Send>(
    schedule: &Schedule,
    data: &mut [Vec<T>],
    seed: u64,
) -> Result<()> {
    check_data(schedule, data)?;
    check_order(schedule)?;
    let program = Program::new(schedule);
    let streams: usize = program.ranks.iter().map(|rank| rank.streams.len()).sum();
    if streams > MAX_THREADS {
        let what = format!("{streams} streams need as many threads; at most {MAX_THREADS} are run: use fewer ranks");
        return Err(Error::new(Code::TooLarge, what));
    }
    let shared = Shared::new(schedule, data);
    let mut senders: HashMap<(u32, u32), SyncSender<Vec<T>>> = HashMap::new();
    let mut receivers: HashMap<(u32, u32), Receiver<Vec<T>>> = HashMap::new();
    for (from, rank) in (0..).zip(&program.ranks) {
        for stream in rank.streams.iter().filter(|stream| stream.sends) {
            let (sender, receiver) = sync_channel(1);
            senders.insert((from, stream.peer), sender);
            receivers.insert((from, stream.peer), receiver);
        }
    }
    thread::scope(|scope| {
        for (rank, of_rank) in (0..).zip(&program.ranks) {
            for (number, stream) in (0..).zip(&of_rank.streams) {
                let worker =
                    Worker { shared: &shared, rank, stream, random: Random(seed ^ (rank as u64) << 32 ^ number) };
                if let Some(sender) = senders.remove(&(rank, stream.peer)).filter(|_| stream.sends) {
                    scope.spawn(move || worker.send(&sender));
                } else if let Some(receiver) = receivers.remove(&(stream.peer, rank)) {
                    scope.spawn(move || worker.receive(&receiver));
                }
            }
        }
    });
    Ok(())
}

/// What all threads see.
struct Shared<'a, T> {
    schedule: &'a Schedule,
    /// By rank: its buffer, and who is told when something became of its messages.
    ranks: Vec<(Mutex<&'a mut Vec<T>>, Condvar)>,
    /// Chunks sent and applied of every transfer.
    sent: Vec<AtomicU64>,
    applied: Vec<AtomicU64>,
    /// Messages of every phase not yet applied, and who waits at barriers.
    left: Mutex<Vec<u64>>,
    opened: Condvar,
}

impl<'a, T> Shared<'a, T> {
    fn new(schedule: &'a Schedule, data: &'a mut [Vec<T>]) -> Self {
        let counters = || schedule.transfers.iter().map(|_| AtomicU64::new(0)).collect();
        let mut left = vec![0; schedule.phases.len()];
        schedule.transfers.iter().for_each(|transfer| left[transfer.phase as usize] += schedule.chunks(transfer));
        Shared {
            schedule,
            ranks: data.iter_mut().map(|buffer| (Mutex::new(buffer), Condvar::new())).collect(),
            sent: counters(),
            applied: counters(),
            left: Mutex::new(left),
            opened: Condvar::new(),
        }
    }

    /// Whether what a chunk waits for has happened.
    fn is_ready(&self, waits: &[Dependency], chunk: u64) -> bool {
        waits.iter().all(|wait| {
            let counts = if wait.event() == Event::Sent { &self.sent } else { &self.applied };
            counts[wait.transfer() as usize].load(Ordering::Acquire) + wait.lag() as u64 > chunk
        })
    }
}

/// One stream of one rank.
struct Worker<'a, T> {
    shared: &'a Shared<'a, T>,
    rank: u32,
    stream: &'a Stream,
    random: Random,
}

impl<'a, T: Copy + Add<Output = T>> Worker<'a, T> {
    fn send(mut self, to: &SyncSender<Vec<T>>) {
        for (at, chunk) in self.stream.messages(self.shared.schedule) {
            let instruction = &self.stream.instructions[at];
            if let Some(phase) = instruction.barrier {
                self.wait_for_phases(phase);
            }
            let buffer = self.wait(&instruction.waits, chunk);
            let ranges = self.ranges(at, chunk);
            let payload = ranges.into_iter().flat_map(|range| &buffer[range]).copied().collect();
            drop(buffer);
            self.pause();
            if to.send(payload).is_err() {
                return;
            }
            self.tell(&self.shared.sent, at);
        }
    }

    fn receive(mut self, from: &Receiver<Vec<T>>) {
        for (at, chunk) in self.stream.messages(self.shared.schedule) {
            let Ok(payload) = from.recv() else { return };
            self.pause();
            let instruction = &self.stream.instructions[at];
            let mut buffer = self.wait(&instruction.waits, chunk);
            let slots = self.ranges(at, chunk).into_iter().flatten();
            for (slot, value) in slots.zip(payload) {
                let own = &mut buffer[slot];
                *own = if instruction.action == Action::Reduce { *own + value } else { value };
            }
            drop(buffer);
            self.tell(&self.shared.applied, at);
            let phase = self.shared.schedule.transfers[instruction.transfer as usize].phase;
            let mut left = lock(&self.shared.left);
            left[phase as usize] -= 1;
            if left[phase as usize] == 0 {
                self.shared.opened.notify_all();
            }
        }
    }

    fn ranges(&self, at: usize, chunk: u64) -> Vec<Range<usize>> {
        let (schedule, id) = (self.shared.schedule, self.stream.instructions[at].transfer);
        let lanes = schedule.transfers[id as usize].lanes();
        lanes
            .map(|lane| elements(schedule, lane, schedule.chunk_range(lane as u32, chunk), size_of::<T>() as u64))
            .collect()
    }

    /// The rank's buffer, when all that a chunk waits for has happened.
    fn wait(&self, waits: &[Dependency], chunk: u64) -> MutexGuard<'a, &'a mut Vec<T>> {
        let (buffer, changed) = &self.shared.ranks[self.rank as usize];
        let ready = |_: &mut &mut Vec<T>| !self.shared.is_ready(waits, chunk);
        changed.wait_while(lock(buffer), ready).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all phases before this one are complete everywhere.
    fn wait_for_phases(&self, phase: u32) {
        let incomplete = |left: &mut Vec<u64>| left[..phase as usize].iter().any(|&left| left > 0);
        drop(self.shared.opened.wait_while(lock(&self.shared.left), incomplete));
    }

    /// Counts an event of a chunk and wakes the rank's other streams.
    fn tell(&self, counts: &[AtomicU64], at: usize) {
        let (buffer, changed) = &self.shared.ranks[self.rank as usize];
        // Nobody is between looking at the counts and waiting.
        let guard = lock(buffer);
        counts[self.stream.instructions[at].transfer as usize].fetch_add(1, Ordering::Release);
        drop(guard);
        changed.notify_all();
    }

    /// Lets others go first, sometimes.
    fn pause(&mut self) {
        match self.random.next() % 16 {
            0 => thread::sleep(std::time::Duration::from_micros(self.random.next() % 50)),
            1..4 => thread::yield_now(),
            _ => {}
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use crate::execute::check_by_threads;
    use crate::verify::fixtures::*;

    #[test]
    fn threads_compute_what_is_proven() {
        for (_, schedule) in all() {
            for seed in 0..3 {
                check_by_threads(&schedule, seed).unwrap_or_else(|e| panic!("{} {seed}: {e}", schedule.algorithm));
            }
        }
    }

    #[test]
    fn deadlocks_and_wrong_buffers_are_refused() {
        let (_, mut ring) = ring_all_reduce(2, 64, 1);
        assert!(
            super::run_threads(&ring, &mut [vec![0u32; 16], vec![0; 15]], 1)
                .unwrap_err()
                .message
                .contains("16 elements")
        );
        ring.transfers[0].start_after = after([2]);
        assert!(
            super::run_threads(&ring, &mut [vec![0u32; 16], vec![0; 16]], 1).unwrap_err().message.contains("deadlock")
        );
    }

    #[test]
    fn so_many_threads_are_not_started() {
        let (_, direct) = direct_all_reduce(40, 640);
        let error = check_by_threads(&direct, 1).unwrap_err();
        assert!(error.message.contains("3120 streams"), "{error}");
    }
}
