//! Properties of stages on random topologies.

use super::advise::advise;
use super::orders::{ChunkOrder, RailsPlan, StageTable};
use super::scheduler::timing::Timing;
use super::scheduler::{OrderSearch, Scheduler, Themis};
use super::stage_loop::{MAX_SHARING, QueuePolicy, StageLoop, StageService, Step, run};
use antiphon_base::parameter::Choice;
use antiphon_base::units::Picos;
use antiphon_model::collective::Kind;
use antiphon_model::topology::Topology;
use proptest::prelude::*;

fn topologies() -> impl Strategy<Value = Topology> {
    let kind = prop::sample::select(vec!["ring3", "ring4", "fc5", "fc8", "sw2", "sw16"]);
    let dimension =
        (kind, 1u32..4000, 0u32..3000).prop_map(|(kind, rate, latency)| format!("{kind}@{rate}/{latency}ns"));
    prop::collection::vec(dimension, 1..5).prop_map(|list| Topology::parse(&list.join(",")).unwrap())
}

/// An older chunk comes at 30: the one in service goes on at 50 where it was, and moves on when 40 of its 100 are over.
#[test]
fn the_oldest_interrupts() {
    let service = |server, busy_ps, early_ps| {
        Step::Serve(StageService { server, stage: 0, size: 0, size_before: 0, busy_ps, latency_ps: 0, early_ps })
    };
    let ends = |mut engine: StageLoop| {
        engine.submit_steps(0, 1, [service(0, 100, 60), service(2, 5, 0)].into_iter());
        engine.submit_steps(0, 0, [service(1, 30, 0), service(0, 20, 0)].into_iter());
        let (mut chunks, mut spans, mut now) = ([0; 2], vec![], 0);
        while let Some(next) = engine.next() {
            now = next;
            engine.step(
                |server, span| spans.push((server, span.start_ps, span.finish_ps)),
                |chunk| chunks[chunk as usize] = now,
            );
        }
        spans.sort_unstable();
        (chunks, spans, now)
    };
    let engine = || StageLoop::new(3, QueuePolicy::Oldest, 1);
    assert_eq!(ends(engine()), ([45, 120], vec![(0, 0, 100), (0, 100, 120), (1, 0, 30), (2, 40, 45)], 120));
    let interrupted = ([65, 50], vec![(0, 0, 120), (0, 30, 50), (1, 0, 30), (2, 60, 65)], 120);
    assert_eq!(ends(engine().with_interrupts(0)), interrupted);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Nothing beats the sum of all rates, what is sent does not depend on the order, every stage runs
    /// once, and a search never loses to Themis.
    #[test]
    fn bounds_and_conservation(topology in topologies(), megabytes in 1u64..2000, chunks in 1u32..40, sharing in 1u32..=MAX_SHARING) {
        let bytes = megabytes * 1_000_000;
        let total = 2.0 * bytes as f64 * (1.0 - 1.0 / topology.npus() as f64);
        for kind in [Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::AllToAll] {
            let mut plan = RailsPlan::uniform(&topology, kind, bytes, chunks, false).unwrap();
            Themis::default().schedule(&topology, &mut plan);
            if kind == Kind::AllReduce {
                let sent: f64 = plan.bytes_sent(&topology).iter().sum();
                prop_assert!((sent / total - 1.0).abs() < 1e-6);
            }
            for (_, queue) in QueuePolicy::ALL {
                let timed = run(&topology, &plan, *queue, sharing);
                prop_assert!(timed.mean_utilization(&topology) <= 1.0 + 1e-6);
                if kind == Kind::AllReduce && sharing == 1 {
                    let bound = advise(&topology).utilization_bound;
                    prop_assert!(timed.mean_utilization(&topology) <= bound + 1e-4, "{bound}");
                }
                let stages: usize = plan.orders.iter().map(|order| plan.stages(&topology, order).count()).sum();
                prop_assert_eq!(timed.spans.iter().map(Vec::len).sum::<usize>(), stages);
                for (number, spans) in timed.spans.iter().enumerate() {
                    prop_assert!(timed.busy_ps[number] <= timed.time_ps);
                    prop_assert!(spans.iter().all(|span| span.ready_ps <= span.start_ps && span.start_ps <= span.finish_ps));
                }
            }
            // Stages from the table, and a limit on the time, change nothing.
            let table = StageTable::new(&topology, &plan);
            prop_assert!(plan.orders.iter().all(|order| table.of(order).eq(plan.stages(&topology, order))));
            let mut engine = StageLoop::new(topology.dimensions.len(), QueuePolicy::Tail, sharing);
            let time = engine.run(&topology, &plan, |_, _| ());
            prop_assert_eq!(engine.run_within(time, &table, &plan.orders), Some(time));
            prop_assert_eq!(engine.run_within(time - 1, &table, &plan.orders), None);
            // Nor does what a search times them with; and it serves as much until a limit is known to be passed.
            for (_, queue) in QueuePolicy::ALL {
                let mut engine = StageLoop::new(topology.dimensions.len(), *queue, sharing);
                let mut timing = Timing::new(&table, *queue, sharing);
                let mut turned = plan.orders.clone();
                turned[0] = ChunkOrder::mirrored(turned[0].first.reversed());
                for most in [Picos::MAX, time, time - 1, time / 2, time * 9 / 10] {
                    // The first once more: of few chunks its time is known.
                    for orders in [&plan.orders, &turned, &plan.orders] {
                        let expected = engine.run_within(most, &table, orders);
                        prop_assert_eq!(timing.run_within(most, orders), expected);
                        prop_assert_eq!(timing.served(), engine.served);
                    }
                }
            }
            let searched = scheduled_as(&topology, &plan);
            let (old, new) = (run(&topology, &plan, QueuePolicy::Tail, 1), run(&topology, &searched, QueuePolicy::Tail, 1));
            prop_assert!(new.time_ps <= old.time_ps);
        }
    }
}

fn scheduled_as(topology: &Topology, plan: &RailsPlan) -> RailsPlan {
    let mut searched = plan.clone();
    OrderSearch { stages: 20_000, ..OrderSearch::default() }.schedule(topology, &mut searched);
    searched
}
