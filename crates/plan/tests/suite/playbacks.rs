//! Playbacks: what they say is what a trace of the same run says. That fast-forward and parts change nothing is tested
//! beside the simulation.

use crate::common::prelude::*;
use antiphon_model::schedule::Transfer;
use antiphon_sim::{Playback, Span, Trace, Track, trace_flights};
use std::collections::HashMap;

fn tto() -> System {
    System::preset("tto").unwrap()
}

/// A run and its trace.
fn both(fabric: &Fabric, schedule: &Schedule, system: &System, fidelity: Fidelity) -> (SimulationResult, Trace) {
    let proven = prove(fabric, schedule.clone()).unwrap();
    let (flights, options) = ([Flight::new(&proven)], RunOptions { playback: true, ..RunOptions::default() });
    let played = simulate_flights(fabric, &flights, Order::Fifo, system, fidelity, options, &mut |_| true).unwrap();
    let options = RunOptions::default();
    let traced = trace_flights(fabric, &flights, Order::Fifo, system, fidelity, options, &mut |_| true).unwrap();
    (played, traced.trace.unwrap())
}

#[test]
fn playbacks_say_what_traces_say() {
    let fabric = Fabric::parse("mesh:3x4").unwrap();
    let cases = [("tto:chunk=2KiB", 36 * 24_000), ("ring-bi", 120_000), ("multitree", 50_000), ("direct", 36_000)];
    for (spec, bytes) in cases {
        let collective = Collective::new(Kind::AllReduce);
        let schedule = algorithm::build(&fabric, &tto(), collective, bytes, spec).unwrap();
        for fidelity in Fidelity::ALL.iter().map(|choice| choice.1) {
            let (result, trace) = both(&fabric, &schedule, &tto(), fidelity);
            let playback = result.playback.clone().unwrap();
            assert!((1..=128).contains(&playback.windows), "{spec}");
            assert!(playback.window_ps * f64::from(playback.windows) >= result.time_ps as f64);
            check_links(&result, &playback, &trace, &schedule);
            check_ranks(&result, &playback, &schedule);
            check_messages(&playback, &trace, &schedule, fidelity);
            check_phases(&playback, &trace, &schedule, fidelity);
        }
    }
}

/// What links did, from a trace: window by window, lane by lane.
fn check_links(result: &SimulationResult, playback: &Playback, trace: &Trace, schedule: &Schedule) {
    let mut busy: HashMap<(u32, u32), f64> = HashMap::new();
    let mut of_lanes: HashMap<(u32, u32, u32), f64> = HashMap::new();
    for span in &trace.spans {
        let Track::Link(link) = span.track else { continue };
        for window in 0..playback.windows {
            let edges = [window, window + 1].map(|edge| f64::from(edge) * playback.window_ps);
            let time = (span.end_ps as f64).min(edges[1]) - (span.start_ps as f64).max(edges[0]);
            if time > 0.0 {
                *busy.entry((link, window)).or_default() += time;
                if let Some(message) = span.message {
                    let lane = schedule.transfers[message.transfer as usize].payload.first();
                    let group = lane / playback.lanes_a_group * playback.lanes_a_group;
                    *of_lanes.entry((link, window, group)).or_default() += time;
                }
            }
        }
    }
    let mut sums = vec![0; result.links.len()];
    for row in &playback.links {
        sums[row.link as usize] += row.busy_ps;
        let time = busy.remove(&(row.link, row.window)).unwrap_or(0.0);
        assert!((time - row.busy_ps as f64).abs() <= 1.0, "{row:?}: {time}");
        let most = of_lanes.iter().filter(|(key, _)| (key.0, key.1) == (row.link, row.window));
        let most = most.map(|(_, &time)| time).fold(0.0, f64::max);
        match row.lane {
            Some(lane) => assert!(of_lanes[&(row.link, row.window, lane)] >= most - 1.0, "{row:?}"),
            None => assert_eq!(most, 0.0),
        }
    }
    assert!(busy.is_empty(), "left out: {busy:?}");
    assert_eq!(sums, result.links.iter().map(|row| row.busy_ps).collect::<Vec<_>>());
}

/// All ranks that receive have everything in the end, and never less than before; the last come when they are done.
fn check_ranks(result: &SimulationResult, playback: &Playback, schedule: &Schedule) {
    for rank in 0..schedule.ranks {
        let shares: Vec<_> = playback.ranks.iter().filter(|row| row.0 == rank).collect();
        assert_eq!(shares.len(), playback.windows as usize);
        assert!(shares.is_sorted_by(|a, b| a.2 <= b.2) && shares.last().unwrap().2 == 1.0);
        let whole = shares.iter().find(|row| row.2 == 1.0).unwrap().1;
        let finish = result.ranks[rank as usize].finish_ps as f64;
        let edges = [whole, whole + 1].map(|edge| f64::from(edge) * playback.window_ps);
        assert!(edges[0] <= finish && finish <= edges[1], "rank {rank}");
    }
}

/// The first and the last chunk of the first lane are followed, and every message of what is followed is there.
fn check_messages(playback: &Playback, trace: &Trace, schedule: &Schedule, fidelity: Fidelity) {
    let mut began: HashMap<(u32, u64, u32), u64> = HashMap::new();
    let mut ended: HashMap<(u32, u64), u64> = HashMap::new();
    for span in &trace.spans {
        let Some(message) = span.message else { continue };
        let key = (message.transfer, message.chunk);
        match span.track {
            Track::Link(link) => {
                let began = began.entry((key.0, key.1, link)).or_insert(span.start_ps);
                *began = span.start_ps.min(*began);
            }
            Track::Rank(_) => {
                let ended = ended.entry(key).or_default();
                *ended = span.end_ps.max(*ended);
            }
        }
    }
    let mut chunks: HashMap<(u32, u64), usize> = HashMap::new();
    for row in &playback.messages {
        let transfer = &schedule.transfers[row.transfer as usize];
        assert!(transfer.payload.iter().any(|range| range.contains(&row.lane)));
        assert_eq!((row.from, row.to, row.adds), (transfer.from, transfer.to, transfer.op != Op::Copy));
        assert_eq!(row.route, transfer.route.to_vec());
        assert_eq!(row.finish_ps, ended[&(row.transfer, row.chunk)], "{row:?}");
        let first = began.get(&(row.transfer, row.chunk, row.route[0])).copied();
        assert_eq!(row.start_ps, first.filter(|_| fidelity != Fidelity::Flit), "{row:?}");
        *chunks.entry((row.lane, row.chunk)).or_default() += 1;
    }
    for (&(lane, chunk), &messages) in &chunks {
        let carries = |transfer: &&Transfer| transfer.payload.iter().any(|range| range.contains(&lane));
        assert_eq!(messages, schedule.transfers.iter().filter(carries).count(), "lane {lane}, chunk {chunk}");
    }
    assert!(chunks.contains_key(&(0, 0)) && chunks.contains_key(&(0, schedule.lanes[0].chunks - 1)));
}

/// Phases are under way from their first message to their last.
fn check_phases(playback: &Playback, trace: &Trace, schedule: &Schedule, fidelity: Fidelity) {
    assert_eq!(playback.phases.len(), schedule.phases.len());
    for (number, row) in (0..).zip(&playback.phases) {
        assert_eq!(row.name, schedule.phases[number as usize].name);
        let of = |link: bool| {
            let here = move |span: &&Span| matches!(span.track, Track::Link(_)) == link;
            let spans = trace.spans.iter().filter(here);
            spans.filter(move |span| span.message.is_some_and(|message| message.phase == number))
        };
        assert_eq!(row.finish_ps, of(false).map(|span| span.end_ps).max().unwrap());
        if fidelity != Fidelity::Flit {
            assert_eq!(row.start_ps, of(true).map(|span| span.start_ps).min().unwrap());
        }
    }
}

/// A large schedule stays within what is kept: a chunk of few lanes, and lanes in groups.
#[test]
fn large_runs_are_told_in_less() {
    let fabric = Fabric::parse("mesh:12x12").unwrap();
    let schedule = algorithm::build(&fabric, &tto(), Collective::new(Kind::AllReduce), 1 << 20, "ring").unwrap();
    let proven = prove(&fabric, schedule.clone()).unwrap();
    let flights = [Flight::new(&proven)];
    let options = RunOptions { playback: true, ..RunOptions::default() };
    let fidelity = Fidelity::AlphaBeta;
    let result = simulate_flights(&fabric, &flights, Order::Fifo, &tto(), fidelity, options, &mut |_| true).unwrap();
    let playback = result.playback.unwrap();
    assert!(schedule.lanes.len() > 24 && playback.lanes_a_group == (schedule.lanes.len() as u32).div_ceil(24));
    assert!((1..=2024).contains(&playback.messages.len()), "{}", playback.messages.len());
    let sums = playback.links.iter().fold(vec![0; fabric.links.len()], |mut sums, row| {
        sums[row.link as usize] += row.busy_ps;
        sums
    });
    assert_eq!(sums, result.links.iter().map(|row| row.busy_ps).collect::<Vec<_>>());
}
