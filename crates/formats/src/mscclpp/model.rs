//! What a plan says, key by key as in the file.

use serde::{Deserialize, Serialize};

/// A whole plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MscclppPlan {
    /// Name.
    pub name: String,
    /// What it computes, e.g. `allreduce`.
    pub collective: String,
    /// `Simple`, or `LL` for packets.
    pub protocol: String,
    /// Whether input and output are one buffer.
    pub inplace: bool,
    /// Whether scratch is used again by later chunks.
    #[serde(default)]
    pub reuse_resources: bool,
    /// By id.
    pub gpus: Vec<PlanGpu>,
    /// Threads of a thread block.
    #[serde(default = "threads")]
    pub num_threads_per_block: u32,
    /// Whether scratch is two buffers, used in turn.
    #[serde(default)]
    pub use_double_scratch_buffer: bool,
    /// Alignment of chunks, in bytes.
    #[serde(default = "alignment")]
    pub buffer_alignment: u32,
    /// Sizes it is for, in bytes.
    #[serde(default)]
    pub min_message_size: u64,
    /// Largest size it is for, in bytes.
    #[serde(default = "any_size")]
    pub max_message_size: u64,
}

/// What one GPU does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanGpu {
    /// Its rank.
    pub id: u32,
    /// Chunks of input.
    pub input_chunks: u32,
    /// Chunks of output.
    pub output_chunks: u32,
    /// Chunks of scratch.
    pub scratch_chunks: u32,
    /// By id.
    pub threadblocks: Vec<PlanBlock>,
    /// Its channels; those of a kind are numbered through.
    #[serde(default)]
    pub channels: Vec<PlanChannels>,
    /// Buffers of others that it reads or writes.
    #[serde(default)]
    pub remote_buffers: Vec<RemoteBuffer>,
    /// Its semaphores.
    #[serde(default)]
    pub semaphores: Vec<Semaphore>,
}

/// Channels of a kind, each to a peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanChannels {
    /// `memory`, `port` or `switch`.
    pub channel_type: String,
    /// The peer of each.
    #[serde(default)]
    pub connected_to: Vec<u32>,
}

/// A buffer of another GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteBuffer {
    /// Whose.
    pub rank: u32,
    /// `i`, `o` or `s`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Kinds of channels that reach it.
    #[serde(default)]
    pub access_channel_types: Vec<String>,
}

/// A count that thread blocks of a GPU wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Semaphore {
    /// What it begins with.
    pub init_value: u32,
}

/// A thread block: its operations run in order, each by all threads, which only a `nop` brings together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanBlock {
    /// Number.
    pub id: u32,
    /// What it does.
    pub ops: Vec<PlanOperation>,
    /// The channels of its GPU that it uses.
    #[serde(default)]
    pub channels: Vec<BlockChannels>,
    /// The remote buffers of its GPU that it uses.
    #[serde(default)]
    pub remote_buffer_refs: Vec<BlockBuffers>,
}

/// Channels of a kind that a thread block uses, which operations name by their place here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockChannels {
    /// `memory`, `port` or `switch`.
    pub channel_type: String,
    /// Numbers among those of the GPU.
    #[serde(default)]
    pub channel_ids: Vec<u32>,
}

/// Remote buffers that a thread block reaches by a kind of channel, which operations name by their place here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockBuffers {
    /// `memory` or `port`.
    pub access_channel_type: String,
    /// Numbers among those of the GPU.
    #[serde(default)]
    pub remote_buffer_ids: Vec<u32>,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PlanOperation {
    /// What is done, e.g. `put`.
    pub name: String,
    /// What is read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub src_buff: Vec<PlanChunks>,
    /// What is written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dst_buff: Vec<PlanChunks>,
    /// Channels, by their place among those of the thread block.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channel_ids: Vec<u32>,
    /// `memory` or `port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel_type: Option<String>,
    /// How values are combined; `sum` if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduce_op: Option<String>,
    /// Which barrier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub barrier_id: Option<u32>,
    /// Thread blocks that meet at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_threadblocks: Option<u32>,
    /// Which semaphores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub semaphore_ids: Vec<u32>,
    /// Which part of the chunks, where several thread blocks share an operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tbg_info: Option<PlanPart>,
}

/// Chunks of a buffer, of the GPU itself (`kind`) or of another (`buffer_id`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PlanChunks {
    /// `i`, `o` or `s`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Place among the remote buffers of the thread block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_id: Option<u32>,
    /// The first.
    pub index: u32,
    /// How many.
    pub size: u32,
}

/// The part of one of several thread blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanPart {
    /// Which.
    pub tb_id: u32,
    /// Of how many.
    pub tbg_size: u32,
}

fn threads() -> u32 {
    1024
}

fn alignment() -> u32 {
    16
}

fn any_size() -> u64 {
    u64::MAX
}
