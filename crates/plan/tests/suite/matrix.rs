//! An all-to-all by a matrix: proven, executed, timed, bounded, written and read back.

use crate::common::prelude::*;
use crate::common::random_fabric::random_fabric;
use crate::common::within_bounds::{FIDELITIES, ends_within_bounds};
use antiphon_model::collective::Matrix;
use antiphon_model::energy::Attojoules;

const EXCHANGE: Collective = Collective { kind: Kind::AllToAll, root: 0 };
/// Algorithms that take a matrix.
const ABLE: [&str; 2] = ["optimal", "direct"];

fn matrix(rows: &[&[u64]]) -> Matrix {
    Matrix::new(&rows.iter().map(|row| row.to_vec()).collect::<Vec<_>>()).unwrap()
}

fn built(fabric: &Fabric, system: &System, matrix: &Matrix, spec: &str) -> Schedule {
    algorithm::build(fabric, system, EXCHANGE, matrix.clone(), spec)
        .unwrap_or_else(|error| panic!("{error}: {spec} on {}", fabric.name))
}

/// Builds, proves, executes and times it at all fidelities, by every algorithm that can.
fn done(fabric: &Fabric, system: &str, matrix: &Matrix) {
    let system = System::preset(system).unwrap();
    for spec in ABLE {
        let schedule = built(fabric, &system, matrix, spec);
        let name = || format!("{spec}, {}, on {}: {matrix:?} {:?}", system.name, fabric.name, fabric.links);
        assert!(verify(fabric, &schedule).unwrap_or_else(|error| panic!("{error}: {}", name())).complete);
        // Lanes have what the matrix says, and nothing else.
        let ranks = fabric.ranks();
        for (from, to) in (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to))) {
            let own = schedule.lanes.iter().filter(|lane| (lane.source as usize, lane.owner as usize) == (from, to));
            assert_eq!(own.map(|lane| lane.bytes).sum::<u64>(), matrix.bytes(from, to), "{from} to {to}: {}", name());
        }
        for seed in [None, Some(1)] {
            check_by_execution(&schedule, seed).unwrap_or_else(|error| panic!("{error}: {}", name()));
        }
        let bound = of_schedule(fabric, &system, &schedule, None).unwrap();
        assert_eq!(bound, lower_bound(fabric, &system, EXCHANGE, matrix.clone(), None).unwrap(), "{}", name());
        ends_within_bounds(fabric, &system, &schedule, &FIDELITIES, &name);
    }
}

#[test]
fn a_few_ranks_with_much_for_one() {
    let rows: [&[u64]; 4] = [&[9, 1000, 0, 3], &[0, 0, 0, 0], &[17, 4096, 0, 1], &[0, 50_001, 2, 0]];
    let skewed = matrix(&rows);
    for spec in ["ring:4", "mesh:2x2", "switch:4", "mesh:1x4,slow=1-2:0.5", "mesh:2x4[0,3,5,6]", "torus:2x2@25+100"] {
        let fabric = Fabric::parse(spec).unwrap();
        done(&fabric, "generic", &skewed);
        done(&fabric, "tto", &skewed);
    }
    // A single message.
    let one = matrix(&[&[0, 0, 0], &[0, 0, 5], &[0, 0, 0]]);
    done(&Fabric::parse("ring:3").unwrap(), "ideal", &one);
}

fn some_matrix(numbers: &[u64], ranks: usize) -> Option<Matrix> {
    // About half of all pairs have nothing.
    let entry = |at: usize| if numbers[at].is_multiple_of(2) { 0 } else { numbers[at] / 2 };
    let row = |from: usize| (0..ranks).map(|to| entry(from * ranks + to)).collect();
    Matrix::new(&(0..ranks).map(row).collect::<Vec<_>>()).ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn random_matrices_on_random_fabrics(
        fabric in random_fabric(),
        numbers in prop_oneof![
            proptest::collection::vec(0u64..4000, 81),
            proptest::collection::vec(prop_oneof![6 => 0u64..40, 1 => 0u64..200_000], 81),
        ],
        system in prop::sample::select(vec!["generic", "tto", "ideal"]),
    ) {
        if let Some(matrix) = some_matrix(&numbers, fabric.ranks()) {
            done(&fabric, system, &matrix);
        }
    }
}

/// With the same for all, times and bounds are those of a buffer in equal shards.
#[test]
fn even_matrices_are_buffers() {
    let system = System::preset("generic").unwrap();
    for spec in ["dgx1v", "switch:6", "mesh:3x3,drop=0-1", "fc:5"] {
        let fabric = Fabric::parse(spec).unwrap();
        let ranks = fabric.ranks();
        let even = Matrix::new(&vec![vec![1 << 16; ranks]; ranks]).unwrap();
        let plain = algorithm::build(&fabric, &system, EXCHANGE, (ranks as u64) << 16, "direct").unwrap();
        let direct = built(&fabric, &system, &even, "direct");
        // Prices are only looked for where shards are equal.
        let bounds = |schedule| {
            let bound = of_schedule(&fabric, &system, schedule, None).unwrap();
            (bound.volume_ps, bound.cut_ps, bound.latency_ps)
        };
        assert_eq!(bounds(&direct), bounds(&plain), "{spec}");
        let time = |schedule| simulate(&fabric, schedule, &system, Fidelity::Packet).unwrap().time_ps;
        assert_eq!(time(&direct), time(&plain), "{spec}");
    }
}

#[test]
fn what_cannot_do_it_says_so() {
    let (fabric, system) = (Fabric::parse("mesh:2x2").unwrap(), System::preset("generic").unwrap());
    let four = matrix(&[&[0, 1, 2, 3], &[4, 0, 5, 6], &[7, 8, 0, 9], &[1, 2, 3, 0]]);
    for algorithm in algorithm::ALL {
        let name = algorithm.info().name;
        let outcome = algorithm::build(&fabric, &system, EXCHANGE, four.clone(), name);
        if ABLE.contains(&name) {
            assert!(outcome.is_ok(), "{name}");
            continue;
        }
        let error = outcome.unwrap_err();
        let why = match algorithm.info().collectives.contains(&Kind::AllToAll) {
            true => format!("{name} cannot do an all-to-all with a matrix; use optimal or direct"),
            false => "not all-to-all".into(),
        };
        assert!(error.code == Code::NotApplicable && error.message.contains(&why), "{error}");
    }
    let refused = |collective, spec: &str| {
        let fabric = Fabric::parse(spec).unwrap();
        let error = algorithm::build(&fabric, &system, collective, four.clone(), "direct").unwrap_err();
        assert_eq!(lower_bound(&fabric, &system, collective, four.clone(), None).unwrap_err(), error);
        error.message
    };
    assert_eq!(refused(Collective::new(Kind::AllGather), "ring:4"), "a matrix is for all-to-all, not for all-gather");
    assert_eq!(refused(EXCHANGE, "ring:5"), "the matrix is for 4 ranks, not for 5");
}

#[test]
fn schedules_are_read_back_and_tampering_shows() {
    let (fabric, system) = (Fabric::parse("mesh:2x2").unwrap(), System::preset("generic").unwrap());
    let own = matrix(&[&[0, 100, 200, 300], &[400, 0, 0, 16], &[8, 8, 0, 8], &[0, 0, 4, 0]]);
    for spec in ABLE {
        let schedule = built(&fabric, &system, &own, spec);
        let text = schedule.to_json();
        assert_eq!(Schedule::from_json(&text, Some(&fabric)).as_ref(), Ok(&schedule));
        let written = "[[0,100,200,300],[400,0,0,16],[8,8,0,8],[0,0,4,0]]";
        for (from, to, why) in [
            ("[0,100,200,300]", "[0,100,200]", "row 0 of the matrix has 3 numbers, expected 4"),
            (written, "[[0,600],[1,0]]", "the matrix is for 2 ranks, not for 4"),
            ("[0,100,200,300]", "[0,100,200,301]", "bytes is 600, but the most that a rank sends is 601"),
            ("[8,8,0,8]", "[8,8,0,-8]", "expected u64"),
            ("\"bytes\":600", "\"bytes\":601", "bytes is 601, but the most that a rank sends is 600"),
            ("all-to-all", "all-gather", "a matrix is for all-to-all, not for all-gather"),
            ("\"excluded\":[]", "\"excluded\":[3]", "it excludes ranks"),
        ] {
            let tampered = text.replacen(from, to, 1);
            assert_ne!(tampered, text, "{from}");
            let error = Schedule::from_json(&tampered, None).unwrap_err();
            assert!(error.code == Code::BadFile && error.message.contains(why), "{error}");
        }
        // What fits in size but is not what the lanes have.
        for (from, to, why) in [
            ("[400,0,0,16]", "[400,0,16,0]", "is not within the shard of rank"),
            ("[8,8,0,8]", "[8,8,0,12]", "bytes 24..28 of rank 2's buffer are in no lane"),
            ("[8,8,0,8]", "[8,8,0,4]", "is not within the shard of rank 3 (bytes 16..20)"),
            ("[0,0,4,0]", "[0,0,8,0]", "bytes 4..8 of rank 3's buffer are in no lane"),
        ] {
            let tampered = Schedule::from_json(&text.replacen(from, to, 1), Some(&fabric)).unwrap();
            let error = verify(&fabric, &tampered).unwrap_err();
            assert!(error.code == Code::NotProven && error.message.contains(why), "{spec}: {error}");
        }
        // Without the matrix it is another task.
        let mut plain = schedule.clone();
        plain.matrix = None;
        assert_eq!(verify(&fabric, &plain).unwrap_err().code, Code::NotProven);
        // A transfer less.
        let mut less = schedule.clone();
        less.transfers.pop();
        assert!(verify(&fabric, &less).is_err() && check_by_execution(&less, None).is_err());
        assert_eq!(check_by_threads(&schedule, Threads::Pausing(3)), Ok(()));
    }
}

/// What moves takes at least the least energy.
#[test]
fn energy_keeps_its_bound() {
    let mut system = System::preset("generic").unwrap();
    system.set("energy_link_pj_per_bit", "2").unwrap();
    system.set("energy_interface_pj_per_bit", "0.5").unwrap();
    let own = matrix(&[&[0, 10_000, 0, 300], &[400, 0, 0, 160], &[8, 80_000, 0, 8], &[0, 0, 4, 0]]);
    for spec in ["mesh:2x2", "switch:4", "ring:4"] {
        let fabric = Fabric::parse(spec).unwrap();
        let schedule = built(&fabric, &system, &own, "optimal");
        let proven = prove(&fabric, schedule.clone()).unwrap();
        let flights = [Flight::new(&proven)];
        let run = |order| {
            simulate_flights(
                &fabric,
                &flights,
                order,
                &system,
                Fidelity::Packet,
                RunOptions { energy: true, ..RunOptions::default() },
                &mut |_| true,
            )
        };
        let result = run(Order::default()).unwrap();
        let bound = of_schedule(&fabric, &system, &schedule, None).unwrap().time_ps;
        let least: Attojoules = antiphon_bound::least_energy(&fabric, &system, &schedule, bound).unwrap();
        let taken = result.energy.unwrap();
        assert!(least <= taken.total(), "{spec}: {least} {taken:?}");
    }
}

/// Many ranks, over which the network passes messages on.
#[test]
fn more_ranks_than_a_timetable_has() {
    let (fabric, system) = (Fabric::parse("switch:130").unwrap(), System::preset("generic").unwrap());
    let row =
        |from: usize| (0..130).map(|to| if (from + to).is_multiple_of(5) { 4096 + to as u64 } else { 0 }).collect();
    let sparse = Matrix::new(&(0..130).map(row).collect::<Vec<_>>()).unwrap();
    let schedule = built(&fabric, &system, &sparse, "optimal");
    assert!(verify(&fabric, &schedule).unwrap().complete);
    assert_eq!(check_by_execution(&schedule, Some(1)), Ok(()));
}
