//! A schedule run by threads of this process on shared buffers: data go straight from one rank's buffer into another's.

use super::random::SplitMix64;
use super::rank::{RankMessage, RankProgress};
use super::{Finality, MemoryPart, check_data, check_elements, elements, memory_bytes, switch_memories};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Bytes;
use antiphon_base::watch::{Watch, interruptible};
use antiphon_model::schedule::{Action, Program, Schedule};
use antiphon_proof::check_order;
use std::collections::HashMap;
use std::ops::{Add, Range};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Condvar, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

/// Most pieces that the buffers of all ranks are cut into.
const MAX_PIECES: usize = 1 << 24;
/// Most threads of one run.
const MAX_THREADS: usize = 1024;
/// How often it is asked whether a run is to go on.
const HEARTBEAT: Duration = Duration::from_millis(50);

/// Who runs a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// So many threads, each for an equal share of the ranks.
    Of(usize),
    /// A thread a rank, some of which pause at moments that a seed chooses: a test that leaves the order to the machine.
    Pausing(u64),
}

/// A schedule that is ready to be run by threads, any number of times.
#[derive(Debug, Clone)]
pub struct Execution {
    schedule: Schedule,
    /// Before anything has happened.
    ranks: Vec<RankProgress>,
    /// First bytes of the pieces of every buffer, and its end: no message carries a part of a piece.
    cuts: Vec<Bytes>,
}

impl Execution {
    /// Of a schedule that passes [`Schedule::check_alone`]. O(messages log messages).
    ///
    /// # Errors
    /// [`Code::NotProven`] if it could deadlock, [`Code::TooLarge`] past 2^26 messages or 2^24 pieces of buffers.
    pub fn new(schedule: &Schedule) -> Result<Self> {
        check_elements(schedule, 1)?;
        check_order(schedule)?;
        let mut cuts: Vec<Bytes> = vec![0, memory_bytes(schedule)];
        for (id, lane) in interruptible(&schedule.lanes).enumerate() {
            for chunk in interruptible(0..lane.chunks) {
                let range = elements(schedule, id, schedule.chunk_range(id as u32, chunk), 1);
                cuts.extend([range.start as Bytes, range.end as Bytes]);
            }
            if cuts.len() > MAX_PIECES {
                cuts.sort_unstable();
                cuts.dedup();
            }
            if cuts.len().saturating_mul(schedule.participants() as usize) > MAX_PIECES {
                let what = format!("the buffers have over {MAX_PIECES} pieces; take fewer chunks or ranks");
                return Err(Error::new(Code::TooLarge, what));
            }
        }
        cuts.sort_unstable();
        cuts.dedup();
        let program = Program::new(schedule);
        let ranks = (0..schedule.participants()).map(|rank| RankProgress::new(schedule, &program, rank)).collect();
        Ok(Execution { schedule: schedule.clone(), ranks, cuts })
    }

    /// Runs it on `data`, one buffer a rank as for [`super::execute`], in place. The data of a message are read when
    /// the receiver takes it, and written at once.
    ///
    /// # Errors
    /// [`Code::BadSize`] as [`super::execute`]; [`Code::TooLarge`] past 1,024 threads.
    pub fn run<T: Copy + Default + Add<Output = T> + Send + Sync>(
        &self,
        data: &mut [&mut [T]],
        threads: Threads,
    ) -> Result<()> {
        self.run_watched(data, threads, Watch::default(), &[], &mut |_, _| true)
    }

    /// [`Execution::run`], which `watch` may end; it is told a share of 0 always. `tell` is called in this thread with a rank and the
    /// number of one of `parts` of its buffer that has become final, and ends the run by false.
    ///
    /// # Errors
    /// As [`Execution::run`]; [`Code::Interrupted`], with the data as they then are; [`Code::BadSpec`] as [`Finality::new`].
    pub fn run_watched<T: Copy + Default + Add<Output = T> + Send + Sync>(
        &self,
        data: &mut [&mut [T]],
        threads: Threads,
        watch: Watch,
        parts: &[MemoryPart],
        tell: &mut dyn FnMut(u32, u32) -> bool,
    ) -> Result<()> {
        check_data(&self.schedule, data)?;
        let mut switches: Vec<Vec<T>> = switch_memories(&self.schedule).collect();
        let mut all: Vec<&mut [T]> =
            data.iter_mut().map(|own| &mut **own).chain(switches.iter_mut().map(Vec::as_mut_slice)).collect();
        let (workers, seed) = match threads {
            Threads::Of(threads) => (threads.clamp(1, all.len()), None),
            Threads::Pausing(seed) => (all.len(), Some(seed)),
        };
        if workers > MAX_THREADS {
            return Err(Error::new(Code::TooLarge, format!("{workers} threads; at most {MAX_THREADS} are run")));
        }
        let mut ranks: Vec<(u32, RankProgress)> = (0..).zip(self.ranks.iter().cloned()).collect();
        let is_watched = |id: u32| !parts.is_empty() && id < self.schedule.ranks;
        for (id, rank) in ranks.iter_mut().filter(|(id, _)| is_watched(*id)) {
            rank.watch(Finality::new(&self.schedule, *id, size_of::<T>() as u64, parts)?);
        }
        let shared = SharedState::new(self, &mut all);
        let share = ranks.len().div_ceil(workers);
        thread::scope(|scope| {
            let (news, workers) = channel::<(u32, Vec<u32>)>();
            for (number, mine) in (0u64..).zip(ranks.chunks_mut(share)) {
                let (shared, news) = (&shared, news.clone());
                let random = seed.map(|seed| SplitMix64(seed ^ number << 32));
                scope.spawn(move || Worker { shared, random, news }.run(mine));
            }
            drop(news);
            let (mut outcome, mut looked) = (Ok(()), Instant::now());
            loop {
                match workers.recv_timeout(HEARTBEAT) {
                    Err(RecvTimeoutError::Disconnected) => return outcome,
                    Ok((rank, found)) if outcome.is_ok() && !found.iter().all(|&part| tell(rank, part)) => {
                        outcome = Err(Error::new(Code::Interrupted, "the run was ended"));
                    }
                    _ => {}
                }
                if looked.elapsed() >= HEARTBEAT {
                    looked = Instant::now();
                    outcome = outcome.and_then(|()| watch.at(0, 1));
                }
                if outcome.is_err() {
                    shared.ended.store(true, Ordering::Relaxed);
                    shared.bell.ring();
                }
            }
        })
    }
}

/// The state that all threads share.
struct SharedState<'a, T> {
    schedule: &'a Schedule,
    /// First elements of the pieces.
    cuts: Vec<usize>,
    /// By rank and piece. A proven schedule never lets two wait for each other here.
    buffers: Vec<Vec<RwLock<&'a mut [T]>>>,
    /// By sender and receiver: messages started, and applied.
    streams: HashMap<(u32, u32), (AtomicU64, AtomicU64)>,
    /// Ranks that have reached every barrier.
    barriers: Vec<AtomicUsize>,
    bell: Bell,
    /// Whether the run was interrupted.
    ended: AtomicBool,
}

impl<'a, T> SharedState<'a, T> {
    fn new(execution: &'a Execution, data: &'a mut [&mut [T]]) -> Self {
        let (schedule, size) = (&execution.schedule, size_of::<T>() as u64);
        let cuts: Vec<usize> = execution.cuts.iter().map(|&cut| (cut / size) as usize).collect();
        let pieces = |mut buffer: &'a mut [T]| {
            let mut pieces = Vec::with_capacity(cuts.len());
            for cut in cuts.windows(2) {
                let (piece, rest) = buffer.split_at_mut(cut[1] - cut[0]);
                pieces.push(RwLock::new(piece));
                buffer = rest;
            }
            pieces
        };
        let sends = (0..).zip(&execution.ranks).flat_map(|(from, rank)| {
            rank.streams().filter(|&(_, sends)| sends).map(move |(peer, _)| ((from, peer), Default::default()))
        });
        SharedState {
            schedule,
            buffers: data.iter_mut().map(|buffer| pieces(buffer)).collect(),
            streams: sends.collect(),
            barriers: schedule.phases.iter().filter(|phase| phase.barrier).map(|_| AtomicUsize::new(0)).collect(),
            bell: Bell::default(),
            ended: AtomicBool::new(false),
            cuts,
        }
    }

    /// Pieces that a message carries, lane by lane.
    fn pieces(&self, message: &RankMessage) -> impl Iterator<Item = usize> + '_ {
        let (chunk, size) = (message.chunk, size_of::<T>() as u64);
        let cut = |at: usize| self.cuts.partition_point(|&cut| cut < at);
        self.schedule.transfers[message.transfer as usize].lanes().flat_map(move |lane| {
            let Range { start, end } =
                elements(self.schedule, lane, self.schedule.chunk_range(lane as u32, chunk), size);
            if start < end { cut(start)..cut(end) } else { 0..0 }
        })
    }
}

impl<T: Copy + Default + Add<Output = T>> SharedState<'_, T> {
    /// Adds or stores the data of a message.
    fn apply(&self, message: &RankMessage) {
        let transfer = &self.schedule.transfers[message.transfer as usize];
        let (from, to) = (&self.buffers[transfer.from as usize], &self.buffers[transfer.to as usize]);
        for piece in self.pieces(message) {
            let from = from[piece].read().unwrap_or_else(PoisonError::into_inner);
            let mut to = to[piece].write().unwrap_or_else(PoisonError::into_inner);
            match message.action {
                Action::Reduce => to.iter_mut().zip(from.iter()).for_each(|(own, &other)| *own = *own + other),
                _ => to.copy_from_slice(&from),
            }
        }
    }
}

/// One thread.
struct Worker<'a, T> {
    shared: &'a SharedState<'a, T>,
    random: Option<SplitMix64>,
    /// A rank, and parts of its buffer that are final.
    news: Sender<(u32, Vec<u32>)>,
}

impl<T: Copy + Default + Add<Output = T>> Worker<'_, T> {
    fn run(mut self, ranks: &mut [(u32, RankProgress)]) {
        let mut states: Vec<_> = ranks.iter_mut().map(|(id, rank)| RankState::new(*id, rank)).collect();
        loop {
            let seen = self.shared.bell.version();
            let mut is_done = true;
            let mut has_changed = false;
            for state in &mut states {
                has_changed |= self.advance(state);
                let found = state.rank.final_parts();
                if !found.is_empty() {
                    _ = self.news.send((state.id, found)); // who is told may have gone
                }
                is_done &= state.rank.is_done();
            }
            if has_changed {
                self.shared.bell.ring();
            }
            if is_done || self.shared.ended.load(Ordering::Relaxed) {
                return;
            }
            if !has_changed {
                self.shared.bell.wait(seen);
            }
        }
    }

    /// Does all that a rank can do now; tells whether that was anything.
    fn advance(&mut self, state: &mut RankState) -> bool {
        let mut has_changed = state.pass_barriers(&self.shared.barriers, self.shared.buffers.len());
        for stream in 0..state.streams.len() {
            self.pause();
            let (peer, sends) = state.streams[stream];
            let pair = if sends { (state.id, peer) } else { (peer, state.id) };
            let (started, applied) = &self.shared.streams[&pair];
            let under_way = &mut state.under_way[stream];
            if sends {
                while let Some(message) = state.rank.next_send(stream) {
                    under_way.push_back(message);
                    started.fetch_add(1, Ordering::Release);
                    has_changed = true;
                }
                let gone = applied.load(Ordering::Acquire);
                while state.gone[stream] < gone {
                    let message = under_way.pop_front().expect("what was applied had been started");
                    state.rank.sent(&message);
                    state.gone[stream] += 1;
                    has_changed = true;
                }
                continue;
            }
            let arrived = started.load(Ordering::Acquire);
            while state.gone[stream] < arrived && !self.shared.ended.load(Ordering::Relaxed) {
                if under_way.is_empty() {
                    under_way.extend(state.rank.next_receive(stream));
                }
                let Some(message) = under_way.front().copied().filter(|message| state.rank.may_apply(message)) else {
                    break;
                };
                under_way.pop_front();
                self.shared.apply(&message);
                state.rank.applied(&message);
                applied.fetch_add(1, Ordering::Release);
                state.gone[stream] += 1;
                has_changed = true;
                self.pause();
            }
        }
        has_changed
    }

    /// Lets others go first, sometimes.
    fn pause(&mut self) {
        let Some(random) = &mut self.random else { return };
        match random.next() % 16 {
            0 => thread::sleep(std::time::Duration::from_micros(random.next() % 50)),
            1..4 => thread::yield_now(),
            _ => {}
        }
    }
}

/// A rank and its messages under way.
struct RankState<'a> {
    id: u32,
    rank: &'a mut RankProgress,
    streams: Vec<(u32, bool)>,
    /// By stream: sends not yet applied, or the receive that is due.
    under_way: Vec<std::collections::VecDeque<RankMessage>>,
    /// By stream: messages that both ends are done with.
    gone: Vec<u64>,
    reached: usize,
}

impl<'a> RankState<'a> {
    fn new(id: u32, rank: &'a mut RankProgress) -> Self {
        let streams: Vec<_> = rank.streams().collect();
        let (under_way, gone) = (vec![Default::default(); streams.len()], vec![0; streams.len()]);
        RankState { id, rank, streams, under_way, gone, reached: 0 }
    }

    /// Says which barriers the rank has reached and learns which are open; whether there was news.
    fn pass_barriers(&mut self, barriers: &[AtomicUsize], ranks: usize) -> bool {
        let reached = self.rank.reached();
        let news = reached > self.reached;
        barriers[self.reached..reached].iter().for_each(|barrier| _ = barrier.fetch_add(1, Ordering::AcqRel));
        self.reached = reached;
        self.rank.open(barriers.iter().take_while(|barrier| barrier.load(Ordering::Acquire) == ranks).count());
        news
    }
}

/// Wakes idle threads when something has happened.
#[derive(Default)]
struct Bell {
    version: AtomicU64,
    sleepers: AtomicUsize,
    door: Mutex<()>,
    rung: Condvar,
}

impl Bell {
    fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    fn ring(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(self.door.lock().unwrap_or_else(PoisonError::into_inner));
            self.rung.notify_all();
        }
    }

    /// Waits until it has rung after `seen`.
    fn wait(&self, seen: u64) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let door = self.door.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.rung.wait_while(door, |()| self.version() == seen).unwrap_or_else(PoisonError::into_inner));
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::{Execution, Threads};
    use crate::check_by_threads;
    use crate::fixtures::*;
    use antiphon_base::error::Code;
    use antiphon_base::watch::Watch;

    #[test]
    fn threads_compute_what_is_proven() {
        for (_, schedule) in all() {
            for threads in [Threads::Of(1), Threads::Of(2), Threads::Pausing(0), Threads::Pausing(1)] {
                check_by_threads(&schedule, threads)
                    .unwrap_or_else(|e| panic!("{} {threads:?}: {e}", schedule.algorithm));
            }
        }
    }

    #[test]
    fn a_run_ends_when_it_is_told_to() {
        let (_, ring) = ring_all_reduce(2, 1 << 20, 1 << 16);
        let mut data = vec![vec![1u8; 1 << 20]; 2];
        let mut data: Vec<&mut [u8]> = data.iter_mut().map(|data| &mut data[..]).collect();
        let execution = Execution::new(&ring).unwrap();
        // With pauses it takes over a second.
        let ended =
            execution.run_watched(&mut data, Threads::Pausing(1), Watch::new(&|_| false), &[], &mut |_, _| true);
        assert_eq!(ended.unwrap_err().code, Code::Interrupted);
    }

    #[test]
    fn deadlocks_and_wrong_buffers_are_refused() {
        let (_, mut ring) = ring_all_reduce(2, 64, 1);
        let mut data = [vec![0u32; 16], vec![0; 15]];
        let mut data: Vec<&mut [u32]> = data.iter_mut().map(Vec::as_mut_slice).collect();
        let error = Execution::new(&ring).unwrap().run(&mut data, Threads::Of(2)).unwrap_err();
        assert_has(&error.message, &["16 elements"]);
        ring.transfers[0].start_after = after([2]);
        assert_has(&Execution::new(&ring).unwrap_err().message, &["deadlock"]);
    }

    #[test]
    fn runs_can_be_repeated() {
        let (_, ring) = ring_all_reduce(3, 24, 2);
        let execution = Execution::new(&ring).unwrap();
        let mut data = vec![vec![1u32; 6]; 3];
        for _ in 0..3 {
            let mut data: Vec<&mut [u32]> = data.iter_mut().map(Vec::as_mut_slice).collect();
            execution.run(&mut data, Threads::Of(2)).unwrap();
        }
        assert_eq!(data, vec![vec![27; 6]; 3]);
    }

    #[test]
    fn so_many_pieces_are_refused() {
        let (_, ring) = ring_all_reduce(2, 1 << 27, 1 << 23);
        assert_has(&Execution::new(&ring).unwrap_err().message, &["pieces"]);
    }
}
