//! Several flights: shortcuts change nothing.

use super::*;
use antiphon_base::parameter::Choice;

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Neither merged runs nor skipped periods change when anything happens.
    #[test]
    fn shortcuts_change_nothing(
        specs in prop::collection::vec(prop::sample::select(&["tto:chunk=24KiB", "ring-bi", "combs", "dbtree", "direct"][..]), 2..4),
        fabric in prop::sample::select(&["mesh:3x4", "mesh:2x4"][..]),
        starts in prop::collection::vec(0u64..40_000_000, 3),
        priorities in prop::collection::vec(0u32..3, 3),
        packets in 1u64..90,
        (_, order) in prop::sample::select(Order::ALL),
        follows in any::<bool>(),
    ) {
        let fabric = Fabric::parse(fabric).unwrap();
        let build = |spec: &&str| {
            algorithm::build(&fabric, &tto(), Collective::new(Kind::AllReduce), packets * 24_000, spec).unwrap()
        };
        let (schedules, system): (Vec<Schedule>, System) = (specs.iter().map(build).collect(), tto());
        let flights = (0..).zip(&schedules).map(|(index, schedule)| Flight {
            start_ps: starts[index],
            priority: priorities[index],
            after: if follows && index == 2 { vec![0] } else { vec![] },
            ..Flight::unproven(schedule)
        });
        let flights: Vec<Flight> = flights.collect();
        for fidelity in [Fidelity::AlphaBeta, Fidelity::Packet, Fidelity::Flit] {
            if fidelity == Fidelity::Flit && packets > 12 {
                continue;
            }
            let mut plan = RunPlan::new(&fabric, &flights, &system).unwrap();
            plan.power = Some(PowerRates::new(&plan));
            let result = |merge_runs, skip_periods| {
                let shortcuts = Shortcuts { merge_runs, skip_periods, ..Shortcuts::default() };
                let result = run(&plan, order, fidelity, shortcuts, &mut |_| true).unwrap();
                SimulationResult { events: 0, ..result }
            };
            let plain = result(false, false);
            prop_assert_eq!(&result(true, false), &plain, "runs, {:?}", fidelity);
            prop_assert_eq!(&result(true, true), &plain, "periods, {:?}", fidelity);
            prop_assert!(plain.flights.iter().all(|span| span.finish_ps > span.start_ps));
        }
    }
}
