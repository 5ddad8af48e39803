//! Optimal: the best mixture of trees or paths, by prices of links, on any fabric.
//!
//! [`crate::synthesis`] finds the mixture; here its trees get links, pieces and slots as those of `combs` and `forest` do.

mod paths;
mod trees;

use super::{Algorithm, Info, Request, exchange, tree};
use crate::collective::Kind;
use crate::error::Result;
use crate::schedule::Schedule;

/// See the module.
pub struct Optimal;

const INFO: Info = Info {
    name: "optimal",
    summary: "the best mixture of trees or paths on any fabric, switches included, with prices that prove it",
    options: tree::OPTIONS,
    source: "linear programming over arborescences and paths; optimality of schedules: ForestColl (2024)",
    collectives: &Kind::ALL,
};

/// Whether the links of every dimension of a product are equally fast.
fn is_even(request: &Request) -> bool {
    request.fabric.links.iter().all(|link| link.speed_permille == 1000)
}

/// How near to the optimum a mixture is, relative.
const ACCURACY: f64 = 1e-3;

impl Algorithm for Optimal {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        let ranks = u64::from(request.ranks());
        match request.collective.kind {
            Kind::AllGather | Kind::ReduceScatter => request.expect(ranks * (ranks - 1), 0)?,
            Kind::AllToAll => request.expect(ranks * (ranks - 1), 0)?,
            _ => {}
        }
        match request.collective.kind {
            Kind::AllToAll => match exchange::straight(request.fabric).filter(|_| is_even(request)) {
                Some(product) => exchange::exchange(request, product),
                None => paths::paths(request),
            },
            _ => trees::trees(request),
        }
    }
}
