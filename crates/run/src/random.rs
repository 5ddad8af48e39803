//! One message after the other, in schedule order or in a random one.

use super::{elements, gather};
use antiphon_base::watch::interruptible;
use antiphon_model::schedule::{Dependency, Event, Held, LaneId, Op, Schedule, Transfer, TransferId};
use std::collections::HashMap;
use std::ops::{Add, Range};

/// Most messages in flight at once; bounds the memory of a random execution.
const MAX_FLYING: usize = 64;

/// Executes in schedule order.
pub fn in_order<T: Copy + Default + Add<Output = T>>(schedule: &Schedule, data: &mut [Vec<T>]) {
    Executor { schedule, data }.in_order();
}

/// Executes in an order that `seed` chooses.
pub fn shuffled<T: Copy + Default + Add<Output = T>>(schedule: &Schedule, data: &mut [Vec<T>], seed: u64) {
    Executor { schedule, data }.shuffled(SplitMix64(seed));
}

/// One chunk of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct TransferChunk {
    transfer: TransferId,
    chunk: u64,
}

struct Executor<'a, T> {
    schedule: &'a Schedule,
    data: &'a mut [Vec<T>],
}

impl<T: Copy + Default + Add<Output = T>> Executor<'_, T> {
    fn transfer(&self, message: TransferChunk) -> &Transfer {
        &self.schedule.transfers[message.transfer as usize]
    }

    /// Where the message's data is, lane by lane.
    fn ranges(&self, message: TransferChunk) -> Vec<Range<usize>> {
        let (schedule, size) = (self.schedule, size_of::<T>() as u64);
        let range = |lane| elements(schedule, lane, schedule.chunk_range(lane as LaneId, message.chunk), size);
        self.transfer(message).lanes().map(range).collect()
    }

    fn read(&self, rank: u32, message: TransferChunk) -> Vec<T> {
        let mut payload = vec![];
        gather(&self.ranges(message), &self.data[rank as usize], &mut payload);
        payload
    }

    fn write(&mut self, message: TransferChunk, op: Op, payload: &[T]) {
        let to = self.transfer(message).to as usize;
        let mut rest = payload;
        for range in self.ranges(message) {
            let (now, later) = rest.split_at(range.len());
            let own = &mut self.data[to][range];
            match op {
                Op::Reduce => own.iter_mut().zip(now).for_each(|(own, &other)| *own = *own + other),
                Op::Copy => own.copy_from_slice(now),
            }
            rest = later;
        }
    }

    fn in_order(&mut self) {
        let order = self.schedule.order();
        let mut held: HashMap<TransferChunk, Vec<T>> = HashMap::new();
        for turn in interruptible(Held::of(self.schedule).turns(&order)) {
            let id = order[turn.at as usize];
            for chunk in interruptible(0..self.schedule.chunks(&self.schedule.transfers[id as usize])) {
                let message = TransferChunk { transfer: id, chunk };
                let payload = match held.remove(&message) {
                    Some(payload) => payload,
                    None => self.read(self.transfer(message).from, message),
                };
                match turn.applies {
                    true => self.write(message, self.transfer(message).op, &payload),
                    false => drop(held.insert(message, payload)),
                }
            }
        }
    }

    fn shuffled(&mut self, mut random: SplitMix64) {
        let mut tracker = DependencyTracker::new(self.schedule);
        let mut flying: Vec<(TransferChunk, Op, Vec<T>)> = Vec::new();
        // Started, but not read; read, but held at their receivers.
        let mut unsent: Vec<TransferChunk> = Vec::new();
        let mut held: HashMap<TransferChunk, Vec<T>> = HashMap::new();
        // Some runs start as much as they can before anything is applied, some hardly anything.
        let eagerness = 1 + random.below(15);
        for _ in interruptible(0u64..) {
            let may_start = !tracker.ready.is_empty() && flying.len() + unsent.len() < MAX_FLYING;
            let mut read = None;
            if !unsent.is_empty() && (flying.is_empty() && !may_start || random.below(16) < 4) {
                read = Some(unsent.swap_remove(random.below(unsent.len())));
            } else if may_start && (flying.is_empty() || random.below(16) < eagerness) {
                let message = tracker.ready.swap_remove(random.below(tracker.ready.len()));
                match tracker.awaits_sending(message.transfer) {
                    true => unsent.push(message),
                    false => read = Some(message),
                }
            } else if !flying.is_empty() {
                let (message, op, payload) = flying.swap_remove(random.below(flying.len()));
                self.write(message, op, &payload);
                tracker.happened(message, Event::Applied);
                tracker.applied(message);
            } else if unsent.is_empty() {
                return;
            }
            if let Some(message) = read {
                let transfer = self.transfer(message);
                held.insert(message, self.read(transfer.from, message));
                tracker.happened(message, Event::Sent);
                tracker.arrived(message);
            }
            for message in tracker.released.drain(..) {
                let mut payload = held.remove(&message).expect("it was held");
                let transfer = self.transfer(message);
                let mut op = transfer.op;
                if op == Op::Reduce && !self.schedule.endpoint.serial_reductions {
                    let own = self.read(transfer.to, message);
                    payload.iter_mut().zip(own).for_each(|(value, own)| *value = own + *value);
                    op = Op::Copy;
                }
                flying.push((message, op, payload));
            }
        }
    }
}

/// The messages that may start or be applied next.
struct DependencyTracker<'a> {
    schedule: &'a Schedule,
    /// Index of the first message of every transfer; how many events each message waits for to start, and to be applied
    /// (its arrival is one).
    first: Vec<usize>,
    starts: Vec<u32>,
    applies: Vec<u32>,
    /// The dependents of transfer `i` are `dependents[range[i]..range[i + 1]]`.
    range: Vec<usize>,
    dependents: Vec<Dependent>,
    /// Messages left in every phase; all phases below `open` are complete.
    left: Vec<u64>,
    open: usize,
    /// Messages that only wait for the barrier of their phase, by phase.
    gated: Vec<Vec<TransferChunk>>,
    ready: Vec<TransferChunk>,
    /// Messages that have arrived and may be applied.
    released: Vec<TransferChunk>,
}

/// A transfer that waits for another.
#[derive(Clone, Copy)]
struct Dependent {
    transfer: TransferId,
    /// The other, and its event.
    what: Dependency,
    /// Whether it waits at its receiver.
    to_apply: bool,
}

impl<'a> DependencyTracker<'a> {
    fn new(schedule: &'a Schedule) -> Self {
        let transfers = &schedule.transfers;
        let mut range = vec![0; transfers.len() + 1];
        for other in transfers.iter().flat_map(Transfer::dependencies) {
            range[other.transfer() as usize + 1] += 1;
        }
        for i in 1..range.len() {
            range[i] += range[i - 1];
        }
        let mut next = range.clone();
        let nobody = Dependent { transfer: 0, what: 0.into(), to_apply: false };
        let mut dependents = vec![nobody; range[transfers.len()]];
        for (id, transfer) in transfers.iter().enumerate() {
            let starts = transfer.start_after.iter().map(|&what| (what, false));
            for (what, to_apply) in starts.chain(transfer.apply_after.iter().map(|&what| (what, true))) {
                let place = &mut next[what.transfer() as usize];
                dependents[*place] = Dependent { transfer: id as TransferId, what, to_apply };
                *place += 1;
            }
        }
        let mut tracker = DependencyTracker {
            schedule,
            first: Vec::with_capacity(transfers.len()),
            starts: vec![],
            applies: vec![],
            range,
            dependents,
            left: vec![0; schedule.phases.len()],
            open: 0,
            gated: vec![Vec::new(); schedule.phases.len()],
            ready: vec![],
            released: vec![],
        };
        for transfer in transfers {
            let chunks = schedule.chunks(transfer);
            tracker.first.push(tracker.starts.len());
            let count =
                |after: &[Dependency], chunk: u64| after.iter().filter(|o| o.lag() as u64 <= chunk).count() as u32;
            tracker.starts.extend((0..chunks).map(|chunk| count(&transfer.start_after, chunk)));
            tracker.applies.extend((0..chunks).map(|chunk| 1 + count(&transfer.apply_after, chunk)));
            tracker.left[transfer.phase as usize] += chunks;
        }
        for (id, transfer) in (0..).zip(transfers) {
            for chunk in 0..schedule.chunks(transfer) {
                let message = TransferChunk { transfer: id, chunk };
                if tracker.starts[tracker.index(message)] == 0 {
                    tracker.release(message);
                }
            }
        }
        tracker.open_phases();
        tracker
    }

    fn index(&self, message: TransferChunk) -> usize {
        self.first[message.transfer as usize] + message.chunk as usize
    }

    /// Whether some transfer waits for this one to be sent.
    fn awaits_sending(&self, id: TransferId) -> bool {
        let range = self.range[id as usize]..self.range[id as usize + 1];
        self.dependents[range].iter().any(|dependent| dependent.what.event() == Event::Sent)
    }

    fn release(&mut self, message: TransferChunk) {
        let phase = self.schedule.transfers[message.transfer as usize].phase as usize;
        if self.schedule.phases[phase].barrier && phase > self.open {
            self.gated[phase].push(message);
        } else {
            self.ready.push(message);
        }
    }

    /// An event of a message, for which others may have waited.
    fn happened(&mut self, message: TransferChunk, event: Event) {
        let id = message.transfer as usize;
        for at in self.range[id]..self.range[id + 1] {
            let Dependent { transfer, what, to_apply } = self.dependents[at];
            let waiting = TransferChunk { transfer, chunk: message.chunk + what.lag() as u64 };
            let chunks = self.schedule.chunks(&self.schedule.transfers[transfer as usize]);
            if what.event() != event || waiting.chunk >= chunks {
                continue;
            }
            if to_apply {
                self.arrived(waiting);
            } else {
                let index = self.index(waiting);
                self.starts[index] -= 1;
                if self.starts[index] == 0 {
                    self.release(waiting);
                }
            }
        }
    }

    /// One of the events that a message waits for at its receiver has happened.
    fn arrived(&mut self, message: TransferChunk) {
        let index = self.index(message);
        self.applies[index] -= 1;
        if self.applies[index] == 0 {
            self.released.push(message);
        }
    }

    fn applied(&mut self, message: TransferChunk) {
        self.left[self.schedule.transfers[message.transfer as usize].phase as usize] -= 1;
        self.open_phases();
    }

    fn open_phases(&mut self) {
        while self.left.get(self.open) == Some(&0) {
            self.open += 1;
            if let Some(gated) = self.gated.get_mut(self.open) {
                self.ready.append(gated);
            }
        }
    }
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): same seed, same execution, on every machine.
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which is positive.
    fn below(&mut self, limit: usize) -> usize {
        ((self.next() as u128 * limit as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::super::execute;
    use super::*;
    use crate::fixtures::*;
    use antiphon_base::error::Code;

    #[test]
    fn sums_floats() {
        let (_, ring) = ring_all_reduce(4, 64, 1);
        for seed in [None, Some(1)] {
            let mut data: Vec<Vec<f32>> = (0..4).map(|rank| vec![rank as f32; 16]).collect();
            execute(&ring, &mut data, seed).unwrap();
            assert_eq!(data, vec![vec![6.0; 16]; 4]);
        }
    }

    #[test]
    fn sizes_must_fit() {
        let (_, ring) = ring_all_reduce(4, 64, 1);
        let error = execute(&ring, &mut vec![vec![0u32; 15]; 4], None).unwrap_err();
        assert_eq!(error.code, Code::BadSize);
        assert_has(&error.message, &["expected 4 buffers of 16 elements of 4 bytes"]);
        let (_, odd) = ring_all_reduce(3, 50, 1);
        let error = execute(&odd, &mut vec![vec![0u32; 12]; 3], None).unwrap_err();
        assert_has(&error.message, &["the buffer of 50 bytes is no whole number of 4-byte elements"]);
        // Chunks of 20 bytes end before the element that they would end in.
        let (_, tree) = tree_all_reduce(4, 80, 4);
        let mut data = vec![vec![1u64; 10]; 4];
        execute(&tree, &mut data, Some(1)).unwrap();
        assert_eq!(data, vec![vec![4; 10]; 4]);
        assert_eq!(execute(&odd, &mut vec![vec![std::num::Wrapping(0u8); 50]; 3], None), Ok(()));
    }

    #[test]
    fn absurd_chunk_counts_are_refused() {
        let (_, mut tree) = tree_all_reduce(4, 64, 1);
        tree.lanes[0].chunks = 1 << 40;
        let error = execute(&tree, &mut vec![vec![0u8; 64]; 4], Some(1)).unwrap_err();
        assert_eq!(error.code, Code::TooLarge);
    }

    #[test]
    fn deadlocks_are_refused() {
        let (_, mut ring) = ring_all_reduce(2, 64, 1);
        ring.transfers[0].start_after = [2.into()].into_iter().collect();
        let error = execute(&ring, &mut vec![vec![0u32; 16]; 2], Some(1)).unwrap_err();
        assert_has(&error.message, &["deadlock"]);
    }

    #[test]
    fn random_numbers_are_those_published() {
        // Of the reference implementation (Vigna, splitmix64.c), seed 1234567.
        let mut random = SplitMix64(1_234_567);
        for expected in [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423] {
            assert_eq!(random.next(), expected);
        }
        let mut drawn = [0; 5];
        (0..1000).for_each(|_| drawn[random.below(5)] += 1);
        assert!(drawn.iter().all(|count| (150..250).contains(count)), "{drawn:?}");
    }

    /// Numbers whose sum says in which order they were added.
    #[derive(Clone, Copy, Default)]
    struct Digits(u64);

    impl Add for Digits {
        type Output = Digits;
        fn add(self, other: Digits) -> Digits {
            Digits(10 * self.0 + other.0)
        }
    }

    /// On every machine; the orders are those of another program that draws the same numbers.
    #[test]
    fn the_same_seed_gives_the_same_execution() {
        const ORDERS: [u64; 6] = [2_614_530, 2_534_601, 2_513_604, 2_514_306, 2_614_530, 2_015_346];
        let (_, star) = star_reduce(7, 8);
        let order = |seed| {
            let mut data: Vec<Vec<Digits>> = (0..7).map(|rank| vec![Digits(rank)]).collect();
            execute(&star, &mut data, seed).unwrap();
            data[2][0].0
        };
        assert_eq!(order(None), 2_013_456);
        assert_eq!([0, 1, 2, 3, 4, 5].map(|seed| order(Some(seed))), ORDERS);
    }

    /// Four ranks copy to a fifth at once: whichever is applied last stays, and each of them is at times.
    #[test]
    fn messages_are_applied_in_every_order() {
        let (_, mut star) = star_reduce(5, 4);
        star.transfers.iter_mut().for_each(|transfer| transfer.op = Op::Copy);
        let mut last = [0; 5];
        for seed in 0..400 {
            let mut data: Vec<Vec<u32>> = (0..5).map(|rank| vec![rank]).collect();
            execute(&star, &mut data, Some(seed)).unwrap();
            last[data[2][0] as usize] += 1;
        }
        assert!(last[2] == 0 && [0, 1, 3, 4].iter().all(|&rank| (60..140).contains(&last[rank])), "{last:?}");
    }

    /// Two ranks exchange numbers: each sends what it has had, or what it has just received.
    #[test]
    fn messages_start_before_others_are_applied_or_after() {
        let (_, mut pair) = ring_all_reduce(2, 8, 1);
        pair.transfers.truncate(2);
        pair.transfers.iter_mut().for_each(|t| (t.payload, t.op) = ((0..2).into(), Op::Copy));
        let mut seen = [0; 3];
        for seed in 0..200 {
            let mut data = vec![vec![0u32, 0], vec![1, 1]];
            execute(&pair, &mut data, Some(seed)).unwrap();
            let ends = [[1, 0], [0, 0], [1, 1]];
            seen[ends.iter().position(|end| *end == [data[0][0], data[1][0]]).unwrap()] += 1;
        }
        assert!(seen.iter().all(|&count| count > 20), "{seen:?}");
    }
}
