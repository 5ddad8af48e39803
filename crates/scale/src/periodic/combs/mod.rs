//! Combs on square meshes: `2 n` spanning trees that load every link alike, as algorithm `combs` lists them.

mod adders;
mod rule;
mod waves;

use super::DescribedTask;
use super::proof::{DescribedTrees, prove};
use crate::Described;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::options::{Default::Derived, Opt, Options};
use antiphon_base::parameter::Value;
use antiphon_base::units::{Bytes, Picos};
use antiphon_bound::mesh_bound;
use antiphon_model::collective::Align;
use antiphon_model::schedule::Op;
use antiphon_sim::cost::MessageCost;
use rule::CombRule;
use waves::MessageTicks;

const OPTIONS: &[Opt] =
    &[Opt::bytes("piece", Derived("the best by the slots it takes"), "One piece of one tree.").at_least(4)];

/// Up to this side all numbers of pieces are timed: tenths of a second.
const FEW: usize = 16;

/// Bytes of a tree's pieces, in so many of them, and what they cost.
struct EqualPieces {
    count: u64,
    /// Of every tree.
    bytes: Vec<Bytes>,
    /// Added, and copied: the same for all trees.
    costs: [MessageCost; 2],
}

/// The combs of a request.
pub(super) fn described(task: &DescribedTask) -> Result<Described> {
    let options = Options::parse("combs", task.options, OPTIONS)?;
    let [rows, columns] = task.grid.sides();
    if rows != columns {
        return task.refuse("it needs a square mesh");
    }
    let n = rows as usize;
    let combs = CombRule::new(n, task.bytes);
    let least = u64::from(combs.trees()) * Align::LEAST;
    if task.bytes < least {
        return task.refuse(format_args!(
            "it has {} trees, each for 4 bytes at least; use {least} bytes or more",
            combs.trees()
        ));
    }
    let part = task.bytes.div_ceil(combs.trees().into());
    let pieces = match options.given("piece").map(Value::whole) {
        Some(piece) => {
            match EqualPieces::of(task, &combs, rounds_of(part, piece)) {
                Some(pieces) => pieces,
                None => return task.refuse(
                    "pieces of its trees would take unlike times; use another piece, or a size that all trees share",
                ),
            }
        }
        None => match EqualPieces::best(task, &combs, part)? {
            Some(pieces) => pieces,
            None => return task.refuse("pieces of its trees would take unlike times; use a size that all trees share"),
        },
    };
    let proof = prove(task.grid, &combs, task.bytes, task.watch)?;
    let time_ps = pieces.time(task, &combs)?;
    let (bound_ps, binding) =
        mesh_bound([rows, columns], task.grid.link(), task.system, task.bytes, Some(task.fidelity));
    let of_tree = u128::from(task.grid.ranks() - 1) * u128::from(pieces.count);
    let energy = |&bytes: &Bytes| of_tree * (task.energy(bytes, Op::Reduce) + task.energy(bytes, Op::Copy));
    Ok(Described {
        algorithm: format!("combs:piece={}", pieces.bytes[0]),
        time_ps,
        bound_ps,
        binding,
        messages: 2 * of_tree * pieces.bytes.len() as u128,
        dynamic: pieces.bytes.iter().map(energy).sum(),
        proof,
    })
}

/// Numbers of pieces worth a look: few, then whole packets; as listed trees have them.
fn rounds(task: &DescribedTask, part: Bytes) -> Vec<u64> {
    let format = &task.system.packet;
    let steps = || (0..32).flat_map(|exponent| [2u64 << exponent, 3 << exponent]);
    let halves = [1, 2].into_iter().chain(steps());
    let packets = halves.map(|half| rounds_of(part, format.payload_bytes.saturating_mul(half) / 2));
    let most = rounds_of(part, if format.fixed_size { format.payload_bytes } else { format.flit_bytes });
    let mut rounds: Vec<u64> = [1].into_iter().chain(steps().take(12)).chain(packets).collect();
    rounds.retain(|&rounds| rounds == 1 || rounds <= most);
    // Those that a size of pieces gives.
    rounds.iter_mut().for_each(|rounds| *rounds = rounds_of(part, part.div_ceil(*rounds)));
    rounds.sort_unstable();
    rounds.dedup();
    rounds
}

/// Rounds in which a tree's part of the data goes in pieces of about `piece` bytes.
fn rounds_of(part: Bytes, piece: Bytes) -> u64 {
    part.div_ceil(Align::default().up(piece.min(part).max(1))).max(1)
}

impl EqualPieces {
    /// Of so many of every tree, if all cost the same.
    fn of(task: &DescribedTask, combs: &CombRule, count: u64) -> Option<EqualPieces> {
        let align = Align::default();
        let least = align.payload(task.bytes.div_ceil(combs.trees().into()), count);
        let bytes: Vec<Bytes> =
            (0..combs.trees()).map(|tree| align.payload(combs.lane(tree).1, count).max(least)).collect();
        let cost = |&bytes: &Bytes| [Op::Reduce, Op::Copy].map(|op| task.costs().message(bytes, op));
        let costs = cost(&bytes[0]);
        bytes.iter().all(|bytes| cost(bytes) == costs).then_some(EqualPieces { count, bytes, costs })
    }

    /// From the end of a message on a link to the start of what waits for it, unless it is to be added.
    fn way_ps(task: &DescribedTask) -> Picos {
        let costs = task.costs();
        costs.link(task.grid.link()).latency_ps.saturating_add(costs.hand_off_ps())
    }

    /// Those that are through soonest by the slots they take: no message takes longer than all slots until its own. On small
    /// meshes, those that are.
    fn best(task: &DescribedTask, combs: &CombRule, part: Bytes) -> Result<Option<EqualPieces>> {
        let mut all: Vec<EqualPieces> =
            rounds(task, part).into_iter().filter_map(|count| EqualPieces::of(task, combs, count)).collect();
        all.sort_by_key(|pieces| pieces.slots_ps(task, combs, true));
        let mut best: Option<(Picos, EqualPieces)> = None;
        for pieces in all {
            match &best {
                Some(_) if combs.n > FEW => break,
                Some((time, _)) if pieces.slots_ps(task, combs, false) >= u128::from(*time) => continue,
                _ => {}
            }
            let time = if combs.n > FEW { 0 } else { pieces.time(task, combs)? };
            if best.as_ref().is_none_or(|best| time < best.0) {
                best = Some((time, pieces));
            }
        }
        Ok(best.map(|best| best.1))
    }

    /// The time of all slots, if messages wait in every one for those of the slot before, or only those of the last chunk do.
    fn slots_ps(&self, task: &DescribedTask, combs: &CombRule, all: bool) -> u128 {
        let busy = u128::from(self.costs[0].on_link(task.costs().link(task.grid.link()).flit_ps));
        let way = u128::from(EqualPieces::way_ps(task)) + u128::from(self.costs[0].adding_ps);
        let others = u128::from(self.count - 1) * combs.period() as u128;
        others * (busy + if all { way } else { 0 }) + u128::from(combs.last) * busy
    }

    /// When the last has come.
    fn time(&self, task: &DescribedTask, combs: &CombRule) -> Result<Picos> {
        let (costs, link) = (task.costs(), task.grid.link());
        let each = u128::from(self.count) * u128::from(combs.trees()) * u128::from(task.grid.ranks() - 1);
        let clock = task.clock(self.costs.map(|cost| (cost, each)));
        let busy =
            u128::from(self.costs[0].flits()) * u128::from(costs.flit_ticks(std::iter::once(link), clock.bits()));
        let (way, launch) = (clock.ticks(EqualPieces::way_ps(task)), clock.ticks(task.system.launch_ps()));
        let adding = clock.ticks(self.costs[0].adding_ps);
        // Every message is through when all slots until its own have taken as long as a message that is added after three others.
        let slots = u128::from(self.count) * combs.period() as u128 + u128::from(combs.last);
        let longest = u128::from(launch) + slots * (busy + u128::from(way) + 4 * u128::from(adding));
        if longest > i64::MAX as u128 {
            let what = format!("{} takes more time than 63 bits hold; use less data", task.spec);
            return Err(Error::new(Code::TooLarge, what));
        }
        let times = MessageTicks { busy: busy as i64, way: way as i64, launch: launch as i64 };
        let found = match adding {
            0 => waves::run(combs, self.count, times, true, task.watch)?,
            _ => adders::run(combs, self.count, (times, adding as i64), true, task.watch)?,
        };
        Ok(clock.picos(found.ticks as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Grid, described};
    use super::*;
    use antiphon_base::watch::Watch;
    use antiphon_model::collective::{Collective, Kind};
    use antiphon_model::fabric::Fabric;
    use antiphon_model::system::System;
    use antiphon_sim::{Fidelity, dynamic_energy, simulate};

    fn system(name: &str, changes: &[(&str, &str)]) -> System {
        let mut system = System::preset(name).unwrap();
        changes.iter().for_each(|(key, value)| system.set(key, value).unwrap());
        system
    }

    /// Holds that the described schedule takes as long as the listed one with the same pieces, and as much energy; whether that has
    /// all trees.
    fn same(spec: &str, bytes: Bytes, algorithm: &str, system: &System, fidelities: &[Fidelity]) -> bool {
        let (fabric, grid) = (Fabric::parse(spec).unwrap(), Grid::parse(spec).unwrap());
        let of = |fidelity| described(&grid, system, bytes, algorithm, fidelity, Watch::default()).unwrap();
        let one = of(fidelities[0]);
        let collective = Collective::new(Kind::AllReduce);
        let schedule = antiphon_plan::algorithm::build(&fabric, system, collective, bytes, &one.algorithm).unwrap();
        if schedule.lanes.len() as u32 != 2 * grid.sides()[0] {
            return false;
        }
        let messages: u64 =
            schedule.transfers.iter().map(|of| schedule.lanes[of.payload.first() as usize].chunks).sum();
        let proven = antiphon_proof::prove(&fabric, schedule).unwrap();
        for &fidelity in fidelities {
            let (one, listed) = (of(fidelity), simulate(&fabric, &proven, system, fidelity, &mut |_| true).unwrap());
            let place = format!("{spec} {} {bytes} {} {fidelity:?}", system.name, one.algorithm);
            assert_eq!(one.time_ps, listed.time_ps, "{place}");
            assert_eq!(one.dynamic, dynamic_energy(&fabric, &proven, system).unwrap().dynamic(), "{place}");
            assert_eq!(one.messages, messages.into(), "{place}");
        }
        true
    }

    const BOTH: [Fidelity; 2] = [Fidelity::Packet, Fidelity::AlphaBeta];

    #[test]
    fn the_listed_combs_take_the_same() {
        let slow = [("reduce_rate_gb_per_s", "100"), ("link_latency_ns", "3")];
        let systems = [
            system("generic", &[]),
            system("ideal", &[]),
            system("generic", &[("launch_ns", "700")]),
            system("tto", &[]),
            system("generic", &slow),
        ];
        for system in &systems {
            for n in 2..=8 {
                assert!(same(&format!("mesh:{n}x{n}"), 8 << 20, "combs", system, &BOTH), "{n}");
            }
            // Of small meshes few trees are listed here.
            let slow = |n| same(&format!("mesh:{n}x{n}@37/33ns"), 30_000_004, "combs:piece=16KiB", system, &BOTH);
            assert!((3..=8).filter(|&n| slow(n)).count() >= 4);
        }
    }

    #[test]
    fn up_to_thirteen() {
        for n in 9..=13 {
            let name = if n % 2 == 0 { "tto" } else { "generic" };
            assert!(same(&format!("mesh:{n}x{n}"), 16 << 20, "combs", &system(name, &[]), &BOTH[..1]), "{n}");
        }
    }

    #[test]
    #[ignore = "a minute"]
    fn up_to_thirty_two() {
        for n in 14..=32 {
            for name in ["generic", "tto"] {
                assert!(
                    same(&format!("mesh:{n}x{n}"), 64 << 20, "combs", &system(name, &[]), &BOTH[..1]),
                    "{n} {name}"
                );
                println!("{n} {name}");
            }
        }
    }

    /// Skipping periods changes no time, whatever part links and ways have in it.
    #[test]
    fn periods_are_skipped_exactly() {
        let mut skipped = 0;
        for n in [2, 3, 4, 5, 7, 8, 12] {
            let combs = CombRule::new(n, 1 << 20);
            for (busy, way) in [(1000, 0), (1000, 1), (1000, 33), (1000, 400), (1000, 999), (10, 5000)] {
                for chunks in [1, 2, 7, 40, 300] {
                    let times = MessageTicks { busy, way, launch: 70 };
                    if n < 8 && chunks < 300 {
                        let added = |adding, skips| {
                            adders::run(&combs, chunks, (times, adding), skips, Watch::default()).unwrap().ticks
                        };
                        let waves = waves::run(&combs, chunks, times, true, Watch::default()).unwrap().ticks;
                        assert_eq!(added(0, true), waves, "{n} {chunks} {times:?}");
                        assert_eq!(added(busy / 9, true), added(busy / 9, false), "{n} {chunks} {times:?}");
                        assert!(added(busy / 9, true) >= waves + busy / 9, "{n} {chunks} {times:?}");
                    }
                    let [all, some] =
                        [false, true].map(|skips| waves::run(&combs, chunks, times, skips, Watch::default()).unwrap());
                    assert_eq!(all.ticks, some.ticks, "{n} {chunks} {times:?}");
                    skipped += u32::from(some.periods < all.periods / 4);
                }
            }
        }
        assert!(skipped > 30, "{skipped}");
    }

    #[test]
    #[ignore = "seconds; prints them"]
    fn on_sixty_five_thousand_ranks() {
        let start = std::time::Instant::now();
        let grid = Grid::parse("mesh:256x256").unwrap();
        for bytes in [1 << 26, 1 << 30, 1 << 34] {
            for name in ["generic", "ideal"] {
                let one =
                    described(&grid, &system(name, &[]), bytes, "combs", Fidelity::Packet, Watch::default()).unwrap();
                println!("{name} {bytes}: {one:?} after {:?}", start.elapsed());
            }
        }
    }
}
