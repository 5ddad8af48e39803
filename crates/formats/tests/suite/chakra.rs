//! Chakra execution traces: read byte by byte, timed against flights, written and read back.

use crate::prelude::*;
use antiphon_base::error::{Error, Result};
use antiphon_formats::chakra::{self, ChakraTrace, TraceReader};
use antiphon_jobs::graph::{ExchangeKind, JobExchange, JobGraph, OperationKind};
use antiphon_jobs::replay::{Replay, run};
use antiphon_jobs::training::{self, Bucket, Cost, IterationGraph, IterationPolicy, Overlap};
use antiphon_jobs::transport::OnFabric;
use antiphon_jobs::workload::{Exchange, Passes};
use antiphon_model::fabric::Groups;
use antiphon_model::system::Processor;
use std::collections::HashMap;

pub fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = vec![];
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A field that is a varint, and one that is a text or message.
pub fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

pub fn nested(field: u64, content: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

/// A message behind its length.
pub fn framed(content: &[u8]) -> Vec<u8> {
    [varint(content.len() as u64), content.to_vec()].concat()
}

pub fn metadata() -> Vec<u8> {
    framed(&nested(1, b"0.0.4"))
}

/// An attribute whose value is int64, number 9.
pub fn attribute(name: &str, value: u64) -> Vec<u8> {
    nested(10, &[nested(1, name.as_bytes()), number(9, value)].concat())
}

pub fn text(name: &str, value: &str) -> Vec<u8> {
    nested(10, &[nested(1, name.as_bytes()), nested(29, value.as_bytes())].concat())
}

/// A node of a type after others (data dependencies, packed), with more fields.
pub fn node(id: u64, kind: u64, after: &[u64], rest: &[Vec<u8>]) -> Vec<u8> {
    let after: Vec<u8> = after.iter().flat_map(|&other| varint(other)).collect();
    let name = format!("node {id}");
    framed(&[number(1, id), nested(2, name.as_bytes()), number(3, kind), nested(5, &after), rest.concat()].concat())
}

pub fn compute(id: u64, after: &[u64], micros: u64) -> Vec<u8> {
    node(id, 4, after, &[number(7, micros)])
}

pub fn collective(id: u64, after: &[u64], kind: u64, size: u64, group: &str) -> Vec<u8> {
    let group = if group.is_empty() { vec![] } else { text("pg_name", group) };
    node(id, 7, after, &[attribute("comm_type", kind), attribute("comm_size", size), group])
}

fn send(id: u64, after: &[u64], to: u64, tag: u64, size: u64) -> Vec<u8> {
    node(id, 5, after, &[attribute("comm_dst", to), attribute("comm_tag", tag), attribute("comm_size", size)])
}

fn receive(id: u64, after: &[u64], from: u64, tag: u64, size: u64) -> Vec<u8> {
    node(id, 6, after, &[attribute("comm_src", from), attribute("comm_tag", tag), attribute("comm_size", size)])
}

pub fn read(files: &[Vec<u8>]) -> Result<ChakraTrace> {
    let mut reader = TraceReader::new(files.len() as u32, None, BTreeMap::new())?;
    files.iter().try_for_each(|file| reader.rank(&file[..]))?;
    reader.finish()
}

/// The traces of ranks with these nodes.
fn traces(ranks: &[Vec<Vec<u8>>]) -> Result<ChakraTrace> {
    let files: Vec<Vec<u8>> = ranks.iter().map(|nodes| [metadata(), nodes.concat()].concat()).collect();
    read(&files)
}

fn refused(ranks: &[Vec<Vec<u8>>]) -> Error {
    traces(ranks).unwrap_err()
}

/// A schedule for each exchange that moves something, one for those that are alike.
fn schedules(graph: &JobGraph, fabric: &Fabric, system: &System, spec: &str) -> Vec<Option<Proven>> {
    let mut known: HashMap<(Vec<u32>, String, u64), Proven> = HashMap::new();
    let one = |exchange| {
        let (collective, spec) = match exchange {
            JobExchange { kind: ExchangeKind::Collective(collective), .. } => (collective, spec),
            _ => (Collective::new(Kind::Broadcast), "direct"),
        };
        let (ranks, bytes) = (graph.ranks_of(&exchange), exchange.bytes);
        let key = (ranks.clone(), format!("{collective:?}"), bytes);
        let build = || {
            let group = fabric.group(&ranks).unwrap().fabric;
            let build = |spec| algorithm::build(&group, system, collective, bytes, spec);
            prove(&group, build(spec).or_else(|_| build("direct")).unwrap()).unwrap()
        };
        graph.moves(&exchange).then(|| known.entry(key).or_insert_with(build).clone())
    };
    graph.exchanges.iter().copied().map(one).collect()
}

pub fn replayed(graph: &JobGraph, fabric: &Fabric, system: &System, spec: &str, fidelity: Fidelity) -> Result<Replay> {
    let schedules = schedules(graph, fabric, system, spec);
    let each: Vec<Option<&Proven>> = schedules.iter().map(Option::as_ref).collect();
    run(graph, &each, &OnFabric { fabric, system, fidelity, order: Order::Priority }, &mut |_| true)
}

fn setting(spec: &str, name: &str) -> (Fabric, System) {
    (Fabric::parse(spec).unwrap(), System::preset(name).unwrap())
}

/// Two microseconds of computation, then an AllReduce of 16 KiB, byte by byte.
#[test]
fn bytes_by_hand() {
    let rank: &[u8] = &[
        7, 0x0a, 5, b'0', b'.', b'0', b'.', b'4', // the version
        7, 0x12, 1, b'a', 0x18, 4, 0x38, 2, // node 0, which is not written: name, COMP_NODE, 2 microseconds
        50, 0x08, 1, 0x12, 1, b'b', 0x18, 7, 0x2a, 1, 0, // node 1: name, COMM_COLL_NODE, after 0
        0x52, 13, 0x0a, 9, b'c', b'o', b'm', b'm', b'_', b't', b'y', b'p', b'e', 0x48, 0, // int64: ALL_REDUCE
        0x52, 15, 0x0a, 9, b'c', b'o', b'm', b'm', b'_', b's', b'i', b'z', b'e', 0x48, 0x80, 0x80,
        1, // int64: 16384
        0x52, 3, 0x0a, 1, b'x', // an attribute without a value
    ];
    let mut rank = rank.to_vec();
    rank[16] = (rank.len() - 17) as u8;
    let ChakraTrace { graph, untimed } = read(&[rank.clone(), rank]).unwrap();
    assert_eq!((graph.operations().count(), graph.exchanges.len(), graph.groups.len(), untimed), (4, 1, 1, 0));
    assert_eq!((graph.exchanges[0].bytes, graph.names.clone()), (16_384, vec!["a".to_string(), "b".into()]));
    let (fabric, system) = setting("ring:2", "tto");
    let alone = algorithm::build(&fabric, &system, Collective::new(Kind::AllReduce), 16_384, "direct").unwrap();
    let alone = simulate(&fabric, &alone, &system, Fidelity::Packet).unwrap().time_ps;
    let replay = replayed(&graph, &fabric, &system, "direct", Fidelity::Packet).unwrap();
    assert_eq!(alone, 739_000);
    assert_eq!((replay.time_ps, replay.exchanges[0].start_ps), (2_000_000 + alone, 2_000_000));
    for rank in replay.ranks {
        assert_eq!((rank.compute_ps, rank.exposed_ps, rank.other_ps, rank.idle_ps), (2_000_000, alone, 0, 0));
    }
}

/// Rows are tensor-parallel, columns data-parallel. Every rank computes, reduces in its row, computes, and reduces in its
/// column, beside which it computes again. The times are those of flights that start when the ranks are ready.
#[test]
fn tensor_and_data_groups() {
    let (row, column) = (1 << 20, 4 << 20);
    // Rank 5, of row 1 and column 1, is late.
    let first = |rank: u64| if rank == 5 { 30 } else { 10 };
    let of_rank = |rank: u64| {
        vec![
            compute(10, &[], first(rank)),
            collective(20, &[10], 0, row, &format!("row {}", rank / 4)),
            compute(30, &[20], 5),
            collective(40, &[30], 0, column, &format!("column {}", rank % 4)),
            compute(50, &[30], 3),
        ]
    };
    let ChakraTrace { graph, .. } = traces(&(0..16).map(of_rank).collect::<Vec<_>>()).unwrap();
    assert_eq!((graph.groups.len(), graph.exchanges.len()), (9, 8));
    let (fabric, system) = setting("mesh:4x4", "tto");
    let built = |text: &str, bytes| -> Vec<Proven> {
        let Groups { groups, .. } = Groups::parse(&fabric, text).unwrap();
        let all_reduce = Collective::new(Kind::AllReduce);
        let built = |of: &Vec<u32>| {
            let group = fabric.group(of).unwrap().fabric;
            prove(&group, algorithm::build(&group, &system, all_reduce, bytes, "ring-bi").unwrap()).unwrap()
        };
        groups.iter().map(built).collect()
    };
    let (rows, columns) = (built("rows", row), built("columns", column));
    for &(_, fidelity) in Fidelity::ALL {
        let replay = replayed(&graph, &fabric, &system, "ring-bi", fidelity).unwrap();
        let mut flights: Vec<Flight> = rows.iter().map(Flight::new).collect();
        (0..).zip(&mut flights).for_each(|(row, of)| of.start_ps = if row == 1 { 30_000_000 } else { 10_000_000 });
        let fly = |flights: &[Flight]| {
            simulate_flights(&fabric, flights, Order::Fifo, &system, fidelity, RunOptions::default(), &mut |_| true)
                .unwrap()
                .flights
        };
        let ends: Vec<u64> = fly(&flights).iter().map(|row| row.finish_ps).collect();
        assert!(ends[1] > ends[0] + 19_000_000 && ends[0] == ends[2]);
        // A column waits for its rank in row 1.
        flights
            .extend(columns.iter().map(|schedule| Flight { start_ps: ends[1] + 5_000_000, ..Flight::new(schedule) }));
        let flown = fly(&flights);
        let name = |id: usize| graph.groups[graph.exchanges[id].group as usize].name.clone();
        for (id, times) in replay.exchanges.iter().enumerate() {
            let name = name(id);
            let number: usize = name.split(' ').next_back().unwrap().parse().unwrap();
            let flight = if name.starts_with("row") { number } else { 4 + number };
            assert_eq!((times.start_ps, times.finish_ps), (flown[flight].start_ps, flown[flight].finish_ps), "{name}");
        }
        assert_eq!(replay.time_ps, flown.iter().map(|row| row.finish_ps).max().unwrap());
        // Rank 0 computes 18; its row is over at ends[0], and it waits for its column from 5 + 3 after that on.
        let rank = replay.ranks[0];
        assert_eq!((rank.compute_ps, rank.idle_ps + rank.other_ps), (18_000_000, 0));
        assert_eq!(rank.exposed_ps, replay.time_ps - 18_000_000);
        let column = replay.exchanges.iter().enumerate().find(|&(id, _)| name(id) == "column 0").unwrap().1;
        assert_eq!(column.ready_ps, ends[0] + 5_000_000);
    }
}

/// Two stages, three microbatches: rank 1 computes each when its message is there, and one message may be on its way
/// while the next is computed.
#[test]
fn messages_of_a_pipeline() {
    let (fabric, system) = setting("ring:2", "tto");
    let size = 1 << 20;
    let stage = |id, micros| compute(id, &[], micros);
    let first = vec![stage(0, 100), stage(1, 100), stage(2, 100)];
    let sends = (0..3).map(|id| send(10 + id, &[id], 1, id, size));
    let receives = (0..3).map(|id| receive(10 + id, &[], 0, id, size));
    let second = (0..3).map(|id| compute(20 + id, &[10 + id], 150));
    let ranks = [first.into_iter().chain(sends).collect(), receives.chain(second).collect::<Vec<_>>()];
    let ChakraTrace { graph, .. } = traces(&ranks).unwrap();
    let group = fabric.group(&[0, 1]).unwrap().fabric;
    let message = algorithm::build(&group, &system, Collective::new(Kind::Broadcast), size, "direct").unwrap();
    for &(_, fidelity) in Fidelity::ALL {
        let time = simulate(&fabric, &message, &system, fidelity).unwrap().time_ps;
        assert!(time < 100_000_000);
        let replay = replayed(&graph, &fabric, &system, "ring", fidelity).unwrap();
        assert_eq!(replay.time_ps, 100_000_000 + time + 3 * 150_000_000);
        let starts: Vec<u64> = replay.exchanges.iter().map(|times| times.start_ps).collect();
        assert_eq!(starts, [100_000_000, 200_000_000, 300_000_000]);
        // The first stage is exposed to its last message only, then idle; the second waits for its first.
        let [one, two] = replay.ranks[..] else { panic!() };
        assert_eq!((one.compute_ps, one.exposed_ps, one.finish_ps), (300_000_000, time, 300_000_000 + time));
        assert_eq!((two.compute_ps, two.exposed_ps, two.idle_ps), (450_000_000, 100_000_000 + time, 0));
    }
}

/// Lanes: one node at a time in each, the first by its id; the host is told apart.
#[test]
fn lanes_of_a_rank() {
    let truth = |name: &str, value| nested(10, &[nested(1, name.as_bytes()), number(27, value)].concat());
    let host = node(1, 4, &[], &[number(7, 7), truth("is_cpu_op", 1)]);
    let aside = node(4, 4, &[], &[number(7, 11), attribute("stream", 7), truth("is_cpu_op", 0)]);
    let exact = node(5, 4, &[3], &[number(7, 1), attribute("duration_picos", 1)]);
    let memory = node(6, 2, &[4], &[number(7, 2)]);
    let busy = vec![host, compute(3, &[], 4), compute(2, &[], 5), aside, exact, memory];
    let ChakraTrace { graph, untimed } = traces(&[busy, vec![node(1, 9, &[], &[])]]).unwrap();
    assert_eq!(untimed, 1);
    let (fabric, system) = setting("ring:2", "generic");
    let replay = replayed(&graph, &fabric, &system, "ring", Fidelity::Packet).unwrap();
    // Nodes 2 and 3 follow each other to 9 beside node 4, which ends at 11.
    let rank = replay.ranks[0];
    assert_eq!((rank.compute_ps, rank.other_ps, rank.finish_ps), (11_000_000, 2_000_000, 13_000_000));
    assert_eq!((replay.time_ps, replay.ranks[1].idle_ps), (13_000_000, 13_000_000));
}

/// Operations and bytes become times by a roofline: 2e9 of 1e12 a second, 4e6 bytes of 1e9 a second.
#[test]
fn operations_by_a_roofline() {
    let nodes =
        |operations, bytes| node(0, 4, &[], &[attribute("num_ops", operations), attribute("tensor_size", bytes)]);
    let file = [metadata(), nodes(2_000_000_000, 1_000_000)].concat();
    let other = [metadata(), nodes(2_000_000_000, 4_000_000)].concat();
    let spec = "roofline:tflops=1,efficiency=1,gb-per-s=1,memory-efficiency=1";
    let Ok(Processor::Roofline(roofline)) = Processor::parse(spec) else { panic!() };
    let mut reader = TraceReader::new(2, Some(roofline), BTreeMap::new()).unwrap();
    reader.rank(&file[..]).unwrap();
    reader.rank(&other[..]).unwrap();
    let graph = reader.finish().unwrap().graph;
    let time = |rank: usize| match graph.ranks[rank].operations[0].kind {
        OperationKind::Compute { time_ps, .. } => time_ps,
        _ => 0,
    };
    assert_eq!([time(0), time(1)], [2_000_000_000, 4_000_000_000]);
    assert!(read(&[file, other]).unwrap_err().message.contains("--compute roofline"));
}

/// Groups come from what PyTorch lists, from a file, or from who names them.
#[test]
fn groups_of_ranks() {
    let listed = |ranks: &str| {
        let values = format!("['[{{\"pg_name\": \"7\", \"pg_size\": 2, \"ranks\": {ranks}}}]']");
        node(0, 1, &[], &[nested(8, &nested(1, values.as_bytes()))])
    };
    let rank = |ranks: &str| vec![listed(ranks), collective(1, &[], 2, 100, "7")];
    let ChakraTrace { graph, .. } = traces(&[rank("[0, 2]"), vec![], rank("[2, 0]")]).unwrap();
    assert_eq!((graph.groups[1].name.as_str(), &graph.groups[1].ranks[..]), ("7", &[0, 2][..]));
    // An AllGather's size is that of what each rank has.
    assert_eq!(graph.exchanges[0].bytes, 200);
    let all = traces(&[rank("[]"), rank("[]")]).unwrap().graph;
    assert_eq!(all.groups[1].ranks, [0, 1]);
    let error = refused(&[rank("[0, 1]"), rank("[0, 2]"), vec![]]);
    assert_eq!(
        (error.code, error.message.as_str()),
        (Code::BadFile, "node 0 'node 0': group '7': it is listed with other ranks, too")
    );
    let named = vec![collective(1, &[], 0, 8, "a")];
    let groups = chakra::parse_groups("{\"a\": [1, 0]}").unwrap();
    let mut reader = TraceReader::new(3, None, groups).unwrap();
    for nodes in [&named, &named, &vec![]] {
        reader.rank(&[metadata(), nodes.concat()].concat()[..]).unwrap();
    }
    assert_eq!(reader.finish().unwrap().graph.groups[1].ranks, [0, 1]);
    assert_eq!(traces(&[named.clone(), vec![], named]).unwrap().graph.groups[1].ranks, [0, 2]);
    for text in ["[]", "{\"a\": 1}", "{\"a\": [-1]}", "{\"a\": [0.5]}", ""] {
        assert_eq!(chakra::parse_groups(text).unwrap_err().code, Code::BadFile, "{text}");
    }
    for (ranks, what) in [(vec![], "no ranks"), (vec![0, 0], "twice"), (vec![9], "does not exist")] {
        let error = TraceReader::new(3, None, BTreeMap::from([("a".to_string(), ranks)])).err().unwrap();
        assert!(error.message.contains(what), "{error}");
    }
}

/// Traces that cannot be: one line that names the place.
#[test]
fn what_is_wrong_is_said() {
    let one = |nodes: Vec<Vec<u8>>| refused(&[nodes, vec![]]).message;
    assert_eq!(one(vec![compute(1, &[2], 1)]), "node 1 waits for node 2, which is not there");
    assert_eq!(one(vec![compute(1, &[], 1), compute(1, &[], 1)]), "two nodes have the id 1");
    let cycle = vec![compute(0, &[1], 1), compute(1, &[2], 1), compute(2, &[1], 1)];
    assert!(one(cycle).contains("waits for itself"));
    assert!(one(vec![compute(0, &[0], 1)]).contains("'node 0' waits for itself"));
    assert!(one(vec![node(0, 11, &[], &[])]).contains("type 11 is not known"));
    assert!(one(vec![node(0, 7, &[], &[])]).contains("has no attribute comm_type"));
    assert!(one(vec![node(0, 7, &[], &[text("comm_type", "all")])]).contains("comm_type is the text 'all'"));
    assert!(one(vec![collective(0, &[], 3, 1, "")]).contains("GATHER"));
    assert!(one(vec![collective(0, &[], 77, 1, "")]).contains("comm_type 77"));
    assert!(one(vec![collective(0, &[], 0, u64::MAX, "")]).contains("comm_size is -1"));
    assert!(one(vec![collective(0, &[], 0, 1 << 60, "")]).contains("1 PiB"));
    assert!(one(vec![send(0, &[], 5, 0, 1)]).contains("rank 5 does not exist"));
    assert!(one(vec![send(0, &[], 0, 0, 1)]).contains("to itself"));
    assert!(
        one(vec![send(0, &[], 1, 0, 1)]).contains("rank 0 sends a message with tag 0 that rank 1 does not receive")
    );
    assert!(one(vec![receive(0, &[], 1, 4, 1)]).contains("which it does not send"));
    assert!(one(vec![collective(0, &[], 0, 1, "")]).contains("rank 1 has 0 collectives of all ranks, rank 0 has 1"));
    assert!(one(vec![compute(0, &[], u64::MAX)]).contains("26 days"));
    assert!(one(vec![node(0, 4, &[], &[attribute("duration_picos", u64::MAX)])]).contains("out of range"));
    assert!(one(vec![node(0, 4, &[], &[attribute("duration_picos", 1 << 62)])]).contains("26 days"));
    let left_out = nested(10, &[nested(1, b"involved_dim"), nested(28, &nested(1, &[1, 0]))].concat());
    let collective_of = |dim| node(0, 7, &[], &[attribute("comm_type", 0), attribute("comm_size", 4), dim]);
    assert!(one(vec![collective_of(left_out)]).contains("pg_name"));
    let two = |one: Vec<u8>, other: Vec<u8>| refused(&[vec![one], vec![other]]).message;
    let of = |kind, size| collective(0, &[], kind, size, "");
    assert!(two(of(0, 4), of(0, 8)).contains("all-reduce 'node 0' of 8 bytes"));
    assert!(two(of(0, 4), of(7, 4)).contains("for rank 0 all-reduce"));
    assert!(two(send(0, &[], 1, 0, 4), receive(0, &[], 0, 0, 5)).contains("which sends 4"));
    let twice = vec![of(0, 4), collective(1, &[], 0, 4, "")];
    assert!(
        refused(&[vec![of(0, 4)], twice.clone()]).message.contains("collective 2 of group '', of which rank 0 has 1")
    );
    assert!(refused(&[twice, vec![of(0, 4)]]).message.contains("rank 1 has 1 collectives of all ranks, rank 0 has 2"));
}

/// Bytes that are no trace are refused where they end or go wrong, without memory for what they claim.
#[test]
fn bytes_that_are_no_trace() {
    let one = |bytes: &[u8]| read(&[bytes.to_vec(), metadata()]).unwrap_err();
    assert!(one(b"").message.contains("is empty"));
    let whole = [metadata(), collective(300, &[], 0, 1 << 40, "group")].concat();
    for end in 1..whole.len() {
        if end == metadata().len() {
            continue;
        }
        let error = one(&whole[..end]);
        assert!(error.code == Code::BadFile && error.message.contains("the file ends within"), "{end}: {error}");
    }
    let with = |bytes: &[u8]| one(&[metadata(), bytes.to_vec()].concat());
    assert_eq!(with(&[0xff; 10]).message, "byte 18: no length of a message; is it a Chakra trace?");
    assert_eq!(with(&[0xff; 5]).code, Code::BadFile);
    // 2^63 bytes, of which there are three; 4 MiB and one.
    assert_eq!(with(&[&varint(1 << 63)[..], &[1, 2, 3]].concat()).code, Code::TooLarge);
    assert_eq!(with(&varint((1 << 22) + 1)).code, Code::TooLarge);
    // A field that is longer than its message, of a wrong type, with the number 0; a group that does not end.
    for broken in [&[0x0a, 100, 1][..], &[0x0d, 1, 2, 3, 4], &[0x00, 1], &[0x0b], &[0x12, 2, 0xff, 0xfe]] {
        assert!(with(&framed(broken)).message.starts_with("byte 8: a message is no node"), "{broken:?}");
    }
    assert_eq!(
        one(b"{\"schema\": 1}").message,
        "byte 0: the file ends within a message of 123 bytes, of which 12 are there"
    );
    // Groups in groups in groups.
    let deep: Vec<u8> = std::iter::repeat_n(0x7b, 100_000).collect();
    assert!(with(&framed(&deep)).message.contains("no node"));
}

/// Ranks that wait for each other are found, with what each waits for.
#[test]
fn ranks_that_wait_for_each_other() {
    let order = |first: &str, second: &str| vec![collective(0, &[], 0, 64, first), collective(1, &[0], 0, 64, second)];
    let ChakraTrace { graph, .. } = traces(&[order("a", "b"), order("b", "a")]).unwrap();
    let (fabric, system) = setting("ring:2", "generic");
    let error = replayed(&graph, &fabric, &system, "ring", Fidelity::Packet).unwrap_err();
    assert_eq!(error.code, Code::Stalled);
    let what =
        "ranks wait for each other in all-reduce 'node 0': rank 1 never comes to node 'node 1': it waits in 'node 0'";
    assert_eq!(error.message, what);
    let waits = vec![receive(0, &[], 1, 0, 8), send(1, &[0], 1, 0, 8)];
    let other = vec![receive(0, &[], 0, 0, 8), send(1, &[0], 0, 0, 8)];
    let ChakraTrace { graph, .. } = traces(&[waits, other]).unwrap();
    let error = replayed(&graph, &fabric, &system, "ring", Fidelity::Packet).unwrap_err();
    assert!(error.message.contains("message 'node 1' from rank"), "{error}");
}

/// What takes no time on the network: barriers, nothing, groups of one. A barrier waits for all.
#[test]
fn exchanges_that_move_nothing() {
    let rank = |micros| {
        let nodes = [compute(0, &[], micros), collective(1, &[0], 9, 0, ""), collective(2, &[1], 0, 0, "")];
        [nodes.to_vec(), vec![collective(3, &[2], 0, 8, &format!("only {micros}")), compute(4, &[3], 1)]].concat()
    };
    let ChakraTrace { graph, .. } = traces(&[rank(3), rank(5)]).unwrap();
    let (fabric, system) = setting("ring:2", "generic");
    let replay = replayed(&graph, &fabric, &system, "ring", Fidelity::Packet).unwrap();
    assert_eq!((replay.time_ps, replay.ranks[0].exposed_ps), (6_000_000, 2_000_000));
}

/// An iteration is read back from its traces as it was written, if they can say it; what one rank does for all takes as long as
/// when every rank does it, to the picosecond; in flits with one algorithm.
#[test]
fn plans_are_read_back() {
    let in_flits = sweep("ring-bi", "direct");
    let model = [
        Cost::of_gradients([500_001, 300_007, 200_003], 300_000),
        Cost::of_gradients([100_000, 50_000, 70_000], 400_000),
        Cost::of_gradients([10_000, 0, 5_000], 90_004),
    ];
    let mut divided = model;
    divided[0].exchanges.0[0] = Some(Exchange { kind: Kind::AllReduce, bytes: 64_000 });
    divided[1].exchanges.0[1] = Some(Exchange { kind: Kind::AllGather, bytes: 64_000 });
    divided[1].exchanges.0[0] = Some(Exchange { kind: Kind::AllToAll, bytes: 16_384 });
    let mut streams = model;
    (streams[0].consumer, streams[0].stream) = (Some(2), 3);
    let mut slower = model;
    slower[0].beside = Passes([700_001, 400_007, 200_003]);
    let policies = [(Overlap::None, 1, false), (Overlap::Layerwise, 1, true), (Overlap::Layerwise, 3, false)];
    for (name, spec) in [("tto", "ring-bi"), ("generic", "direct")] {
        let setting = setting("mesh:4x4", name);
        for (layers, parts) in [(&model, 1), (&divided, 4), (&streams, 1)] {
            for (overlap, unroll, blocking) in policies {
                let policy = IterationPolicy { blocking, ..IterationPolicy::new(overlap, Bucket::Layer) };
                let iteration = IterationGraph::new(layers, policy, 7_000, unroll).unwrap();
                let graph = training::unfold(&iteration, &["a", "b", "c"], 16, parts).unwrap();
                let files: Vec<Vec<u8>> = (0..16).map(|rank| chakra::write(&graph, rank).unwrap()).collect();
                let again = read(&files).unwrap();
                assert_eq!((&again.graph, again.untimed), (&graph, 0));
                one_rank_stands_for_all(&iteration, &graph, &setting, spec, unroll == 1 && spec == in_flits);
            }
        }
        // What no trace can say: parts that are waited for, and slower computation beside exchanges.
        let policy = IterationPolicy::new(Overlap::Both, Bucket::Layer);
        let iteration = IterationGraph::new(&slower, policy, 7_000, 2).unwrap();
        let graph = training::unfold(&iteration, &["a", "b", "c"], 16, 1).unwrap();
        one_rank_stands_for_all(&iteration, &graph, &setting, spec, false);
    }
}

fn one_rank_stands_for_all(
    iteration: &IterationGraph,
    graph: &JobGraph,
    (fabric, system): &(Fabric, System),
    spec: &str,
    in_flits: bool,
) {
    let built = schedules(graph, fabric, system, spec);
    // The schedules of an exchange of the iteration are those of its groups.
    let mut exchanges: Vec<Vec<&Proven>> = vec![Vec::new(); iteration.jobs.exchanges.len()];
    for (number, (kind, _)) in iteration.operations().enumerate() {
        let OperationKind::Exchange(id) = kind else { continue };
        let numbers: BTreeSet<u32> = (graph.ranks.iter())
            .map(|rank| match rank.operations[number].kind {
                OperationKind::Exchange(number) => number,
                other => panic!("{other:?}"),
            })
            .collect();
        exchanges[id as usize].extend(numbers.iter().filter_map(|&number| built[number as usize].as_ref()));
    }
    let each: Vec<Option<&Proven>> = built.iter().map(Option::as_ref).collect();
    for &(_, fidelity) in Fidelity::ALL.iter().filter(|(_, fidelity)| in_flits || *fidelity != Fidelity::Flit) {
        for order in [Order::Priority, Order::Lifo] {
            let on = OnFabric { fabric, system, fidelity, order };
            let one = training::run_shared(iteration, &exchanges, &on, &mut |_| true).unwrap();
            let all = run(graph, &each, &on, &mut |_| true).unwrap();
            let rank = all.ranks[0];
            let what = format!("{spec}, {} operations, {fidelity:?}, {order:?}", graph.operations().count());
            assert_eq!(all.time_ps, one.time_ps, "{what}");
            assert_eq!((rank.compute_ps, rank.exposed_ps), (one.compute_ps(), one.exposed_ps()), "{what}");
        }
    }
}

/// A schedule's traces have a node for each of its messages and sums, each after what it waits for; run message by
/// message over links without latency, they take as long as the schedule.
#[test]
fn schedules_as_traces() {
    let mut system = System::preset("generic").unwrap();
    system.hand_off_ps = 0;
    for (spec, name, kind, bytes) in [
        ("ring:4@50/0ns", "ring", Kind::AllReduce, 4096),
        ("ring:5@50/0ns", "ring-bi", Kind::AllReduce, 1 << 16),
        ("mesh:3x3@50/0ns", "multitree:chunk=1KiB", Kind::AllReduce, 100_000),
        ("mesh:4x4@50/0ns", "combs", Kind::AllReduce, 1 << 20),
        ("ring:4@50/0ns", "ring", Kind::ReduceScatter, 4096),
        ("torus:3x3@50/0ns", "ring-2d", Kind::AllGather, 9000),
        ("fc:4@50/0ns", "direct", Kind::AllToAll, 4096),
    ] {
        let fabric = Fabric::parse(spec).unwrap();
        let schedule = algorithm::build(&fabric, &system, Collective::new(kind), bytes, name).unwrap();
        let files = chakra::write_schedule(&schedule).unwrap();
        let graph = read(&files).unwrap().graph;
        assert_eq!(graph, chakra::lower(&schedule).unwrap());
        assert_eq!(graph.exchanges.len() as u64, schedule.messages());
        let bytes = |transfer: u32, chunk: u64| -> u64 {
            let ranges =
                schedule.transfers[transfer as usize].lanes().map(|lane| schedule.chunk_range(lane as u32, chunk));
            ranges.map(|range| range.end - range.start).sum()
        };
        // Tags count messages by transfer and chunk.
        let messages: Vec<(u32, u64)> = (0..)
            .zip(&schedule.transfers)
            .flat_map(|(id, transfer)| (0..schedule.chunks(transfer)).map(move |chunk| (id, chunk)))
            .collect();
        for exchange in &graph.exchanges {
            let ExchangeKind::Message { from, to, tag } = exchange.kind else { panic!() };
            let (id, chunk) = messages[tag as usize];
            let transfer = &schedule.transfers[id as usize];
            assert_eq!((from, to, exchange.bytes), (transfer.from, transfer.to, bytes(id, chunk)));
        }
        let sums = graph.operations().filter(|one| matches!(one.kind, OperationKind::Compute { time_ps: 0, .. }));
        let sums = sums.count() as u64;
        let reduces = schedule.transfers.iter().filter(|transfer| transfer.op == Op::Reduce);
        assert_eq!(sums, reduces.map(|transfer| schedule.chunks(transfer)).sum::<u64>());
        let replay = replayed(&graph, &fabric, &system, "ring", Fidelity::AlphaBeta).unwrap();
        let alone = simulate(&fabric, &schedule, &system, Fidelity::AlphaBeta).unwrap();
        assert_eq!(replay.time_ps, alone.time_ps, "{spec}, {name}");
    }
}

#[test]
fn schedules_that_no_trace_can_say() {
    let system = System::preset("tto").unwrap();
    let refused = |spec: &str, name: &str, kind, bytes| {
        let fabric = Fabric::parse(spec).unwrap();
        let schedule = algorithm::build(&fabric, &system, Collective::new(kind), bytes, name).unwrap();
        chakra::write_schedule(&schedule).unwrap_err()
    };
    assert!(refused("mesh:3x3", "tto", Kind::AllReduce, 1 << 20).message.contains("excludes some"));
    assert!(refused("ring:4", "direct", Kind::Broadcast, 64).message.contains("ASTRA-sim has custom AllReduces"));
    let large = refused("mesh:4x4", "direct:chunk=4KiB", Kind::AllReduce, 1 << 31);
    assert!(large.code == Code::TooLarge && large.message.contains("larger chunks"), "{large}");
}

#[test]
fn iterations_that_no_trace_can_say() {
    let mut costs = [Cost::of_gradients([10, 10, 10], 300); 2];
    let written = |costs: &[Cost], overlap| {
        let iteration = IterationGraph::new(costs, IterationPolicy::new(overlap, Bucket::Layer), 0, 1).unwrap();
        let error = chakra::write(&training::unfold(&iteration, &["a", "b"], 4, 1).unwrap(), 0).unwrap_err();
        assert_eq!(error.code, Code::NotApplicable);
        error.message
    };
    assert!(written(&costs, Overlap::Chained).contains("a part of an exchange"));
    costs[0].beside = Passes([11, 10, 10]);
    assert!(written(&costs, Overlap::Layerwise).contains("slow computation down"));
    costs[0].beside = costs[0].times;
    costs[0].exchanges.0[0] = Some(Exchange { kind: Kind::AllGather, bytes: 10 });
    assert!(written(&costs, Overlap::Layerwise).contains("parts of different sizes"));
}
