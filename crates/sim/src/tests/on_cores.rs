//! Runs in parts: every time is that of one machine.

use super::*;
use crate::division::Division;
use crate::on_cores::together;

/// A run in one machine and in `count` parts on `cores` threads, if the fabric can be divided.
fn divided(
    fabric: &Fabric,
    schedule: &Schedule,
    system: &System,
    count: usize,
    shortcuts: Shortcuts,
) -> Option<[SimulationResult; 2]> {
    let flights = [Flight::unproven(schedule)];
    let mut plan = RunPlan::new(fabric, &flights, system).ok()?;
    plan.record(RunOptions { energy: true, playback: true, cores: 1 });
    let parts = Division::of(&plan, count)?;
    let joint = together(&plan, &parts, shortcuts, &mut |_| true).unwrap();
    let Ok(whole) =
        run(&plan, Order::Fifo, Fidelity::Packet, Shortcuts { skip_periods: false, ..shortcuts }, &mut |_| true)
    else {
        assert!(joint.is_none());
        return None;
    };
    Some([whole, joint.unwrap()].map(|result| SimulationResult { events: 0, ..without_buffers(result) }))
}

/// Parts do not know what receive buffers held.
fn without_buffers(mut result: SimulationResult) -> SimulationResult {
    result.ranks.iter_mut().for_each(|row| row.buffer_bytes = None);
    result
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn parts_change_nothing(
        spec in prop::sample::select(&["ring-bi", "combs", "dbtree", "direct", "forest", "multitree:chunks=4"][..]),
        fabric in prop::sample::select(&["mesh:3x4", "torus:4x4", "mesh:2x2x3", "mesh:4x4@50/7ns", "switch:8"][..]),
        system in prop::sample::select(&["generic", "aries"][..]),
        cut_through in any::<bool>(),
        packets in 1u64..200,
        count in 2usize..6,
        (cores, merge_runs) in (1usize..4, any::<bool>()),
    ) {
        let fabric = Fabric::parse(fabric).unwrap();
        let mut system = System::preset(system).unwrap();
        if cut_through {
            system.forwarding = Forwarding::CutThrough;
        }
        let Ok(schedule) =
            algorithm::build(&fabric, &system, Collective::new(Kind::AllReduce), packets * 24_000, spec)
        else { return Ok(()) };
        let shortcuts = Shortcuts { merge_runs, cores, ..Shortcuts::default() };
        let [whole, joint] = divided(&fabric, &schedule, &system, count, shortcuts).expect("it can be divided");
        prop_assert_eq!(whole, joint);
    }

    /// Whatever ranks wait for, and however they share nodes and interfaces.
    #[test]
    fn parts_of_random_schedules_change_nothing(
        (fabric, schedule) in random_schedule(1..5, 200),
        system in small_buffers(),
        link_latency_ps in 1u64..2_000_000,
        count in 2usize..4,
        cores in 1usize..4,
    ) {
        let system = System { link_latency_ps, ..system };
        let shortcuts = Shortcuts { cores, ..Shortcuts::default() };
        if let Some([whole, joint]) = divided(&fabric, &schedule, &system, count, shortcuts) {
            prop_assert_eq!(whole, joint);
        }
    }
}

/// Where ranks wait for what happens elsewhere at once, or links have no latency, parts could not go on by themselves.
#[test]
fn what_is_not_divided() {
    let fabric = Fabric::parse("mesh:4x4").unwrap();
    let count = |spec, change: &dyn Fn(&mut System, &mut Schedule)| {
        let mut system = System::default();
        let mut schedule = algorithm::build(&fabric, &system, Collective::new(Kind::AllReduce), 1 << 20, spec).unwrap();
        change(&mut system, &mut schedule);
        let flights = [Flight::unproven(&schedule)];
        Division::of(&RunPlan::new(&fabric, &flights, &system).unwrap(), 3).map(|parts| parts.count())
    };
    assert_eq!(count("dbtree", &|_, _| ()), Some(3));
    assert_eq!(count("dbtree", &|system, _| system.link_latency_ps = 0), None);
    assert_eq!(count("dbtree", &|_, schedule| schedule.endpoint.pacing = Pacing::StopAndWait), None);
    assert_eq!(count("dbtree", &|_, schedule| schedule.phases[1].barrier = true), None);
    let far = |schedule: &Schedule| {
        let other = |to: u32| (to < 4).then_some(()).is_some();
        let first = schedule.transfers.iter().position(|transfer| other(transfer.to)).unwrap();
        let last = schedule.transfers.iter().rposition(|transfer| transfer.from > 11).unwrap();
        (first, last)
    };
    let waits = |_: &mut System, schedule: &mut Schedule| {
        let (first, last) = far(schedule);
        schedule.transfers[last].start_after.push((first as u32).into());
    };
    assert_eq!(count("dbtree", &waits), None);
}

/// A long run without a period goes on in parts, which takes a few more events and no other time.
#[test]
fn long_runs_go_on_in_parts() {
    let (fabric, system) = (Fabric::parse("mesh:16x16").unwrap(), System::default());
    let kind = Collective::new(Kind::AllReduce);
    let schedule = algorithm::build(&fabric, &system, kind, 1 << 26, "dbtree").unwrap();
    let flights = [Flight::unproven(&schedule)];
    let plan = RunPlan::new(&fabric, &flights, &system).unwrap();
    let [one, two] = [1, 2].map(|cores| {
        let mut shares = vec![];
        let shortcuts = Shortcuts { cores, alone: 1 << 16, ..Shortcuts::default() };
        let result = run(&plan, Order::Fifo, Fidelity::Packet, shortcuts, &mut |share| {
            shares.push(share);
            true
        });
        assert!(shares.is_sorted() && shares.len() > 3, "{shares:?}");
        result.unwrap()
    });
    assert!(two.events > one.events && two.events < one.events + one.events / 4, "{} {}", one.events, two.events);
    assert!(SimulationResult { events: one.events, ..two } == without_buffers(one));
}
