//! Nodes joined by socket pairs of this process.

use super::packet::{PacketHeader, PacketKind};
use super::*;
use crate::wires::{ByteWire, WirePort};
use crate::{Output, chunks, memory_bytes, numbers, outputs, wrong};
use antiphon_model::collective::{Collective, Kind};
use antiphon_model::system::System;
use antiphon_plan::algorithm::build;
use antiphon_proof::prove;
use mio::net::UnixStream;
use std::io::{IoSlice, Read, Write};
use std::ops::Range;

struct PairWire(UnixStream);

fn nothing_now(outcome: io::Result<usize>) -> io::Result<usize> {
    match outcome {
        Err(what) if what.kind() == io::ErrorKind::WouldBlock => Ok(0),
        _ => outcome,
    }
}

impl ByteWire for PairWire {
    fn send(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        nothing_now(self.0.write_vectored(slices))
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            outcome => nothing_now(outcome),
        }
    }

    fn source(&mut self) -> &mut dyn mio::event::Source {
        &mut self.0
    }
}

/// A carrier for every node of a fabric, with so many wires a cable.
fn carriers(fabric: &Fabric, wires_per_cable: usize) -> Vec<RankCarrier> {
    let mut ports: Vec<Vec<WirePort>> = fabric.nodes.iter().map(|_| vec![]).collect();
    for (out, link) in (0..).zip(&fabric.links).filter(|(_, link)| link.from < link.to) {
        let back = fabric.link_between(link.to, link.from).unwrap();
        let pairs: Vec<_> = (0..wires_per_cable).map(|_| UnixStream::pair().unwrap()).collect();
        let (near, far): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        for (end, neighbour, out_link, in_link, streams) in
            [(link.from, link.to, out, back, near), (link.to, link.from, back, out, far)]
        {
            let wires = streams.into_iter().map(|stream| Box::new(PairWire(stream)) as Box<dyn ByteWire>).collect();
            let name = format!("cable {}-{}", link.from, link.to);
            ports[end as usize].push(WirePort {
                neighbour,
                out_link: Some(out_link),
                in_link: Some(in_link),
                wires,
                name,
            });
        }
    }
    let settings = Settings { packet_bytes: 1024, ..Settings::default() };
    let carrier = |(node, ports)| RankCarrier::new(fabric.clone(), node, Wires { ports }, settings).unwrap();
    (0..).zip(ports).map(carrier).collect()
}

fn lend(key: RunKey, memory: &mut [u8]) -> [(RunKey, LentMemory<'_>); 1] {
    [(key, LentMemory::new(vec![(0, LentPiece::Write(memory))]))]
}

/// Drives a run to its end.
fn drive(carrier: &RankCarrier, key: RunKey, memory: &mut [u8]) -> Result<NodeId> {
    let ended = carrier.drive(&mut lend(key, memory), Some(Duration::from_secs(20))).ended.pop();
    ended.unwrap_or_else(|| panic!("waited for {}", carrier.waits_for(key))).1
}

/// Runs a collective on the ranks of `view`, a group of nodes; the number of wrong elements.
fn run(
    carriers: &[RankCarrier],
    view: &Fabric,
    collective: Collective,
    bytes: u64,
    algorithm: &str,
    element: ElementType,
    sequences: Range<u32>,
) -> u64 {
    let schedule = build(view, &System::default(), collective, bytes, algorithm).unwrap();
    let proven = prove(view, schedule).unwrap();
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..proven.ranks)
            .map(|rank| {
                let (carrier, proven, sequences) =
                    (&carriers[view.node_of_rank(rank) as usize], proven.clone(), sequences.clone());
                scope.spawn(move || {
                    let plan = Arc::new(RankPlan::new(view, proven, rank).unwrap());
                    let mut errors = 0;
                    for sequence in sequences {
                        let schedule = plan.schedule();
                        // What an excluded rank adds must be 0.
                        let rest = if antiphon_proof::participation(schedule)[rank as usize] { 255 } else { 0 };
                        let mut memory = vec![rest; memory_bytes(schedule) as usize];
                        let input = crate::input(schedule, rank);
                        let place = input.start as usize..input.end as usize;
                        let whole = |at: usize| at - at % element.bytes() as usize;
                        if rest > 0 {
                            memory[whole(place.start)..whole(place.end)]
                                .copy_from_slice(&numbers(schedule, element, rank, input));
                        }
                        let part = |(_, _, bytes): (usize, u64, Range<usize>)| vec![(bytes.start, bytes.end)];
                        let parts: Vec<MemoryPart> = chunks(schedule, element.bytes()).map(part).collect();
                        let key = carrier.begin(plan.clone(), (9, sequence), element, Reduction::Sum, &parts).unwrap();
                        let mut told = vec![];
                        loop {
                            let mut driven = carrier.drive(&mut lend(key, &mut memory), Some(Duration::from_secs(20)));
                            let finals = driven.final_parts.iter().flat_map(|(_, found)| found);
                            told.extend(finals.map(|&part| {
                                let (start, end) = parts[part as usize][0];
                                (start, memory[start..end].to_vec())
                            }));
                            if let Some((_, outcome)) = driven.ended.pop() {
                                outcome.unwrap();
                                break;
                            }
                            assert!(!driven.final_parts.is_empty(), "waited for {}", carrier.waits_for(key));
                        }
                        // What was final was not written again.
                        assert!(told.len() <= parts.len());
                        assert!(told.iter().all(|(start, was)| memory[*start..start + was.len()] == was[..]));
                        errors += wrong(schedule, element, rank, &memory);
                        assert!(
                            outputs(schedule, rank).iter().all(|Output { bytes, .. }| bytes.end <= memory.len() as u64)
                        );
                    }
                    errors
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).sum()
    })
}

#[test]
fn collectives_are_carried_over_links_and_relays() {
    for (spec, algorithms) in
        [("mesh:3x2", &["ring", "combs", "dbtree", "optimal"][..]), ("ring:4", &["optimal", "halving-doubling"])]
    {
        let fabric = Fabric::parse(spec).unwrap();
        for wires in [1, 3] {
            let carriers = carriers(&fabric, wires);
            let mut sequence = 0;
            for algorithm in algorithms {
                for (bytes, element) in
                    [(24, ElementType::Float32), (100_000, ElementType::Float32), (1_600_000, ElementType::Int64)]
                {
                    let collective = Collective::new(Kind::AllReduce);
                    let sequences = sequence..sequence + 3;
                    sequence += 3;
                    let errors = run(&carriers, &fabric, collective, bytes, algorithm, element, sequences);
                    assert_eq!(errors, 0, "{spec} {algorithm} {bytes}");
                }
            }
            for kind in Kind::ALL {
                let algorithm = if kind == Kind::AllToAll { "direct" } else { "optimal" };
                let sequences = sequence..sequence + 2;
                sequence += 2;
                let root = if kind.rooted() { 2 } else { 0 };
                let collective = Collective { kind, root };
                let errors = run(&carriers, &fabric, collective, 400_000, algorithm, ElementType::Int32, sequences);
                assert_eq!(errors, 0, "{spec} {kind:?}");
            }
        }
    }
}

#[test]
fn a_group_runs_while_others_pass_on() {
    let fabric = Fabric::parse("mesh:4").unwrap();
    let carriers = carriers(&fabric, 1);
    let group = fabric.group(&[0, 3]).unwrap().fabric;
    for algorithm in ["optimal", "direct"] {
        let kind = if algorithm == "direct" { Kind::AllToAll } else { Kind::AllReduce };
        let sequences = if algorithm == "direct" { 10..12 } else { 0..2 };
        let collective = Collective::new(kind);
        assert_eq!(run(&carriers, &group, collective, 3_000_000, algorithm, ElementType::Float32, sequences), 0);
    }
}

#[test]
fn barriers_are_opened_by_the_first_rank() {
    let fabric = Fabric::parse("mesh:3x3").unwrap();
    let carriers = carriers(&fabric, 1);
    let collective = Collective::new(Kind::AllReduce);
    assert_eq!(run(&carriers, &fabric, collective, 90_000, "ring-2d", ElementType::Int32, 0..3), 0);
    assert_eq!(run(&carriers, &fabric, collective, 90_000, "tto", ElementType::Int32, 3..6), 0);
}

#[test]
fn messages_match_by_source_and_tag_in_order() {
    let fabric = Fabric::parse("mesh:3").unwrap();
    let carriers = carriers(&fabric, 1);
    let data = |seed: usize, length: usize| (0..length).map(|at| (at * 7 + seed) as u8).collect::<Vec<u8>>();
    thread::scope(|scope| {
        scope.spawn(|| {
            for (number, length) in [0, 5, 40_000, 3_000_000].into_iter().enumerate() {
                for to in [1, 2] {
                    let mut sent = data(number, length);
                    if let Some(key) = carriers[0].send(4, to, number as u32 % 2, &sent).unwrap() {
                        drive(&carriers[0], key, &mut sent).unwrap();
                    }
                }
            }
        });
        for node in [1, 2] {
            let carrier = &carriers[node];
            scope.spawn(move || {
                // The second is asked for before the first.
                for (number, length) in [(1, 5), (0, 0), (3, 3_000_000), (2, 40_000)] {
                    if length == 3_000_000 {
                        let mut first = vec![0; 40_000];
                        let source = (node == 1).then_some(0);
                        let key = carrier.receive(4, source, 0, first.len()).unwrap();
                        assert_eq!(drive(carrier, key, &mut first), Ok(0));
                        assert_eq!(first, data(2, 40_000));
                    }
                    if number == 2 {
                        break;
                    }
                    let mut found = vec![0; length];
                    let key = carrier.receive(4, Some(0), number as u32 % 2, length).unwrap();
                    assert_eq!(drive(carrier, key, &mut found), Ok(0));
                    assert_eq!(found, data(number, length));
                }
            });
        }
    });
    carriers[0].send(4, 1, 0, &[1, 2, 3]).unwrap();
    let key = carriers[1].receive(4, None, 0, 4).unwrap();
    let error = drive(&carriers[1], key, &mut [0; 4]).unwrap_err();
    assert_eq!((error.code, error.message.contains("3 bytes where 4")), (Code::BadSize, true));
    assert_eq!(carriers[0].send(4, 0, 0, &[]).unwrap_err().code, Code::BadSpec);
    assert_eq!(carriers[0].receive(4, Some(7), 0, 1).unwrap_err().code, Code::BadSpec);
}

#[test]
fn whoever_waits_in_vain_says_for_what() {
    let fabric = Fabric::parse("mesh:2").unwrap();
    let carriers = carriers(&fabric, 1);
    let schedule = build(&fabric, &System::default(), Collective::new(Kind::AllReduce), 4000, "optimal").unwrap();
    let plan = Arc::new(RankPlan::new(&fabric, prove(&fabric, schedule).unwrap(), 0).unwrap());
    let key = carriers[0].begin(plan, (0, 0), ElementType::Float32, Reduction::Sum, &[]).unwrap();
    let mut memory = vec![0; 4000];
    assert_eq!(carriers[0].drive(&mut lend(key, &mut memory), Some(Duration::from_millis(30))), Driven::default());
    assert!(carriers[0].waits_for(key).contains("rank 1 to 0"));
    let carrier = &carriers[0];
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(20));
            carrier.wake();
        });
        assert!(carrier.drive(&mut lend(key, &mut memory), None).is_woken);
    });
}

#[test]
fn all_learn_who_has_ended() {
    let fabric = Fabric::parse("mesh:4").unwrap();
    let mut carriers = carriers(&fabric, 1);
    // As a process that is killed: its wires close without a word.
    let last = carriers.pop().unwrap();
    last.shared.take().node.ports.clear();
    let key = carriers[0].receive(0, Some(1), 0, 4).unwrap();
    let error = drive(&carriers[0], key, &mut [0; 4]).unwrap_err();
    assert!(error.code == Code::Stalled && error.message.contains("rank 3 has ended: it closed cable 2-3"), "{error}");
    assert_eq!(carriers[1].send(0, 0, 0, &[1]).unwrap_err().code, Code::Stalled);
}

/// A wire that takes all and gives nothing, once it is cut.
struct Cut {
    wire: Box<dyn ByteWire>,
    is_cut: Arc<AtomicBool>,
}

impl ByteWire for Cut {
    fn send(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.is_cut.load(Ordering::Relaxed) {
            true => Ok(slices.iter().map(|slice| slice.len()).sum()),
            false => self.wire.send(slices),
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.is_cut.load(Ordering::Relaxed) { Ok(0) } else { self.wire.receive(buffer) }
    }

    fn source(&mut self) -> &mut dyn mio::event::Source {
        self.wire.source()
    }
}

#[test]
fn a_dead_link_is_named_and_the_rest_goes_on() {
    let fabric = Fabric::parse("ring:4").unwrap();
    let mut carriers = carriers(&fabric, 1);
    let is_cut = Arc::new(AtomicBool::new(false));
    for (node, neighbour) in [(1, 2), (2, 1)] {
        let mut turn = carriers[node].shared.take();
        let port = turn.node.ports.iter_mut().find(|port| port.neighbour == neighbour).unwrap();
        let wire = std::mem::replace(&mut port.wires[0].wire, Box::new(PairWire(UnixStream::pair().unwrap().0)));
        port.wires[0].wire = Box::new(Cut { wire, is_cut: is_cut.clone() });
    }
    let collective = Collective::new(Kind::AllReduce);
    assert_eq!(run(&carriers, &fabric, collective, 40_000, "ring", ElementType::Int32, 0..2), 0);
    is_cut.store(true, Ordering::Relaxed);
    let since = Instant::now();
    let carrier = &carriers[0];
    let key = carrier.receive(0, Some(3), 0, 4).unwrap();
    let error = drive(carrier, key, &mut [0; 4]).unwrap_err();
    assert!(
        error.message.contains("the link over cable 1-2 is dead") && since.elapsed() < Duration::from_secs(2),
        "{error}"
    );
    let failed: Vec<_> = carriers.iter().map(|carrier| carrier.failures()).collect();
    assert!(failed.iter().all(|failures| failures.iter().all(|failure| failure.node.is_none())));
    let rest = Fabric::parse("ring:4,drop=1-2").unwrap();
    let gone = failed[0][0].links.clone();
    carriers.iter_mut().for_each(|carrier| carrier.renew(rest.clone(), 1, &gone).unwrap());
    assert_eq!(run(&carriers, &rest, collective, 40_000, "optimal", ElementType::Int32, 0..2), 0);
}

/// The wire between neighbours breaks, as `node` sees it; the links of its cable.
fn breaks(carriers: &[RankCarrier], node: usize, neighbour: NodeId) -> Vec<LinkId> {
    let mut turn = carriers[node].shared.take();
    let at = turn.node.ports.iter().position(|port| port.neighbour == neighbour).unwrap();
    turn.node.wire_broke(at, 0, &io::ErrorKind::TimedOut.into());
    turn.node.ports[at].wires[0].links.clone()
}

fn all_know(carriers: &[RankCarrier], gone: &[LinkId]) {
    let until = Instant::now() + Duration::from_secs(5);
    let knows = |carrier: &RankCarrier| carrier.failures().iter().any(|failure| failure.links == gone);
    while !carriers.iter().all(knows) {
        assert!(Instant::now() < until, "{gone:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_fails_while_some_have_gone_on_is_left_out_next() {
    let fabric = Fabric::parse("mesh:3x3").unwrap();
    let carriers = carriers(&fabric, 2);
    let first = breaks(&carriers, 0, 1);
    all_know(&carriers, &first);
    let rest = Fabric::parse("mesh:3x3,drop=0-1").unwrap();
    let (last, others) = carriers.split_last().unwrap();
    others.iter().for_each(|carrier| carrier.renew(rest.clone(), 1, &first).unwrap());
    let second = breaks(&carriers, 4, 7);
    all_know(&carriers, &second);
    // A late word of what is left out says nothing new; and nobody takes a wire that is left out for the end of a rank.
    let mut late = PacketHeader::new(PacketKind::LinkFailed, 0, 0);
    (late.item, late.chunk) = (first[0], first[1]);
    carriers[3].shared.take().node.heard_of_failure(0, &late, &[]);
    last.renew(rest, 1, &first).unwrap();
    for carrier in &carriers {
        let failed = carrier.failures();
        assert!(failed.len() == 1 && failed[0].links == second && failed[0].node.is_none(), "{failed:?}");
    }
    assert_eq!(last.receive(0, None, 0, 4).unwrap_err().code, Code::Stalled);
    let rest = Fabric::parse("mesh:3x3,drop=0-1,drop=4-7").unwrap();
    let gone = [first, second].concat();
    carriers.iter().for_each(|carrier| carrier.renew(rest.clone(), 2, &gone).unwrap());
    let collective = Collective::new(Kind::AllReduce);
    assert_eq!(run(&carriers, &rest, collective, 40_000, "optimal", ElementType::Int32, 0..2), 0);
}

#[test]
fn a_rank_that_ends_for_a_dead_link_is_not_the_reason() {
    let fabric = Fabric::parse("ring:4").unwrap();
    let carriers = carriers(&fabric, 1);
    let links = breaks(&carriers, 1, 2);
    all_know(&carriers, &links);
    carriers[3].shared.take().node.ports.clear();
    let until = Instant::now() + Duration::from_secs(5);
    while carriers[0].failures().len() < 2 && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
    }
    let received = carriers[0].receive(0, Some(3), 0, 4).and_then(|key| drive(&carriers[0], key, &mut [0; 4]));
    let error = received.unwrap_err();
    assert!(error.message.contains("the link over cable 1-2 is dead"), "{error}");
}
