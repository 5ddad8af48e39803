//! The schedule: one representation that is verified, bounded, timed, exported and executed.
//!
//! Data is cut into *lanes*. A lane is a contiguous region of the buffer that streams through one
//! pattern of transfers in equal *chunks*, so the size of a schedule does not grow with the data.
//! A transfer moves one chunk of one or more lanes (they travel together as one message) between two
//! ranks, once for every chunk.
//!
//! Transfers are served in the order of ([phase](Transfer::phase), [`Schedule::slot`], index), on
//! every link or, for [`Issue::Steps`], on every rank. Chunk `k` of a transfer has slot
//! `step + k * stride`.

mod builder;
mod certificate;
mod channels;
mod check;
mod held;
mod json;
mod program;
mod stats;
mod transfer;

pub use builder::Builder;
pub use certificate::Certificate;
pub use channels::Channels;
pub use held::{Held, ListTurn};
pub use json::Withdrawn;
pub use program::{Action, Instruction, Program, RankProgram, Stream};
pub use stats::{PhaseSteps, Stats};
pub use transfer::{Dependencies, Dependency, Event, Holds, Op, Payload, Route, Transfer};

use crate::collective::{Align, Collective, Data, Matrix};
use crate::fabric::{Fabric, LinkId, NodeId};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Bytes;
use antiphon_base::watch::interruptible;
use serde::{Deserialize, Serialize};

/// Index of a transfer in [`Schedule::transfers`].
pub type TransferId = u32;
/// Index of a lane in [`Schedule::lanes`].
pub type LaneId = u32;

/// Most transfers a schedule may hold: a ring of 2048 ranks. This and the next limits keep a schedule
/// below 3 GiB of memory.
pub const MAX_TRANSFERS: usize = 1 << 23;
/// Most lane-transfer pairs a schedule may hold.
pub const MAX_LANE_TRANSFERS: usize = 1 << 27;
/// Most links on the routes of a built schedule.
pub const MAX_HOPS: usize = 1 << 27;
/// Most dependencies of a built schedule.
pub const MAX_DEPENDENCIES: usize = 1 << 27;

/// A region of the buffer that streams in equal chunks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "the object of a lane")]
pub struct Lane {
    /// First byte of the region.
    pub offset: Bytes,
    /// Length of the region; chunk `k` carries [`Schedule::payload_per_chunk`] bytes of it.
    pub bytes: Bytes,
    /// Number of chunks.
    pub chunks: u64,
    /// Bytes on the wire of every chunk; at least its payload, more where chunks are padded.
    pub chunk_bytes: Bytes,
    /// Slots between successive chunks.
    pub stride: u32,
    /// Rank that starts with the lane (AllGather, AllToAll).
    #[serde(default)]
    pub source: u32,
    /// Rank that ends with the lane (ReduceScatter, AllToAll).
    #[serde(default)]
    pub owner: u32,
}

/// A named part of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "the object of a phase")]
pub struct Phase {
    /// Name, e.g. `reduce-scatter`.
    pub name: String,
    /// Whether no transfer of this phase starts before all earlier phases are complete everywhere.
    #[serde(default)]
    pub barrier: bool,
    /// Which of the fabric's configurations it needs, where there are several.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub configuration: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Who decides when a transfer may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Issue {
    /// Every outgoing link serves its transfers in order; links do not wait for each other.
    Links,
    /// Every rank starts all sends of a slot, and has handed them to its network interfaces,
    /// before it considers the next slot.
    StrictSteps,
    /// As strict steps, but the interfaces need not be free.
    Steps,
}

/// How chunks of one transfer follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pacing {
    /// The next message is sent as soon as the link is free.
    Pipelined,
    /// A link's next message waits until the receiver has the whole previous one.
    StopAndWait,
}

/// How the ranks should carry a schedule out. Proofs do not rest on it, but for serial reductions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Recommendation {
    /// Who decides when a transfer may be sent.
    pub issue: Issue,
    /// How messages on a link follow each other.
    pub pacing: Pacing,
    /// Most network interfaces to use on one rank; all the system has if `None`.
    pub interfaces: Option<u32>,
    /// Whether ranks must add received data one message at a time: then unordered reductions into one
    /// region do not race. A schedule that does not ask for it is proven without.
    pub serial_reductions: bool,
}

impl Default for Recommendation {
    fn default() -> Self {
        Recommendation { issue: Issue::Links, pacing: Pacing::Pipelined, interfaces: None, serial_reductions: true }
    }
}

/// A complete plan for one collective on one fabric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "the object of a schedule")]
pub struct Schedule {
    /// Always [`Schedule::SCHEMA`].
    pub schema: String,
    /// Algorithm that made it, with its options.
    pub algorithm: String,
    /// Name of the fabric it is for.
    pub fabric: String,
    /// What it computes.
    pub collective: Collective,
    /// Full buffer size: with a matrix, the most that a rank sends.
    pub bytes: Bytes,
    /// What every rank has for every other one, in an AllToAll of unequal sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Matrix>,
    /// At multiples of what shards are cut and, if it is more than an element, lanes begin.
    #[serde(default, skip_serializing_if = "Align::is_least")]
    pub align: Align,
    /// Number of ranks, those of a group if there is one.
    pub ranks: u32,
    /// Rank in the whole fabric of every rank, if it is for a group; empty otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub group: Vec<u32>,
    /// Ranks that contribute nothing and need no result; they may still forward and add.
    #[serde(default)]
    pub excluded: Vec<u32>,
    /// Node of every rank where that is not the fabric's own; empty otherwise.
    #[serde(default)]
    pub placement: Vec<NodeId>,
    /// Switches that add or multicast in it, by their nodes. They take part behind the ranks: number `ranks + i` is the i-th of them, whose
    /// memory begins with zeros.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<NodeId>,
    /// Links that act, each with all links of the same ends, as one channel of their summed rate;
    /// all other links act by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bundled_links: Vec<LinkId>,
    /// Lanes.
    pub lanes: Vec<Lane>,
    /// Phases.
    pub phases: Vec<Phase>,
    /// Transfers.
    #[serde(serialize_with = "json::list")]
    pub transfers: Vec<Transfer>,
    /// How the ranks should carry it out.
    #[serde(default)]
    pub endpoint: Recommendation,
    /// Whether it claims that in every slot each link carries at most one message.
    #[serde(default)]
    pub conflict_free: bool,
    /// What earlier versions wrote: an empty list.
    #[serde(default, skip_serializing)]
    pub known_gaps: Withdrawn,
    /// What earlier versions wrote: false.
    #[serde(default, skip_serializing)]
    pub known_race: Withdrawn,
    /// How near to the optimum it is, with the reason; only of algorithms that know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
}

impl Schedule {
    /// Version of the JSON form.
    pub const SCHEMA: &'static str = "antiphon-schedule/2";

    /// How much it moves.
    pub fn data(&self) -> Data {
        Data { bytes: self.bytes, matrix: self.matrix.clone(), align: self.align }
    }

    /// Chunks a transfer is repeated for.
    pub fn chunks(&self, transfer: &Transfer) -> u64 {
        self.lanes[transfer.payload.first() as usize].chunks
    }

    /// Slot of chunk `chunk` of a transfer within its phase.
    pub fn slot(&self, transfer: &Transfer, chunk: u64) -> u64 {
        transfer.step as u64 + chunk * self.lanes[transfer.payload.first() as usize].stride as u64
    }

    /// Bytes on the wire of one chunk of a transfer, over all lanes it carries.
    pub fn message_bytes(&self, transfer: &Transfer) -> Bytes {
        transfer.lanes().map(|lane| self.lanes[lane].chunk_bytes).sum()
    }

    /// Ranks and switches that send and receive.
    pub fn participants(&self) -> u32 {
        self.ranks + self.switches.len() as u32
    }

    /// Refuses a schedule in which switches add or multicast, for what has none.
    ///
    /// # Errors
    /// [`Code::NotApplicable`].
    pub fn without_switches(&self, who: &str) -> Result<()> {
        if self.switches.is_empty() {
            return Ok(());
        }
        let what = format!("{who}: switches add in {}; give a schedule in which only ranks do", self.algorithm);
        Err(Error::new(Code::NotApplicable, what))
    }

    /// The switch that a participant is, if it is no rank.
    pub fn switch_of(&self, participant: u32) -> Option<NodeId> {
        self.switches.get(participant.checked_sub(self.ranks)? as usize).copied()
    }

    /// The node a participant is on: where a rank is placed, or the switch.
    pub fn node_of(&self, fabric: &Fabric, rank: u32) -> NodeId {
        if let Some(switch) = self.switch_of(rank) {
            return switch;
        }
        match self.placement.get(rank as usize) {
            Some(&node) => node,
            None => fabric.node_of_rank(rank),
        }
    }

    /// Payload bytes of chunk `chunk` of a lane, as a range of the buffer.
    pub fn chunk_range(&self, lane: LaneId, chunk: u64) -> std::ops::Range<Bytes> {
        let lane = &self.lanes[lane as usize];
        let step = self.payload_per_chunk(lane);
        let start = (chunk * step).min(lane.bytes);
        lane.offset + start..lane.offset + ((chunk + 1) * step).min(lane.bytes)
    }

    /// Payload bytes of every chunk of a lane but perhaps the last ones.
    pub fn payload_per_chunk(&self, lane: &Lane) -> Bytes {
        self.align.payload(lane.bytes, lane.chunks)
    }

    /// Messages sent: transfers times chunks.
    pub fn messages(&self) -> u64 {
        self.transfers.iter().map(|t| self.chunks(t)).sum()
    }

    /// Whether a participant has data of its own.
    pub fn participates(&self, rank: u32) -> bool {
        rank < self.ranks && !self.excluded.contains(&rank)
    }

    /// Transfers that carry each lane, by lane, each list in schedule order.
    pub fn transfers_by_lane(&self) -> Vec<Vec<TransferId>> {
        let mut lists = vec![Vec::new(); self.lanes.len()];
        for id in interruptible(self.order()) {
            for lane in self.transfers[id as usize].lanes() {
                lists[lane].push(id);
            }
        }
        lists
    }

    /// Transfer indices by (phase, step, index).
    pub fn order(&self) -> Vec<TransferId> {
        let mut order: Vec<TransferId> = (0..self.transfers.len() as TransferId).collect();
        let moment = |transfer: &Transfer| (transfer.phase, transfer.step);
        // A builder leaves them sorted.
        if !self.transfers.is_sorted_by_key(moment) {
            order.sort_by_key(|&id| moment(&self.transfers[id as usize]));
        }
        order
    }
}
