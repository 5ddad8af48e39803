//! Sends blocks along paths of ranks, adding up on the way or handing out.

use antiphon_base::error::Result;
use antiphon_model::schedule::{Builder, LaneId, Op};
use fixedbitset::FixedBitSet;
use std::ops::Range;

/// The whole cycle from position `start`, forwards for direction 0 and backwards for direction 1.
pub fn around(cycle: &[u32], start: usize, direction: usize) -> Vec<u32> {
    let step = if direction == 0 { 1 } else { cycle.len() - 1 };
    (0..cycle.len()).map(|i| cycle[(start + i * step) % cycle.len()]).collect()
}

/// The way of a block.
pub struct Way {
    /// Adjacent lanes.
    pub lanes: Range<LaneId>,
    /// Ranks that they come to.
    pub path: Vec<u32>,
}

/// Reduces along all `ways` at once, one hop a step from `first_step`: every rank adds its own data when a path first
/// visits it and merely relays when the path comes by again.
pub fn reduce_along(builder: &mut Builder, ways: &[Way], first_step: u32) -> Result<()> {
    let mut seen = vec![FixedBitSet::with_capacity(builder.schedule.ranks as usize); ways.len()];
    let op = |way: usize, from: u32, to: u32| {
        seen[way].insert(from as usize);
        if seen[way].contains(to as usize) { Op::Copy } else { Op::Reduce }
    };
    send_along(builder, ways, first_step, op)
}

/// Copies along all `ways` at once, one hop a step from `first_step`.
pub fn copy_along(builder: &mut Builder, ways: &[Way], first_step: u32) -> Result<()> {
    send_along(builder, ways, first_step, |_, _, _| Op::Copy)
}

/// Step by step, in which order a schedule is in the end.
fn send_along(
    builder: &mut Builder,
    ways: &[Way],
    first_step: u32,
    mut op: impl FnMut(usize, u32, u32) -> Op,
) -> Result<()> {
    let hops = ways.iter().map(|way| way.path.len().saturating_sub(1)).max().unwrap_or(0);
    for at in 0..hops {
        for (number, Way { lanes, path }) in ways.iter().enumerate() {
            if let Some(&[from, to]) = path.get(at..).and_then(|rest| rest.first_chunk()) {
                builder.send(op(number, from, to), from, to, lanes.clone(), first_step + at as u32)?;
            }
        }
    }
    Ok(())
}
