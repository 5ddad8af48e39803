//! Fuzzing of what users write: specifications and files of fabrics, schedules, tables of workloads. Nothing panics,
//! what is refused is refused in one line, and what is read is whole.

use crate::chakra as traces;
use crate::fuzzing::fuzz;
use crate::prelude::*;
use crate::topologies;
use antiphon_base::error::Result;
use antiphon_base::watch::Watch;
use antiphon_formats::{FileFormat, chakra, msccl, mscclpp, of_text};
use antiphon_jobs::workload::{PRESETS, Workload};
use proptest::sample::{Index, select};
use proptest::test_runner::TestCaseResult;

/// A refusal is one line of bearable length.
fn one_line<T>(outcome: Result<T>) -> std::result::Result<Option<T>, TestCaseError> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) => {
            let line = &error.message;
            // A fabric's whole specification may be part of it.
            prop_assert!(!line.is_empty() && !line.contains('\n') && line.len() < 2000, "{line:?}");
            Ok(None)
        }
    }
}

/// One change of a text.
#[derive(Debug, Clone)]
enum Damage {
    /// A character is replaced; a span is removed, or doubled.
    Replace(Index, char),
    Remove(Index, usize),
    Double(Index, usize),
    /// A number is replaced.
    Number(Index, &'static str),
    Insert(Index, &'static str),
}

const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "2",
    "7",
    "-1",
    "0.5",
    "1e3",
    "1e999",
    "64",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "1125899906842624",
    "",
];
const PIECES: [&str; 16] = [
    "null",
    "true",
    "[]",
    "{}",
    "\"",
    "\\u0000",
    ",",
    ",,",
    "\n",
    "#",
    ";",
    "\u{feff}",
    "é",
    "[[[[",
    "all-reduce",
    "\"x\":1,",
];

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<Index>;
    prop_oneof![
        1 => (at(), any::<char>()).prop_map(|(at, c)| Damage::Replace(at, c)),
        1 => (at(), "[0-9{}\\[\\]:,\"a-z.-]").prop_map(|(at, c)| Damage::Replace(at, c.chars().next().unwrap())),
        1 => (at(), 1usize..40).prop_map(|(at, length)| Damage::Remove(at, length)),
        1 => (at(), 1usize..200).prop_map(|(at, length)| Damage::Double(at, length)),
        4 => (at(), select(&NUMBERS[..])).prop_map(|(at, number)| Damage::Number(at, number)),
        1 => (at(), select(&PIECES[..])).prop_map(|(at, piece)| Damage::Insert(at, piece)),
    ]
}

fn damaged(text: &str, list: &[Damage]) -> String {
    let mut text: Vec<char> = text.chars().collect();
    for damage in list.iter().filter(|_| !text.is_empty()).cloned().collect::<Vec<_>>() {
        if text.is_empty() {
            break;
        }
        let span = |at: Index, length: usize| at.index(text.len())..(at.index(text.len()) + length).min(text.len());
        match damage {
            Damage::Replace(at, c) => *at.get_mut(&mut text) = c,
            Damage::Remove(at, length) => drop(text.drain(span(at, length))),
            Damage::Double(at, length) => {
                let span = span(at, length);
                let copy = text[span.clone()].to_vec();
                text.splice(span.end..span.end, copy);
            }
            Damage::Number(at, number) => {
                let digit = |i: &usize| text[*i].is_ascii_digit();
                let starts: Vec<usize> =
                    (0..text.len()).filter(|i| digit(i) && (*i == 0 || !digit(&(i - 1)))).collect();
                if !starts.is_empty() {
                    let start = *at.get(&starts);
                    let end = (start..text.len()).find(|i| !digit(i)).unwrap_or(text.len());
                    text.splice(start..end, number.chars());
                }
            }
            Damage::Insert(at, piece) => {
                let at = at.index(text.len());
                text.splice(at..at, piece.chars());
            }
        }
    }
    text.into_iter().collect()
}

/// Numbers are dense, links join nodes, and the file says the same.
fn whole(fabric: &Fabric) -> TestCaseResult {
    prop_assert!(fabric.ranks() >= 2);
    let nodes = fabric.nodes.len();
    for rank in 0..fabric.ranks() as u32 {
        prop_assert_eq!(fabric.nodes[fabric.node_of_rank(rank) as usize].rank, Some(rank));
    }
    prop_assert!(fabric.links.iter().all(|link| (link.from as usize) < nodes && (link.to as usize) < nodes));
    prop_assert!(fabric.describe().contains("ranks"));
    let mut names: Vec<&str> = fabric.nodes.iter().map(|node| node.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    if fabric.links.len() < 2000 && names.len() == nodes {
        let again = Fabric::from_json(&fabric.name, &fabric.to_json());
        prop_assert!(again.is_ok(), "{again:?}");
        let again = again.unwrap();
        prop_assert_eq!(&again.nodes, &fabric.nodes);
        prop_assert_eq!(&again.links, &fabric.links);
        prop_assert_eq!(again.shape, Shape::Graph);
    }
    Ok(())
}

#[test]
fn fabric_specifications() {
    let size = "[0-9]{0,2}(x[0-9]{0,2}){0,3}";
    let kinds: Vec<&str> = antiphon_model::fabric::PRESETS.iter().map(|preset| preset.kind).collect();
    let kind = format!("({}|x)?", kinds.join("|"));
    let option = "([:,](raw|twisted|rails=leaf-spine|(nics|ratio|hosts|groups)=[0-9]|[0-9])){0,3}";
    let node = "(0|1|2|3|4|5|8|99|-1|x|)";
    let change = format!("(,(drop|slow|exclude|dead|drip)=?{node}[>-]{{0,2}}{node}(:[0-9.e-]{{0,4}})?)");
    let spec = format!(
        "{kind}:?({size}|4x4|3x3|5){option}(@[0-9.e]{{0,6}}(/[0-9.]{{0,4}}(ns|us|ps|ms|s|)){{0,2}})?{change}{{0,4}}"
    );
    let likely = format!("(mesh|torus|ring|fbfly|switch):(2x3|3x3|5){change}{{1,5}}");
    let specs = prop_oneof![
        proptest::string::string_regex(&spec).unwrap(),
        proptest::string::string_regex(&likely).unwrap(),
        any::<String>(),
    ];
    fuzz(1500, specs, |spec| match one_line(Fabric::parse(&spec))? {
        Some(fabric) => whole(&fabric),
        None => Ok(()),
    });
}

#[test]
fn fabric_files() {
    let texts = ["mesh:2x3@25/3ns", "switch:3", "bigraph:2x1", "ring:4,slow=0>1:0.5,drop=1-2"]
        .map(|spec| Fabric::parse(spec).unwrap().to_json());
    fuzz(2000, (select(texts.to_vec()), prop::collection::vec(damage(), 1..6)), |(text, list)| {
        match one_line(Fabric::from_json("fuzz", &damaged(&text, &list)))? {
            Some(fabric) => whole(&fabric),
            None => Ok(()),
        }
    });
}

/// Topologies of other tools.
#[test]
fn fabric_imports() {
    let texts = [topologies::NCCL, topologies::LSTOPO, topologies::INFRAGRAPH];
    fuzz(2000, (select(texts.to_vec()), prop::collection::vec(damage(), 1..6)), |(text, list)| {
        match one_line(Fabric::from_text("fuzz", &damaged(text, &list)))? {
            Some(fabric) => whole(&fabric),
            None => Ok(()),
        }
    });
}

/// A damaged schedule that is still proven runs right; others are refused.
#[test]
fn schedules() {
    let system = System::preset("generic").unwrap();
    let cases: Vec<(Fabric, String)> = [
        ("ring:4", "ring", Kind::AllReduce),
        ("mesh:2x3", "multitree:chunk=100", Kind::AllReduce),
        ("switch:4", "halving-doubling", Kind::ReduceScatter),
        ("ring:3", "direct", Kind::AllToAll),
        ("mesh:2x2", "dbtree", Kind::AllReduce),
        ("mesh:3", "direct", Kind::AllGather),
    ]
    .map(|(spec, name, kind)| {
        let fabric = Fabric::parse(spec).unwrap();
        let schedule = algorithm::build(&fabric, &system, Collective::new(kind), 600, name).unwrap();
        let json = schedule.to_json();
        (fabric, json)
    })
    .to_vec();
    let damages = prop::collection::vec(damage(), 1..4);
    fuzz(2000, (0..cases.len(), damages), |(case, list)| {
        let (fabric, text) = &cases[case];
        let Some(schedule) = one_line(Schedule::from_json(&damaged(text, &list), Some(fabric)))? else { return Ok(()) };
        prop_assert_eq!(schedule.check(fabric), Ok(()));
        let _ = schedule.stats(fabric);
        let Some(proof) = one_line(verify(fabric, &schedule))? else { return Ok(()) };
        // Absurd sizes are refused or take long; they are for other tests.
        let small = schedule.messages() < 10_000 && schedule.lanes.iter().all(|lane| lane.chunk_bytes < 1 << 16);
        if proof.complete && small && schedule.bytes < 1 << 16 {
            prop_assert_eq!(check_by_execution(&schedule, Some(1)), Ok(()));
            for &(_, fidelity) in Fidelity::ALL {
                let run = simulate(fabric, &schedule, &system, fidelity);
                prop_assert!(run.is_ok(), "{fidelity:?}: {:?}", run.err());
            }
        }
        Ok(())
    });
}

/// Files of small schedules.
fn written(format: &dyn FileFormat, cases: &[(&str, &str, Kind)]) -> Vec<String> {
    let system = System::preset("generic").unwrap();
    let text = |&(spec, name, kind): &(&str, &str, Kind)| {
        let fabric = Fabric::parse(spec).unwrap();
        let schedule = algorithm::build(&fabric, &system, Collective::new(kind), 480, name).unwrap();
        format.write(&schedule, "executor", Watch::default()).unwrap()
    };
    cases.iter().map(text).collect()
}

/// A damaged file that is still proven is right as a schedule too, where it is one.
fn stay_right(cases: u32, texts: Vec<String>) {
    fuzz(cases, (select(texts), prop::collection::vec(damage(), 1..4)), |(text, list)| {
        let damaged = damaged(&text, &list);
        let Some(Some(format)) = one_line(of_text(&damaged))? else { return Ok(()) };
        let Some(file) = one_line(format.read(&damaged, Watch::default()))? else { return Ok(()) };
        if format.name() == "msccl" {
            let algo = msccl::read(&damaged, Watch::default()).unwrap();
            let again = msccl::read(&msccl::write(&algo, Watch::default()).unwrap(), Watch::default());
            prop_assert_eq!(again.map(|again| again.steps()), Ok(algo.steps()));
        }
        let Some(_) = one_line(file.prove(Watch::default()))? else { return Ok(()) };
        let fabric = Fabric::parse(&format!("fc:{}", file.ranks())).unwrap();
        let Some(schedule) = one_line(file.raise(&fabric, 4800, &[], Watch::default()))? else { return Ok(()) };
        prop_assert_eq!(verify(&fabric, &schedule).map(|proof| proof.complete), Ok(true));
        prop_assert_eq!(check_by_execution(&schedule, Some(1)), Ok(()));
        Ok(())
    });
}

#[test]
fn msccl_programs() {
    let cases = [
        ("ring:4", "ring", Kind::AllReduce),
        ("mesh:2x2", "multitree", Kind::AllReduce),
        ("switch:4", "halving-doubling", Kind::ReduceScatter),
        ("mesh:3", "direct", Kind::AllToAll),
        ("fc:3", "multitree", Kind::Broadcast),
    ];
    stay_right(2000, written(&msccl::Msccl, &cases));
}

#[test]
fn mscclpp_plans() {
    let cases = [
        ("ring:3", "ring", Kind::AllReduce),
        ("mesh:2x2", "multitree", Kind::AllReduce),
        ("mesh:3", "direct", Kind::AllToAll),
        ("fc:3", "multitree", Kind::Broadcast),
    ];
    stay_right(2000, written(&mscclpp::Mscclpp, &cases));
}

#[test]
fn results_of_synthesisers() {
    let flows: Vec<String> = [(0, 1), (1, 0), (1, 2), (2, 1)]
        .iter()
        .map(|(from, to)| format!("\"Chunk 0 from {from} traveled over {from}->{to} in epoch 0 via switches 7\""))
        .chain(
            [(0, 2), (2, 0)]
                .iter()
                .map(|(from, to)| format!("\"Chunk 0 from {from} traveled over 1->{to} in epoch 3\"")),
        )
        .collect();
    let texts = [
        format!("{{\"1-Epoch_Duration\": 5e-9, \"7-Flows\": [{}]}}", flows.join(", ")),
        "NPUs Count,3\nLinks Count,4\nChunks Count,3\nChunk Size,64,B\nSrcID,DestID,Latency (ns),Bandwidth (GB/s),Chunks\n\
         0,1,1,1,0\n1,0,1,1,1,2\n1,2,1,1,1,0\n2,1,1,1,2\n"
            .to_string(),
        "{\"7-Flows\": [\"Chunk 1 from 0 traveled over 0->1 with volume 0.5 in epoch 0\", \"Chunk 0 from 1 traveled over 1->0 with \
         volume 1 in epoch 0\"], \"8-Chunk paths\": {\"Demand at 1 for chunk 1 from 0 met\": [[[0, \"0->1 with volume 0.5 in epoch \
         0\"]], [[1, \"0->1 with volume 0.5 in epoch 1\"]]], \"Demand at 0 for chunk 0 from 1 met\": [[[0, \"1->0 with volume 1.0 \
         in epoch 0\"]]]}}"
            .to_string(),
    ];
    stay_right(3000, texts.to_vec());
}

/// Damaged traces of two ranks: what is read is written and read as the same, and runs to its end or says who waits.
#[test]
fn chakra_traces() {
    let (fabric, system) = (Fabric::parse("ring:2").unwrap(), System::preset("generic").unwrap());
    let rank = |own: u64| {
        let other = 1 - own;
        let send = [traces::attribute("comm_dst", other), traces::attribute("comm_size", 64)];
        let receive = [traces::attribute("comm_src", other), traces::attribute("comm_size", 64)];
        let nodes = [
            traces::compute(0, &[], 3),
            traces::collective(1, &[0], 0, 4096, "a"),
            traces::compute(2, &[1], 1),
            traces::node(3, 5, &[2], &send),
            traces::node(4, 6, &[], &receive),
            traces::collective(5, &[3, 4], 2, 100, ""),
            traces::node(6, 2, &[5], &[]),
        ];
        [traces::metadata(), nodes.concat()].concat()
    };
    let (at, pieces) = (any::<Index>, [0u8, 1, 0x7f, 0x80, 0xff, 0x2a, 0x52, 0x18, 0x48, 7, 4]);
    let change = prop_oneof![
        3 => (at(), any::<u8>(), Just(0)),
        3 => (at(), select(pieces.to_vec()), Just(0)),
        1 => (at(), any::<u8>(), 1usize..30),
        1 => (at(), select(pieces.to_vec()), Just(usize::MAX)),
    ];
    fuzz(4000, (any::<bool>(), prop::collection::vec(change, 1..4)), |(second, list)| {
        let mut files = [rank(0), rank(1)];
        let file = &mut files[usize::from(second)];
        for (at, byte, removed) in list {
            match removed {
                _ if file.is_empty() => break,
                0 => *at.get_mut(file) = byte,
                usize::MAX => file.insert(at.index(file.len()), byte),
                _ => drop(file.drain(at.index(file.len())..(at.index(file.len()) + removed).min(file.len()))),
            }
        }
        let Some(trace) = one_line(traces::read(&files))? else { return Ok(()) };
        if let Some(written) = one_line([0, 1].into_iter().map(|rank| chakra::write(&trace.graph, rank)).collect())? {
            let written: Vec<Vec<u8>> = written;
            let again = traces::read(&written);
            prop_assert!(again.is_ok(), "{again:?}");
            // Names are numbered as they come, and what is not referred to is not written.
            let again = again.unwrap().graph;
            prop_assert_eq!(&again.exchanges, &trace.graph.exchanges);
            prop_assert_eq!(again.operations().count(), trace.graph.operations().count());
        }
        if trace.graph.exchanges.iter().all(|exchange| exchange.bytes < 1 << 20) {
            let replay = one_line(traces::replayed(&trace.graph, &fabric, &system, "ring", Fidelity::AlphaBeta))?;
            let ends = |replay: &antiphon_jobs::replay::Replay| {
                replay
                    .ranks
                    .iter()
                    .all(|rank| rank.compute_ps + rank.exposed_ps + rank.other_ps + rank.idle_ps == replay.time_ps)
            };
            prop_assert!(replay.as_ref().is_none_or(ends), "{replay:?}");
        }
        Ok(())
    });
}

/// Damaged files of the groups of traces.
#[test]
fn chakra_groups() {
    let long = format!("{{\"1\": \"{}\"}}", "x".repeat(5000));
    let texts = ["{\"1\": [0, 1], \"2\": [2, 3]}".to_string(), long];
    fuzz(1000, (select(texts.to_vec()), prop::collection::vec(damage(), 0..6)), |(text, list)| {
        one_line(chakra::parse_groups(&damaged(&text, &list))).map(drop)
    });
}

#[test]
fn workload_tables() {
    let mut texts: Vec<String> = [
        "layer,ifmap_h,ifmap_w,filter_h,filter_w,channels,num_filters,stride\na,8,8,3,3,4,5,1\nb,6,6,1,1,5,2,2\n",
        "# totals\nlayer,params,macs,inel,outel,fwd_comm,ig_comm,consumer\na,8,6,7,9,all-reduce,none,c\nb,1,1,1,1,,,\nc,1,1,1,1,,allreduce,\n",
        "layer,fwd_compute_ns,fwd_comm,fwd_bytes,ig_compute_ns,ig_comm,ig_bytes,wg_compute_ns,wg_comm,wg_bytes\n\
         a,1.5,ALLTOALL,64,2,NONE,0,3,ALLREDUCE,128\nb,1,none,0,2,none,0,3,allreduce,64\n",
    ]
    .map(String::from)
    .to_vec();
    texts.push(String::new());
    assert!(PRESETS.iter().all(|preset| Workload::preset(preset.name).is_ok()));
    fuzz(3000, (select(texts), prop::collection::vec(damage(), 1..8), 1u64..9), |(text, list, ranks)| {
        let Some(table) = one_line(Workload::from_csv("fuzz", &damaged(&text, &list)))? else { return Ok(()) };
        prop_assert!(!table.layers.is_empty() && table.params() <= 1 << 50);
        prop_assert!(table.layers.iter().all(|layer| !layer.name.is_empty()));
        if let Some(divided) = one_line(table.divided(ranks))? {
            prop_assert!(divided.layers.len() == table.layers.len() && divided.params() <= table.params());
        }
        Ok(())
    });
}
