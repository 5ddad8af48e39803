//! Skipped periods and merged runs change no result, of random schedules and of every algorithm.

use super::*;

/// The result, but for the number of events, and this number.
pub(super) fn result(
    fabric: &Fabric,
    flights: &[Flight],
    system: &System,
    fidelity: Fidelity,
    shortcuts: Shortcuts,
) -> Result<(SimulationResult, u64)> {
    let mut plan = RunPlan::new(fabric, flights, system)?;
    plan.record(RunOptions { playback: true, ..RunOptions::default() });
    let result = run(&plan, Order::Fifo, fidelity, shortcuts, &mut |_| true)?;
    let events = result.events;
    Ok((SimulationResult { events: 0, ..result }, events))
}

/// With and without merged runs.
pub(super) fn both_ways(fabric: &Fabric, schedule: &Schedule, system: &System) -> [SimulationResult; 2] {
    let shortcuts =
        [true, false].map(|merge_runs| Shortcuts { merge_runs, skip_periods: false, ..Shortcuts::default() });
    shortcuts.map(|cut| result(fabric, &[Flight::unproven(schedule)], system, Fidelity::Packet, cut).unwrap().0)
}

/// With and without fast-forward; asserts that it changes nothing and returns the numbers of events,
/// unless both fail in the same way.
pub(super) fn fast_forward(
    fabric: &Fabric,
    schedule: &Schedule,
    system: &System,
    fidelity: Fidelity,
) -> Option<[u64; 2]> {
    let run = |skip_periods| {
        let shortcuts = Shortcuts { skip_periods, ..Shortcuts::default() };
        result(fabric, &[Flight::unproven(schedule)], system, fidelity, shortcuts)
    };
    let what = || format!("{} on {}, {} B, system {}", schedule.algorithm, fabric.name, schedule.bytes, system.name);
    match (run(true), run(false)) {
        (Ok((skipped, few)), Ok((full, all))) => {
            // Not `assert_eq`, which would print a million chunks.
            assert!(skipped == full, "{}: {} ps and {} ps", what(), skipped.time_ps, full.time_ps);
            Some([few, all])
        }
        (skipped, full) => {
            let errors = [skipped, full].map(|run| run.err().map(|error| error.message));
            assert!(errors[0] == errors[1], "{}: {errors:?}", what());
            None
        }
    }
}

/// What a random wait is made from: who waits, for which of those it can wait for, for what, how many chunks behind,
/// and whether at its receiver.
pub(super) type Wait = (Index, Index, bool, u32, bool);

/// Adds waits for events of chunks served before; all lanes have as many chunks and one stride.
pub(super) fn add_waits(schedule: &mut Schedule, waits: &[Wait]) {
    for &(waiting, other, sent, lag, at_receiver) in waits {
        if schedule.transfers.is_empty() {
            return;
        }
        let id = waiting.index(schedule.transfers.len());
        let transfer = &schedule.transfers[id];
        let stride = schedule.lanes[0].stride;
        let before = |&(place, other): &(usize, &Transfer)| {
            let end = if sent { other.from } else { other.to };
            let rank = if at_receiver { transfer.to } else { transfer.from };
            end == rank && (other.phase, other.step, place) < (transfer.phase, transfer.step + lag * stride, id)
        };
        let able: Vec<usize> = schedule.transfers.iter().enumerate().filter(before).map(|(id, _)| id).collect();
        if !able.is_empty() {
            let event = if sent { Event::Sent } else { Event::Applied };
            let dependency = Dependency::new(*other.get(&able) as u32, event).lagging(lag);
            let transfer = &mut schedule.transfers[id];
            match at_receiver {
                true => transfer.apply_after.push(dependency),
                false => transfer.start_after.push(dependency),
            }
        }
    }
}

pub(super) fn waits() -> impl Strategy<Value = Vec<Wait>> {
    let wait = (any::<Index>(), any::<Index>(), any::<bool>(), 0u32..4, any::<bool>());
    prop_oneof![Just(vec![]), proptest::collection::vec(wait, 1..12)]
}

/// Random sends that need not compute anything, issued in any way, in some number of `chunks` of at
/// most `packets` packets.
pub(super) fn random_schedule(chunks: Range<u64>, packets: u64) -> impl Strategy<Value = (Fabric, Schedule)> {
    let fabric = prop_oneof![Just("mesh:2x3"), Just("ring:5"), Just("switch:4"), Just("bigraph:2x1")];
    let sends = proptest::collection::vec((0u32..4, 0u32..4, 0u32..5, 0usize..3, any::<bool>()), 1..24);
    // Ranks on one node share its links.
    let placement = proptest::option::weighted(0.3, proptest::collection::vec(0u32..4, 6));
    (fabric, sends, 0usize..3, chunks, 1u32..3, 1u32..5, placement, waits()).prop_map(
        move |(spec, sends, issue, chunks, stride, interfaces, placement, waits)| {
            let fabric = Fabric::parse(spec).unwrap();
            let mut builder = Builder::new("random", &fabric, Collective::new(Kind::AllReduce), 300_000);
            if let Some(nodes) = placement {
                builder.schedule.placement = nodes[..fabric.ranks()].to_vec();
            }
            builder.schedule.endpoint.issue = [Issue::Links, Issue::Steps, Issue::StrictSteps][issue];
            builder.schedule.endpoint.interfaces = Some(interfaces);
            for (i, packets) in [1, 7, packets].into_iter().enumerate() {
                let (offset, bytes) = (i as u64 * 100, 99);
                builder.lane(Lane { offset, bytes, chunks, chunk_bytes: packets * 8192, stride, source: 0, owner: 0 });
            }
            for (from, to, step, lane, reduce) in sends {
                if from != to {
                    let op = if reduce { Op::Reduce } else { Op::Copy };
                    builder.send(op, from, to, lane as u32, step).unwrap();
                }
            }
            let mut schedule = builder.finish().unwrap();
            add_waits(&mut schedule, &waits);
            (fabric, schedule)
        },
    )
}

/// System `tto` with buffers in which packets wait for each other, and any assignment of interfaces.
pub(super) fn small_buffers() -> impl Strategy<Value = System> {
    let allocator = prop_oneof![Just(Allocator::Islip), Just(Allocator::RoundRobin), Just(Allocator::Age)];
    let assignment =
        prop::sample::select(Assignment::ALL.iter().map(|&(_, assignment)| assignment).collect::<Vec<_>>());
    (1u32..40, 1u32..4, allocator, proptest::option::of(1u32..4), assignment, any::<bool>()).prop_map(
        |(depth_flits, virtual_channels, allocator, output_queue_flits, assignment, circuit)| {
            let mut system = tto();
            system.interface.assignment = assignment;
            system.router = RouterModel {
                depth_flits,
                virtual_channels,
                allocator,
                switching: if depth_flits < 17 { Switching::Wormhole } else { Switching::CutThrough },
                output_queue_flits,
                ejection: if circuit { Ejection::Circuit } else { Ejection::Switched },
                ..system.router
            };
            system
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 2, ..ProptestConfig::default() })]

    #[test]
    fn random_sends_all_arrive_and_links_keep_their_rate((fabric, schedule) in random_schedule(1..4, 25)) {
        for system in ["tto", "generic"].map(|name| System::preset(name).unwrap()) {
            for &(_, fidelity) in Fidelity::ALL {
                let result = simulate(&fabric, &schedule, &system, fidelity, &mut |_| true).unwrap();
                let again = simulate(&fabric, &schedule, &system, fidelity, &mut |_| true).unwrap();
                prop_assert_eq!(&result, &again);
                let flights = [Flight::unproven(&schedule)];
                let plan = RunPlan::new(&fabric, &flights, &system).unwrap();
                let mut busy = vec![0; fabric.links.len()];
                for job in &plan.jobs {
                    let kind = plan.kind(job);
                    for &link in plan.route(job) {
                        busy[link as usize] += kind.chunks * kind.packets.count * plan.packet_time(job, link);
                    }
                }
                for (row, busy) in result.links.iter().zip(busy) {
                    prop_assert_eq!(row.busy_ps, busy);
                    prop_assert!(busy <= result.time_ps);
                }
            }
        }
    }

    #[test]
    fn small_buffers_carry_all_or_name_what_waits(
        (fabric, schedule) in random_schedule(1..4, 100),
        system in small_buffers(),
    ) {
        match simulate(&fabric, &schedule, &system, Fidelity::Flit, &mut |_| true) {
            Ok(result) => {
                let plenty = simulate(&fabric, &schedule, &tto(), Fidelity::Flit, &mut |_| true).unwrap();
                prop_assert_eq!(result.flit_hops, plenty.flit_hops);
                let busy = |result: &SimulationResult| -> Vec<u64> { result.links.iter().map(|l| l.busy_ps).collect() };
                prop_assert_eq!(busy(&result), busy(&plenty));
            }
            Err(error) => prop_assert!(error.message.contains("waits for"), "{}", error),
        }
    }

    #[test]
    fn skipped_periods_change_nothing((fabric, schedule) in random_schedule(1..200, 100)) {
        for system in ["tto", "generic"].map(|name| System::preset(name).unwrap()) {
            fast_forward(&fabric, &schedule, &system, Fidelity::AlphaBeta);
            fast_forward(&fabric, &schedule, &system, Fidelity::Packet);
        }
    }

    #[test]
    fn merged_runs_change_nothing((fabric, schedule) in random_schedule(1..4, 100)) {
        let [merged, single] = both_ways(&fabric, &schedule, &tto());
        prop_assert_eq!(merged, single);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 16, ..ProptestConfig::default() })]

    #[test]
    fn skipped_periods_change_no_flit(
        (fabric, schedule) in random_schedule(30..75, 4),
        system in prop_oneof![Just(tto()), Just(System::preset("generic").unwrap()), small_buffers()],
    ) {
        fast_forward(&fabric, &schedule, &system, Fidelity::Flit);
    }
}

#[test]
fn merged_runs_change_no_result_of_any_algorithm() {
    for spec in ["mesh:4x4", "mesh:3x3", "mesh:5x5", "torus:4x4"] {
        let fabric = Fabric::parse(spec).unwrap();
        for name in algorithm::ALL.map(|a| a.info().name) {
            for bytes in [1 << 20, 5_000_000] {
                let Ok(schedule) = algorithm::build(&fabric, &tto(), Collective::new(Kind::AllReduce), bytes, name)
                else {
                    continue;
                };
                let [merged, single] = both_ways(&fabric, &schedule, &tto());
                assert_eq!(merged, single, "{name} on {spec}, {bytes} B");
            }
        }
    }
}

pub(super) fn skipped_periods_change_no_result(specs: &[&str], sizes: &[u64]) {
    for spec in specs {
        let fabric = Fabric::parse(spec).unwrap();
        for name in algorithm::ALL.map(|a| a.info().name) {
            let chunked = ["tto", "direct", "halving-doubling"].contains(&name);
            // Messages of a few bytes would only take long.
            let first = if name == "optimal" { format!("{name}:piece=16KiB") } else { name.to_string() };
            let specs = [first, format!("{name}:chunk=30kB")];
            for spec in &specs[..if chunked { 2 } else { 1 }] {
                // Those of GPUs, at the end, are alike.
                let systems = PRESETS[..7].iter().map(|preset| preset.name);
                for (system, &bytes) in systems.flat_map(|system| sizes.iter().map(move |bytes| (system, bytes))) {
                    let system = System::preset(system).unwrap();
                    let collective = Collective::new(Kind::AllReduce);
                    if let Ok(schedule) = algorithm::build(&fabric, &system, collective, bytes, spec) {
                        fast_forward(&fabric, &schedule, &system, Fidelity::AlphaBeta);
                        fast_forward(&fabric, &schedule, &system, Fidelity::Packet);
                    }
                }
            }
        }
    }
}

#[test]
fn skipped_periods_change_no_result_of_any_algorithm() {
    skipped_periods_change_no_result(&["mesh:3x4,slow=0-1:0.5", "switch:4"], &[3_000_000]);
}

#[test]
#[ignore = "takes a minute"]
fn skipped_periods_change_no_result_of_any_algorithm_on_more_fabrics() {
    let fabrics = ["mesh:4x4", "mesh:3x3", "mesh:3x4,slow=0-1:0.5", "torus:4x4", "switch:4", "bigraph:2x2", "dgx1v"];
    skipped_periods_change_no_result(&fabrics, &[3_000_000, 1 << 23]);
}

#[test]
fn skipped_periods_change_no_flit_of_any_algorithm() {
    let wormhole = RouterModel { switching: Switching::Wormhole, depth_flits: 6, virtual_channels: 2, ..tto().router };
    // At least 24 chunks, of a packet each.
    let systems = [
        (tto(), 3 << 20, "8KiB"),
        (System { router: wormhole, ..tto() }, 3 << 20, "8KiB"),
        (System::preset("generic").unwrap(), 3 << 19, "4KiB"),
    ];
    for spec in ["mesh:3x3", "mesh:4x4", "mesh:3x4,slow=0-1:0.5", "switch:4"] {
        let fabric = Fabric::parse(spec).unwrap();
        for name in ["tto", "direct", "halving-doubling"] {
            for (system, bytes, chunk) in &systems {
                let (algorithm, collective) = (format!("{name}:chunk={chunk}"), Collective::new(Kind::AllReduce));
                if let Ok(schedule) = algorithm::build(&fabric, system, collective, *bytes, &algorithm) {
                    fast_forward(&fabric, &schedule, system, Fidelity::Flit).unwrap();
                }
            }
        }
    }
}

#[test]
fn long_runs_are_periodic() {
    use Fidelity::{AlphaBeta, Flit, Packet};
    for (fabric, algorithm, fidelity, bytes, share) in [
        ("mesh:4x4", "tto", Packet, 1 << 28, 0.1),
        ("mesh:5x5", "tto:barrier=no", Packet, 1 << 28, 0.1),
        ("mesh:4x4", "direct", Packet, 1 << 28, 0.1),
        ("mesh:5x5", "direct", Packet, 1 << 28, 0.1),
        ("mesh:4x4", "halving-doubling", Packet, 1 << 28, 0.2),
        ("mesh:4x4", "tto", AlphaBeta, 1 << 28, 0.1),
        ("mesh:4x4", "direct", AlphaBeta, 1 << 28, 0.1),
        ("mesh:4x4", "combs", AlphaBeta, 1 << 28, 0.2),
        ("mesh:4x4", "halving-doubling", AlphaBeta, 1 << 28, 0.1),
        ("mesh:4x4", "tto", Flit, 1 << 26, 0.1),
        ("mesh:5x5", "tto:barrier=no", Flit, 1 << 26, 0.1),
    ] {
        let fabric = Fabric::parse(fabric).unwrap();
        let schedule = algorithm::build(&fabric, &tto(), Collective::new(Kind::AllReduce), bytes, algorithm).unwrap();
        let [few, all] = fast_forward(&fabric, &schedule, &tto(), fidelity).unwrap();
        assert!((few as f64) < share * all as f64, "{algorithm} on {}: {few} of {all} events", fabric.name);
    }
}

#[test]
fn skipped_periods_change_no_fast_flit() {
    let fabric = Fabric::parse("switch:4@450/20ns").unwrap();
    let generic = System::preset("generic").unwrap();
    let collective = Collective::new(Kind::AllReduce);
    let schedule = algorithm::build(&fabric, &generic, collective, 3 << 19, "direct:chunk=4KiB").unwrap();
    fast_forward(&fabric, &schedule, &generic, Fidelity::Flit).unwrap();
}
