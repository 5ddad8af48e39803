//! Schedules whose shards, lanes and chunks begin at multiples of more than an element.

use crate::common::prelude::*;
use antiphon_model::collective::{Align, Data, Matrix};

/// Builds it with `align` and proves, executes and writes it; `None` if the algorithm refuses it.
fn aligned(fabric: &Fabric, kind: Kind, bytes: u64, name: &str, align: u64) -> Option<Schedule> {
    let system = System::preset("generic").unwrap();
    let collective = Collective { kind, root: if kind.rooted() { fabric.ranks() as u32 - 1 } else { 0 } };
    let what = format!("{name} {} {bytes} B on {}, align {align}", kind.name(), fabric.name);
    let schedule = match algorithm::build(fabric, &system, collective, bytes, &format!("{name}:align={align}")) {
        Ok(schedule) => schedule,
        Err(error) => {
            assert_eq!(error.code, Code::NotApplicable, "{what}: {error}");
            return None;
        }
    };
    assert_eq!(schedule.align.bytes(), align, "{what}");
    for (id, lane) in (0..).zip(&schedule.lanes).filter(|(_, lane)| lane.bytes > 0) {
        assert_eq!(lane.offset % align, 0, "{what}: lane {id}");
        let payload = schedule.payload_per_chunk(lane);
        assert!(payload.is_multiple_of(align) || payload >= lane.bytes, "{what}: lane {id}");
    }
    assert!(verify(fabric, &schedule).unwrap_or_else(|error| panic!("{what}: {error}")).complete, "{what}");
    check_by_execution(&schedule, Some(bytes)).unwrap_or_else(|error| panic!("{what}: {error}"));
    let json = schedule.to_json();
    assert!(json.contains(&format!("\"align\":{align},")), "{what}");
    assert_eq!(Schedule::from_json(&json, Some(fabric)).unwrap(), schedule, "{what}");
    Some(schedule)
}

/// Also of sizes that leave most shards empty or the last one odd.
#[test]
fn every_algorithm_begins_at_multiples() {
    for entry in algorithm::ALL {
        let (name, mut applied) = (entry.info().name, 0);
        for spec in ["mesh:4x4", "mesh:3x3", "switch:4,switches=in-tree", "dgx1v"] {
            let fabric = Fabric::parse(spec).unwrap();
            for kind in Kind::ALL {
                for (bytes, align) in [(100, 16), (10_007, 16), (65_548, 16), (20_000, 4096)] {
                    let Some(schedule) = aligned(&fabric, kind, bytes, name, align) else { continue };
                    applied += 1;
                    if schedule.messages() < 500 && bytes == 10_007 {
                        check_by_threads(&schedule, Threads::Of(2)).unwrap();
                    }
                }
            }
        }
        assert!(applied > 0, "{name}");
    }
}

/// Where shards are cut is what a collective means: the same lanes prove only with their own align.
#[test]
fn shards_are_proven_by_their_align() {
    let fabric = Fabric::parse("ring:3").unwrap();
    let gathered = aligned(&fabric, Kind::AllGather, 200, "direct", 16).unwrap();
    let shards: Vec<_> = gathered.lanes.iter().map(|lane| (lane.offset, lane.bytes)).collect();
    assert_eq!(shards, [(0, 64), (64, 64), (128, 72)]);
    let mut moved = gathered.clone();
    moved.align = Align::default();
    assert!(verify(&fabric, &moved).unwrap_err().message.contains("not within the shard of rank"), "{moved:?}");
    assert!(!gathered.sends_the_same(&moved));
    let mut odd = gathered;
    odd.lanes[1].offset += 4;
    let error = odd.check(&fabric).unwrap_err();
    assert_eq!(error.message, "schedule: lane 1 begins at byte 68, no multiple of its align 16");
}

/// A rank whose shard is empty must receive everything: the bound is that of the shards there are.
#[test]
fn bounds_know_the_shards() {
    let (fabric, system) = (Fabric::parse("fc:4").unwrap(), System::preset("ideal").unwrap());
    let schedule = aligned(&fabric, Kind::AllGather, 12_000, "direct", 4096).unwrap();
    let [even, own] = [Align::default(), schedule.align].map(|align| {
        let data = Data { align, ..12_000.into() };
        lower_bound(&fabric, &system, schedule.collective, data, None).unwrap().time_ps
    });
    assert!(own > even, "{own} {even}");
    assert_eq!(of_schedule(&fabric, &system, &schedule, None).unwrap().time_ps, own);
}

#[test]
fn what_cannot_be_aligned_is_refused_in_a_line() {
    let (fabric, system) = (Fabric::parse("ring:2").unwrap(), System::preset("generic").unwrap());
    let build = |data: Data, spec: &str| {
        let collective = Collective::new(Kind::AllToAll);
        algorithm::build(&fabric, &system, collective, data, spec).unwrap_err()
    };
    let of = |align: u64| build(1000.into(), &format!("direct:align={align}"));
    for align in [6, 8192] {
        let error = of(align);
        assert_eq!(error.code, Code::BadSpec);
        let what = format!("direct:align={align}: align is {align}, expected a power of two from 4 to 4096");
        assert_eq!(error.message, what);
    }
    assert!(of(2).message.contains("align"), "{}", of(2));
    let matrix = Matrix::new(&[vec![0, 7], vec![5, 0]]).unwrap();
    let error = build(matrix.into(), "direct:align=16");
    let what = "a matrix says where parts begin; align is for equal shards, leave it out";
    assert_eq!((error.code, error.message.as_str()), (Code::BadSpec, what));
}
