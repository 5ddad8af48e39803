//! After a failure: a schedule for what is left of a fabric, from one for the intact fabric.
//!
//! Most trees of a plan do not use what failed. So the search starts with these, and has few plans to find.

use crate::algorithm::{self, Before, Rebuilt};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::watch::Watch;
use antiphon_bound::{self as bound, Certified};
use antiphon_model::collective::Collective;
use antiphon_model::fabric::{Fabric, View};
use antiphon_model::schedule::Schedule;
use antiphon_model::system::System;
use antiphon_proof::verify_watched;
use std::time::{Duration, Instant};

/// A schedule after a failure.
#[derive(Debug)]
pub struct Replanned {
    /// What is left of the fabric.
    pub fabric: Fabric,
    /// The schedule for it, proven, and where it is from.
    pub rebuilt: Rebuilt,
    /// How near it is to the new optimum in rates.
    pub certified: Certified,
    /// How near the old one was on the intact fabric.
    pub certified_before: Option<Certified>,
    /// Time for the proof and for the check of the certificate.
    pub proving: Duration,
}

/// Finds a schedule of the same collective for what `failures` leave of a fabric (see [`Fabric::failed`]), from `schedule` for
/// the intact one, which is proven first.
///
/// # Errors
/// [`Code::NotApplicable`] for a schedule of another algorithm than `optimal`, of a group, or whose root is lost;
/// [`Code::NotProven`] for one that is wrong; [`Code::BadFile`] for one that is for another fabric; [`Code::BadSpec`] for
/// failures that cannot be; as [`algorithm::build`].
pub fn replan(
    intact: &Fabric,
    system: &System,
    schedule: &Schedule,
    failures: &[&str],
    watch: Watch,
) -> Result<Replanned> {
    let wrong = |error: Error| match error.code {
        // Such as a certificate that claims too much for other rates.
        Code::NotProven if schedule.fabric != intact.name => schedule.misfit(intact, &error.message),
        Code::NotProven => error.at(format_args!("the schedule to start from, for {}", schedule.fabric)),
        _ => error,
    };
    verify_watched(intact, schedule, watch).map_err(wrong)?;
    let certified_before = bound::certified(intact, system, schedule).map_err(wrong)?;
    let refuse =
        |why: &str| Err(Error::new(Code::NotApplicable, format!("replan cannot start from this schedule: {why}")));
    if !schedule.group.is_empty() {
        return refuse("it is for a group of ranks; build one for the group on what is left of the fabric");
    }
    if !schedule.excluded.is_empty() || !schedule.placement.is_empty() {
        return refuse("it leaves ranks out, or has them elsewhere than the fabric");
    }
    let View { fabric, ranks: kept, links } = intact.failed(failures)?;
    if schedule.matrix.is_some() && kept.len() < intact.ranks() {
        return refuse("its matrix is for all ranks, of which some have failed; build one by a matrix for those left");
    }
    let mut ranks = vec![None; intact.ranks()];
    (0..).zip(&kept).for_each(|(new, &old)| ranks[old as usize] = Some(new));
    let mut new_links = vec![None; intact.links.len()];
    (0..).zip(&links).for_each(|(new, &old)| new_links[old as usize] = Some(new));
    let Collective { kind, root } = schedule.collective;
    let root = if kind.rooted() { ranks[root as usize] } else { Some(0) };
    let Some(root) = root else { return refuse("its root has failed; build one with another root") };
    let before = Before { schedule, ranks, links: new_links };
    let rebuilt = algorithm::rebuild(&fabric, system, Collective { kind, root }, &before, watch)?;
    let started = Instant::now();
    verify_watched(&fabric, &rebuilt.schedule, watch)?;
    let certified = bound::certified(&fabric, system, &rebuilt.schedule)?.expect("it has a certificate");
    Ok(Replanned { fabric, rebuilt, certified, certified_before, proving: started.elapsed() })
}
