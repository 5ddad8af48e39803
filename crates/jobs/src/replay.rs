//! Replay: what every rank of a trace computes and exchanges, and when it is over on a fabric.

use crate::graph::{JobGraph, OperationKind, RankGraph, Resource};
use crate::timeline::{OperationTimes, covered};
use crate::transport::OnFabric;
use antiphon_base::error::Result;
use antiphon_base::units::Picos;
use antiphon_proof::Proven;
use antiphon_sim::Progress;

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
/// started; one without a schedule takes no time. A message is on its way once its sender is ready.
/// O((operations + dependencies) * log operations), and the events of the network.
///
/// # Errors
/// As [`OnFabric::run`].
///
/// # Panics
/// If there are not as many schedules as exchanges.
pub fn run(graph: &JobGraph, schedules: &[Option<&Proven>], on: &OnFabric, progress: &mut Progress) -> Result<Replay> {
    let schedules: Vec<&[&Proven]> = schedules.iter().map(Option::as_slice).collect();
    let line = on.run(graph, &schedules, graph.longest_ps(), progress)?;
    let ranks = graph.ranks.iter().zip(&line.ranks).map(|(rank, times)| rank_times(rank, times, line.time_ps()));
    Ok(Replay { time_ps: line.time_ps(), ranks: ranks.collect(), exchanges: exchange_times(graph, &line.ranks) })
}

/// Where the time of a rank went until `end`.
fn rank_times(rank: &RankGraph, times: &[OperationTimes], end: Picos) -> RankTimes {
    // Of streams, of exchanges from when the rank is ready, and of what else works.
    let mut busy = [Vec::new(), Vec::new(), Vec::new()];
    for (operation, &OperationTimes { ready_ps, start_ps, finish_ps, .. }) in rank.operations.iter().zip(times) {
        match operation.kind {
            OperationKind::Compute { resource: Resource::Stream(_), .. } => busy[0].push((start_ps, finish_ps)),
            OperationKind::Compute { .. } => busy[2].push((start_ps, finish_ps)),
            OperationKind::Exchange(_) | OperationKind::Receive(_) => busy[1].push((ready_ps, finish_ps)),
            OperationKind::Nothing | OperationKind::Arrival { .. } => {}
        }
    }
    let [mut busy, exchanged, worked] = busy;
    let compute_ps = covered(&mut busy);
    busy.extend(exchanged);
    let with_exchanges_ps = covered(&mut busy);
    busy.extend(worked);
    let busy_ps = covered(&mut busy);
    RankTimes {
        compute_ps,
        exposed_ps: with_exchanges_ps - compute_ps,
        other_ps: busy_ps - with_exchanges_ps,
        idle_ps: end - busy_ps,
        finish_ps: times.iter().map(|times| times.finish_ps).max().unwrap_or(0),
    }
}

/// When every exchange took place.
fn exchange_times(graph: &JobGraph, times: &[Vec<OperationTimes>]) -> Vec<ExchangeTimes> {
    let unknown = ExchangeTimes { ready_ps: Picos::MAX, start_ps: 0, finish_ps: 0 };
    let mut exchanges = vec![unknown; graph.exchanges.len()];
    for (operation, times) in graph.operations().zip(times.iter().flatten()) {
        let (OperationKind::Exchange(id) | OperationKind::Receive(id)) = operation.kind else { continue };
        let exchange = &mut exchanges[id as usize];
        exchange.ready_ps = exchange.ready_ps.min(times.ready_ps);
        if matches!(operation.kind, OperationKind::Exchange(_)) {
            (exchange.start_ps, exchange.finish_ps) = (times.start_ps, times.finish_ps);
        }
    }
    exchanges
}
