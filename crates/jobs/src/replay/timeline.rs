//! Runs the graphs of all ranks: lanes of each rank, exchanges in flight together on a fabric.

use super::graph::{Graph, Lane, Program, Waiters, What, Work};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Picos, clip};
use antiphon_model::fabric::Fabric;
use antiphon_model::system::System;
use antiphon_proof::Proven;
use antiphon_sim::{Fidelity, Flight, Order, Progress, Running, run_beside};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// When an exchange took place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExchangeTimes {
    /// The first of its ranks was ready.
    pub ready_ps: Picos,
    /// It started: all of its ranks, or the sender of the message, were ready.
    pub start_ps: Picos,
    /// It was complete at all of its ranks.
    pub finish_ps: Picos,
}

/// Where the time of a rank went: each moment is one of the four.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RankTimes {
    /// A stream of its accelerator computed.
    pub compute_ps: Picos,
    /// None did, and an exchange it was ready for was not over.
    pub exposed_ps: Picos,
    /// Only its host or memory worked.
    pub other_ps: Picos,
    /// It did nothing: it waited for others, or was done.
    pub idle_ps: Picos,
    /// It was done.
    pub finish_ps: Picos,
}

/// The times of all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    /// When the last rank was done.
    pub time_ps: Picos,
    /// Of every rank.
    pub ranks: Vec<RankTimes>,
    /// Of every exchange.
    pub exchanges: Vec<ExchangeTimes>,
}

/// Runs the graphs of all ranks. Exchange `i` is done by `schedules[i]` on its group, in flight with all others that have
/// started; one without a schedule takes no time. On links they go first by `order`. A message is on its way once its
/// sender is ready, and its nodes are over when it has arrived. Of nodes of a lane that are ready the first in the graph
/// runs. Exchanges that start at the same moment do so in the order in which they became ready.
/// O((nodes + dependencies) * log nodes), and the events of the network.
///
/// # Errors
/// As [`antiphon_sim::simulate_flights`]; [`Code::Stalled`] if ranks wait for each other, naming an exchange;
/// [`Code::TooLarge`].
///
/// # Panics
/// If there are not as many schedules as exchanges.
pub fn run(
    graph: &Graph,
    schedules: &[Option<&Proven>],
    order: Order,
    fabric: &Fabric,
    system: &System,
    fidelity: Fidelity,
    progress: &mut Progress,
) -> Result<Replay> {
    assert_eq!(schedules.len(), graph.exchanges.len(), "a schedule or none for every exchange");
    let (mut flights, mut of) = (Vec::new(), Vec::new());
    for ((id, exchange), schedule) in (0..).zip(&graph.exchanges).zip(schedules) {
        let Some(schedule) = schedule else { continue };
        flights.push(Flight { priority: exchange.priority, held: true, ..Flight::new(schedule) });
        of.push(id);
    }
    let computing = graph.programs.iter().map(computed).max().unwrap_or(0);
    run_beside(fabric, &flights, order, system, fidelity, computing, |machine| {
        Run::new(graph, machine, of).run(progress)
    })
}

/// How long a program computes at most.
fn computed(program: &Program) -> Picos {
    let time = |work| if let Work::Compute { time_ps, .. } = work { time_ps } else { 0 };
    program.nodes.iter().map(|node| time(node.work)).sum()
}

/// How far an exchange is.
#[derive(Clone, Default)]
struct State {
    flight: Option<u32>,
    /// Rank and node of all that take part.
    nodes: Vec<(u32, u32)>,
    /// Nodes that must be ready before it starts, and are not.
    missing: u32,
    /// Those of `nodes` that are ready; they are over when it is.
    ready: Vec<(u32, u32)>,
    over: bool,
    times: ExchangeTimes,
}

/// How far a rank is.
struct Rank<'g> {
    program: &'g Program,
    waiters: Waiters,
    /// What each node waits for.
    missing: Vec<u32>,
    lanes: BTreeMap<Lane, Queue>,
    /// Nodes that are not over.
    left: usize,
    /// Streams that compute, other lanes that work, and exchanges that are ready and not over.
    computing: u32,
    working: u32,
    exchanging: u32,
    /// Until when its time is accounted for.
    since: Picos,
    times: RankTimes,
}

/// A lane: whether it runs, and the nodes that are ready for it.
#[derive(Default)]
struct Queue {
    busy: bool,
    ready: BinaryHeap<Reverse<u32>>,
}

impl<'g> Rank<'g> {
    fn new(program: &'g Program) -> Self {
        let missing = (0..program.nodes.len() as u32).map(|node| program.after(node).len() as u32).collect();
        Rank {
            program,
            waiters: program.waiters(),
            missing,
            lanes: BTreeMap::new(),
            left: program.nodes.len(),
            computing: 0,
            working: 0,
            exchanging: 0,
            since: 0,
            times: RankTimes::default(),
        }
    }

    /// Accounts for the time until `now`.
    fn account(&mut self, now: Picos) {
        let Rank { computing, working, exchanging, times, .. } = self;
        let what = match (*computing, *exchanging, *working) {
            (1.., _, _) => &mut times.compute_ps,
            (0, 1.., _) => &mut times.exposed_ps,
            (0, 0, 1..) => &mut times.other_ps,
            (0, 0, 0) => &mut times.idle_ps,
        };
        *what += now - self.since;
        self.since = now;
    }

    /// How many of what a lane is are at work.
    fn at_work(&mut self, lane: Lane) -> &mut u32 {
        if matches!(lane, Lane::Stream(_)) { &mut self.computing } else { &mut self.working }
    }
}

struct Run<'g> {
    graph: &'g Graph,
    machine: &'g mut dyn Running,
    of: Vec<u32>,
    exchanges: Vec<State>,
    ranks: Vec<Rank<'g>>,
    /// Rank and node of what is over, whose waiters do not know it yet.
    finished: VecDeque<(u32, u32)>,
    /// Lanes that may start their next node.
    dirty: Vec<(u32, Lane)>,
    /// End, node and rank of what computes.
    ends: BinaryHeap<Reverse<(Picos, u32, u32)>>,
    now: Picos,
}

impl<'g> Run<'g> {
    /// Graphs of all ranks on a machine; `of` is the exchange of every flight.
    fn new(graph: &'g Graph, machine: &'g mut dyn Running, of: Vec<u32>) -> Self {
        let mut exchanges: Vec<State> = vec![State::default(); graph.exchanges.len()];
        (0..).zip(&of).for_each(|(flight, &id)| exchanges[id as usize].flight = Some(flight));
        for (rank, program) in (0..).zip(&graph.programs) {
            for (node, work) in (0..).zip(program.nodes.iter().map(|node| node.work)) {
                let (Work::Exchange(id) | Work::Receive(id)) = work else { continue };
                let state = &mut exchanges[id as usize];
                state.nodes.push((rank, node));
                state.missing += u32::from(matches!(work, Work::Exchange(_)));
            }
        }
        let ranks = graph.programs.iter().map(Rank::new).collect();
        let (finished, ends) = (VecDeque::new(), BinaryHeap::new());
        Run { graph, machine, of, exchanges, ranks, finished, dirty: vec![], ends, now: 0 }
    }

    fn run(mut self, progress: &mut Progress) -> Result<Replay> {
        for rank in 0..self.ranks.len() as u32 {
            for node in 0..self.ranks[rank as usize].missing.len() as u32 {
                if self.ranks[rank as usize].missing[node as usize] == 0 {
                    self.ready(rank, node)?;
                }
            }
        }
        self.settle()?;
        // Flights that have ended and what waits for them does not know, and when that was.
        let (mut happened, mut then) = (VecDeque::new(), 0);
        loop {
            // The earlier of a computation's end and what happens on the network; the computation at one moment.
            let event =
                if happened.is_empty() { self.machine.next_ps().map(|next| next.max(then)) } else { Some(then) };
            let end = self.ends.peek().map(|&Reverse((end, ..))| end);
            match (end, event) {
                (Some(end), event) if event.is_none_or(|event| end <= event) => {
                    let Some(Reverse((end, node, rank))) = self.ends.pop() else { continue };
                    self.now = end;
                    self.computed(rank, node);
                }
                (_, Some(event)) => {
                    if happened.is_empty() {
                        then = event;
                        self.machine.step(end, progress)?;
                        happened.extend(std::iter::from_fn(|| self.machine.ended()));
                    }
                    if let Some(flight) = happened.pop_front() {
                        self.now = event;
                        self.over(self.of[flight as usize]);
                    }
                }
                (_, None) => break,
            }
            self.settle()?;
        }
        self.check()?;
        let now = self.now;
        let ranks = self.ranks.iter_mut().map(|rank| {
            rank.account(now);
            rank.times
        });
        let ranks = ranks.collect();
        Ok(Replay { time_ps: now, ranks, exchanges: self.exchanges.iter().map(|state| state.times).collect() })
    }

    /// Tells waiters of what is over, then starts what can run in the lanes.
    fn settle(&mut self) -> Result<()> {
        while let Some((rank, node)) = self.finished.pop_front() {
            let of = &mut self.ranks[rank as usize];
            of.left -= 1;
            if of.left == 0 {
                of.times.finish_ps = self.now;
            }
            for place in 0..self.ranks[rank as usize].waiters.of(node).len() {
                let of = &mut self.ranks[rank as usize];
                let waiter = of.waiters.of(node)[place];
                of.missing[waiter as usize] -= 1;
                if of.missing[waiter as usize] == 0 {
                    self.ready(rank, waiter)?;
                }
            }
        }
        for (rank, lane) in std::mem::take(&mut self.dirty) {
            let of = &mut self.ranks[rank as usize];
            let queue = of.lanes.entry(lane).or_default();
            if queue.busy {
                continue;
            }
            let Some(Reverse(node)) = queue.ready.pop() else { continue };
            let Work::Compute { time_ps, .. } = of.program.nodes[node as usize].work else { continue };
            queue.busy = true;
            of.account(self.now);
            *of.at_work(lane) += 1;
            self.ends.push(Reverse((self.now + time_ps, node, rank)));
        }
        Ok(())
    }

    /// A node has nothing to wait for any more.
    fn ready(&mut self, rank: u32, node: u32) -> Result<()> {
        let of = &mut self.ranks[rank as usize];
        match of.program.nodes[node as usize].work {
            Work::Nothing => self.finished.push_back((rank, node)),
            Work::Compute { lane, .. } => {
                of.lanes.entry(lane).or_default().ready.push(Reverse(node));
                self.dirty.push((rank, lane));
            }
            work @ (Work::Exchange(id) | Work::Receive(id)) => {
                let state = &mut self.exchanges[id as usize];
                if state.over {
                    self.finished.push_back((rank, node));
                    return Ok(());
                }
                of.account(self.now);
                of.exchanging += 1;
                if state.ready.is_empty() {
                    state.times.ready_ps = self.now;
                }
                state.ready.push((rank, node));
                state.missing -= u32::from(matches!(work, Work::Exchange(_)));
                if state.missing == 0 && matches!(work, Work::Exchange(_)) {
                    self.start(id)?;
                }
            }
        }
        Ok(())
    }

    /// Starts an exchange.
    fn start(&mut self, id: u32) -> Result<()> {
        let state = &mut self.exchanges[id as usize];
        state.times.start_ps = self.now;
        let Some(flight) = state.flight else {
            self.over(id);
            return Ok(());
        };
        self.machine.launch(flight, self.now)
    }

    /// An exchange is over.
    fn over(&mut self, id: u32) {
        let state = &mut self.exchanges[id as usize];
        (state.over, state.times.finish_ps) = (true, self.now);
        for (rank, node) in std::mem::take(&mut state.ready) {
            let of = &mut self.ranks[rank as usize];
            of.account(self.now);
            of.exchanging -= 1;
            self.finished.push_back((rank, node));
        }
    }

    /// A computation is over.
    fn computed(&mut self, rank: u32, node: u32) {
        let of = &mut self.ranks[rank as usize];
        let Work::Compute { lane, .. } = of.program.nodes[node as usize].work else { return };
        of.account(self.now);
        *of.at_work(lane) -= 1;
        if let Some(queue) = of.lanes.get_mut(&lane) {
            queue.busy = false;
        }
        self.dirty.push((rank, lane));
        self.finished.push_back((rank, node));
    }

    /// Checks, when nothing is to happen, that all ranks are done.
    ///
    /// # Errors
    /// [`Code::Stalled`] as the machine, or naming an exchange that some ranks wait for, and what another waits for
    /// instead.
    fn check(&mut self) -> Result<()> {
        let done = self.ranks.iter().all(|rank| rank.left == 0);
        if done || self.exchanges.iter().any(|state| state.missing == 0 && !state.over) {
            return self.machine.finish();
        }
        let name = |rank: u32, node: u32| {
            let node = self.ranks[rank as usize].program.nodes[node as usize];
            clip(&self.graph.names[node.name as usize])
        };
        // One that is waited for, and a rank that does not come.
        let waited = (0..).zip(&self.exchanges).find(|(_, state)| !state.over && !state.ready.is_empty());
        let Some((id, state)) = waited else {
            return Err(Error::new(Code::Stalled, "ranks are not done, and nothing is under way"));
        };
        let exchange = &self.graph.exchanges[id as usize];
        let absent = state.nodes.iter().find(|place| {
            let receives = matches!(exchange.what, What::Message { to, .. } if to == place.0);
            !state.ready.contains(place) && !receives
        });
        let what = match absent {
            Some(&(rank, node)) => {
                let with = |other: &&State| {
                    !other.over && other.missing > 0 && other.ready.iter().any(|&(ready, _)| ready == rank)
                };
                let instead = self.exchanges.iter().find(with).and_then(|other| other.ready.first());
                let instead =
                    instead.map_or(String::new(), |&(rank, node)| format!(": it waits in '{}'", name(rank, node)));
                format!("rank {rank} never comes to node '{}'{instead}", name(rank, node))
            }
            None => "it never ends".into(),
        };
        Err(Error::new(
            Code::Stalled,
            format!("ranks wait for each other in {}: {what}", self.graph.described(exchange)),
        ))
    }
}
