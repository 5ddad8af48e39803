//! The trace event format of Chrome, in JSON, which Perfetto and chrome://tracing show: a track for each rank and each
//! link. Source: "Trace Event Format" of the Chromium project.

use antiphon_base::units::Picos;
use antiphon_base::watch::interruptible;
use antiphon_model::fabric::Fabric;
use antiphon_sim::{Flight, Span, Trace, Track};
use std::fmt::Write;

/// Processes, by which viewers group tracks.
const RANKS: u32 = 1;
const LINKS: u32 = 2;
/// Number of the first track: others are those of processes.
const FIRST: usize = 10;

/// The text of a trace of flights on a fabric. Times are microseconds with six decimals, so whole picoseconds.
/// O(events).
pub fn write(trace: &Trace, fabric: &Fabric, flights: &[Flight]) -> String {
    let mut text = String::with_capacity(256 * (trace.spans.len() + 16));
    text.push_str("{\"displayTimeUnit\":\"ns\",\n\"otherData\":");
    let _ = write!(text, "{{\"producer\":\"antiphon\",\"fabric\":{}}},\n\"traceEvents\":[\n", quoted(&fabric.name));
    let algorithms: Vec<String> = flights.iter().map(|flight| escaped(&flight.schedule.algorithm)).collect();
    for (process, name) in [(RANKS, "ranks"), (LINKS, "links")] {
        metadata(&mut text, process, 0, "process_name", &format!("\"name\":\"{name}\""));
        metadata(&mut text, process, 0, "process_sort_index", &format!("\"sort_index\":{process}"));
    }
    let mut tid = FIRST;
    let mut before = None;
    for span in interruptible(&trace.spans) {
        if before != Some(span.track) {
            tid += usize::from(before.is_some());
            before = Some(span.track);
            let name = quoted(&name_of(span.track, trace, fabric));
            metadata(&mut text, process_of(span.track), tid, "thread_name", &format!("\"name\":{name}"));
            metadata(&mut text, process_of(span.track), tid, "thread_sort_index", &format!("\"sort_index\":{tid}"));
        }
        event(&mut text, span, tid, flights, &algorithms);
    }
    text.truncate(text.len() - 2);
    text.push_str("\n]}\n");
    text
}

fn process_of(track: Track) -> u32 {
    match track {
        Track::Rank(_) => RANKS,
        Track::Link(_) => LINKS,
    }
}

fn name_of(track: Track, trace: &Trace, fabric: &Fabric) -> String {
    let id = match track {
        Track::Rank(rank) => {
            return match rank.checked_sub(fabric.ranks() as u32) {
                Some(switch) => format!("switch {}", fabric.nodes[switch as usize].name),
                None => format!("rank {rank}"),
            };
        }
        Track::Link(id) => id,
    };
    let link = fabric.link(id);
    let node = |id: u32| &fabric.nodes[id as usize].name;
    let name = format!("link {id}: {} > {}", node(link.from), node(link.to));
    match trace.bundles.iter().find(|(first, _)| *first == id) {
        Some((_, links)) => format!("{name} ({} links as one)", links.len()),
        None => name,
    }
}

fn metadata(text: &mut String, pid: u32, tid: usize, name: &str, argument: &str) {
    let _ = writeln!(text, "{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"{name}\",\"args\":{{{argument}}}}},");
}

/// A complete event, or an instant where a rank only stores what it received.
fn event(text: &mut String, span: &Span, tid: usize, flights: &[Flight], algorithms: &[String]) {
    let (pid, start) = (process_of(span.track), span.start_ps);
    let _ = match span.track {
        Track::Rank(_) if start == span.end_ps => {
            write!(text, "{{\"ph\":\"i\",\"s\":\"t\",\"pid\":{pid},\"tid\":{tid},\"ts\":{},", micros(start))
        }
        _ => {
            let duration = micros(span.end_ps - start);
            write!(text, "{{\"ph\":\"X\",\"pid\":{pid},\"tid\":{tid},\"ts\":{},\"dur\":{duration},", micros(start))
        }
    };
    let Some(of) = span.message else {
        text.push_str("\"cat\":\"link\",\"name\":\"flits\",\"args\":{}},\n");
        return;
    };
    let phase = quoted(&flights[of.flight as usize].schedule.phases[of.phase as usize].name);
    let algorithm = &algorithms[of.flight as usize];
    let _ = writeln!(
        text,
        "\"cat\":{phase},\"name\":\"{algorithm}: transfer {} chunk {}\",\"args\":{{\"flight\":{},\"transfer\":{},\"chunk\":{},\
         \"from\":{},\"to\":{},\"bytes\":{},\"adds\":{}}}}},",
        of.transfer, of.chunk, of.flight, of.transfer, of.chunk, of.from, of.to, of.bytes, of.adds
    );
}

/// A time in microseconds.
fn micros(time: Picos) -> String {
    format!("{}.{:06}", time / 1_000_000, time % 1_000_000)
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("text is JSON")
}

/// As it is between quotes.
fn escaped(text: &str) -> String {
    let text = quoted(text);
    text[1..text.len() - 1].to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_model::collective::{Collective, Kind};
    use antiphon_model::system::System;
    use antiphon_plan::algorithm;
    use antiphon_proof::prove;
    use antiphon_sim::{Fidelity, Order, RunOptions, trace_flights};
    use serde_json::Value;
    use std::collections::{BTreeMap, BTreeSet};

    /// What the format asks for: of every event its phase, process and thread, names and times; named tracks; events of a track
    /// in order that do not overlap.
    fn check(text: &str) -> Vec<Value> {
        let document: Value = serde_json::from_str(text).unwrap();
        assert_eq!(document["displayTimeUnit"], "ns");
        let events = document["traceEvents"].as_array().unwrap().clone();
        let (mut named, mut ends) = (BTreeSet::new(), BTreeMap::new());
        for event in &events {
            let track = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
            assert!(event["args"].is_object() && event["name"].is_string());
            let time = |key: &str| (event[key].as_f64().unwrap() * 1e6).round() as u64;
            match event["ph"].as_str().unwrap() {
                "M" => {
                    named.insert((track, event["name"].as_str().unwrap().to_string()));
                    continue;
                }
                "X" => {
                    let end = ends.entry(track).or_insert(0);
                    assert!(time("ts") >= *end, "{event}");
                    *end = time("ts") + time("dur");
                }
                "i" => assert_eq!(event["s"], "t"),
                other => panic!("phase {other}"),
            }
            assert!(event["cat"].is_string() && event["ts"].is_f64());
            for key in ["thread_name", "thread_sort_index"] {
                assert!(named.contains(&(track, key.to_string())), "{event}");
            }
            assert!(named.contains(&((track.0, 0), "process_name".to_string())));
        }
        events
    }

    fn traced(fabric: &str, spec: &str, fidelity: Fidelity) -> (Fabric, String) {
        let (fabric, system) = (Fabric::parse(fabric).unwrap(), System::preset("tto").unwrap());
        let collective = Collective::new(Kind::AllReduce);
        let schedule = algorithm::build(&fabric, &system, collective, 36 * 8192, spec).unwrap();
        let schedule = prove(&fabric, schedule).unwrap();
        let flights = [Flight::new(&schedule), Flight { start_ps: 1_234_567, ..Flight::new(&schedule) }];
        let result =
            trace_flights(&fabric, &flights, Order::Fifo, &system, fidelity, RunOptions::default(), &mut |_| true)
                .unwrap();
        let text = write(&result.trace.unwrap(), &fabric, &flights);
        (fabric, text)
    }

    #[test]
    fn texts_keep_the_rules_of_the_format() {
        for fidelity in [Fidelity::AlphaBeta, Fidelity::Packet, Fidelity::Flit] {
            let (fabric, text) = traced("mesh:3x3", "tto", fidelity);
            let events = check(&text);
            let tracks = |pid: u32| {
                let names = events.iter().filter(|event| event["name"] == "thread_name" && event["pid"] == pid);
                names.map(|event| event["args"]["name"].as_str().unwrap().to_string()).collect::<BTreeSet<_>>()
            };
            assert!(tracks(RANKS).is_subset(&(0..9).map(|rank| format!("rank {rank}")).collect()));
            assert!(tracks(RANKS).len() >= 8 && tracks(LINKS).len() <= fabric.links.len());
            assert!(tracks(LINKS).contains("link 0: 0 > 3"), "{:?}", tracks(LINKS));
        }
    }

    #[test]
    fn an_event_by_hand() {
        let (_, text) = traced("ring:2", "ring", Fidelity::AlphaBeta);
        let events = check(&text);
        let first = |event: &&Value| event["args"]["flight"] == 1 && event["args"]["transfer"] == 0;
        let late = events.iter().find(|event| event["pid"] == LINKS && first(event)).unwrap();
        assert_eq!(late["name"], "ring: transfer 0 chunk 0");
        assert_eq!(late["cat"], "reduce-scatter");
        assert!(text.contains("\"dur\":6.426000,"), "18 packets of 357 ns: {late}");
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!((quoted("a\"b"), escaped("a\"b\n")), ("\"a\\\"b\"".to_string(), "a\\\"b\\n".to_string()));
        assert_eq!(micros(1_234_567_000_001), "1234567.000001");
    }
}
