//! Phases of a chunk, and what it takes of an engine in each: what `footprint.rs` is for units.

use super::orders::{Basic, Stage};
use crate::ace::partition::{ChunkPhases, EnginePhase};
use antiphon_base::units::Bytes;

/// Sizes of stages are in parts of a byte.
pub(super) const PARTS: u128 = 4096;

/// The phases of a chunk with these stages: both of an AllReduce along one dimension are one, and so is an AllToAll.
pub(super) fn phases(stages: &[Stage]) -> ChunkPhases {
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

/// Whole bytes that hold parts.
fn bytes_of(size: u64) -> Bytes {
    size.div_ceil(PARTS as u64)
}
