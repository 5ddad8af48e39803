//! Proof that a schedule computes its collective, before it is timed, exported or run.
//!
//! One file per property. Together they imply that every execution a schedule allows ends with the
//! same, right bytes: `order` makes schedule order an order in which it can run, `contributions`
//! shows that this order gives the right result, and `races` that every other order gives the same.

mod configuration;
mod conflicts;
mod contributions;
mod coverage;
mod order;
mod proven;
mod races;
mod routes;
mod switches;
pub mod text;

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod mutate;
#[cfg(test)]
mod mutations;

use antiphon_base::error::{Code, Error, Result};
use antiphon_base::watch::Watch;
use antiphon_model::fabric::Fabric;
use antiphon_model::schedule::Schedule;
pub use proven::{Proven, prove, prove_watched};
use races::Races;
use serde::Serialize;

/// What was proven.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Proof {
    /// Whether every rank that must ends complete; false only where that is [assumed](assume).
    pub complete: bool,
    /// Whether the schedule claims to be conflict free, which was then proven too.
    pub conflict_free: bool,
    /// Lanes proven; every chunk of a lane goes the same way.
    pub lanes: u64,
    /// Transfers followed.
    pub transfers: u64,
    /// Why an assumed schedule is not proven, in one line; empty otherwise.
    pub gaps: String,
}

impl Proof {
    /// The proof of a complete schedule.
    fn of(schedule: &Schedule) -> Proof {
        Proof {
            complete: true,
            conflict_free: false,
            lanes: schedule.lanes.len() as u64,
            transfers: schedule.transfers.len() as u64,
            gaps: String::new(),
        }
    }

    /// The proof of two schedules together; that their messages do not meet on a link is not proven.
    #[must_use]
    pub fn and(self, other: Proof) -> Proof {
        let gaps = [self.gaps, other.gaps].into_iter().filter(|gaps| !gaps.is_empty()).collect::<Vec<_>>().join("; ");
        Proof {
            complete: self.complete && other.complete,
            conflict_free: false,
            lanes: self.lanes + other.lanes,
            transfers: self.transfers + other.transfers,
            gaps,
        }
    }
}

/// Proves a schedule.
///
/// Complexity: O(lane transfers * (ranks / 64 + fan-in)) and, for lanes in which some data is
/// overwritten, O(transfers of the lane * dependencies / 64) more. Independent of the data size.
///
/// # Errors
/// As [`Schedule::check`]; then [`antiphon_base::error::Code::NotProven`] with the first counter-example:
/// rank, lane, step, and what is missing, counted twice or unordered.
pub fn verify(fabric: &Fabric, schedule: &Schedule) -> Result<Proof> {
    verify_watched(fabric, schedule, Watch::default())
}

/// Proves all of a schedule but its routes and configurations, which need a fabric. Programs that run it rest on this.
///
/// # Errors
/// As [`Schedule::check_alone`] and [`verify`].
pub fn verify_alone(schedule: &Schedule) -> Result<Proof> {
    schedule.check_alone()?;
    order::check(schedule, Watch::default())?;
    verify_data(schedule, Watch::default())
}

/// [`verify`], reporting to `watch`.
///
/// # Errors
/// As [`verify`]; [`Code::Interrupted`].
pub fn verify_watched(fabric: &Fabric, schedule: &Schedule, watch: Watch) -> Result<Proof> {
    verify_run(fabric, schedule, watch)?;
    verify_claims(fabric, schedule, watch)
}

/// Proves that a schedule can run to its end, for schedules that are timed though they may not compute their collective.
/// Returns their proof if there is one, else an incomplete proof that says why not.
///
/// # Errors
/// As [`Schedule::check`]; [`Code::NotProven`] for wrong routes and possible deadlocks; [`Code::Interrupted`].
pub fn assume(fabric: &Fabric, schedule: &Schedule, watch: Watch) -> Result<Proof> {
    verify_run(fabric, schedule, watch)?;
    match verify_claims(fabric, schedule, watch) {
        Err(Error { code: Code::NotProven, message: gaps }) => {
            Ok(Proof { complete: false, gaps, ..Proof::of(schedule) })
        }
        outcome => outcome,
    }
}

/// Checks that it can run to its end.
fn verify_run(fabric: &Fabric, schedule: &Schedule, watch: Watch) -> Result<()> {
    schedule.check(fabric)?;
    routes::check(fabric, schedule)?;
    configuration::check(fabric, schedule)?;
    switches::check(fabric, schedule)?;
    order::check(schedule, watch)
}

/// Checks that it has then done what it claims.
fn verify_claims(fabric: &Fabric, schedule: &Schedule, watch: Watch) -> Result<Proof> {
    let proof = verify_data(schedule, watch)?;
    if schedule.conflict_free {
        conflicts::check(fabric, schedule)?;
    }
    Ok(Proof { conflict_free: schedule.conflict_free, ..proof })
}

fn verify_data(schedule: &Schedule, watch: Watch) -> Result<Proof> {
    coverage::check(schedule)?;
    let by_lane = schedule.transfers_by_lane();
    // A lane is checked for races as soon as it has been followed, while its transfers are in the cache.
    let (mut races, mut race) = (Races::new(schedule), Ok(()));
    contributions::check(schedule, &by_lane, watch, &mut |lane, repeats| {
        if race.is_ok() {
            race = races.follow(lane, &by_lane[lane], repeats);
        }
    })?;
    race.and_then(|()| races.finish())?;
    Ok(Proof::of(schedule))
}

/// Checks that a schedule cannot deadlock.
///
/// # Errors
/// [`Code::NotProven`] with the dependency that could be waited for forever.
pub fn check_order(schedule: &Schedule) -> Result<()> {
    order::check(schedule, Watch::default())
}

/// Ranks that take part with data of their own, by rank.
pub fn participation(schedule: &Schedule) -> Vec<bool> {
    let mut takes_part: Vec<bool> = (0..schedule.participants()).map(|one| one < schedule.ranks).collect();
    for &rank in &schedule.excluded {
        takes_part[rank as usize] = false;
    }
    takes_part
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_model::schedule::{Lane, Op};
    use antiphon_run::{check_by_execution, execute};
    use fixtures::*;

    #[test]
    fn correct_schedules_are_proven_and_run() {
        for (fabric, schedule) in all() {
            let proof = verify(&fabric, &schedule).unwrap_or_else(|e| panic!("{}: {e}", schedule.algorithm));
            assert!(proof.complete && proof.gaps.is_empty());
            assert_eq!(proof.transfers, schedule.transfers.len() as u64);
            for seed in [None, Some(0), Some(1), Some(2)] {
                check_by_execution(&schedule, seed).unwrap_or_else(|e| panic!("{} {seed:?}: {e}", schedule.algorithm));
            }
        }
    }

    #[test]
    fn what_is_not_proven_is_assumed_only_where_it_can_run() {
        let (fabric, complete) = ring_all_reduce(4, 64, 1);
        let assumed = |schedule: &Schedule| assume(&fabric, schedule, Watch::default());
        assert_eq!(assumed(&complete), verify(&fabric, &complete));
        let mut wrong = complete.clone();
        wrong.transfers[0].op = Op::Copy;
        let proof = assumed(&wrong).unwrap();
        assert!(!proof.complete && !proof.conflict_free);
        assert_eq!(proof.gaps, verify(&fabric, &wrong).unwrap_err().message);
        // It must not deadlock, and go along links.
        let mut waiting = wrong.clone();
        waiting.transfers[0].start_after.push((wrong.transfers.len() as u32 - 1).into());
        assert_eq!(assumed(&waiting), verify(&fabric, &waiting));
        wrong.transfers[0].route = vec![2].into();
        assert_eq!(assumed(&wrong).unwrap_err().code, Code::NotProven);
    }

    #[test]
    fn ranges_are_checked_first() {
        let (fabric, mut schedule) = ring_all_reduce(4, 64, 1);
        schedule.transfers[0].to = 9;
        let error = verify(&fabric, &schedule).unwrap_err();
        assert_eq!(error.code, antiphon_base::error::Code::BadFile);
    }

    #[test]
    fn large_rings_are_proven() {
        let (fabric, schedule) = ring_all_reduce(256, 1 << 20, 1);
        assert_eq!(verify(&fabric, &schedule).unwrap().lanes, 256);
    }

    /// Transfers without bytes can do no harm.
    #[test]
    fn transfers_of_empty_lanes_are_of_no_concern() {
        let (fabric, mut ring) = ring_all_reduce(4, 64, 1);
        ring.conflict_free = false;
        let lane = ring.lanes[0].clone();
        ring.lanes.push(Lane { offset: 30, bytes: 0, chunk_bytes: 0, ..lane });
        // Counted twice, and written and read at once.
        let wrong = [(0, Op::Reduce), (0, Op::Reduce), (2, Op::Copy), (3, Op::Copy)];
        for (id, op) in wrong {
            let mut transfer = ring.transfers[id].clone();
            (transfer.payload, transfer.op) = (4.into(), op);
            transfer.start_after.clear();
            ring.transfers.push(transfer);
        }
        assert_eq!(verify(&fabric, &ring).unwrap().lanes, 5);
        for seed in [None, Some(0), Some(1)] {
            assert_eq!(check_by_execution(&ring, seed), Ok(()));
            // Nor does it matter that it begins within an element.
            let mut data = vec![vec![1u32; 16]; 4];
            execute(&ring, &mut data, seed).unwrap();
            assert_eq!(data, vec![vec![4; 16]; 4]);
        }
        ring.lanes[4].bytes = 4;
        assert!(verify(&fabric, &ring).is_err());
    }

    /// The data of an excluded rank are neither used nor compared.
    #[test]
    fn an_all_to_all_without_its_last_rank() {
        let fabric = ring_fabric(3);
        let (_, mut direct) = direct_all_to_all(2, 64);
        (direct.ranks, direct.excluded) = (3, vec![2]);
        let mut router = antiphon_model::fabric::Router::new(&fabric);
        direct.transfers.iter_mut().for_each(|t| t.route = router.route(t.from, t.to).into());
        assert!(verify(&fabric, &direct).unwrap().complete);
        assert_eq!(check_by_execution(&direct, Some(1)), Ok(()));
        // Its lane may be neither added nor taken for one of the others'.
        let mut more = direct.clone();
        more.lanes.push(Lane { source: 2, ..direct.lanes[0].clone() });
        assert_has(&verify(&fabric, &more).unwrap_err().message, &["its source rank 2 is excluded"]);
    }
}
