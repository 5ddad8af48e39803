//! From schedules: a thread block for each peer and direction, and a step for each message.
//!
//! Consumers cut chunks into tiles and run all steps for each, so a lane is one chunk however many it has here. Steps of
//! a thread block are in schedule order, and a step waits only for earlier ones. So nothing can deadlock, even where a
//! connection holds one message. Instances are the same program several times, each for a part of every shard.

use super::cells::buffer_size;
use super::consumers::{MAX_COUNT, MAX_OFFSET};
use super::grid::ChunkGrid;
use super::layout::{self, ChunkLayout};
use super::model::{Algo, Buffer, ChunkPlace, MscclBlock, MscclGpu, MscclStep, StepAction, Text};
use crate::fail;
use antiphon_base::error::{Code, Result, nearest};
use antiphon_base::units::{Bytes, MAX_BYTES, clip};
use antiphon_base::watch::Watch;
use antiphon_model::collective::Kind;
use antiphon_model::schedule::{Event, Op, Schedule, Transfer, TransferId};
use std::collections::HashMap;

/// Longest name that is written.
const MAX_NAME: usize = 100;
/// Where a step reads or writes nothing.
const UNUSED: ChunkPlace = ChunkPlace { buffer: Buffer::Input, offset: 0 };

/// What a program says beside a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MscclOptions {
    /// Copies of the program, each on channels of its own for its part of the data.
    pub instances: u32,
    /// Channels of a copy: its lanes are dealt to them.
    pub channels: u32,
    /// One of [`MscclOptions::PROTOCOLS`].
    pub protocol: String,
    /// Smallest size that it is for.
    pub min_bytes: Bytes,
    /// Largest size that it is for.
    pub max_bytes: Bytes,
}

impl Default for MscclOptions {
    fn default() -> Self {
        let protocol = MscclOptions::PROTOCOLS[0].into();
        MscclOptions { instances: 1, channels: 1, protocol, min_bytes: 0, max_bytes: MAX_BYTES }
    }
}

impl MscclOptions {
    /// Those of consumers.
    pub const PROTOCOLS: [&str; 3] = ["Simple", "LL", "LL128"];
    /// Most channels of a consumer.
    const MOST: u32 = 128;

    /// # Errors
    /// [`Code::UnknownName`] for the protocol, [`Code::BadSize`].
    fn check(&self) -> Result<()> {
        if !MscclOptions::PROTOCOLS.contains(&&*self.protocol) {
            let near = nearest(&self.protocol, MscclOptions::PROTOCOLS);
            let (given, known) = (clip(&self.protocol), MscclOptions::PROTOCOLS.join(", "));
            return fail(Code::UnknownName, format!("no protocol '{given}'{near}; known: {known}"));
        }
        for (what, count) in [("instances", self.instances), ("channels", self.channels)] {
            if !(1..=MscclOptions::MOST).contains(&count) {
                return fail(Code::BadSize, format!("{what}={count}; expected 1 to {}", MscclOptions::MOST));
            }
        }
        if self.min_bytes > self.max_bytes || self.max_bytes > MAX_BYTES || self.max_bytes == 0 {
            let what =
                format!("sizes from {} to {} bytes; expected a range up to 1 PiB", self.min_bytes, self.max_bytes);
            return fail(Code::BadSize, what);
        }
        Ok(())
    }
}

/// The program of a schedule.
///
/// Complexity: O(lane transfers * dependencies * instances).
///
/// # Errors
/// [`Code::NotApplicable`] for what the format cannot say; [`Code::TooLarge`] if it has too many chunks; [`Code::UnknownName`] for
/// the protocol, [`Code::BadSize`] for other options; [`Code::Interrupted`].
pub fn lower(schedule: &Schedule, options: &MscclOptions, watch: Watch) -> Result<Algo> {
    options.check()?;
    layout::check(schedule)?;
    let grid = ChunkGrid::of(schedule, watch)?;
    let MscclOptions { instances, channels, .. } = *options;
    let chunks = grid.chunks * instances;
    if chunks > MAX_OFFSET + 1 {
        let what =
            format!("{} chunks in each of {instances} instances, at most {} are numbered", grid.chunks, MAX_OFFSET + 1);
        return fail(Code::TooLarge, what);
    }
    let (kind, order) = (schedule.collective.kind, schedule.order());
    let size = |buffer| buffer_size(kind, chunks, schedule.ranks, buffer).unwrap_or(0);
    let (input, output) = (size(Buffer::Input), size(Buffer::Output));
    let mut gpus = vec![MscclGpu { input, output, scratch: 0, blocks: vec![] }; schedule.ranks as usize];
    for instance in 0..instances {
        let mut draft = MscclDraft::new(schedule, &grid, (instance, options));
        for (done, &id) in order.iter().enumerate() {
            watch.step(done, schedule.transfers.len())?;
            draft.transfer(id);
        }
        for (rank, (gpu, blocks)) in gpus.iter_mut().zip(std::mem::take(&mut draft.blocks)).enumerate() {
            gpu.scratch += draft.layout.scratch[rank];
            let first = gpu.blocks.len() as u32;
            gpu.blocks.extend(emitted(blocks, &draft.streams[rank], first));
            gpu.blocks[first as usize..].iter_mut().for_each(|block| block.channel += instance * channels);
        }
    }
    if kind == Kind::AllToAll {
        (0..).zip(&mut gpus).for_each(|(rank, gpu)| gpu.blocks.push(own_shard(rank, chunks / schedule.ranks)));
    }
    Ok(Algo {
        name: schedule.algorithm.chars().take(MAX_NAME).collect(),
        proto: options.protocol.clone(),
        channels: instances * channels,
        chunks,
        kind,
        in_place: kind != Kind::AllToAll,
        out_of_place: kind == Kind::AllToAll,
        min_bytes: options.min_bytes,
        max_bytes: options.max_bytes,
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

/// What a thread block does: peer, whether it sends, and the channel.
type MscclStream = (u32, bool, u32);

/// What has been lowered.
struct MscclDraft<'a> {
    schedule: &'a Schedule,
    grid: &'a ChunkGrid,
    layout: ChunkLayout<'a>,
    /// Of how many it is which.
    instance: u32,
    options: &'a MscclOptions,
    /// By rank: peer of every thread block, whether it sends, and the channel.
    streams: Vec<Vec<MscclStream>>,
    numbers: HashMap<(u32, MscclStream), u32>,
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
    fn new(schedule: &'a Schedule, grid: &'a ChunkGrid, (instance, options): (u32, &'a MscclOptions)) -> Self {
        let ranks = schedule.ranks as usize;
        let mut draft = MscclDraft {
            schedule,
            grid,
            layout: ChunkLayout::new(schedule, grid),
            instance,
            options,
            streams: vec![vec![]; ranks],
            numbers: HashMap::new(),
            blocks: (0..ranks).map(|_| vec![]).collect(),
            ended: vec![vec![]; ranks],
            uses: vec![HashMap::new(); ranks],
            last: vec![[None; 2]; schedule.transfers.len()],
        };
        let mut streams: Vec<Vec<MscclStream>> = vec![vec![]; ranks];
        for transfer in &schedule.transfers {
            let channel = draft.channel(transfer);
            streams[transfer.from as usize].push((transfer.to, true, channel));
            streams[transfer.to as usize].push((transfer.from, false, channel));
        }
        for (rank, mut list) in streams.into_iter().enumerate() {
            list.sort_unstable_by_key(|&(peer, sends, channel)| (channel, peer, !sends));
            list.dedup();
            draft.numbers.extend((0..).zip(&list).map(|(number, &stream)| ((rank as u32, stream), number)));
            draft.blocks[rank] = list.iter().map(|_| vec![]).collect();
            draft.ended[rank] = vec![vec![]; list.len()];
            draft.streams[rank] = list;
        }
        draft
    }

    /// Channel of a transfer, in its instance: that to which its first lane is dealt.
    fn channel(&self, transfer: &Transfer) -> u32 {
        transfer.lanes().next().unwrap_or(0) as u32 % self.options.channels
    }

    /// Where a rank keeps a chunk of a lane: every shard, and the scratch, has a part for each instance.
    fn place(&self, rank: u32, lane: usize, chunk: u32) -> ChunkPlace {
        let ChunkPlace { buffer, offset } = self.layout.place(rank, lane, chunk);
        let shards = match self.schedule.collective.kind {
            Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll => self.schedule.ranks,
            _ => 1,
        };
        let part = match buffer {
            Buffer::Scratch => self.layout.scratch[rank as usize],
            _ => self.grid.chunks / shards,
        };
        let first = (offset / part * self.options.instances + self.instance) * part;
        ChunkPlace { buffer, offset: first + offset % part }
    }

    /// A step at each end for every run of chunks that lie together at both.
    fn transfer(&mut self, id: TransferId) {
        let transfer = &self.schedule.transfers[id as usize];
        let (from, to) = (transfer.from, transfer.to);
        let mut pieces: Vec<(ChunkPlace, ChunkPlace, u32)> = vec![];
        for lane in transfer.lanes() {
            for chunk in self.grid.lane(lane) {
                let (src, dst) = (self.place(from, lane, chunk), self.place(to, lane, chunk));
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
        let channel = self.channel(transfer);
        let action = if transfer.op == Op::Reduce { StepAction::ReceiveReduceCopy } else { StepAction::Receive };
        for (src, dst, count) in pieces {
            let sends = MscclStep { action: StepAction::Send, src, dst: UNUSED, count, after: None, awaited: false };
            let receives = MscclStep { action, src: if action.reads() { dst } else { UNUSED }, dst, ..sends };
            self.last[id as usize][0] = Some(self.add(from, (to, true, channel), sends, src, starts.clone()));
            self.last[id as usize][1] = Some(self.add(to, (from, false, channel), receives, dst, applies.clone()));
        }
    }

    /// Adds a step on chunks from a place on. It waits for the given steps and for those that use the same chunks.
    fn add(
        &mut self,
        rank: u32,
        stream: MscclStream,
        step: MscclStep,
        start: ChunkPlace,
        mut waits: Vec<(u32, u32)>,
    ) -> (u32, u32) {
        let (tb, (_, sends, _)) = (self.numbers[&(rank, stream)], stream);
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

/// Thread blocks, numbered from `first` on, with a nop for every wait of a step but the last, and steps that know who waits for them.
fn emitted(blocks: Vec<Vec<LoweredStep>>, streams: &[MscclStream], first: u32) -> Vec<MscclBlock> {
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
    let after = |&(tb, at): &(u32, u32)| Some((first + tb, numbers[tb as usize][at as usize]));
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
        let (peer, sends, channel) = streams[tb];
        let (send, recv) = if sends { (Some(peer), None) } else { (None, Some(peer)) };
        MscclBlock { send, recv, channel, steps }
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
