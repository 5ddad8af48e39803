//! From schedules: a thread block for each lane and rank, since lanes need nothing of each other.
//!
//! A thread block does its rank's operations on the lane in schedule order, so every wait is for an earlier operation.
//! It begins by meeting its peers, since the run before may not be over at a peer. An addend is put to a place of its
//! own in scratch, where nothing else is put in a run.

use super::model::{
    BlockBuffers, BlockChannels, MscclppPlan, PlanBlock, PlanChannels, PlanChunks, PlanGpu, PlanOperation, RemoteBuffer,
};
use crate::msccl::{Buffer, ChunkGrid, ChunkLayout, ChunkPlace, buffer_size, check_sayable};
use antiphon_base::error::Result;
use antiphon_base::watch::Watch;
use antiphon_model::collective::Kind;
use antiphon_model::schedule::{Op, Schedule};
use std::collections::BTreeMap;

/// Longest name that is written.
const MAX_NAME: usize = 100;
/// Most operands of an operation.
const OPERANDS: usize = 8;

/// The plan of a schedule; copies go to their place at once (`direct`) or by scratch.
///
/// Complexity: O(lane transfers).
///
/// # Errors
/// [`antiphon_base::error::Code::NotApplicable`] for what the format cannot say; [`antiphon_base::error::Code::TooLarge`] if it has too many chunks;
/// [`antiphon_base::error::Code::Interrupted`].
pub fn lower(schedule: &Schedule, direct: bool, watch: Watch) -> Result<MscclppPlan> {
    check_sayable(schedule)?;
    let grid = ChunkGrid::of(schedule, watch)?;
    let layout = ChunkLayout::new(schedule, &grid);
    let kind = schedule.collective.kind;
    let mut gpus: Vec<GpuDraft> = layout.scratch.iter().map(|&scratch| GpuDraft::new(scratch)).collect();
    let mut of_lane: Vec<Vec<usize>> = vec![vec![]; schedule.lanes.len()];
    for id in schedule.order() {
        schedule.transfers[id as usize].lanes().for_each(|lane| of_lane[lane].push(id as usize));
    }
    for (lane, transfers) in of_lane.iter().enumerate() {
        watch.step(lane, of_lane.len())?;
        let chunks = grid.lane(lane);
        if chunks.is_empty() {
            continue;
        }
        let place = |rank: u32| layout.place(rank, lane, chunks.start);
        let mut operations: BTreeMap<u32, Vec<LaneOperation>> = BTreeMap::new();
        for &id in transfers {
            let transfer = &schedule.transfers[id];
            let (from, to, adds) = (transfer.from, transfer.to, transfer.op == Op::Reduce);
            let own = place(to);
            let target = if adds || !direct { gpus[to as usize].slot(chunks.len() as u32) } else { own };
            operations.entry(from).or_default().push(LaneOperation::Put { to, src: place(from), target });
            let kept = (target != own).then_some((target, adds));
            operations.entry(to).or_default().push(LaneOperation::Take { from, dst: own, kept });
        }
        for (rank, operations) in operations {
            gpus[rank as usize].block(operations, chunks.len() as u32);
        }
    }
    let size = |buffer| buffer_size(kind, grid.chunks, schedule.ranks, buffer).unwrap_or(0);
    let gpu = |(id, mut draft): (u32, GpuDraft)| {
        if kind == Kind::AllToAll {
            let size = grid.chunks / schedule.ranks;
            let own = |buffer| chunks(ChunkPlace { buffer, offset: id * size }, size);
            draft.blocks.push(BlockDraft {
                ops: vec![operation("copy", vec![own(Buffer::Input)], vec![own(Buffer::Output)])],
                ..BlockDraft::default()
            });
        }
        draft.gpu(id, size(Buffer::Input), size(Buffer::Output))
    };
    let name: String = schedule.algorithm.chars().take(MAX_NAME).collect();
    Ok(MscclppPlan {
        name,
        collective: kind.name().replace('-', ""),
        protocol: "Simple".into(),
        inplace: kind != Kind::AllToAll,
        reuse_resources: false,
        gpus: (0..).zip(gpus).map(gpu).collect(),
        num_threads_per_block: 1024,
        use_double_scratch_buffer: false,
        buffer_alignment: 16,
        min_message_size: 0,
        max_message_size: u64::MAX,
    })
}

/// One thing that a rank does with a lane.
enum LaneOperation {
    Put {
        to: u32,
        src: ChunkPlace,
        target: ChunkPlace,
    },
    Take {
        from: u32,
        dst: ChunkPlace,
        /// Where it comes first, and whether it is added.
        kept: Option<(ChunkPlace, bool)>,
    },
}

/// A GPU to be.
struct GpuDraft {
    scratch: u32,
    /// The peer of every channel.
    channels: Vec<u32>,
    remote: Vec<(u32, Buffer)>,
    blocks: Vec<BlockDraft>,
}

/// A thread block to be.
#[derive(Default)]
struct BlockDraft {
    ops: Vec<PlanOperation>,
    channels: Vec<u32>,
    remote: Vec<u32>,
}

impl GpuDraft {
    fn new(scratch: u32) -> Self {
        GpuDraft { scratch, channels: vec![], remote: vec![], blocks: vec![] }
    }

    /// A place in scratch that nothing else uses.
    fn slot(&mut self, size: u32) -> ChunkPlace {
        let offset = self.scratch;
        self.scratch += size;
        ChunkPlace { buffer: Buffer::Scratch, offset }
    }

    fn block(&mut self, operations: Vec<LaneOperation>, size: u32) {
        let mut peers: Vec<u32> = operations
            .iter()
            .map(|operation| match operation {
                LaneOperation::Put { to, .. } => *to,
                LaneOperation::Take { from, .. } => *from,
            })
            .collect();
        peers.sort_unstable();
        peers.dedup();
        let mut block = BlockDraft {
            channels: (0..peers.len() as u32).map(|at| self.channels.len() as u32 + at).collect(),
            ..BlockDraft::default()
        };
        self.channels.extend(&peers);
        let channel = |peer: u32| peers.partition_point(|&other| other < peer) as u32;
        let all: Vec<u32> = (0..peers.len() as u32).collect();
        for name in ["signal", "wait"] {
            block.ops.extend(all.chunks(OPERANDS).map(|ids| on(name, ids.to_vec())));
        }
        block.ops.push(nop());
        let mut next = 0;
        while next < operations.len() {
            next += self.group(&operations[next..], size, &mut block, channel);
        }
        self.blocks.push(block);
    }

    /// Does the first operations that can be done together; gives their number.
    fn group(
        &mut self,
        operations: &[LaneOperation],
        size: u32,
        block: &mut BlockDraft,
        channel: impl Fn(u32) -> u32,
    ) -> usize {
        match operations[0] {
            LaneOperation::Put { src, .. } => self.put(src, operations, size, block, channel),
            LaneOperation::Take { dst, kept, .. } => take((dst, kept), operations, size, block, channel),
        }
    }

    /// Puts one place to the peers of the first operations.
    fn put(
        &mut self,
        src: ChunkPlace,
        operations: &[LaneOperation],
        size: u32,
        block: &mut BlockDraft,
        channel: impl Fn(u32) -> u32,
    ) -> usize {
        let (mut ids, mut targets) = (vec![], vec![]);
        for operation in operations.iter().take(OPERANDS) {
            match *operation {
                LaneOperation::Put { to, src: other, target } if other == src && !ids.contains(&channel(to)) => {
                    ids.push(channel(to));
                    let buffer_id = Some(self.remote(block, to, target.buffer));
                    targets.push(PlanChunks { buffer_id, index: target.offset, size, ..PlanChunks::default() });
                }
                _ => break,
            }
        }
        let count = ids.len();
        let mut put = operation("put", vec![chunks(src, size); count], targets);
        put.channel_ids = ids.clone();
        put.channel_type = Some("memory".into());
        block.ops.extend([put, nop(), on("signal", ids)]);
        count
    }

    /// The number of a peer's buffer in a thread block.
    fn remote(&mut self, block: &mut BlockDraft, rank: u32, buffer: Buffer) -> u32 {
        let number = number_of(&mut self.remote, (rank, buffer));
        number_of(&mut block.remote, number)
    }

    fn gpu(self, id: u32, input: u32, output: u32) -> PlanGpu {
        let memory = || String::from("memory");
        let block = |(id, block): (u32, BlockDraft)| PlanBlock {
            id,
            ops: block.ops,
            channels: vec![BlockChannels { channel_type: memory(), channel_ids: block.channels }],
            remote_buffer_refs: vec![BlockBuffers { access_channel_type: memory(), remote_buffer_ids: block.remote }],
        };
        let remote = |(rank, buffer): (u32, Buffer)| RemoteBuffer {
            rank,
            kind: buffer.letter().into(),
            access_channel_types: vec![memory()],
        };
        PlanGpu {
            id,
            input_chunks: input,
            output_chunks: output,
            scratch_chunks: self.scratch,
            threadblocks: (0..).zip(self.blocks).map(block).collect(),
            channels: vec![PlanChannels { channel_type: memory(), connected_to: self.channels }],
            remote_buffers: self.remote.into_iter().map(remote).collect(),
            semaphores: vec![],
        }
    }
}

/// Waits for the peers of the first operations, and adds or copies what came for one place.
fn take(
    (dst, kept): (ChunkPlace, Option<(ChunkPlace, bool)>),
    operations: &[LaneOperation],
    size: u32,
    block: &mut BlockDraft,
    channel: impl Fn(u32) -> u32,
) -> usize {
    let (mut ids, mut terms) = (vec![], vec![chunks(dst, size)]);
    for operation in operations.iter().take(OPERANDS - 1) {
        match *operation {
            LaneOperation::Take { from, dst: other, kept: Some((place, true)) }
                if other == dst && kept.is_some_and(|(_, adds)| adds) && !ids.contains(&channel(from)) =>
            {
                ids.push(channel(from));
                terms.push(chunks(place, size));
            }
            LaneOperation::Take { from, .. } if ids.is_empty() => {
                ids.push(channel(from));
                break;
            }
            _ => break,
        }
    }
    let count = ids.len();
    block.ops.extend([on("wait", ids), nop()]);
    match kept {
        Some((_, true)) => {
            let mut sum = operation("re", terms, vec![chunks(dst, size)]);
            sum.reduce_op = Some("sum".into());
            block.ops.extend([sum, nop()]);
        }
        Some((place, false)) => {
            let copy = operation("copy", vec![chunks(place, size)], vec![chunks(dst, size)]);
            block.ops.extend([copy, nop()]);
        }
        None => {}
    }
    count
}

/// Where something is in a list, which then has it.
fn number_of<T: PartialEq>(list: &mut Vec<T>, item: T) -> u32 {
    let at = list.iter().position(|other| *other == item).unwrap_or(list.len());
    if at == list.len() {
        list.push(item);
    }
    at as u32
}

fn chunks(place: ChunkPlace, size: u32) -> PlanChunks {
    PlanChunks { kind: Some(place.buffer.letter().into()), index: place.offset, size, ..PlanChunks::default() }
}

fn operation(name: &str, src_buff: Vec<PlanChunks>, dst_buff: Vec<PlanChunks>) -> PlanOperation {
    PlanOperation { name: name.into(), src_buff, dst_buff, ..PlanOperation::default() }
}

fn nop() -> PlanOperation {
    operation("nop", vec![], vec![])
}

fn on(name: &str, channel_ids: Vec<u32>) -> PlanOperation {
    PlanOperation { channel_ids, channel_type: Some("memory".into()), ..operation(name, vec![], vec![]) }
}
