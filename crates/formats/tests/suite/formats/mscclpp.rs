//! MSCCL++ plans: small ones by hand, all algorithms both ways, and changed ones, which are refused where they run wrong.

mod shipped;

use super::machine::{Random, Turn};
use super::msccl::{BYTES, SCHEDULES, moved, near, transfers};
use super::plan_machine::run;
use crate::prelude::*;
use antiphon_base::error::Error;
use antiphon_base::watch::Watch;
use antiphon_formats::mscclpp::{Mscclpp, MscclppPlan, lower, read};
use antiphon_formats::{FileFormat, Foreign, of_text};
use serde_json::{Value, json};

/// A thread block by hand: channels and remote buffers of its GPU that it uses, and operations.
type Block<'a> = (&'a [u32], &'a [u32], &'a str);
/// A GPU by hand: chunks of scratch, the peers of its channels, remote buffers `1s` (rank and buffer), thread blocks.
type Gpu<'a> = (u32, &'a [u32], &'a [&'a str], &'a [Block<'a>]);

/// `i2:3` are 3 chunks of the own input from 2 on, `b1.4` chunk 4 of remote buffer 1.
fn chunks(word: &str) -> Value {
    let (place, size) = word.split_once(':').unwrap_or((word, "1"));
    let number = |text: &str| text.parse::<u32>().unwrap();
    match place.strip_prefix('b') {
        Some(remote) => {
            let (id, index) = remote.split_once('.').unwrap();
            json!({"buffer_id": number(id), "index": number(index), "size": number(size)})
        }
        None => json!({"type": &place[..1], "index": number(&place[1..]), "size": number(size)}),
    }
}

/// Operations `name src > dst @channel`, `signal 0`, `barrier 0 2`, `sem_release 0`; `%0/2` is the first of two parts.
fn operation(text: &str, way: &str) -> Value {
    let mut words = text.split_whitespace();
    let name = words.next().unwrap();
    let mut op = json!({"name": name});
    let rest: Vec<&str> = words.collect();
    let numbers = |list: &[&str]| -> Vec<u32> { list.iter().map(|word| word.parse().unwrap()).collect() };
    match name {
        "signal" | "wait" | "rlxsignal" | "rlxwait" | "flush" => {
            op["channel_ids"] = json!(numbers(&rest));
            op["channel_type"] = json!(way);
        }
        "barrier" => {
            op["barrier_id"] = json!(numbers(&rest)[0]);
            op["num_threadblocks"] = json!(numbers(&rest)[1]);
        }
        "sem_acquire" | "sem_release" => op["semaphore_ids"] = json!(numbers(&rest)),
        _ => {}
    }
    if let Some(middle) = rest.iter().position(|&word| word == ">") {
        let of = |list: &[&str]| -> Vec<Value> {
            list.iter().filter(|word| !word.starts_with(['@', '%'])).map(|word| chunks(word)).collect()
        };
        op["src_buff"] = json!(of(&rest[..middle]));
        op["dst_buff"] = json!(of(&rest[middle + 1..]));
        op["channel_type"] = json!(way);
        let ids: Vec<u32> =
            rest.iter().filter_map(|word| word.strip_prefix('@')).map(|id| id.parse().unwrap()).collect();
        if !ids.is_empty() {
            op["channel_ids"] = json!(ids);
        }
        if let Some((tb, of)) =
            rest.iter().find_map(|word| word.strip_prefix('%')).and_then(|part| part.split_once('/'))
        {
            op["tbg_info"] = json!({"tb_id": tb.parse::<u32>().unwrap(), "tbg_size": of.parse::<u32>().unwrap()});
        }
    }
    op
}

fn plan(coll: &str, (input, output): (u32, u32), in_place: bool, way: &str, gpus: &[Gpu]) -> String {
    let gpu = |(id, &(scratch, peers, remote, blocks)): (usize, &Gpu)| {
        let block = |(id, &(channels, buffers, ops)): (usize, &Block)| {
            let ops = ops.split(',').map(str::trim).filter(|op| !op.is_empty());
            json!({
                "id": id,
                "ops": ops.map(|op| operation(op, way)).collect::<Vec<_>>(),
                "channels": [{"channel_type": way, "channel_ids": channels}],
                "remote_buffer_refs": [{"access_channel_type": way, "remote_buffer_ids": buffers}],
            })
        };
        let buffer = |name: &&str| {
            let (rank, kind) = name.split_at(name.len() - 1);
            json!({"rank": rank.parse::<u32>().unwrap(), "type": kind, "access_channel_types": [way]})
        };
        json!({
            "id": id, "input_chunks": input, "output_chunks": output, "scratch_chunks": scratch,
            "threadblocks": blocks.iter().enumerate().map(block).collect::<Vec<_>>(),
            "channels": [{"channel_type": way, "connected_to": peers}],
            "remote_buffers": remote.iter().map(buffer).collect::<Vec<_>>(),
            "semaphores": [{"init_value": 0}, {"init_value": 0}],
        })
    };
    let packets = gpus.iter().any(|gpu| gpu.3.iter().any(|block| block.2.contains("pkt")));
    let document = json!({
        "name": "hand", "collective": coll, "protocol": if packets { "LL" } else { "Simple" }, "inplace": in_place,
        "gpus": gpus.iter().enumerate().map(gpu).collect::<Vec<_>>(),
    });
    serde_json::to_string_pretty(&document).unwrap()
}

/// A GPU whose words are its own: chunks of scratch, peers of channels, remote buffers, and thread blocks.
type Own = (u32, Vec<u32>, Vec<String>, Vec<(Vec<u32>, Vec<u32>, String)>);

fn plan_of(coll: &str, chunks: (u32, u32), in_place: bool, gpus: &[Own]) -> String {
    let blocks: Vec<Vec<Block>> =
        gpus.iter().map(|gpu| gpu.3.iter().map(|(a, b, ops)| (&a[..], &b[..], &ops[..])).collect()).collect();
    let remote: Vec<Vec<&str>> = gpus.iter().map(|gpu| gpu.2.iter().map(|name| &name[..]).collect()).collect();
    let all: Vec<Gpu> =
        (0..gpus.len()).map(|at| (gpus[at].0, &gpus[at].1[..], &remote[at][..], &blocks[at][..])).collect();
    plan(coll, chunks, in_place, "memory", &all)
}

fn turns(plan: &MscclppPlan, random: u64) -> impl Iterator<Item = Turn> {
    let blocks: usize = plan.gpus.iter().map(|gpu| gpu.threadblocks.len()).sum();
    (0..blocks).flat_map(|id| [Turn::Last(id), Turn::First(id), Turn::Slow(id)]).chain((0..random).map(Turn::Random))
}

/// Proves a plan, by running it too, and raises it to a schedule that is proven and executed.
fn proven(text: &str) -> (MscclppPlan, Schedule) {
    assert_eq!(of_text(text).unwrap().map(|format| format.name()), Some("mscclpp"));
    let plan = read(text, Watch::default()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    plan.prove(Watch::default()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let collective = plan.collective();
    for turn in turns(&plan, 50) {
        run(&plan, collective.kind, collective.root as usize, turn)
            .unwrap_or_else(|error| panic!("{turn:?} {error}\n{text}"));
    }
    let fabric = Fabric::parse(&format!("fc:{}", plan.gpus.len())).unwrap();
    let schedule =
        plan.raise(&fabric, 1 << 12, &[], Watch::default()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(verify(&fabric, &schedule).unwrap().complete);
    for seed in 0..20 {
        check_by_execution(&schedule, Some(seed)).unwrap();
    }
    (plan, schedule)
}

fn refused(text: &str) -> Error {
    read(text, Watch::default()).and_then(|plan| plan.prove(Watch::default())).unwrap_err()
}

/// Each adds a half of what both have: one by reading and writing itself, the other by a put.
const HALVES: [Gpu; 2] = [
    (
        2,
        &[1],
        &["1s", "1i"],
        &[(&[0], &[0, 1], "copy i1 > s1, nop, signal 0, wait 0, nop, rres i0 b0.0 > i0 b1.0, nop, signal 0, wait 0")],
    ),
    (
        2,
        &[0],
        &["0s", "0i"],
        &[(
            &[0],
            &[0, 1],
            "copy i0 > s0, nop, signal 0, wait 0, nop, get b0.1 > s1, nop, re i1 s1 > i1, nop, put i1 > b1.1, nop, signal 0, wait 0",
        )],
    ),
];

#[test]
fn reads_writes_and_sums_of_peers() {
    let (plan, schedule) = proven(&plan("allreduce", (2, 2), true, "memory", &HALVES));
    let (add, copy) = (Op::Reduce, Op::Copy);
    assert_eq!(transfers(&schedule), [(0, 1, add), (0, 1, copy), (1, 0, add), (1, 0, copy)]);
    let proof = plan.prove(Watch::default()).unwrap();
    assert_eq!((proof.blocks, proof.messages, proof.consumers), (2, 4, vec![("executor", None)]));
}

#[test]
fn ports_go_on_by_themselves() {
    let gpus: [Gpu; 2] = [
        (
            0,
            &[1, 1],
            &["1o"],
            &[
                (&[0], &[0], "signal 0, wait 0, nop, put o0 > b0.0 @0, nop, signal 0, flush 0, wait 0"),
                (&[1], &[0], "signal 0, wait 0, nop, pws o1 > b0.1 @0, nop, flush 0"),
            ],
        ),
        (
            0,
            &[0, 0],
            &["0o"],
            &[
                (&[0], &[0], "signal 0, wait 0, nop, pwsf o2:2 > b0.2:2 @0, nop, wait 0"),
                (&[1], &[], "signal 0, wait 0, wait 0"),
            ],
        ),
    ];
    let text = plan("allgather", (2, 4), true, "port", &gpus);
    let (_, schedule) = proven(&text);
    assert_eq!(schedule.transfers.len(), 3);
}

/// A source that a port may still read is changed, without a flush before.
#[test]
fn what_a_port_still_sends_is_not_changed() {
    let gpus = |flush: &str| {
        let first = format!("copy i0 > o0, nop, put i0 > b0.0 @0, signal 0, {flush} nop, wait 0, nop, copy o1 > i0");
        let blocks: [Block; 1] = [(&[0], &[0], &first)];
        let other: [Block; 1] = [(&[0], &[0], "copy i0 > o1, nop, put i0 > b0.1 @0, signal 0, wait 0, flush 0")];
        let gpus: [Gpu; 2] = [(0, &[1], &["1o"], &blocks), (0, &[0], &["0o"], &other)];
        plan("allgather", (1, 2), false, "port", &gpus)
    };
    let with = read(&gpus("flush 0,"), Watch::default()).unwrap();
    with.prove(Watch::default()).unwrap();
    let without = read(&gpus(""), Watch::default()).unwrap();
    let error = without.prove(Watch::default()).unwrap_err();
    assert!(
        error
            .message
            .contains("race: gpu 0 thread block 0 operation 2 (put) and gpu 0 thread block 0 operation 7 (copy)"),
        "{error}"
    );
    assert!((0..2000).any(|seed| run(&without, Kind::AllGather, 0, Turn::Random(seed)).is_err()));
    assert!((0..2000).all(|seed| run(&with, Kind::AllGather, 0, Turn::Random(seed)).is_ok()));
}

#[test]
fn packets_are_waited_for_by_themselves() {
    let gpus: [Gpu; 2] = [
        (2, &[1], &["1s"], &[(&[0], &[0], "ppkt i1 > b0.0, repkt i0 s0 > i0, nop, ppkt i0 > b0.1, nop, upkt s1 > i1")]),
        (2, &[0], &["0s"], &[(&[0], &[0], "ppkt i0 > b0.0, nop, respkt i1 s0 > i1 b0.1, upkt s1 > i0")]),
    ];
    let text = plan("allreduce", (2, 2), true, "memory", &gpus);
    let (_, schedule) = proven(&text);
    assert_eq!(schedule.transfers.len(), 4);
    let nobody = text.replacen("\"name\": \"ppkt\"", "\"name\": \"nop\"", 1);
    assert!(
        refused(&nobody)
            .message
            .contains("deadlock: gpu 1 thread block 0 operation 2 (respkt) waits for packets that nobody writes")
    );
    // By way of a third GPU: packets are passed on as they are.
    let gpus: [Gpu; 3] = [
        (0, &[1], &["1s"], &[(&[0], &[0], "ppkt i0 > b0.0")]),
        (1, &[2], &["2s"], &[(&[0], &[0], "rppkt s0 > b0.0, upkt s0 > o0")]),
        (2, &[], &[], &[(&[], &[], "upkt s0 > o0, cpkt o0 > s1")]),
    ];
    let text = plan("broadcast", (1, 1), true, "memory", &gpus);
    let error = refused(&text);
    assert!(error.message.contains("have no nop between them"), "{error}");
    let (_, schedule) = proven(&text.replacen("cpkt", "nop", 1));
    assert_eq!(transfers(&schedule), [(0, 1, Op::Copy), (1, 2, Op::Copy)]);
}

/// Of an operation on several channels each is for a thread, which knows nothing of what others wait for.
#[test]
fn a_thread_signals_after_its_own_waits_only() {
    let text = |signals: &str| {
        let answers = format!("copy i0 > o1, put i0 > b0.1, nop, wait 0, signal {signals}");
        let first: [Block; 3] = [
            (&[0], &[0], "copy i0 > s0, copy i0 > o0, nop, put s0 > b0.0, nop, signal 0"),
            (&[2], &[], "wait 0, nop, copy o1 > s0"),
            (&[1], &[], "wait 0"),
        ];
        let second: [Block; 1] = [(&[0, 1, 2], &[0], &answers)];
        let gpus: [Gpu; 2] = [(1, &[1, 1, 1], &["1o"], &first), (0, &[0, 0, 0], &["0o"], &second)];
        plan("allgather", (1, 2), false, "memory", &gpus)
    };
    read(&text("2 1"), Watch::default()).unwrap().prove(Watch::default()).unwrap();
    let error = refused(&text("1 2"));
    assert!(error.message.contains("use s[0] in no order"), "{error}");
}

/// Chunks that thread blocks share are called as the plan calls them.
#[test]
fn parts_of_chunks_have_names() {
    let sums = |part: u32, wait: &str| {
        format!("copy i0:2 > s0:2 %{part}/2, nop, signal {part}, nop, {wait}, nop, rre i0 b0.0 > i0 %{part}/2")
    };
    let gpus = |rank: u32| -> Own {
        let other = 1 - rank;
        let blocks = (0..2).map(|part| (vec![0, 1], vec![0], sums(part, &format!("wait {part}")))).collect();
        (2, vec![other, other], vec![format!("{other}s")], blocks)
    };
    let error = refused(&plan_of("allreduce", (2, 2), true, &[gpus(0), gpus(1)]));
    assert!(error.message.contains("use s[0] (part 2 of 2) in no order"), "{error}");
}

/// Relaxed signals tell that a peer is there, and order no data.
#[test]
fn relaxed_signals_order_nothing() {
    let gpus = |ready: &str, done: &str| {
        let own = |peer: u32, at: u32| {
            format!(
                "{ready}, nop, put i0 > b0.{at}, copy i0 > o{at}, nop, {done}signal 0, {done}wait 0, nop, copy o{peer} > s0"
            )
        };
        let (first, second) = (own(1, 0), own(0, 1));
        let (first, second): ([Block; 1], [Block; 1]) = ([(&[0], &[0], &first)], [(&[0], &[0], &second)]);
        let gpus: [Gpu; 2] = [(1, &[1], &["1o"], &first), (1, &[0], &["0o"], &second)];
        plan("allgather", (1, 2), false, "memory", &gpus)
    };
    proven(&gpus("rlxsignal 0, rlxwait 0", ""));
    let error = refused(&gpus("signal 0, wait 0", "rlx"));
    assert!(error.message.contains("race: gpu") && error.message.contains("use o["), "{error}");
    let error = refused(&gpus("rlxwait 0, rlxsignal 0", ""));
    let waits = error.message.contains(" waits for gpu 0 thread block 0 operation 0 (rlxwait)");
    assert!(error.message.starts_with("deadlock: gpu ") && waits, "{error}");
    let error = refused(&gpus("rlxsignal 0", ""));
    assert!(error.message.contains("where nobody waits"), "{error}");
}

#[test]
fn thread_blocks_meet_and_share() {
    // Two thread blocks add two terms, each the half of a chunk, after a barrier; a third sends when both are done.
    let sums: &str = "barrier 0 2, re i0 s0 > i0 %0/2, nop, sem_release 0";
    let others: &str = "wait 0, barrier 0 2, re i0 s0 > i0 %1/2, nop, sem_release 1";
    let gpus = |end: &str| {
        let sends = format!("sem_acquire 0, sem_acquire 1, nop, put i0 > b0.0{end}");
        let first: [Block; 3] = [(&[], &[], sums), (&[0], &[], others), (&[], &[0], &sends)];
        let second: [Block; 1] = [(&[0], &[0], "put i0 > b0.0, nop, signal 0")];
        let gpus: [Gpu; 2] = [(1, &[1], &["1i"], &first), (0, &[0], &["0s"], &second)];
        plan("allreduce", (1, 1), true, "memory", &gpus).replace(char::is_whitespace, "")
    };
    let error = refused(&gpus(", nop, sem_release 2"));
    assert!(error.message.contains("semaphore 2, gpu 0 has 2"), "{error}");
    let text = gpus("");
    let (_, schedule) = proven(&text);
    assert_eq!(schedule.transfers.len(), 3);
    for (from, to, why) in [
        ("\"num_threadblocks\":2", "\"num_threadblocks\":3", "and elsewhere for 3"),
        ("\"semaphore_ids\":[1]", "\"semaphore_ids\":[0]", "used by several thread blocks"),
        ("sem_release", "nop", "semaphore 0 of gpu 0 is acquired 1 times and released 0 times"),
        ("sem_acquire", "nop", "does not end as it began"),
        ("\"tb_id\":1", "\"tb_id\":0", "race: "),
        ("\"tb_id\":1", "\"tb_id\":2", "tbg_info: part 2 of 2"),
        ("\"tbg_size\":2", "\"tbg_size\":101", "at most 64"),
        ("\"barrier_id\":0", "\"barrier_id\":1", "deadlock: barrier 0 of gpu 0 is for 2 thread blocks, 1 come to it"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = refused(&text.replacen(from, to, 1));
        assert!(error.message.contains(why), "{from} -> {to}: {error}");
    }
}

/// Changes of a plan, with the code and words of the refusal.
const WRONG: [(&str, &str, Code, &str); 26] = [
    ("\"allreduce\"", "\"sendrecv\"", Code::BadFile, "collective is 'sendrecv'; known: allreduce, reducescatter"),
    ("\"allreduce\"", "\"allgater\"", Code::BadFile, "did you mean 'allgather'"),
    ("\"Simple\"", "\"LL128\"", Code::BadFile, "protocol is 'LL128'"),
    (
        "\"name\":\"get\"",
        "\"name\":\"glres\"",
        Code::NotApplicable,
        "gpu 1 thread block 0 operation 5 (glres): 'glres' is not followed",
    ),
    ("\"name\":\"get\"", "\"name\":\"gett\"", Code::BadFile, "did you mean 'get'"),
    ("\"name\":\"put\"", "\"name\":\"pws\"", Code::BadFile, "which only puts by port channels do"),
    ("\"name\":\"signal\"", "\"name\":\"flush\"", Code::BadFile, "only port channels are flushed"),
    ("\"name\":\"copy\"", "\"name\":\"pipeline\"", Code::NotApplicable, "'pipeline' is not followed"),
    ("\"inplace\":true", "\"inplace\":1", Code::BadFile, "invalid type: integer `1`, expected a boolean at line 1"),
    ("\"inplace\":true,", "", Code::BadFile, "missing field `inplace`"),
    ("\"input_chunks\":2", "\"input_chunks\":4000000000", Code::BadFile, "4000000000 chunks, expected 1 to 1048576"),
    ("\"input_chunks\":2", "\"input_chunks\":-1", Code::BadFile, "invalid value: integer `-1`"),
    ("\"scratch_chunks\":2", "\"scratch_chunks\":4000000000", Code::BadFile, "gpu 0 has 4000000000 scratch_chunks"),
    (
        "\"output_chunks\":2",
        "\"output_chunks\":3",
        Code::BadFile,
        "gpu 0 has 3 output_chunks, expected 2 for all-reduce",
    ),
    ("\"index\":1,\"size\":1", "\"index\":1,\"size\":2", Code::BadFile, "2 chunks from 1 of buffer"),
    ("\"index\":1,\"size\":1", "\"index\":4294967295,\"size\":1", Code::BadFile, "1 chunks from 4294967295 of buffer"),
    ("\"buffer_id\":0", "\"buffer_id\":9", Code::BadFile, "no buffer 9 by memory channels"),
    ("\"remote_buffer_ids\":[0", "\"remote_buffer_ids\":[7", Code::BadFile, "no remote buffer 7 on gpu 0"),
    (
        "\"channel_ids\":[0],\"channel_type\":\"memory\"}]",
        "\"channel_ids\":[3],\"channel_type\":\"memory\"}]",
        Code::BadFile,
        "no memory channel 3 on gpu 0",
    ),
    ("\"connected_to\":[1]", "\"connected_to\":[0]", Code::BadFile, "gpu 0: a memory channel is connected to gpu 0"),
    ("\"connected_to\":[1]", "\"connected_to\":[5]", Code::BadFile, "connected to gpu 5"),
    ("\"connected_to\":[0]", "\"connected_to\":[]", Code::NotProven, "has no other end there that could wait"),
    ("\"rank\":1", "\"rank\":0", Code::BadFile, "remote buffer 0 is of gpu 0"),
    ("\"id\":1,\"input_chunks\"", "\"id\":0,\"input_chunks\"", Code::BadFile, "gpu 1 has id 0"),
    ("\"name\":\"nop\"", "\"name\":\"copy\"", Code::BadFile, "0 src_buff for 0 dst_buff"),
    ("\"name\":\"hand\"", "\"name\":\"hand\",\"reuse_resources\":true", Code::NotApplicable, "reuse_resources"),
];

#[test]
fn what_is_wrong_is_named() {
    let text = plan("allreduce", (2, 2), true, "memory", &HALVES).replace(char::is_whitespace, "");
    proven(&text);
    for (from, to, code, why) in WRONG {
        assert!(text.contains(from), "{from}");
        let error = refused(&text.replacen(from, to, 1));
        assert!(error.message.contains(why) && !error.message.contains('\n'), "{from} -> {to}: {error}");
        assert_eq!(error.code, code, "{from} -> {to}: {error}");
    }
    let deep = format!("{{\"gpus\":{}", "[".repeat(1 << 20));
    assert_eq!(refused(&deep).code, Code::BadFile);
    assert_eq!(refused("{\"gpus\": []}").code, Code::BadFile);
    for end in (0..text.len() - 1).step_by(17) {
        assert_eq!(refused(&text[..end]).code, Code::BadFile, "{end}");
    }
}

/// What is exported is proven as it stands and moves the same bytes the same ways.
#[test]
fn what_is_written_reads_back_as_the_same_schedule() {
    let every = sweep(4, 1);
    let (mut written, mut refused) = (0, BTreeMap::new());
    for (fabric, schedule) in SCHEDULES.iter().step_by(every) {
        let name = format!("{} {} on {}", schedule.algorithm, schedule.collective.kind.name(), fabric.name);
        let text = match Mscclpp.write(schedule, "executor", Watch::default()) {
            Ok(text) => text,
            Err(error) => {
                assert!(matches!(error.code, Code::NotApplicable | Code::TooLarge), "{name}: {error}");
                let why: String = error.message.chars().filter(|c| !c.is_ascii_digit()).collect();
                *refused.entry(why).or_insert(0) += 1;
                continue;
            }
        };
        written += 1;
        let plan = read(&text, Watch::default()).unwrap();
        assert_eq!(plan.collective().kind, schedule.collective.kind);
        assert!(plan.prove(Watch::default()).unwrap().consumers[0].1.is_none(), "{name}");
        let raised = plan.raise(fabric, BYTES, &[], Watch::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(verify(fabric, &raised).unwrap().complete, "{name}");
        assert!(near(&moved(&raised), &moved(schedule)), "{name}");
        if (written * every).is_multiple_of(16) {
            let root = plan.collective().root as usize;
            run(&plan, plan.collective().kind, root, Turn::Random(1)).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
    println!("{written} written; refused: {refused:?}");
    assert!(written * every > 250, "{written}");
}

/// One small change of a plan; `None` if it changes nothing.
fn mutant(plan: &MscclppPlan, random: &mut Random) -> Option<MscclppPlan> {
    let mut changed = plan.clone();
    let ranks = changed.gpus.len();
    let gpu = &mut changed.gpus[random.below(ranks)];
    let blocks = gpu.threadblocks.len();
    let block = &mut gpu.threadblocks[random.below(blocks)];
    let at = random.below(block.ops.len());
    match random.below(9) {
        0 | 1 => drop(block.ops.remove(at)),
        2 | 3 if at > 0 => block.ops.swap(at - 1, at),
        4 => {
            let op = &mut block.ops[at];
            let list = if random.below(2) == 0 { &mut op.src_buff } else { &mut op.dst_buff };
            let chunks = list.first_mut()?;
            chunks.index = if random.below(2) == 0 { chunks.index + 1 } else { chunks.index.saturating_sub(1) };
        }
        5 => {
            let channels = block.channels[0].channel_ids.len();
            let id = block.ops[at].channel_ids.first_mut()?;
            *id = random.below(channels) as u32;
        }
        6 => {
            let op = &mut block.ops[at];
            op.name = match &op.name[..] {
                "signal" => "wait",
                "wait" => "signal",
                "re" => "copy",
                _ => return None,
            }
            .into();
            if op.name == "copy" {
                op.src_buff.truncate(1);
            }
        }
        7 => {
            let buffers = block.remote_buffer_refs[0].remote_buffer_ids.len();
            let chunks = block.ops[at].dst_buff.first_mut()?;
            chunks.buffer_id = Some(chunks.buffer_id.map(|_| random.below(buffers) as u32)?);
        }
        _ => {
            let op = block.ops[at].clone();
            block.ops.insert(at, op);
        }
    }
    (changed != *plan).then_some(changed)
}

/// Changed plans are refused where their execution is wrong, and only there.
#[test]
fn mutants_are_refused_where_they_run_wrong() {
    let each = sweep(30, 120);
    let system = System::preset("generic").unwrap();
    let mut random = Random(3);
    let (mut mutants, mut refused, mut harmless) = (0, 0, vec![]);
    let cases = [
        ("ring:3", "ring", Kind::AllReduce, true),
        ("mesh:2x2", "multitree", Kind::AllReduce, true),
        ("mesh:2x2", "multitree", Kind::AllReduce, false),
        ("switch:4", "halving-doubling", Kind::ReduceScatter, true),
        ("ring:4", "ring-bi", Kind::AllGather, true),
        ("mesh:3", "direct", Kind::AllToAll, true),
        ("fc:4", "multitree", Kind::Reduce, true),
        ("fc:4", "multitree", Kind::Broadcast, false),
    ];
    for (spec, name, kind, direct) in cases {
        let fabric = Fabric::parse(spec).unwrap();
        let schedule = algorithm::build(&fabric, &system, Collective::new(kind), BYTES, name).unwrap();
        let whole = lower(&schedule, direct, Watch::default()).unwrap();
        let root = whole.collective().root as usize;
        whole.prove(Watch::default()).unwrap();
        for turn in turns(&whole, 10) {
            run(&whole, kind, root, turn).unwrap_or_else(|error| panic!("{spec} {name}: {turn:?} {error}"));
        }
        let mut left = each;
        while left > 0 {
            let Some(changed) = mutant(&whole, &mut random) else { continue };
            left -= 1;
            mutants += 1;
            let text = serde_json::to_string(&changed).unwrap();
            match read(&text, Watch::default()).and_then(|plan| plan.prove(Watch::default()).map(|_| plan)) {
                Ok(plan) => {
                    let root = plan.collective().root as usize;
                    for turn in turns(&plan, 24) {
                        run(&plan, kind, root, turn)
                            .unwrap_or_else(|error| panic!("{spec} {name} {turn:?}: {error}: {text}"));
                    }
                }
                Err(error) => {
                    refused += 1;
                    if turns(&changed, 100).all(|turn| run(&changed, kind, root, turn).is_ok()) {
                        harmless.push(format!("{spec} {name}: {error}"));
                    }
                }
            }
        }
    }
    // Where no nop keeps threads apart, what they do at once may be the same, or be for the run before.
    println!("{mutants} mutants, {refused} refused, {} of them ran right", harmless.len());
    let others: Vec<&String> = harmless.iter().filter(|why| !why.contains("have no nop between them")).collect();
    assert_eq!(others, Vec::<&String>::new());
    assert!((mutants * 5 / 8..mutants).contains(&refused));
}
