//! Optimal: the best mixture of trees or paths, by prices of links, on any fabric.
//!
//! [`crate::synthesis`] finds the mixture; here its trees get links, pieces and slots as those of `combs` and `forest` do.

mod paths;
mod trees;

use super::{Algorithm, Info, Request, exchange, tree};
use crate::bound;
use crate::collective::Kind;
use crate::error::{Code, Error, Result};
use crate::options::{Default::Derived, Opt};
use crate::schedule::{Certificate, Schedule};
use crate::synthesis::{self, Graph, Mixture, Wanted};

/// See the module.
pub struct Optimal;

const OPTIONS: &[Opt] = &[
    tree::OPTIONS[0],
    Opt::count(
        "trees",
        1,
        u32::MAX as u64,
        Derived("as many as the optimum takes"),
        "Most trees of every root; for AllReduce of all together.",
    ),
];

const INFO: Info = Info {
    name: "optimal",
    summary: "the best mixture of trees or paths on any fabric, switches included",
    options: OPTIONS,
    source: "linear programming over arborescences and paths; optimality of schedules: ForestColl (2024)",
    collectives: &Kind::ALL,
};

/// Whether all links have their full speed, and all ranks the same for each other, so that what holds for a product holds.
fn is_even(request: &Request) -> bool {
    request.matrix.is_none() && request.fabric.links.iter().all(|link| link.speed_permille == 1000)
}

/// Most trees of every root, if that is limited.
fn most_trees(request: &Request) -> Option<usize> {
    request.options.given("trees").map(|value| value.whole() as usize)
}

/// The best mixture for a request, where a level of a tree costs as much as `level` picoseconds for every byte.
///
/// # Errors
/// As [`synthesis::mixture`].
fn mixture(request: &Request, graph: &Graph, level: f64) -> Result<Mixture> {
    let wanted = Wanted { accuracy: ACCURACY, level, trees: most_trees(request) };
    synthesis::mixture(graph, request.collective, request.matrix.as_ref(), &wanted, request.watch)
        .map_err(|error| error.at(format_args!("{} on {}", request.spec, request.fabric.name)))
}

/// What a mixture's prices prove.
fn certificate(graph: &Graph, mixture: &Mixture) -> Certificate {
    Certificate::new(graph.of_links(&mixture.prices))
}

/// How near to the optimum a mixture is, relative.
const ACCURACY: f64 = 1e-3;

impl Algorithm for Optimal {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn takes_matrix(&self) -> bool {
        true
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        let ranks = u64::from(request.ranks());
        // A tree of every rank, or a path of every pair.
        if matches!(request.collective.kind, Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll) {
            request.expect(ranks * (ranks - 1), 0)?;
        }
        if request.collective.kind == Kind::AllToAll && most_trees(request).is_some() {
            let what = format!("{}: trees limits trees, but an all-to-all goes along paths", request.spec);
            return Err(Error::new(Code::BadSpec, what));
        }
        let (mut schedule, certificate) = match request.collective.kind {
            Kind::AllToAll => match exchange::straight(request.fabric).filter(|_| is_even(request)) {
                Some(product) => (exchange::exchange(request, product)?, None),
                None => paths::paths(request)?,
            },
            _ => (trees::trees(request)?, None),
        };
        schedule.certificate = Some(bound::certificate(request.fabric, request.system, &schedule, certificate)?);
        Ok(schedule)
    }
}
