//! Times orders by the thousand, as a search does.
//!
//! Apart from the engine, which also has servers that share or interrupt, rooms and spans: a search of orders for whole
//! dimensions needs none of them, and without them takes about 0.7 of the time (`cargo bench --features bench --bench rails -- search`).

use crate::rails::orders::{ChunkOrder, StageTable};
use crate::rails::stage_loop::{QueuePolicy, StageLoop, priority, turned};
use antiphon_base::units::Picos;
use antiphon_base::watch::checkpoint;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Orders of so few chunks come again and again in a search: there are few, or few that are one change away.
const FEW_CHUNKS: usize = 8;
/// Most orders whose times are kept.
const MOST_KNOWN: usize = 1 << 14;

/// Times orders whose stages are in a table, with one queue policy.
pub struct Timing<'a> {
    servers: Servers<'a>,
    /// Times of orders that were within `most` or not, and stages that were served until that was known.
    known: FxHashMap<Vec<ChunkOrder>, (Option<Picos>, u64)>,
    most: Picos,
    served: u64,
}

impl<'a> Timing<'a> {
    /// At most `sharing` chunks share a dimension.
    pub fn new(table: &'a StageTable, queue: QueuePolicy, sharing: u32) -> Timing<'a> {
        let servers = match sharing {
            0 | 1 => Servers::Alone(Alone::new(table, queue)),
            _ => Servers::Shared(StageLoop::new(table.dimensions(), queue, sharing), table),
        };
        Timing { servers, known: FxHashMap::default(), most: Picos::MAX, served: 0 }
    }

    /// The time of these orders, in picoseconds; none if they take longer than `most`, which is mostly known early.
    /// O(stages * log chunks), or O(chunks) where it is known.
    pub fn run_within(&mut self, most: Picos, orders: &[ChunkOrder]) -> Option<Picos> {
        if self.most != most {
            self.known.clear();
            self.most = most;
        }
        if let Some(&(time, served)) = self.known.get(orders) {
            self.served += served;
            return time;
        }
        let before = self.servers.served();
        let time = self.servers.run_within(most, orders);
        let served = self.servers.served() - before;
        self.served += served;
        if orders.len() <= FEW_CHUNKS && self.known.len() < MOST_KNOWN {
            self.known.insert(orders.to_vec(), (time, served));
        }
        time
    }

    /// Stages that were served so far, those of known orders among them: so a search tries as many orders either way.
    pub fn served(&self) -> u64 {
        self.served
    }
}

enum Servers<'a> {
    /// One chunk after another on every dimension.
    Alone(Alone<'a>),
    /// Several that share it.
    Shared(StageLoop, &'a StageTable),
}

impl Servers<'_> {
    fn run_within(&mut self, most: Picos, orders: &[ChunkOrder]) -> Option<Picos> {
        match self {
            Servers::Alone(alone) => alone.run_within(most, orders),
            Servers::Shared(engine, table) => engine.run_within(most, table, orders),
        }
    }

    fn served(&self) -> u64 {
        match self {
            Servers::Alone(alone) => alone.served,
            Servers::Shared(engine, _) => engine.served,
        }
    }
}

/// Dimensions that serve one chunk after another.
struct Alone<'a> {
    queue: QueuePolicy,
    table: &'a StageTable,
    /// By place in the table.
    services: Vec<DimensionService>,
    /// Places of the stages of every chunk, chunk by chunk.
    steps: Vec<u16>,
    /// By chunk: its next step.
    next: Vec<u32>,
    dimensions: Vec<TimedDimension>,
    served: u64,
}

/// A stage at its dimension.
struct DimensionService {
    dimension: u8,
    /// Places among all priorities, smaller is served first: where more stages follow, and where none does.
    priorities: [u16; 2],
    busy_ps: Picos,
}

#[derive(Default)]
struct TimedDimension {
    latency_ps: Picos,
    /// Priority, time of arrival where that counts, and number of every chunk that waits, from the highest bit on.
    waiting: BinaryHeap<Reverse<u128>>,
    /// The chunk in service, and when it is done.
    serving: Option<(Picos, u32)>,
    /// Chunks that were served and when they move on, the first in front: the latency is the same for all.
    moving: VecDeque<(Picos, u32)>,
    /// Since when it has nothing to serve, where that is so.
    idle_since: Picos,
    /// Time it needs for all chunks, and time it has had nothing to serve: it is not done before their sum.
    needs: Picos,
}

impl<'a> Alone<'a> {
    fn new(table: &'a StageTable, queue: QueuePolicy) -> Alone<'a> {
        let stages = table.stages();
        let of = |place: usize| {
            let sizes = (stages[place].size_before, stages[place].size);
            [false, true].map(|last| priority(queue, sizes, last))
        };
        let mut all: Vec<u64> = (0..stages.len()).flat_map(of).collect();
        all.sort_unstable();
        all.dedup();
        let mut dimensions = Vec::new();
        dimensions.resize_with(table.dimensions(), TimedDimension::default);
        let services = stages.iter().enumerate().map(|(place, stage)| {
            dimensions[usize::from(stage.dimension)].latency_ps = stage.latency_ps;
            let priorities = of(place).map(|value| all.partition_point(|&other| other < value) as u16);
            DimensionService { dimension: stage.dimension, priorities, busy_ps: stage.busy_ps }
        });
        let services = services.collect();
        Alone { queue, table, services, steps: Vec::new(), next: Vec::new(), dimensions, served: 0 }
    }

    fn run_within(&mut self, most: Picos, orders: &[ChunkOrder]) -> Option<Picos> {
        checkpoint();
        let length = self.submit(orders);
        let (mut now, mut end) = (0, 0);
        loop {
            for number in 0..self.dimensions.len() {
                self.enter(number, now);
            }
            if self.dimensions.iter().any(|dimension| dimension.needs > most) {
                return None;
            }
            let Some(next) = self.dimensions.iter().filter_map(TimedDimension::next).min() else {
                return (end <= most).then_some(end);
            };
            now = next;
            // All that happens at one moment comes before the choice of what is served next.
            self.dimensions.iter_mut().for_each(|dimension| self.served += u64::from(dimension.leave(now)));
            for number in 0..self.dimensions.len() {
                let moving =
                    |alone: &Self| alone.dimensions[number].moving.front().is_some_and(|(time, _)| *time == now);
                while moving(self)
                    && let Some((_, chunk)) = self.dimensions[number].moving.pop_front()
                {
                    if self.next[chunk as usize] == (chunk + 1) * length {
                        end = now;
                    } else {
                        self.wait(chunk, now, length);
                    }
                }
            }
        }
    }

    /// All chunks wait for their first stage; returns how many stages each has.
    fn submit(&mut self, orders: &[ChunkOrder]) -> u32 {
        self.steps.clear();
        self.next.clear();
        self.dimensions.iter_mut().for_each(TimedDimension::clear);
        for order in orders {
            self.next.push(self.steps.len() as u32);
            for place in self.table.places(order) {
                let service = &self.services[place];
                self.dimensions[usize::from(service.dimension)].needs += service.busy_ps;
                self.steps.push(place as u16);
            }
        }
        let length = (self.steps.len() / orders.len().max(1)) as u32;
        if length > 0 {
            (0..orders.len() as u32).for_each(|chunk| self.wait(chunk, 0, length));
        }
        length
    }

    /// A chunk waits for its next stage.
    fn wait(&mut self, chunk: u32, now: Picos, length: u32) {
        let next = self.next[chunk as usize];
        let service = &self.services[usize::from(self.steps[next as usize])];
        let priority = service.priorities[usize::from(next + 1 == (chunk + 1) * length)];
        let ready = if self.queue == QueuePolicy::Oldest { 0 } else { now };
        let (ready, place) = turned(self.queue, ready, chunk);
        let waiting = u128::from(priority) << 96 | u128::from(ready) << 32 | u128::from(place);
        self.dimensions[usize::from(service.dimension)].waiting.push(Reverse(waiting));
    }

    /// A dimension that has nothing to serve takes the next chunk.
    fn enter(&mut self, number: usize, now: Picos) {
        let dimension = &mut self.dimensions[number];
        if dimension.serving.is_none()
            && let Some(Reverse(waiting)) = dimension.waiting.pop()
        {
            let (_, chunk) = turned(self.queue, 0, waiting as u32);
            let next = &mut self.next[chunk as usize];
            let service = &self.services[usize::from(self.steps[*next as usize])];
            *next += 1;
            dimension.needs += now - dimension.idle_since;
            dimension.serving = Some((now + service.busy_ps, chunk));
        }
    }
}

impl TimedDimension {
    fn clear(&mut self) {
        self.waiting.clear();
        self.moving.clear();
        (self.serving, self.idle_since, self.needs) = (None, 0, 0);
    }

    /// When something happens next.
    fn next(&self) -> Option<Picos> {
        let served = self.serving.map(|(time, _)| time);
        served.into_iter().chain(self.moving.front().map(|(time, _)| *time)).min()
    }

    /// The chunk that has been served moves on; whether there is one.
    fn leave(&mut self, now: Picos) -> bool {
        let Some((_, chunk)) = self.serving.take_if(|(due, _)| *due == now) else { return false };
        self.moving.push_back((now + self.latency_ps, chunk));
        self.idle_since = now;
        true
    }
}
