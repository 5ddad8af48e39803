//! Several collectives in flight on a multi-dimensional network.

use crate::graph::{ExchangeKind, JobExchange, JobGraph, OperationKind, Resource};
use crate::timeline;
use crate::transport::{Carriage, OnRails};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Bytes, Picos};
use antiphon_model::collective::{Collective, Kind};
use antiphon_model::topology::Topology;
use antiphon_sim::rails::stage_endpoint::RailsGroup;
use antiphon_sim::rails::{RailsPlan, Scheduler};
use std::collections::HashMap;

/// Most flights of one run.
const MAX_FLIGHTS: usize = 1 << 12;
/// Latest start: about eleven days.
const LATEST: Picos = 1_000_000_000_000_000_000;

/// A collective that starts at some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RailsFlight {
    /// What.
    pub kind: Kind,
    /// Full buffer size.
    pub bytes: Bytes,
    /// Numbers of the dimensions along which it goes, in every group of NPUs along them at once; all if there are none.
    pub dimensions: Vec<u8>,
    /// When it starts at the earliest.
    pub start_ps: Picos,
    /// Flights before it in the list that are to be over before.
    pub after: Vec<usize>,
    /// Which goes first, where the order is that of priorities.
    pub priority: u32,
}

/// A flight as it was timed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedRailsFlight {
    /// When it started.
    pub start_ps: Picos,
    /// When it was over.
    pub finish_ps: Picos,
    /// Its dimensions.
    pub group: RailsGroup,
    /// Its orders.
    pub plan: RailsPlan,
}

/// Times flights together: their chunks queue at the same dimensions.
///
/// # Errors
/// As [`OnRails::new`]; [`Code::BadSpec`] for dimensions that are not there or there twice, and for flights after others
/// that are not before them in the list; [`Code::BadSize`] for late starts; [`Code::TooLarge`] for too many.
pub fn fly(
    topology: &Topology,
    flights: &[RailsFlight],
    scheduler: &dyn Scheduler,
    how: Carriage,
) -> Result<Vec<TimedRailsFlight>> {
    if flights.is_empty() || flights.len() > MAX_FLIGHTS {
        let what = format!("{} flights: expected 1 to {MAX_FLIGHTS}", flights.len());
        return Err(Error::new(Code::TooLarge, what));
    }
    if let Some(packets) = &how.packets {
        packets.of(topology.dimensions.len())?;
    }
    let mut graph = JobGraph { names: vec!["flight".into()], ..JobGraph::new(1) };
    let (mut groups, mut known) = (Vec::new(), HashMap::new());
    let mut operations: Vec<u32> = Vec::new();
    for (number, flight) in (0..).zip(flights) {
        let refused = |code, what: String| Error::new(code, what).at(format_args!("flight {number}"));
        if flight.start_ps > LATEST {
            return Err(refused(Code::BadSize, format!("it starts later than {:e} ns", LATEST as f64 / 1e3)));
        }
        let group = *known.entry(&flight.dimensions).or_insert(groups.len());
        if group == groups.len() {
            groups.push(along(topology, &flight.dimensions).map_err(|what| refused(Code::BadSpec, what))?);
        }
        let mut after = Vec::new();
        for &other in &flight.after {
            let before = operations.get(other);
            after.push(*before.ok_or_else(|| {
                refused(Code::BadSpec, format!("it is after flight {other}, which is not before it in the list"))
            })?);
        }
        let waits = OperationKind::compute(flight.start_ps, Resource::Stream(number));
        after.push(graph.ranks[0].push(0, waits, &[]));
        operations.push(graph.ranks[0].push(0, OperationKind::Exchange(number), &after));
        graph.exchanges.push(JobExchange {
            name: 0,
            kind: ExchangeKind::Collective(Collective { kind: flight.kind, root: 0 }),
            bytes: flight.bytes,
            group: group as u32,
            priority: flight.priority,
        });
    }
    let mut network = OnRails::new(topology, &groups, &graph, scheduler, how)?;
    let timed = timeline::run(&graph, &mut network)?;
    let times = operations.iter().map(|&operation| timed.ranks[0][operation as usize]);
    let flights = times.zip(network.plans()).map(|(times, (group, plan))| TimedRailsFlight {
        start_ps: times.start_ps,
        finish_ps: times.finish_ps,
        group: group.clone(),
        plan: plan.clone(),
    });
    Ok(flights.collect())
}

/// A group along some dimensions, the nearest first as in the whole.
fn along(topology: &Topology, dimensions: &[u8]) -> std::result::Result<RailsGroup, String> {
    if dimensions.is_empty() {
        return Ok(RailsGroup::whole(topology));
    }
    let mut numbers = dimensions.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    let count = topology.dimensions.len();
    if numbers.len() < dimensions.len() || numbers.iter().any(|&number| usize::from(number) >= count) {
        return Err(format!("its dimensions are not each one of {count}, once"));
    }
    let dimensions = numbers.iter().map(|&number| topology.dimensions[usize::from(number)]).collect();
    Ok(RailsGroup { topology: Topology { name: topology.name.clone(), dimensions }, numbers })
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_model::system::Endpoint;
    use antiphon_sim::Order;
    use antiphon_sim::rails::scheduler::{Baseline, Themis};
    use antiphon_sim::rails::{QueuePolicy, run};

    fn topology() -> Topology {
        Topology::parse("sw4@800/100ns,sw4@800/100ns").unwrap()
    }

    fn how(shared_loads: bool) -> Carriage {
        Carriage {
            chunks: Some(4),
            queue: QueuePolicy::Fifo,
            offload: false,
            endpoint: Endpoint::System,
            order: Order::Fifo,
            packets: None,
            shared_loads,
        }
    }

    fn flight(bytes: Bytes, dimensions: &[u8]) -> RailsFlight {
        let dimensions = dimensions.to_vec();
        RailsFlight { kind: Kind::AllReduce, bytes, dimensions, start_ps: 0, after: vec![], priority: 0 }
    }

    #[test]
    fn one_takes_as_long_as_alone_and_waits_for_its_start_and_for_others() {
        let late = RailsFlight { start_ps: 5000, ..flight(1 << 20, &[]) };
        let next = RailsFlight { after: vec![0], ..flight(1 << 20, &[]) };
        let timed = fly(&topology(), &[late, next], &Baseline, how(false)).unwrap();
        let mut plan = RailsPlan::uniform(&topology(), Kind::AllReduce, 1 << 20, 4, false).unwrap();
        Baseline.schedule(&topology(), &mut plan);
        let alone = run(&topology(), &plan, QueuePolicy::Fifo, 1).time_ps;
        assert_eq!((timed[0].start_ps, timed[0].finish_ps), (5000, 5000 + alone));
        assert_eq!((timed[1].start_ps, timed[1].finish_ps), (5000 + alone, 5000 + 2 * alone));
    }

    /// Along other dimensions they do not meet; along the same they share it.
    #[test]
    fn they_meet_where_their_dimensions_are_the_same() {
        let time = |flights: &[RailsFlight]| {
            fly(&topology(), flights, &Baseline, how(false)).unwrap().iter().map(|one| one.finish_ps).max().unwrap()
        };
        let alone = time(&[flight(1 << 20, &[0])]);
        assert_eq!(time(&[flight(1 << 20, &[0]), flight(1 << 20, &[1])]), alone);
        assert!(time(&[flight(1 << 20, &[1]), flight(1 << 20, &[1])]) > alone * 3 / 2);
    }

    /// A collective that starts while the first dimension is busy with another begins on the second.
    #[test]
    fn shared_loads_mind_what_is_under_way() {
        let flights = [flight(8 << 20, &[0]), RailsFlight { start_ps: 1000, ..flight(1 << 20, &[]) }];
        let timed = |shared| fly(&topology(), &flights, &Themis::default(), how(shared)).unwrap();
        let (apart, shared) = (timed(false), timed(true));
        let first = |timed: &[TimedRailsFlight]| timed[1].plan.orders[0].first.as_slice()[0];
        assert_eq!((first(&apart), first(&shared)), (0, 1));
        assert!(shared[1].finish_ps < apart[1].finish_ps);
    }

    #[test]
    fn mistakes_are_named() {
        let refused = |flights: &[RailsFlight]| fly(&topology(), flights, &Baseline, how(false)).unwrap_err();
        assert_eq!(refused(&[]).code, Code::TooLarge);
        assert_eq!(refused(&[flight(1, &[0, 0])]).code, Code::BadSpec);
        assert_eq!(refused(&[flight(1, &[2])]).code, Code::BadSpec);
        assert_eq!(refused(&[RailsFlight { after: vec![0], ..flight(1, &[]) }]).code, Code::BadSpec);
        assert_eq!(refused(&[RailsFlight { start_ps: u64::MAX, ..flight(1, &[]) }]).code, Code::BadSize);
        assert_eq!(refused(&[flight(0, &[])]).code, Code::BadSize);
        let shared = Carriage { endpoint: Endpoint::parse("ideal").unwrap(), ..how(true) };
        let error = fly(&topology(), &[flight(1, &[])], &Baseline, shared).unwrap_err();
        assert_eq!(error.code, Code::NotApplicable);
    }
}
