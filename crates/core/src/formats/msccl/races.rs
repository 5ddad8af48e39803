//! No race: of two steps that use a chunk, one of them changing it, one is certain to end before the other begins.

use super::cells::Cells;
use super::graph::{Graph, NodeId, wrong};
use super::interpret::Access;
use crate::error::Result;
use std::collections::{BTreeMap, HashMap};

/// Thread blocks whose steps are followed at once.
const COLUMNS: usize = 8;

/// Checks accesses, which are in the order of `order`.
///
/// Order is transitive, so an access is compared with the nearest that conflict with it: a write with the reads since the last
/// write, or with that; a read with the last write.
///
/// # Errors
/// [`crate::error::Code::NotProven`], naming the two steps and the chunk.
pub fn check(graph: &Graph, cells: &Cells, order: &[NodeId], accesses: &[Access]) -> Result<()> {
    let mut by_cell: Vec<&Access> = accesses.iter().collect();
    by_cell.sort_by_key(|access| access.cell);
    // By GPU: pairs of steps of different thread blocks, with a chunk that both use.
    let mut open: BTreeMap<u32, BTreeMap<(NodeId, NodeId), u32>> = BTreeMap::new();
    for list in by_cell.chunk_by(|a, b| a.cell == b.cell) {
        let mut pair = |first: NodeId, second: NodeId, cell: u32| {
            let (a, b) = (graph.owner[first as usize], graph.owner[second as usize]);
            if a != b {
                open.entry(a.0).or_default().entry((first, second)).or_insert(cell);
            }
        };
        let mut write: Option<NodeId> = None;
        let mut reads: Vec<NodeId> = vec![];
        for access in list {
            match access.writes {
                true if !reads.is_empty() => reads.drain(..).for_each(|read| pair(read, access.node, access.cell)),
                _ => write.into_iter().for_each(|write| pair(write, access.node, access.cell)),
            }
            if access.writes {
                write = Some(access.node);
            } else {
                let block = graph.owner[access.node as usize];
                reads.retain(|&read| graph.owner[read as usize] != block);
                reads.push(access.node);
            }
        }
    }
    let mut position = vec![0u32; order.len()];
    (0..).zip(order).for_each(|(at, &node)| position[node as usize] = at);
    let mut of_gpu: Vec<Vec<NodeId>> = vec![vec![]; graph.first.len()];
    order.iter().for_each(|&node| of_gpu[graph.owner[node as usize].0 as usize].push(node));
    for (gpu, mut pairs) in open {
        keep_unordered_here(graph, gpu, &of_gpu[gpu as usize], &mut pairs);
        keep_unordered(graph, order, &position, &mut pairs);
        if let Some((&(first, second), &cell)) = pairs.iter().min_by_key(|&(&(_, second), _)| position[second as usize])
        {
            let (a, b) = (graph.name(first), graph.name(second));
            let place = cells.place(cell as usize).1;
            let (buffer, offset) = (place.buffer.letter(), place.offset);
            return wrong(format!("race: {a} and {b} use {buffer}[{offset}] in no order"));
        }
    }
    Ok(())
}

/// Leaves only pairs that the waits of their own GPU, whose steps are given, do not order.
fn keep_unordered_here(graph: &Graph, gpu: u32, order: &[NodeId], pairs: &mut BTreeMap<(NodeId, NodeId), u32>) {
    let first = &graph.first[gpu as usize];
    let Some(&start) = first.first() else { return };
    let blocks = first.len();
    let steps = order.len();
    // Steps of each thread block that have ended when a step has.
    let mut ended = vec![0u32; steps * blocks];
    for &node in order {
        let at = (node - start) as usize * blocks;
        for earlier in graph.local(node) {
            let from = (earlier - start) as usize * blocks;
            for column in 0..blocks {
                ended[at + column] = ended[at + column].max(ended[from + column]);
            }
        }
        ended[at + graph.owner[node as usize].1 as usize] = graph.index(node) + 1;
    }
    pairs.retain(|&(a, b), _| {
        let block = graph.owner[a as usize].1 as usize;
        ended[(b - start) as usize * blocks + block] <= graph.index(a)
    });
}

/// Leaves only pairs of a GPU that nothing orders.
fn keep_unordered(graph: &Graph, order: &[NodeId], position: &[u32], pairs: &mut BTreeMap<(NodeId, NodeId), u32>) {
    let mut blocks: Vec<(u32, u32)> = pairs.keys().map(|&(first, _)| graph.owner[first as usize]).collect();
    blocks.sort_unstable();
    blocks.dedup();
    for some in blocks.chunks(COLUMNS) {
        let columns: HashMap<(u32, u32), usize> = some.iter().enumerate().map(|(at, &block)| (block, at)).collect();
        let of_some = |&&(first, _): &&(NodeId, NodeId)| columns.contains_key(&graph.owner[first as usize]);
        let bounds = pairs.keys().filter(of_some).map(|&(a, b)| (position[a as usize], position[b as usize]));
        let (from, to) = bounds.fold((u32::MAX, 0), |(from, to), (a, b)| (from.min(a), to.max(b)));
        if from > to {
            continue;
        }
        let mut ended = vec![[0u32; COLUMNS]; (to - from + 1) as usize];
        for at in from..=to {
            let node = order[at as usize];
            let mut own = [0u32; COLUMNS];
            for earlier in graph.all_before(node) {
                let earlier = position[earlier as usize];
                if earlier >= from {
                    let other = ended[(earlier - from) as usize];
                    own.iter_mut().zip(other).for_each(|(own, other)| *own = (*own).max(other));
                }
            }
            if let Some(&column) = columns.get(&graph.owner[node as usize]) {
                own[column] = graph.index(node) + 1;
            }
            ended[(at - from) as usize] = own;
        }
        pairs.retain(|&(first, second), _| match columns.get(&graph.owner[first as usize]) {
            Some(&column) => ended[(position[second as usize] - from) as usize][column] <= graph.index(first),
            None => true,
        });
    }
}
