//! Parallel links of a hop are one channel of the summed rate, unless a schedule names one of them.

use crate::common::prelude::*;
use antiphon_model::schedule::Builder;

/// Four ranks on a ring, each hop of so many links a direction, of so many GB/s each.
fn ring(parallel: usize, gb_per_s: u64) -> Fabric {
    let nodes = (0..4).map(|rank| Node::rank(rank, [])).collect();
    let link = |rank| Link { rate: Some(Rate::gb_per_s(gb_per_s)), ..Link::new(rank, (rank + 1) % 4, "x") };
    let links = (0..4).flat_map(|rank| vec![[link(rank), link(rank).reversed()]; parallel].concat());
    Fabric::new(format!("ring of {parallel}"), Shape::Graph, nodes, links.collect()).unwrap()
}

fn run(fabric: &Fabric, schedule: &Schedule, fidelity: Fidelity) -> SimulationResult {
    verify(fabric, schedule).unwrap();
    simulate(fabric, schedule, &System::preset("generic").unwrap(), fidelity).unwrap()
}

fn build(fabric: &Fabric, name: &str) -> Schedule {
    let system = System::preset("generic").unwrap();
    algorithm::build(fabric, &system, Collective::new(Kind::AllReduce), 1 << 20, name).unwrap()
}

#[test]
fn as_one_link_of_their_rate() {
    for name in ["ring", "ring-bi", "direct", "dbtree", "halving-doubling"] {
        // Routers feed at most 64 GB/s, one flit a clock.
        for (fidelity, rate) in [(Fidelity::AlphaBeta, 25), (Fidelity::Packet, 25), (Fidelity::Flit, 2)] {
            let (many, one) = (ring(18, rate), ring(1, 18 * rate));
            let [many, one] = [&many, &one].map(|fabric| run(fabric, &build(fabric, name), fidelity));
            let what = format!("{name} {fidelity:?}");
            assert_eq!(many.time_ps, one.time_ps, "{what}");
            assert_eq!((&many.ranks, &many.chunks), (&one.ranks, &one.chunks), "{what}");
            assert_eq!((many.packet_hops, many.flit_hops), (one.packet_hops, one.flit_hops), "{what}");
            let total = |result: &SimulationResult| result.links.iter().map(|row| row.bytes).sum::<u64>();
            assert_eq!(total(&many), total(&one), "{what}");
            for (a, b) in many.timeline.utilization.iter().zip(&one.timeline.utilization) {
                assert!((a - b).abs() < 1e-9, "{what}: {a} {b}");
            }
            for (hop, row) in one.links.iter().enumerate() {
                // Links of a hop are 36 apart, its direction every other.
                let shares: Vec<_> = (0..18).map(|i| many.links[hop / 2 * 36 + 2 * i + hop % 2]).collect();
                assert!(shares.iter().all(|share| share.busy_ps == row.busy_ps), "{what}");
                assert!(shares.iter().all(|share| share.bytes.abs_diff(row.bytes / 18) <= 1), "{what}");
            }
        }
    }
}

/// A broadcast in two halves from rank 0 to its neighbour, along given or found routes.
fn two_halves(fabric: &Fabric, routes: [Option<u32>; 2]) -> Schedule {
    let mut builder = Builder::new("halves", fabric, Collective::new(Kind::Broadcast), 1 << 20);
    for (half, route) in routes.into_iter().enumerate() {
        let lane = builder.block((half as u64 * (1 << 19), 1 << 19), 0);
        match route {
            Some(link) => builder.send_via(Op::Copy, 0, 1, lane, half as u32, vec![link]).unwrap(),
            None => builder.send(Op::Copy, 0, 1, lane, half as u32).unwrap(),
        };
        builder.send(Op::Copy, 1, 2, lane, 2 + half as u32).unwrap();
        builder.send(Op::Copy, 2, 3, lane, 4 + half as u32).unwrap();
    }
    builder.finish().unwrap()
}

#[test]
fn named_links_stay_apart() {
    // Links 0 and 2 go from rank 0 to rank 1, links 4 and 6 from rank 1 to rank 2.
    let fabric = ring(2, 25);
    let bytes = |schedule: &Schedule| {
        let result = run(&fabric, schedule, Fidelity::Packet);
        [0, 2, 4, 6].map(|link: usize| result.links[link].bytes)
    };
    let found = two_halves(&fabric, [None, None]);
    assert_eq!((&found.bundled_links[..], bytes(&found)), (&[0, 4, 8][..], [1 << 19; 4]));
    let given = two_halves(&fabric, [Some(0), Some(2)]);
    assert_eq!((&given.bundled_links[..], bytes(&given)), (&[4, 8][..], [1 << 19; 4]));
    let one = two_halves(&fabric, [Some(2), None]);
    assert_eq!((&one.bundled_links[..], bytes(&one)), (&[4, 8][..], [1 << 19; 4]));
    let first = two_halves(&fabric, [Some(0), None]);
    assert_eq!((&first.bundled_links[..], bytes(&first)), (&[4, 8][..], [1 << 20, 0, 1 << 19, 1 << 19]));
    let times = [found, given, first].map(|schedule| run(&fabric, &schedule, Fidelity::AlphaBeta).time_ps);
    assert!(times[0] < times[1] && times[1] < times[2], "{times:?}");
    // Trees choose links themselves.
    for name in ["multitree", "forest"] {
        assert!(build(&fabric, name).bundled_links.is_empty(), "{name}");
    }
}

#[test]
fn one_message_a_slot_on_a_channel() {
    let fabric = ring(2, 25);
    let mut schedule = two_halves(&fabric, [Some(0), Some(2)]);
    schedule.transfers.iter_mut().filter(|transfer| transfer.from == 0).for_each(|transfer| transfer.step = 0);
    schedule.conflict_free = true;
    assert!(verify(&fabric, &schedule).unwrap().conflict_free);
    schedule.bundled_links.push(2);
    let error = verify(&fabric, &schedule).unwrap_err();
    assert!(error.message.contains("link 0 (node 0 to 1) carries two messages"), "{error}");
}

#[test]
fn schedules_say_it() {
    let fabric = ring(2, 25);
    let schedule = build(&fabric, "ring:gather=back");
    assert_eq!(schedule.bundled_links.len(), 8);
    let json = schedule.to_json();
    assert_eq!(Schedule::from_json(&json, Some(&fabric)).unwrap(), schedule);
    // Files from before the key keep their meaning: a link is a link.
    let old = json.replace(r#""bundled_links":[0,1,4,5,8,9,12,13],"#, "");
    assert_ne!(old, json);
    let old = Schedule::from_json(&old, Some(&fabric)).unwrap();
    let [apart, together] = [&old, &schedule].map(|schedule| run(&fabric, schedule, Fidelity::Packet).time_ps);
    assert!(apart > together + together / 2, "{apart} {together}");
    let error = Schedule::from_json(&json.replace("[0,1,4,", "[0,1,99,"), Some(&fabric)).unwrap_err();
    assert_eq!(error.code, Code::BadFile);
    assert!(error.message.contains("bundled_links names link 99 of 16"), "{error}");
    assert!(!build(&ring(1, 25), "ring").to_json().contains("bundled_links"));
}

/// The smallest packet crosses all links of a hop at once.
#[test]
fn bounds_know_channels() {
    let (fabric, collective) = (ring(18, 7), Collective::new(Kind::AllGather));
    for system in ["generic", "tto"].map(|name| System::preset(name).unwrap()) {
        for (bytes, name) in [1, 1000, 100_000].into_iter().flat_map(|bytes| [(bytes, "ring"), (bytes, "direct")]) {
            let schedule = algorithm::build(&fabric, &system, collective, bytes, name).unwrap();
            let bound = lower_bound(&fabric, &system, collective, bytes, None).unwrap().time_ps;
            for fidelity in [Fidelity::AlphaBeta, Fidelity::Packet] {
                let time = simulate(&fabric, &schedule, &system, fidelity).unwrap().time_ps;
                assert!(time >= bound, "{name} {bytes} {fidelity:?}: {time} {bound}");
            }
        }
    }
}

/// With a clock, links whose flits take two and three cycles together bring five in six, not one a cycle.
#[test]
fn unequal_links_of_a_clocked_system_keep_to_the_bound() {
    let mut fabric = ring(2, 465);
    fabric.links.iter_mut().skip(2).step_by(4).for_each(|link| link.rate = Some(Rate::gb_per_s(243)));
    fabric.links.iter_mut().skip(3).step_by(4).for_each(|link| link.rate = Some(Rate::gb_per_s(243)));
    let (system, collective) = (System::preset("tto").unwrap(), Collective::new(Kind::AllReduce));
    let schedule = algorithm::build(&fabric, &system, collective, 1 << 26, "ring-bi").unwrap();
    let bound = lower_bound(&fabric, &system, collective, 1 << 26, None).unwrap().time_ps;
    for fidelity in [Fidelity::AlphaBeta, Fidelity::Packet] {
        let time = simulate(&fabric, &schedule, &system, fidelity).unwrap().time_ps;
        assert!(time >= bound, "{fidelity:?}: {time} {bound}");
    }
}

#[test]
fn rings_prefer_wide_hops() {
    // The cycle of double NVLinks of a DGX-1: twice as fast as one of single ones.
    let dgx1 = Fabric::parse("dgx1v@25").unwrap();
    let ring = Fabric::parse("ring:8@50").unwrap();
    let [dgx1, ring] = [&dgx1, &ring].map(|fabric| run(fabric, &build(fabric, "ring"), Fidelity::Packet).time_ps);
    assert_eq!(dgx1, ring);
}
