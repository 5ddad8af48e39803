//! Collectives engines (ACE, ISCA 2021, section IV) message by message: chunks are read from memory once, live in SRAM
//! while a state machine drives them, and are written back once.
//!
//! Every rank takes units (`units.rs`) in the order of their slots, and one when it is the next at all ranks that take
//! part and all have room for it; so none waits for a rank that waits for another, and units that share no rank do not
//! wait for each other. A message goes when its unit has a state machine on every rank.

use super::aside::AsideFor;
use super::{Carrier, Endpoints, RankEvent};
use crate::ace::engine::{EngineRoom, RankEngine};
use crate::clock::Ticks;
use crate::footprint::{Footprint, footprints};
use crate::plan::RunPlan;
use crate::units::Units;
use antiphon_base::error::Result;
use antiphon_model::schedule::TransferId;
use antiphon_model::system::Endpoint;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;

/// What an engine knows of a family.
#[derive(Default)]
struct DrivenFamily {
    parts: Vec<Footprint>,
    /// Messages of one unit.
    messages: u64,
    /// By units that are under way: messages not yet applied.
    under_way: BTreeMap<u64, u64>,
    /// Units from here on have no state machine yet.
    active: u64,
}

impl DrivenFamily {
    fn ranks(&self) -> impl Iterator<Item = u32> {
        self.parts.iter().map(|part| part.rank)
    }
}

/// A unit: the rank of its flight, phase, slot, family and chunk. The lowest goes first.
type UnitTurn = (u64, u32, u64, u32, u64);

/// Units that wait, at every rank of theirs: one goes when it is the first at all of them and all have room.
struct UnitLines(Vec<BinaryHeap<Reverse<UnitTurn>>>);

impl UnitLines {
    fn push(&mut self, unit: UnitTurn, parts: &[Footprint]) {
        parts.iter().for_each(|part| self.0[part.rank as usize].push(Reverse(unit)));
    }

    /// Takes out a unit that goes, of those that are first at some ranks. What keeps a unit is kept in mind.
    fn next(
        &mut self,
        ranks: &mut Vec<u32>,
        families: &[DrivenFamily],
        has_room: impl Fn(&Footprint) -> bool,
    ) -> Option<UnitTurn> {
        let mut stays = None;
        while let Some(&rank) = ranks.last() {
            let first = self.0[rank as usize].peek().map(|&Reverse(unit)| unit).filter(|&unit| stays != Some(unit));
            let Some(unit) = first else {
                ranks.pop();
                continue;
            };
            let parts = &families[unit.3 as usize].parts;
            let is_first = |part: &Footprint| self.0[part.rank as usize].peek() == Some(&Reverse(unit));
            if parts.iter().all(|part| has_room(part) && is_first(part)) {
                for part in parts {
                    self.0[part.rank as usize].pop();
                }
                ranks.extend(parts.iter().map(|part| part.rank));
                return Some(unit);
            }
            stays = Some(unit);
        }
        None
    }
}

/// See the module.
pub struct UnitEngines {
    families: Vec<DrivenFamily>,
    /// By rank.
    engines: Vec<RankEngine>,
    /// Units not yet read, the next of every family that may go; and those that have been read.
    pending: UnitLines,
    loaded: UnitLines,
}

impl UnitEngines {
    /// Idle engines, if the ranks of a plan have them. O(lanes in messages).
    ///
    /// # Errors
    /// As [`RankEngine::new`].
    pub fn new(plan: &RunPlan) -> Result<Option<UnitEngines>> {
        let (Endpoint::Ace(ace), Some(units)) = (plan.system.endpoint, &plan.units) else { return Ok(None) };
        let families = footprints(plan, units).into_iter();
        let families = families.map(|of| DrivenFamily { parts: of.parts, messages: of.messages, ..Default::default() });
        let families: Vec<DrivenFamily> = families.collect();
        let engine = RankEngine::new(&ace, families.iter().flat_map(|of| &of.parts))?;
        let lines = || UnitLines(vec![BinaryHeap::new(); plan.participants()]);
        let engines = vec![engine; plan.participants()];
        Ok(Some(UnitEngines { families, engines, pending: lines(), loaded: lines() }))
    }
}

impl UnitEngines {
    /// By rank.
    pub fn engines(&self) -> &[RankEngine] {
        &self.engines
    }

    /// Notes at some ranks, and those of some families, whether units wait for a room.
    fn note_waits(&mut self, room: EngineRoom, ranks: &[u32], families: impl Iterator<Item = u32>, now: Ticks) {
        let UnitEngines { families: all, engines, pending, loaded } = self;
        let lines = match room {
            EngineRoom::Sram => pending,
            EngineRoom::Machines => loaded,
        };
        let moved = families.flat_map(|family| all[family as usize].ranks());
        for rank in ranks.iter().copied().chain(moved) {
            engines[rank as usize].set_waits(room, !lines.0[rank as usize].is_empty(), now);
        }
    }
}

/// The place of a unit of a flight with a rank.
fn turn(units: &Units, family: u32, chunk: u64, rank: u64) -> UnitTurn {
    let of = &units.families[family as usize];
    (rank, of.phase, u64::from(of.slot) + chunk * of.stride, family, chunk)
}

impl Endpoints<'_> {
    /// Phases of a flight have begun: their units are to be read.
    pub fn admit_phases(&mut self, flight: u32, phases: Range<u32>, now: Ticks) {
        let (Some(all), Some(units)) = (&mut self.engines, &self.plan.units) else { return };
        let (rank, mut ranks) = (self.ranking.of(flight), vec![]);
        for (number, family) in (0..).zip(&units.families) {
            if family.flight == flight && phases.contains(&family.phase) {
                let of = &all.families[number as usize];
                all.pending.push(turn(units, number, 0, rank), &of.parts);
                ranks.extend(of.ranks());
            }
        }
        self.admit(ranks, now);
    }

    /// Reads units as long as there is room for them: something has changed at some ranks.
    fn admit(&mut self, mut ranks: Vec<u32>, now: Ticks) {
        let (plan, Some(all), Some(units)) = (self.plan, &mut self.engines, &self.plan.units) else { return };
        let changed = ranks.clone();
        let UnitEngines { families, engines, pending, .. } = &mut *all;
        let mut loads = vec![];
        while let Some((rank, .., family, chunk)) =
            pending.next(&mut ranks, families, |part| engines[part.rank as usize].has_room(part))
        {
            let parts = &families[family as usize].parts;
            let load = |part: &Footprint| engines[part.rank as usize].load(part, plan.clock, now);
            let ready = parts.iter().map(load).fold(now, Ticks::max);
            if chunk + 1 < units.families[family as usize].chunks {
                pending.push(turn(units, family, chunk + 1, rank), parts);
            }
            loads.push((ready, family, chunk));
        }
        all.note_waits(EngineRoom::Sram, &changed, loads.iter().map(|(_, family, _)| *family), now);
        for (at, family, chunk) in loads {
            self.push(at, RankEvent::Loaded { family, chunk });
        }
    }

    /// A unit is in the SRAM of its ranks: it goes when they have a state machine for it.
    pub fn loaded(&mut self, family: u32, chunk: u64, now: Ticks, carrier: &mut impl Carrier) {
        let (Some(all), Some(units)) = (&mut self.engines, &self.plan.units) else { return };
        let rank = self.ranking.of(units.families[family as usize].flight);
        all.loaded.push(turn(units, family, chunk, rank), &all.families[family as usize].parts);
        self.activate(family, now, carrier);
    }

    /// Gives state machines to units that have been read, and lets their messages go: something has changed at the ranks of
    /// a family.
    fn activate(&mut self, family: u32, now: Ticks, carrier: &mut impl Carrier) {
        let Some(all) = &mut self.engines else { return };
        let UnitEngines { families, engines, loaded, .. } = &mut *all;
        let mut going = vec![];
        let mut ranks: Vec<u32> = families[family as usize].ranks().collect();
        let changed = ranks.clone();
        while let Some((.., family, chunk)) =
            loaded.next(&mut ranks, families, |part| engines[part.rank as usize].has_machine())
        {
            let of = &mut families[family as usize];
            of.parts.iter().for_each(|part| engines[part.rank as usize].drive(now));
            of.under_way.insert(chunk, of.messages);
            of.active = of.active.max(chunk + 1);
            going.push((family, chunk));
        }
        all.note_waits(EngineRoom::Machines, &changed, going.iter().map(|(family, _)| *family), now);
        let back = |(family, chunk)| self.come_back(AsideFor::Machine, family, chunk);
        let mut queues: Vec<u32> = going.into_iter().flat_map(back).collect();
        queues.sort_unstable();
        queues.dedup();
        queues.into_iter().for_each(|queue| self.advance(queue, now, carrier));
    }

    /// Whether the next message of a transfer may go; if not, it waits aside.
    pub fn has_machine(&mut self, id: TransferId) -> bool {
        let (Some(all), Some(units)) = (&self.engines, &self.plan.units) else { return true };
        let family = &all.families[units.family_of[id as usize] as usize];
        self.transfers[id as usize].started < family.active || !self.step_aside(AsideFor::Machine, id)
    }

    /// A message was applied: its unit is written back when it was the last.
    pub fn drive(&mut self, id: TransferId, chunk: u64, now: Ticks, carrier: &mut impl Carrier) {
        let (plan, Some(all), Some(units)) = (self.plan, &mut self.engines, &self.plan.units) else { return };
        let family = units.family_of[id as usize];
        let of = &mut all.families[family as usize];
        let Some(left) = of.under_way.get_mut(&chunk) else { return };
        *left -= 1;
        if *left > 0 {
            return;
        }
        of.under_way.remove(&chunk);
        let mut last = now;
        for part in &of.parts {
            if let Some(written) = all.engines[part.rank as usize].store(part, plan.clock, now) {
                last = last.max(written);
                self.deliveries.written(part.rank, written);
            }
        }
        self.flights[units.families[family as usize].flight as usize].left += 1;
        self.push(last, RankEvent::Written { family });
        self.activate(family, now, carrier);
    }

    /// A unit was written back: others have its room.
    pub fn written(&mut self, family: u32, now: Ticks) {
        let (Some(all), Some(units)) = (&mut self.engines, &self.plan.units) else { return };
        let of = &all.families[family as usize];
        of.parts.iter().for_each(|part| all.engines[part.rank as usize].leave(part, now));
        let ranks = of.ranks().collect();
        let flight = units.families[family as usize].flight;
        let left = &mut self.flights[flight as usize].left;
        *left -= 1;
        if *left == 0 {
            self.finished(flight, now);
        }
        self.admit(ranks, now);
    }
}
