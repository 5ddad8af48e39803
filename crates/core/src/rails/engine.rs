//! Times a plan: chunks queue at the dimensions of one NPU that stands for all.

use super::plan::{Order, Plan, Stage, StageTable};
use super::topology::Topology;
use crate::parameter::Choice;
use crate::units::Picos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Which waiting chunk a dimension takes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Queue {
    /// In order of arrival.
    Fifo,
    /// The smallest before the stage, the newest where several are (ASTRA-sim until April 2022).
    SmallestBefore,
    /// The smallest at its largest, before or after the stage; the newest where several are.
    Smallest,
    /// The smallest at its largest, but chunks in their last stage only when no other waits, since
    /// nothing depends on them; the oldest where several are.
    Tail,
}

impl Choice for Queue {
    const WHAT: &'static str = "queue policy";
    const ALL: &'static [(&'static str, Self)] = &[
        ("fifo", Queue::Fifo),
        ("scf", Queue::Smallest),
        ("scf-before", Queue::SmallestBefore),
        ("tail", Queue::Tail),
    ];
}

/// One chunk in one stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Chunk.
    pub chunk: u32,
    /// Its stage, from 0.
    pub stage: u32,
    /// When it started to wait.
    pub ready_ps: Picos,
    /// When it was first served.
    pub start_ps: Picos,
    /// When it had been served.
    pub finish_ps: Picos,
}

/// A timed plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// When the last chunk was complete.
    pub time_ps: Picos,
    /// For each dimension, what it served, in order of start.
    pub spans: Vec<Vec<Span>>,
    /// For each dimension, the time it was sending.
    pub busy_ps: Vec<Picos>,
}

impl Run {
    /// Share of the run in which dimension `number` was sending.
    pub fn utilization(&self, number: usize) -> f64 {
        self.busy_ps[number] as f64 / self.time_ps.max(1) as f64
    }

    /// Mean utilization of all dimensions, weighted by their rates (Themis paper, section 5).
    pub fn mean_utilization(&self, topology: &Topology) -> f64 {
        let dimensions = topology.dimensions.iter().enumerate();
        let sent: f64 =
            dimensions.map(|(number, dimension)| self.utilization(number) * dimension.npu_rate().0 as f64).sum();
        sent / topology.total_rate() as f64
    }

    /// Share of each of `windows` equal windows of time in which each dimension had a chunk, waiting or
    /// in service: rows are dimensions (Themis paper, Fig. 9).
    pub fn activity(&self, windows: usize) -> Vec<Vec<f64>> {
        let length = self.time_ps.max(1) as f64 / windows as f64;
        let of = |spans: &Vec<Span>| {
            let mut held: Vec<(Picos, Picos)> = spans.iter().map(|span| (span.ready_ps, span.finish_ps)).collect();
            held.sort_unstable();
            let mut shares = vec![0.0; windows];
            let mut covered = 0;
            for (ready, finish) in held {
                let (start, end) = (ready.max(covered) as f64, finish.max(covered) as f64);
                covered = covered.max(finish);
                let first = ((start / length) as usize).min(windows - 1);
                for (window, share) in shares.iter_mut().enumerate().skip(first) {
                    let (low, high) = (window as f64 * length, (window + 1) as f64 * length);
                    if low >= end {
                        break;
                    }
                    *share += (end.min(high) - start.max(low)).max(0.0) / length;
                }
            }
            shares
        };
        self.spans.iter().map(of).collect()
    }
}

/// Most chunks that share a dimension.
pub const MAX_SHARING: u32 = 8;
/// A multiple of 1 to 8, so that equal shares of a dimension are whole numbers.
const UNIT: u64 = 840;

/// A chunk that waits, the next to serve on top: its priority, when it became ready, and its number, the last two
/// [`turned`] where the newest is served first.
type Waiting = Reverse<(u64, Picos, u32)>;

/// An event: time, then arrivals before dimensions that have served a chunk, then its number.
type Event = Reverse<(Picos, bool, u32)>;

/// A dimension, which serves one chunk, or several in equal shares.
#[derive(Default)]
struct Server {
    waiting: BinaryHeap<Waiting>,
    /// In service: the service it has had when this one is done, and the span.
    serving: Vec<(u64, Span)>,
    /// Service each chunk in service has had since time 0, in 1 / UNIT of a picosecond.
    served: u64,
    /// When that was.
    at: Picos,
    /// When the next is done.
    due: Picos,
    /// Time it needs for all chunks that were submitted, and time it has had nothing to serve: it is not done before
    /// their sum.
    needs: Picos,
}

impl Server {
    fn advance(&mut self, now: Picos) {
        match self.serving.len() as u64 {
            0 => self.needs += now - self.at,
            sharing => self.served += (now - self.at) * (UNIT / sharing),
        }
        self.at = now;
    }

    /// When the first in service is done if nothing else comes.
    fn next_due(&mut self) -> Option<Picos> {
        let left = self.serving.iter().map(|(end, _)| end.saturating_sub(self.served)).min()?;
        self.due = self.at + left.div_ceil(UNIT / self.serving.len() as u64);
        Some(self.due)
    }
}

/// A chunk on its way through its stages.
struct Chunk {
    /// Its stages in the engine's list.
    next: u32,
    first: u32,
    end: u32,
}

/// The engine: dimensions that serve chunks, one at a time or up to `sharing` in equal shares. A
/// dimension is busy for the time of the bytes, and a chunk moves on after the latency, which other
/// chunks overlap: Themis (ISCA 2022) leaves that open, and so the means of its Fig. 11 are reached.
pub struct Engine {
    queue: Queue,
    sharing: usize,
    stages: Vec<Stage>,
    chunks: Vec<Chunk>,
    servers: Vec<Server>,
    events: BinaryHeap<Event>,
    /// Stages that were served since the engine was made.
    pub served: u64,
}

impl Engine {
    /// An engine of `dimensions` idle dimensions.
    pub fn new(dimensions: usize, queue: Queue, sharing: u32) -> Engine {
        let mut servers = Vec::new();
        servers.resize_with(dimensions, Server::default);
        let (stages, chunks, events) = (Vec::new(), Vec::new(), BinaryHeap::new());
        let sharing = sharing.clamp(1, MAX_SHARING) as usize;
        Engine { queue, sharing, stages, chunks, servers, events, served: 0 }
    }

    /// Forgets all chunks; keeps the memory.
    pub fn clear(&mut self) {
        self.stages.clear();
        self.chunks.clear();
        self.events.clear();
        for server in &mut self.servers {
            server.waiting.clear();
            server.serving.clear();
            (server.served, server.at, server.due, server.needs) = (0, 0, 0, 0);
        }
    }

    /// Lets a chunk start on its stages at `now`, which is not before any event that was stepped over.
    /// Returns its number: they count from 0.
    pub fn submit(&mut self, now: Picos, stages: impl Iterator<Item = Stage>) -> u32 {
        let first = self.stages.len() as u32;
        for stage in stages {
            self.servers[usize::from(stage.dimension)].needs += stage.busy_ps;
            self.stages.push(stage);
        }
        let chunk = self.chunks.len() as u32;
        self.chunks.push(Chunk { next: first, first, end: self.stages.len() as u32 });
        self.events.push(Reverse((now, false, chunk)));
        chunk
    }

    /// When something happens next.
    pub fn next(&self) -> Option<Picos> {
        self.events.peek().map(|Reverse((time, ..))| *time)
    }

    /// Lets all happen that happens next. `served` is called with the dimension and span of every chunk
    /// that has been served, `complete` with every chunk that is through. O(log chunks).
    pub fn step(&mut self, mut served: impl FnMut(usize, Span), mut complete: impl FnMut(u32)) {
        let Some(now) = self.next() else { return };
        while let Some(&Reverse((time, done, number))) = self.events.peek()
            && time == now
        {
            self.events.pop();
            if done {
                self.leave(number as usize, now, &mut served);
                continue;
            }
            let chunk = &self.chunks[number as usize];
            if chunk.next == chunk.end {
                complete(number);
            } else {
                let stage = &self.stages[chunk.next as usize];
                let (ready, place) = turned(self.queue, now, number);
                let waiting = (priority(self.queue, stage, chunk.next + 1 == chunk.end), ready, place);
                self.servers[usize::from(stage.dimension)].waiting.push(Reverse(waiting));
            }
        }
        // All that happens at one moment comes before the choice of what is served next.
        for dimension in 0..self.servers.len() {
            self.enter(dimension, now);
        }
    }

    /// Chunks that a dimension has served move on.
    fn leave(&mut self, dimension: usize, now: Picos, served: &mut impl FnMut(usize, Span)) {
        let server = &mut self.servers[dimension];
        // What was expected before the number in service changed is void.
        if server.due != now {
            return;
        }
        server.advance(now);
        while let Some(place) = server.serving.iter().position(|(end, _)| *end <= server.served) {
            let (_, span) = server.serving.swap_remove(place);
            let chunk = &mut self.chunks[span.chunk as usize];
            let moved_on = now + self.stages[chunk.next as usize].latency_ps;
            chunk.next += 1;
            self.events.push(Reverse((moved_on, false, span.chunk)));
            self.served += 1;
            served(dimension, Span { finish_ps: now, ..span });
        }
    }

    /// A dimension takes chunks as long as it has room.
    fn enter(&mut self, dimension: usize, now: Picos) {
        let server = &mut self.servers[dimension];
        let before = server.serving.len();
        if server.due != now && (server.waiting.is_empty() || before == self.sharing) {
            return;
        }
        server.advance(now);
        while server.serving.len() < self.sharing
            && let Some(Reverse((_, ready, place))) = server.waiting.pop()
        {
            let (ready_ps, number) = turned(self.queue, ready, place);
            let chunk = &self.chunks[number as usize];
            let service = self.stages[chunk.next as usize].busy_ps * UNIT;
            let span = Span { chunk: number, stage: chunk.next - chunk.first, ready_ps, start_ps: now, finish_ps: now };
            server.serving.push((server.served + service, span));
        }
        if (server.serving.len() != before || server.due == now)
            && let Some(due) = server.next_due()
        {
            self.events.push(Reverse((due, true, dimension as u32)));
        }
    }

    /// Times a plan by itself; `served` as in [`Engine::step`]. O(stages * log chunks).
    pub fn run(&mut self, topology: &Topology, plan: &Plan, mut served: impl FnMut(usize, Span)) -> Picos {
        self.clear();
        for order in &plan.orders {
            self.submit(0, plan.stages(topology, order));
        }
        let mut end = 0;
        while let Some(now) = self.next() {
            self.step(&mut served, |_| end = now);
        }
        end
    }

    /// Times orders whose stages are in `table`; none if they take longer than `most`, which is mostly known early.
    pub fn run_within(&mut self, most: Picos, table: &StageTable, orders: &[Order]) -> Option<Picos> {
        self.clear();
        for order in orders {
            self.submit(0, table.of(order));
        }
        let mut end = 0;
        while self.servers.iter().all(|server| server.needs <= most) {
            let Some(now) = self.next() else { return (end <= most).then_some(end) };
            self.step(|_, _| (), |_| end = now);
        }
        None
    }
}

/// Smaller is served first.
pub(super) fn priority(queue: Queue, stage: &Stage, last: bool) -> u64 {
    match queue {
        Queue::Fifo => 0,
        Queue::SmallestBefore => stage.size_before,
        Queue::Tail if last => u64::MAX,
        Queue::Smallest | Queue::Tail => stage.size,
    }
}

/// Time and number of a chunk that waits, counted from the end where of equals the newest is served first; twice turned
/// they are as before.
pub(super) fn turned(queue: Queue, ready: Picos, number: u32) -> (Picos, u32) {
    match queue {
        Queue::SmallestBefore | Queue::Smallest => (Picos::MAX - ready, u32::MAX - number),
        Queue::Fifo | Queue::Tail => (ready, number),
    }
}

/// Times `plan` and keeps what every dimension did; at most [`MAX_SHARING`] chunks share one.
pub fn run(topology: &Topology, plan: &Plan, queue: Queue, sharing: u32) -> Run {
    let dimensions = topology.dimensions.len();
    let (mut spans, mut busy_ps) = (vec![Vec::new(); dimensions], vec![0; dimensions]);
    let mut engine = Engine::new(dimensions, queue, sharing);
    let time_ps = engine.run(topology, plan, |dimension, span| spans[dimension].push(span));
    for stage in plan.orders.iter().flat_map(|order| plan.stages(topology, order)) {
        busy_ps[usize::from(stage.dimension)] += stage.busy_ps;
    }
    spans.iter_mut().for_each(|spans| spans.sort_by_key(|span| span.start_ps));
    Run { time_ps, spans, busy_ps }
}
