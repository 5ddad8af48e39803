//! Exact timestamps of tiny cases, conservation on random ones, deadlock, patterns.

use super::route::{Routes, RoutingKind};
use super::synthetic::Experiment;
use super::traffic::{GeometricWaits, Pattern, Random};
use super::{FlitNetwork, FlitPacket, PacketRouting, PacketRun};
use antiphon_base::error::Code;
use antiphon_base::units::Picos;
use antiphon_model::fabric::{Dimension, DimensionShape, Fabric, NodeId};
use antiphon_model::system::{Allocator, Ejection, RouterModel, Switching};
use proptest::prelude::*;

const CLOCK: Picos = 1_000;

/// A packet to be sent: terminals, flits, and the cycle in which it is offered.
#[derive(Debug, Clone, Copy)]
struct Send {
    from: u32,
    to: u32,
    flits: u32,
    cycle: u64,
}

/// What became of a list of packets.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// Cycle, number, destination, flits and links crossed of every packet delivered.
    delivered: Vec<(u64, u32, u32, u32, u32)>,
    transmissions: Vec<(u32, Picos, Picos)>,
    flit_hops: u64,
    quiet: bool,
    deadlock: Option<String>,
}

fn nodes(fabric: &Fabric) -> Vec<NodeId> {
    (0..fabric.ranks() as u32).map(|rank| fabric.node_of_rank(rank)).collect()
}

/// Sends packets over links of `flit_ps` and `latency_ps`. With `awake`, every cycle is processed
/// and everything looked at in it, instead of only what can move.
fn send(
    fabric: &Fabric,
    model: &RouterModel,
    kind: RoutingKind,
    links: (Picos, Picos),
    list: &[Send],
    awake: bool,
) -> Outcome {
    let terminals = nodes(fabric);
    let routes = Routes::new(kind, fabric, &terminals, model.virtual_channels).unwrap();
    let all = |ps| vec![ps; fabric.links.len()];
    let mut network = FlitNetwork::new(fabric, model, &all(links.0), &all(links.1), &terminals, 9, routes).unwrap();
    let mut order: Vec<usize> = (0..list.len()).collect();
    order.sort_by_key(|&i| list[i].cycle);
    let (mut waiting, mut delivered) = (order.into_iter().peekable(), vec![]);
    let mut cycle = 0;
    loop {
        while let Some(i) = waiting.next_if(|&i| list[i].cycle <= cycle) {
            let packet = FlitPacket::new(list[i].to, list[i].flits, i as u32, 0, cycle);
            network.offer(list[i].from, PacketRun { packet, count: 1 }, cycle);
        }
        if awake {
            network.wake_all();
        }
        network.advance(cycle);
        let room = model.output_queue_flits.unwrap_or(u32::MAX) as u64;
        assert!(network.longest_wait_ps() <= room * links.0 + links.0, "an output queue holds more than its limit");
        delivered.extend(network.delivered.iter().map(|p| (cycle, p.tag, p.destination, p.flits, p.hops)));
        let next = waiting.peek().map(|&i| list[i].cycle);
        cycle = match (network.next_cycle(), next) {
            (None, None) => break,
            _ if awake => cycle + 1,
            (a, b) => a.into_iter().chain(b).min().unwrap(),
        };
        assert!(cycle < 1_000_000, "it never ends");
    }
    network.flush();
    delivered.sort_unstable();
    network.transmissions.sort_unstable();
    let quiet = network.is_quiet();
    assert_eq!(network.in_flight == 0, quiet);
    assert_eq!(network.oldest_created().is_none(), delivered.len() == list.len());
    let deadlock = (!quiet).then(|| network.deadlock(fabric).expect("a cycle of buffers"));
    Outcome { delivered, transmissions: network.transmissions.clone(), flit_hops: network.flit_hops, quiet, deadlock }
}

/// Cycles in which packets arrive on `fabric` with links of one cycle, in the order of `list`.
fn arrivals(fabric: &str, model: &RouterModel, list: &[Send]) -> Vec<u64> {
    let fabric = Fabric::parse(fabric).unwrap();
    let outcome = send(&fabric, model, RoutingKind::of(&fabric), (CLOCK, 0), list, false);
    assert!(outcome.quiet);
    let mut by_number: Vec<_> = outcome.delivered.iter().map(|&(cycle, tag, ..)| (tag, cycle)).collect();
    by_number.sort_unstable();
    by_number.into_iter().map(|(_, cycle)| cycle).collect()
}

fn one(from: u32, to: u32, flits: u32) -> Send {
    Send { from, to, flits, cycle: 0 }
}

fn textbook(virtual_channels: u32, depth_flits: u32) -> RouterModel {
    RouterModel { virtual_channels, depth_flits, ..RouterModel::textbook() }
}

// --- Timestamps -----------------------------------------------------------------------------

#[test]
fn a_flit_takes_two_cycles_and_five_a_router() {
    // It leaves its terminal in cycle 0 and is in the first router's buffer in cycle 2. There it is
    // routed in 2, gets a virtual channel in 3, the crossbar in 4, crosses it in 5, and the link in 6:
    // it arrives in 7, and so on. The last link is that to the terminal.
    for (to, routers) in [(0, 1), (1, 2), (3, 4), (7, 8)] {
        let first = 2 + 5 * routers;
        assert_eq!(arrivals("mesh:1x8", &textbook(4, 8), &[one(0, to, 1)]), [first]);
        // The other flits follow one a cycle.
        assert_eq!(arrivals("mesh:1x8", &textbook(4, 8), &[one(0, to, 5)]), [first + 4]);
    }
}

#[test]
fn every_stage_takes_its_cycles() {
    // A router takes routing + allocations + traversal + link; the ejection link always one cycle.
    let model = RouterModel {
        routing_cycles: 0,
        vc_allocation_cycles: 2,
        switch_allocation_cycles: 3,
        traversal_cycles: 4,
        ..textbook(1, 1)
    };
    let fabric = Fabric::parse("mesh:1x3").unwrap();
    // 1.5 cycles for the flit and 1 of latency: it can be used after 3.
    let outcome = send(&fabric, &model, RoutingKind::Xy, (1_500, 1_000), &[one(0, 2, 1)], false);
    assert_eq!(outcome.delivered, [(2 + 2 * (2 + 3 + 4 + 3) + (2 + 3 + 4 + 1), 0, 2, 1, 2)]);
    assert_eq!(outcome.transmissions, [(0, 11_000, 12_500), (2, 23_000, 24_500)]);
}

#[test]
fn credits_limit_a_packet_to_a_bufferful_a_round_trip() {
    // A flit granted in cycle t arrives at t + 3 (grant, crossbar, link), is granted there at once,
    // and its credit is back at t + 3 + 3 (grant, wire, processing). So a buffer of d flits passes d
    // flits in 6 cycles, and from 6 flits on one a cycle. The head arrives after 2 + 2 * 5.
    for depth in 1..=8 {
        let last = |n: u64| if depth < 6 { 12 + 6 * (n / depth) + n % depth } else { 12 + n };
        for flits in [1, 2, 7, 64] {
            let got = arrivals("mesh:1x2", &textbook(1, depth as u32), &[one(0, 1, flits)]);
            assert_eq!(got, [last(flits as u64 - 1)], "{flits} flits, depth {depth}");
        }
    }
    // Each cycle of credit processing lengthens the round trip.
    let slow = RouterModel { credit_cycles: 3, ..textbook(1, 1) };
    assert_eq!(arrivals("mesh:1x2", &slow, &[one(0, 1, 3)]), [12 + 2 * 8]);
}

#[test]
fn packets_of_one_virtual_channel_take_turns_at_routing() {
    // The next packet of a buffer is routed when the one before it has left: a single flit occupies
    // the stages routing, virtual channel and crossbar for 3 cycles.
    let list = [one(0, 1, 1); 4];
    assert_eq!(arrivals("mesh:1x2", &textbook(1, 8), &list), [12, 15, 18, 21]);
    // On four virtual channels they overlap. The third takes virtual channel 0 again, which is the
    // first to be free, and reaches the next router as the first packet leaves: a cycle later to be routed.
    assert_eq!(arrivals("mesh:1x2", &textbook(4, 8), &list), [12, 13, 15, 16]);
    // Depth 1: the flit's routing is part of the credit's round trip, 8 cycles.
    assert_eq!(arrivals("mesh:1x2", &textbook(1, 1), &list), [12, 20, 28, 36]);
    // Packets of 5 flits in one virtual channel: 5 cycles, and 2 more to be routed.
    assert_eq!(arrivals("mesh:1x2", &textbook(1, 8), &[one(0, 1, 5); 3]), [16, 23, 30]);
}

#[test]
fn two_inputs_share_an_output_in_turns() {
    // Rank 1 of a line sends its own flits and those of rank 0 on to rank 2. Its own are there first and
    // go in cycles 4 to 8; the head from rank 0 is granted in 9. From then on they alternate: its own
    // flits 5 to 7 go in 10, 12 and 14, the last of all 16 in 19, and each arrives 8 cycles later.
    let list = [one(0, 2, 8), one(1, 2, 8)];
    assert_eq!(arrivals("mesh:1x3", &textbook(2, 8), &list), [19 + 8, 14 + 8]);
    // The oldest first, here by number of the input: the same packet goes on, and the other after it.
    let age = RouterModel { allocator: Allocator::Age, ..textbook(2, 8) };
    let late = [one(0, 2, 8), Send { cycle: 1, ..one(1, 2, 8) }];
    let arrived = arrivals("mesh:1x3", &age, &late);
    // Its own start in 5; the older ones go in 9 to 16, then its own last four in 17 to 20.
    assert_eq!(arrived, [16 + 8, 20 + 8]);
}

#[test]
fn cut_through_waits_for_room_for_the_packet() {
    // Two packets of 4 flits, buffers of 4 flits. The wormhole follows at once; cut-through claims
    // the next buffer when all 4 flits have left it.
    let list = [one(0, 1, 4), one(0, 1, 4)];
    let wormhole = textbook(1, 4);
    let cut_through = RouterModel { switching: Switching::CutThrough, ..wormhole.clone() };
    let (a, b) = (arrivals("mesh:1x2", &wormhole, &list), arrivals("mesh:1x2", &cut_through, &list));
    assert_eq!(a[0], 2 + 5 * 2 + 3);
    assert_eq!(a[0], b[0]);
    // The last of the first 4 flits leaves the second router in cycle 12 (15 - 3), its credit is back in
    // 15: virtual channel in 15, crossbar in 16, 8 cycles to the terminal, 3 flits behind.
    assert_eq!(b[1], 16 + 8 + 3);
    assert!(a[1] < b[1]);
}

// --- Conservation ---------------------------------------------------------------------------

const FABRICS: [&str; 12] = [
    "mesh:3x3",
    "mesh:2x4",
    "mesh:1x5",
    "torus:3x3",
    "torus:4x2",
    "ring:5",
    "switch:5",
    "fc:4",
    "fbfly:3x3",
    "hypercube:3",
    "mesh:3x3,drop=0-1",
    "torus:3x3,drop=4-5",
];

fn model() -> impl Strategy<Value = RouterModel> {
    let sizes = (1u32..=4, 1u32..=9, any::<[bool; 2]>(), 0usize..3, 1u32..=3);
    let delays = (0u32..=3, 1u32..=3, 1u32..=3, 0u32..=3, 0u32..=3);
    let speeds = (1u32..=3, 1u32..=3, 1u32..=3, proptest::option::of(1u32..=4));
    (sizes, delays, speeds).prop_map(|((vcs, depth, [cut, circuit], allocator, iterations), delays, speeds)| {
        RouterModel {
            clock_ps: CLOCK,
            virtual_channels: vcs,
            depth_flits: depth,
            switching: if cut { Switching::CutThrough } else { Switching::Wormhole },
            allocator: [Allocator::Islip, Allocator::RoundRobin, Allocator::Age][allocator],
            iterations,
            routing_cycles: delays.0,
            vc_allocation_cycles: delays.1,
            switch_allocation_cycles: delays.2,
            traversal_cycles: delays.3,
            credit_cycles: delays.4,
            input_speedup: speeds.0,
            output_speedup: speeds.1,
            internal_speedup: speeds.2,
            output_queue_flits: speeds.3,
            ejection: if circuit { Ejection::Circuit } else { Ejection::Switched },
            hand_off_ps: 0,
        }
    })
}

/// Links of a packet's way.
fn way(fabric: &Fabric, routes: &Routes, send: Send) -> Vec<u32> {
    let mut packet = FlitPacket::new(send.to, send.flits, 0, 0, 0);
    let mut at = fabric.node_of_rank(send.from);
    let mut links = vec![];
    while let Some(link) = routes.next(&mut packet, at).link {
        links.push(link);
        at = fabric.link(link).to;
    }
    assert_eq!(at, fabric.node_of_rank(send.to));
    links
}

fn conserves(fabric: &Fabric, model: &RouterModel, minimal: bool, links: (Picos, Picos), list: &[Send]) {
    let kind = if minimal { RoutingKind::Minimal } else { RoutingKind::of(fabric) };
    let Ok(routes) = Routes::new(kind, fabric, &nodes(fabric), model.virtual_channels) else {
        return;
    };
    let outcome = send(fabric, model, kind, links, list, false);
    assert_eq!(outcome, send(fabric, model, kind, links, list, false));
    let awake = send(fabric, model, kind, links, list, true);
    assert_eq!(outcome, awake, "skipping what cannot move changes nothing");
    // A link sends one flit at a time.
    for pair in outcome.transmissions.windows(2) {
        assert!(pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1, "{pair:?}");
    }
    let busy: u64 = outcome.transmissions.iter().map(|(_, start, end)| end - start).sum();
    assert_eq!(busy, outcome.flit_hops * links.0);
    let mut seen: Vec<u32> = outcome.delivered.iter().map(|&(_, tag, ..)| tag).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), outcome.delivered.len());
    let mut expected = vec![0; fabric.links.len()];
    for &(_, tag, destination, flits, hops) in &outcome.delivered {
        let send = list[tag as usize];
        let way = way(fabric, &routes, send);
        assert_eq!((destination, flits, hops as usize), (send.to, send.flits, way.len()));
        way.iter().for_each(|&link| expected[link as usize] += flits as u64 * links.0);
    }
    if outcome.quiet {
        assert_eq!(seen.len(), list.len());
        let mut carried = vec![0; fabric.links.len()];
        outcome.transmissions.iter().for_each(|&(link, start, end)| carried[link as usize] += end - start);
        assert_eq!(carried, expected);
    } else {
        assert!(kind == RoutingKind::Minimal, "dimension order cannot deadlock");
        assert!(outcome.deadlock.unwrap().contains(" waits for "));
    }
}

/// Two networks with the same packets, of which one is delayed by `by` cycles after the cycle `at`, go on
/// alike; packets all wait from the start.
fn goes_on_alike(fabric: &Fabric, model: &RouterModel, links: (Picos, Picos), list: &[Send], at: u64, by: u64) {
    let terminals = nodes(fabric);
    let all = |ps| vec![ps; fabric.links.len()];
    let network = || {
        let routes = Routes::new(RoutingKind::of(fabric), fabric, &terminals, model.virtual_channels).ok()?;
        let mut network = FlitNetwork::new(fabric, model, &all(links.0), &all(links.1), &terminals, 9, routes).unwrap();
        for (send, tag) in list.iter().zip(0..) {
            let packet = FlitPacket::new(send.to, send.flits, tag, 0, send.cycle);
            network.offer(send.from, PacketRun { packet, count: 2 }, 0);
        }
        while let Some(cycle) = network.next_cycle().filter(|&cycle| cycle <= at) {
            network.advance(cycle);
        }
        network.transmissions.clear();
        Some(network)
    };
    let (Some(mut network), Some(mut late)) = (network(), network()) else { return };
    late.delay(by, |_| ());
    let mut now = at;
    loop {
        let mut states = [vec![], vec![]];
        let route = |packet: &FlitPacket| packet.route;
        network.write_state(now, &route, &mut states[0]);
        late.write_state(now + by, &route, &mut states[1]);
        assert_eq!(states[0], states[1]);
        let next = network.next_cycle();
        assert_eq!(late.next_cycle(), next.map(|cycle| cycle + by));
        now = match next {
            Some(cycle) => cycle,
            None => break,
        };
        network.advance(now);
        late.advance(now + by);
        let tags = |network: &FlitNetwork<Routes>| network.delivered.iter().map(|p| p.tag).collect::<Vec<u32>>();
        assert_eq!(tags(&network), tags(&late));
        assert_eq!(network.departed, late.departed);
        let shift = by * network.clock_ps();
        let shifted = network.transmissions.iter().map(|&(link, start, end)| (link, start + shift, end + shift));
        assert!(shifted.eq(late.transmissions.iter().copied()));
    }
}

/// Random packets on a random fabric; cut-through packets fit into a buffer.
fn problem() -> impl Strategy<Value = (usize, RouterModel, bool, (Picos, Picos), Vec<Send>)> {
    let send = (any::<u32>(), any::<u32>(), 1u32..=9, 0u64..60);
    let links = (prop::sample::select(vec![400, 1_000, 1_500, 3_000]), prop::sample::select(vec![0, 700, 4_000]));
    let sends = prop::collection::vec(send, 1..60);
    (0..FABRICS.len(), model(), any::<bool>(), links, sends).prop_map(|(fabric, model, minimal, links, sends)| {
        let ranks = Fabric::parse(FABRICS[fabric]).unwrap().ranks() as u32;
        let most = if model.switching == Switching::CutThrough { model.depth_flits } else { 9 };
        let send = |(from, to, flits, cycle): (u32, u32, u32, u64)| Send {
            from: from % ranks,
            to: to % ranks,
            flits: flits.min(most),
            cycle,
        };
        (fabric, model, minimal, links, sends.into_iter().map(send).collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn nothing_is_lost_or_doubled((fabric, model, minimal, links, list) in problem()) {
        conserves(&Fabric::parse(FABRICS[fabric]).unwrap(), &model, minimal, links, &list);
    }

    #[test]
    fn a_delay_moves_all_times(
        (fabric, model, _, links, list) in problem(),
        at in 1u64..80,
        by in prop::sample::select(vec![1, 100, 128, 12_345]),
    ) {
        goes_on_alike(&Fabric::parse(FABRICS[fabric]).unwrap(), &model, links, &list, at, by);
    }
}

// --- Deadlock -------------------------------------------------------------------------------

#[test]
fn a_ring_without_datelines_deadlocks_and_one_with_them_does_not() {
    let ring = Fabric::parse("ring:8").unwrap();
    // Everyone sends 16 flits three nodes on; each packet holds a link and wants the next.
    let list: Vec<Send> = (0..8).map(|rank| one(rank, (rank + 3) % 8, 16)).collect();
    let stuck = send(&ring, &textbook(1, 2), RoutingKind::Minimal, (CLOCK, 0), &list, false);
    assert!(stuck.delivered.is_empty());
    let cycle = stuck.deadlock.unwrap();
    // The head waits for the link that its next node's own packet holds, and that one is blocked ahead.
    let part = "link 0->1 vc 0 waits for terminal 1 vc 0 waits for link 1->2 vc 0 waits for terminal 2 vc 0";
    assert!(cycle.contains(part), "{cycle}");
    assert!(cycle.contains("(16 buffers)"), "{cycle}");
    let whole = send(&ring, &textbook(2, 2), RoutingKind::Xy, (CLOCK, 0), &list, false);
    assert!(whole.quiet);
}

#[test]
fn synthetic_traffic_names_the_deadlock() {
    let mut experiment = Experiment { traffic: "tornado".into(), packet_flits: 16, ..Experiment::new(0.5) };
    (experiment.routing, experiment.router) = (Some(RoutingKind::Minimal), textbook(1, 1));
    let ring = Fabric::parse("ring:8").unwrap();
    let error = experiment.run(&ring, 1, &mut |_| true).unwrap_err();
    assert_eq!(error.code, Code::Stalled);
    assert!(error.message.contains(" waits for "), "{}", error.message);
    (experiment.routing, experiment.router) = (Some(RoutingKind::Xy), textbook(2, 1));
    assert!(experiment.run(&ring, 1, &mut |_| true).is_ok());
}

// --- Synthetic traffic ----------------------------------------------------------------------

#[test]
fn the_seed_alone_decides() {
    let mesh = Fabric::parse("mesh:4x4").unwrap();
    let run = |seed| Experiment { seed, ..Experiment::new(0.3) }.run(&mesh, 1, &mut |_| true).unwrap();
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn little_traffic_takes_the_time_of_the_empty_network() {
    let mesh = Fabric::parse("mesh:4x4").unwrap();
    let measured = Experiment::new(0.001).run(&mesh, 1, &mut |_| true).unwrap();
    // 2 cycles and 5 a router; a uniform destination is 2 * 1.25 links away.
    assert!((measured.packet_latency_cycles.mean - (2.0 + 5.0 * measured.hops_mean)).abs() < 0.05);
    assert!((measured.hops_mean - 3.5).abs() < 0.05);
    assert!(measured.stable);
}

#[test]
fn overload_is_told_and_interrupts_are_heard() {
    let mesh = Fabric::parse("mesh:4x4").unwrap();
    let measured = Experiment::new(1.0).run(&mesh, 1, &mut |_| true).unwrap();
    assert!(!measured.stable && measured.packets > 0 && measured.accepted_flits_per_node_cycle < 0.9);
    assert_eq!(measured.packet_latency_cycles.half_width, None);
    assert_eq!(Experiment::new(1.0).run(&mesh, 1, &mut |_| false).unwrap_err().code, Code::Interrupted);
}

/// Accepted flits per node and cycle, and whether the network is stable.
fn short_run(spec: &str, rate: f64, warm_up: u64, cycles: u64) -> (f64, bool) {
    let (warm_up_cycles, cycles) = (Some(warm_up), Some(cycles));
    let experiment = Experiment { warm_up_cycles, cycles, ..Experiment::new(rate) };
    let measured = experiment.run(&Fabric::parse(spec).unwrap(), 1, &mut |_| true).unwrap();
    (measured.accepted_flits_per_node_cycle, measured.stable)
}

#[test]
fn short_windows_do_not_hide_overload() {
    // 8x8 is stable up to 0.43, and no router could carry 0.5 (16x16: 0.25).
    for (spec, rate, warm_up, cycles, stable) in [
        ("mesh:16x16", 0.27, 500, 500, false),
        ("mesh:8x8", 0.53, 0, 500, false),
        ("mesh:8x8", 0.46, 0, 500, false),
        ("mesh:8x8", 0.46, 500, 500, false),
        ("mesh:8x8", 0.40, 0, 500, true),
        ("mesh:8x8", 0.40, 500, 500, true),
        ("mesh:8x8", 0.1, 0, 500, true),
        ("mesh:8x8", 0.001, 0, 500, true),
        ("mesh:4x4", 0.3, 0, 1, true),
    ] {
        let (accepted, found) = short_run(spec, rate, warm_up, cycles);
        assert_eq!(found, stable, "{spec} at {rate}, {warm_up} + {cycles} cycles: accepts {accepted}");
    }
}

#[test]
fn far_beyond_saturation_a_run_ends_early() {
    let (warm_up_cycles, cycles) = (Some(1 << 30), Some(1 << 30));
    let experiment = Experiment { warm_up_cycles, cycles, packet_flits: 4, ..Experiment::new(0.9) };
    let measured = experiment.run(&Fabric::parse("mesh:4x4").unwrap(), 1, &mut |_| true).unwrap();
    assert!(!measured.stable && measured.cycles < 100_000, "{measured:?}");
    // One source that starves among many that do not: it shares its way with all of a row's.
    let hotspot = Experiment { traffic: "hotspot:rank=0,share=0.2".into(), cycles, ..Experiment::new(0.4) };
    let measured = hotspot.run(&Fabric::parse("mesh:4x4").unwrap(), 1, &mut |_| true).unwrap();
    assert!(!measured.stable && measured.cycles < 100_000, "{measured:?}");
}

#[test]
fn patterns_by_hand() {
    let mesh = Fabric::parse("mesh:4x4").unwrap();
    let to = |pattern: &str| -> Vec<u32> {
        let (pattern, mut random) = (Pattern::parse(pattern, &mesh).unwrap(), Random::new(1, 0));
        (0..16).map(|rank| pattern.destination(rank, 16, &mut random)).collect()
    };
    // Rank = 4 * row + column.
    assert_eq!(to("transpose"), [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15]);
    // Both coordinates move on by one, which on 4 is also just short of half way.
    assert_eq!(to("neighbor"), [5, 6, 7, 4, 9, 10, 11, 8, 13, 14, 15, 12, 1, 2, 3, 0]);
    assert_eq!(to("tornado"), to("neighbor"));
    assert_eq!(to("bit-complement"), [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
    assert_eq!(to("bitcomp"), to("bit-complement"));
    assert_eq!(to("bit-reverse"), [0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15]);
    assert_eq!(to("shuffle"), [0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15]);
    assert_eq!(to("hotspot:rank=3,share=1"), [3; 16]);
    let ring = Fabric::parse("ring:8").unwrap();
    let Pattern::Permutation(tornado) = Pattern::parse("tornado", &ring).unwrap() else { panic!() };
    assert_eq!(tornado, [3, 4, 5, 6, 7, 0, 1, 2]);
}

/// On a box of a product, in whatever order its ranks are, and on dimensions of different shapes: the shortest way, inside.
#[test]
fn dimension_order_of_any_product() {
    let group = |spec: &str, ranks: &[u32]| Fabric::parse(spec).unwrap().group(ranks).unwrap().fabric;
    let mixed: Vec<Dimension> = [(DimensionShape::Ring, 5), (DimensionShape::Clique, 3), (DimensionShape::Ring, 2)]
        .map(|(shape, size)| Dimension::new(shape, size))
        .into();
    for fabric in [
        group("mesh:5x5", &[18, 6, 7, 8, 11, 12, 13, 16, 17]),
        group("torus:5x6", &[0, 5, 4, 6, 11, 10]),
        group("torus:4x4x2", &(0..16).rev().collect::<Vec<_>>()),
        group("fbfly:4x4", &[0, 2, 3, 12, 14, 15]),
        antiphon_model::fabric::rails::rails("mixed", &mixed).unwrap(),
    ] {
        assert_eq!(RoutingKind::of(&fabric), RoutingKind::Xy);
        let (product, places) = (fabric.product().unwrap(), fabric.product().unwrap().positions(fabric.nodes.len()));
        for kind in [RoutingKind::Xy, RoutingKind::Yx] {
            let routes = Routes::new(kind, &fabric, &nodes(&fabric), 2).unwrap();
            for (from, to) in (0..fabric.ranks() as u32).flat_map(|a| (0..fabric.ranks() as u32).map(move |b| (a, b))) {
                let links = way(&fabric, &routes, Send { from, to, flits: 1, cycle: 0 });
                let place = |rank| places[fabric.node_of_rank(rank) as usize].unwrap();
                let distance = |(number, along): (usize, &Dimension)| {
                    let [a, b] = [from, to].map(|rank| product.coordinates.of(place(rank), number));
                    match along.shape {
                        DimensionShape::Line => a.abs_diff(b),
                        DimensionShape::Ring => a.abs_diff(b).min(along.size as u32 - a.abs_diff(b)),
                        _ => u32::from(a != b),
                    }
                };
                let shortest: u32 = product.dimensions.iter().enumerate().map(distance).sum();
                assert_eq!(links.len() as u32, shortest, "{} {from} {to}", fabric.name);
                assert!(links.iter().all(|&link| places[fabric.link(link).to as usize].is_some()), "{}", fabric.name);
            }
        }
    }
    let corner = group("mesh:4x4", &[5, 4, 1, 0]);
    let Pattern::Permutation(transpose) = Pattern::parse("transpose", &corner).unwrap() else { panic!() };
    // Rows 0, 1 and 4, 5: the corners of the diagonal stay.
    assert_eq!(transpose, [0, 2, 1, 3]);
    let switched = Fabric::parse("switch:4").unwrap();
    assert_eq!(RoutingKind::of(&switched), RoutingKind::Minimal);
    assert!(Routes::new(RoutingKind::Xy, &switched, &nodes(&switched), 2).is_err());
}

#[test]
fn random_patterns_have_their_shares() {
    let mesh = Fabric::parse("mesh:4x4").unwrap();
    for (name, of_rank_3) in [("uniform", 1.0 / 16.0), ("hotspot:rank=3,share=0.2", 0.2 + 0.8 / 16.0)] {
        let (pattern, mut random) = (Pattern::parse(name, &mesh).unwrap(), Random::new(7, 0));
        let hits = (0..100_000).filter(|_| pattern.destination(0, 16, &mut random) == 3).count();
        assert!((hits as f64 / 1e5 - of_rank_3).abs() < 0.003, "{name}: {hits}");
    }
}

#[test]
fn waits_are_geometric() {
    let mut random = Random::new(3, 0);
    for share in [1.0, 0.7, 0.3, 0.02, 1e-4] {
        let waits = GeometricWaits::new(share);
        let drawn: Vec<u64> = (0..40_000).map(|_| waits.draw(&mut random)).collect();
        // Mean (1 - p) / p with a standard deviation of sqrt(1 - p) / p; P(0) = p.
        let mean = drawn.iter().sum::<u64>() as f64 / 4e4;
        assert!((mean * share - (1.0 - share)).abs() < 4.0 / 200.0, "{share}: {mean}");
        let now = drawn.iter().filter(|&&wait| wait == 0).count() as f64 / 4e4;
        assert!((now - share).abs() < 0.01, "{share}: {now}");
    }
}
