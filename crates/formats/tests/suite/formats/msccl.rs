//! MSCCL XML.

use super::machine::{Random, Turn, run};
use crate::prelude::*;
use antiphon_base::watch::Watch;
use antiphon_formats::by_name;
use antiphon_formats::msccl::{self, Algo, Buffer, CONSUMERS, MscclBlock, MscclOptions, StepAction};
use std::sync::LazyLock;

/// Bytes that halves, thirds, fifths, ... of ranks divide.
pub const BYTES: u64 = 4 * 720720 * 16;

const FABRICS: [&str; 10] = [
    "mesh:4x4",
    "mesh:3x3",
    "torus:3x4",
    "ring:6",
    "fc:5",
    "hypercube:3",
    "switch:8",
    "fbfly:3x3",
    "dgx1v",
    "mi300x:1",
];

/// Every algorithm on every fabric for every collective, where it applies.
pub static SCHEDULES: LazyLock<Vec<(Fabric, Schedule)>> = LazyLock::new(|| {
    let system = System::preset("generic").unwrap();
    let mut list = vec![];
    for spec in FABRICS {
        let fabric = Fabric::parse(spec).unwrap();
        for kind in Kind::ALL {
            for entry in algorithm::ALL {
                let root = if kind.rooted() { fabric.ranks() as u32 - 1 } else { 0 };
                let built = algorithm::build(&fabric, &system, Collective { kind, root }, BYTES, entry.info().name);
                if let Ok(schedule) = built {
                    list.push((fabric.clone(), schedule));
                }
            }
        }
    }
    list
});

/// A change of a number: sender, receiver, whether it adds, whose data, and by how much.
pub type Change = (u32, u32, bool, u32, i64);

/// How often each byte goes from a rank to a rank, by what is done with it and whose it is: changes of the number, by byte.
pub fn moved(schedule: &Schedule) -> Vec<(Change, u64)> {
    let mut moved: BTreeMap<_, BTreeMap<u64, i64>> = BTreeMap::new();
    for transfer in &schedule.transfers {
        for lane in transfer.lanes().map(|lane| &schedule.lanes[lane]).filter(|lane| lane.bytes > 0) {
            let source = if schedule.collective.kind == Kind::AllToAll { lane.source } else { 0 };
            let of = moved.entry((transfer.from, transfer.to, transfer.op == Op::Reduce, source)).or_default();
            *of.entry(lane.offset).or_default() += 1;
            *of.entry(lane.offset + lane.bytes).or_default() -= 1;
        }
    }
    let changes = |((from, to, reduces, source), of): (_, BTreeMap<u64, i64>)| {
        let changes = of.into_iter().filter(|&(_, change)| change != 0);
        changes.map(move |(byte, change)| ((from, to, reduces, source, change), byte)).collect::<Vec<_>>()
    };
    moved.into_iter().flat_map(changes).collect()
}

/// Transfers as (from, to, op).
pub fn transfers(schedule: &Schedule) -> Vec<(u32, u32, Op)> {
    let mut list: Vec<_> = schedule.transfers.iter().map(|t| (t.from, t.to, t.op)).collect();
    list.sort_by_key(|&(from, to, op)| (from, to, op == Op::Copy));
    list
}

/// Heights of sums and copies of every byte: where they change.
fn heights(fabric: &Fabric, schedule: &Schedule) -> Vec<((u32, u32, u32), u64)> {
    let stats = schedule.stats(fabric);
    let heights = stats.reduce_heights.iter().zip(&stats.copy_heights);
    let source = |source: u32| if schedule.collective.kind == Kind::AllToAll { source } else { 0 };
    let mut list: Vec<_> = (schedule.lanes.iter().zip(heights))
        .filter(|(lane, _)| lane.bytes > 0)
        .map(|(lane, (&sum, &copy))| (source(lane.source), lane.offset, sum, copy))
        .collect();
    list.sort_unstable();
    list.dedup_by(|next, before| (next.0, next.2, next.3) == (before.0, before.2, before.3));
    list.into_iter().map(|(source, offset, sum, copy)| ((source, sum, copy), offset)).collect()
}

/// Whether a transfer waits for one that has none of its data.
fn paced(schedule: &Schedule) -> bool {
    let lanes = |id: u32| schedule.transfers[id as usize].lanes().collect::<Vec<_>>();
    (0..).zip(&schedule.transfers).any(|(id, transfer)| {
        let own = lanes(id);
        transfer.start_after.iter().any(|other| !lanes(other.transfer()).iter().any(|lane| own.contains(lane)))
    })
}

/// Whether two lists say the same of bytes that are at most a rounding of shards within shards apart.
pub fn near<K: PartialEq>(a: &[(K, u64)], b: &[(K, u64)]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && a.1.abs_diff(b.1) <= 8)
}

/// What is exported is proven as it stands, with connections of one message too, and reads back as the same schedule: the
/// same bytes go the same ways, in trees of the same heights.
#[test]
fn what_is_written_reads_back_as_the_same_schedule() {
    let every = sweep(4, 1);
    let (mut written, mut whole, mut loads) = (0, 0, 0);
    let (mut refused, mut past) = (BTreeMap::new(), BTreeMap::new());
    for (fabric, schedule) in SCHEDULES.iter().step_by(every) {
        let name = format!("{} {} on {}", schedule.algorithm, schedule.collective.kind.name(), fabric.name);
        let lowered = match msccl::lower(schedule, &MscclOptions::default(), Watch::default()) {
            Ok(lowered) => lowered,
            Err(error) => {
                assert!(matches!(error.code, Code::NotApplicable | Code::TooLarge), "{name}: {error}");
                *refused.entry(error.message).or_insert(0) += 1;
                continue;
            }
        };
        written += 1;
        check_limits(&lowered, &name, &mut past);
        let algo = msccl::read(&msccl::write(&lowered, Watch::default()).unwrap(), Watch::default())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(algo, lowered, "{name}");
        let proof = msccl::prove(&algo, Watch::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(proof.fifo_depth, 1, "{name}");

        let raised =
            msccl::raise(&algo, fabric, BYTES, &[], Watch::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(verify(fabric, &raised).unwrap().complete, "{name}");
        assert_eq!((raised.collective, raised.ranks), (schedule.collective, schedule.ranks), "{name}");
        assert!(near(&moved(&raised), &moved(schedule)), "{name}");
        let (own, other) = (schedule.stats(fabric), raised.stats(fabric));
        // A message of lanes that do not lie together is several.
        assert!(own.transfers <= other.transfers, "{name}");
        if own.transfers == other.transfers {
            whole += 1;
            // Where messages also wait for others' data, so that nobody sends ahead, the order of thread blocks says the same.
            if !paced(schedule) {
                assert!(near(&heights(fabric, &raised), &heights(fabric, schedule)), "{name}");
            }
        }
        let of_pair: BTreeMap<_, _> = raised.transfers.iter().map(|t| ((t.from, t.to), t.route.clone())).collect();
        let padded = schedule.lanes.iter().any(|lane| lane.chunk_bytes * lane.chunks != lane.bytes);
        // Files have no routes: what does not go the way that messages go by themselves loads other links.
        if !padded && schedule.transfers.iter().all(|t| of_pair.get(&(t.from, t.to)) == Some(&t.route)) {
            loads += 1;
            assert!(own.link_bytes.iter().zip(&other.link_bytes).all(|(a, b)| a.abs_diff(*b) <= 1000), "{name}");
        }
    }
    println!(
        "{written} written, {whole} in as many transfers, {loads} with the same loads of links; refused: {refused:?}; past limits: {past:?}"
    );
    // A sample is rounded up.
    let of_all = |count: usize| (count + 1) * every - 1;
    let enough = of_all(written) > 370 && of_all(whole) > 270 && of_all(loads) > 290;
    assert!(enough, "{written}, {whole}, {loads}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// With every option too, and the file says them.
    #[test]
    fn options_are_written_read_back_and_proven(
        at in any::<prop::sample::Index>(),
        (instances, channels) in (1u32..5, 1u32..4),
        protocol in prop::sample::select(&MscclOptions::PROTOCOLS[..]),
        (min_bytes, more) in (0u64..1 << 30, 1u64..1 << 30),
    ) {
        let (fabric, schedule) = at.get(&SCHEDULES);
        let max_bytes = min_bytes + more;
        let options = MscclOptions { instances, channels, protocol: protocol.into(), min_bytes, max_bytes };
        let plain = msccl::lower(schedule, &MscclOptions::default(), Watch::default());
        let Ok(lowered) = msccl::lower(schedule, &options, Watch::default()) else {
            prop_assert!(plain.is_err() || plain.unwrap().chunks * instances > 1 << 15);
            return Ok(());
        };
        let algo = msccl::read(&msccl::write(&lowered, Watch::default()).unwrap(), Watch::default()).unwrap();
        prop_assert_eq!(&algo, &lowered);
        prop_assert_eq!((algo.min_bytes, algo.max_bytes, &*algo.proto), (min_bytes, max_bytes, protocol));
        prop_assert_eq!((algo.channels, algo.chunks), (instances * channels, plain.unwrap().chunks * instances));
        prop_assert!(algo.gpus.iter().flat_map(|gpu| &gpu.blocks).all(|block| block.channel < algo.channels));
        prop_assert_eq!(msccl::prove(&algo, Watch::default()).unwrap().fifo_depth, 1);
        // What goes where is the same, whatever has several instances.
        let bytes = BYTES * u64::from(instances);
        let raised = msccl::raise(&algo, fabric, bytes, &[], Watch::default()).unwrap();
        prop_assert!(verify(fabric, &raised).unwrap().complete);
        let all = |schedule: &Schedule| -> u64 {
            schedule.transfers.iter().flat_map(|transfer| transfer.lanes()).map(|lane| schedule.lanes[lane].bytes).sum()
        };
        prop_assert!(all(&raised).abs_diff(all(schedule) * u64::from(instances)) <= all(&raised) / 1000);
    }
}

#[test]
fn options_that_no_consumer_has_are_refused() {
    let fabric = Fabric::parse("ring:4").unwrap();
    let system = System::preset("generic").unwrap();
    let schedule = algorithm::build(&fabric, &system, Collective::new(Kind::AllReduce), BYTES, "ring").unwrap();
    let any = MscclOptions::default;
    for (options, code, what) in [
        (MscclOptions { protocol: "simple".into(), ..any() }, Code::UnknownName, "did you mean 'Simple'"),
        (MscclOptions { instances: 0, ..any() }, Code::BadSize, "instances=0; expected 1 to 128"),
        (MscclOptions { channels: 129, ..any() }, Code::BadSize, "channels=129"),
        (MscclOptions { min_bytes: 5, max_bytes: 4, ..any() }, Code::BadSize, "sizes from 5 to 4 bytes"),
    ] {
        let error = msccl::lower(&schedule, &options, Watch::default()).unwrap_err();
        assert!(error.code == code && error.message.contains(what), "{error}");
        let format = by_name("mscclpp").unwrap();
        let error = format.write_with(&schedule, format.info().consumers[0], &options, Watch::default()).unwrap_err();
        assert!(error.code == Code::NotApplicable && error.message.contains("msccl has"), "{error}");
    }
}

/// Counts the consumers whose limits a program passes; each refusal names the limit and its owner.
fn check_limits(algo: &Algo, name: &str, past: &mut BTreeMap<&str, u32>) {
    for consumer in &CONSUMERS {
        if let Err(error) = consumer.check(algo) {
            let line = error.message;
            let limit = ["are read", "there are", "at most", "the largest is", "the last to wait for", "in a row"];
            let named = line.starts_with(consumer.about) && limit.iter().any(|words| line.contains(words));
            assert!(error.code == Code::TooLarge && named, "{name}: {line}");
            *past.entry(consumer.name).or_insert(0) += 1;
        }
    }
}

/// Drops a step; steps that wait for later ones mean the same ones as before (`renumber`), or not.
fn drop_step(blocks: &mut [MscclBlock], tb: usize, at: usize, renumber: bool) {
    blocks[tb].steps.remove(at);
    let of_block = blocks.iter_mut().flat_map(|block| &mut block.steps).filter(|_| renumber);
    for step in of_block.filter(|step| step.after.is_some_and(|(other, _)| other as usize == tb)) {
        step.after = step.after.filter(|&(_, awaited)| awaited as usize != at);
        step.after = step.after.map(|(other, awaited)| (other, awaited - u32::from(awaited as usize > at)));
    }
}

/// One small change of a program; `None` if it changes nothing.
fn mutant(algo: &Algo, random: &mut Random) -> Option<Algo> {
    let mut changed = algo.clone();
    let gpu = random.below(changed.gpus.len());
    let ranks = changed.gpus.len();
    let blocks = &mut changed.gpus[gpu].blocks;
    let tb = random.below(blocks.len());
    let count = blocks.len();
    let steps_of: Vec<usize> = blocks.iter().map(|block| block.steps.len()).collect();
    if steps_of[tb] == 0 {
        return None;
    }
    let at = random.below(steps_of[tb]);
    match random.below(10) {
        0 => drop_step(blocks, tb, at, random.below(2) == 0),
        1 if at > 0 => blocks[tb].steps.swap(at - 1, at),
        2 => {
            let block = &mut blocks[tb];
            let peer = if block.send.is_some() { &mut block.send } else { &mut block.recv };
            *peer = Some(random.below(ranks) as u32);
        }
        3 => {
            let other = random.below(count);
            let step = random.below(steps_of[other].max(1));
            blocks[tb].steps[at].after = Some((other as u32, step as u32));
        }
        4 | 5 => {
            let step = &mut blocks[tb].steps[at];
            let place = if random.below(2) == 0 { &mut step.src } else { &mut step.dst };
            place.offset = if random.below(2) == 0 { place.offset + 1 } else { place.offset.saturating_sub(1) };
        }
        6 | 7 => blocks[tb].steps[at].after = None,
        8 => {
            let step = &mut blocks[tb].steps[at];
            step.action = match step.action {
                StepAction::Receive => StepAction::ReceiveReduceCopy,
                StepAction::ReceiveReduceCopy => StepAction::Receive,
                StepAction::Copy => StepAction::Reduce,
                other => other,
            };
            if step.action.reads() {
                step.src = step.dst;
            }
        }
        _ => {
            let step = &mut blocks[tb].steps[at];
            match random.below(3) {
                0 => step.count += 1,
                1 => step.awaited = !step.awaited,
                _ => step.dst.buffer = if step.dst.buffer == Buffer::Input { Buffer::Scratch } else { Buffer::Input },
            }
        }
    }
    (changed != *algo).then_some(changed)
}

/// Whether every execution tried is right: each thread block late, each early, and at random.
fn runs_right(algo: &Algo, root: usize, depth: usize) -> Result<(), String> {
    let blocks: usize = algo.gpus.iter().map(|gpu| gpu.blocks.len()).sum();
    let turns = (0..blocks).flat_map(|id| [Turn::Last(id), Turn::First(id), Turn::Slow(id)]);
    turns.chain((0..24).map(Turn::Random)).try_for_each(|turn| run(algo, root, depth, turn))
}

/// Changed programs are refused where their execution is wrong, and only there.
#[test]
fn mutants_are_refused_where_they_run_wrong() {
    let each = sweep(40, 600);
    let system = System::preset("generic").unwrap();
    let mut random = Random(1);
    let (mut mutants, mut refused, mut harmless) = (0, 0, vec![]);
    let cases = [
        ("ring:4", "ring", Kind::AllReduce),
        ("mesh:2x3", "multitree", Kind::AllReduce),
        ("mesh:3x3", "combs", Kind::AllReduce),
        ("switch:4", "halving-doubling", Kind::ReduceScatter),
        ("ring:5", "ring-bi", Kind::AllGather),
        ("mesh:2x3", "direct", Kind::AllToAll),
        ("mesh:2x3", "exchange", Kind::AllToAll),
        ("mesh:3x3", "multitree", Kind::Reduce),
        ("fc:5", "multitree", Kind::Broadcast),
        ("hypercube:3", "forest", Kind::AllReduce),
    ];
    for (spec, name, kind) in cases {
        let fabric = Fabric::parse(spec).unwrap();
        let schedule = algorithm::build(&fabric, &system, Collective::new(kind), BYTES, name)
            .unwrap_or_else(|error| panic!("{spec} {name}: {error}"));
        let whole = msccl::lower(&schedule, &MscclOptions::default(), Watch::default()).unwrap();
        for depth in [1, 8] {
            assert_eq!(runs_right(&whole, 0, depth), Ok(()), "{spec} {name}");
        }
        let mut left = each;
        while left > 0 {
            let Some(changed) = mutant(&whole, &mut random) else { continue };
            let text = msccl::write(&changed, Watch::default()).unwrap();
            // Where a step reads or writes nothing, a changed place is not in the text.
            if text == msccl::write(&whole, Watch::default()).unwrap() {
                continue;
            }
            left -= 1;
            mutants += 1;
            let proof = msccl::read(&text, Watch::default())
                .and_then(|algo| msccl::prove(&algo, Watch::default()).map(|proof| (proof, algo)));
            match proof {
                Ok((proof, algo)) => {
                    let (depth, root) = (proof.fifo_depth as usize, algo.collective().root as usize);
                    for depth in [depth, 8] {
                        assert_eq!(runs_right(&algo, root, depth), Ok(()), "{spec} {name}, depth {depth}: {text}");
                    }
                    assert!(depth == 1 || runs_right(&algo, root, depth / 2).is_err(), "{spec} {name}: {text}");
                }
                Err(error) => {
                    refused += 1;
                    if runs_right(&changed, changed.collective().root as usize, 8).is_ok() {
                        harmless.push(format!("{spec} {name}: {error}"));
                    }
                }
            }
        }
    }
    println!("{mutants} mutants, {refused} refused");
    assert_eq!((mutants, harmless), (cases.len() * each, vec![]));
    assert!((mutants / 2..mutants).contains(&refused));
}
