//! A line of a product by itself: what a collective along it takes.

use crate::ProvenRun;
use antiphon_base::error::Result;
use antiphon_base::units::Bytes;
use antiphon_base::watch::Watch;
use antiphon_model::collective::{Align, Collective, Kind};
use antiphon_model::fabric::{Dimension, DimensionShape, Fabric};
use antiphon_model::schedule::{Issue, Schedule};
use antiphon_model::system::System;
use antiphon_plan::algorithm;
use antiphon_sim::Fidelity;
use antiphon_sim::rails::{Expansion, QueuePolicy, RailsPlan, lower_watched, run};
use std::collections::HashMap;

/// Slices of a line's data that are tried.
const SLICES: [u32; 2] = [1, 4];
/// More are tried only where one takes at most so many transfers.
const MOST_SLICED: u64 = 1 << 15;

/// A line along one dimension, which stands for all that are parallel to it.
pub(super) struct ProductLine<'a> {
    /// The dimension.
    pub dimension: Dimension,
    expansion: Expansion,
    system: &'a System,
    fidelity: Fidelity,
    runs: HashMap<(Kind, Bytes), ProvenRun>,
}

impl<'a> ProductLine<'a> {
    /// A line along dimension `number` of a product.
    ///
    /// # Errors
    /// As [`Expansion::line`].
    pub fn new(whole: &Expansion, number: usize, system: &'a System, fidelity: Fidelity) -> Result<ProductLine<'a>> {
        let expansion = Expansion::of(&whole.line(number)?, system)?;
        let dimension = expansion.topology.dimensions[0];
        Ok(ProductLine { dimension, expansion, system, fidelity, runs: HashMap::new() })
    }

    fn fabric(&self) -> &Fabric {
        &self.expansion.fabric
    }

    /// A collective of `bytes` along the line, in the fastest of a few ways. Shards are rounded up to whole units of alignment, so that
    /// they are equal.
    ///
    /// # Errors
    /// As [`lower_watched`], [`prove_watched`] and [`simulate`].
    pub fn run(&mut self, kind: Kind, bytes: Bytes, watch: Watch) -> Result<ProvenRun> {
        let unit = self.dimension.size * Align::default().bytes();
        let bytes = bytes.max(1).next_multiple_of(unit);
        if let Some(&run) = self.runs.get(&(kind, bytes)) {
            return Ok(run);
        }
        let first = self.sliced(kind, bytes, SLICES[0], watch)?;
        let mut others = vec![];
        if first.messages <= MOST_SLICED {
            others.push(self.sliced(kind, bytes, SLICES[1], watch)?);
        }
        if self.dimension.shape == DimensionShape::Switch && kind != Kind::AllToAll {
            others.push(self.proven(self.direct(kind, bytes, watch)?, watch)?);
        }
        let best =
            others.into_iter().fold(first, |best, other| if other.time_ps < best.time_ps { other } else { best });
        self.runs.insert((kind, bytes), best);
        Ok(best)
    }

    /// The collective of a dimension as [`lower_watched`] makes it.
    fn sliced(&self, kind: Kind, bytes: Bytes, slices: u32, watch: Watch) -> Result<ProvenRun> {
        let topology = &self.expansion.topology;
        let plan = RailsPlan::uniform(topology, kind, bytes, 1, false)?;
        let times = run(topology, &plan, QueuePolicy::Fifo, 1);
        self.proven(lower_watched(&self.expansion, &plan, &times, slices, watch)?, watch)
    }

    /// Everyone to everyone through a switch: one latency, where halving and doubling pay one a step.
    fn direct(&self, kind: Kind, bytes: Bytes, watch: Watch) -> Result<Schedule> {
        let shard = bytes / self.dimension.size;
        let spec = format!("direct:chunk={shard}");
        let collective = Collective::new(kind);
        let mut schedule = algorithm::build_watched(self.fabric(), self.system, collective, bytes, &spec, watch)?;
        // A rank's links along other dimensions have interfaces of their own, so its steps do not wait for interfaces.
        schedule.endpoint.issue = Issue::Links;
        Ok(schedule)
    }

    fn proven(&self, schedule: Schedule, watch: Watch) -> Result<ProvenRun> {
        ProvenRun::of(self.fabric(), schedule, self.system, self.fidelity, watch)
    }
}
