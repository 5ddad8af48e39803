//! Results of TE-CCL and TACOS, small ones by hand.

use crate::prelude::*;
use antiphon_base::error::Error;
use antiphon_base::watch::Watch;
use antiphon_formats::{Foreign, by_name, of_text};
use serde_json::json;

const BYTES: u64 = 1 << 16;

/// Proves a file, and raises it to a schedule on a fabric that is proven and executed.
fn proven(text: &str, fabric: &str) -> (Box<dyn Foreign>, Schedule) {
    let file =
        of_text(text).unwrap().unwrap().read(text, Watch::default()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    file.prove(Watch::default()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let fabric = Fabric::parse(fabric).unwrap();
    let schedule = file.raise(&fabric, BYTES, &[], Watch::default()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(verify(&fabric, &schedule).unwrap().complete);
    for seed in 0..10 {
        check_by_execution(&schedule, Some(seed)).unwrap();
    }
    (file, schedule)
}

fn refused(text: &str) -> Error {
    let outcome = of_text(text).and_then(|format| format.expect("it is known").read(text, Watch::default()));
    let error = outcome.and_then(|file| file.prove(Watch::default())).unwrap_err();
    assert!(!error.message.contains('\n') && error.message.len() < 600, "{error}");
    error
}

fn transfers(schedule: &Schedule) -> Vec<(u32, u32)> {
    let mut list: Vec<_> = schedule.transfers.iter().map(|t| (t.from, t.to)).collect();
    list.sort_unstable();
    list
}

fn teccl(flows: &[&str]) -> String {
    json!({
        "1-Epoch_Duration": 5e-9, "2-Expected_Epoch_Duration": 5e-9, "3-Epochs_Required": 2, "4-Collective_Finish_Time": 1e-8,
        "5-Algo_Bandwidth": 0.2, "6-Demand_Met": {"GPU 1": {"GPU 2": {"Chunk 0": 7e-7}}}, "7-Flows": flows,
        "Solver_Time": 1.5,
    })
    .to_string()
}

/// Three GPUs 1 to 3 beside a switch 0, all-gather: 1 to 2 to 3 and back.
const CHAIN: [&str; 6] = [
    "Chunk 0 from 1 traveled over 1->2 in epoch 0",
    "Chunk 0 from 3 traveled over 3->2 in epoch 0 via switches 0",
    "Chunk 0 from 2 traveled over 2->1 in epoch 0",
    "Chunk 0 from 2 traveled over 2->3 in epoch 1 via switches 0 -> 4",
    "Chunk 0 from 1 traveled over 2->3 in epoch 2",
    "Chunk 0 from 3 traveled over 2->1 in epoch 141",
];

#[test]
fn flows_of_an_all_gather() {
    let (file, schedule) = proven(&teccl(&CHAIN), "mesh:3");
    assert_eq!((file.name(), file.ranks(), file.collective().kind), ("teccl", 3, Kind::AllGather));
    assert_eq!(file.prove(Watch::default()).unwrap().messages, 6);
    assert_eq!(transfers(&schedule), [(0, 1), (1, 0), (1, 0), (1, 2), (1, 2), (2, 1)]);
    assert_eq!(schedule.lanes.len(), 3);
    // In several chunks, and by names of older versions.
    let two: Vec<String> =
        CHAIN.iter().flat_map(|flow| [flow.to_string(), flow.replace("Chunk 0", "Chunk 1")]).collect();
    let two: Vec<&str> = two.iter().map(String::as_str).collect();
    let (_, schedule) = proven(&teccl(&two).replace("7-Flows", "6-Flows"), "fc:3");
    assert_eq!((schedule.lanes.len(), schedule.transfers.len()), (6, 12));
    let error = file.raise(&Fabric::parse("ring:4").unwrap(), BYTES, &[], Watch::default()).unwrap_err();
    assert!(error.message.contains("the file is for 3 ranks, ring:4 has 4"), "{error}");
    assert!(
        by_name("teccl").unwrap().write(&schedule, "", Watch::default()).unwrap_err().message.contains("only read")
    );
}

/// Four GPUs in a row exchange; what goes far goes by the two in the middle.
fn exchange() -> (Vec<String>, serde_json::Map<String, serde_json::Value>) {
    let (mut flows, mut paths) = (vec![], serde_json::Map::new());
    for source in 0..4i32 {
        for to in (0..4).filter(|&to| to != source) {
            let step = (to - source).signum();
            let mut path = vec![];
            for at in 0..(to - source).abs() {
                let (from, next) = (source + at * step, source + (at + 1) * step);
                let hop = format!("{from}->{next} with volume 1.0 in epoch {}", at * 10);
                flows.push(format!("Chunk {to} from {source} traveled over {hop}"));
                path.push(json!([at * 10, hop]));
            }
            paths.insert(format!("Demand at {to} for chunk {to} from {source} met by epoch 20"), json!([path]));
        }
    }
    (flows, paths)
}

#[test]
fn flows_of_an_all_to_all() {
    let (flows, paths) = exchange();
    let list: Vec<&str> = flows.iter().map(String::as_str).collect();
    let without = teccl(&list);
    let (file, schedule) = proven(&without, "mesh:4");
    assert_eq!((file.collective().kind, schedule.lanes.len(), schedule.transfers.len()), (Kind::AllToAll, 16, 20));
    let with =
        |paths: &serde_json::Map<_, _>, flows: &[String]| json!({"7-Flows": flows, "8-Chunk paths": paths}).to_string();
    let (_, other) = proven(&with(&paths, &flows), "mesh:4");
    assert_eq!(transfers(&other), transfers(&schedule));

    // A quarter of what 0 has for 1 goes by 2.
    let mut parts = paths.clone();
    let key = "Demand at 1 for chunk 1 from 0 met by epoch 20";
    parts[key] = json!([
        [[0, "0->1 with volume 0.75 in epoch 0"]],
        [[0, "0->2 with volume 0.25 in epoch 0"], [3, "2->1 with volume 0.25 in epoch 3 via switches 9"]],
    ]);
    let (_, schedule) = proven(&with(&parts, &flows), "fc:4");
    assert_eq!(schedule.lanes.len(), 17);
    let sizes: Vec<u64> = schedule.lanes.iter().filter(|l| (l.source, l.owner) == (0, 1)).map(|l| l.bytes).collect();
    assert_eq!(sizes, [BYTES / 16 * 3, BYTES / 16]);

    let quarter: Vec<String> = flows.iter().map(|flow| flow.replacen("volume 1.0", "volume 0.25", 1)).collect();
    let quarter: Vec<&str> = quarter.iter().map(String::as_str).collect();
    let error = refused(&teccl(&quarter));
    assert!(error.code == Code::NotApplicable && error.message.contains("goes in parts"), "{error}");
    for (path, why) in [
        (json!([[[0, "0->1 with volume 0.75 in epoch 0"]]]), "its paths carry 0.75 of it"),
        (json!([]), "its paths carry 0 of it"),
        (json!([[[0, "0->2 with volume 1.0 in epoch 0"]]]), "do not lead from it to rank 1"),
        (
            json!([[[0, "0->2 with volume 1.0 in epoch 3"], [0, "2->1 with volume 1.0 in epoch 3"]]]),
            "before it is at 2",
        ),
        (json!([["0->1"]]), "a path is no list of epochs and hops"),
        (json!(7), "its paths carry 0 of it"),
    ] {
        let mut wrong = paths.clone();
        wrong[key] = path;
        let error = refused(&with(&wrong, &flows));
        assert!(error.message.contains(why), "{why}: {error}");
    }
    let mut fewer = paths.clone();
    fewer.remove(key);
    assert!(refused(&with(&fewer, &flows)).message.contains("11 chunks are on their way, 4 ranks exchange 12"));
}

#[test]
fn wrong_flows_are_named() {
    for (at, flow, code, why) in [
        (
            0,
            "Chunk 0 from 1 traveled over 3->2 in epoch 0",
            Code::NotProven,
            "chunk 0 from 1 goes from 3 to 2 at 0 before it is at 3",
        ),
        (
            4,
            "Chunk 0 from 1 traveled over 2->3 in epoch 0",
            Code::NotProven,
            "chunk 0 from 1 goes from 2 to 3 at 0 before it is at 2",
        ),
        (4, "Chunk 0 from 1 traveled over 2->1 in epoch 2", Code::NotProven, "chunk 0 from 1 never comes to 3"),
        (4, "Chunk 1 from 1 traveled over 1->3 in epoch 2", Code::NotProven, "not all GPUs send their chunks 0 to 1"),
        (4, "Chunk 0 from 1 traveled over 2->9 in epoch 2", Code::BadFile, "node 9 is on the way of a chunk"),
        (4, "Chunk 0 from 1 traveled over 2->2 in epoch 2", Code::BadFile, "a flow from 2 to itself"),
        (
            4,
            "Chunk 0 from 1 traveled over 2->3 at epoch 2",
            Code::BadFile,
            "flow 4 is 'Chunk 0 from 1 traveled over 2->3 at epoch 2', expected",
        ),
        (4, "Chunk 0 from 1 traveled over 2->3 in epoch 99999999999", Code::BadFile, "flow 4 is"),
        (4, "Chunk -1 from 1 traveled over 2->3 in epoch 9", Code::BadFile, "flow 4 is"),
        (4, "Chunk 0 from 1 traveled over 2->3 with volume 1 in epoch 2", Code::BadFile, "some flows have a volume"),
        (4, "", Code::BadFile, "flow 4 is ''"),
    ] {
        let mut list = CHAIN;
        list[at] = flow;
        let error = refused(&teccl(&list));
        assert!(error.code == code && error.message.contains(why), "{flow}: {error}");
    }
    for text in [
        "{\"7-Flows\": 7}",
        "{\"7-Flows\": []}",
        "{\"7-Flows\": [7]}",
        "{\"1-Epoch_Duration\": 1}",
        "{\"7-Flows\": [\"x\"",
    ] {
        assert_eq!(refused(&format!("{text} ")).code, Code::BadFile, "{text}");
    }
    let deep = format!("{{\"7-Flows\":{}", "[".repeat(1 << 20));
    assert_eq!(refused(&deep).code, Code::BadFile);
    let deep = format!("{{\"7-Flows\":[], \"8-Chunk paths\": {{\"a\": {}", "[".repeat(1 << 20));
    assert_eq!(refused(&deep).code, Code::BadFile);
}

/// A result of TACOS: chunks of each link of a row of three.
fn tacos(links: [&str; 4]) -> String {
    format!(
        "NPUs Count,3\nLinks Count,4\nChunks Count,3\nChunk Size,1048576,B\nSrcID,DestID,Latency (ns),Bandwidth (GB/s),Chunks\n\
         0,1,500,50,{}\n1,0,500,50,{}\n1,2,500,50,{}\n2,1,500,50,{}\n",
        links[0], links[1], links[2], links[3]
    )
}

const ROW: [&str; 4] = ["0", "1,2", "1,0", "2"];

#[test]
fn chunks_of_links() {
    let (file, schedule) = proven(&tacos(ROW), "mesh:3");
    assert_eq!((file.name(), file.ranks(), file.collective().kind), ("tacos", 3, Kind::AllGather));
    assert_eq!(transfers(&schedule), [(0, 1), (1, 0), (1, 0), (1, 2), (1, 2), (2, 1)]);
    // Chunks may be numbered otherwise: whose they are follows from their ways.
    let (_, other) = proven(&tacos(["2", "0,1", "0,2", "1"]), "mesh:3");
    assert_eq!(transfers(&other), transfers(&schedule));
    let text = format!("\u{feff}{}", tacos(ROW).replace('\n', "\r\n").replace("Chunks Count", "Chunks Count "));
    proven(&text, "fc:3");
    // The order of a link is kept: 1 sends what it has first.
    let first = schedule.transfers.iter().find(|t| (t.from, t.to) == (1, 2)).unwrap();
    assert_eq!(schedule.lanes[first.lanes().next().unwrap()].source, 1);
}

#[test]
fn wrong_chunks_are_named() {
    for (links, code, why) in [
        (["0", "1", "1,0", "2"], Code::NotProven, "chunk 2 of NPU 2 never comes to 0"),
        (["0", "1,2,2", "1,0", "2"], Code::NotApplicable, "NPU 0 gets chunk 2 twice"),
        (["0", "1,2", "1,0", "None"], Code::NotProven, "NPU 1 has more than 1 chunks at first"),
        (
            ["0,2", "1,2", "1,0", "None"],
            Code::NotProven,
            "deadlock: chunk 2 from 0 to 1 waits for chunks that wait for it",
        ),
        (["0", "1", "1,0", "None"], Code::NotProven, "chunk 2 never leaves an NPU that has it at first"),
        (["None", "1,2", "1,0", "2"], Code::NotProven, "NPU 1 has more than 1 chunks at first"),
        (["0", "1,x", "1,0", "2"], Code::BadFile, "line 7: 'x', expected a whole number up to 2"),
        (["0", "1,3", "1,0", "2"], Code::BadFile, "line 7: '3'"),
    ] {
        let error = refused(&tacos(links));
        assert!(error.code == code && error.message.contains(why), "{links:?}: {error}");
    }
    let text = tacos(ROW);
    for (from, to, why) in [
        ("NPUs Count,3", "NPUs Count,99999999999", "line 1: '99999999999', expected a whole number up to 4096"),
        ("NPUs Count,3", "NPUs Count,-3", "line 1: '-3'"),
        ("Chunks Count,3", "Chunks Count,4", "4 chunks are no whole number for each of 3 NPUs"),
        ("Chunks Count,3", "Chunks Count,4000000000", "expected a whole number up to 4194304"),
        ("Chunks Count,3\n", "", "line 5: links before NPUs Count and Chunks Count"),
        ("SrcID", "Source", "line 5: 'Source,DestID"),
        ("0,1,500", "0,0,500", "line 6: a link from 0 to itself"),
        ("0,1,500", "0,7,500", "line 6: '7', expected a whole number up to 2"),
        ("0,1,500,50,0", "0,1", "line 6: '0,1', expected SrcID"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = refused(&text.replacen(from, to, 1));
        assert!(error.code == Code::BadFile && error.message.contains(why), "{from} -> {to}: {error}");
    }
    assert_eq!(refused("NPUs Count,").code, Code::BadFile);
    // Each waits for what the other sends later.
    let crossed = "NPUs Count,2\nChunks Count,4\nSrcID,DestID,a,b,Chunks\n0,1,1,1,0,2\n1,0,1,1,1,3\n";
    proven(crossed, "fc:2");
}
