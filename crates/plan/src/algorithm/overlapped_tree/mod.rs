//! Overlapped tree: every chunk is broadcast as soon as the root has its sum, while others are still reduced; on
//! one logical tree or two, each laid on the fabric so that no link carries two messages in a slot.
//!
//! C-Cube (HPCA 2023), sections III-C and IV-A.

mod map;

use super::estimate::{StepEstimate, flit_times};
use super::soonest::soonest;
use super::tree::{Priority, Table, Tree, TreeWork};
use super::{ALIGN, Algorithm, Info, Request, Scale};
use antiphon_base::error::Result;
use antiphon_base::options::{Default::Derived, Opt};
use antiphon_base::parameter::Value;
use antiphon_base::units::{Bytes, Picos};
use antiphon_model::collective::Kind;
use antiphon_model::schedule::{Op, Pacing, Schedule};
use map::{Mapper, numbered};

/// See the module.
pub struct OverlappedTree;

const INFO: Info = Info {
    name: "overlapped-tree",
    summary: "one or two low trees without link conflicts, reduction and broadcast of different chunks at once",
    options: &[
        Opt::flag(
            "overlap",
            Derived("whichever is sooner through by the packets"),
            "Broadcast starts before everything is reduced.",
        ),
        Opt::count(
            "trees",
            1,
            2,
            Derived("the faster number by the slots they take"),
            "Trees that the data is divided among.",
        ),
        Opt::bytes("chunk", Derived("the best by the cost model"), "One chunk of a tree."),
        Opt::choice(
            "mapping",
            &["search", "numbered"],
            "Where ranks are; numbered: NCCL's tree with rank v at node v, and every number XOR 1.",
        ),
        Opt::choice(
            "pacing",
            &["pipelined", "stop-and-wait"],
            "Stop-and-wait: a link waits until a chunk is received, as the cost model does.",
        ),
        ALIGN,
    ],
    source: "C-Cube (HPCA 2023)",
    collectives: &[Kind::AllReduce],
};

/// Most edges on one link, in one direction, that are tried where fewer might do.
const CAPACITIES: u32 = 4;
/// Links that are slower than the fastest by more than this factor may be left out.
const SLOW: Picos = 2;

impl Algorithm for OverlappedTree {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn scale(&self) -> Scale {
        Scale::Short
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        let options = &request.options;
        let works = match options.given("overlap").map(Value::flag) {
            Some(true) => vec![TreeWork::Overlapped],
            Some(false) => vec![TreeWork::Phases],
            None => vec![TreeWork::Overlapped, TreeWork::Phases],
        };
        let mapping = options.choice("mapping");
        let pacing = options.choice("pacing");
        let counts = options.given("trees").map_or(vec![1, 2], |trees| vec![trees.whole() as usize]);
        let chunk = options.given("chunk").map(Value::whole);
        // Where ranks share a link to a switch, the trees as they are numbered may do best.
        let mut placed = if mapping == "search" { search(request, &counts) } else { vec![] };
        if placed.is_empty() || request.fabric.has_switches() {
            placed.extend(counts.iter().map(|&trees| numbered(request, trees)));
        }
        let pacing = if pacing == "pipelined" { Pacing::Pipelined } else { Pacing::StopAndWait };
        // Where edges share links, of switches above all, queues decide, of which the cost model knows nothing.
        let near = works.into_iter().flat_map(|work| {
            let plans = placed.iter().flat_map(|trees| OverlappedPlan::all(request, trees, work, pacing, chunk));
            let mut plans: Vec<OverlappedPlan> = plans.collect();
            let least = plans.iter().map(|plan| plan.time_ps).min().unwrap_or(0);
            plans.retain(|plan| plan.time_ps <= least.saturating_add(least / 2));
            plans
        });
        soonest(request, near.map(|plan| plan.schedule(request, pacing)))
    }
}

/// For each number of trees the lowest found, for as many edges on one link as are worth a try; where links differ in
/// rate also without the slow ones.
fn search(request: &Request, counts: &[usize]) -> Vec<Vec<Tree>> {
    let times = flit_times(request);
    let (fastest, slowest) = (times.iter().copied().min().unwrap_or(0), times.iter().copied().max().unwrap_or(0));
    let limits = if slowest > SLOW * fastest { vec![Picos::MAX, SLOW * fastest] } else { vec![Picos::MAX] };
    let mut placed = vec![];
    for limit in limits {
        let Some(mapper) = Mapper::new(request.fabric, |link| times[link as usize] <= limit) else { continue };
        for &trees in counts {
            let mut lowest = u32::MAX;
            let further = (CAPACITIES.ilog2() + 1..=request.ranks().ilog2() + 2).map(|exponent| 1 << exponent);
            for capacity in (1..=CAPACITIES).chain(further) {
                let packed = || if capacity == 1 { mapper.packed(trees) } else { None };
                if let Some(found) = mapper.search(trees, capacity).or_else(packed) {
                    let height = found.iter().map(Tree::height).max().unwrap_or(0);
                    // A link that is used more often must make up for it.
                    if height < lowest {
                        lowest = height;
                        placed.push(found);
                    }
                }
                if lowest <= mapper.radius() || lowest < u32::MAX && capacity >= CAPACITIES {
                    break;
                }
            }
        }
    }
    placed
}

/// Trees, when their messages are sent, in what chunks, and how long that takes by the cost model.
struct OverlappedPlan<'a> {
    table: Table<'a>,
    chunk: Bytes,
    time_ps: Picos,
}

impl<'a> OverlappedPlan<'a> {
    /// In chunks of a size, or of those that are best by the cost model.
    fn all(
        request: &'a Request<'a>,
        trees: &'a [Tree],
        work: TreeWork,
        pacing: Pacing,
        chunk: Option<Bytes>,
    ) -> Vec<OverlappedPlan<'a>> {
        let table = Table::listed(trees, vec![1; request.fabric.links.len()], Priority::Earliest, work);
        let steps = StepEstimate::new(request, &table, pacing);
        let bytes = request.bytes.div_ceil(trees.len() as u64);
        let packet = &request.system.packet;
        let unit = if packet.fixed_size { packet.payload_bytes } else { request.align.bytes() };
        let mut chunks = chunk.map_or_else(|| steps.best_chunks(bytes), |chunk| vec![chunk]);
        chunks.iter_mut().for_each(|chunk| *chunk = (*chunk).min(bytes).next_multiple_of(unit));
        chunks.dedup();
        let plan = |chunk| OverlappedPlan { time_ps: steps.time_ps(bytes, chunk), table: table.clone(), chunk };
        chunks.into_iter().map(plan).collect()
    }

    fn schedule(&self, request: &Request, pacing: Pacing) -> Result<Schedule> {
        let table = &self.table;
        let mut builder = request.builder();
        builder.schedule.conflict_free = true;
        builder.schedule.endpoint.pacing = pacing;
        // All trees have as many chunks.
        let chunks = request.bytes.div_ceil(table.trees.len() as u64).div_ceil(self.chunk);
        table.lanes(&mut builder, |_| self.chunk, chunks);
        builder.phase(if table.work == TreeWork::Overlapped { "reduce and broadcast" } else { "reduce" }, false);
        table.send(&mut builder, &[Op::Reduce])?;
        if table.work == TreeWork::Phases {
            builder.phase("broadcast", true);
        }
        table.send(&mut builder, &[Op::Copy])?;
        builder.finish()
    }
}

/// What is expected of one tree in chunks of 8 KiB, and its schedule.
#[cfg(test)]
pub(super) fn estimated(request: &Request) -> (u128, Schedule) {
    let trees = search(request, &[1]).into_iter().next().unwrap_or_else(|| numbered(request, 1));
    let plan = &OverlappedPlan::all(request, &trees, TreeWork::Overlapped, Pacing::Pipelined, Some(8 << 10))[0];
    (plan.time_ps.into(), plan.schedule(request, Pacing::Pipelined).unwrap())
}
