//! Hierarchical: a reduce-scatter along one dimension of a product after the other, and back; chunks go through the
//! dimensions in different orders, so that all are busy at once.
//!
//! On packages of chiplets, dimensions inside a package and from package to package are tried as well.
//!
//! The orders are those of the schedulers of `rails` (Themis, ISCA 2022), for the rates of this fabric's links.

use super::soonest::soonest;
use super::{ALIGN, Algorithm, Info, Request};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::options::{Default::Derived, Opt};
use antiphon_base::parameter::{Choice, Domain, Parameter, Value};
use antiphon_base::units::Picos;
use antiphon_model::collective::Kind;
use antiphon_model::fabric::DimensionShape;
use antiphon_model::schedule::Schedule;
use antiphon_sim::rails::scheduler::{OrderSearch, STAGES, Themis};
use antiphon_sim::rails::{Expansion, Policy, RailsPlan, RailsTimes, estimate, lower_watched, run};

/// See the module.
pub struct Hierarchical;

const INFO: Info = Info {
    name: "hierarchical",
    summary: "one dimension of a product after the other; chunks in different orders keep all of them busy",
    options: &[
        Opt::count(
            "chunks",
            1,
            256,
            Derived("up to 32, by what the steps of all chunks are estimated to take"),
            "Parts of the buffer, which go through the dimensions in different orders.",
        ),
        Opt::count(
            "slices",
            1,
            64,
            Derived("up to 4, in the same way"),
            "Parts of a chunk that follow each other through the steps of a dimension.",
        ),
        Opt {
            parameter: Parameter {
                key: "scheduler",
                domain: Domain::Choice(&["search", "themis", "baseline", "phased"]),
                meaning: "Who orders the dimensions for each chunk.",
            },
            default: Derived("phased on ace:LxVxH, as in its paper, else search; baseline where that is no slower"),
        },
        ALIGN,
    ],
    source: "Themis (ISCA 2022), on any product of lines, rings, cliques and switches",
    collectives: &[Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::AllToAll],
};

/// Lanes in messages of a schedule that is still built in seconds, if options do not ask for more.
const MAX_LANES: u64 = 1 << 24;
/// Numbers of chunks and of slices that are tried.
const CHUNKS: [u32; 6] = [1, 2, 4, 8, 16, 32];
const SLICES: [u32; 3] = [1, 2, 4];
/// More messages, or other orders than the baseline's, are worth it if they save more than this share of the time.
const WORTH: f64 = 0.01;

/// A plan, and what it is estimated to take in messages.
struct Candidate {
    plan: RailsPlan,
    timed: RailsTimes,
    slices: u32,
    time_ps: Picos,
}

impl Algorithm for Hierarchical {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        let expansion = match Expansion::of(request.fabric, request.system) {
            Err(error) if error.code == Code::NotApplicable => return request.refuse(error.message),
            expansion => expansion?,
        };
        let in_packages = match Expansion::in_packages(request.fabric, request.system) {
            Err(error) if error.code == Code::NotApplicable => None,
            expansion => expansion?,
        };
        let has_lines = |expansion: &Expansion| {
            expansion.topology.dimensions.iter().any(|dimension| dimension.shape == DimensionShape::Line)
        };
        let mut expansions: Vec<Expansion> = in_packages.into_iter().chain([expansion]).collect();
        expansions.retain(|expansion| request.collective.kind != Kind::AllToAll || !has_lines(expansion));
        if expansions.is_empty() {
            return request.refuse("all-to-all goes around rings, through switches and in cliques, not along lines");
        }
        soonest(request, expansions.iter().map(|expansion| lowered(request, expansion)))
    }
}

/// The schedule of the best plan on an expansion.
fn lowered(request: &Request, expansion: &Expansion) -> Result<Schedule> {
    let best = plan(request, expansion)?;
    let mut schedule = lower_watched(expansion, &best.plan, &best.timed, best.slices, request.watch)?;
    schedule.algorithm = request.spec.into();
    Ok(schedule)
}

/// The plan that is through soonest, by the estimate, of those with the given options. The orders are found in full only
/// for the number of chunks that is taken.
fn plan(request: &Request, expansion: &Expansion) -> Result<Candidate> {
    let given = |key: &str| request.options.given(key).map(Value::whole).map(|count| vec![count as u32]);
    let ranks = u64::from(request.ranks());
    let lanes = MAX_LANES / ranks.pow(if request.collective.kind == Kind::AllToAll { 3 } else { 2 });
    let is_given = given("chunks").is_some();
    let (numbers, slices) = (given("chunks").unwrap_or(CHUNKS.into()), given("slices").unwrap_or(SLICES.into()));
    let policies = match request.options.given("scheduler").map(Value::text) {
        Some(name) => vec![Policy::parse(name)?],
        // The paper of these tori gives the order, too.
        None if request.fabric.name.starts_with("ace:") => vec![Policy::Baseline, Policy::Phased],
        None => vec![Policy::Baseline, Policy::Search],
    };
    let mut best: Option<Candidate> = None;
    for &policy in &policies {
        for &chunks in &numbers {
            let fits = |slices: &&u32| is_given || u64::from(chunks) * u64::from(**slices) <= lanes.max(1);
            let slices: Vec<u32> = slices.iter().filter(fits).copied().collect();
            better(request, expansion, (policy, 0), chunks, &slices, &mut best)?;
        }
    }
    if let Some(rough) = &best
        && policies.contains(&Policy::Search)
    {
        let (chunks, slices) = (rough.plan.orders.len() as u32, [rough.slices]);
        better(request, expansion, (Policy::Search, STAGES), chunks, &slices, &mut best)?;
    }
    best.ok_or_else(|| Error::new(Code::TooLarge, format!("{ranks} ranks have too many blocks in one chunk")))
}

/// Takes the plan of a scheduler, of which a search times so many stages, with any of `slices` for `best` if it is better.
fn better(
    request: &Request,
    expansion: &Expansion,
    (policy, stages): (Policy, u64),
    chunks: u32,
    slices: &[u32],
    best: &mut Option<Candidate>,
) -> Result<()> {
    let topology = &expansion.topology;
    let mut plan = RailsPlan::uniform(topology, request.collective.kind, request.bytes, chunks, false)?;
    plan.align = request.align;
    let search = OrderSearch { stages, ..OrderSearch::default() };
    let queue = match policy {
        Policy::Search => search.best(topology, &mut plan),
        _ => {
            policy.scheduler(Themis::default(), search).schedule(topology, &mut plan);
            policy.queue()
        }
    };
    let timed = run(topology, &plan, queue, 1);
    for &slices in slices {
        let time_ps = match estimate(expansion, &plan, &timed, slices, request.system) {
            Err(error) if error.code == Code::TooLarge && best.is_some() => break,
            time => time?,
        };
        let enough = |best: &Candidate| (best.time_ps as f64 * (1.0 - WORTH)) as Picos;
        if best.as_ref().is_none_or(|best| time_ps < enough(best)) {
            *best = Some(Candidate { plan: plan.clone(), timed: timed.clone(), slices, time_ps });
        }
    }
    Ok(())
}
