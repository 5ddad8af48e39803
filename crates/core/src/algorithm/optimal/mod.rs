//! Optimal: the best mixture of trees or paths, by prices of links, on any fabric.
//!
//! [`crate::synthesis`] finds the mixture; here its trees get links, pieces and slots as those of `combs` and `forest` do.

mod exchange;
mod trees;

use super::{Algorithm, Info, Request, tree};
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

/// How near to the optimum a mixture is, relative.
const ACCURACY: f64 = 1e-3;

impl Algorithm for Optimal {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        match request.collective.kind {
            Kind::AllToAll => exchange::exchange(request),
            _ => trees::trees(request),
        }
    }
}
