//! Parts and threads change nothing.

use super::Experiment;
use crate::route::RoutingKind;
use antiphon_base::error::Code;
use antiphon_model::fabric::Fabric;
use antiphon_model::system::{Allocator, Ejection, RouterModel, Switching};
use proptest::prelude::*;

const FABRICS: [&str; 6] = ["mesh:4x4", "mesh:3x5", "torus:4x4", "ring:8", "fbfly:4x4", "switch:6"];
const ALLOCATORS: [Allocator; 3] = [Allocator::Islip, Allocator::RoundRobin, Allocator::Age];

fn routers() -> impl Strategy<Value = RouterModel> {
    let delays = (1u32..3, 1u32..3, 1u32..3, 0u32..3);
    (delays, (2u32..5, 1u32..9, 1u32..3), (1u32..3, 1u32..3, 1u32..3), 0usize..3, any::<[bool; 3]>()).prop_map(
        |((routing, vc, switch, traversal), (vcs, depth, iterations), speedups, allocator, [cut, circuit, queue])| {
            RouterModel {
                routing_cycles: routing,
                vc_allocation_cycles: vc,
                switch_allocation_cycles: switch,
                traversal_cycles: traversal,
                virtual_channels: vcs,
                depth_flits: if cut { depth.max(5) } else { depth },
                iterations,
                input_speedup: speedups.0.min(vcs),
                output_speedup: speedups.1,
                internal_speedup: speedups.2,
                output_queue_flits: queue.then_some(2),
                allocator: ALLOCATORS[allocator],
                switching: if cut { Switching::CutThrough } else { Switching::Wormhole },
                ejection: if circuit { Ejection::Circuit } else { Ejection::Switched },
                ..RouterModel::textbook()
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    /// All that is measured, and every event, is that of one part; what cannot move is told in the same words.
    #[test]
    fn parts_change_nothing(
        router in routers(),
        (fabric, hotspot, minimal) in (0..FABRICS.len(), any::<bool>(), any::<bool>()),
        (rate, packet_flits) in (0.02..0.9f64, 1u32..6),
        (link_cycles, latency_cycles, seed) in (1u32..3, 0u32..4, 0u64..9),
        (parts, threads) in (2u32..5, 1usize..4),
    ) {
        let fabric = Fabric::parse(FABRICS[fabric]).unwrap();
        let experiment = Experiment {
            traffic: if hotspot { "hotspot" } else { "uniform" }.into(),
            routing: minimal.then_some(RoutingKind::Minimal),
            router,
            packet_flits,
            link_cycles,
            latency_cycles,
            seed,
            warm_up_cycles: Some(200),
            cycles: Some(500),
            ..Experiment::new(rate)
        };
        let alone = experiment.run_in(1, &fabric, 1, &mut |_| true);
        prop_assert_eq!(experiment.run_in(parts, &fabric, threads, &mut |_| true), alone);
    }
}

/// A network that fills up and stops, in parts: it is put together to see why.
#[test]
fn a_deadlock_across_parts_is_named() {
    let mut experiment = Experiment { traffic: "tornado".into(), packet_flits: 16, ..Experiment::new(0.5) };
    experiment.routing = Some(RoutingKind::Minimal);
    experiment.router = RouterModel { virtual_channels: 1, depth_flits: 1, ..RouterModel::textbook() };
    let ring = Fabric::parse("ring:8").unwrap();
    let error = experiment.run_in(4, &ring, 2, &mut |_| true).unwrap_err();
    assert_eq!(error.code, Code::Stalled);
    assert_eq!(error, experiment.run_in(1, &ring, 1, &mut |_| true).unwrap_err());
}

#[test]
fn parts_hear_interrupts() {
    let (mesh, experiment) =
        (Fabric::parse("mesh:8x8").unwrap(), Experiment { cycles: Some(1 << 20), ..Experiment::new(0.3) });
    assert_eq!(experiment.parts(&mesh, 2), 2);
    assert_eq!(experiment.run(&mesh, 2, &mut |_| false).unwrap_err().code, Code::Interrupted);
}

/// Little traffic, small networks and one core stay in one part.
#[test]
fn parts_are_made_where_they_are_worth_it() {
    let parts = |spec: &str, rate, cores| Experiment::new(rate).parts(&Fabric::parse(spec).unwrap(), cores);
    assert_eq!([parts("mesh:8x8", 0.3, 1), parts("mesh:8x8", 0.01, 2), parts("mesh:4x4", 0.9, 2)], [1; 3]);
    assert_eq!([parts("mesh:8x8", 0.3, 16), parts("mesh:16x16", 0.1, 4), parts("mesh:32x32", 0.1, 64)], [2, 4, 8]);
}
