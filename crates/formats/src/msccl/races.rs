//! No race: of two steps that use a chunk, one of them changing it, one is certain to end before the other begins.

use super::cells::Cells;
use super::graph::{StepGraph, StepId, wrong};
use super::interpret::CellAccess;
use antiphon_base::error::Result;
use antiphon_base::watch::Watch;
use std::collections::{BTreeMap, HashMap};

/// Thread blocks whose steps are followed at once.
const COLUMNS: usize = 8;

/// Checks accesses, which are in the order of `order`.
///
/// Order is transitive, so an access is compared with the nearest that conflict with it: a write with the reads since the last
/// write, or with that; a read with the last write.
///
/// # Errors
/// [`antiphon_base::error::Code::NotProven`], naming the two steps and the chunk; [`antiphon_base::error::Code::Interrupted`].
pub fn check(graph: &StepGraph, cells: &Cells, order: &[StepId], accesses: &[CellAccess]) -> Result<()> {
    let by_cell = by_cell(accesses, cells, graph.watch)?;
    // By GPU: pairs of steps of different thread blocks, with a chunk that both use.
    let mut open: BTreeMap<u32, BTreeMap<(StepId, StepId), u32>> = BTreeMap::new();
    for (done, list) in by_cell.chunk_by(|a, b| a.cell == b.cell).enumerate() {
        graph.watch.at(done, cells.count() as usize)?;
        let mut pair = |first: StepId, second: StepId, cell: u32| {
            let (a, b) = (graph.owner[first as usize], graph.owner[second as usize]);
            if a != b {
                open.entry(a.0).or_default().entry((first, second)).or_insert(cell);
            }
        };
        let mut write: Option<StepId> = None;
        let mut reads: Vec<StepId> = vec![];
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
    let islands = Islands::of(graph, order)?;
    for (gpu, pairs) in open {
        let mut by_island: BTreeMap<u32, BTreeMap<(StepId, StepId), u32>> = BTreeMap::new();
        for ((first, second), cell) in pairs {
            by_island.entry(islands.of_step(graph, second)).or_default().insert((first, second), cell);
        }
        for (island, pairs) in &mut by_island {
            keep_unordered_here(graph, &islands, gpu, *island, pairs)?;
            keep_unordered(graph, &islands, *island, pairs)?;
        }
        let unordered = by_island.values().flatten();
        if let Some((&(first, second), &cell)) = unordered.min_by_key(|&(&(_, second), _)| position[second as usize]) {
            let (a, b) = (graph.name(first), graph.name(second));
            let (place, why) = (graph.place(cells.place(cell as usize).1), graph.unordered(first, second));
            return wrong(format!("race: {a} and {b} use {place} in no order{why}"));
        }
    }
    Ok(())
}

/// Accesses by their cells, those of a cell in the same order as before.
fn by_cell<'a>(accesses: &'a [CellAccess], cells: &Cells, watch: Watch) -> Result<Vec<&'a CellAccess>> {
    let Some(any) = accesses.first() else { return Ok(vec![]) };
    let mut next = vec![0usize; cells.count() as usize + 1];
    accesses.iter().for_each(|access| next[access.cell as usize + 1] += 1);
    (0..cells.count() as usize).for_each(|cell| next[cell + 1] += next[cell]);
    let mut sorted = vec![any; accesses.len()];
    for (at, access) in accesses.iter().enumerate() {
        watch.at(at, accesses.len())?;
        let place = &mut next[access.cell as usize];
        sorted[*place] = access;
        *place += 1;
    }
    Ok(sorted)
}

/// Thread blocks that wait for each other, directly or over others. Nothing orders steps of different islands, so the
/// order of two steps is searched on their island alone.
struct Islands {
    /// By GPU and thread block: its island, and its number among the blocks of its GPU there.
    of_block: Vec<Vec<(u32, u32)>>,
    /// Steps of each, in order.
    steps: Vec<Vec<StepId>>,
    /// By step: its place among those.
    place: Vec<u32>,
    /// By GPU and island: its steps and the number of its blocks there.
    here: HashMap<(u32, u32), (Vec<StepId>, usize)>,
}

impl Islands {
    fn of(graph: &StepGraph, order: &[StepId]) -> Result<Islands> {
        // Blocks are numbered through.
        let mut start = vec![0usize];
        start.extend(graph.first.iter().scan(0, |sum, blocks| {
            *sum += blocks.len();
            Some(*sum)
        }));
        let number = |(gpu, tb): (u32, u32)| start[gpu as usize] + tb as usize;
        let mut parent: Vec<usize> = (0..start[graph.first.len()]).collect();
        fn root(parent: &mut [usize], mut block: usize) -> usize {
            while parent[block] != block {
                parent[block] = parent[parent[block]];
                block = parent[block];
            }
            block
        }
        for (at, &node) in order.iter().enumerate() {
            graph.watch.at(at, order.len())?;
            for earlier in graph.all_before(node) {
                let (a, b) = (graph.owner[earlier as usize], graph.owner[node as usize]);
                if a != b {
                    let (a, b) = (root(&mut parent, number(a)), root(&mut parent, number(b)));
                    parent[a.max(b)] = a.min(b);
                }
            }
        }
        let mut numbers: HashMap<usize, u32> = HashMap::new();
        let mut here: HashMap<(u32, u32), (Vec<StepId>, usize)> = HashMap::new();
        let mut of_block: Vec<Vec<(u32, u32)>> = vec![];
        for (gpu, blocks) in (0..).zip(&graph.first) {
            let mut own = vec![];
            for tb in 0..blocks.len() as u32 {
                let next = numbers.len() as u32;
                let island = *numbers.entry(root(&mut parent, number((gpu, tb)))).or_insert(next);
                let blocks = &mut here.entry((gpu, island)).or_default().1;
                own.push((island, *blocks as u32));
                *blocks += 1;
            }
            of_block.push(own);
        }
        let mut steps: Vec<Vec<StepId>> = vec![vec![]; numbers.len()];
        let mut place = vec![0u32; order.len()];
        for &node in order {
            let (gpu, tb) = graph.owner[node as usize];
            let island = of_block[gpu as usize][tb as usize].0;
            place[node as usize] = steps[island as usize].len() as u32;
            steps[island as usize].push(node);
            here.entry((gpu, island)).or_default().0.push(node);
        }
        Ok(Islands { of_block, steps, place, here })
    }

    /// The island of a step.
    fn of_step(&self, graph: &StepGraph, node: StepId) -> u32 {
        self.block(graph, node).0
    }

    /// The island of a step, and the number of its block.
    fn block(&self, graph: &StepGraph, node: StepId) -> (u32, u32) {
        let (gpu, tb) = graph.owner[node as usize];
        self.of_block[gpu as usize][tb as usize]
    }
}

/// Leaves only pairs that the waits of their own GPU do not order.
fn keep_unordered_here(
    graph: &StepGraph,
    islands: &Islands,
    gpu: u32,
    island: u32,
    pairs: &mut BTreeMap<(StepId, StepId), u32>,
) -> Result<()> {
    let (steps, blocks) = &islands.here[&(gpu, island)];
    let (blocks, number): (usize, HashMap<StepId, usize>) = (*blocks, steps.iter().copied().zip(0..).collect());
    // Steps of each thread block that have ended when a step has.
    let mut ended = vec![0u32; steps.len() * blocks];
    for (at, &node) in steps.iter().enumerate() {
        graph.watch.at(at, steps.len())?;
        for earlier in graph.local(node) {
            let from = number[&earlier] * blocks;
            for column in 0..blocks {
                ended[at * blocks + column] = ended[at * blocks + column].max(ended[from + column]);
            }
        }
        ended[at * blocks + islands.block(graph, node).1 as usize] = graph.index(node) + 1;
    }
    pairs.retain(|&(a, b), _| {
        let (other, block) = islands.block(graph, a);
        other != island || ended[number[&b] * blocks + block as usize] <= graph.index(a)
    });
    Ok(())
}

/// Leaves only pairs of a GPU that nothing orders; the second of each is on the island.
fn keep_unordered(
    graph: &StepGraph,
    islands: &Islands,
    island: u32,
    pairs: &mut BTreeMap<(StepId, StepId), u32>,
) -> Result<()> {
    let (order, position) = (&islands.steps[island as usize], &islands.place);
    let here = pairs.keys().filter(|&&(first, _)| islands.of_step(graph, first) == island);
    let mut blocks: Vec<(u32, u32)> = here.map(|&(first, _)| graph.owner[first as usize]).collect();
    blocks.sort_unstable();
    blocks.dedup();
    for some in blocks.chunks(COLUMNS) {
        let columns: HashMap<(u32, u32), usize> = some.iter().enumerate().map(|(at, &block)| (block, at)).collect();
        let of_some = |&&(first, _): &&(StepId, StepId)| columns.contains_key(&graph.owner[first as usize]);
        let bounds = pairs.keys().filter(of_some).map(|&(a, b)| (position[a as usize], position[b as usize]));
        let (from, to) = bounds.fold((u32::MAX, 0), |(from, to), (a, b)| (from.min(a), to.max(b)));
        if from > to {
            continue;
        }
        let mut ended = vec![[0u32; COLUMNS]; (to - from + 1) as usize];
        for at in from..=to {
            graph.watch.at((at - from) as usize, (to - from) as usize)?;
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
    Ok(())
}
