//! The schedule: one representation that is verified, bounded, timed, exported and executed.
//!
//! Data is cut into *lanes*. A lane is a contiguous region of the buffer that streams through one
//! pattern of transfers in equal *chunks*, so the size of a schedule does not grow with the data.
//! A transfer moves one chunk of one or more adjacent lanes (they travel together as one message)
//! between two ranks, once for every chunk.
//!
//! Transfers are served in the order of ([phase](Transfer::phase), [`Schedule::slot`], index), on
//! every link or, for [`Issue::Steps`], on every rank. Chunk `k` of a transfer has slot
//! `step + k * stride`.

mod builder;
mod channels;
mod json;
mod stats;

pub use builder::Builder;
pub use channels::Channels;
pub use stats::{PhaseSteps, Stats};

use crate::collective::Collective;
use crate::error::{Code, Error, Result};
use crate::fabric::{Fabric, LinkId, MAX_RANKS, NodeId};
use crate::units::{Bytes, clip};
use serde::{Deserialize, Serialize};

/// Index of a transfer in [`Schedule::transfers`].
pub type TransferId = u32;
/// Index of a lane in [`Schedule::lanes`].
pub type LaneId = u32;

/// Most transfers a schedule may hold: a ring of 2048 ranks. This and the next limits keep a schedule
/// below 2 GiB of memory.
pub const MAX_TRANSFERS: usize = 1 << 23;
/// Most lane-transfer pairs a schedule may hold.
pub const MAX_LANE_TRANSFERS: usize = 1 << 26;
/// Most links on the routes of a built schedule.
pub const MAX_HOPS: usize = 1 << 27;
/// Most dependencies of a built schedule.
pub const MAX_DEPENDENCIES: usize = 1 << 27;

/// A region of the buffer that streams in equal chunks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lane {
    /// First byte of the region.
    pub offset: Bytes,
    /// Length of the region; chunk `k` carries [`Lane::payload_per_chunk`] bytes of it.
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

/// What the receiver does with the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// Add to its own.
    Reduce,
    /// Replace its own.
    Copy,
}

/// One message from a rank to a rank, repeated for every chunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// Sending rank.
    pub from: u32,
    /// Receiving rank.
    pub to: u32,
    /// What the receiver does.
    pub op: Op,
    /// First lane carried.
    pub lane: LaneId,
    /// Number of adjacent lanes carried together.
    #[serde(default = "one")]
    pub lanes: u32,
    /// Index of its phase.
    #[serde(default)]
    pub phase: u32,
    /// Step in its phase.
    pub step: u32,
    /// Links from `from` to `to`; empty only if both ranks are placed on one node.
    pub route: Vec<LinkId>,
    /// Transfers whose same chunk must have been received (and added) before this one starts.
    #[serde(default)]
    pub after: Vec<TransferId>,
}

fn one() -> u32 {
    1
}

impl Transfer {
    /// The lanes it carries.
    pub fn lane_range(&self) -> std::ops::Range<usize> {
        self.lane as usize..self.lane as usize + self.lanes as usize
    }
}

/// A named part of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Name, e.g. `reduce-scatter`.
    pub name: String,
    /// Whether no transfer of this phase starts before all earlier phases are complete everywhere.
    #[serde(default)]
    pub barrier: bool,
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

/// A complete plan for one collective on one fabric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Always [`Schedule::SCHEMA`].
    pub schema: String,
    /// Algorithm that made it, with its options.
    pub algorithm: String,
    /// Name of the fabric it is for.
    pub fabric: String,
    /// What it computes.
    pub collective: Collective,
    /// Full buffer size.
    pub bytes: Bytes,
    /// Number of ranks of the fabric.
    pub ranks: u32,
    /// Ranks that contribute nothing and need no result; they may still forward and add.
    #[serde(default)]
    pub excluded: Vec<u32>,
    /// Node of every rank where that is not the fabric's own; empty otherwise.
    #[serde(default)]
    pub placement: Vec<NodeId>,
    /// Links that act, each with all links of the same ends, as one channel of their summed rate;
    /// all other links act by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bundled_links: Vec<LinkId>,
    /// Lanes.
    pub lanes: Vec<Lane>,
    /// Phases.
    pub phases: Vec<Phase>,
    /// Transfers.
    pub transfers: Vec<Transfer>,
    /// Who decides when a transfer may be sent.
    pub issue: Issue,
    /// How messages on a link follow each other.
    pub pacing: Pacing,
    /// Most network interfaces the schedule uses on one rank; all the system has if `None`.
    #[serde(default)]
    pub interfaces: Option<u32>,
    /// Whether ranks add received data one message at a time (so that unordered reductions into
    /// one region do not race).
    pub serial_reductions: bool,
    /// Whether it claims that in every slot each link carries at most one message.
    #[serde(default)]
    pub conflict_free: bool,
    /// (rank, lane) pairs that are known to stay incomplete; only reproductions of published,
    /// incomplete algorithms have any, and they never count as verified.
    #[serde(default)]
    pub known_gaps: Vec<(u32, LaneId)>,
    /// Whether some transfers are known to start before what they send has arrived; only
    /// reproductions of published schedules do, and they never count as verified.
    #[serde(default)]
    pub known_race: bool,
}

impl Schedule {
    /// Version of the JSON form.
    pub const SCHEMA: &'static str = "antiphon-schedule/1";

    /// Chunks a transfer is repeated for.
    pub fn chunks(&self, transfer: &Transfer) -> u64 {
        self.lanes[transfer.lane as usize].chunks
    }

    /// Slot of chunk `chunk` of a transfer within its phase.
    pub fn slot(&self, transfer: &Transfer, chunk: u64) -> u64 {
        transfer.step as u64 + chunk * self.lanes[transfer.lane as usize].stride as u64
    }

    /// Bytes on the wire of one chunk of a transfer, over all lanes it carries.
    pub fn message_bytes(&self, transfer: &Transfer) -> Bytes {
        self.lanes[transfer.lane_range()].iter().map(|lane| lane.chunk_bytes).sum()
    }

    /// The node a rank is placed on.
    pub fn node_of(&self, fabric: &Fabric, rank: u32) -> NodeId {
        match self.placement.get(rank as usize) {
            Some(&node) => node,
            None => fabric.node_of_rank(rank),
        }
    }

    /// Payload bytes of chunk `chunk` of a lane, as a range of the buffer.
    pub fn chunk_range(&self, lane: LaneId, chunk: u64) -> std::ops::Range<Bytes> {
        let lane = &self.lanes[lane as usize];
        let step = lane.payload_per_chunk();
        let start = (chunk * step).min(lane.bytes);
        lane.offset + start..lane.offset + ((chunk + 1) * step).min(lane.bytes)
    }

    /// Messages sent: transfers times chunks.
    pub fn messages(&self) -> u64 {
        self.transfers.iter().map(|t| self.chunks(t)).sum()
    }

    /// Whether `rank` takes part with data of its own.
    pub fn participates(&self, rank: u32) -> bool {
        !self.excluded.contains(&rank)
    }

    /// Transfers that carry each lane, by lane, each list in schedule order.
    pub fn transfers_by_lane(&self) -> Vec<Vec<TransferId>> {
        let mut lists = vec![Vec::new(); self.lanes.len()];
        for id in self.order() {
            for lane in self.transfers[id as usize].lane_range() {
                lists[lane].push(id);
            }
        }
        lists
    }

    /// Transfer indices by (phase, step, index).
    pub fn order(&self) -> Vec<TransferId> {
        let mut order: Vec<TransferId> = (0..self.transfers.len() as TransferId).collect();
        order.sort_by_key(|&id| {
            let transfer = &self.transfers[id as usize];
            (transfer.phase, transfer.step, id)
        });
        order
    }

    /// Checks that every index and size is in range, for this fabric, so that nothing later can
    /// overflow or index out of bounds. Says nothing about correctness: that is `verify`'s.
    ///
    /// # Errors
    /// [`Code::BadFile`] or [`Code::TooLarge`], naming the first offending lane or transfer.
    pub fn check(&self, fabric: &Fabric) -> Result<()> {
        self.check_alone()?;
        let bad = |what: String| Err(Error::new(Code::BadFile, format!("schedule: {what}")));
        if self.ranks as usize != fabric.ranks() {
            return bad(format!("it is for {} ranks, the fabric has {}", self.ranks, fabric.ranks()));
        }
        if self.placement.iter().any(|&node| node as usize >= fabric.nodes.len()) {
            return bad(format!("placement names a node that is none of {}", fabric.nodes.len()));
        }
        if let Some(link) = self.bundled_links.iter().find(|&&link| link as usize >= fabric.links.len()) {
            return bad(format!("bundled_links names link {link} of {}", fabric.links.len()));
        }
        for (id, transfer) in self.transfers.iter().enumerate() {
            if let Some(link) = transfer.route.iter().find(|&&link| link as usize >= fabric.links.len()) {
                return bad(format!("transfer {id} uses link {link} of {}", fabric.links.len()));
            }
        }
        Ok(())
    }

    /// The part of [`Schedule::check`] that needs no fabric: enough to execute the schedule.
    ///
    /// # Errors
    /// As [`Schedule::check`].
    pub fn check_alone(&self) -> Result<()> {
        let bad = |what: String| Err(Error::new(Code::BadFile, format!("schedule: {what}")));
        if self.schema != Self::SCHEMA {
            return bad(format!("schema is '{}', expected '{}'", clip(&self.schema), Self::SCHEMA));
        }
        if self.ranks as usize > MAX_RANKS {
            return bad(format!("it is for {} ranks; at most {MAX_RANKS} are supported", self.ranks));
        }
        if self.bytes == 0 || self.bytes > crate::units::MAX_BYTES {
            return bad(format!("bytes is {}, expected 1 to 1 PiB", self.bytes));
        }
        if !self.placement.is_empty() && self.placement.len() != self.ranks as usize {
            return bad(format!("placement must name a node for each of {} ranks", self.ranks));
        }
        if let Some(rank) = self.excluded.iter().find(|&&rank| rank >= self.ranks) {
            return bad(format!("excluded rank {rank} does not exist"));
        }
        if let Some(rank) = repeated(&self.excluded) {
            return bad(format!("rank {rank} is excluded twice; list it once"));
        }
        if self.collective.root >= self.ranks {
            return bad(format!(
                "root {} does not exist; ranks are 0 to {}",
                self.collective.root,
                self.ranks.saturating_sub(1)
            ));
        }
        if self.interfaces == Some(0) {
            return bad("interfaces is 0, expected at least 1 or null".into());
        }
        for (id, lane) in self.lanes.iter().enumerate() {
            let end = lane.offset.checked_add(lane.bytes);
            if end.is_none_or(|end| end > self.bytes) {
                return bad(format!("lane {id} reaches past the end of the buffer"));
            }
            if lane.chunks == 0 || lane.chunks > 1 << 40 || lane.chunk_bytes > 1 << 50 {
                return bad(format!("lane {id} has {} chunks of {} bytes", lane.chunks, lane.chunk_bytes));
            }
            if (lane.chunks as u128 - 1) * lane.stride as u128 > 1 << 60 {
                return bad(format!("lane {id}: {} chunks at stride {} make too many slots", lane.chunks, lane.stride));
            }
            let least = lane.payload_per_chunk().min(lane.bytes);
            if lane.chunk_bytes < least {
                return bad(format!(
                    "lane {id}: chunk_bytes is {}, but {} bytes in {} chunks of whole 4-byte elements need {least}",
                    lane.chunk_bytes, lane.bytes, lane.chunks
                ));
            }
            if lane.chunks > 1 && lane.stride == 0 {
                return bad(format!("lane {id} has several chunks but stride 0"));
            }
            if lane.source >= self.ranks || lane.owner >= self.ranks {
                return bad(format!("lane {id} names a source or owner that is no rank"));
            }
        }
        if self.transfers.len() > MAX_TRANSFERS {
            return Err(Error::new(Code::TooLarge, format!("schedule: more than {MAX_TRANSFERS} transfers")));
        }
        if let Some((rank, lane)) =
            self.known_gaps.iter().find(|(r, l)| *r >= self.ranks || *l as usize >= self.lanes.len())
        {
            return bad(format!("known gap (rank {rank}, lane {lane}) does not exist"));
        }
        if let Some((rank, lane)) = repeated(&self.known_gaps) {
            return bad(format!("known gap (rank {rank}, lane {lane}) is there twice; list it once"));
        }
        let (mut lane_transfers, mut total) = (0usize, 0u128);
        for (id, transfer) in self.transfers.iter().enumerate() {
            if transfer.from >= self.ranks || transfer.to >= self.ranks || transfer.from == transfer.to {
                return bad(format!("transfer {id} goes from rank {} to rank {}", transfer.from, transfer.to));
            }
            let range = transfer.lane_range();
            if range.is_empty() || range.end > self.lanes.len() {
                return bad(format!("transfer {id} carries lanes {range:?} of {}", self.lanes.len()));
            }
            let first = &self.lanes[range.start];
            if self.lanes[range.clone()].iter().any(|l| l.chunks != first.chunks || l.stride != first.stride) {
                return bad(format!("transfer {id} carries lanes with different chunk counts or strides"));
            }
            if transfer.phase as usize >= self.phases.len() {
                return bad(format!("transfer {id} is in phase {} of {}", transfer.phase, self.phases.len()));
            }
            if let Some(other) = transfer.after.iter().find(|&&other| other as usize >= self.transfers.len()) {
                return bad(format!("transfer {id} waits for transfer {other}, which does not exist"));
            }
            let wire = self.lanes[range.clone()].iter().fold(0u128, |sum, lane| sum + lane.chunk_bytes as u128);
            if wire * first.chunks as u128 > 1 << 60 {
                return bad(format!("transfer {id} carries {wire} bytes {} times, more than 1 EiB", first.chunks));
            }
            total += wire * first.chunks as u128;
            if total > u64::MAX as u128 {
                return Err(Error::new(Code::TooLarge, "schedule: its transfers carry more than 16 EiB together"));
            }
            lane_transfers += range.len();
            if lane_transfers > MAX_LANE_TRANSFERS {
                return Err(Error::new(
                    Code::TooLarge,
                    format!("schedule: more than {MAX_LANE_TRANSFERS} lane transfers"),
                ));
            }
        }
        Ok(())
    }
}

/// The least item that a list has twice.
fn repeated<T: Copy + Ord>(list: &[T]) -> Option<T> {
    let mut sorted = list.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

impl Lane {
    /// Payload bytes of every chunk but perhaps the last ones.
    pub fn payload_per_chunk(&self) -> Bytes {
        Lane::payload(self.bytes, self.chunks)
    }

    /// Payload of one of `chunks` chunks of `bytes` bytes: whole 32-bit elements.
    pub fn payload(bytes: Bytes, chunks: u64) -> Bytes {
        bytes.div_ceil(chunks).next_multiple_of(4)
    }
}
