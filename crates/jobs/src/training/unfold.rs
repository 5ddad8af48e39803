//! An iteration as what each rank does, for those who run ranks and not iterations.

use super::iteration::{DATA, IterationGraph};
use crate::graph::{
    JobExchange, JobGraph, MAX_DEPENDENCIES, MAX_OPERATIONS, OperationKind, RankGraph, RankGroup, Resource,
};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::watch::interruptible;
use std::collections::{BTreeMap, HashMap};

/// What each of `ranks` ranks does in an iteration of layers with `names` that are divided over `divided` neighbours. Streams
/// keep their order by dependencies, and the aggregation is an operation at the end. O(ranks * operations).
///
/// # Errors
/// [`Code::TooLarge`].
///
/// # Panics
/// If `divided` is no divisor of `ranks`.
pub fn unfold(iteration: &IterationGraph, names: &[&str], ranks: u32, divided: u32) -> Result<JobGraph> {
    assert!(divided > 0 && ranks.is_multiple_of(divided), "{divided} of {ranks}");
    let RankGraph { operations, after } = &iteration.jobs.ranks[0];
    let (nodes, waits) = (ranks as usize * (operations.len() + 1), after.len() + operations.len());
    if nodes > MAX_OPERATIONS || ranks as usize * 2 * waits > MAX_DEPENDENCIES {
        let what = format!("{ranks} traces of {} nodes (at most {MAX_OPERATIONS} together)", operations.len());
        return Err(Error::new(Code::TooLarge, what));
    }
    let mut graph = JobGraph::new(ranks);
    let mut one = in_order(iteration);
    name(&mut one, &mut graph, iteration, names);
    let mut groups: HashMap<(bool, u32), u32> = HashMap::new();
    let mut exchanges: HashMap<(u32, u32), u32> = HashMap::new();
    for rank in 0..ranks {
        let mut own = one.clone();
        for operation in interruptible(&mut own.operations) {
            let (OperationKind::Exchange(id) | OperationKind::Arrival { exchange: id, .. }) = &mut operation.kind
            else {
                continue;
            };
            let exchange = iteration.jobs.exchanges[*id as usize];
            let (data, part, first) = (exchange.group == DATA, rank % divided, rank - rank % divided);
            let (shared, members) = if data { (part, part..ranks) } else { (first, first..first + divided) };
            let group = if divided == 1 {
                0
            } else {
                *groups.entry((data, shared)).or_insert_with(|| {
                    let (name, step) = (graph.groups.len().to_string(), if data { divided as usize } else { 1 });
                    graph.groups.push(RankGroup { name, ranks: members.step_by(step).collect() });
                    graph.groups.len() as u32 - 1
                })
            };
            *id = *exchanges.entry((group, *id)).or_insert_with(|| {
                graph.exchanges.push(JobExchange { name: operation.name, group, ..exchange });
                graph.exchanges.len() as u32 - 1
            });
        }
        graph.ranks[rank as usize] = own;
    }
    graph.check()?;
    Ok(graph)
}

/// What one rank does, its streams kept in order by dependencies, and the aggregation after all that nothing waits for.
fn in_order(iteration: &IterationGraph) -> RankGraph {
    let (of, mut one) = (&iteration.jobs.ranks[0], RankGraph::default());
    let mut last = BTreeMap::new();
    for (number, operation) in (0..).zip(interruptible(&of.operations)) {
        let mut after = of.after(number).to_vec();
        if let OperationKind::Compute { resource, .. } = operation.kind {
            after.extend(last.insert(resource, number));
        }
        after.sort_unstable();
        after.dedup();
        one.push(0, operation.kind, &after);
    }
    if iteration.aggregation > 0 {
        let mut awaited = vec![false; one.operations.len()];
        one.after.iter().for_each(|&other| awaited[other as usize] = true);
        let ends: Vec<u32> = (0..awaited.len() as u32).filter(|&number| !awaited[number as usize]).collect();
        one.push(0, OperationKind::compute(iteration.aggregation, Resource::Stream(0)), &ends);
    }
    one
}

/// Names operations by layers, and the aggregation.
fn name(one: &mut RankGraph, graph: &mut JobGraph, iteration: &IterationGraph, layers: &[&str]) {
    let layer = |at: usize| layers.get(at).copied().unwrap_or("layer");
    let mut known = HashMap::new();
    for (number, operation) in one.operations.iter_mut().enumerate() {
        let name = iteration.labels.get(number).map_or("aggregation".into(), |label| {
            let (first, last) = label.layers;
            let of = if first == last { layer(first).into() } else { format!("{} to {}", layer(first), layer(last)) };
            let what = match operation.kind {
                OperationKind::Exchange(id) => format!(" {}", iteration.jobs.exchanges[id as usize].kind.name()),
                _ => String::new(),
            };
            format!("{of} {}{what}", label.pass.name())
        });
        operation.name = *known.entry(name).or_insert_with_key(|name| {
            graph.names.push(name.clone());
            graph.names.len() as u32 - 1
        });
    }
}
