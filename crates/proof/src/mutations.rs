//! Soundness: a mutated schedule is either refused or still runs right.

use super::fixtures::*;
use super::mutate::{Mutation, apply, mutation};
use super::verify;
use antiphon_model::fabric::{Fabric, Router};
use antiphon_model::schedule::Schedule;
#[cfg(test)] // as all of this file; this may import what the rest must not
use antiphon_run::check_by_execution;
use proptest::prelude::*;
use proptest::sample::Index;

/// Mends routes, so that mutations reach the checks behind them.
fn mend_routes(fabric: &Fabric, schedule: &mut Schedule) {
    let mut router = Router::new(fabric);
    for transfer in &mut schedule.transfers {
        if transfer.from < schedule.ranks && transfer.to < schedule.ranks {
            transfer.route = router.route(fabric.node_of_rank(transfer.from), fabric.node_of_rank(transfer.to)).into();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn what_is_proven_runs_right(
        which in any::<Index>(),
        mutations in prop::collection::vec(mutation(), 1..4),
        rebuild in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let mut cases = all();
        let (fabric, mut schedule) = cases.swap_remove(which.index(cases.len()));
        schedule.conflict_free = false;
        for mutation in &mutations {
            apply(&fabric, &mut schedule, mutation);
        }
        if rebuild {
            apply(&fabric, &mut schedule, &Mutation::Rebuild);
        }
        mend_routes(&fabric, &mut schedule);
        if let Ok(proof) = verify(&fabric, &schedule) {
            prop_assert!(proof.complete);
            for seed in std::iter::once(None).chain((0..6).map(|k| Some(seed.wrapping_add(k)))) {
                let ran = check_by_execution(&schedule, seed);
                prop_assert!(ran.is_ok(), "{:?}", ran);
            }
        } else if schedule.check(&fabric).is_ok() {
            // Refused for a reason, perhaps too strict a one; it must not panic either way.
            let _ = check_by_execution(&schedule, Some(seed));
        }
    }

    #[test]
    fn damaged_files_never_panic(which in any::<Index>(), digits in prop::collection::vec((any::<Index>(), 0u8..10), 1..6)) {
        let mut cases = all();
        let (fabric, mut schedule) = cases.swap_remove(which.index(cases.len()));
        schedule.conflict_free = true;
        let mut json = schedule.to_json().into_bytes();
        for (index, digit) in digits {
            let places: Vec<usize> = (0..json.len()).filter(|&i| json[i].is_ascii_digit()).collect();
            json[places[index.index(places.len())]] = b'0' + digit;
        }
        if let Ok(damaged) = Schedule::from_json(std::str::from_utf8(&json).unwrap(), Some(&fabric))
            && verify(&fabric, &damaged).is_ok_and(|proof| proof.complete) {
                prop_assert_eq!(check_by_execution(&damaged, Some(1)), Ok(()));
            }
    }
}
