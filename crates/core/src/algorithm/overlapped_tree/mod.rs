//! Overlapped tree: every chunk is broadcast as soon as the root has its sum, while others are still reduced; on
//! one logical tree or two, each laid on the fabric so that no link carries two messages in a slot.
//!
//! C-Cube (HPCA 2023), sections III-C and IV-A (reference: C-Cube sections 1 to 3).

mod map;
mod slots;

use super::{Algorithm, Info, Request, tree};
use crate::collective::{Kind, shard};
use crate::cost::{Pipeline, Step};
use crate::error::Result;
use crate::schedule::{Lane, Op, Pacing, Schedule};
use crate::units::{Bytes, Picos, Rate};
use map::{Mapper, Tree, numbered};
use slots::{Table, table};

/// See the module.
pub struct OverlappedTree;

const INFO: Info = Info {
    name: "overlapped-tree",
    summary: "one or two low trees without link conflicts, reduction and broadcast of different chunks at once",
    options: &[
        ("overlap", "yes (default) or no: broadcast starts when everything is reduced"),
        ("trees", "1 or 2 (default: the faster by the slots they take)"),
        ("chunk", "bytes of one chunk of a tree (default: the best by the cost model)"),
        ("mapping", "search (default) or numbered: NCCL's tree with rank v at node v, and every number XOR 1"),
        (
            "pacing",
            "pipelined (default) or stop-and-wait: a link waits until a chunk is received, as the cost model does",
        ),
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

    fn build(&self, request: &Request) -> Result<Schedule> {
        let options = &request.options;
        let overlap = options.choice("overlap", &["yes", "no"])? == "yes";
        let mapping = options.choice("mapping", &["search", "numbered"])?;
        let pacing = options.choice("pacing", &["pipelined", "stop-and-wait"])?;
        let counts = match options.get("trees") {
            Some(_) => vec![options.count("trees", 1, 2)? as usize],
            None => vec![1, 2],
        };
        let chunk = options.get("chunk").map(|_| options.bytes("chunk", 0)).transpose()?;
        // Where ranks share a link to a switch, the trees as they are numbered may do best.
        let mut placed = if mapping == "search" { search(request, &counts) } else { vec![] };
        if placed.is_empty() || request.fabric.has_switches() {
            placed.extend(counts.iter().map(|&trees| numbered(request.fabric, trees)));
        }
        let streams = pacing == "pipelined";
        let plan = |trees| Plan::new(request, trees, overlap, streams, chunk);
        let plans: Vec<Plan> = placed.into_iter().map(plan).collect();
        // The first that is about as fast as any: those before have fewer trees, or fewer edges on a link.
        let best = plans.iter().map(|plan| plan.time_ps).min().unwrap_or(0);
        let most = best.saturating_add(best / 64);
        let plan = plans.iter().find(|plan| plan.time_ps <= most).expect("at least one way to place trees");
        plan.schedule(request, overlap, streams)
    }
}

/// For each number of trees the lowest found, for as many edges on one link as are worth a try; where links differ in
/// rate also without the slow ones.
fn search(request: &Request, counts: &[usize]) -> Vec<Vec<Tree>> {
    let times = tree::flit_times(request);
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

/// Trees, when their messages are sent, in how many chunks, and how long that takes by the cost model.
struct Plan {
    trees: Vec<Tree>,
    table: Table,
    chunk: Bytes,
    time_ps: Picos,
}

impl Plan {
    fn new(request: &Request, trees: Vec<Tree>, overlap: bool, streams: bool, chunk: Option<Bytes>) -> Self {
        let (fabric, system) = (request.fabric, request.system);
        let table = table(fabric, &trees, overlap);
        // A step of the slowest edge.
        let mut step = Step { latency_ps: 0, rate: Rate(u64::MAX) };
        for route in trees.iter().flat_map(|tree| &tree.edges).flat_map(|edge| [&edge.up, &edge.down]) {
            let latency_ps = route.iter().map(|&link| system.latency_of(fabric.link(link))).sum::<Picos>();
            step.latency_ps = step.latency_ps.max(latency_ps + system.hand_off_ps);
            for &link in route {
                let (bytes, picos) = system.payload_rate(fabric.link(link));
                step.rate = step.rate.min(Rate((bytes / picos).max(1) as u64));
            }
        }
        let phases = if overlap { 1 } else { 2 };
        let pipeline = Pipeline { first: table.first.into(), stride: u64::from(phases * table.stride) };
        let bytes = request.bytes.div_ceil(trees.len() as u64);
        let unit = if system.packet.fixed_size { system.packet.payload_bytes } else { 4 };
        // Links with messages of several edges wait for them in turn, and so for their latencies.
        let streams = streams && table.stride == 1;
        let chunk = chunk.unwrap_or_else(|| {
            bytes.div_ceil(match streams {
                true => pipeline.streamed_chunks(step, bytes, system.packet.payload_bytes),
                false => pipeline.best_chunks(step, bytes),
            })
        });
        let chunk = chunk.min(bytes).next_multiple_of(unit);
        let time = if streams { Pipeline::streamed_ps } else { Pipeline::time_ps };
        let time_ps = time(pipeline, step, bytes.next_multiple_of(chunk), bytes.div_ceil(chunk));
        Plan { trees, table, chunk, time_ps }
    }

    fn schedule(&self, request: &Request, overlap: bool, streams: bool) -> Result<Schedule> {
        let mut builder = request.builder();
        builder.schedule.conflict_free = true;
        builder.schedule.pacing = if streams { Pacing::Pipelined } else { Pacing::StopAndWait };
        let stride = self.table.stride;
        for tree in 0..self.trees.len() {
            let (offset, bytes) = shard(request.bytes, self.trees.len(), tree);
            // All trees have as many chunks.
            let chunks = request.bytes.div_ceil(self.trees.len() as u64).div_ceil(self.chunk);
            let chunk_bytes = self.chunk.max(Lane::payload(bytes, chunks));
            builder.lane(Lane { offset, bytes, chunks, chunk_bytes, stride, source: 0, owner: 0 });
        }
        let edges = || {
            let trees = (0..).zip(&self.trees).zip(&self.table.steps);
            trees.flat_map(|((lane, tree), steps)| {
                tree.edges.iter().zip(steps).map(move |(edge, steps)| (lane, edge, steps))
            })
        };
        builder.phase(if overlap { "reduce and broadcast" } else { "reduce" }, false);
        for (lane, edge, steps) in edges() {
            builder.send_via(Op::Reduce, edge.child, edge.parent, lane, 1, steps.0, edge.up.clone())?;
        }
        if !overlap {
            builder.phase("broadcast", true);
        }
        for (lane, edge, steps) in edges() {
            builder.send_via(Op::Copy, edge.parent, edge.child, lane, 1, steps.1, edge.down.clone())?;
        }
        builder.finish()
    }
}
