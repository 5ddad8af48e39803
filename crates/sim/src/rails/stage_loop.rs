//! Times a plan: chunks queue at the dimensions of one NPU that stands for all, and at its endpoint where that is
//! modelled (`stage_endpoint.rs`).

use super::orders::{ChunkOrder, RailsPlan, Stage, StageTable};
use super::stage_use::{ChunkHolds, EndpointUse, RoomUse, RoomUses};
use antiphon_base::parameter::Choice;
use antiphon_base::units::Picos;
use antiphon_base::watch::checkpoint;
use antiphon_model::topology::Topology;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Which waiting chunk a dimension takes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QueuePolicy {
    /// In order of arrival.
    Fifo,
    /// The smallest before the stage, the newest where several are (ASTRA-sim until April 2022).
    SmallestBefore,
    /// The smallest at its largest, before or after the stage; the newest where several are.
    Smallest,
    /// The smallest at its largest, but chunks in their last stage only when no other waits, since
    /// nothing depends on them; the oldest where several are.
    Tail,
    /// The one that goes first: the oldest, or the one of the collective that the order says.
    Oldest,
}

impl Choice for QueuePolicy {
    const WHAT: &'static str = "queue policy";
    const ALL: &'static [(&'static str, Self)] = &[
        ("fifo", QueuePolicy::Fifo),
        ("scf", QueuePolicy::Smallest),
        ("scf-before", QueuePolicy::SmallestBefore),
        ("tail", QueuePolicy::Tail),
        ("oldest", QueuePolicy::Oldest),
    ];
}

/// One chunk in one stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageSpan {
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
#[derive(Debug, Clone, PartialEq)]
pub struct RailsTimes {
    /// When the last chunk was complete.
    pub time_ps: Picos,
    /// For each dimension, what it served, in order of start.
    pub spans: Vec<Vec<StageSpan>>,
    /// For each dimension, the time it was sending.
    pub busy_ps: Vec<Picos>,
    /// At an endpoint, what its parts did.
    pub endpoint: Option<EndpointUse>,
}

impl RailsTimes {
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
        let of = |spans: &Vec<StageSpan>| {
            let mut held: Vec<(Picos, Picos)> = spans.iter().map(|span| (span.ready_ps, span.finish_ps)).collect();
            held.sort_unstable();
            let mut shares = vec![0.0; windows];
            let mut covered = 0;
            for (ready, finish) in held {
                let (start, end) = (ready.max(covered) as f64, finish.max(covered) as f64);
                covered = covered.max(finish);
                spread(&mut shares, length, start, end);
            }
            shares
        };
        self.spans.iter().map(of).collect()
    }
}

/// Adds the time from `start` to `end` to the shares of equal windows of a length.
pub fn spread(shares: &mut [f64], length: f64, start: f64, end: f64) {
    let first = ((start / length) as usize).min(shares.len().saturating_sub(1));
    for (window, share) in shares.iter_mut().enumerate().skip(first) {
        let (low, high) = (window as f64 * length, (window + 1) as f64 * length);
        if low >= end {
            break;
        }
        *share += (end.min(high) - start.max(low)).max(0.0) / length;
    }
}

/// Most chunks that share a dimension.
pub const MAX_SHARING: u32 = 8;
/// A multiple of 1 to 8, so that equal shares of a dimension are whole numbers.
const UNIT: u64 = 840;

/// What a chunk does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It is served, for which it may have to wait.
    Serve(StageService),
    /// It takes so much of a room, such as SRAM or state machines, when there is so much.
    Take(u8, u64),
    /// It gives that back.
    Give(u8, u64),
}

/// A chunk at a server: a dimension, one direction of it, or a part of the endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageService {
    /// Which.
    pub server: u8,
    /// The stage that it is of.
    pub stage: u8,
    /// As [`Stage::size`].
    pub size: u64,
    /// As [`Stage::size_before`].
    pub size_before: u64,
    /// Time the server is busy.
    pub busy_ps: Picos,
    /// Latency after which the chunk moves on.
    pub latency_ps: Picos,
    /// How much earlier it moves on: what is forwarded need not be complete.
    pub early_ps: Picos,
}

impl StageService {
    /// A whole stage on its dimension.
    pub fn of(number: usize, stage: Stage) -> StageService {
        let Stage { dimension, size, size_before, busy_ps, latency_ps, .. } = stage;
        StageService { server: dimension, stage: number as u8, size, size_before, busy_ps, latency_ps, early_ps: 0 }
    }
}

/// A chunk that waits, the next to serve on top: its priority, when it became ready where that counts, and its number,
/// the last two [`turned`] where the newest is served first.
type WaitingSteps = Reverse<(u64, Picos, u32)>;

/// An event: time, then arrivals before dimensions that have served a chunk, then its number.
type StageEvent = Reverse<(Picos, bool, u32)>;

/// A chunk in service.
struct Serving {
    /// The service its server has given when it is done, or before that when it moves on.
    end: u64,
    /// Until it has moved on: how much of it is left then.
    rest: Option<u64>,
    span: StageSpan,
}

/// A dimension, which serves one chunk, or several in equal shares.
#[derive(Default)]
struct Server {
    waiting: BinaryHeap<WaitingSteps>,
    serving: Vec<Serving>,
    /// Whether an older chunk interrupts the one in service.
    interrupts: bool,
    /// Those that were interrupted, the oldest on top: `end` is the service they still need.
    interrupted: Vec<Serving>,
    /// Service each chunk in service has had since time 0, in 1 / UNIT of a picosecond.
    served: u64,
    /// When that was.
    at: Picos,
    /// When the next is done.
    due: Picos,
    /// Time it needs for all chunks that were submitted, and time it has had nothing to serve: it is not done before
    /// their sum.
    needs: Picos,
    /// Time that chunks waited for it, together.
    waited_ps: u128,
}

impl Server {
    fn advance(&mut self, now: Picos) {
        match self.serving.len() as u64 {
            0 => self.needs += now - self.at,
            sharing => self.served += (now - self.at) * (UNIT / sharing),
        }
        self.at = now;
    }

    /// Puts aside what is served for an older chunk, or goes on with what was put aside; whether it did.
    fn give_way(&mut self, chunks: &[Chunk]) -> bool {
        let place = |of: &Serving| Reverse((chunks[of.span.chunk as usize].rank, 0, of.span.chunk));
        let first = self.waiting.peek();
        // Of reversed places the largest is the oldest.
        if let Some(mut of) = self.serving.pop_if(|of| first > Some(&place(of))) {
            of.end -= self.served;
            self.interrupted.push(of);
            return true;
        }
        let goes_on = self.serving.is_empty();
        let Some(mut of) = self.interrupted.pop_if(|of| goes_on && first <= Some(&place(of))) else { return false };
        of.end += self.served;
        self.serving.push(of);
        true
    }

    /// When the first in service is done if nothing else comes.
    fn next_due(&mut self) -> Option<Picos> {
        let left = self.serving.iter().map(|of| of.end.saturating_sub(self.served)).min()?;
        self.due = self.at + left.div_ceil(UNIT / self.serving.len() as u64);
        Some(self.due)
    }
}

/// Something of which chunks hold parts.
struct Room {
    free: u64,
    /// Chunks that wait for a part.
    waiting: BinaryHeap<WaitingSteps>,
}

/// A chunk on its way through its steps.
struct Chunk {
    /// Its steps in the loop's list.
    next: u32,
    end: u32,
    /// Who goes first in [`QueuePolicy::Oldest`].
    rank: u64,
    /// Since when it waits.
    ready_ps: Picos,
    place: ChunkHolds,
}

/// An event loop: dimensions that serve chunks, one at a time or up to `sharing` in equal shares. A
/// dimension is busy for the time of the bytes, and a chunk moves on after the latency, which other
/// chunks overlap: Themis (ISCA 2022) leaves that open, and so the means of its Fig. 11 are reached.
pub struct StageLoop {
    queue: QueuePolicy,
    sharing: usize,
    steps: Vec<Step>,
    chunks: Vec<Chunk>,
    servers: Vec<Server>,
    rooms: Vec<Room>,
    /// What they did.
    uses: RoomUses,
    events: BinaryHeap<StageEvent>,
    /// Stages that were served since the loop was made.
    pub served: u64,
}

impl StageLoop {
    /// A loop of so many idle servers.
    pub fn new(servers: usize, queue: QueuePolicy, sharing: u32) -> StageLoop {
        let count = servers;
        let mut servers = Vec::new();
        servers.resize_with(count, Server::default);
        let (steps, chunks, rooms, events) = (Vec::new(), Vec::new(), Vec::new(), BinaryHeap::new());
        let sharing = sharing.clamp(1, MAX_SHARING) as usize;
        StageLoop { queue, sharing, steps, chunks, servers, rooms, uses: RoomUses::default(), events, served: 0 }
    }

    /// The same with rooms of these sizes.
    pub fn with_rooms(mut self, sizes: &[u64]) -> StageLoop {
        self.rooms = sizes.iter().map(|&free| Room { free, waiting: BinaryHeap::new() }).collect();
        self.uses.0 = vec![RoomUse::default(); sizes.len()];
        self
    }

    /// The same with a server at which the oldest does not wait for the end of what is served, either.
    pub fn with_interrupts(mut self, server: u8) -> StageLoop {
        self.servers[usize::from(server)].interrupts = self.queue == QueuePolicy::Oldest && self.sharing == 1;
        self
    }

    /// Time that chunks waited for a server, together.
    pub(super) fn waited_ps(&self, server: usize) -> u128 {
        self.servers[server].waited_ps
    }

    /// What the rooms did.
    pub(super) fn room_uses(&self) -> &[RoomUse] {
        &self.uses.0
    }

    /// Forgets all chunks; keeps the memory.
    pub fn clear(&mut self) {
        self.steps.clear();
        self.chunks.clear();
        self.events.clear();
        for server in &mut self.servers {
            server.waiting.clear();
            server.serving.clear();
            server.interrupted.clear();
            (server.served, server.at, server.due, server.needs, server.waited_ps) = (0, 0, 0, 0, 0);
        }
    }

    /// Lets a chunk start on its stages at `now`, which is not before any event that was stepped over.
    /// Returns its number: they count from 0.
    pub fn submit(&mut self, now: Picos, stages: impl Iterator<Item = Stage>) -> u32 {
        let steps = stages.enumerate().map(|(number, stage)| Step::Serve(StageService::of(number, stage)));
        self.submit_steps(now, 0, steps)
    }

    /// The same step by step. In [`QueuePolicy::Oldest`] those of the lowest rank go first, then those submitted first.
    pub fn submit_steps(&mut self, now: Picos, rank: u64, steps: impl Iterator<Item = Step>) -> u32 {
        let next = self.steps.len() as u32;
        for step in steps {
            if let Step::Serve(service) = &step {
                self.servers[usize::from(service.server)].needs += service.busy_ps;
            }
            self.steps.push(step);
        }
        let chunk = self.chunks.len() as u32;
        let end = self.steps.len() as u32;
        self.chunks.push(Chunk { next, end, rank, ready_ps: now, place: ChunkHolds::default() });
        self.events.push(Reverse((now, false, chunk)));
        chunk
    }

    /// For how long a server would be busy with what was submitted, of `now`, if nothing had to wait.
    pub fn outstanding(&self, server: usize, now: Picos) -> Picos {
        let server = &self.servers[server];
        let idle = if server.serving.is_empty() { now - server.at } else { 0 };
        (server.needs + idle).saturating_sub(now)
    }

    /// When something happens next.
    pub fn next(&self) -> Option<Picos> {
        self.events.peek().map(|Reverse((time, ..))| *time)
    }

    /// Lets all happen that happens next. `served` is called with the server and span of every chunk
    /// that has been served, `complete` with every chunk that is through. O(log chunks).
    pub fn step(&mut self, mut served: impl FnMut(usize, StageSpan), mut complete: impl FnMut(u32)) {
        let Some(now) = self.next() else { return };
        if self.served.is_multiple_of(1024) {
            checkpoint();
        }
        self.happen(now, &mut served, &mut complete);
        while !self.rooms.is_empty() && self.admit(now) {
            self.happen(now, &mut served, &mut complete);
        }
        // All that happens at one moment comes before the choice of what is served next.
        for server in 0..self.servers.len() {
            self.enter(server, now);
        }
    }

    /// What happens at `now`.
    fn happen(&mut self, now: Picos, served: &mut impl FnMut(usize, StageSpan), complete: &mut impl FnMut(u32)) {
        while let Some(&Reverse((time, done, number))) = self.events.peek()
            && time == now
        {
            self.events.pop();
            if done {
                self.leave(number as usize, now, served);
            } else if self.go_on(number, now) {
                complete(number);
            }
        }
    }

    /// A chunk has come to its next step; whether it is through.
    fn go_on(&mut self, number: u32, now: Picos) -> bool {
        let chunk = &mut self.chunks[number as usize];
        while chunk.next < chunk.end {
            match self.steps[chunk.next as usize] {
                Step::Serve(service) => {
                    let sizes = (service.size_before, service.size);
                    let waiting = if self.queue == QueuePolicy::Oldest {
                        (chunk.rank, 0, number)
                    } else {
                        let (ready, place) = turned(self.queue, now, number);
                        (priority(self.queue, sizes, chunk.next + 1 == chunk.end), ready, place)
                    };
                    chunk.ready_ps = now;
                    self.servers[usize::from(service.server)].waiting.push(Reverse(waiting));
                    self.uses.queue(&mut chunk.place, now);
                    return false;
                }
                Step::Take(room, _) => {
                    self.rooms[usize::from(room)].waiting.push(Reverse((chunk.rank, 0, number)));
                    self.uses.ask(&mut chunk.place, room, now);
                    return false;
                }
                Step::Give(room, amount) => {
                    self.rooms[usize::from(room)].free += amount;
                    self.uses.give(&mut chunk.place, room, amount, now);
                }
            }
            chunk.next += 1;
        }
        true
    }

    /// Chunks take what they wait for, in order; whether any did.
    fn admit(&mut self, now: Picos) -> bool {
        let before = self.events.len();
        for (place, room) in (0..).zip(&mut self.rooms) {
            while let Some(&Reverse((.., number))) = room.waiting.peek() {
                let chunk = &mut self.chunks[number as usize];
                let Step::Take(_, amount) = self.steps[chunk.next as usize] else { unreachable!("it waits to take") };
                let Some(left) = room.free.checked_sub(amount) else { break };
                room.free = left;
                room.waiting.pop();
                self.uses.take(&mut chunk.place, place, amount, now);
                chunk.next += 1;
                self.events.push(Reverse((now, false, number)));
            }
        }
        self.events.len() > before
    }

    /// Chunks that a server has served move on.
    fn leave(&mut self, number: usize, now: Picos, served: &mut impl FnMut(usize, StageSpan)) {
        let server = &mut self.servers[number];
        // What was expected before the number in service changed is void.
        if server.due != now {
            return;
        }
        server.advance(now);
        let mut place = 0;
        while let Some(of) = server.serving.get_mut(place) {
            if of.end > server.served {
                place += 1;
                continue;
            }
            if let Some(rest) = of.rest.take() {
                let chunk = &mut self.chunks[of.span.chunk as usize];
                let Step::Serve(service) = self.steps[chunk.next as usize] else { unreachable!("it was served") };
                chunk.next += 1;
                self.events.push(Reverse((now + service.latency_ps, false, of.span.chunk)));
                if rest > 0 {
                    of.end += rest;
                    continue;
                }
            }
            let Serving { span, .. } = server.serving.swap_remove(place);
            self.uses.end(&mut self.chunks[span.chunk as usize].place, now);
            self.served += 1;
            served(number, StageSpan { finish_ps: now, ..span });
        }
    }

    /// A server takes chunks as long as it has room.
    fn enter(&mut self, number: usize, now: Picos) {
        let server = &mut self.servers[number];
        let is_full = server.serving.len() == self.sharing && !server.interrupts;
        let mut changed = server.due == now;
        if !changed && (server.waiting.is_empty() || is_full) {
            return;
        }
        server.advance(now);
        if server.interrupts {
            changed |= server.give_way(&self.chunks);
        }
        while server.serving.len() < self.sharing
            && let Some(Reverse((_, ready, place))) = server.waiting.pop()
        {
            let (_, number) = turned(self.queue, ready, place);
            let chunk = &mut self.chunks[number as usize];
            self.uses.serve(&mut chunk.place, now);
            server.waited_ps += u128::from(now - chunk.ready_ps);
            let Step::Serve(service) = self.steps[chunk.next as usize] else { unreachable!("it waits to be served") };
            let StageService { stage, busy_ps, early_ps, .. } = service;
            let span = StageSpan {
                chunk: number,
                stage: stage.into(),
                ready_ps: chunk.ready_ps,
                start_ps: now,
                finish_ps: now,
            };
            let end = server.served + (busy_ps - early_ps) * UNIT;
            server.serving.push(Serving { end, rest: Some(early_ps * UNIT), span });
            changed = true;
        }
        if changed && let Some(due) = server.next_due() {
            self.events.push(Reverse((due, true, number as u32)));
        }
    }

    /// Times a plan by itself; `served` as in [`StageLoop::step`]. O(stages * log chunks).
    pub fn run(&mut self, topology: &Topology, plan: &RailsPlan, mut served: impl FnMut(usize, StageSpan)) -> Picos {
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
    pub fn run_within(&mut self, most: Picos, table: &StageTable, orders: &[ChunkOrder]) -> Option<Picos> {
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

/// Smaller is served first: of a chunk's size before its stage and where it is largest, and whether that is its last.
/// The oldest are those that came first where all come at once.
pub(super) fn priority(queue: QueuePolicy, (before, largest): (u64, u64), last: bool) -> u64 {
    match queue {
        QueuePolicy::Fifo | QueuePolicy::Oldest => 0,
        QueuePolicy::SmallestBefore => before,
        QueuePolicy::Tail if last => u64::MAX,
        QueuePolicy::Smallest | QueuePolicy::Tail => largest,
    }
}

/// Time and number of a chunk that waits, counted from the end where of equals the newest is served first; twice turned
/// they are as before.
pub(super) fn turned(queue: QueuePolicy, ready: Picos, number: u32) -> (Picos, u32) {
    match queue {
        QueuePolicy::SmallestBefore | QueuePolicy::Smallest => (Picos::MAX - ready, u32::MAX - number),
        QueuePolicy::Fifo | QueuePolicy::Tail | QueuePolicy::Oldest => (ready, number),
    }
}

/// Times `plan` and keeps what every dimension did; at most [`MAX_SHARING`] chunks share one.
pub fn run(topology: &Topology, plan: &RailsPlan, queue: QueuePolicy, sharing: u32) -> RailsTimes {
    let dimensions = topology.dimensions.len();
    let (mut spans, mut busy_ps) = (vec![Vec::new(); dimensions], vec![0; dimensions]);
    let mut times = StageLoop::new(dimensions, queue, sharing);
    let time_ps = times.run(topology, plan, |dimension, span| spans[dimension].push(span));
    for step in &times.steps {
        if let Step::Serve(service) = step {
            busy_ps[usize::from(service.server)] += service.busy_ps;
        }
    }
    spans.iter_mut().for_each(|spans| spans.sort_by_key(|span| span.start_ps));
    RailsTimes { time_ps, spans, busy_ps, endpoint: None }
}
