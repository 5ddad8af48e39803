//! Traces: nothing overlaps, and they add up to the tables of the same run.

use crate::common::prelude::*;
use antiphon_model::schedule::{Builder, Lane};
use antiphon_sim::{Trace, Track, trace_flights};
use std::collections::HashMap;

/// Checks a trace against the tables, which must be those of the run without one.
fn check(fabric: &Fabric, flights: &[Flight], order: Order, system: &System, fidelity: Fidelity) -> Trace {
    let plain =
        simulate_flights(fabric, flights, order, system, fidelity, RunOptions::default(), &mut |_| true).unwrap();
    let traced = trace_flights(fabric, flights, order, system, fidelity, RunOptions::default(), &mut |_| true).unwrap();
    let trace = traced.trace.clone().unwrap();
    assert_eq!(SimulationResult { trace: None, events: plain.events, ..traced }, plain);
    let mut busy: HashMap<Track, u64> = HashMap::new();
    let mut received: HashMap<(u32, u32), u64> = HashMap::new();
    for span in &trace.spans {
        assert!(span.start_ps <= span.end_ps && span.end_ps <= plain.time_ps);
        *busy.entry(span.track).or_default() += span.end_ps - span.start_ps;
        let Some(message) = span.message else { continue };
        match span.track {
            Track::Rank(rank) => {
                assert_eq!(message.to, rank);
                *received.entry((message.flight, message.transfer)).or_default() += 1;
            }
            Track::Link(link) => {
                let schedule = &flights[message.flight as usize].schedule;
                assert!(schedule.transfers[message.transfer as usize].route.contains(&link));
                let lane = schedule.transfers[message.transfer as usize].payload.first();
                assert!(message.chunk < schedule.lanes[lane as usize].chunks);
            }
        }
    }
    for pair in trace.spans.windows(2).filter(|pair| pair[0].track == pair[1].track) {
        assert!(pair[0].end_ps <= pair[1].start_ps || pair[1].start_ps == pair[1].end_ps, "{pair:?}");
    }
    for (link, row) in (0..).zip(&plain.links) {
        assert_eq!(busy.get(&Track::Link(link)).copied().unwrap_or(0), row.busy_ps, "link {link}");
    }
    for (rank, row) in (0..).zip(&plain.ranks) {
        assert_eq!(busy.get(&Track::Rank(rank)).copied().unwrap_or(0), row.reduce_ps, "rank {rank}");
        let last = trace.spans.iter().filter(|span| span.track == Track::Rank(rank)).map(|span| span.end_ps).max();
        assert_eq!(last.unwrap_or(0), row.finish_ps, "rank {rank}");
    }
    // Additions that were interrupted are there several times, all others once.
    let transfers: usize = flights.iter().map(|flight| flight.schedule.transfers.len()).sum();
    assert_eq!(received.len(), transfers);
    trace
}

fn tto() -> System {
    System::preset("tto").unwrap()
}

fn slow_adders() -> System {
    let mut system = tto();
    system.reduce_rate = Some(Rate(8));
    system
}

#[test]
fn traces_add_up() {
    let fabric = Fabric::parse("mesh:3x4").unwrap();
    for spec in ["tto:chunk=24KiB", "ring-bi", "multitree", "direct"] {
        let schedule = algorithm::build(&fabric, &tto(), Collective::new(Kind::AllReduce), 36 * 24_000, spec);
        let proven = prove(&fabric, schedule.unwrap_or_else(|error| panic!("{spec}: {error}"))).unwrap();
        let flights = [Flight::new(&proven)];
        for fidelity in [Fidelity::AlphaBeta, Fidelity::Packet, Fidelity::Flit] {
            let trace = check(&fabric, &flights, Order::Fifo, &tto(), fidelity);
            let named = trace.spans.iter().filter(|span| span.message.is_some()).count();
            assert_eq!(named == trace.spans.len(), fidelity != Fidelity::Flit, "{spec} {fidelity:?}");
            check(&fabric, &flights, Order::Fifo, &slow_adders(), fidelity);
        }
    }
}

/// One link, one adder, two chunks: every span by hand.
#[test]
fn exact_spans() {
    let pair = Fabric::parse("ring:2").unwrap();
    let mut builder = Builder::new("test", &pair, Collective::new(Kind::Reduce), 2 * 8192);
    builder.lane(Lane { offset: 0, bytes: 2 * 8192, chunks: 2, chunk_bytes: 8192, stride: 1, source: 0, owner: 0 });
    builder.send(Op::Reduce, 1, 0, 0, 0).unwrap();
    let schedule = prove(&pair, builder.finish().unwrap()).unwrap();
    for fidelity in [Fidelity::AlphaBeta, Fidelity::Packet] {
        let trace = check(&pair, &[Flight::new(&schedule)], Order::Fifo, &tto(), fidelity);
        let spans: Vec<_> = trace
            .spans
            .iter()
            .map(|span| (span.track, span.message.unwrap().chunk, span.start_ps / 1000, span.end_ps / 1000))
            .collect();
        let Track::Link(link) = spans[2].0 else { panic!("{spans:?}") };
        // A packet takes 357 ns, the hand-off 12, an addition one.
        let expected = [
            (Track::Rank(0), 0, 369, 370),
            (Track::Rank(0), 1, 726, 727),
            (Track::Link(link), 0, 0, 357),
            (Track::Link(link), 1, 357, 714),
        ];
        assert_eq!(spans, expected, "{fidelity:?}");
    }
}

#[test]
fn large_runs_are_refused() {
    let fabric = Fabric::parse("mesh:3x3").unwrap();
    let schedule =
        algorithm::build(&fabric, &tto(), Collective::new(Kind::AllReduce), 1 << 40, "tto:chunk=96KiB").unwrap();
    let proven = prove(&fabric, schedule).unwrap();
    let flights = [Flight::new(&proven)];
    let error =
        trace_flights(&fabric, &flights, Order::Fifo, &tto(), Fidelity::Packet, RunOptions::default(), &mut |_| true);
    let error = error.unwrap_err();
    assert_eq!(error.code, Code::TooLarge);
    assert!(error.message.starts_with("a trace has at most 1048576 events, and this run has "), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Of several flights additions and packets come between each other.
    #[test]
    fn traces_of_flights_add_up(
        specs in prop::collection::vec(prop::sample::select(&["tto:chunk=24KiB", "ring-bi", "combs", "dbtree"][..]), 2..4),
        starts in prop::collection::vec(0u64..40_000_000, 3),
        packets in 1u64..60,
        slow in any::<bool>(),
        (_, order) in prop::sample::select(Order::ALL),
    ) {
        let fabric = Fabric::parse("mesh:3x4").unwrap();
        let build = |spec: &&str| {
            let collective = Collective::new(Kind::AllReduce);
            prove(&fabric, algorithm::build(&fabric, &tto(), collective, packets * 24_000, spec).unwrap()).unwrap()
        };
        let schedules: Vec<Proven> = specs.iter().map(build).collect();
        let system = if slow { slow_adders() } else { tto() };
        let flights = (0..).zip(&schedules).map(|(index, schedule)| Flight {
            start_ps: starts[index],
            priority: index as u32,
            ..Flight::new(schedule)
        });
        let flights: Vec<Flight> = flights.collect();
        for fidelity in [Fidelity::AlphaBeta, Fidelity::Packet] {
            check(&fabric, &flights, order, &system, fidelity);
        }
    }
}
