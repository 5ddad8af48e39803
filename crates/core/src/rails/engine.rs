//! Times a plan: chunks queue at the dimensions of one NPU that stands for all.

use super::plan::{Plan, Stage};
use super::topology::Topology;
use crate::system::Choice;
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
        let sent: f64 = dimensions.map(|(number, dimension)| self.utilization(number) * dimension.rate.0 as f64).sum();
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

/// A chunk that waits: its priority (smallest first), when it became ready, and its number.
type Waiting = (u64, Picos, u32);

/// An event: time, then arrivals by chunk before dimensions that have served one.
type Event = Reverse<(Picos, u32)>;

/// A dimension, which serves one chunk, or several in equal shares.
#[derive(Default)]
struct Server {
    waiting: Vec<Waiting>,
    /// In service: the service it has had when this one is done, and the span.
    serving: Vec<(u64, Span)>,
    /// Service each chunk in service has had since time 0, in 1 / UNIT of a picosecond.
    served: u64,
    /// When that was.
    at: Picos,
    /// When the next is done.
    due: Picos,
}

impl Server {
    fn advance(&mut self, now: Picos) {
        if !self.serving.is_empty() {
            self.served += (now - self.at) * (UNIT / self.serving.len() as u64);
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

/// The engine, with its memory; reused by searches.
#[derive(Default)]
pub struct Engine {
    /// Stages of all chunks, and where each chunk's start.
    stages: Vec<Stage>,
    starts: Vec<u32>,
    /// Next stage of each chunk.
    next: Vec<u32>,
    servers: Vec<Server>,
    events: BinaryHeap<Event>,
}

impl Engine {
    /// Times `plan`, up to `sharing` chunks at a time on each dimension. It is busy for the time of the
    /// bytes, and a chunk moves on after the latency, which other chunks overlap (reference: Themis
    /// section 4). `done` is called with the dimension and span of everything served. Returns the time of
    /// the last chunk's completion. O(stages * (log stages + waiting chunks)).
    pub fn run(
        &mut self,
        topology: &Topology,
        plan: &Plan,
        queue: Queue,
        sharing: u32,
        mut done: impl FnMut(usize, Span),
    ) -> Picos {
        let (dimensions, chunks) = (topology.dimensions.len(), plan.orders.len() as u32);
        self.stages.clear();
        self.starts.clear();
        for order in &plan.orders {
            self.starts.push(self.stages.len() as u32);
            self.stages.extend(plan.stages(topology, order));
        }
        self.starts.push(self.stages.len() as u32);
        self.next.clear();
        self.next.extend_from_slice(&self.starts[..chunks as usize]);
        self.servers.resize_with(dimensions, Server::default);
        for server in &mut self.servers {
            server.waiting.clear();
            (server.served, server.at, server.due) = (0, 0, 0);
        }
        self.events.clear();
        self.events.extend((0..chunks).map(|chunk| Reverse((0, chunk))));
        let mut end = 0;
        while let Some(Reverse((now, what))) = self.events.pop() {
            if what < chunks {
                let (chunk, index) = (what as usize, self.next[what as usize]);
                if index == self.starts[chunk + 1] {
                    end = end.max(now);
                } else {
                    let stage = &self.stages[index as usize];
                    let last = index + 1 == self.starts[chunk + 1];
                    let waiting = (priority(queue, stage, last), now, what);
                    self.servers[usize::from(stage.dimension)].waiting.push(waiting);
                }
            } else {
                let dimension = (what - chunks) as usize;
                let server = &mut self.servers[dimension];
                // Those that were expected before the number in service changed are void.
                if server.due == now {
                    server.advance(now);
                    while let Some(place) = server.serving.iter().position(|(end, _)| *end <= server.served) {
                        let (_, span) = server.serving.swap_remove(place);
                        let index = self.next[span.chunk as usize];
                        self.next[span.chunk as usize] += 1;
                        let moved_on = now + self.stages[index as usize].latency_ps;
                        self.events.push(Reverse((moved_on, span.chunk)));
                        done(dimension, Span { finish_ps: now, ..span });
                    }
                }
            }
            // All that happens at one moment comes before the choice of what is served next.
            if self.events.peek().is_some_and(|Reverse((time, _))| *time == now) {
                continue;
            }
            for (dimension, server) in self.servers.iter_mut().enumerate() {
                let before = server.serving.len();
                server.advance(now);
                while server.serving.len() < sharing as usize && !server.waiting.is_empty() {
                    let (_, ready_ps, chunk) = take(&mut server.waiting, queue);
                    let index = self.next[chunk as usize];
                    let service = self.stages[index as usize].busy_ps * UNIT;
                    let stage = index - self.starts[chunk as usize];
                    let span = Span { chunk, stage, ready_ps, start_ps: now, finish_ps: now };
                    server.serving.push((server.served + service, span));
                }
                if (server.serving.len() != before || server.due == now)
                    && let Some(due) = server.next_due()
                {
                    self.events.push(Reverse((due, chunks + dimension as u32)));
                }
            }
        }
        end
    }
}

/// Smaller is served first; a chunk of more parts is smaller.
pub(super) fn priority(queue: Queue, stage: &Stage, last: bool) -> u64 {
    match queue {
        Queue::Fifo => 0,
        Queue::SmallestBefore => u64::MAX - stage.parts_before,
        Queue::Tail if last => u64::MAX,
        Queue::Smallest | Queue::Tail => u64::MAX - stage.parts,
    }
}

/// Removes what is served next.
fn take(waiting: &mut Vec<Waiting>, queue: Queue) -> Waiting {
    let newest_first = matches!(queue, Queue::SmallestBefore | Queue::Smallest);
    let key = |&(priority, ready, chunk): &Waiting| {
        if newest_first { (priority, u64::MAX - ready, u32::MAX - chunk) } else { (priority, ready, chunk) }
    };
    let place = (0..waiting.len()).min_by_key(|&place| key(&waiting[place])).expect("something waits");
    waiting.swap_remove(place)
}

/// Times `plan` and keeps what every dimension did; at most [`MAX_SHARING`] chunks share one.
pub fn run(topology: &Topology, plan: &Plan, queue: Queue, sharing: u32) -> Run {
    let dimensions = topology.dimensions.len();
    let (mut spans, mut busy_ps) = (vec![Vec::new(); dimensions], vec![0; dimensions]);
    let sharing = sharing.clamp(1, MAX_SHARING);
    let time_ps = Engine::default().run(topology, plan, queue, sharing, |dimension, span| spans[dimension].push(span));
    for stage in plan.orders.iter().flat_map(|order| plan.stages(topology, order)) {
        busy_ps[usize::from(stage.dimension)] += stage.busy_ps;
    }
    spans.iter_mut().for_each(|spans| spans.sort_by_key(|span| span.start_ps));
    Run { time_ps, spans, busy_ps }
}
