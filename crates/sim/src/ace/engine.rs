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
    /// When TX DMA is free, and RX DMA.
    read_free: Ticks,
    write_free: Ticks,
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
        Ok(RankEngine { load: loading(ace), store: storing(ace), packet, sram, fsms, read_free: 0, write_free: 0 })
    }

    /// Whether its SRAM has room for a unit.
    pub fn has_room(&self, part: &Footprint) -> bool {
        self.sram >= part.sram
    }

    /// Whether it has a state machine.
    pub fn has_machine(&self) -> bool {
        self.fsms > 0
    }

    /// A unit takes its room, and is read after those before; returns when its first message can go. Of what follows the
    /// read only a packet counts on the bus: the rest crosses it while the unit is sent.
    pub fn load(&mut self, part: &Footprint, clock: Clock, now: Ticks) -> Ticks {
        self.sram -= part.sram;
        let [read, bus] = &self.load;
        self.read_free = now.max(self.read_free) + clock.ticks(read.time_for(part.read));
        let bus = if part.read > 0 { clock.ticks(bus.time_for(part.read.min(self.packet))) } else { 0 };
        self.read_free + bus
    }

    /// A unit takes a state machine, with which it is until its last message was applied.
    pub fn drive(&mut self) {
        self.fsms -= 1;
    }

    /// A unit is done: its machine is free, and what it leaves is written back after those before; returns until when, if
    /// anything is.
    pub fn store(&mut self, part: &Footprint, clock: Clock, now: Ticks) -> Option<Ticks> {
        self.fsms += 1;
        if part.write == 0 {
            return None;
        }
        self.write_free = now.max(self.write_free) + clock.ticks(self.store.time_for(part.write));
        Some(self.write_free)
    }

    /// A unit was written back at all its ranks: its room is free.
    pub fn leave(&mut self, part: &Footprint) {
        self.sram += part.sram;
    }
}
