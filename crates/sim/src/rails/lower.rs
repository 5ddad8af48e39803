//! Lowers a plan to messages: a schedule on the expanded fabric, for the verifier and the simulators.
//!
//! A chunk is a product of blocks, one for every NPU, numbered by its owner's coordinates. A
//! ReduceScatter along a dimension leaves an NPU with the blocks that have its own coordinate there, an
//! AllGather along it brings the others back; so both may go through the dimensions in any order. In
//! an AllToAll blocks have a source too, whose coordinates become those of the destination one
//! dimension after another.

use super::basic;
use super::fabric::Expansion;
use super::layout::{Layout, carried, pieces};
use super::orders::{Basic, RailsPlan, Stage};
use super::stage_loop::RailsTimes;
use super::steps::{StepMoment, Steps};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Picos;
use antiphon_base::watch::Watch;
use antiphon_model::collective::{Collective, Data, Kind};
use antiphon_model::fabric::DimensionShape;
use antiphon_model::schedule::{
    Builder, Dependency, Event, Lane, LaneId, MAX_LANE_TRANSFERS, MAX_TRANSFERS, Op, Schedule, TransferId,
};
use antiphon_model::system::System;

/// Most slices of a chunk.
pub const MAX_SLICES: u32 = 64;
/// Most lanes of a lowered plan.
const MAX_LANES: u64 = 1 << 22;

/// The schedule of `plan` with every dimension serving chunks in the order of `run`, a timing of it. All
/// NPUs do the same. A stage of a chunk starts on an NPU when it has received all of the stage before,
/// as in the stage-level model.
///
/// `slices` are parts of a chunk that follow each other through the steps of a stage, so that one is sent
/// while another is on its way: with one, links idle for the latency between steps. Slices make
/// messages smaller; they do not change what a stage sends or when it may start.
///
/// Where an AllGather is followed by a ReduceScatter, an NPU adds to what it has gathered when that is there and has been passed on.
///
/// Wherever the blocks of a message are not adjacent lanes (AllGather orders other than the reverse of
/// the ReduceScatter's, AllToAll), it goes as several transfers. Neither the plan nor the run is
/// checked to be complete: that is for the verifier.
///
/// Complexity: O(chunks * slices * NPUs^2) lane transfers, times the dimensions for AllToAll.
///
/// # Errors
/// [`Code::NotApplicable`] if switches are to reduce by themselves, [`Code::BadSpec`] if plan, run and
/// topology do not belong together, [`Code::BadSize`] for no slices, [`Code::TooLarge`] past the limits of a schedule.
pub fn lower(expansion: &Expansion, plan: &RailsPlan, run: &RailsTimes, slices: u32) -> Result<Schedule> {
    lower_watched(expansion, plan, run, slices, Watch::default())
}

/// [`lower`], reporting to `watch`.
///
/// # Errors
/// As [`lower`]; [`Code::Interrupted`].
pub fn lower_watched(
    expansion: &Expansion,
    plan: &RailsPlan,
    run: &RailsTimes,
    slices: u32,
    watch: Watch,
) -> Result<Schedule> {
    if !(1..=MAX_SLICES).contains(&slices) {
        return Err(Error::new(Code::BadSize, format!("{slices} slices: expected 1 to {MAX_SLICES}")));
    }
    if plan.offload {
        let what = "messages cannot be reduced by switches; lower the plan without offload";
        return Err(Error::new(Code::NotApplicable, what));
    }
    let stages = stages(expansion, plan)?;
    let mut steps = Steps::new(expansion, None, slices);
    check_size(expansion, plan, &stages, slices, &mut steps)?;
    let (moments, _) = steps.in_order(&stages, run)?;
    let mut lowering = Lowering::new(expansion, plan, stages, slices, watch);
    for moment in moments {
        lowering.add(&moment, &mut steps)?;
    }
    lowering.builder.finish()
}

/// About how long the schedule of [`lower`] takes in the packets of a system, without building it.
///
/// # Errors
/// As [`lower`].
pub fn estimate(
    expansion: &Expansion,
    plan: &RailsPlan,
    run: &RailsTimes,
    slices: u32,
    system: &System,
) -> Result<Picos> {
    let stages = stages(expansion, plan)?;
    let mut steps = Steps::new(expansion, Some(system), slices);
    check_size(expansion, plan, &stages, slices, &mut steps)?;
    Ok(steps.in_order(&stages, run)?.1)
}

/// Stages of every chunk, whose dimensions all exist.
fn stages(expansion: &Expansion, plan: &RailsPlan) -> Result<Vec<Vec<Stage>>> {
    let dimensions = expansion.topology.dimensions.len();
    for (chunk, order) in plan.orders.iter().enumerate() {
        let mut numbers = order.first.as_slice().iter().chain(order.gather.as_slice());
        if let Some(number) = numbers.find(|&&number| usize::from(number) >= dimensions) {
            let what = format!("chunk {chunk} uses dimension {} of {dimensions}", number + 1);
            return Err(Error::new(Code::BadSpec, what));
        }
    }
    Ok(plan.orders.iter().map(|order| plan.stages(&expansion.topology, order).collect()).collect())
}

/// Refuses what the builder would refuse, before memory is taken.
fn check_size(
    expansion: &Expansion,
    plan: &RailsPlan,
    stages: &[Vec<Stage>],
    slices: u32,
    steps: &mut Steps,
) -> Result<()> {
    let (npus, mut transfers, mut lane_transfers) = (expansion.topology.npus(), 0, 0);
    for stage in stages.iter().flatten() {
        let dimension = &expansion.topology.dimensions[usize::from(stage.dimension)];
        transfers += npus * basic::count(dimension.shape, dimension.size, stage.basic);
        // Of every block along the dimension, an NPU has those that its place in the others leaves.
        let lanes = npus / stage.parts / dimension.size;
        lane_transfers += npus * basic::blocks(dimension.shape, dimension.size, stage.basic) * lanes;
    }
    let sources = if plan.kind == Kind::AllToAll { npus } else { 1 };
    let parts = u64::from(slices * pieces(expansion));
    let lanes = plan.orders.len() as u64 * npus * sources * parts;
    (transfers, lane_transfers) = (transfers * u64::from(slices), lane_transfers * parts);
    let fits = |transfers: u64| {
        lanes <= MAX_LANES && transfers <= MAX_TRANSFERS as u64 && lane_transfers <= MAX_LANE_TRANSFERS as u64
    };
    // Messages can be counted without a list of them; each is one transfer or more.
    if fits(transfers) {
        transfers = u64::from(slices) * runs(expansion, plan, stages, slices, steps);
    }
    if !fits(transfers) {
        let what = format!(
            "lowering {} chunks on {npus} NPUs takes {lanes} blocks, {transfers} messages and {lane_transfers} blocks in \
             them; at most {MAX_LANES}, {MAX_TRANSFERS} and {MAX_LANE_TRANSFERS}; use fewer chunks or NPUs, or prove \
             by symmetry",
            plan.orders.len()
        );
        return Err(Error::new(Code::TooLarge, what));
    }
    Ok(())
}

/// Transfers of one slice of all chunks: for every message as many as there are runs of adjacent lanes in it.
fn runs(expansion: &Expansion, plan: &RailsPlan, stages: &[Vec<Stage>], slices: u32, steps: &mut Steps) -> u64 {
    let mut transfers = 0;
    for (chunk, stages) in stages.iter().enumerate() {
        let layout = Layout::new(expansion, plan, slices, chunk, 0);
        for (index, stage) in stages.iter().enumerate() {
            let number = usize::from(stage.dimension);
            let dimension = &expansion.topology.dimensions[number];
            let fixed = fixed(&stages[..index], stage.basic, expansion.topology.dimensions.len());
            // But for lines, each of a group sends as many as the others.
            let is_line = dimension.shape == DimensionShape::Line;
            let messages = steps.messages(stage);
            let sent = messages.iter().filter(|message| is_line || message.from == 0);
            let runs = sent.map(|message| layout.runs(&carried(expansion, &fixed, number, message, 0, 0)).len() as u64);
            let groups = expansion.topology.npus() / if is_line { dimension.size } else { 1 };
            transfers += runs.sum::<u64>() * groups;
        }
    }
    transfers
}

struct Lowering<'a> {
    expansion: &'a Expansion,
    stages: Vec<Vec<Stage>>,
    layouts: Vec<Layout>,
    builder: Builder<'a>,
    /// By chunk and NPU: what it has received in the chunk's last stage so far, and in the one before.
    received: Vec<Vec<Vec<TransferId>>>,
    before: Vec<Vec<Vec<TransferId>>>,
    /// By chunk and NPU: what it has sent in the chunk's last stage so far, where that is added to afterwards; and what it
    /// received and sent in the last such stage.
    sent: Vec<Vec<Vec<TransferId>>>,
    gathered: Vec<Option<[Vec<Vec<TransferId>>; 2]>>,
    /// By link: the turn of the stage that used it last.
    used: Vec<Option<u32>>,
    slices: u32,
    /// Of the schedule.
    step: u32,
}

impl<'a> Lowering<'a> {
    fn new(expansion: &'a Expansion, plan: &RailsPlan, stages: Vec<Vec<Stage>>, slices: u32, watch: Watch<'a>) -> Self {
        let name = format!("rails:chunks={}", plan.orders.len());
        let data = Data { align: plan.align, ..plan.bytes.into() };
        let builder = Builder::new(name, &expansion.fabric, Collective::new(plan.kind), data);
        let mut builder = builder.watched(watch);
        builder.phase(plan.kind.name(), false);
        let (coordinates, pieces) = (expansion.coordinates(), pieces(expansion));
        let npus = coordinates.count();
        let mut layouts = Vec::new();
        for chunk in 0..plan.orders.len() {
            let layout = Layout::new(expansion, plan, slices, chunk, builder.schedule.lanes.len() as LaneId);
            let dimensions = expansion.topology.dimensions.len();
            for at in layout.lanes() {
                let rank = |at: &[u32]| expansion.rank(coordinates.position(at));
                let owner = rank(&at[..dimensions]);
                let source = if plan.kind == Kind::AllToAll { rank(&at[dimensions + 2..]) } else { owner };
                let (start, length) = plan.align.shard(plan.bytes, npus as usize, owner as usize);
                let parts = (slices * pieces) as usize;
                let part = chunk * parts + (at[dimensions + 1] * pieces + at[dimensions]) as usize;
                let (offset, bytes) = plan.align.shard(length, plan.orders.len() * parts, part);
                let offset = start + offset;
                builder.lane(Lane { offset, bytes, chunks: 1, chunk_bytes: bytes, stride: 1, source, owner });
            }
            layouts.push(layout);
        }
        Lowering {
            expansion,
            stages,
            layouts,
            builder,
            received: vec![vec![Vec::new(); npus as usize]; plan.orders.len()],
            before: vec![Vec::new(); plan.orders.len()],
            sent: vec![vec![Vec::new(); npus as usize]; plan.orders.len()],
            gathered: vec![None; plan.orders.len()],
            used: vec![None; expansion.fabric.links.len()],
            slices,
            step: 0,
        }
    }

    /// Whether a stage gathers what the next one adds to.
    fn is_added_to(&self, chunk: usize, index: usize) -> bool {
        let basic = |index: usize| self.stages[chunk].get(index).map(|stage| stage.basic);
        (basic(index), basic(index + 1)) == (Some(Basic::Gather), Some(Basic::Reduce))
    }

    /// Adds a step of a stage, after all that were added before.
    fn add(&mut self, moment: &StepMoment, steps: &mut Steps) -> Result<()> {
        let (chunk, index) = (moment.chunk as usize, moment.stage as usize);
        let (stage, coordinates) = (self.stages[chunk][index], self.expansion.coordinates());
        let number = usize::from(stage.dimension);
        let fixed = fixed(&self.stages[chunk][..index], stage.basic, coordinates.sizes().len());
        if moment.step == 0 {
            self.before[chunk] =
                std::mem::replace(&mut self.received[chunk], vec![Vec::new(); coordinates.count() as usize]);
            let sent = std::mem::replace(&mut self.sent[chunk], vec![Vec::new(); coordinates.count() as usize]);
            if index.checked_sub(1).is_some_and(|before| self.is_added_to(chunk, before)) {
                self.gathered[chunk] = Some([self.before[chunk].clone(), sent]);
            }
        }
        let added_to = self.is_added_to(chunk, index);
        let op = if stage.basic == Basic::Reduce { Op::Reduce } else { Op::Copy };
        let origins: Vec<u32> = coordinates.origins(number).collect();
        let messages = steps.messages(&stage);
        for message in messages.iter().filter(|message| message.step == moment.step) {
            for &origin in &origins {
                let npu = |place| coordinates.with(origin, number, place);
                let (from, to) = (npu(message.from), npu(message.to));
                let carried =
                    |slice| self.layouts[chunk].runs(&carried(self.expansion, &fixed, number, message, slice, origin));
                let route = self.expansion.route(number, from, to, message.direction);
                for (lane, lanes) in (0..self.slices).flat_map(carried) {
                    let id = self.builder.schedule.transfers.len();
                    let [sender, receiver] = [from, to].map(|npu| self.expansion.rank(npu));
                    self.builder.send_via(op, sender, receiver, lane..lane + lanes, self.step, &route[..])?;
                    self.received[chunk][to as usize].push(id as TransferId);
                    if added_to {
                        self.sent[chunk][from as usize].push(id as TransferId);
                    }
                    if let Some([received, sent]) = &self.gathered[chunk] {
                        // What its receiver has gathered is to be there, and on its way.
                        let there = received[to as usize].iter().map(|&other| (other, Event::Applied));
                        let passed_on = sent[to as usize].iter().map(|&other| (other, Event::Sent));
                        let overlapping = there.chain(passed_on).filter(|&(other, _)| {
                            let payload = &self.builder.schedule.transfers[other as usize].payload;
                            payload.iter().any(|range| range.start < lane + lanes && lane < range.end)
                        });
                        let after = overlapping.map(|(other, event)| Dependency::new(other, event)).collect();
                        self.builder.schedule.transfers[id].apply_after = after;
                    }
                    // What follows on the link waits too.
                    if self.used[route[0] as usize].replace(moment.turn) != Some(moment.turn) {
                        self.builder.schedule.transfers[id].start_after =
                            self.before[chunk][from as usize].iter().map(|&id| id.into()).collect();
                    }
                }
            }
        }
        self.step += 1;
        Ok(())
    }
}

/// Along which dimensions an NPU has only the blocks with its own coordinate, after `stages`; before
/// them along none, or along all for an AllGather.
fn fixed(stages: &[Stage], basic: Basic, dimensions: usize) -> Vec<bool> {
    let first = stages.first().map_or(basic, |stage| stage.basic);
    let mut fixed = vec![first == Basic::Gather; dimensions];
    for stage in stages {
        fixed[usize::from(stage.dimension)] = stage.basic != Basic::Gather;
    }
    fixed
}

#[cfg(test)]
mod tests {
    use super::super::scheduler::{Phased, Scheduler, Themis};
    use super::super::stage_loop::{QueuePolicy, run};
    use super::super::symmetry::prove_by_symmetry;
    use super::*;
    use antiphon_model::fabric::Fabric;
    use antiphon_model::topology::Topology;
    use antiphon_proof::verify;
    use antiphon_run::check_by_execution;

    /// The transfers that a size is judged by are those of the schedule.
    fn expect_count(expansion: &Expansion, plan: &RailsPlan, slices: u32, schedule: &Schedule) {
        let mut steps = Steps::new(expansion, None, slices);
        let each = runs(expansion, plan, &stages(expansion, plan).unwrap(), slices, &mut steps);
        assert_eq!(each * u64::from(slices), schedule.transfers.len() as u64);
    }

    #[test]
    fn transfers_on_lines_are_counted() {
        let system = System::preset("generic").unwrap();
        let expansion = Expansion::of(&Fabric::parse("mesh:3x4").unwrap(), &system).unwrap();
        for kind in [Kind::ReduceScatter, Kind::AllGather, Kind::AllReduce] {
            let mut plan = RailsPlan::uniform(&expansion.topology, kind, 10_000, 3, false).unwrap();
            Themis::default().schedule(&expansion.topology, &mut plan);
            let timed = run(&expansion.topology, &plan, QueuePolicy::Fifo, 1);
            expect_count(&expansion, &plan, 2, &lower(&expansion, &plan, &timed, 2).unwrap());
        }
    }

    #[test]
    fn phased_orders_are_proven_and_executed() {
        for spec in ["ring4,ring3,ring2", "ring3,ring4", "sw2,fc3,ring3"] {
            let spec: Vec<_> = spec.split(',').map(|part| format!("{part}@1000/20ns")).collect();
            let topology = Topology::parse(&spec.join(",")).unwrap();
            let expansion = Expansion::new(&topology).unwrap();
            for (kind, slices) in [(Kind::AllReduce, 1), (Kind::AllReduce, 3), (Kind::AllGather, 2)] {
                let mut plan = RailsPlan::uniform(&topology, kind, 10_000, 3, false).unwrap();
                Phased.schedule(&topology, &mut plan);
                let timed = run(&topology, &plan, QueuePolicy::Oldest, 1);
                let schedule = lower(&expansion, &plan, &timed, slices).unwrap();
                expect_count(&expansion, &plan, slices, &schedule);
                let proof = verify(&expansion.fabric, &schedule).unwrap_or_else(|e| panic!("{spec:?} {kind:?} {e}"));
                assert!(proof.complete && prove_by_symmetry(&topology, &plan, &timed).is_ok());
                for seed in [None, Some(1)] {
                    check_by_execution(&schedule, seed).unwrap_or_else(|e| panic!("{spec:?} {kind:?}: {e}"));
                }
            }
        }
    }

    #[test]
    fn every_collective_is_proven_and_executed() {
        for spec in ["sw4", "ring4", "ring3", "fc3", "ring2", "sw2,ring3", "ring4,sw2,fc3"] {
            let spec: Vec<_> = spec.split(',').map(|part| format!("{part}@1000/20ns")).collect();
            let topology = Topology::parse(&spec.join(",")).unwrap();
            let expansion = Expansion::new(&topology).unwrap();
            let kinds = [Kind::ReduceScatter, Kind::AllGather, Kind::AllReduce, Kind::AllToAll];
            for (kind, slices) in kinds.into_iter().flat_map(|kind| [(kind, 1), (kind, 3)]) {
                let mut plan = RailsPlan::uniform(&topology, kind, 10_000, 3, false).unwrap();
                Themis::default().schedule(&topology, &mut plan);
                let schedule = lower(&expansion, &plan, &run(&topology, &plan, QueuePolicy::Fifo, 1), slices).unwrap();
                expect_count(&expansion, &plan, slices, &schedule);
                let proof = verify(&expansion.fabric, &schedule).unwrap_or_else(|e| panic!("{spec:?} {kind:?} {e}"));
                assert!(proof.complete);
                for seed in [None, Some(1)] {
                    check_by_execution(&schedule, seed).unwrap_or_else(|e| panic!("{spec:?} {kind:?}: {e}"));
                }
            }
        }
    }
}
