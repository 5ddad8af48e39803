//! From schedules: a thread block for each peer and direction, and a step for each message.
//!
//! Consumers cut chunks into tiles and run all steps for each, so a lane is one chunk however many it has here. Steps of
//! a thread block are in schedule order, and a step waits only for earlier ones. So nothing can deadlock, even where a
//! connection holds one message.

use super::cells::buffer_size;
use super::consumers::MAX_COUNT;
use super::grid::Grid;
use super::layout::{self, ChunkLayout};
use super::model::{Algo, Buffer, ChunkPlace, MscclBlock, MscclGpu, MscclStep, StepAction, Text};
#[cfg(doc)]
use antiphon_base::error::Code;
use antiphon_base::error::Result;
use antiphon_base::units::MAX_BYTES;
use antiphon_base::watch::Watch;
use antiphon_model::collective::Kind;
use antiphon_model::schedule::{Event, Op, Schedule, TransferId};
use std::collections::HashMap;

/// Longest name that is written.
const MAX_NAME: usize = 100;
/// Where a step reads or writes nothing.
const UNUSED: ChunkPlace = ChunkPlace { buffer: Buffer::Input, offset: 0 };

/// The program of a schedule.
///
/// Complexity: O(lane transfers * dependencies).
///
/// # Errors
/// [`Code::NotApplicable`] for what the format cannot say; [`Code::TooLarge`] if it has too many chunks; [`Code::Interrupted`].
pub fn lower(schedule: &Schedule, watch: Watch) -> Result<Algo> {
    layout::check(schedule)?;
    let grid = Grid::of(schedule, watch)?;
    let mut draft = MscclDraft::new(schedule, &grid);
    for (done, id) in schedule.order().into_iter().enumerate() {
        watch.step(done, schedule.transfers.len())?;
        draft.transfer(id);
    }
    let kind = schedule.collective.kind;
    let size = |buffer| buffer_size(kind, grid.chunks, schedule.ranks, buffer).unwrap_or(0);
    let gpu = |(rank, blocks): (usize, Vec<Vec<LoweredStep>>)| {
        let mut blocks = emitted(blocks, &draft.streams[rank]);
        if kind == Kind::AllToAll {
            blocks.push(own_shard(rank as u32, grid.chunks / schedule.ranks));
        }
        MscclGpu {
            input: size(Buffer::Input),
            output: size(Buffer::Output),
            scratch: draft.layout.scratch[rank],
            blocks,
        }
    };
    let gpus = std::mem::take(&mut draft.blocks).into_iter().enumerate().map(gpu).collect();
    Ok(Algo {
        name: schedule.algorithm.chars().take(MAX_NAME).collect(),
        proto: "Simple".into(),
        channels: 1,
        chunks: grid.chunks,
        kind,
        in_place: kind != Kind::AllToAll,
        out_of_place: kind == Kind::AllToAll,
        min_bytes: 0,
        max_bytes: MAX_BYTES,
        text: Text::default(),
        gpus,
    })
}

/// A step, and the steps of the same rank that it waits for, as thread block and number.
struct LoweredStep {
    step: MscclStep,
    waits: Vec<(u32, u32)>,
}

/// Steps that used a chunk of a rank last.
#[derive(Default, Clone)]
struct ChunkUses {
    write: Option<(u32, u32)>,
    reads: Vec<(u32, u32)>,
}

/// What has been lowered.
struct MscclDraft<'a> {
    schedule: &'a Schedule,
    grid: &'a Grid,
    layout: ChunkLayout<'a>,
    /// By rank: peer of every thread block, and whether it sends.
    streams: Vec<Vec<(u32, bool)>>,
    numbers: HashMap<(u32, u32, bool), u32>,
    /// By rank and thread block.
    blocks: Vec<Vec<Vec<LoweredStep>>>,
    /// By rank and thread block: steps of every thread block that have ended when the last step here has.
    ended: Vec<Vec<Vec<Vec<u32>>>>,
    /// By rank and place.
    uses: Vec<HashMap<ChunkPlace, ChunkUses>>,
    /// The last steps of a transfer at its two ends.
    last: Vec<[Option<(u32, u32)>; 2]>,
}

impl<'a> MscclDraft<'a> {
    fn new(schedule: &'a Schedule, grid: &'a Grid) -> Self {
        let ranks = schedule.ranks as usize;
        let mut draft = MscclDraft {
            schedule,
            grid,
            layout: ChunkLayout::new(schedule, grid),
            streams: vec![vec![]; ranks],
            numbers: HashMap::new(),
            blocks: (0..ranks).map(|_| vec![]).collect(),
            ended: vec![vec![]; ranks],
            uses: vec![HashMap::new(); ranks],
            last: vec![[None; 2]; schedule.transfers.len()],
        };
        let mut streams: Vec<Vec<(u32, bool)>> = vec![vec![]; ranks];
        for transfer in &schedule.transfers {
            streams[transfer.from as usize].push((transfer.to, true));
            streams[transfer.to as usize].push((transfer.from, false));
        }
        for (rank, mut list) in streams.into_iter().enumerate() {
            list.sort_unstable_by_key(|&(peer, sends)| (peer, !sends));
            list.dedup();
            for (number, &(peer, sends)) in (0..).zip(&list) {
                draft.numbers.insert((rank as u32, peer, sends), number);
            }
            draft.blocks[rank] = list.iter().map(|_| vec![]).collect();
            draft.ended[rank] = vec![vec![]; list.len()];
            draft.streams[rank] = list;
        }
        draft
    }

    /// A step at each end for every run of chunks that lie together at both.
    fn transfer(&mut self, id: TransferId) {
        let transfer = &self.schedule.transfers[id as usize];
        let (from, to) = (transfer.from, transfer.to);
        let mut pieces: Vec<(ChunkPlace, ChunkPlace, u32)> = vec![];
        for lane in transfer.lanes() {
            for chunk in self.grid.lane(lane) {
                let (src, dst) = (self.layout.place(from, lane, chunk), self.layout.place(to, lane, chunk));
                match pieces.last_mut() {
                    Some((start, end, count))
                        if *count < MAX_COUNT
                            && (start.buffer, start.offset + *count) == (src.buffer, src.offset)
                            && (end.buffer, end.offset + *count) == (dst.buffer, dst.offset) =>
                    {
                        *count += 1;
                    }
                    _ => pieces.push((src, dst, 1)),
                }
            }
        }
        let known = |waits: &mut Vec<(u32, u32)>, list: &[antiphon_model::schedule::Dependency]| {
            for wait in list.iter().filter(|wait| wait.lag() == 0) {
                waits.extend(self.last[wait.transfer() as usize][usize::from(wait.event() == Event::Applied)]);
            }
        };
        let (mut starts, mut applies) = (vec![], vec![]);
        known(&mut starts, &transfer.start_after);
        known(&mut applies, &transfer.apply_after);
        let action = if transfer.op == Op::Reduce { StepAction::ReceiveReduceCopy } else { StepAction::Receive };
        for (src, dst, count) in pieces {
            let sends = MscclStep { action: StepAction::Send, src, dst: UNUSED, count, after: None, awaited: false };
            let receives = MscclStep { action, src: if action.reads() { dst } else { UNUSED }, dst, ..sends };
            self.last[id as usize][0] = Some(self.add(from, (to, true), sends, src, starts.clone()));
            self.last[id as usize][1] = Some(self.add(to, (from, false), receives, dst, applies.clone()));
        }
    }

    /// Adds a step on chunks from a place on. It waits for the given steps and for those that use the same chunks.
    fn add(
        &mut self,
        rank: u32,
        (peer, sends): (u32, bool),
        step: MscclStep,
        start: ChunkPlace,
        mut waits: Vec<(u32, u32)>,
    ) -> (u32, u32) {
        let tb = self.numbers[&(rank, peer, sends)];
        let rank = rank as usize;
        let own = (tb, self.blocks[rank][tb as usize].len() as u32);
        for offset in 0..step.count {
            let place = ChunkPlace { offset: start.offset + offset, ..start };
            let uses = self.uses[rank].entry(place).or_default();
            match sends {
                true => {
                    waits.extend(uses.write);
                    uses.reads.retain(|read| read.0 != tb);
                    uses.reads.push(own);
                }
                false => {
                    if uses.reads.is_empty() {
                        waits.extend(uses.write);
                    }
                    waits.append(&mut uses.reads);
                    uses.write = Some(own);
                }
            }
        }
        let blocks = self.streams[rank].len();
        let mut ended = std::mem::take(&mut self.ended[rank][tb as usize].last().cloned().unwrap_or_default());
        ended.resize(blocks, 0);
        ended[tb as usize] = own.1;
        // The latest first: they may have waited for the others.
        waits.sort_unstable();
        waits.dedup();
        let reach = |&(tb, at): &(u32, u32)| self.ended[rank][tb as usize][at as usize].iter().sum::<u32>();
        waits.sort_by_key(|wait| std::cmp::Reverse(reach(wait)));
        waits.retain(|&(other, at)| {
            let needed = ended[other as usize] <= at;
            if needed {
                let others = &self.ended[rank][other as usize][at as usize];
                ended.iter_mut().zip(others).for_each(|(own, other)| *own = (*own).max(*other));
            }
            needed
        });
        ended[tb as usize] = own.1 + 1;
        self.ended[rank][tb as usize].push(ended);
        self.blocks[rank][tb as usize].push(LoweredStep { step, waits });
        own
    }
}

/// Thread blocks with a nop for every wait of a step but the last, and steps that know who waits for them.
fn emitted(blocks: Vec<Vec<LoweredStep>>, streams: &[(u32, bool)]) -> Vec<MscclBlock> {
    let mut awaited: Vec<Vec<bool>> = blocks.iter().map(|block| vec![false; block.len()]).collect();
    for &(tb, at) in blocks.iter().flatten().flat_map(|node| &node.waits) {
        awaited[tb as usize][at as usize] = true;
    }
    // Numbers of steps with the nops before them.
    let number = |block: &Vec<LoweredStep>| {
        let mut next = 0;
        block.iter().map(|node| (next += node.waits.len().max(1) as u32, next - 1).1).collect()
    };
    let numbers: Vec<Vec<u32>> = blocks.iter().map(number).collect();
    let after = |&(tb, at): &(u32, u32)| Some((tb, numbers[tb as usize][at as usize]));
    let nop = MscclStep { action: StepAction::Nop, src: UNUSED, dst: UNUSED, count: 0, after: None, awaited: false };
    let block = |(tb, nodes): (usize, &Vec<LoweredStep>)| {
        let mut steps = vec![];
        for (at, node) in nodes.iter().enumerate() {
            let (last, others) = match node.waits.split_last() {
                Some((last, others)) => (after(last), others),
                None => (None, &[][..]),
            };
            steps.extend(others.iter().map(|wait| MscclStep { after: after(wait), ..nop }));
            steps.push(MscclStep { after: last, awaited: awaited[tb][at], ..node.step });
        }
        let (peer, sends) = streams[tb];
        let (send, recv) = if sends { (Some(peer), None) } else { (None, Some(peer)) };
        MscclBlock { send, recv, channel: 0, steps }
    };
    blocks.iter().enumerate().map(block).collect()
}

/// Copies the shard that a rank has for itself in an all-to-all.
fn own_shard(rank: u32, shard: u32) -> MscclBlock {
    let pieces = (0..shard).step_by(MAX_COUNT as usize);
    let step = |first: u32| {
        let offset = rank * shard + first;
        let (src, dst) = (ChunkPlace { buffer: Buffer::Input, offset }, ChunkPlace { buffer: Buffer::Output, offset });
        MscclStep {
            action: StepAction::Copy,
            src,
            dst,
            count: MAX_COUNT.min(shard - first),
            after: None,
            awaited: false,
        }
    };
    MscclBlock { send: None, recv: None, channel: 0, steps: pieces.map(step).collect() }
}
