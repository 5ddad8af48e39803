//! Collectives engines (ACE, ISCA 2021, section IV): chunks are read from memory once, live in SRAM while a state machine
//! drives them, and are written back once.
//!
//! Every rank takes units (`simulate/units.rs`) in the order of their slots, and one when it is the next at all ranks that
//! take part and all have room for it; so none waits for a rank that waits for another, and units that share no rank do not
//! wait for each other. A message goes when its unit has a state machine on every rank.

use super::{Carrier, Endpoints, Event};
use crate::clock::Ticks;
use crate::footprint::{Footprint, footprints};
use crate::plan::Plan;
use crate::units::Units;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Bytes, format_bytes};
use antiphon_model::schedule::TransferId;
use antiphon_model::system::{AceEndpoint, Endpoint, FsmSplit, SramSplit};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;

/// What an engine knows of a family.
#[derive(Default)]
struct Driven {
    parts: Vec<Footprint>,
    /// Messages of one unit.
    messages: u64,
    /// By units that are under way: messages not yet applied.
    under_way: BTreeMap<u64, u64>,
    /// Units from here on have no state machine yet.
    active: u64,
    /// Messages that wait for it: chunk and transfer.
    parked: Vec<(u64, TransferId)>,
}

/// A unit: the rank of its flight, phase, slot, family and chunk. The lowest goes first.
type Unit = (u64, u32, u64, u32, u64);

/// Units that wait, at every rank of theirs: one goes when it is the first at all of them and all have room.
struct Lines(Vec<BinaryHeap<Reverse<Unit>>>);

impl Lines {
    fn push(&mut self, unit: Unit, parts: &[Footprint]) {
        parts.iter().for_each(|part| self.0[part.rank as usize].push(Reverse(unit)));
    }

    /// Takes out a unit that goes, of those that are first at some ranks. What keeps a unit is kept in mind.
    fn next(
        &mut self,
        ranks: &mut Vec<u32>,
        families: &[Driven],
        has_room: impl Fn(&Footprint) -> bool,
    ) -> Option<Unit> {
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
pub struct Engines {
    ace: AceEndpoint,
    families: Vec<Driven>,
    /// Free SRAM and state machines of every rank, and when its DMAs are free.
    sram: Vec<Bytes>,
    fsms: Vec<u32>,
    read_free: Vec<Ticks>,
    write_free: Vec<Ticks>,
    /// Units not yet read, the next of every family that may go; and those that have been read.
    pending: Lines,
    loaded: Lines,
}

impl Engines {
    /// Idle engines, if the ranks of a plan have them. O(lanes in messages).
    ///
    /// # Errors
    /// [`Code::BadSpec`] if they are to be divided; [`Code::BadSize`] if a unit does not fit in the SRAM.
    pub fn new(plan: &Plan) -> Result<Option<Engines>> {
        let (Endpoint::Ace(ace), Some(units)) = (plan.system.endpoint, &plan.units) else { return Ok(None) };
        let divided = [
            (ace.fsm_split != FsmSplit::default()).then_some("fsm_split"),
            (ace.sram_split != SramSplit::default()).then_some("sram_split"),
        ];
        if let Some(option) = divided.into_iter().flatten().next() {
            let what = format!("{option} divides an engine on rails only, stage by stage; leave it out here");
            return Err(Error::new(Code::BadSpec, what).at("endpoint ace"));
        }
        let families = footprints(plan, units).into_iter().map(|of| Driven {
            parts: of.parts,
            messages: of.messages,
            ..Driven::default()
        });
        let families: Vec<Driven> = families.collect();
        for family in &families {
            if let Some(part) = family.parts.iter().find(|part| part.sram > ace.sram) {
                let what = format!(
                    "{} of rank {} are one chunk, and its SRAM has {}; give the algorithm smaller chunks (its option chunk \
                     or chunks), or a larger sram",
                    format_bytes(part.sram),
                    part.rank,
                    format_bytes(ace.sram)
                );
                return Err(Error::new(Code::BadSize, what).at("endpoint ace"));
            }
        }
        let ranks = plan.fabric.ranks();
        Ok(Some(Engines {
            ace,
            families,
            sram: vec![ace.sram; ranks],
            fsms: vec![ace.fsms; ranks],
            read_free: vec![0; ranks],
            write_free: vec![0; ranks],
            pending: Lines(vec![BinaryHeap::new(); ranks]),
            loaded: Lines(vec![BinaryHeap::new(); ranks]),
        }))
    }
}

fn ranks_of(family: &Driven) -> Vec<u32> {
    family.parts.iter().map(|part| part.rank).collect()
}

/// The place of a unit of a flight with a rank.
fn unit(units: &Units, family: u32, chunk: u64, rank: u64) -> Unit {
    let of = &units.families[family as usize];
    (rank, of.phase, u64::from(of.slot) + chunk * of.stride, family, chunk)
}

impl Endpoints<'_> {
    /// Phases of a flight have begun: their units are to be read.
    pub fn admit_phases(&mut self, flight: u32, phases: Range<u32>, now: Ticks) {
        let (Some(engines), Some(units)) = (&mut self.engines, &self.plan.units) else { return };
        let (rank, mut ranks) = (self.ranking.of(flight), vec![]);
        for (number, family) in (0..).zip(&units.families) {
            if family.flight == flight && phases.contains(&family.phase) {
                let parts = &engines.families[number as usize].parts;
                engines.pending.push(unit(units, number, 0, rank), parts);
                ranks.extend(parts.iter().map(|part| part.rank));
            }
        }
        self.admit(ranks, now);
    }

    /// Reads units as long as there is room for them: something has changed at some ranks.
    fn admit(&mut self, mut ranks: Vec<u32>, now: Ticks) {
        let (plan, Some(engines), Some(units)) = (self.plan, &mut self.engines, &self.plan.units) else { return };
        let Engines { ace, families, sram, read_free, pending, .. } = engines;
        let mut loads = vec![];
        while let Some((rank, .., family, chunk)) =
            pending.next(&mut ranks, families, |part| sram[part.rank as usize] >= part.sram)
        {
            let (of, mut ready) = (&families[family as usize], now);
            for part in &of.parts {
                sram[part.rank as usize] -= part.sram;
                let free = &mut read_free[part.rank as usize];
                *free = now.max(*free) + plan.clock.ticks(ace.memory_rate.time_for(part.read));
                let bus = plan.clock.ticks(ace.bus_rate.time_for(part.read.min(ace.packet)));
                ready = ready.max(*free + if part.read > 0 { bus } else { 0 });
            }
            if chunk + 1 < units.families[family as usize].chunks {
                pending.push(unit(units, family, chunk + 1, rank), &of.parts);
            }
            loads.push((ready, family, chunk));
        }
        for (at, family, chunk) in loads {
            self.push(at, Event::Loaded { family, chunk });
        }
    }

    /// A unit is in the SRAM of its ranks: it goes when they have a state machine for it.
    pub fn loaded(&mut self, family: u32, chunk: u64, now: Ticks, carrier: &mut impl Carrier) {
        let (Some(engines), Some(units)) = (&mut self.engines, &self.plan.units) else { return };
        let rank = self.ranking.of(units.families[family as usize].flight);
        engines.loaded.push(unit(units, family, chunk, rank), &engines.families[family as usize].parts);
        self.activate(family, now, carrier);
    }

    /// Gives state machines to units that have been read, and lets their messages go: something has changed at the ranks of
    /// a family.
    fn activate(&mut self, family: u32, now: Ticks, carrier: &mut impl Carrier) {
        let Some(Engines { families, fsms, loaded, .. }) = &mut self.engines else { return };
        let mut going: Vec<TransferId> = vec![];
        let mut ranks = ranks_of(&families[family as usize]);
        while let Some((.., family, chunk)) = loaded.next(&mut ranks, families, |part| fsms[part.rank as usize] > 0) {
            let of = &mut families[family as usize];
            of.parts.iter().for_each(|part| fsms[part.rank as usize] -= 1);
            of.under_way.insert(chunk, of.messages);
            of.active = of.active.max(chunk + 1);
            of.parked.retain(|&(parked, id)| {
                if parked < of.active {
                    going.push(id);
                }
                parked >= of.active
            });
        }
        let mut queues: Vec<u32> = vec![];
        for id in going {
            let queue = self.transfers[id as usize].queue;
            self.queues[queue as usize].turns.unpark(id, self.plan, self.transfers[id as usize].started);
            queues.push(queue);
        }
        queues.sort_unstable();
        queues.dedup();
        queues.into_iter().for_each(|queue| self.advance(queue, now, carrier));
    }

    /// Whether the next message of a transfer may go; if not, it will be put back in its queue.
    pub fn has_machine(&mut self, id: TransferId) -> bool {
        let (Some(engines), Some(units)) = (&mut self.engines, &self.plan.units) else { return true };
        let chunk = self.transfers[id as usize].started;
        let family = &mut engines.families[units.family_of[id as usize] as usize];
        if chunk < family.active {
            return true;
        }
        family.parked.push((chunk, id));
        false
    }

    /// A message was applied: its unit is written back when it was the last.
    pub fn drive(&mut self, id: TransferId, chunk: u64, now: Ticks, carrier: &mut impl Carrier) {
        let (plan, Some(engines), Some(units)) = (self.plan, &mut self.engines, &self.plan.units) else { return };
        let family = units.family_of[id as usize];
        let of = &mut engines.families[family as usize];
        let Some(left) = of.under_way.get_mut(&chunk) else { return };
        *left -= 1;
        if *left > 0 {
            return;
        }
        of.under_way.remove(&chunk);
        let flight = units.families[family as usize].flight;
        let mut last = now;
        for part in &of.parts {
            engines.fsms[part.rank as usize] += 1;
            if part.write > 0 {
                let free = &mut engines.write_free[part.rank as usize];
                *free = now.max(*free) + plan.clock.ticks(engines.ace.memory_rate.time_for(part.write));
                last = last.max(*free);
                self.deliveries.written(part.rank, *free);
            }
        }
        self.flights[flight as usize].left += 1;
        self.push(last, Event::Written { family });
        self.activate(family, now, carrier);
    }

    /// A unit was written back: others have its room.
    pub fn written(&mut self, family: u32, now: Ticks) {
        let (Some(engines), Some(units)) = (&mut self.engines, &self.plan.units) else { return };
        for part in &engines.families[family as usize].parts {
            engines.sram[part.rank as usize] += part.sram;
        }
        let ranks = ranks_of(&engines.families[family as usize]);
        let flight = units.families[family as usize].flight;
        let left = &mut self.flights[flight as usize].left;
        *left -= 1;
        if *left == 0 {
            self.finished(flight, now);
        }
        self.admit(ranks, now);
    }
}
