//! Runs of packets over several links change no result.

use super::*;

const SPECS: [&str; 7] = ["mesh:5", "mesh:3x3", "mesh:2x5", "ring:7", "torus:3x3", "switch:5", "bigraph:2x2"];

/// A fabric with some slow links and some with latency, a system with small interfaces and any arbitration, and random
/// sends of messages long and short over all of it.
fn shared_links() -> impl Strategy<Value = (Fabric, System, Schedule)> {
    let fabric =
        (prop::sample::select(&SPECS[..]), prop::collection::vec((0usize..40, 0usize..4, any::<bool>()), 0..5));
    // None, of less than a packet's time, of a packet's or some (so that much is simultaneous), of many.
    let late = prop::sample::select(&[0, 0, 1, 50_000, 340_000, 1_020_000, 9_000_000][..]);
    let fabric = (fabric, late).prop_map(|((spec, odd), late)| {
        let mut fabric = Fabric::parse(spec).unwrap();
        fabric.links.iter_mut().filter(|_| late > 0).for_each(|link| link.latency = Some(late));
        for (link, slow, late) in odd {
            let count = fabric.links.len();
            let link = &mut fabric.links[link % count];
            link.speed_permille = [1000, 500, 333, 900][slow];
            link.latency = late.then_some(357_000).or(link.latency);
        }
        fabric
    });
    let system =
        (0u64..60, 1u32..5, prop::sample::select(&[0, 1_000, 357_000][..]), prop::sample::select(&[0, 12_000][..]));
    let ways = (
        prop::sample::select(&[Arbitration::Arrival, Arbitration::RoundRobin][..]),
        prop::sample::select(&[Assignment::LowestFree, Assignment::Port][..]),
        prop::sample::select(&[Forwarding::StoreAndForward, Forwarding::CutThrough][..]),
    );
    let system = (system, ways).prop_map(
        |((depth_packets, virtual_channels, issue_ps, hand_off_ps), (arbitration, assignment, forwarding))| {
            let mut system = System { hand_off_ps, arbitration, forwarding, ..tto() };
            system.interface =
                NetworkInterface { depth_packets, virtual_channels, issue_ps, assignment, ..system.interface };
            system
        },
    );
    let send = (any::<u32>(), any::<u32>(), 0u32..5, 0u32..4, any::<bool>());
    let sends = prop::collection::vec(send, 1..40);
    let issue = prop::sample::select(&[Issue::Links, Issue::Steps, Issue::StrictSteps][..]);
    let schedule = (sends, issue, 1u64..6, 1u32..3, 1u32..4, any::<bool>());
    (fabric, system, schedule, waits()).prop_map(
        |(fabric, system, (sends, issue, chunks, stride, interfaces, wait), waits)| {
            let mut builder = Builder::new("random", &fabric, Collective::new(Kind::AllReduce), 300_000);
            builder.schedule.endpoint.issue = issue;
            builder.schedule.endpoint.pacing =
                if wait { Pacing::StopAndWait } else { builder.schedule.endpoint.pacing };
            builder.schedule.endpoint.interfaces = Some(interfaces);
            for (i, packets) in [1, 3, 60, 700].into_iter().enumerate() {
                let (offset, bytes) = (i as u64 * 100, 99);
                builder.lane(Lane { offset, bytes, chunks, chunk_bytes: packets * 8192, stride, source: 0, owner: 0 });
            }
            let ranks = fabric.ranks() as u32;
            for (from, to, step, lane, reduce) in sends {
                let op = if reduce { Op::Reduce } else { Op::Copy };
                if from % ranks != to % ranks {
                    builder.send(op, from % ranks, to % ranks, lane, step).unwrap();
                }
            }
            let mut schedule = builder.finish().unwrap();
            add_waits(&mut schedule, &waits);
            (fabric, system, schedule)
        },
    )
}

proptest! {
    #[test]
    fn runs_on_shared_links_change_nothing((fabric, system, schedule) in shared_links()) {
        let [merged, single] = both_ways(&fabric, &schedule, &system);
        prop_assert!(merged == single, "{} ps and {} ps", merged.time_ps, single.time_ps);
        fast_forward(&fabric, &schedule, &system, Fidelity::Packet);
    }
}

#[test]
fn runs_change_no_result_of_dbtree() {
    for (spec, sizes) in [
        ("mesh:4x4", &[1, 100_000, 7_000_000, 40_000_000][..]),
        ("mesh:5x5", &[1, 100_000, 7_000_000, 40_000_000]),
        ("mesh:3x7,slow=0-1:0.5", &[5_000_000]),
        ("torus:4x5", &[5_000_000]),
        ("mesh:8x8", &[500_000, 20_000_000]),
        ("mesh:9x9", &[500_000, 20_000_000]),
    ] {
        let fabric = Fabric::parse(spec).unwrap();
        for &bytes in sizes {
            let collective = Collective::new(Kind::AllReduce);
            let schedule = algorithm::build(&fabric, &tto(), collective, bytes, "dbtree").unwrap();
            let [merged, single] = both_ways(&fabric, &schedule, &tto());
            assert!(merged == single, "{spec}, {bytes} B: {} and {}", merged.time_ps, single.time_ps);
        }
    }
}

#[test]
fn long_messages_on_shared_links_are_few_events() {
    let fabric = Fabric::parse("mesh:9x9").unwrap();
    let schedule = algorithm::build(&fabric, &tto(), Collective::new(Kind::AllReduce), 1 << 28, "dbtree").unwrap();
    let (result, events) =
        result(&fabric, &[Flight::unproven(&schedule)], &tto(), Fidelity::Packet, Shortcuts::default()).unwrap();
    assert!(events < result.packet_hops / 5, "{events} events for {} packet-hops", result.packet_hops);
}
