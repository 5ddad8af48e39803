//! Runs a job graph: resources of each rank compute, a transport carries exchanges.

use crate::graph::{ExchangeKind, JobGraph, OperationKind, RankGraph, Resource, Waiters};
use crate::transport::{Delivery, Transport};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Bytes, Picos, clip};
use antiphon_base::watch::interruptible;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// When an operation was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OperationTimes {
    /// All it waits for was over.
    pub ready_ps: Picos,
    /// It started; of an exchange, all of its ranks, or the sender of the message, were ready and the transport took it.
    pub start_ps: Picos,
    /// It was over.
    pub finish_ps: Picos,
    /// Which operation of its rank it waited for last, if any.
    pub last: u32,
    /// Of a computation, how many started before.
    pub turn: u32,
}

/// Rank and operation.
type OperationId = (u32, u32);

/// When all operations were done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TimeLine {
    /// By rank, those of its operations.
    pub ranks: Vec<Vec<OperationTimes>>,
    /// Rank and number of the one that was over last.
    pub last: Option<OperationId>,
    /// [`Transport::buffer_bytes`].
    pub buffer_bytes: Option<Bytes>,
}

impl TimeLine {
    /// When all was over.
    pub fn time_ps(&self) -> Picos {
        self.last.map_or(0, |(rank, operation)| self.ranks[rank as usize][operation as usize].finish_ps)
    }
}

/// Runs `graph` on `transport`, whose exchanges have the graph's numbers. A resource does one computation at a time: of those
/// that are ready the first in the graph, or all in the graph's order. An exchange is submitted when the last rank of a
/// collective is ready, or the sender of a message; those of one moment in the order in which they became ready. A
/// computation that ends at the moment of something on the transport is over before. Where the transport has nothing to
/// carry, an exchange is over when it starts. O((operations + dependencies) log operations), and the events of the transport.
///
/// # Errors
/// Those of the transport; [`Code::Stalled`] if ranks wait for each other, naming an exchange.
pub fn run(graph: &JobGraph, transport: &mut dyn Transport) -> Result<TimeLine> {
    // What has come of the last step of the transport, and when.
    let (mut happened, mut then) = (VecDeque::new(), 0);
    let mut runner = Runner::new(graph, transport);
    runner.begin()?;
    for _ in interruptible(0u64..) {
        let end = runner.next_end();
        let next = if happened.is_empty() { runner.transport.next().map(|next| next.max(then)) } else { Some(then) };
        match (end, next) {
            (Some(end), next) if next.is_none_or(|next| end <= next) => runner.end_computation(),
            (_, Some(next)) => {
                if happened.is_empty() {
                    then = next;
                    runner.transport.step(end, &mut happened)?;
                }
                let Some(delivery) = happened.pop_front() else { continue };
                runner.now = next;
                runner.delivered(delivery);
            }
            (_, None) => break,
        }
        runner.settle()?;
    }
    runner.check()?;
    let buffer_bytes = runner.transport.buffer_bytes();
    Ok(TimeLine { ranks: runner.ranks.into_iter().map(|rank| rank.times).collect(), last: runner.last, buffer_bytes })
}

/// Time that at least one of the intervals covers, which are sorted. O(n log n).
pub(crate) fn covered(intervals: &mut [(Picos, Picos)]) -> Picos {
    intervals.sort_unstable();
    let (mut sum, mut until) = (0, 0);
    for &mut (start, end) in intervals {
        sum += end.saturating_sub(start.max(until));
        until = until.max(end);
    }
    sum
}

/// How far an exchange is.
#[derive(Default)]
struct ExchangeProgress {
    /// All operations that take part.
    members: Vec<OperationId>,
    /// How many must be ready before it starts, and are not.
    missing: u32,
    /// Those of `members` that are ready; they are over when it is.
    ready: Vec<OperationId>,
    /// What waits for its parts that have not arrived, the first on top: bytes and operation.
    arrivals: Vec<(Bytes, OperationId)>,
    over: bool,
}

/// How far a rank is.
struct RankAtWork<'g> {
    graph: &'g RankGraph,
    waiters: Waiters,
    /// What each operation waits for.
    missing: Vec<u32>,
    resources: BTreeMap<Resource, ResourceQueue>,
    /// Exchanges under way in which it takes part.
    under_way: u32,
    times: Vec<OperationTimes>,
}

/// What a resource does, and is to do.
#[derive(Default)]
struct ResourceQueue {
    computing: Option<Computation>,
    /// Operations that are ready, the first in the graph on top.
    ready: BinaryHeap<Reverse<u32>>,
    /// Those that have not started, where they keep the order of the graph.
    order: VecDeque<u32>,
}

/// A computation under way.
struct Computation {
    operation: u32,
    /// How long it takes alone, and beside an exchange.
    time_ps: Picos,
    beside_ps: Picos,
    /// What was left of `time_ps * beside_ps` at a time, and when it ends if nothing changes.
    left: u128,
    since: Picos,
    end: Picos,
}

impl Computation {
    /// What is done in a picosecond.
    fn speed(&self, beside: bool) -> u128 {
        u128::from(if beside { self.time_ps } else { self.beside_ps })
    }

    /// Goes on from `now` with what is left.
    fn go_on(&mut self, now: Picos, beside: bool) {
        self.since = now;
        self.end = now + self.left.div_ceil(self.speed(beside).max(1)) as Picos;
    }

    /// From `now` on an exchange is under way, or none any more.
    fn turn(&mut self, now: Picos, beside: bool) {
        self.left = self.left.saturating_sub(u128::from(now - self.since) * self.speed(!beside));
        self.go_on(now, beside);
    }
}

struct Runner<'g, 't> {
    graph: &'g JobGraph,
    transport: &'t mut dyn Transport,
    exchanges: Vec<ExchangeProgress>,
    ranks: Vec<RankAtWork<'g>>,
    /// What is over, whose waiters do not know it yet.
    finished: VecDeque<OperationId>,
    /// Resources that may start their next computation.
    free: Vec<(u32, Resource)>,
    /// End, operation and rank of computations; some end at another time by now.
    ends: BinaryHeap<Reverse<(Picos, u32, u32)>>,
    /// Whether any computation takes another time beside exchanges.
    slows: bool,
    /// Computations that have started.
    turns: u32,
    last: Option<OperationId>,
    now: Picos,
}

impl<'g, 't> Runner<'g, 't> {
    fn new(graph: &'g JobGraph, transport: &'t mut dyn Transport) -> Self {
        let mut exchanges: Vec<ExchangeProgress> = Vec::new();
        exchanges.resize_with(graph.exchanges.len(), ExchangeProgress::default);
        let (mut ranks, mut slows) = (Vec::with_capacity(graph.ranks.len()), false);
        for (rank, of_rank) in (0..).zip(&graph.ranks) {
            let mut resources: BTreeMap<Resource, ResourceQueue> = BTreeMap::new();
            for (number, operation) in (0..).zip(&of_rank.operations) {
                let id = (rank, number);
                match operation.kind {
                    OperationKind::Nothing => {}
                    OperationKind::Compute { time_ps, beside_ps, resource } => {
                        slows |= time_ps != beside_ps;
                        if graph.in_order {
                            resources.entry(resource).or_default().order.push_back(number);
                        }
                    }
                    OperationKind::Exchange(exchange) => {
                        exchanges[exchange as usize].members.push(id);
                        exchanges[exchange as usize].missing += 1;
                    }
                    OperationKind::Receive(exchange) => exchanges[exchange as usize].members.push(id),
                    OperationKind::Arrival { exchange, bytes } => {
                        exchanges[exchange as usize].arrivals.push((bytes, id));
                    }
                }
            }
            let (waiters, missing) = (of_rank.waiters(), of_rank.missing());
            let times = vec![OperationTimes { last: u32::MAX, ..OperationTimes::default() }; missing.len()];
            ranks.push(RankAtWork { graph: of_rank, waiters, missing, resources, under_way: 0, times });
        }
        exchanges.iter_mut().for_each(|exchange| exchange.arrivals.sort_unstable_by(|one, other| other.cmp(one)));
        let (finished, free, ends) = (VecDeque::new(), Vec::new(), BinaryHeap::new());
        Runner { graph, transport, exchanges, ranks, finished, free, ends, slows, turns: 0, last: None, now: 0 }
    }

    fn kind(&self, (rank, operation): OperationId) -> OperationKind {
        self.ranks[rank as usize].graph.operations[operation as usize].kind
    }

    fn times(&mut self, (rank, operation): OperationId) -> &mut OperationTimes {
        &mut self.ranks[rank as usize].times[operation as usize]
    }

    /// What waits for nothing is ready.
    fn begin(&mut self) -> Result<()> {
        for rank in 0..self.ranks.len() {
            for operation in 0..self.ranks[rank].missing.len() {
                if self.ranks[rank].missing[operation] == 0 {
                    self.ready((rank as u32, operation as u32))?;
                }
            }
        }
        self.settle()
    }

    /// Tells waiters of what is over, then starts what can be computed.
    fn settle(&mut self) -> Result<()> {
        while let Some(id) = self.finished.pop_front() {
            self.times(id).finish_ps = self.now;
            self.last = Some(id);
            let rank = id.0 as usize;
            for place in 0..self.ranks[rank].waiters.of(id.1).len() {
                let of = &mut self.ranks[rank];
                let waiter = of.waiters.of(id.1)[place];
                of.missing[waiter as usize] -= 1;
                if of.missing[waiter as usize] == 0 {
                    of.times[waiter as usize].last = id.1;
                    self.ready((id.0, waiter))?;
                }
            }
        }
        while let Some((rank, resource)) = self.free.pop() {
            self.start_computation(rank, resource);
        }
        Ok(())
    }

    /// An operation has nothing to wait for any more.
    fn ready(&mut self, id: OperationId) -> Result<()> {
        let now = self.now;
        self.times(id).ready_ps = now;
        match self.kind(id) {
            OperationKind::Nothing => self.finish(id, now),
            OperationKind::Compute { resource, .. } => {
                self.ranks[id.0 as usize].resources.entry(resource).or_default().ready.push(Reverse(id.1));
                self.free.push((id.0, resource));
            }
            OperationKind::Arrival { .. } => {}
            OperationKind::Receive(exchange) if self.exchanges[exchange as usize].over => self.finish(id, now),
            OperationKind::Receive(exchange) => self.exchanges[exchange as usize].ready.push(id),
            OperationKind::Exchange(exchange) => {
                let progress = &mut self.exchanges[exchange as usize];
                progress.ready.push(id);
                progress.missing -= 1;
                if progress.missing > 0 {
                    return Ok(());
                }
                if self.transport.submit(now, exchange)? {
                    self.under_way(exchange, true);
                } else {
                    self.end_exchange(exchange, now);
                }
            }
        }
        Ok(())
    }

    /// An operation that started at `start` is over.
    fn finish(&mut self, id: OperationId, start: Picos) {
        self.times(id).start_ps = start;
        self.finished.push_back(id);
    }

    /// The transport has delivered a part of an exchange, or the whole.
    fn delivered(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::Part(exchange) => {
                let arrivals = &mut self.exchanges[exchange as usize].arrivals;
                let Some(&(bytes, _)) = arrivals.last() else { return };
                while let Some((_, id)) = self.exchanges[exchange as usize].arrivals.pop_if(|(part, _)| *part == bytes)
                {
                    self.finish(id, self.now);
                }
            }
            Delivery::Whole { exchange, start_ps } => {
                self.under_way(exchange, false);
                self.end_exchange(exchange, start_ps);
            }
        }
    }

    fn end_exchange(&mut self, exchange: u32, start: Picos) {
        let progress = &mut self.exchanges[exchange as usize];
        progress.over = true;
        for id in std::mem::take(&mut progress.ready) {
            self.finish(id, start);
        }
    }

    /// An exchange starts or ends, beside which its ranks may compute at another speed.
    fn under_way(&mut self, exchange: u32, starts: bool) {
        if !self.slows {
            return;
        }
        for &(number, _) in &self.exchanges[exchange as usize].members {
            let rank = &mut self.ranks[number as usize];
            rank.under_way = if starts { rank.under_way + 1 } else { rank.under_way - 1 };
            if rank.under_way != u32::from(starts) {
                continue;
            }
            for computation in rank.resources.values_mut().filter_map(|queue| queue.computing.as_mut()) {
                computation.turn(self.now, starts);
                self.ends.push(Reverse((computation.end, computation.operation, number)));
            }
        }
    }

    /// Starts the next computation of a resource, if it is free and that is ready.
    fn start_computation(&mut self, number: u32, resource: Resource) {
        let rank = &mut self.ranks[number as usize];
        let Some(queue) = rank.resources.get_mut(&resource) else { return };
        let Some(&Reverse(operation)) = queue.ready.peek() else { return };
        if queue.computing.is_some() || queue.order.front().is_some_and(|&first| first != operation) {
            return;
        }
        queue.ready.pop();
        queue.order.pop_front();
        let OperationKind::Compute { time_ps, beside_ps, .. } = rank.graph.operations[operation as usize].kind else {
            return;
        };
        let left = u128::from(time_ps) * u128::from(beside_ps);
        let mut computation = Computation { operation, time_ps, beside_ps, left, since: self.now, end: self.now };
        computation.go_on(self.now, rank.under_way > 0);
        self.ends.push(Reverse((computation.end, operation, number)));
        queue.computing = Some(computation);
        let times = &mut rank.times[operation as usize];
        (times.start_ps, times.turn) = (self.now, self.turns);
        self.turns += 1;
    }

    /// When the next computation ends.
    fn next_end(&mut self) -> Option<Picos> {
        while let Some(&Reverse((end, operation, rank))) = self.ends.peek() {
            let OperationKind::Compute { resource, .. } = self.kind((rank, operation)) else { return None };
            let computing = self.ranks[rank as usize].resources[&resource].computing.as_ref();
            if computing.is_some_and(|one| (one.operation, one.end) == (operation, end)) {
                return Some(end);
            }
            self.ends.pop();
        }
        None
    }

    /// Ends the computation that is next to end.
    fn end_computation(&mut self) {
        let Some(Reverse((end, operation, rank))) = self.ends.pop() else { return };
        let OperationKind::Compute { resource, .. } = self.kind((rank, operation)) else { return };
        self.now = end;
        self.ranks[rank as usize].resources.entry(resource).or_default().computing = None;
        self.free.push((rank, resource));
        self.finished.push_back((rank, operation));
    }

    /// Checks, when nothing is to happen, that all is done.
    ///
    /// # Errors
    /// [`Code::Stalled`] as the transport, or naming an exchange that some ranks wait for, and what another waits for
    /// instead.
    fn check(&mut self) -> Result<()> {
        let done = self.ranks.iter().all(|rank| rank.missing.iter().all(|&missing| missing == 0))
            && self.exchanges.iter().all(|exchange| exchange.over);
        if done || self.exchanges.iter().any(|exchange| exchange.missing == 0 && !exchange.over) {
            return self.transport.finish();
        }
        // One that is waited for, and a rank that does not come.
        let waited = (0..).zip(&self.exchanges).find(|(_, progress)| !progress.over && !progress.ready.is_empty());
        let Some((number, progress)) = waited else {
            return Err(Error::new(Code::Stalled, "ranks are not done, and nothing is under way"));
        };
        let exchange = &self.graph.exchanges[number as usize];
        let absent = progress.members.iter().find(|id| {
            let receives = matches!(exchange.kind, ExchangeKind::Message { to, .. } if to == id.0);
            !progress.ready.contains(id) && !receives
        });
        let what = absent.map_or("it never ends".into(), |&absent| self.described_absence(absent));
        let of = self.graph.described(exchange);
        Err(Error::new(Code::Stalled, format!("ranks wait for each other in {of}: {what}")))
    }

    /// That a rank does not come to an operation, and where it waits instead.
    fn described_absence(&self, (rank, operation): OperationId) -> String {
        let name = |rank: u32, operation: u32| {
            let name = self.graph.ranks[rank as usize].operations[operation as usize].name;
            clip(&self.graph.names[name as usize])
        };
        let waits = |other: &&ExchangeProgress| {
            !other.over && other.missing > 0 && other.ready.iter().any(|&(ready, _)| ready == rank)
        };
        let instead = self.exchanges.iter().find(waits).and_then(|other| other.ready.first());
        let instead = instead.map_or(String::new(), |&(rank, other)| format!(": it waits in '{}'", name(rank, other)));
        format!("rank {rank} never comes to node '{}'{instead}", name(rank, operation))
    }
}
