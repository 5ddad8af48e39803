//! Several flights: shortcuts change nothing.

use super::*;
use antiphon_base::parameter::Choice;
use antiphon_model::system::Arbitration;

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
        arbitration in prop::sample::select(&[Arbitration::Arrival, Arbitration::RoundRobin][..]),
    ) {
        let fabric = Fabric::parse(fabric).unwrap();
        let build = |spec: &&str| {
            algorithm::build(&fabric, &tto(), Collective::new(Kind::AllReduce), packets * 24_000, spec).unwrap()
        };
        let schedules: Vec<Schedule> = specs.iter().map(build).collect();
        let system = System { arbitration, ..tto() };
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

/// A flight may be launched at the moment at which a packet ends, before that has happened: the packet ends once.
#[test]
fn launches_in_the_moment_of_an_end() {
    for (spec, algorithm) in [("ring:2", "ring"), ("switch:4", "direct"), ("mesh:2x3", "dbtree")] {
        launched_at_every_event(&Fabric::parse(spec).unwrap(), algorithm);
    }
}

fn launched_at_every_event(fabric: &Fabric, algorithm: &str) {
    let build = |bytes| algorithm::build(fabric, &tto(), Collective::new(Kind::AllReduce), bytes, algorithm).unwrap();
    let (first, other) = (build(50_000), build(30_000));
    let flights = [Flight::unproven(&first), Flight { held: true, ..Flight::unproven(&other) }];
    for (_, order) in Order::ALL {
        for events in 0.. {
            let at = run_beside(fabric, &flights, *order, &tto(), Fidelity::Packet, 0, |machine| {
                (0..events).try_for_each(|_| machine.step(None, &mut |_| true))?;
                let Some(at) = machine.next_ps() else { return Ok(None) };
                machine.launch(1, at)?;
                while machine.next_ps().is_some() {
                    machine.step(None, &mut |_| true)?;
                }
                machine.finish()?;
                Ok(Some(at))
            });
            if at.unwrap().is_none() {
                break;
            }
        }
    }
}
