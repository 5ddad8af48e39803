//! Rivals of a schedule that rates do not decide: fewer trees, and what other algorithms do on the same fabric and on its parts.
//!
//! Where there is little data it counts how many steps there are, and behind switches, where packets queue, how many trees. Who waits for
//! whom is in no estimate. So all are simulated until one is near the bound.

use super::parts::FabricPart;
use super::stages::Stages;
use super::{FEW_RANKS, NEAR, TREES, has_queues, is_even, own};
use crate::algorithm::hierarchical::Hierarchical;
use crate::algorithm::soonest::{EVENTS_OF_FEW, EVENTS_OF_MANY, Soonest};
use crate::algorithm::{ALL, Algorithm, Request, tree};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::options::Options;
use antiphon_bound as bound;
use antiphon_model::collective::Kind;
use antiphon_model::fabric::Product;
use antiphon_model::schedule::Schedule;

/// Most ranks for all algorithms: messages of some grow with their square or cube; and for dimension after dimension.
const MOST_RANKS: u32 = 128;
const MOST_ON_GRIDS: u32 = 512;
/// Most transfers of a schedule that has rivals.
const MOST_TRANSFERS: usize = 1 << 20;
/// Numbers of trees that are fewer.
const FEWER: [&str; 5] = ["trees=2", "trees=1", "trees=4", "trees=8", "trees=16"];

/// A schedule, or the rival that is soonest through if one is sooner.
///
/// # Errors
/// [`Code::Interrupted`].
pub fn soonest(request: &Request, schedule: Schedule) -> Result<Schedule> {
    let Request { fabric, system, collective, bytes, align, .. } = *request;
    let ranks = request.ranks();
    let is_grid = is_even(request) && fabric.product().is_some_and(Product::is_direct);
    // Whoever says how trees are to be wants trees.
    let is_free = [tree::PIECE, TREES].iter().all(|option| request.options.given(option.parameter.key).is_none());
    if !is_free
        || request.matrix.is_some()
        || ranks > if is_grid { MOST_ON_GRIDS } else { MOST_RANKS }
        || schedule.transfers.len() > MOST_TRANSFERS
    {
        return Ok(schedule);
    }
    let events = if ranks > MOST_RANKS { EVENTS_OF_FEW } else { EVENTS_OF_MANY };
    let mut soonest = Soonest::new(request, schedule, events)?;
    let known = bound::by_cuts(fabric, system, collective, request.data())?;
    let rates = known.volume_ps.max(known.cut_ps).max(known.strength_ps.unwrap_or(0));
    let least = rates.max(known.latency_ps);
    let is_near = |soonest: &Soonest| soonest.time_ps() <= least.saturating_add(least / NEAR);
    let build = |fabric, algorithm: &dyn Algorithm, options: &str, build: &dyn Fn(&Request) -> Result<Schedule>| {
        let info = algorithm.info();
        let options = Options::parse(info.name, options, info.options)?;
        let Request { spec, watch, .. } = *request;
        build(&Request { fabric, system, collective, bytes, matrix: None, align, spec, options, watch })
    };
    let few_trees = ranks <= FEW_RANKS && collective.kind != Kind::AllToAll && has_queues(request);
    for options in FEWER.into_iter().filter(|_| few_trees) {
        // With little data it is not for rates that it takes long.
        if is_near(&soonest) || soonest.time_ps() / 2 > rates {
            break;
        }
        take(&mut soonest, build(fabric, &super::Optimal, options, &|request| Ok(own(request)?.0)))?;
    }
    let stages = Stages::new(request).filter(|_| is_even(request) && ranks <= MOST_RANKS);
    if let Some(stages) = stages.filter(|_| !is_near(&soonest)) {
        take(&mut soonest, stages.schedule(request))?;
    }
    for algorithm in ALL {
        let info = algorithm.info();
        let is_other = info.name != super::INFO.name && info.collectives.contains(&collective.kind);
        let is_small = ranks <= MOST_RANKS || info.name == Hierarchical.info().name;
        if is_other && is_small && !is_near(&soonest) {
            take(&mut soonest, build(fabric, algorithm, "", &|request| algorithm.build(request)))?;
        }
    }
    for part in FabricPart::all(request).iter().filter(|_| ranks <= FEW_RANKS) {
        for algorithm in ALL.iter().filter(|algorithm| algorithm.info().collectives.contains(&collective.kind)) {
            if is_near(&soonest) {
                break;
            }
            let plan = |request: &Request| match algorithm.plans() {
                true => Ok(own(request)?.0),
                false => algorithm.build(request),
            };
            take(&mut soonest, build(part.fabric(), *algorithm, "", &plan).map(|built| part.on_whole(built)))?;
        }
    }
    Ok(soonest.into_schedule())
}

/// Offers what was built, if it could be for all ranks.
fn take(soonest: &mut Soonest, built: Result<Schedule>) -> Result<()> {
    let is_refused = |error: &Error| matches!(error.code, Code::NotApplicable | Code::TooLarge);
    match built {
        Err(error) if is_refused(&error) => Ok(()),
        built => {
            let schedule = built?;
            if schedule.excluded.is_empty() && schedule.placement.is_empty() {
                soonest.offer(schedule)?;
            }
            Ok(())
        }
    }
}
