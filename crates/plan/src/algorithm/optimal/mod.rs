//! Optimal: the best mixture of trees or paths, by prices of links, on any fabric.
//!
//! [`antiphon_bound::synthesis`] finds the mixture; here its trees get links, pieces and slots as those of `combs` and `forest` do.

mod before;
mod credits;
mod equal;
mod parts;
mod paths;
mod rivals;
mod rooted;
mod stages;
mod trees;

use super::combs::{self, Combs};
use super::estimate::flit_times;
use super::soonest::{EVENTS_OF_FEW, Soonest};
use super::tree::Tried;
use super::{ALIGN, Algorithm, Before, Info, Rebuilt, Request, exchange, tree};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::options::{Default::Derived, Opt};
use antiphon_bound as bound;
use antiphon_bound::synthesis::{self, Graph, Mixture, Start, Wanted};
use antiphon_model::collective::Kind;
use antiphon_model::schedule::{Certificate, Schedule};
use before::LeftOver;
pub(super) use rooted::equal_trees;
use stages::Stages;
use std::time::Instant;

/// See the module.
pub struct Optimal;

const TREES: Opt = Opt::count(
    "trees",
    1,
    u32::MAX as u64,
    Derived("as many as the optimum takes"),
    "Most trees of every root; for AllReduce of all together.",
);

const INFO: Info = Info {
    name: "optimal",
    summary: "the best mixture of trees or paths on any fabric, switches included",
    options: &[tree::PIECE, TREES, ALIGN],
    source: "linear programming over arborescences and paths; optimality of schedules: ForestColl (2024)",
    collectives: &Kind::ALL,
};

/// Nothing is looked for that saves less than this part of the time.
const NEAR: u64 = 100;
/// How near to the optimum a mixture is, relative.
const ACCURACY: f64 = 1e-3;
/// So near the bound equal trees are taken without a look for plans, which may take a minute.
const NEAR_PLANS: u64 = 32;
/// Up to so many ranks packings of equal trees are tried beside plans.
const FEW_RANKS: u32 = 64;
/// Among more, broadcasts and reductions go along equal trees, where such are known, without a look for plans.
const MANY_RANKS: u32 = 1024;

/// Whether all links have their full speed, and all ranks the same for each other, so that what holds for a product holds.
fn is_even(request: &Request) -> bool {
    request.matrix.is_none() && request.fabric.links.iter().all(|link| link.speed_permille == 1000)
}

/// Whether packets of several trees meet in queues, or wait before links that are slower than those before them.
fn has_queues(request: &Request) -> bool {
    request.fabric.has_switches() || flit_times(request).windows(2).any(|pair| pair[0] != pair[1])
}

/// Most trees of every root, if that is limited.
fn most_trees(request: &Request) -> Option<usize> {
    request.options.given("trees").map(|value| value.whole() as usize)
}

/// The best mixture for a request.
///
/// # Errors
/// As [`synthesis::mixture`].
fn planned(request: &Request, graph: &Graph, mut start: Start) -> Result<Mixture> {
    let Request { fabric, system, collective, .. } = *request;
    let mut wanted = Wanted { accuracy: ACCURACY, level: 0.0, trees: most_trees(request), loss: synthesis::LOSS };
    if collective.kind != Kind::AllToAll {
        // A level of a tree costs the time of a way.
        let costs = request.costs();
        let way = costs.links(fabric).iter().map(|link| link.latency_ps).max().unwrap_or(0) + costs.hand_off_ps();
        wanted.level = way.max(1) as f64 / request.bytes as f64;
        start = start.with_cuts(fabric, system, collective, graph)?;
    }
    synthesis::mixture(graph, collective, request.matrix.as_ref(), &wanted, start, request.watch)
        .map_err(|error| error.at(format_args!("{} on {}", request.spec, fabric.name)))
}

/// A schedule without a certificate, and prices for one where they are at hand.
type Bare = (Schedule, Option<Certificate>);

/// The schedule of a mixture.
///
/// # Errors
/// As [`Algorithm::build`].
fn lowered(request: &Request, graph: &Graph, mixture: &Mixture, tried: Tried) -> Result<Bare> {
    Ok(match request.collective.kind {
        Kind::AllToAll => {
            let prices = Certificate::new(graph.of_links(&mixture.prices));
            (paths::lowered(request, graph, mixture, tried)?, Some(prices))
        }
        _ => (trees::lowered(request, graph, mixture, tried)?, None),
    })
}

/// Stages where they are the optimum by rates, and plans of many ranks would take long to find and be large.
///
/// # Errors
/// As [`bound::by_cuts`].
fn staged(request: &Request) -> Result<Option<Stages>> {
    let Request { fabric, system, collective, bytes, .. } = *request;
    let is_large = request.ranks() > FEW_RANKS && is_even(request) && most_trees(request).is_none();
    let Some(stages) = is_large.then(|| Stages::new(request)).flatten() else { return Ok(None) };
    let known = bound::by_cuts(fabric, system, collective, bytes)?;
    let most = u128::from(known.time_ps.saturating_add(known.time_ps / NEAR));
    Ok(Some(stages).filter(|stages| stages.least_ps <= most))
}

/// The best schedule of its own for a request.
///
/// # Errors
/// As [`Algorithm::build`].
fn own(request: &Request) -> Result<Bare> {
    expect(request)?;
    match request.collective.kind {
        Kind::AllToAll if is_even(request) => {
            if let Some(product) = exchange::straight(request.fabric) {
                return Ok((exchange::exchange(request, product)?, None));
            }
        }
        // These are the optimum, and plans would only take time to find.
        Kind::AllReduce
            if request.ranks() > FEW_RANKS
                && combs::trees(request)
                    .is_some_and(|all| !all.is_empty() && most_trees(request).is_none_or(|most| all.len() <= most)) =>
        {
            return Ok((Combs.build(request)?, None));
        }
        _ => (),
    }
    let is_free = most_trees(request).is_none();
    if is_free
        && request.ranks() > FEW_RANKS
        && let Some(equal) = equal_trees(request)?
    {
        return Ok((equal_or_planned(request, equal)?, None));
    }
    if let Some(stages) = staged(request)? {
        return Ok((stages.schedule(request)?, None));
    }
    match mixed(request) {
        Err(error) if error.code == Code::TooLarge && is_free && request.ranks() <= FEW_RANKS => {
            Ok((equal_trees(request)?.ok_or(error)?, None))
        }
        found => found,
    }
}

/// Equal trees, unless they are not near the bound and a plan is sooner through: with little data it has fewer steps.
///
/// # Errors
/// As [`Algorithm::build`].
fn equal_or_planned(request: &Request, equal: Schedule) -> Result<Schedule> {
    let Request { fabric, system, collective, bytes, .. } = *request;
    if request.ranks() > MANY_RANKS {
        return Ok(equal);
    }
    let mut soonest = Soonest::new(request, equal, EVENTS_OF_FEW)?;
    let known = bound::lower_bound(fabric, system, collective, bytes, None)?;
    // Without queues equal trees meet the bound by rates, so that a plan can only save latency.
    let may_save = has_queues(request) || known.binding == "latency";
    if may_save && soonest.time_ps() > known.time_ps.saturating_add(known.time_ps / NEAR_PLANS) {
        match mixed(request) {
            Ok((schedule, _)) => soonest.offer(schedule)?,
            Err(error) if error.code == Code::Interrupted => return Err(error),
            Err(_) => (),
        }
    }
    Ok(soonest.into_schedule())
}

/// The schedule of the best mixture.
///
/// # Errors
/// As [`Algorithm::build`].
fn mixed(request: &Request) -> Result<Bare> {
    let graph = Graph::new(request.fabric, request.system);
    lowered(request, &graph, &planned(request, &graph, Start::default())?, Tried::All)
}

/// The best schedule for a request: its own, or that of a rival if it is sooner through.
///
/// # Errors
/// As [`Algorithm::build`].
fn best(request: &Request) -> Result<Bare> {
    let (own, prices) = own(request)?;
    Ok((rivals::soonest(request, own)?, prices))
}

/// A schedule with the certificate of what was found, or that of the bound.
fn certified(request: &Request, (mut schedule, found): Bare) -> Result<Schedule> {
    schedule.certificate = Some(bound::certificate(request.fabric, request.system, &schedule, found)?);
    Ok(schedule)
}

/// Refuses more messages than a schedule may have, a tree of every rank or a path of every pair, and a number of trees for paths.
fn expect(request: &Request) -> Result<()> {
    if request.collective.kind == Kind::AllToAll && most_trees(request).is_some() {
        let what = format!("{}: trees limits trees, but an all-to-all goes along paths", request.spec);
        return Err(Error::new(Code::BadSpec, what));
    }
    let ranks = u64::from(request.ranks());
    match request.collective.kind {
        Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll => request.expect(ranks * (ranks - 1), 0),
        _ => Ok(()),
    }
}

impl Algorithm for Optimal {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn takes_matrix(&self) -> bool {
        true
    }

    fn plans(&self) -> bool {
        true
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        certified(request, best(request)?)
    }

    fn build_bare(&self, request: &Request) -> Result<Schedule> {
        Ok(best(request)?.0)
    }

    fn rebuild(&self, request: &Request, before: &Before) -> Result<Rebuilt> {
        expect(request)?;
        let started = Instant::now();
        let graph = Graph::new(request.fabric, request.system);
        // Few trees are a choice of their own.
        let LeftOver { plans, kept, lost } = match most_trees(request) {
            Some(_) => LeftOver::default(),
            None => before::left(request, &graph, before)?,
        };
        let mixture = planned(request, &graph, Start { plans, ..Start::default() })?;
        let [kept, mended] = if kept > 0 { [kept, lost] } else { [0; 2] };
        let planning = started.elapsed();
        let schedule = certified(request, lowered(request, &graph, &mixture, Tried::Some)?)?;
        Ok(Rebuilt { schedule, kept, mended, planning, lowering: started.elapsed() - planning })
    }
}
