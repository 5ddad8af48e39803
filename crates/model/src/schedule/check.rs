//! Every index and size of a schedule is in range.

use super::{Dependency, Issue, Lane, MAX_LANE_TRANSFERS, MAX_TRANSFERS, Schedule, Transfer};
use crate::fabric::{Fabric, MAX_NODES, MAX_RANKS, NodeId, listed};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::clip;
use antiphon_base::watch::interruptible;

impl Schedule {
    /// Checks that every index and size is in range, for this fabric, so that nothing later can
    /// overflow or index out of bounds, and of a fabric with another name than the schedule's, that it has the routes.
    /// Says nothing about correctness: that is `verify`'s. O(size of the schedule).
    ///
    /// # Errors
    /// [`Code::BadFile`] or [`Code::TooLarge`], naming the first offending lane or transfer, and the fabric that the
    /// schedule is for if it is another.
    pub fn check(&self, fabric: &Fabric) -> Result<()> {
        self.check_alone()?;
        let bad = |what: String| Err(self.misfit(fabric, &what));
        if self.group != fabric.members().unwrap_or_default() {
            let name =
                |ranks: &[u32]| if ranks.is_empty() { "all ranks".into() } else { format!("ranks {}", listed(ranks)) };
            let (own, given) = (name(&self.group), name(fabric.members().unwrap_or_default()));
            let what = format!("it is for {own}, not for {given} of the fabric; choose its group of ranks");
            return Err(Error::new(Code::BadFile, format!("schedule: {what}")));
        }
        if self.ranks as usize != fabric.ranks() {
            return bad(format!("it has {} ranks, the fabric has {}", self.ranks, fabric.ranks()));
        }
        if self.placement.iter().any(|&node| node as usize >= fabric.nodes.len()) {
            return bad(format!("placement names a node that is none of {}", fabric.nodes.len()));
        }
        if let Some(&node) = self.switches.iter().find(|&&node| !computes(fabric, node)) {
            return bad(format!("its switch {node} is none that adds or multicasts"));
        }
        if let Some(phase) = self.phases.iter().find(|phase| phase.configuration >= fabric.configurations()) {
            let (name, number) = (clip(&phase.name), phase.configuration);
            let last = fabric.configurations() - 1;
            return bad(format!("phase {name} needs configuration {number}, the fabric has 0 to {last}"));
        }
        if let Some(link) = self.bundled_links.iter().find(|&&link| link as usize >= fabric.links.len()) {
            return bad(format!("bundled_links names link {link} of {}", fabric.links.len()));
        }
        let links = fabric.links.len();
        if let Some(wrong) = self.certificate.as_ref().and_then(|certificate| certificate.wrong(links)) {
            return bad(format!("certificate: {wrong}"));
        }
        // Another name may be of the same fabric: that of a file, for example.
        let renamed = self.fabric != fabric.name;
        for (id, transfer) in interruptible(&self.transfers).enumerate() {
            if let Some(link) = transfer.route.iter().find(|&&link| link as usize >= fabric.links.len()) {
                return bad(format!("transfer {id} uses link {link} of {}", fabric.links.len()));
            }
            if renamed && !self.is_routed(fabric, transfer) {
                let (from, to) = (transfer.from, transfer.to);
                return bad(format!("the route of transfer {id} does not lead from rank {from} to {to} there"));
            }
        }
        Ok(())
    }

    /// What a schedule is refused with that is wrong for a fabric: perhaps it is for another one.
    pub fn misfit(&self, fabric: &Fabric, wrong: &str) -> Error {
        let (own, given) = (clip(&self.fabric), clip(&fabric.name));
        let what = match self.fabric == fabric.name {
            true => format!("schedule: {wrong}"),
            false => format!("schedule: it is for {own}, not for {given} ({wrong}); give the fabric that it is for"),
        };
        Error::new(Code::BadFile, what)
    }

    /// Whether the links of a route lead from the sender to the receiver on a fabric that has them.
    fn is_routed(&self, fabric: &Fabric, transfer: &Transfer) -> bool {
        let mut at = self.node_of(fabric, transfer.from);
        let joined = transfer.route.iter().map(|&id| fabric.link(id)).all(|link| {
            let before = std::mem::replace(&mut at, link.to);
            before == link.from
        });
        joined && at == self.node_of(fabric, transfer.to)
    }

    /// Checks the version of the JSON form.
    pub(super) fn check_schema(schema: &str) -> Result<()> {
        if schema == Self::SCHEMA {
            return Ok(());
        }
        let what = format!("schedule: schema is '{}', expected '{}'", clip(schema), Self::SCHEMA);
        Err(Error::new(Code::BadFile, what))
    }

    /// The part of [`Schedule::check`] that needs no fabric: enough to execute the schedule.
    ///
    /// # Errors
    /// As [`Schedule::check`].
    pub fn check_alone(&self) -> Result<()> {
        self.check_header()?;
        (0..).zip(&self.lanes).try_for_each(|(id, lane)| self.check_lane(id, lane))?;
        if self.transfers.len() > MAX_TRANSFERS {
            return Err(Error::new(Code::TooLarge, format!("schedule: more than {MAX_TRANSFERS} transfers")));
        }
        let (mut lane_transfers, mut total) = (0usize, 0u128);
        for (id, transfer) in interruptible(&self.transfers).enumerate() {
            let (lanes, bytes) = self.check_transfer(id, transfer)?;
            total += bytes;
            if total > u64::MAX as u128 {
                return Err(Error::new(Code::TooLarge, "schedule: its transfers carry more than 16 EiB together"));
            }
            lane_transfers += lanes;
            if lane_transfers > MAX_LANE_TRANSFERS {
                let what = format!("schedule: more than {MAX_LANE_TRANSFERS} lane transfers");
                return Err(Error::new(Code::TooLarge, what));
            }
        }
        Ok(())
    }

    /// Checks all but lanes and transfers.
    fn check_header(&self) -> Result<()> {
        Schedule::check_schema(&self.schema)?;
        if self.ranks as usize > MAX_RANKS {
            return bad(format!("it is for {} ranks; at most {MAX_RANKS} are supported", self.ranks));
        }
        if self.bytes == 0 || self.bytes > antiphon_base::units::MAX_BYTES {
            return bad(format!("bytes is {}, expected 1 to 1 PiB", self.bytes));
        }
        if let Some(matrix) = &self.matrix {
            if let Err(error) = self.data().check(self.collective.kind, self.ranks as usize) {
                return bad(error.message);
            }
            if matrix.most() != self.bytes {
                return bad(format!("bytes is {}, but the most that a rank sends is {}", self.bytes, matrix.most()));
            }
            if !self.excluded.is_empty() {
                return bad("it excludes ranks; with a matrix those that have nothing need not be excluded".into());
            }
        }
        if !self.group.is_empty() && self.group.len() != self.ranks as usize {
            return bad(format!("group must name a rank of the fabric for each of {} ranks", self.ranks));
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
        if self.switches.len() > MAX_NODES || self.switches.windows(2).any(|pair| pair[0] >= pair[1]) {
            return bad("switches must name nodes in ascending order, each once".into());
        }
        if !self.switches.is_empty() && self.endpoint.issue != Issue::Links {
            return bad("switches take part, so its issue must be links".into());
        }
        if self.collective.root >= self.ranks {
            return bad(format!(
                "root {} does not exist; ranks are 0 to {}",
                self.collective.root,
                self.ranks.saturating_sub(1)
            ));
        }
        if self.endpoint.interfaces == Some(0) {
            return bad("endpoint: interfaces is 0, expected at least 1 or null".into());
        }
        Ok(())
    }

    fn check_lane(&self, id: usize, lane: &Lane) -> Result<()> {
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
        let (least, align) = (self.payload_per_chunk(lane).min(lane.bytes), self.align.bytes());
        if lane.chunk_bytes < least {
            let what =
                if self.align.is_least() { "whole 4-byte elements".into() } else { format!("whole {align} bytes") };
            return bad(format!(
                "lane {id}: chunk_bytes is {}, but {} bytes in {} chunks of {what} need {least}",
                lane.chunk_bytes, lane.bytes, lane.chunks
            ));
        }
        // Elements may be shorter than those by which shards are cut.
        if !self.align.is_least() && lane.bytes > 0 && !lane.offset.is_multiple_of(align) {
            return bad(format!("lane {id} begins at byte {}, no multiple of its align {align}", lane.offset));
        }
        if lane.chunks > 1 && lane.stride == 0 {
            return bad(format!("lane {id} has several chunks but stride 0"));
        }
        if lane.source >= self.ranks || lane.owner >= self.ranks {
            return bad(format!("lane {id} names a source or owner that is no rank"));
        }
        Ok(())
    }

    /// Checks a transfer; the number of its lanes and the bytes of all its messages.
    fn check_transfer(&self, id: usize, transfer: &Transfer) -> Result<(usize, u128)> {
        let all = self.participants();
        if transfer.from >= all || transfer.to >= all || transfer.from == transfer.to {
            return bad(format!("transfer {id} goes from rank {} to rank {}", transfer.from, transfer.to));
        }
        let (Some(lowest), Some(highest)) = (transfer.payload.iter().next(), transfer.payload.last()) else {
            return bad(format!("transfer {id} carries no lanes"));
        };
        let apart = transfer.payload.windows(2).all(|pair| pair[0].end <= pair[1].start);
        if !apart || transfer.payload.iter().any(|range| range.is_empty()) {
            return bad(format!("transfer {id} carries lanes that do not ascend"));
        }
        if highest.end as usize > self.lanes.len() {
            return bad(format!("transfer {id} carries lane {} of {}", highest.end - 1, self.lanes.len()));
        }
        let first = &self.lanes[lowest.start as usize];
        let (mut alike, mut wire, mut lanes) = (true, 0u128, 0);
        transfer.lanes().map(|lane| &self.lanes[lane]).for_each(|lane| {
            alike &= (lane.chunks, lane.stride) == (first.chunks, first.stride);
            wire += u128::from(lane.chunk_bytes);
            lanes += 1;
        });
        if !alike {
            return bad(format!("transfer {id} carries lanes with different chunk counts or strides"));
        }
        if transfer.phase as usize >= self.phases.len() {
            return bad(format!("transfer {id} is in phase {} of {}", transfer.phase, self.phases.len()));
        }
        let exists = |other: &&Dependency| (other.transfer() as usize) < self.transfers.len();
        if let Some(other) = transfer.dependencies().find(|other| !exists(other)) {
            return bad(format!("transfer {id} waits for transfer {}, which does not exist", other.transfer()));
        }
        if wire * first.chunks as u128 > 1 << 60 {
            return bad(format!("transfer {id} carries {wire} bytes {} times, more than 1 EiB", first.chunks));
        }
        Ok((lanes, wire * first.chunks as u128))
    }
}

/// Whether a node is a switch that adds or multicasts.
fn computes(fabric: &Fabric, node: NodeId) -> bool {
    fabric.nodes.get(node as usize).is_some_and(|node| node.compute.is_some())
}

fn bad<T>(what: String) -> Result<T> {
    Err(Error::new(Code::BadFile, format!("schedule: {what}")))
}

/// The least item that a list has twice.
fn repeated<T: Copy + Ord>(list: &[T]) -> Option<T> {
    let mut sorted = list.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}
