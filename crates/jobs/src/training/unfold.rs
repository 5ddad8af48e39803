//! A plan as what each rank does, for those who run ranks and not iterations.

use super::plan::{Plan, Work};
use crate::replay::{self, Exchange, Graph, Group, Lane, What};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::watch::interruptible;
use antiphon_model::collective::Collective;
use antiphon_model::workload::Pass;
use std::collections::{BTreeMap, HashMap};

/// What each of `ranks` ranks does in a plan of layers with `names` that are divided over `divided` neighbours: what
/// passes exchange goes on among these, gradients among the ranks with the same part. The aggregation is a node at the end.
/// O(ranks * operations).
///
/// # Errors
/// [`Code::NotApplicable`] for plans in which layers wait for a part of an exchange, or computation takes longer beside
/// exchanges; neither can be said node by node. [`Code::TooLarge`].
///
/// # Panics
/// If `divided` is no divisor of `ranks`.
pub fn unfold(plan: &Plan, names: &[&str], ranks: u32, divided: u32) -> Result<Graph> {
    assert!(divided > 0 && ranks.is_multiple_of(divided), "{divided} of {ranks}");
    let refuse = |what: &str| Err(Error::new(Code::NotApplicable, what));
    if plan.parts.iter().any(|parts| !parts.is_empty()) {
        return refuse(
            "a trace cannot say that a layer waits for a part of an exchange; use overlap none or layerwise",
        );
    }
    let slower = |work| matches!(work, Work::Compute { time_ps, beside_ps, .. } if time_ps != beside_ps);
    if plan.operations.iter().any(|operation| slower(operation.work)) {
        return refuse(
            "a trace cannot say that exchanges slow computation down; use contention static or endpoint ideal",
        );
    }
    let waits: usize = plan.operations.iter().map(|operation| operation.after.len() + 1).sum();
    let (nodes, dependencies) = (ranks as usize * (plan.operations.len() + 1), ranks as usize * 2 * waits);
    if nodes > replay::MAX_NODES || dependencies > replay::MAX_DEPENDENCIES {
        let what =
            format!("{ranks} traces of {} nodes (at most {} together)", plan.operations.len(), replay::MAX_NODES);
        return Err(Error::new(Code::TooLarge, what));
    }
    let mut graph = Graph::new(ranks);
    let named = name_all(&mut graph, plan, names);
    let mut groups: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    let mut exchanges: BTreeMap<(u32, usize), u32> = BTreeMap::new();
    for rank in 0..ranks {
        let mut program = replay::Program::default();
        let mut last: BTreeMap<u8, u32> = BTreeMap::new();
        for ((node, operation), &name) in (0..).zip(interruptible(&plan.operations)).zip(&named) {
            let mut after: Vec<u32> = operation.after.iter().map(|&other| other as u32).collect();
            let work = match operation.work {
                Work::Compute { time_ps, stream, .. } => {
                    // Streams keep the order of the plan.
                    after.extend(last.insert(stream, node));
                    replay::Work::Compute { time_ps, lane: Lane::Stream(stream.into()) }
                }
                Work::Exchange(id) => {
                    let group = match (divided, operation.pass) {
                        (1, _) => 0,
                        (_, Pass::WeightGradient) => {
                            let part = rank % divided;
                            group(&mut graph, &mut groups, (1, part), (part..ranks).step_by(divided as usize))
                        }
                        _ => {
                            let first = rank - rank % divided;
                            group(&mut graph, &mut groups, (0, first), first..first + divided)
                        }
                    };
                    let exchange = &plan.exchanges[id];
                    let what = What::Collective(Collective::new(exchange.kind));
                    let number = *exchanges.entry((group, id)).or_insert_with(|| {
                        let (bytes, priority) = (exchange.bytes, plan.priorities[id]);
                        graph.exchanges.push(Exchange { name, what, bytes, group, priority });
                        graph.exchanges.len() as u32 - 1
                    });
                    replay::Work::Exchange(number)
                }
                Work::Arrival(_) => replay::Work::Nothing,
            };
            after.sort_unstable();
            after.dedup();
            program.push(name, work, &after);
        }
        if plan.aggregation > 0 {
            let mut awaited = vec![false; program.nodes.len()];
            program.after.iter().for_each(|&other| awaited[other as usize] = true);
            let ends: Vec<u32> = (0..awaited.len() as u32).filter(|&node| !awaited[node as usize]).collect();
            let work = replay::Work::Compute { time_ps: plan.aggregation, lane: Lane::Stream(0) };
            program.push(named[plan.operations.len()], work, &ends);
        }
        graph.programs[rank as usize] = program;
    }
    graph.check()?;
    Ok(graph)
}

/// Names operations, and then the aggregation; returns the number of each name.
fn name_all(graph: &mut Graph, plan: &Plan, layers: &[&str]) -> Vec<u32> {
    let layer = |at: usize| layers.get(at).copied().unwrap_or("layer");
    let of = plan.operations.iter().map(|operation| {
        let (first, last) = operation.layers;
        let of = if first == last { layer(first).into() } else { format!("{} to {}", layer(first), layer(last)) };
        let what = match operation.work {
            Work::Exchange(id) => format!(" {}", plan.exchanges[id].kind.name()),
            Work::Compute { .. } | Work::Arrival(_) => String::new(),
        };
        format!("{of} {}{what}", operation.pass.name())
    });
    let mut known = HashMap::new();
    let aggregation = (plan.aggregation > 0).then(|| "aggregation".to_string());
    let number = |name: String| {
        *known.entry(name).or_insert_with_key(|name| {
            graph.names.push(name.clone());
            graph.names.len() as u32 - 1
        })
    };
    of.chain(aggregation).map(number).collect()
}

/// The number of a group, by what its ranks share.
fn group(
    graph: &mut Graph,
    known: &mut BTreeMap<(u32, u32), u32>,
    shared: (u32, u32),
    ranks: impl Iterator<Item = u32>,
) -> u32 {
    *known.entry(shared).or_insert_with(|| {
        let number = graph.groups.len() as u32;
        graph.groups.push(Group { name: number.to_string(), ranks: ranks.collect() });
        number
    })
}
