//! The engine of one rank, message by message: what is free of its SRAM and state machines, and when its DMAs are free.
//! Both are one pool there, since a schedule does not say what its phases are.

use super::partition::expect_undivided;
use super::work::{PartWork, loading, storing};
use crate::clock::{Clock, Ticks};
use crate::footprint::Footprint;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Bytes, format_bytes};
use antiphon_model::system::AceEndpoint;

/// See the module.
#[derive(Clone)]
pub struct RankEngine {
    load: [PartWork; 2],
    store: PartWork,
    packet: Bytes,
    sram: Bytes,
    fsms: u32,
    /// When TX DMA is free, the bus, and RX DMA.
    read_free: Ticks,
    bus_free: Ticks,
    write_free: Ticks,
    /// How much SRAM and how many state machines there are.
    all: [u64; 2],
    uses: EngineUse,
}

/// Of an engine's SRAM and state machines, in this order: which units wait for.
#[derive(Clone, Copy)]
pub enum EngineRoom {
    /// SRAM.
    Sram,
    /// State machines.
    Machines,
}

/// What an engine did until a moment; pairs are of its SRAM and its state machines.
#[derive(Clone, Default)]
pub struct EngineUse {
    at: Ticks,
    waits: [bool; 2],
    /// Time in which TX DMA, bus and RX DMA worked.
    pub served: [Ticks; 3],
    /// Parts in use, over time.
    pub held: [u128; 2],
    /// Time in which units waited.
    pub stalled: [Ticks; 2],
    /// Time in which units waited, and nothing that comes after was why.
    pub limits: [Ticks; 2],
}

impl RankEngine {
    /// An idle engine for units of which some rank has such parts.
    ///
    /// # Errors
    /// [`Code::BadSpec`] if it is to be divided; [`Code::BadSize`] if a unit does not fit in its SRAM.
    pub fn new<'a>(ace: &AceEndpoint, mut parts: impl Iterator<Item = &'a Footprint>) -> Result<RankEngine> {
        expect_undivided(ace)?;
        if let Some(part) = parts.find(|part| part.sram > ace.sram) {
            let what = format!(
                "{} of rank {} are one chunk, and its SRAM has {}; give the algorithm smaller chunks (its option chunk or \
                 chunks), or a larger sram",
                format_bytes(part.sram),
                part.rank,
                format_bytes(ace.sram)
            );
            return Err(Error::new(Code::BadSize, what).at("endpoint ace"));
        }
        let AceEndpoint { packet, sram, fsms, .. } = *ace;
        let (load, store, uses) = (loading(ace), storing(ace), EngineUse::default());
        let all = [sram, fsms.into()];
        Ok(RankEngine { load, store, packet, sram, fsms, read_free: 0, bus_free: 0, write_free: 0, all, uses })
    }

    /// Whether its SRAM has room for a unit.
    pub fn has_room(&self, part: &Footprint) -> bool {
        self.sram >= part.sram
    }

    /// Whether it has a state machine.
    pub fn has_machine(&self) -> bool {
        self.fsms > 0
    }

    /// What it did until the end of a run; shares in use are of this.
    pub fn used(&self) -> (&EngineUse, [u64; 2]) {
        (&self.uses, self.all)
    }

    /// Accounts for the time until `now`.
    fn advance(&mut self, now: Ticks) {
        let free = [self.sram, self.fsms.into()];
        let [read, bus] = &self.load;
        let slower_bus = if bus.rate < read.rate { self.bus_free } else { 0 };
        let busy_until = self.read_free.max(self.write_free).max(slower_bus);
        let uses = &mut self.uses;
        let passed = now - uses.at;
        for (room, free) in free.into_iter().enumerate() {
            uses.held[room] += u128::from(self.all[room] - free) * u128::from(passed);
            uses.stalled[room] += if uses.waits[room] { passed } else { 0 };
        }
        match uses.waits {
            [_, true] => uses.limits[1] += passed,
            // SRAM is full while DMAs or a slower bus work, too.
            [true, false] => uses.limits[0] += now - busy_until.clamp(uses.at, now),
            [false, false] => {}
        }
        uses.at = now;
    }

    /// Units wait from now on, or do not.
    pub fn set_waits(&mut self, room: EngineRoom, waits: bool, now: Ticks) {
        self.advance(now);
        self.uses.waits[room as usize] = waits;
    }

    /// A unit takes its room, and is read after those before; returns when its first message can go. The bus is a packet
    /// behind the read, or as much as it is slower.
    pub fn load(&mut self, part: &Footprint, clock: Clock, now: Ticks) -> Ticks {
        self.advance(now);
        self.sram -= part.sram;
        let [read, bus] = self.load.map(|work| move |bytes| clock.ticks(work.time_for(bytes)));
        let start = now.max(self.read_free);
        self.read_free = start + read(part.read);
        self.uses.served[0] += read(part.read);
        self.uses.served[1] += bus(part.read);
        if part.read == 0 {
            return self.read_free;
        }
        let packet = part.read.min(self.packet);
        let last = self.bus_free.max(start + read(packet)) + bus(part.read);
        self.bus_free = last.max(self.read_free + bus(packet));
        self.bus_free
    }

    /// A unit takes a state machine, with which it is until its last message was applied.
    pub fn drive(&mut self, now: Ticks) {
        self.advance(now);
        self.fsms -= 1;
    }

    /// A unit is done: its machine is free, and what it leaves is written back after those before; returns until when, if
    /// anything is.
    pub fn store(&mut self, part: &Footprint, clock: Clock, now: Ticks) -> Option<Ticks> {
        self.advance(now);
        self.fsms += 1;
        if part.write == 0 {
            return None;
        }
        let time = clock.ticks(self.store.time_for(part.write));
        self.uses.served[2] += time;
        self.write_free = now.max(self.write_free) + time;
        Some(self.write_free)
    }

    /// A unit was written back at all its ranks: its room is free.
    pub fn leave(&mut self, part: &Footprint, now: Ticks) {
        self.advance(now);
        self.sram += part.sram;
    }
}
