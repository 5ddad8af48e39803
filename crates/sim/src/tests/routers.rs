//! Messages that meet at an interface or a router, with the hardware of ARIES: where packets and flits agree, and where they cannot.

use super::*;

/// Packets of long messages, and of those of which an interface takes two.
const COUNT: u64 = 256;
const FEW: u64 = 60;
/// Nanoseconds of a packet of 16 flits and a header, and of a link.
const PACKET: u64 = 17;

/// System `aries` with changes.
fn aries(changes: &[(&str, &str)]) -> System {
    let mut system = System::preset("aries").unwrap();
    changes.iter().for_each(|(key, value)| system.set(key, value).unwrap());
    system
}

/// Messages of `packets`, all sent in step 0.
fn messages(fabric: &str, issue: Issue, packets: u64, ends: &[(u32, u32)], system: &System) -> (Fabric, Schedule) {
    let fabric = Fabric::parse(fabric).unwrap();
    let bytes = packets * system.packet.payload_bytes;
    let mut builder = Builder::new("test", &fabric, Collective::new(Kind::Broadcast), bytes * ends.len() as u64);
    builder.schedule.endpoint.issue = issue;
    builder.schedule.endpoint.interfaces = Some(1);
    for (lane, &(from, to)) in (0..).zip(ends) {
        let offset = u64::from(lane) * bytes;
        builder.lane(Lane { offset, bytes, chunks: 1, chunk_bytes: bytes, stride: 1, source: from, owner: to });
        builder.send(Op::Copy, from, to, lane, 0).unwrap();
    }
    let schedule = builder.finish().unwrap();
    (fabric, schedule)
}

/// Nanoseconds until each of them is there.
fn done(
    fabric: &str,
    issue: Issue,
    packets: u64,
    ends: &[(u32, u32)],
    system: &System,
    fidelity: Fidelity,
) -> Vec<u64> {
    let (fabric, schedule) = messages(fabric, issue, packets, ends, system);
    let mut chunks = simulate(&fabric, &schedule, system, fidelity, &mut |_| true).unwrap().chunks;
    chunks.sort_by_key(|row| row.lane);
    chunks.iter().map(|row| row.complete_ps / 1000).collect()
}

/// Apart by at most a share of the second.
fn are_near(one: &[u64], other: &[u64], share: f64) -> bool {
    one.iter().zip(other).all(|(&a, &b)| a.abs_diff(b) as f64 <= share * b as f64)
}

/// Two stages of a router are within the hand-off of a message, and with a circuit to the local port they are not passed.
#[test]
fn stages_of_routers() {
    let one = |ends, changes: &[_], fidelity| done("mesh:3", Issue::Links, 1, &[ends], &aries(changes), fidelity)[0];
    let switched = [("router_ejection", "switched")];
    for fidelity in [Fidelity::AlphaBeta, Fidelity::Packet, Fidelity::Flit] {
        assert_eq!(one((0, 1), &switched, fidelity), PACKET + 10 + 10, "{fidelity:?}");
        assert_eq!(one((0, 1), &[], fidelity), PACKET + 10 + 8, "{fidelity:?}");
    }
    // A further hop takes the head its flit, the link and two stages, a packet that is stored its whole time.
    for (changes, hand_off) in [(&switched[..], 10), (&[], 8)] {
        assert_eq!(one((0, 2), changes, Fidelity::Flit), PACKET + 10 + (1 + 10 + 2) + hand_off);
        assert_eq!(one((0, 2), changes, Fidelity::Packet), 2 * (PACKET + 10) + hand_off);
    }
}

/// A packet that is cut through is as far as its flits: over two and three links, behind another one, and from a fast link to a slow
/// one and back; its tail never leaves before it came.
#[test]
fn packets_that_are_cut_through() {
    let cut = aries(&[("link_switching", "cut-through")]);
    let hop = 1 + 10 + 2;
    for fidelity in [Fidelity::Packet, Fidelity::Flit] {
        for packets in [1, 2, 3, FEW] {
            for far in 1..4 {
                let time = packets * PACKET + 10 + 8 + u64::from(far - 1) * hop;
                let ends = [(0, far)];
                let times = done("mesh:4", Issue::Links, packets, &ends, &cut, fidelity);
                assert_eq!(times, [time], "{fidelity:?} {packets} {far}");
            }
        }
    }
    let done = |fabric, packets, ends: &[_], fidelity| done(fabric, Issue::Links, packets, ends, &cut, fidelity);
    // The second link is busy with another packet, then it is free for the head at once.
    assert_eq!(done("mesh:3", 1, &[(0, 2), (1, 2)], Fidelity::Packet), [2 * PACKET + 10 + 8, PACKET + 10 + 8]);
    // Half as fast: the slow link takes it from the head on; from a slow link the tail decides.
    let [slow_last, slow_first] = ["mesh:3,slow=1-2:0.5", "mesh:3,slow=0-1:0.5"];
    assert_eq!(done(slow_last, 1, &[(0, 2)], Fidelity::Packet), [hop + 2 * PACKET + 10 + 8]);
    assert_eq!(done(slow_first, 1, &[(0, 2)], Fidelity::Packet), [2 * PACKET + 10 + 1 + 2 + 10 + 8]);
}

proptest! {
    /// Alone, a message that is cut through is no later than one that is stored, and takes no less than the bounds say.
    #[test]
    fn cut_through_is_no_later_alone(
        (to, packets, flits) in (1u32..5, 1u64..40, 1u64..40),
        (late, speeds) in (0u64..100, prop::collection::vec(prop::sample::select(&[1.0, 0.5, 0.3][..]), 4)),
    ) {
        let slow: Vec<String> = (0..4).map(|at| format!("slow={at}-{}:{}", at + 1, speeds[at])).collect();
        let fabric = format!("mesh:5@68/{late}ns,{}", slow.join(","));
        let payload = (flits * 68).to_string();
        let of = |switching, fidelity| {
            let system = aries(&[("packet_payload_bytes", &payload), ("link_switching", switching)]);
            done(&fabric, Issue::Links, packets, &[(0, to)], &system, fidelity)[0]
        };
        let cut = of("cut-through", Fidelity::Packet);
        prop_assert!(cut <= of("store-and-forward", Fidelity::Packet) && of("cut-through", Fidelity::AlphaBeta) <= cut);
    }
}

/// Two messages of a rank for two links. In one interface the flits of one wait for the other; packets go over both links at once,
/// which is more than an interface moves. An interface for each port holds up neither.
#[test]
fn messages_for_two_links() {
    let ends = [(1, 2), (1, 0)];
    let of = |assignment, fidelity| {
        done("mesh:3", Issue::StrictSteps, FEW, &ends, &aries(&[("interface_assignment", assignment)]), fidelity)
    };
    let whole = FEW * PACKET + 10 + 8;
    for fidelity in [Fidelity::Packet, Fidelity::Flit] {
        assert_eq!(of("port", fidelity), [whole; 2], "{fidelity:?}");
    }
    let [packets, flits] = [Fidelity::Packet, Fidelity::Flit].map(|fidelity| of("lowest-free", fidelity));
    assert!(flits[1] > 19 * whole / 10 && packets[1] < 15 * whole / 10, "{flits:?} {packets:?}");
}

/// A message that passes a router, and one that starts there, for one link. Arbiters of routers take turns; a queue in the order
/// of arrival has ever more of what passes, so that what starts there waits for all of it.
#[test]
fn messages_for_one_link() {
    let ends = [(0, 2), (1, 2)];
    let of = |arbitration, fidelity| {
        done("mesh:3", Issue::Links, COUNT, &ends, &aries(&[("link_arbitration", arbitration)]), fidelity)
    };
    let flits = of("round-robin", Fidelity::Flit);
    assert!(are_near(&of("round-robin", Fidelity::Packet), &flits, 0.02), "{flits:?}");
    let queued = of("arrival", Fidelity::Packet);
    assert!(10 * queued[0] < 6 * flits[0], "{queued:?} {flits:?}");
    // Those of links alone are equal.
    assert_eq!(of("arrival", Fidelity::Flit), flits);
}

/// As before, and a third message behind the first, for a link that nobody else wants. Packets that pass leave the link before;
/// flits stay there while the router's buffers are full, and what is behind waits: this packets cannot see.
#[test]
fn what_is_behind_waits_where_buffers_are_full() {
    let ends = [(0, 2), (0, 4), (1, 2)];
    let of = |ends, fidelity| done("mesh:2x3", Issue::Links, COUNT, ends, &aries(&[]), fidelity);
    let [packets, flits] = [Fidelity::Packet, Fidelity::Flit].map(|fidelity| of(&ends, fidelity));
    assert!(are_near(&flits[..1], &packets[..1], 0.02), "{flits:?} {packets:?}");
    assert!(10 * flits[1] > 14 * packets[1], "{flits:?} {packets:?}");
    assert!(are_near(&of(&ends[..2], Fidelity::Flit), &of(&ends[..2], Fidelity::Packet), 0.02));
}

/// One channel cannot be divided into classes, and packets all round a ring wait for each other; with two they do not.
#[test]
fn packets_that_wait_for_each_other_are_named() {
    let ends = [(0, 2), (1, 3), (2, 4), (3, 0), (4, 1)];
    let run = |channels| {
        let system = aries(&[("router_virtual_channels", channels)]);
        let (fabric, schedule) = messages("ring:5", Issue::Links, COUNT, &ends, &system);
        simulate(&fabric, &schedule, &system, Fidelity::Flit, &mut |_| true)
    };
    let error = run("1").unwrap_err();
    assert_eq!(error.code, Code::Stalled);
    assert!(error.message.contains("deadlock in the network at "), "{error}");
    assert!(error.message.contains("1 virtual channels are too few for these routes"), "{error}");
    assert!(run("2").is_ok());
}

/// With cut-through a buffer takes packets as a whole.
#[test]
fn packets_that_do_not_fit_into_a_buffer_are_refused() {
    let system = aries(&[("router_switching", "cut-through"), ("router_depth_flits", "16")]);
    let (fabric, schedule) = messages("mesh:3", Issue::Links, 1, &[(0, 1)], &system);
    let error = simulate(&fabric, &schedule, &system, Fidelity::Flit, &mut |_| true).unwrap_err();
    assert_eq!(error.message, "packets of 17 flits do not fit into buffers of 16, as cut-through needs");
}

/// How often the buffers at the end of a link come back, by what packets do behind it and how many virtual channels there are.
#[test]
fn round_trips_of_buffers() {
    let time = |ends: &[_], channels: &str| {
        let system = aries(&[("router_virtual_channels", channels)]);
        done("mesh:4", Issue::Links, COUNT, ends, &system, Fidelity::Flit)
    };
    let cases = [(&[(0, 1)][..], 26, 17), (&[(0, 2)], 27, 17), (&[(0, 3)], 27, 17), (&[(0, 2), (1, 2)], 52, 34)];
    for (ends, one, two) in cases {
        for (channels, each) in [("1", one), ("2", two)] {
            let last = *time(ends, channels).iter().max().unwrap();
            assert!(are_near(&[last], &[COUNT * each], 0.02), "{ends:?} {channels}: {last}");
        }
    }
}
