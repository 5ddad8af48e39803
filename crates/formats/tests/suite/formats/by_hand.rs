//! Small MSCCL files written by hand: what each step does, what is refused and in which words.

use super::machine::{Turn, run};
use super::msccl::transfers;
use crate::prelude::*;
use antiphon_base::error::Error;
use antiphon_base::watch::Watch;
use antiphon_formats::msccl::{
    self, Algo, Buffer, CONSUMERS, ChunkPlace, MscclBlock, MscclGpu, MscclOptions, MscclStep, StepAction, consumer,
};
use antiphon_formats::{FileFormat, of_text};

/// A file: attributes of the algorithm, then GPUs as their scratch and thread blocks `send recv: steps`, a step being
/// `type src dst cnt`, then perhaps `<tb.step` for what it waits for, and `!` if it is waited for.
fn file(coll: &str, chunks: u32, places: (u8, u8), gpus: &[(u32, &[&str])]) -> String {
    let mut text = format!(
        "<algo name=\"t\" proto=\"Simple\" nchannels=\"1\" nchunksperloop=\"{chunks}\" ngpus=\"{}\" coll=\"{coll}\" \
         inplace=\"{}\" outofplace=\"{}\" minBytes=\"0\" maxBytes=\"1000\">\n",
        gpus.len(),
        places.0,
        places.1
    );
    for (gpu, (scratch, blocks)) in gpus.iter().enumerate() {
        text += &format!("<gpu id=\"{gpu}\" i_chunks=\"0\" o_chunks=\"0\" s_chunks=\"{scratch}\">\n");
        for (tb, block) in blocks.iter().enumerate() {
            let (peers, steps) = block.split_once(':').unwrap();
            let peers: Vec<&str> = peers.split_whitespace().collect();
            text += &format!("<tb id=\"{tb}\" send=\"{}\" recv=\"{}\" chan=\"0\">\n", peers[0], peers[1]);
            for (s, step) in steps.split(',').map(str::trim).filter(|step| !step.is_empty()).enumerate() {
                let mut words = step.split_whitespace();
                let kind = words.next().unwrap();
                let (mut ends, mut count) = (vec![], "1");
                let (mut after, mut awaited) = (("-1", "-1"), 0);
                for word in words {
                    if let Some(wait) = word.strip_prefix('<') {
                        after = wait.split_once('.').unwrap();
                    } else if word == "!" {
                        awaited = 1;
                    } else if word.starts_with(|c: char| c.is_ascii_digit()) {
                        count = word;
                    } else {
                        ends.push((&word[..1], &word[1..]));
                    }
                }
                ends.resize(2, *ends.last().unwrap_or(&("i", "-1")));
                let [(srcbuf, srcoff), (dstbuf, dstoff)] = [ends[0], ends[1]];
                let (depid, deps) = after;
                text += &format!(
                    "<step s=\"{s}\" type=\"{kind}\" srcbuf=\"{srcbuf}\" srcoff=\"{srcoff}\" dstbuf=\"{dstbuf}\" \
                     dstoff=\"{dstoff}\" cnt=\"{count}\" depid=\"{depid}\" deps=\"{deps}\" hasdep=\"{awaited}\"/>\n"
                );
            }
            text += "</tb>\n";
        }
        text += "</gpu>\n";
    }
    text + "</algo>\n"
}

/// Proves a file, by running it too, and raises it to a schedule that is proven and executed.
fn proven(text: &str) -> (Algo, Schedule) {
    let algo = msccl::read(text, Watch::default()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    msccl::prove(&algo, Watch::default()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    for seed in 0..20 {
        run(&algo, algo.collective().root as usize, 1, Turn::Random(seed)).unwrap();
    }
    let fabric = Fabric::parse(&format!("fc:{}", algo.gpus.len())).unwrap();
    let schedule =
        msccl::raise(&algo, &fabric, 1 << 12, &[], Watch::default()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(verify(&fabric, &schedule).unwrap().complete);
    for seed in 0..20 {
        check_by_execution(&schedule, Some(seed)).unwrap();
    }
    (algo, schedule)
}

fn refused(text: &str) -> Error {
    msccl::read(text, Watch::default()).and_then(|algo| msccl::prove(&algo, Watch::default())).unwrap_err()
}

#[test]
fn a_chain_adds_up_and_sends_back() {
    // 0 -> 1 -> 2, and the sum back; the middle stores it on its way back only.
    let text = file(
        "allreduce",
        1,
        (1, 0),
        &[
            (0, &["1 -1: s i0 !", "-1 1: r i0 <0.0"]),
            (0, &["2 0: rrs i0 !", "0 2: rcs i0 <0.0"]),
            (0, &["1 1: rrcs i0 i0"]),
        ],
    );
    let (_, schedule) = proven(&text);
    let (add, copy) = (Op::Reduce, Op::Copy);
    assert_eq!(transfers(&schedule), [(0, 1, add), (1, 0, copy), (1, 2, add), (2, 1, copy)]);
}

#[test]
fn a_node_of_a_tree_waits_for_its_children_in_turn() {
    let text = file(
        "allreduce",
        2,
        (1, 0),
        &[
            (0, &["1 -1: s i0 2 !", "-1 1: r i0 2 <0.0"]),
            (0, &["0 0: rrc i0 i0 2 !, nop <1.0, s i0 2 <1.0", "2 2: rrc i0 i0 2 <0.0 !, s i0 2"]),
            (0, &["1 -1: s i0 2 !", "-1 1: r i0 2 <0.0"]),
        ],
    );
    let (algo, schedule) = proven(&text);
    assert_eq!(schedule.transfers.len(), 4);
    // Without the wait both children are added at once.
    let race = text.replacen(
        "cnt=\"2\" depid=\"0\" deps=\"0\" hasdep=\"1\"",
        "cnt=\"2\" depid=\"-1\" deps=\"-1\" hasdep=\"1\"",
        1,
    );
    let error = refused(&race);
    assert_eq!(error.code, Code::NotProven);
    assert!(error.message.contains("race: gpu 1 tb 0 step 0 (rrc) and gpu 1 tb 1 step 0 (rrc) use i[0]"), "{error}");
    assert!(
        (0..)
            .take(200)
            .any(|seed| run(&msccl::read(&race, Watch::default()).unwrap(), 0, 8, Turn::Random(seed)).is_err())
    );
    assert_eq!(algo.gpus[1].blocks[0].steps.len(), 3);
}

#[test]
fn what_comes_to_scratch_is_followed() {
    // Each sends its own to the other's scratch, and adds what it finds there to a copy of its own.
    let exchange: &[&str] = &["1 -1: s i0", "-1 1: r s0 !", "-1 -1: cpy i0 o0, re s0 o0 <1.0"];
    let other: &[&str] = &["0 -1: s i0", "-1 0: r s0 !", "-1 -1: cpy i0 o0, re s0 o0 <1.0"];
    let text = file("allreduce", 1, (0, 1), &[(1, exchange), (1, other)]);
    let (algo, schedule) = proven(&text);
    assert_eq!(msccl::prove(&algo, Watch::default()).unwrap().places, ["out-of-place"]);
    assert_eq!(transfers(&schedule), [(0, 1, Op::Reduce), (1, 0, Op::Reduce)]);
    // To one of them only, and the sum back: that is a schedule.
    let root: &[&str] = &["1 1: r s0 !, s o0 <1.1", "-1 -1: cpy i0 o0, re s0 o0 <0.0 !"];
    let text = file("allreduce", 1, (0, 1), &[(1, root), (0, &["0 -1: s i0", "-1 0: r o0"])]);
    let (_, schedule) = proven(&text);
    assert_eq!(transfers(&schedule), [(0, 1, Op::Copy), (1, 0, Op::Reduce)]);
    // An all-to-all that goes by scratch of another rank.
    let text = file(
        "alltoall",
        3,
        (0, 1),
        &[
            (0, &["1 -1: s i1, s i2", "-1 1: r o1, r o2", "-1 -1: cpy i0 o0"]),
            (
                2,
                &[
                    "0 0: r o0, r s0 !, nop, s i0, nop <1.0, s s1 <1.0",
                    "2 2: r s1 !, r o2, s i2, s s0 <0.1",
                    "-1 -1: cpy i1 o1",
                ],
            ),
            (0, &["1 -1: s i0, s i1", "-1 1: r o1, r o0", "-1 -1: cpy i2 o2"]),
        ],
    );
    let (_, schedule) = proven(&text);
    assert_eq!(schedule.transfers.len(), 8);
}

/// All send all they have to all, and add what they get: in one step, as what comes is held until the own has been sent.
#[test]
fn everybody_adds_what_everybody_sends() {
    for ranks in [2, 3, 5] {
        let gpu = |rank: usize| -> Vec<String> {
            let peers = (0..ranks).filter(|&peer| peer != rank);
            let sends = peers.clone().map(|peer| format!("{peer} -1: s i0 !"));
            let receives = peers.enumerate().map(|(at, peer)| format!("-1 {peer}: r s{at} !"));
            let waits = (0..ranks - 1).map(|at| format!("nop <{at}.0"));
            let sums = (0..ranks - 1).map(|at| format!("re s{at} i0 <{}.0", ranks - 1 + at));
            let adds = format!("-1 -1: {}", waits.chain(sums).collect::<Vec<_>>().join(", "));
            sends.chain(receives).chain([adds]).collect()
        };
        let words: Vec<Vec<String>> = (0..ranks).map(gpu).collect();
        let blocks: Vec<Vec<&str>> = words.iter().map(|gpu| gpu.iter().map(|block| &block[..]).collect()).collect();
        let gpus: Vec<(u32, &[&str])> = blocks.iter().map(|gpu| (ranks as u32 - 1, &gpu[..])).collect();
        let (_, schedule) = proven(&file("allreduce", 1, (1, 0), &gpus));
        check_by_execution(&schedule, None).unwrap();
        assert!(schedule.transfers.iter().all(|transfer| transfer.step == 0 && transfer.op == Op::Reduce));
        assert_eq!(schedule.transfers.len(), ranks * (ranks - 1));
        // All messages go at once.
        let (fabric, system) = (Fabric::parse(&format!("fc:{ranks}")).unwrap(), System::preset("ideal").unwrap());
        for fidelity in [Fidelity::AlphaBeta, Fidelity::Packet, Fidelity::Flit] {
            let time = simulate(&fabric, &schedule, &system, fidelity).unwrap().time_ps;
            let message = system.link_rate.time_for(4096);
            assert!((message..2 * message).contains(&time), "{ranks}: {time} {message}");
        }
        // Without what holds it, the sum may be sent instead; held until what waits for it, nothing moves.
        let mut free = schedule.clone();
        free.transfers[0].apply_after.clear();
        assert_eq!(verify(&fabric, &free).unwrap_err().code, Code::NotProven);
        let mut stuck = schedule.clone();
        let (from, to) = (stuck.transfers[0].from, stuck.transfers[0].to);
        let back = stuck.transfers.iter().position(|transfer| (transfer.from, transfer.to) == (to, from)).unwrap();
        stuck.transfers[back].start_after.push(0.into());
        assert!(verify(&fabric, &stuck).unwrap_err().message.starts_with("deadlock"));
        let error = msccl::Msccl.write(&schedule, "rccl", Watch::default()).unwrap_err();
        assert!(error.code == Code::NotApplicable && error.message.contains("held until later ones"), "{error}");
    }
}

#[test]
fn deadlocks_and_wrong_sums_are_named() {
    let both_receive: &[(u32, &[&str])] = &[(0, &["1 1: r o1, s i0"]), (0, &["0 0: r o0, s i0"])];
    let error = refused(&file("allgather", 2, (0, 1), both_receive));
    assert!(error.message.starts_with("deadlock: gpu 0 tb 0 step 0 (r) waits for gpu 1 tb 0 step 1 (s)"), "{error}");
    // Nine messages before the first is taken: more than a connection holds.
    let many = ["s i0"; 9].join(", ");
    let take = ["r o0"; 9].join(", ");
    let (first, second) = (format!("1 1: {many}, r o1"), format!("0 0: s i0, {take}"));
    let (tight, late) = (format!("1 1: {many}, r o1"), format!("0 0: {take}, s i0"));
    let own: &str = "-1 -1: cpy i0 o0";
    let of = |a: &str, b: &str| file("allgather", 2, (0, 1), &[(0, &[a, own]), (0, &[b, "-1 -1: cpy i0 o1"])]);
    proven(&of(&first, &second));
    let algo = msccl::read(&of(&tight, &late), Watch::default()).unwrap();
    assert_eq!(msccl::prove(&algo, Watch::default()).unwrap().fifo_depth, 1);
    let swapped = of(&format!("1 1: r o1, {many}"), &format!("0 0: {take}, s i0"));
    assert!(refused(&swapped).message.starts_with("deadlock"));
    let crossed = of(&format!("1 1: {many}, r o1"), &format!("0 0: {}, {take}", ["s i0"; 9].join(", ")));
    assert!(refused(&crossed).message.contains("nobody receives"));

    let twice: &[(u32, &[&str])] =
        &[(0, &["1 -1: s i0, s i0 !", "-1 1: r i0 <0.1"]), (0, &["0 0: rrc i0 i0, rrc i0 i0, s i0"])];
    let error = refused(&file("allreduce", 1, (1, 0), twice));
    let text = "in-place: gpu 0 ends with a wrong chunk 0 of its output, last written by gpu 0 tb 1 step 0 (r): \
                it has 2 times what gpu 0 had in i[0]";
    assert_eq!(error.message, text);
    let nothing: &[(u32, &[&str])] = &[(0, &[]), (0, &[])];
    let error = refused(&file("allreduce", 1, (1, 0), nothing));
    assert!(error.message.contains("never written: it lacks what gpu 1 had in i[0]"), "{error}");
    let sizes: &[(u32, &[&str])] = &[(0, &["1 -1: s i0 2"]), (0, &["-1 0: r i0 1"])];
    assert!(
        refused(&file("broadcast", 2, (1, 0), sizes)).message.contains("sends 2 chunks, gpu 1 tb 0 step 0 (r) takes 1")
    );
}

/// The root is the rank that never receives.
#[test]
fn the_root_is_found() {
    let text =
        file("broadcast", 1, (1, 0), &[(0, &["-1 1: r i0"]), (0, &["0 -1: s i0", "2 -1: s i0"]), (0, &["-1 1: r i0"])]);
    assert_eq!(proven(&text).1.collective.root, 1);
}

/// Changes of a file, with the line and words of the refusal.
const MALFORMED: [(&str, &str, usize, &str); 31] = [
    ("<algo", "<!DOCTYPE a [<!ENTITY x \"yy\">]><algo", 1, "a document type; entities are not expanded"),
    ("name=\"t\"", "name=\"&x;\"", 1, "`x`"),
    ("name=\"t\"", "nome=\"t\"", 1, "name is missing"),
    ("ngpus=\"2\"", "ngpus=\"4000000000\"", 1, "ngpus is 4000000000, expected 2 to 4096"),
    ("ngpus=\"2\"", "ngpus=\"3\"", 1, "2 chunks are no whole number for each of 3 ranks"),
    ("ngpus=\"2\"", "ngpus=\"two\"", 1, "ngpus is 'two', expected a whole number"),
    ("nchunksperloop=\"2\"", "nchunksperloop=\"99999999999\"", 1, "expected 1 to 1048576"),
    ("coll=\"allgather\"", "coll=\"allgater\"", 1, "did you mean 'allgather'"),
    ("inplace=\"1\"", "inplace=\"0\"", 1, "neither in place nor out of place"),
    ("<gpu id=\"1\"", "<gpu id=\"0\"", 8, "gpu 0; ids are 0 to 1, each once"),
    ("<gpu id=\"1\"", "<cpu id=\"1\"", 8, "<cpu>, expected <gpu>"),
    ("s_chunks=\"0\"", "s_chunks=\"-1\"", 2, "s_chunks is -1"),
    ("<tb id=\"0\" send=\"1\"", "<tb id=\"0\" send=\"0\"", 3, "send is 0; peers of gpu 0 are other gpus"),
    ("<tb id=\"0\" send=\"1\"", "<tb id=\"1\" send=\"1\"", 7, "tb 0 is missing"),
    ("<tb id=\"0\" send=\"1\"", "<tb id=\"9999\" send=\"1\"", 3, "tb 9999; ids go from 0 to at most 4095"),
    ("<tb id", "<copy></tb>", 3, ""),
    ("<tb id=\"0\" send=\"1\"", "<tb id=\"0\" send=\"-1\"", 4, "'s' in a thread block that has nobody to send to"),
    ("type=\"s\"", "type=\"t\"", 4, "type is 't'; known: s, r, cpy, re, nop"),
    ("srcoff=\"0\"", "srcoff=\"2\"", 4, "chunks 2 to 2 of buffer o, which has 2"),
    ("srcoff=\"0\"", "srcoff=\"-1\"", 4, "srcoff is -1"),
    ("srcbuf=\"o\"", "srcbuf=\"x\"", 4, "srcbuf is 'x', expected i, o or s"),
    ("cnt=\"1\"", "cnt=\"3\"", 4, "cnt is 3, expected 1 to 2"),
    ("depid=\"-1\"", "depid=\"7\"", 4, "waits for tb 7 step -1"),
    ("depid=\"-1\" deps=\"-1\"", "depid=\"0\" deps=\"0\"", 7, "which does not say so: its hasdep is not 1"),
    ("depid=\"-1\" deps=\"-1\"", "depid=\"5\" deps=\"0\"", 7, "waits for tb 5 step 0, which does not exist"),
    ("<step s=\"0\"", "<step s=\"0\" s=\"0\"", 4, "uplicate"),
    ("</gpu>", "</tb>", 7, ""),
    ("</algo>", "", 14, "the text ends before </algo>"),
    ("</algo>", "</algo><algo/>", 14, "expected nothing after </algo>"),
    ("</tb>", "words</tb>", 6, "text 'words' between elements"),
    ("</tb>", "<![CDATA[x]]></tb>", 6, "only elements and comments"),
];

#[test]
fn malformed_files_are_refused_in_one_line() {
    let good = file("allgather", 2, (1, 0), &[(0, &["1 1: s o0, r o1"]), (0, &["0 0: s o1, r o0"])]);
    proven(&good);
    for (from, to, line, why) in MALFORMED {
        assert!(good.contains(from), "{from}");
        let error = refused(&good.replacen(from, to, 1));
        assert!(error.message.contains(why) && !error.message.contains('\n'), "{from} -> {to}: {error}");
        assert!(error.code == Code::BadFile, "{error}");
        if !why.starts_with("the text ends") {
            let place = format!("line {line}: ");
            assert!(
                error.message.starts_with(&place) || why.starts_with("waits") || why.starts_with("which"),
                "{place}{error}"
            );
        }
    }
    // Deep, long and cut.
    let deep = "<algo name=\"t\">".repeat(100_000);
    assert_eq!(refused(&deep).code, Code::BadFile);
    let long = good.replacen("name=\"t\"", &format!("name=\"{}\"", "x".repeat(1 << 20)), 1);
    assert_eq!(msccl::read(&long, Watch::default()).unwrap().name.len(), 200);
    let attributes: String = (0..99).map(|k| format!(" a{k}=\"1\"")).collect();
    assert!(
        refused(&good.replacen("<algo", &format!("<algo{attributes}"), 1)).message.contains("more than 16 attributes")
    );
    for end in 0..good.len() - 1 {
        assert_eq!(refused(&good[..end]).code, Code::BadFile, "{end}");
    }
}

#[test]
fn a_declaration_comments_and_what_is_left_out() {
    let good = file("allgather", 2, (1, 0), &[(0, &["1 1: s o0, r o1"]), (0, &["0 0: s o1, r o0"])]);
    let text = format!("\u{feff}<?xml version=\"1.0\"?>\n<!-- by hand -->\n{good}")
        .replace(" minBytes=\"0\" maxBytes=\"1000\"", "")
        .replace(" outofplace=\"0\"", "")
        .replace(" proto=\"Simple\"", "");
    assert_eq!(of_text(&text).unwrap().map(|format| format.name()), Some("msccl"));
    let algo = msccl::read(&text, Watch::default()).unwrap();
    assert_eq!((algo.places().len(), algo.max_bytes, &algo.proto[..]), (1, i64::MAX as u64, "Simple"));
    // Where nothing says that it is for one buffer, it is for two.
    let error = refused(&text.replace(" inplace=\"1\"", ""));
    assert!(error.message.starts_with("out-of-place: gpu 0 ends with a wrong chunk 0"), "{error}");
}

/// What other tools write: ids in any order, what consumers read over, names written otherwise.
#[test]
fn order_of_ids_and_what_is_read_over() {
    let gpu = |id: u32| {
        let peer = 1 - id;
        let step = |kind: &str, at: u32, after: &str, awaited: u32| {
            format!(
                "<step cnt=\"1\" hasdep=\"{awaited}\" dstoff=\"{at}\" dstbuf=\"o\" srcoff=\"{at}\" srcbuf=\"o\" type=\"{kind}\" \
                 {after} s=\"0\" nthreads=\"3\"/>"
            )
        };
        let wait = "deps=\"0\" depid=\"1\"";
        let none = "depid=\"-1\" deps=\"-1\"";
        format!(
            "<gpu s_chunks=\"0\" id=\"{id}\" o_chunks=\"2\" i_chunks=\"1\"><copy i_off=\"0\" o_off=\"{id}\"/><copy><x/></copy>\
             <tb chan=\"0\" recv=\"-1\" send=\"{peer}\" id=\"2\">{}</tb><!-- last -->\
             <tb chan=\"1\" recv=\"-1\" send=\"{peer}\" id=\"0\">{}</tb>\
             <tb chan=\"0\" recv=\"{peer}\" send=\"-1\" id=\"1\">{}</tb><tb chan=\"1\" recv=\"{peer}\" send=\"-1\" id=\"3\">{}</tb></gpu>",
            step("s", id, none, 0),
            step("s", peer, wait, 0),
            step("r", peer, none, 1),
            step("r", id, none, 0),
        )
    };
    let text = |coll: &str| {
        format!(
            "<!-- Licence. -->\n<algo redop=\"nop\" maxcount=\"1\" nthreadblocks=\"2\" ngpus=\"2\" coll=\"{coll}\" inplace=\"1\" \
             nchunksperloop=\"2\" nchannels=\"2\" name=\"x\">{}{}</algo>",
            gpu(1),
            gpu(0)
        )
    };
    for coll in ["allgather", "AllGather", "all_gather", "ALL-GATHER"] {
        let algo = msccl::read(&text(coll), Watch::default()).unwrap();
        msccl::prove(&algo, Watch::default()).unwrap();
        assert_eq!(algo.gpus[0].blocks[1].recv, Some(1));
        assert_eq!(algo.gpus[1].blocks[2].send, Some(0));
    }
    assert!(refused(&text("custom")).message.contains("coll is 'custom'; known: allreduce"));
    assert!(
        refused(&text("allgather").replace("<tb chan=\"0\" recv=\"-1\"", "<step>"))
            .message
            .contains("<step>, expected <tb>")
    );
}

/// What is right for all may still be read by nobody: texts as msccl-tools writes them, and markup that readers do not know.
#[test]
fn who_reads_a_text() {
    let good = file("allgather", 2, (1, 0), &[(0, &["1 1: s o0, r o1"]), (0, &["0 0: s o1, r o0"])]);
    let all = ["rccl", "executor", "msccl"];
    let strict = ["rccl", "executor"];
    for (from, to, refusing, why) in [
        ("", "", &all[..0], ""),
        (" outofplace=\"0\"", "", &strict[..], "<algo> has no outofplace, without which it is not read"),
        (" minBytes=\"0\"", "", &strict[..], "<algo> has no minBytes"),
        (" maxBytes=\"1000\"", "", &strict[..], "<algo> has no maxBytes"),
        ("maxBytes=\"1000\"", "maxBytes=\"0\"", &all[2..], "maxBytes is 0, so it is never used"),
        ("<algo", "<?xml version=\"1.0\"?><algo", &all[..], "the text starts with an XML declaration"),
        ("cnt=\"1\"", "cnt='1'", &all[..], "the text has values in single quotes"),
        ("name=\"t\"", "name=\"'t'\"", &all[..0], ""),
    ] {
        let proof =
            msccl::prove(&msccl::read(&good.replacen(from, to, 1), Watch::default()).unwrap(), Watch::default())
                .unwrap();
        let refused: Vec<_> = proof.consumers.iter().filter_map(|(name, why)| Some((*name, why.as_ref()?))).collect();
        assert_eq!(refused.iter().map(|(name, _)| *name).collect::<Vec<_>>(), refusing, "{from} -> {to}");
        assert!(refused.iter().all(|(_, line)| line.contains(why)), "{from} -> {to}: {refused:?}");
    }
}

fn ring(ranks: usize) -> Schedule {
    let (fabric, system) = (Fabric::parse(&format!("ring:{ranks}")).unwrap(), System::preset("generic").unwrap());
    algorithm::build(&fabric, &system, Collective::new(Kind::AllReduce), 4 * ranks as u64 * 64, "ring").unwrap()
}

#[test]
fn limits_are_those_of_a_consumer() {
    let long = msccl::lower(&ring(80), &MscclOptions::default(), Watch::default()).unwrap();
    let error = consumer("rccl").unwrap().check(&long).unwrap_err();
    assert_eq!(
        (error.code, &error.message[..]),
        (Code::TooLarge, "RCCL: gpu 0 tb 0 has 158 steps, at most 64 are read")
    );
    assert_eq!(consumer("executor").unwrap().check(&long), Ok(()));
    let error = msccl::Msccl.write(&ring(80), "rccl", Watch::default()).unwrap_err();
    assert!(error.message.contains("at most 64"), "{error}");
    assert!(consumer("rcl").unwrap_err().message.contains("did you mean 'rccl'"));
}

/// Each limit, just within and just past it.
#[test]
fn limits_are_exact() {
    type Change = fn(&mut MscclGpu, u32);
    let fused = |most: u32| -> Vec<MscclStep> {
        let place = ChunkPlace { buffer: Buffer::Input, offset: 0 };
        vec![
            MscclStep { action: StepAction::Reduce, src: place, dst: place, count: 1, after: None, awaited: false };
            most as usize
        ]
    };
    let steps: Change = |gpu, count| {
        let step = gpu.blocks[0].steps[0];
        gpu.blocks[0].steps = vec![step; count as usize];
    };
    let blocks: Change = |gpu, count| gpu.blocks.resize(count as usize, MscclBlock::default());
    let channel: Change = |gpu, channels| gpu.blocks[0].channel = channels - 1;
    let count: Change = |gpu, count| gpu.blocks[0].steps[0].count = count;
    let offset: Change = |gpu, offset| gpu.blocks[0].steps[0].dst.offset = offset;
    let awaited: Change = |gpu, tb| gpu.blocks[0].steps[0].after = Some((tb, 0));
    // A GPU, its thread blocks and their steps are elements, and one more.
    let elements: Change = |gpu, elements| {
        let step = gpu.blocks[0].steps[0];
        gpu.blocks = vec![MscclBlock { steps: vec![step; 62], ..MscclBlock::default() }; 64];
        gpu.blocks[0].steps.resize((elements - 2 - 64 - 63 * 62) as usize, step);
    };
    for (change, what, limits) in [
        (steps, "steps, at most", [64, 256, 256]),
        (blocks, "thread blocks, at most", [64, 1024, 216]),
        (channel, "uses channel", [128, 32, 32]),
        (count, "chunks, at most 71 go", [71; 3]),
        (offset, "the largest is 32767", [32767; 3]),
        (awaited, "the last to wait for is 127", [127; 3]),
        (elements, "XML elements, at most 4096 are read", [0, 4096, 4096]),
    ] {
        for (consumer, limit) in CONSUMERS.iter().zip(limits).filter(|(_, limit)| *limit > 0) {
            let mut algo = msccl::lower(&ring(4), &MscclOptions::default(), Watch::default()).unwrap();
            change(&mut algo.gpus[1], limit);
            assert_eq!(consumer.check(&algo), Ok(()), "{what} {limit}");
            change(&mut algo.gpus[1], limit + 1);
            let error = consumer.check(&algo).unwrap_err();
            let line = &error.message;
            assert!(error.code == Code::TooLarge && line.starts_with(consumer.about) && line.contains(what), "{error}");
        }
    }
    for (many, within) in [(16, true), (17, false)] {
        let mut algo = msccl::lower(&ring(4), &MscclOptions::default(), Watch::default()).unwrap();
        algo.gpus[0].blocks[0].steps = fused(many);
        let outcome = CONSUMERS[0].check(&algo);
        assert_eq!(outcome.is_ok(), within, "{outcome:?}");
        assert!(outcome.err().is_none_or(|error| error.message.starts_with("RCCL: ") && error.message.contains("16")));
    }
}
