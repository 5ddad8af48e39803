//! Which trees, and in how many pieces: the first rounds are timed by a recurrence, the others by the busiest
//! link and what holds it up.

use super::{Parent, Table, piece_bytes};
use crate::algorithm::Request;
use crate::schedule::Op;
use crate::units::Bytes;

/// The table that is through soonest, and the number of its rounds; with pieces of `given` bytes if so.
///
/// # Panics
/// Without tables.
pub(super) fn best(request: &Request, tables: impl IntoIterator<Item = Table>, given: Option<Bytes>) -> (Table, u64) {
    let mut best: Option<(u128, Table, u64)> = None;
    for table in tables {
        let model = Model::new(request, &table);
        let mut found = None;
        for rounds in rounds(request, table.trees.len(), given) {
            let least = found.or(best.as_ref().map(|best| (best.0, best.2)));
            if least.is_some_and(|(time, _)| model.least(rounds) >= time) {
                continue;
            }
            let time = model.time(rounds);
            if least.is_none_or(|least| time < least.0) {
                found = Some((time, rounds));
            }
        }
        if let Some((time, rounds)) = found {
            best = Some((time, table, rounds));
        }
    }
    let (_, table, rounds) = best.expect("at least one table");
    (table, rounds)
}

/// Most pieces on links that the recurrence goes through.
const MOST_HOPS: usize = 1 << 20;

/// Numbers of rounds worth a look: few, then whole packets.
fn rounds(request: &Request, trees: usize, given: Option<Bytes>) -> Vec<u64> {
    let most = request.bytes.div_ceil(trees as u64);
    let of = |piece: Bytes| most.div_ceil(piece.clamp(4, most.max(4)).next_multiple_of(4)).max(1);
    if let Some(piece) = given {
        return vec![of(piece)];
    }
    let format = &request.system.packet;
    let smallest = if format.fixed_size { format.payload_bytes } else { format.flit_bytes };
    let steps = (0..32).flat_map(|exponent| [2u64 << exponent, 3 << exponent]);
    let packets = [1, 2].into_iter().chain(steps.clone()).map(|half| of(format.payload_bytes.saturating_mul(half) / 2));
    let mut rounds: Vec<u64> = [1].into_iter().chain(steps.take(12)).chain(packets).collect();
    rounds.retain(|&rounds| rounds == 1 || rounds <= of(smallest));
    rounds.sort_unstable();
    rounds.dedup();
    rounds
}

/// The way of a piece over a link.
struct Hop {
    step: u32,
    tree: u32,
    op: Op,
    from: u32,
    to: u32,
    link: u32,
}

/// What a piece costs.
struct Costs {
    /// Picoseconds on every link, and until the next link may have it.
    links: Vec<(u128, u128)>,
    /// Picoseconds to add it.
    adding: u128,
}

/// Times of a table by recurrence: a link sends its pieces in the order of their slots, each when it has
/// arrived and has been added.
struct Model<'a> {
    request: &'a Request<'a>,
    table: &'a Table,
    /// By slot, modulo the period.
    hops: Vec<Vec<Hop>>,
    last: u32,
    /// Flit times of the pieces of a round on the busiest link.
    busiest: u128,
    /// How often a round is held up by the way from one link to the next; in every slot where that would take
    /// too long to find.
    held_up: Option<u128>,
}

impl<'a> Model<'a> {
    fn new(request: &'a Request, table: &'a Table) -> Self {
        let mut hops: Vec<Vec<Hop>> = (0..table.period).map(|_| Vec::new()).collect();
        let mut busy = vec![0u128; request.fabric.links.len()];
        for (tree, (shape, steps)) in (0..).zip(table.trees.iter().zip(&table.steps)) {
            for (rank, parent) in (0..).zip(&shape.parents) {
                let Some(Parent { rank: parent, up, down }) = *parent else { continue };
                let (reduce, copy) = steps[rank as usize];
                let mut add = |step: u32, op, from, to, link| {
                    hops[(step % table.period) as usize].push(Hop { step, tree, op, from, to, link });
                    busy[link as usize] += u128::from(request.system.flit_time(request.fabric.link(link)));
                };
                add(reduce, Op::Reduce, rank, parent, up);
                add(copy, Op::Copy, parent, rank, down);
            }
        }
        let busiest = busy.into_iter().max().unwrap_or(0);
        let mut model = Model { request, table, hops, last: table.last(), busiest, held_up: None };
        let pieces = table.trees.len() * request.fabric.ranks() * 2;
        if (model.last / table.period + 2) as usize * pieces <= MOST_HOPS {
            model.held_up = Some(model.hold_ups());
        }
        model
    }

    /// Rounds that fill the pipeline, and `more`.
    fn first_rounds(&self, more: u32) -> u32 {
        let pieces = self.table.trees.len() * self.request.fabric.ranks() * 2;
        (self.last / self.table.period + more).min((MOST_HOPS / pieces) as u32).max(self.last / self.table.period + 2)
    }

    /// In the long run links wait for pieces on their way from other links, as often in a round as the
    /// worst cycle of links says: found with ways of half a slot.
    fn hold_ups(&self) -> u128 {
        let Request { fabric, system, .. } = self.request;
        let times = || fabric.links.iter().map(|link| u128::from(system.flit_time(link)));
        let way = times().min().unwrap_or(0);
        let costs = Costs { links: times().map(|time| (2 * time, way)).collect(), adding: 0 };
        // The last rounds, with none behind them, are through sooner.
        let mut ends = self.ends(self.first_rounds(self.last / self.table.period + 24), &costs);
        ends.truncate(ends.len() - (self.last / self.table.period) as usize);
        let (last, few) = (ends.len() - 1, (ends.len() / 2).min(8));
        let each = (ends[last] - ends[last - few]) / few as u128;
        each.saturating_sub(2 * self.busiest).div_ceil(way.max(1))
    }

    /// Picoseconds the busiest link needs for so many rounds.
    fn least(&self, rounds: u64) -> u128 {
        let packets = self.request.system.packets(self.piece(rounds));
        u128::from(rounds) * u128::from(packets.count) * u128::from(packets.flits) * self.busiest
    }

    /// Picoseconds of so many rounds. O(pieces of the first rounds).
    fn time(&self, rounds: u64) -> u128 {
        let costs = self.costs(rounds);
        let way = costs.links.iter().map(|(_, way)| way + costs.adding).max().unwrap_or(0);
        let Some(held_up) = self.held_up else {
            let busy = costs.links.iter().map(|(busy, _)| busy).min().unwrap_or(&0);
            let width = self.table.widths.iter().min().unwrap_or(&1);
            let slots = u128::from(rounds - 1) * u128::from(self.table.period) + u128::from(self.last);
            return slots * (busy + way) / u128::from(*width);
        };
        // Between unlike links a wait may come back only after some rounds.
        let shortest = costs.links.iter().map(|(_, way)| way + costs.adding).min().unwrap_or(0);
        let (more, latest) = if shortest == way { (12, 1) } else { (96, 64) };
        let first = u64::from(self.first_rounds(more)).min(rounds);
        let ends = self.ends(first as u32, &costs);
        let last = ends[ends.len() - 1];
        if first == rounds {
            return last;
        }
        let each = self.least(rounds) / u128::from(rounds) + if shortest == way { held_up * way } else { 0 };
        let latest = latest.min(ends.len() - 1);
        last + u128::from(rounds - first) * each.max((last - ends[ends.len() - 1 - latest]) / latest as u128)
    }

    fn piece(&self, rounds: u64) -> Bytes {
        piece_bytes(self.request.bytes, self.table.trees.len(), rounds)
    }

    /// Of a piece, where there are so many rounds.
    fn costs(&self, rounds: u64) -> Costs {
        let Request { fabric, system, .. } = self.request;
        let piece = self.piece(rounds);
        let packets = system.packets(piece);
        let flits = u128::from(packets.count) * u128::from(packets.flits);
        let way = |link| u128::from(system.latency_of(link)) + u128::from(system.hand_off_ps);
        let links = fabric.links.iter().map(|link| (flits * u128::from(system.flit_time(link)), way(link)));
        Costs { links: links.collect(), adding: system.reduce_time(piece).into() }
    }

    /// When each of the first `rounds` ends.
    fn ends(&self, rounds: u32, costs: &Costs) -> Vec<u128> {
        let (ranks, trees) = (self.request.fabric.ranks(), self.table.trees.len());
        let period = self.table.period;
        let mut ready = vec![0u128; ranks * trees * rounds as usize];
        let (mut free, mut adder) = (vec![0u128; costs.links.len()], vec![0u128; ranks]);
        let mut ends = vec![0u128; rounds as usize];
        for slot in 0..self.last + rounds * period {
            for hop in &self.hops[(slot % period) as usize] {
                let round = slot.wrapping_sub(hop.step) / period;
                if slot < hop.step || round >= rounds {
                    continue;
                }
                let lane = (round as usize * trees + hop.tree as usize) * ranks;
                let (busy, way) = costs.links[hop.link as usize];
                let free = &mut free[hop.link as usize];
                *free = (*free).max(ready[lane + hop.from as usize]) + busy;
                let mut arrives = *free + way;
                if hop.op == Op::Reduce {
                    arrives = arrives.max(adder[hop.to as usize]) + costs.adding;
                    adder[hop.to as usize] = arrives;
                }
                let ready = &mut ready[lane + hop.to as usize];
                *ready = (*ready).max(arrives);
                ends[round as usize] = ends[round as usize].max(arrives);
            }
        }
        for round in 1..ends.len() {
            ends[round] = ends[round].max(ends[round - 1]);
        }
        ends
    }
}
