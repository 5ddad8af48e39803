//! Where ranks keep the data of a schedule: in input, output or scratch.

use super::grid::ChunkGrid;
use super::model::{Buffer, ChunkPlace};
use antiphon_base::error::{Code, Error, Result};
use antiphon_model::collective::Kind;
use antiphon_model::schedule::{Held, Schedule};
use std::collections::{BTreeMap, HashMap};

/// Checks that a program of equal chunks can express a schedule.
///
/// # Errors
/// [`Code::NotApplicable`].
pub fn check(schedule: &Schedule) -> Result<()> {
    schedule.check_alone()?;
    schedule.without_switches("programs of thread blocks")?;
    let refuse = |what: &str| Err(Error::new(Code::NotApplicable, what));
    if schedule.matrix.is_some() {
        return refuse("chunks of all ranks are equal, so an all-to-all by a matrix cannot be written");
    }
    if !schedule.excluded.is_empty() {
        return refuse(
            "all ranks take part, so a schedule that excludes some cannot be written; choose a group of ranks",
        );
    }
    if !Held::of(schedule).is_empty() {
        return refuse("messages are held until later ones are sent, for which there is no place here");
    }
    Ok(())
}

/// Places of chunks. All collectives are in place but the all-to-all, in which chunks that pass through a rank lie in
/// its scratch.
pub struct ChunkLayout<'a> {
    schedule: &'a Schedule,
    grid: &'a ChunkGrid,
    /// By rank: where lanes that pass through it begin in scratch.
    offsets: Vec<HashMap<u32, u32>>,
    /// By rank: chunks of scratch.
    pub scratch: Vec<u32>,
}

impl<'a> ChunkLayout<'a> {
    /// O(lane transfers).
    pub fn new(schedule: &'a Schedule, grid: &'a ChunkGrid) -> Self {
        let mut passing = vec![BTreeMap::new(); schedule.ranks as usize];
        if schedule.collective.kind == Kind::AllToAll {
            for transfer in &schedule.transfers {
                for lane in transfer.lanes() {
                    let of = &schedule.lanes[lane];
                    let ends = [transfer.from, transfer.to].into_iter();
                    for rank in ends.filter(|&rank| rank != of.source && rank != of.owner) {
                        passing[rank as usize].insert(lane as u32, grid.lane(lane).len() as u32);
                    }
                }
            }
        }
        let offsets = |lanes: &BTreeMap<u32, u32>| {
            let mut next = 0;
            lanes.iter().map(|(&lane, &chunks)| (lane, (next, next += chunks).0)).collect()
        };
        let scratch = passing.iter().map(|lanes| lanes.values().sum()).collect();
        ChunkLayout { schedule, grid, offsets: passing.iter().map(offsets).collect(), scratch }
    }

    /// Where a rank keeps a chunk of a lane.
    pub fn place(&self, rank: u32, lane: usize, chunk: u32) -> ChunkPlace {
        let of = &self.schedule.lanes[lane];
        let (buffer, offset) = match self.schedule.collective.kind {
            Kind::AllGather => (Buffer::Output, chunk),
            Kind::AllToAll if rank == of.source => (Buffer::Input, chunk),
            Kind::AllToAll if rank == of.owner => {
                let shard = self.grid.chunks / self.schedule.ranks;
                (Buffer::Output, of.source * shard + chunk % shard)
            }
            Kind::AllToAll => {
                let first = self.offsets[rank as usize][&(lane as u32)];
                (Buffer::Scratch, first + chunk - self.grid.lane(lane).start)
            }
            _ => (Buffer::Input, chunk),
        };
        ChunkPlace { buffer, offset }
    }
}
