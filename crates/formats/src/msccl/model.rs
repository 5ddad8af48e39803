//! What a file says: an algorithm has a program for each GPU, a program has thread blocks, and a thread block has steps.

use super::cells::Cells;
use antiphon_model::collective::{Collective, Kind};

/// Names of collectives in files, the one that is written first.
pub const COLLECTIVES: [(&str, Kind); 9] = [
    ("allreduce", Kind::AllReduce),
    ("reducescatter", Kind::ReduceScatter),
    ("reduce_scatter", Kind::ReduceScatter),
    ("allgather", Kind::AllGather),
    ("broadcast", Kind::Broadcast),
    ("reduce", Kind::Reduce),
    ("alltoall", Kind::AllToAll),
    ("all_to_all", Kind::AllToAll),
    ("all_gather", Kind::AllGather),
];

/// A whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Algo {
    /// Name.
    pub name: String,
    /// Protocol: `Simple`, `LL` or `LL128`.
    pub proto: String,
    /// Channels it says to use.
    pub channels: u32,
    /// Chunks that the full buffer is cut into (`nchunksperloop`).
    pub chunks: u32,
    /// What it computes; files name no root.
    pub kind: Kind,
    /// Whether it may be used where input and output are one buffer.
    pub in_place: bool,
    /// Whether it may be used where they are two.
    pub out_of_place: bool,
    /// Sizes it is for, in bytes.
    pub min_bytes: u64,
    /// Largest size it is for, in bytes.
    pub max_bytes: u64,
    /// Peculiarities of its text that some consumers cannot read.
    pub text: Text,
    /// By id.
    pub gpus: Vec<MscclGpu>,
}

/// How a text differs from one that all consumers read; by default not at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text {
    /// Missing attributes, of `outofplace`, `minBytes` and `maxBytes`.
    pub missing: Vec<&'static str>,
    /// Markup that the consumers' XML readers do not know.
    pub markup: Option<&'static str>,
}

/// What one GPU does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MscclGpu {
    /// Chunks of input it says to have.
    pub input: u32,
    /// Chunks of output.
    pub output: u32,
    /// Chunks of scratch.
    pub scratch: u32,
    /// By id.
    pub blocks: Vec<MscclBlock>,
}

/// A thread block: its steps run in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MscclBlock {
    /// Whom it sends to.
    pub send: Option<u32>,
    /// Whom it receives from.
    pub recv: Option<u32>,
    /// Channel of both connections.
    pub channel: u32,
    /// Its steps.
    pub steps: Vec<MscclStep>,
}

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MscclStep {
    /// What is done.
    pub action: StepAction,
    /// What is read, where something is.
    pub src: ChunkPlace,
    /// What is written.
    pub dst: ChunkPlace,
    /// Chunks that it is done to.
    pub count: u32,
    /// Thread block and step of the same GPU that must have ended before.
    pub after: Option<(u32, u32)>,
    /// Whether another step waits for this one.
    pub awaited: bool,
}

/// Where chunks lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChunkPlace {
    /// In which buffer.
    pub buffer: Buffer,
    /// The first chunk.
    pub offset: u32,
}

/// A buffer of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Buffer {
    /// What the collective starts with.
    Input,
    /// What it ends with.
    Output,
    /// Neither.
    Scratch,
}

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepAction {
    /// Sends `src`.
    Send,
    /// Receives to `dst`.
    Receive,
    /// Copies `src` to `dst`.
    Copy,
    /// Adds `src` to `dst`.
    Reduce,
    /// Only waits.
    Nop,
    /// Receives to `dst` and sends the same on.
    ReceiveCopySend,
    /// Receives, adds `src`, stores to `dst`.
    ReceiveReduceCopy,
    /// Receives, adds `src`, sends; stores nothing.
    ReceiveReduceSend,
    /// Receives, adds `src`, stores to `dst` and sends.
    ReceiveReduceCopySend,
}

impl Buffer {
    /// Its letter in a file.
    pub fn letter(self) -> &'static str {
        match self {
            Buffer::Input => "i",
            Buffer::Output => "o",
            Buffer::Scratch => "s",
        }
    }

    /// The buffer of a letter.
    pub fn of_letter(letter: &str) -> Option<Buffer> {
        [Buffer::Input, Buffer::Output, Buffer::Scratch].into_iter().find(|buffer| buffer.letter() == letter)
    }
}

impl StepAction {
    /// All actions, with their names in a file.
    pub const NAMES: [(&'static str, StepAction); 9] = [
        ("s", StepAction::Send),
        ("r", StepAction::Receive),
        ("cpy", StepAction::Copy),
        ("re", StepAction::Reduce),
        ("nop", StepAction::Nop),
        ("rcs", StepAction::ReceiveCopySend),
        ("rrc", StepAction::ReceiveReduceCopy),
        ("rrs", StepAction::ReceiveReduceSend),
        ("rrcs", StepAction::ReceiveReduceCopySend),
    ];

    /// Its name in a file.
    pub fn name(self) -> &'static str {
        StepAction::NAMES[self as usize].0
    }

    /// Whether it takes a message.
    pub fn receives(self) -> bool {
        !matches!(self, StepAction::Send | StepAction::Copy | StepAction::Reduce | StepAction::Nop)
    }

    /// Whether it sends one.
    pub fn sends(self) -> bool {
        matches!(
            self,
            StepAction::Send
                | StepAction::ReceiveCopySend
                | StepAction::ReceiveReduceSend
                | StepAction::ReceiveReduceCopySend
        )
    }

    /// Whether it reads `src`.
    pub fn reads(self) -> bool {
        !matches!(self, StepAction::Receive | StepAction::ReceiveCopySend | StepAction::Nop)
    }

    /// Whether it writes `dst`.
    pub fn writes(self) -> bool {
        !matches!(self, StepAction::Send | StepAction::ReceiveReduceSend | StepAction::Nop)
    }

    /// Whether what it writes contains what it found at `dst`.
    pub fn adds_to_dst(self) -> bool {
        self == StepAction::Reduce
    }
}

impl Algo {
    /// What it computes. Files name no root: it is the only GPU that never receives (broadcast) or never sends (reduce),
    /// else GPU 0.
    pub fn collective(&self) -> Collective {
        let rests = |gpu: &MscclGpu| {
            let mut steps = gpu.blocks.iter().flat_map(|block| &block.steps);
            match self.kind {
                Kind::Broadcast => !steps.any(|step| step.count > 0 && step.action.receives()),
                _ => !steps.any(|step| step.count > 0 && step.action.sends()),
            }
        };
        let mut resting = (0..).zip(&self.gpus).filter(|(_, gpu)| rests(gpu)).map(|(id, _)| id);
        let root = match (resting.next(), resting.next()) {
            (Some(root), None) if self.kind.rooted() => root,
            _ => 0,
        };
        Collective { kind: self.kind, root }
    }

    /// How input and output may lie, as (whether they are one, its name).
    pub fn places(&self) -> Vec<(bool, &'static str)> {
        let both = [(self.in_place, true, "in-place"), (self.out_of_place, false, "out-of-place")];
        both.into_iter().filter(|(may, ..)| *may).map(|(_, in_place, name)| (in_place, name)).collect()
    }

    /// Its memory, where input and output are one buffer or two.
    pub(crate) fn cells(&self, in_place: bool) -> Cells {
        Cells::new(self, in_place)
    }

    /// Steps of all GPUs.
    pub fn steps(&self) -> u64 {
        self.gpus.iter().flat_map(|gpu| &gpu.blocks).map(|block| block.steps.len() as u64).sum()
    }
}
