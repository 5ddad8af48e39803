//! Graphs as traces.

use super::frames::push;
use super::model::{Attribute, ChakraNode, Metadata, NodeType};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Picos;
use antiphon_base::watch::interruptible;
use antiphon_jobs::graph::{ExchangeKind, JobExchange, JobGraph, OperationKind, RankGraph, Resource};
use antiphon_model::collective::Kind;

/// Version of the schema that is written, as Chakra's own tools write it.
const VERSION: &str = "0.0.4";

/// The trace of a rank. Durations are there twice: `duration_micros`, rounded, and exactly as an attribute of our own,
/// `duration_picos`. O(nodes + dependencies).
///
/// # Errors
/// [`Code::NotApplicable`] for what Chakra cannot say: parts of an exchange that are waited for, computation that takes
/// longer beside exchanges, an AllGather of ranks with parts of different sizes.
pub fn write(graph: &JobGraph, rank: u32) -> Result<Vec<u8>> {
    let of_rank = &graph.ranks[rank as usize];
    check(of_rank)?;
    let mut out = Vec::new();
    push(&mut out, &Metadata { version: VERSION.into() });
    for (number, of) in (0..).zip(interruptible(&of_rank.operations)) {
        let mut node = ChakraNode {
            id: u64::from(number),
            name: graph.names[of.name as usize].clone(),
            data_deps: of_rank.after(number).iter().map(|&other| other.into()).collect(),
            attributes: vec![Attribute::bool(
                "is_cpu_op",
                matches!(of.kind, OperationKind::Compute { resource: Resource::Host, .. }),
            )],
            ..ChakraNode::default()
        };
        match of.kind {
            OperationKind::Nothing | OperationKind::Arrival { .. } => node.kind = NodeType::Metadata as i32,
            OperationKind::Compute { time_ps, resource, .. } => compute(&mut node, time_ps, resource),
            OperationKind::Exchange(id) => exchange(&mut node, graph, &graph.exchanges[id as usize], NodeType::Send)?,
            OperationKind::Receive(id) => exchange(&mut node, graph, &graph.exchanges[id as usize], NodeType::Receive)?,
        }
        push(&mut out, &node);
    }
    Ok(out)
}

fn check(of_rank: &RankGraph) -> Result<()> {
    let any = |is_one: fn(OperationKind) -> bool| of_rank.operations.iter().any(|operation| is_one(operation.kind));
    let what = if any(|kind| matches!(kind, OperationKind::Arrival { .. })) {
        "a trace cannot say that a layer waits for a part of an exchange; use overlap none or layerwise"
    } else if any(|kind| matches!(kind, OperationKind::Compute { time_ps, beside_ps, .. } if time_ps != beside_ps)) {
        "a trace cannot say that exchanges slow computation down; use contention static or endpoint ideal"
    } else {
        return Ok(());
    };
    Err(Error::new(Code::NotApplicable, what))
}

/// The groups that the traces name, in JSON as ASTRA-sim takes them: `{"1": [0, 1], ...}`; `None` if all exchanges are of
/// all ranks.
pub fn groups(graph: &JobGraph) -> Option<String> {
    let named: serde_json::Map<String, serde_json::Value> =
        graph.groups.iter().skip(1).map(|group| (group.name.clone(), group.ranks.clone().into())).collect();
    (!named.is_empty()).then(|| serde_json::Value::from(named).to_string() + "\n")
}

fn compute(node: &mut ChakraNode, time_ps: Picos, resource: Resource) {
    node.kind = match resource {
        Resource::Memory => NodeType::MemoryLoad as i32,
        Resource::Host | Resource::Stream(_) => NodeType::Compute as i32,
    };
    node.duration_micros = (time_ps + 500_000) / 1_000_000;
    node.attributes.push(Attribute::int64("duration_picos", time_ps));
    if let Resource::Stream(stream @ 1..) = resource {
        node.attributes.push(Attribute::int64("stream", stream.into()));
    }
}

fn exchange(node: &mut ChakraNode, graph: &JobGraph, exchange: &JobExchange, end: NodeType) -> Result<()> {
    let JobExchange { kind, bytes, group, priority, .. } = *exchange;
    let mut add = |attribute| node.attributes.push(attribute);
    if priority > 0 {
        add(Attribute::int32("comm_priority", priority));
    }
    match kind {
        ExchangeKind::Message { from, to, tag } => {
            node.kind = end as i32;
            add(Attribute::int64("comm_size", bytes));
            add(Attribute::int32("comm_src", from));
            add(Attribute::int32("comm_dst", to));
            add(Attribute::int32("comm_tag", tag));
        }
        ExchangeKind::Barrier | ExchangeKind::Collective(_) => {
            let of = &graph.groups[group as usize];
            let (number, size) = match kind {
                ExchangeKind::Collective(collective) => {
                    if collective.root != 0 {
                        let what = format!(
                            "{}: Chakra says no root; only the first rank can be it",
                            graph.described(exchange)
                        );
                        return Err(Error::new(Code::NotApplicable, what));
                    }
                    let parts = if collective.kind == Kind::AllGather { of.ranks.len() as u64 } else { 1 };
                    if !bytes.is_multiple_of(parts) {
                        let what = format!(
                            "{} of {bytes} bytes: its {parts} ranks have parts of different sizes, of which Chakra says one",
                            graph.described(exchange)
                        );
                        return Err(Error::new(Code::NotApplicable, what));
                    }
                    (number(collective.kind), bytes / parts)
                }
                _ => (9, 0),
            };
            node.kind = NodeType::Collective as i32;
            add(Attribute::int64("comm_type", number));
            add(Attribute::int64("comm_size", size));
            if !of.name.is_empty() {
                add(Attribute::text("pg_name", &of.name));
            }
        }
    }
    Ok(())
}

/// Chakra's number of a kind.
fn number(kind: Kind) -> u64 {
    match kind {
        Kind::AllReduce => 0,
        Kind::Reduce => 1,
        Kind::AllGather => 2,
        Kind::Broadcast => 5,
        Kind::AllToAll => 6,
        Kind::ReduceScatter => 7,
    }
}
