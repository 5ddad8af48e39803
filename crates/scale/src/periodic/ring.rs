//! A ring through all ranks of a mesh: reduce-scatter, then all-gather on the same way.
//!
//! All ranks do the same at the same time, so the messages of one stand for all: `2 (N - 1)` one after the other, each when
//! the one before has come and was added. Shards that differ by an element cost the same, or the ring is refused.

use super::{DescribedTask, Grid};
use crate::Described;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::options::Options;
use antiphon_bound::mesh_bound;
use antiphon_model::collective::Align;
use antiphon_model::schedule::Op;

/// The ring of a request.
pub(super) fn described(task: &DescribedTask) -> Result<Described> {
    Options::parse("ring", task.options, &[])?;
    let (grid, ranks) = (task.grid, u64::from(task.grid.ranks()));
    if ranks % 2 == 1 {
        return task.refuse("a ring needs an even number of ranks here; on odd meshes a rank is passed twice");
    }
    if ranks > 2 && grid.sides().contains(&1) {
        return task.refuse("a ring needs two rows and two columns at least");
    }
    let proof = prove(grid)?;
    let (wire, align) = (task.bytes.div_ceil(ranks), Align::default());
    let format = &task.system.packet;
    let wire = wire.next_multiple_of(if format.fixed_size { format.payload_bytes } else { 1 });
    let shards = || (0..ranks as usize).map(|rank| align.shard(task.bytes, ranks as usize, rank).1.max(wire).max(1));
    let costs = task.costs();
    let [added, copied] = [Op::Reduce, Op::Copy].map(|op| costs.message(wire.max(1), op));
    if shards().any(|bytes| [Op::Reduce, Op::Copy].map(|op| costs.message(bytes, op)) != [added, copied]) {
        let least = ranks * align.bytes();
        return task.refuse(format_args!("shards would take unlike times; use a multiple of {least} bytes"));
    }
    let steps = u128::from(ranks - 1);
    let clock = task.clock([(added, u128::from(ranks) * steps), (copied, u128::from(ranks) * steps)]);
    let flit = costs.flit_ticks(std::iter::once(grid.link()), clock.bits());
    let way = costs.link(grid.link()).latency_ps.saturating_add(costs.hand_off_ps());
    let step = u128::from(added.flits()) * u128::from(flit) + u128::from(clock.ticks(way));
    let ticks = u128::from(clock.ticks(task.system.launch_ps()))
        + steps * (2 * step + u128::from(clock.ticks(added.adding_ps)));
    let too_long =
        || Error::new(Code::TooLarge, format!("{} takes more time than 64 bits hold; use less data", task.spec));
    let time_ps = clock.picos(u64::try_from(ticks).map_err(|_| too_long())?);
    let (bound_ps, binding) = mesh_bound(grid.sides(), grid.link(), task.system, task.bytes, Some(task.fidelity));
    let each = |bytes| steps * (task.energy(bytes, Op::Reduce) + task.energy(bytes, Op::Copy));
    let dynamic = shards().map(each).sum();
    let messages = 2 * u128::from(ranks) * steps;
    Ok(Described { algorithm: "ring".into(), time_ps, bound_ps, binding, messages, dynamic, proof })
}

/// The rank after another one: along the first row, then up and down the columns from the last, where their number is even;
/// with rows and columns exchanged elsewhere.
fn next(grid: &Grid, rank: u32) -> u32 {
    if grid.ranks() == 2 {
        return 1 - rank;
    }
    let ([mut rows, mut columns], [mut row, mut column]) = (grid.sides(), grid.place(rank));
    let turned = columns % 2 == 1;
    if turned {
        (rows, columns, row, column) = (columns, rows, column, row);
    }
    let down = (columns - 1 - column) % 2 == 0;
    match (row, down) {
        (0, _) if column + 1 < columns => column += 1,
        (0, _) => row = 1,
        (_, true) if row + 1 < rows => row += 1,
        (_, false) if row > 1 => row -= 1,
        // Of column 0, which is gone up, the last leads to the start.
        (_, false) if column == 0 => row = 0,
        _ => column -= 1,
    }
    if turned { column * grid.sides()[1] + row } else { row * columns + column }
}

/// That the ring comes to every rank once, over links. O(ranks).
fn prove(grid: &Grid) -> Result<String> {
    let ranks = grid.ranks();
    let mut seen = vec![false; ranks as usize];
    let mut at = 0;
    for _ in 0..ranks {
        let to = next(grid, at);
        if !grid.joins(at, to) || std::mem::replace(&mut seen[to as usize], true) {
            return Err(Error::new(Code::NotProven, format!("the ring goes from rank {at} to {to}")));
        }
        at = to;
    }
    Ok(format!("a ring of {ranks} ranks on links of the mesh comes to each once; every shard goes around it twice"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_base::watch::Watch;
    use antiphon_model::collective::{Collective, Kind};
    use antiphon_model::fabric::Fabric;
    use antiphon_model::system::System;
    use antiphon_sim::{Fidelity, dynamic_energy, simulate};

    #[test]
    fn rings_of_all_even_meshes_are_proven() {
        let sides = (2..=9).flat_map(|rows| (2..=9).map(move |columns| (rows, columns)));
        for (rows, columns) in sides.chain([(1, 2), (2, 1), (512, 256)]).filter(|(r, c)| r * c % 2 == 0) {
            prove(&Grid::parse(&format!("mesh:{rows}x{columns}")).unwrap()).unwrap();
        }
    }

    #[test]
    fn the_listed_ring_takes_the_same() {
        for (spec, bytes) in [
            ("mesh:1x2", 1 << 20),
            ("mesh:2x2", 16),
            ("mesh:4x4@100/20ns", 1 << 22),
            ("mesh:3x6", 18 * 4 * 1000),
            ("mesh:6x5", 999_999),
            ("mesh:8x8", 1 << 20),
        ] {
            let fabric = Fabric::parse(spec).unwrap();
            for name in ["generic", "ideal", "tto", "h100-nccl"] {
                let mut system = System::preset(name).unwrap();
                system.protocols.0.truncate(1);
                let collective = Collective::new(Kind::AllReduce);
                let schedule = antiphon_plan::algorithm::build(&fabric, &system, collective, bytes, "ring").unwrap();
                let proven = antiphon_proof::prove(&fabric, schedule).unwrap();
                for fidelity in [Fidelity::Packet, Fidelity::AlphaBeta] {
                    let listed = simulate(&fabric, &proven, &system, fidelity, &mut |_| true).unwrap();
                    let grid = Grid::parse(spec).unwrap();
                    let ring =
                        super::super::described(&grid, &system, bytes, "ring", fidelity, Watch::default()).unwrap();
                    assert_eq!(ring.time_ps, listed.time_ps, "{spec} {name} {fidelity:?}");
                    let energy = dynamic_energy(&fabric, &proven, &system).unwrap();
                    assert_eq!(ring.dynamic, energy.dynamic(), "{spec} {name}");
                    assert_eq!(ring.messages, proven.transfers.len() as u128, "{spec} {name}");
                }
            }
        }
    }
}
