//! A proven schedule, ready to be run at one rank.

use crate::{MAX_MESSAGES, RankProgress, elements, memory_bytes};
use antiphon_base::error::{Code, Error, Result};
use antiphon_model::fabric::{Fabric, LinkId, NodeId};
use antiphon_model::schedule::{Program, Schedule, Transfer, TransferId};
use antiphon_proof::Proven;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// A proven schedule, with the program of one rank.
#[derive(Debug)]
pub struct RankPlan {
    pub(super) schedule: Proven,
    /// The rank, in the schedule's group.
    pub(super) rank: u32,
    /// The node of every rank.
    pub(super) nodes: Vec<NodeId>,
    /// Before anything has happened.
    pub(super) fresh: RankProgress,
    /// For every stream of the rank that sends, the first link.
    pub(super) links: Vec<Option<LinkId>>,
    /// Bytes that come here from every rank.
    pub(super) from: Vec<u64>,
    /// Barriers of the schedule.
    pub(super) barriers: usize,
    hash: u32,
    touched: Vec<Range<usize>>,
}

impl RankPlan {
    /// A schedule that was proven on `fabric`, at a rank of it. Equal schedules have equal hashes. O(messages of the rank).
    ///
    /// # Errors
    /// [`Code::NotProven`] if the proof leaves gaps or is of another fabric; [`Code::BadSize`] if there is no such rank;
    /// [`Code::TooLarge`] past 2^26 messages, chunks of 4 GiB, or 2^16 links.
    pub fn new(fabric: &Fabric, schedule: Proven, rank: u32) -> Result<RankPlan> {
        schedule.check_fabric(fabric)?;
        if !schedule.proof().complete {
            let what = format!("{}: {}; it is not run", schedule.algorithm, schedule.proof().gaps);
            return Err(Error::new(Code::NotProven, what));
        }
        schedule.without_switches("processes")?;
        if rank >= schedule.ranks {
            return Err(Error::new(Code::BadSize, format!("rank {rank} of {}", schedule.ranks)));
        }
        let payload = |t: &Transfer| t.lanes().map(|lane| schedule.payload_per_chunk(&schedule.lanes[lane])).sum();
        let longest: u64 = schedule.transfers.iter().map(payload).max().unwrap_or(0);
        let messages = schedule.transfers.iter().fold(0, |sum: u64, t| sum.saturating_add(schedule.chunks(t)));
        if messages > MAX_MESSAGES || fabric.links.len() > 1 << 16 || longest > u32::MAX as u64 {
            let what = format!("{messages} messages of up to {longest} bytes on {} links", fabric.links.len());
            return Err(Error::new(Code::TooLarge, format!("{what}; at most 2^26, 4 GiB and 65,536 are run")));
        }
        let program = Program::of_links(&schedule);
        let fresh = RankProgress::new(&schedule, &program, rank);
        let links = fresh.streams().map(|(link, sends)| sends.then_some(link)).collect();
        let mut from = vec![0; schedule.ranks as usize];
        let mut touched = vec![];
        for transfer in &schedule.transfers {
            if transfer.from != rank && transfer.to != rank {
                continue;
            }
            for lane in transfer.lanes() {
                let region = &schedule.lanes[lane];
                if transfer.to == rank {
                    from[transfer.from as usize] += region.bytes;
                }
                let all = elements(&schedule, lane, region.offset..region.offset + region.bytes, 1);
                // An element that begins in the lane may end behind it.
                touched.push(all.start & !7..((all.end + 7) & !7).min(memory_bytes(&schedule) as usize));
            }
        }
        touched.retain(|range| !range.is_empty());
        let mut hasher = DefaultHasher::new();
        schedule.to_json().hash(&mut hasher);
        Ok(RankPlan {
            rank,
            nodes: (0..schedule.ranks).map(|rank| fabric.node_of_rank(rank)).collect(),
            fresh,
            links,
            from,
            barriers: schedule.phases.iter().filter(|phase| phase.barrier).count(),
            hash: hasher.finish() as u32,
            touched: merged(touched),
            schedule,
        })
    }

    /// The schedule.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// A hash of the schedule, by which ranks see that they run the same.
    pub fn hash(&self) -> u32 {
        self.hash
    }

    /// Bytes of the rank's memory that its messages read or write: ranges in order, apart from each other.
    pub fn touched(&self) -> &[Range<usize>] {
        &self.touched
    }

    pub(super) fn route(&self, transfer: TransferId) -> &[LinkId] {
        &self.schedule.transfers[transfer as usize].route
    }

    /// The node that a transfer starts from.
    pub(super) fn sender_of(&self, transfer: TransferId) -> Option<NodeId> {
        let from = self.schedule.transfers.get(transfer as usize)?.from;
        self.nodes.get(from as usize).copied()
    }
}

fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut all: Vec<Range<usize>> = vec![];
    for range in ranges {
        match all.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => all.push(range),
        }
    }
    all
}
