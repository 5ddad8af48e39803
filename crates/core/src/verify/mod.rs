//! Proof that a schedule computes its collective, before it is timed, exported or run.
//!
//! One file per property. Together they imply that every execution a schedule allows ends with the
//! same, right bytes: `order` makes schedule order an order in which it can run, `contributions`
//! shows that this order gives the right result, and `races` that every other order gives the same.

mod conflicts;
mod contributions;
mod coverage;
mod definition;
mod execute;
mod order;
mod races;
mod routes;
mod text;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod mutations;

pub use definition::check_by_execution;
pub use execute::execute;

use crate::error::{Code, Error, Result};
use crate::fabric::Fabric;
use crate::schedule::Schedule;
use crate::watch::Watch;
use contributions::Followed;
use serde::Serialize;

/// What was proven.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Proof {
    /// Whether every rank that must ends complete; false only for schedules with known gaps or a
    /// known race.
    pub complete: bool,
    /// Whether the schedule claims to be conflict free, which was then proven too.
    pub conflict_free: bool,
    /// Lanes proven; every chunk of a lane goes the same way.
    pub lanes: u64,
    /// Transfers followed.
    pub transfers: u64,
    /// For a schedule with known gaps or a known race: what is wrong, in one line; empty otherwise.
    pub gaps: String,
}

/// Proves a schedule.
///
/// Complexity: O(lane transfers * (ranks / 64 + fan-in)) and, for lanes in which some data is
/// overwritten, O(transfers of the lane * dependencies / 64) more. Independent of the data size.
///
/// # Errors
/// As [`Schedule::check`]; then [`crate::error::Code::NotProven`] with the first counter-example:
/// rank, lane, step, and what is missing, counted twice or unordered.
pub fn verify(fabric: &Fabric, schedule: &Schedule) -> Result<Proof> {
    verify_watched(fabric, schedule, Watch::default())
}

/// [`verify`], reporting to `watch`.
///
/// # Errors
/// As [`verify`]; [`Code::Interrupted`].
pub fn verify_watched(fabric: &Fabric, schedule: &Schedule, watch: Watch) -> Result<Proof> {
    schedule.check(fabric)?;
    routes::check(fabric, schedule)?;
    order::check(schedule, watch)?;
    coverage::check(schedule)?;
    let by_lane = schedule.transfers_by_lane();
    let Followed { mut gaps, repeats } = contributions::check(schedule, &by_lane, watch)?;
    match races::check(schedule, &by_lane, &repeats, watch) {
        Err(error) if error.code == Code::Interrupted => return Err(error),
        Err(_) if schedule.known_race => gaps = "sends data before it has arrived (a known race)".into(),
        Ok(()) if schedule.known_race => {
            let what = "it is said to have a data race, but has none; clear known_race";
            return Err(Error::new(Code::NotProven, what));
        }
        outcome => outcome?,
    }
    if schedule.conflict_free {
        conflicts::check(fabric, schedule)?;
    }
    Ok(Proof {
        complete: gaps.is_empty(),
        conflict_free: schedule.conflict_free,
        lanes: schedule.lanes.len() as u64,
        transfers: schedule.transfers.len() as u64,
        gaps,
    })
}

/// Ranks that take part with data of their own, by rank.
fn participation(schedule: &Schedule) -> Vec<bool> {
    let mut takes_part = vec![true; schedule.ranks as usize];
    for &rank in &schedule.excluded {
        takes_part[rank as usize] = false;
    }
    takes_part
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn ranges_are_checked_first() {
        let (fabric, mut schedule) = ring_all_reduce(4, 64, 1);
        schedule.transfers[0].to = 9;
        let error = verify(&fabric, &schedule).unwrap_err();
        assert_eq!(error.code, crate::error::Code::BadFile);
    }

    #[test]
    fn large_rings_are_proven() {
        let (fabric, schedule) = ring_all_reduce(256, 1 << 20, 1);
        assert_eq!(verify(&fabric, &schedule).unwrap().lanes, 256);
    }
}
