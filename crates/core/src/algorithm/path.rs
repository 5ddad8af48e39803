//! Sends a block along a path of ranks, adding up on the way or handing out.

use crate::error::Result;
use crate::schedule::{Builder, LaneId, Op};

/// The whole cycle from position `start`, forwards for direction 0 and backwards for direction 1.
pub fn around(cycle: &[u32], start: usize, direction: usize) -> Vec<u32> {
    let step = if direction == 0 { 1 } else { cycle.len() - 1 };
    (0..cycle.len()).map(|i| cycle[(start + i * step) % cycle.len()]).collect()
}

/// Reduces `lanes` adjacent lanes along `path`, one hop a step from `first_step`: every rank adds
/// its own data when the path first visits it and merely relays when the path comes by again.
pub fn reduce_along(builder: &mut Builder, path: &[u32], lane: LaneId, lanes: u32, first_step: u32) -> Result<()> {
    let mut seen = vec![false; builder.schedule.ranks as usize];
    for (i, hop) in path.windows(2).enumerate() {
        seen[hop[0] as usize] = true;
        let op = if seen[hop[1] as usize] { Op::Copy } else { Op::Reduce };
        builder.send(op, hop[0], hop[1], lane..lane + lanes, first_step + i as u32)?;
    }
    Ok(())
}

/// Copies `lanes` adjacent lanes along `path`, one hop a step from `first_step`.
pub fn copy_along(builder: &mut Builder, path: &[u32], lane: LaneId, lanes: u32, first_step: u32) -> Result<()> {
    for (i, hop) in path.windows(2).enumerate() {
        builder.send(Op::Copy, hop[0], hop[1], lane..lane + lanes, first_step + i as u32)?;
    }
    Ok(())
}
