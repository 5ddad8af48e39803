//! Several collectives at once: who waits for whom, on one clock.

use crate::common::prelude::*;
use antiphon_model::fabric::Groups;
use antiphon_sim::simulate;

fn system(name: &str) -> System {
    System::preset(name).unwrap()
}

fn built(fabric: &Fabric, system: &System, kind: Kind, bytes: u64, spec: &str) -> Proven {
    prove(fabric, algorithm::build(fabric, system, Collective::new(kind), bytes, spec).unwrap()).unwrap()
}

fn flown(fabric: &Fabric, flights: &[Flight], order: Order, system: &System, fidelity: Fidelity) -> SimulationResult {
    simulate_flights(fabric, flights, order, system, fidelity, RunOptions::default(), &mut |_| true).unwrap()
}

fn alone(fabric: &Fabric, schedule: &Proven, system: &System, fidelity: Fidelity) -> u64 {
    simulate(fabric, schedule, system, fidelity, &mut |_| true).unwrap().time_ps
}

/// Most messages that follow each other: each waits for those it depends on, and for the one before it on its first link.
fn longest_chain(schedule: &Schedule) -> u64 {
    let mut order: Vec<(u32, u64, u32, u64)> = vec![];
    for (id, transfer) in (0..).zip(&schedule.transfers) {
        let lane = &schedule.lanes[transfer.payload.first() as usize];
        let slots = (0..lane.chunks).map(|chunk| transfer.step as u64 + chunk * lane.stride as u64);
        order.extend((0..).zip(slots).map(|(chunk, slot)| (transfer.phase, slot, id, chunk)));
    }
    order.sort_unstable();
    let mut depth: Vec<Vec<u64>> = vec![vec![]; schedule.transfers.len()];
    let mut on_link = std::collections::HashMap::new();
    // What a phase with a barrier waits for, and the deepest so far.
    let (mut phase, mut start, mut deepest) = (0, 0, 0);
    for (of, _, id, chunk) in order {
        if of != phase && schedule.phases[of as usize].barrier {
            start = deepest;
        }
        phase = of;
        let transfer = &schedule.transfers[id as usize];
        let before = transfer.start_after.iter().map(|other| depth[other.transfer() as usize][chunk as usize]);
        let link: &mut u64 = on_link.entry(transfer.route[0]).or_default();
        let own = before.max().unwrap_or(0).max(*link).max(start) + transfer.route.len() as u64;
        *link = own;
        depth[id as usize].push(own);
        deepest = deepest.max(own);
    }
    deepest
}

/// Longest time of a packet of a schedule on a link.
fn packet_ps(fabric: &Fabric, schedule: &Schedule, system: &System) -> u64 {
    let flits = schedule.transfers.iter().map(|t| system.packets(schedule.message_bytes(t)).flits).max().unwrap();
    flits * fabric.links.iter().map(|link| system.flit_time(link)).max().unwrap()
}

/// The first is as if alone but for a packet a hop, and both are through as soon as one after the other.
#[test]
fn the_first_goes_first_and_the_second_fills_gaps() {
    let fabric = Fabric::parse("mesh:8x8").unwrap();
    for name in ["tto", "generic"] {
        let system = system(name);
        for (spec, bytes) in
            [("ring-bi", 16), ("ring-bi", 256), ("tto", 16), ("tto", 256), ("combs", 16), ("combs", 256)]
        {
            let schedule = built(&fabric, &system, Kind::AllReduce, bytes << 20, spec);
            let one = alone(&fabric, &schedule, &system, Fidelity::Packet);
            let most = longest_chain(&schedule) * packet_ps(&fabric, &schedule, &system);
            let flights = [Flight::new(&schedule), Flight::new(&schedule)];
            let both = flown(&fabric, &flights, Order::Fifo, &system, Fidelity::Packet);
            let late = both.flights[0].finish_ps - one;
            println!(
                "{name} {spec} {bytes} MiB: alone {one} ps, first +{late} ({:.3} of most), both {:.4}",
                late as f64 / most as f64,
                both.time_ps as f64 / (2 * one) as f64
            );
            assert!(late <= most, "{name} {spec} {bytes} MiB: {late} > {most} ps");
            assert!(both.time_ps as f64 <= 2.0 * one as f64 * 1.01);
            if bytes == 16 {
                // The other order is the same the other way round.
                let lifo = flown(&fabric, &flights, Order::Lifo, &system, Fidelity::Packet);
                assert!(lifo.flights[1].finish_ps - one <= most && lifo.time_ps as f64 <= 2.0 * one as f64 * 1.01);
            }
        }
    }
}

/// One that is launched later and goes first is as if alone but for a packet a hop.
#[test]
fn the_urgent_one_does_not_wait() {
    let fabric = Fabric::parse("mesh:8x8").unwrap();
    let system = system("tto");
    for (spec, fidelity) in [("ring-bi", Fidelity::Packet), ("combs", Fidelity::Packet), ("tto", Fidelity::Packet)] {
        let long = built(&fabric, &system, Kind::AllReduce, 32 << 20, "ring-bi");
        let urgent = built(&fabric, &system, Kind::AllReduce, 1 << 20, spec);
        let one = alone(&fabric, &urgent, &system, fidelity);
        let most = longest_chain(&urgent) * packet_ps(&fabric, &urgent, &system);
        let flights = [
            Flight { priority: 7, ..Flight::new(&long) },
            Flight { priority: 1, start_ps: 123_456_789, ..Flight::new(&urgent) },
        ];
        let both = flown(&fabric, &flights, Order::Priority, &system, fidelity);
        assert_eq!(both.flights[1].start_ps, 123_456_789);
        let time = both.flights[1].finish_ps - both.flights[1].start_ps;
        assert!(time >= one && time - one <= most, "{spec}: {time} ps, alone {one}, a packet a hop {most}");
        // First come first, it takes longer.
        let fifo = flown(&fabric, &flights, Order::Fifo, &system, fidelity);
        assert!(fifo.flights[1].finish_ps > both.flights[1].finish_ps, "{spec}");
    }
}

/// To the picosecond.
#[test]
fn flights_on_different_links_are_as_if_alone() {
    let fabric = Fabric::parse("mesh:4x6").unwrap();
    for name in ["tto", "generic"] {
        let system = system(name);
        for spec in ["combs", "direct", "dbtree"] {
            let rows = Groups::parse(&fabric, "rows").unwrap().groups;
            let views: Vec<Fabric> = rows.iter().map(|row| fabric.group(row).unwrap().fabric).collect();
            // Of different sizes, one of them later.
            let bytes = |row: usize| 100_000 * (row as u64 + 1);
            let schedules: Vec<Proven> =
                (0..).zip(&views).map(|(row, view)| built(view, &system, Kind::AllReduce, bytes(row), spec)).collect();
            let mut flights: Vec<Flight> = schedules.iter().map(Flight::new).collect();
            flights[2].start_ps = 12_345_000;
            for (&(_, fidelity), order) in Fidelity::ALL.iter().flat_map(|of| [(of, Order::Fifo), (of, Order::Fair)]) {
                let all = flown(&fabric, &flights, order, &system, fidelity);
                assert_eq!(all.contended, []);
                for (row, span) in all.flights.iter().enumerate() {
                    let one = alone(&views[row], &schedules[row], &system, fidelity);
                    let place = format!("{name} {spec} {}, row {row}", fidelity.name());
                    assert_eq!(span.finish_ps - span.start_ps, one, "{place}");
                }
                assert_eq!(all.flights[2].start_ps, 12_345_000);
                assert_eq!(all.time_ps, all.flights.iter().map(|span| span.finish_ps).max().unwrap());
            }
        }
    }
}

/// On one link, in turns: an equal share each from the moment at which a flight starts, and all is over as soon as one after the other.
#[test]
fn fair_shares_of_one_link() {
    let (fabric, system) = (Fabric::parse("mesh:1x2").unwrap(), system("tto"));
    let packet = system.packet.payload_bytes;
    for fidelity in [Fidelity::AlphaBeta, Fidelity::Packet] {
        let of = |packets: u64| {
            let collective = Collective::new(Kind::Broadcast);
            let mut schedule = algorithm::build(&fabric, &system, collective, packets * packet, "direct").unwrap();
            if fidelity == Fidelity::AlphaBeta {
                // Which takes turns by messages.
                (schedule.lanes[0].chunks, schedule.lanes[0].chunk_bytes) = (packets, packet);
            }
            prove(&fabric, schedule).unwrap()
        };
        let turn = packet_ps(&fabric, &of(1), &system);
        let rest = alone(&fabric, &of(50), &system, fidelity) - 50 * turn;
        // Packets and turns before the start of each flight; turns after which each is over.
        for (packets, starts, ends) in [
            (&[50, 50][..], &[0, 0][..], &[99, 100][..]),
            (&[50, 20], &[0, 10], &[70, 50]),
            (&[50, 50, 50], &[0, 0, 0], &[148, 149, 150]),
            (&[10, 50, 30], &[0, 0, 0], &[28, 90, 70]),
        ] {
            let schedules: Vec<Proven> = packets.iter().map(|&packets| of(packets)).collect();
            let start = |(schedule, turns): (_, &u64)| {
                let start_ps = if *turns > 0 { turns * turn + turn / 2 } else { 0 };
                Flight { start_ps, ..Flight::new(schedule) }
            };
            let flights: Vec<Flight> = schedules.iter().zip(starts).map(start).collect();
            let [fair, fifo] =
                [Order::Fair, Order::Fifo].map(|order| flown(&fabric, &flights, order, &system, fidelity));
            let over: Vec<u64> = fair.flights.iter().map(|span| (span.finish_ps - rest) / turn).collect();
            assert_eq!((over.as_slice(), fair.time_ps), (ends, fifo.time_ps), "{fidelity:?}");
            let [row] = &fair.contended[..] else { panic!("one link is shared") };
            let bytes: Vec<u64> = packets.iter().map(|packets| packets * packet).collect();
            assert_eq!(row.flights.iter().map(|of| of.1).collect::<Vec<_>>(), bytes);
            assert_eq!(row.wait_ps, Some((packets.len() as u64 - 1) * turn));
        }
    }
}

/// What they need of some links together, from the moment at which they start.
#[test]
fn flights_are_bounded_together() {
    let fabric = Fabric::parse("switch:8").unwrap();
    let mut system = system("generic");
    (system.link_rate, system.link_latency_ps) = (Rate(1_000_000_000), 0);
    (system.hand_off_ps, system.packet.header_flits) = (0, 0);
    let of = |names: &str, kind, megabytes: u64| -> Vec<Proven> {
        let groups = Groups::parse(&fabric, &format!("{names} of tp=4,dp=2")).unwrap().groups;
        let part = |group: &Vec<u32>| fabric.group(group).unwrap().fabric;
        groups.iter().map(|group| built(&part(group), &system, kind, megabytes * 1_000_000, "direct")).collect()
    };
    let (tp, dp, all) = (of("tp", Kind::AllReduce, 4), of("dp", Kind::AllReduce, 2), of("tp+dp", Kind::AllToAll, 8));
    let bound = |flights: &[Flight]| {
        let bound = antiphon_bound::joint_bound(&fabric, &system, flights, None).unwrap();
        // Milliseconds: on each link a byte takes a nanosecond.
        (bound.time_ps / 1_000_000_000, bound.limit)
    };
    let at = |start_ms: u64, schedule| Flight { start_ps: start_ms * 1_000_000_000, ..Flight::new(schedule) };
    // 3/2 of 4 MB into each rank, in either group; and 2 MB more.
    let both: Vec<Flight> = tp.iter().chain(&dp).map(Flight::new).collect();
    assert_eq!(bound(&both[..2]), (6, "flight 0, and those that it waits for, by themselves".into()));
    assert_eq!(bound(&both).0, 8);
    // 7/8 of 8 MB for others.
    assert_eq!(bound(&[at(0, &all[0]), at(0, &all[0])]).0, 14);
    assert_eq!(bound(&[at(0, &all[0]), at(3, &all[0])]).0, 14);
    assert_eq!(bound(&[at(0, &all[0]), at(9, &all[0])]).0, 16);
    assert_eq!(bound(&[at(5, &all[0]), at(9, &all[0])]).0, 19);
    let after = |schedule| Flight { after: vec![0], ..Flight::new(schedule) };
    assert_eq!(bound(&[at(3, &tp[0]), after(&tp[1])]).0, 15);
    // One rail by itself could use the links of all; with all of them each has its own.
    let boxes = Fabric::parse("dgx-h100:4").unwrap();
    let system = System::preset("generic").unwrap();
    let rails = Groups::parse(&boxes, "dp of tp=8,dp=4").unwrap().groups;
    let part = |group: &Vec<u32>| boxes.group(group).unwrap().fabric;
    let rails: Vec<Proven> =
        rails.iter().map(|group| built(&part(group), &system, Kind::AllReduce, 1 << 30, "ring")).collect();
    let flights: Vec<Flight> = rails.iter().map(Flight::new).collect();
    let [one, eight] = [&flights[..1], &flights[..]]
        .map(|flights| antiphon_bound::joint_bound(&boxes, &system, flights, None).unwrap().time_ps as f64);
    assert!((eight / one - 8.0).abs() < 1e-9, "{one} {eight}");
    for order in [Order::Fifo, Order::Fair] {
        let run = flown(&boxes, &flights, order, &system, Fidelity::AlphaBeta);
        assert!(run.time_ps as f64 >= eight);
    }
}

/// AllReduce in every row, then in every column, beside sends from rank to rank, in one run.
#[test]
fn rows_then_columns_beside_a_pipeline() {
    let fabric = Fabric::parse("mesh:4x4").unwrap();
    let system = system("tto");
    let of = |text: &str| Groups::parse(&fabric, text).unwrap().groups;
    let (rows, columns) = (of("rows"), of("columns"));
    // A stage of the pipeline sends to the next: a broadcast in a group of two.
    let stages: Vec<Vec<u32>> = [0, 5, 10, 15].windows(2).map(|pair| pair.to_vec()).collect();
    let built_for = |groups: &[Vec<u32>], kind, spec| -> Vec<Proven> {
        let view = |group: &Vec<u32>| fabric.group(group).unwrap().fabric;
        groups.iter().map(|group| built(&view(group), &system, kind, 200_000, spec)).collect()
    };
    let schedules = [
        built_for(&rows, Kind::AllReduce, "combs"),
        built_for(&columns, Kind::AllReduce, "combs"),
        built_for(&stages, Kind::Broadcast, "direct"),
    ];
    let mut flights: Vec<Flight> = vec![];
    for (part, schedules) in schedules.iter().enumerate() {
        for schedule in schedules {
            let after = match part {
                1 => (0..rows.len()).collect(),
                2 if flights.len() > rows.len() + columns.len() => vec![flights.len() - 1],
                _ => vec![],
            };
            flights.push(Flight { after, ..Flight::new(schedule) });
        }
    }
    for &(_, fidelity) in Fidelity::ALL {
        for &(_, order) in Order::ALL {
            let all = flown(&fabric, &flights, order, &system, fidelity);
            let spans = &all.flights;
            let last_row = spans[..4].iter().map(|span| span.finish_ps).max().unwrap();
            assert!(spans[4..8].iter().all(|span| span.start_ps == last_row), "{}", fidelity.name());
            assert!(spans[8..].windows(2).all(|pair| pair[1].start_ps == pair[0].finish_ps));
            // All was carried.
            let sent: u64 = all.ranks.iter().map(|row| row.sent_bytes).sum();
            let each = |s: &Proven| {
                s.transfers.iter().map(|t| s.message_bytes(t) * s.lanes[t.payload.first() as usize].chunks).sum::<u64>()
            };
            assert_eq!(sent, schedules.iter().flatten().map(each).sum::<u64>());
            assert_eq!(all.ranks.iter().map(|row| row.received_bytes).sum::<u64>(), sent);
        }
    }
}

#[test]
fn flights_that_cannot_be_are_refused() {
    let fabric = Fabric::parse("mesh:3x3").unwrap();
    let system = system("tto");
    let schedule = built(&fabric, &system, Kind::AllReduce, 9000, "direct");
    let other = Fabric::parse("mesh:2x2").unwrap();
    let foreign = built(&other, &system, Kind::AllReduce, 9000, "direct");
    let refused = |flights: &[Flight]| {
        let error = simulate_flights(
            &fabric,
            flights,
            Order::Fifo,
            &system,
            Fidelity::Packet,
            RunOptions::default(),
            &mut |_| true,
        );
        let error = error.unwrap_err();
        (error.code, error.message)
    };
    let after = |after: Vec<usize>| Flight { after, ..Flight::new(&schedule) };
    let (code, what) = refused(&[after(vec![1]), after(vec![0])]);
    assert!(code == Code::BadSpec && what.contains("flight 0 waits for itself"), "{what}");
    let (code, what) = refused(&[after(vec![]), after(vec![7])]);
    assert!(code == Code::BadSpec && what.contains("flight 1: it is after flight 7 of 2"), "{what}");
    let (_, what) = refused(&[Flight::new(&schedule), Flight::new(&foreign)]);
    assert!(what.contains("flight 1: schedule direct was proven on other links than those of mesh:3x3"), "{what}");
}
