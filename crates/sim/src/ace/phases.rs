//! Phases of a chunk, stage by stage, and what it takes of an engine in each: the other side of `footprint.rs`.

use crate::rails::orders::{Basic, Stage};
use antiphon_base::units::Bytes;
use std::ops::Range;

/// Sizes of stages are in parts of a byte.
pub(crate) const PARTS: u128 = 4096;

/// Stages that a chunk goes through under one state machine: both of an AllReduce along one dimension (section IV-F).
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
    /// Of a chunk with these stages.
    pub fn of(stages: &[Stage]) -> ChunkPhases {
        let mut phases: Vec<EnginePhase> = Vec::new();
        for (number, stage) in stages.iter().enumerate() {
            let before = number.checked_sub(1).map(|before| stages[before]);
            let same = before.is_some_and(|before| {
                let exchange = stage.basic == Basic::Exchange;
                exchange || before.dimension == stage.dimension && stage.basic == Basic::Gather
            });
            match phases.last_mut() {
                Some(last) if same => last.stages.end = number + 1,
                _ => phases.push(EnginePhase { stages: number..number + 1, bytes: bytes_of(stage.size_before) }),
            }
        }
        let results = stages.last().map_or(0, |stage| match stage.basic {
            Basic::Gather => bytes_of(stage.size_before).max(bytes_of(stage.size)),
            Basic::Reduce => bytes_of(stage.size),
            Basic::Exchange => bytes_of(stage.size_before),
        });
        let by_any = phases.len() == 1 && stages.first().is_some_and(|stage| stage.basic == Basic::Exchange);
        ChunkPhases { phases, results, by_any }
    }

    /// Bytes of a chunk that enters each phase, and of its results.
    pub fn sizes(&self) -> impl Iterator<Item = Bytes> {
        self.phases.iter().map(|phase| phase.bytes).chain([self.results])
    }

    /// Bytes of a chunk that enters the first.
    pub fn whole(&self) -> Bytes {
        self.phases.first().map_or(0, |phase| phase.bytes)
    }
}

/// Whole bytes that hold parts.
fn bytes_of(size: u64) -> Bytes {
    size.div_ceil(PARTS as u64)
}
