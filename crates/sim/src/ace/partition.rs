//! An engine's SRAM and state machines, divided among the phases of a collective (ACE, ISCA 2021, sections IV-F and IV-I).

use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Bytes;
use antiphon_model::system::{AceEndpoint, FsmSplit, SramSplit};
use std::ops::Range;

/// An engine's resources, divided among phases: a chunk of P phases goes through P + 1 partitions of the SRAM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// State machines of every phase.
    pub fsms: Vec<u64>,
    /// Bytes of SRAM for the chunks of every phase, and for results.
    pub sram: Vec<Bytes>,
}

/// Stages that a chunk goes through under one state machine (section IV-F).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnginePhase {
    /// Numbers of the stages.
    pub stages: Range<usize>,
    /// Bytes of a chunk that enters it.
    pub bytes: Bytes,
}

/// The phases of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkPhases {
    /// One after the other. An AllToAll has one.
    pub phases: Vec<EnginePhase>,
    /// Bytes after the last.
    pub results: Bytes,
    /// Whether any state machine does it: that of an AllToAll, which every phase's can.
    pub by_any: bool,
}

impl ChunkPhases {
    /// Bytes of a chunk that enters each phase, and of its results.
    pub fn sizes(&self) -> impl Iterator<Item = Bytes> {
        self.phases.iter().map(|phase| phase.bytes).chain([self.results])
    }

    /// Bytes of a chunk that enters the first.
    pub fn whole(&self) -> Bytes {
        self.phases.first().map_or(0, |phase| phase.bytes)
    }
}

/// What the chunks of a phase need.
#[derive(Clone, Copy, Default)]
pub(crate) struct PhaseNeed {
    /// Bytes of the largest.
    pub bytes: Bytes,
    /// Time of all of them, one after the other.
    pub duration: u128,
    /// Rate of its links times bytes.
    pub rate_bytes: u128,
}

/// What all chunks need.
#[derive(Default)]
pub(crate) struct EngineNeeds {
    pub phases: Vec<PhaseNeed>,
    /// Bytes of the largest result.
    pub results: Bytes,
    /// Time to read all chunks, and to write all results.
    pub reading: u128,
    pub writing: u128,
}

impl Partition {
    /// Divides an engine as its parameters say.
    ///
    /// # Errors
    /// [`Code::BadSize`] with fewer state machines than phases.
    pub(crate) fn divided(ace: &AceEndpoint, needs: &EngineNeeds) -> Result<Partition> {
        let (phases, results) = (&needs.phases, needs.results);
        let (count, fsms) = (phases.len() as u64, u64::from(ace.fsms));
        if fsms < count {
            let what = format!("{fsms} state machines for {count} phases; give fsms={count} or more");
            return Err(Error::new(Code::BadSize, what).at("endpoint ace"));
        }
        let durations = phases.iter().map(|need| need.duration);
        let stays: Vec<u128> = match ace.fsm_split {
            FsmSplit::Equal => vec![1; phases.len()],
            FsmSplit::Need => durations.clone().collect(),
        };
        let fsms = places(fsms, &vec![1; phases.len()], &stays);
        let sram = match ace.sram_split {
            SramSplit::Paper => {
                let of = |need: &PhaseNeed| need.rate_bytes;
                let weights: Vec<u128> = phases.iter().map(of).chain(phases.last().map(of)).collect();
                let all = weights.iter().sum::<u128>().max(1);
                weights.iter().map(|weight| (u128::from(ace.sram) * weight / all) as u64).collect()
            }
            SramSplit::Need => {
                // The first also holds what is still read, the last what is written.
                let mut stays: Vec<u128> = durations.chain([needs.writing]).collect();
                stays[0] += needs.reading;
                let sizes = phases.iter().map(|need| need.bytes).chain([results]).map(|of| of.max(1));
                let sizes: Vec<u64> = sizes.collect();
                let counts = places(ace.sram, &sizes, &stays);
                counts.iter().zip(sizes).map(|(count, size)| count * size).collect()
            }
        };
        Ok(Partition { fsms, sram })
    }

    /// Refuses chunks for which a partition has no room.
    pub(crate) fn expect_room(&self, chunk: &ChunkPhases) -> Result<()> {
        let results = self.sram.len() - 1;
        let phases = chunk.phases.len();
        for (at, bytes) in chunk.sizes().enumerate() {
            let (place, room) = if at == phases {
                ("results have".into(), self.sram[results])
            } else {
                (format!("phase {} has", at + 1), self.sram[at])
            };
            if bytes > room {
                let what = format!(
                    "{place} {room} bytes of the SRAM, and a chunk there {bytes}; give a larger sram, a smaller chunk, or \
                     sram_split=need"
                );
                return Err(Error::new(Code::BadSize, what).at("endpoint ace"));
            }
        }
        Ok(())
    }

    /// Sizes of its rooms: state machines of every phase, then the SRAM.
    pub fn rooms(&self) -> Vec<u64> {
        [&self.fsms[..], &self.sram].concat()
    }

    /// The room of the state machines that drive a phase of a chunk, which has this number among all. State machines of all
    /// phases do an AllToAll, whose chunks take turns.
    pub(crate) fn fsm_room(&self, chunk: &ChunkPhases, number: usize, phase: usize) -> u8 {
        if !chunk.by_any {
            return phase as u8;
        }
        let turn = (number as u64 * 7919) % self.fsms.iter().sum::<u64>().max(1);
        let ends = self.fsms.iter().scan(0, |sum, &fsms| {
            *sum += fsms;
            Some(*sum)
        });
        ends.take_while(|&end| end <= turn).count() as u8
    }

    /// The room of the SRAM in which a chunk is in a phase, or its results are.
    pub(crate) fn sram_room(&self, chunk: &ChunkPhases, phase: usize) -> u8 {
        let partition = if phase == chunk.phases.len() { self.sram.len() - 1 } else { phase };
        (self.fsms.len() + partition) as u8
    }
}

/// Refuses an engine that is to be divided, where nobody says what its phases are.
///
/// # Errors
/// [`Code::BadSpec`] with the option.
pub(crate) fn expect_undivided(ace: &AceEndpoint) -> Result<()> {
    let option = match ace {
        _ if ace.fsm_split != FsmSplit::default() => "fsm_split",
        _ if ace.sram_split != SramSplit::default() => "sram_split",
        _ => return Ok(()),
    };
    let what = format!("{option} divides an engine on rails only, stage by stage; leave it out here");
    Err(Error::new(Code::BadSpec, what).at("endpoint ace"))
}

/// How many places each has of `total`, which are of these sizes: one after the other, to where chunks that stay so long
/// get on most slowly with the places that there are. Of more nobody has less (Adams' method of apportionment).
fn places(total: u64, sizes: &[u64], stays: &[u128]) -> Vec<u64> {
    let spare = u128::from(total.saturating_sub(sizes.iter().sum()));
    let all: u128 = sizes.iter().zip(stays).map(|(&size, stay)| u128::from(size) * stay).sum();
    // All that come before a common rate that is certainly reached.
    let mut counts: Vec<u64> = stays.iter().map(|stay| (stay * spare).div_ceil(all) as u64).collect();
    let mut left = total - counts.iter().zip(sizes).map(|(count, size)| count * size).sum::<u64>();
    loop {
        let time = |one: usize, other: usize| stays[one] * u128::from(counts[other]);
        let slowest = (0..sizes.len()).min_by(|&one, &other| time(other, one).cmp(&time(one, other)));
        let Some(slowest) = slowest.filter(|&slowest| sizes[slowest] <= left) else { return counts };
        left -= sizes[slowest];
        counts[slowest] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::places;

    /// One each; then the first, three times as slow as the second, is next until it has three. Its fourth needs 2.
    #[test]
    fn places_go_to_the_slowest() {
        assert_eq!(places(5, &[2, 1, 3], &[10, 3, 1]), [1, 1, 0]);
        assert_eq!(places(11, &[2, 1, 3], &[10, 3, 1]), [3, 1, 1]);
        assert_eq!(places(12, &[2, 1, 3], &[10, 3, 1]), [4, 1, 1]);
    }
}
